//! Handshakes that the runtime drives on a server's event loop: they meet on their thread's own
//! lanes.

use std::cell::RefCell;
use std::sync::Arc;

use widelane_batch::{Batch, Company, Lane, Tick};
use widelane_bridge::counters::OperationKind;
use widelane_bridge::hooks::Extent;

use crate::batching::execute::{
    count_closed, count_short_wait, count_waits, execute as execute_batch, now,
};
use crate::batching::request::{Answer, Request};
use crate::batching::{PAUSES_MAX, blocking};
use crate::config::config;
use crate::counters::count;
use crate::process;
use crate::runtime::{self, Handshake};

/// A request and the handshake that waits for it.
struct Parked {
    request: Arc<Request>,
    handshake: Handshake,
}

/// The requests of one kind that wait on this thread, and whether they should.
struct Waiting {
    lane: Lane<Parked>,
    company: Company,
}

/// One for each kind: an operation waits for those that share its batch, and not for others.
type Lanes = [Waiting; OperationKind::ALL.len()];

thread_local! {
    static LANES: RefCell<Lanes> = RefCell::new(OperationKind::ALL.map(Waiting::new));
}

impl Waiting {
    fn new(kind: OperationKind) -> Self {
        let company = Company::new(config().wait_max.ns());
        Waiting { lane: Lane::new(config().lanes(kind)), company }
    }

    fn add(&mut self, kind: OperationKind, parked: Parked) {
        let (now, handshake) = (now(), parked.handshake);
        self.lane.submit(parked, now);
        let waiting = self.lane.len();
        let costs = || process::current().queues(kind).costs.by_jobs();
        self.company.joined(now, waiting, costs, || runtime::may_wait(handshake));
    }

    fn is_due(&self, now: Tick) -> bool {
        !self.lane.is_empty() && self.company.left_ns(now) == 0
    }

    fn take(&mut self, what: Extent) -> Option<Batch<Parked>> {
        let is_whole_only = match what {
            Extent::Whole => true,
            Extent::Due => !self.is_due(now()),
            Extent::All => false,
        };
        let batch = if is_whole_only { self.lane.flush_full() } else { self.lane.flush() }?;
        if let Some(waited) = self.company.left(now(), batch.fill()) {
            count_short_wait(process::current().counters(), waited);
        }
        Some(batch)
    }
}

/// Parks the runtime's fibre until its request is done by [`execute`] or withdrawn by [`cancel`].
pub(super) fn run(request: Request, handshake: Handshake) -> Answer {
    let kind = request.kind();
    let request = Arc::new(request);
    let parked = Parked { request: Arc::clone(&request), handshake };
    if with(|lanes| lanes[kind as usize].add(kind, parked)).is_none() {
        return blocking::run_alone(&request);
    }
    for _ in 0..PAUSES_MAX {
        runtime::pause();
        if let Some(answer) = request.answer().take() {
            return answer;
        }
    }
    // Whoever runs this fibre resumes it for nothing.
    with(|lanes| lanes[kind as usize].lane.remove(|parked| Arc::ptr_eq(&parked.request, &request)));
    blocking::run_alone(&request)
}

/// Number of parked requests of this thread.
pub(crate) fn pending() -> usize {
    with(|lanes| lanes.iter().map(|waiting| waiting.lane.len()).sum()).unwrap_or(0)
}

/// Whether a whole batch is parked on this thread.
pub(crate) fn full() -> bool {
    with(|lanes| lanes.iter().any(|waiting| waiting.lane.is_full())).unwrap_or(false)
}

/// How long this thread should wait for company of what is parked on it before it sleeps; not at
/// all if any of it is due. `begins` says that it does now.
pub(crate) fn wait_ns(begins: bool) -> u64 {
    let wait_ns = |lanes: &mut Lanes| {
        let now = now();
        let occupied = || lanes.iter().filter(|waiting| !waiting.lane.is_empty());
        let ns = occupied().map(|waiting| waiting.company.left_ns(now)).min().unwrap_or(0);
        if begins && ns > 0 {
            for Waiting { lane, company } in lanes.iter_mut().filter(|it| !it.lane.is_empty()) {
                company.begin(now, lane.len());
            }
        }
        ns
    };
    with(wait_ns).unwrap_or(0)
}

/// Executes what is parked on this thread. Answers how many were finished.
pub(crate) fn execute(what: Extent) -> usize {
    let mut finished = 0;
    for kind in OperationKind::ALL {
        // The lanes are free while a batch runs: its end may bring the next request.
        while let Some(batch) = with(|lanes| lanes[kind as usize].take(what)).flatten() {
            finished += batch.fill();
            finish(kind, batch);
        }
    }
    finished
}

/// Withdraws the request of a handshake, if it still waits.
pub(crate) fn cancel(handshake: Handshake) {
    let is_its = |parked: &Parked| parked.handshake == handshake;
    let removed =
        with(|lanes| lanes.iter_mut().find_map(|waiting| waiting.lane.remove(is_its))).flatten();
    if let Some(parked) = removed {
        count(&process::current().counters().jobs_cancelled);
        *parked.request.answer() = Some(Answer::Cancelled);
    }
}

fn finish(kind: OperationKind, batch: Batch<Parked>) {
    let process = process::current();
    let counters = process.counters();
    count_closed(counters, batch.closed());
    let requests: Vec<&Request> = batch.entries().iter().map(|entry| &*entry.job.request).collect();
    let answers = execute_batch(process.queues(kind), counters, &requests);
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
