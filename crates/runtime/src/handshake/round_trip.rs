//! How far away the peer of a connection is, as TCP knows from the connection's first packets.
#![allow(unsafe_code, reason = "asks the kernel about a socket")]

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{socklen_t, tcp_info};

use super::{Handshake, Notified};
use crate::event_loop::on_fibre;
use crate::real;

/// Whether the program has a BIO that hides its socket: only then do we look at `recv` and `send`.
static HIDES_SOCKETS: AtomicBool = AtomicBool::new(false);

/// A handshake is taken in.
pub(super) fn begin(notified: Notified) {
    if notified == Notified::Asks {
        HIDES_SOCKETS.store(true, Ordering::Relaxed);
    }
}

/// The program receives from a socket: if it does so for a handshake, that is the one which its BIO
/// hides.
pub(crate) fn receives(descriptor: c_int) {
    if HIDES_SOCKETS.load(Ordering::Relaxed) {
        on_fibre(|handshake| handshake.receives_from.set(descriptor));
    }
}

impl Handshake {
    /// The smoothed round-trip time to the peer, in ns; 0 where it is not known. The kernel is
    /// asked once: nothing comes from the peer while its handshake waits.
    pub(super) fn round_trip_ns(&self) -> u64 {
        *self.round_trip_ns.get_or_init(|| {
            let errno = real::errno();
            let round_trip_ns = of_socket(self.receives_from.get()).unwrap_or(0);
            real::set_errno(errno);
            round_trip_ns
        })
    }
}

/// Nothing where the descriptor is no socket of TCP.
fn of_socket(descriptor: c_int) -> Option<u64> {
    let mut info = MaybeUninit::<tcp_info>::zeroed();
    let mut bytes = size_of::<tcp_info>() as socklen_t;
    // SAFETY: the kernel writes at most so many bytes to the structure, and their number.
    let status = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            ptr::from_mut(&mut bytes),
        )
    };
    // SAFETY: numbers only, all of them zero where the kernel has written nothing.
    let info = unsafe { info.assume_init() };
    (status == 0).then(|| 1_000 * u64::from(info.tcpi_rtt))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn tcp_knows_how_far_away_a_peer_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            let round_trip_ns = of_socket(end.as_raw_fd()).unwrap();
            assert!((1_000..1_000_000_000).contains(&round_trip_ns), "{round_trip_ns}");
        }
    }

    #[test]
    fn nobody_else_knows() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for descriptor in [udp.as_raw_fd(), file.as_raw_fd(), -1] {
            assert_eq!(of_socket(descriptor), None);
        }
    }
}
