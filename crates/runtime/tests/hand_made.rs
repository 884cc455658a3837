//! What no server does on request: a connection parked at will, then freed, cleared, read, forked.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

mod support;

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::os::fd::AsRawFd;

use openssl_sys as sys;
use support::by_hand::{
    BIO_s_socket, Connection, DATA, Epoll, accelerated, accelerated_with_lanes, context, executed,
    file, new_ssl, rare_context,
};

#[test]
fn freeing_a_parked_connection_withdraws_its_operation() {
    let Some(counters) = accelerated_with_lanes("scenario_free") else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (1, 0), "{counters:?}");
}

#[test]
fn another_thread_may_free_a_parked_connection() {
    let Some(counters) = accelerated_with_lanes("scenario_free_elsewhere") else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (1, 0), "{counters:?}");
}

#[test]
fn a_cleared_connection_handshakes_anew() {
    let Some(counters) = accelerated_with_lanes("scenario_clear") else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (1, 1), "{counters:?}");
}

#[test]
fn reading_a_parked_connection_waits_like_the_handshake() {
    let Some(counters) = accelerated_with_lanes("scenario_read") else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (0, 1), "{counters:?}");
}

#[test]
fn a_forked_child_may_free_its_copy() {
    let Some(counters) = accelerated_with_lanes("scenario_fork") else { return };
    assert_eq!(counters.parked(), 1, "{counters:?}");
}

#[test]
fn one_shot_and_level_triggered_programs_are_served() {
    let Some(counters) = accelerated_with_lanes("scenario_other_epoll_modes") else { return };
    assert_eq!(counters.parked(), 3, "{counters:?}");
}

#[test]
fn a_rare_operation_does_not_wait_for_its_like() {
    let counters = accelerated("scenario_rare");
    assert_eq!((counters.jobs_cancelled, counters.jobs_synchronous), (0, 0), "{counters:?}");
}

#[test]
fn a_handshake_that_is_alone_goes_on_at_once() {
    let Some(counters) = accelerated_with_lanes("scenario_alone") else { return };
    assert_eq!((counters.handshakes, counters.parked()), (2, 2), "{counters:?}");
    assert_eq!(counters.jobs_synchronous, 0, "{counters:?}");
}

#[test]
fn blocking_sockets_and_memory_are_not_parked() {
    let counters = accelerated("scenario_not_parked");
    assert_eq!((counters.handshakes, counters.parked()), (0, 0), "{counters:?}");
    let synchronous = if counters.has_lanes() { 2 } else { 0 };
    assert_eq!(counters.jobs_synchronous, synchronous, "{counters:?}");
}

unsafe extern "C" {
    fn SSL_clear(ssl: *mut sys::SSL) -> c_int;
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
fn scenario_fork() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
    // SAFETY: the child calls nothing that needs other threads, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        connection.free();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(connection.sent(), 0, "the child's copy sends nothing");
    while epoll.wait(0).is_some() {}
    epoll.wait(-1).expect("an event");
    connection.assert_went_on();
    connection.free();
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
