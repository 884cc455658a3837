//! Real servers under `widelane run`, each in a directory and on ports of its own.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::counters::Sums;
use super::{wait_until, widelane};

/// A running server; ends with the test.
pub struct Server {
    child: Child,
    directory: tempfile::TempDir,
    pub port: u16,
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

impl Server {
    /// Starts nginx with `workers` workers and `http`, the inside of a TLS `server` block.
    pub fn nginx(workers: usize, http: &str) -> Self {
        let port = free_port();
        let http = format!(
            "http {{ access_log off; client_body_temp_path b; proxy_temp_path p;
               fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
               server {{ listen 127.0.0.1:{port} ssl http2; {http} }} }}"
        );
        Self::nginx_with(port, workers, "", &http)
    }

    /// Starts nginx with `main` and `blocks` as its configuration.
    pub fn nginx_with(port: u16, workers: usize, main: &str, blocks: &str) -> Self {
        let configuration = format!(
            "daemon off; worker_processes {workers}; pid nginx.pid; error_log error.log notice;
             {main}
             events {{ worker_connections 1024; }}
             {blocks}\n"
        );
        let arguments = ["/usr/sbin/nginx", "-p", ".", "-e", "error.log", "-c", "configuration"];
        Self::start(port, &configuration, &arguments)
    }

    /// Starts HAProxy with `global` settings and a frontend on the certificate and key in `pem`.
    pub fn haproxy(global: &str, pem: &Path, arguments: &[&str]) -> Self {
        let port = free_port();
        let configuration = format!(
            "global\n  maxconn 2000\n{global}\n\
             defaults\n  mode http\n  timeout client 20s\n  timeout server 20s\n  \
             timeout connect 5s\n\
             frontend front\n  bind 127.0.0.1:{port} ssl crt {} ssl-min-ver TLSv1.2\n  \
             http-request return status 200 content-type text/plain string ok\n",
            pem.display()
        );
        let mut command = vec!["/usr/sbin/haproxy"];
        command.extend(arguments);
        command.extend(["-f", "configuration"]);
        Self::start(port, &configuration, &command)
    }

    fn start(port: u16, configuration: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Workers give up their privileges and still write here.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))
            .expect("our own directory");
        std::fs::write(directory.path().join("configuration"), configuration).expect("a write");
        let output = File::create(directory.path().join("output")).expect("a file");
        let child = Command::new(widelane())
            .args([OsStr::new("run"), OsStr::new("--counters-dir")])
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
            assert!(ended.is_none(), "the server ended: {}", server.output());
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

    /// The first process, which `widelane run` became.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process numbers are small")
    }

    pub fn counters(&self) -> Sums {
        Sums::read(&self.path("counters"))
    }

    /// Sends `signal` to the first process.
    pub fn signal(&self, signal: i32) {
        send_signal(self.pid(), signal);
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }
}

/// Sends `signal` to a process of a server under test.
#[allow(unsafe_code, reason = "kill")]
pub fn send_signal(pid: i32, signal: i32) {
    // SAFETY: sends a signal to a process that this test started.
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0, "signal {signal} to process {pid}");
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        self.signal(libc::SIGTERM);
        for _ in 0..100 {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
