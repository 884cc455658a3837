//! `openssl s_server` on a port of the system's choice.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server, ended when it is dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub port: String,
}

impl Server {
    /// Starts `openssl s_server -accept 127.0.0.1:0 …`.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("openssl is installed");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("ACCEPT ")?.rsplit_once(':')?.1.to_owned()))
            .expect("the server says its port");
        Server { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
