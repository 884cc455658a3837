//! Doors in front of the other functions that wait for descriptors: a program that uses epoll may
//! wait by these as well, with its epoll set or its connections among the descriptors, or for new
//! connections while another thread has those that it began.
#![allow(unsafe_code, reason = "exported symbols")]

use core::ffi::c_int;

use libc::{fd_set, nfds_t, pollfd, sigset_t, sockaddr, socklen_t, timespec, timeval};

use super::guard_uncancelled;
use crate::event_loop;
use crate::provider::provider;
use crate::real;

#[unsafe(no_mangle)]
extern "C-unwind" fn poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if timeout != 0 {
        before_sleep();
    }
    real::poll(descriptors, count, timeout)
}

/// What programs call that are compiled with `_FORTIFY_SOURCE`.
#[unsafe(no_mangle)]
extern "C-unwind" fn __poll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    bytes: usize,
) -> c_int {
    check(count, bytes);
    poll(descriptors, count, timeout)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn ppoll(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    before_sleep();
    real::ppoll(descriptors, count, timeout, mask)
}

/// As [`__poll_chk`].
#[unsafe(no_mangle)]
extern "C-unwind" fn __ppoll_chk(
    descriptors: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    bytes: usize,
) -> c_int {
    check(count, bytes);
    ppoll(descriptors, count, timeout, mask)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    before_sleep();
    real::select(count, read, write, except, timeout)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    before_sleep();
    real::pselect(count, read, write, except, timeout, mask)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn accept(
    listener: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    before_accept(listener);
    real::accept(listener, address, length)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn accept4(
    listener: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    before_accept(listener);
    real::accept4(listener, address, length, flags)
}

fn before_sleep() {
    if provider().is_some() {
        guard_uncancelled((), event_loop::finish_before_sleep);
    }
}

fn before_accept(listener: c_int) {
    if provider().is_some() {
        guard_uncancelled((), || event_loop::finish_before_accept(listener));
    }
}

/// Ends the program as the C library does, if it says that there are more descriptors than its
/// array has room for.
fn check(count: nfds_t, bytes: usize) {
    if usize::try_from(count).is_ok_and(|count| count > bytes / size_of::<pollfd>()) {
        std::process::abort();
    }
}
