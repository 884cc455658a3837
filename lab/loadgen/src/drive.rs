//! Several threads of clients on one plan, followed second by second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::client::{TICK, pin, thread_cpu, wind_down};
use crate::crowd::Crowd;
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

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Measured time.
    pub wall: Duration,
    /// Largest part of that time for which a thread of clients was on a CPU.
    pub busy: f64,
    /// CPU time of all threads of clients.
    pub client_cpu: Duration,
    /// Counts and latencies.
    pub tally: Tally,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
}

impl Outcome {
    fn blank() -> Self {
        Outcome {
            wall: Duration::ZERO,
            busy: 0.0,
            client_cpu: Duration::ZERO,
            tally: Tally::new(),
            interrupted: false,
        }
    }

    /// Nothing but failures.
    pub(crate) fn of_failures(kind: ErrorKind, count: u32) -> Self {
        let mut outcome = Outcome::blank();
        outcome.tally.errors.insert(kind, count.into());
        outcome
    }
}

/// What a thread tells.
enum News {
    /// What was counted in a second of the window, by its index.
    Second(usize, Box<Tally>),
    /// The thread's window is over: its length and the thread's CPU time.
    Over(Duration, Duration),
}

/// Carries out `plan`. `second` is told what all threads counted in each second of the window.
///
/// Once `stop` is set, the window ends there, and the outcome says so.
///
/// # Errors
///
/// See [`LoadError`].
pub fn drive(
    plan: &Plan,
    course: &Course,
    stop: &AtomicBool,
    mut second: impl FnMut(usize, &Tally),
) -> Result<Outcome, LoadError> {
    let plans = divide(plan, course.threads);
    let threads = plans.len();
    // A thread that fails ends the others.
    let failed = AtomicBool::new(false);
    let ended = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        let mut clients = Vec::new();
        for (index, plan) in plans.into_iter().enumerate() {
            let cpu = course.cpus.get(index % course.cpus.len().max(1)).copied();
            let (sender, ended, failed) = (sender.clone(), &ended, &failed);
            let client = move || {
                let result = carry_out(&plan, course, cpu, ended, &sender);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            };
            let name = format!("loadgen-{index}");
            clients.push(thread::Builder::new().name(name).spawn_scoped(scope, client)?);
        }
        drop(sender);

        let mut outcome = Outcome::blank();
        let mut seconds: Vec<(usize, Tally)> = Vec::new();
        let mut told = 0;
        for news in news {
            match news {
                News::Second(index, tally) => {
                    if seconds.len() <= index {
                        seconds.resize_with(index + 1, || (0, Tally::new()));
                    }
                    seconds[index].0 += 1;
                    seconds[index].1.add(&tally);
                    while told < seconds.len() && seconds[told].0 == threads {
                        second(told, &seconds[told].1);
                        outcome.tally.add(&std::mem::take(&mut seconds[told].1));
                        told += 1;
                    }
                }
                News::Over(wall, cpu) => {
                    outcome.wall = outcome.wall.max(wall);
                    outcome.client_cpu += cpu;
                    outcome.busy = outcome.busy.max(cpu.as_secs_f64() / wall.as_secs_f64());
                }
            }
        }
        // A window that was stopped may have ended in different seconds.
        seconds.drain(..told);
        seconds.iter().for_each(|(_, tally)| outcome.tally.add(tally));
        for client in clients {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        outcome.interrupted = stop.load(Ordering::Relaxed);
        Ok(outcome)
    })
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
    cpu: Option<usize>,
    ended: &impl Fn() -> bool,
    news: &Sender<News>,
) -> Result<(), LoadError> {
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let mut crowd = Crowd::gather(plan)?;
    work_until(&mut crowd, Instant::now() + course.warm_up.max(plan.pace.ramp()), ended)?;

    *crowd.tally() = Tally::new();
    let began = Instant::now();
    let cpu_before = thread_cpu();
    let end = began + course.window;
    for index in 0.. {
        let until = began + Duration::from_secs(index as u64 + 1);
        work_until(&mut crowd, until.min(end), ended)?;
        let over = until >= end || ended();
        if over {
            crowd.count_unfinished();
        }
        // Nobody listens any more if another thread has failed.
        let _ = news.send(News::Second(index, Box::new(std::mem::take(crowd.tally()))));
        if over {
            break;
        }
    }
    let cpu = thread_cpu().saturating_sub(cpu_before);
    let _ = news.send(News::Over(began.elapsed(), cpu));
    if ended() { Ok(()) } else { wind_down(&mut crowd, plan.farewell()) }
}

fn work_until(
    crowd: &mut Crowd,
    until: Instant,
    ended: &impl Fn() -> bool,
) -> Result<(), LoadError> {
    loop {
        let now = Instant::now();
        if now >= until || ended() {
            return Ok(());
        }
        crowd.work(until.min(now + TICK))?;
    }
}
