//! One event loop among the workers: what it leaves for others, and does for them.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use widelane_batch::{Choice, Claim, KeyName, Offer, Others, Seeker, Slots, Stage, Tick};
use widelane_bridge::counters::{Counters, OperationKind};

use super::timer::{is_ours, reset, wait};
use super::{PLACES_MAX, SLOTS, WORDS, WorkerGeneration, can_join, current};
use crate::batching::engine::{Asker, Engine};
use crate::batching::execute::now;
use crate::batching::lane_process::{Board, Watch};
use crate::batching::request::{Answer, Request};
use crate::config::config;
use crate::counters::{add, count};
use crate::process::{self, Process, has_ended};
use crate::rsa::batch::PrivateOperation;
use crate::rsa::key::Key;
use crate::secret::Secret;

/// The event loop of one thread among the workers.
pub(in crate::batching) struct Member {
    process: *const Process,
    generation: &'static WorkerGeneration,
    pub(super) place: usize,
    worker: u32,
    /// The keys that this event loop has signed with.
    pub(super) keys: HashMap<KeyName, Weak<Key>>,
    /// Where it looks first for jobs of others.
    first: Cell<usize>,
    /// What it has seen of the lane process.
    watch: Cell<Watch>,
}

/// How long after it was due a job may stay with a worker that has claimed it. Longer than a batch
/// of eight RSA-4096 takes where some workers share a CPU; as much longer do clients wait whose
/// handshakes lie with a worker that was killed or stopped.
const CLAIM_MAX_NS: u64 = 50_000_000;

/// How long the lane process sleeps at most. If a worker is killed between seeing that it sleeps
/// and waking it, no other worker wakes it.
pub(in crate::batching) const SLEEP_MAX_MS: c_int = 1_000;

/// Keys from which on those that were freed are forgotten.
const KEYS_TO_TIDY: usize = 1024;

/// A job of this worker's that was left for others.
pub(in crate::batching) struct Left {
    offer: Offer,
    /// How often the lane process had been started by then.
    start: u32,
}

/// A job of another worker's, to be done here.
pub(in crate::batching) struct Foreign {
    pub(in crate::batching) request: Request,
    claim: Claim,
    generation: &'static WorkerGeneration,
}

impl Foreign {
    /// Stores its answer.
    pub(in crate::batching) fn finish(self, answer: Answer) {
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
        let generation = current()?;
        if generation.lane.is_none() && !config().combines() {
            return None;
        }
        Member::enter(generation)
    }

    /// The lane process among the workers of a generation, with all keys that it inherits; nothing
    /// if there is no place for it.
    pub(in crate::batching) fn of_lane_process(
        generation: &'static WorkerGeneration,
    ) -> Option<Self> {
        let place = generation.lane_place()?;
        let mut member = Member::at(generation, place)?;
        let keys = generation.lane.iter().flat_map(|lane| lane.keys.all());
        let named = |key: Arc<Key>| Some((key.accelerated()?.name, Arc::downgrade(&key)));
        member.keys = keys.filter_map(named).collect();
        Some(member)
    }

    pub(super) fn enter(generation: &'static WorkerGeneration) -> Option<Self> {
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
    pub(super) fn at(generation: &'static WorkerGeneration, place: usize) -> Option<Self> {
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

    pub(super) fn slots(&self) -> &'static Slots<PLACES_MAX, SLOTS, WORDS> {
        &self.generation.shared.slots
    }

    fn seeker(&self) -> Seeker {
        Seeker { worker: self.worker, place: self.place, first: self.first.get() }
    }

    /// Whether there is a lane process, so that workers do nothing for each other.
    pub(in crate::batching) fn has_lane_process(&self) -> bool {
        self.generation.lane.is_some()
    }

    /// Whether there is another worker with which this one combines.
    pub(in crate::batching) fn has_others(&self) -> bool {
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
    pub(in crate::batching) fn learn(&mut self, request: &Request) {
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
    pub(in crate::batching) fn others(&self, kind: OperationKind, most: usize) -> Others<'static> {
        let arrivals = &self.generation.shared.arrivals[kind as usize];
        Others { arrivals, waiting: self.open(kind, most) }
    }

    /// How many jobs of a kind other workers have left that can be done here, at most `most`.
    pub(in crate::batching) fn open(&self, kind: OperationKind, most: usize) -> usize {
        let has = |name: &KeyName| self.keys.get(name).is_some_and(|key| key.strong_count() > 0);
        self.slots().open(self.seeker(), kind as u8, most, has)
    }

    /// How far a job has got that was left for others.
    pub(in crate::batching) fn stage(&self, left: &Left) -> Stage {
        self.slots().stage(&left.offer)
    }

    /// Whether a job was left with a lane process that has ended, and was claimed. If it is the
    /// next one that has claimed it, its result comes too late.
    fn is_lost(&self, left: &Left) -> bool {
        left.start != self.generation.shared.board.starts() && self.stage(left) == Stage::Claimed
    }

    /// Takes jobs of a kind that other workers have left, at most `most`.
    pub(in crate::batching) fn claim(
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
    pub(in crate::batching) fn begin_sleep(&self) {
        self.slots().begin_sleep(self.place);
    }

    /// The lane process begins.
    pub(in crate::batching) fn begin_serving(&self, counters: &Counters) {
        let starts = self.generation.shared.board.begin();
        counters.lane_process_starts.store(starts.into(), Ordering::Relaxed);
    }

    /// The lane process has executed what it had to since `begin`. Returns the time.
    pub(in crate::batching) fn has_taken_turn(&self, begin: Tick) -> Tick {
        let (board, now) = (&self.generation.shared.board, now());
        board.took(now.since(begin));
        board.turn();
        now
    }

    /// The lane process sleeps until a worker calls it, for [`SLEEP_MAX_MS`] at most, unless jobs
    /// are open already. Returns since when it is needed.
    pub(in crate::batching) fn sleep_until_called(&self, has_jobs: impl FnOnce() -> bool) -> Tick {
        let since = now();
        self.begin_sleep();
        if !has_jobs() {
            wait(self.descriptor(), SLEEP_MAX_MS);
            reset(self.descriptor());
        }
        self.end_sleep();
        let board = &self.generation.shared.board;
        board.turn();
        board.called().clamp(since, now())
    }

    /// The descriptor that becomes readable when something is finished, for edge-triggered epoll.
    pub(in crate::batching) fn descriptor(&self) -> c_int {
        self.generation.events[self.place]
    }

    /// The event loop is awake.
    pub(in crate::batching) fn end_sleep(&self) {
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

    fn count_late(&self, _now: Tick, _asked: Tick, counters: &Counters) {
        count(&counters.jobs_taken_back);
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

/// Whether the thread at hand is a member, once it has had reason to find out. What a parent's
/// thread has found out means nothing in a child.
pub(in crate::batching) struct Membership {
    pub(super) found: Option<Option<Member>>,
}

impl Membership {
    pub(in crate::batching) const fn new() -> Self {
        Membership { found: None }
    }

    /// The member that the thread is, if it has become one.
    pub(in crate::batching) fn get(&mut self) -> Option<&mut Member> {
        self.found.as_mut()?.as_mut()
    }

    /// Makes the thread a member, if there is a place for it.
    pub(in crate::batching) fn join(&mut self) -> Option<&mut Member> {
        if !can_join() {
            return None;
        }
        self.found.get_or_insert_with(Member::join).as_mut()
    }
}
