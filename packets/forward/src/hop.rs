//! What a forwarder changes in a packet.

use crate::headers::Packet;

/// Counts a hop: the packet at `at` gets a time to live that is one less, and IPv4's checksum
/// follows (RFC 1624). Returns whether it may go on; if not, nothing has been changed.
#[inline]
pub(crate) fn hop(frame: &mut [u8], packet: &Packet) -> bool {
    let Some(header) = frame.get_mut(packet.at..) else { return false };
    match (packet.is_v6, header) {
        (true, [_, _, _, _, _, _, _, limit, ..]) if *limit > 1 => {
            *limit -= 1;
            true
        }
        (false, [_, _, _, _, _, _, _, _, limit, protocol, high, low, ..]) if *limit > 1 => {
            let before = u16::from_be_bytes([*limit, *protocol]);
            *limit -= 1;
            let after = u16::from_be_bytes([*limit, *protocol]);
            let sum = u32::from(!u16::from_be_bytes([*high, *low]))
                + u32::from(!before)
                + u32::from(after);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            [*high, *low] = (!(sum as u16)).to_be_bytes();
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{Ipv4Header, Ipv4HeaderSlice};

    use super::*;
    use crate::headers::{Link, parse};

    #[test]
    fn a_hop_keeps_the_checksum_right() {
        for seed in 0..=u16::MAX {
            let identify = |header: &mut Ipv4Header| {
                header.identification = seed;
                header.time_to_live = (seed % 256) as u8;
            };
            let mut header = Ipv4Header::new(8, 64, 6.into(), [10, 1, 2, 3], [9; 4]).unwrap();
            identify(&mut header);
            header.header_checksum = header.calc_header_checksum();
            let mut packet = Vec::new();
            header.write(&mut packet).unwrap();
            packet.extend([1, 2, 3, 4, 5, 6, 7, 8]);
            let before = packet.clone();
            let place = parse(Link::Ip, &packet).unwrap();
            if !hop(&mut packet, &place) {
                assert!(before[8] <= 1 && packet == before);
                continue;
            }
            let header = Ipv4HeaderSlice::from_slice(&packet).unwrap();
            assert_eq!(header.ttl(), before[8] - 1);
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        }
        let mut packet = vec![0; 48];
        (packet[0], packet[5], packet[6], packet[7]) = (0x60, 8, 17, 64);
        let place = parse(Link::Ip, &packet).unwrap();
        assert!(hop(&mut packet, &place) && packet[7] == 63);
        packet[7] = 1;
        assert!(!hop(&mut packet, &place) && packet[7] == 1);
    }
}
