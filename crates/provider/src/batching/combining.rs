//! Signatures that the workers of a server make for each other: the memory that they share, which
//! worker is where in it, and how one wakes another.
//!
//! Before a process forks that has configured TLS, it maps memory that its children inherit; where
//! the workers are threads of one process, these share it. It has no name and no descriptor, so
//! no other process can map it, and it holds no secret: what is to be signed, the name of the key,
//! and the signature. The worker that signs uses its own copy of the key.
//! `docs/design/combining.md` has the contract.
#![allow(unsafe_code, reason = "maps memory, and keeps what was mapped by its address")]

mod member;
#[cfg(test)]
mod tests;
mod timer;

use std::ffi::c_int;
use std::io;
use std::os::fd::IntoRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use widelane_batch::{Arrivals, Claim, Finished, Slots};
use widelane_bridge::counters::OperationKind;

use crate::batching::lane_process::{self, Board};
use crate::batching::request::Answer;
use crate::config::config;
use crate::errors::{Once, say, say_once};
use crate::rsa::loaded::{self, LaneKeys};
use crate::{process, stack};

pub(super) use member::{Foreign, Member, Membership};
use timer::{is_ours, new_event, raise};

/// The memory that the workers share.
#[repr(C)]
struct Shared {
    /// When signatures were asked for, by kind.
    arrivals: [Arrivals; OperationKind::ALL.len()],
    board: Board,
    slots: Slots<PLACES_MAX, SLOTS, WORDS>,
}

/// The workers that a process forks after it was configured: what they inherit.
pub(super) struct WorkerGeneration {
    /// The lane process that does for the workers what they would do for each other.
    lane: Option<Lane>,
    shared: &'static Shared,
    /// A timer for each place that may be taken, which is never started: its worker waits for it.
    events: Vec<c_int>,
}

/// A lane process, as workers inherit it.
struct Lane {
    keys: LaneKeys,
    /// Keeps it alive; −1 until it is.
    lifeline: c_int,
}

/// Places for workers; each event loop of a process is one.
const PLACES_MAX: usize = 64;

/// Places there are on the smallest machine; workers beyond that make their own signatures.
const PLACES_MIN: usize = 16;

/// Jobs that one worker leaves for others: one fewer would fill its own lanes.
const SLOTS: usize = 8;

/// Words of the longest input or signature: those of RSA-4096.
const WORDS: usize = 64;

static GENERATION: AtomicPtr<WorkerGeneration> = AtomicPtr::new(ptr::null_mut());
/// Whether TLS was configured since the generation was made.
static IS_CONFIGURED: AtomicBool = AtomicBool::new(false);

/// The program makes a configuration of TLS; workers that it forks then are a generation of their
/// own.
pub(crate) fn configures() {
    IS_CONFIGURED.store(true, Ordering::Release);
}

/// Before a fork: makes what the children share, if they are the first ones of a generation.
pub(crate) fn before_fork() {
    let is_shared = config().combines() || loaded::are_lent();
    if !is_shared || !IS_CONFIGURED.swap(false, Ordering::AcqRel) {
        return;
    }
    let members = &process::current().members;
    // A process that takes part itself keeps what it has, and so do its children.
    if members.load(Ordering::SeqCst) > 0 {
        return;
    }
    // With threads another one could not be started.
    let has_lanes = current().is_some_and(|generation| generation.lane.is_some());
    if has_lanes && !lane_process::is_alone() {
        return;
    }
    let keys = LaneKeys::now();
    if keys.is_empty() {
        tell_of_missing_lanes();
    }
    let old = GENERATION.swap(WorkerGeneration::make(keys), Ordering::SeqCst);
    if !old.is_null() && members.load(Ordering::SeqCst) == 0 {
        // SAFETY: made above by an earlier call; nobody in this process uses it, or will.
        unsafe { Box::from_raw(old) }.discard();
    }
}

/// Before the program makes a thread, or first waits for events: one that forks no workers with its
/// keys can have a lane process only as long as it has one thread.
pub(crate) fn before_threads() {
    let may_have_lanes = || loaded::are_lent() && IS_CONFIGURED.load(Ordering::Acquire);
    let lacks_lanes =
        || current().is_none() && lane_process::is_alone() && !LaneKeys::now().is_empty();
    if may_have_lanes() && lacks_lanes() {
        // A program may make its thread on a small stack; without memory for ours there is none.
        stack::on_large(before_fork);
    }
}

/// Whether there is something to join; the threads of a process that has not forked since it was
/// configured make it when they first sign.
fn can_join() -> bool {
    if current().is_none() && IS_CONFIGURED.load(Ordering::Acquire) {
        tell_of_missing_lanes();
        if config().combines() && IS_CONFIGURED.swap(false, Ordering::AcqRel) {
            GENERATION.store(WorkerGeneration::make(LaneKeys::none()), Ordering::SeqCst);
        }
    }
    current().is_some()
}

/// If there was to be a lane process, says why there is none.
fn tell_of_missing_lanes() {
    static HAS_TOLD: AtomicBool = AtomicBool::new(false);
    if !loaded::are_lent() || HAS_TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let why = if LaneKeys::now().is_empty() {
        "it has the RSA keys that are loaded before the program forks its workers or makes \
         threads, and there are none"
    } else {
        "the program had made a thread before it had loaded its RSA keys"
    };
    let line = format!("no lane process: {why}; workers make their own signatures");
    say_once(Once::NoLaneKeys, &line);
}

/// What the event loops of this process may join.
fn current() -> Option<&'static WorkerGeneration> {
    // SAFETY: null, or a generation that is freed only while there are no members.
    unsafe { GENERATION.load(Ordering::SeqCst).as_ref() }
}

/// The kinds of signatures that are made for other workers.
pub(super) const KINDS: [OperationKind; 3] =
    [OperationKind::Rsa2048, OperationKind::Rsa3072, OperationKind::Rsa4096];

/// Whether signatures of this kind are made for other workers.
pub(super) fn is_combined(kind: OperationKind) -> bool {
    KINDS.contains(&kind)
}

impl WorkerGeneration {
    /// A new one, with a lane process if that has keys; null where the system has no memory or
    /// descriptors for it.
    fn make(keys: LaneKeys) -> *mut Self {
        match WorkerGeneration::new() {
            Ok(mut new) => {
                new.lane = (!keys.is_empty()).then_some(Lane { keys, lifeline: -1 });
                WorkerGeneration::start_lane_process(Box::into_raw(Box::new(new)))
            }
            Err(error) => {
                say(&format!(
                    "no memory to share with workers: {error}; each makes its own signatures"
                ));
                ptr::null_mut()
            }
        }
    }

    /// Starts the lane process of a new generation, if it is to have one.
    fn start_lane_process(new: *mut Self) -> *mut Self {
        // SAFETY: made by the caller; it is freed only while nobody uses it.
        let generation = unsafe { &*new };
        if generation.lane.is_none() {
            return new;
        }
        let started = lane_process::start(generation);
        // SAFETY: as above, and nobody else knows it yet.
        let lane = unsafe { &mut (*new).lane };
        match (started, lane) {
            (Ok(lifeline), Some(lane)) => lane.lifeline = lifeline.into_raw_fd(),
            (Err(error), lane) => {
                say(&format!("no lane process: {error}; workers make their own signatures"));
                *lane = None;
            }
            (Ok(_), None) => {}
        }
        new
    }

    fn new() -> io::Result<Self> {
        // SAFETY: atomic numbers.
        let shared: &'static Shared = unsafe { widelane_reserve::shared() }?;
        let places = (2 * config().cpus).clamp(PLACES_MIN, PLACES_MAX);
        let mut generation = WorkerGeneration { lane: None, shared, events: Vec::new() };
        for _ in 0..places {
            match new_event() {
                Ok(event) => generation.events.push(event),
                Err(error) => {
                    generation.discard();
                    return Err(error);
                }
            }
        }
        Ok(generation)
    }

    /// Gives up what no event loop of this process uses.
    fn discard(self) {
        let lifeline = self.lane.map(|lane| lane.lifeline).filter(|lifeline| *lifeline >= 0);
        let events = self.events.into_iter().filter(|event| is_ours(*event));
        for descriptor in events.chain(lifeline) {
            // SAFETY: made by `new`, or for this generation.
            unsafe { libc::close(descriptor) };
        }
        let memory = ptr::from_ref(self.shared).cast_mut().cast();
        // SAFETY: mapped by `widelane_reserve::shared`, with this size; no reference to it is left.
        unsafe { libc::munmap(memory, size_of::<Shared>()) };
    }

    /// Stores what became of a claimed job, and wakes its owner if that sleeps.
    pub(super) fn finish(&self, claim: Claim, answer: Answer) {
        let result = match &answer {
            Answer::Done(result) => Some(&*result.0),
            Answer::Failed | Answer::Rejected | Answer::Cancelled => None,
        };
        if let Finished::Wake(place) = self.shared.slots.finish(claim, result) {
            self.wake(place);
        }
    }

    /// The descriptors that the lane process needs.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = c_int> {
        self.events.iter().copied()
    }

    /// The lane process has ended: workers that have left something with it must be notified.
    pub(super) fn lane_process_has_ended(&self) {
        self.shared.board.end();
        (0..self.events.len()).for_each(|place| self.wake(place));
    }

    fn wake(&self, place: usize) {
        let Some(event) = self.events.get(place) else { return };
        if is_ours(*event) {
            raise(*event);
        }
    }

    /// The place of the lane process, if there is one: workers do not take it.
    fn lane_place(&self) -> Option<usize> {
        self.lane.as_ref().and(self.events.len().checked_sub(1))
    }
}
