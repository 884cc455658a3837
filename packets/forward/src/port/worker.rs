//! One thread's share: a ring, and the ports that its frames leave by.

use super::{Block, Interface, Offload, PortError, Ring};
use crate::engine::{Engine, Fate};
use crate::headers::Link;

/// A port: an interface, and the neighbour behind it.
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
    /// What decides about frames, and counts them.
    pub engine: Engine,
    fates: Vec<Fate>,
    /// Blocks until the kernel is asked again what it has dropped.
    patience: u32,
}

/// How many blocks are forwarded between two such questions: half of a ring.
const BLOCKS_BETWEEN: u32 = Ring::BLOCKS as u32 / 2;

impl<'a> Worker<'a> {
    /// Forwards from a ring to ports, as an engine decides.
    pub fn new(ring: Ring, ports: &'a [Port], engine: Engine) -> Self {
        Worker { ring, ports, engine, fates: Vec::new(), patience: BLOCKS_BETWEEN }
    }

    /// Forwards one block of frames, if there is one.
    ///
    /// # Errors
    ///
    /// If the interface of a port has been removed.
    pub fn turn(&mut self) -> Result<bool, PortError> {
        let Worker { ring, ports, engine, fates, .. } = self;
        let mut outcome = Ok(());
        let was_there = ring.next_block(|block| {
            let Block { mut frames, offloads, not_addressed } = block;
            engine.counts.not_addressed(not_addressed);
            fates.clear();
            fates.resize(frames.len(), Fate::Dropped);
            engine.decide(Link::Ethernet, &mut frames, fates);
            let mut queues: Vec<Vec<(&[u8], Offload)>> = vec![Vec::new(); ports.len()];
            for ((frame, offload), fate) in frames.into_iter().zip(offloads).zip(&*fates) {
                if let Fate::Port(port) = *fate {
                    let port = usize::from(port);
                    queues[port].push((ports[port].address(frame), offload));
                }
            }
            for (index, (leaving, port)) in queues.iter().zip(&**ports).enumerate() {
                let sent = port.interface.send(leaving).unwrap_or_else(|error| {
                    outcome = Err(error);
                    0
                });
                engine.counts.sent(index, sent);
                engine.counts.unsent += leaving.len() as u64 - sent;
            }
        });
        if was_there {
            self.patience -= 1;
            if self.patience == 0 {
                self.count_overrun();
            }
        }
        outcome.map(|()| was_there)
    }

    /// Forwards what is in the ring by now, and counts what is to be counted: no more blocks than
    /// the ring has, however many frames come meanwhile. Returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`turn`](Self::turn).
    pub fn drain(&mut self) -> Result<usize, PortError> {
        let mut blocks = 0;
        while blocks < Ring::BLOCKS && self.turn()? {
            blocks += 1;
        }
        self.count_overrun();
        Ok(blocks)
    }

    /// Waits for frames, for at most so many milliseconds, and counts those that the kernel had to
    /// drop.
    ///
    /// # Errors
    ///
    /// If the interface of the ring has been removed.
    pub fn rest(&mut self, milliseconds: u32) -> Result<(), PortError> {
        self.count_overrun();
        self.ring.wait(milliseconds)
    }

    fn count_overrun(&mut self) {
        self.patience = BLOCKS_BETWEEN;
        self.engine.counts.overrun += self.ring.take_overrun();
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
