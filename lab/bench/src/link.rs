//! A link with delay on one machine: clients as far away as those of the Internet.
//!
//! What clients send to [`Link::far`] leaves by an interface of our own (TUN), is kept for half of
//! the round-trip time, and comes in again as if it were sent to [`Link::near`], where servers
//! listen; answers go the same way back. Only the addresses of packets are exchanged. Their sum
//! stays what it was, and with it all checksums.

mod interface;
mod network;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::geteuid;
use thiserror::Error;
use widelane_meter::place;

/// Why there is no such link.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The kernel gives us no interface.
    #[error(
        "clients at a distance need a network interface of their own: load the kernel module tun, \
         or let this container have /dev/net/tun and CAP_NET_ADMIN"
    )]
    Interface(#[source] io::Error),
    /// A user may not have a network of their own.
    #[error(
        "clients at a distance need a user namespace, which this system denies: run this as root, \
         or {remedy}"
    )]
    Network {
        /// What else helps.
        remedy: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Lets this process open links. Those of root are in the network where it is; others enter one of
/// their own, in which all servers and clients have to be. Call it before there are other threads.
///
/// # Errors
///
/// [`LinkError::Network`].
pub fn prepare() -> Result<(), LinkError> {
    if geteuid().is_root() { Ok(()) } else { network::enter() }
}

/// A link whose two ends are on this machine; it is gone when this is dropped.
pub struct Link {
    block: [u8; 4],
    is_over: Arc<AtomicBool>,
    relay: Option<JoinHandle<()>>,
}

impl Link {
    /// Makes one with a round-trip time, which costs time on `cpus`.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn open(round_trip: Duration, cpus: &[usize]) -> Result<Self, LinkError> {
        // Two runs at a time have different ones.
        let [high, low] = ((process::id() % BLOCKS) as u16 * 8).to_be_bytes();
        let block = [NETWORK[0], NETWORK[1], high, low];
        let (tun, name) = interface::make().map_err(LinkError::Interface)?;
        let hosts = [CLIENT, SERVER].map(|host| address(block, host));
        take_into_service(&name, hosts).map_err(LinkError::Interface)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, cpus) = (Arc::clone(&is_over), cpus.to_vec());
        let relay = thread::spawn(move || {
            // Elsewhere it works as well.
            place::roam(&cpus);
            relay(tun, round_trip / 2, &ends);
        });
        Ok(Link { block, is_over, relay: Some(relay) })
    }

    /// Where servers listen.
    pub fn near(&self) -> Ipv4Addr {
        address(self.block, SERVER)
    }

    /// What clients connect to.
    pub fn far(&self) -> Ipv4Addr {
        address(self.block, SERVER_FROM_AFAR)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(relay) = self.relay.take() {
            let _ = relay.join();
        }
    }
}

/// The addresses that RFC 2544 sets aside for measurements, in blocks of eight.
const NETWORK: [u8; 2] = [198, 18];
const BLOCKS: u32 = 8192;
const BLOCK_PREFIX: u8 = 29;

/// Hosts of a block. The first two have its addresses; the others are what each is for its peer.
const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const CLIENT_FROM_AFAR: u8 = 3;
const SERVER_FROM_AFAR: u8 = 4;

/// Packets that the kernel keeps for us, so that it loses none while we do something else.
const QUEUE: u32 = 10_000;

/// Longest packet of the interface.
const PACKET_BYTES_MAX: usize = 1500;

/// How long the end of a link may go unnoticed.
const TURN_MAX: Duration = Duration::from_millis(20);

/// A packet of IPv4: where its header has the last bytes of the addresses.
const VERSION_4: u8 = 4;
const SOURCE_HOST: usize = 15;
const TARGET_HOST: usize = 19;

fn address(block: [u8; 4], host: u8) -> Ipv4Addr {
    let [a, b, c, d] = block;
    Ipv4Addr::new(a, b, c, d + host)
}

fn take_into_service(name: &str, [client, server]: [Ipv4Addr; 2]) -> io::Result<()> {
    interface::give_address(name, client, BLOCK_PREFIX)?;
    interface::give_address(name, server, BLOCK_PREFIX)?;
    interface::lengthen_queue(name, QUEUE)?;
    interface::start(name)
}

/// Hands every packet on once it is old enough.
fn relay(mut tun: File, delay: Duration, is_over: &AtomicBool) {
    let mut kept: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut room = [0; PACKET_BYTES_MAX];
    while !is_over.load(Ordering::Relaxed) {
        loop {
            match tun.read(&mut room) {
                Ok(bytes) if exchange(&mut room[..bytes]) => {
                    kept.push_back((Instant::now() + delay, room[..bytes].to_vec()));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        let now = Instant::now();
        while kept.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, packet)) = kept.pop_front() {
                // One that the kernel does not take is lost, as packets are.
                let _ = tun.write(&packet);
            }
        }
        let left = kept.front().map_or(TURN_MAX, |(due, _)| due.saturating_duration_since(now));
        let mut waiting = [PollFd::new(tun.as_fd(), PollFlags::POLLIN)];
        let _ = ppoll(&mut waiting, Some(TimeSpec::from_duration(left.min(TURN_MAX))), None);
    }
}

/// Turns what a client or a server has sent into what its peer is to receive; false for anything
/// else.
fn exchange(packet: &mut [u8]) -> bool {
    let is_4 = packet.first().is_some_and(|first| first >> 4 == VERSION_4);
    if !is_4 || packet.len() <= TARGET_HOST {
        return false;
    }
    let mut swap = |from: [u8; 2], to: [u8; 2]| {
        let hosts = [packet[SOURCE_HOST] & 7, packet[TARGET_HOST] & 7];
        if hosts != from {
            return false;
        }
        packet[SOURCE_HOST] = packet[SOURCE_HOST] & !7 | to[0];
        packet[TARGET_HOST] = packet[TARGET_HOST] & !7 | to[1];
        true
    };
    swap([CLIENT, SERVER_FROM_AFAR], [CLIENT_FROM_AFAR, SERVER])
        || swap([SERVER, CLIENT_FROM_AFAR], [SERVER_FROM_AFAR, CLIENT])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: u8, target: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0];
        packet.extend([198, 18, 3, 8 + source, 198, 18, 3, 8 + target]);
        packet
    }

    /// The sum behind the checksums of IP, TCP and UDP.
    fn sum(packet: &[u8]) -> u32 {
        packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum()
    }

    #[test]
    fn peers_hear_each_other_and_checksums_stay_right() {
        for (sent, received) in [
            ([CLIENT, SERVER_FROM_AFAR], [CLIENT_FROM_AFAR, SERVER]),
            ([SERVER, CLIENT_FROM_AFAR], [SERVER_FROM_AFAR, CLIENT]),
        ] {
            let before = packet(sent[0], sent[1]);
            let mut after = before.clone();
            assert!(exchange(&mut after));
            assert_eq!(after, packet(received[0], received[1]));
            assert_eq!(sum(&after), sum(&before));
        }
    }

    #[test]
    fn nothing_else_comes_back() {
        for (source, target) in [(CLIENT, SERVER), (SERVER, CLIENT), (CLIENT, 7), (5, 6)] {
            assert!(!exchange(&mut packet(source, target)), "{source} {target}");
        }
        assert!(!exchange(&mut [0x60; 40]), "IPv6");
        assert!(!exchange(&mut packet(CLIENT, SERVER_FROM_AFAR)[..19]));
        assert!(!exchange(&mut []));
    }
}
