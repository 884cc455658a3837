//! One comparison: rounds in which every policy that is left has a slice.

use super::{Figures, Slice, Verdict, median};

/// Policies that take turns until all but one have proved to cost more.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// The slices of each policy, one for each round that it took part in.
    slices: Vec<Vec<Slice>>,
    /// The policies that may still be the cheapest.
    left: Vec<usize>,
    /// Those whose turn is still to come in this round, the next one last.
    to_come: Vec<usize>,
    rounds: usize,
    /// Slices in a row in which there was nothing to do.
    idle: usize,
}

impl Comparison {
    pub(super) fn new(policies: usize) -> Self {
        let left: Vec<usize> = (0..policies).collect();
        let to_come = left.iter().rev().copied().collect();
        Comparison { slices: vec![Vec::new(); policies], left, to_come, rounds: 0, idle: 0 }
    }

    /// Whose turn it is.
    pub(super) fn current(&self) -> usize {
        self.to_come.last().copied().unwrap_or(0)
    }

    /// Adds a slice; returns what is chosen, and why, if that ends the comparison. `before` is what
    /// was chosen until now.
    pub(super) fn take(&mut self, slice: Slice, before: usize) -> Option<(usize, Verdict)> {
        if !slice.counts() {
            self.idle += 1;
            if self.idle < IDLE_MAX {
                return None;
            }
            self.idle = 0;
            return Some((before, Verdict::Idle));
        }
        self.idle = 0;
        let current = self.to_come.pop()?;
        self.slices[current].push(slice);
        if !self.to_come.is_empty() {
            return None;
        }
        self.rounds += 1;
        let best = self.best();
        let is_left = |policy: &usize| *policy == best || !self.is_dearer(*policy, best);
        self.left = self.left.iter().copied().filter(is_left).collect();
        // Forward and backward by turns, so that drift favours no policy.
        self.to_come = self.left.clone();
        if self.rounds.is_multiple_of(2) {
            self.to_come.reverse();
        }
        if self.left.len() == 1 {
            return Some((best, Verdict::Cheapest));
        }
        let keeps = self.left.contains(&before)
            && self.cost(before) <= self.cost(best) * (1.0 + WORTH_A_CHANGE);
        let chosen = if keeps { before } else { best };
        (self.rounds == ROUNDS_MAX).then_some((chosen, Verdict::Alike))
    }

    /// What is known of each policy.
    pub(super) fn figures(&self) -> Vec<Figures> {
        let best = self.cost(self.best());
        let figures = |policy: usize| Figures {
            slices: self.slices[policy].len(),
            relative_cost: self.cost(policy) / best,
            clock_mhz: self.clock_mhz(policy),
        };
        (0..self.slices.len()).map(figures).collect()
    }

    /// CPU time that was spent because policies were compared, as far as is known.
    pub(super) fn excess_ns(&self) -> f64 {
        let best = median(self.slices[self.best()].iter().map(Slice::cost));
        let excess = |slice: &Slice| (slice.cost() - best).max(0.0) * slice.work_ns;
        self.slices.iter().flatten().map(excess).sum()
    }

    /// The cheapest of those that are left and have had a slice.
    fn best(&self) -> usize {
        let by_cost =
            |one: &&usize, other: &&usize| self.cost(**one).total_cmp(&self.cost(**other));
        let known = self.left.iter().filter(|policy| !self.slices[**policy].is_empty());
        known.min_by(by_cost).copied().unwrap_or(0)
    }

    fn cost(&self, policy: usize) -> f64 {
        median(self.costs(policy))
    }

    /// The costs of a policy's slices. If it lowers the clock, other processes on the same CPU take
    /// longer by as much, and that counts, too.
    fn costs(&self, policy: usize) -> impl Iterator<Item = f64> {
        let clocks = (0..self.slices.len()).map(|policy| self.clock_mhz(policy));
        let (fastest, own) = (clocks.fold(0.0, f64::max), self.clock_mhz(policy));
        let slowdown = if own > 0.0 { fastest / own - 1.0 } else { 0.0 };
        let cost = move |slice: &Slice| slice.cost() + slice.others_ns * slowdown / slice.work_ns;
        self.slices[policy].iter().map(cost)
    }

    fn clock_mhz(&self, policy: usize) -> f64 {
        median(self.slices[policy].iter().filter_map(|slice| slice.clock_mhz))
    }

    /// Whether a policy costs more than another one, as the rounds show that both took part in.
    fn is_dearer(&self, policy: usize, than: usize) -> bool {
        let ratios: Vec<f64> =
            self.costs(policy).zip(self.costs(than)).map(|(one, other)| one / other).collect();
        let (rounds, dearer) = (ratios.len(), ratios.iter().filter(|ratio| **ratio > 1.0).count());
        let is_clear = ratios.iter().all(|ratio| *ratio > CLEARLY_DEARER);
        rounds >= ROUNDS_IF_CLEAR && is_clear
            || REPEATED
                .iter()
                .any(|&(of, exceptions)| rounds >= of && dearer + exceptions >= rounds)
    }
}

/// A comparison ends after this many rounds.
const ROUNDS_MAX: usize = 16;

/// Slices in a row without work that end a comparison.
const IDLE_MAX: usize = 3;

/// A policy is dropped if it costs so much more in each of a few rounds …
const CLEARLY_DEARER: f64 = 1.08;
const ROUNDS_IF_CLEAR: usize = 3;

/// … or anything more in so many rounds, but for so many of them.
const REPEATED: [(usize, usize); 3] = [(6, 0), (11, 1), (15, 2)];

/// What was chosen before stays unless something costs less by this part.
const WORTH_A_CHANGE: f64 = 0.005;
