//! Trees that have grown, and what it takes to change them entry by entry.
//!
//! A tree lists an entry only where it can be met: not behind one that hides it there. So who hides
//! whom, and where, is written down while a tree grows, and an entry that is taken out gives its
//! places back to those that it hid.

use std::ops::{Range, RangeInclusive};

use super::BuildError;
use super::encode::Encoded;
use super::leaves::{List, Run};
use super::tree::{Cell, Forest, Region, cells_of, leaf_entry};
use crate::table::{Entry, NODE_HEADER, Node, RULES_PER_CHUNK, rank_of};

/// What a forest remembers of how it grew.
#[derive(Debug, Default)]
pub(super) struct Tending {
    /// By the entry that hides: the entries hidden, and the cell in whose region.
    hidden: Vec<Vec<(Cell, u32)>>,
    /// For each entry the root of its tree; none if it is gone.
    homes: Vec<Option<u8>>,
    /// How many entries have their home at each root.
    counts: Vec<usize>,
    /// The root behind which those are listed besides that forsaken entries hide.
    refuge: usize,
    /// Entries that are gone and stay where they stand. Those that they hide there are found only
    /// by who meets one of them: wherever one stands or would stand, it has to be met.
    forsaken: Vec<u32>,
}

/// Words of a forest that have been written, and chunks that it does not need any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub index: Vec<Range<usize>>,
    pub chunks: Vec<Range<usize>>,
    /// To be given back with [`Forest::reuse`] when nobody looks at them any more.
    pub released: Vec<Run>,
}

/// What an entry in a tree would cost.
#[derive(Clone, Copy, Default)]
struct Survey {
    /// Cells looked at, whether the entry reaches them or not.
    visited: usize,
    cells: usize,
    /// Rules listed in those cells.
    rules: usize,
    longest: usize,
}

/// An entry that belongs to more cells of each tree is listed in the last, which has none.
const CELLS_MAX: usize = 64;
/// Nor does it pay to look at more cells.
const VISITED_MAX: usize = 1024;
/// A rule is broad if a change of it may have to write more cells: some tenths of a millisecond.
const BROAD: usize = 384;
/// Longer lists take no more entries.
const LIST_MAX: usize = 1024;
/// Lists of a power of two entries, of so many, are tried to be divided; longer ones would take too
/// long.
const DIVISIBLE: RangeInclusive<usize> = 32..=128;

impl Tending {
    /// Nothing yet of so many roots; the last is the refuge.
    pub fn of(roots: usize) -> Self {
        Tending { refuge: roots - 1, ..Tending::default() }
    }

    /// Notes that an entry is not listed in the region of a cell, since another hides it there.
    pub fn note(&mut self, hider: u32, hidden: u32, cell: Cell) {
        let behind = self.hidden.len().max(hider as usize + 1);
        self.hidden.resize_with(behind, Vec::new);
        self.hidden[hider as usize].push((cell, hidden));
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
            tending.homes.reserve(entries);
            tending.hidden.reserve(entries);
        }
    }

    /// Notes which tree entries were planted in.
    pub fn note_home(&mut self, root: usize, ids: &[u32]) {
        let Some(tending) = &mut self.tending else { return };
        let roots = tending.counts.len().max(root + 1);
        tending.counts.resize(roots, 0);
        tending.counts[root] += ids.len();
        for &id in ids {
            let end = tending.homes.len().max(id as usize + 1);
            tending.homes.resize(end, None);
            tending.homes[id as usize] = Some(root as u8);
        }
    }

    /// What has been written since this was last asked.
    pub fn take_edits(&mut self) -> Edits {
        Edits { released: self.leaves.end_turn(), ..std::mem::take(&mut self.edits) }
    }

    /// Takes back chunks that nobody looks at any more.
    pub fn reuse(&mut self, run: Run) {
        self.leaves.reuse(run);
    }

    /// Lists an entry in the tree where that costs least; in the last of the `roots`, which is one
    /// list, if it costs much everywhere or `only_last`.
    ///
    /// # Errors
    ///
    /// If a list would get too long; the entry is not in the forest then.
    pub fn insert(
        &mut self,
        encoded: &Encoded,
        id: u32,
        roots: usize,
        only_last: bool,
    ) -> Result<(), BuildError> {
        let last = roots - 1;
        let trees = if only_last { 0..0 } else { 0..last };
        let all = Region::all(encoded.words);
        let survey = |root| {
            let mut survey = Survey::default();
            let is_done = self.survey(encoded, id, root, &all, &mut survey);
            (is_done && survey.longest < LIST_MAX).then_some((survey.cells + survey.rules, root))
        };
        let root = trees.filter_map(survey).min().map_or(last, |(_, root)| root);
        self.note_home(root, &[id]);
        let cell = Cell { place: root as u32, node: 0 };
        let listed = self.list_below(encoded, id, cell, Some(&all), 0);
        if listed.is_err() {
            self.unlist_below(encoded, id, cell)?;
            self.forget(id);
        }
        listed
    }

    /// Takes entries out of their trees.
    ///
    /// # Errors
    ///
    /// If lists of entries that they hid would get too long; they are still there then.
    pub fn remove(&mut self, encoded: &Encoded, ids: Range<u32>) -> Result<(), BuildError> {
        // First those that they hide: as long as they are there, nobody meets those.
        for id in ids.clone() {
            for (cell, hidden) in self.hidden_by(id).to_vec() {
                if self.home(hidden).is_some() {
                    self.list_below(encoded, hidden, cell, None, 0)?;
                }
            }
        }
        for id in ids {
            let Some(root) = self.home(id) else { continue };
            for root in [Some(root.into()), self.refuge()].into_iter().flatten() {
                self.unlist_below(encoded, id, Cell { place: root as u32, node: 0 })?;
            }
            self.forget(id);
        }
        Ok(())
    }

    /// Writes an entry anew, whose rank or result has changed. Among the others it stays where it
    /// is.
    ///
    /// # Errors
    ///
    /// If there is no room for leaves to be written anew.
    pub fn rewrite(&mut self, encoded: &Encoded, id: u32) -> Result<(), BuildError> {
        let Some(home) = self.home(id) else { return Ok(()) };
        let roots = [Some(home.into()), self.refuge()];
        roots.into_iter().flatten().try_for_each(|root| self.rewrite_below(encoded, id, root))
    }

    /// Whether a rule of these entries stands in many cells; or, if it is to go, whether those that
    /// it hides would.
    pub fn is_broad(&self, encoded: &Encoded, ids: Range<u32>, goes: bool) -> bool {
        let mut left = BROAD;
        !ids.into_iter().all(|id| {
            let own = self.home(id).map(|root| (root.into(), id));
            let hidden = self.hidden_by(id).iter().filter(|_| goes);
            let mut places = own.into_iter().chain(hidden.map(|&(cell, id)| (cell.place, id)));
            places.all(|(place, id)| self.affords(encoded, id, place as usize, &mut left))
        })
    }

    /// Takes from what is left the cells below a place that an entry belongs to; false if they are
    /// more.
    fn affords(&self, encoded: &Encoded, id: u32, place: usize, left: &mut usize) -> bool {
        let Some(at) = self.node_at(place) else {
            let enough = *left > 0;
            *left -= usize::from(enough);
            return enough;
        };
        let mut cells = cells_of(encoded, id, Node::at(&self.index, at).parts());
        cells.all(|cell| self.affords(encoded, id, at + NODE_HEADER + cell, left))
    }

    /// Leaves entries where they stand, for lookups to pass over: those that they hide are listed
    /// at a root of their own.
    ///
    /// # Errors
    ///
    /// If that list would get too long; nothing has changed then.
    pub fn forsake(&mut self, encoded: &Encoded, ids: Range<u32>) -> Result<(), BuildError> {
        let refuge = self.refuge();
        let hidden = ids.clone().flat_map(|id| self.hidden_by(id)).map(|&(_, hidden)| hidden);
        let hidden = hidden.filter(|&id| self.home(id).is_some());
        if let Some((refuge, at)) = refuge.and_then(|root| Some((root, self.node_at(root)?))) {
            let place = at + NODE_HEADER;
            let mut list: Vec<u32> = self.list(place).iter().copied().chain(hidden).collect();
            list.sort_unstable_by_key(|&id| (encoded.ranks[id as usize], id));
            list.dedup();
            if let Some(&strongest) = list.first() {
                let entry = self.leaf(encoded, &list)?;
                self.replace(Cell { place: place as u32, node: at as u32 }, entry);
                self.put(refuge, Entry::node(encoded.ranks[strongest as usize], at));
            }
        }
        if let Some(tending) = &mut self.tending {
            tending.forsaken.extend(ids);
        }
        Ok(())
    }

    /// How many entries have their home at a root.
    pub fn count_at(&self, root: usize) -> usize {
        let count = self.tending.as_ref().and_then(|tending| tending.counts.get(root));
        count.copied().unwrap_or(0)
    }

    fn refuge(&self) -> Option<usize> {
        self.tending.as_ref().map(|tending| tending.refuge)
    }

    /// How many entries are listed in the refuge.
    pub fn sheltered(&self) -> usize {
        let cell = self.refuge().and_then(|root| self.node_at(root)).map(|at| at + NODE_HEADER);
        cell.map_or(0, |place| self.list(place).len())
    }

    /// What an entry hides, and in which cells.
    fn hidden_by(&self, id: u32) -> &[(Cell, u32)] {
        let hidden = self.tending.as_ref().and_then(|tending| tending.hidden.get(id as usize));
        hidden.map_or(&[], Vec::as_slice)
    }

    fn home(&self, id: u32) -> Option<u8> {
        *self.tending.as_ref()?.homes.get(id as usize)?
    }

    fn forget(&mut self, id: u32) {
        let Some(tending) = &mut self.tending else { return };
        if let Some(root) = tending.homes[id as usize].take() {
            tending.counts[usize::from(root)] -= 1;
        }
        if let Some(hidden) = tending.hidden.get_mut(id as usize) {
            *hidden = Vec::new();
        }
    }

    fn entry(&self, place: usize) -> Entry {
        Entry(self.index[place])
    }

    fn node_at(&self, place: usize) -> Option<usize> {
        self.entry(place).as_node()
    }

    /// The cells of a node that an entry belongs to, and the region of each.
    fn cells_below(
        &self,
        encoded: &Encoded,
        id: u32,
        at: usize,
        region: Option<&Region>,
    ) -> Vec<(Cell, Option<Region>)> {
        let parts = Node::at(&self.index, at).parts();
        let below = |index| {
            let cell = Cell { place: (at + NODE_HEADER + index) as u32, node: at as u32 };
            let Some(region) = region else { return Some((cell, None)) };
            let below = region.below(parts, index);
            self.reaches(encoded, id, &below).then_some((cell, Some(below)))
        };
        cells_of(encoded, id, parts).filter_map(below).collect()
    }

    /// The list that a place leads to, which is no node.
    fn list(&self, place: usize) -> &[u32] {
        let entry = self.entry(place);
        if entry == Entry::EMPTY || entry.is_node() {
            return &[];
        }
        self.leaves.list(entry.chunk()).map_or(&[], |list| &**list)
    }

    /// Adds up what it would cost to list an entry; false if that is too much.
    fn survey(
        &self,
        encoded: &Encoded,
        id: u32,
        place: usize,
        region: &Region,
        survey: &mut Survey,
    ) -> bool {
        let Some(at) = self.node_at(place) else {
            let rules = self.list(place).len();
            survey.cells += 1;
            survey.rules += rules;
            survey.longest = survey.longest.max(rules);
            return survey.cells <= CELLS_MAX;
        };
        let parts = Node::at(&self.index, at).parts();
        cells_of(encoded, id, parts).all(|index| {
            let below = region.below(parts, index);
            survey.visited += 1;
            survey.visited <= VISITED_MAX
                && (!self.reaches(encoded, id, &below)
                    || self.survey(encoded, id, at + NODE_HEADER + index, &below, survey))
        })
    }

    /// Lists an entry in all leaves below a cell that it belongs to. Of a cell whose region is not
    /// known, it is taken to reach all parts.
    fn list_below(
        &mut self,
        encoded: &Encoded,
        id: u32,
        cell: Cell,
        region: Option<&Region>,
        depth: usize,
    ) -> Result<(), BuildError> {
        let place = cell.place as usize;
        let rank = encoded.ranks[id as usize];
        if let Some(at) = self.node_at(place) {
            if rank < rank_of(self.index[place]) {
                self.put(place, Entry::node(rank, at));
            }
            for (cell, region) in self.cells_below(encoded, id, at, region) {
                self.list_below(encoded, id, cell, region.as_ref(), depth + 1)?;
            }
            return Ok(());
        }
        let list = self.list(place);
        if list.contains(&id) {
            return Ok(());
        }
        let stronger = list.partition_point(|&other| encoded.ranks[other as usize] <= rank);
        let with = [&list[..stronger], &[id], &list[stronger..]].concat();
        let entry = match region {
            Some(region) if self.is_divisible(&with) => {
                let from = self.index.len();
                let entry = self.grow(encoded, with, region, depth, cell)?;
                self.edits.index.push(from..self.index.len());
                entry
            }
            _ => self.leaf(encoded, &with)?,
        };
        self.replace(cell, entry);
        Ok(())
    }

    /// Whether it pays to look for bits that tell a list apart. What is forsaken has to stay in it,
    /// and to hide nobody else.
    fn is_divisible(&self, list: &[u32]) -> bool {
        let forsaken = self.tending.as_ref().map_or(&[][..], |tending| &tending.forsaken);
        DIVISIBLE.contains(&list.len())
            && list.len().is_power_of_two()
            && !list.iter().any(|id| forsaken.contains(id))
    }

    fn unlist_below(&mut self, encoded: &Encoded, id: u32, cell: Cell) -> Result<(), BuildError> {
        let place = cell.place as usize;
        if let Some(at) = self.node_at(place) {
            for (cell, _) in self.cells_below(encoded, id, at, None) {
                self.unlist_below(encoded, id, cell)?;
            }
            return Ok(());
        }
        let list = self.list(place);
        if !list.contains(&id) {
            return Ok(());
        }
        let without: Vec<u32> = list.iter().copied().filter(|&other| other != id).collect();
        let entry = match without.is_empty() {
            true => Entry::EMPTY,
            false => self.leaf(encoded, &without)?,
        };
        self.replace(cell, entry);
        Ok(())
    }

    fn rewrite_below(
        &mut self,
        encoded: &Encoded,
        id: u32,
        place: usize,
    ) -> Result<(), BuildError> {
        if let Some(at) = self.node_at(place) {
            let rank = encoded.ranks[id as usize];
            if rank < rank_of(self.index[place]) {
                self.put(place, Entry::node(rank, at));
            }
            for (cell, _) in self.cells_below(encoded, id, at, None) {
                self.rewrite_below(encoded, id, cell.place as usize)?;
            }
            return Ok(());
        }
        // Of cells that share a leaf, the first has it written, and the others find it.
        let old = self.entry(place);
        let moved = self.leaves.moved(old.chunk());
        let list = self.leaves.list(moved.unwrap_or(old.chunk()));
        let Some(list) = list.filter(|list| list.contains(&id)).cloned() else { return Ok(()) };
        let entry = match moved {
            Some(chunk) => leaf_entry(encoded, &list, chunk)?,
            None => self.renew(encoded, &list)?,
        };
        if entry != old {
            self.put(place, entry);
        }
        Ok(())
    }

    /// Writes a leaf anew, in other chunks if somebody may look at it.
    fn renew(&mut self, encoded: &Encoded, list: &List) -> Result<Entry, BuildError> {
        let end = self.end_chunk();
        leaf_entry(encoded, list, end)?;
        let chunk = self.leaves.renew(list, list.len().div_ceil(RULES_PER_CHUNK), end);
        self.fill(encoded, list, chunk);
        leaf_entry(encoded, list, chunk)
    }

    /// Leads a cell to another leaf, or to a node in its stead.
    fn replace(&mut self, cell: Cell, entry: Entry) {
        let place = cell.place as usize;
        let old = self.entry(place);
        if old != Entry::EMPTY {
            self.leaves.release(old.chunk(), old.further_chunks() + 1);
        }
        self.put(place, entry);
        let header = cell.node as usize + NODE_HEADER - 1;
        if (entry.is_node() || entry.is_long())
            && !Node::at(&self.index, cell.node as usize).leads_on()
        {
            self.index[header] |= Node::LEADS_ON;
            self.edits.index.push(header..header + 1);
        }
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.index[place] = entry.0;
        self.edits.index.push(place..place + 1);
    }
}
