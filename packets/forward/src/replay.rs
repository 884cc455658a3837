//! In-memory replay: the frames of a capture over and over, without a network.

use crate::capture::Capture;
use crate::engine::{BURST, Engine, Fate};

/// Frames of a capture, laid out as a network card would leave them.
#[derive(Debug)]
pub struct Replay {
    /// With the frames of each link together.
    capture: Capture,
    /// Where frames are copied to: what leaves has been changed.
    buffers: Vec<Vec<u8>>,
}

impl Replay {
    /// Takes over the frames.
    pub fn new(mut capture: Capture) -> Self {
        capture.sort_by_link();
        let longest = capture.frames().map(|(_, frame)| frame.len()).max();
        Replay { capture, buffers: vec![vec![0; longest.unwrap_or(0)]; BURST] }
    }

    /// Sends all frames through an engine once, in bursts, and returns how many there were. What
    /// leaves is counted as sent.
    pub fn pass(&mut self, engine: &mut Engine) -> u64 {
        for (link, frames) in self.capture.bursts(BURST) {
            let pairs = self.buffers.iter_mut().zip(frames);
            let mut copies: Vec<&mut [u8]> = pairs
                .map(|(buffer, frame)| {
                    let copy = &mut buffer[..frame.len()];
                    copy.copy_from_slice(frame);
                    copy
                })
                .collect();
            let mut fates = [Fate::Dropped; BURST];
            let fates = &mut fates[..copies.len()];
            engine.decide(link, &mut copies, fates);
            for fate in fates {
                if let Fate::Port(port) = fate {
                    engine.counts.sent(usize::from(*port), 1);
                }
            }
        }
        self.capture.len() as u64
    }
}
