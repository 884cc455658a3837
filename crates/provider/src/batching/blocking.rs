//! Threads that can only wait: those that arrive while every CPU is at such work join the next
//! batch.

use widelane_batch::Batch;

use crate::batching::engine;
use crate::batching::execute::{count_closed, count_waits, execute, execute_alone, now};
use crate::batching::request::{Answer, Request};
use crate::process;

/// Does the request; alone and at once, unless more threads do so than there are CPUs and a batch
/// is worth the sleep of those that join it.
pub(super) fn run(request: Request) -> Answer {
    let process = process::current();
    let queues = process.queues(request.kind());
    if let Some(answer) = engine::run_blocking(&request) {
        return answer;
    }
    if !queues.costs.repay_a_sleep() {
        return execute_alone(queues, process.counters(), &request);
    }
    let lead = |batch: &mut Batch<Request>| {
        let counters = process.counters();
        if let [alone] = batch.entries() {
            let answer = execute_alone(queues, counters, &alone.job);
            *alone.job.answer() = Some(answer);
            return;
        }
        count_closed(counters, batch.closed());
        let requests: Vec<&Request> = batch.entries().iter().map(|entry| &entry.job).collect();
        let answers = execute(queues, counters, &requests);
        for (request, answer) in requests.into_iter().zip(answers) {
            *request.answer() = Some(answer);
        }
        count_waits(counters, batch);
    };
    queues.crew.run(request, now(), lead).answer().take().unwrap_or(Answer::Failed)
}

/// Does the request at once.
pub(super) fn run_alone(request: &Request) -> Answer {
    let process = process::current();
    execute_alone(process.queues(request.kind()), process.counters(), request)
}
