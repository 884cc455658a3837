//! Signatures that the workers of a server make for each other: the memory that they share, which
//! worker is where in it, and how one wakes another.
//!
//! Before a process forks that has configured TLS, it maps memory that its children inherit; where
//! the workers are threads of one process, these share it. It has no name and no descriptor, so
//! no other process can map it, and it holds no secret: what is to be signed, the name of the key,
//! and the signature. The worker that signs uses its own copy of the key.
//! `docs/operate/combining.md` has the contract.
#![allow(unsafe_code, reason = "maps memory, makes descriptors and writes to them")]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use widelane_batch::{
    Arrivals, Choice, Claim, Finished, KeyName, Offer, Others, Seeker, Slots, Stage, Tick,
};
use widelane_bridge::counters::{Counters, OperationKind};

use crate::batching::engine::{Asker, Engine};
use crate::batching::execute::now;
use crate::batching::lane_process::{self, Board, Watch};
use crate::batching::request::{Answer, Request, Secret};
use crate::config::config;
use crate::counters::{add, count};
use crate::errors::say;
use crate::process::{self, Process, has_ended};
use crate::rsa::batch::PrivateOperation;
use crate::rsa::key::Key;
use crate::rsa::loaded::{self, Lent};

/// The memory that the workers share.
#[repr(C)]
struct Shared {
    /// [`BUILD`] of the process that made it.
    build: AtomicU64,
    /// When signatures were asked for, by kind.
    arrivals: [Arrivals; OperationKind::ALL.len()],
    board: Board,
    slots: Slots<PLACES_MAX, SLOTS, WORDS>,
}

/// The workers that a process forks after it was configured: what they inherit.
pub(super) struct Generation {
    /// The lane process that does for the workers what they would do for each other.
    lane: Option<Lane>,
    shared: &'static Shared,
    /// A timer for each place that may be taken, which is never started: its worker waits for it.
    events: Vec<c_int>,
}

/// A lane process, as workers inherit it.
struct Lane {
    keys: Lent,
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

/// Recognises memory of another layout. Memory is inherited, never found, so none should ever be
/// seen.
const BUILD: u64 = u64::from_le_bytes(*b"WIDELAN1") ^ size_of::<Shared>() as u64;

/// How long after it was due a job may stay with a worker that has claimed it. Longer than a batch
/// of eight RSA-4096 takes where some workers share a CPU; as much longer do clients wait whose
/// handshakes lie with a worker that was killed or stopped.
const CLAIM_MAX_NS: u64 = 50_000_000;

/// How long the lane process sleeps at most. If a worker is killed between seeing that it sleeps
/// and waking it, no other worker wakes it.
const SLEEP_MAX_MS: c_int = 1_000;

static GENERATION: AtomicPtr<Generation> = AtomicPtr::new(ptr::null_mut());
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
    let old = GENERATION.swap(Generation::make(Lent::now()), Ordering::SeqCst);
    if !old.is_null() && members.load(Ordering::SeqCst) == 0 {
        // SAFETY: made above by an earlier call; nobody in this process uses it, or will.
        unsafe { Box::from_raw(old) }.discard();
    }
}

/// Whether there is something to join; the threads of a process that has not forked since it was
/// configured make it when they first sign.
fn can_join() -> bool {
    if config().combines()
        && GENERATION.load(Ordering::SeqCst).is_null()
        && IS_CONFIGURED.swap(false, Ordering::AcqRel)
    {
        GENERATION.store(Generation::make(Lent::none()), Ordering::SeqCst);
    }
    !GENERATION.load(Ordering::SeqCst).is_null()
}

/// Whether signatures of this kind are made for other workers.
pub(super) fn is_combined(kind: OperationKind) -> bool {
    use OperationKind::{Rsa2048, Rsa3072, Rsa4096};
    matches!(kind, Rsa2048 | Rsa3072 | Rsa4096)
}

impl Generation {
    /// A new one, with a lane process if that has keys; null where the system has no memory or
    /// descriptors for it.
    fn make(keys: Lent) -> *mut Self {
        match Generation::new() {
            Ok(mut new) => {
                new.lane = (!keys.is_empty()).then_some(Lane { keys, lifeline: -1 });
                Generation::start_lane_process(Box::into_raw(Box::new(new)))
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
            (Ok(lifeline), Some(lane)) => lane.lifeline = lifeline,
            (Err(error), lane) => {
                say(&format!("no lane process: {error}; each worker makes its own signatures"));
                *lane = None;
            }
            (Ok(_), None) => {}
        }
        new
    }

    fn new() -> io::Result<Self> {
        // The clock begins here, so that it is the same in all workers.
        now();
        // SAFETY: atomic numbers.
        let shared: &'static Shared = unsafe { widelane_reserve::shared() }?;
        shared.build.store(BUILD, Ordering::Relaxed);
        let places = (2 * config().cpus).clamp(PLACES_MIN, PLACES_MAX);
        let mut generation = Generation { lane: None, shared, events: Vec::new() };
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

/// The event loop of one thread among the workers.
pub(super) struct Member {
    process: *const Process,
    generation: &'static Generation,
    place: usize,
    worker: u32,
    /// The keys that this event loop has signed with.
    keys: HashMap<KeyName, Weak<Key>>,
    /// Where it looks first for jobs of others.
    first: Cell<usize>,
    /// What it has seen of the lane process.
    watch: Cell<Watch>,
}

/// Keys from which on those that were freed are forgotten.
const KEYS_TO_TIDY: usize = 1024;

/// A job of this worker's that was left for others.
pub(super) struct Left {
    offer: Offer,
    /// How often the lane process had been started by then.
    start: u32,
}

/// A job of another worker's, to be done here.
pub(super) struct Foreign {
    pub(super) request: Request,
    claim: Claim,
    generation: &'static Generation,
}

impl Foreign {
    /// Stores its answer.
    pub(super) fn finish(self, answer: Answer) {
        self.generation.finish(self.claim, answer);
    }
}

impl Member {
    fn join() -> Option<Self> {
        // Before the look at what it refers to: see `before_fork`.
        let members = &process::current().members;
        members.fetch_add(1, Ordering::SeqCst);
        let member = Member::take_place();
        if member.is_none() {
            members.fetch_sub(1, Ordering::SeqCst);
        }
        member
    }

    fn take_place() -> Option<Self> {
        // SAFETY: null, or a generation that is freed only while there are no members.
        let generation = unsafe { GENERATION.load(Ordering::SeqCst).as_ref() }?;
        if generation.lane.is_none() && !config().combines() {
            return None;
        }
        Member::enter(generation)
    }

    /// The lane process among the workers of a generation, with all keys that it inherits; nothing
    /// if there is no place for it.
    pub(super) fn of_lane_process(generation: &'static Generation) -> Option<Self> {
        let place = generation.lane_place()?;
        let mut member = Member::at(generation, place)?;
        let keys = generation.lane.iter().flat_map(|lane| lane.keys.all());
        let named = |key: Arc<Key>| Some((key.accelerated()?.name, Arc::downgrade(&key)));
        member.keys = keys.filter_map(named).collect();
        Some(member)
    }

    fn enter(generation: &'static Generation) -> Option<Self> {
        if generation.shared.build.load(Ordering::Relaxed) != BUILD {
            return None;
        }
        let slots = &generation.shared.slots;
        let places = generation.lane_place().unwrap_or(generation.events.len());
        let place = slots.enter(places, std::process::id(), has_ended)?;
        let member = Member::at(generation, place);
        if member.is_none() {
            slots.leave(place);
        }
        member
    }

    /// The member at a place; nothing if no worker could wake it, or its descriptor is another file
    /// by now.
    fn at(generation: &'static Generation, place: usize) -> Option<Self> {
        generation.events.get(place).filter(|event| is_ours(**event))?;
        Some(Member {
            process: process::current(),
            generation,
            place,
            worker: std::process::id(),
            keys: HashMap::new(),
            first: Cell::new(place + 1),
            watch: Cell::default(),
        })
    }

    fn slots(&self) -> &'static Slots<PLACES_MAX, SLOTS, WORDS> {
        &self.generation.shared.slots
    }

    fn seeker(&self) -> Seeker {
        Seeker { worker: self.worker, place: self.place, first: self.first.get() }
    }

    /// Whether there is a lane process, so that workers do nothing for each other.
    pub(super) fn has_lane_process(&self) -> bool {
        self.generation.lane.is_some()
    }

    /// Whether there is another worker with which this one combines.
    pub(super) fn has_others(&self) -> bool {
        !self.has_lane_process() && self.slots().is_shared()
    }

    fn watch<R>(&self, look: impl FnOnce(&mut Watch, &Board) -> R) -> R {
        let mut watch = self.watch.get();
        let seen = look(&mut watch, &self.generation.shared.board);
        self.watch.set(watch);
        seen
    }

    /// Wakes the lane process, if it sleeps, for what has been left.
    fn call_lane_process(&self, now: Tick) {
        let board = &self.generation.shared.board;
        if let Some(place) = self.generation.lane_place()
            && board.runs()
            && self.slots().rouse(place)
        {
            board.call(now);
            self.generation.wake(place);
        }
    }

    /// Learns the key of a signature, so that others' signatures with it can be made here.
    pub(super) fn learn(&mut self, request: &Request) {
        let Some((name, key, _)) = request.operation().signature() else { return };
        if self.keys.len() >= KEYS_TO_TIDY && !self.keys.contains_key(&name) {
            self.keys.retain(|_, key| key.strong_count() > 0);
        }
        let known = self.keys.entry(name).or_default();
        if known.strong_count() == 0 {
            *known = Arc::downgrade(key);
        }
    }

    /// The other workers, and how many of their jobs of a kind have not been claimed.
    pub(super) fn others(&self, kind: OperationKind, most: usize) -> Others<'static> {
        let arrivals = &self.generation.shared.arrivals[kind as usize];
        Others { arrivals, waiting: self.open(kind, most) }
    }

    /// How many jobs of a kind other workers have left that can be done here, at most `most`.
    pub(super) fn open(&self, kind: OperationKind, most: usize) -> usize {
        let has = |name: &KeyName| self.keys.get(name).is_some_and(|key| key.strong_count() > 0);
        self.slots().open(self.seeker(), kind as u8, most, has)
    }

    /// How far a job has got that was left for others.
    pub(super) fn stage(&self, left: &Left) -> Stage {
        self.slots().stage(&left.offer)
    }

    /// Whether a job was left with a lane process that has ended, and was claimed. If it is the
    /// next one that has claimed it, its result comes too late.
    fn is_lost(&self, left: &Left) -> bool {
        left.start != self.generation.shared.board.starts() && self.stage(left) == Stage::Claimed
    }

    /// Takes jobs of a kind that other workers have left, at most `most`.
    pub(super) fn claim(
        &self,
        kind: OperationKind,
        most: usize,
        counters: &Counters,
    ) -> Vec<Foreign> {
        let choose = |name: &KeyName, bytes| match self.keys.get(name).and_then(Weak::upgrade) {
            Some(key) if key.signature_bytes() == Some(bytes) => Choice::Accept(key),
            Some(_) => Choice::Refuse,
            // Only the lane process claims jobs then, and it has all keys that they need.
            None if self.has_lane_process() => Choice::Refuse,
            None => Choice::Leave,
        };
        let claimed = self.slots().claim(self.seeker(), kind as u8, most, choose);
        if let Some((claim, ..)) = claimed.jobs.last() {
            self.first.set(claim.place() + 1);
        }
        add(&counters.jobs_refused, claimed.refused);
        add(&counters.jobs_for_others, claimed.jobs.len());
        let foreign = |(claim, key, input): (Claim, Arc<Key>, Vec<u8>)| {
            let operation = PrivateOperation { key, input: input.into(), is_signature: true };
            Foreign { request: Request::new(operation), claim, generation: self.generation }
        };
        claimed.jobs.into_iter().map(foreign).collect()
    }

    /// The event loop is about to sleep, and is to be woken when a job of its is done. Looks at the
    /// stage of each again after this.
    pub(super) fn begin_sleep(&self) {
        self.slots().begin_sleep(self.place);
    }

    /// The lane process begins.
    pub(super) fn begin_serving(&self, counters: &Counters) {
        let starts = self.generation.shared.board.begin();
        counters.lane_process_starts.store(starts.into(), Ordering::Relaxed);
    }

    /// The lane process has executed what it had to since `begin`. Returns the time.
    pub(super) fn has_taken_turn(&self, begin: Tick) -> Tick {
        let (board, now) = (&self.generation.shared.board, now());
        board.took(now.since(begin));
        board.turn();
        now
    }

    /// The lane process sleeps until a worker calls it, for [`SLEEP_MAX_MS`] at most, unless jobs
    /// are open already. Returns since when it is needed.
    pub(super) fn sleep_until_called(&self, has_jobs: impl FnOnce() -> bool) -> Tick {
        let since = now();
        self.begin_sleep();
        if !has_jobs() {
            let mut event =
                libc::pollfd { fd: self.descriptor(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one question.
            unsafe { libc::poll(&raw mut event, 1, SLEEP_MAX_MS) };
            reset(event.fd);
        }
        self.end_sleep();
        let board = &self.generation.shared.board;
        board.turn();
        board.called().clamp(since, now())
    }

    /// The event loop is awake.
    pub(super) fn end_sleep(&self) {
        self.slots().end_sleep(self.place);
    }
}

/// The lane process if there is one, else whichever worker executes signatures next.
impl Engine for Member {
    type Ticket = Left;

    const QUEUES: bool = true;

    fn works_alone(&self) -> bool {
        self.has_lane_process()
    }

    fn is_at_work(&self, now: Tick) -> bool {
        self.watch(|watch, board| watch.trusts(board, now))
    }

    /// What is for other workers is left with them only when this one is about to wait.
    fn takes(&self, request: &Request, _asker: Asker, now: Tick) -> bool {
        let Some(lane) = &self.generation.lane else { return false };
        let signature = request.operation().signature();
        signature.is_some_and(|(_, key, _)| lane.keys.has(key)) && self.is_at_work(now)
    }

    fn submit(&self, request: &Request, _now: Tick) -> Option<Left> {
        let (name, _, input) = request.operation().signature()?;
        // Before the job is there: it may be claimed by none that was started earlier.
        let start = self.generation.shared.board.starts();
        let offer =
            self.slots().offer(self.place, request.kind() as u8, &name, input, has_ended)?;
        Some(Left { offer, start })
    }

    fn submitted(&self, now: Tick, is_first: bool) {
        if is_first {
            self.watch(|watch, board| watch.begin(board, now));
        }
        self.call_lane_process(now);
    }

    fn poll(&self) {}

    fn is_finished(&self, left: &Left) -> bool {
        matches!(self.stage(left), Stage::Done | Stage::Refused) || self.is_lost(left)
    }

    fn collect(&self, left: Left, request: &Request, counters: &Counters) -> Answer {
        let bytes = request.operation().signature().map_or(0, |(_, _, input)| input.len());
        let stage = self.stage(&left);
        let is_done = stage == Stage::Done;
        let result = is_done.then(|| self.slots().result(&left.offer, bytes)).flatten();
        self.abandon(left);
        match result.filter(|result| request.operation().confirms(result)) {
            Some(result) => {
                count(&counters.jobs_lent);
                Answer::Done(Secret(result))
            }
            None => {
                let is_lost = stage == Stage::Claimed;
                count(if is_lost { &counters.jobs_taken_back } else { &counters.jobs_refused });
                Answer::Failed
            }
        }
    }

    fn left_ns(&self, now: Tick, asked: Tick) -> u64 {
        if self.has_lane_process() {
            return self.watch(|watch, board| watch.left_ns(board, now, asked));
        }
        asked.after(config().wait_max.longest_ns()).after(CLAIM_MAX_NS).since(now)
    }

    fn withdraw(&self, left: &Left) -> bool {
        self.slots().withdraw(&left.offer)
    }

    fn abandon(&self, left: Left) {
        self.slots().abandon(left.offer);
    }

    fn is_late(&self, _now: Tick, _asked: Tick, counters: &Counters) {
        count(&counters.jobs_taken_back);
    }

    fn descriptor(&self) -> c_int {
        self.generation.events[self.place]
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // In a child the place is still the parent's.
        if process::is_current(self.process) {
            self.slots().leave(self.place);
            process::current().members.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Whether the thread at hand is a member, once it has had reason to find out.
pub(super) struct Membership {
    found: Option<(*const Process, Option<Member>)>,
}

impl Membership {
    pub(super) const fn new() -> Self {
        Membership { found: None }
    }

    /// The member that the thread is, if it has become one in this process.
    pub(super) fn get(&mut self) -> Option<&mut Member> {
        let (process, member) = self.found.as_mut()?;
        member.as_mut().filter(|_| process::is_current(*process))
    }

    /// Makes the thread a member, if there is a place for it.
    pub(super) fn join(&mut self) -> Option<&mut Member> {
        if !can_join() {
            return None;
        }
        let process = ptr::from_ref(process::current());
        if self.found.as_ref().is_none_or(|(found, _)| *found != process) {
            self.found = Some((process, Member::join()));
        }
        self.get()
    }
}

/// Makes a timer readable, and wakes whoever waits for it by edge-triggered epoll. Unlike a write
/// to an eventfd or a socket this never blocks and never fails for want of room, whatever another
/// process that shares the descriptor has done to it.
fn raise(timer: c_int) {
    let ticks = 1_u64;
    // SAFETY: eight bytes to be read.
    if unsafe { libc::ioctl(timer, TFD_IOC_SET_TICKS, &raw const ticks) } != 0 {
        // A kernel without CHECKPOINT_RESTORE: the timer ends at once.
        set(timer, 1);
    }
}

/// Makes a timer unreadable.
fn reset(timer: c_int) {
    set(timer, 0);
}

/// Has a timer end at a time since the system's start; never if that is 0.
fn set(timer: c_int, ns: libc::c_long) {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let time =
        libc::itimerspec { it_interval: never, it_value: libc::timespec { tv_nsec: ns, ..never } };
    // Error: it is no timer; then nobody waits for it.
    // SAFETY: a time.
    unsafe { libc::timerfd_settime(timer, libc::TFD_TIMER_ABSTIME, &time, ptr::null_mut()) };
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
fn new_event() -> io::Result<c_int> {
    // SAFETY: makes a descriptor.
    let event = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made above.
    if unsafe { libc::fcntl(event, F_SETSIG, mark()) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: made above.
        unsafe { libc::close(event) };
        return Err(error);
    }
    Ok(event)
}

/// Whether a descriptor is still one of our timers: a worker may have closed those that it has
/// inherited, and their numbers may be those of other files now.
fn is_ours(descriptor: c_int) -> bool {
    // SAFETY: asks about a descriptor, if it is one.
    unsafe { libc::fcntl(descriptor, F_GETSIG) == mark() }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
    use std::thread;

    use super::*;
    use crate::batching::execute::new_key;
    use crate::counters::Pages;
    use crate::process::children::{assert_in_child, assert_in_child_without_handlers};

    fn is_readable(descriptor: c_int) -> bool {
        let mut question = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one question.
        unsafe { libc::poll(&mut question, 1, 0) == 1 }
    }

    #[test]
    fn a_worker_is_woken_by_its_own_descriptor() {
        let generation = Generation::new().expect("memory and descriptors");
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
        let mut generation = Generation::new().expect("memory and descriptors");
        generation.lane = Some(Lane { keys: Lent::none(), lifeline: -1 });
        let generation: &'static Generation = Box::leak(Box::new(generation));
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
        let mut membership = Membership::new();
        membership.found = Some((process::current(), Some(member(leaked()))));
        assert!(membership.get().is_some());
        assert_in_child_without_handlers(|| {
            membership.get().is_none() && membership.join().is_none()
        });
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
        assert_in_child(|| fails_cleanly(2, || Generation::new().is_err()));
    }

    fn leaked() -> &'static Generation {
        Box::leak(Box::new(Generation::new().expect("memory and descriptors")))
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
            // SAFETY: opened by `start`.
            unsafe { libc::close(lifeline) };
            waited == -1 && has_none
        });
    }

    fn member(generation: &'static Generation) -> Member {
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
}
