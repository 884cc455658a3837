//! Handshakes that the runtime drives on a server's event loop: they meet on their thread's own
//! lanes, and their signatures those of other workers, or are done by another
//! [engine](super::engine).

mod away;

use std::cell::{Cell, LazyCell, RefCell};
use std::ffi::c_int;
use std::mem;
use std::sync::Arc;

use widelane_batch::{Batch, Closed, Company, Encounters, Entry, Lane, Stage, Tick};
use widelane_bridge::counters::OperationKind;
use widelane_bridge::hooks::Extent;

use self::away::Away;
use crate::batching::combining::{self, Foreign, Member, Membership};
use crate::batching::engine::qat::{self, Instance};
use crate::batching::engine::{Asker, Engine};
use crate::batching::execute::{
    count_closed, count_short_wait, count_waits, execute as execute_batch, now,
};
use crate::batching::request::{Answer, Request};
use crate::batching::{PAUSES_MAX, blocking, kinds};
use crate::choosing;
use crate::config::config;
use crate::counters::{count, count_wait};
use crate::process;
use crate::runtime::{self, Handshake};

/// A request and the handshake that waits for it.
struct Parked {
    request: Arc<Request>,
    handshake: Handshake,
}

/// The requests of one kind that wait on this thread, and whether they should.
struct Waiting {
    kind: OperationKind,
    lane: Lane<Parked>,
    /// Those that any worker may do meanwhile, or the lane process does.
    with_workers: Away<Member>,
    /// Those that a device does.
    with_device: Away<Instance>,
    company: Company,
    encounters: Encounters,
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
    /// The process that it knows of.
    identity: u64,
}

thread_local! {
    static LANES: RefCell<Lanes> = RefCell::new(Lanes {
        by_kind: OperationKind::ALL.into_iter().map(Waiting::new).collect(),
        membership: Membership::new(),
        identity: process::identity(),
    });
    /// The handshake that the runtime abandons, though its request is done.
    static ABANDONED: Cell<Option<Handshake>> = const { Cell::new(None) };
}

/// What does operations elsewhere for a kind of them.
#[derive(Clone, Copy)]
struct Engines<'a> {
    workers: Option<&'a Member>,
    device: Option<&'a Instance>,
}

impl<'a> Engines<'a> {
    /// The other workers, where they are to make a batch with this one.
    fn others(self) -> Option<&'a Member> {
        self.workers.filter(|member| member.has_others())
    }
}

impl Lanes {
    /// This process may have been forked: what waits on the lanes is its parent's, which executes
    /// it. It is left alone, not freed.
    fn leave_to_parent(&mut self) {
        let identity = process::identity();
        if mem::replace(&mut self.identity, identity) != identity {
            for waiting in self.by_kind.iter_mut().filter(|waiting| !waiting.is_empty()) {
                mem::forget(mem::replace(waiting, Waiting::new(waiting.kind)));
            }
            // Its place among the workers is the parent's, and is not given up.
            self.membership = Membership::new();
        }
    }

    /// The requests of one kind, and what may do them elsewhere.
    fn of(&mut self, kind: OperationKind) -> (&mut Waiting, Engines<'_>) {
        let workers = self.membership.get().filter(|_| combining::is_combined(kind));
        let engines = Engines { workers: workers.map(|member| &*member), device: qat::known() };
        (&mut self.by_kind[kind as usize], engines)
    }

    /// Whether the request is to be executed at once.
    fn add(&mut self, kind: OperationKind, parked: Parked) -> bool {
        if parked.request.operation().skill().is_some() {
            qat::instance();
        }
        if parked.request.operation().signature().is_some()
            && let Some(member) = self.membership.join()
        {
            member.learn(&parked.request);
        }
        // A handshake waits once, and its signature is where it meets most.
        let waits_later = !combining::is_combined(kind)
            && (kind.is_derivation() || kind.is_verification())
            && self.membership.get().is_some_and(|member| member.has_others());
        let (waiting, engines) = self.of(kind);
        waiting.add(parked, !waits_later, engines)
    }

    /// The request that waits, of whatever kind, and is withdrawn.
    fn remove(&mut self, is_it: impl Fn(&Parked) -> bool) -> Option<Parked> {
        OperationKind::ALL.into_iter().find_map(|kind| {
            let (waiting, engines) = self.of(kind);
            waiting.remove(engines, &is_it)
        })
    }

    fn wait_ns(&mut self, begins: bool) -> u64 {
        let now = now();
        let left_ns = OperationKind::ALL.into_iter().filter_map(|kind| {
            let (waiting, engines) = self.of(kind);
            waiting.left_ns(now, engines)
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
            let (waiting, engines) = self.of(kind);
            waiting.begin(now, engines);
        }
        let Some(member) = self.membership.get() else { return ns };
        let left = self.by_kind.iter().flat_map(|waiting| waiting.with_workers.submitted());
        let mut left = left.peekable();
        if left.peek().is_none() {
            return ns;
        }
        member.begin_sleep();
        // What was finished before that does not wake this thread.
        if left.any(|submitted| member.is_finished(&submitted.ticket)) { 0 } else { ns }
    }

    /// Takes what engines have finished, each with its answer.
    fn collect(&mut self) -> Vec<(Entry<Parked>, Answer)> {
        if let Some(member) = self.membership.get() {
            member.end_sleep();
        }
        let mut all = Vec::new();
        for kind in OperationKind::ALL {
            let (waiting, engines) = self.of(kind);
            all.append(&mut waiting.collect(engines));
        }
        all
    }

    /// The descriptor that wakes the thread when an engine has finished something. A device is
    /// chosen in place of the other workers, never beside them.
    fn wake_descriptor(&mut self) -> c_int {
        if let Some(device) = qat::known() {
            return device.descriptor();
        }
        self.membership.get().map_or(-1, |member| member.descriptor())
    }
}

impl Waiting {
    fn new(kind: OperationKind) -> Self {
        Waiting {
            kind,
            lane: Lane::new(kinds::lanes(kind)),
            with_workers: Away::new(),
            with_device: Away::new(),
            company: Company::new(config().wait_max.longest_ns()),
            encounters: Encounters::default(),
        }
    }

    fn len(&self) -> usize {
        self.lane.len() + self.with_workers.len() + self.with_device.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many requests wait for company: an engine that works alone needs none.
    fn in_company(&self, engines: Engines<'_>) -> usize {
        let offered = match engines.workers {
            Some(member) if member.works_alone() => 0,
            _ => self.with_workers.len(),
        };
        self.lane.len() + offered
    }

    /// Whether the request is to be executed at once: no other is waiting or likely to come soon.
    fn add(&mut self, parked: Parked, may_wait: bool, engines: Engines<'_>) -> bool {
        let now = now();
        let entry = Entry { job: parked, submitted: now };
        let asker = Asker::Loop(1 + self.len());
        let device = &mut self.with_device;
        let Some(entry) = device.add(entry, asker, now, engines.device) else {
            return false;
        };
        let workers = &mut self.with_workers;
        let Some(entry) = workers.add(entry, asker, now, engines.workers) else {
            return false;
        };
        let handshake = entry.job.handshake;
        self.lane.submit(entry.job, now);
        let others = engines.others().map(|member| member.others(self.kind, self.lane.lanes()));
        let costs = LazyCell::new(|| process::current().queues(self.kind).costs.by_jobs());
        let limit_ns = || config().wait_max.ns(|| runtime::round_trip_ns(handshake));
        let may_wait = || may_wait && runtime::may_wait(handshake);
        self.company.joined(now, self.in_company(engines), others, || *costs, limit_ns, may_wait);
        self.len() == 1
            && !self.company.waits()
            && engines.others().is_none()
            && self.encounters.are_vain(&costs)
    }

    fn remove(&mut self, engines: Engines<'_>, is_it: impl Fn(&Parked) -> bool) -> Option<Parked> {
        let of_lane = self.lane.remove(&is_it);
        let of_workers = || self.with_workers.remove(engines.workers, &is_it);
        of_lane.or_else(of_workers).or_else(|| self.with_device.remove(engines.device, &is_it))
    }

    /// How many requests have not been begun and are left with no engine.
    fn open(&self, engines: Engines<'_>) -> usize {
        let offered = self.with_workers.submitted().iter();
        let is_open = |offer| {
            engines
                .workers
                .is_none_or(|member| !member.works_alone() && member.stage(offer) == Stage::Open)
        };
        self.lane.len() + offered.filter(|offered| is_open(&offered.ticket)).count()
    }

    /// Whether requests of this thread and of others make a whole batch.
    fn is_whole(&self, engines: Engines<'_>) -> bool {
        let (own, lanes) = (self.open(engines), self.lane.lanes());
        let missing = lanes.saturating_sub(own);
        let member = engines.others();
        missing == 0
            || own > 0 && member.is_some_and(|member| member.open(self.kind, missing) == missing)
    }

    /// How long what waits should wait, 0 if any of it is due or was done elsewhere; nothing if
    /// nothing waits.
    fn left_ns(&self, now: Tick, engines: Engines<'_>) -> Option<u64> {
        let in_lane = (!self.lane.is_empty()).then(|| self.company.left_ns(now));
        let with_workers = match engines.workers {
            // What none of them has begun waits for company as what is in the lane does.
            Some(member) if !member.works_alone() => {
                let is_open = |offer| member.stage(offer) == Stage::Open;
                let mut offered = self.with_workers.submitted().iter();
                let is_any_open = offered.any(|offered| is_open(&offered.ticket));
                let open = is_any_open.then(|| self.company.left_ns(now));
                self.with_workers.left_ns(now, engines.workers).into_iter().chain(open).min()
            }
            workers => self.with_workers.left_ns(now, workers),
        };
        let with_device = self.with_device.left_ns(now, engines.device);
        in_lane.into_iter().chain(with_workers).chain(with_device).min()
    }

    /// The thread begins to wait for company.
    fn begin(&mut self, now: Tick, engines: Engines<'_>) {
        let waiting = self.in_company(engines);
        if waiting == 0 {
            return;
        }
        self.company.begin(now, waiting);
        let Some(member) = engines.others() else { return };
        for entry in self.lane.drain() {
            if let Some(entry) = self.with_workers.offer(entry, now, member) {
                self.lane.submit(entry.job, entry.submitted);
            }
        }
    }

    /// Takes the requests that engines have finished, each with its answer.
    fn collect(&mut self, engines: Engines<'_>) -> Vec<(Entry<Parked>, Answer)> {
        let counters = process::current().counters();
        let mut done = Vec::new();
        if let Some(member) = engines.workers {
            done = self.with_workers.collect(member, counters);
            // There may be room again though nothing of this thread's is done.
            if self.with_workers.has_queued() {
                self.with_workers.submit(now(), member);
            }
            if !done.is_empty()
                && self.is_empty()
                && let Some(waited) = self.company.met(now())
            {
                count_short_wait(counters, waited);
            }
        }
        if let Some(device) = engines.device {
            done.append(&mut self.with_device.collect(device, counters));
        }
        done
    }

    fn take(&mut self, what: Extent, engines: Engines<'_>) -> Option<Meeting> {
        if self.is_empty() {
            return None;
        }
        let now = now();
        let is_taken = match what {
            Extent::Whole => false,
            Extent::Due => self.left_ns(now, engines) == Some(0),
            Extent::All | Extent::Everything => true,
        };
        if !is_taken && !self.is_whole(engines) {
            return None;
        }
        let counters = process::current().counters();
        self.with_workers.take_back(what, now, engines.workers, &mut self.lane, counters);
        self.with_device.take_back(what, now, engines.device, &mut self.lane, counters);
        let batch = self.lane.flush()?;
        let missing = self.lane.lanes() - batch.fill();
        let foreign = match engines.others() {
            Some(member) if missing > 0 => member.claim(self.kind, missing, counters),
            _ => Vec::new(),
        };
        self.encounters.left(batch.fill(), self.company.waits());
        if let Some(waited) = self.company.left(now, batch.fill() + foreign.len()) {
            count_short_wait(counters, waited);
        }
        let is_full = foreign.len() == missing;
        let closed = if is_full { Closed::Full } else { batch.closed() };
        Some(Meeting { batch, closed, foreign })
    }
}

/// Parks the runtime's fibre until its request is done by [`execute`] or withdrawn by [`cancel`].
pub(super) fn run(request: Request, handshake: Handshake) -> Answer {
    // A mark may be stale: its handshake was freed without being resumed, and this one may have its
    // address.
    ABANDONED.set(None);
    let kind = request.kind();
    let request = Arc::new(request);
    let parked = Parked { request: Arc::clone(&request), handshake };
    match with(|lanes| lanes.add(kind, parked)) {
        None => return blocking::run_alone(&request),
        Some(true) => execute_kind(kind, Extent::Due),
        Some(false) => {}
    }
    let identity = process::identity();
    for _ in 0..PAUSES_MAX {
        if ABANDONED.take() == Some(handshake) {
            return Answer::Cancelled;
        }
        if let Some(answer) = request.answer().take() {
            return answer;
        }
        // The program of a child calls for a handshake that its parent had suspended.
        if process::identity() != identity {
            break;
        }
        runtime::pause();
    }
    // Reached after too many spurious resumes, or in a forked child: withdraw the request and
    // execute it alone.
    with(|lanes| lanes.remove(|parked| Arc::ptr_eq(&parked.request, &request)));
    blocking::run_alone(&request)
}

/// Makes the calling thread's lanes, which are empty.
pub(crate) fn begin_thread() {
    with(|_| ());
}

/// Whether a whole batch is parked on this thread, with what other workers have left.
pub(crate) fn full() -> bool {
    let is_full = |lanes: &mut Lanes| {
        OperationKind::ALL.into_iter().any(|kind| {
            let (waiting, engines) = lanes.of(kind);
            !waiting.is_empty() && waiting.is_whole(engines)
        })
    };
    with(is_full).unwrap_or(false)
}

/// How long this thread should wait for company of what is parked on it before it sleeps; not at
/// all if any of it is due. `begins` says that it does now.
pub(crate) fn wait_ns(begins: bool) -> u64 {
    with(|lanes| lanes.wait_ns(begins)).unwrap_or(0)
}

/// The descriptor that wakes this thread when an engine has finished a request of its; −1 if none
/// does any.
pub(crate) fn wake_descriptor() -> c_int {
    with(Lanes::wake_descriptor).unwrap_or(-1)
}

/// Executes what is parked on this thread.
pub(crate) fn execute(what: Extent) {
    choosing::tick();
    collect();
    OperationKind::ALL.into_iter().for_each(|kind| execute_kind(kind, what));
}

/// Executes what is parked of one kind.
fn execute_kind(kind: OperationKind, what: Extent) {
    // The lanes are free while a batch runs: its end may bring the next request.
    let take = |lanes: &mut Lanes| {
        let (waiting, engines) = lanes.of(kind);
        waiting.take(what, engines)
    };
    while let Some(meeting) = with(take).flatten() {
        finish(kind, meeting);
    }
}

/// Takes up what engines have finished.
fn collect() {
    let counters = process::current().counters();
    for (entry, answer) in with(Lanes::collect).unwrap_or_default() {
        let Entry { job: Parked { request, handshake }, submitted } = entry;
        match answer {
            Answer::Done(signature) => {
                count_wait(counters, now().since(submitted));
                *request.answer() = Some(Answer::Done(signature));
                runtime::completed(handshake);
            }
            _ => drop(with(|lanes| {
                let waiting = &mut lanes.by_kind[request.kind() as usize];
                waiting.lane.submit(Parked { request, handshake }, submitted);
            })),
        }
    }
}

/// Withdraws the request of a handshake, whose fibre is about to be resumed for the last time: if
/// the request is done already, its answer is not used.
pub(crate) fn cancel(handshake: Handshake) {
    let removed = with(|lanes| lanes.remove(|parked| parked.handshake == handshake)).flatten();
    match removed {
        Some(parked) => {
            count(&process::current().counters().jobs_cancelled);
            *parked.request.answer() = Some(Answer::Cancelled);
        }
        None => ABANDONED.set(Some(handshake)),
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
    let action = |lanes: &RefCell<Lanes>| {
        let mut lanes = lanes.try_borrow_mut().ok()?;
        lanes.leave_to_parent();
        Some(action(&mut lanes))
    };
    LANES.try_with(action).ok()?
}

#[cfg(test)]
pub(super) use tests::with_membership;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batching::execute::new_key;
    use crate::process::children::{assert_in_child, assert_in_child_without_handlers};
    use crate::rsa::batch::PrivateOperation;

    /// Looks whether the thread at hand is a member.
    pub(in crate::batching) fn with_membership<R>(look: impl FnOnce(&mut Membership) -> R) -> R {
        with(|lanes| look(&mut lanes.membership)).expect("the thread goes on")
    }

    fn parked() -> usize {
        with(|lanes| lanes.by_kind.iter().map(Waiting::len).sum()).unwrap_or(0)
    }

    #[test]
    fn children_leave_what_waits_to_their_parent() {
        let key = new_key();
        let operation = PrivateOperation { key, input: vec![1; 256].into(), is_signature: true };
        let (request, handshake) = (Arc::new(Request::new(operation)), Handshake::nobody());
        let (kind, parked_request) =
            (request.kind(), Parked { request: Arc::clone(&request), handshake });
        with(|lanes| lanes.of(kind).0.lane.submit(parked_request, now()));
        let is_left_alone = || {
            execute(Extent::Everything);
            parked() == 0 && request.answer().is_none()
        };
        assert_in_child(is_left_alone);
        assert_in_child_without_handlers(is_left_alone);
        assert_eq!(parked(), 1);
        with(|lanes| lanes.remove(|parked| Arc::ptr_eq(&parked.request, &request)));
    }
}
