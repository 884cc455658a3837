//! One thread's share: a ring, and the ports that its frames leave by.

use super::{Interface, Ring};
use crate::engine::{Engine, Fate};
use crate::headers::Link;

/// A port: an interface, and who is behind it.
#[derive(Debug)]
pub struct Port {
    /// The interface.
    pub interface: Interface,
    /// The Ethernet address that frames leaving here are sent to.
    pub neighbour: [u8; 6],
}

/// Forwards what comes in by one ring.
#[derive(Debug)]
pub struct Worker<'a> {
    ring: Ring,
    ports: &'a [Port],
    /// Who decides, and counts.
    pub engine: Engine,
    fates: Vec<Fate>,
}

impl<'a> Worker<'a> {
    /// Forwards from a ring to ports, as an engine decides.
    pub fn new(ring: Ring, ports: &'a [Port], engine: Engine) -> Self {
        Worker { ring, ports, engine, fates: Vec::new() }
    }

    /// Forwards one block of frames, if there is one.
    pub fn turn(&mut self) -> bool {
        let Worker { ring, ports, engine, fates } = self;
        ring.next_block(|frames| {
            fates.clear();
            fates.resize(frames.len(), Fate::Dropped);
            engine.decide(Link::Ethernet, frames, fates);
            for (index, port) in ports.iter().enumerate() {
                let leaving = frames.iter_mut().zip(fates.iter());
                let leaving = leaving.filter(|(_, fate)| **fate == Fate::Port(index as u8));
                let leaving: Vec<&[u8]> = leaving.map(|(frame, _)| port.address(frame)).collect();
                let sent = port.interface.send(&leaving);
                engine.counts.sent(index, sent);
                engine.counts.unsent += leaving.len() as u64 - sent;
            }
        })
    }

    /// Waits for frames, for at most so many milliseconds, and counts those that the kernel had to
    /// drop.
    pub fn rest(&mut self, milliseconds: u32) {
        self.engine.counts.overrun += self.ring.take_overrun();
        self.ring.wait(milliseconds);
    }
}

impl Port {
    /// Addresses a frame to the neighbour.
    fn address<'f>(&self, frame: &'f mut [u8]) -> &'f [u8] {
        frame[..6].copy_from_slice(&self.neighbour);
        frame[6..12].copy_from_slice(&self.interface.address());
        frame
    }
}
