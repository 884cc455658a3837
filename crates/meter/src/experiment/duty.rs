//! The duty experiment: what scalar code loses to heavy bursts beside it, over a grid of lengths
//! and periods.

use widelane_cpu::Machine;

use super::{Bench, Budget, ExperimentError, Label, Watcher, facts, recording};
use crate::chain::time_stamp;
use crate::place;
use crate::stimulus::Subject;
use crate::time_stamps::is_within;
use crate::trace::{Phase, Recording};

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The code in the bursts.
    pub subject: Subject,
    /// Rounds, each of which visits every cell of the grid once.
    pub rounds: u32,
    /// Time after which no further round begins, in seconds.
    pub seconds: f64,
}

/// Lengths of a burst, in microseconds.
pub const BURSTS_US: [f64; 6] = [1.0, 2.5, 5.0, 10.0, 25.0, 100.0];

/// From one burst to the next, in microseconds.
pub const PERIODS_US: [f64; 6] = [20.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// How long a cell is looked at.
const CELL_US: f64 = 4000.0;

/// The name of a cell.
pub fn cell(burst_us: f64, period_us: f64) -> String {
    format!("{burst_us} µs every {period_us} µs")
}

/// Runs the experiment on this thread's CPU.
///
/// # Errors
///
/// Where nothing can be metered, or the CPU lacks the subject.
pub fn run(
    plan: &Plan,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<Recording, ExperimentError> {
    let budget = Budget::new(watcher, plan.seconds);
    let mut bench = Bench::on(machine, place::here(), 1)?;
    let mut stimulus = plan.subject.stimulus().map_err(ExperimentError::NotApplicable)?;
    let pairs = BURSTS_US.iter().flat_map(|burst| PERIODS_US.map(|period| (*burst, period)));
    let mut cells: Vec<(f64, f64)> = pairs.filter(|(burst, period)| burst < period).collect();
    let mut random = fastrand::Rng::with_seed(0xd07);
    let steps = (cells.len() * plan.rounds as usize) as u64;
    let mut done = 0;
    'rounds: for round in 0..plan.rounds {
        random.shuffle(&mut cells);
        for &(burst_us, period_us) in &cells {
            if !budget.goes_on(done, steps) {
                break 'rounds;
            }
            done += 1;
            let name = cell(burst_us, period_us).into();
            let label = |phase| Label { subject: &name, round, phase };
            let (turns, _) = bench.turns_for(&mut stimulus, burst_us);
            bench.meter.rest(4000.0);
            bench.windows(label(Phase::Ambient), 40, 2.0, 10.0);
            // The bystander: windows one after the other until the next burst, so that they tell
            // its speed over the whole period.
            let window_us = ((period_us - burst_us) / WINDOWS).max(2.0);
            let period = bench.meter.stamps().ticks(period_us);
            for _ in 0..(CELL_US / period_us).ceil() as u64 {
                let begin = time_stamp();
                bench.burst(label(Phase::Burst), &mut stimulus, turns);
                while is_within(begin, period) {
                    bench.windows(label(Phase::During), 1, window_us, 0.0);
                }
            }
        }
    }
    let mut facts = facts(machine, &bench);
    facts.push(("subject".to_owned(), plan.subject.to_string()));
    recording("duty", facts, bench.finish()?)
}

/// Windows of the bystander in one period, where it is not too short for them.
const WINDOWS: f64 = 24.0;
