//! What is behind the trees of a forest that can be changed: lists of entries that no tree takes,
//! and the list of shadowed rules.
//!
//! Lookups search the lists that have entries. They search the list of shadowed rules and the tree
//! of hidden rules only when they have found a rule that is gone.

use std::ops::Range;

use super::BuildError;
use super::encode::Encoded;
use super::tree::{Cell, Forest};
use crate::table::{Entry, NODE_HEADER, rank_of};

/// The roots behind those of the trees.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    /// Of lists.
    pub lists: Range<usize>,
    /// Of the list of shadowed rules: entries hidden by rules that are gone.
    pub shadowed: usize,
    /// Of the tree of hidden rules: entries that broad rules hide.
    pub hidden: usize,
}

/// Where the entries of a rule are to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where it costs least.
    Any,
    /// In a list.
    AnyList,
    /// In the list of this root, since they share a rank with others there.
    List(usize),
}

/// A list with fewer entries takes others before the next list does.
const LIST_GOAL: usize = 128;
/// No list behind the trees is longer: a change writes it anew.
const LIST_MAX: usize = 4096;
/// Nor is the list of shadowed rules longer than this.
const SHADOWED_LIST_MAX: usize = 2048;

impl Roots {
    /// How many lists there may be.
    const LISTS: usize = 64;
    /// How many roots there are besides those of trees.
    pub const SPARE: usize = Self::LISTS + 2;

    /// The last of `count` roots.
    pub fn of(count: usize) -> Self {
        let trees = count.saturating_sub(Self::SPARE);
        let (shadowed, hidden) = (trees + Self::LISTS, trees + Self::LISTS + 1);
        Roots { lists: trees..shadowed, shadowed, hidden }
    }
}

impl Forest {
    /// The roots behind those of the trees.
    pub fn roots(&self) -> Roots {
        let roots = self.change_state.as_ref().map(|state| state.roots.clone());
        roots.unwrap_or(Roots { lists: 0..0, shadowed: 0, hidden: 0 })
    }

    /// How many roots a lookup begins with: those of the trees, and of lists up to the last that
    /// has entries.
    pub fn roots_in_use(&self) -> usize {
        let lists = self.roots().lists;
        let last = lists.clone().rev().find(|&root| self.count_at(root) > 0);
        last.map_or(lists.start, |root| root + 1)
    }

    /// How many entries stand in lists behind the trees.
    pub fn listed(&self) -> usize {
        self.roots().lists.map(|root| self.count_at(root)).sum()
    }

    /// How many entries are in the list of shadowed rules.
    pub fn shadowed(&self) -> usize {
        self.list_at(self.roots().shadowed).len()
    }

    /// The root of the list that an entry stands in, if it is behind the trees.
    pub fn list_of(&self, id: u32) -> Option<usize> {
        let home = self.stand(id).home.map(usize::from);
        home.filter(|root| self.roots().lists.contains(root))
    }

    /// Where an entry stands, for another in its stead.
    pub fn place_of(&self, id: u32) -> Place {
        let list = self.list_of(id).filter(|_| self.stand(id).goal.is_none());
        list.map_or(Place::Any, Place::List)
    }

    /// Lists the entries of a rule behind the trees, all in one list.
    pub(super) fn enlist(
        &mut self,
        encoded: &Encoded,
        ids: Range<u32>,
        place: Place,
    ) -> Result<(), BuildError> {
        let has_room = |root: &usize| self.count_at(*root) + ids.len() <= LIST_GOAL;
        let lists = self.roots().lists;
        let root = match place {
            Place::List(root) => Some(root),
            _ => lists.clone().find(has_room).or(lists.min_by_key(|&root| self.count_at(root))),
        };
        let Some(root) = root else { return Ok(()) };
        let mut list = self.list_at(root).to_vec();
        let stronger =
            list.partition_point(|&other| encoded.order(other) < encoded.order(ids.start));
        list.splice(stronger..stronger, ids.clone());
        self.set_list(encoded, root, &list, LIST_MAX)?;
        self.note_home(root, ids);
        Ok(())
    }

    /// Takes the entries of a rule out of the list of a root.
    pub(super) fn delist(
        &mut self,
        encoded: &Encoded,
        root: usize,
        ids: &Range<u32>,
    ) -> Result<(), BuildError> {
        let others = self.list_at(root).iter().copied().filter(|id| !ids.contains(id));
        let others: Vec<u32> = others.collect();
        self.set_list(encoded, root, &others, usize::MAX)
    }

    /// Takes the entries of a rule out of the list of a root, since they stand in trees from now
    /// on.
    pub(super) fn delist_to_trees(
        &mut self,
        encoded: &Encoded,
        root: usize,
        ids: &Range<u32>,
    ) -> Result<(), BuildError> {
        self.delist(encoded, root, ids)?;
        for id in ids.clone() {
            if let Some(goal) = self.stand(id).goal {
                self.stand_mut(id, |stand| stand.goal = None);
                self.uncount(root);
                self.note_home(goal.root.into(), [id].into_iter());
            }
        }
        Ok(())
    }

    /// Adds entries to the list of shadowed rules.
    pub(super) fn list_shadowed(
        &mut self,
        encoded: &Encoded,
        ids: Vec<u32>,
    ) -> Result<(), BuildError> {
        if ids.is_empty() {
            return Ok(());
        }
        let root = self.roots().shadowed;
        let mut list = [self.list_at(root), &ids].concat();
        list.sort_unstable_by_key(|&id| (encoded.order(id), id));
        list.dedup();
        self.set_list(encoded, root, &list, SHADOWED_LIST_MAX)?;
        self.mark_shadowed(ids.into_iter(), true);
        Ok(())
    }

    /// Clears the list of shadowed rules.
    ///
    /// # Errors
    ///
    /// None: a shorter list always fits.
    pub fn clear_shadowed_list(&mut self, encoded: &Encoded) -> Result<(), BuildError> {
        let root = self.roots().shadowed;
        let shadowed = self.list_at(root).to_vec();
        if !shadowed.is_empty() {
            self.set_list(encoded, root, &[], 0)?;
            self.mark_shadowed(shadowed.into_iter(), false);
        }
        Ok(())
    }

    /// Removes the entries of a rule from the list of shadowed rules, if they are there.
    pub(super) fn leave_shadowed_list(
        &mut self,
        encoded: &Encoded,
        ids: &Range<u32>,
    ) -> Result<(), BuildError> {
        if ids.clone().any(|id| self.stand(id).in_shadowed_list) {
            self.delist(encoded, self.roots().shadowed, ids)?;
            self.mark_shadowed(ids.clone(), false);
        }
        Ok(())
    }

    fn mark_shadowed(&mut self, ids: impl Iterator<Item = u32>, are_there: bool) {
        let Some(change_state) = &mut self.change_state else { return };
        ids.for_each(|id| change_state.stands[id as usize].in_shadowed_list = are_there);
    }

    /// Puts another list, of at most `most` entries, behind a root that has no tree.
    fn set_list(
        &mut self,
        encoded: &Encoded,
        root: usize,
        list: &[u32],
        most: usize,
    ) -> Result<(), BuildError> {
        if list.len() > most {
            return Err(BuildError::LeafTooLong { rules: list.len() });
        }
        let Some(at) = self.node_at(root) else { return Ok(()) };
        let entry = if list.is_empty() { Entry::EMPTY } else { self.leaf(encoded, list)? };
        self.replace(Cell { place: (at + NODE_HEADER) as u32, node: at as u32 }, entry);
        self.put(root, Entry::node(rank_of(entry.0), at));
        Ok(())
    }

    fn list_at(&self, root: usize) -> &[u32] {
        self.node_at(root).map_or(&[], |at| self.list(at + NODE_HEADER))
    }

    fn count_at(&self, root: usize) -> usize {
        self.change_state.as_ref().map_or(0, |state| state.counts[root])
    }
}
