//! What stands behind the trees of a forest that is changed: lists of entries that no tree takes,
//! and the refuge.
//!
//! Lookups visit the lists that have entries. They visit the refuge and the reserve only when they
//! have met a rule that is gone.

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
    /// Of the list of entries that are hidden by some that are gone.
    pub refuge: usize,
    /// Of the tree of those that broad ones hide.
    pub reserve: usize,
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
/// Nor is the refuge.
const REFUGE_MAX: usize = 2048;

impl Roots {
    /// How many lists there may be.
    const LISTS: usize = 64;
    /// How many roots there are besides those of trees.
    pub const SPARE: usize = Self::LISTS + 2;

    /// The last of so many.
    pub fn of(count: usize) -> Self {
        let trees = count.saturating_sub(Self::SPARE);
        let (refuge, reserve) = (trees + Self::LISTS, trees + Self::LISTS + 1);
        Roots { lists: trees..refuge, refuge, reserve }
    }
}

impl Forest {
    /// The roots behind those of the trees.
    pub fn roots(&self) -> Roots {
        let roots = self.tending.as_ref().map(|tending| tending.roots.clone());
        roots.unwrap_or(Roots { lists: 0..0, refuge: 0, reserve: 0 })
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

    /// How many entries stand in the refuge.
    pub fn sheltered(&self) -> usize {
        self.list_at(self.roots().refuge).len()
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

    /// The same with entries that stand in trees from now on.
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

    /// Lists entries in the refuge besides.
    pub(super) fn shelter(&mut self, encoded: &Encoded, ids: Vec<u32>) -> Result<(), BuildError> {
        if ids.is_empty() {
            return Ok(());
        }
        let root = self.roots().refuge;
        let mut list = [self.list_at(root), &ids].concat();
        list.sort_unstable_by_key(|&id| (encoded.order(id), id));
        list.dedup();
        self.set_list(encoded, root, &list, REFUGE_MAX)?;
        self.mark_refuge(ids.into_iter(), true);
        Ok(())
    }

    /// Has nobody stand in the refuge.
    ///
    /// # Errors
    ///
    /// None: less room is always there.
    pub fn empty_refuge(&mut self, encoded: &Encoded) -> Result<(), BuildError> {
        let root = self.roots().refuge;
        let sheltered = self.list_at(root).to_vec();
        if !sheltered.is_empty() {
            self.set_list(encoded, root, &[], 0)?;
            self.mark_refuge(sheltered.into_iter(), false);
        }
        Ok(())
    }

    /// Takes the entries of a rule out of the refuge, if they are there.
    pub(super) fn leave_refuge(
        &mut self,
        encoded: &Encoded,
        ids: &Range<u32>,
    ) -> Result<(), BuildError> {
        if ids.clone().any(|id| self.stand(id).in_refuge) {
            self.delist(encoded, self.roots().refuge, ids)?;
            self.mark_refuge(ids.clone(), false);
        }
        Ok(())
    }

    fn mark_refuge(&mut self, ids: impl Iterator<Item = u32>, are_there: bool) {
        let Some(tending) = &mut self.tending else { return };
        ids.for_each(|id| tending.stands[id as usize].in_refuge = are_there);
    }

    /// Puts another list, of so many entries at most, behind a root that has no tree.
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
        self.tending.as_ref().map_or(0, |tending| tending.counts[root])
    }
}
