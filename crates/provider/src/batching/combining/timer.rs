//! Timers that are never started: one worker wakes another by making its timer readable.
#![allow(unsafe_code, reason = "makes timers and sets them")]

use std::ffi::c_int;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::{io, ptr};

use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

/// Makes a timer readable, and wakes whoever waits for it by edge-triggered epoll. Unlike a write
/// to an eventfd or a socket this never blocks and never fails for want of room, whatever another
/// process that shares the descriptor has done to it.
pub(super) fn raise(timer: c_int) {
    let ticks = 1_u64;
    // SAFETY: eight bytes to be read.
    if unsafe { libc::ioctl(timer, TFD_IOC_SET_TICKS, &raw const ticks) } != 0 {
        // A kernel without CHECKPOINT_RESTORE: the timer ends at once.
        set(timer, 1);
    }
}

/// Makes a timer unreadable.
pub(super) fn reset(timer: c_int) {
    set(timer, 0);
}

/// Has a timer end at a time since the system's start; never if that is 0.
pub(super) fn set(timer: c_int, ns: libc::c_long) {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let time =
        libc::itimerspec { it_interval: never, it_value: libc::timespec { tv_nsec: ns, ..never } };
    // Error: it is no timer; then nobody waits for it.
    // SAFETY: a time.
    unsafe { libc::timerfd_settime(timer, libc::TFD_TIMER_ABSTIME, &time, ptr::null_mut()) };
}

/// Waits until a timer is readable, for so many milliseconds at most.
pub(super) fn wait(timer: c_int, ms: c_int) {
    let mut event = libc::pollfd { fd: timer, events: libc::POLLIN, revents: 0 };
    // SAFETY: one question.
    unsafe { libc::poll(&raw mut event, 1, ms) };
}

/// `_IOW('T', 0, __u64)`, which libc lacks.
const TFD_IOC_SET_TICKS: libc::c_ulong = 0x4008_5400;

/// Commands of `fcntl` that libc lacks.
const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;

/// The signal of our timers (`F_SETSIG`), by which [`is_ours`] knows them. No signal is ever sent:
/// that would take `O_ASYNC`.
fn mark() -> c_int {
    libc::SIGRTMAX() - 7
}

/// Makes a timer that never runs.
pub(super) fn new_event() -> io::Result<c_int> {
    let event = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    // SAFETY: made above.
    if unsafe { libc::fcntl(event.as_raw_fd(), F_SETSIG, mark()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(event.into_raw_fd())
}

/// Whether a descriptor is still one of our timers: a worker may have closed those that it has
/// inherited, and their numbers may be those of other files now.
pub(super) fn is_ours(descriptor: c_int) -> bool {
    // SAFETY: asks about a descriptor, if it is one.
    unsafe { libc::fcntl(descriptor, F_GETSIG) == mark() }
}
