//! Servers of others that tests start: their addresses, their files, and their processes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time to wait for a server; it is there long before.
const PATIENCE: Duration = Duration::from_secs(60);

/// An address on loopback whose port is free now.
///
/// # Panics
///
/// If the system has no port left.
pub fn free_address() -> SocketAddr {
    free_address_at(Ipv4Addr::LOCALHOST)
}

/// An address at `host`, which is this machine, whose port is free now.
///
/// # Panics
///
/// If the system has no port left there.
pub fn free_address_at(host: impl Into<IpAddr>) -> SocketAddr {
    let listener = TcpListener::bind((host.into(), 0)).expect("a free port");
    listener.local_addr().expect("its address")
}

/// What nginx is told in `http` so that it writes no log of requests and no file elsewhere.
pub fn nginx_files(directory: &Path) -> String {
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("    {what}_temp_path {};", directory.join(what).display()));
    format!("    access_log off;\n{}", paths.join("\n"))
}

/// A process that ends with its test.
pub struct Process(Option<Child>);

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// If it is not installed.
    pub fn start(command: &mut Command) -> Self {
        let program = command.get_program().display().to_string();
        Process(Some(command.spawn().unwrap_or_else(|error| {
            panic!("cannot start {program}: {error}; `cargo xtask setup` installs servers")
        })))
    }

    /// Starts a server, and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it is not installed, ends, or does not listen.
    pub fn listening(command: &mut Command, address: SocketAddr) -> Self {
        Self::ready(command, || TcpStream::connect(address).is_ok())
    }

    /// Starts a server, and waits until it is ready. One that listens in several places may not
    /// listen in the last of them when it does in the first.
    ///
    /// # Panics
    ///
    /// If it is not installed, ends, or does not become ready.
    pub fn ready(command: &mut Command, mut is_ready: impl FnMut() -> bool) -> Self {
        let mut process = Self::start(command);
        let program = command.get_program().display();
        let end = Instant::now() + PATIENCE;
        while !is_ready() {
            let ended = process.child().try_wait().expect("a child of ours");
            assert!(ended.is_none(), "{program} ended: {}", ended.unwrap_or_default());
            assert!(Instant::now() < end, "{program} does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        process
    }

    /// The process as the standard library has it.
    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("only `output` takes it")
    }

    /// Waits until it ends by itself; its status, and what it wrote to pipes.
    ///
    /// # Panics
    ///
    /// If its output cannot be read.
    pub fn output(mut self) -> Output {
        let child = self.0.take().expect("nothing else takes it");
        child.wait_with_output().expect("what it wrote")
    }

    /// Ends it now.
    pub fn end(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended already, which was the purpose.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
