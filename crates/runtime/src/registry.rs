//! What the program asked epoll for, by descriptor.
//!
//! A finished handshake is reported to the program as an event with the program's own data word,
//! which only the program's `epoll_ctl` call knows; so those calls are remembered here. One slot
//! per descriptor number, made of atomics only, in pages from `mmap`: it is written by
//! `epoll_ctl` and `close`, which must work in signal handlers.
//!
//! The kernel and this record change one after the other. A thread that changes a registration in
//! the kernel holds the slot until the record says the same ([`hold`]), so that we never repeat a
//! registration that the program has just replaced.
#![allow(unsafe_code, reason = "pages mapped once and shared by all threads")]

use core::ffi::c_int;
use core::hint;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::forks;
use crate::interpose::uncancelled;
use crate::real;

/// Descriptors per page; a page is mapped when its first descriptor is registered.
const PAGE_SLOTS: usize = 1024;

type Page = [Slot; PAGE_SLOTS];

/// Pages; descriptors from 1,048,576 on are not [remembered](remembers), and their handshakes not
/// parked.
const PAGES: usize = 1024;

static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(ptr::null_mut()) }; PAGES];

/// One `epoll_ctl` registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) epoll_descriptor: c_int,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// How often another thread is let go first that holds a slot. It does so for one system call.
const TURNS_MAX: u32 = 1_000;
const SPINS_MAX: u32 = TURNS_MAX / 10;

/// How often one that takes longer is slept for: it was interrupted, for a fifth of a second at
/// most, unless that was by a signal handler that calls us.
const NAPS_MAX: u32 = 2_000;

const NAP: Duration = Duration::from_micros(50);

/// What is known of one descriptor. It begins as zeroes.
struct Slot {
    /// Its registrations; of more sets than these, only one of the others is known.
    places: [Place; SETS],
    /// How often the descriptor was closed.
    closes: AtomicU32,
    /// Zero, or the generation of the process whose thread took hold of it, plus one.
    held: AtomicU32,
    /// Zero, or the thread on which a handshake with this descriptor goes on unasked.
    used_by: AtomicU64,
}

/// Epoll sets in which a descriptor may be registered at a time: that of its thread, and one in
/// which a library waits for it alone.
const SETS: usize = 2;

/// The epoll descriptor plus one and the event mask (0: not registered), and the data word.
struct Place {
    who: AtomicU64,
    data: AtomicU64,
    /// How often the epoll descriptor had been closed when it was registered there.
    closes_of_set: AtomicU32,
}

impl Place {
    /// The registration, if there is one. It ends when its epoll descriptor is closed, whose number
    /// may be another set's then.
    fn get(&self) -> Option<Registration> {
        let who = self.who.load(Ordering::Acquire);
        let data = self.data.load(Ordering::Acquire);
        let closes_of_set = self.closes_of_set.load(Ordering::Acquire);
        if who == 0 || self.who.load(Ordering::Acquire) != who {
            return None;
        }
        let epoll_descriptor = ((who >> 32) - 1) as c_int;
        let registration = Registration { epoll_descriptor, events: who as u32, data };
        (closes(epoll_descriptor) == closes_of_set).then_some(registration)
    }
}

impl Slot {
    /// Where a set of this number has it, which may be closed by now.
    fn place_of(&self, epoll: c_int) -> Option<&Place> {
        let number = u64::from(epoll as u32) + 1;
        self.places.iter().find(|place| place.who.load(Ordering::Acquire) >> 32 == number)
    }

    fn clear(&self) {
        self.places.iter().for_each(|place| place.who.store(0, Ordering::Release));
    }

    /// Takes hold of it; false if another thread of this process holds it. What a thread of the
    /// parent process held is free.
    fn take_hold(&self, generation: u32) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        held != generation && self.held.compare_exchange(held, generation, success, failure).is_ok()
    }
}

/// A registration that no other thread changes in the kernel.
pub(crate) struct Hold {
    /// What is really held, and the generation.
    held: Option<(&'static Slot, u32)>,
}

impl Hold {
    /// Whether it is really held: waiting for another holder has a limit.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.held.is_some()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some((slot, generation)) = self.held {
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            // Error: this process was forked meanwhile, and another thread has taken it over.
            let _ = slot.held.compare_exchange(generation, 0, success, failure);
        }
    }
}

/// Holds the registration of `descriptor`.
pub(crate) fn hold(descriptor: c_int) -> Hold {
    let Some(slot) = slot(descriptor) else { return Hold { held: None } };
    let generation = forks::generation();
    for turn in 0..TURNS_MAX + NAPS_MAX {
        if slot.take_hold(generation) {
            return Hold { held: Some((slot, generation)) };
        }
        match turn {
            0..SPINS_MAX => hint::spin_loop(),
            SPINS_MAX..TURNS_MAX => thread::yield_now(),
            _ => uncancelled(|| thread::sleep(NAP)),
        }
    }
    Hold { held: None }
}

/// How a program registers a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
}

/// Remembers that `descriptor` was registered, when its epoll descriptor had been closed
/// `closes_of_set` times.
pub(crate) fn remember(
    descriptor: c_int,
    change: Change,
    registration: Registration,
    closes_of_set: u32,
) {
    let Some(slot) = slot(descriptor) else { return };
    let epoll = registration.epoll_descriptor;
    let place = slot.place_of(epoll).unwrap_or_else(|| {
        // It may be another number of a set that is known.
        if change == Change::Modified {
            slot.clear();
        }
        let [first, second] = &slot.places;
        if first.get().is_none() { first } else { second }
    });
    place.who.store(0, Ordering::Release);
    place.data.store(registration.data, Ordering::Release);
    place.closes_of_set.store(closes_of_set, Ordering::Release);
    let who = (epoll as u32 as u64 + 1) << 32 | u64::from(registration.events);
    place.who.store(who, Ordering::Release);
}

/// Forgets that `descriptor` is registered in a set: it was removed there.
pub(crate) fn forget(descriptor: c_int, epoll: c_int) {
    let Some(slot) = known_slot(descriptor) else { return };
    match slot.place_of(epoll) {
        Some(place) => place.who.store(0, Ordering::Release),
        // It may be another number of a set that is known.
        None => slot.clear(),
    }
}

/// Forgets `descriptor`, which is about to be closed: its number may mean something else then. So
/// another thread that writes there unasked is waited for.
pub(crate) fn close(descriptor: c_int) {
    let Some(slot) = known_slot(descriptor) else { return };
    slot.closes.fetch_add(1, Ordering::SeqCst);
    slot.clear();
    let used_by = slot.used_by.load(Ordering::SeqCst);
    if used_by == 0 || used_by == forks::this_thread() || forks::is_of_parent(used_by) {
        return;
    }
    let errno = real::errno();
    // Longer than this it is in a callback, which may itself wait for this thread.
    for _ in 0..NAPS_MAX {
        if slot.used_by.load(Ordering::Acquire) != used_by {
            break;
        }
        uncancelled(|| thread::sleep(NAP));
    }
    real::set_errno(errno);
}

/// Keeps `descriptor` from being closed by another thread; whether it was closed before is to be
/// asked behind this.
pub(crate) fn keep_open(descriptor: c_int) -> KeptOpen {
    KeptOpen(slot(descriptor).filter(|slot| {
        let (known, this) = (slot.used_by.load(Ordering::Relaxed), forks::this_thread());
        let is_free = known == 0 || forks::is_of_parent(known);
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        is_free && slot.used_by.compare_exchange(known, this, success, failure).is_ok()
    }))
}

/// Ends what [`keep_open`] has begun on this thread, where that does not come back.
pub(crate) fn let_go(descriptor: c_int) {
    if let Some(slot) = known_slot(descriptor) {
        let (this, success, failure) = (forks::this_thread(), Ordering::Release, Ordering::Relaxed);
        // Error: this thread does not keep it open.
        let _ = slot.used_by.compare_exchange(this, 0, success, failure);
    }
}

/// A descriptor that is not closed; of others nothing is known.
pub(crate) struct KeptOpen(Option<&'static Slot>);

impl Drop for KeptOpen {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.used_by.store(0, Ordering::Release);
        }
    }
}

/// How often `descriptor` was closed, counted from the first use of its page in this record.
pub(crate) fn closes(descriptor: c_int) -> u32 {
    slot(descriptor).map_or(0, |slot| slot.closes.load(Ordering::SeqCst))
}

/// The registration of `descriptor`, if it has one: that in this set if there is one.
pub(crate) fn look_up(descriptor: c_int, epoll: c_int) -> Option<Registration> {
    let all = look_all_up(descriptor).into_iter().flatten();
    all.min_by_key(|known| known.epoll_descriptor != epoll)
}

/// The registrations of `descriptor`.
pub(crate) fn look_all_up(descriptor: c_int) -> [Option<Registration>; SETS] {
    known_slot(descriptor).map_or([None; SETS], |slot| slot.places.each_ref().map(Place::get))
}

/// Whether what is asked of `descriptor` can be remembered.
pub(crate) fn remembers(descriptor: c_int) -> bool {
    slot(descriptor).is_some()
}

/// The slot of `descriptor`, whose page is made if it does not exist.
fn slot(descriptor: c_int) -> Option<&'static Slot> {
    let (page, index) = position(descriptor)?;
    let slots = known_page(page).or_else(|| new_page(page))?;
    Some(&slots[index])
}

/// The same, if its page exists.
fn known_slot(descriptor: c_int) -> Option<&'static Slot> {
    let (page, index) = position(descriptor)?;
    Some(&known_page(page)?[index])
}

fn known_page(page: usize) -> Option<&'static Page> {
    // SAFETY: null, or what `new_page` has published, which is never unmapped.
    unsafe { TABLE[page].load(Ordering::Acquire).as_ref() }
}

/// Maps a page, unless another thread does so first. It takes no lock and calls no allocator: a
/// signal handler may be what calls, or a fork come in between.
fn new_page(page: usize) -> Option<&'static Page> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which replaces none.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), size_of::<Page>(), access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    if TABLE[page].compare_exchange(ptr::null_mut(), mapped.cast(), success, failure).is_err() {
        // SAFETY: mapped above, and not published.
        unsafe { libc::munmap(mapped, size_of::<Page>()) };
    }
    known_page(page)
}

fn position(descriptor: c_int) -> Option<(usize, usize)> {
    let descriptor = usize::try_from(descriptor).ok()?;
    let page = descriptor / PAGE_SLOTS;
    (page < PAGES).then_some((page, descriptor % PAGE_SLOTS))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn remembers_the_last_registration_until_forgotten() {
        // Sets that no other test closes.
        let first = Registration { epoll_descriptor: 5010, events: 1, data: u64::MAX };
        let second = Registration { epoll_descriptor: 5011, events: 1 << 31 | 4, data: 42 };
        let descriptor = 5000;
        let another = Registration { epoll_descriptor: 5014, events: 2, data: 7 };
        assert_eq!(look_all_up(descriptor), [None; SETS]);
        remember(descriptor, Change::Added, first, 0);
        assert_eq!(look_up(descriptor, 5010), Some(first));
        assert_eq!(look_up(descriptor, 5011), Some(first), "where it is not registered");
        remember(descriptor, Change::Added, second, 0);
        let changed = Registration { events: 5, ..first };
        remember(descriptor, Change::Modified, changed, 0);
        assert_eq!(look_up(descriptor, 5010), Some(changed));
        assert_eq!(look_up(descriptor, 5011), Some(second));
        assert_eq!(look_all_up(descriptor + 1), [None; SETS]);
        remember(descriptor, Change::Added, another, 0);
        assert_eq!(look_all_up(descriptor), [Some(changed), Some(another)], "the last two");
        forget(descriptor, 5010);
        assert_eq!(look_up(descriptor, 5010), Some(another));
        forget(descriptor, 5014);
        assert_eq!(look_all_up(descriptor), [None; SETS]);
    }

    #[test]
    fn a_set_may_have_another_number() {
        let (descriptor, set) = (5007, 5015);
        let known = Registration { epoll_descriptor: set, events: 1, data: 1 };
        let modified = Registration { epoll_descriptor: set + 1, events: 4, data: 2 };
        remember(descriptor, Change::Added, known, 0);
        remember(descriptor, Change::Modified, modified, 0);
        assert_eq!(look_all_up(descriptor), [Some(modified), None], "the program's last word");
        forget(descriptor, set + 2);
        assert_eq!(look_all_up(descriptor), [None; SETS]);
    }

    #[test]
    fn counts_how_often_a_descriptor_is_closed() {
        let descriptor = 5001;
        let before = closes(descriptor);
        let registration = Registration { epoll_descriptor: 5012, events: 1, data: 1 };
        remember(descriptor, Change::Added, registration, 0);
        close(descriptor);
        assert_eq!((closes(descriptor), look_all_up(descriptor)), (before + 1, [None; SETS]));
        forget(descriptor, 5012);
        assert_eq!(closes(descriptor), before + 1);
        assert_eq!(closes(descriptor + 1), 0);
    }

    #[test]
    fn a_registration_ends_with_its_set() {
        let (descriptor, set) = (5005, 5006);
        let registration = Registration { epoll_descriptor: set, events: 1, data: 1 };
        remember(descriptor, Change::Added, registration, closes(set));
        assert_eq!(look_up(descriptor, set), Some(registration));
        close(set);
        assert_eq!(look_up(descriptor, set), None);
        remember(descriptor, Change::Added, registration, closes(set));
        assert_eq!(look_up(descriptor, set), Some(registration), "another set of this number");
    }

    #[test]
    fn threads_agree_on_a_page() {
        let page = PAGES - 2;
        static BARRIER: Barrier = Barrier::new(8);
        let find = move || {
            BARRIER.wait();
            new_page(page).unwrap()
        };
        let pages = [(); 8].map(|()| thread::spawn(find));
        let pages = pages.map(|thread| thread.join().unwrap());
        assert!(pages.iter().all(|it| ptr::eq(*it, pages[0])));
    }

    #[test]
    fn holds_one_at_a_time_and_waits_for_none_without_end() {
        let descriptor = 5002;
        let first = hold(descriptor);
        assert!(first.is_exclusive() && hold(descriptor + 1).is_exclusive());
        for _ in 0..2 {
            assert!(!hold(descriptor).is_exclusive(), "who gives up lets nobody in");
        }
        drop(first);
        assert!(hold(descriptor).is_exclusive());
        assert!(!hold(-1).is_exclusive());
    }

    #[test]
    fn one_that_was_interrupted_is_waited_for() {
        let descriptor = 5003;
        let first = hold(descriptor);
        thread::scope(|scope| {
            let second = scope.spawn(|| hold(descriptor).is_exclusive());
            thread::sleep(Duration::from_millis(20));
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn what_a_thread_of_the_parent_held_is_free() {
        let descriptor = 5004;
        let parents = hold(descriptor);
        let generation = forks::generation() + 1;
        assert!(slot(descriptor).unwrap().take_hold(generation));
        drop(parents);
        assert!(!slot(descriptor).unwrap().take_hold(generation));
    }

    #[test]
    fn what_a_thread_of_the_parent_used_is_kept_open_by_the_child_s() {
        let descriptor = 5008;
        let used_by = &slot(descriptor).unwrap().used_by;
        let of_parent = u64::from(forks::generation() - 1) << 32 | 1;
        used_by.store(of_parent, Ordering::Relaxed);
        let kept = keep_open(descriptor);
        assert_eq!(used_by.load(Ordering::Relaxed), forks::this_thread());
        assert!(keep_open(descriptor).0.is_none(), "another is at work");
        drop(kept);
        assert_eq!(used_by.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn descriptors_out_of_range_are_ignored() {
        let registration = Registration { epoll_descriptor: 5013, events: 1, data: 1 };
        for descriptor in [-1, c_int::MIN, (PAGES * PAGE_SLOTS) as c_int, c_int::MAX] {
            remember(descriptor, Change::Added, registration, 0);
            forget(descriptor, 5013);
            close(descriptor);
            assert_eq!((look_all_up(descriptor), closes(descriptor)), ([None; SETS], 0));
        }
        let last = (PAGES * PAGE_SLOTS) as c_int - 1;
        remember(last, Change::Added, registration, 0);
        assert!(remembers(last) && !remembers(last + 1));
        assert_eq!(look_up(last, 5013), Some(registration));
        forget(last, 5013);
    }
}
