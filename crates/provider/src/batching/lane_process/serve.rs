//! What the lane process does: it collects what workers have left, and executes it.

use std::thread;
use std::time::Duration;

use widelane_batch::{Closed, Company, Tick};
use widelane_bridge::counters::{Counters, OperationKind};

use crate::batching::combining::{Foreign, KINDS, Member};
use crate::batching::execute::{count_closed, count_short_wait, execute, now};
use crate::batching::kinds;
use crate::batching::queues::Queues;
use crate::batching::request::Request;
use crate::config::config;
use crate::process;

/// The signatures of one kind that were taken, and whether they should wait for company.
struct KindHere {
    kind: OperationKind,
    lanes: usize,
    jobs: Vec<Foreign>,
    company: Company,
}

/// Makes signatures of workers for as long as this process lives.
pub(crate) fn serve(member: Member) {
    let counters = process::current().counters();
    member.begin_serving(counters);
    let mut kinds = KINDS.map(KindHere::new);
    let mut begin = now();
    loop {
        let mut done = 0;
        for waiting in &mut kinds {
            done += waiting.turn(&member, counters);
        }
        if done > 0 {
            begin = member.has_taken_turn(begin);
            continue;
        }
        let now = now();
        let left_ns = kinds.iter().filter(|waiting| !waiting.jobs.is_empty());
        match left_ns.map(|waiting| waiting.company.left_ns(now)).min() {
            // Workers do not call meanwhile: that would cost each of them a system call.
            Some(ns) => thread::sleep(Duration::from_nanos(ns)),
            None => {
                let is_open = |kind: &OperationKind| member.open(*kind, 1) > 0;
                begin = member.sleep_until_called(|| KINDS.iter().any(is_open));
            }
        }
    }
}

/// How long a job may wait here, where its client's round-trip time is not known.
pub(super) fn limit_ns() -> u64 {
    config().wait_max.ns(|| 0)
}

impl KindHere {
    fn new(kind: OperationKind) -> Self {
        let company = Company::new(limit_ns());
        KindHere { kind, lanes: kinds::lanes(kind), jobs: Vec::new(), company }
    }

    /// Takes what workers have left, and executes that if it is not to wait; how many were.
    fn turn(&mut self, member: &Member, counters: &'static Counters) -> usize {
        let queues = process::current().queues(self.kind);
        let now = now();
        let room = self.lanes.saturating_sub(self.jobs.len());
        for job in member.claim(self.kind, room, counters) {
            self.jobs.push(job);
            let costs = || queues.costs.by_jobs();
            self.company.joined(now, self.jobs.len(), None, costs, limit_ns, || true);
        }
        if self.jobs.is_empty() {
            return 0;
        }
        if self.jobs.len() < self.lanes && self.company.left_ns(now) > 0 {
            self.company.begin(now, self.jobs.len());
            return 0;
        }
        self.execute(now, queues, counters)
    }

    fn execute(&mut self, now: Tick, queues: &Queues, counters: &Counters) -> usize {
        let jobs = std::mem::take(&mut self.jobs);
        if let Some(waited) = self.company.left(now, jobs.len()) {
            count_short_wait(counters, waited);
        }
        let full = jobs.len() >= self.lanes;
        count_closed(counters, if full { Closed::Full } else { Closed::Idle });
        let requests: Vec<&Request> = jobs.iter().map(|job| &job.request).collect();
        let answers = execute(queues, counters, &requests);
        let done = jobs.len();
        jobs.into_iter().zip(answers).for_each(|(job, answer)| job.finish(answer));
        done
    }
}
