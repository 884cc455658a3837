//! Network interfaces, by messages to the kernel (rtnetlink): a program such as `ip` would not have
//! the rights that a user has in a user namespace.
#![allow(unsafe_code, reason = "the ioctl that makes an interface")]

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// The loopback interface.
pub const LOOPBACK: &str = "lo";

/// Makes an interface that ends with us (TUN): what is sent by it is read here, and what is written
/// here comes in by it. Its name is beside it.
///
/// # Errors
///
/// Those of the operating system.
pub fn make() -> io::Result<(File, String)> {
    nix::ioctl_write_ptr_bad!(set_interface, libc::TUNSETIFF, libc::ifreq);
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let tun = options.open("/dev/net/tun")?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    let pattern = c"widelane%d".to_bytes_with_nul();
    for (place, byte) in request.ifr_name.iter_mut().zip(pattern) {
        *place = byte.cast_signed();
    }
    // SAFETY: the kernel reads a request from here, and writes the name into it.
    unsafe { set_interface(tun.as_raw_fd(), &raw const request) }?;
    let name = request.ifr_name.iter().take_while(|byte| **byte != 0);
    let name = name.map(|byte| char::from(byte.cast_unsigned())).collect();
    Ok((tun, name))
}

/// Gives the interface `name` an address whose first `prefix` bits are those of its network.
///
/// # Errors
///
/// Those of the operating system.
pub fn give_address(name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let index = if_nametoindex(name)?;
    // struct ifaddrmsg; flags and scope are the usual ones.
    let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
    body.extend(index.to_ne_bytes());
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        body.extend(attribute(kind, address.octets()));
    }
    ask(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body)
}

/// Has the kernel keep up to `packets` that wait to be sent by the interface `name`.
///
/// # Errors
///
/// Those of the operating system.
pub fn lengthen_queue(name: &str, packets: u32) -> io::Result<()> {
    change(name, 0, &attribute(libc::IFLA_TXQLEN, packets.to_ne_bytes()))
}

/// Takes the interface `name` into service.
///
/// # Errors
///
/// Those of the operating system.
pub fn start(name: &str) -> io::Result<()> {
    change(name, libc::IFF_UP as u32, &[])
}

/// Sets flags and attributes of an interface.
fn change(name: &str, flags: u32, attributes: &[u8]) -> io::Result<()> {
    let index = if_nametoindex(name)?;
    // struct ifinfomsg: family and type of any, then which flags are meant.
    let fields = [0, index, flags, flags].map(u32::to_ne_bytes);
    ask(libc::RTM_NEWLINK, 0, &[fields.as_flattened(), attributes].concat())
}

fn attribute(kind: u16, value: [u8; 4]) -> [u8; 8] {
    let [a, b] = 8_u16.to_ne_bytes();
    let [c, d] = kind.to_ne_bytes();
    let [w, x, y, z] = value;
    [a, b, c, d, w, x, y, z]
}

/// Sends the kernel a message and waits for what it says to it.
fn ask(kind: u16, flags: i32, body: &[u8]) -> io::Result<()> {
    let (family, protocol) = (AddressFamily::Netlink, SockProtocol::NetlinkRoute);
    let netlink = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let bytes = HEADER_BYTES + body.len();
    let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    // struct nlmsghdr; one message has no number, and the kernel knows whose it is.
    let mut message = (bytes as u32).to_ne_bytes().to_vec();
    message.extend([kind, flags].map(u16::to_ne_bytes).as_flattened());
    message.extend([0; 8]);
    message.extend(body);
    sendto(netlink.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; ANSWER_BYTES];
    let received = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::MSG_TRUNC)?;
    let code =
        answer[..received.min(ANSWER_BYTES)].get(HEADER_BYTES..).and_then(<[u8]>::first_chunk);
    match code.map(|code| i32::from_ne_bytes(*code)) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Lengths of the header of a message, and of the part of an answer that has the error.
const HEADER_BYTES: usize = 16;
const ANSWER_BYTES: usize = HEADER_BYTES + 4;
