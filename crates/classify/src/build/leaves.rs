//! Lists of entries that are stored as leaves: equal ones once, in chunks that are used again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Entries of a leaf, the strongest first.
pub(super) type List = Arc<[u32]>;

/// Which leaves there are, and where.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    by_list: HashMap<List, Place>,
    by_chunk: HashMap<usize, List>,
    free: Free,
    /// Chunks that leaves take up.
    pub used: usize,
}

/// Where a leaf stands, and in how many cells.
#[derive(Debug)]
struct Place {
    chunk: usize,
    cells: usize,
}

/// Runs of chunks that nobody uses, none of which follows another.
#[derive(Debug, Default)]
struct Free {
    /// Lengths by first chunks.
    runs: BTreeMap<usize, usize>,
    /// Lengths and first chunks.
    by_length: BTreeSet<(usize, usize)>,
}

impl Leaves {
    /// The first chunk of the leaf with this list, if there is one, for one cell more.
    pub fn share(&mut self, list: &[u32]) -> Option<usize> {
        let place = self.by_list.get_mut(list)?;
        place.cells += 1;
        Some(place.chunk)
    }

    /// Finds room for a leaf that there is not yet, for one cell; `end` is behind all chunks there
    /// are. Returns the first chunk.
    pub fn add(&mut self, list: &[u32], chunks: usize, end: usize) -> usize {
        let chunk = self.free.take(chunks).unwrap_or(end);
        let list: List = list.into();
        self.by_list.insert(Arc::clone(&list), Place { chunk, cells: 1 });
        self.by_chunk.insert(chunk, list);
        self.used += chunks;
        chunk
    }

    /// The list of the leaf that begins with a chunk.
    pub fn list(&self, chunk: usize) -> Option<&List> {
        self.by_chunk.get(&chunk)
    }

    /// Takes a leaf out of one cell; its chunks are free when it is in no other.
    pub fn release(&mut self, chunk: usize, chunks: usize) {
        let Some(list) = self.by_chunk.get(&chunk) else { return };
        if let Some(place) = self.by_list.get_mut(list) {
            place.cells -= 1;
            if place.cells > 0 {
                return;
            }
        }
        self.by_list.remove(list);
        self.by_chunk.remove(&chunk);
        self.used -= chunks;
        self.free.give(chunk, chunks);
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
        assert_eq!(leaves.add(&[7], 1, 3), 1, "a free chunk comes first");
        assert_eq!(leaves.add(&[8], 2, 3), 3, "what is left of the run is too short");
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
