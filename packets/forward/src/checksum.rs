//! Checksums of TCP and UDP that a sender on this machine has left to its network card.

use crate::headers::{self, Link};

/// Fills in the checksum of an Ethernet frame with TCP or UDP over plain IPv4 or IPv6; leaves all
/// other frames as they are.
pub(crate) fn complete(frame: &mut [u8]) {
    let Ok(packet) = headers::parse(Link::Ethernet, frame) else { return };
    let (addresses, protocol, start) = match packet.is_v6 {
        _ if packet.flow.is_some() => return,
        false => (packet.at + 12..packet.at + 20, frame[packet.at + 9], packet.at + 20),
        true => (packet.at + 8..packet.at + 40, frame[packet.at + 6], packet.at + 40),
    };
    let length = match packet.is_v6 {
        false => usize::from(word(frame, packet.at + 2)).saturating_sub(20),
        true => usize::from(word(frame, packet.at + 4)),
    };
    let place = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return,
    };
    if length < place + 2 || frame.len() < start + length {
        return;
    }
    let place = start + place;
    frame[place..place + 2].fill(0);
    let sum = add(&frame[addresses]) + add(&frame[start..start + length]);
    let sum = sum + u64::from(protocol) + length as u64;
    let found = match !fold(sum) {
        // Zero says that there is no checksum.
        0 if protocol == UDP => u16::MAX,
        found => found,
    };
    frame[place..place + 2].copy_from_slice(&found.to_be_bytes());
}

const TCP: u8 = 6;
const UDP: u8 = 17;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The sum of all words; an odd byte at the end is the upper half of one.
fn add(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let pairs: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    pairs + odd.iter().map(|byte| u64::from(*byte) << 8).sum::<u64>()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    #[test]
    fn open_checksums_are_filled_in_as_senders_do() {
        for payload in [&b""[..], b"odd", b"even", &[0xff; 1000]] {
            let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]);
            let v4 = || ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
            let v6 = || ethernet().ipv6([1; 16], [2; 16], 9);
            let mut frames = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
            v4().udp(1, 2).write(&mut frames[0], payload).unwrap();
            v4().tcp(1, 2, 3, 4).write(&mut frames[1], payload).unwrap();
            v6().udp(1, 2).write(&mut frames[2], payload).unwrap();
            v6().tcp(1, 2, 3, 4).write(&mut frames[3], payload).unwrap();
            for (mut frame, place) in frames.into_iter().zip([40, 50, 60, 70]) {
                let right = frame.clone();
                frame[place..place + 2].copy_from_slice(&[0x12, 0x34]);
                complete(&mut frame);
                assert_eq!(frame, right, "{place}");
            }
        }
    }

    #[test]
    fn other_frames_stay_as_they_are() {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 9);
        builder.udp(1, 2).write(&mut frame, b"payload").unwrap();
        frame.truncate(45);
        let before = frame.clone();
        complete(&mut frame);
        assert_eq!(frame, before, "cut");
        let mut frame = vec![7; 60];
        complete(&mut frame);
        assert_eq!(frame, [7; 60]);
    }
}
