//! Real servers under `widelane run`, each in a directory and on ports of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use widelane_host::programs::nginx_first_errors;
use widelane_testkit::server::{free_address, nginx_files};

use super::counters::Sums;
use super::{wait_until, widelane};

/// A running server; ends with the test.
pub struct Server {
    /// What `widelane run` became: the server, or the process that left a daemon behind.
    child: Child,
    directory: tempfile::TempDir,
    pub port: u16,
}

impl Server {
    /// Starts nginx with `workers` workers and `http`, the inside of a TLS `server` block.
    pub fn nginx(workers: usize, http: &str) -> Self {
        Self::nginx_under(&[], workers, http)
    }

    /// The same with arguments for `widelane run`.
    pub fn nginx_under(run: &[&str], workers: usize, http: &str) -> Self {
        let port = free_address().port();
        let http = format!(
            "http {{ {}
               ssl_protocols TLSv1.2 TLSv1.3;
               server {{ listen 127.0.0.1:{port} ssl http2; {http} }} }}",
            nginx_files(Path::new("."))
        );
        Self::nginx_run(Command::new(widelane()).arg("run").args(run), port, workers, "", &http)
    }

    /// Starts nginx with `main` and `blocks` as its configuration.
    pub fn nginx_with(port: u16, workers: usize, main: &str, blocks: &str) -> Self {
        Self::nginx_run(Command::new(widelane()).arg("run"), port, workers, main, blocks)
    }

    /// The same by `run`, which begins with `widelane run` and may have more options.
    pub fn nginx_run(
        run: &mut Command,
        port: u16,
        workers: usize,
        main: &str,
        blocks: &str,
    ) -> Self {
        // A daemon, as nginx usually runs: only as such it upgrades its binary.
        let configuration = format!(
            "worker_processes {workers}; pid nginx.pid; error_log error.log notice;
             {main}
             events {{ worker_connections 1024; }}
             {blocks}\n"
        );
        let nginx = "/usr/sbin/nginx";
        let errors = nginx_first_errors(Path::new(nginx), "error.log");
        let mut arguments = [nginx, "-p", ".", "-c", "configuration"].map(OsString::from).to_vec();
        arguments.extend(errors);
        let mut server = Self::start(run, port, &configuration, &arguments);
        // As long as the process lives that left it behind, a daemon takes itself for an upgrade.
        wait_until("the daemon", || {
            let left_behind = server.child.try_wait().expect("our child").is_some();
            left_behind && server.pid_in(PID_FILE).is_some()
        });
        server
    }

    /// Starts HAProxy with `global` settings and a frontend on the certificate and key in `pem`.
    pub fn haproxy(global: &str, pem: &Path, arguments: &[&str]) -> Self {
        Self::haproxy_under(&[], global, pem, arguments)
    }

    /// The same with arguments for `widelane run`.
    pub fn haproxy_under(options: &[&str], global: &str, pem: &Path, arguments: &[&str]) -> Self {
        let port = free_address().port();
        let mut command = vec!["/usr/sbin/haproxy"];
        command.extend(arguments);
        command.extend(["-f", "configuration"]);
        let run = &mut Command::new(widelane());
        Self::haproxy_run(run.arg("run").args(options), port, global, pem, &command)
    }

    /// The same by `run`, which begins with `widelane run` and may have more options.
    pub fn haproxy_run(
        run: &mut Command,
        port: u16,
        global: &str,
        pem: &Path,
        command: &[&str],
    ) -> Self {
        let configuration = format!(
            "global\n  maxconn 2000\n{global}\n\
             defaults\n  mode http\n  timeout client 20s\n  timeout server 20s\n  \
             timeout connect 5s\n\
             frontend front\n  bind 127.0.0.1:{port} ssl crt {} ssl-min-ver TLSv1.2\n  \
             http-request return status 200 content-type text/plain string ok\n",
            pem.display()
        );
        Self::start(run, port, &configuration, command)
    }

    /// Starts lighttpd with the certificate and key in `pem`; nothing where there is none.
    pub fn lighttpd(pem: &Path) -> Option<Self> {
        let program = "/usr/sbin/lighttpd";
        if !Path::new(program).exists() {
            return None;
        }
        let port = free_address().port();
        let configuration = format!(
            "server.modules = ( \"mod_openssl\" )\nserver.document-root = \"/\"\n\
             server.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             ssl.engine = \"enable\"\nssl.pemfile = \"{}\"\n",
            pem.display()
        );
        let arguments = [program, "-D", "-f", "configuration"];
        Some(Self::start(Command::new(widelane()).arg("run"), port, &configuration, &arguments))
    }

    fn start(
        run: &mut Command,
        port: u16,
        configuration: &str,
        arguments: &[impl AsRef<OsStr>],
    ) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Workers give up their privileges and still write here.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))
            .expect("our own directory");
        std::fs::write(directory.path().join("configuration"), configuration).expect("a write");
        let output = File::create(directory.path().join("output")).expect("a file");
        let child = run
            .arg("--counters-dir")
            .arg(directory.path().join("counters"))
            .arg("--")
            .args(arguments)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the same file"))
            .stderr(output)
            .spawn()
            .expect("widelane was built");
        let mut server = Self { child, directory, port };
        wait_until("the server to listen", || {
            let ended = server.child.try_wait().expect("our child");
            let is_running = ended.is_none_or(|status| status.success());
            assert!(is_running, "the server ended: {}", server.output());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        server
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the server said on its standard output and error, and in nginx's error log.
    pub fn output(&self) -> String {
        ["output", "error.log"]
            .map(|name| std::fs::read_to_string(self.path(name)).unwrap_or_default())
            .concat()
    }

    /// The server's first process.
    pub fn pid(&self) -> i32 {
        let child = i32::try_from(self.child.id()).expect("process numbers are small");
        self.pid_in(PID_FILE).unwrap_or(child)
    }

    /// The process that `file` names, if there is one.
    pub fn pid_in(&self, file: &str) -> Option<i32> {
        std::fs::read_to_string(self.path(file)).ok()?.trim().parse().ok()
    }

    pub fn counters(&self) -> Sums {
        Sums::read(&self.path("counters"))
    }

    /// Sends `signal` to the first process.
    pub fn signal(&self, signal: i32) {
        send_signal(self.pid(), signal);
    }
}

/// Where nginx writes its process number, and where it moves that file for an upgrade.
pub const PID_FILE: &str = "nginx.pid";
pub const OLD_PID_FILE: &str = "nginx.pid.oldbin";

/// Sends `signal` to a process of a server under test, if it still lives.
#[allow(unsafe_code, reason = "kill")]
pub fn send_signal(pid: i32, signal: i32) {
    // SAFETY: sends a signal to a process that this test started.
    unsafe { libc::kill(pid, signal) };
}

impl Drop for Server {
    fn drop(&mut self) {
        for pid in [OLD_PID_FILE, PID_FILE].into_iter().filter_map(|file| self.pid_in(file)) {
            send_signal(pid, libc::SIGTERM);
        }
        for _ in 0..100 {
            if self.child.try_wait().expect("our child").is_some() {
                return;
            }
            self.signal(libc::SIGTERM);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
