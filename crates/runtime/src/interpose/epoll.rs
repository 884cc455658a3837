//! Doors in front of epoll: what the program asks for, and the moment it is about to sleep.
#![allow(unsafe_code, reason = "exported symbols")]

use core::ffi::c_int;

use libc::{epoll_event, sigset_t, timespec};

use super::guard;
use crate::event_loop::{self, Patience};
use crate::provider::provider;
use crate::real;
use crate::registry::{self, Registration};

#[unsafe(no_mangle)]
extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    descriptor: c_int,
    event: *mut epoll_event,
) -> c_int {
    let result = real::epoll_ctl(epoll, operation, descriptor, event);
    if result != 0 || provider().is_none() {
        return result;
    }
    let errno = real::errno();
    guard((), || match operation {
        libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
            // SAFETY: the kernel has just read the program's event through this pointer.
            let event = unsafe { event.read() };
            let (events, data) = (event.events, event.u64);
            registry::remember(descriptor, Registration { epoll_descriptor: epoll, events, data });
        }
        libc::EPOLL_CTL_DEL => registry::forget(descriptor),
        _ => {}
    });
    real::set_errno(errno);
    result
}

#[unsafe(no_mangle)]
extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
) -> c_int {
    guard(-1, || {
        event_loop::wait(epoll, events, room, timeout == 0, |patience| {
            let timeout = if patience == Patience::Zero { 0 } else { timeout };
            real::epoll_wait(epoll, events, room, timeout)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    guard(-1, || {
        event_loop::wait(epoll, events, room, timeout == 0, |patience| {
            let timeout = if patience == Patience::Zero { 0 } else { timeout };
            real::epoll_pwait(epoll, events, room, timeout, mask)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let zero = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: null (for ever), or the program's own timespec.
    let asked = unsafe { timeout.as_ref() };
    let is_zero = asked.is_some_and(|asked| asked.tv_sec == 0 && asked.tv_nsec == 0);
    guard(-1, || {
        event_loop::wait(epoll, events, room, is_zero, |patience| {
            let timeout = if patience == Patience::Zero { &raw const zero } else { timeout };
            real::epoll_pwait2(epoll, events, room, timeout, mask)
        })
    })
}

/// Forgets the descriptor before its number can be given to another connection.
#[unsafe(no_mangle)]
extern "C" fn close(descriptor: c_int) -> c_int {
    registry::forget(descriptor);
    real::close(descriptor)
}
