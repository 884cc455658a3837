//! One thread of clients: a crowd, a warm-up, a window.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::crowd::Crowd;
use crate::load::{Load, LoadError};
use crate::plan::Plan;
use crate::tally::{Tally, Window};

/// Longest time between looks at `stop`.
pub const TICK: Duration = Duration::from_millis(20);

/// How one thread carries out a plan.
#[derive(Clone, Copy, Debug)]
pub struct Stint {
    /// CPU to which the thread is pinned.
    pub cpu: Option<usize>,
    /// Time under load before the measured window.
    pub warm_up: Duration,
    /// Handshakes before the measured window, for which the warm-up is prolonged by the plan's
    /// patience at most.
    pub handshakes_min: u64,
    /// Length of the measured window.
    pub window: Duration,
    /// Handshakes after which the load ends even if the window has not.
    pub handshakes_max: u64,
}

/// Makes `load` and measures one window of it, on a thread of its own.
///
/// `observe` is called on that thread at both edges of the window, after the warm-up and before the
/// connections are wound down. Connections in flight at an edge are counted in the window in which
/// they end. Returns early with [`LoadError::Interrupted`] once `stop` is set.
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
        cpu: load.cpu,
        warm_up: load.warm_up,
        // Every connection, on average, has to have been through one handshake. Before, the whole
        // crowd is in the same phase, and a window would hold the cost of one phase and the count
        // of another.
        handshakes_min: load.connections as u64,
        window: load.window,
        handshakes_max: load.handshakes_max,
    };
    run_plan(&load.plan(), stint, stop, observe)
}

/// As [`run`], for any plan.
///
/// # Errors
///
/// See [`LoadError`].
pub fn run_plan<T: Send>(
    plan: &Plan,
    stint: Stint,
    stop: &AtomicBool,
    observe: impl FnMut() -> T + Send,
) -> Result<Window<T>, LoadError> {
    thread::scope(|scope| {
        let client = thread::Builder::new()
            .name("loadgen".to_owned())
            .spawn_scoped(scope, || run_here(plan, stint, stop, observe))?;
        client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here<T>(
    plan: &Plan,
    stint: Stint,
    stop: &AtomicBool,
    mut observe: impl FnMut() -> T,
) -> Result<Window<T>, LoadError> {
    if let Some(cpu) = stint.cpu {
        pin(cpu)?;
    }
    let mut crowd = Crowd::gather(plan)?;
    pass(&mut crowd, stint.warm_up, u64::MAX, stop)?;
    pass(&mut crowd, plan.patience, stint.handshakes_min, stop)?;

    *crowd.tally() = Tally::new();
    let begin = observe();
    let began = Instant::now();
    let cpu_before = thread_cpu();
    pass(&mut crowd, stint.window, stint.handshakes_max, stop)?;
    let client_cpu = thread_cpu().saturating_sub(cpu_before);
    let wall = began.elapsed();
    let end = observe();
    crowd.count_unfinished();
    let tally = std::mem::take(crowd.tally());

    wind_down(&mut crowd, plan.patience)?;
    Ok(Window { begin, end, wall, client_cpu, tally })
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

/// Lets the crowd work for `time`, or until it has done `handshakes_max` handshakes.
fn pass(
    crowd: &mut Crowd,
    time: Duration,
    handshakes_max: u64,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let end = Instant::now() + time;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        let now = Instant::now();
        if now >= end || crowd.tally().full >= handshakes_max {
            return Ok(());
        }
        crowd.work(end.min(now + TICK))?;
    }
}

/// Lets connections end that are under way, as long as `patience` allows.
pub fn wind_down(crowd: &mut Crowd, patience: Duration) -> Result<(), LoadError> {
    crowd.wind_down();
    let end = Instant::now() + patience;
    while !crowd.is_gone() && Instant::now() < end {
        crowd.work(end.min(Instant::now() + TICK))?;
    }
    Ok(())
}
