//! Events that a program is told of: its arrays, and the registrations of its epoll sets.
#![allow(unsafe_code, reason = "the program's event array")]

use core::ffi::c_int;
use core::ptr;

use libc::epoll_event;

use crate::wake::is_special;
use crate::{real, registry};

/// Registers the same interest again: that raises the edge, for whichever call or thread waits.
///
/// A one-shot registration is the program's to arm, each time it wants another event.
pub(super) fn rearm(descriptor: c_int) {
    let hold = registry::hold(descriptor);
    let registrations = registry::look_all_up(descriptor).into_iter().flatten();
    for known in registrations.filter(|known| hold.is_exclusive() && !is_special(known.events)) {
        let mut event = epoll_event { events: known.events, u64: known.data };
        real::epoll_ctl(known.epoll_descriptor, libc::EPOLL_CTL_MOD, descriptor, &mut event);
    }
}

/// Adds an event to the program's array, of which `filled` are filled; false if there is no room.
pub(super) fn add_event(
    events: *mut epoll_event,
    filled: &mut usize,
    room: usize,
    event: epoll_event,
) -> bool {
    // SAFETY: the kernel or an earlier round filled `filled` of the program's array.
    let known = unsafe { core::slice::from_raw_parts_mut(events, *filled) };
    // A program may expect each registration at most once, as the kernel has it.
    if let Some(known) = known.iter_mut().find(|known| { known.u64 } == event.u64) {
        known.events |= event.events;
        return true;
    }
    if *filled == room {
        return false;
    }
    // SAFETY: below `room`, the length that the program gave.
    let slot = unsafe { events.add(*filled) };
    // SAFETY: as above; the array is the program's to be written.
    unsafe { slot.write(event) };
    *filled += 1;
    true
}

/// Removes the events that only woke a thread; returns how many are left of `count`. Threads and
/// forked processes may share an epoll set, and one of them may get events that were meant for
/// another.
pub(super) fn without_wakes(events: *mut epoll_event, count: c_int) -> c_int {
    let Ok(filled) = usize::try_from(count) else { return count };
    if filled == 0 {
        return 0;
    }
    // SAFETY: the kernel has just filled so many of the program's array.
    let filled = unsafe { core::slice::from_raw_parts_mut(events, filled) };
    let mut kept = 0;
    for index in 0..filled.len() {
        let event = filled[index];
        if { event.u64 } != wake_data() {
            filled[kept] = event;
            kept += 1;
        }
    }
    c_int::try_from(kept).unwrap_or(count)
}

/// Each call by the descriptor is an event, whether or not the one before was reset.
pub(super) const WAKE_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();

/// The data word of our own registration: an address of ours, which cannot be a descriptor or an
/// object of the program.
pub(super) fn wake_data() -> u64 {
    static OURS: u8 = 0;
    ptr::from_ref(&OURS).addr() as u64
}

/// Whether a wait for `epoll` would return at once.
pub(super) fn has_events(epoll: c_int) -> bool {
    let mut question = libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
    real::poll(&mut question, 1, 0) != 0
}
