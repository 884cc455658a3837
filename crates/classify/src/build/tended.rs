//! Trees that have grown, and what it takes to change them entry by entry.
//!
//! A tree lists an entry only where it can be met: not behind one that hides it there. So who hides
//! whom, and where, is written down while a tree grows, and an entry that is taken out gives its
//! places back to those that it hid. Where that would be too much, the entry stays where it stands,
//! and those that it hides are found in a tree of their own, the reserve.

use std::cell::Cell as Count;
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::BuildError;
use super::encode::Encoded;
use super::leaves::Run;
use super::lists::{Place, Roots};
use super::tree::{Cell, Forest, Region, cells_of, leaf_entry};
use crate::table::{Entry, NODE_HEADER, Node, rank_of};

/// What a forest remembers of how it grew.
#[derive(Debug)]
pub(super) struct Tending {
    hidings: Hidings,
    pub stands: Vec<Stand>,
    /// How many entries have their home at each root.
    pub counts: Vec<usize>,
    pub roots: Roots,
    /// Leaves that have grown long since the trees were planted.
    ripe: VecDeque<Ripe>,
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
    /// All that it hides stand in the reserve.
    is_covered: bool,
}

/// A leaf to be divided.
#[derive(Debug)]
struct Ripe {
    cell: Cell,
    region: Region,
    depth: usize,
}

/// Words of a forest that have been written, and chunks that it does not need any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub index: Vec<Range<usize>>,
    pub chunks: Vec<Range<usize>>,
    /// To be given back with [`Forest::reuse`] when nobody looks at them any more.
    pub released: Vec<Run>,
}

/// Leaves of a power of two entries, of so many, are tried to be divided; longer ones would take
/// too long.
const DIVISIBLE: RangeInclusive<usize> = 32..=128;
/// So many words of entries are the most that are divided: keys may be long.
const DIVISIBLE_WORDS: usize = 512;
/// So many leaves wait to be divided, one with each change.
const RIPE_MAX: usize = 1024;

impl Tending {
    /// Nothing yet of so many roots.
    pub fn of(roots: usize) -> Self {
        Tending {
            hidings: Hidings::default(),
            stands: Vec::new(),
            counts: vec![0; roots],
            roots: Roots::of(roots),
            ripe: VecDeque::new(),
            work: Count::new(0),
        }
    }

    /// Notes that an entry is not listed in the region of a cell, since another hides it there.
    pub fn note(&mut self, hider: u32, hidden: u32, cell: Cell) {
        self.hidings.noted.push((hider, (cell, hidden)));
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
        let bounds = self.starts.get(hider as usize..hider as usize + 2);
        bounds.map_or(&[], |bounds| &self.sorted[bounds[0]..bounds[1]])
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

    /// Lists the entries of a rule in the trees where that costs least; behind them if it costs
    /// much everywhere, or is wanted there.
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
        let Some(roots) = roots else { return self.enlist(encoded, ids, place) };
        let all = Region::all(encoded.words);
        for (id, root) in ids.clone().zip(roots) {
            self.note_home(root, [id].into_iter());
            let cell = Cell { place: root as u32, node: 0 };
            if let Err(error) = self.list_below(encoded, id, cell, Some(&all), 0) {
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
                        self.list_below(encoded, hidden, cell, None, 0)?;
                    }
                }
            }
            for id in ids.clone() {
                for root in self.trees_of(id) {
                    self.unlist_below(encoded, id, Cell { place: root as u32, node: 0 })?;
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
            self.rewrite_below(encoded, sheltered, tending.roots.refuge)?;
        }
        if let Some(root) = self.list_of(ids.start) {
            // All of them stand in one leaf.
            return self.rewrite_below(encoded, ids.start, root);
        }
        ids.try_for_each(|id| {
            let mut trees = self.trees_of(id);
            trees.try_for_each(|root| self.rewrite_below(encoded, id, root))
        })
    }

    /// Leaves the entries of a rule where they stand, for lookups to pass over: those that they
    /// hide are listed in the refuge, but for those that stand in the reserve.
    ///
    /// # Errors
    ///
    /// If that list would get too long; nothing has changed then.
    pub fn forsake(&mut self, encoded: &Encoded, ids: Range<u32>) -> Result<(), BuildError> {
        let uncovered = ids.filter(|&id| !self.stand(id).is_covered);
        let hidden = uncovered.flat_map(|id| self.hidden_by(id)).map(|&(_, hidden)| hidden);
        let alone = |id: &u32| {
            let stand = self.stand(*id);
            stand.home.is_some() && !stand.in_reserve && !stand.in_refuge
        };
        let hidden: Vec<u32> = hidden.filter(alone).collect();
        self.shelter(encoded, hidden)
    }

    /// Divides one of the leaves that have grown long, if there is one. Where that cannot be done,
    /// it stays as it is.
    pub fn divide_one(&mut self, encoded: &Encoded) {
        let ripe = self.tending.as_mut().and_then(|tending| tending.ripe.pop_front());
        let Some(Ripe { cell, region, depth }) = ripe else { return };
        let list = self.list(cell.place as usize).to_vec();
        if !DIVISIBLE.contains(&list.len()) || list.len() * encoded.words > DIVISIBLE_WORDS {
            return;
        }
        // By one node: nodes behind it would multiply what this costs.
        self.depth_max = depth + 1;
        let from = self.index.len();
        if let Ok(entry) = self.grow(encoded, list, &region, depth, cell) {
            self.edits.index.push(from..self.index.len());
            self.replace(cell, entry);
        }
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

    /// The roots of the trees that an entry stands in.
    pub(super) fn trees_of(&self, id: u32) -> impl Iterator<Item = usize> + use<> {
        let stand = self.stand(id);
        let reserve = self.tending.as_ref().map(|tending| tending.roots.reserve);
        let own = stand.home.map(usize::from);
        own.into_iter().chain(reserve.filter(|_| own.is_some() && stand.in_reserve))
    }

    fn forget(&mut self, id: u32) {
        let Some(tending) = &mut self.tending else { return };
        let stand = tending.stands.get_mut(id as usize).map(std::mem::take).unwrap_or_default();
        if let Some(root) = stand.home {
            tending.counts[usize::from(root)] -= 1;
        }
    }

    fn entry(&self, place: usize) -> Entry {
        Entry(self.index[place])
    }

    pub(super) fn node_at(&self, place: usize) -> Option<usize> {
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
        let looked_at = cells_of(encoded, id, parts).inspect(|_| self.count_work(1));
        looked_at.filter_map(below).collect()
    }

    /// The list that a place leads to, which is no node.
    pub(super) fn list(&self, place: usize) -> &[u32] {
        let entry = self.entry(place);
        if entry == Entry::EMPTY || entry.is_node() {
            return &[];
        }
        self.leaves.list(entry.chunk()).unwrap_or_default()
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
        let own = encoded.order(id);
        let stronger = list.partition_point(|&other| encoded.order(other) <= own);
        let with = [&list[..stronger], &[id], &list[stronger..]].concat();
        if let (Some(region), Some(tending)) = (region, &mut self.tending)
            && with.len().is_power_of_two()
            && DIVISIBLE.contains(&with.len())
            && tending.ripe.len() < RIPE_MAX
        {
            tending.ripe.push_back(Ripe { cell, region: region.clone(), depth });
        }
        let entry = self.leaf(encoded, &with)?;
        self.replace(cell, entry);
        Ok(())
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
        let chunk = moved.unwrap_or(old.chunk());
        let list = self.leaves.list(chunk).filter(|list| list.contains(&id));
        let Some(list) = list.map(<[u32]>::to_vec) else { return Ok(()) };
        let entry = match moved {
            Some(chunk) => leaf_entry(encoded, &list, chunk)?,
            None => self.renew(encoded, &list, chunk)?,
        };
        if entry != old {
            self.put(place, entry);
        }
        Ok(())
    }

    /// Writes the leaf at a chunk anew, in other chunks if somebody may look at it.
    fn renew(
        &mut self,
        encoded: &Encoded,
        list: &[u32],
        chunk: usize,
    ) -> Result<Entry, BuildError> {
        let end = self.end_chunk();
        leaf_entry(encoded, list, end)?;
        self.count_work(list.len());
        let chunk = self.leaves.renew(chunk, end);
        self.fill(encoded, list, chunk);
        leaf_entry(encoded, list, chunk)
    }

    /// Leads a cell to another leaf, or to a node in its stead.
    pub(super) fn replace(&mut self, cell: Cell, entry: Entry) {
        let place = cell.place as usize;
        let old = self.entry(place);
        if old != Entry::EMPTY {
            self.leaves.release(old.chunk());
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

    pub(super) fn put(&mut self, place: usize, entry: Entry) {
        self.index[place] = entry.0;
        self.edits.index.push(place..place + 1);
    }
}
