//! Trees that have grown, and what it takes to change them entry by entry.
//!
//! A tree lists an entry only where it can be met: not behind one that hides it there. So who hides
//! whom, and where, is written down while a tree grows, and an entry that is taken out gives its
//! places back to those that it hid. Where that would be too much at once, the entry stays where it
//! stands for now, and those that it hides are found in a tree of their own, the reserve.

use std::cell::Cell as Count;
use std::collections::HashMap;
use std::ops::Range;

use super::BuildError;
use super::chores::Chores;
use super::encode::Encoded;
use super::group::{Group, Wide};
use super::leaves::Run;
use super::lists::{Place, Roots};
use super::tree::{Cell, Forest, Region};
use super::walk::Walk;

/// What a forest remembers of how it grew.
#[derive(Debug)]
pub(super) struct Tending {
    hidings: Hidings,
    pub stands: Vec<Stand>,
    /// How many entries have their home at each root.
    pub counts: Vec<usize>,
    pub roots: Roots,
    /// The fields that tell rules apart, and which of them those of each tree fix.
    wide: Wide,
    fixed: Vec<u32>,
    pub chores: Chores,
    /// Cells looked at and rules written, since somebody asked.
    work: Count<usize>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stand {
    /// The root of its tree or list; none if it is gone from there.
    pub home: Option<u8>,
    /// It stands in the reserve besides.
    pub in_reserve: bool,
    /// It is listed in the refuge besides.
    pub in_refuge: bool,
    /// It stands in a list until this tree has it.
    pub goal: Option<Goal>,
    /// It is there for lookups to pass over.
    pub is_gone: bool,
    /// All that it hides stand in the reserve.
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
    /// To be given back with [`Forest::reuse`] when nobody looks at them any more.
    pub released: Vec<Run>,
}

impl Tending {
    /// Nothing yet of so many roots.
    pub fn of(roots: usize, wide: &Wide) -> Self {
        Tending {
            hidings: Hidings::default(),
            stands: Vec::new(),
            counts: vec![0; roots],
            roots: Roots::of(roots),
            wide: wide.clone(),
            fixed: Vec::new(),
            chores: Chores::default(),
            work: Count::new(0),
        }
    }

    /// Notes that an entry is not listed in the region of a cell, since another hides it there.
    pub fn note(&mut self, hider: u32, hidden: u32, cell: Cell) {
        self.hidings.noted.push((hider, (cell, hidden)));
    }

    /// The same of an entry that has come since the trees have grown.
    pub fn note_since(&mut self, hider: u32, hidden: impl Iterator<Item = u32>, cell: Cell) {
        let hidden = hidden.map(|hidden| (cell, hidden));
        self.hidings.added.entry(hider).or_default().extend(hidden);
    }
}

/// Who hides whom.
#[derive(Debug, Default)]
struct Hidings {
    /// Who hides, who is hidden, and the cell in whose region, as trees grow.
    noted: Vec<(u32, (Cell, u32))>,
    /// The same when they have grown, by who hides.
    sorted: Vec<(Cell, u32)>,
    /// Where the part of each entry begins, and at last where all end.
    starts: Vec<usize>,
    /// The same of those who have come since.
    added: HashMap<u32, Vec<(Cell, u32)>>,
}

impl Hidings {
    /// Sorts what has been noted of so many entries.
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
    /// Has trees grow beyond the limits that they were planted with, by so many entries and words
    /// of chunks without a search for room.
    pub fn lift_limits(&mut self, entries: usize, words: usize) {
        self.limits.table_bytes = usize::MAX;
        self.take_edits();
        self.index.reserve(words);
        self.chunks.reserve(words);
        self.leaves.reserve(words / self.shape.chunk_words());
        if let Some(tending) = &mut self.tending {
            tending.stands.reserve(entries);
        }
    }

    /// Plants the reserve, a tree of all entries that broad rules hide somewhere; nobody hides
    /// another in it. Only who has met a rule that is gone looks there. `rules` has the entries of
    /// each rule. From now on, nobody hides another where leaves are divided.
    ///
    /// # Errors
    ///
    /// If there are too many chunks.
    pub fn plant_reserve(
        &mut self,
        encoded: &Encoded,
        rules: impl Iterator<Item = Range<u32>>,
    ) -> Result<(), BuildError> {
        if let Some(tending) = &mut self.tending {
            tending.hidings.sort(encoded.len());
        }
        let hides = |ids: &Range<u32>| ids.clone().any(|id| !self.hidden_by(id).is_empty());
        let is_broad = |ids: &Range<u32>| hides(ids) && self.is_broad(encoded, ids.clone(), true);
        let covered: Vec<u32> = rules.filter(is_broad).flatten().collect();
        (self.hides, self.copies_until) = (false, self.bytes() + self.bytes() / 2);
        let Some(Tending { hidings, stands, roots, .. }) = &mut self.tending else { return Ok(()) };
        for id in covered {
            stands[id as usize].is_covered = true;
            for &(_, hidden) in hidings.of(id) {
                stands[hidden as usize].in_reserve = true;
            }
        }
        let in_reserve = |id: &u32| stands[*id as usize].in_reserve;
        let ids: Vec<u32> = (0..encoded.len() as u32).filter(in_reserve).collect();
        let root = roots.reserve;
        self.plant(encoded, root, &ids)?;
        self.copies_until = usize::MAX;
        Ok(())
    }

    /// Notes which tree the entries of a group have come to; of all trees, one after the other.
    pub(super) fn note_tree(&mut self, root: usize, group: &Group) {
        if let Some(tending) = &mut self.tending {
            tending.fixed.push(group.fixed);
        }
        self.note_home(root, group.ids.iter().copied());
    }

    /// The tree that looks at no field that an entry leaves free, and at most of the others.
    pub(super) fn tree_for(&self, encoded: &Encoded, id: u32) -> Option<usize> {
        let Tending { wide, fixed, .. } = self.tending.as_ref()?;
        let own = wide.fixed(encoded, id);
        let trees = fixed.iter().enumerate().filter(|(_, fixed)| *fixed & !own == 0);
        trees.max_by_key(|(_, fixed)| fixed.count_ones()).map(|(root, _)| root)
    }

    /// Notes which tree or list entries have come to.
    pub fn note_home(&mut self, root: usize, ids: impl ExactSizeIterator<Item = u32>) {
        let Some(tending) = &mut self.tending else { return };
        tending.counts[root] += ids.len();
        for id in ids {
            let end = tending.stands.len().max(id as usize + 1);
            tending.stands.resize(end, Stand::default());
            tending.stands[id as usize].home = Some(root as u8);
        }
    }

    /// What has been written since this was last asked.
    pub fn take_edits(&mut self) -> Edits {
        Edits { released: self.leaves.end_turn(), ..std::mem::take(&mut self.edits) }
    }

    /// How many cells have been looked at, and rules written, since this was last asked.
    pub fn take_work(&mut self) -> usize {
        self.tending.as_ref().map_or(0, |tending| tending.work.take())
    }

    /// How many there have been so far.
    pub(super) fn work(&self) -> usize {
        self.tending.as_ref().map_or(0, |tending| tending.work.get())
    }

    /// Counts cells looked at, or rules written.
    pub(super) fn count_work(&self, more: usize) {
        if let Some(tending) = &self.tending {
            tending.work.set(tending.work.get() + more);
        }
    }

    /// Takes back chunks that nobody looks at any more.
    pub fn reuse(&mut self, run: Run) {
        self.leaves.reuse(run);
    }

    /// Lists the entries of a rule in the trees where that costs least; behind them if that is
    /// wanted, or until trees have them if it costs much everywhere.
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
                self.plan_planting(encoded, ids);
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
            // First those that they hide: as long as they are there, nobody meets those.
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
        self.leave_refuge(encoded, &ids)?;
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
        if let Some(sheltered) = ids.clone().find(|&id| self.stand(id).in_refuge)
            && let Some(tending) = &self.tending
        {
            self.rewrite_in(encoded, sheltered, tending.roots.refuge)?;
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

    /// Leaves the entries of a rule where they stand, for lookups to pass over until they have been
    /// swept out: those that they hide are listed in the refuge, but for those that stand in the
    /// reserve.
    ///
    /// # Errors
    ///
    /// If that list would get too long; nothing has changed then.
    pub fn forsake(&mut self, encoded: &Encoded, ids: Range<u32>) -> Result<(), BuildError> {
        let uncovered = ids.clone().filter(|&id| !self.stand(id).is_covered);
        let hidden = uncovered.flat_map(|id| self.hidden_by(id)).map(|&(_, hidden)| hidden);
        let alone = |id: &u32| {
            let stand = self.stand(*id);
            stand.home.is_some() && !stand.in_reserve && !stand.in_refuge
        };
        let hidden: Vec<u32> = hidden.filter(alone).collect();
        self.shelter(encoded, hidden)?;
        if let Some(list) = self.list_of(ids.start) {
            self.delist_to_trees(encoded, list, &ids)?;
        }
        ids.clone().for_each(|id| self.stand_mut(id, |stand| stand.is_gone = true));
        self.plan_sweep(ids);
        Ok(())
    }

    /// What an entry hides, and in which cells.
    pub(super) fn hidden_by(&self, id: u32) -> &[(Cell, u32)] {
        let tending = self.tending.as_ref().filter(|_| self.stand(id).home.is_some());
        tending.map_or(&[], |tending| tending.hidings.of(id))
    }

    pub(super) fn stand(&self, id: u32) -> Stand {
        let stand = self.tending.as_ref().and_then(|tending| tending.stands.get(id as usize));
        stand.copied().unwrap_or_default()
    }

    pub(super) fn stand_mut(&mut self, id: u32, change: impl FnOnce(&mut Stand)) {
        let stands = self.tending.as_mut().map(|tending| &mut tending.stands);
        stands.and_then(|stands| stands.get_mut(id as usize)).map(change);
    }

    /// The roots of the trees that an entry stands in.
    pub(super) fn trees_of(&self, id: u32) -> impl Iterator<Item = usize> + use<> {
        let stand = self.stand(id);
        let reserve = self.tending.as_ref().map(|tending| tending.roots.reserve);
        let own = stand.home.map(usize::from);
        own.into_iter().chain(reserve.filter(|_| own.is_some() && stand.in_reserve))
    }

    /// Has an entry stand nowhere.
    pub(super) fn forget(&mut self, id: u32) {
        if let Some(root) = self.stand(id).home {
            self.uncount(root.into());
        }
        self.stand_mut(id, |stand| *stand = Stand::default());
        if let Some(tending) = &mut self.tending {
            tending.hidings.added.remove(&id);
        }
    }

    /// Notes that an entry has its home no more at a root.
    pub(super) fn uncount(&mut self, root: usize) {
        if let Some(tending) = &mut self.tending {
            tending.counts[root] -= 1;
        }
    }
}
