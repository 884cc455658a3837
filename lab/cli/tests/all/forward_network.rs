//! `widelane acl forward` between two network namespaces: real traffic, a rule file that is
//! replaced a thousand times meanwhile, and counters for Prometheus. Needs root and `ip`; without
//! them it says so and passes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use widelane_testkit::network::{Network, Side, arrived};

use crate::common::acl;

const CHANGES: u32 = 1000;
/// A port that is always open, one that never is, and one that each change opens or closes.
const OPEN: u16 = 5000;
const CLOSED: u16 = 5001;
const TURNING: u16 = 5002;
/// How often something is asked for that takes a while.
const ATTEMPTS: usize = 2000;
const PATIENCE: Duration = Duration::from_secs(20);

/// The rules after so many changes: even ones close the turning port.
fn rules(change: u32) -> String {
    let any = "0 : 65535";
    let deny = |port: u16| format!("@10.77.1.2/32 10.77.2.2/32 {any} {port} : {port} 17/0xff\n");
    let turning = if change.is_multiple_of(2) { deny(TURNING) } else { String::new() };
    format!(
        "R0.0.0.0/0 10.77.1.0/24 {any} {any} 0/0 0\nR0.0.0.0/0 10.77.2.0/24 {any} {any} 0/0 1\n\
         {}{turning}",
        deny(CLOSED)
    )
}

/// A forwarder that is running.
struct Forwarder {
    child: Child,
    metrics: SocketAddr,
}

impl Forwarder {
    fn start(directory: &Path, network: &Network) -> Self {
        let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let [a, b] = [Side::A, Side::B].map(|side| network.near(side));
        let [to_a, to_b] = [(0, Side::A), (1, Side::B)]
            .map(|(port, side)| format!("{port},{}", network.address(side)));
        let metrics_text = metrics.to_string();
        let arguments = [
            ["forward", "--json"].as_slice(),
            &["--rules-ipv4", "a.rules", "--port", &a, "--port", &b],
            &["--eth-dest", &to_a, "--eth-dest", &to_b, "--metrics", &metrics_text],
        ];
        let mut command = acl(directory, &arguments.concat());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let forwarder = Forwarder { child, metrics };
        assert!(eventually(|| TcpStream::connect(metrics).is_ok()), "the forwarder starts");
        forwarder
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// A counter that has no labels, or all that it has.
    fn counter(&self, name: &str) -> u64 {
        let mut client = TcpStream::connect(self.metrics).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {answer}")).parse().unwrap()
    }

    /// What it says at its end.
    fn end(mut self) -> serde_json::Value {
        self.signal("TERM");
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        serde_json::from_str(&said).unwrap()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    (0..ATTEMPTS).any(|_| {
        let now = holds();
        if !now {
            thread::sleep(Duration::from_millis(10));
        }
        now
    })
}

/// Who sends on one side, and who receives on the other.
struct Traffic {
    sender: UdpSocket,
    open: UdpSocket,
    closed: UdpSocket,
    turning: UdpSocket,
    sent: u32,
}

impl Traffic {
    /// Sends a packet to each port, and says whether the turning one was open. The open one always
    /// is; it comes last, so that the others have been decided about when its packet arrives.
    fn pass(&mut self) -> bool {
        self.sent += 1;
        for port in [CLOSED, TURNING, OPEN] {
            self.sender.send_to(&self.sent.to_be_bytes(), ("10.77.2.2", port)).unwrap();
        }
        assert_eq!(arrived(&self.open, PATIENCE), Some(self.sent), "no packet is lost");
        let turned = arrived(&self.turning, Duration::from_millis(1));
        assert!(turned.is_none_or(|number| number == self.sent));
        turned.is_some()
    }
}

#[test]
fn rules_are_replaced_while_packets_are_forwarded() {
    let network = match Network::build("wc") {
        Ok(network) => network,
        Err(reason) => return eprintln!("skipped: no network namespaces here: {reason}"),
    };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.rules"), rules(0)).unwrap();
    let near = network.near(Side::A);
    let twice = ["forward", "--rules-ipv4", "a.rules", "--port", &near, "--port", &near];
    let refused = acl(directory.path(), &twice).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(said, format!("widelane: --port: {near} is port 0 already\n"));
    let [path, next] = ["a.rules", "next"].map(|name| directory.path().join(name));
    fs::write(&path, rules(0)).unwrap();
    let forwarder = Forwarder::start(directory.path(), &network);
    let [open, closed, turning] = [OPEN, CLOSED, TURNING].map(|port| network.socket(Side::B, port));
    let sender = network.socket(Side::A, 4000);
    let mut traffic = Traffic { sender, open, closed, turning, sent: 0 };
    let mut arrivals = 0;
    for change in 1..=CHANGES {
        fs::write(&next, rules(change)).unwrap();
        fs::rename(&next, &path).unwrap();
        forwarder.signal("HUP");
        let is_open = change % 2 == 1;
        // Each change takes effect, and its traffic goes on until then.
        let settled = eventually(|| {
            let was_open = traffic.pass();
            arrivals += u64::from(was_open);
            was_open == is_open
        });
        assert!(settled, "change {change} is not seen");
    }
    let sent = u64::from(traffic.sent);
    let leaving = "widelane_forward_sent_packets_total{port=\"1\"}";
    assert!(eventually(|| forwarder.counter(leaving) == sent + arrivals));
    assert_eq!(forwarder.counter("widelane_forward_rule_loads_total"), u64::from(CHANGES));
    assert_eq!(arrived(&traffic.closed, Duration::from_millis(50)), None);
    let said = forwarder.end();
    assert_eq!(said["sent"][1], sent + arrivals);
    assert_eq!(said["dropped"]["denied"], 2 * sent - arrivals);
    for loss in ["unsent", "overrun"] {
        assert_eq!(said["dropped"].get(loss).map_or(0, |count| count.as_u64().unwrap()), 0);
    }
}
