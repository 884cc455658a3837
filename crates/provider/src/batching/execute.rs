//! Doing a batch: by the kernel where it pays, one by one where it does not or has failed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use widelane_batch::{Batch, Closed, Tick};
use widelane_bridge::counters::Counters;
use widelane_cpu::clock;
use widelane_crypto::rsa::{Outcome, PrivateJob};

use crate::batching::queues::Queues;
use crate::batching::request::{Answer, Request, Secret};
use crate::config::config;
use crate::counters::{add, count, count_wait};
use crate::stack;

/// The time, as queues count it.
pub(super) fn now() -> Tick {
    Tick(clock::now_ns())
}

/// Does the operations of a batch, all of one key size, and answers each.
pub(super) fn execute(queues: &Queues, counters: &Counters, requests: &[&Request]) -> Vec<Answer> {
    let begin = now();
    if !queues.costs.is_worth_a_batch(requests.len()) {
        let answers = requests.iter().map(|request| request.run_single()).collect();
        queues.costs.single(now().since(begin) / requests.len().max(1) as u64);
        add(&counters.jobs_single, requests.len());
        return answers;
    }
    // The kernel needs more stack than an ASYNC job or some threads have. What waits is not lost
    // to a panic or for want of memory.
    let run = || stack::on_large(|| run_kernel(requests));
    let Some(outcomes) = catch_unwind(AssertUnwindSafe(run)).ok().flatten().flatten() else {
        add(&counters.fallbacks, requests.len());
        return requests.iter().map(|request| request.run_single()).collect();
    };
    queues.costs.batch(now().since(begin));
    count(&counters.batches_by_fill[requests.len()]);
    count(&counters.runs_by_room[config().rsa.room() as usize]);
    requests.iter().zip(outcomes).map(|(request, done)| settle(counters, request, done)).collect()
}

/// Counts why a batch was closed.
pub(super) fn count_closed(counters: &Counters, closed: Closed) {
    match closed {
        Closed::Full => count(&counters.closed_full),
        Closed::Idle => count(&counters.closed_idle),
        Closed::Deadline => count(&counters.closed_deadline),
        Closed::Leader => count(&counters.closed_leader),
        Closed::Sparse | Closed::Shutdown => {}
    }
}

/// Counts how long the jobs of a finished batch have waited.
pub(super) fn count_waits<J>(counters: &Counters, batch: &Batch<J>) {
    batch.waits_ns(now()).for_each(|wait_ns| count_wait(counters, wait_ns));
}

fn run_kernel(requests: &[&Request]) -> Option<Vec<(Outcome, Secret)>> {
    let mut outputs: Vec<Secret> =
        requests.iter().map(|request| Secret(vec![0; request.input().len()])).collect();
    let mut jobs = requests
        .iter()
        .zip(&mut outputs)
        .map(|(request, output)| {
            Some(PrivateJob::new(request.private_key()?, request.input(), &mut output.0))
        })
        .collect::<Option<Vec<_>>>()?;
    config().rsa.private_batch(&mut jobs);
    let outcomes: Vec<Outcome> = jobs.iter().map(|job| job.outcome).collect();
    Some(outcomes.into_iter().zip(outputs).collect())
}

fn settle(counters: &Counters, request: &Request, (outcome, output): (Outcome, Secret)) -> Answer {
    match outcome {
        Outcome::Done => {
            count(&counters.jobs_batched);
            Answer::Done(output)
        }
        Outcome::FaultDetected => {
            count(&counters.faults_detected);
            request.run_single()
        }
        // The default provider says what is wrong.
        Outcome::InputOutOfRange | Outcome::Pending => Answer::Failed,
    }
}
