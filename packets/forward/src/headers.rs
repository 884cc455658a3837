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

use etherparse::err::Layer;
use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxIpPayloadSlice, LaxNetSlice, LaxSlicedPacket};
use widelane_classify::Flow;

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
    /// [`Layout::ipv4`](widelane_classify::rule::Layout::ipv4) and
    /// [`Layout::ipv6`](widelane_classify::rule::Layout::ipv6) want them.
    pub flow: Option<Flow>,
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
    has_ports(protocol).then_some(Packet { at, is_v6, flow: None })
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite begin with a source and a destination port.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

fn parse_any(link: Link, frame: &[u8]) -> Result<Packet, Refusal> {
    let sliced = match link {
        Link::Ethernet => LaxSlicedPacket::from_ethernet(frame).map_err(|_| Refusal::Cut)?,
        Link::Ip => LaxSlicedPacket::from_ip(frame).map_err(|error| match error {
            etherparse::err::ip::LaxHeaderSliceError::Len(_) => Refusal::Cut,
            etherparse::err::ip::LaxHeaderSliceError::Content(_) => Refusal::Malformed,
        })?,
    };
    let stopped = match &sliced.stop_err {
        // What is behind the ports is of no interest.
        Some((_, Layer::TcpHeader | Layer::UdpHeader | Layer::UdpPayload | Layer::Icmpv4))
        | Some((_, Layer::Icmpv6 | Layer::IpAuthHeader))
        | None => None,
        Some((etherparse::err::packet::SliceError::Len(_), _)) => Some(Refusal::Cut),
        Some(_) => Some(Refusal::Malformed),
    };
    let net = sliced.net.as_ref().ok_or(stopped.unwrap_or(Refusal::NotIp))?;
    if let Some(refusal) = stopped {
        return Err(refusal);
    }
    let at = |header: &[u8]| header.as_ptr().addr() - frame.as_ptr().addr();
    match net {
        LaxNetSlice::Ipv4(packet) => {
            let header = packet.header();
            let (protocol, is_later) = (header.protocol(), header.fragments_offset().value() != 0);
            let ports = ports(packet.payload(), protocol, is_later)?;
            let (source, destination) =
                (u32::from_be_bytes(header.source()), u32::from_be_bytes(header.destination()));
            let flow = Flow::v4(source, destination, ports, protocol.0);
            Ok(Packet { at: at(header.slice()), is_v6: false, flow: Some(flow) })
        }
        LaxNetSlice::Ipv6(packet) => {
            let header = packet.header();
            let is_later = packet.extensions().clone().into_iter().any(|extension| {
                matches!(extension, Ipv6ExtensionSlice::Fragment(fragment)
                    if fragment.fragment_offset().value() != 0)
            });
            let is_authenticated = (packet.extensions().clone().into_iter())
                .any(|extension| matches!(extension, Ipv6ExtensionSlice::Authentication(_)));
            let protocol = match is_authenticated {
                true => IpNumber::AUTHENTICATION_HEADER,
                false => packet.payload().ip_number,
            };
            let ports = ports(packet.payload(), protocol, is_later)?;
            let (source, destination) =
                (u128::from_be_bytes(header.source()), u128::from_be_bytes(header.destination()));
            let flow = Flow::v6(source, destination, ports, protocol.0);
            Ok(Packet { at: at(header.slice()), is_v6: true, flow: Some(flow) })
        }
        LaxNetSlice::Arp(_) => Err(Refusal::NotIp),
    }
}

/// Source and destination port; zeros where there are none.
fn ports(
    payload: &LaxIpPayloadSlice<'_>,
    protocol: IpNumber,
    is_later: bool,
) -> Result<[u16; 2], Refusal> {
    if is_later || !has_ports(protocol.0) {
        return Ok([0, 0]);
    }
    match *payload.payload {
        [a, b, c, d, ..] => Ok([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]),
        _ => Err(Refusal::Cut),
    }
}

/// Counts a hop: the packet at `at` gets a time to live that is one less, and IPv4's checksum
/// follows (RFC 1624). Returns whether it may go on; if not, nothing has been changed.
#[inline]
pub fn hop(frame: &mut [u8], packet: &Packet) -> bool {
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
    use etherparse::{Ipv4Header, Ipv4HeaderSlice, PacketBuilder};

    use super::*;

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
        assert_eq!(packet, Packet { at: 14, is_v6: false, flow: None });
        // What is slow finds the same.
        let slow = parse_any(Link::Ethernet, &frame).unwrap();
        assert_eq!((slow.at, slow.flow), (14, Some(flow_v4([1000, 53], 17))));
        assert_eq!(parse(Link::Ip, &frame[14..]).unwrap().at, 0);
        let packet = v6(6, &[PORTS; 3].concat());
        assert_eq!(parse(Link::Ip, &packet), Ok(Packet { at: 0, is_v6: true, flow: None }));
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
    fn a_hop_keeps_the_checksum_right() {
        for seed in 0..=u16::MAX {
            let identify = |header: &mut Ipv4Header| {
                header.identification = seed;
                header.time_to_live = (seed % 256) as u8;
            };
            let mut packet = v4(identify, 6, &PORTS);
            let before = packet.clone();
            let place = Packet { at: 0, is_v6: false, flow: None };
            if !hop(&mut packet, &place) {
                assert!(before[8] <= 1 && packet == before);
                continue;
            }
            let header = Ipv4HeaderSlice::from_slice(&packet).unwrap();
            assert_eq!(header.ttl(), before[8] - 1);
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        }
        let mut packet = v6(17, &PORTS);
        let place = Packet { at: 0, is_v6: true, flow: None };
        assert!(hop(&mut packet, &place) && packet[7] == 63);
        packet[7] = 1;
        assert!(!hop(&mut packet, &place) && packet[7] == 1);
    }
}
