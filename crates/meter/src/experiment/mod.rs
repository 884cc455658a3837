//! Experiments: they make cores do things, take windows, and judge nothing.

mod crew;
pub mod duty;
pub mod map;
pub mod sibling;
pub mod speculation;
pub mod transitions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;
use widelane_cpu::clock::now_ns;
use widelane_cpu::{Machine, Topology};

use crate::chain::time_stamp;
use crate::estimate::median;
use crate::meter::{Meter, MeterError};
use crate::place::{self, NoSuchPlace};
use crate::stimulus::Stimulus;
use crate::time_stamps::is_within;
use crate::trace::{Phase, Recording, Sample, Window};

/// Follows an experiment and may end it.
pub trait Watcher: Sync {
    /// So many of so many steps are done; `false` ends the experiment early, with what it has.
    fn goes_on(&self, done: u64, steps: u64) -> bool;
}

/// Why an experiment could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// There is no meter on a CPU.
    #[error("CPU {cpu}: {why}")]
    Meter {
        /// The CPU.
        cpu: usize,
        /// Why not.
        why: MeterError,
    },
    /// The CPU cannot be used.
    #[error(transparent)]
    Place(#[from] NoSuchPlace),
    /// The kernel moved the thread while it recorded.
    #[error(
        "CPU {cpu} went off line or was taken away while it was metered, and the kernel moved the \
         thread to CPU {to}: what was recorded is of neither; run it again"
    )]
    Moved {
        /// The CPU that was to be metered.
        cpu: usize,
        /// Where the thread is now.
        to: usize,
    },
    /// What it would record is too much for memory.
    #[error("{rounds} rounds would take {gib:.0} GiB of memory; give at most {most} --rounds")]
    TooLarge {
        /// The rounds.
        rounds: usize,
        /// What they take.
        gib: f64,
        /// How many would do.
        most: usize,
    },
    /// Nothing that it wants to try exists on this machine.
    #[error("{0}")]
    NotApplicable(String),
    /// A thread of it ended by a defect of this program.
    #[error("a thread of the experiment panicked: this is a defect of Widelane; please report it")]
    Panicked,
    /// It was ended before it had anything to show.
    #[error("the experiment was ended before it had anything to show")]
    Ended,
}

/// A thread that stays on its CPU and records.
struct Bench {
    meter: Meter,
    cpu: usize,
    cores: usize,
    /// Whether what it does is kept: of many CPUs that do the same, some are enough.
    is_recorded: bool,
    samples: Vec<Sample>,
}

/// Who and when the windows taken next belong to.
#[derive(Clone, Copy)]
struct Label<'a> {
    subject: &'a Arc<str>,
    round: u32,
    phase: Phase,
}

impl Bench {
    /// Moves this thread to `cpu` and sets up the meter there.
    fn on(machine: &Machine, cpu: usize, cores: usize) -> Result<Self, ExperimentError> {
        place::stay_on(cpu)?;
        let meter = Meter::new(machine).map_err(|why| ExperimentError::Meter { cpu, why })?;
        Ok(Bench { meter, cpu, cores, is_recorded: true, samples: Vec::new() })
    }

    /// Takes `count` windows of `window_us`, one every `every_us`, with chain in between.
    fn windows(&mut self, label: Label<'_>, count: usize, window_us: f64, every_us: f64) {
        let turns = Meter::turns(window_us);
        let every = self.meter.stamps().ticks(every_us);
        // Nothing is kept before all windows are taken: memory may have to be asked for.
        let mut windows = Vec::with_capacity(count);
        for _ in 0..count {
            let window = self.meter.window(turns);
            windows.push(window);
            while is_within(window.begin, every) {
                self.meter.window(4);
            }
        }
        self.keep_all(label, &windows, self.meter.cycles(turns));
    }

    /// Runs one turn of the stimulus, then takes `count` windows of `window_us` as close as they
    /// get.
    fn single(&mut self, label: Label<'_>, stimulus: &mut Stimulus, count: usize, window_us: f64) {
        let turns = Meter::turns(window_us);
        let mut windows = Vec::with_capacity(count);
        let begin = time_stamp();
        stimulus.run(1);
        let end = time_stamp();
        windows.extend((0..count).map(|_| self.meter.window(turns)));
        self.keep(label, Window { begin, end }, stimulus.work_per_turn());
        self.keep_all(label, &windows, self.meter.cycles(turns));
    }

    /// Runs the stimulus once and records how long it took.
    fn burst(&mut self, label: Label<'_>, stimulus: &mut Stimulus, turns: u64) {
        let begin = time_stamp();
        stimulus.run(turns);
        let end = time_stamp();
        self.keep(label, Window { begin, end }, turns as f64 * stimulus.work_per_turn());
    }

    /// Runs the stimulus `count` times without a pause and records each.
    fn bursts(&mut self, label: Label<'_>, stimulus: &mut Stimulus, turns: u64, count: usize) {
        let mut windows = Vec::with_capacity(count);
        for _ in 0..count {
            let begin = time_stamp();
            stimulus.run(turns);
            windows.push(Window { begin, end: time_stamp() });
        }
        self.keep_all(label, &windows, turns as f64 * stimulus.work_per_turn());
    }

    fn keep_all(&mut self, label: Label<'_>, windows: &[Window], cycles: f64) {
        for window in windows {
            self.keep(label, *window, cycles);
        }
    }

    fn keep(&mut self, label: Label<'_>, window: Window, work: f64) {
        if !self.is_recorded {
            return;
        }
        let Label { subject, round, phase } = label;
        let (cpu, cores) = (self.cpu, self.cores);
        let (subject, Window { begin, end }) = (Arc::clone(subject), window);
        self.samples.push(Sample { subject, round, phase, cpu, cores, begin, end, work });
    }

    /// What was recorded, if all of it is of this CPU and of one clock.
    fn finish(self) -> Result<Vec<Sample>, ExperimentError> {
        let (cpu, to) = (self.cpu, place::here());
        if cpu != to {
            return Err(ExperimentError::Moved { cpu, to });
        }
        let confirmed = self.meter.stamps().confirm();
        confirmed.map_err(|fault| ExperimentError::Meter { cpu, why: fault.into() })?;
        Ok(self.samples)
    }

    /// Turns of a stimulus that take about `us` microseconds, and how long one turn takes.
    fn turns_for(&self, stimulus: &mut Stimulus, us: f64) -> (u64, f64) {
        calibrate(us, |turns| {
            let begin = time_stamp();
            stimulus.run(turns);
            self.meter.stamps().us(time_stamp().saturating_sub(begin))
        })
    }
}

/// How long a stimulus runs before it is timed: until its licence is granted, turns take longer.
const GRANTED_US: f64 = 1000.0;

/// Turns that take about `us` microseconds, and how long one turn takes, of a stimulus that `run`
/// runs and times.
fn calibrate(us: f64, mut run: impl FnMut(u64) -> f64) -> (u64, f64) {
    let mut turns = 1;
    let mut ran_us = 0.0;
    loop {
        let took_us = run(turns);
        ran_us += took_us;
        // A kernel's batch may take longer than all of it.
        if ran_us >= GRANTED_US {
            break;
        }
        if took_us < 20.0 {
            turns *= 4;
        }
    }
    // The median, since any of them may be interrupted.
    let turn_us: Vec<f64> = (0..5).map(|_| run(turns) / turns as f64).collect();
    let turn_us = median(&turn_us).unwrap_or(us);
    (((us / turn_us).round() as u64).max(1), turn_us)
}

/// What every recording says of the machine.
fn facts(machine: &Machine, bench: &Bench) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let none = || "none".to_owned();
    let meter = bench.meter;
    vec![
        fact("cpu", bench.cpu.to_string()),
        fact("tsc_hz", format!("{:.0}", meter.stamps().hz)),
        fact("tsc_step", meter.stamps().step.to_string()),
        fact("self_check", format!("{:.3}", meter.self_check().ratio)),
        fact("model", machine.model.clone()),
        fact("vendor", machine.signature.vendor.clone()),
        fact("hypervisor", machine.hypervisor.clone().unwrap_or_else(none)),
        fact("online", Topology::detect().cpus.len().to_string()),
    ]
}

/// Gives experiments an end: by the watcher, or by a budget of time.
struct Budget<'a> {
    watcher: &'a dyn Watcher,
    until_ns: u64,
    over: AtomicBool,
}

impl<'a> Budget<'a> {
    fn new(watcher: &'a dyn Watcher, seconds: f64) -> Self {
        let until_ns = now_ns().saturating_add((seconds * 1e9) as u64);
        Budget { watcher, until_ns, over: AtomicBool::new(false) }
    }

    fn goes_on(&self, done: u64, steps: u64) -> bool {
        if now_ns() > self.until_ns || !self.watcher.goes_on(done, steps) {
            self.over.store(true, Ordering::Relaxed);
        }
        !self.over.load(Ordering::Relaxed)
    }
}

/// A recording of one experiment, if it has anything to show.
fn recording(
    experiment: &str,
    facts: Vec<(String, String)>,
    samples: Vec<Sample>,
) -> Result<Recording, ExperimentError> {
    if samples.is_empty() {
        return Err(ExperimentError::Ended);
    }
    Ok(Recording { experiment: experiment.to_owned(), facts, samples })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stimulus::Subject;

    /// Does to the thread what the kernel does when its CPU goes off line.
    struct Mover(usize);

    impl Watcher for Mover {
        fn goes_on(&self, done: u64, _steps: u64) -> bool {
            if done == 1 {
                place::stay_on(self.0).unwrap();
            }
            done < 2
        }
    }

    #[test]
    fn a_cpu_that_goes_away_is_named_and_nothing_is_recorded() {
        std::thread::spawn(|| {
            let cpus = place::allowed();
            let [first, second, ..] = cpus[..] else {
                eprintln!("not run: it takes two CPUs");
                return;
            };
            place::stay_on(first).unwrap();
            let plan = speculation::Plan { rounds: 4, seconds: 60.0 };
            let error = speculation::run(plan, &Machine::detect(), &Mover(second)).unwrap_err();
            match error {
                ExperimentError::Moved { cpu, to } => assert_eq!((cpu, to), (first, second)),
                // A machine that is too busy for a meter, or has nothing to dispatch to.
                ExperimentError::Meter { why: MeterError::Busy(_), .. }
                | ExperimentError::NotApplicable(_) => eprintln!("not run: {error}"),
                _ => panic!("{error}"),
            }
        })
        .join()
        .unwrap();
    }

    /// Lets an experiment go on.
    struct Patient;

    impl Watcher for Patient {
        fn goes_on(&self, _done: u64, _steps: u64) -> bool {
            true
        }
    }

    #[test]
    fn what_has_no_limit_goes_on() {
        assert!(Budget::new(&Patient, f64::INFINITY).goes_on(0, 1));
    }

    #[test]
    fn a_cpu_that_cannot_be_metered_leaves_what_one_core_has_shown() {
        std::thread::spawn(|| {
            let cpu = place::here();
            place::stay_on(cpu).unwrap();
            let (subjects, cpus) = (vec![Subject::Scalar], vec![cpu, 1000]);
            let plan = map::Plan { subjects, rounds: 1, cpus, on_all_cores: true, seconds: 60.0 };
            match map::run(&plan, &Machine::detect(), &Patient) {
                Ok(recording) => {
                    assert!(recording.samples.iter().all(|sample| sample.cores == 1));
                    let reason = recording.fact(map::NOT_ON_ALL).unwrap_or_default();
                    assert!(reason.contains("CPU 1000"), "{reason}");
                }
                // A machine that is too busy for a meter.
                Err(error @ ExperimentError::Meter { .. }) => eprintln!("not run: {error}"),
                Err(error) => panic!("{error}"),
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn turns_are_counted_at_the_pace_that_stays() {
        // A quarter of the pace until a licence is granted after 0.2 ms; then one run is
        // interrupted.
        let (mut now_us, mut runs) = (0.0, 0);
        let run = |turns: u64| {
            let slow = now_us < 200.0;
            let took_us = turns as f64 * if slow { 0.4 } else { 0.1 };
            now_us += took_us;
            runs += usize::from(now_us >= GRANTED_US);
            if runs == 3 { took_us + 500.0 } else { took_us }
        };
        let (turns, turn_us) = calibrate(50.0, run);
        assert_eq!(turns, 500);
        assert!((turn_us - 0.1).abs() < 1e-9, "{turn_us}");
        // One turn of a batch that takes longer than all that.
        assert_eq!(calibrate(50.0, |turns| turns as f64 * 2000.0), (1, 2000.0));
    }
}
