//! Decides about bursts of frames.

use widelane_classify::live::Reader;

use crate::counts::Counts;
use crate::headers::{self, Link, Packet, Refusal};
use crate::hop::hop;
use crate::routes::{Action, Routes, UNROUTED};

/// Frames that are decided about side by side.
pub const BURST: usize = 64;

/// What is to be done with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves by a port; its hop has been counted.
    Port(u8),
    /// It has been dropped, and counted.
    Dropped,
}

/// Looks frames up and counts them; each thread has one of its own.
#[derive(Debug)]
pub struct Engine {
    /// For IPv4 and IPv6.
    readers: [Option<Reader>; 2],
    /// What has become of the frames so far.
    pub counts: Counts,
}

/// One burst on its way.
struct Burst {
    packets: [Result<Packet, Refusal>; BURST],
    results: [u32; BURST],
}

impl Burst {
    /// No packet is routed that is not looked up.
    const NEW: Burst = Burst { packets: [Err(Refusal::NotIp); BURST], results: [UNROUTED; BURST] };
}

impl Engine {
    /// Looks packets up in rules for either version of IP, or one of them.
    pub fn new<'a>(routes: impl IntoIterator<Item = &'a Routes>) -> Self {
        let mut readers = [None, None];
        for routes in routes {
            readers[usize::from(routes.is_v6())] = Some(routes.reader());
        }
        Engine { readers, counts: Counts::default() }
    }

    /// Decides about any number of frames, and counts the hop of those that leave. `fates` has one
    /// place for each.
    ///
    /// # Panics
    ///
    /// If `fates` has another length than `frames`.
    pub fn decide(&mut self, link: Link, frames: &mut [&mut [u8]], fates: &mut [Fate]) {
        assert_eq!(frames.len(), fates.len(), "one fate for each frame");
        for (frames, fates) in frames.chunks_mut(BURST).zip(fates.chunks_mut(BURST)) {
            let mut burst = Burst::NEW;
            for (packet, frame) in burst.packets.iter_mut().zip(frames.iter()) {
                *packet = headers::parse(link, frame);
            }
            self.look_up(frames, &mut burst);
            self.counts.received += frames.len() as u64;
            for (index, (frame, fate)) in frames.iter_mut().zip(fates).enumerate() {
                *fate = self.settle(frame, &burst.packets[index], burst.results[index]);
            }
        }
    }

    /// Fills in the results of those packets that can be looked up.
    fn look_up(&mut self, frames: &[&mut [u8]], burst: &mut Burst) {
        for (is_v6, reader) in [false, true].into_iter().zip(&mut self.readers) {
            let Some(reader) = reader else { continue };
            let mut packets: [&[u8]; BURST] = [&[]; BURST];
            let mut owners = [0; BURST];
            let mut count = 0;
            let parsed = burst.packets.iter().zip(frames).enumerate();
            for (owner, (packet, frame)) in parsed {
                let Ok(packet) = packet else { continue };
                if packet.is_v6 == is_v6 {
                    (packets[count], owners[count]) = (packet.key(frame), owner);
                    count += 1;
                }
            }
            let mut results = [0; BURST];
            if count == 0 || reader.classify(&packets[..count], &mut results[..count]).is_err() {
                // Parsed packets are as long as the layouts of `Routes` want them.
                debug_assert_eq!(count, 0);
                continue;
            }
            for (owner, result) in owners[..count].iter().zip(results) {
                burst.results[*owner] = result;
            }
        }
    }

    fn settle(&mut self, frame: &mut [u8], packet: &Result<Packet, Refusal>, result: u32) -> Fate {
        let packet = match packet {
            Ok(packet) if self.readers[usize::from(packet.is_v6)].is_some() => packet,
            Ok(_) => {
                self.counts.other_version += 1;
                return Fate::Dropped;
            }
            Err(refusal) => {
                self.counts.refused[*refusal as usize] += 1;
                return Fate::Dropped;
            }
        };
        let action = Action::of(result);
        self.counts.met(packet.is_v6, action);
        match action {
            Action::Route(port, _) if hop(frame, packet) => Fate::Port(port),
            Action::Route(..) => {
                self.counts.expired += 1;
                Fate::Dropped
            }
            Action::Deny(_) | Action::NoRoute => Fate::Dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use widelane_classify::Limits;
    use widelane_cpu::Policy;

    use super::*;

    const V4: &str = "\
        @10.9.0.0/16 0.0.0.0/0 0 : 65535 0 : 65535 0/0\n\
        R0.0.0.0/0 10.1.0.0/16 0 : 65535 0 : 65535 0/0 1\n";
    const V6: &str = "R::/0 2001:db8::/32 0 : 65535 0 : 65535 0/0 0\n";

    fn v4(source: [u8; 4], destination: [u8; 4], limit: u8) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(source, destination, limit);
        let mut frame = Vec::new();
        builder.udp(1, 2).write(&mut frame, b"").unwrap();
        frame
    }

    fn v6() -> Vec<u8> {
        let mut destination = [0; 16];
        destination[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], destination, 9);
        let mut frame = Vec::new();
        builder.tcp(1, 2, 3, 4).write(&mut frame, b"").unwrap();
        frame
    }

    #[test]
    fn a_packet_that_is_not_looked_up_goes_nowhere() {
        assert!(Burst::NEW.results.iter().all(|result| Action::of(*result) == Action::NoRoute));
    }

    #[test]
    fn every_fate_is_counted() {
        let (limits, policy) = (Limits::default(), Policy::open());
        let routes = |text| Routes::new("r", text, false, 2, &limits, &policy).unwrap();
        let (own, other) = (routes(V4), routes(V6));
        let mut frames = vec![
            v4([1; 4], [10, 1, 0, 1], 64),
            v4([10, 9, 0, 1], [10, 1, 0, 1], 64),
            v4([1; 4], [10, 2, 0, 1], 64),
            v4([1; 4], [10, 1, 0, 1], 1),
            v6(),
            vec![0; 20],
            vec![0; 7],
        ];
        // More than a burst.
        let many = (0..100).map(|_| v4([1; 4], [10, 1, 0, 1], 64));
        frames.extend(many);
        let mut lent: Vec<&mut [u8]> = frames.iter_mut().map(Vec::as_mut_slice).collect();
        let mut fates = vec![Fate::Dropped; lent.len()];
        let mut engine = Engine::new([&own, &other]);
        engine.decide(Link::Ethernet, &mut lent, &mut fates);
        let (one, dropped) = (Fate::Port(1), Fate::Dropped);
        let first = [one, dropped, dropped, dropped, Fate::Port(0), dropped, dropped];
        assert_eq!(fates[..7], first);
        assert!(fates[7..].iter().all(|fate| *fate == one));
        let counts = &engine.counts;
        assert_eq!((counts.received, counts.denied, counts.unrouted), (107, 1, 1));
        assert_eq!((counts.expired, counts.refused, counts.other_version), (1, [1, 1, 0], 0));
        assert_eq!(counts.rules, [vec![1, 102], vec![1]]);
        assert_eq!((frames[0][22], frames[1][22], frames[3][22]), (63, 64, 1));
        let mut engine = Engine::new([&own]);
        let mut lent = [frames[4].as_mut_slice()];
        engine.decide(Link::Ethernet, &mut lent, &mut [Fate::Dropped]);
        assert_eq!(engine.counts.other_version, 1);
    }
}
