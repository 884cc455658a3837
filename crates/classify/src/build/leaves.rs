//! Lists of entries that are stored as leaves: equal ones once, in chunks that are used again.

use std::array;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Entries of a leaf, the strongest first.
pub(super) type List = Arc<[u32]>;

/// Which leaves there are, and where.
///
/// Who looks at leaves of an earlier version must find them as they were. So a leaf does not change
/// where it stands, and chunks that it gives up are free only when whoever tends the trees says so.
#[derive(Debug)]
pub(super) struct Leaves {
    by_list: [HashMap<List, Place>; SHARDS],
    /// By the first chunk.
    by_chunk: Vec<Option<List>>,
    free: Free,
    /// Chunks given up since somebody asked.
    released: Vec<Run>,
    /// Where leaves stand now that have been moved since then, by where they stood.
    moved: HashMap<usize, usize>,
    /// How often somebody has asked.
    turn: u64,
    /// Chunks that leaves take up.
    pub used: usize,
}

/// A large map takes milliseconds to grow; of many small ones one grows at a time.
const SHARDS: usize = 64;

/// Chunks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    start: usize,
    length: usize,
}

/// Where a leaf stands, and in how many cells.
#[derive(Debug)]
struct Place {
    chunk: usize,
    cells: usize,
    /// Since which turn.
    since: u64,
}

/// Runs of chunks that nobody uses, none of which follows another.
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
            by_list: array::from_fn(|_| HashMap::new()),
            by_chunk: Vec::new(),
            free: Free::default(),
            released: Vec::new(),
            moved: HashMap::new(),
            turn: 0,
            used: 0,
        }
    }
}

impl Leaves {
    /// Makes room for so many more chunks.
    pub fn reserve(&mut self, chunks: usize) {
        self.by_chunk.reserve(chunks);
    }

    /// The first chunk of the leaf with this list, if there is one, for one cell more.
    pub fn share(&mut self, list: &[u32]) -> Option<usize> {
        let place = self.shard(list).get_mut(list)?;
        place.cells += 1;
        Some(place.chunk)
    }

    /// Finds room for a leaf that there is not yet, for one cell; `end` is behind all chunks there
    /// are. Returns the first chunk.
    pub fn add(&mut self, list: &[u32], chunks: usize, end: usize) -> usize {
        let chunk = self.free.take(chunks).unwrap_or(end);
        self.put(list.into(), chunk, 1);
        self.used += chunks;
        chunk
    }

    /// Finds other room for a leaf whose chunks are to be written anew, unless no earlier version
    /// has it. Returns its first chunk.
    pub fn renew(&mut self, list: &List, chunks: usize, end: usize) -> usize {
        let turn = self.turn;
        let Some(&Place { chunk, cells, since }) = self.shard(list).get(list) else { return end };
        if since == turn {
            return chunk;
        }
        let other = self.free.take(chunks).unwrap_or(end);
        self.by_chunk[chunk] = None;
        self.released.push(Run { start: chunk, length: chunks });
        self.moved.insert(chunk, other);
        self.put(Arc::clone(list), other, cells);
        other
    }

    /// Where the leaf stands now that stood at a chunk, if it has been moved.
    pub fn moved(&self, chunk: usize) -> Option<usize> {
        self.moved.get(&chunk).copied()
    }

    /// Ends a turn: what stands where has got to an end. Returns the chunks given up in it.
    pub fn end_turn(&mut self) -> Vec<Run> {
        self.turn += 1;
        self.moved.clear();
        std::mem::take(&mut self.released)
    }

    /// Takes back chunks that were given up.
    pub fn reuse(&mut self, run: Run) {
        self.free.give(run.start, run.length);
    }

    /// The list of the leaf that begins with a chunk.
    pub fn list(&self, chunk: usize) -> Option<&List> {
        self.by_chunk.get(chunk)?.as_ref()
    }

    /// Takes a leaf out of one cell; it gives up its chunks when it is in no other.
    pub fn release(&mut self, chunk: usize, chunks: usize) {
        let Some(list) = self.list(chunk).cloned() else { return };
        let shard = self.shard(&list);
        if let Some(place) = shard.get_mut(&list) {
            place.cells -= 1;
            if place.cells > 0 {
                return;
            }
        }
        shard.remove(&list);
        self.by_chunk[chunk] = None;
        self.used -= chunks;
        self.released.push(Run { start: chunk, length: chunks });
    }

    fn put(&mut self, list: List, chunk: usize, cells: usize) {
        let behind = self.by_chunk.len().max(chunk + 1);
        self.by_chunk.resize(behind, None);
        self.by_chunk[chunk] = Some(Arc::clone(&list));
        let place = Place { chunk, cells, since: self.turn };
        self.shard(&list).insert(list, place);
    }

    fn shard(&mut self, list: &[u32]) -> &mut HashMap<List, Place> {
        let sum = list.iter().fold(0, |sum: u32, id| sum.rotate_left(5) ^ id);
        &mut self.by_list[sum as usize % SHARDS]
    }
}

impl Free {
    /// The first chunk of a run of so many, from the shortest that has them.
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
        assert_eq!(leaves.add(&[1, 2], 2, 1), 1);
        assert_eq!((leaves.share(&[1, 2]), leaves.used), (Some(1), 2));
        leaves.release(1, 2);
        assert_eq!(leaves.list(1).map(|list| &**list), Some(&[1, 2][..]));
        leaves.release(1, 2);
        assert_eq!((leaves.list(1), leaves.used), (None, 0));
        assert_eq!(leaves.share(&[1, 2]), None);
        assert_eq!(leaves.add(&[6], 1, 3), 3, "what was given up may still be looked at");
        leaves.end_turn().into_iter().for_each(|run| leaves.reuse(run));
        assert_eq!(leaves.add(&[7], 1, 4), 1, "a free chunk comes first");
        assert_eq!(leaves.add(&[8], 2, 4), 4, "what is left of the run is too short");
    }

    #[test]
    fn a_leaf_that_others_may_look_at_moves_once_a_turn() {
        let mut leaves = Leaves::default();
        leaves.add(&[1, 2], 1, 1);
        leaves.share(&[1, 2]);
        let list = leaves.list(1).unwrap().clone();
        assert_eq!(leaves.renew(&list, 1, 2), 1, "nobody has seen it");
        assert_eq!(leaves.end_turn(), []);
        assert_eq!((leaves.renew(&list, 1, 2), leaves.moved(1)), (2, Some(2)));
        assert_eq!((leaves.renew(&list, 1, 3), leaves.used), (2, 1));
        assert_eq!((leaves.list(1), leaves.list(2)), (None, Some(&list)));
        assert_eq!(leaves.end_turn(), [Run { start: 1, length: 1 }]);
        assert_eq!(leaves.moved(1), None);
        leaves.release(2, 1);
        assert_eq!(leaves.list(2), Some(&list), "the other cell has it");
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
