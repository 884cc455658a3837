//! Network namespaces for tests with real traffic: two for a forwarder to stand between, or two of
//! which one forwards what the other sends.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Two namespaces, each on one end of a pair of interfaces; the other ends are the forwarder's.
///
/// Side A is 10.77.1.2 and side B is 10.77.2.2; each reaches the other through 10.77.N.1.
#[derive(Debug)]
pub struct Network {
    spaces: Spaces,
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// 10.77.1.2
    A,
    /// 10.77.2.2
    B,
}

impl Network {
    /// Makes them, with names that begin with `prefix` and that no other process uses.
    ///
    /// # Errors
    ///
    /// If there are no namespaces to be had: without root, or without `ip`.
    pub fn build(prefix: &str) -> Result<Self, String> {
        let network = Network { spaces: Spaces::make(prefix, ["a", "b"])? };
        for (side, net, other) in [(Side::A, 1, 2), (Side::B, 2, 1)] {
            let space = network.space(side);
            let (near, far) = (network.near(side), network.far(side));
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
        format!("{}n", self.space(side))
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
        let opened = self.within(side, || UdpSocket::bind(("0.0.0.0", port)));
        opened.expect("a socket in the namespace")
    }

    /// Does something in the namespace of a side.
    ///
    /// # Errors
    ///
    /// Those of the work, and of going there.
    pub fn within<T: Send>(
        &self,
        side: Side,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        within(self.space(side), work)?
    }

    fn space(&self, side: Side) -> &str {
        self.spaces.name(side as usize)
    }

    fn far(&self, side: Side) -> String {
        format!("{}f", self.space(side))
    }
}

/// A namespace whose kernel forwards packets, by whatever rules it is given, and another that sends
/// them to it and takes them back.
#[derive(Debug)]
pub struct Router {
    spaces: Spaces,
}

/// What opens packets of any source and destination: IPv4's and IPv6's.
#[derive(Debug)]
pub struct Sender([OwnedFd; 2]);

impl Router {
    /// Makes both, with names that begin with `prefix` and that no other process uses.
    ///
    /// # Errors
    ///
    /// If there are no namespaces to be had: without root, or without `ip`.
    pub fn build(prefix: &str) -> Result<Self, String> {
        let router = Router { spaces: Spaces::make(prefix, ["r", "s"])? };
        let (own, other) = (router.space(), router.sending_space());
        let ends = [(router.entry(), format!("{other}s")), (router.exit(), format!("{other}t"))];
        for ((near, far), net) in ends.iter().zip(1..) {
            ip(&format!("-n {own} link add {near} type veth peer name {far} netns {other}"))?;
            for (space, device, host) in [(own, near, 1), (other, far, 2)] {
                ip(&format!("-n {space} addr add 10.77.{net}.{host}/24 dev {device}"))?;
                ip(&format!("-n {space} addr add fd77:{net}::{host}/64 dev {device} nodad"))?;
                ip(&format!("-n {space} link set {device} up"))?;
            }
        }
        // To the router by its entry, and back by its exit: nobody has to be asked for addresses.
        let [(entry, sending), (exit, taking)] = &ends;
        for (space, device, net, host, to) in
            [(other, sending, 1, 1, (own, entry)), (own, exit, 2, 2, (other, taking))]
        {
            let line = ip(&format!("-n {} -br link show {}", to.0, to.1))?;
            let address = line.split_whitespace().nth(2).ok_or("no address")?;
            for gateway in [format!("10.77.{net}.{host}"), format!("fd77:{net}::{host}")] {
                ip(&format!("-n {space} neigh replace {gateway} lladdr {address} dev {device}"))?;
                ip(&format!("-n {space} route add default via {gateway} dev {device}"))?;
            }
        }
        let settings = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];
        let filters = ["all", &router.entry()].map(|of| format!("ipv4/conf/{of}/rp_filter"));
        let set = || {
            let set = |name: &str, value| fs::write(format!("/proc/sys/net/{name}"), value);
            settings.iter().try_for_each(|name| set(name, "1"))?;
            filters.iter().try_for_each(|name| set(name, "0"))
        };
        within(own, set).flatten().map_err(|error: io::Error| error.to_string())?;
        Ok(router)
    }

    fn exit(&self) -> String {
        format!("{}o", self.space())
    }

    /// Moves the calling thread, and what it starts, to the namespace that forwards.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn enter(&self) -> io::Result<()> {
        enter(self.space())
    }

    /// Sends packets to be forwarded.
    ///
    /// # Panics
    ///
    /// If there are no raw sockets.
    pub fn sender(&self) -> Sender {
        let open = |family| {
            let open = || socket(family, SocketType::RAW, Some(ipproto::RAW));
            let opened = within(self.sending_space(), open).expect("the namespace is there");
            opened.expect("a raw socket")
        };
        Sender([AddressFamily::INET, AddressFamily::INET6].map(open))
    }

    fn entry(&self) -> String {
        format!("{}i", self.space())
    }

    fn space(&self) -> &str {
        self.spaces.name(0)
    }

    fn sending_space(&self) -> &str {
        self.spaces.name(1)
    }
}

impl Sender {
    /// Sends a packet, from its IP header on.
    ///
    /// # Panics
    ///
    /// If it is too short for its header, or the kernel refuses it.
    pub fn send(&self, packet: &[u8]) {
        let is_v6 = packet[0] >> 4 == 6;
        let destination: IpAddr = match is_v6 {
            true => Ipv6Addr::from(<[u8; 16]>::try_from(&packet[24..40]).expect("16 bytes")).into(),
            false => Ipv4Addr::from(<[u8; 4]>::try_from(&packet[16..20]).expect("4 bytes")).into(),
        };
        let to = SocketAddr::new(destination, 0);
        sendto(&self.0[usize::from(is_v6)], packet, SendFlags::empty(), &to).expect("it is sent");
    }
}

/// Namespaces that are deleted in the end.
#[derive(Debug)]
pub(crate) struct Spaces(Vec<String>);

impl Spaces {
    /// Makes one for each suffix, with names that begin with `prefix` and that no other process
    /// uses.
    pub(crate) fn make<S: Display>(
        prefix: &str,
        suffixes: impl IntoIterator<Item = S>,
    ) -> Result<Self, String> {
        let mut spaces = Spaces(Vec::new());
        for suffix in suffixes {
            let name = format!("{prefix}{}{suffix}", std::process::id() % 100_000);
            ip(&format!("netns add {name}"))?;
            spaces.0.push(name);
        }
        Ok(spaces)
    }

    /// What one of them is called, by the place of its suffix.
    pub(crate) fn name(&self, index: usize) -> &str {
        &self.0[index]
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            drop(ip(&format!("netns delete {name}")));
        }
    }
}

/// Moves the calling thread to a namespace.
fn enter(space: &str) -> io::Result<()> {
    let space = File::open(format!("/run/netns/{space}"))?;
    Ok(move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Does `work` on a thread in a namespace.
pub(crate) fn within<T: Send>(space: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let inside = || enter(space).map(|()| work());
    let joined = thread::scope(|scope| scope.spawn(inside).join());
    joined.unwrap_or_else(|panic| panic::resume_unwind(panic))
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
///
/// # Errors
///
/// If there is no `ip`, or it fails; with what it complains about.
pub fn ip(command: &str) -> Result<String, String> {
    let output = Command::new("ip").args(command.split(' ')).output();
    let output = output.map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {command}: {complaint}")),
    }
}
