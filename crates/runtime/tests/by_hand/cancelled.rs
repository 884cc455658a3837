//! Threads that are cancelled while they wait (`pthread_cancel`): they end, and nothing else does.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "threads, libssl and epoll by their C interfaces")]

use std::ffi::{c_int, c_uint, c_void};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use openssl::symm::{Cipher, encrypt_aead};
use openssl_sys as sys;

use crate::support::by_hand::{
    BIO_s_socket, Connection, Epoll, accelerated, accelerated_with, context,
};

#[test]
fn cancelled_threads_end_alone() {
    accelerated("cancelled::scenario_cancelled");
}

/// Among several policies the provider reads files now and then, which are no functions in which a
/// thread may end here.
#[test]
fn a_thread_that_seals_records_ends_alone_while_policies_are_compared() {
    accelerated_with("cancelled::scenario_sealing", &["--policy", "auto"]);
}

/// The same functions as elsewhere, but a thread may end in them.
mod ending {
    use super::*;

    #[allow(clashing_extern_declarations, reason = "they unwind here")]
    unsafe extern "C-unwind" {
        pub fn accept(listener: c_int, address: *mut c_void, length: *mut c_uint) -> c_int;
        pub fn epoll_pwait(
            epoll: c_int,
            events: *mut libc::epoll_event,
            room: c_int,
            timeout: c_int,
            mask: *const c_void,
        ) -> c_int;
        pub fn epoll_wait(
            epoll: c_int,
            events: *mut libc::epoll_event,
            room: c_int,
            timeout: c_int,
        ) -> c_int;
        pub fn poll(questions: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
        pub fn recv(socket: c_int, buffer: *mut c_void, bytes: usize, flags: c_int) -> isize;
        pub fn SSL_accept(ssl: *mut sys::SSL) -> c_int;
        pub fn SSL_do_handshake(ssl: *mut sys::SSL) -> c_int;
        pub fn SSL_read(ssl: *mut sys::SSL, buffer: *mut c_void, bytes: c_int) -> c_int;
    }
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int;
}

/// What a thread does. Nothing in it has a destructor, so that it can be unwound.
type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What a thread waits for: an epoll set, a socket and a connection.
struct Waiting {
    epoll: c_int,
    socket: c_int,
    ssl: *mut sys::SSL,
}

macro_rules! ways {
    ($(fn $name:ident($it:ident) $body:block)*) => {
        $(
            extern "C-unwind" fn $name(argument: *mut c_void) -> *mut c_void {
                // SAFETY: what `cancel` was given, which outlives the thread.
                let $it = unsafe { &*argument.cast::<Waiting>() };
                // SAFETY: descriptors and a connection that are open as long as the thread lives.
                unsafe { $body };
                ptr::null_mut()
            }
        )*
        const WAYS: &[(&str, Start)] = &[$((stringify!($name), $name)),*];
    };
}

const NO_EVENT: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

ways! {
    fn epoll_wait(it) {
        let mut event = NO_EVENT;
        ending::epoll_wait(it.epoll, &mut event, 1, -1);
    }
    fn epoll_pwait(it) {
        let mut event = NO_EVENT;
        ending::epoll_pwait(it.epoll, &mut event, 1, 10_000, ptr::null());
    }
    fn epoll_wait_behind_a_handshake(it) {
        let mut event = NO_EVENT;
        ending::epoll_wait(it.epoll, &mut event, 1, 1);
        ending::SSL_do_handshake(it.ssl);
        ending::epoll_wait(it.epoll, &mut event, 1, -1);
        ending::epoll_wait(it.epoll, &mut event, 1, -1);
        ending::epoll_wait(it.epoll, &mut event, 1, -1);
    }
    fn poll(it) {
        let mut question = libc::pollfd { fd: it.epoll, events: libc::POLLIN, revents: 0 };
        ending::poll(&mut question, 1, -1);
    }
    fn accept(it) {
        ending::accept(it.socket, ptr::null_mut(), ptr::null_mut());
    }
    fn recv(it) {
        let mut byte = 0_u8;
        ending::recv(it.socket, (&raw mut byte).cast(), 1, 0);
    }
    fn ssl_accept(it) {
        ending::SSL_accept(it.ssl);
    }
    fn ssl_do_handshake(it) {
        ending::SSL_do_handshake(it.ssl);
    }
    fn ssl_do_handshake_on_a_thread_with_epoll(it) {
        let mut event = NO_EVENT;
        ending::epoll_wait(it.epoll, &mut event, 1, 1);
        ending::SSL_do_handshake(it.ssl);
    }
    fn ssl_read(it) {
        let mut byte = 0_u8;
        ending::SSL_read(it.ssl, (&raw mut byte).cast(), 1);
    }
}

/// Seals so many records, cancelled from the beginning, and then waits.
extern "C-unwind" fn seal(argument: *mut c_void) -> *mut c_void {
    // SAFETY: this thread.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: as above.
    assert_eq!(unsafe { pthread_cancel(this) }, 0);
    for number in 0..RECORDS {
        let (key, iv, mut tag) = ([1; 16], [number; 12], [0; 16]);
        let cipher = Cipher::aes_128_gcm();
        let sealed = encrypt_aead(cipher, &key, Some(&iv), &[], &[2; 64], &mut tag);
        assert_eq!(sealed.expect("a record").len(), 64);
    }
    // SAFETY: what `cancel` was given, which outlives the thread.
    let socket = unsafe { &*argument.cast::<Waiting>() }.socket;
    let mut byte = 0_u8;
    // SAFETY: a socket, and room for a byte.
    unsafe { ending::recv(socket, (&raw mut byte).cast(), 1, 0) };
    ptr::null_mut()
}

/// More than are counted before anybody looks at the clock.
const RECORDS: u8 = 200;

/// Has a thread wait, and cancels it there.
fn cancel(way: &str, start: Start, waiting: &Waiting) {
    let mut thread = 0;
    let argument = ptr::from_ref(waiting).cast_mut().cast();
    // SAFETY: what the thread is given outlives it.
    assert_eq!(unsafe { pthread_create(&mut thread, ptr::null(), start, argument) }, 0);
    thread::sleep(Duration::from_millis(30));
    // SAFETY: a thread that was not joined.
    assert_eq!(unsafe { pthread_cancel(thread) }, 0);
    let mut result = ptr::null_mut();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_join(thread, &mut result) }, 0);
    let cancelled = ptr::without_provenance_mut(usize::MAX);
    assert_eq!(result, cancelled, "{way}");
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_cancelled() {
    let context = context();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { BIO_s_socket() };
    for &(way, start) in WAYS {
        let epoll = Epoll::new();
        let is_parked = way == "epoll_wait_behind_a_handshake";
        let connection = match is_parked {
            true => Connection::new(&context, false),
            false => Connection::silent(kind, &context, true),
        };
        let socket =
            if way == "accept" { listener.as_raw_fd() } else { connection.socket.as_raw_fd() };
        if is_parked {
            epoll.add(socket, libc::EPOLLIN | libc::EPOLLET);
        }
        cancel(way, start, &Waiting { epoll: epoll.0, socket, ssl: connection.ssl });
        // Whatever it was about, another thread may free it.
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_sealing() {
    let context = context();
    // SAFETY: libcrypto's constant table.
    let connection = Connection::silent(unsafe { BIO_s_socket() }, &context, true);
    let epoll = Epoll::new();
    let socket = connection.socket.as_raw_fd();
    cancel("seal", seal, &Waiting { epoll: epoll.0, socket, ssl: connection.ssl });
    connection.free();
}
