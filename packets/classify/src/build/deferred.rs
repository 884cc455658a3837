//! What is left to be done in trees that are changed: a little of it with each change, so that none
//! takes long. Lookups are right all the while.
//!
//! A leaf that has grown long is *divided*. A rule that stands in many cells comes into a list, and
//! is *planted* from there, cell by cell. When it goes, it is noted as gone, and *swept* out of its
//! cells: first what it hid is listed wherever it hid that, then it is taken out itself.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::BuildError;
use super::encode::Encoded;
use super::tended::Goal;
use super::tree::{Cell, Forest, Region};
use super::walk::Walk;

/// They take turns.
pub(super) type Chores = VecDeque<Chore>;

#[derive(Debug)]
pub(super) enum Chore {
    /// To divide the leaf of a cell.
    Division { cell: Cell, region: Region },
    /// To have the entries of a rule in all their cells, or in none.
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
    /// Lists entries that stand behind the trees in these.
    Plant,
    /// Lists what entries hid where they hid it.
    GiveBack,
    /// Takes entries out of all their trees.
    TakeOut,
}

/// So many cells are looked at for chores, and rules written, with each change.
const SLICE: usize = 512;
/// So many chores wait.
const CHORES_MAX: usize = 1024;
/// A rule that would cost more to be planted stays in its list.
const PLANTING_MAX: usize = 1 << 16;
/// Leaves of a power of two entries, of so many, are tried to be divided; longer ones would take
/// too long.
const DIVISIBLE: RangeInclusive<usize> = 32..=128;
/// So many words of entries are the most that are divided: keys may be long.
const DIVISIBLE_WORDS: usize = 512;

impl Forest {
    /// Notes that the leaf of a cell has come to so many entries.
    pub(super) fn plan_division(&mut self, cell: Cell, region: Region, entries: usize) {
        if entries.is_power_of_two() && DIVISIBLE.contains(&entries) {
            self.plan(Chore::Division { cell, region });
        }
    }

    /// Has the entries of a rule that stands in a list planted, if there is a tree for each.
    pub(super) fn plan_planting(&mut self, encoded: &Encoded, ids: Range<u32>) {
        let trees = ids.clone().map(|id| self.tree_for(encoded, id));
        let Some(trees) = trees.collect::<Option<Vec<usize>>>() else { return };
        if self.plan(Chore::Tour(Tour::new(ids.clone(), Task::Plant))) {
            for (id, root) in ids.zip(trees) {
                self.stand_mut(id, |stand| {
                    stand.goal = Some(Goal { root: root as u8, is_begun: false });
                    stand.is_covered = true;
                });
            }
        }
    }

    /// Has the entries of a rule that is gone taken out of their trees.
    pub(super) fn plan_sweep(&mut self, ids: Range<u32>) {
        self.plan(Chore::Tour(Tour::new(ids, Task::GiveBack)));
    }

    fn plan(&mut self, chore: Chore) -> bool {
        let Some(tending) = &mut self.tending else { return false };
        let has_room = tending.chores.len() < CHORES_MAX;
        if has_room {
            tending.chores.push_back(chore);
        }
        has_room
    }

    /// Goes on with what is left to be done, as far as a change affords. Returns the entries of
    /// rules that were gone, and stand nowhere any more.
    ///
    /// What turns out to cost too much stays as it is until other trees are planted: a rule stands
    /// in its list, or is gone.
    pub fn go_on(&mut self, encoded: &Encoded) -> Vec<Range<u32>> {
        let end = self.work() + SLICE;
        let mut swept = Vec::new();
        while self.work() < end
            && let Some(chore) = self.tending.as_mut().and_then(|of| of.chores.pop_front())
        {
            match chore {
                // A leaf that cannot be divided stays whole.
                Chore::Division { cell, region } => drop(self.divide(encoded, cell, &region)),
                Chore::Tour(mut tour) => match self.tour(encoded, &mut tour, end) {
                    Ok(true) if tour.task == Task::TakeOut => swept.push(tour.ids),
                    // Others have their turn before it goes on.
                    Ok(false) => drop(self.plan(Chore::Tour(tour))),
                    Ok(true) | Err(_) => {}
                },
            }
        }
        swept
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

    /// Goes on with a tour until so much work has been done; true at its end.
    fn tour(&mut self, encoded: &Encoded, tour: &mut Tour, end: usize) -> Result<bool, BuildError> {
        let list = self.list_of(tour.ids.start);
        if tour.task == Task::Plant {
            if self.stand(tour.ids.start).goal.is_none() {
                // The rule has gone meanwhile.
                return Ok(true);
            }
            tour.ids.clone().for_each(|id| self.begin_planting(id));
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
                Task::Plant => self.list_next(encoded, *id, walk, true)?,
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
        match tour.task == Task::Plant && tour.spent > PLANTING_MAX {
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
            (Task::Plant, Some(list)) => self.delist_to_trees(encoded, list, ids),
            (Task::Plant, None) => Ok(()),
            _ => {
                self.leave_refuge(encoded, ids)?;
                ids.clone().for_each(|id| self.forget(id));
                Ok(())
            }
        }
    }

    fn begin_planting(&mut self, id: u32) {
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
                Task::Plant => {
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
