//! Agents on a real nats-server, and loads that they share.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use widelane_testkit::server::{Process, free_address_at};

use super::nginx::Nginx;
use super::widelane;

/// Longest time to wait for anything; everything is there long before.
const PATIENCE: Duration = Duration::from_secs(60);

/// nats-server as installed.
pub struct Nats {
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    words: Vec<String>,
}

impl Nats {
    /// Starts it on loopback, with more words on its command line.
    pub fn start(words: &[&str]) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, words)
    }

    /// Starts it at another address of this host.
    pub fn at(host: Ipv4Addr, words: &[&str]) -> Self {
        let address = free_address_at(host);
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Nats { process: Self::launch(address, &words), address, words }
    }

    fn launch(address: SocketAddr, words: &[String]) -> Process {
        let mut command = Command::new("nats-server");
        command.args(["-a", &address.ip().to_string(), "-p", &address.port().to_string()]);
        Process::listening(command.args(words).stderr(Stdio::null()), address)
    }

    /// Kills it and starts another in its place.
    pub fn restart(&mut self) {
        self.process.end();
        self.process = Self::launch(self.address, &self.words);
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

/// An agent, and the lines that it says.
pub struct Agent {
    /// What runs.
    pub process: Process,
    lines: Receiver<String>,
}

impl Agent {
    /// Starts an agent, and waits until it is on the bus.
    pub fn start(name: &str, url: &str, words: &[&str]) -> Self {
        let mut command = widelane();
        command.args(["agent", "--nats", url, "--name", name]).args(words);
        let mut process = Process::start(command.stderr(Stdio::piped()));
        let read = BufReader::new(process.child().stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in read.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let agent = Agent { process, lines };
        agent.says("waits for loads");
        agent
    }

    /// The next line with `text` in it.
    pub fn says(&self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => said.push(line),
                Err(_) => panic!("the agent does not say {text:?}, but {said:?}"),
            }
        }
    }
}

/// Agents that may load nginx.
pub fn agents(count: usize, nats: &Nats, nginx: &Nginx) -> Vec<Agent> {
    agents_for(count, nats, &nginx.address)
}

/// Agents that may load the server at `address`.
pub fn agents_for(count: usize, nats: &Nats, address: &str) -> Vec<Agent> {
    let start = |index| Agent::start(&format!("a{index}"), &nats.url(), &["--allow", address]);
    (0..count).map(start).collect()
}

/// A load of `seconds`, which `count` agents share.
pub fn load(nats: &Nats, nginx: &Nginx, count: usize, seconds: u32, words: &[&str]) -> Command {
    let mut command = load_on(nats, &nginx.address, count, words);
    command.args(["--warm-up", "0", "--duration", &format!("{seconds}s")]);
    command
}

/// A load on the server at `address`.
pub fn load_on(nats: &Nats, address: &str, count: usize, words: &[&str]) -> Command {
    let mut command = widelane();
    command
        .args(["load", address, "--insecure", "--json"])
        .args(["--nats", &nats.url(), "--agents", &count.to_string()])
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
