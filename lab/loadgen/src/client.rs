//! Threads of clients: crowds, a warm-up, a window whose edges they pass together.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::crowd::Crowd;
use crate::drive::divide;
use crate::load::{Load, LoadError};
use crate::plan::{Pace, Plan, Work};
use crate::tally::{Tally, Window};

/// Longest time between looks at `stop`.
pub const TICK: Duration = Duration::from_millis(20);

/// Keys of ML-KEM that are made before the load of a closed loop, whose clients are to keep a
/// server busy: as many as a thread may need, and some 5 KiB each.
const KEYS_PER_SECOND: f64 = 7_000.0;
const KEYS_AHEAD_MAX: usize = 8_192;

/// How threads carry out a plan.
#[derive(Clone, Debug)]
pub struct Stint {
    /// CPUs, on each of which there is a thread; if none are given, one anywhere.
    pub cpus: Vec<usize>,
    /// Time under load before the measured window. In a closed loop it is prolonged until there
    /// have been as many handshakes as there are connections, by the plan's patience at most:
    /// before, all clients are in the same phase, and a window would hold the cost of one phase and
    /// the count of another.
    pub warm_up: Duration,
    /// Length of the measured window.
    pub window: Duration,
    /// Whole answers for which each thread prolongs the window.
    pub answers_min: u64,
    /// Handshakes after which a thread ends the load even if the window has not.
    pub handshakes_max: u64,
}

/// Makes `load` and measures one window of it, on threads of its own.
///
/// `observe` is called on one of them at both edges of the window, after the warm-up and before the
/// connections are wound down, while the others wait. Connections in flight at an edge are counted
/// in the window in which they end. Returns early with [`LoadError::Interrupted`] once `stop` is
/// set.
///
/// # Errors
///
/// See [`LoadError`]. Single failed handshakes are not errors but counts in [`Tally::errors`].
pub fn run<T: Send>(
    load: &Load,
    stop: &AtomicBool,
    observe: impl FnMut() -> T + Send,
) -> Result<Window<T>, LoadError> {
    let stint = Stint {
        cpus: load.cpus.clone(),
        warm_up: load.warm_up,
        window: load.window,
        answers_min: u64::from(load.work != Work::Handshake),
        handshakes_max: load.handshakes_max,
    };
    run_plan(&load.plan(), &stint, stop, observe)
}

/// As [`run`], for any plan.
///
/// # Errors
///
/// See [`LoadError`].
pub fn run_plan<T: Send>(
    plan: &Plan,
    stint: &Stint,
    stop: &AtomicBool,
    mut observe: impl FnMut() -> T + Send,
) -> Result<Window<T>, LoadError> {
    let threads = stint.cpus.len().max(1);
    if let Pace::Closed { .. } = plan.pace {
        let seconds = (stint.warm_up + stint.window).as_secs_f64();
        let keys = (seconds * KEYS_PER_SECOND) as usize * threads;
        plan.mix.groups.iter().for_each(|group| group.make_keys_ahead(keys.min(KEYS_AHEAD_MAX)));
    }
    let plans = divide(plan, threads);
    let cpu = |index: usize| stint.cpus.get(index).copied();
    let thread = || thread::Builder::new().name("loadgen".to_owned());
    thread::scope(|scope| {
        let (arrived, arrivals) = mpsc::channel();
        let (mut goes, mut followers) = (Vec::new(), Vec::new());
        for (index, plan) in plans.iter().enumerate().skip(1) {
            let (arrived, (go, gone)) = (arrived.clone(), mpsc::channel());
            goes.push(go);
            let follow = move || {
                let part = take_part(plan, stint, cpu(index), stop, || {
                    let goes_on = arrived.send(true).is_ok() && gone.recv().is_ok();
                    if goes_on { Ok(()) } else { Err(LoadError::Interrupted) }
                });
                // Whoever fails is not waited for, and the leader may have ended already.
                let _ = arrived.send(false);
                part
            };
            followers.push(thread().spawn_scoped(scope, follow)?);
        }
        let plan = &plans[0];
        let lead = move || {
            let mut observed = Vec::new();
            // If this fails, nobody is told to go on any more, and the others end, too.
            let goes = goes;
            let part = take_part(plan, stint, cpu(0), stop, || {
                if !goes.iter().all(|_| arrivals.recv() == Ok(true)) {
                    return Err(LoadError::Interrupted);
                }
                observed.push(observe());
                // Whoever has ended meanwhile says why when it is joined.
                for go in &goes {
                    let _ = go.send(());
                }
                Ok(())
            })?;
            Ok((part, observed))
        };
        let leader = join(thread().spawn_scoped(scope, lead)?);
        let followers = followers.into_iter().map(join).collect::<Vec<_>>();
        conclude(leader, followers)
    })
}

/// One thread's part of a window.
struct Part {
    wall: Duration,
    client_cpu: Duration,
    tally: Tally,
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// All parts together, or the first error that is not another's consequence.
fn conclude<T>(
    leader: Result<(Part, Vec<T>), LoadError>,
    followers: Vec<Result<Part, LoadError>>,
) -> Result<Window<T>, LoadError> {
    let cause = |error: &LoadError| !matches!(error, LoadError::Interrupted);
    let (Part { wall, client_cpu, tally }, observed) = match leader {
        Ok(leader) => leader,
        Err(error) if cause(&error) => return Err(error),
        Err(error) => {
            let mut errors = followers.into_iter().filter_map(Result::err);
            return Err(errors.find(cause).unwrap_or(error));
        }
    };
    let mut edges = observed.into_iter();
    let (Some(begin), Some(end)) = (edges.next(), edges.next()) else {
        return Err(LoadError::Interrupted);
    };
    let mut window = Window { begin, end, wall, client_cpu, tally };
    for part in followers {
        let part = part?;
        window.wall = window.wall.max(part.wall);
        window.client_cpu += part.client_cpu;
        window.tally.add(&part.tally);
    }
    Ok(window)
}

/// One thread; `edge` is called at both edges of the window.
fn take_part(
    plan: &Plan,
    stint: &Stint,
    cpu: Option<usize>,
    stop: &AtomicBool,
    mut edge: impl FnMut() -> Result<(), LoadError>,
) -> Result<Part, LoadError> {
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let mut crowd = Crowd::gather(plan)?;
    pass(&mut crowd, stint.warm_up, |_| false, stop)?;
    if let Pace::Closed { connections, .. } = plan.pace {
        pass(&mut crowd, plan.patience, |tally| tally.full >= connections as u64, stop)?;
    }

    *crowd.tally() = Tally::new();
    edge()?;
    let began = Instant::now();
    let cpu_before = thread_cpu();
    let is_enough = |tally: &Tally| tally.full >= stint.handshakes_max;
    pass(&mut crowd, stint.window, is_enough, stop)?;
    while crowd.tally().answers < stint.answers_min {
        pass(&mut crowd, TICK, |tally| tally.answers >= stint.answers_min, stop)?;
    }
    let client_cpu = thread_cpu().saturating_sub(cpu_before);
    let wall = began.elapsed();
    edge()?;
    crowd.count_unfinished();
    let tally = std::mem::take(crowd.tally());

    wind_down(&mut crowd, plan.farewell(), &|| stop.load(Ordering::Relaxed))?;
    Ok(Part { wall, client_cpu, tally })
}

/// Pins the calling thread.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

/// Lets the crowd work for `time`, or until it `is_enough`.
fn pass(
    crowd: &mut Crowd,
    time: Duration,
    is_enough: impl Fn(&Tally) -> bool,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let end = Instant::now() + time;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        let now = Instant::now();
        if now >= end || is_enough(crowd.tally()) {
            return Ok(());
        }
        crowd.work(end.min(now + TICK))?;
    }
}

/// Lets connections end that are under way, as long as `patience` allows and `ended` does not say
/// otherwise.
pub fn wind_down(
    crowd: &mut Crowd,
    patience: Duration,
    ended: &impl Fn() -> bool,
) -> Result<(), LoadError> {
    crowd.wind_down();
    let end = Instant::now() + patience;
    while !crowd.is_gone() && Instant::now() < end && !ended() {
        crowd.work(end.min(Instant::now() + TICK))?;
    }
    Ok(())
}
