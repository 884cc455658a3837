//! One thread's share: a ring, and the ports that its frames leave by.

use super::segments::{Leaving, Unknown};
use super::{Block, Interface, Offload, PortError, Ring};
use crate::counts::Counts;
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

/// A frame, the port that it leaves by, and what is left to the card there.
type Routed<'f> = (u8, &'f mut [u8], Offload);

/// How many blocks are forwarded between two such questions: half of a ring.
const BLOCKS_BETWEEN: u32 = Ring::BLOCKS as u32 / 2;

impl<'a> Worker<'a> {
    /// Forwards from a ring to ports, as an engine decides.
    pub fn new(ring: Ring, ports: &'a [Port], mut engine: Engine) -> Self {
        engine.counts.sent.resize(ports.len(), 0);
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
            let decided = frames.into_iter().zip(offloads).zip(&*fates);
            let mut leaving: Vec<Routed<'_>> = decided
                .filter_map(|((frame, offload), fate)| match *fate {
                    Fate::Port(port) => Some((port, frame, offload)),
                    Fate::Dropped => None,
                })
                .collect();
            leaving.sort_by_key(|(port, ..)| *port);
            for frames in leaving.chunk_by_mut(|(one, ..), (other, ..)| one == other) {
                let port = usize::from(frames[0].0);
                if let Err(error) = ports[port].send(port, frames, &mut engine.counts) {
                    outcome = Err(error);
                }
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
    /// Sends frames to the neighbour, and counts them as those of a port.
    fn send(
        &self,
        port: usize,
        frames: &mut [Routed<'_>],
        counts: &mut Counts,
    ) -> Result<(), PortError> {
        let count = frames.len() as u64;
        let own = self.interface.address().inspect_err(|_| counts.unsent += count)?;
        let mut leaving = Vec::with_capacity(frames.len());
        for (_, frame, offload) in frames {
            frame[..6].copy_from_slice(&self.neighbour);
            frame[6..12].copy_from_slice(&own);
            match Leaving::of(frame, *offload) {
                Ok(frame) => leaving.push(frame),
                Err(Unknown) => counts.unsegmented += 1,
            }
        }
        let pieces = leaving.iter().zip(0..).flat_map(|(frame, owner)| {
            frame.pieces().map(move |(piece, offload)| (owner, (piece, offload)))
        });
        let (owners, pieces): (Vec<usize>, Vec<(&[u8], Offload)>) = pieces.unzip();
        let outcome = self.interface.send(&pieces);
        // A frame that was cut has been sent if all of it has.
        let unsent = match &outcome {
            Ok(places) => {
                let mut frames: Vec<usize> = places.iter().map(|place| owners[*place]).collect();
                frames.dedup();
                frames.len()
            }
            Err(_) => leaving.len(),
        };
        counts.unsent += unsent as u64;
        counts.sent(port, (leaving.len() - unsent) as u64);
        outcome.map(drop)
    }
}
