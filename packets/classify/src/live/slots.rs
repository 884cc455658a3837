//! The slot of a rule: its rank, by which lookups compare it, and its place in a tree or a list.
//!
//! Between two rules in trees there is always a rank that no rule has, unless one of them stands in
//! a list. So there are three cases of a rule that comes between two others:
//!
//! - Several ranks are free there: it gets one of them.
//! - One is free: it gets this one, but stands in a list behind the trees.
//! - None is free: then a neighbour stands in a list, and the rule shares that one's rank, behind
//!   or before it in the same list, where the first that matches is the one that counts.

use std::ops::Range;
use std::sync::Arc;

use super::draft::{Draft, Placed};
use super::{Candidate, Strength};
use crate::build::{AFFORDED, BuildError, Place};

/// A place among the ranks, and in the forest.
pub(super) struct Slot {
    pub rank: u32,
    pub place: Place,
}

/// Ranks between a new rule and its neighbour.
const SPARE: u32 = 3;
/// Ranks for each rule, on average, after they have been spread.
const SPREAD: u32 = 8;
/// How many rules on either side are spread at first, and how many times as many next.
const SIDE: usize = 16;
const SIDE_GROWTH: usize = 4;

/// How many rules can have ranks: half of all ranks lie between rules, and between two of them at
/// least one is free.
fn rules_max(ranks_end: u32) -> usize {
    ranks_end as usize / 4 - 1
}

/// The ranks of rules, the strongest first. Half of all ranks lie between rules, the others before
/// and behind rules of equal priority, where new ones come.
pub(super) fn ranks(
    candidates: &[&Arc<Candidate>],
    ranks_end: u32,
) -> Result<Vec<u32>, BuildError> {
    let rules = candidates.len();
    let classes = candidates.chunk_by(|one, other| one.rule.priority == other.rule.priority);
    let most = rules_max(ranks_end);
    if rules > most {
        return Err(BuildError::TooManyRules { rules, most });
    }
    let half = ranks_end as usize / 2;
    let (step, gap) = (half / (rules + 1), half / (classes.clone().count() + 1));
    let (mut ranks, mut next) = (Vec::with_capacity(rules), 0);
    for class in classes {
        next += gap;
        ranks.extend((0..class.len()).map(|place| (next + place * step) as u32));
        next += class.len() * step;
    }
    Ok(ranks)
}

impl Draft {
    /// The slot of a rule, for another that replaces it. A rule in a list stays there: there may be
    /// no other rank beside its own.
    pub fn slot_of(&self, rule: &Placed) -> Slot {
        Slot { rank: rule.rank, place: self.forest.place_of(rule.entries.start) }
    }

    /// A slot between a rule's neighbours.
    pub fn free_slot(&mut self, strength: Strength) -> Result<Slot, BuildError> {
        let mut rank = self.rank_between(strength, 1);
        if rank.is_none() && self.spread_ranks(strength)? {
            rank = self.rank_between(strength, 1);
        }
        if let Some(rank) = rank {
            return Ok(Slot { rank, place: Place::Any });
        }
        if let Some(rank) = self.rank_between(strength, 0) {
            return Ok(Slot { rank, place: Place::AnyList });
        }
        // Where there are several categories, a rule's categories are found by its rank.
        let may_share = self.shape.categories == 1;
        let neighbours =
            [self.rules.range(..strength).next_back(), self.rules.range(strength..).next()];
        let mut slots = neighbours.into_iter().flatten().map(|(_, rule)| self.slot_of(rule));
        let shared = slots.find(|slot| may_share && slot.place != Place::Any);
        shared.ok_or(BuildError::NoRank)
    }

    /// Numbers the rules that share a rank, and among them one that is not there yet.
    pub fn tie(&mut self, strength: Strength, rank: u32, entries: &Range<u32>) {
        let shares = |rule: &&Placed| rule.rank == rank;
        let stronger = self.rules.range(..strength).rev().map(|(_, rule)| rule).take_while(shares);
        let weaker = self.rules.range(strength..).map(|(_, rule)| rule).take_while(shares);
        let mut all: Vec<Range<u32>> = stronger.map(|rule| rule.entries.clone()).collect();
        all.reverse();
        all.push(entries.clone());
        all.extend(weaker.map(|rule| rule.entries.clone()));
        for (place, ids) in (0..).zip(all) {
            self.encoded.ties[ids.start as usize..ids.end as usize].fill(place);
        }
    }

    /// A free rank between those of a rule's neighbours, with `margin` other free ones on either
    /// side. Rules that are gone keep their ranks; of these the first and the last are considered.
    fn rank_between(&self, strength: Strength, margin: u32) -> Option<u32> {
        let (first, end) = self.ranks_around(strength, 0);
        let gone = self.gone_between(first, end);
        let before = gone.first().map_or((first, end), |gone| (first, *gone));
        let behind = gone.last().map_or((first, end), |gone| (gone + 1, end));
        let room = |(first, end): &(u32, u32)| end.saturating_sub(*first);
        let (first, end) = [before, behind].into_iter().max_by_key(room)?;
        if room(&(first, end)) < 1 + 2 * margin {
            return None;
        }
        let spare = SPARE.min((end - first) / 2);
        // Others will come behind it, or before all if it is the strongest.
        Some(if first == 0 { end - 1 - spare } else { first + spare })
    }

    /// The ranks from `first` to before `end` of rules that are gone.
    fn gone_between(&self, first: u32, end: u32) -> &[u32] {
        let ranks = &self.gone.ranks;
        let from = ranks.partition_point(|rank| *rank < first);
        let to = ranks.partition_point(|rank| *rank < end);
        ranks.get(from..to).unwrap_or_default()
    }

    /// The ranks that are free when `skipped` rules on either side of a place are ignored.
    fn ranks_around(&self, strength: Strength, skipped: usize) -> (u32, u32) {
        let stronger = self.rules.range(..strength).rev().nth(skipped);
        let weaker = self.rules.range(strength..).nth(skipped);
        let first = stronger.map_or(0, |(_, rule)| rule.rank + 1);
        (first, weaker.map_or(self.ranks_end, |(_, rule)| rule.rank))
    }

    /// Spreads the ranks of the rules around a place, so that there is room for another; false if
    /// that would cost too much, or if a rank there cannot change: a rule that is gone has its rank
    /// in all its leaves, and no other rank may pass it; a rule in a list may share its rank.
    fn spread_ranks(&mut self, strength: Strength) -> Result<bool, BuildError> {
        let mut side = SIDE;
        loop {
            let (first, end) = self.ranks_around(strength, side);
            let stronger = self.rules.range(..strength).rev().take(side).map(|(of, _)| *of);
            let mut moved: Vec<Strength> = stronger.collect();
            moved.reverse();
            let before = moved.len();
            moved.extend(self.rules.range(strength..).take(side).map(|(of, _)| *of));
            if !self.gone_between(first, end).is_empty() || !self.may_move(&moved) {
                return Ok(false);
            }
            let step = (end - first) / (moved.len() as u32 + 2);
            if step >= SPREAD {
                // The place between gets the room of two.
                let rank_of =
                    |at: usize| first + step * (at + 1 + usize::from(at >= before)) as u32;
                self.move_ranks(&moved, rank_of)?;
                return Ok(true);
            }
            if moved.len() == self.rules.len() {
                return Ok(false);
            }
            side *= SIDE_GROWTH;
        }
    }

    /// Whether all these rules can get other ranks, within the cost of a change.
    fn may_move(&self, moved: &[Strength]) -> bool {
        let mut left = AFFORDED;
        moved.iter().filter_map(|strength| self.rules.get(strength)).all(|rule| {
            let entries = rule.entries.clone();
            self.forest.list_of(entries.start).is_none()
                && self.forest.affords(&self.encoded, entries, false, &mut left)
        })
    }

    fn move_ranks(
        &mut self,
        moved: &[Strength],
        rank_of: impl Fn(usize) -> u32,
    ) -> Result<(), BuildError> {
        let mut entries = Vec::new();
        for (at, strength) in moved.iter().enumerate() {
            let Some(rule) = self.rules.get_mut(strength) else { continue };
            rule.rank = rank_of(at);
            let (rank, categories) = (rule.rank, rule.candidate.rule.categories);
            entries.push(rule.entries.clone());
            self.encoded.ranks[rule.entries.start as usize..rule.entries.end as usize].fill(rank);
            self.categorise(rank, categories);
        }
        entries.into_iter().try_for_each(|ids| self.forest.rewrite(&self.encoded, ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Match, Rule};

    #[test]
    fn too_many_rules_are_told_how_many_there_can_be() {
        let matches = [Match::ANY].into();
        let rule = Rule { matches, priority: 0, categories: 1, result: 0, line: 0 };
        let candidates: Vec<Arc<Candidate>> =
            (0..16).map(|id| Arc::new(Candidate::new(id, rule.clone()))).collect();
        let candidates: Vec<&Arc<Candidate>> = candidates.iter().collect();
        let refused = ranks(&candidates, 64);
        assert_eq!(refused, Err(BuildError::TooManyRules { rules: 16, most: 15 }));
        let ranks = ranks(&candidates[1..], 64).unwrap();
        assert!(ranks.is_sorted_by(|one, other| one + 1 < *other), "{ranks:?}");
    }
}
