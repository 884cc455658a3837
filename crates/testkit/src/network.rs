//! Two network namespaces for a forwarder to stand between: for tests with real traffic.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Two namespaces, each on one end of a pair of interfaces; the other ends are the forwarder's.
///
/// Side A is 10.77.1.2 and side B is 10.77.2.2; each reaches the other through 10.77.N.1.
#[derive(Debug)]
pub struct Network {
    name: String,
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// 10.77.1.2
    A,
    /// 10.77.2.2
    B,
}

impl Side {
    const fn letter(self) -> char {
        match self {
            Side::A => 'a',
            Side::B => 'b',
        }
    }
}

impl Network {
    /// Makes them, with names that begin with `prefix` and that no other process uses.
    ///
    /// # Errors
    ///
    /// If there are no namespaces to be had: without root, or without `ip`.
    pub fn build(prefix: &str) -> Result<Self, String> {
        let network = Network { name: format!("{prefix}{}", std::process::id() % 100_000) };
        for (side, net, other) in [(Side::A, 1, 2), (Side::B, 2, 1)] {
            let space = network.space(side);
            let (near, far) = (network.near(side), network.far(side));
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

    /// The forwarder's interface to a side.
    pub fn near(&self, side: Side) -> String {
        format!("{}{}n", self.name, side.letter())
    }

    /// The Ethernet address of a side.
    ///
    /// # Panics
    ///
    /// If its interface is gone.
    pub fn address(&self, side: Side) -> String {
        let line = ip(&format!("-n {} -br link show {}", self.space(side), self.far(side)));
        let line = line.unwrap_or_default();
        line.split_whitespace().nth(2).expect("an interface with an address").to_owned()
    }

    /// A socket in the namespace of a side.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn socket(&self, side: Side, port: u16) -> UdpSocket {
        let space = File::open(format!("/run/netns/{}", self.space(side)));
        let space = space.expect("the namespace is there");
        let opened = thread::spawn(move || {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
            UdpSocket::bind(("0.0.0.0", port))
        });
        opened.join().expect("no panic").expect("a socket in the namespace")
    }

    fn space(&self, side: Side) -> String {
        format!("{}{}", self.name, side.letter())
    }

    fn far(&self, side: Side) -> String {
        format!("{}{}f", self.name, side.letter())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for side in [Side::A, Side::B] {
            drop(ip(&format!("netns delete {}", self.space(side))));
        }
    }
}

/// The next number of four bytes that arrives at a socket, if one does.
///
/// # Panics
///
/// If the socket cannot be read.
pub fn arrived(socket: &UdpSocket, patience: Duration) -> Option<u32> {
    socket.set_read_timeout(Some(patience)).expect("a time that is not zero");
    let mut bytes = [0; 4];
    match socket.recv(&mut bytes) {
        Ok(_) => Some(u32::from_be_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

/// Has `ip` carry out a command.
pub(crate) fn ip(command: &str) -> Result<String, String> {
    let output = Command::new("ip").args(command.split(' ')).output();
    let output = output.map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {command}: {complaint}")),
    }
}
