//! From a frame to the five fields that rules look at.
//!
//! | Frame | What is looked up |
//! |---|---|
//! | up to three VLAN tags | the packet behind them |
//! | IPv4 with options | the ports behind the options |
//! | an authentication header | that is the protocol, as for nftables: nothing behind it |
//! | IPv6 with extension headers | protocol and ports behind them |
//! | a first fragment | its ports |
//! | a later fragment | ports 0: it has none |
//! | a protocol without ports | ports 0 |
//! | a packet that ends before its ports, or no IP | nothing: a [`Refusal`] |
//!
//! A packet ends where its IP header says, whatever follows in the frame. IPv6 jumbograms, whose
//! header says 0, count as empty.

use crate::flow::Flow;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    Ip,
}

/// Where a packet lies in its frame, and what of it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where the IP header begins.
    pub at: usize,
    /// Whether it is IPv6.
    pub is_v6: bool,
    /// The five fields, where they do not lie in the packet as
    /// [`Layout::ipv4`](crate::rule::Layout::ipv4) and
    /// [`Layout::ipv6`](crate::rule::Layout::ipv6) want them.
    pub flow: Option<Flow>,
    /// Whether it is a fragment other than the first, so that its ports are unknown.
    pub is_later_fragment: bool,
}

impl Packet {
    /// The bytes of a frame that are looked up.
    #[inline]
    pub fn key<'a>(&'a self, frame: &'a [u8]) -> &'a [u8] {
        self.flow.as_ref().map_or(&frame[self.at..], Flow::packet)
    }
}

/// Why a frame is not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// It carries something else: ARP, for one.
    #[error("not-ip")]
    NotIp,
    /// It ends before its ports do.
    #[error("cut")]
    Cut,
    /// Its headers contradict themselves.
    #[error("malformed")]
    Malformed,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 3] = [Refusal::NotIp, Refusal::Cut, Refusal::Malformed];
}

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of a VLAN tag, and how many tags are skipped.
const TAG_BYTES: usize = 4;
const TAGS_MAX: usize = 3;

// IPv6's extension headers; behind an authentication header (51) nothing is looked at.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Finds the fields of a frame.
///
/// # Errors
///
/// If it is no IP packet, or too short for its headers.
#[inline]
pub fn parse(link: Link, frame: &[u8]) -> Result<Packet, Refusal> {
    match plain(link, frame) {
        Some(packet) => Ok(packet),
        None => parse_any(link, frame),
    }
}

/// Nearly all packets: IPv4 without options or IPv6 without extensions, whole, with ports.
#[inline]
fn plain(link: Link, frame: &[u8]) -> Option<Packet> {
    let at = match link {
        Link::Ethernet => ETHERNET_BYTES,
        Link::Ip => 0,
    };
    let is_type = |of: [u8; 2]| link == Link::Ip || frame[12..14] == of;
    let packet = frame.get(at..)?;
    let (is_v6, protocol) = match packet {
        [0x45, _, _, _, _, _, flags, offset, _, protocol, ..] if is_type([0x08, 0x00]) => {
            let is_whole = flags & 0x3f == 0 && *offset == 0;
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            (is_whole && length >= 24 && packet.len() >= 24).then_some((false, *protocol))?
        }
        [0x60..=0x6f, _, _, _, _, _, protocol, ..] if is_type([0x86, 0xdd]) => {
            let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            (length >= 4 && packet.len() >= 44).then_some((true, *protocol))?
        }
        _ => return None,
    };
    has_ports(protocol).then_some(Packet { at, is_v6, flow: None, is_later_fragment: false })
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite begin with a source and a destination port.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

fn parse_any(link: Link, frame: &[u8]) -> Result<Packet, Refusal> {
    let (at, is_v6) = match link {
        Link::Ethernet => behind_tags(frame)?,
        Link::Ip => match frame.first().ok_or(Refusal::Cut)? >> 4 {
            4 => (0, false),
            6 => (0, true),
            _ => return Err(Refusal::Malformed),
        },
    };
    let packet = frame.get(at..).ok_or(Refusal::Cut)?;
    let (flow, is_later_fragment) = match is_v6 {
        false => flow_v4(packet)?,
        true => flow_v6(packet)?,
    };
    Ok(Packet { at, is_v6, flow: Some(flow), is_later_fragment })
}

/// Where the IP header of an Ethernet frame begins, and whether it is IPv6's.
fn behind_tags(frame: &[u8]) -> Result<(usize, bool), Refusal> {
    let mut at = ETHERNET_BYTES;
    for _ in 0..=TAGS_MAX {
        match frame.get(at - 2..at) {
            None => return Err(Refusal::Cut),
            Some([0x08, 0x00]) => return Ok((at, false)),
            Some([0x86, 0xdd]) => return Ok((at, true)),
            Some([0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00]) => at += TAG_BYTES,
            Some(_) => return Err(Refusal::NotIp),
        }
    }
    Err(Refusal::NotIp)
}

/// The fields of an IPv4 packet, and whether it is a later fragment.
fn flow_v4(packet: &[u8]) -> Result<(Flow, bool), Refusal> {
    if packet.first().is_some_and(|first| !(0x45..=0x4f).contains(first)) {
        return Err(Refusal::Malformed);
    }
    let header = packet.first_chunk::<20>().ok_or(Refusal::Cut)?;
    let header_bytes = 4 * usize::from(header[0] & 0xf);
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if length < header_bytes {
        return Err(Refusal::Malformed);
    }
    let payload = packet[..length.min(packet.len())].get(header_bytes..).ok_or(Refusal::Cut)?;
    let is_later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let [.., a, b, c, d, e, f, g, h] = *header;
    let (source, destination) =
        (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let ports = ports(payload, header[9], is_later)?;
    Ok((Flow::v4(source, destination, ports, header[9]), is_later))
}

/// The fields of an IPv6 packet, and whether it is a later fragment.
fn flow_v6(packet: &[u8]) -> Result<(Flow, bool), Refusal> {
    if packet.first().is_some_and(|first| first >> 4 != 6) {
        return Err(Refusal::Malformed);
    }
    let (header, payload) = packet.split_first_chunk::<40>().ok_or(Refusal::Cut)?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = &payload[..length.min(payload.len())];
    let (protocol, payload, is_later) = behind_extensions(header[6], payload)?;
    let address = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte));
    let ports = ports(payload, protocol, is_later)?;
    let flow = Flow::v6(address(&header[8..24]), address(&header[24..]), ports, protocol);
    Ok((flow, is_later))
}

/// The protocol behind IPv6's extension headers, its bytes, and whether those belong to a later
/// fragment: then the first of them is in the middle of something. `first` and `payload` are what
/// the IPv6 header names and what follows it.
///
/// # Errors
///
/// If the payload ends within such a header, or one stands where it may not.
pub fn behind_extensions(first: u8, mut payload: &[u8]) -> Result<(u8, &[u8], bool), Refusal> {
    let mut next = first;
    let mut is_first = true;
    loop {
        let bytes = match next {
            FRAGMENT => 8,
            // Each hop looks at these options, so they stand before all else.
            HOP_BY_HOP if !is_first => return Err(Refusal::Malformed),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                8 + 8 * usize::from(*payload.get(1).ok_or(Refusal::Cut)?)
            }
            protocol => return Ok((protocol, payload, false)),
        };
        let (header, behind) = payload.split_at_checked(bytes).ok_or(Refusal::Cut)?;
        let is_fragment = next == FRAGMENT;
        next = header[0];
        if is_fragment && u16::from_be_bytes([header[2], header[3]]) >> 3 != 0 {
            return Ok((next, behind, true));
        }
        (payload, is_first) = (behind, false);
    }
}

/// Source and destination port; zeros where there are none.
fn ports(payload: &[u8], protocol: u8, is_later: bool) -> Result<[u16; 2], Refusal> {
    if is_later || !has_ports(protocol) {
        return Ok([0, 0]);
    }
    match *payload {
        [a, b, c, d, ..] => Ok([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]),
        _ => Err(Refusal::Cut),
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{Ipv4Header, PacketBuilder};
    use widelane_testkit::random::Random;

    use super::*;
    use crate::rule::Layout;

    const A: [u8; 4] = [10, 1, 2, 3];
    const B: [u8; 4] = [192, 168, 0, 1];

    fn udp() -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(A, B, 64).udp(1000, 53);
        builder.write(&mut frame, b"payload").unwrap();
        frame
    }

    /// An IPv4 packet with a header of our own over a payload.
    fn v4(change: impl Fn(&mut Ipv4Header), protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = Ipv4Header::new(payload.len() as u16, 64, protocol.into(), A, B).unwrap();
        change(&mut header);
        header.header_checksum = header.calc_header_checksum();
        let mut packet = Vec::new();
        header.write(&mut packet).unwrap();
        packet.extend_from_slice(payload);
        packet
    }

    /// An IPv6 packet whose payload begins with `next`.
    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 64];
        packet.extend([[1; 16], [2; 16]].concat());
        packet.extend_from_slice(payload);
        packet
    }

    fn flow_v4(ports: [u16; 2], protocol: u8) -> Flow {
        Flow::v4(u32::from_be_bytes(A), u32::from_be_bytes(B), ports, protocol)
    }

    fn flow_v6(ports: [u16; 2], protocol: u8) -> Flow {
        let address = |byte| u128::from_be_bytes([byte; 16]);
        Flow::v6(address(1), address(2), ports, protocol)
    }

    fn flow(packet: &[u8]) -> Result<Flow, Refusal> {
        parse(Link::Ip, packet).map(|packet| packet.flow.expect("not in its place"))
    }

    const PORTS: [u8; 8] = [0x03, 0xe8, 0, 53, 0, 8, 0, 0];

    #[test]
    fn plain_packets_are_looked_up_where_they_lie() {
        let frame = udp();
        let packet = parse(Link::Ethernet, &frame).unwrap();
        assert_eq!((packet.at, packet.is_v6, packet.flow), (14, false, None));
        // What is slow finds the same.
        let slow = parse_any(Link::Ethernet, &frame).unwrap();
        assert_eq!((slow.at, slow.flow), (14, Some(flow_v4([1000, 53], 17))));
        assert_eq!(parse(Link::Ip, &frame[14..]).unwrap().at, 0);
        let packet = v6(6, &[PORTS; 3].concat());
        let found = parse(Link::Ip, &packet).unwrap();
        assert_eq!((found.at, found.is_v6, found.flow), (0, true, None));
        let slow = parse_any(Link::Ip, &packet).unwrap();
        assert_eq!(slow.flow, Some(flow_v6([1000, 53], 6)));
    }

    #[test]
    fn tags_are_skipped() {
        let frame = udp();
        for (kinds, at) in [(&[[0x81u8, 0x00]][..], 18), (&[[0x88, 0xa8], [0x81, 0x00]], 22)] {
            let tags: Vec<u8> = kinds.iter().flat_map(|kind| [kind[0], kind[1], 0, 7]).collect();
            let tagged = [&frame[..12], &tags, &frame[12..]].concat();
            let packet = parse(Link::Ethernet, &tagged).unwrap();
            assert_eq!((packet.at, packet.flow), (at, Some(flow_v4([1000, 53], 17))));
        }
    }

    #[test]
    fn ports_are_found_behind_options_and_extensions() {
        let options = |header: &mut Ipv4Header| header.options = [1, 1, 1, 0].into();
        let packet = v4(options, 17, &PORTS);
        assert_eq!(packet[0], 0x46);
        assert_eq!(flow(&packet), Ok(flow_v4([1000, 53], 17)));
        // Hop-by-hop options, then destination options, then UDP.
        let extensions = [[60u8, 0, 1, 4, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0], PORTS];
        assert_eq!(flow(&v6(0, &extensions.concat())), Ok(flow_v6([1000, 53], 17)));
    }

    #[test]
    fn later_fragments_and_other_protocols_have_no_ports() {
        let first = |header: &mut Ipv4Header| header.more_fragments = true;
        assert_eq!(flow(&v4(first, 17, &PORTS)), Ok(flow_v4([1000, 53], 17)));
        let later = |header: &mut Ipv4Header| header.fragment_offset = 8.try_into().unwrap();
        assert_eq!(flow(&v4(later, 17, &PORTS)), Ok(flow_v4([0, 0], 17)));
        assert_eq!(flow(&v4(|_| (), 1, &PORTS)), Ok(flow_v4([0, 0], 1)));
        for (offset, ports) in [(1, [1000, 53]), (9, [0, 0])] {
            let fragment = [[17u8, 0, 0, offset, 0, 0, 0, 1], PORTS].concat();
            assert_eq!(flow(&v6(44, &fragment)), Ok(flow_v6(ports, 17)));
        }
    }

    #[test]
    fn what_is_authenticated_is_not_looked_into() {
        let header = [[17u8, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0, 0]].concat();
        let authenticated = [&header[..12], &PORTS].concat();
        assert_eq!(flow(&v4(|_| (), 51, &authenticated)), Ok(flow_v4([0, 0], 51)));
        assert_eq!(flow(&v4(|_| (), 51, &authenticated[..5])), Ok(flow_v4([0, 0], 51)));
        let zero_length = [&[17, 0], &authenticated[2..]].concat();
        assert_eq!(flow(&v4(|_| (), 51, &zero_length)), Ok(flow_v4([0, 0], 51)));
        let behind_options = [&[51, 0, 1, 4, 0, 0, 0, 0], &authenticated[..]].concat();
        for (next, payload) in
            [(51, &authenticated[..]), (51, &authenticated[..5]), (60, &behind_options)]
        {
            assert_eq!(flow(&v6(next, payload)), Ok(flow_v6([0, 0], 51)));
        }
    }

    #[test]
    fn every_cut_is_refused_until_the_ports_are_there() {
        let frame = udp();
        for length in 0..frame.len() {
            let parsed = parse(Link::Ethernet, &frame[..length]);
            match length {
                0..38 => assert_eq!(parsed, Err(Refusal::Cut), "{length}"),
                _ => assert_eq!(parsed.map(|packet| packet.flow), Ok(None), "{length}"),
            }
        }
        let packet = v6(0, &[&[17u8, 0, 1, 4, 0, 0, 0, 0][..], &PORTS].concat());
        for length in 0..packet.len() {
            let parsed = parse(Link::Ip, &packet[..length]);
            assert_eq!(parsed.is_ok(), length >= 52, "{length}: {parsed:?}");
        }
        // The packet says that it ends before its ports, whatever follows in the frame.
        let short = |header: &mut Ipv4Header| header.total_len = 22;
        assert_eq!(flow(&v4(short, 17, &PORTS)), Err(Refusal::Cut));
    }

    #[test]
    fn what_is_no_ip_is_refused() {
        let mut frame = udp();
        frame[13] = 0x06;
        assert_eq!(parse(Link::Ethernet, &frame), Err(Refusal::NotIp));
        frame[12..14].copy_from_slice(&[0x88, 0xcc]);
        assert_eq!(parse(Link::Ethernet, &frame), Err(Refusal::NotIp));
        let mut packet = v4(|_| (), 17, &PORTS);
        packet[0] = 0x42;
        assert_eq!(parse(Link::Ip, &packet), Err(Refusal::Malformed));
        packet[0] = 0x75;
        assert_eq!(parse(Link::Ip, &packet), Err(Refusal::Malformed));
    }

    #[test]
    fn a_packet_ends_where_its_header_says() {
        // What follows is padding, as far as the packet is concerned.
        for length in 0..20 {
            let short = |header: &mut Ipv4Header| header.total_len = length;
            assert_eq!(flow(&v4(short, 17, &PORTS)), Err(Refusal::Malformed), "{length}");
            assert_eq!(flow(&v4(short, 1, &PORTS)), Err(Refusal::Malformed), "{length}");
        }
        let within_options = |header: &mut Ipv4Header| {
            header.options = [1, 1, 1, 0].into();
            header.total_len = 23;
        };
        assert_eq!(flow(&v4(within_options, 17, &PORTS)), Err(Refusal::Malformed));
        // Nor has IPv6 a payload if its length is 0, be there an option of jumbograms or not.
        let jumbo = [17u8, 0, 0xc2, 4, 0, 0, 0, 16];
        for (next, payload) in [(17, PORTS.to_vec()), (0, [jumbo, PORTS].concat())] {
            let mut packet = v6(next, &payload);
            packet[5] = 0;
            assert_eq!(flow(&packet), Err(Refusal::Cut), "{next}");
        }
        let mut packet = v6(58, &PORTS);
        packet[5] = 0;
        assert_eq!(flow(&packet), Ok(flow_v6([0, 0], 58)));
    }

    #[test]
    fn a_later_fragment_is_not_looked_into() {
        // Its bytes may look like an extension header, a fragment header or its first fragment's.
        for next in [0, 17, 43, 44, 51, 60] {
            let fragment = [[next, 0, 0, 8, 0, 0, 0, 1], [17, 0, 0, 0, 0, 0, 0, 0], PORTS];
            let packet = v6(44, &fragment.concat());
            let found = parse(Link::Ip, &packet).unwrap();
            assert_eq!(found.flow, Some(flow_v6([0, 0], next)), "{next}");
            assert!(found.is_later_fragment);
            // A single byte is as good.
            assert_eq!(flow(&v6(44, &fragment.concat()[..9])), Ok(flow_v6([0, 0], next)));
        }
        let first = [[60u8, 0, 0, 1, 0, 0, 0, 1], [17, 0, 1, 4, 0, 0, 0, 0], PORTS].concat();
        assert_eq!(flow(&v6(44, &first)), Ok(flow_v6([1000, 53], 17)));
        let later = |header: &mut Ipv4Header| header.fragment_offset = 8.try_into().unwrap();
        assert!(parse(Link::Ip, &v4(later, 17, &PORTS)).unwrap().is_later_fragment);
    }

    #[test]
    fn options_for_each_hop_stand_first() {
        let extensions = [[0u8, 0, 1, 4, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0], PORTS].concat();
        assert_eq!(flow(&v6(60, &extensions)), Err(Refusal::Malformed));
    }

    /// The five fields that a lookup sees.
    fn fields(key: &[u8], is_v6: bool) -> Vec<u128> {
        let layout = if is_v6 { Layout::ipv6() } else { Layout::ipv4() };
        layout.fields().iter().map(|field| layout.value(field, key)).collect()
    }

    #[test]
    fn changed_bytes_never_make_fields_of_what_lies_outside() {
        let extensions = [[60u8, 0, 1, 4, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0], PORTS].concat();
        let fragment = [[17u8, 0, 0, 1, 0, 0, 0, 1], PORTS].concat();
        let options = |header: &mut Ipv4Header| header.options = [1, 1, 1, 0].into();
        let packets =
            [udp()[14..].to_vec(), v4(options, 6, &PORTS), v6(0, &extensions), v6(44, &fragment)];
        let mut random = Random::new(7);
        let mut looked_up = 0;
        for _ in 0..100_000 {
            let mut packet = packets[random.below(packets.len())].clone();
            for _ in 0..random.below(4) {
                // Mostly in the first bytes, which say how all else is read.
                let place = random.below(packet.len());
                let value = [random.below(256), random.below(8), 44, 60][random.below(4)];
                packet[place] = value as u8;
            }
            // Behind the packet's own end lies something else.
            let length = match packet[0] >> 4 {
                4 => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
                _ => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
            };
            packet.truncate(length.max(packet.len() - random.below(3)));
            let parsed = parse(Link::Ip, &packet);
            let padded = [&packet[..length.min(packet.len())], &[0xee; 90]].concat();
            let Ok(found) = parsed else { continue };
            looked_up += 1;
            let own = fields(found.key(&packet), found.is_v6);
            let slow = parse_any(Link::Ip, &packet).unwrap();
            assert_eq!(own, fields(slow.key(&packet), slow.is_v6), "{packet:x?}");
            if length <= packet.len() {
                let other = parse(Link::Ip, &padded).unwrap();
                assert_eq!(own, fields(other.key(&padded), other.is_v6), "{packet:x?}");
            }
        }
        assert!(looked_up > 20_000, "{looked_up}");
    }
}
