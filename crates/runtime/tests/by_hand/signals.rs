//! What a program may call at any moment: in signal handlers, and on threads for which whoever has
//! the loader's lock waits.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "threads, signals and a library by their C interfaces")]

use std::ffi::{c_int, c_void};
use std::hint::{black_box, spin_loop};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::ahead::sending_kind;
use crate::engines::load;
use crate::goodbye::goodbye;
use crate::support::by_hand::{accelerated, context};

#[test]
fn constructors_wait_for_threads() {
    accelerated("signals::scenario_constructors");
}

#[test]
fn handlers_interrupt_allocations() {
    accelerated("signals::scenario_handlers");
}

/// Ends this process if it hangs.
fn end_if_it_hangs() {
    // SAFETY: no precondition.
    unsafe { libc::alarm(60) };
}

/// Makes this process one whose connections hold packets back.
fn hold() {
    let said = goodbye(sending_kind(), &context(), "closes");
    assert_eq!(said, "held, told: close notify");
}

/// A library whose constructor waits for a thread that makes all calls of a signal handler.
const SOURCE: &str = "
    int accept(int, void *, void *), close(int), poll(void *, unsigned long, int);
    int pselect(int, void *, void *, void *, void *, void *);
    int select(int, void *, void *, void *, void *);
    long recv(int, void *, unsigned long, int), send(int, const void *, unsigned long, int);
    int pthread_create(unsigned long *, void *, void *(*)(void *), void *);
    int pthread_join(unsigned long, void **);
    static void *call(void *argument) {
        long now[2] = {0, 0};
        close(-1); recv(-1, 0, 0, 0); send(-1, 0, 0, 0); accept(-1, 0, 0);
        poll(0, 0, 1); select(0, 0, 0, 0, now); pselect(0, 0, 0, 0, now, 0);
        return argument;
    }
    __attribute__((constructor)) static void wait_for_a_thread(void) {
        unsigned long thread;
        pthread_create(&thread, 0, call, 0);
        pthread_join(thread, 0);
    }";

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_constructors() {
    end_if_it_hangs();
    load("before.so", SOURCE);
    hold();
    load("behind.so", SOURCE);
}

/// Whether a thread has begun to allocate.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

extern "C" fn allocate(_argument: *mut c_void) -> *mut c_void {
    ALLOCATES.store(true, Ordering::Relaxed);
    for _ in 0..20_000 {
        // SAFETY: no precondition; null is no harm.
        let places = [2_000, 2_500, 3_000, 3_500].map(|bytes| unsafe { libc::malloc(bytes) });
        // SAFETY: allocated above, and freed once.
        black_box(places).iter().for_each(|place| unsafe { libc::free(*place) });
    }
    ptr::null_mut()
}

/// A descriptor whose record no call before has made room for.
static NEXT: AtomicI32 = AtomicI32::new(100_000);

extern "C" fn handle(_signal: c_int) {
    let null = ptr::null_mut::<c_void>();
    let (add, descriptor) = (libc::EPOLL_CTL_ADD, NEXT.fetch_add(1_024, Ordering::Relaxed));
    // SAFETY: no epoll set, and so nothing is added.
    unsafe { libc::epoll_ctl(-1, add, descriptor, null.cast()) };
    // SAFETY: nothing is closed.
    unsafe { libc::close(-1) };
    // SAFETY: nothing is sent.
    unsafe { libc::send(-1, null, 0, 0) };
    // SAFETY: nothing is received.
    unsafe { libc::recv(-1, null, 0, 0) };
    // SAFETY: nothing is accepted.
    unsafe { libc::accept(-1, null.cast(), null.cast()) };
    // SAFETY: waits for nothing.
    unsafe { libc::poll(null.cast(), 0, 1) };
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_handlers() {
    end_if_it_hangs();
    // SAFETY: the handler calls what handlers may call.
    unsafe { libc::signal(libc::SIGUSR1, handle as *const () as libc::sighandler_t) };
    for is_held in [false, true] {
        if is_held {
            hold();
        }
        for delay in 0..250 {
            interrupt(37 * delay % 5_000);
        }
    }
}

/// Interrupts a fresh thread that allocates.
fn interrupt(delay: u32) {
    ALLOCATES.store(false, Ordering::Relaxed);
    let (mut thread, none) = (0, ptr::null_mut());
    // SAFETY: the thread needs nothing.
    let made = unsafe { libc::pthread_create(&mut thread, ptr::null(), allocate, none) };
    assert_eq!(made, 0);
    while !ALLOCATES.load(Ordering::Relaxed) {
        spin_loop();
    }
    (0..delay).for_each(|_| spin_loop());
    // SAFETY: a thread that was not joined.
    unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_join(thread, ptr::null_mut()) }, 0);
}
