//! Sockets whose last packet waits for what the program writes next.
//!
//! A server often answers a request that came with the client's Finished message: what libssl sends
//! behind the handshake and that answer then fit in one packet, and the client is woken once.
//! Linux holds the packet by `TCP_CORK` (for 200 ms at most). It is let go by the connection's next
//! write, and before the thread sleeps or asks for events, whatever its program does meanwhile.
//! Another thread that writes to the connection finds its mark in a table of all threads.
#![allow(unsafe_code, reason = "sets an option of a socket")]

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::real;

thread_local! {
    static CORKED: RefCell<Vec<Corked>> = const { RefCell::new(Vec::new()) };
}

/// Where each thread finds what another one holds: by the address of the connection, each place for
/// one at a time. One that is overwritten is let go when its own thread sleeps.
static MARKS: [Mark; MARKS_COUNT] = [const { Mark::none() }; MARKS_COUNT];

const MARKS_COUNT: usize = 256;

struct Mark {
    ssl: AtomicPtr<c_void>,
    descriptor: AtomicI32,
}

impl Mark {
    const fn none() -> Self {
        Self { ssl: AtomicPtr::new(ptr::null_mut()), descriptor: AtomicI32::new(-1) }
    }

    fn of(ssl: *mut c_void) -> &'static Self {
        // Connections are some kilobytes apart, at multiples of 16.
        let hash = (ssl.addr() >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &MARKS[hash >> (usize::BITS - MARKS_COUNT.ilog2())]
    }

    fn set(ssl: *mut c_void, descriptor: c_int) {
        let mark = Self::of(ssl);
        mark.descriptor.store(descriptor, Ordering::Relaxed);
        mark.ssl.store(ssl, Ordering::Release);
    }

    /// Takes the mark of a connection away; its socket, if there was one.
    fn take(ssl: *mut c_void) -> Option<c_int> {
        let mark = Self::of(ssl);
        if ssl.is_null() || !ptr::eq(mark.ssl.load(Ordering::Relaxed), ssl) {
            return None;
        }
        let (here, none) = (&mark.ssl, ptr::null_mut());
        let taken = here.compare_exchange(ssl, none, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| mark.descriptor.load(Ordering::Relaxed))
    }
}

/// A connection and its socket, either of which may be gone by now: the kernel sends what it holds
/// when a socket is closed, and an option that is off can be turned off again.
struct Corked {
    ssl: *mut c_void,
    descriptor: c_int,
}

/// Holds packets of a socket that are not full. Where that is not possible nothing changes.
pub(crate) fn hold(ssl: *mut c_void, descriptor: c_int) {
    // Error: the thread is ending.
    let _ = CORKED.try_with(|corked| {
        let mut corked = corked.borrow_mut();
        let is_held = corked.iter().any(|other| other.descriptor == descriptor);
        if !is_held && set(descriptor, true) {
            corked.push(Corked { ssl, descriptor });
            Mark::set(ssl, descriptor);
        }
    });
}

/// The program has written to a connection, which may be held by any thread.
pub(crate) fn release(ssl: *mut c_void) {
    release_where(|corked| ptr::eq(corked.ssl, ssl));
    if let Some(descriptor) = Mark::take(ssl) {
        set(descriptor, false);
    }
}

/// The thread begins to handshake. What it holds outlives what is made after this.
pub(crate) fn begin_thread() {
    // Error: the thread is ending.
    let _ = CORKED.try_with(|_| ());
}

/// Whether the thread holds any.
pub(crate) fn holds_any() -> bool {
    // Error: the thread is ending.
    CORKED.try_with(|corked| !corked.borrow().is_empty()).unwrap_or(false)
}

/// The thread is about to sleep, or ends its turn.
pub(crate) fn release_all() {
    release_where(|_| true);
}

fn release_where(is_due: impl Fn(&Corked) -> bool) {
    // Error: the thread is ending.
    let _ = CORKED.try_with(|corked| {
        let mut corked = corked.borrow_mut();
        if !corked.is_empty() {
            corked.extract_if(.., |corked| is_due(corked)).for_each(|corked| {
                Mark::take(corked.ssl);
                set(corked.descriptor, false);
            });
        }
    });
}

/// Turns `TCP_CORK` on or off, and leaves `errno` as it is; false where that is not possible.
fn set(descriptor: c_int, is_on: bool) -> bool {
    let errno = real::errno();
    let value = c_int::from(is_on);
    // SAFETY: the kernel reads the number of bytes that the value has.
    let status = unsafe {
        libc::setsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_CORK,
            ptr::from_ref(&value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    real::set_errno(errno);
    status == 0
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        (client, server)
    }

    fn is_corked(socket: &impl AsRawFd) -> bool {
        let (mut value, mut bytes) = (0, size_of::<c_int>() as libc::socklen_t);
        // SAFETY: the kernel writes as many bytes as the value has, and their number.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CORK,
                ptr::from_mut::<c_int>(&mut value).cast(),
                &mut bytes,
            )
        };
        assert_eq!(status, 0);
        value != 0
    }

    #[test]
    fn packets_wait_for_the_next_write_of_their_connection() {
        let ((mut client, mut server), (_other_client, other)) = (pair(), pair());
        let [ssl, other_ssl] = [1, 2].map(ptr::without_provenance_mut);
        hold(ssl, server.as_raw_fd());
        hold(other_ssl, other.as_raw_fd());
        server.write_all(b"tickets").unwrap();
        let mut bytes = [0; 16];
        assert_eq!(client.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        server.write_all(b"answer").unwrap();
        release(ssl);
        client.set_nonblocking(false).unwrap();
        assert_eq!(client.read(&mut bytes).unwrap(), b"ticketsanswer".len(), "in one packet");
        assert!(!is_corked(&server) && is_corked(&other));
        release_all();
        assert!(!is_corked(&other));
        assert!(CORKED.with_borrow(Vec::is_empty));
    }

    #[test]
    fn another_thread_that_writes_lets_go() {
        let (_client, server) = pair();
        let ssl = ptr::without_provenance_mut(0x7000);
        hold(ssl, server.as_raw_fd());
        let address = ssl.addr();
        let write = || release(ptr::without_provenance_mut(address));
        std::thread::scope(|scope| scope.spawn(write).join().unwrap());
        assert!(!is_corked(&server) && holds_any());
        assert_eq!(Mark::take(ssl), None);
        release_all();
        assert!(!holds_any());
    }

    #[test]
    fn what_cannot_be_held_is_left_alone() {
        let (socket, _) = UnixStream::pair().unwrap();
        real::set_errno(libc::EAGAIN);
        for descriptor in [socket.as_raw_fd(), -1] {
            hold(ptr::null_mut(), descriptor);
        }
        assert_eq!(real::errno(), libc::EAGAIN);
        assert!(CORKED.with_borrow(Vec::is_empty));
    }
}
