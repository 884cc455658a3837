//! The tree of one group: nodes that look at chosen bits, and leaves that list rules.

use super::change_state::{ChangeState, Edits};
use super::encode::Encoded;
use super::leaves::Leaves;
use super::select::{CELL_GOAL, LEAF_MAX, select};
use super::{BuildError, Limits};
use crate::table::{
    Entry, LINE_WORDS, NODE_HEADER, NOTHING, Node, RULES_PER_CHUNK, Shape, leads_on_bit,
    node_header, rank_of, verdict,
};

/// What a node's place in the tree says about the keys that come there.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// The bits that have been looked at, word by word.
    known: Vec<u64>,
    /// What they are.
    values: Vec<u64>,
}

/// A word of the index that holds an entry, and the node that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub place: u32,
    /// The node's first word; of a root, anything.
    pub node: u32,
}

/// The trees of all groups, as they grow.
#[derive(Debug)]
pub(crate) struct Forest {
    pub(super) shape: Shape,
    pub(super) limits: Limits,
    /// Up to so many bytes, tables may copy rules.
    pub(super) copies_until: usize,
    /// Whether rules are left out where others hide them.
    pub(super) hides: bool,
    /// Whether roots, and nodes next to them, may copy rules many times to spare lookups another
    /// node.
    pub(super) is_generous: bool,
    /// No path is longer; what is still together then stays in one leaf.
    pub(super) depth_max: usize,
    /// The categories that any rule has.
    categories: u16,
    /// Roots, and behind them nodes.
    pub index: Vec<u64>,
    /// Chunks of rules.
    pub chunks: Vec<u64>,
    pub(super) leaves: Leaves,
    /// How many nodes there are.
    pub nodes: usize,
    /// What it takes to change trees once they have grown.
    pub(super) change_state: Option<ChangeState>,
    /// What has changed since the last [`take_edits`](Self::take_edits).
    pub(super) edits: Edits,
}

/// Lists up to this length become leaves at the root, where every lookup reads a node in any case,
/// and where rules change: each change writes whole lists.
const SHORT_LEAF_MAX: usize = 12;
/// How many of the strongest rules of a list are asked whether they hide others.
const HIDING_MAX: usize = 64;
/// Copies of rules in all cells of a node, for each rule.
const COPIES_MAX: usize = 6;
/// Nodes of this many levels may: few lookups come to what is behind them.
const GENEROUS_DEPTH: usize = 2;
/// For more rules, the lists of a root's cells would take much memory while a table is built.
const GENEROUS_RULES_MAX: usize = 1 << 16;
/// No path is longer when a tree is built.
const DEPTH_MAX: usize = 24;

impl Forest {
    /// Room for `roots` trees, without any yet.
    pub(super) fn new(
        encoded: &Encoded,
        shape: Shape,
        default: u32,
        limits: Limits,
        roots: usize,
        change_state: Option<ChangeState>,
    ) -> Self {
        Forest {
            shape,
            limits,
            copies_until: limits.table_bytes / 2,
            hides: true,
            is_generous: false,
            depth_max: DEPTH_MAX,
            categories: encoded.categories.iter().fold(0, |all, of| all | of),
            index: vec![Entry::EMPTY.0; roots],
            chunks: miss_chunk(shape, default),
            leaves: Leaves::default(),
            nodes: 0,
            change_state,
            edits: Edits::default(),
        }
    }

    /// Grows the tree of a group, from the given root on.
    pub fn grow_tree(
        &mut self,
        encoded: &Encoded,
        root: usize,
        ids: &[u32],
    ) -> Result<Entry, BuildError> {
        let cell = Cell { place: root as u32, node: 0 };
        let mut entry = self.grow(encoded, ids.to_vec(), &Region::all(encoded.words), 0, cell)?;
        if !entry.is_node() {
            // One list: a node that looks at no bit leads there, so that all searches begin alike.
            let at = self.index.len();
            self.index.extend(node_header([(0, 0), (0, 0)]));
            self.index.push(entry.0);
            self.describe(at);
            self.check_memory()?;
            entry = Entry::node(rank_of(entry.0), at);
        }
        self.index[root] = entry.0;
        Ok(entry)
    }

    /// Bytes of nodes and of chunks in use.
    pub fn bytes(&self) -> usize {
        8 * (self.index.len() + self.leaves.used * self.shape.chunk_words())
    }

    /// Grows what a cell leads to.
    pub(super) fn grow(
        &mut self,
        encoded: &Encoded,
        mut ids: Vec<u32>,
        region: &Region,
        depth: usize,
        cell: Cell,
    ) -> Result<Entry, BuildError> {
        self.drop_hidden(encoded, &mut ids, region, cell);
        if ids.is_empty() {
            return Ok(Entry::EMPTY);
        }
        let is_short = depth == 0 || self.change_state.is_some();
        let leaf_max = if is_short { SHORT_LEAF_MAX } else { LEAF_MAX };
        if ids.len() <= leaf_max || depth >= self.depth_max {
            return self.leaf(encoded, &ids);
        }
        // With half of the memory used, only tables that hardly copy are affordable.
        let is_plenty = self.bytes() < self.copies_until;
        let copies = if is_plenty { COPIES_MAX } else { 1 };
        let copies_max = copies * ids.len() + CELL_GOAL;
        let is_generous =
            self.is_generous && depth < GENEROUS_DEPTH && ids.len() <= GENEROUS_RULES_MAX;
        let selected = select(encoded, &ids, copies_max, is_generous);
        let Some(selection) = selected else {
            return self.leaf(encoded, &ids);
        };
        let cells = distribute(encoded, &ids, selection.parts);
        let listed: usize = cells.iter().map(Vec::len).sum();
        self.count_work(cells.len() + selection.rounds() * encoded.words * listed);
        let rank = encoded.ranks[ids[0] as usize];
        drop(ids);
        let at = self.end_index();
        self.nodes += 1;
        self.index.extend(node_header(selection.parts));
        self.index.resize(at + NODE_HEADER + cells.len(), Entry::EMPTY.0);
        self.check_memory()?;
        for (index, ids) in cells.into_iter().enumerate() {
            let below = region.below(selection.parts, index);
            let cell = Cell { place: (at + NODE_HEADER + index) as u32, node: at as u32 };
            let entry = self.grow(encoded, ids, &below, depth + 1, cell)?;
            self.index[cell.place as usize] = entry.0;
        }
        self.describe(at);
        Ok(Entry::node(rank, at))
    }

    /// Says in the header of the node at word `at` whether its entries lead on.
    pub(super) fn describe(&mut self, at: usize) {
        let leads_on = leads_on_bit(Node::at(&self.index, at).entries);
        self.index[at + NODE_HEADER - 1] |= leads_on;
    }

    /// Drops entries that no key of the region can meet first.
    fn drop_hidden(&mut self, encoded: &Encoded, ids: &mut Vec<u32>, region: &Region, cell: Cell) {
        ids.retain(|&id| self.reaches(encoded, id, region));
        if !self.hides {
            return;
        }
        let hider = ids.iter().position(|&id| {
            encoded.categories[id as usize] == self.categories
                && self.hides_region(encoded, id, region)
        });
        if let Some(last) = hider {
            if let Some(change_state) = &mut self.change_state {
                ids[last + 1..].iter().for_each(|&id| change_state.note(ids[last], id, cell));
            }
            ids.truncate(last + 1);
        }
        if ids.len() <= RULES_PER_CHUNK {
            return;
        }
        let mut kept: Vec<u32> = Vec::with_capacity(ids.len());
        // What the strongest of them look at in the first word, side by side: most hide nothing
        // because of that.
        let mut firsts = [(0, 0); HIDING_MAX];
        for &id in ids.iter() {
            let known = encoded.others(id)[0] | region.known[0];
            let value = encoded.values(id)[0] & encoded.others(id)[0] | region.values[0];
            let mut stronger = kept
                .iter()
                .zip(&firsts)
                .filter(|(_, (own, mask))| mask & !known == 0 && (own ^ value) & mask == 0);
            match stronger.find(|(stronger, _)| self.hides(encoded, **stronger, id, region)) {
                None => {
                    if let Some(first) = firsts.get_mut(kept.len()) {
                        *first = (encoded.values(id)[0], encoded.others(id)[0]);
                    }
                    kept.push(id);
                }
                Some((&hider, _)) => {
                    if let Some(change_state) = &mut self.change_state {
                        change_state.note(hider, id, cell);
                    }
                }
            }
        }
        *ids = kept;
    }

    /// Whether an entry's ranges meet a region, lane by lane. Its masks do, or it were not here.
    pub(super) fn reaches(&self, encoded: &Encoded, id: u32, region: &Region) -> bool {
        let (values, others) = (encoded.values(id), encoded.others(id));
        (self.shape.masks..encoded.words).all(|word| {
            let (lowest, highest) = region.bounds(word);
            let lane = self.shape.lane_bits(word);
            lanes(lane).all(|shift| {
                let part = |of: u64| of >> shift & ones(lane);
                let first = part(values[word]);
                first <= part(highest) && part(lowest) <= first + part(others[word])
            })
        })
    }

    /// Whether an entry matches all keys of a region.
    fn hides_region(&self, encoded: &Encoded, id: u32, region: &Region) -> bool {
        let (values, others) = (encoded.values(id), encoded.others(id));
        (0..encoded.words).all(|word| {
            if word < self.shape.masks {
                // Entries come here only if they agree with the region.
                return others[word] & !region.known[word] == 0;
            }
            let (lowest, highest) = region.bounds(word);
            let lane = self.shape.lane_bits(word);
            lanes(lane).all(|shift| {
                let part = |of: u64| of >> shift & ones(lane);
                let first = part(values[word]);
                first <= part(lowest) && part(highest) <= first + part(others[word])
            })
        })
    }

    /// Whether all keys of a region that the entry `weaker` matches are matched by `stronger`, for
    /// all categories of the weaker.
    pub(super) fn hides(
        &self,
        encoded: &Encoded,
        stronger: u32,
        weaker: u32,
        region: &Region,
    ) -> bool {
        let categories = |id: u32| encoded.categories[id as usize];
        if categories(weaker) & !categories(stronger) != 0 {
            return false;
        }
        let (values, others) = (encoded.values(stronger), encoded.others(stronger));
        let (weak_values, weak_others) = (encoded.values(weaker), encoded.others(weaker));
        (0..encoded.words).all(|word| {
            if word < self.shape.masks {
                let known = weak_others[word] | region.known[word];
                let value = weak_values[word] & weak_others[word] | region.values[word];
                return others[word] & !known == 0 && (values[word] ^ value) & others[word] == 0;
            }
            let (lowest, highest) = region.bounds(word);
            let lane = self.shape.lane_bits(word);
            lanes(lane).all(|shift| {
                let part = |of: u64| of >> shift & ones(lane);
                let (first, weak) = (part(values[word]), part(weak_values[word]));
                let weak_last =
                    (weak + part(weak_others[word]).min(ones(lane) - weak)).min(part(highest));
                let last = first + part(others[word]);
                first <= weak.max(part(lowest)) && weak_last <= last
            })
        })
    }

    /// A leaf of a list that is not empty, for one cell more.
    pub(super) fn leaf(&mut self, encoded: &Encoded, ids: &[u32]) -> Result<Entry, BuildError> {
        let end = self.end_chunk();
        // Wherever it comes to stand: no place lies behind the end.
        leaf_entry(encoded, ids, end)?;
        self.count_work(ids.len());
        if let Some(chunk) = self.leaves.share(ids) {
            return leaf_entry(encoded, ids, chunk);
        }
        let chunk = self.leaves.add(ids, end);
        self.fill(encoded, ids, chunk);
        self.check_memory()?;
        leaf_entry(encoded, ids, chunk)
    }

    /// Where a node can begin behind all others, so that its header lies in one cache line.
    fn end_index(&mut self) -> usize {
        let end = self.index.len();
        if end % LINE_WORDS + NODE_HEADER > LINE_WORDS {
            self.index.resize(end.next_multiple_of(LINE_WORDS), Entry::EMPTY.0);
        }
        self.index.len()
    }

    /// How many chunks there are.
    pub(super) fn end_chunk(&self) -> usize {
        self.chunks.len() / self.shape.chunk_words()
    }

    /// Writes the entries of a leaf into its chunks.
    pub(super) fn fill(&mut self, encoded: &Encoded, ids: &[u32], chunk: usize) {
        let stride = self.shape.chunk_words();
        let (start, count) = (chunk * stride, ids.len().div_ceil(RULES_PER_CHUNK));
        self.chunks.resize(self.chunks.len().max(start + count * stride), 0);
        let words = &mut self.chunks[start..start + count * stride];
        for (ids, words) in ids.chunks(RULES_PER_CHUNK).zip(words.chunks_exact_mut(stride)) {
            for lane in 0..RULES_PER_CHUNK {
                // Free places repeat the last rule: the first of equal ones wins.
                let id = ids[lane.min(ids.len() - 1)];
                for word in 0..encoded.words {
                    let (value, other) = (encoded.values(id)[word], encoded.others(id)[word]);
                    let at = RULES_PER_CHUNK * self.shape.row(word) + lane;
                    if self.shape.is_paired(word) {
                        words[at] = value | other << 32;
                    } else {
                        (words[at], words[at + RULES_PER_CHUNK]) = (value, other);
                    }
                }
                let (rank, result) = (encoded.ranks[id as usize], encoded.results[id as usize]);
                words[stride - RULES_PER_CHUNK + lane] = verdict(rank, result);
            }
        }
        self.edits.chunks.push(start..start + count * stride);
    }

    fn check_memory(&self) -> Result<(), BuildError> {
        let limit = self.limits.table_bytes;
        // Cells know their place by 32 bits.
        match self.bytes() > limit || self.index.len() > u32::MAX as usize {
            true => Err(BuildError::TooLarge { limit }),
            false => Ok(()),
        }
    }
}

/// What leads to a leaf of a list whose first chunk is known.
pub(super) fn leaf_entry(
    encoded: &Encoded,
    ids: &[u32],
    chunk: usize,
) -> Result<Entry, BuildError> {
    let rank = encoded.ranks[ids[0] as usize];
    let entry = Entry::leaf(rank, chunk, ids.len().div_ceil(RULES_PER_CHUNK));
    entry.ok_or(BuildError::LeafTooLong { rules: ids.len() })
}

/// The chunk whose verdicts say that nothing was found.
fn miss_chunk(shape: Shape, default: u32) -> Vec<u64> {
    let mut chunk = vec![0; shape.chunk_words()];
    let verdicts = chunk.len() - RULES_PER_CHUNK;
    chunk[verdicts..].fill(verdict(NOTHING, default));
    chunk
}

/// The entries of each cell, strongest first.
fn distribute(encoded: &Encoded, ids: &[u32], parts: [(usize, u64); 2]) -> Vec<Vec<u32>> {
    let bits = parts[0].1.count_ones() + parts[1].1.count_ones();
    let mut cells = vec![Vec::new(); 1 << bits];
    for &id in ids {
        cells_of(encoded, id, parts).for_each(|cell| cells[cell].push(id));
    }
    cells
}

/// The cells of a node that an entry belongs to.
pub(super) fn cells_of(
    encoded: &Encoded,
    id: u32,
    [(first, first_mask), (second, second_mask)]: [(usize, u64); 2],
) -> Cells {
    let (values, known) = (encoded.values(id), encoded.known(id));
    let index = |words: &dyn Fn(usize) -> u64| {
        let second_bits = extract(words(second), second_mask) << first_mask.count_ones();
        (extract(words(first), first_mask) | second_bits) as usize
    };
    let base = index(&|word| values[word] & known[word]);
    let free = index(&|word| !known[word]);
    Cells { base, free, next: Some(0) }
}

/// See [`cells_of`]: what is known, with all subsets of the bits that are free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    base: usize,
    free: usize,
    next: Option<usize>,
}

impl Iterator for Cells {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let subset = self.next?;
        self.next = Some(subset.wrapping_sub(self.free) & self.free).filter(|next| *next != 0);
        Some(self.base | subset)
    }
}

impl Region {
    /// The region of all keys, of so many words.
    pub fn all(words: usize) -> Self {
        Region { known: vec![0; words], values: vec![0; words] }
    }

    /// The region of a cell.
    pub fn below(&self, parts: [(usize, u64); 2], cell: usize) -> Region {
        let mut below = self.clone();
        let [(first, first_mask), (second, second_mask)] = parts;
        below.known[first] |= first_mask;
        below.values[first] |= deposit(cell as u64, first_mask);
        below.known[second] |= second_mask;
        below.values[second] |= deposit(cell as u64 >> first_mask.count_ones(), second_mask);
        below
    }

    /// The lowest and the highest value of every lane of a word.
    fn bounds(&self, word: usize) -> (u64, u64) {
        (self.values[word], self.values[word] | !self.known[word])
    }
}

fn lanes(bits: u32) -> impl Iterator<Item = u32> {
    (0..64 / bits).map(move |lane| lane * bits)
}

fn ones(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Gathers the bits of `word` under `mask` at the low end.
fn extract(word: u64, mask: u64) -> u64 {
    let (mut found, mut left) = (0, mask);
    for place in 0..mask.count_ones() {
        found |= (word >> left.trailing_zeros() & 1) << place;
        left &= left - 1;
    }
    found
}

/// Spreads the low bits of `bits` to the places of `mask`.
fn deposit(bits: u64, mask: u64) -> u64 {
    let (mut spread, mut left) = (0, mask);
    for place in 0..mask.count_ones() {
        spread |= (bits >> place & 1) << left.trailing_zeros();
        left &= left - 1;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deposit_undoes_extract() {
        let mask = 0x8000_0100_0000_f001;
        for bits in 0..1 << 7 {
            assert_eq!(extract(deposit(bits, mask), mask), bits);
            assert_eq!(deposit(bits, mask) & !mask, 0);
        }
    }
}
