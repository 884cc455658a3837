//! A server of one thread, to be watched or learned from.
//!
//! It stands by itself, beside the servers of `bench` and `testkit`, because `xtask` builds those
//! and so depends on `cpu` only (`tidy/arrows.rs`).

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};

use crate::shell::{find_program, run as run_command};

/// A server.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// HAProxy, one thread
    Haproxy,
    /// nginx, one process
    Nginx,
}

/// A certificate's key.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Key {
    /// ECDSA on P-256
    EcdsaP256,
    /// RSA with 2048 bits
    #[value(name = "rsa-2048")]
    Rsa2048,
}

impl Program {
    /// All that are known.
    pub const ALL: [Self; 2] = [Program::Haproxy, Program::Nginx];

    /// Where it is, if it is installed.
    pub fn path(self) -> Option<PathBuf> {
        find_program(self.name())
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Program::Haproxy => "haproxy",
            Program::Nginx => "nginx",
        }
    }
}

/// What a server is to do.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The server.
    pub program: Program,
    /// Its certificate's key.
    pub key: Key,
    /// Its key-exchange groups, as OpenSSL lists them.
    pub groups: &'a str,
}

/// A running server, ended when it is dropped.
pub struct Server {
    process: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// Connections that it takes at a time.
const CONNECTIONS_MAX: usize = 1000;

impl Server {
    /// Starts a server, its program and arguments behind those of `command`, and waits until it
    /// listens.
    pub fn start(settings: Settings<'_>, directory: &Path, mut command: Command) -> Result<Self> {
        make_identity(settings.key, directory)?;
        // Free again at once, and hardly taken by anybody else so soon.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let text = configuration(settings, address, directory);
        let file = directory.join("server.conf");
        fs::write(&file, text)?;
        let name = settings.program.name();
        command.arg(settings.program.path().with_context(|| format!("{name} is not installed"))?);
        match settings.program {
            Program::Haproxy => command.args(["-db", "-f"]),
            Program::Nginx => command.arg("-c"),
        };
        let log = directory.join("server.log");
        let output = fs::File::create(&log)?;
        let process = command
            .arg(file)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let mut server = Server { process, address, log };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        for _ in 0..400 {
            self.ensure_it_runs()?;
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server does not listen: {}", self.log())
    }

    fn ensure_it_runs(&mut self) -> Result<()> {
        let end = self.process.try_wait()?;
        ensure!(end.is_none(), "the server has ended: {}", self.log());
        Ok(())
    }

    /// Has it end by itself, and so run what it does at exit; fails if it has ended before.
    pub fn end(&mut self) -> Result<()> {
        self.ensure_it_runs()?;
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        for _ in 0..400 {
            if self.process.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server does not end: {}", self.log())
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The CPU time of its threads so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        let tasks = format!("/proc/{}/task", self.process());
        let mut sum = 0;
        for task in fs::read_dir(tasks).context("the server has ended")? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            let time = text.split(' ').next().unwrap_or_default();
            sum += time.parse::<u64>().context("a time in nanoseconds")?;
        }
        Ok(Duration::from_nanos(sum))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A key and a certificate for localhost, with that of the authority which has issued it. Where a
/// server has only its own, libssl builds a chain in each handshake.
fn make_identity(key: Key, directory: &Path) -> Result<()> {
    let path = |name: &str| directory.join(name);
    let request = |name: &str, key_file: &Path, certificate: &Path| {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-subj", &format!("/CN={name}")]);
        match key {
            Key::EcdsaP256 => openssl.args(["-newkey", "ec", "-pkeyopt", "group:P-256"]),
            Key::Rsa2048 => openssl.args(["-newkey", "rsa:2048"]),
        };
        openssl.arg("-keyout").arg(key_file).arg("-out").arg(certificate).stderr(Stdio::null());
        openssl
    };
    let (issuer_key, issuer) = (path("issuer-key.pem"), path("issuer.pem"));
    run_command(&mut request("issuer", &issuer_key, &issuer))?;
    let (key_file, certificate) = (path("key.pem"), path("certificate.pem"));
    let mut leaf = request("localhost", &key_file, &certificate);
    run_command(leaf.arg("-CA").arg(&issuer).arg("-CAkey").arg(&issuer_key))?;
    let bundle =
        [certificate, issuer, key_file].iter().map(fs::read).collect::<Result<Vec<_>, _>>();
    Ok(fs::write(path("bundle.pem"), bundle?.concat())?)
}

/// A configuration by which the server writes to `directory` only.
fn configuration(settings: Settings<'_>, address: SocketAddr, directory: &Path) -> String {
    let groups = settings.groups;
    let bundle = directory.join("bundle.pem");
    let (bundle, directory) = (bundle.display(), directory.display());
    match settings.program {
        Program::Haproxy => format!(
            "global
    nbthread 1
    maxconn {CONNECTIONS_MAX}
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tls
    bind {address} ssl crt \"{bundle}\" curves {groups} backlog 4000
    http-request return status 200
"
        ),
        Program::Nginx => format!(
            "daemon off;
master_process off;
pid \"{directory}/nginx.pid\";
error_log stderr warn;
events {{ worker_connections {CONNECTIONS_MAX}; }}
http {{
    access_log off;
    client_body_temp_path \"{directory}/body\";
    proxy_temp_path \"{directory}/proxy\";
    fastcgi_temp_path \"{directory}/fastcgi\";
    uwsgi_temp_path \"{directory}/uwsgi\";
    scgi_temp_path \"{directory}/scgi\";
    server {{
        listen {address} ssl backlog=4000;
        ssl_certificate \"{bundle}\";
        ssl_certificate_key \"{bundle}\";
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ecdh_curve {groups};
        location / {{ return 200; }}
    }}
}}
"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nginx gives the directories of its temporary files to the user of its workers, which those
    /// of a server that serves would lose.
    #[test]
    fn nginx_has_every_directory_of_its_own() {
        let directory = Path::new("/a directory");
        let settings = Settings { program: Program::Nginx, key: Key::Rsa2048, groups: "X25519" };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let text = configuration(settings, address, directory);
        for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            let line = format!("{name}_temp_path \"{}/", directory.display());
            assert!(text.contains(&line), "{line}: {text}");
        }
    }
}
