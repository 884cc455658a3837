//! Threads of clients: pools, a warm-up, a window at whose edges the calling thread observes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::client_pool::ClientPool;
use crate::drive::divide;
use crate::load::{Load, LoadError};
use crate::plan::{Pace, Plan, Work};
use crate::tally::{Tally, Window};

/// Longest time between looks at `stop`.
pub const TICK: Duration = Duration::from_millis(20);

/// Time after which a thread looks whether the window has begun, or has one whole answer more; it
/// ends what it has in hand first.
const MOMENT: Duration = Duration::from_micros(200);

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
    /// Whole answers, of all threads together, for which they prolong the window.
    pub answers_min: u64,
    /// Handshakes after which a thread ends the load even if the window has not.
    pub handshakes_max: u64,
}

/// Makes `load` and measures one window of it, on threads of its own.
///
/// The calling thread calls `observe` at both edges of the window, after the warm-up and before the
/// connections are wound down; at the end with what it returned at the beginning. Clients keep up
/// their load until the first call has returned; at the end they wait. Connections in flight at an
/// edge are counted in the window in which they end. Returns early with [`LoadError::Interrupted`]
/// once `stop` is set.
///
/// # Errors
///
/// See [`LoadError`]. Single failed handshakes are not errors but counts in [`Tally::errors`].
pub fn run<T>(
    load: &Load,
    stop: &AtomicBool,
    observe: impl FnMut(Option<&T>) -> T,
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

/// Makes the load of any `plan` and measures one window of it, as [`run`] does.
///
/// # Errors
///
/// See [`LoadError`].
pub fn run_plan<T>(
    plan: &Plan,
    stint: &Stint,
    stop: &AtomicBool,
    mut observe: impl FnMut(Option<&T>) -> T,
) -> Result<Window<T>, LoadError> {
    let plans = divide(plan, stint.cpus.len().max(1));
    let common = Common {
        stint,
        stop,
        failed: AtomicBool::new(false),
        has_begun: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        observation: Mutex::new(()),
    };
    let observing = common.observation.lock().unwrap_or_else(PoisonError::into_inner);
    let observe_edges = |there: Receiver<()>| {
        let _until_observed = observing;
        let are_all_there = || there.iter().take(plans.len()).count() == plans.len();
        let begin = are_all_there().then(|| observe(None))?;
        common.has_begun.store(true, Ordering::Release);
        let end = are_all_there().then(|| observe(Some(&begin)))?;
        Some((begin, end))
    };
    let client = |plan: &Plan, there| common.take_part(plan, there);
    let (edges, parts) = on_threads(&plans, &stint.cpus, &common.failed, client, observe_edges)?;
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (begin, end) = edges.ok_or(LoadError::Interrupted)?;
    let nothing = Duration::ZERO;
    let mut window =
        Window { begin, end, wall: nothing, client_cpu_most: nothing, tally: Tally::new() };
    for Part { wall, client_cpu, tally } in parts {
        window.wall = window.wall.max(wall);
        window.client_cpu_most = window.client_cpu_most.max(client_cpu);
        window.tally.add(&tally);
    }
    Ok(window)
}

/// Has `client` carry out each of `plans` on a thread of its own, pinned to `cpus` in turn, while
/// the calling thread does `meanwhile` with what they send. Where one of all these fails or panics,
/// `failed` is set, and clients are to end. Of what comes of each, causes stand before mere
/// interruptions.
pub fn on_threads<N: Send, T: Send, R>(
    plans: &[Plan],
    cpus: &[usize],
    failed: &AtomicBool,
    client: impl Fn(&Plan, Sender<N>) -> Result<T, LoadError> + Sync,
    meanwhile: impl FnOnce(Receiver<N>) -> R,
) -> Result<(R, Vec<Result<T, LoadError>>), LoadError> {
    thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        let mut clients = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let cpu = cpus.get(index % cpus.len().max(1)).copied();
            let (sender, client) = (sender.clone(), &client);
            let client = move || {
                let client = || {
                    cpu.map_or(Ok(()), pin)?;
                    client(plan, sender)
                };
                let ended = catch_unwind(AssertUnwindSafe(client));
                failed.fetch_or(!matches!(ended, Ok(Ok(_))), Ordering::Relaxed);
                ended
            };
            let name = format!("loadgen-{index}");
            let thread = thread::Builder::new().name(name).spawn_scoped(scope, client);
            // The scope waits for those that have begun.
            clients.push(thread.inspect_err(|_| failed.store(true, Ordering::Relaxed))?);
        }
        drop(sender);
        let done = catch_unwind(AssertUnwindSafe(|| meanwhile(news)));
        failed.fetch_or(done.is_err(), Ordering::Relaxed);
        let join = |client: thread::ScopedJoinHandle<'_, thread::Result<_>>| {
            client.join().flatten().unwrap_or_else(|panic| resume_unwind(panic))
        };
        let mut ends: Vec<_> = clients.into_iter().map(join).collect();
        ends.sort_by_key(|end| matches!(end, Err(LoadError::Interrupted)));
        Ok((done.unwrap_or_else(|panic| resume_unwind(panic)), ends))
    })
}

/// What all threads of a window share.
struct Common<'a> {
    stint: &'a Stint,
    stop: &'a AtomicBool,
    /// A thread has failed.
    failed: AtomicBool,
    has_begun: AtomicBool,
    /// Whole answers within the window.
    answers: AtomicU64,
    /// Held until the end of the window is observed.
    observation: Mutex<()>,
}

/// One thread's part of a window.
struct Part {
    wall: Duration,
    client_cpu: Duration,
    tally: Tally,
}

impl Common<'_> {
    /// Carries out `plan`; says at both edges of the window that this thread is `there`.
    fn take_part(&self, plan: &Plan, there: Sender<()>) -> Result<Part, LoadError> {
        let stint = self.stint;
        let mut pool = ClientPool::new(plan)?;
        self.pass(&mut pool, stint.warm_up, |_| false)?;
        if let Pace::Closed { connections, .. } = plan.pace {
            self.pass(&mut pool, plan.patience, |tally| tally.handshakes() >= connections as u64)?;
        }

        let tally = Tally::new();
        // Nobody listens any more where another thread has failed.
        let _ = there.send(());
        while !self.has_begun.load(Ordering::Acquire) {
            self.pass(&mut pool, MOMENT, |_| false)?;
        }
        *pool.tally() = tally;
        let began = Instant::now();
        let cpu_before = thread_cpu();
        self.pass(&mut pool, stint.window, |tally| tally.handshakes() >= stint.handshakes_max)?;
        let mut told = 0;
        while !self.has_answers(pool.tally().answers, &mut told) {
            self.pass(&mut pool, MOMENT, |_| false)?;
        }
        let client_cpu = thread_cpu().saturating_sub(cpu_before);
        let wall = began.elapsed();
        pool.count_unfinished();
        let tally = std::mem::take(pool.tally());

        let _ = there.send(());
        drop(there);
        drop(self.observation.lock());
        wind_down(&mut pool, plan.farewell(), &|| self.is_over())?;
        Ok(Part { wall, client_cpu, tally })
    }

    /// Whether there are answers enough, this thread's of which `told` were counted before.
    fn has_answers(&self, own: u64, told: &mut u64) -> bool {
        let more = own - std::mem::replace(told, own);
        self.answers.fetch_add(more, Ordering::Relaxed) + more >= self.stint.answers_min
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Lets the pool work for `time`, or until it `is_enough`.
    fn pass(
        &self,
        pool: &mut ClientPool,
        time: Duration,
        is_enough: impl Fn(&Tally) -> bool,
    ) -> Result<(), LoadError> {
        let end = Instant::now() + time;
        loop {
            if self.is_over() {
                return Err(LoadError::Interrupted);
            }
            let now = Instant::now();
            if now >= end || is_enough(pool.tally()) {
                return Ok(());
            }
            pool.work(end.min(now + TICK))?;
        }
    }
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

/// Time for which the calling thread waited for a CPU; zero where the kernel does not count it.
pub fn thread_wait() -> Duration {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = counted.split_ascii_whitespace().nth(1).and_then(|count| count.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Lets connections end that are under way, as long as `patience` allows and `ended` does not say
/// otherwise.
pub fn wind_down(
    pool: &mut ClientPool,
    patience: Duration,
    ended: &impl Fn() -> bool,
) -> Result<(), LoadError> {
    pool.wind_down();
    let end = Instant::now() + patience;
    while !pool.is_gone() && Instant::now() < end && !ended() {
        pool.work(end.min(Instant::now() + TICK))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Mix, Trust};
    use crate::tls::{Cipher, Group, TlsVersion};

    #[test]
    fn threads_that_share_a_cpu_wait_while_others_run() {
        const SPUN: Duration = Duration::from_millis(400);
        let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpu = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
        let spin = || {
            pin(cpu).unwrap();
            let (began, ran, waited) = (Instant::now(), thread_cpu(), thread_wait());
            while began.elapsed() < SPUN {}
            let [ran, waited] = [thread_cpu() - ran, thread_wait() - waited];
            (ran.div_duration_f64(SPUN), (ran + waited).div_duration_f64(began.elapsed()))
        };
        let shares = thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(spin)).map(|thread| thread.join().unwrap())
        });
        assert!(shares.iter().any(|(ran, _)| *ran < 0.5), "{shares:?}");
        assert!(shares.iter().all(|(_, busy)| *busy > 0.9), "{shares:?}");
    }

    fn plan(pace: Pace) -> Plan {
        Plan {
            target: ([127, 0, 0, 1], 1).into(),
            sources: Vec::new(),
            trust: Trust::Anyone,
            mix: Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, Group::X25519, "localhost"),
            work: Work::Handshake,
            pace,
            patience: Duration::ZERO,
            seed: 7,
        }
    }

    fn stint(cpus: usize, window: Duration) -> Stint {
        Stint {
            cpus: (0..cpus).collect(),
            warm_up: Duration::ZERO,
            window,
            answers_min: 0,
            handshakes_max: u64::MAX,
        }
    }

    #[test]
    fn what_is_done_before_the_window_begins_is_not_counted() {
        let plan = plan(Pace::Closed { connections: 1, ramp: Duration::ZERO });
        let mut edges = 0;
        let observe = |begin: Option<&i32>| {
            edges += 1;
            assert_eq!(begin.is_some(), edges == 2);
            edges
        };
        let stop = AtomicBool::new(false);
        let window = run_plan(&plan, &stint(0, Duration::ZERO), &stop, observe).unwrap();
        assert_eq!((window.begin, window.end, window.tally.due), (1, 2, 0));
    }

    #[test]
    fn where_one_thread_panics_the_others_end() {
        let plans = [0, 1, 2].map(|seed| Plan {
            seed,
            ..plan(Pace::Closed { connections: 1, ramp: Duration::ZERO })
        });
        let failed = AtomicBool::new(false);
        let client = |plan: &Plan, there: Sender<()>| {
            assert_ne!(plan.seed, 1, "a defect");
            let _ = there.send(());
            while !failed.load(Ordering::Relaxed) {
                thread::sleep(TICK);
            }
            Err::<(), _>(LoadError::Interrupted)
        };
        let mut there = 0;
        let count = |news: Receiver<()>| there = news.iter().count();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            on_threads(&plans, &[], &failed, client, count).map(drop)
        }));
        assert!(ended.is_err(), "the panic is passed on");
        assert_eq!(there, 2);
    }

    #[test]
    fn where_the_observer_panics_the_clients_end() {
        let plan = plan(Pace::Closed { connections: 1, ramp: Duration::ZERO });
        let (stint, stop) = (stint(0, Duration::ZERO), AtomicBool::new(false));
        let observe = |_: Option<&()>| panic!("a defect");
        let run = || run_plan(&plan, &stint, &stop, observe).map(drop);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "the panic is passed on");
    }
}
