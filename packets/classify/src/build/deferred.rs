//! Deferred work on trees: a little of it is done with each change, so that no change takes long.
//! Lookups are right after each step.
//!
//! A leaf that has grown long is *divided*. A rule that belongs to many cells goes to a list, and
//! is *moved* to the trees from there, cell by cell. When it is removed, it is marked as gone, and
//! *cleaned up*: first the rules that it hid are listed wherever it hid them, then it is removed
//! from its cells.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::BuildError;
use super::change_state::Goal;
use super::encode::Encoded;
use super::tree::{Cell, Forest, Region};
use super::walk::Walk;

/// Deferred work, the next first. What is not done in its turn goes to the back.
pub(super) type DeferredQueue = VecDeque<Deferred>;

#[derive(Debug)]
pub(super) enum Deferred {
    /// Divide the leaf of a cell.
    Division { cell: Cell, region: Region },
    /// List the entries of a rule in all their cells, or in none.
    Tour(Tour),
}

/// A way through all cells of a rule.
#[derive(Debug)]
pub(super) struct Tour {
    ids: Range<u32>,
    task: Task,
    /// Which of the entries has its turn, and which of its cells or trees is next.
    id: u32,
    next: usize,
    /// The entry that is being listed or taken out.
    walk: Option<(u32, Walk)>,
    /// What it has cost.
    spent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Moves entries from a list to the trees.
    Move,
    /// Lists what entries hid where they hid it.
    GiveBack,
    /// Takes entries out of all their trees.
    TakeOut,
}

/// How much deferred work is added to each change: cells looked at and rules written.
const SLICE: usize = 512;
/// How many pieces of deferred work can wait.
const DEFERRED_MAX: usize = 1024;
/// A rule that costs more to move stays in its list.
const MOVE_MAX: usize = 1 << 16;
/// Leaves of a power of two entries in this range are divided, if possible; longer ones would take
/// too long.
const DIVISIBLE: RangeInclusive<usize> = 32..=128;
/// The most words of entries that are divided: keys may be long.
const DIVISIBLE_WORDS: usize = 512;

impl Forest {
    /// Defers the division of a cell's leaf, which has this many entries now, if it is long enough.
    pub(super) fn plan_division(&mut self, cell: Cell, region: Region, entries: usize) {
        if entries.is_power_of_two() && DIVISIBLE.contains(&entries) {
            self.plan(Deferred::Division { cell, region });
        }
    }

    /// Defers the move of a rule's entries from a list to the trees, if there is a tree for each.
    pub(super) fn plan_move(&mut self, encoded: &Encoded, ids: Range<u32>) {
        let trees = ids.clone().map(|id| self.tree_for(encoded, id));
        let Some(trees) = trees.collect::<Option<Vec<usize>>>() else { return };
        if self.plan(Deferred::Tour(Tour::new(ids.clone(), Task::Move))) {
            for (id, root) in ids.zip(trees) {
                self.stand_mut(id, |stand| {
                    stand.goal = Some(Goal { root: root as u8, is_begun: false });
                    stand.is_covered = true;
                });
            }
        }
    }

    /// Defers the removal of the entries of a rule that is gone from their trees.
    pub(super) fn plan_cleanup(&mut self, ids: Range<u32>) {
        self.plan(Deferred::Tour(Tour::new(ids, Task::GiveBack)));
    }

    fn plan(&mut self, deferred: Deferred) -> bool {
        let Some(change_state) = &mut self.change_state else { return false };
        let has_room = change_state.deferred.len() < DEFERRED_MAX;
        if has_room {
            change_state.deferred.push_back(deferred);
        }
        has_room
    }

    /// Goes on with deferred work, as much as is added to one change. Returns the entries of rules
    /// that have been cleaned up.
    ///
    /// Rules that turn out to cost too much stay in their list, or gone, until the trees are
    /// rebuilt.
    pub fn go_on(&mut self, encoded: &Encoded) -> Vec<Range<u32>> {
        let end = self.work() + SLICE;
        let mut cleaned = Vec::new();
        while self.work() < end
            && let Some(deferred) =
                self.change_state.as_mut().and_then(|of| of.deferred.pop_front())
        {
            match deferred {
                // A leaf that cannot be divided stays whole.
                Deferred::Division { cell, region } => drop(self.divide(encoded, cell, &region)),
                Deferred::Tour(mut tour) => match self.tour(encoded, &mut tour, end) {
                    Ok(true) if tour.task == Task::TakeOut => cleaned.push(tour.ids),
                    // Other work has its turn before this goes on.
                    Ok(false) => drop(self.plan(Deferred::Tour(tour))),
                    Ok(true) | Err(_) => {}
                },
            }
        }
        cleaned
    }

    /// By one node: nodes behind it would multiply what this costs.
    fn divide(&mut self, encoded: &Encoded, cell: Cell, region: &Region) -> Result<(), BuildError> {
        let list = self.list(cell.place as usize).to_vec();
        if DIVISIBLE.contains(&list.len()) && list.len() * encoded.words <= DIVISIBLE_WORDS {
            self.depth_max = 1;
            let from = self.index.len();
            let entry = self.grow(encoded, list, region, 0, cell)?;
            self.edits.index.push(from..self.index.len());
            self.replace(cell, entry);
        }
        Ok(())
    }

    /// Goes on with a tour until the work done comes to `end`; true if the tour is complete.
    fn tour(&mut self, encoded: &Encoded, tour: &mut Tour, end: usize) -> Result<bool, BuildError> {
        let list = self.list_of(tour.ids.start);
        if tour.task == Task::Move {
            if self.stand(tour.ids.start).goal.is_none() {
                // The rule has been removed meanwhile.
                return Ok(true);
            }
            tour.ids.clone().for_each(|id| self.begin_move(id));
        }
        let begun = self.work();
        while self.work() < end {
            if tour.walk.is_none() {
                tour.walk = tour.next_walk(self, encoded);
            }
            let Some((id, walk)) = &mut tour.walk else {
                return self.end_tour(encoded, tour, list).map(|()| true);
            };
            let stand = self.stand(*id);
            let goes_on = match tour.task {
                Task::Move => self.list_next(encoded, *id, walk, true)?,
                // What was hidden may have gone meanwhile.
                Task::GiveBack if stand.home.is_none() || stand.is_gone => false,
                Task::GiveBack => self.list_next(encoded, *id, walk, false)?,
                Task::TakeOut => self.unlist_next(encoded, *id, walk)?,
            };
            if !goes_on {
                tour.walk = None;
            }
        }
        tour.spent += self.work() - begun;
        match tour.task == Task::Move && tour.spent > MOVE_MAX {
            true => Err(BuildError::LeafTooLong { rules: tour.spent }),
            false => Ok(false),
        }
    }

    fn end_tour(
        &mut self,
        encoded: &Encoded,
        tour: &Tour,
        list: Option<usize>,
    ) -> Result<(), BuildError> {
        let ids = &tour.ids;
        match (tour.task, list) {
            (Task::Move, Some(list)) => self.delist_to_trees(encoded, list, ids),
            (Task::Move, None) => Ok(()),
            _ => {
                self.leave_shadowed_list(encoded, ids)?;
                ids.clone().for_each(|id| self.forget(id));
                Ok(())
            }
        }
    }

    fn begin_move(&mut self, id: u32) {
        self.stand_mut(id, |stand| {
            if let Some(goal) = &mut stand.goal {
                goal.is_begun = true;
            }
        });
    }
}

impl Tour {
    fn new(ids: Range<u32>, task: Task) -> Self {
        let id = ids.start;
        Tour { ids, task, id, next: 0, walk: None, spent: 0 }
    }

    /// The next entry to be listed or taken out, and where; none if that was the last.
    fn next_walk(&mut self, forest: &Forest, encoded: &Encoded) -> Option<(u32, Walk)> {
        forest.count_work(1);
        while self.id < self.ids.end {
            let (id, next) = (self.id, self.next);
            self.next += 1;
            let walk = match self.task {
                Task::Move => {
                    let goal = forest.stand(id).goal.filter(|_| next == 0);
                    let all = Region::all(encoded.words);
                    goal.map(|goal| (id, Walk::of_tree(goal.root.into(), Some(all))))
                }
                Task::GiveBack => {
                    let hidden = forest.hidden_by(id).get(next);
                    hidden.map(|&(cell, hidden)| (hidden, Walk::from(cell, None)))
                }
                Task::TakeOut => {
                    let root = forest.trees_of(id).nth(next);
                    root.map(|root| (id, Walk::of_tree(root, None)))
                }
            };
            if walk.is_some() {
                return walk;
            }
            (self.id, self.next) = (self.id + 1, 0);
            if self.id == self.ids.end && self.task == Task::GiveBack {
                (self.id, self.task) = (self.ids.start, Task::TakeOut);
            }
        }
        None
    }
}
