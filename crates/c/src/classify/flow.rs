//! From packets as they come to what can be looked up, for C.
#![allow(unsafe_code, reason = "functions for C")]

use widelane_classify::headers::{self, Refusal};

use crate::door;
use crate::status::Status;

/// What a packet begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header, with up to three VLAN tags.
    Ethernet = 0,
    /// An IP header.
    Ip = 1,
}

const LINKS: [headers::Link; 2] = [headers::Link::Ethernet, headers::Link::Ip];

/// The fields of a packet, laid out as lookups want them: `bytes` and `length` make a
/// `widelane_packet`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// An IPv4 header without options or an IPv6 header without extension headers, and two ports.
    pub bytes: [u8; 44],
    /// How many bytes there are: 24 or 44.
    pub length: u32,
    /// Whether it is IPv6: it can be looked up in tables for that only.
    pub is_ipv6: bool,
    /// Whether it is a fragment other than the first: its ports are unknown, and 0 here.
    pub is_later_fragment: bool,
}

/// Finds the fields of a packet, wherever they lie: behind IPv4 options and IPv6 extension headers.
/// `link` is one of `widelane_link`. Packets without ports (ICMP, for one) get ports 0; an
/// authentication header is the protocol (51), and nothing behind it is looked at.
///
/// A packet that cannot be looked up is `WIDELANE_STATUS_NOT_IP`, `WIDELANE_STATUS_CUT` or
/// `WIDELANE_STATUS_MALFORMED`, and nothing is written.
///
/// # Safety
///
/// There are `length` bytes, and `flow` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn widelane_flow_parse(
    link: u32,
    bytes: *const u8,
    length: usize,
    flow: *mut Flow,
) -> Status {
    door::guarded(|| {
        let link = door::choice(&LINKS, link, "link")?;
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { door::array(bytes, length) }?;
        // SAFETY: the caller vouches for it.
        let flow = unsafe { door::exclusive(flow) }?;
        let packet = headers::parse(link, bytes).map_err(refused)?;
        let length = if packet.is_v6 { 44 } else { 24 };
        let mut found = [0; 44];
        found[..length].copy_from_slice(&packet.key(bytes)[..length]);
        *flow = Flow {
            bytes: found,
            length: length as u32,
            is_ipv6: packet.is_v6,
            is_later_fragment: packet.is_later_fragment,
        };
        Ok(())
    })
}

fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::NotIp => Status::NotIp.because("the packet is neither IPv4 nor IPv6"),
        Refusal::Cut => Status::Cut.because("the packet ends before its ports do"),
        Refusal::Malformed => {
            Status::Malformed.because("the packet's headers contradict themselves")
        }
    }
}
