//! The tree of one group: nodes that look at chosen bits, and leaves that list rules.

use std::collections::HashMap;

use super::encode::Encoded;
use super::select::{CELL_GOAL, select};
use super::{BuildError, Limits};
use crate::table::{
    Entry, NODE_HEADER, NOTHING, Node, RULES_PER_CHUNK, Shape, leads_on_bit, node_header, rank_of,
    verdict,
};

/// What a node's place in the tree says about the keys that come there.
#[derive(Clone)]
struct Region {
    /// The bits that have been looked at, word by word.
    known: Vec<u64>,
    /// What they are.
    values: Vec<u64>,
}

/// The trees of all groups, as they grow.
pub(super) struct Forest<'a> {
    encoded: &'a Encoded,
    shape: Shape,
    /// For each rank, the categories of its rule.
    categories: &'a [u16],
    /// For each rank, the result of its rule.
    results: &'a [u32],
    limits: Limits,
    /// Nodes.
    pub index: Vec<u64>,
    /// Chunks of rules.
    pub chunks: Vec<u64>,
    leaves: HashMap<Box<[u32]>, Entry>,
    /// How many nodes there are.
    pub nodes: usize,
}

/// Lists up to this length become leaves without looking for bits.
const LEAF_MAX: usize = 12;
/// How many of the strongest rules of a list are asked whether they hide others.
const HIDING_MAX: usize = 64;
/// Copies of rules in all cells of a node, for each rule.
const COPIES_MAX: usize = 6;
/// No path is longer; what is still together then stays in one leaf.
const DEPTH_MAX: usize = 24;

impl<'a> Forest<'a> {
    pub fn new(
        encoded: &'a Encoded,
        shape: Shape,
        categories: &'a [u16],
        results: &'a [u32],
        default: u32,
        limits: Limits,
    ) -> Self {
        Forest {
            encoded,
            shape,
            categories,
            results,
            limits,
            index: Vec::new(),
            chunks: nobodys(shape, default),
            leaves: HashMap::new(),
            nodes: 0,
        }
    }

    /// Grows the tree of a group and returns its root.
    pub fn plant(&mut self, ids: &[u32]) -> Result<Entry, BuildError> {
        let nothing = vec![0; self.encoded.words];
        let root =
            self.grow(ids.to_vec(), &Region { known: nothing.clone(), values: nothing }, 0)?;
        if root.is_node() {
            return Ok(root);
        }
        // One list: a node that looks at no bit leads there, so that all searches begin alike.
        let at = self.index.len();
        self.index.extend(node_header([(0, 0), (0, 0)]));
        self.index.push(root.0);
        self.describe(at);
        self.check_memory()?;
        Ok(Entry::node(rank_of(root.0), at))
    }

    /// Bytes of nodes and chunks so far.
    pub fn bytes(&self) -> usize {
        8 * (self.index.len() + self.chunks.len())
    }

    fn grow(
        &mut self,
        mut ids: Vec<u32>,
        region: &Region,
        depth: usize,
    ) -> Result<Entry, BuildError> {
        self.drop_hidden(&mut ids, region);
        if ids.is_empty() {
            return Ok(Entry::EMPTY);
        }
        if ids.len() <= LEAF_MAX || depth == DEPTH_MAX {
            return self.leaf(ids);
        }
        // With half of the memory used, only tables that hardly copy are affordable.
        let copies = if self.bytes() < self.limits.table_bytes / 2 { COPIES_MAX } else { 1 };
        let copies_max = copies * ids.len() + CELL_GOAL;
        let Some(selection) = select(self.encoded, &ids, copies_max) else { return self.leaf(ids) };
        let cells = self.distribute(&ids, selection.parts);
        let rank = self.encoded.ranks[ids[0] as usize];
        drop(ids);
        let at = self.index.len();
        self.nodes += 1;
        self.index.extend(node_header(selection.parts));
        self.index.resize(at + NODE_HEADER + cells.len(), Entry::EMPTY.0);
        self.check_memory()?;
        for (cell, ids) in cells.into_iter().enumerate() {
            let below = region.below(selection.parts, cell);
            self.index[at + NODE_HEADER + cell] = self.grow(ids, &below, depth + 1)?.0;
        }
        self.describe(at);
        Ok(Entry::node(rank, at))
    }

    /// Says in the header of the node at word `at` whether its entries lead on.
    fn describe(&mut self, at: usize) {
        let leads_on = leads_on_bit(Node::at(&self.index, at).entries);
        self.index[at + NODE_HEADER - 1] |= leads_on;
    }

    /// The entries of each cell, strongest first.
    fn distribute(&self, ids: &[u32], parts: [(usize, u64); 2]) -> Vec<Vec<u32>> {
        let [(first, first_mask), (second, second_mask)] = parts;
        let first_bits = first_mask.count_ones();
        let bits = first_bits + second_mask.count_ones();
        let mut cells = vec![Vec::new(); 1 << bits];
        for &id in ids {
            let (values, known) = (self.encoded.values(id), self.encoded.known(id));
            let index = |words: &dyn Fn(usize) -> u64| {
                extract(words(first), first_mask)
                    | extract(words(second), second_mask) << first_bits
            };
            let base = index(&|word| values[word] & known[word]);
            let free = index(&|word| !known[word]);
            // All subsets of the free bits, the empty one last.
            let mut subset = free;
            loop {
                cells[(base | subset) as usize].push(id);
                if subset == 0 {
                    break;
                }
                subset = (subset - 1) & free;
            }
        }
        cells
    }

    /// Drops entries that no key of the region can meet first.
    fn drop_hidden(&self, ids: &mut Vec<u32>, region: &Region) {
        ids.retain(|&id| self.reaches(id, region));
        let all_categories = self.categories.iter().fold(0, |all, of| all | of);
        let mut left = all_categories;
        let hidden_from = ids.iter().position(|&id| {
            if self.hides_region(id, region) {
                left &= !self.categories[self.encoded.ranks[id as usize] as usize];
            }
            left == 0
        });
        if let Some(last) = hidden_from {
            ids.truncate(last + 1);
        }
        if ids.len() <= RULES_PER_CHUNK {
            return;
        }
        let mut kept: Vec<u32> = Vec::with_capacity(ids.len());
        for &id in ids.iter() {
            let mut stronger = kept.iter().take(HIDING_MAX);
            if !stronger.any(|&stronger| self.hides(stronger, id, region)) {
                kept.push(id);
            }
        }
        *ids = kept;
    }

    /// Whether an entry's ranges meet a region, lane by lane. Its masks do, or it were not here.
    fn reaches(&self, id: u32, region: &Region) -> bool {
        let (values, others) = (self.encoded.values(id), self.encoded.others(id));
        (self.shape.masks..self.encoded.words).all(|word| {
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
    fn hides_region(&self, id: u32, region: &Region) -> bool {
        let (values, others) = (self.encoded.values(id), self.encoded.others(id));
        (0..self.encoded.words).all(|word| {
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
    fn hides(&self, stronger: u32, weaker: u32, region: &Region) -> bool {
        let categories = |id: u32| self.categories[self.encoded.ranks[id as usize] as usize];
        if categories(weaker) & !categories(stronger) != 0 {
            return false;
        }
        let (values, others) = (self.encoded.values(stronger), self.encoded.others(stronger));
        let (weak_values, weak_others) = (self.encoded.values(weaker), self.encoded.others(weaker));
        (0..self.encoded.words).all(|word| {
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

    fn leaf(&mut self, ids: Vec<u32>) -> Result<Entry, BuildError> {
        if let Some(known) = self.leaves.get(ids.as_slice()) {
            return Ok(*known);
        }
        let stride = self.shape.chunk_words();
        let at = self.chunks.len() / stride;
        let count = ids.len().div_ceil(RULES_PER_CHUNK);
        let entry = Entry::leaf(self.encoded.ranks[ids[0] as usize], at, count)
            .ok_or(BuildError::LeafTooLong { rules: ids.len() })?;
        for chunk in ids.chunks(RULES_PER_CHUNK) {
            let base = self.chunks.len();
            self.chunks.resize(base + stride, 0);
            let words = &mut self.chunks[base..];
            for lane in 0..RULES_PER_CHUNK {
                // Free places repeat the last rule: the first of equal ones wins.
                let id = chunk[lane.min(chunk.len() - 1)];
                for word in 0..self.encoded.words {
                    words[16 * word + lane] = self.encoded.values(id)[word];
                    words[16 * word + 8 + lane] = self.encoded.others(id)[word];
                }
                let rank = self.encoded.ranks[id as usize];
                let result = self.results[rank as usize];
                words[16 * self.encoded.words + lane] = verdict(rank, result);
            }
        }
        self.check_memory()?;
        self.leaves.insert(ids.into(), entry);
        Ok(entry)
    }

    fn check_memory(&self) -> Result<(), BuildError> {
        match self.bytes() > self.limits.table_bytes {
            true => Err(BuildError::TooLarge { limit: self.limits.table_bytes }),
            false => Ok(()),
        }
    }
}

/// The chunk that is nobody's: what matches there has found nothing.
fn nobodys(shape: Shape, default: u32) -> Vec<u64> {
    let mut chunk = vec![0; shape.chunk_words()];
    let verdicts = chunk.len() - RULES_PER_CHUNK;
    chunk[verdicts..].fill(verdict(NOTHING, default));
    chunk
}

impl Region {
    /// The region of a cell.
    fn below(&self, parts: [(usize, u64); 2], cell: usize) -> Region {
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
