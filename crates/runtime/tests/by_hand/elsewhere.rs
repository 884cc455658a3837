//! What other threads do to a connection while its own thread waits, and descriptors whose numbers
//! become another connection's.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

use std::ffi::{c_char, c_int};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use foreign_types::ForeignTypeRef;
use openssl::error::ErrorStack;
use openssl::ssl::SslContext;
use openssl::x509::X509;
use openssl_sys as sys;
use widelane_testkit::rooms::has_lanes;

use crate::engines::load;
use crate::support::by_hand::{
    BIO_s_socket, Connection, DATA, Epoll, accelerated_with, accelerated_with_lanes, context, file,
};

#[test]
fn what_is_freed_while_its_thread_waits_for_company_does_not_go_on() {
    if has_lanes() {
        let scenario = "elsewhere::scenario_free_during_rest";
        let counters = accelerated_with(scenario, &["--wait-max", "10ms"]);
        assert!(counters.jobs_cancelled > 0, "{counters:?}");
    }
}

#[test]
fn whoever_frees_a_connection_waits_for_its_fibre() {
    let Some(counters) = accelerated_with_lanes("elsewhere::scenario_free_running") else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (0, 1), "{counters:?}");
}

#[test]
fn what_is_freed_when_its_operation_is_done_does_not_go_on() {
    let Some(counters) = accelerated_with_lanes("elsewhere::scenario_free_ready") else { return };
    assert_eq!(counters.jobs_cancelled, 0, "{counters:?}");
    assert!(counters.parked() > 0, "{counters:?}");
}

#[test]
fn errors_of_the_program_outlive_a_handshake_that_goes_on_by_itself() {
    let Some(counters) = accelerated_with_lanes("elsewhere::scenario_errors") else { return };
    assert_eq!(counters.parked(), 1, "{counters:?}");
}

#[test]
fn whoever_closes_a_descriptor_waits_for_its_fibre() {
    accelerated_with_lanes("elsewhere::scenario_close_running");
}

#[test]
fn what_was_closed_does_not_go_on() {
    let Some(counters) = accelerated_with_lanes("elsewhere::scenario_closed") else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (0, 4), "{counters:?}");
}

#[test]
fn what_a_child_of_vfork_closes_stays_open() {
    let Some(counters) = accelerated_with_lanes("elsewhere::scenario_vfork") else { return };
    assert_eq!(counters.parked(), 1, "{counters:?}");
}

#[test]
fn a_registration_that_changes_meanwhile_is_not_put_back() {
    accelerated_with_lanes("elsewhere::scenario_rearm");
}

#[test]
fn callbacks_see_the_socket_of_a_handshake_that_goes_on_by_itself() {
    let Some(counters) = accelerated_with_lanes("elsewhere::scenario_descriptor") else { return };
    assert!(counters.parked() > 0, "{counters:?}");
}

#[test]
fn threads_that_share_an_epoll_set_hear_of_no_wakes_and_later_sets_have_them() {
    if has_lanes() {
        let options = ["--combine", "on", "--wait-max", "10ms"];
        accelerated_with("elsewhere::scenario_shared_set", &options);
        accelerated_with("elsewhere::scenario_later_set", &options);
    }
}

/// What libssl calls at each step of a handshake.
type Informed = extern "C" fn(*const sys::SSL, c_int, c_int);

unsafe extern "C" {
    fn SSL_set_info_callback(ssl: *mut sys::SSL, callback: Option<Informed>);
    fn SSL_get_fd(ssl: *const sys::SSL) -> c_int;
    fn SSL_get_rfd(ssl: *const sys::SSL) -> c_int;
}

/// An `SSL` that another thread frees.
#[derive(Clone, Copy)]
struct Given(*mut sys::SSL);

// SAFETY: who gives it away does not use it any more.
unsafe impl Send for Given {}

impl Given {
    fn free(self) {
        // SAFETY: freed once.
        unsafe { sys::SSL_free(self.0) };
    }
}

/// Closes a descriptor, whose number becomes another socket's: what is written to that arrives
/// here.
fn reuse(descriptor: RawFd) -> UnixStream {
    // SAFETY: nobody uses the socket any more; its number is closed again by its owner.
    unsafe { libc::close(descriptor) };
    let (heir, peer) = UnixStream::pair().expect("two sockets");
    let heir = heir.into_raw_fd();
    if heir != descriptor {
        // SAFETY: gives a free number to our own socket.
        assert_eq!(unsafe { libc::dup2(heir, descriptor) }, descriptor);
        // SAFETY: our own descriptor.
        unsafe { libc::close(heir) };
    }
    peer.set_nonblocking(true).expect("our own socket");
    peer
}

#[track_caller]
fn assert_silent(mut peer: &UnixStream) {
    let read = peer.read(&mut [0; 16384]).unwrap_or(0);
    assert_eq!(read, 0, "bytes of a handshake arrive at another socket");
}

/// A connection that is called for once, after epoll has told of its hello: whether it waits.
fn waits(connection: &Connection, epoll: &Epoll) -> bool {
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    epoll.ready(-1);
    assert_eq!(connection.handshake(), -1);
    connection.sent() == 0
}

/// How long it may take: costs are learnt by chance, and anew from time to time.
const WARM_UP_MAX: Duration = Duration::from_secs(120);

/// Handshakes until operations follow each other so closely that one waits for others.
fn warm_up(context: &SslContext, epoll: &Epoll) {
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP_MAX {
        let connection = Connection::new(context, false);
        let is_warm = waits(&connection, epoll);
        connection.free();
        if is_warm {
            return;
        }
    }
    panic!("no operation waits for company");
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_free_during_rest() {
    let (context, epoll) = (context(), Epoll::new());
    warm_up(&context, &epoll);
    for _ in 0..8 {
        let connection = Connection::new(&context, false);
        if !waits(&connection, &epoll) {
            connection.free();
            continue;
        }
        let descriptor = connection.socket.as_raw_fd();
        epoll.remove(descriptor);
        let given = Given(connection.ssl);
        let peer = thread::scope(|scope| {
            let freeing = scope.spawn(move || {
                thread::sleep(Duration::from_millis(1));
                { given }.free();
                reuse(descriptor)
            });
            epoll.ready(30);
            freeing.join().expect("a thread that frees")
        });
        epoll.ready(0);
        assert_silent(&peer);
    }
}

/// Whether the callback is to do something, and whether it has begun to.
static IS_ARMED: AtomicBool = AtomicBool::new(false);
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

extern "C" fn dawdle(_ssl: *const sys::SSL, _place: c_int, _value: c_int) {
    if IS_ARMED.swap(false, Ordering::Relaxed) {
        HAS_BEGUN.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free_running() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::new(&context, false);
    // SAFETY: a live SSL.
    unsafe { SSL_set_info_callback(connection.ssl, Some(dawdle)) };
    assert_eq!(connection.handshake(), -1);
    IS_ARMED.store(true, Ordering::Relaxed);
    let (given, descriptor) = (Given(connection.ssl), connection.socket.as_raw_fd());
    let freeing = thread::spawn(move || {
        while !HAS_BEGUN.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(100));
        }
        { given }.free();
        reuse(descriptor)
    });
    // The handshake goes on before the thread sleeps.
    for _ in 0..10 {
        epoll.ready(1);
    }
    let peer = freeing.join().expect("a thread that frees");
    epoll.ready(0);
    assert_silent(&peer);
    assert!(connection.sent() > 1000, "it was on its way");
}

/// How often libssl has told a secret.
static TOLD: AtomicI32 = AtomicI32::new(0);

extern "C" fn tell_secret(_ssl: *const sys::SSL, _line: *const c_char) {
    TOLD.fetch_add(1, Ordering::Relaxed);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_free_ready() {
    let (context, epoll) = (context(), Epoll::new());
    // SAFETY: a live context.
    unsafe { sys::SSL_CTX_set_keylog_callback(context.as_ptr(), Some(tell_secret)) };
    // SAFETY: libcrypto's constant table.
    let mut connection = Connection::silent(unsafe { BIO_s_socket() }, &context, false);
    let hello = std::fs::read(file("hello-of-1.3")).expect("captured");
    connection.client.write_all(&hello).expect("room");
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    assert_eq!(connection.handshake(), -1);
    while epoll.wait(0).is_some() {}
    epoll.wait(-1).expect("its operation is done");
    let told = TOLD.load(Ordering::Relaxed);
    let given = Given(connection.ssl);
    thread::spawn(move || { given }.free()).join().expect("a thread that frees");
    while epoll.wait(0).is_some() {}
    assert_eq!(TOLD.load(Ordering::Relaxed), told, "its callbacks are not called any more");
    assert_eq!(connection.sent(), 0);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_errors() {
    let (context, _epoll) = (context(), Epoll::new());
    let connection = Connection::new(&context, false);
    assert_eq!(connection.handshake(), -1);
    let errors = X509::from_pem(b"no certificate").expect_err("no certificate");
    errors.put();
    // SAFETY: waits for no descriptor, for a millisecond.
    unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
    assert!(connection.sent() > 1000, "it went on");
    let kept = ErrorStack::get();
    assert!(!kept.errors().is_empty() && kept.errors()[0].line() > 0);
    assert_eq!(format!("{kept:?}"), format!("{errors:?}"));
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_close_running() {
    let (context, epoll) = (context(), Epoll::new());
    let connection = Connection::new(&context, false);
    // SAFETY: a live SSL.
    unsafe { SSL_set_info_callback(connection.ssl, Some(dawdle)) };
    assert_eq!(connection.handshake(), -1);
    IS_ARMED.store(true, Ordering::Relaxed);
    let descriptor = connection.socket.as_raw_fd();
    let closing = thread::spawn(move || {
        while !HAS_BEGUN.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(100));
        }
        reuse(descriptor)
    });
    // The handshake goes on before the thread sleeps.
    for _ in 0..10 {
        epoll.ready(1);
    }
    let peer = closing.join().expect("a thread that closes");
    assert!(connection.sent() > 1000, "it was on its way");
    assert_silent(&peer);
    connection.free();
    assert_silent(&peer);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_closed() {
    let (context, epoll) = (context(), Epoll::new());
    for (is_registered, is_polled) in [(true, true), (true, false), (false, true), (false, false)] {
        let connection = Connection::new(&context, false);
        let descriptor = connection.socket.as_raw_fd();
        if is_registered {
            epoll.add(descriptor, libc::EPOLLIN | libc::EPOLLET);
        }
        assert_eq!(connection.handshake(), -1);
        assert_eq!(connection.sent(), 0);
        let peer = reuse(descriptor);
        // The next one listens where the former did.
        epoll.add(descriptor, libc::EPOLLIN | libc::EPOLLET);
        if is_polled {
            assert_eq!(epoll.ready(50), 0, "nothing has come for the next one");
        } else {
            // SAFETY: waits for no descriptor, for a millisecond.
            unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
        }
        assert_silent(&peer);
        connection.free();
        assert_silent(&peer);
    }
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_vfork() {
    const SOURCE: &str = "int vfork(void); int close(int); void _exit(int);
        int close_in_a_child(int descriptor) {
            int child = vfork();
            if (child == 0) { close(descriptor); _exit(0); }
            return child;
        }";
    let library = load("vfork.so", SOURCE);
    // SAFETY: a C string and the handle of a loaded library.
    let function = unsafe { libc::dlsym(library, c"close_in_a_child".as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: the signature in the source.
    let close_in_a_child = unsafe {
        std::mem::transmute::<*mut std::ffi::c_void, extern "C" fn(c_int) -> c_int>(function)
    };
    let (context, epoll) = (context(), Epoll::new());
    let events = libc::EPOLLIN | libc::EPOLLET;
    let connection = Connection::parked(&context, &epoll, events);
    let child = close_in_a_child(connection.socket.as_raw_fd());
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let reported = (0..10).find_map(|_| epoll.wait(20));
    assert_eq!(reported, Some(libc::EPOLLIN.cast_unsigned()), "its turn is reported to it");
    connection.assert_went_on();
    connection.free();
}

/// An epoll set, and a descriptor that is registered there.
static SET: AtomicI32 = AtomicI32::new(-1);
static REGISTERED: AtomicI32 = AtomicI32::new(-1);

/// What another thread might do in the middle of a handshake.
extern "C" fn register_anew(_ssl: *const sys::SSL, _place: c_int, _value: c_int) {
    let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET).cast_unsigned();
    let mut event = libc::epoll_event { events, u64: DATA + 1 };
    let set = SET.swap(-1, Ordering::Relaxed);
    if set >= 0 {
        let descriptor = REGISTERED.load(Ordering::Relaxed);
        // SAFETY: the kernel reads the event during the call.
        unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_MOD, descriptor, &mut event) };
    }
}

/// A connection whose socket is [`REGISTERED`], and whose handshake has been called for once.
fn begun(context: &SslContext, epoll: &Epoll, informed: Informed) -> Connection {
    // The set that the thread is known by.
    assert_eq!(epoll.ready(0), 0);
    let connection = Connection::new(context, false);
    REGISTERED.store(connection.socket.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: a live SSL.
    unsafe { SSL_set_info_callback(connection.ssl, Some(informed)) };
    assert_eq!(connection.handshake(), -1);
    connection
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_rearm() {
    let (context, epoll, other) = (context(), Epoll::new(), Epoll::new());
    let connection = begun(&context, &epoll, register_anew);
    let descriptor = connection.socket.as_raw_fd();
    other.add(descriptor, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET);
    SET.store(other.0, Ordering::Relaxed);
    while connection.sent() == 0 {
        epoll.ready(1);
    }
    assert_eq!(SET.load(Ordering::Relaxed), -1, "the callback was called");
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    // SAFETY: room for two events.
    let count = unsafe { libc::epoll_wait(other.0, events.as_mut_ptr(), 2, 0) };
    assert_eq!((count, { events[0].u64 }), (1, DATA + 1), "the program's last word");
    connection.free();
}

/// How often a callback has seen the socket that is [`REGISTERED`], and how often it has not.
static SEEN: AtomicI32 = AtomicI32::new(0);
static MISSED: AtomicI32 = AtomicI32::new(0);

extern "C" fn look_at_descriptor(ssl: *const sys::SSL, _place: c_int, _value: c_int) {
    // SAFETY: the SSL that libssl calls for.
    let descriptor = unsafe { SSL_get_fd(ssl) };
    // SAFETY: as above.
    let to_read = unsafe { SSL_get_rfd(ssl) };
    let registered = REGISTERED.load(Ordering::Relaxed);
    let count = if [descriptor, to_read] == [registered; 2] { &SEEN } else { &MISSED };
    count.fetch_add(1, Ordering::Relaxed);
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_descriptor() {
    let (context, epoll, other) = (context(), Epoll::new(), Epoll::new());
    let connection = begun(&context, &epoll, look_at_descriptor);
    let descriptor = connection.socket.as_raw_fd();
    let before = SEEN.load(Ordering::Relaxed);
    // In another set, so that nobody but its thread lets it go on.
    other.add(descriptor, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET);
    while connection.sent() == 0 {
        epoll.ready(1);
    }
    assert!(SEEN.load(Ordering::Relaxed) > before, "the callback was called");
    assert_eq!(MISSED.load(Ordering::Relaxed), 0);
    connection.free();
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_shared_set() {
    let (context, epoll) = (context(), Epoll::new());
    warm_up(&context, &epoll);
    let wake = wait_for_others(&context, &epoll);
    let set = epoll.0;
    // A thread that never had a handshake waits for the same set.
    let hears = thread::spawn(move || Epoll::ready(&Epoll(set), 200));
    thread::sleep(Duration::from_millis(20));
    // SAFETY: zeros are a time.
    let mut at_once: libc::itimerspec = unsafe { std::mem::zeroed() };
    at_once.it_value.tv_nsec = 1;
    // SAFETY: a time for a timer.
    unsafe { libc::timerfd_settime(wake, 0, &at_once, std::ptr::null_mut()) };
    assert_eq!(hears.join().expect("a thread that waits"), 0, "this is not the program's");
}

#[test]
#[ignore = "runs under `accelerated_with`"]
fn scenario_later_set() {
    let (context, first) = (context(), Epoll::new());
    warm_up(&context, &first);
    wait_for_others(&context, &first);
    // SAFETY: nobody uses the set any more.
    unsafe { libc::close(first.0) };
    let later = Epoll::new();
    assert_eq!(later.0, first.0, "a set of the same number");
    wait_for_others(&context, &later);
}

/// Waits for other workers' operations; what wakes the thread then.
fn wait_for_others(context: &SslContext, epoll: &Epoll) -> RawFd {
    let mut is_over = false;
    while !is_over {
        let connection = Connection::new(context, false);
        is_over = waits(&connection, epoll);
        epoll.ready(1);
        connection.free();
    }
    wake_descriptor(epoll).expect("a thread that waits for others is woken by them")
}

/// The timer in an epoll set.
fn wake_descriptor(epoll: &Epoll) -> Option<RawFd> {
    let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", epoll.0)).ok()?;
    let numbers =
        told.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
    let is_timer = |number: &&str| {
        let target = std::fs::read_link(format!("/proc/self/fd/{number}"));
        target.is_ok_and(|target| target.to_string_lossy().contains("timerfd"))
    };
    numbers.into_iter().find(is_timer)?.parse().ok()
}
