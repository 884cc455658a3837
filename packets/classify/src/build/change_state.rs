//! What it takes to change trees entry by entry.
//!
//! A tree does not list an entry in cells where a stronger one hides it. So while a tree grows, it
//! is recorded which entry hides which, and in which cell; when an entry is removed, the entries
//! that it hid take its cells again. Where that would be too much at once, the entry stays where it
//! is for now, and lookups find the entries that it hides in the tree of hidden rules.

use std::cell::Cell as Count;
use std::collections::HashMap;
use std::ops::Range;

use super::BuildError;
use super::deferred::DeferredQueue;
use super::encode::Encoded;
use super::group::{Group, Wide};
use super::leaves::Run;
use super::lists::{Place, Roots};
use super::tree::{Cell, Forest, Region};
use super::walk::Walk;

/// What is recorded of a forest so that it can be changed.
#[derive(Debug)]
pub(super) struct ChangeState {
    hidings: Hidings,
    pub stands: Vec<Stand>,
    /// How many entries have each root as their home.
    pub counts: Vec<usize>,
    pub roots: Roots,
    /// The fields that tell rules apart, and which of them those of each tree fix.
    wide: Wide,
    fixed: Vec<u32>,
    pub deferred: DeferredQueue,
    /// Cells looked at and rules written since the last [`Forest::take_work`].
    work: Count<usize>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stand {
    /// The root of its tree or list; none if it is gone from there.
    pub home: Option<u8>,
    /// It is in the tree of hidden rules, too.
    pub in_hidden_tree: bool,
    /// It is in the list of shadowed rules, too.
    pub in_shadowed_list: bool,
    /// It stands in a list until this tree has it.
    pub goal: Option<Goal>,
    /// Its rule is gone: lookups skip it.
    pub is_gone: bool,
    /// All entries that it hides are in the tree of hidden rules.
    pub is_covered: bool,
}

/// Where an entry is to stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub root: u8,
    /// It stands in some cells there already.
    pub is_begun: bool,
}

/// Words of a forest that have been written, and chunks that it does not need any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub index: Vec<Range<usize>>,
    pub chunks: Vec<Range<usize>>,
    /// To be given back with [`Forest::reuse`] when no reader looks at them any more.
    pub released: Vec<Run>,
}

impl ChangeState {
    /// The state of a forest with this many roots, and no entries yet.
    pub fn of(roots: usize, wide: &Wide) -> Self {
        ChangeState {
            hidings: Hidings::default(),
            stands: Vec::new(),
            counts: vec![0; roots],
            roots: Roots::of(roots),
            wide: wide.clone(),
            fixed: Vec::new(),
            deferred: DeferredQueue::default(),
            work: Count::new(0),
        }
    }

    /// Notes that an entry is not listed in the region of a cell, since another hides it there.
    pub fn note(&mut self, hider: u32, hidden: u32, cell: Cell) {
        self.hidings.noted.push((hider, (cell, hidden)));
    }

    /// Notes that entries are not listed in the region of a cell, since `hider` hides them there,
    /// which was inserted after the trees had been built.
    pub fn note_since(&mut self, hider: u32, hidden: impl Iterator<Item = u32>, cell: Cell) {
        let hidden = hidden.map(|hidden| (cell, hidden));
        self.hidings.added.entry(hider).or_default().extend(hidden);
    }
}

/// Which entries hide which.
#[derive(Debug, Default)]
struct Hidings {
    /// The hiding entry, the cell and the hidden entry, while trees are built.
    noted: Vec<(u32, (Cell, u32))>,
    /// The cell and the hidden entry when trees have been built, by hiding entry.
    sorted: Vec<(Cell, u32)>,
    /// Where the part of each hiding entry begins, and the end of all.
    starts: Vec<usize>,
    /// The cell and the hidden entry, by hiding entry, for those that were inserted since.
    added: HashMap<u32, Vec<(Cell, u32)>>,
}

impl Hidings {
    /// Sorts what has been noted of all `entries`.
    fn sort(&mut self, entries: usize) {
        self.noted.sort_by_key(|(hider, _)| *hider);
        let place = |hider| self.noted.partition_point(|(other, _)| *other < hider);
        self.starts = (0..=entries as u32).map(place).collect();
        self.sorted = std::mem::take(&mut self.noted).into_iter().map(|(_, of)| of).collect();
    }

    fn of(&self, hider: u32) -> &[(Cell, u32)] {
        match self.starts.get(hider as usize..hider as usize + 2) {
            Some(bounds) => &self.sorted[bounds[0]..bounds[1]],
            None => self.added.get(&hider).map_or(&[], Vec::as_slice),
        }
    }
}

impl Forest {
    /// Lifts the limits that the trees were built with, and makes room for this many more entries
    /// and words of chunks.
    pub fn lift_limits(&mut self, entries: usize, words: usize) {
        self.limits.table_bytes = usize::MAX;
        self.take_edits();
        self.index.reserve(words);
        self.chunks.reserve(words);
        self.leaves.reserve(words / self.shape.chunk_words());
        if let Some(change_state) = &mut self.change_state {
            change_state.stands.reserve(entries);
        }
    }

    /// Builds the tree of hidden rules: all entries that broad rules hide somewhere, none of which
    /// hides another in this tree. Only lookups that have found a rule that is gone search it.
    /// `rules` has the entries of each rule. From now on, no entry hides another where leaves are
    /// divided.
    ///
    /// # Errors
    ///
    /// If there are too many chunks.
    pub fn build_hidden_tree(
        &mut self,
        encoded: &Encoded,
        rules: impl Iterator<Item = Range<u32>>,
    ) -> Result<(), BuildError> {
        if let Some(change_state) = &mut self.change_state {
            change_state.hidings.sort(encoded.len());
        }
        let hides = |ids: &Range<u32>| ids.clone().any(|id| !self.hidden_by(id).is_empty());
        let is_broad = |ids: &Range<u32>| hides(ids) && self.is_broad(encoded, ids.clone(), true);
        let covered: Vec<u32> = rules.filter(is_broad).flatten().collect();
        (self.hides, self.copies_until) = (false, self.bytes() + self.bytes() / 2);
        let Some(ChangeState { hidings, stands, roots, .. }) = &mut self.change_state else {
            return Ok(());
        };
        for id in covered {
            stands[id as usize].is_covered = true;
            for &(_, hidden) in hidings.of(id) {
                stands[hidden as usize].in_hidden_tree = true;
            }
        }
        let in_hidden_tree = |id: &u32| stands[*id as usize].in_hidden_tree;
        let ids: Vec<u32> = (0..encoded.len() as u32).filter(in_hidden_tree).collect();
        let root = roots.hidden;
        self.grow_tree(encoded, root, &ids)?;
        self.copies_until = usize::MAX;
        Ok(())
    }

    /// Notes which tree has the entries of a group. To be called for one tree after the other.
    pub(super) fn note_tree(&mut self, root: usize, group: &Group) {
        if let Some(change_state) = &mut self.change_state {
            change_state.fixed.push(group.fixed);
        }
        self.note_home(root, group.ids.iter().copied());
    }

    /// The tree that looks at no field that an entry leaves free, and at most of the others.
    pub(super) fn tree_for(&self, encoded: &Encoded, id: u32) -> Option<usize> {
        let ChangeState { wide, fixed, .. } = self.change_state.as_ref()?;
        let own = wide.fixed(encoded, id);
        let trees = fixed.iter().enumerate().filter(|(_, fixed)| *fixed & !own == 0);
        trees.max_by_key(|(_, fixed)| fixed.count_ones()).map(|(root, _)| root)
    }

    /// Notes which tree or list has entries.
    pub fn note_home(&mut self, root: usize, ids: impl ExactSizeIterator<Item = u32>) {
        let Some(change_state) = &mut self.change_state else { return };
        change_state.counts[root] += ids.len();
        for id in ids {
            let end = change_state.stands.len().max(id as usize + 1);
            change_state.stands.resize(end, Stand::default());
            change_state.stands[id as usize].home = Some(root as u8);
        }
    }

    /// What has been written since the last call.
    pub fn take_edits(&mut self) -> Edits {
        Edits { released: self.leaves.end_turn(), ..std::mem::take(&mut self.edits) }
    }

    /// How many cells have been looked at, and rules written, since the last call.
    pub fn take_work(&mut self) -> usize {
        self.change_state.as_ref().map_or(0, |state| state.work.take())
    }

    /// How many there have been so far.
    pub(super) fn work(&self) -> usize {
        self.change_state.as_ref().map_or(0, |state| state.work.get())
    }

    /// Counts cells looked at, or rules written.
    pub(super) fn count_work(&self, more: usize) {
        if let Some(change_state) = &self.change_state {
            change_state.work.set(change_state.work.get() + more);
        }
    }

    /// Takes back chunks that no reader looks at any more.
    pub fn reuse(&mut self, run: Run) {
        self.leaves.reuse(run);
    }

    /// Lists the entries of a rule in the trees where that costs least; in a list behind them if
    /// `place` says so, or until they are moved if it costs too much in every tree.
    ///
    /// # Errors
    ///
    /// If a list would get too long; the entries are not in the forest then.
    pub fn insert(
        &mut self,
        encoded: &Encoded,
        ids: Range<u32>,
        place: Place,
    ) -> Result<(), BuildError> {
        let roots = match place {
            Place::Any => self.trees_for(encoded, ids.clone()),
            Place::AnyList | Place::List(_) => None,
        };
        let Some(roots) = roots else {
            self.enlist(encoded, ids.clone(), place)?;
            if place == Place::Any {
                self.plan_move(encoded, ids);
            }
            return Ok(());
        };
        for (id, root) in ids.clone().zip(roots) {
            self.note_home(root, [id].into_iter());
            let walk = Walk::of_tree(root, Some(Region::all(encoded.words)));
            if let Err(error) = self.list_along(encoded, id, walk) {
                self.remove(encoded, ids)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the entries of a rule out of their trees or their list.
    ///
    /// # Errors
    ///
    /// If lists of entries that they hid would get too long; they are still there then.
    pub fn remove(&mut self, encoded: &Encoded, ids: Range<u32>) -> Result<(), BuildError> {
        if let Some(root) = self.list_of(ids.start) {
            self.delist(encoded, root, &ids)?;
        } else {
            // First those that they hide: no lookup finds these while the others are still there.
            for id in ids.clone() {
                for (cell, hidden) in self.hidden_by(id).to_vec() {
                    if self.stand(hidden).home.is_some() {
                        self.list_along(encoded, hidden, Walk::from(cell, None))?;
                    }
                }
            }
            for id in ids.clone() {
                for root in self.trees_of(id) {
                    let mut walk = Walk::of_tree(root, None);
                    while self.unlist_next(encoded, id, &mut walk)? {}
                }
            }
        }
        self.leave_shadowed_list(encoded, &ids)?;
        ids.for_each(|id| self.forget(id));
        Ok(())
    }

    /// Writes the entries of a rule anew, whose rank or result has changed. Among the others they
    /// stay where they are.
    ///
    /// # Errors
    ///
    /// If there is no room for leaves to be written anew.
    pub fn rewrite(&mut self, encoded: &Encoded, mut ids: Range<u32>) -> Result<(), BuildError> {
        if let Some(shadowed) = ids.clone().find(|&id| self.stand(id).in_shadowed_list)
            && let Some(change_state) = &self.change_state
        {
            self.rewrite_in(encoded, shadowed, change_state.roots.shadowed)?;
        }
        if let Some(root) = self.list_of(ids.start) {
            // All of them stand in one leaf.
            return self.rewrite_in(encoded, ids.start, root);
        }
        ids.try_for_each(|id| {
            let mut trees = self.trees_of(id);
            trees.try_for_each(|root| self.rewrite_in(encoded, id, root))
        })
    }

    /// Marks the entries of a rule as gone: lookups skip them until they have been cleaned up. The
    /// entries that they hide are added to the list of shadowed rules, unless they are in the tree
    /// of hidden rules.
    ///
    /// # Errors
    ///
    /// If that list would get too long; nothing has changed then.
    pub fn mark_gone(&mut self, encoded: &Encoded, ids: Range<u32>) -> Result<(), BuildError> {
        let uncovered = ids.clone().filter(|&id| !self.stand(id).is_covered);
        let hidden = uncovered.flat_map(|id| self.hidden_by(id)).map(|&(_, hidden)| hidden);
        let alone = |id: &u32| {
            let stand = self.stand(*id);
            stand.home.is_some() && !stand.in_hidden_tree && !stand.in_shadowed_list
        };
        let hidden: Vec<u32> = hidden.filter(alone).collect();
        self.list_shadowed(encoded, hidden)?;
        if let Some(list) = self.list_of(ids.start) {
            self.delist_to_trees(encoded, list, &ids)?;
        }
        ids.clone().for_each(|id| self.stand_mut(id, |stand| stand.is_gone = true));
        self.plan_cleanup(ids);
        Ok(())
    }

    /// What an entry hides, and in which cells.
    pub(super) fn hidden_by(&self, id: u32) -> &[(Cell, u32)] {
        let change_state = self.change_state.as_ref().filter(|_| self.stand(id).home.is_some());
        change_state.map_or(&[], |state| state.hidings.of(id))
    }

    pub(super) fn stand(&self, id: u32) -> Stand {
        let stand = self.change_state.as_ref().and_then(|state| state.stands.get(id as usize));
        stand.copied().unwrap_or_default()
    }

    pub(super) fn stand_mut(&mut self, id: u32, change: impl FnOnce(&mut Stand)) {
        let stands = self.change_state.as_mut().map(|state| &mut state.stands);
        stands.and_then(|stands| stands.get_mut(id as usize)).map(change);
    }

    /// The roots of the trees that an entry stands in.
    pub(super) fn trees_of(&self, id: u32) -> impl Iterator<Item = usize> + use<> {
        let stand = self.stand(id);
        let hidden = self.change_state.as_ref().map(|state| state.roots.hidden);
        let own = stand.home.map(usize::from);
        own.into_iter().chain(hidden.filter(|_| own.is_some() && stand.in_hidden_tree))
    }

    /// Notes that an entry is in no tree and no list any more.
    pub(super) fn forget(&mut self, id: u32) {
        if let Some(root) = self.stand(id).home {
            self.uncount(root.into());
        }
        self.stand_mut(id, |stand| *stand = Stand::default());
        if let Some(change_state) = &mut self.change_state {
            change_state.hidings.added.remove(&id);
        }
    }

    /// Notes that a root has an entry less.
    pub(super) fn uncount(&mut self, root: usize) {
        if let Some(change_state) = &mut self.change_state {
            change_state.counts[root] -= 1;
        }
    }
}
