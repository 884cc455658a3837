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
//!
//! `close` and `send` of every program come here, in signal handlers too, which may interrupt
//! whatever this thread does. So what a thread holds has a fixed place, without a destructor (the
//! loader takes a lock and allocates to register one), and is made of atomics.
#![allow(unsafe_code, reason = "asks and sets options of a socket")]

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::real;

/// Whether any thread has ever held a packet: until then nothing of a thread is looked at.
static HAS_HELD: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HELD: Held = const { Held::nothing() };
    /// Whether the packet that the thread sends next is to be held.
    static HOLDS_NEXT: Cell<bool> = const { Cell::new(false) };
}

/// Packets that a thread holds at once; further ones leave as ever.
const HELD_MAX: usize = 128;

/// What one thread holds.
struct Held {
    count: AtomicU32,
    places: [Place; HELD_MAX],
}

impl Held {
    const fn nothing() -> Self {
        Self { count: AtomicU32::new(0), places: [const { Place::empty() }; HELD_MAX] }
    }

    /// False if there is no room.
    fn add(&self, corked: Corked) -> bool {
        let is_added = self.places.iter().any(|place| place.fill(corked));
        self.count.fetch_add(u32::from(is_added), Ordering::Relaxed);
        is_added
    }

    /// All places in use, and what is there.
    fn iter(&self) -> impl Iterator<Item = (&Place, Corked)> {
        let count = self.count.load(Ordering::Relaxed) as usize;
        self.places.iter().filter_map(|place| Some((place, place.get()?))).take(count)
    }
}

struct Place {
    ssl: AtomicPtr<c_void>,
    /// The way and the descriptor, or [`NOTHING`]. The thread that takes them out owns them.
    what: AtomicU64,
}

/// No way has the number zero.
const NOTHING: u64 = 0;

impl Place {
    const fn empty() -> Self {
        Self { ssl: AtomicPtr::new(ptr::null_mut()), what: AtomicU64::new(NOTHING) }
    }

    fn fill(&self, corked: Corked) -> bool {
        if self.what.load(Ordering::Relaxed) != NOTHING {
            return false;
        }
        self.ssl.store(corked.ssl, Ordering::Relaxed);
        self.change(NOTHING, corked.what())
    }

    fn get(&self) -> Option<Corked> {
        let what = self.what.load(Ordering::Acquire);
        let way = match what >> 32 {
            1 => Way::Option,
            2 => Way::Flag,
            _ => return None,
        };
        Some(Corked { ssl: self.ssl.load(Ordering::Relaxed), descriptor: what as c_int, way })
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.what.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Where each thread finds what another one holds: by the address of the connection, each place for
/// one at a time. One that is overwritten is let go when its own thread sleeps.
///
/// Each is a part of the address, and the descriptor. Connections that look alike by that let each
/// other's packets go, which is early and no more.
static MARKS: [AtomicU64; MARKS_COUNT] = [const { AtomicU64::new(0) }; MARKS_COUNT];

const MARKS_COUNT: usize = 256;

/// Where the mark of a connection is, and how it begins.
fn mark_of(ssl: *mut c_void) -> (&'static AtomicU64, u32) {
    // Connections are some kilobytes apart, at multiples of 16.
    let number = ssl.addr() >> 4;
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (&MARKS[hash >> (usize::BITS - MARKS_COUNT.ilog2())], number as u32)
}

fn set_mark(ssl: *mut c_void, descriptor: c_int) {
    let (mark, start) = mark_of(ssl);
    mark.store(u64::from(start) << 32 | u64::from(descriptor.cast_unsigned()), Ordering::Relaxed);
}

/// Takes the mark of a connection away; its socket, if there was one.
fn take_mark(ssl: *mut c_void) -> Option<c_int> {
    let (mark, start) = mark_of(ssl);
    let known = mark.load(Ordering::Relaxed);
    if ssl.is_null() || known == 0 || (known >> 32) as u32 != start {
        return None;
    }
    let taken = mark.compare_exchange(known, 0, Ordering::Relaxed, Ordering::Relaxed);
    taken.is_ok().then_some(known as c_int)
}

/// A connection and its socket, either of which may be gone by now: the kernel sends what it holds
/// when a socket is closed, and an option that is off can be turned off again.
#[derive(Clone, Copy)]
struct Corked {
    ssl: *mut c_void,
    descriptor: c_int,
    way: Way,
}

/// How a packet is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `TCP_CORK`, until it is turned off.
    Option = 1,
    /// `MSG_MORE`, until something is sent without.
    Flag,
}

/// Holds packets of a socket that are not full. Where that is not possible nothing changes.
pub(crate) fn hold(ssl: *mut c_void, descriptor: c_int) {
    if is_held(descriptor) || !set(descriptor, true) {
        return;
    }
    if note(Corked { ssl, descriptor, way: Way::Option }) {
        set_mark(ssl, descriptor);
    } else {
        set(descriptor, false);
    }
}

/// Has [`flags_of_send`] hold what the thread sends next, if it sends anything before
/// [`hold_no_more`].
pub(crate) fn hold_next() {
    HAS_HELD.store(true, Ordering::Relaxed);
    HOLDS_NEXT.set(true);
}

/// What was to be held has been sent, or will not be.
pub(crate) fn hold_no_more() {
    HOLDS_NEXT.set(false);
}

/// The flags by which a program's bytes are sent.
pub(crate) fn flags_of_send(descriptor: c_int, flags: c_int) -> c_int {
    if !has_held() {
        return flags;
    }
    let corked = Corked { ssl: ptr::null_mut(), descriptor, way: Way::Flag };
    if HOLDS_NEXT.replace(false) && (is_held(descriptor) || note(corked)) {
        return flags | libc::MSG_MORE;
    }
    // What is sent now takes along what was held.
    take(|corked| corked.descriptor == descriptor && corked.way == Way::Flag, |_| ());
    flags
}

/// The program has written to a connection, which may be held by any thread.
pub(crate) fn release(ssl: *mut c_void) {
    if !has_held() {
        return;
    }
    take(|corked| ptr::eq(corked.ssl, ssl), Corked::send);
    if let Some(descriptor) = take_mark(ssl) {
        set(descriptor, false);
    }
}

/// Whether the thread holds any.
pub(crate) fn holds_any() -> bool {
    has_held() && HELD.with(|held| held.count.load(Ordering::Relaxed) > 0)
}

/// The thread is about to sleep, or ends its turn, or becomes another program.
pub(crate) fn release_all() {
    take(|_| true, Corked::send);
}

/// The program is about to close a socket. The kernel sends what it holds with the end of the
/// stream, unless that resets the connection, or another descriptor keeps the socket open: then
/// what `MSG_MORE` holds leaves in 200 ms, but `TCP_CORK` would stay.
pub(crate) fn close(descriptor: c_int) {
    take(
        |corked| corked.descriptor == descriptor,
        |corked| {
            if corked.way == Way::Option || will_reset(descriptor) {
                corked.send();
            }
        },
    );
}

impl Corked {
    fn what(&self) -> u64 {
        (self.way as u64) << 32 | u64::from(self.descriptor.cast_unsigned())
    }

    fn send(&self) {
        // This sends what `MSG_MORE` has held as well.
        set(self.descriptor, false);
    }
}

fn has_held() -> bool {
    HAS_HELD.load(Ordering::Relaxed)
}

fn is_held(descriptor: c_int) -> bool {
    HELD.with(|held| held.iter().any(|(_, corked)| corked.descriptor == descriptor))
}

/// False if there is no room.
fn note(corked: Corked) -> bool {
    HAS_HELD.store(true, Ordering::Relaxed);
    HELD.with(|held| held.add(corked))
}

/// Takes what is due out of the list.
fn take(is_due: impl Fn(&Corked) -> bool, then: impl Fn(&Corked)) {
    if !holds_any() {
        return;
    }
    HELD.with(|held| {
        for (place, corked) in held.iter() {
            if is_due(&corked) && place.change(corked.what(), NOTHING) {
                held.count.fetch_sub(1, Ordering::Relaxed);
                take_mark(corked.ssl);
                then(&corked);
            }
        }
    });
}

/// Whether the kernel will reset the connection when its socket is closed: the peer has sent what
/// was not received, or the program wants nothing to linger. Leaves `errno` as it is.
fn will_reset(descriptor: c_int) -> bool {
    let errno = real::errno();
    let resets = has_unread(descriptor) || !may_linger(descriptor);
    real::set_errno(errno);
    resets
}

fn has_unread(descriptor: c_int) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one number.
    let status = unsafe { libc::ioctl(descriptor, libc::FIONREAD, ptr::from_mut(&mut bytes)) };
    status != 0 || bytes > 0
}

fn may_linger(descriptor: c_int) -> bool {
    let mut option = libc::linger { l_onoff: 0, l_linger: 0 };
    let mut bytes = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes to the structure, and their number.
    let status = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            ptr::from_mut(&mut option).cast(),
            &mut bytes,
        )
    };
    status == 0 && (option.l_onoff == 0 || option.l_linger != 0)
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

    fn held() -> usize {
        HELD.with(|held| held.iter().count())
    }

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
        assert!(!holds_any());
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
        assert_eq!(held(), 1);
        release_all();
        other_client.set_nonblocking(false).unwrap();
        assert_eq!(other_client.read(&mut bytes).unwrap(), b"tickets".len());
        // What was not sent at all is no longer held.
        hold_next();
        hold_no_more();
        send(&server, b"answer");
        assert_eq!(client.read(&mut bytes).unwrap(), b"answer".len());
    }

    fn linger_not_at_all(socket: &TcpStream) {
        let option = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the kernel reads the structure, of this size.
        let status = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                ptr::from_ref(&option).cast(),
                size_of_val(&option) as libc::socklen_t,
            )
        };
        assert_eq!(status, 0);
    }

    #[test]
    fn the_last_packet_of_a_socket_is_never_lost() {
        for case in 0..8 {
            let [is_by_flag, has_unread, lingers] = [0, 1, 2].map(|bit| case >> bit & 1 == 1);
            let (mut client, mut server) = pair();
            if has_unread {
                client.write_all(b"more").unwrap();
            }
            if !lingers {
                linger_not_at_all(&server);
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
            assert!(!holds_any());
            client.set_nonblocking(false).unwrap();
            assert_eq!(
                client.read(&mut bytes).unwrap(),
                b"goodbye".len(),
                "{is_by_flag} {has_unread} {lingers}"
            );
        }
    }

    #[test]
    fn a_socket_that_outlives_its_descriptor_is_let_go() {
        let (_client, server) = pair();
        let other = server.try_clone().unwrap();
        hold(ptr::null_mut(), server.as_raw_fd());
        assert!(is_corked(&other));
        drop(server);
        assert!(!is_corked(&other) && !holds_any());
    }

    #[test]
    fn a_process_that_becomes_another_program_lets_go() {
        let (_client, server) = pair();
        hold(ptr::null_mut(), server.as_raw_fd());
        let nothing = [ptr::null()];
        // SAFETY: C strings and lists of none; there is no such program.
        let status = unsafe {
            libc::execve(c"/no/such/program".as_ptr(), nothing.as_ptr(), nothing.as_ptr())
        };
        assert!(status == -1 && !is_corked(&server));
    }

    #[test]
    fn a_signal_handler_may_close_what_is_just_let_go() {
        let ((_client, server), (_other_client, other)) = (pair(), pair());
        for socket in [&server, &other] {
            hold(ptr::null_mut(), socket.as_raw_fd());
        }
        let handle = |_: &Corked| [&server, &other].map(|it| close(it.as_raw_fd()));
        take(|corked| corked.descriptor == server.as_raw_fd(), |corked| _ = handle(corked));
        assert!(!holds_any() && !is_corked(&other));
    }

    #[test]
    fn what_there_is_no_room_for_leaves_at_once() {
        let pairs: Vec<_> = (0..HELD_MAX + 2).map(|_| pair()).collect();
        for (_, server) in &pairs {
            hold(ptr::null_mut(), server.as_raw_fd());
        }
        hold_next();
        let (mut client, server) = pair();
        send(&server, b"tickets");
        client.set_nonblocking(false).unwrap();
        assert_eq!(client.read(&mut [0; 16]).unwrap(), b"tickets".len());
        assert_eq!(held(), HELD_MAX);
        assert_eq!(pairs.iter().filter(|(_, server)| is_corked(server)).count(), HELD_MAX);
        release_all();
        assert!(!pairs.iter().any(|(_, server)| is_corked(server)) && !holds_any());
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
        assert_eq!(take_mark(ssl), None);
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
        assert!(!holds_any());
    }
}
