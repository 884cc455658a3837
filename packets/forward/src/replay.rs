//! In-memory replay: the frames of a capture over and over, without a network.

use crate::capture::Capture;
use crate::engine::{BURST, Engine, Fate};
use crate::headers::Link;

/// Frames of a capture, laid out as a network card would leave them.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Frames of one link after the other.
    links: Vec<(Link, Vec<Vec<u8>>)>,
    /// Where frames are copied to: what leaves has been changed.
    buffers: Vec<Vec<u8>>,
}

impl Replay {
    /// Takes over the frames.
    pub fn new(capture: &Capture) -> Self {
        let of = |wanted: Link| -> Vec<Vec<u8>> {
            let frames = capture.frames().filter(|(link, _)| *link == wanted);
            frames.map(|(_, frame)| frame.to_vec()).collect()
        };
        let links = [Link::Ethernet, Link::Ip].map(|link| (link, of(link)));
        let links: Vec<_> = links.into_iter().filter(|(_, frames)| !frames.is_empty()).collect();
        let longest = links.iter().flat_map(|(_, frames)| frames).map(Vec::len).max();
        Replay { links, buffers: vec![vec![0; longest.unwrap_or(0)]; BURST] }
    }

    /// Sends all frames through an engine once, in bursts, and returns how many there were. What
    /// leaves is counted as sent.
    pub fn pass(&mut self, engine: &mut Engine) -> u64 {
        let mut passed = 0;
        for (link, frames) in &self.links {
            for frames in frames.chunks(BURST) {
                let pairs = self.buffers.iter_mut().zip(frames);
                let mut copies: Vec<&mut [u8]> = pairs
                    .map(|(buffer, frame)| {
                        let copy = &mut buffer[..frame.len()];
                        copy.copy_from_slice(frame);
                        copy
                    })
                    .collect();
                let mut fates = [Fate::Dropped; BURST];
                engine.decide(*link, &mut copies, &mut fates[..frames.len()]);
                for fate in &fates[..frames.len()] {
                    if let Fate::Port(port) = fate {
                        engine.counts.sent(usize::from(*port), 1);
                    }
                }
                passed += frames.len() as u64;
            }
        }
        passed
    }
}
