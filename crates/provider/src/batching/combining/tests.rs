//! Workers and lane processes in one process, and in children that know no handlers.
#![allow(unsafe_code, reason = "calls of C, and children")]

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread;

use widelane_batch::{Choice, KeyName, Seeker};

use super::member::SLEEP_MAX_MS;
use super::timer::{reset, set};
use super::*;
use crate::batching::engine::Engine;
use crate::batching::event_loop::with_membership;
use crate::batching::execute::{new_key, now};
use crate::batching::request::Request;
use crate::counters::Pages;
use crate::process::children::{assert_in_child, assert_in_child_without_handlers};
use crate::process::has_ended;
use crate::rsa::batch::PrivateOperation;
use crate::rsa::key::Key;

fn is_readable(descriptor: c_int) -> bool {
    let mut question = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one question.
    unsafe { libc::poll(&mut question, 1, 0) == 1 }
}

#[test]
fn a_worker_is_woken_by_its_own_descriptor() {
    let generation = WorkerGeneration::new().expect("memory and descriptors");
    assert!((PLACES_MIN..=PLACES_MAX).contains(&generation.events.len()));
    generation.wake(1);
    let readable: Vec<_> = generation.events.iter().map(|event| is_readable(*event)).collect();
    assert!(readable.iter().enumerate().all(|(place, readable)| *readable == (place == 1)));
    generation.wake(PLACES_MAX);
    generation.discard();
}

#[test]
fn no_worker_can_block_those_that_wake_others_or_use_up_their_calls() {
    let generation = leaked();
    let event = generation.events[0];
    // SAFETY: makes a descriptor.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let events = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();
    let mut edge = libc::epoll_event { events, u64: 0 };
    // SAFETY: descriptors of this test, and an event.
    let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, event, &mut edge) };
    assert_eq!(added, 0);
    assert_in_child(|| {
        let most = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: a number.
        let unset = unsafe { libc::fcntl(event, libc::F_SETFL, 0) };
        // SAFETY: bytes to be read.
        unsafe { libc::write(event, most.as_ptr().cast(), most.len()) };
        raise(event);
        unset == 0
    });
    let is_woken = || {
        let mut edge = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        unsafe { libc::epoll_wait(epoll, &mut edge, 1, 1_000) == 1 }
    };
    assert!(is_woken(), "by the child");
    for _ in 0..1_000 {
        generation.wake(0);
        assert!(is_woken());
    }
    reset(event);
    assert!(!is_readable(event));
    // Where the kernel lacks the other call.
    set(event, 1);
    assert!(is_woken() && is_readable(event));
    // SAFETY: made above.
    unsafe { libc::close(epoll) };
}

#[test]
fn the_lane_process_has_its_place_though_workers_fill_all_others() {
    let mut generation = WorkerGeneration::new().expect("memory and descriptors");
    generation.lane = Some(Lane { keys: LaneKeys::none(), lifeline: -1 });
    let generation: &'static WorkerGeneration = Box::leak(Box::new(generation));
    let last = generation.events.len() - 1;
    let workers: Vec<_> = (0..=last).map_while(|_| Member::enter(generation)).collect();
    assert_eq!(workers.len(), last);
    let lane = Member::of_lane_process(generation).expect("its place");
    assert_eq!(lane.place, last);
    // One worker too many does not take note of the sleep of the lane process.
    let slots = &generation.shared.slots;
    slots.begin_sleep(last);
    assert!(Member::enter(generation).is_none() && slots.rouse(last));
    for _ in 0..PLACES_MAX {
        slots.enter(usize::MAX, 1, |_| false);
    }
    workers.into_iter().chain([lane]).for_each(std::mem::forget);
}

#[test]
fn a_child_that_no_handler_has_seen_is_no_member() {
    let generation = leaked();
    with_membership(|membership| membership.found = Some(Some(member(generation))));
    let is_member = || with_membership(|membership| membership.get().is_some());
    let joins = || with_membership(|membership| membership.join().is_some());
    assert!(is_member());
    assert_in_child_without_handlers(|| !is_member() && !joins());
    let takes_its_place = generation.shared.slots.enter(1, std::process::id(), |_| false);
    assert!(is_member() && takes_its_place.is_none(), "the child has not given it up");
    with_membership(|membership| *membership = Membership::new());
}

/// A descriptor of another file, in the place of a descriptor.
fn replaced(descriptor: c_int, by: c_int) -> OwnedFd {
    // SAFETY: closes what a test has made, and gives its number to another file.
    assert_eq!(unsafe { libc::dup2(by, descriptor) }, descriptor);
    // SAFETY: made by the caller.
    unsafe { OwnedFd::from_raw_fd(by) }
}

#[test]
fn a_file_that_took_the_number_of_a_descriptor_is_left_alone() {
    let (far, near) = io::pipe().unwrap();
    // SAFETY: makes a descriptor.
    let count = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) };
    // SAFETY: makes a descriptor.
    let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) };
    for file in [near.into_raw_fd(), count, timer] {
        let generation = leaked();
        let other = replaced(generation.events[0], file);
        generation.wake(0);
        assert!(!is_readable(other.as_raw_fd()) && !is_readable(far.as_raw_fd()));
        assert!(Member::at(generation, 0).is_none(), "nobody waits for it");
        generation.wake(1);
        assert!(is_readable(generation.events[1]));
    }
}

/// Whether something fails where only so many descriptors are left, and leaves none open.
fn fails_cleanly(left: u64, fails: impl FnOnce() -> bool) -> bool {
    // Descriptors of tests that run beside this one leave gaps between the numbers: these are
    // filled, up to a number that none has reached.
    let mut free = 0;
    while free < 255 {
        // SAFETY: makes a descriptor, which tells the lowest free number.
        free = unsafe { libc::dup(0) };
        assert!(free > 0, "there are descriptors left");
    }
    let most = free as u64 + 1 + left;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a limit to be read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    let fails = fails();
    // SAFETY: as above.
    let next = unsafe { libc::dup(0) };
    fails && next == free + 1
}

#[test]
fn without_descriptors_there_is_no_generation_and_nothing_is_left_open() {
    assert_in_child(|| fails_cleanly(2, || WorkerGeneration::new().is_err()));
}

fn leaked() -> &'static WorkerGeneration {
    Box::leak(Box::new(WorkerGeneration::new().expect("memory and descriptors")))
}

#[test]
fn without_descriptors_there_is_no_lane_process_and_nothing_is_left_open() {
    if !widelane_testkit::rooms::has_lanes() {
        return;
    }
    let generation = leaked();
    assert_in_child(|| fails_cleanly(1, || lane_process::start(generation).is_err()));
}

#[test]
fn a_program_that_has_threads_gets_no_lane_process() {
    let (generation, has_lanes) = (leaked(), widelane_testkit::rooms::has_lanes());
    thread::scope(|scope| {
        let started = scope.spawn(|| lane_process::start(generation));
        let error = started.join().expect("it does not panic").unwrap_err();
        let expected = if has_lanes { "several threads" } else { "no room" };
        assert!(error.contains(expected), "{error}");
    });
}

#[test]
fn the_program_has_no_child_to_wait_for_because_of_a_lane_process() {
    if !widelane_testkit::rooms::has_lanes() {
        return;
    }
    let generation = leaked();
    assert_in_child(|| {
        let Ok(lifeline) = lane_process::start(generation) else { return false };
        // SAFETY: asks for the status of any child, and gets none.
        let waited = unsafe { libc::waitpid(-1, ptr::null_mut(), 0) };
        let has_none = io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
        drop(lifeline);
        waited == -1 && has_none
    });
}

fn member(generation: &'static WorkerGeneration) -> Member {
    process::current().members.fetch_add(1, Ordering::SeqCst);
    Member::enter(generation).expect("a place")
}

fn request(key: &Arc<Key>) -> Request {
    let (key, mut input) = (Arc::clone(key), vec![0; 256]);
    input[255] = 3;
    Request::new(PrivateOperation { key, input: input.into(), is_signature: true })
}

#[test]
fn the_lane_process_wakes_by_itself_if_its_caller_was_killed() {
    let generation = leaked();
    assert_in_child(|| {
        // SAFETY: ends this child, should it sleep on.
        unsafe { libc::alarm(30) };
        let member = member(generation);
        let begin = now();
        // A worker sees that it sleeps, and gets no further.
        member.sleep_until_called(|| !member.slots().rouse(member.place));
        now().since(begin) >= SLEEP_MAX_MS as u64 * 1_000_000
    });
}

#[test]
fn what_a_killed_lane_process_had_claimed_is_taken_back_when_the_next_one_begins() {
    if !widelane_testkit::rooms::has_lanes() {
        return;
    }
    let (generation, request) = (leaked(), request(&new_key()));
    let (member, board) = (member(generation), &generation.shared.board);
    let lane = Seeker { worker: 1 << 21, place: PLACES_MIN - 1, first: 0 };
    let claim = || {
        let accept = |_: &KeyName, _| Choice::Accept(());
        member.slots().claim(lane, request.kind() as u8, SLOTS, accept).jobs.len()
    };
    board.begin();
    let left = member.submit(&request, now()).expect("a free slot");
    assert!(claim() == 1 && !member.is_finished(&left));
    board.end();
    board.begin();
    assert!(member.is_finished(&left) && member.is_at_work(now()));
    let counters = Pages::of_nobody().first();
    assert!(matches!(member.collect(left, &request, counters), Answer::Failed));
    assert_eq!(counters.jobs_taken_back.load(Ordering::Relaxed), 1);
    assert_eq!(counters.jobs_refused.load(Ordering::Relaxed), 0);
    // What nobody had claimed yet is the next one's.
    let left = member.submit(&request, now()).expect("a free slot");
    board.begin();
    assert!(!member.is_finished(&left));
}

#[test]
fn a_key_that_was_loaded_again_is_known_again() {
    if !widelane_testkit::rooms::has_lanes() {
        return;
    }
    let (generation, request) = (leaked(), request(&new_key()));
    let [owner, mut member] = [member(generation), member(generation)];
    owner.submit(&request, now()).expect("a free slot");
    let (name, ..) = request.operation().signature().expect("a signature");
    // As it was loaded before, and freed.
    member.keys.insert(name, Weak::new());
    assert_eq!(member.open(request.kind(), SLOTS), 0);
    member.learn(&request);
    assert_eq!(member.open(request.kind(), SLOTS), 1);
    assert_eq!(member.claim(request.kind(), SLOTS, Pages::of_nobody().first()).len(), 1);
}

#[test]
fn all_of_the_memory_may_be_zeros() {
    // SAFETY: atomic numbers.
    let shared: &'static Shared = unsafe { widelane_reserve::shared() }.expect("memory");
    assert!(!shared.slots.is_shared());
    assert_eq!(shared.slots.enter(usize::MAX, 7, has_ended), Some(0));
}
