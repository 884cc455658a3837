//! A machine whose workers serve handshakes that arrive by themselves, event by event.
//!
//! A handshake has three parts: what is done before its private-key operation, the operation, and
//! what is done after it. A worker takes what is ready in the order in which it came. Operations
//! wait in the queue of their worker until it has nothing else to do, for as long as the budget
//! allows, or until as many wait as go at once.
//!
//! Workers that combine do as the runtime does (`docs/design/combining.md`): one that has nothing
//! else to do leaves its operations for others while it waits, and a worker that executes a batch
//! takes as many of those along as there is room for. No worker is woken to execute what others
//! have left.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A machine and its load. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Model {
    /// Workers, each on a CPU of its own.
    pub workers: usize,
    /// Handshakes that arrive at each worker in a second, independently of each other.
    pub rate: f64,
    /// CPU time of a handshake before its operation, and after it.
    pub before: u64,
    /// See `before`.
    pub after: u64,
    /// CPU time of one operation, of two at once, and so on up to all lanes.
    pub together: Vec<u64>,
    /// How long an operation waits for company at most, while company may be expected.
    pub wait: u64,
    /// Whether workers execute what others have left along with their own operations.
    pub combined: bool,
    /// How many handshakes arrive.
    pub handshakes: usize,
    /// Where the arrivals begin: the same arrivals for the same number.
    pub seed: u64,
}

/// What became of the handshakes.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// CPU time of a handshake, nanoseconds.
    pub cpu_ns: f64,
    /// Operations done at once, on average.
    pub fill: f64,
    /// From arrival to the end, nanoseconds, the shortest first.
    pub latencies: Vec<u64>,
}

impl Outcome {
    /// The latency that so large a share of the handshakes does not exceed.
    pub fn latency(&self, share: f64) -> u64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
    }
}

impl Model {
    /// Lets all handshakes arrive and end.
    pub fn run(&self) -> Outcome {
        Run::new(self).finish()
    }
}

/// A handshake: when it arrived, and whose it is.
#[derive(Clone, Copy)]
struct Handshake {
    arrived: u64,
    owner: usize,
}

/// What a worker does at a time.
enum Work {
    Before(Handshake),
    Operations(Vec<Handshake>),
    After(Handshake),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize),
    Done(usize),
    BudgetOver(usize),
}

#[derive(Default)]
struct Worker {
    ready: VecDeque<Work>,
    doing: Option<Work>,
    random: fastrand::Rng,
}

/// Operations of one worker that wait, with the time since when.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Handshake)>,
    /// How many of them, the oldest, are left for other workers.
    left: usize,
}

impl Queue {
    /// Takes out the oldest.
    fn take(&mut self, count: usize, taken: &mut Vec<Handshake>) {
        taken.extend(self.waiting.drain(..count).map(|(_, handshake)| handshake));
        self.left = self.left.saturating_sub(count);
    }
}

/// How often operations come, to one worker or to all that combine.
#[derive(Default)]
struct Pace {
    last: u64,
    /// The time from one operation to the next, averaged over the last ones.
    gap: f64,
}

/// Weight of the last gap in the average.
const GAP_WEIGHT: f64 = 0.1;

impl Pace {
    fn arrived(&mut self, now: u64) {
        self.gap += GAP_WEIGHT * ((now - self.last) as f64 - self.gap);
        self.last = now;
    }

    /// How long an operation waits for company; 0 if none is likely to come.
    fn wait(&self, most: u64) -> u64 {
        if self.gap <= most as f64 { most } else { 0 }
    }
}

struct Run<'a> {
    model: &'a Model,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events_seen: u64,
    workers: Vec<Worker>,
    /// One for each worker.
    queues: Vec<Queue>,
    /// One for each worker, or for all that combine.
    paces: Vec<Pace>,
    arrivals_left: usize,
    cpu: u64,
    batches: u64,
    operations: u64,
    latencies: Vec<u64>,
}

impl<'a> Run<'a> {
    fn new(model: &'a Model) -> Self {
        let worker = |index: usize| Worker {
            random: fastrand::Rng::with_seed(model.seed.wrapping_add(index as u64)),
            ..Worker::default()
        };
        let paces = if model.combined { 1 } else { model.workers };
        let mut run = Run {
            model,
            now: 0,
            events: BinaryHeap::new(),
            events_seen: 0,
            workers: (0..model.workers).map(worker).collect(),
            queues: (0..model.workers).map(|_| Queue::default()).collect(),
            paces: (0..paces).map(|_| Pace::default()).collect(),
            arrivals_left: model.handshakes,
            cpu: 0,
            batches: 0,
            operations: 0,
            latencies: Vec::with_capacity(model.handshakes),
        };
        for index in 0..model.workers {
            run.expect_arrival(index);
        }
        run
    }

    fn finish(mut self) -> Outcome {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Arrival(index) => self.arrive(index),
                Event::Done(index) => self.done(index),
                Event::BudgetOver(index) => self.go_on(index),
            }
        }
        self.latencies.sort_unstable();
        Outcome {
            cpu_ns: self.cpu as f64 / self.latencies.len().max(1) as f64,
            fill: self.operations as f64 / self.batches.max(1) as f64,
            latencies: self.latencies,
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events_seen += 1;
        self.events.push(Reverse((at, self.events_seen, event)));
    }

    fn expect_arrival(&mut self, index: usize) {
        if self.arrivals_left > 0 {
            self.arrivals_left -= 1;
            let seconds = -(1.0 - self.workers[index].random.f64()).ln() / self.model.rate;
            self.schedule(self.now + (seconds * 1e9).round() as u64, Event::Arrival(index));
        }
    }

    fn arrive(&mut self, index: usize) {
        self.expect_arrival(index);
        let handshake = Handshake { arrived: self.now, owner: index };
        self.workers[index].ready.push_back(Work::Before(handshake));
        self.go_on(index);
    }

    /// What a worker did is done.
    fn done(&mut self, index: usize) {
        match self.workers[index].doing.take() {
            Some(Work::Before(handshake)) => {
                let pace = self.pace_of(index);
                self.paces[pace].arrived(self.now);
                self.queues[index].waiting.push_back((self.now, handshake));
            }
            Some(Work::Operations(handshakes)) => {
                for handshake in handshakes {
                    self.finish_operation(handshake, index);
                }
            }
            Some(Work::After(handshake)) => self.latencies.push(self.now - handshake.arrived),
            None => {}
        }
        self.go_on(index);
    }

    /// A handshake goes on at its owner; one without a last part ends with its operation.
    fn finish_operation(&mut self, handshake: Handshake, executor: usize) {
        if self.model.after == 0 {
            self.latencies.push(self.now - handshake.arrived);
            return;
        }
        self.workers[handshake.owner].ready.push_back(Work::After(handshake));
        if handshake.owner != executor {
            self.go_on(handshake.owner);
        }
    }

    fn pace_of(&self, index: usize) -> usize {
        if self.model.combined { 0 } else { index }
    }

    /// How many operations other workers have left for the next that executes a batch.
    fn left_by_others(&self, index: usize) -> usize {
        let others = self.queues.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, queue)| queue.left).sum()
    }

    /// Has a worker take what is next, if it is free.
    fn go_on(&mut self, index: usize) {
        if self.workers[index].doing.is_some() {
            return;
        }
        let lanes = self.model.together.len();
        let wait = self.paces[self.pace_of(index)].wait(self.model.wait);
        let queue = &self.queues[index];
        let own = queue.waiting.len();
        let due = queue.waiting.front().map(|(since, _)| since + wait);
        let is_idle = self.workers[index].ready.is_empty();
        let is_whole = own > 0 && own + self.left_by_others(index) >= lanes;
        if is_whole || (is_idle && due.is_some_and(|due| due <= self.now)) {
            self.execute(index);
            return;
        }
        match self.workers[index].ready.pop_front() {
            Some(work @ Work::After(_)) => self.begin(index, work, self.model.after),
            Some(work) => self.begin(index, work, self.model.before),
            None => {
                if let Some(due) = due {
                    if self.model.combined {
                        self.queues[index].left = own;
                    }
                    self.schedule(due, Event::BudgetOver(index));
                }
            }
        }
    }

    /// A worker executes its operations, and with them as many of those that others have left as
    /// there is room for.
    fn execute(&mut self, index: usize) {
        let lanes = self.model.together.len();
        let mut taken = Vec::new();
        let own = self.queues[index].waiting.len().min(lanes);
        self.queues[index].take(own, &mut taken);
        // Only those who combine leave any.
        let others = if self.model.combined { self.queues.len() } else { 1 };
        for step in 1..others {
            let other = (index + step) % self.queues.len();
            let queue = &mut self.queues[other];
            queue.take(queue.left.min(lanes - taken.len()), &mut taken);
        }
        self.batches += 1;
        self.operations += taken.len() as u64;
        let cpu = self.model.together[taken.len() - 1];
        self.begin(index, Work::Operations(taken), cpu);
    }

    fn begin(&mut self, index: usize, work: Work, cpu: u64) {
        self.cpu += cpu;
        let before = self.workers[index].doing.replace(work);
        debug_assert!(before.is_none(), "a worker does one thing at a time");
        self.schedule(self.now + cpu, Event::Done(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One worker with nothing to do but single operations of 100 µs, busy for a share of its time.
    fn queue(share: f64) -> Model {
        Model {
            workers: 1,
            rate: share / 100e-6,
            before: 0,
            after: 0,
            together: vec![100_000],
            wait: 0,
            combined: false,
            handshakes: 400_000,
            seed: 1,
        }
    }

    fn mean(outcome: &Outcome) -> f64 {
        outcome.latencies.iter().sum::<u64>() as f64 / outcome.latencies.len() as f64
    }

    #[test]
    fn without_batches_the_wait_is_that_of_a_queue_with_one_server() {
        for share in [0.2, 0.5, 0.8] {
            let outcome = queue(share).run();
            // Pollaczek and Khinchine, for service that takes always the same time.
            let expected = 100_000.0 * (1.0 + share / (2.0 * (1.0 - share)));
            let error = mean(&outcome) / expected - 1.0;
            assert!(error.abs() < 0.02, "{share}: {error}");
            assert_eq!((outcome.cpu_ns, outcome.fill), (100_000.0, 1.0));
        }
    }

    #[test]
    fn parts_of_a_handshake_add_up() {
        let parts = Model { before: 30_000, after: 20_000, rate: 1.0, ..queue(0.5) };
        let outcome = Model { handshakes: 100, ..parts }.run();
        assert_eq!(outcome.latency(0.5), 150_000);
        assert_eq!(outcome.cpu_ns, 150_000.0);
    }

    #[test]
    fn a_saturated_worker_fills_its_lanes() {
        let together = vec![100_000, 110_000, 120_000, 130_000];
        let outcome = Model { together, before: 10_000, after: 5_000, ..queue(20.0) }.run();
        assert!(outcome.fill > 3.99, "{}", outcome.fill);
        assert!((outcome.cpu_ns - 15_000.0 - 130_000.0 / 4.0).abs() < 50.0, "{}", outcome.cpu_ns);
    }

    #[test]
    fn an_operation_waits_for_company_that_is_likely_and_no_longer() {
        let together = vec![100_000, 100_000];
        let lonely = Model { wait: 500_000, together: together.clone(), ..queue(0.001) };
        let outcome = Model { handshakes: 2_000, ..lonely }.run();
        assert_eq!(outcome.latency(0.5), 100_000, "an idle server does not wait");
        // One comes 200 µs after the other, on average: most meet within half a millisecond.
        let busy = Model { wait: 500_000, together, rate: 5e3, ..queue(0.1) };
        let outcome = busy.run();
        assert!(outcome.fill > 1.8, "{}", outcome.fill);
        assert!(outcome.latency(0.99) < 800_000, "{}", outcome.latency(0.99));
        let hasty = Model { wait: 0, ..busy }.run();
        assert!(hasty.fill < 1.6 && hasty.latency(0.5) < outcome.latency(0.5), "{}", hasty.fill);
    }

    #[test]
    fn workers_that_combine_meet_more_often() {
        let together = vec![200_000, 210_000, 220_000, 230_000];
        let apart = Model { workers: 4, wait: 600_000, together, before: 50_000, ..queue(0.2) };
        let combined = Model { combined: true, ..apart.clone() };
        let (apart, combined) = (apart.run(), combined.run());
        assert!(combined.fill > 1.2 * apart.fill, "{} {}", combined.fill, apart.fill);
        assert!(combined.cpu_ns < apart.cpu_ns);
    }

    #[test]
    fn without_a_wait_nothing_is_left_for_other_workers() {
        let together = vec![200_000, 210_000, 220_000, 230_000];
        let apart = Model { workers: 4, together, before: 50_000, after: 30_000, ..queue(0.6) };
        let combined = Model { combined: true, ..apart.clone() };
        assert_eq!(combined.run(), apart.run());
    }

    /// A run in which `waiting` operations of each worker wait from the beginning, and none
    /// arrives.
    fn run<'a>(model: &'a Model, waiting: &[usize]) -> Run<'a> {
        let mut run = Run::new(model);
        let handshake = |owner| Handshake { arrived: 0, owner };
        for (owner, count) in waiting.iter().enumerate() {
            run.queues[owner].waiting.extend((0..*count).map(|_| (0, handshake(owner))));
        }
        run
    }

    #[test]
    fn a_worker_takes_along_what_others_have_left_and_only_that() {
        let together = vec![200_000, 210_000, 220_000, 230_000];
        let idle = Model { handshakes: 0, wait: 500_000, together, ..queue(0.1) };
        let model = Model { workers: 3, combined: true, ..idle };
        let mut run = run(&model, &[1, 1, 1]);
        // Worker 1 has something else to do, so that its operation is its own affair.
        run.workers[1].ready.push_back(Work::After(Handshake { arrived: 0, owner: 1 }));
        (0..3).for_each(|worker| run.go_on(worker));
        let left: Vec<usize> = run.queues.iter().map(|queue| queue.left).collect();
        assert_eq!((left.as_slice(), run.batches), (&[1, 0, 1][..], 0));
        // Worker 0's budget ends: it takes worker 2's along, and nobody else was woken for it.
        run.now = 500_000;
        run.go_on(0);
        assert_eq!((run.batches, run.operations), (1, 2));
        assert_eq!(run.queues.iter().map(|queue| queue.waiting.len()).sum::<usize>(), 1);
    }

    #[test]
    fn who_gets_the_last_lane_executes_at_once() {
        let together = vec![200_000, 210_000, 220_000];
        let idle = Model { handshakes: 0, wait: 500_000, together, ..queue(0.1) };
        let model = Model { workers: 3, combined: true, ..idle };
        let mut run = run(&model, &[1, 1, 0]);
        [0, 1].into_iter().for_each(|worker| run.go_on(worker));
        assert_eq!(run.batches, 0);
        run.workers[2].doing = Some(Work::Before(Handshake { arrived: 0, owner: 2 }));
        run.done(2);
        assert_eq!((run.batches, run.operations), (1, 3));
    }

    #[test]
    fn the_seed_decides_all() {
        let short = Model { handshakes: 10_000, ..queue(0.7) };
        let outcome = short.run();
        assert_eq!(short.run(), outcome);
        assert_ne!(Model { seed: 2, ..short }.run(), outcome);
    }
}
