//! A callback that leaves its handshake by `longjmp`: the thread goes on with the others.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "C that leaves libssl's functions by longjmp")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::thread;

use openssl_sys as sys;

use crate::engines::load;
use crate::support::by_hand::{Connection, Epoll, accelerated_with_lanes, context};

#[test]
fn a_callback_may_leave_its_handshake() {
    let counters = accelerated_with_lanes("left::scenario_left");
    let Some(counters) = counters else { return };
    assert_eq!((counters.jobs_cancelled, counters.parked()), (0, 2), "{counters:?}");
}

/// What libssl calls at each step of a handshake.
type Informed = extern "C" fn(*const sys::SSL, c_int, c_int);

unsafe extern "C" {
    fn SSL_set_info_callback(ssl: *mut sys::SSL, callback: Option<Informed>);
}

const SOURCE: &str = "int _setjmp(long *), SSL_do_handshake(void *);
    void longjmp(long *, int);
    static long place[32];
    void leave(const void *ssl, int state, int value) { longjmp(place, 1); }
    int handshake(void *ssl) {
        return _setjmp(place) ? 77 : SSL_do_handshake(ssl);
    }";

fn function(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a C string and the handle of a loaded library.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!function.is_null());
    function
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_left() {
    let library = load("left.so", SOURCE);
    // SAFETY: the signature in the source.
    let leave = unsafe { transmute::<*mut c_void, Informed>(function(library, c"leave")) };
    type Handshake = extern "C" fn(*mut sys::SSL) -> c_int;
    // SAFETY: as above.
    let handshake = unsafe { transmute::<*mut c_void, Handshake>(function(library, c"handshake")) };
    let context = context();
    for is_freed_first in [true, false] {
        let leave_one = || {
            let epoll = Epoll::new();
            let left = Connection::new(&context, false);
            // SAFETY: a live SSL.
            unsafe { SSL_set_info_callback(left.ssl, Some(leave)) };
            assert_eq!(handshake(left.ssl), 77);
            if is_freed_first {
                left.free();
            }
            let other = Connection::parked(&context, &epoll, libc::EPOLLIN | libc::EPOLLET);
            while epoll.wait(0).is_some() {}
            epoll.wait(-1).expect("an event");
            other.assert_went_on();
            other.free();
            if !is_freed_first {
                left.free();
            }
        };
        // A thread that has met nobody would not wait again.
        thread::scope(|scope| scope.spawn(leave_one).join()).expect("a thread that goes on");
    }
}
