//! Handshakes that the runtime drives on a server's event loop: they meet on their thread's own
//! lanes, and their signatures those of other workers, or are left with the
//! [lane process](super::lane_process).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem;
use std::sync::Arc;

use widelane_batch::{Batch, Closed, Company, Entry, Lane, Offer, Stage, Tick};
use widelane_bridge::counters::{Counters, OperationKind};
use widelane_bridge::hooks::Extent;

use crate::batching::combining::{self, Foreign, Member, Membership};
use crate::batching::execute::{
    count_closed, count_short_wait, count_waits, execute as execute_batch, now,
};
use crate::batching::request::{Answer, Request};
use crate::batching::{PAUSES_MAX, blocking, kinds};
use crate::config::config;
use crate::counters::{add, count, count_wait};
use crate::process;
use crate::runtime::{self, Handshake};

/// A request and the handshake that waits for it.
struct Parked {
    request: Arc<Request>,
    handshake: Handshake,
}

/// A request that was left for other workers.
struct Offered {
    entry: Entry<Parked>,
    offer: Offer,
}

/// The requests of one kind that wait on this thread, and whether they should.
struct Waiting {
    kind: OperationKind,
    lane: Lane<Parked>,
    /// Those that any worker may do meanwhile, or the lane process does.
    offered: Vec<Offered>,
    /// Those that the lane process is to do as soon as a slot is free.
    queued: VecDeque<Entry<Parked>>,
    company: Company,
}

/// What a thread executes together: its own requests, and those of other workers.
struct Meeting {
    batch: Batch<Parked>,
    closed: Closed,
    foreign: Vec<Foreign>,
}

/// What waits on a thread.
struct Lanes {
    /// One for each kind: an operation waits for those that share its batch, and not for others.
    by_kind: Box<[Waiting]>,
    membership: Membership,
}

thread_local! {
    static LANES: RefCell<Lanes> = RefCell::new(Lanes {
        by_kind: OperationKind::ALL.into_iter().map(Waiting::new).collect(),
        membership: Membership::new(),
    });
}

impl Lanes {
    /// The requests of one kind, and the other workers if they may do some of them.
    fn of(&mut self, kind: OperationKind) -> (&mut Waiting, Option<&mut Member>) {
        let member = self.membership.get().filter(|_| combining::is_combined(kind));
        (&mut self.by_kind[kind as usize], member)
    }

    fn add(&mut self, kind: OperationKind, parked: Parked) {
        if parked.request.operation().signature().is_some()
            && let Some(member) = self.membership.join()
        {
            member.learn(&parked.request);
        }
        // A handshake waits once, and its signature is where it meets most.
        let waits_later = !combining::is_combined(kind)
            && kind.is_derivation()
            && self.membership.get().is_some_and(|member| member.has_others());
        let (waiting, member) = self.of(kind);
        waiting.add(parked, !waits_later, member.as_deref());
    }

    /// The request that waits, of whatever kind, and is withdrawn.
    fn remove(&mut self, is_it: impl Fn(&Parked) -> bool) -> Option<Parked> {
        let member = self.membership.get();
        self.by_kind.iter_mut().find_map(|waiting| waiting.remove(member.as_deref(), &is_it))
    }

    fn wait_ns(&mut self, begins: bool) -> u64 {
        let now = now();
        let left_ns = OperationKind::ALL.into_iter().filter_map(|kind| {
            let (waiting, member) = self.of(kind);
            (!waiting.is_empty()).then(|| waiting.left_ns(now, member.as_deref()))
        });
        match left_ns.min().unwrap_or(0) {
            ns if ns > 0 && begins => self.begin(now, ns),
            ns => ns,
        }
    }

    /// The thread begins to wait: other workers may do meanwhile what waits. Returns how long it
    /// waits.
    fn begin(&mut self, now: Tick, ns: u64) -> u64 {
        for kind in OperationKind::ALL {
            let (waiting, member) = self.of(kind);
            waiting.begin(now, member.as_deref());
        }
        let Some(member) = self.membership.get() else { return ns };
        let offered = self.by_kind.iter().flat_map(|waiting| &waiting.offered);
        let mut offered = offered.peekable();
        if offered.peek().is_none() {
            return ns;
        }
        member.begin_sleep();
        // What was finished before that wakes nobody.
        let is_finished = |it: &Offered| member.is_finished(&it.offer);
        if offered.any(is_finished) { 0 } else { ns }
    }
}

impl Waiting {
    fn new(kind: OperationKind) -> Self {
        let company = Company::new(config().wait_max.ns());
        let lane = Lane::new(kinds::lanes(kind));
        Waiting { kind, lane, offered: Vec::new(), queued: VecDeque::new(), company }
    }

    fn len(&self) -> usize {
        self.lane.len() + self.offered.len() + self.queued.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&mut self, parked: Parked, may_wait: bool, member: Option<&Member>) {
        let (now, handshake) = (now(), parked.handshake);
        if let Some(member) = member.filter(|member| member.lends(&parked.request, now)) {
            self.queued.push_back(Entry { job: parked, submitted: now });
            return self.lend(now, member);
        }
        self.lane.submit(parked, now);
        let others = member
            .filter(|member| member.has_others())
            .map(|member| member.others(self.kind, self.lane.lanes()));
        let costs = || process::current().queues(self.kind).costs.by_jobs();
        let may_wait = || may_wait && runtime::may_wait(handshake);
        self.company.joined(now, self.len(), others, costs, may_wait);
    }

    /// Leaves what is queued with the lane process, as far as there are slots.
    fn lend(&mut self, now: Tick, member: &Member) {
        let before = self.offered.len();
        while let Some(entry) = self.queued.pop_front() {
            let Some(offer) = member.offer(self.kind, &entry.job.request) else {
                self.queued.push_front(entry);
                break;
            };
            self.offered.push(Offered { entry, offer });
        }
        if self.offered.len() > before {
            if before == 0 {
                member.begin_lending(now);
            }
            member.call_lane_process(now);
        }
    }

    fn remove(
        &mut self,
        member: Option<&Member>,
        is_it: impl Fn(&Parked) -> bool,
    ) -> Option<Parked> {
        if let Some(parked) = self.lane.remove(&is_it) {
            return Some(parked);
        }
        if let Some(index) = self.queued.iter().position(|entry| is_it(&entry.job)) {
            return self.queued.remove(index).map(|entry| entry.job);
        }
        let index = self.offered.iter().position(|offered| is_it(&offered.entry.job))?;
        let Offered { entry, offer } = self.offered.swap_remove(index);
        if let Some(member) = member {
            member.abandon(offer);
        }
        Some(entry.job)
    }

    /// How many requests nobody has begun to do, and no lane process will.
    fn open(&self, member: Option<&Member>) -> usize {
        let is_open = |offered: &&Offered| {
            member.is_none_or(|member| {
                !member.has_lane_process() && member.stage(&offered.offer) == Stage::Open
            })
        };
        self.lane.len() + self.offered.iter().filter(is_open).count()
    }

    /// Whether requests of this thread and of others make a whole batch.
    fn is_whole(&self, member: Option<&Member>) -> bool {
        let (own, lanes) = (self.open(member), self.lane.lanes());
        let missing = lanes.saturating_sub(own);
        let member = member.filter(|member| member.has_others());
        missing == 0
            || own > 0 && member.is_some_and(|member| member.open(self.kind, missing) == missing)
    }

    /// How long what waits should wait, 0 if any of it is due or was done by another worker.
    fn left_ns(&self, now: Tick, member: Option<&Member>) -> u64 {
        let of_offered = |offered: &Offered| {
            let Some(member) = member else { return 0 };
            match member.stage(&offered.offer) {
                Stage::Open if !member.has_lane_process() => self.company.left_ns(now),
                Stage::Open | Stage::Claimed => Self::others_have_ns(&offered.entry, now, member),
                Stage::Done | Stage::Refused => 0,
            }
        };
        let of_queued = self
            .queued
            .front()
            .map(|entry| member.map_or(0, |member| Self::others_have_ns(entry, now, member)));
        let in_lane = (!self.lane.is_empty()).then(|| self.company.left_ns(now));
        self.offered.iter().map(of_offered).chain(of_queued).chain(in_lane).min().unwrap_or(0)
    }

    /// How long the lane process, or a worker that has claimed a request, has for it.
    fn others_have_ns(entry: &Entry<Parked>, now: Tick, member: &Member) -> u64 {
        if member.has_lane_process() {
            return member.lent_left_ns(now, entry.submitted);
        }
        combining::claim_ends(entry.submitted.after(config().wait_max.ns())).since(now)
    }

    /// The thread begins to wait for company.
    fn begin(&mut self, now: Tick, member: Option<&Member>) {
        let waiting = match member {
            Some(member) if member.has_lane_process() => self.lane.len(),
            _ => self.len(),
        };
        if waiting == 0 {
            return;
        }
        self.company.begin(now, waiting);
        let Some(member) = member.filter(|member| member.has_others()) else { return };
        for entry in self.lane.drain() {
            match member.offer(self.kind, &entry.job.request) {
                Some(offer) => self.offered.push(Offered { entry, offer }),
                None => drop(self.lane.submit(entry.job, entry.submitted)),
            }
        }
    }

    /// Takes the requests that other workers have finished, each with its result.
    fn collect(&mut self, member: &Member) -> Vec<(Entry<Parked>, Option<Vec<u8>>)> {
        let is_finished = |it: &mut Offered| member.is_finished(&it.offer);
        let done: Vec<Offered> = self.offered.extract_if(.., is_finished).collect();
        if !done.is_empty()
            && self.is_empty()
            && let Some(waited) = self.company.met(now())
        {
            count_short_wait(process::current().counters(), waited);
        }
        let collect = |Offered { entry, offer }| {
            let result = member.collect(offer, &entry.job.request);
            (entry, result)
        };
        done.into_iter().map(collect).collect()
    }

    fn take(&mut self, what: Extent, member: Option<&Member>) -> Option<Meeting> {
        if self.is_empty() {
            return None;
        }
        let now = now();
        let is_taken = match what {
            Extent::Whole => false,
            Extent::Due => self.left_ns(now, member) == 0,
            Extent::All | Extent::Everything => true,
        };
        if !is_taken && !self.is_whole(member) {
            return None;
        }
        let counters = process::current().counters();
        self.take_back(what, now, member, counters);
        let batch = self.lane.flush()?;
        let missing = self.lane.lanes() - batch.fill();
        let foreign = match member.filter(|member| member.has_others()) {
            Some(member) if missing > 0 => member.claim(self.kind, missing, counters),
            _ => Vec::new(),
        };
        if let Some(waited) = self.company.left(now, batch.fill() + foreign.len()) {
            count_short_wait(counters, waited);
        }
        let is_full = foreign.len() == missing;
        let closed = if is_full { Closed::Full } else { batch.closed() };
        Some(Meeting { batch, closed, foreign })
    }

    /// Takes requests back that were left for others: those that nobody has claimed, unless it is
    /// the lane process that will, and those that others have had for too long.
    fn take_back(&mut self, what: Extent, now: Tick, member: Option<&Member>, counters: &Counters) {
        for offered in mem::take(&mut self.offered) {
            let Some(member) = member else {
                // After a fork: the others are those of the parent.
                self.lane.submit(offered.entry.job, offered.entry.submitted);
                continue;
            };
            let is_over = what == Extent::Everything
                || Self::others_have_ns(&offered.entry, now, member) == 0;
            let is_lent = member.has_lane_process();
            if (is_over || !is_lent) && member.withdraw(&offered.offer) {
                add(&counters.jobs_taken_back, is_lent.into());
                self.lane.submit(offered.entry.job, offered.entry.submitted);
            } else if is_over && !member.is_finished(&offered.offer) {
                count(&counters.jobs_taken_back);
                member.abandon(offered.offer);
                self.lane.submit(offered.entry.job, offered.entry.submitted);
            } else {
                self.offered.push(offered);
            }
        }
        let is_lent =
            |member: &Member| what != Extent::Everything && member.trusts_lane_process(now);
        if !member.is_some_and(is_lent) {
            for entry in mem::take(&mut self.queued) {
                self.lane.submit(entry.job, entry.submitted);
            }
        }
    }
}

/// Parks the runtime's fibre until its request is done by [`execute`] or withdrawn by [`cancel`].
pub(super) fn run(request: Request, handshake: Handshake) -> Answer {
    let kind = request.kind();
    let request = Arc::new(request);
    let parked = Parked { request: Arc::clone(&request), handshake };
    if with(|lanes| lanes.add(kind, parked)).is_none() {
        return blocking::run_alone(&request);
    }
    for _ in 0..PAUSES_MAX {
        runtime::pause();
        if let Some(answer) = request.answer().take() {
            return answer;
        }
    }
    // Whoever runs this fibre resumes it for nothing.
    with(|lanes| lanes.remove(|parked| Arc::ptr_eq(&parked.request, &request)));
    blocking::run_alone(&request)
}

/// Number of parked requests of this thread.
pub(crate) fn pending() -> usize {
    with(|lanes| lanes.by_kind.iter().map(Waiting::len).sum()).unwrap_or(0)
}

/// Whether a whole batch is parked on this thread, with what other workers have left.
pub(crate) fn full() -> bool {
    let is_full = |lanes: &mut Lanes| {
        OperationKind::ALL.into_iter().any(|kind| {
            let (waiting, member) = lanes.of(kind);
            !waiting.is_empty() && waiting.is_whole(member.as_deref())
        })
    };
    with(is_full).unwrap_or(false)
}

/// How long this thread should wait for company of what is parked on it before it sleeps; not at
/// all if any of it is due. `begins` says that it does now.
pub(crate) fn wait_ns(begins: bool) -> u64 {
    with(|lanes| lanes.wait_ns(begins)).unwrap_or(0)
}

/// The descriptor that wakes this thread when another worker has finished a request of its; −1 if
/// none does any.
pub(crate) fn wake_descriptor() -> c_int {
    with(|lanes| lanes.membership.get().map(|member| member.event())).flatten().unwrap_or(-1)
}

/// Executes what is parked on this thread. Answers how many were finished.
pub(crate) fn execute(what: Extent) -> usize {
    let mut finished = collect();
    for kind in OperationKind::ALL {
        // The lanes are free while a batch runs: its end may bring the next request.
        let take = |lanes: &mut Lanes| {
            let (waiting, member) = lanes.of(kind);
            waiting.take(what, member.as_deref())
        };
        while let Some(meeting) = with(take).flatten() {
            finished += meeting.batch.fill();
            finish(kind, meeting);
        }
    }
    finished
}

/// Takes up what other workers have finished. Answers how many were.
fn collect() -> usize {
    let collect = |lanes: &mut Lanes| {
        let member = lanes.membership.get()?;
        member.end_sleep();
        let offering = lanes.by_kind.iter_mut().filter(|waiting| !waiting.offered.is_empty());
        let done = offering.flat_map(|waiting| waiting.collect(member)).collect::<Vec<_>>();
        if !done.is_empty() {
            let now = now();
            let queueing = lanes.by_kind.iter_mut().filter(|waiting| !waiting.queued.is_empty());
            queueing.for_each(|waiting| waiting.lend(now, member));
        }
        Some(done)
    };
    let counters = process::current().counters();
    let mut finished = 0;
    for (entry, result) in with(collect).flatten().unwrap_or_default() {
        let Entry { job: Parked { request, handshake }, submitted } = entry;
        match combining::confirm(counters, &request, result) {
            Answer::Done(signature) => {
                count_wait(counters, now().since(submitted));
                *request.answer() = Some(Answer::Done(signature));
                runtime::completed(handshake);
                finished += 1;
            }
            _ => drop(with(|lanes| {
                let waiting = &mut lanes.by_kind[request.kind() as usize];
                waiting.lane.submit(Parked { request, handshake }, submitted);
            })),
        }
    }
    finished
}

/// Withdraws the request of a handshake, if it still waits.
pub(crate) fn cancel(handshake: Handshake) {
    let removed = with(|lanes| lanes.remove(|parked| parked.handshake == handshake)).flatten();
    if let Some(parked) = removed {
        count(&process::current().counters().jobs_cancelled);
        *parked.request.answer() = Some(Answer::Cancelled);
    }
}

fn finish(kind: OperationKind, Meeting { batch, closed, foreign }: Meeting) {
    let process = process::current();
    let counters = process.counters();
    count_closed(counters, closed);
    let own = batch.entries().iter().map(|entry| &*entry.job.request);
    let requests: Vec<&Request> = own.chain(foreign.iter().map(|job| &job.request)).collect();
    let mut answers = execute_batch(process.queues(kind), counters, &requests);
    // Their owners go on while this thread turns to its own.
    let theirs = answers.split_off(batch.fill().min(answers.len()));
    foreign.into_iter().zip(theirs).for_each(|(job, answer)| job.finish(answer));
    count_waits(counters, &batch);
    for (parked, answer) in batch.into_jobs().zip(answers) {
        *parked.request.answer() = Some(answer);
        runtime::completed(parked.handshake);
    }
}

/// Nothing where the thread is ending.
fn with<R>(action: impl FnOnce(&mut Lanes) -> R) -> Option<R> {
    LANES.try_with(|lanes| lanes.try_borrow_mut().ok().map(|mut lanes| action(&mut lanes))).ok()?
}
