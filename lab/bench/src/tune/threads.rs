//! The threads: one on each CPU, all of which do the same work at the same time.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use widelane_cpu::{Machine, Policy};
use widelane_meter::chain::time_stamp;
use widelane_meter::estimate::mean;
use widelane_meter::meter::Meter;
use widelane_meter::place;
use widelane_meter::time_stamps::is_within;

use super::TuneError;
use super::apart::{Role, together};
use super::material::{Material, Task};
use super::workload::Workload;
use crate::accounting::thread_cpu;

/// Scalar code before a slice, so that the core forgets what was before, microseconds.
const REST_US: f64 = 4000.0;

/// Windows of the ambient clock, and how long one is, microseconds.
const AMBIENT: (usize, f64) = (150, 2.0);

/// Work before a slice that does not count, microseconds: caches fill, the clock settles.
const WARM_UP_US: f64 = 6000.0;

/// One window of the clock amid the work every so often, microseconds.
const WINDOW_EVERY_US: f64 = 300.0;

/// How long such a window is, microseconds.
const WINDOW_US: f64 = 2.0;

/// A slice ends when its CPU time is used, or after this many times as long.
const PATIENCE: f64 = 4.0;

/// How long one operation is timed, microseconds.
const COST_US: f64 = 20_000.0;

/// What all threads are to do.
#[derive(Clone)]
struct Order {
    policy: Policy,
    costs_us: Vec<f64>,
    slice: Duration,
}

/// What one thread got done.
struct Share {
    role: Role,
    work_us: f64,
    cpu_us: f64,
    wall_us: f64,
    clock_mhz: Option<f64>,
    ambient_mhz: Option<f64>,
}

/// What all threads got done.
pub(super) struct Done {
    /// Work done in a second of CPU time, in seconds by the costs given, where all CPUs do the
    /// same; with lane CPUs in a second of each CPU.
    pub throughput: f64,
    /// Share of the CPUs that the work could have.
    pub cpu_share: f64,
    /// The clock amid the work.
    pub clock_mhz: Option<f64>,
    /// The clock of scalar code just before.
    pub ambient_mhz: Option<f64>,
}

/// The threads, each waiting on its CPU for orders. They end when it is dropped.
pub(super) struct Threads<'scope> {
    orders: Vec<Sender<Order>>,
    shares: Receiver<Result<Share, TuneError>>,
    /// The share of signatures in the work.
    lent: f64,
    _threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Threads<'scope> {
    /// Sends a thread to each of `cpus`, where it makes keys and inputs of its own.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        cpus: &[usize],
        machine: &'env Machine,
        workload: &'env Workload,
        lent: f64,
    ) -> Self {
        let (share_of, shares) = channel();
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for &cpu in cpus {
            let (order, orders_here) = channel();
            let share_of = share_of.clone();
            orders.push(order);
            threads.push(scope.spawn(move || {
                or_tell(&share_of, || serve(cpu, machine, workload, &orders_here, &share_of));
            }));
        }
        Threads { orders, shares, lent, _threads: threads }
    }

    /// Has all threads work for a slice under `policy`.
    pub fn work(
        &self,
        policy: &Policy,
        costs_us: &[f64],
        slice: Duration,
    ) -> Result<Done, TuneError> {
        let order = Order { policy: policy.clone(), costs_us: costs_us.to_vec(), slice };
        for thread in &self.orders {
            // A thread that is gone has left the reason among the shares.
            drop(thread.send(order.clone()));
        }
        let share = |_| self.shares.recv().unwrap_or(Err(TuneError::Undone));
        let shares: Vec<Share> = (0..self.orders.len()).map(share).collect::<Result<_, _>>()?;
        let sum = |part: fn(&Share) -> f64| shares.iter().map(part).sum::<f64>();
        let mean = |part: fn(&Share) -> Option<f64>| {
            mean_of_most(&shares.iter().map(part).collect::<Vec<_>>())
        };
        let (cpu_us, wall_us) = (sum(|share| share.cpu_us), sum(|share| share.wall_us));
        let rate = |share: &Share| (share.role, share.work_us / share.cpu_us.max(1.0));
        let is_divided = shares.iter().any(|share| share.role != Role::Everything);
        Ok(Done {
            throughput: match is_divided {
                true => together(&shares.iter().map(rate).collect::<Vec<_>>(), self.lent),
                false => sum(|share| share.work_us) / cpu_us.max(1.0),
            },
            cpu_share: cpu_us / wall_us.max(1.0),
            clock_mhz: mean(|share| share.clock_mhz),
            ambient_mhz: mean(|share| share.ambient_mhz),
        })
    }
}

/// The mean of those CPUs that told their clock, if at least half of them did: on a machine of many
/// some reading is always refused.
fn mean_of_most(clocks: &[Option<f64>]) -> Option<f64> {
    let told: Vec<f64> = clocks.iter().copied().flatten().collect();
    (!told.is_empty() && told.len() * 2 >= clocks.len()).then(|| mean(&told))
}

/// Does `work`, and sends the error that ended it; also where it panics, since other threads keep
/// the channel open and their receiver would wait for ever.
fn or_tell(
    share_of: &Sender<Result<Share, TuneError>>,
    work: impl FnOnce() -> Result<(), TuneError>,
) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(TuneError::Undone));
    if let Err(error) = outcome {
        // Refused only if the receiver does not wait for it any more.
        drop(share_of.send(Err(error)));
    }
}

/// Carries out orders on `cpu` until there are no more.
fn serve(
    cpu: usize,
    machine: &Machine,
    workload: &Workload,
    orders: &Receiver<Order>,
    shares: &Sender<Result<Share, TuneError>>,
) -> Result<(), TuneError> {
    place::stay_on(cpu)?;
    let meter = Meter::new(machine)?;
    let materials: Vec<Material> =
        workload.work.iter().map(Material::of).collect::<Result<_, _>>()?;
    // Tasks are made once for each policy: tables are filled and pages touched only then.
    let mut known: Vec<(Policy, Vec<Option<Task<'_>>>)> = Vec::new();
    for order in orders {
        let place = known.iter().position(|(policy, _)| *policy == order.policy);
        let place = match place {
            Some(place) => place,
            None => {
                let role = Role::of(cpu, &order.policy);
                known.push((order.policy.clone(), parts(&materials, &order.policy, role)?));
                known.len() - 1
            }
        };
        let role = Role::of(cpu, &order.policy);
        let share = Share { role, ..slice(&meter, workload, &order, &mut known[place].1)? };
        if place::here() != cpu {
            return Err(TuneError::Moved { cpu });
        }
        if shares.send(Ok(share)).is_err() {
            break;
        }
    }
    Ok(())
}

fn parts<'a>(
    materials: &'a [Material],
    policy: &Policy,
    role: Role,
) -> Result<Vec<Option<Task<'a>>>, TuneError> {
    materials.iter().map(|material| material.part(policy, role)).collect()
}

/// Microseconds of CPU time of one operation of each kind of work under `policy`, on this thread.
pub(super) fn costs_us(materials: &[Material], policy: &Policy) -> Result<Vec<f64>, TuneError> {
    let cost = |task: &mut Task<'_>| {
        task()?;
        let (began, mut done) = (thread_cpu_us(), 0);
        loop {
            done += task()?;
            let used = thread_cpu_us() - began;
            if used >= COST_US {
                return Ok(used / done as f64);
            }
        }
    };
    materials.iter().map(|material| cost(&mut material.task(policy)?)).collect()
}

/// Rests, takes the ambient clock, then works for a slice.
fn slice(
    meter: &Meter,
    workload: &Workload,
    order: &Order,
    tasks: &mut [Option<Task<'_>>],
) -> Result<Share, TuneError> {
    meter.rest(REST_US);
    let (count, window_us) = AMBIENT;
    let mhz = |hz: f64| hz / 1e6;
    let ambient_mhz = meter.read(count, window_us).ok().map(|found| mhz(found.hz));
    let ticks = |us: f64| meter.stamps().ticks(us);
    let mut queue = Queue::new(workload, &order.costs_us, tasks);
    let began = time_stamp();
    while is_within(began, ticks(WARM_UP_US)) {
        queue.next(tasks)?;
    }
    queue.done_us = 0.0;
    let turns = Meter::turns(WINDOW_US);
    let slice_us = order.slice.as_secs_f64() * 1e6;
    let mut windows = Vec::with_capacity((slice_us / WINDOW_EVERY_US) as usize + 1);
    let (began, cpu_us) = (time_stamp(), thread_cpu_us());
    let (mut now, mut metered) = (began, began);
    while now.wrapping_sub(began) < ticks(PATIENCE * slice_us) {
        queue.next(tasks)?;
        now = time_stamp();
        if now.wrapping_sub(metered) >= ticks(WINDOW_EVERY_US) {
            metered = now;
            windows.push(meter.window(turns));
            if thread_cpu_us() - cpu_us >= slice_us {
                break;
            }
        }
    }
    Ok(Share {
        role: Role::Everything,
        work_us: queue.done_us,
        cpu_us: thread_cpu_us() - cpu_us,
        wall_us: meter.stamps().us(time_stamp().saturating_sub(began)),
        clock_mhz: meter.estimate(&windows, turns).ok().map(|found| mhz(found.hz)),
        ambient_mhz,
    })
}

/// Whose turn it is: the work that is furthest behind its share. The order depends on costs that
/// are the same for all policies, so that all of them do the same.
struct Queue<'a> {
    workload: &'a Workload,
    costs_us: &'a [f64],
    /// Work done of each kind, by its share.
    progress: Vec<f64>,
    done_us: f64,
}

impl<'a> Queue<'a> {
    fn new(workload: &'a Workload, costs_us: &'a [f64], tasks: &[Option<Task<'_>>]) -> Self {
        let progress = |task: &Option<Task<'_>>| if task.is_some() { 0.0 } else { f64::INFINITY };
        let progress = tasks.iter().map(progress).collect();
        Queue { workload, costs_us, progress, done_us: 0.0 }
    }

    /// Does what is due.
    fn next(&mut self, tasks: &mut [Option<Task<'_>>]) -> Result<(), TuneError> {
        let behind = self.progress.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((due, _)) = behind else { return Err(TuneError::Undone) };
        let Some(task) = &mut tasks[due] else { return Err(TuneError::Undone) };
        let (work, mut done) = (&self.workload.work[due], 0);
        while done < u64::from(work.in_a_row) {
            done += task()?;
        }
        let done_us = done as f64 * self.costs_us[due];
        self.progress[due] += done_us / work.share;
        self.done_us += done_us;
        Ok(())
    }
}

/// CPU time of this thread, microseconds.
fn thread_cpu_us() -> f64 {
    thread_cpu().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_thread_that_panics_is_not_waited_for() {
        // Another thread, which holds its end.
        let (share_of, shares) = channel();
        let own = share_of.clone();
        std::thread::spawn(move || or_tell(&own, || panic!("a defect"))).join().unwrap();
        let share = shares.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(share, Err(TuneError::Undone)));
        drop(share_of);
    }

    #[test]
    fn a_refused_reading_of_one_cpu_does_not_cost_the_round() {
        let mut clocks = vec![Some(2500.0); 128];
        clocks[77] = None;
        assert_eq!(mean_of_most(&clocks), Some(2500.0));
        assert_eq!(mean_of_most(&[Some(2000.0), Some(3000.0)]), Some(2500.0));
        assert_eq!(mean_of_most(&[None, None, Some(2500.0)]), None);
        assert_eq!(mean_of_most(&[]), None);
    }

    #[test]
    fn work_is_done_by_its_shares_whatever_it_costs() {
        let text = "name = \"w\"\n[[work]]\nwhat = \"application\"\nshare = 0.75\n\
                    [[work]]\nwhat = \"packets\"\nshare = 0.25\nin_a_row = 4\n";
        let workload = Workload::parse(text).unwrap();
        let done = RefCell::new([0_u64; 2]);
        let task = |kind: usize| -> Option<Task<'_>> {
            let done = &done;
            Some(Box::new(move || {
                done.borrow_mut()[kind] += 1;
                Ok(1)
            }))
        };
        let mut tasks = vec![task(0), task(1)];
        let mut queue = Queue::new(&workload, &[30.0, 2.0], &tasks);
        while queue.done_us < 100_000.0 {
            queue.next(&mut tasks).unwrap();
        }
        let [application, packets] = *done.borrow();
        assert_eq!(packets % 4, 0);
        assert!((application as f64 * 30.0 / queue.done_us - 0.75).abs() < 0.001);
        assert!((packets as f64 * 2.0 / queue.done_us - 0.25).abs() < 0.001);
        let mut one = vec![None, task(1)];
        let mut queue = Queue::new(&workload, &[30.0, 2.0], &one);
        for _ in 0..10 {
            queue.next(&mut one).unwrap();
        }
        assert_eq!(
            *done.borrow(),
            [application, packets + 40],
            "the part that there is a task for"
        );
    }
}
