//! Whether a load proves anything: what a reader of its figures has to know first.

use std::fmt;

use crate::drive::Outcome;
use crate::plan::{Pace, Plan, Resume, Work};
use crate::tally::ErrorKind;

/// A reason not to take figures at face value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The clients were busy all the time: the figures are theirs, not the server's.
    ClientBound {
        /// Part of the time for which the busiest thread ran, or waited for a CPU.
        busy: f64,
    },
    /// Nothing was done.
    NothingDone,
    /// Connections were refused.
    Refused(u64),
    /// Other connections failed.
    Failed(u64),
    /// Sessions were resumed although the plan did not ask for it.
    ResumedUnasked(u64),
    /// Sessions were offered, but the server resumed none.
    NeverResumed,
    /// Fewer connections ended per second than should have begun.
    Behind {
        /// Rate that was ended.
        done: f64,
        /// Rate that was asked for.
        asked: f64,
    },
}

/// Part of the time from which on a thread counts as busy all of it.
pub const BUSY: f64 = 0.95;

/// Part of the connections of an open loop that has to end within the window: for each that is
/// under way at its end, one that was under way at its beginning ends, or one that was due before
/// any had ended is not counted.
const KEPT_UP: f64 = 0.96;

/// How many more connections may be under way at the end than at the beginning, by chance.
const BY_CHANCE: f64 = 3.0;

/// All reasons to doubt what `plan` gave.
pub fn doubts(plan: &Plan, outcome: &Outcome) -> Vec<Doubt> {
    let tally = &outcome.tally;
    let mut doubts = Vec::new();
    if outcome.busy >= BUSY {
        doubts.push(Doubt::ClientBound { busy: outcome.busy });
    }
    if done(plan, outcome) == 0 {
        doubts.push(Doubt::NothingDone);
    }
    let refused = tally.errors.get(&ErrorKind::Refused).copied().unwrap_or(0);
    if refused > 0 {
        doubts.push(Doubt::Refused(refused));
    }
    if tally.failures() > refused {
        doubts.push(Doubt::Failed(tally.failures() - refused));
    }
    let asked_for = plan.mix.resumption.iter().any(|resume| *resume != Resume::Never);
    if !asked_for && tally.resumed > 0 {
        doubts.push(Doubt::ResumedUnasked(tally.resumed));
    }
    if asked_for && tally.resumed == 0 && tally.full > 0 {
        doubts.push(Doubt::NeverResumed);
    }
    doubts.extend(behind(plan, outcome));
    doubts
}

/// What an open loop was behind by, if more than chance explains.
pub fn behind(plan: &Plan, outcome: &Outcome) -> Option<Doubt> {
    let Pace::Open { rate, .. } = plan.pace else { return None };
    let seconds = outcome.wall.as_secs_f64();
    // What a warm-up left over is due in the window, but was not asked for there.
    let due =
        (outcome.tally.due as f64).min(rate * seconds) - outcome.tally.due_before_any_ended as f64;
    let ended = outcome.tally.done.saturating_add(outcome.tally.failures());
    ((ended as f64) < KEPT_UP * due - BY_CHANCE)
        .then(|| Doubt::Behind { done: ended as f64 / seconds, asked: rate })
}

/// How often the work was done: handshakes, or answers.
fn done(plan: &Plan, outcome: &Outcome) -> u64 {
    match plan.work {
        Work::Handshake => outcome.tally.handshakes(),
        Work::Requests { .. } => outcome.tally.answers,
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::ClientBound { busy } => write!(
                formatter,
                "the clients were the bottleneck: a thread of theirs ran, or waited for a CPU, for \
                 {:.0} % of the time; give them more threads and CPUs, or another machine",
                100.0 * busy
            ),
            Doubt::NothingDone => formatter.write_str("nothing was done"),
            Doubt::Refused(count) => write!(formatter, "{count} connections were refused"),
            Doubt::Failed(count) => write!(formatter, "{count} connections failed"),
            Doubt::ResumedUnasked(count) => {
                write!(formatter, "{count} sessions were resumed without being asked for")
            }
            Doubt::NeverResumed => formatter.write_str(
                "no session was resumed; the server keeps none, or forgets them at once",
            ),
            Doubt::Behind { done, asked } => write!(
                formatter,
                "{done:.0} connections per second ended where {asked:.0} should have begun; the \
                 latencies are of those that ended"
            ),
        }
    }
}
