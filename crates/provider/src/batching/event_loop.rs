//! Handshakes that the runtime drives on a server's event loop: they meet on their thread's own
//! lanes.

use std::cell::RefCell;
use std::sync::Arc;

use widelane_batch::{Batch, Lane};
use widelane_bridge::counters::OperationKind;

use crate::batching::execute::{count_closed, count_waits, execute as execute_batch, now};
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

/// One for each kind: an operation waits for those that share its batch, and not for others.
type Lanes = [Lane<Parked>; OperationKind::ALL.len()];

thread_local! {
    static LANES: RefCell<Lanes> =
        RefCell::new(OperationKind::ALL.map(|kind| Lane::new(config().lanes(kind))));
}

/// Parks the runtime's fibre until its request is done by [`execute`] or withdrawn by [`cancel`].
pub(super) fn run(request: Request, handshake: Handshake) -> Answer {
    let kind = request.kind();
    let request = Arc::new(request);
    let parked = Parked { request: Arc::clone(&request), handshake };
    if with(|lanes| lanes[kind as usize].submit(parked, now())).is_none() {
        return blocking::run_alone(&request);
    }
    for _ in 0..PAUSES_MAX {
        runtime::pause();
        if let Some(answer) = request.answer().take() {
            return answer;
        }
    }
    // Whoever runs this fibre resumes it for nothing.
    with(|lanes| lanes[kind as usize].remove(|parked| Arc::ptr_eq(&parked.request, &request)));
    blocking::run_alone(&request)
}

/// Number of parked requests of this thread.
pub(crate) fn pending() -> usize {
    with(|lanes| lanes.iter().map(Lane::len).sum()).unwrap_or(0)
}

/// Whether a whole batch is parked on this thread.
pub(crate) fn full() -> bool {
    with(|lanes| lanes.iter().any(Lane::is_full)).unwrap_or(false)
}

/// Executes what is parked on this thread: whole batches only, or everything. Answers how many were
/// finished.
pub(crate) fn execute(everything: bool) -> usize {
    let mut finished = 0;
    for kind in OperationKind::ALL {
        // The lanes are free while a batch runs: its end may bring the next request.
        while let Some(batch) = take(kind, everything) {
            finished += batch.fill();
            finish(kind, batch);
        }
    }
    finished
}

/// Withdraws the request of a handshake, if it still waits.
pub(crate) fn cancel(handshake: Handshake) {
    let is_its = |parked: &Parked| parked.handshake == handshake;
    let removed = with(|lanes| lanes.iter_mut().find_map(|lane| lane.remove(is_its))).flatten();
    if let Some(parked) = removed {
        count(&process::current().counters().jobs_cancelled);
        *parked.request.answer() = Some(Answer::Cancelled);
    }
}

fn take(kind: OperationKind, everything: bool) -> Option<Batch<Parked>> {
    with(|lanes| {
        let lane = &mut lanes[kind as usize];
        if everything { lane.flush() } else { lane.flush_full() }
    })?
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
