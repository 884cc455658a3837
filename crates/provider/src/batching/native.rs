//! ASYNC jobs of programs that drive them by themselves: they meet across the process.
#![allow(unsafe_code, reason = "calls libcrypto and the scheduler")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use widelane_batch::{Batch, Due, Submitted};
use widelane_ossl_sys::core::AsyncJob;

use crate::batching::execute::{count_closed, count_waits, execute, now};
use crate::batching::notify::Signal;
use crate::batching::owner::Owner;
use crate::batching::queues::Queues;
use crate::batching::request::{Answer, Request};
use crate::batching::signals::Mask;
use crate::batching::{PAUSES_MAX, blocking, pause};
use crate::counters::add;
use crate::process::{self, Process};

/// A request and how to tell its owner that it is done.
pub(crate) struct AsyncJobWaiting {
    request: Arc<Request>,
    signal: Signal,
    owner: Option<Owner>,
}

/// Parks the ASYNC job until its request is done, or does it, with all that wait, if it fills the
/// lanes.
pub(super) fn run(request: Request, job: NonNull<AsyncJob>) -> Answer {
    let process = process::current();
    let Some(signal) = Signal::of(request.libcrypto(), job) else { return blocking::run(request) };
    let queues = process.queues(request.kind());
    let request = Arc::new(request);
    let waiting = AsyncJobWaiting {
        request: Arc::clone(&request),
        signal: signal.clone(),
        owner: Owner::calling_thread(),
    };
    match queues.shared.submit(waiting, now()) {
        Submitted::Ready(batch) => {
            finish(process, queues, batch, Some(&request));
            return request.answer().take().unwrap_or(Answer::Failed);
        }
        // Without a helper no other thread closes the batch.
        Submitted::Open(_) if !queues.ensure_helper() => {
            if let Due::Ready(batch) = queues.shared.poll(now()) {
                finish(process, queues, batch, Some(&request));
                if let Some(answer) = request.answer().take() {
                    return answer;
                }
            }
        }
        Submitted::Open(_) => {}
    }
    let pauses = if signal.prepare(request.libcrypto(), job, &request) { PAUSES_MAX } else { 0 };
    for _ in 0..pauses {
        let paused = pause(request.libcrypto());
        // In a child the request is still there, but its helper is not, which may have held the
        // lock of the answer when the process was forked.
        if !process::is_current(process) {
            break;
        }
        if let Some(answer) = request.answer().take() {
            signal.acknowledge();
            return answer;
        }
        if !paused {
            break;
        }
    }
    // The program does not let this job pause, or resumes it too often to gain from waiting.
    request.withdraw();
    blocking::run_alone(&request)
}

/// Starts the thread that closes partial batches; nothing if the system has no thread left.
pub(super) fn spawn_helper(queues: &'static Queues) -> Option<JoinHandle<()>> {
    if !process::may_make_threads() {
        return None;
    }
    let process = process::current();
    // The program's signals are for the program's threads.
    let mask = Mask::block_all();
    let helper = thread::Builder::new().name("widelane".into()).spawn(move || {
        yield_to_others();
        while let Some(batch) = queues.shared.wait_due(now, AsyncJobWaiting::may_bring_more) {
            finish(process, queues, batch, None);
        }
    });
    mask.restore();
    helper.ok()
}

/// Has the calling thread wake up without interrupting another one (`SCHED_BATCH`, sched(7)).
///
/// A thread that still works may bring more jobs, and the helper would only let it. Where the
/// system does not allow it, the helper is scheduled like any other thread.
fn yield_to_others() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: concerns the calling thread only, and the parameters are read.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) };
}

/// Executes a batch and notifies the owners of all its requests but `own`.
fn finish(
    process: &'static Process,
    queues: &Queues,
    batch: Batch<AsyncJobWaiting>,
    own: Option<&Arc<Request>>,
) {
    let counters = process.counters();
    count_closed(counters, batch.closed());
    let (wanted, abandoned): (Vec<&AsyncJobWaiting>, Vec<&AsyncJobWaiting>) =
        batch.entries().iter().map(|entry| &entry.job).partition(|waiting| waiting.is_wanted());
    add(&counters.jobs_cancelled, abandoned.len());
    let requests: Vec<&Request> = wanted.iter().map(|waiting| &*waiting.request).collect();
    let answers = execute(queues, counters, &requests);
    count_waits(counters, &batch);
    for (waiting, answer) in wanted.into_iter().zip(answers) {
        if own.is_some_and(|own| Arc::ptr_eq(own, &waiting.request)) {
            *waiting.request.answer() = Some(answer);
        } else {
            waiting.signal.deliver(&waiting.request, answer);
        }
    }
}

impl AsyncJobWaiting {
    fn is_wanted(&self) -> bool {
        self.request.is_wanted() && self.signal.is_wanted()
    }

    /// Whether the thread that brought it is still at work.
    fn may_bring_more(&self) -> bool {
        self.owner.as_ref().is_some_and(Owner::is_at_work)
    }
}
