//! What no server does on request: a connection parked at will, then freed, cleared, read, forked.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use openssl::ssl::{ClientHelloResponse, SslContext};
use openssl_sys as sys;
use widelane_testkit::rooms::{has_lanes, has_rsa};

use crate::support;
use crate::support::by_hand::{
    BIO_s_socket, Connection, DATA, Epoll, accelerated, accelerated_with, accelerated_with_lanes,
    context, excluding_context, executed, file, new_ssl, rare_context, rare_context_with,
};

/// Tests by their scenarios, and how many operations are withdrawn and parked there.
macro_rules! scenarios {
    ($($test:ident: $scenario:literal, $expected:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let scenario = concat!("parked::", $scenario);
                let Some(counters) = accelerated_with_lanes(scenario) else { return };
                let counted = (counters.jobs_cancelled, counters.parked());
                assert_eq!(counted, $expected, "{counters:?}");
            }
        )*
    };
}

scenarios! {
    freeing_a_parked_connection_withdraws_its_operation: "scenario_free", (1, 0);
    the_last_reference_to_a_connection_ends_its_handshake: "scenario_references", (1, 3);
    another_thread_may_free_a_parked_connection: "scenario_free_elsewhere", (1, 0);
    a_cleared_connection_handshakes_anew: "scenario_clear", (1, 1);
    reading_a_parked_connection_waits_like_the_handshake: "scenario_read", (0, 1);
    extra_data_that_nobody_asked_for_stays_the_programs: "scenario_extra_data", (1, 0);
    excluding_a_provider_that_is_not_loaded_excludes_nothing: "scenario_exclusion", (1, 0);
    a_forked_child_may_call_for_its_copy: "scenario_fork_and_call", (2, 0);
    a_callback_of_another_connection_may_free_a_parked_one: "scenario_free_in_callback", (1, 1);
    another_thread_may_continue_a_handshake: "scenario_continue_elsewhere", (0, 1);
    handshakes_of_a_thread_that_ends_or_blocks_go_on: "scenario_left_behind", (0, 2);
    a_listener_that_does_not_block_closes_no_batch: "scenario_accept", (0, 1);
    another_thread_does_not_clear_a_parked_connection: "scenario_clear_elsewhere", (0, 1);
    a_descriptor_may_be_registered_after_the_call: "scenario_late_registration", (0, 2);
    a_program_may_wait_by_other_functions_than_epoll: "scenario_other_pollers", (0, 6);
    epoll_sets_may_be_duplicated_and_nested: "scenario_other_epoll_sets", (0, 2);
    errors_of_others_are_not_taken_for_a_resumed_handshake_s: "scenario_stale_error", (0, 1);
    a_callback_of_another_connection_drives_no_parked_one: "scenario_call_in_callback", (0, 2);
    what_fails_on_a_parked_connection_says_so: "scenario_shutdown", (0, 1);
    a_copy_of_a_cleared_connection_is_freed_once: "scenario_duplicate", (1, 0);
    a_call_without_a_connection_is_libssl_s: "scenario_no_connection", (1, 0);
}

#[test]
fn a_forked_child_may_free_its_copy() {
    for scenario in ["parked::scenario_fork", "parked::scenario_clone"] {
        let Some(counters) = accelerated_with_lanes(scenario) else { return };
        assert_eq!(counters.parked(), 1, "{counters:?}");
    }
}

#[test]
fn a_forked_child_sends_nothing_by_itself() {
    for scenario in ["parked::scenario_fork_and_sleep", "parked::scenario_clone_and_sleep"] {
        let Some(counters) = accelerated_with_lanes(scenario) else { return };
        assert_eq!(counters.parked(), 1, "{counters:?}");
    }
}

#[test]
fn a_process_that_exits_leaves_its_handshakes_alone() {
    accelerated_with_lanes("parked::scenario_exit");
}

#[test]
fn a_first_thread_that_ends_by_itself_finishes_its_handshakes() {
    accelerated_with_lanes("parked::scenario_end_of_first_thread");
}

#[test]
fn one_shot_and_level_triggered_programs_are_served() {
    let Some(counters) = accelerated_with_lanes("parked::scenario_other_epoll_modes") else {
        return;
    };
    assert_eq!(counters.parked(), 3, "{counters:?}");
}

#[test]
fn a_rare_operation_does_not_wait_for_its_like() {
    let counters = accelerated("parked::scenario_rare");
    assert_eq!((counters.jobs_cancelled, counters.jobs_synchronous), (0, 0), "{counters:?}");
}

#[test]
fn a_handshake_that_is_alone_goes_on_at_once() {
    let Some(counters) = accelerated_with_lanes("parked::scenario_alone") else { return };
    assert_eq!((counters.handshakes, counters.parked()), (2, 2), "{counters:?}");
    assert_eq!(counters.jobs_synchronous, 0, "{counters:?}");
}

#[test]
fn handshakes_that_are_all_there_is_go_on_at_once() {
    let Some(counters) = accelerated_with_lanes("parked::scenario_all") else { return };
    assert_eq!((counters.handshakes, counters.parked()), (2, 2), "{counters:?}");
    assert_eq!(counters.jobs_synchronous, 0, "{counters:?}");
}

#[test]
fn under_load_a_handshake_waits_for_company() {
    if !has_lanes() {
        return;
    }
    let counters = accelerated_with("parked::scenario_company", &["--wait-max", "10ms"]);
    assert!(counters.short_waits > 0 && counters.short_wait_company > 0, "{counters:?}");
    assert_eq!((counters.jobs_cancelled, counters.jobs_synchronous), (0, 0), "{counters:?}");

    let counters = accelerated_with("parked::scenario_no_company", &["--wait-max", "0"]);
    assert_eq!((counters.short_waits, counters.short_wait_company), (0, 0), "{counters:?}");
}

#[test]
fn blocking_sockets_and_memory_are_not_parked() {
    let counters = accelerated("parked::scenario_not_parked");
    assert_eq!((counters.handshakes, counters.parked()), (0, 0), "{counters:?}");
    let synchronous = if has_rsa() { 2 } else { 0 };
    assert_eq!(counters.jobs_synchronous, synchronous, "{counters:?}");
}

unsafe extern "C" {
    fn SSL_clear(ssl: *mut sys::SSL) -> c_int;
    fn SSL_dup(ssl: *mut sys::SSL) -> *mut sys::SSL;
    fn SSL_up_ref(ssl: *mut sys::SSL) -> c_int;
    fn SSL_set_info_callback(
        ssl: *mut sys::SSL,
        callback: Option<extern "C" fn(*const sys::SSL, c_int, c_int)>,
    );
}

unsafe extern "C-unwind" {
    fn pthread_exit(result: *mut c_void) -> !;
}

/// An `SSL` that another thread may use: its only owner while it does.
struct Lent(*mut sys::SSL);

// SAFETY: who lends it does not use it meanwhile.
unsafe impl Send for Lent {}

impl Lent {
    fn handshake(&self) -> c_int {
        // SAFETY: a live SSL.
        unsafe { sys::SSL_do_handshake(self.0) }
    }

    /// A read by whoever has it: its result, and what `SSL_get_error` says of it.
    fn read(&self) -> (c_int, c_int) {
        let mut buffer = [0u8; 16];
        // SAFETY: a live SSL, and room for 16 bytes.
        let result = unsafe { sys::SSL_read(self.0, buffer.as_mut_ptr().cast(), 16) };
        // SAFETY: a live SSL.
        (result, unsafe { sys::SSL_get_error(self.0, result) })
    }
}

/// Waits by `poll` until the client's side has something to read.
fn flight_comes(connection: &Connection) -> bool {
    let descriptor = connection.client.as_raw_fd();
    let mut question = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut question, 1, 0) == 1 }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_continue_elsewhere() {
    // As memcached does: one thread accepts, and gives the connection to another, which reads.
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::new(&context, false);
    assert_eq!(connection.handshake(), -1);
    let (lent, descriptor) = (Lent(connection.ssl), connection.socket.as_raw_fd());
    let (registered, wait_for_registration) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let epoll = Epoll::new();
        epoll.add(descriptor, libc::EPOLLIN);
        registered.send(()).expect("the listener waits");
        // Told to read, or not at all: what the listener was told to wait for is not its business.
        let began = std::time::Instant::now();
        loop {
            let (result, error) = lent.read();
            assert_eq!(result, -1);
            if error == sys::SSL_ERROR_WANT_READ && epoll.wait(10).is_none() {
                break;
            }
            assert!(began.elapsed().as_secs() < 10, "the handshake hangs");
        }
        lent.read()
    });
    wait_for_registration.recv().expect("the worker registers");
    // The listener has nothing else to do, and nobody tells it of the connection.
    assert_eq!(epoll.wait(100), None);
    assert_eq!(worker.join().expect("a worker"), (-1, sys::SSL_ERROR_WANT_READ));
    assert!(connection.sent() > 1000, "certificate and key exchange");
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_left_behind() {
    let context = context();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has an address");
    for blocks in [false, true] {
        let connection = Connection::new(&context, false);
        let lent = Lent(connection.ssl);
        let listener = blocks.then(|| listener.try_clone().expect("a second handle"));
        let thread = std::thread::spawn(move || {
            let _epoll = Epoll::new();
            assert_eq!(lent.handshake(), -1);
            listener.map(|listener| listener.accept().expect("somebody calls"))
        });
        support::wait_until("the server's flight", || flight_comes(&connection));
        connection.assert_went_on();
        let _caller = blocks.then(|| TcpStream::connect(address).expect("it listens"));
        thread.join().expect("it has parked a handshake");
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_accept() {
    let (context, epoll) = (context(), Epoll::new());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("our own socket");
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN);
    assert!(listener.accept().is_err(), "nobody calls");
    assert!(!flight_comes(&connection), "more may come");
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_clear_elsewhere() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN);
    let lent = Lent(connection.ssl);
    // SAFETY: a live SSL.
    let clear = std::thread::spawn(move || unsafe { SSL_clear({ lent }.0) });
    assert_eq!(clear.join().expect("a thread that clears"), 0, "it is in use");
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_late_registration() {
    let context = context();
    for events in [libc::EPOLLIN, libc::EPOLLIN | libc::EPOLLET] {
        let epoll = Epoll::new();
        let connection = Connection::new(&context, false);
        assert_eq!(connection.handshake(), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
        epoll.add(connection.socket.as_raw_fd(), events);
        while connection.sent() == 0 {
            let reported = epoll.wait(1_000).expect("an event");
            assert_eq!(reported & !events.cast_unsigned(), 0, "only what was asked for");
            assert_eq!(connection.handshake(), -1);
        }
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_other_pollers() {
    let (context, epoll) = (context(), Epoll::new());
    let mut none = libc::timeval { tv_sec: 0, tv_usec: 1 };
    let short = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    let (null, wait) = (std::ptr::null_mut(), std::ptr::null());
    for function in 0..6 {
        let connection = Connection::parked(&context, &epoll, libc::EPOLLIN);
        let descriptor = connection.client.as_raw_fd();
        let mut question = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        assert!(!flight_comes(&connection), "nothing sleeps yet");
        match function {
            // SAFETY: one entry.
            0 | 1 => unsafe { libc::poll(&mut question, 1, 1_000) },
            // SAFETY: as above; no timeout and no mask.
            2 | 3 => unsafe { libc::ppoll(&mut question, 1, wait, wait.cast()) },
            // SAFETY: no sets of descriptors, and a timeout.
            4 => unsafe { libc::select(0, null, null, null, &mut none) },
            // SAFETY: as above, and no mask.
            _ => unsafe { libc::pselect(0, null, null, null, &short, wait.cast()) },
        };
        assert!(flight_comes(&connection), "{function}");
        connection.assert_went_on();
        connection.free();
        drop(connection);
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_other_epoll_sets() {
    let context = context();
    for nested in [false, true] {
        let inner = Epoll::new();
        let connection = Connection::new(&context, false);
        inner.add(connection.socket.as_raw_fd(), libc::EPOLLIN);
        assert_eq!(connection.handshake(), -1);
        let outer = if nested {
            let outer = Epoll::new();
            outer.add(inner.0, libc::EPOLLIN);
            outer
        } else {
            // SAFETY: a second number for the same set.
            Epoll(unsafe { libc::dup(inner.0) })
        };
        // Whatever it is told, the handshake goes on before the thread sleeps.
        outer.wait(100);
        assert!(flight_comes(&connection), "nested: {nested}");
        connection.assert_went_on();
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_shutdown() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: a live SSL.
    assert_eq!(unsafe { sys::SSL_shutdown(connection.ssl) }, -1);
    assert_eq!(connection.error(-1), sys::SSL_ERROR_SSL, "it says why in the error queue");
    assert_eq!(connection.handshake(), -1);
    assert_eq!(connection.error(-1), sys::SSL_ERROR_WANT_READ, "the queue was emptied, as ever");
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_duplicate() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: a live SSL.
    assert_eq!(unsafe { SSL_clear(connection.ssl) }, 1);
    // SAFETY: as above.
    let copy = unsafe { SSL_dup(connection.ssl) };
    assert!(!copy.is_null() && copy != connection.ssl);
    // SAFETY: freed once.
    unsafe { sys::SSL_free(copy) };
    connection.free();
    while epoll.wait(0).is_some() {}
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    connection.free();
    assert_eq!(connection.sent(), 0, "nothing of an abandoned handshake reaches the wire");
    // SAFETY: reads this thread's queue.
    assert_eq!(unsafe { sys::ERR_get_error() }, 0, "the error queue stays as it was");
    while epoll.wait(0).is_some() {}
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_references() {
    let (context, epoll) = (context(), Epoll::new());
    // As long as no event has come an operation waits.
    let wait_in_vain = || assert_eq!(epoll.wait(1), None);
    for [before, behind] in [[1, 0], [0, 1], [2, 1]] {
        wait_in_vain();
        let connection = Connection::new(&context, false);
        let add = |count| {
            for _ in 0..count {
                // SAFETY: a live SSL.
                assert_eq!(unsafe { SSL_up_ref(connection.ssl) }, 1);
            }
        };
        add(before + 1);
        connection.free();
        epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
        assert_eq!(connection.handshake(), -1);
        add(behind);
        (0..before + behind).for_each(|_| connection.free());
        assert_eq!(connection.sent(), 0);
        while connection.sent() == 0 {
            epoll.wait(100);
            assert_eq!(connection.handshake(), -1);
            assert_eq!(connection.error(-1), sys::SSL_ERROR_WANT_READ);
        }
        connection.free();
    }
    wait_in_vain();
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: a live SSL.
    assert_eq!(unsafe { SSL_up_ref(connection.ssl) }, 1);
    connection.free();
    connection.free();
    assert_eq!(epoll.wait(10), None);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free_elsewhere() {
    struct Address(usize);
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let address = Address(connection.ssl as usize);
    std::thread::spawn(move || {
        // SAFETY: the SSL's only owner now.
        unsafe { sys::SSL_free(address.0 as *mut sys::SSL) };
    })
    .join()
    .expect("a thread that frees");
    while epoll.wait(0).is_some() {}
    assert_eq!(connection.sent(), 0);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_clear() {
    let (context, epoll) = (context(), Epoll::new());
    let mut connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: a live SSL.
    assert_eq!(unsafe { SSL_clear(connection.ssl) }, 1);
    assert_eq!(connection.sent(), 0);
    let hello = std::fs::read(file("hello")).expect("captured");
    connection.client.write_all(&hello).expect("room");
    assert_eq!(connection.handshake(), -1);
    while connection.sent() == 0 {
        epoll.wait(-1).expect("an event");
        assert_eq!(connection.handshake(), -1);
    }
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_read() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let read = || {
        let mut buffer = [0u8; 16];
        let buffer = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: room for 16 bytes.
        unsafe { sys::SSL_read(connection.ssl, buffer, 16) }
    };
    assert_eq!(read(), -1);
    assert_eq!(connection.error(-1), sys::SSL_ERROR_WANT_READ);
    while connection.sent() == 0 {
        epoll.wait(-1).expect("an event");
        assert_eq!(read(), -1);
    }
    assert_eq!(connection.error(-1), sys::SSL_ERROR_WANT_READ);
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_exclusion() {
    let (context, epoll) = (excluding_context(c"provider!=fips"), Epoll::new());
    Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET).free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_extra_data() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let values: Vec<usize> = (0..8).map(|index| 0x1001 + index).collect();
    for (index, value) in (0..).zip(&values) {
        // SAFETY: an SSL, and a value that OpenSSL does not look at.
        assert_eq!(unsafe { sys::SSL_set_ex_data(connection.ssl, index, *value as *mut _) }, 1);
    }
    for (index, value) in (0..).zip(&values) {
        // SAFETY: as above.
        assert_eq!(unsafe { sys::SSL_get_ex_data(connection.ssl, index) } as usize, *value);
    }
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_fork() {
    free_in_a_child(fork);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_clone() {
    free_in_a_child(clone);
}

fn free_in_a_child(fork: Fork) {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let status = in_a_child(fork, || {
        connection.free();
        0
    });
    assert_eq!(status, 0);
    assert_eq!(connection.sent(), 0, "the child's copy sends nothing");
    while epoll.wait(0).is_some() {}
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_fork_and_sleep() {
    sleep_in_a_child(fork);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_clone_and_sleep() {
    sleep_in_a_child(clone);
}

fn sleep_in_a_child(fork: Fork) {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let status = in_a_child(fork, || {
        // SAFETY: waits for no descriptor, for a millisecond.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
        epoll.ready(1);
        // SAFETY: ends the child as programs end, with the destructors of its thread.
        unsafe { libc::exit(0) }
    });
    assert_eq!(status, 0);
    assert_eq!(connection.sent(), 0, "the handshake is the parent's");
    while epoll.wait(0).is_some() {}
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
}

/// Whether the program has freed what its callback uses.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn abort_at_the_end(_: *const sys::SSL, _: c_int, _: c_int) {
    if IS_ENDING.load(Ordering::Relaxed) {
        std::process::abort();
    }
}

/// Parks a connection in a process that is about to end.
fn park_before_the_end() -> Connection {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::new(&context, false);
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: a live SSL.
    unsafe { SSL_set_info_callback(connection.ssl, Some(abort_at_the_end)) };
    assert!(connection.parks());
    IS_ENDING.store(true, Ordering::Relaxed);
    std::mem::forget((context, epoll));
    connection
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_exit() {
    /// Ends a thread, and the process with it.
    fn exit() -> ! {
        // SAFETY: ends the child as programs end, with the destructors of the calling thread.
        unsafe { libc::exit(0) }
    }
    let first_thread = in_a_child(fork, || {
        std::mem::forget(park_before_the_end());
        exit()
    });
    let other_thread = in_a_child(fork, || {
        let worker = thread::spawn(|| {
            std::mem::forget(park_before_the_end());
            exit()
        });
        worker.join().map_or(1, |()| 1)
    });
    // What is freed on the way out is freed as natively.
    let freed_behind_the_end = in_a_child(fork, || {
        extern "C" fn free() {
            let ssl: *mut sys::SSL = TO_FREE.load(Ordering::Relaxed) as *mut sys::SSL;
            // SAFETY: the connection that the process had parked.
            let result = unsafe { sys::SSL_do_handshake(ssl) };
            assert_eq!(result, -1);
            // SAFETY: the same one.
            unsafe { sys::SSL_free(ssl) };
        }
        static TO_FREE: AtomicUsize = AtomicUsize::new(0);
        let connection = park_before_the_end();
        TO_FREE.store(connection.ssl as usize, Ordering::Relaxed);
        std::mem::forget(connection);
        // SAFETY: a function without arguments.
        unsafe { libc::atexit(free) };
        exit()
    });
    assert_eq!([first_thread, other_thread, freed_behind_the_end], [0; 3]);
}

/// Ends the thread by `pthread_exit`, which unwinds the stack: one of its own, since a frame of a
/// test does not let it through.
fn end_thread() -> ! {
    let mut stack = vec![0_u8; 1 << 20];
    // SAFETY: zeroes are a context for `getcontext` to fill.
    let mut context: libc::ucontext_t = unsafe { std::mem::zeroed() };
    // SAFETY: our own context.
    unsafe { libc::getcontext(&mut context) };
    context.uc_stack.ss_sp = stack.as_mut_ptr().cast();
    context.uc_stack.ss_size = stack.len();
    let exit: unsafe extern "C-unwind" fn(*mut c_void) -> ! = pthread_exit;
    // SAFETY: `makecontext` calls it with the argument that it is given, a null pointer.
    let exit = unsafe {
        std::mem::transmute::<unsafe extern "C-unwind" fn(*mut c_void) -> !, extern "C" fn()>(exit)
    };
    // SAFETY: a context with a stack that stays.
    unsafe { libc::makecontext(&mut context, exit, 1, 0) };
    // SAFETY: made above.
    unsafe { libc::setcontext(&context) };
    unreachable!("the context ends the thread");
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_end_of_first_thread() {
    let status = in_a_child(fork, || {
        let (context, epoll) = (context(), Epoll::new());
        let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
        let client = connection.client.try_clone().expect("a descriptor");
        std::mem::forget((context, epoll, connection));
        thread::spawn(move || {
            let events = libc::POLLIN;
            let mut question = libc::pollfd { fd: client.as_raw_fd(), events, revents: 0 };
            // SAFETY: one entry.
            let goes_on = unsafe { libc::poll(&mut question, 1, 60_000) == 1 };
            // SAFETY: ends the child.
            unsafe { libc::_exit(c_int::from(!goes_on)) }
        });
        end_thread()
    });
    assert_eq!(status, 0);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_fork_and_call() {
    [fork as Fork, clone].into_iter().for_each(call_in_a_child);
}

fn call_in_a_child(fork: Fork) {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let status = in_a_child(fork, || {
        let has_sent = connection.handshake() == -1 && connection.sent() > 1000;
        c_int::from(!has_sent)
    });
    assert_eq!(status, 0, "the child is to do it, and does");
    connection.free();
    assert_eq!(connection.sent(), 0);
}

/// Makes a child, which calls nothing that needs other threads, and does not return.
type Fork = unsafe fn() -> libc::pid_t;

unsafe fn fork() -> libc::pid_t {
    // SAFETY: as the caller promises.
    unsafe { libc::fork() }
}

/// Without the handlers of `pthread_atfork`.
unsafe fn clone() -> libc::pid_t {
    // SAFETY: as the caller promises.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    libc::pid_t::try_from(child).expect("a process")
}

/// Forks a child that does this; its status.
fn in_a_child(fork: Fork, f: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the child calls nothing that needs other threads, and does not return.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(f()) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free_in_callback() {
    let (usual, epoll) = (context(), Epoll::new());
    let parked = Connection::parked(&usual, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let to_free = AtomicUsize::new(parked.ssl as usize);
    let context = rare_context_with(move || {
        let ssl = to_free.swap(0, Ordering::Relaxed) as *mut sys::SSL;
        // SAFETY: null, or the connection, whose only owner this is.
        unsafe { sys::SSL_free(ssl) };
        ClientHelloResponse::SUCCESS
    });
    let other = Connection::new(&context, false);
    epoll.add(other.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    while other.sent() == 0 {
        assert_eq!(other.handshake(), -1);
        epoll.ready(1);
    }
    assert_eq!(parked.sent(), 0, "nothing of an abandoned handshake reaches the wire");
    other.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_call_in_callback() {
    let (usual, epoll) = (context(), Epoll::new());
    let parked = Connection::parked(&usual, &epoll, libc::EPOLLIN | libc::EPOLLET);
    let (to_call, client) = (AtomicUsize::new(parked.ssl as usize), parked.client.as_raw_fd());
    let (told, answers) = std::sync::mpsc::channel();
    let context = rare_context_with(move || {
        let ssl = to_call.swap(0, Ordering::Relaxed) as *mut sys::SSL;
        if !ssl.is_null() {
            // SAFETY: a live SSL.
            let result = unsafe { sys::SSL_do_handshake(ssl) };
            // SAFETY: as above.
            let error = unsafe { sys::SSL_get_error(ssl, result) };
            let mut question = libc::pollfd { fd: client, events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            let has_sent = unsafe { libc::poll(&mut question, 1, 0) };
            told.send((result, error, has_sent)).expect("the scenario waits");
        }
        ClientHelloResponse::SUCCESS
    });
    let other = Connection::new(&context, false);
    epoll.add(other.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    assert_eq!(other.handshake(), -1);
    let later = (-1, sys::SSL_ERROR_WANT_READ, 0);
    assert_eq!(answers.recv().expect("the callback was called"), later);
    for connection in [&other, &parked] {
        while connection.sent() == 0 {
            assert_eq!(connection.handshake(), -1);
            epoll.ready(1);
        }
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_stale_error() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    while epoll.wait(-1).is_none() {}
    leave_error();
    connection.assert_went_on();
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_no_connection() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    leave_error();
    // SAFETY: libssl finds the error before it looks for a connection.
    assert_eq!(unsafe { sys::SSL_get_error(std::ptr::null(), -1) }, sys::SSL_ERROR_SSL);
    connection.free();
}

/// Leaves an error in the thread's queue.
fn leave_error() {
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { sys::BIO_s_mem() };
    // SAFETY: an empty BIO in memory.
    let empty = unsafe { sys::BIO_new(kind) };
    let (none, null) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: an empty BIO in memory, of which a certificate is asked.
    let certificate = unsafe { sys::PEM_read_bio_X509(empty, none, None, null) };
    assert!(certificate.is_null());
    // SAFETY: reads this thread's queue.
    assert_ne!(unsafe { sys::ERR_peek_last_error() }, 0, "it says so in the error queue");
    // SAFETY: made above.
    unsafe { sys::BIO_free_all(empty) };
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_other_epoll_modes() {
    let context = context();
    for events in [
        libc::EPOLLIN,
        libc::EPOLLIN | libc::EPOLLOUT,
        libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLONESHOT,
    ] {
        let epoll = Epoll::new();
        let connection = Connection::parked(&context, &epoll, events);
        while connection.sent() == 0 {
            epoll.wait(-1).expect("an event");
            assert_eq!(connection.handshake(), -1);
            let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: DATA };
            let descriptor = connection.socket.as_raw_fd();
            // SAFETY: the kernel reads the event during the call.
            unsafe { libc::epoll_ctl(epoll.0, libc::EPOLL_CTL_MOD, descriptor, &mut event) };
        }
        connection.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_rare() {
    let (context, _epoll) = (context(), Epoll::new());
    let rare = Connection::new(&rare_context(), false);
    assert_eq!(rare.handshake(), -1);
    let is_batched = rare.sent() == 0;
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { BIO_s_socket() };
    for batch in 0..16 {
        if batch == 1 && is_batched {
            assert_eq!(rare.handshake(), -1);
            assert_eq!(rare.sent(), 0, "one batch of others is no reason to stop waiting");
        }
        let others = executed(kind, &context, |_, _| ());
        others.iter().for_each(Connection::free);
    }
    if is_batched {
        rare.assert_went_on();
    }
    rare.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_alone() {
    let (context, epoll) = (context(), Epoll::new());
    let alone = Connection::new(&context, false);
    epoll.add(alone.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    epoll.wait(-1).expect("its hello");
    alone.assert_went_on();
    alone.free();
    drop(alone);

    let first = Connection::new(&context, false);
    epoll.add(first.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    epoll.wait(-1).expect("its hello");
    let second = Connection::new(&context, false);
    epoll.add(second.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    assert_eq!(first.handshake(), -1);
    assert_eq!(first.sent(), 0, "it waits for the other, whose hello is there");
    while first.sent() == 0 {
        epoll.wait(-1).expect("the other's hello, then its own turn");
        assert_eq!(first.handshake(), -1);
    }
    first.free();
    second.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_all() {
    let (context, epoll) = (context(), Epoll::new());
    let connections = [(); 2].map(|()| Connection::new(&context, false));
    for connection in &connections {
        epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    }
    assert_eq!(epoll.ready(-1), 2, "both hellos");
    let [first, second] = &connections;
    assert_eq!(first.handshake(), -1);
    assert_eq!(first.sent(), 0, "it waits for the other, whose hello was there too");
    second.assert_went_on();
    assert_eq!(epoll.ready(-1), 1, "it is the first one's turn");
    first.assert_went_on();
    connections.iter().for_each(Connection::free);
}

/// A handshake that is all that its thread has to do.
fn alone(context: &SslContext, epoll: &Epoll) -> Connection {
    let connection = Connection::new(context, false);
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    epoll.wait(-1).expect("its hello");
    assert_eq!(connection.handshake(), -1);
    connection
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_company() {
    let (context, epoll) = (context(), Epoll::new());
    // The first find an idle server.
    let alone = || alone(&context, &epoll);
    let executed = (0..1_000).map(|_| alone()).take_while(|connection| connection.sent() > 0);
    let executed: Vec<_> = executed.collect();
    assert!((15..1_000).contains(&executed.len()), "{} did not wait", executed.len());
    executed.iter().for_each(Connection::free);
    let hello = std::fs::read(file("hello")).expect("captured");
    for _ in 0..20 {
        let (second, mut client) = Connection::with_client(&context);
        epoll.add(second.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
        let first = alone();
        let comes = thread::scope(|scope| {
            // Most likely while the first one waits; whenever it comes, nobody is forgotten.
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(1));
                client.write_all(&hello).expect("room");
            });
            epoll.wait(-1)
        });
        comes.expect("the other's hello, or the turn of the first");
        let (mut first_sent, mut second_sent) = (0, 0);
        loop {
            assert_eq!((first.handshake(), second.handshake()), (-1, -1));
            first_sent += first.sent();
            second_sent += second.sent();
            if first_sent > 0 && second_sent > 0 {
                break;
            }
            epoll.wait(-1).expect("a turn");
        }
        first.free();
        second.free();
    }
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_no_company() {
    let (context, epoll) = (context(), Epoll::new());
    for _ in 0..100 {
        let alone = alone(&context, &epoll);
        assert!(alone.sent() > 1000, "nobody is made to wait");
        alone.free();
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_not_parked() {
    let (context, _epoll) = (context(), Epoll::new());
    let blocking = Connection::new(&context, true);
    blocking.client.shutdown(std::net::Shutdown::Write).expect("our own socket");
    assert_eq!(blocking.handshake(), -1);
    assert!(blocking.sent() > 1000);
    blocking.free();

    let ssl = new_ssl(&context);
    // SAFETY: libcrypto's constant table.
    let kind = unsafe { sys::BIO_s_mem() };
    let memory = || {
        // SAFETY: an empty BIO in memory.
        unsafe { sys::BIO_new(kind) }
    };
    let (read, write) = (memory(), memory());
    let hello = std::fs::read(file("hello")).expect("captured");
    let bytes = c_int::try_from(hello.len()).expect("a short hello");
    // SAFETY: the BIO copies the bytes.
    assert_eq!(unsafe { sys::BIO_write(read, hello.as_ptr().cast(), bytes) }, bytes);
    // SAFETY: the SSL takes both BIOs.
    unsafe { sys::SSL_set_bio(ssl, read, write) };
    // SAFETY: a live SSL.
    assert_eq!(unsafe { sys::SSL_do_handshake(ssl) }, -1);
    let mut flight = [0u8; 4096];
    // SAFETY: room for 4096 bytes.
    let sent = unsafe { sys::BIO_read(write, flight.as_mut_ptr().cast(), 4096) };
    assert!(sent > 1000, "the flight was made at once: {sent}");
    // SAFETY: called once, at the end.
    unsafe { sys::SSL_free(ssl) };
}
