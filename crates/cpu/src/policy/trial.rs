//! Chooses among policies while a process runs: compares what they cost in slices of time, keeps
//! the cheapest, and compares again when load or clock change.
//!
//! Nothing here reads a clock or a counter. The caller does: it passes one [`Slice`] after the
//! other to [`Trial::take`], and applies [`Trial::current`] in the next one.
//! `docs/design/auto-policy.md` has the rules.

mod comparison;
mod settled;
#[cfg(test)]
mod tests;

use self::comparison::Comparison;
use self::settled::Settled;

/// What a process did and spent in one slice of time under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// How long it was.
    pub wall_ns: f64,
    /// CPU time of the process.
    pub cpu_ns: f64,
    /// What it got done: the CPU time that fixed prices say it takes.
    pub work_ns: f64,
    /// CPU time that others had on its CPU, as far as is known.
    pub others_ns: f64,
    /// The core clock, if it could be metered.
    pub clock_mhz: Option<f64>,
}

/// Why policies were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// They had not been before.
    #[default]
    Start = 0,
    /// The load, or what it costs, was another one than before.
    Load = 1,
    /// The clock was.
    Clock = 2,
    /// The last time was long ago.
    Time = 3,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 4] = [Self::Start, Self::Load, Self::Clock, Self::Time];
}

/// Why a policy was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// Nothing has been compared yet.
    #[default]
    None = 0,
    /// All others cost more.
    Cheapest = 1,
    /// None was found to cost less.
    Alike = 2,
    /// There was too little to do to tell.
    Idle = 3,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 4] = [Self::None, Self::Cheapest, Self::Alike, Self::Idle];
}

/// What is known of a policy from the last comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Slices in which it held.
    pub slices: usize,
    /// Its cost over that of the cheapest; 0 without slices.
    pub relative_cost: f64,
    /// The clock; 0 where none was metered.
    pub clock_mhz: f64,
}

/// A choice among policies, known by their places in a list; the first one holds at the beginning.
#[derive(Clone, Debug)]
pub struct Trial {
    policies: usize,
    chosen: usize,
    stage: Stage,
    cause: Cause,
    verdict: Verdict,
    figures: Vec<Figures>,
    comparisons: u64,
}

#[derive(Clone, Debug)]
enum Stage {
    Comparing(Comparison),
    Settled(Settled),
}

impl Trial {
    /// A choice among this many policies, which are compared first.
    pub fn new(policies: usize) -> Self {
        Trial {
            policies,
            chosen: 0,
            stage: Stage::Comparing(Comparison::new(policies)),
            cause: Cause::Start,
            verdict: Verdict::None,
            figures: vec![Figures::default(); policies],
            comparisons: 0,
        }
    }

    /// The policy that is to hold in the next slice.
    pub fn current(&self) -> usize {
        match &self.stage {
            Stage::Comparing(comparison) => comparison.current(),
            Stage::Settled(_) => self.chosen,
        }
    }

    /// Whether policies are being compared.
    pub fn is_comparing(&self) -> bool {
        matches!(self.stage, Stage::Comparing(_))
    }

    /// Why they are or were compared.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Why the policy was chosen that holds between comparisons.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// How many comparisons have ended.
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// What the last comparison found of each policy.
    pub fn figures(&self) -> &[Figures] {
        &self.figures
    }

    /// A slice is over, in which [`current`](Self::current) held.
    pub fn take(&mut self, slice: Slice) {
        match &mut self.stage {
            Stage::Comparing(comparison) => {
                if let Some(verdict) = comparison.take(slice, self.chosen) {
                    self.settle(verdict);
                }
            }
            Stage::Settled(settled) => {
                if let Some(comparison) = settled.resume(&slice) {
                    self.stage = Stage::Comparing(comparison);
                } else if let Some(cause) = settled.take(slice) {
                    self.cause = cause;
                    self.stage = Stage::Comparing(Comparison::new(self.policies));
                }
            }
        }
    }

    /// Keeps what a comparison has found, or the comparison itself if it lacks work.
    fn settle(&mut self, (chosen, verdict): (usize, Verdict)) {
        let Stage::Comparing(comparison) = &self.stage else { return };
        (self.chosen, self.verdict) = (chosen, verdict);
        let settled = if verdict == Verdict::Idle {
            Settled::amid(comparison.clone())
        } else {
            self.figures = comparison.figures();
            self.comparisons += 1;
            Settled::after(comparison.excess_ns())
        };
        self.stage = Stage::Settled(settled);
    }
}

impl Slice {
    /// CPU time per work, without what others lose.
    fn cost(&self) -> f64 {
        self.cpu_ns / self.work_ns
    }

    /// Whether there was enough to do to tell anything.
    fn counts(&self) -> bool {
        self.work_ns >= WORK_MIN_NS && self.cpu_ns >= CPU_MIN_NS
    }
}

/// Slices with less work, or less CPU time, tell nothing.
const WORK_MIN_NS: f64 = 3e6;
const CPU_MIN_NS: f64 = 2e6;

/// The middle one of some values; 0 of none.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}
