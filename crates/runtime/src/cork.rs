//! Sockets whose last packet waits for what the program does next.
//!
//! A server often answers a request that came with the client's Finished message: what libssl sends
//! behind the handshake and that answer then fit in one packet, and the client is woken once. And
//! HAProxy hangs up right behind its goodbye, so that both fit in one packet, too.
//!
//! Linux holds a packet by `TCP_CORK`, or by `MSG_MORE` where it is a program's BIO that sends (for
//! 200 ms at most). It is let go by the connection's next write, by `close`, and before the thread
//! sleeps or asks for events, whatever its program does meanwhile. Another thread that writes to
//! the connection finds its mark in a table of all threads.
#![allow(unsafe_code, reason = "asks and sets options of a socket")]

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::real;

thread_local! {
    static CORKED: RefCell<Vec<Corked>> = const { RefCell::new(Vec::new()) };
    /// Whether the packet that the thread sends next is to be held.
    static HOLDS_NEXT: Cell<bool> = const { Cell::new(false) };
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
    way: Way,
}

/// How a packet is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `TCP_CORK`, until it is turned off.
    Option,
    /// `MSG_MORE`, until something is sent without.
    Flag,
}

/// Holds packets of a socket that are not full. Where that is not possible nothing changes.
pub(crate) fn hold(ssl: *mut c_void, descriptor: c_int) {
    if !is_held(descriptor) && set(descriptor, true) {
        note(Corked { ssl, descriptor, way: Way::Option });
        Mark::set(ssl, descriptor);
    }
}

/// Has [`flags_of_send`] hold what the thread sends next, if it sends anything before
/// [`hold_no_more`].
pub(crate) fn hold_next() {
    let _ = HOLDS_NEXT.try_with(|holds| holds.set(true));
}

/// What was to be held has been sent, or will not be.
pub(crate) fn hold_no_more() {
    let _ = HOLDS_NEXT.try_with(|holds| holds.set(false));
}

/// The flags by which a program's bytes are sent.
pub(crate) fn flags_of_send(descriptor: c_int, flags: c_int) -> c_int {
    if HOLDS_NEXT.try_with(|holds| holds.replace(false)).unwrap_or(false) {
        if !is_held(descriptor) {
            note(Corked { ssl: ptr::null_mut(), descriptor, way: Way::Flag });
        }
        return flags | libc::MSG_MORE;
    }
    // What is sent now takes along what was held.
    take(|corked| corked.descriptor == descriptor && corked.way == Way::Flag, |_| ());
    flags
}

/// The program has written to a connection, which may be held by any thread.
pub(crate) fn release(ssl: *mut c_void) {
    take(|corked| ptr::eq(corked.ssl, ssl), Corked::send);
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
    take(|_| true, Corked::send);
}

/// The program is about to close a socket. The kernel sends what it holds with the end of the
/// stream, unless the peer has sent what nobody has read: then it resets the connection.
pub(crate) fn close(descriptor: c_int) {
    take(
        |corked| corked.descriptor == descriptor,
        |corked| {
            if has_unread(descriptor) {
                corked.send();
            }
        },
    );
}

impl Corked {
    fn send(&self) {
        // This sends what `MSG_MORE` has held as well.
        set(self.descriptor, false);
    }
}

fn is_held(descriptor: c_int) -> bool {
    // Error: the thread is ending.
    let known = CORKED.try_with(|all| all.borrow().iter().any(|it| it.descriptor == descriptor));
    known.unwrap_or(true)
}

fn note(corked: Corked) {
    let _ = CORKED.try_with(|all| all.borrow_mut().push(corked));
}

/// Takes what is due out of the list.
fn take(is_due: impl Fn(&Corked) -> bool, then: impl Fn(&Corked)) {
    // Error: the thread is ending.
    let _ = CORKED.try_with(|all| {
        let mut all = all.borrow_mut();
        if !all.is_empty() {
            all.extract_if(.., |corked| is_due(corked)).for_each(|corked| {
                Mark::take(corked.ssl);
                then(&corked);
            });
        }
    });
}

/// Whether the peer has sent something that was not received; leaves `errno` as it is.
fn has_unread(descriptor: c_int) -> bool {
    let errno = real::errno();
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one number.
    let status = unsafe { libc::ioctl(descriptor, libc::FIONREAD, ptr::from_mut(&mut bytes)) };
    real::set_errno(errno);
    status != 0 || bytes > 0
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

    /// Sends as a program's BIO does, through our door.
    fn send(socket: &TcpStream, bytes: &[u8]) {
        let start = bytes.as_ptr().cast();
        // SAFETY: bytes of this length.
        let sent = unsafe { libc::send(socket.as_raw_fd(), start, bytes.len(), 0) };
        assert_eq!(sent, bytes.len() as isize);
    }

    #[test]
    fn packets_of_a_bio_wait_for_the_next_one() {
        let ((mut client, server), (mut other_client, other)) = (pair(), pair());
        let mut bytes = [0; 16];
        for (socket, is_next) in [(&server, true), (&other, true), (&server, false)] {
            if is_next {
                hold_next();
            }
            send(socket, b"tickets");
            hold_no_more();
        }
        client.set_nonblocking(false).unwrap();
        assert_eq!(client.read(&mut bytes).unwrap(), 2 * b"tickets".len(), "in one packet");
        assert_eq!(other_client.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(CORKED.with_borrow(Vec::len), 1);
        release_all();
        other_client.set_nonblocking(false).unwrap();
        assert_eq!(other_client.read(&mut bytes).unwrap(), b"tickets".len());
        // What was not sent at all is no longer held.
        hold_next();
        hold_no_more();
        send(&server, b"answer");
        assert_eq!(client.read(&mut bytes).unwrap(), b"answer".len());
    }

    #[test]
    fn the_last_packet_of_a_socket_is_never_lost() {
        for (is_by_flag, has_unread) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let (mut client, mut server) = pair();
            if has_unread {
                client.write_all(b"more").unwrap();
            }
            if is_by_flag {
                hold_next();
                send(&server, b"goodbye");
            } else {
                hold(ptr::null_mut(), server.as_raw_fd());
                server.write_all(b"goodbye").unwrap();
            }
            let mut bytes = [0; 16];
            assert_eq!(client.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
            // Through our door as well.
            drop(server);
            assert!(CORKED.with_borrow(Vec::is_empty));
            client.set_nonblocking(false).unwrap();
            assert_eq!(
                client.read(&mut bytes).unwrap(),
                b"goodbye".len(),
                "{is_by_flag} {has_unread}"
            );
        }
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
