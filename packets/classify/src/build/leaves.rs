//! Lists of entries that are stored as leaves: equal ones once, in chunks that are used again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;

use crate::table::RULES_PER_CHUNK;

/// Which leaves there are, and where.
///
/// Readers of an earlier version must find its leaves unchanged. So a leaf never changes in place,
/// and chunks that it gives up are free only once the writer hands them to
/// [`reuse`](Self::reuse).
///
/// All lists are in one vector: after dropping hundreds of thousands of small allocations, other
/// threads would wait for the allocator.
#[derive(Debug)]
pub(super) struct Leaves {
    /// First chunks by the sums of lists. Of different lists with one sum, the first stands here,
    /// and the others are not shared.
    by_sum: Vec<HashMap<u64, usize>>,
    /// What each chunk lists: [`RULES_PER_CHUNK`] entries.
    ids: Vec<u32>,
    /// By the first chunk of a leaf.
    places: Vec<Place>,
    free: Free,
    /// Chunks given up in this turn.
    released: Vec<Run>,
    /// Where leaves stand now that have been moved in this turn, by where they stood.
    moved: HashMap<usize, usize>,
    /// How many turns have ended.
    turn: u64,
    /// Chunks that leaves take up.
    pub used: usize,
}

/// A large map takes long to grow; of many small ones one grows at a time.
const SHARDS: usize = 256;

/// Chunks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    start: usize,
    length: usize,
}

/// A leaf.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// How many entries it lists; none if no leaf begins here.
    length: u32,
    /// In how many cells it stands.
    cells: u32,
    /// Since which turn.
    since: u64,
}

/// Runs of unused chunks, none of which follows another.
#[derive(Debug, Default)]
struct Free {
    /// Lengths by first chunks.
    runs: BTreeMap<usize, usize>,
    /// Lengths and first chunks.
    by_length: BTreeSet<(usize, usize)>,
}

impl Default for Leaves {
    fn default() -> Self {
        Leaves {
            by_sum: (0..SHARDS).map(|_| HashMap::new()).collect(),
            ids: Vec::new(),
            places: Vec::new(),
            free: Free::default(),
            released: Vec::new(),
            moved: HashMap::new(),
            turn: 0,
            used: 0,
        }
    }
}

impl Leaves {
    /// Makes room for `chunks` more chunks.
    pub fn reserve(&mut self, chunks: usize) {
        self.ids.reserve(chunks * RULES_PER_CHUNK);
        self.places.reserve(chunks);
    }

    /// The first chunk of the leaf with this list, if there is one, for one cell more.
    pub fn share(&mut self, list: &[u32]) -> Option<usize> {
        let sum = sum(list);
        let chunk = *self.shard(sum).get(&sum)?;
        if self.list(chunk)? != list {
            return None;
        }
        self.places[chunk].cells += 1;
        Some(chunk)
    }

    /// Finds room for a leaf that there is not yet, for one cell; `end` is behind all chunks there
    /// are. Returns the first chunk.
    pub fn add(&mut self, list: &[u32], end: usize) -> usize {
        let chunks = list.len().div_ceil(RULES_PER_CHUNK);
        let chunk = self.free.take(chunks).unwrap_or(end);
        let behind = self.places.len().max(chunk + chunks);
        self.places.resize(behind, Place::default());
        self.ids.resize(behind * RULES_PER_CHUNK, 0);
        self.ids[chunk * RULES_PER_CHUNK..][..list.len()].copy_from_slice(list);
        self.places[chunk] = Place { length: list.len() as u32, cells: 1, since: self.turn };
        let sum = sum(list);
        self.shard(sum).entry(sum).or_insert(chunk);
        self.used += chunks;
        chunk
    }

    /// Finds other room for the leaf at a chunk, which is to be written anew, unless no earlier
    /// version has it. Returns its first chunk.
    pub fn renew(&mut self, chunk: usize, end: usize) -> usize {
        let Place { cells, since, .. } = self.places[chunk];
        if since == self.turn {
            return chunk;
        }
        let Some(list) = self.list(chunk).map(<[u32]>::to_vec) else { return chunk };
        self.give_up(chunk);
        let other = self.add(&list, end);
        self.places[other].cells = cells;
        self.moved.insert(chunk, other);
        other
    }

    /// Where the leaf stands now that stood at a chunk, if it has been moved.
    pub fn moved(&self, chunk: usize) -> Option<usize> {
        self.moved.get(&chunk).copied()
    }

    /// Ends a turn, and returns the chunks given up in it.
    pub fn end_turn(&mut self) -> Vec<Run> {
        self.turn += 1;
        self.moved.clear();
        mem::take(&mut self.released)
    }

    /// Takes back chunks that were given up.
    pub fn reuse(&mut self, run: Run) {
        self.free.give(run.start, run.length);
    }

    /// The list of the leaf that begins with a chunk.
    pub fn list(&self, chunk: usize) -> Option<&[u32]> {
        let length = self.places.get(chunk)?.length as usize;
        (length > 0).then(|| &self.ids[chunk * RULES_PER_CHUNK..][..length])
    }

    /// How many entries the leaves list that begin with a chunk or behind it.
    pub fn listed_from(&self, chunk: usize) -> usize {
        self.places.iter().skip(chunk).map(|place| place.length as usize).sum()
    }

    /// Takes a leaf out of one cell; it gives up its chunks when it is in no other.
    pub fn release(&mut self, chunk: usize) {
        if self.list(chunk).is_some() {
            self.places[chunk].cells -= 1;
            if self.places[chunk].cells == 0 {
                self.give_up(chunk);
            }
        }
    }

    /// Removes the leaf at a chunk, and releases its chunks.
    fn give_up(&mut self, chunk: usize) {
        let Some(list) = self.list(chunk) else { return };
        let (sum, length) = (sum(list), list.len().div_ceil(RULES_PER_CHUNK));
        let shard = self.shard(sum);
        if shard.get(&sum) == Some(&chunk) {
            shard.remove(&sum);
        }
        self.places[chunk] = Place::default();
        self.used -= length;
        self.released.push(Run { start: chunk, length });
    }

    fn shard(&mut self, sum: u64) -> &mut HashMap<u64, usize> {
        &mut self.by_sum[sum as usize % SHARDS]
    }
}

/// Different lists rarely have the same.
fn sum(list: &[u32]) -> u64 {
    let add = |sum: u64, id: &u32| {
        let product = u128::from(sum ^ u64::from(*id)) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    };
    list.iter().fold(0x2545_f491_4f6c_dd1d, add)
}

impl Free {
    /// The first of `chunks` consecutive chunks, taken from the shortest run that has them.
    fn take(&mut self, chunks: usize) -> Option<usize> {
        let &(length, start) = self.by_length.range((chunks, 0)..).next()?;
        self.remove(start, length);
        if length > chunks {
            self.insert(start + chunks, length - chunks);
        }
        Some(start)
    }

    fn give(&mut self, mut start: usize, mut length: usize) {
        if let Some((&before, &own)) = self.runs.range(..start).next_back()
            && before + own == start
        {
            self.remove(before, own);
            (start, length) = (before, length + own);
        }
        if let Some(&behind) = self.runs.get(&(start + length)) {
            self.remove(start + length, behind);
            length += behind;
        }
        self.insert(start, length);
    }

    fn insert(&mut self, start: usize, length: usize) {
        self.runs.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn remove(&mut self, start: usize, length: usize) {
        self.runs.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_share_a_leaf_until_no_cell_has_it() {
        let mut leaves = Leaves::default();
        assert_eq!(leaves.share(&[1, 2]), None);
        assert_eq!(leaves.add(&[1, 2], 1), 1);
        assert_eq!((leaves.share(&[1, 2]), leaves.used), (Some(1), 1));
        leaves.release(1);
        assert_eq!(leaves.list(1), Some(&[1, 2][..]));
        leaves.release(1);
        assert_eq!((leaves.list(1), leaves.used), (None, 0));
        assert_eq!(leaves.share(&[1, 2]), None);
        assert_eq!(leaves.add(&[6], 3), 3, "what was given up may still be looked at");
        leaves.end_turn().into_iter().for_each(|run| leaves.reuse(run));
        assert_eq!(leaves.add(&[7], 4), 1, "a free chunk comes first");
        assert_eq!(leaves.add(&[8; 9], 4), 4, "no run is long enough");
    }

    #[test]
    fn a_leaf_that_others_may_look_at_moves_once_a_turn() {
        let mut leaves = Leaves::default();
        leaves.add(&[1, 2], 1);
        leaves.share(&[1, 2]);
        assert_eq!(leaves.renew(1, 2), 1, "nobody has seen it");
        assert_eq!(leaves.end_turn(), []);
        assert_eq!((leaves.renew(1, 2), leaves.moved(1)), (2, Some(2)));
        assert_eq!((leaves.renew(2, 3), leaves.used), (2, 1));
        assert_eq!((leaves.list(1), leaves.list(2)), (None, Some(&[1, 2][..])));
        assert_eq!(leaves.end_turn(), [Run { start: 1, length: 1 }]);
        assert_eq!(leaves.moved(1), None);
        leaves.release(2);
        assert_eq!(leaves.list(2), Some(&[1, 2][..]), "the other cell has it");
        assert_eq!(leaves.share(&[1, 2]), Some(2));
    }

    #[test]
    fn free_runs_grow_together() {
        let mut free = Free::default();
        free.give(4, 2);
        free.give(8, 1);
        assert_eq!(free.take(3), None);
        free.give(6, 2);
        assert_eq!((free.runs.len(), free.take(5), free.take(1)), (1, Some(4), None));
    }
}
