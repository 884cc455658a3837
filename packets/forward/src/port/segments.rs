//! What leaves in place of a frame: TCP and UDP inside a tunnel is cut into segments here.
//!
//! Other frames are cut by the kernel or the card. But a `virtio_net_hdr`, which goes before a
//! frame from a packet socket, cannot say that there is a tunnel: the kernel would cut what the
//! outer UDP or GRE header carries, fail, and drop the frame.
//!
//! | Around an IP packet with TCP or UDP | |
//! |---|---|
//! | IPv4 or IPv6 (IPIP, SIT, 6in4, ip6tnl) | lengths, and IPv4's identification and checksum |
//! | UDP (VXLAN, Geneve, FOU) | the same, and UDP's length, and its checksum if it has one |
//! | GRE, with a key or without | the same, and its checksum if it has one |
//!
//! What lies between these headers and the inner IP header is the same in all segments. Linux
//! merges no packets that are in more than one tunnel.

use std::borrow::Cow;

use super::offload::{Offload, Segmentation};
use crate::headers::{self, Link};

/// What leaves in place of a frame: itself, or segments.
#[derive(Debug)]
pub(super) struct Leaving<'f> {
    bytes: Cow<'f, [u8]>,
    /// How long each piece is, but the last, which may be shorter.
    each: usize,
    offload: Offload,
}

/// The frame is to be cut inside something that is no tunnel known here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown;

// Protocols that IP headers name.
const IPV4: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;

/// Bytes of UDP's header, and where in it the checksum stands.
const UDP_BYTES: usize = 8;
const UDP_CHECKSUM: usize = 6;
const TCP_CHECKSUM: usize = 16;
/// Where GRE's checksum stands, if its first byte has the bit for it.
const GRE_CHECKSUM: usize = 4;
const GRE_HAS_CHECKSUM: u8 = 0x80;
const GRE_HAS_KEY: u8 = 0x20;

// Flags of TCP.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// No tunnel has longer headers before what is to be cut.
const HEADERS_MAX: usize = 1024;
/// No sender wants shorter segments.
const SEGMENT_MIN: usize = 8;

impl<'f> Leaving<'f> {
    /// Cuts a frame that has come in, where the kernel would not.
    pub fn of(frame: &'f [u8], offload: Offload) -> Result<Self, Unknown> {
        let whole = Leaving { bytes: Cow::Borrowed(frame), each: frame.len(), offload };
        let Some(wanted) = offload.segmentation() else { return Ok(whole) };
        let outer = headers::parse(Link::Ethernet, frame).map_err(|_| Unknown)?.at;
        let (_, transport) = payload(frame, outer).ok_or(Unknown)?;
        if transport == wanted.transport {
            return Ok(whole);
        }
        let tunnel = Tunnel::find(frame, outer, wanted);
        tunnel.and_then(|tunnel| tunnel.cut(frame)).ok_or(Unknown)
    }

    /// What is to be sent, each with what is left to the network card.
    pub fn pieces(&self) -> impl Iterator<Item = (&[u8], Offload)> {
        self.bytes.chunks(self.each).map(|piece| (piece, self.offload))
    }
}

/// Where the headers lie that differ between segments.
#[derive(Clone, Copy, Debug)]
struct Tunnel {
    outer: usize,
    /// The protocol that the outer IP header names, and where it begins.
    protocol: u8,
    carrier: usize,
    inner: usize,
    wanted: Segmentation,
}

impl Tunnel {
    fn find(frame: &[u8], outer: usize, wanted: Segmentation) -> Option<Self> {
        let is_known = wanted.protocol != 0 && wanted.transport <= HEADERS_MAX;
        if !is_known || !ends_with_frame(&frame[outer..]) {
            return None;
        }
        let (protocol, carrier) = payload(frame, outer)?;
        let header = match protocol {
            IPV4 | IPV6 => 0,
            UDP => UDP_BYTES,
            GRE => gre_bytes(frame.get(carrier..)?)?,
            _ => return None,
        };
        // Ports of tunnels are a matter of configuration, and some have options. So the inner
        // header is known by what it says: its packet ends with the frame.
        let is_inner = |at: &usize| {
            ends_with_frame(&frame[*at..])
                && payload(frame, *at) == Some((wanted.protocol, wanted.transport))
        };
        let mut places = carrier + header..wanted.transport.min(frame.len());
        let inner = places.rfind(is_inner)?;
        Some(Tunnel { outer, protocol, carrier, inner, wanted })
    }

    fn cut<'f>(&self, frame: &[u8]) -> Option<Leaving<'f>> {
        let Segmentation { transport, size, protocol, .. } = self.wanted;
        let header = match protocol {
            TCP => 4 * usize::from(frame.get(transport + 12)? >> 4).max(5),
            _ => UDP_BYTES,
        };
        let (headers, data) = frame.split_at_checked(transport + header)?;
        if data.is_empty() || size < SEGMENT_MIN {
            return None;
        }
        let count = data.len().div_ceil(size);
        let mut bytes = Vec::with_capacity(count * headers.len() + data.len());
        for (index, data) in data.chunks(size).enumerate() {
            let start = bytes.len();
            bytes.extend_from_slice(headers);
            bytes.extend_from_slice(data);
            self.finish(&mut bytes[start..], index, index + 1 == count, frame.len());
        }
        let each = headers.len() + size;
        Some(Leaving { bytes: Cow::Owned(bytes), each, offload: Offload::default() })
    }

    /// Makes a segment of the headers of the whole frame and a part of its data.
    fn finish(&self, segment: &mut [u8], index: usize, is_last: bool, whole: usize) {
        let shorter = whole - segment.len();
        let transport = &mut segment[self.wanted.transport..];
        match self.wanted.protocol {
            TCP => {
                let sequence = u32::from_be_bytes([4, 5, 6, 7].map(|at| transport[at]));
                let passed = (index * self.wanted.size) as u32;
                transport[4..8].copy_from_slice(&sequence.wrapping_add(passed).to_be_bytes());
                if !is_last {
                    transport[13] &= !(FIN | PSH);
                }
                if index > 0 && self.wanted.has_ecn {
                    transport[13] &= !CWR;
                }
                complete(transport, TCP_CHECKSUM, shorter);
            }
            _ => finish_udp(transport, shorter),
        }
        finish_ip(&mut segment[self.inner..], index);
        let carrier = &mut segment[self.carrier..];
        match self.protocol {
            UDP if carrier[UDP_CHECKSUM..UDP_BYTES] == [0; 2] => set(carrier, 4, carrier.len()),
            UDP => finish_udp(carrier, shorter),
            GRE if carrier[0] & GRE_HAS_CHECKSUM != 0 => {
                set(carrier, GRE_CHECKSUM, 0);
                set(carrier, GRE_CHECKSUM, usize::from(!sum(carrier, 0)));
            }
            _ => {}
        }
        finish_ip(&mut segment[self.outer..], index);
    }
}

/// What an IP packet in a frame carries, and where in the frame that begins.
fn payload(frame: &[u8], at: usize) -> Option<(u8, usize)> {
    let packet = frame.get(at..)?;
    match *packet.first()? {
        first @ 0x45..=0x4f => Some((*packet.get(9)?, at + 4 * usize::from(first & 0xf))),
        0x60..=0x6f => {
            let (header, behind) = packet.split_first_chunk::<40>()?;
            let (protocol, behind, is_later) =
                headers::behind_extensions(header[6], behind).ok()?;
            (!is_later).then_some((protocol, frame.len() - behind.len()))
        }
        _ => None,
    }
}

/// Whether an IP packet begins here, by its length, and by its checksum where it has one.
fn ends_with_frame(packet: &[u8]) -> bool {
    let word = |at| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    match packet {
        [first @ 0x45..=0x4f, ..] if packet.len() >= 20 => {
            let header = packet.get(..4 * usize::from(first & 0xf));
            word(2) == packet.len() && header.is_some_and(|header| sum(header, 0) == u16::MAX)
        }
        [0x60..=0x6f, ..] if packet.len() >= 40 => word(4) + 40 == packet.len(),
        _ => false,
    }
}

/// How long a GRE header is, if it is the same in all segments but for the checksum: those with
/// sequence numbers are not.
fn gre_bytes(header: &[u8]) -> Option<usize> {
    match *header {
        [flags, 0, ..] if flags & !(GRE_HAS_CHECKSUM | GRE_HAS_KEY) == 0 => {
            Some(4 + 4 * flags.count_ones() as usize)
        }
        _ => None,
    }
}

fn finish_ip(packet: &mut [u8], index: usize) {
    let length = packet.len();
    if packet[0] >> 4 == 6 {
        return set(packet, 4, length - 40);
    }
    let identification = u16::from_be_bytes([packet[4], packet[5]]);
    set(packet, 2, length);
    set(packet, 4, usize::from(identification.wrapping_add(index as u16)));
    set(packet, 10, 0);
    let header = 4 * usize::from(packet[0] & 0xf);
    set(packet, 10, usize::from(!sum(&packet[..header], 0)));
}

fn finish_udp(packet: &mut [u8], shorter: usize) {
    set(packet, 4, packet.len());
    complete(packet, UDP_CHECKSUM, shorter);
    if packet[UDP_CHECKSUM..UDP_BYTES] == [0; 2] {
        // 0 would mean that there is none.
        set(packet, UDP_CHECKSUM, usize::from(u16::MAX));
    }
}

/// Fills in the checksum of TCP or UDP. In its place stands the sum of the addresses, the protocol
/// and the length before, which was longer: so senders leave it for whoever cuts.
fn complete(packet: &mut [u8], place: usize, shorter: usize) {
    set(packet, place, usize::from(!sum(packet, !(shorter as u16))));
}

/// Writes a number of 16 bits.
fn set(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// The sum of 16-bit words in ones' complement (RFC 1071), and of another number.
fn sum(bytes: &[u8], other: u16) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from(u32::from_be_bytes(*word)));
    let mut sum = words.sum::<u64>() + u64::from(other);
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use etherparse::checksum::Sum16BitWords;
    use etherparse::{
        IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header,
        Ipv6RawExtHeader, PacketBuilder, TcpHeader,
    };
    use widelane_testkit::random::Random;

    use super::*;

    /// A tunnel, and what is in it.
    struct Case {
        outer: IpHeaders,
        /// Of UDP's and GRE's own header, the latter is here.
        carrier: IpNumber,
        /// Whether UDP has a checksum.
        has_checksum: bool,
        /// What lies between.
        between: Vec<u8>,
        inner: IpHeaders,
        kind: u8,
    }

    fn v4() -> IpHeaders {
        let mut header = Ipv4Header::new(0, 64, TCP.into(), [10, 1, 2, 3], [9; 4]).unwrap();
        header.identification = u16::MAX - 1;
        IpHeaders::Ipv4(header, Ipv4Extensions::default())
    }

    fn v6() -> IpHeaders {
        let header = Ipv6Header { source: [7; 16], destination: [8; 16], ..Ipv6Header::default() };
        IpHeaders::Ipv6(header, Ipv6Extensions::default())
    }

    /// With the options that Linux puts into tunnels of IPv6.
    fn v6_with_options() -> IpHeaders {
        let limit = Ipv6RawExtHeader::new_raw(0.into(), &[4, 1, 4, 1, 1, 0]).unwrap();
        let IpHeaders::Ipv6(header, _) = v6() else { unreachable!() };
        let options = Ipv6Extensions { destination_options: Some(limit), ..Default::default() };
        IpHeaders::Ipv6(header, options)
    }

    fn cases() -> Vec<Case> {
        let vxlan = [[8, 0, 0, 0, 0, 0, 7, 0], [2; 8]].concat();
        let vxlan = |kind: [u8; 2]| [&vxlan, &[2; 4][..], &kind].concat();
        let geneve =
            [&[2, 0, 0x65, 0x58, 0, 0, 7, 0][..], &[1; 8], &[2; 12], &[0x81, 0, 0, 5, 8, 0]];
        let case = |outer, carrier: u8, has_checksum, between: &[u8], inner, kind| Case {
            outer,
            carrier: carrier.into(),
            has_checksum,
            between: between.to_vec(),
            inner,
            kind,
        };
        let (tcp_v4, tcp_v6, udp) = (1, 4, 5);
        vec![
            case(v4(), UDP, false, &vxlan([8, 0]), v4(), tcp_v4),
            case(v6(), UDP, true, &vxlan([0x86, 0xdd]), v6(), tcp_v6),
            case(v4(), UDP, true, &vxlan([8, 0]), v4(), udp),
            case(v6(), UDP, false, &vxlan([0x86, 0xdd]), v6(), udp),
            case(v4(), UDP, true, &geneve.concat(), v4(), tcp_v4),
            case(v4(), UDP, false, &[], v4(), tcp_v4),
            case(v4(), GRE, false, &[0, 0, 8, 0], v4(), tcp_v4),
            case(v6(), GRE, false, &[0x20, 0, 8, 0, 0, 0, 0, 9], v4(), tcp_v4),
            case(v4(), GRE, false, &[0xa0, 0, 0x86, 0xdd, 0, 0, 0, 0, 0, 0, 0, 9], v6(), tcp_v6),
            case(v4(), IPV4, false, &[], v4(), tcp_v4),
            case(v4(), IPV6, false, &[], v6(), udp),
            case(v6_with_options(), IPV4, false, &[], v4(), tcp_v4),
        ]
    }

    fn numbered(headers: &IpHeaders, index: u16) -> IpHeaders {
        let mut headers = headers.clone();
        if let IpHeaders::Ipv4(header, _) = &mut headers {
            header.identification = header.identification.wrapping_add(index);
        }
        headers
    }

    impl Case {
        /// A frame as etherparse puts it together, and where TCP or UDP begins in it.
        fn frame(&self, index: u16, tcp: &TcpHeader, data: &[u8]) -> (Vec<u8>, usize) {
            let inner_headers = numbered(&self.inner, index);
            let inner_bytes = inner_headers.header_len();
            let mut inner = Vec::new();
            let builder = PacketBuilder::ip(inner_headers);
            match self.kind {
                5 => builder.udp(443, 5000).write(&mut inner, data).unwrap(),
                _ => builder.tcp_header(tcp.clone()).write(&mut inner, data).unwrap(),
            }
            let mut carried = [&self.between[..], &inner].concat();
            let outer = numbered(&self.outer, index);
            let udp = 14 + outer.header_len();
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ip(outer);
            let mut frame = Vec::new();
            if self.carrier == IpNumber::UDP {
                builder.udp(40_000, 4789).write(&mut frame, &carried).unwrap();
                if !self.has_checksum {
                    frame[udp + 6..udp + 8].fill(0);
                }
            } else {
                if self.carrier == IpNumber::GRE && carried[0] & 0x80 != 0 {
                    let sum = Sum16BitWords::new().add_slice(&carried).ones_complement();
                    carried[4..6].copy_from_slice(&sum.to_be().to_be_bytes());
                }
                builder.write(&mut frame, self.carrier, &carried).unwrap();
            }
            let transport = frame.len() - inner.len() + inner_bytes;
            (frame, transport)
        }

        /// A frame that its sender has left to be cut, and what was left of it.
        fn uncut(&self, tcp: &TcpHeader, data: &[u8], size: u16) -> (Vec<u8>, Offload) {
            let (mut frame, transport) = self.frame(0, tcp, data);
            let inner = transport - self.inner.header_len();
            let (protocol, place) = if self.kind == 5 { (UDP, 6) } else { (TCP, 16) };
            open(&mut frame, inner, transport, protocol, place);
            if self.carrier == IpNumber::UDP && self.has_checksum {
                open(&mut frame, 14, 14 + self.outer.header_len(), UDP, 6);
            }
            let offload = given(&mut frame, self.kind, size, transport, place);
            (frame, offload)
        }
    }

    fn given(frame: &mut [u8], kind: u8, size: u16, transport: usize, place: usize) -> Offload {
        let words = [0, size, transport as u16, place as u16].map(u16::to_ne_bytes).concat();
        let header = [&[1, kind][..], &words].concat();
        Offload::of(header.try_into().unwrap(), frame)
    }

    /// Leaves a checksum open, as senders do.
    fn open(frame: &mut [u8], ip: usize, transport: usize, protocol: u8, place: usize) {
        let addresses = if frame[ip] >> 4 == 6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let length = (frame.len() - transport) as u16;
        let sum = Sum16BitWords::new()
            .add_slice(&frame[addresses])
            .add_2bytes([0, protocol])
            .add_2bytes(length.to_be_bytes());
        let sum = !sum.ones_complement().to_be();
        frame[transport + place..][..2].copy_from_slice(&sum.to_be_bytes());
    }

    fn tcp() -> TcpHeader {
        let mut header = TcpHeader::new(443, 5000, u32::MAX - 2000, 1000);
        (header.ack, header.psh, header.fin, header.cwr) = (true, true, true, true);
        header.set_options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
        header
    }

    fn pieces(frame: &[u8], offload: Offload) -> Result<Vec<(Vec<u8>, Offload)>, Unknown> {
        let leaving = Leaving::of(frame, offload)?;
        Ok(leaving.pieces().map(|(piece, offload)| (piece.to_vec(), offload)).collect())
    }

    #[test]
    fn segments_are_as_they_would_have_been_sent_one_by_one() {
        const SIZE: u16 = 1399;
        let mut random = Random::new(5);
        let mut data = vec![0; 4 * usize::from(SIZE)];
        random.fill(&mut data);
        for (number, case) in cases().iter().enumerate() {
            for (length, has_ecn) in [(5000, true), (4 * usize::from(SIZE), false), (9, true)] {
                let data = &data[..length];
                let (frame, mut offload) = case.uncut(&tcp(), data, SIZE);
                if has_ecn {
                    let mut header = <[u8; 10]>::try_from(offload.bytes()).unwrap();
                    header[1] |= 0x80;
                    offload = Offload::of(header, &mut []);
                }
                let count = length.div_ceil(SIZE.into());
                let wanted = data.chunks(SIZE.into()).zip(0..).map(|(data, index)| {
                    let mut tcp = tcp();
                    let passed = u32::from(index) * u32::from(SIZE);
                    tcp.sequence_number = tcp.sequence_number.wrapping_add(passed);
                    tcp.cwr = index == 0 || !has_ecn;
                    tcp.psh = usize::from(index) + 1 == count;
                    tcp.fin = tcp.psh;
                    (case.frame(index, &tcp, data).0, Offload::default())
                });
                let wanted: Vec<(Vec<u8>, Offload)> = wanted.collect();
                let found = pieces(&frame, offload).unwrap();
                assert!(found == wanted, "case {number}: {found:x?}\n{wanted:x?}");
            }
        }
    }

    #[test]
    fn a_checksum_of_udp_is_never_absent() {
        let case = &cases()[2];
        let (frame, transport) = case.frame(0, &tcp(), &[0; 10]);
        // The number by which the sum becomes that of nothing.
        let mut data = [0; 10];
        data[..2].copy_from_slice(&frame[transport + 6..transport + 8]);
        let (frame, offload) = case.uncut(&tcp(), &data, 1000);
        let found = &pieces(&frame, offload).unwrap()[0].0;
        assert_eq!(found[transport + 6..transport + 8], [0xff; 2]);
        assert_eq!(*found, case.frame(0, &tcp(), &data).0);
    }

    #[test]
    fn what_is_in_no_tunnel_leaves_as_it_came() {
        for (headers, kind) in [(v4(), 1), (v6(), 4), (v6_with_options(), 4), (v4(), 3)] {
            let mut frame = Vec::new();
            let transport = 14 + headers.header_len();
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ip(headers);
            builder.tcp_header(tcp()).write(&mut frame, &[7; 5000]).unwrap();
            let offload = given(&mut frame, kind, 1400, transport, 16);
            assert_eq!(pieces(&frame, offload), Ok(vec![(frame.clone(), offload)]));
        }
        // Nor is there anything to cut where nothing was left to be cut.
        let (frame, _) = cases()[0].uncut(&tcp(), &[7; 900], 1400);
        assert_eq!(
            pieces(&frame, Offload::default()),
            Ok(vec![(frame.clone(), Offload::default())])
        );
    }

    #[test]
    fn what_cannot_be_cut_is_told() {
        let refused = |frame: &[u8], offload| assert_eq!(pieces(frame, offload), Err(Unknown));
        let data = [7; 5000];
        // GRE with a sequence number, with a route, of version 1; and no GRE at all.
        for (flags, version) in [(0x10, 0), (0x40, 0), (0, 1)] {
            let mut case = cases().remove(6);
            (case.between[0], case.between[1]) = (flags, version);
            let (frame, offload) = case.uncut(&tcp(), &data, 1400);
            refused(&frame, offload);
        }
        let case = Case { carrier: 99.into(), ..cases().remove(9) };
        let (frame, offload) = case.uncut(&tcp(), &data, 1400);
        refused(&frame, offload);
        let case = &cases()[0];
        // Segments of no use, none, fragments, and a header that lies elsewhere.
        let (mut frame, whole) = case.uncut(&tcp(), &data, 7);
        refused(&frame, whole);
        let transport = whole.segmentation().unwrap().transport;
        for (kind, transport) in [(3, transport), (1, transport + 4), (1, frame.len()), (1, 65535)]
        {
            let offload = given(&mut frame, kind, 1400, transport, 16);
            refused(&frame, offload);
        }
        let (frame, offload) = case.uncut(&tcp(), &[], 1400);
        refused(&frame, offload);
        // Lengths of the tunnel's packet, and of the one in it, that are not the frame's.
        for place in [16, 14 + 20 + 8 + 22 + 2] {
            let (mut frame, offload) = case.uncut(&tcp(), &data, 1400);
            frame[place] ^= 1;
            refused(&frame, offload);
        }
    }

    #[test]
    fn whatever_comes_is_cut_or_told() {
        let mut random = Random::new(9);
        let cases = cases();
        let (mut cut, mut told) = (0, 0);
        for _ in 0..20_000 {
            let case = &cases[random.below(cases.len())];
            let (mut frame, given) = case.uncut(&tcp(), &[7; 300], 100);
            let mut header = <[u8; 10]>::try_from(given.bytes()).unwrap();
            for _ in 0..random.below(3) {
                let place = random.below(frame.len().min(150));
                frame[place] = random.below(256) as u8;
            }
            if random.below(4) == 0 {
                header[random.below(10)] = random.below(256) as u8;
            }
            frame.truncate(frame.len() - random.below(2) * random.below(frame.len()));
            let offload = Offload::of(header, &mut frame);
            match Leaving::of(&frame, offload) {
                Ok(leaving) => cut += leaving.pieces().count(),
                Err(Unknown) => told += 1,
            }
        }
        assert!(cut > 10_000 && told > 1000, "{cut} pieces, {told} told");
    }
}
