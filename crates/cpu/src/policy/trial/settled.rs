//! Between comparisons: whether load and clock are still those that policies were compared at.

use std::collections::VecDeque;

use super::comparison::Comparison;
use super::{Cause, Slice, median};

/// A policy holds, until there is reason to compare again.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    /// CPU time that the last comparison has cost and that is not yet made up for.
    debt_ns: f64,
    /// The comparison that was interrupted for want of work, and goes on when there is some.
    interrupted: Option<Comparison>,
    wall_ns: f64,
    /// The first slices after the comparison.
    then: Vec<Slice>,
    /// The last ones.
    now: VecDeque<Slice>,
}

impl Settled {
    /// After a comparison that cost so much CPU time.
    pub(super) fn after(excess_ns: f64) -> Self {
        Settled {
            debt_ns: excess_ns,
            interrupted: None,
            wall_ns: 0.0,
            then: Vec::new(),
            now: VecDeque::new(),
        }
    }

    /// While a comparison lacks work. It is the same one that goes on afterwards: begun anew with
    /// every burst of work, comparisons would take the CPU time of all bursts that are shorter.
    pub(super) fn amid(comparison: Comparison) -> Self {
        Settled { interrupted: Some(comparison), ..Settled::after(0.0) }
    }

    /// The comparison that is to go on because there is work again, if one was interrupted.
    pub(super) fn resume(&mut self, slice: &Slice) -> Option<Comparison> {
        self.interrupted.take_if(|_| slice.counts())
    }

    /// Adds a slice; returns why policies are to be compared again, if they are.
    pub(super) fn take(&mut self, slice: Slice) -> Option<Cause> {
        self.wall_ns += slice.wall_ns;
        if !slice.counts() {
            return None;
        }
        self.debt_ns -= slice.cpu_ns * COMPARING_SHARE;
        if self.then.len() < SLICES_THEN {
            self.then.push(slice);
            return None;
        }
        self.now.push_back(slice);
        if self.now.len() > SLICES_NOW {
            self.now.pop_front();
        }
        let cause = self.change().or((self.wall_ns >= COMPARED_FOR_NS).then_some(Cause::Time));
        cause.filter(|_| self.debt_ns <= 0.0 && self.now.len() == SLICES_NOW)
    }

    /// What is no longer as it was right after the comparison.
    fn change(&self) -> Option<Cause> {
        let is_other = |of: fn(&Slice) -> f64, by: f64| {
            let (then, now) = (median(self.then.iter().map(of)), median(self.now.iter().map(of)));
            then > 0.0 && now > 0.0 && !(1.0 / by..=by).contains(&(now / then))
        };
        let load = is_other(|slice| slice.work_ns / slice.wall_ns, OTHER_LOAD)
            || is_other(Slice::cost, OTHER_COST);
        let clock = || is_other(|slice| slice.clock_mhz.unwrap_or(0.0), OTHER_CLOCK);
        if load { Some(Cause::Load) } else { clock().then_some(Cause::Clock) }
    }
}

/// The part of the CPU time that comparisons may cost.
const COMPARING_SHARE: f64 = 0.01;

/// How long a comparison is good for if nothing changes.
const COMPARED_FOR_NS: f64 = 300e9;

/// Slices by whose median a load is known, right after a comparison and later.
const SLICES_THEN: usize = 5;
const SLICES_NOW: usize = 3;

/// What counts as another load, as another cost of it, and as another clock.
const OTHER_LOAD: f64 = 1.5;
const OTHER_COST: f64 = 1.15;
const OTHER_CLOCK: f64 = 1.03;
