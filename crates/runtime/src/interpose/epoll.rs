//! Doors in front of epoll: what the program asks for, and the moment it is about to sleep.
#![allow(unsafe_code, reason = "exported symbols")]

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{epoll_event, pollfd, sigset_t, timespec};

use super::{guard, vfork};
use crate::config::config;
use crate::cork;
use crate::event_loop::waiting::{self, Patience, Timeout};
use crate::real;
use crate::registry::{self, Change, Registration};

#[unsafe(no_mangle)]
extern "C-unwind" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    descriptor: c_int,
    event: *mut epoll_event,
) -> c_int {
    // What is registered before the program loads its TLS counts as well.
    if config().is_none() {
        return real::epoll_ctl(epoll, operation, descriptor, event);
    }
    let _hold = registry::hold(descriptor);
    // Before the kernel knows it: the set may be closed from then on.
    let closes = registry::closes(epoll);
    let result = real::epoll_ctl(epoll, operation, descriptor, event);
    if result != 0 {
        return result;
    }
    let errno = real::errno();
    guard((), || {
        let change = match operation {
            libc::EPOLL_CTL_ADD => Change::Added,
            libc::EPOLL_CTL_MOD => Change::Modified,
            _ => return registry::forget(descriptor, epoll),
        };
        // SAFETY: the kernel has just read the program's event through this pointer.
        let event = unsafe { event.read() };
        let (events, data) = (event.events, event.u64);
        let registration = Registration { epoll_descriptor: epoll, events, data };
        registry::remember(descriptor, change, registration, closes);
    });
    real::set_errno(errno);
    result
}

#[unsafe(no_mangle)]
extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
) -> c_int {
    let asked = timeout_of(timeout);
    waiting::wait(epoll, events, room, asked, |patience| match patience {
        Patience::Zero => real::epoll_wait(epoll, events, room, 0),
        Patience::AtMost(ns) => wait_briefly(epoll, events, room, ns, ptr::null()),
        Patience::Asked => real::epoll_wait(epoll, events, room, timeout),
        Patience::Left(ns) => real::epoll_wait(epoll, events, room, milliseconds(ns)),
    })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let asked = timeout_of(timeout);
    waiting::wait(epoll, events, room, asked, |patience| match patience {
        Patience::Zero => real::epoll_pwait(epoll, events, room, 0, mask),
        Patience::AtMost(ns) => wait_briefly(epoll, events, room, ns, mask),
        Patience::Asked => real::epoll_pwait(epoll, events, room, timeout, mask),
        Patience::Left(ns) => real::epoll_pwait(epoll, events, room, milliseconds(ns), mask),
    })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let zero = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: null (for ever), or the program's own timespec.
    let asked = unsafe { timeout.as_ref() };
    let asked = asked.map_or(Timeout::Endless, |asked| {
        let (seconds, ns) = (asked.tv_sec.unsigned_abs(), asked.tv_nsec.unsigned_abs());
        match seconds.saturating_mul(1_000_000_000).saturating_add(ns) {
            0 => Timeout::Zero,
            ns => Timeout::Ns(ns),
        }
    });
    waiting::wait(epoll, events, room, asked, |patience| match patience {
        Patience::Zero => real::epoll_pwait2(epoll, events, room, &raw const zero, mask),
        Patience::AtMost(ns) => wait_briefly(epoll, events, room, ns, mask),
        Patience::Asked => real::epoll_pwait2(epoll, events, room, timeout, mask),
        Patience::Left(ns) => real::epoll_pwait2(epoll, events, room, &timespec_of(ns), mask),
    })
}

/// So many nanoseconds, rounded up.
fn milliseconds(ns: u64) -> c_int {
    c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

fn timespec_of(ns: u64) -> timespec {
    timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

/// What a timeout in milliseconds says; a negative one is none.
fn timeout_of(milliseconds: c_int) -> Timeout {
    match u64::try_from(milliseconds) {
        Ok(0) => Timeout::Zero,
        Ok(milliseconds) => Timeout::Ns(milliseconds * 1_000_000),
        Err(_) => Timeout::Endless,
    }
}

/// Waits for less than a millisecond, as `epoll_pwait` waits for some.
///
/// Where the kernel lacks `epoll_pwait2` (Linux before 5.11) or a filter forbids it, the set itself
/// is polled; with that, a registration by `EPOLLEXCLUSIVE` may wake another process as well.
fn wait_briefly(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    ns: u64,
    mask: *const sigset_t,
) -> c_int {
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    let timeout = timespec_of(ns);
    if !IS_MISSING.load(Ordering::Relaxed) {
        let count = real::epoll_pwait2_of_kernel(epoll, events, room, &timeout, mask);
        if count >= 0 || ![libc::ENOSYS, libc::EPERM].contains(&real::errno()) {
            return count;
        }
        IS_MISSING.store(true, Ordering::Relaxed);
    }
    let mut set = pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
    match real::ppoll(&mut set, 1, &timeout, mask) {
        1.. => real::epoll_pwait(epoll, events, room, 0, mask),
        // A signal has to be reported to the program; nothing else keeps what is parked waiting.
        -1 if real::errno() == libc::EINTR => -1,
        _ => 0,
    }
}

/// Forgets the descriptor before its number can be given to another connection.
#[unsafe(no_mangle)]
extern "C-unwind" fn close(descriptor: c_int) -> c_int {
    if !vfork::is_child() {
        registry::close(descriptor);
        guard((), || cork::close(descriptor));
    }
    real::close(descriptor)
}
