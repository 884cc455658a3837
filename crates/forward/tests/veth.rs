//! Real traffic between two network namespaces, through a forwarder whose rules change a thousand
//! times meanwhile. Needs root and `ip`; without them it says so and passes.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use widelane_classify::Limits;
use widelane_cpu::Policy;
use widelane_forward::port::{Interface, Port, Ring, Worker, parse_address};
use widelane_forward::{Counts, Engine, Reload, Routes};

const CHANGES: u32 = 1000;
/// A port that is always open, one that never is, and one that each change opens or closes.
const OPEN: u16 = 5000;
const CLOSED: u16 = 5001;
const TURNING: u16 = 5002;

/// Two namespaces, each on one end of a pair of interfaces; the other ends are ours.
struct Network {
    name: String,
}

impl Network {
    fn build() -> Result<Self, String> {
        let network = Network { name: format!("wl{}", std::process::id() % 100_000) };
        for side in ["a", "b"] {
            let (space, near, far) = network.names(side);
            let [net, other] = if side == "a" { [1, 2] } else { [2, 1] };
            ip(&format!("netns add {space}"))?;
            ip(&format!("link add {near} type veth peer name {far} netns {space}"))?;
            ip(&format!("link set {near} up"))?;
            let within = |command: String| ip(&format!("-n {space} {command}"));
            within(format!("addr add 10.77.{net}.2/24 dev {far}"))?;
            within(format!("link set {far} up"))?;
            within(format!("route add 10.77.{other}.0/24 via 10.77.{net}.1"))?;
            let address = ip(&format!("-br link show {near}"))?;
            let address = address.split_whitespace().nth(2).ok_or("no address")?.to_owned();
            within(format!("neigh add 10.77.{net}.1 lladdr {address} dev {far}"))?;
        }
        Ok(network)
    }

    /// The namespace of a side, the end that is ours, and the end in the namespace.
    fn names(&self, side: &str) -> (String, String, String) {
        let name = &self.name;
        (format!("{name}{side}"), format!("{name}{side}n"), format!("{name}{side}f"))
    }

    fn port(&self, side: &str) -> Port {
        let (space, near, far) = self.names(side);
        let line = ip(&format!("-n {space} -br link show {far}")).unwrap();
        let neighbour = line.split_whitespace().nth(2).and_then(parse_address).unwrap();
        Port { interface: Interface::open(&near).unwrap(), neighbour }
    }

    /// A socket in the namespace of a side.
    fn socket(&self, side: &str, port: u16) -> UdpSocket {
        let space = File::open(format!("/run/netns/{}", self.names(side).0)).unwrap();
        let opened = thread::spawn(move || {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            UdpSocket::bind(("0.0.0.0", port)).unwrap()
        });
        opened.join().unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for side in ["a", "b"] {
            drop(ip(&format!("netns delete {}", self.names(side).0)));
        }
    }
}

fn ip(command: &str) -> Result<String, String> {
    let output = Command::new("ip").args(command.split(' ')).output();
    let output = output.map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {command}: {complaint}")),
    }
}

/// The rules of a change: the turning port is closed after even ones, and other rules come and go.
fn rules(change: u32) -> String {
    let any = "0 : 65535";
    let deny = |port: u16| format!("@10.77.1.2/32 10.77.2.2/32 {any} {port} : {port} 17/0xff\n");
    let mut text = format!(
        "R0.0.0.0/0 10.77.1.0/24 {any} {any} 0/0 0\nR0.0.0.0/0 10.77.2.0/24 {any} {any} 0/0 1\n{}",
        deny(CLOSED)
    );
    if change.is_multiple_of(2) {
        text.push_str(&deny(TURNING));
    }
    // Between the others, a rule comes and goes only with all the rest.
    for other in 0..change / 50 % 3 {
        text.push_str(&deny(7000 + other as u16 * 10 + (change / 50) as u16));
    }
    text
}

/// The next number that arrives at a socket, if one does.
fn arrived(socket: &UdpSocket, patience: Duration) -> Option<u32> {
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut bytes = [0; 4];
    match socket.recv(&mut bytes) {
        Ok(_) => Some(u32::from_be_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn forward(ring: Ring, ports: &[Port], routes: &Routes, ended: &AtomicBool) -> Counts {
    let mut worker = Worker::new(ring, ports, Engine::new([routes]));
    while !ended.load(Ordering::Relaxed) {
        if !worker.turn() {
            worker.rest(5);
        }
    }
    worker.engine.counts
}

#[test]
fn denied_flows_never_arrive_and_allowed_ones_all_do() {
    let network = match Network::build() {
        Ok(network) => network,
        Err(reason) => return eprintln!("skipped: no network namespaces here: {reason}"),
    };
    let ports = [network.port("a"), network.port("b")];
    let (limits, policy) = (Limits::default(), Policy::open());
    let routes = Routes::new("rules", &rules(0), 2, &limits, &policy).unwrap();
    let rings = ports.each_ref().map(|port| Ring::open(&port.interface, None).unwrap());
    let sender = network.socket("a", 4000);
    let [open, closed, turning] = [OPEN, CLOSED, TURNING].map(|port| network.socket("b", port));
    let (ended, mut reloads) = (AtomicBool::new(false), [0; 2]);
    let counts = thread::scope(|scope| {
        let forwarders = rings.map(|ring| scope.spawn(|| forward(ring, &ports, &routes, &ended)));
        let traffic = panic::catch_unwind(AssertUnwindSafe(|| {
            for change in 1..=CHANGES {
                match routes.reload(&rules(change)).unwrap() {
                    Reload::OneRule => reloads[0] += 1,
                    Reload::All => reloads[1] += 1,
                    Reload::Unchanged => panic!("every change changes something"),
                }
                // In this order: what has come through the open port was decided about last.
                for port in [CLOSED, TURNING, OPEN] {
                    sender.send_to(&change.to_be_bytes(), ("10.77.2.2", port)).unwrap();
                }
                let patience = Duration::from_secs(20);
                assert_eq!(arrived(&open, patience), Some(change));
                if change % 2 == 1 {
                    assert_eq!(arrived(&turning, patience), Some(change));
                }
            }
        }));
        ended.store(true, Ordering::Relaxed);
        let mut counts = Counts::default();
        forwarders.into_iter().for_each(|thread| counts.add(&thread.join().unwrap()));
        traffic.unwrap_or_else(|cause| panic::resume_unwind(cause));
        counts
    });
    assert!(reloads[0] > 500 && reloads[1] > 200, "{reloads:?}");
    for socket in [open, closed, turning] {
        assert_eq!(arrived(&socket, Duration::from_millis(50)), None);
    }
    assert_eq!(counts.denied, u64::from(CHANGES + CHANGES / 2));
    assert_eq!((counts.sent[1], counts.unsent, counts.overrun), (1500, 0, 0));
}
