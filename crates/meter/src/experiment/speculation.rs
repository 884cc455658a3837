//! The speculation experiment: dispatch by branch, whose wide side the predictor may enter
//! speculatively although it is never taken, against dispatch by pointer.

use widelane_cpu::Machine;

use super::{Bench, Budget, ExperimentError, Label, Watcher, facts, recording};
use crate::place;
use crate::stimulus::{Dispatch, Stimulus};
use crate::trace::{Phase, Recording};

/// What to try.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds, each with every kind of dispatch.
    pub rounds: u32,
    /// Time after which no further round begins, in seconds.
    pub seconds: f64,
}

/// Runs the experiment on this thread's CPU. The wide side is never taken, in either form.
///
/// # Errors
///
/// Where nothing can be metered, or the CPU has no 512-bit registers.
pub fn run(
    plan: Plan,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<Recording, ExperimentError> {
    let budget = Budget::new(watcher, plan.seconds);
    let mut bench = Bench::on(machine, place::here(), 1)?;
    let ready = |dispatch: Dispatch| -> Result<_, ExperimentError> {
        let stimulus = Stimulus::dispatch(dispatch).map_err(ExperimentError::NotApplicable)?;
        Ok((dispatch.name().into(), stimulus))
    };
    let mut forms = Dispatch::ALL.into_iter().map(ready).collect::<Result<Vec<_>, _>>()?;
    let mut random = fastrand::Rng::with_seed(0xb7a);
    for round in 0..plan.rounds {
        if !budget.goes_on(u64::from(round), u64::from(plan.rounds)) {
            break;
        }
        random.shuffle(&mut forms);
        for (name, stimulus) in &mut forms {
            let label = |phase| Label { subject: name, round, phase };
            bench.meter.rest(4000.0);
            bench.windows(label(Phase::Ambient), 40, 2.0, 10.0);
            for _ in 0..PASSES {
                bench.burst(label(Phase::Burst), stimulus, 1);
                bench.windows(label(Phase::During), 2, 2.0, 0.0);
            }
            bench.windows(label(Phase::After), 60, 2.0, 100.0);
        }
    }
    let facts = facts(machine, &bench);
    recording("speculation", facts, bench.finish()?)
}

/// Passes over all sites in a round.
const PASSES: u32 = 20;
