//! What the program asked epoll for, by descriptor.
//!
//! A finished handshake is reported to the program as an event with the program's own data word,
//! which only the program's `epoll_ctl` call knows; so those calls are remembered here. One slot
//! per descriptor number, made of atomics only: it is written by `close` too, which must work in
//! signal handlers, and no thread ever waits for another.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Descriptors per page; a page is allocated when its first descriptor is registered.
const PAGE_SLOTS: usize = 1024;

/// Pages; descriptors from 1,048,576 on are not remembered, and their handshakes not parked.
const PAGES: usize = 1024;

static TABLE: [OnceLock<Box<[Slot]>>; PAGES] = [const { OnceLock::new() }; PAGES];

/// One `epoll_ctl` registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) epoll_descriptor: c_int,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// Who (the epoll descriptor plus one, and the event mask; 0 means nobody) and what (the data
/// word).
struct Slot {
    who: AtomicU64,
    data: AtomicU64,
}

/// Remembers that `descriptor` was added or modified.
pub(crate) fn remember(descriptor: c_int, registration: Registration) {
    let Some((page, index)) = position(descriptor) else { return };
    let slots = TABLE[page].get_or_init(|| {
        (0..PAGE_SLOTS).map(|_| Slot { who: AtomicU64::new(0), data: AtomicU64::new(0) }).collect()
    });
    let slot = &slots[index];
    let epoll_descriptor = registration.epoll_descriptor as u32 as u64 + 1;
    slot.who.store(0, Ordering::Release);
    slot.data.store(registration.data, Ordering::Release);
    slot.who.store(epoll_descriptor << 32 | u64::from(registration.events), Ordering::Release);
}

/// Forgets `descriptor`: it was removed, or closed.
pub(crate) fn forget(descriptor: c_int) {
    let Some((page, index)) = position(descriptor) else { return };
    if let Some(slots) = TABLE[page].get() {
        slots[index].who.store(0, Ordering::Release);
    }
}

/// The registration of `descriptor`, if it has one.
pub(crate) fn look_up(descriptor: c_int) -> Option<Registration> {
    let (page, index) = position(descriptor)?;
    let slot = &TABLE[page].get()?[index];
    let who = slot.who.load(Ordering::Acquire);
    let data = slot.data.load(Ordering::Acquire);
    if who == 0 || slot.who.load(Ordering::Acquire) != who {
        return None;
    }
    let epoll_descriptor = ((who >> 32) - 1) as c_int;
    Some(Registration { epoll_descriptor, events: who as u32, data })
}

fn position(descriptor: c_int) -> Option<(usize, usize)> {
    let descriptor = usize::try_from(descriptor).ok()?;
    let page = descriptor / PAGE_SLOTS;
    (page < PAGES).then_some((page, descriptor % PAGE_SLOTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_last_registration_until_forgotten() {
        let first = Registration { epoll_descriptor: 0, events: 1, data: u64::MAX };
        let second = Registration { epoll_descriptor: 7, events: 1 << 31 | 4, data: 42 };
        let descriptor = 5000;
        assert_eq!(look_up(descriptor), None);
        remember(descriptor, first);
        assert_eq!(look_up(descriptor), Some(first));
        remember(descriptor, second);
        assert_eq!(look_up(descriptor), Some(second));
        assert_eq!(look_up(descriptor + 1), None);
        forget(descriptor);
        assert_eq!(look_up(descriptor), None);
    }

    #[test]
    fn descriptors_out_of_range_are_ignored() {
        let registration = Registration { epoll_descriptor: 3, events: 1, data: 1 };
        for descriptor in [-1, c_int::MIN, (PAGES * PAGE_SLOTS) as c_int, c_int::MAX] {
            remember(descriptor, registration);
            forget(descriptor);
            assert_eq!(look_up(descriptor), None);
        }
        let last = (PAGES * PAGE_SLOTS) as c_int - 1;
        remember(last, registration);
        assert_eq!(look_up(last), Some(registration));
        forget(last);
    }
}
