//! Which of the policies that a process may choose from holds now, and when another one does.
//!
//! The rules are [`Trial`]'s; here is what it needs: the time, CPU time, work and clock of the
//! process in slices of time. Code that executes operations or counts records calls [`tick`], which
//! mostly costs one look at the clock. What is executed or begun next obeys the
//! policy that holds then: no request waits for a change, and none is lost by it.

mod reading;
mod work;

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use widelane_bridge::counters::{ALTERNATIVES_MAX, ChoiceCounters};
use widelane_cpu::policy::trial::{Figures, Slice, Trial};
use widelane_cpu::{Policy, Room, clock, policy};
use widelane_reserve::uncancelled;

use self::reading::Reading;
use crate::batching::kernel::{Placed, places};
use crate::config::{Alternative, config};
use crate::counters::count;
use crate::process::{self, Process};
use crate::switch;

/// What chooses among the policies of [`config`], for all threads of a process.
pub(crate) struct Chooser {
    trial: Trial,
    /// How it was at the beginning of the slice; nothing shortly after a change.
    begin: Option<Reading>,
}

/// The place of the policy that holds now.
pub(crate) fn chosen() -> usize {
    CURRENT.load(Ordering::Relaxed)
}

/// Whether the policy that holds now leaves a room open, and the process is not switched off.
pub(crate) fn is_open(room: Room) -> bool {
    if switch::is_off() {
        return false;
    }
    let place = if is_lane_process() { None } else { Some(chosen()) };
    alternative(place).has(room)
}

/// Whether any policy that this process may choose leaves a room open: then the widest one does.
pub(crate) fn may_open(room: Room) -> bool {
    let place = if is_lane_process() { None } else { Some(0) };
    alternative(place).has(room)
}

/// The policy that has a place among those to choose from, or that of the lane process.
fn alternative(place: Option<usize>) -> &'static Alternative {
    let config = config();
    place.map_or(&config.lane_process, |place| &config.alternatives[place])
}

/// This process is the lane process: it does not choose, and has a policy of its own.
pub(crate) fn begin_lane_process() {
    IS_LANE_PROCESS.store(true, Ordering::Relaxed);
    switch::begin_lane_process();
}

fn is_lane_process() -> bool {
    IS_LANE_PROCESS.load(Ordering::Relaxed)
}

/// What follows from each policy that the process may choose.
pub(crate) struct ByPolicy<T>(Vec<T>);

impl<T> ByPolicy<T> {
    pub(crate) fn new(of: impl Fn(&Policy) -> T) -> Self {
        ByPolicy(policies().map(of).collect())
    }

    /// What follows from the policy that holds now.
    pub(crate) fn now(&self) -> &T {
        &self.0[chosen()]
    }

    /// What follows from each policy, the widest first.
    pub(crate) fn all(&self) -> &[T] {
        &self.0
    }
}

/// The kernels of all policies, those with the fewest lanes first. Of kernels in the same room that
/// of the narrowest policy is taken, which has nothing wider beside it, such as its hash function.
pub(crate) fn merged<K: Placed>(kernels: impl Fn(&Policy) -> Vec<K>) -> Vec<K> {
    merged_of(policies(), kernels)
}

/// The kernels of all policies that this process may choose, and of that of its lane process,
/// picked and sorted as by [`merged`].
pub(crate) fn merged_with_lane_process<K: Placed>(kernels: impl Fn(&Policy) -> Vec<K>) -> Vec<K> {
    merged_of(iter::once(&config().lane_process.policy).chain(policies()), kernels)
}

fn merged_of<K: Placed>(
    policies: impl DoubleEndedIterator<Item = &'static Policy>,
    kernels: impl Fn(&Policy) -> Vec<K>,
) -> Vec<K> {
    let mut all: Vec<K> = Vec::new();
    for policy in policies.rev() {
        let known = places(&all);
        all.extend(kernels(policy).into_iter().filter(|kernel| !known.contains(&kernel.place())));
    }
    all.sort_by_key(|kernel| kernel.place().0);
    all
}

fn policies() -> impl DoubleEndedIterator<Item = &'static Policy> {
    config().alternatives.iter().map(|alternative| &alternative.policy)
}

/// Something was executed or counted. Ends the slice if it is over.
pub(crate) fn tick() {
    let now_ns = clock::now_ns();
    if now_ns < NEXT_NS.load(Ordering::Relaxed) {
        return;
    }
    if config().alternatives.len() == 1 {
        NEXT_NS.store(u64::MAX, Ordering::Relaxed);
        return;
    }
    let process = process::current();
    // Error: another thread is at it.
    if let Ok(mut chooser) = process.chooser.try_lock() {
        // It reads files.
        let left_ns = uncancelled(|| chooser.turn(process));
        NEXT_NS.store(now_ns + left_ns, Ordering::Relaxed);
    }
}

/// In a child: it begins anew.
pub(crate) fn after_fork() {
    NEXT_NS.store(0, Ordering::Relaxed);
    CURRENT.store(0, Ordering::Relaxed);
}

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static NEXT_NS: AtomicU64 = AtomicU64::new(0);
static IS_LANE_PROCESS: AtomicBool = AtomicBool::new(false);

impl Chooser {
    pub(crate) fn new() -> Self {
        Chooser { trial: Trial::new(config().alternatives.len()), begin: None }
    }

    /// Goes on; returns how long there is nothing to do.
    fn turn(&mut self, process: &Process) -> u64 {
        if switch::is_off() {
            // Nothing is done that could be compared.
            self.begin = None;
            return SLICE_MAX_NS as u64;
        }
        // A process for one connection has none of its own, and ends before anything is compared.
        let Some(pages) = process.own_pages() else { return COMPARED_SLICE_NS };
        let by_device = |kind| process.queues(kind).by_device.load(Ordering::Relaxed);
        let now = Reading::take(work::done_ns(pages, by_device), self.trial.is_comparing());
        let Some(begin) = &self.begin else {
            self.begin = Some(now);
            publish(&self.trial, &pages.first().choice);
            return self.slice_ns();
        };
        let slice = begin.until(&now);
        let is_over = slice.cpu_ns >= SLICE_CPU_NS || slice.wall_ns >= SLICE_MAX_NS;
        if !is_over {
            return ASK_AGAIN_NS;
        }
        let clock_mhz = begin.clock_mhz(&now);
        self.trial.take(Slice { clock_mhz, ..slice });
        self.begin = None;
        let is_changed = self.trial.current() != chosen();
        if is_changed {
            CURRENT.store(self.trial.current(), Ordering::Relaxed);
            count(&pages.first().choice.switches);
        }
        publish(&self.trial, &pages.first().choice);
        if is_changed { SETTLING_NS } else { 0 }
    }

    fn slice_ns(&self) -> u64 {
        if self.trial.is_comparing() { COMPARED_SLICE_NS } else { SETTLED_SLICE_NS }
    }
}

/// Writes down what was chosen, and why.
fn publish(trial: &Trial, counters: &ChoiceCounters) {
    let put = |counter: &AtomicU32, value: usize| {
        counter.store(u32::try_from(value).unwrap_or(u32::MAX), Ordering::Relaxed);
    };
    put(&counters.alternatives, config().alternatives.len());
    put(&counters.current, trial.current());
    put(&counters.is_comparing, trial.is_comparing().into());
    put(&counters.cause, trial.cause() as usize);
    put(&counters.verdict, trial.verdict() as usize);
    put(&counters.comparisons, trial.comparisons().try_into().unwrap_or(usize::MAX));
    let alternatives = config().alternatives.iter().zip(trial.figures());
    for ((alternative, figures), each) in alternatives.zip(&counters.each) {
        let Figures { slices, relative_cost, clock_mhz } = *figures;
        each.rooms.store(alternative.rooms, Ordering::Relaxed);
        put(&each.slices, slices);
        put(&each.relative_cost, (relative_cost * 1_000.0).round() as usize);
        put(&each.clock_mhz, clock_mhz.round() as usize);
    }
}

const _: () = assert!(ALTERNATIVES_MAX == policy::ALTERNATIVES_MAX);

/// How long a slice is at least, while policies are compared and while one holds.
const COMPARED_SLICE_NS: u64 = 100_000_000;
const SETTLED_SLICE_NS: u64 = 500_000_000;

/// It goes on until so much CPU time was used, …
const SLICE_CPU_NS: f64 = 10e6;

/// … or it is so long.
const SLICE_MAX_NS: f64 = 1e9;

/// How soon a slice is looked at again that was too short.
const ASK_AGAIN_NS: u64 = 10_000_000;

/// After a change nothing is measured for so long: the clock follows what ran before for some 2 ms.
const SETTLING_NS: u64 = 5_000_000;
