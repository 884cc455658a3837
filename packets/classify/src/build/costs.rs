//! What changes would cost before they are made: cells to be looked at, and rules to be written.

use std::ops::Range;

use super::encode::Encoded;
use super::tree::{Forest, Region, cells_of};
use crate::table::{NODE_HEADER, Node};

/// What an entry in a tree would cost.
#[derive(Clone, Copy, Default)]
struct Survey {
    cells: usize,
    /// Rules listed in those cells.
    rules: usize,
}

/// What one step of a change may cost: cells, and rules that stand in them. A rule is broad if
/// removing or rewriting it would cost more.
pub(crate) const AFFORDED: usize = 3072;
/// An entry that belongs to more cells of each tree is listed behind the trees.
const CELLS_MAX: usize = 64;
/// Nor does it pay to look at more cells of a tree, or of all.
const VISITED_MAX: usize = 1024;
const VISITED_IN_ALL: usize = 4096;

impl Forest {
    /// The tree for each entry of a rule; none if the rule would cost too much.
    pub(super) fn trees_for(&self, encoded: &Encoded, ids: Range<u32>) -> Option<Vec<usize>> {
        let all = Region::all(encoded.words);
        let trees = self.change_state.as_ref()?.roots.lists.start;
        let (mut left, mut visits) = (AFFORDED, VISITED_IN_ALL);
        let mut tree_for = |(before, id): (usize, u32)| {
            let survey = |root| {
                let (mut survey, most) = (Survey::default(), VISITED_MAX.min(visits));
                let mut own = most;
                let is_done = self.survey(encoded, id, root, &all, &mut survey, &mut own);
                visits -= most - own;
                // The other pieces may come to the same cells.
                let cost = survey.cells * (1 + before) + survey.rules;
                is_done.then_some((cost, root))
            };
            let (cost, root) = (0..trees).filter_map(survey).min()?;
            left = left.checked_sub(cost)?;
            Some(root)
        };
        let roots = (0..).zip(ids).map(&mut tree_for).collect();
        self.count_work(VISITED_IN_ALL - visits);
        roots
    }

    /// Whether it would cost too much to rewrite the entries of a rule; or, if it `goes`, to remove
    /// them.
    pub fn is_broad(&self, encoded: &Encoded, ids: Range<u32>, goes: bool) -> bool {
        let mut left = AFFORDED;
        !self.affords(encoded, ids, goes, &mut left)
    }

    /// Takes from what is left what it costs to write the entries of a rule anew, or to take them
    /// out; false if that is more. A list behind the trees is short enough for any change, unless
    /// its rule stands in some cells already.
    pub fn affords(
        &self,
        encoded: &Encoded,
        ids: Range<u32>,
        goes: bool,
        left: &mut usize,
    ) -> bool {
        if self.list_of(ids.start).is_some() {
            return !self.stand(ids.start).goal.is_some_and(|goal| goal.is_begun);
        }
        let before = *left;
        let in_shadowed_list = ids.clone().any(|id| self.stand(id).in_shadowed_list);
        let shadowed = if in_shadowed_list { self.shadowed() } else { 0 };
        let is_afforded = *left >= shadowed;
        *left = left.saturating_sub(shadowed);
        let is_afforded = is_afforded
            && ids.into_iter().all(|id| {
                let own = self.trees_of(id).map(|root| (root, id));
                let hidden = if goes { self.hidden_by(id) } else { &[] };
                let mut places =
                    own.chain(hidden.iter().map(|&(cell, id)| (cell.place as usize, id)));
                places.all(|(place, id)| self.affords_below(encoded, id, place, left))
            });
        self.count_work(before - *left);
        is_afforded
    }

    /// The same for one entry below a place.
    fn affords_below(&self, encoded: &Encoded, id: u32, place: usize, left: &mut usize) -> bool {
        let Some(at) = self.node_at(place) else {
            let cost = self.list(place).len() + 1;
            let is_afforded = *left >= cost;
            *left = left.saturating_sub(cost);
            return is_afforded;
        };
        let mut cells = cells_of(encoded, id, Node::at(&self.index, at).parts());
        cells.all(|cell| self.affords_below(encoded, id, at + NODE_HEADER + cell, left))
    }

    /// Adds up what it would cost to list an entry, and takes the cells looked at from `visits`;
    /// false if either is too much.
    fn survey(
        &self,
        encoded: &Encoded,
        id: u32,
        place: usize,
        region: &Region,
        survey: &mut Survey,
        visits: &mut usize,
    ) -> bool {
        let Some(at) = self.node_at(place) else {
            survey.cells += 1;
            survey.rules += self.list(place).len();
            return survey.cells <= CELLS_MAX && survey.cells + survey.rules <= AFFORDED;
        };
        let parts = Node::at(&self.index, at).parts();
        cells_of(encoded, id, parts).all(|index| {
            let below = region.below(parts, index);
            let place = at + NODE_HEADER + index;
            let may_visit = *visits > 0;
            *visits = visits.saturating_sub(1);
            may_visit
                && (!self.reaches(encoded, id, &below)
                    || self.survey(encoded, id, place, &below, survey, visits))
        })
    }
}
