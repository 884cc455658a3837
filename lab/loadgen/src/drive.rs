//! Several threads of clients on one plan, followed second by second.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::client::{TICK, on_threads, thread_cpu, thread_wait, wind_down};
use crate::client_pool::ClientPool;
use crate::load::LoadError;
use crate::plan::Plan;
use crate::tally::{ErrorKind, Tally};

/// How long a plan is carried out, and by how many.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// Threads, among which connections and rates are divided.
    pub threads: usize,
    /// CPUs to which they are pinned, in turn; none to leave them to the kernel.
    pub cpus: Vec<usize>,
    /// Time under load that is not measured. What it is in is not either: a ramp that takes longer
    /// takes all of its time.
    pub warm_up: Duration,
    /// Measured time.
    pub window: Duration,
}

/// What came of carrying out a plan.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Measured time.
    pub wall: Duration,
    /// Largest part of that time for which a thread of clients ran, or waited for a CPU.
    pub busy: f64,
    /// CPU time of all threads of clients.
    pub client_cpu: Duration,
    /// Counts and latencies.
    pub tally: Tally,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
}

impl Outcome {
    /// An outcome with nothing measured yet.
    pub fn blank() -> Self {
        Outcome {
            wall: Duration::ZERO,
            busy: 0.0,
            client_cpu: Duration::ZERO,
            tally: Tally::new(),
            interrupted: false,
        }
    }

    /// An outcome of `count` failures of one kind, and nothing else.
    pub(crate) fn of_failures(kind: ErrorKind, count: u32) -> Self {
        let mut outcome = Outcome::blank();
        outcome.tally.errors.insert(kind, count.into());
        outcome
    }
}

/// A load that ended early because of an error.
pub struct GivenUp {
    /// Why.
    pub error: LoadError,
    /// What was measured until then, if any handshake was.
    pub outcome: Option<Box<Outcome>>,
}

impl fmt::Debug for GivenUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Histograms are as long as a book.
        formatter.debug_struct("GivenUp").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for GivenUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl Error for GivenUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl From<LoadError> for GivenUp {
    fn from(error: LoadError) -> Self {
        GivenUp { error, outcome: None }
    }
}

/// What a thread reports.
enum News {
    /// What was counted in a second of the window, by its index.
    Second(usize, Box<Tally>),
    /// The thread's window is over.
    Over {
        wall: Duration,
        /// CPU time of the thread.
        cpu: Duration,
        /// Time for which it waited for a CPU.
        waited: Duration,
        /// Whether it ended before its time.
        is_cut_short: bool,
    },
}

/// What threads counted in seconds that not all of them have reported yet.
struct Seconds {
    threads: usize,
    /// The index of the first one.
    next: usize,
    /// How many threads have reported, and what.
    waiting: VecDeque<(usize, Tally)>,
}

impl Seconds {
    fn new(threads: usize) -> Self {
        Seconds { threads, next: 0, waiting: VecDeque::new() }
    }

    /// Takes what one thread counted in second `index`.
    fn add(&mut self, index: usize, tally: &Tally) {
        let place = index - self.next;
        while self.waiting.len() <= place {
            self.waiting.push_back((0, Tally::new()));
        }
        self.waiting[place].0 += 1;
        self.waiting[place].1.add(tally);
    }

    /// The next second that all threads have reported; at the end, any that one has reported.
    fn take(&mut self, at_end: bool) -> Option<(usize, Tally)> {
        let (told, _) = self.waiting.front()?;
        if *told < self.threads && !at_end {
            return None;
        }
        let (_, tally) = self.waiting.pop_front()?;
        self.next += 1;
        Some((self.next - 1, tally))
    }
}

/// Carries out `plan`. `second` gets what all threads counted in each second of the window.
///
/// Once `stop` is set, the window ends there, and the outcome says so.
///
/// # Errors
///
/// See [`LoadError`]; what was measured until then comes with it.
pub fn drive(
    plan: &Plan,
    course: &Course,
    stop: &AtomicBool,
    mut second: impl FnMut(usize, &Tally),
) -> Result<Outcome, GivenUp> {
    let plans = divide(plan, course.threads);
    let threads = plans.len();
    // A thread that fails ends the others.
    let failed = AtomicBool::new(false);
    let ended = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let mut outcome = Outcome::blank();
    let mut is_cut_short = false;
    let follow = |news: Receiver<News>| {
        let mut tell = |(index, tally): (usize, Tally)| {
            second(index, &tally);
            outcome.tally.add(&tally);
        };
        let mut seconds = Seconds::new(threads);
        for news in news {
            match news {
                News::Second(index, tally) => {
                    seconds.add(index, &tally);
                    while let Some(whole) = seconds.take(false) {
                        tell(whole);
                    }
                }
                News::Over { wall, cpu, waited, is_cut_short: is_short } => {
                    outcome.wall = outcome.wall.max(wall);
                    outcome.client_cpu += cpu;
                    // A moment says nothing of a load. The kernel's clocks differ by a little.
                    if wall >= TICK {
                        let busy = (cpu + waited).as_secs_f64() / wall.as_secs_f64();
                        outcome.busy = outcome.busy.max(busy.min(1.0));
                    }
                    is_cut_short |= is_short;
                }
            }
        }
        // A window that was cut short may have ended in different seconds.
        while let Some(part) = seconds.take(true) {
            tell(part);
        }
    };
    let client = |plan: &Plan, news| carry_out(plan, course, &ended, &news);
    let ((), ends) = on_threads(&plans, &course.cpus, &failed, client, follow)?;
    outcome.interrupted = is_cut_short && stop.load(Ordering::Relaxed);
    match ends.into_iter().find_map(Result::err) {
        None => Ok(outcome),
        Some(error) => {
            let has_measured = outcome.tally.handshakes() > 0;
            Err(GivenUp { error, outcome: has_measured.then(|| Box::new(outcome)) })
        }
    }
}

/// The plan's share of each thread; fewer threads if there are fewer connections.
pub fn divide(plan: &Plan, threads: usize) -> Vec<Plan> {
    let shares = plan.pace.divide(threads).into_iter().enumerate();
    let part =
        |(index, pace)| Plan { pace, seed: plan.seed.wrapping_add(index as u64), ..plan.clone() };
    shares.map(part).collect()
}

/// One thread's share.
fn carry_out(
    plan: &Plan,
    course: &Course,
    ended: &impl Fn() -> bool,
    news: &Sender<News>,
) -> Result<(), LoadError> {
    let mut pool = ClientPool::new(plan)?;
    work_until(&mut pool, Instant::now() + course.warm_up.max(plan.pace.ramp()), ended)?;

    *pool.tally() = Tally::new();
    let began = Instant::now();
    let (cpu_before, waited_before) = (thread_cpu(), thread_wait());
    let end = began + course.window;
    let mut result = Ok(());
    let (mut wall, mut cpu, mut waited) = Default::default();
    for index in 0.. {
        let until = began + Duration::from_secs(index as u64 + 1);
        result = work_until(&mut pool, until.min(end), ended);
        let over = until >= end || result.is_err() || ended();
        if over {
            // To count what is overdue takes time as well.
            wall = began.elapsed();
            cpu = thread_cpu().saturating_sub(cpu_before);
            waited = thread_wait().saturating_sub(waited_before);
            pool.count_unfinished();
        }
        // There is no receiver any more if another thread has failed.
        let _ = news.send(News::Second(index, Box::new(std::mem::take(pool.tally()))));
        if over {
            break;
        }
    }
    let _ = news.send(News::Over { wall, cpu, waited, is_cut_short: wall < course.window });
    result?;
    wind_down(&mut pool, plan.farewell(), ended)
}

fn work_until(
    pool: &mut ClientPool,
    until: Instant,
    ended: &impl Fn() -> bool,
) -> Result<(), LoadError> {
    loop {
        let now = Instant::now();
        if now >= until || ended() {
            return Ok(());
        }
        pool.work(until.min(now + TICK))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_kept_only_until_all_threads_have_told_them() {
        let mut one = Tally::new();
        one.full = 1;
        let mut seconds = Seconds::new(2);
        for index in 0..100 {
            seconds.add(index, &one);
            assert!(seconds.take(false).is_none());
            seconds.add(index, &one);
            let (told, both) = seconds.take(false).unwrap();
            assert_eq!((told, both.full), (index, 2));
            assert!(seconds.waiting.is_empty());
        }
        seconds.add(100, &one);
        seconds.add(101, &one);
        let rest = [seconds.take(true), seconds.take(true)].map(|rest| rest.unwrap().0);
        assert_eq!(rest, [100, 101]);
        assert!(seconds.take(true).is_none());
    }
}
