//! Stock memcached and redis: servers that begin a handshake in one thread and continue it in
//! another, or that look at connections in ways of their own.

use std::env;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;
use widelane_bench::server::process::Process;
use widelane_bench::server::{Identity, Key, SERVER_NAME};
use widelane_host::counters::Counts;
use widelane_host::programs;
use widelane_testkit::server::free_address;

use crate::misbehaving_clients;
use crate::server::widelane;

/// A kind of cache, with what it is asked and what it answers.
#[derive(Clone, Copy, Debug)]
pub enum Cache {
    /// memcached with four worker threads, to which a listener gives its connections.
    Memcached,
    /// redis with four threads that read and write.
    Redis,
}

/// A running cache under `widelane run`; dropping it ends it.
pub struct Running {
    cache: Cache,
    process: Process,
    address: SocketAddr,
    identity: Identity,
    directory: TempDir,
}

impl Cache {
    /// Starts an installed cache; none if it is not installed.
    ///
    /// # Errors
    ///
    /// If Widelane was not built, or the cache does not come up.
    pub fn start(self, key: Key) -> Result<Option<Running>> {
        let search = programs::search_path(env::var_os("PATH"));
        let Some(program) = programs::find(self.program(), &search) else { return Ok(None) };
        let directory = tempfile::tempdir()?;
        let identity = Identity::make(key, directory.path())?;
        let address = free_address();
        let counters = directory.path().join("counters");
        fs::create_dir(&counters)?;
        fs::set_permissions(&counters, Permissions::from_mode(0o1777))?;
        let mut command = Command::new(widelane()?);
        command.arg("run").arg("--counters-dir").arg(counters).arg("--").arg(program);
        command.args(self.options(address, &identity, directory.path()));
        let log = directory.path().join("output.log");
        let mut process = Process::start(command, &[], log).context("cannot start the cache")?;
        process
            .wait_until(PATIENCE, || TcpStream::connect(address).is_ok())
            .with_context(|| format!("{self:?}: {}", process.log()))?;
        Ok(Some(Running { cache: self, process, address, identity, directory }))
    }

    fn program(self) -> &'static str {
        match self {
            Cache::Memcached => "memcached",
            Cache::Redis => "redis-server",
        }
    }

    fn options(self, address: SocketAddr, identity: &Identity, directory: &Path) -> Vec<String> {
        let (chain, key) = (identity.certificate.display(), identity.private_key.display());
        let (ip, port) = (address.ip(), address.port());
        let directory = directory.display();
        let options = match self {
            // It runs as root only with this flag, and ignores it otherwise.
            Cache::Memcached => format!(
                "--enable-ssl -o ssl_chain_cert={chain},ssl_key={key} --listen={ip} --port={port} \
                 --udp-port=0 --user=root --threads=4"
            ),
            Cache::Redis => format!(
                "--port 0 --tls-port {port} --bind {ip} --tls-cert-file {chain} \
                 --tls-key-file {key} --tls-auth-clients no --io-threads 4 \
                 --io-threads-do-reads yes --dir {directory} --appendonly no --daemonize no"
            ),
        };
        options.split_whitespace().map(str::to_owned).collect()
    }

    /// A question, and how its answer begins.
    fn dialogue(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Cache::Memcached => (b"version\r\n", b"VERSION "),
            Cache::Redis => (b"PING\r\n", b"+PONG\r\n"),
        }
    }
}

impl Running {
    /// What its clients offer, one way after the other, and that they want to see its certificate.
    ///
    /// # Errors
    ///
    /// If a client cannot be set up.
    pub fn configurations(&self) -> Result<Vec<Arc<ClientConfig>>> {
        misbehaving_clients::configurations(&self.identity.leaf)
    }

    /// Makes a connection, asks twice, and awaits both answers.
    ///
    /// # Errors
    ///
    /// If the handshake or a dialogue fails, or takes too long.
    pub fn ask(&self, configuration: &Arc<ClientConfig>) -> Result<()> {
        let tcp = TcpStream::connect(self.address)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(SERVER_NAME)?;
        let tls = ClientConnection::new(Arc::clone(configuration), name)?;
        let mut stream = StreamOwned::new(tls, tcp);
        let (question, expected) = self.cache.dialogue();
        for _ in 0..2 {
            stream.write_all(question)?;
            let mut answer = vec![0; expected.len()];
            stream.read_exact(&mut answer).context("no answer")?;
            ensure!(answer == expected, "it said {}", String::from_utf8_lossy(&answer));
            while !answer.ends_with(b"\r\n") {
                let mut next = [0];
                stream.read_exact(&mut next).context("half an answer")?;
                answer.extend(next);
            }
        }
        Ok(())
    }

    /// What the provider counted so far.
    pub fn counts(&self) -> Counts {
        Counts::read(&self.directory.path().join("counters"))
    }

    /// The last lines that it wrote.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// Longer than anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
