//! Threads of clients: client pools, a warm-up, a window whose edges they pass together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, ScopedJoinHandle};
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

/// Time after which a thread that works looks whether the window has begun; it ends what it has in
/// hand first.
const MEANWHILE: Duration = Duration::from_millis(1);

/// Keys of ML-KEM that are made before the load of a closed loop, whose clients are to keep a
/// server busy: as many as a thread may need, some 5 KiB each; in longer loads the later ones are
/// made on the way.
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
/// connections are wound down. Until all threads are ready to begin, each keeps up its load; at the
/// end they wait. Connections in flight at an edge are counted in the window in which they end.
/// Returns early with [`LoadError::Interrupted`] once `stop` is set.
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
        let keys = threads * KEYS_AHEAD_MAX.min((seconds * KEYS_PER_SECOND) as usize);
        plan.mix.groups.iter().for_each(|group| group.make_keys_ahead(keys));
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
                let follower = Follower { arrived, gone };
                let part = take_part(plan, stint, cpu(index), stop, |work| follower.meet(work));
                // The leader does not wait for a thread that fails, and may have ended already.
                let _ = follower.arrived.send(false);
                part
            };
            followers.push(thread().spawn_scoped(scope, follow)?);
        }
        // The leader does not wait for threads that have panicked.
        drop(arrived);
        let plan = &plans[0];
        let lead = move || {
            let mut observed = Vec::new();
            // If this fails, the other threads get no signal to go on any more, and end, too.
            let leader = Leader { arrivals, goes };
            let part = take_part(plan, stint, cpu(0), stop, |work| {
                leader.meet(work, || observed.push(observe()))
            })?;
            Ok((part, observed))
        };
        let leader = join(thread().spawn_scoped(scope, lead)?);
        let followers = followers.into_iter().map(join).collect::<Vec<_>>();
        conclude(leader, followers)
    })
}

/// The work of a thread at an edge of the window until all threads are there; `None` if
/// it waits idly.
type Meanwhile<'a> = Option<&'a mut dyn FnMut() -> Result<(), LoadError>>;

/// The thread that observes at the edges of the window.
struct Leader {
    /// From each other thread at each edge: whether it takes part.
    arrivals: Receiver<bool>,
    /// To each other thread at each edge.
    goes: Vec<Sender<()>>,
}

impl Leader {
    /// Observes once all threads are there, and lets them go on.
    fn meet(&self, mut work: Meanwhile<'_>, observe: impl FnOnce()) -> Result<(), LoadError> {
        for _ in &self.goes {
            if !receive(&self.arrivals, &mut work)? {
                return Err(LoadError::Interrupted);
            }
        }
        observe();
        // A thread that has ended meanwhile returns its error when it is joined.
        for go in &self.goes {
            let _ = go.send(());
        }
        Ok(())
    }
}

/// Any other thread.
struct Follower {
    arrived: Sender<bool>,
    gone: Receiver<()>,
}

impl Follower {
    /// Returns once all threads are there and the leader has observed.
    fn meet(&self, mut work: Meanwhile<'_>) -> Result<(), LoadError> {
        self.arrived.send(true).map_err(|_| LoadError::Interrupted)?;
        receive(&self.gone, &mut work)
    }
}

/// The next message; `work` goes on until it is there.
fn receive<T>(messages: &Receiver<T>, work: &mut Meanwhile<'_>) -> Result<T, LoadError> {
    while let Some(work) = work {
        match messages.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Empty) => work()?,
            Err(TryRecvError::Disconnected) => return Err(LoadError::Interrupted),
        }
    }
    messages.recv().map_err(|_| LoadError::Interrupted)
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
    let mut window = Window { begin, end, wall, client_cpu_most: client_cpu, tally };
    for part in followers {
        let part = part?;
        window.wall = window.wall.max(part.wall);
        window.client_cpu_most = window.client_cpu_most.max(part.client_cpu);
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
    mut edge: impl FnMut(Meanwhile<'_>) -> Result<(), LoadError>,
) -> Result<Part, LoadError> {
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let mut pool = ClientPool::new(plan)?;
    pass(&mut pool, stint.warm_up, |_| false, stop)?;
    if let Pace::Closed { connections, .. } = plan.pace {
        pass(&mut pool, plan.patience, |tally| tally.handshakes() >= connections as u64, stop)?;
    }

    let tally = Tally::new();
    // Connections that stood still here would take that much longer, within the window.
    edge(Some(&mut || pass(&mut pool, MEANWHILE, |_| false, stop)))?;
    *pool.tally() = tally;
    let began = Instant::now();
    let cpu_before = thread_cpu();
    let is_enough = |tally: &Tally| tally.handshakes() >= stint.handshakes_max;
    pass(&mut pool, stint.window, is_enough, stop)?;
    while pool.tally().answers < stint.answers_min {
        pass(&mut pool, TICK, |tally| tally.answers >= stint.answers_min, stop)?;
    }
    let client_cpu = thread_cpu().saturating_sub(cpu_before);
    let wall = began.elapsed();
    pool.count_unfinished();
    edge(None)?;
    let tally = std::mem::take(pool.tally());

    wind_down(&mut pool, plan.farewell(), &|| stop.load(Ordering::Relaxed))?;
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

/// Time for which the calling thread waited for a CPU; zero where the kernel does not count it.
pub fn thread_wait() -> Duration {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = counted.split_ascii_whitespace().nth(1).and_then(|count| count.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Lets the pool work for `time`, or until it `is_enough`.
fn pass(
    pool: &mut ClientPool,
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
        if now >= end || is_enough(pool.tally()) {
            return Ok(());
        }
        pool.work(end.min(now + TICK))?;
    }
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

    #[test]
    fn what_is_done_before_the_window_begins_is_not_counted() {
        let plan = Plan {
            target: ([127, 0, 0, 1], 1).into(),
            sources: Vec::new(),
            trust: Trust::Anyone,
            mix: Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, Group::X25519, "localhost"),
            work: Work::Handshake,
            pace: Pace::Closed { connections: 1, ramp: Duration::ZERO },
            patience: Duration::ZERO,
            seed: 7,
        };
        let stint = Stint {
            cpus: Vec::new(),
            warm_up: Duration::ZERO,
            window: Duration::ZERO,
            answers_min: 0,
            handshakes_max: u64::MAX,
        };
        let mut works = Vec::new();
        let part = take_part(&plan, &stint, None, &AtomicBool::new(false), |work| {
            works.push(work.is_some());
            work.map_or(Ok(()), |work| work())
        })
        .unwrap();
        assert_eq!(works, [true, false], "a thread works on at the beginning only");
        assert_eq!(part.tally.due, 0);
    }

    #[test]
    fn threads_work_until_the_last_one_is_ready() {
        let ((arrived, arrivals), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let leader = Leader { arrivals, goes: vec![go] };
        let mut rounds = 0;
        let mut work = || {
            rounds += 1;
            if rounds == 3 {
                arrived.send(true).unwrap();
            }
            Ok(())
        };
        let mut observed = 0;
        leader.meet(Some(&mut work), || observed += 1).unwrap();
        assert_eq!((rounds, observed), (3, 1));
        assert_eq!(gone.try_recv(), Ok(()));

        let follower = Follower { arrived, gone };
        let mut rounds = 0;
        let mut work = || {
            rounds += 1;
            if rounds == 3 {
                assert_eq!(leader.arrivals.try_recv(), Ok(true));
                leader.goes[0].send(()).unwrap();
            }
            Ok(())
        };
        follower.meet(Some(&mut work)).unwrap();
        assert_eq!(rounds, 3);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_failed() {
        let ((arrived, arrivals), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let leader = Leader { arrivals, goes: vec![go] };
        arrived.send(false).unwrap();
        let met = leader.meet(None, || panic!("the window has not begun"));
        assert!(matches!(met, Err(LoadError::Interrupted)));
        drop(leader);
        let met = Follower { arrived, gone }.meet(None);
        assert!(matches!(met, Err(LoadError::Interrupted)));
    }
}
