//! The transitions experiment: scalar code, then a heavy loop, then scalar code again, at
//! microsecond resolution and many times over.

use widelane_cpu::Machine;

use super::{Bench, Budget, ExperimentError, Label, Watcher, facts, recording};
use crate::place;
use crate::stimulus::Subject;
use crate::trace::{Phase, Recording};

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The heavy code; the control is tried beside it.
    pub subject: Subject,
    /// How many times each.
    pub trials: u32,
    /// Time after which no further trial begins, in seconds.
    pub seconds: f64,
}

/// How long the heavy loop runs in a trial, at its final pace: grants were seen to take 0.2 ms.
const HEAVY_US: f64 = 800.0;

/// Resolution of the heavy part.
const SLICE_US: f64 = 2.0;

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
    if plan.subject == Subject::Scalar {
        return Err(ExperimentError::NotApplicable(
            "scalar code is the control, and has no transition; name another subject".to_owned(),
        ));
    }
    let budget = Budget::new(watcher, plan.seconds);
    let mut bench = Bench::on(machine, place::here(), 1)?;
    let mut stimuli = Vec::new();
    for subject in [Subject::Scalar, plan.subject] {
        let mut stimulus = subject.stimulus().map_err(ExperimentError::NotApplicable)?;
        let (turns, turn_us) = bench.turns_for(&mut stimulus, SLICE_US);
        stimuli.push((subject.to_string().into(), stimulus, turns, turns as f64 * turn_us));
    }
    let steps = u64::from(plan.trials);
    for round in 0..plan.trials {
        if !budget.goes_on(u64::from(round), steps) {
            break;
        }
        for (name, stimulus, turns, slice_us) in &mut stimuli {
            let label = |phase| Label { subject: name, round, phase };
            bench.meter.rest(3000.0);
            bench.windows(label(Phase::Ambient), 30, 1.0, 0.0);
            let slices = (HEAVY_US / *slice_us).ceil() as usize;
            bench.bursts(label(Phase::Burst), stimulus, *turns, slices);
            bench.windows(label(Phase::During), 100, 1.0, 0.0);
            bench.windows(label(Phase::After), 60, 2.0, 80.0);
        }
    }
    let facts = facts(machine, &bench);
    recording("transitions", facts, bench.finish()?)
}
