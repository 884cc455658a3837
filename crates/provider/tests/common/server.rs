//! `openssl s_server` on a port of the system's choice.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use widelane_testkit::server::Process;

/// A server, ended when it is dropped.
pub struct Server {
    _process: Process,
    /// Where it listens.
    pub port: String,
}

impl Server {
    /// Starts `openssl s_server -accept 127.0.0.1:0 …`.
    pub fn start(command: &mut Command) -> Self {
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let lines = BufReader::new(process.child().stdout.take().expect("its output")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("ACCEPT ")?.rsplit_once(':')?.1.to_owned()))
            .expect("the server says its port");
        Server { _process: process, port }
    }
}
