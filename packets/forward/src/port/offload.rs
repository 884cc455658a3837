//! What the sender of a frame has left to a network card: to cut it into segments, and to fill in
//! a checksum.

/// The header that the kernel puts before each frame that comes in, and wants before each that
/// leaves: `struct virtio_net_hdr` of linux/virtio_net.h.
///
/// A frame leaves with the header that it came in with, unless it is cut here. So the kernel has
/// the card of the port that it leaves by do what was left to it, or does it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload([u8; Offload::BYTES]);

/// A flag: the checksum is to be filled in. All others are about checksums that are right.
const NEEDS_CHECKSUM: u8 = 1;
/// Where SCTP has its checksum; no other protocol's lies there.
const SCTP_CHECKSUM: usize = 8;

// Kinds of generic segmentation offload (`VIRTIO_NET_HDR_GSO_…`).
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// A flag beside them: of the segments of TCP only the first has CWR.
const GSO_ECN: u8 = 0x80;

/// How a frame is to be cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segmentation {
    /// Where the header of TCP or UDP begins.
    pub transport: usize,
    /// Its protocol, as IP has it; 0 if it is none of these two.
    pub protocol: u8,
    /// The most bytes of data in a segment.
    pub size: usize,
    /// Whether only the first segment of TCP has the flag CWR (RFC 3168).
    pub has_ecn: bool,
}

impl Offload {
    /// Bytes of the header.
    pub const BYTES: usize = 10;

    /// Takes over the header of a frame.
    ///
    /// The header cannot say that a checksum is SCTP's, which is of another kind than all others,
    /// so that one is filled in here.
    pub(super) fn of(mut header: [u8; Self::BYTES], frame: &mut [u8]) -> Self {
        header[0] &= NEEDS_CHECKSUM;
        let (start, place) = (word(&header, 6), word(&header, 8));
        if header[0] == NEEDS_CHECKSUM && place == SCTP_CHECKSUM {
            complete_sctp(frame.get_mut(start..).unwrap_or_default());
            header = [0; Self::BYTES];
        }
        Offload(header)
    }

    /// How the frame is to be cut, if it is. Where the checksum is not left open, the kernel does
    /// not say where the segments begin, and finds that itself.
    pub(super) fn segmentation(&self) -> Option<Segmentation> {
        let Offload(header) = self;
        let kind = header[1] & !GSO_ECN;
        (kind != 0 && header[0] == NEEDS_CHECKSUM).then(|| Segmentation {
            transport: word(header, 6),
            protocol: match kind {
                GSO_TCPV4 | GSO_TCPV6 => 6,
                GSO_UDP_L4 => 17,
                _ => 0,
            },
            size: word(header, 4),
            has_ecn: header[1] & GSO_ECN != 0,
        })
    }

    /// The header's bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn word(header: &[u8; Offload::BYTES], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([header[at], header[at + 1]]))
}

/// Fills in the checksum of an SCTP packet (RFC 9260, 6.8).
fn complete_sctp(packet: &mut [u8]) {
    let Some(place) = packet.get_mut(SCTP_CHECKSUM..SCTP_CHECKSUM + 4) else { return };
    place.fill(0);
    let sum = crc32c(packet).to_le_bytes();
    packet[SCTP_CHECKSUM..SCTP_CHECKSUM + 4].copy_from_slice(&sum);
}

/// The checksum of Castagnoli's polynomial, lowest bit first.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u32, 0);
            while bit < 8 {
                value = value >> 1 ^ if value & 1 == 1 { 0x82f6_3b78 } else { 0 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    /// A header that leaves a checksum to the card.
    fn header(flags: u8, start: u16, place: u16) -> [u8; 10] {
        let (start, place) = (start.to_ne_bytes(), place.to_ne_bytes());
        [flags, 0, 0, 0, 0, 0, start[0], start[1], place[0], place[1]]
    }

    #[test]
    fn an_open_checksum_of_sctp_is_filled_in_wherever_it_lies() {
        // Behind IPv4's header with options: 14 bytes of Ethernet, 24 of IPv4.
        let mut frame: Vec<u8> = (0..74).collect();
        let mut wanted = frame.clone();
        wanted[46..50].fill(0);
        let sum = crc32c(&wanted[38..]).to_le_bytes();
        wanted[46..50].copy_from_slice(&sum);
        let offload = Offload::of(header(1, 38, 8), &mut frame);
        assert_eq!((&frame, offload), (&wanted, Offload::default()));
        // One that lies outside is not.
        for start in [frame.len() as u16 - 11, u16::MAX] {
            Offload::of(header(1, start, 8), &mut frame);
            assert_eq!(frame, wanted);
        }
    }

    #[test]
    fn other_open_checksums_are_left_to_whoever_sends_the_frame() {
        let mut frame = vec![7; 74];
        for place in [16, 6] {
            let given = [&header(3, 38, place)[..1], &[1, 54, 0, 0xb4, 5], &[38, 0, 6, 0]].concat();
            let given = <[u8; 10]>::try_from(given).unwrap();
            let offload = Offload::of(given, &mut frame);
            assert_eq!((offload.bytes()[0], &offload.bytes()[1..]), (1, &given[1..]));
            let wanted = Segmentation { transport: 38, protocol: 6, size: 1460, has_ecn: false };
            assert_eq!(offload.segmentation(), Some(wanted));
        }
        // A checksum that is right needs nothing.
        let offload = Offload::of(header(2, 0, 0), &mut frame);
        assert_eq!((offload, frame), (Offload::default(), vec![7; 74]));
    }
}
