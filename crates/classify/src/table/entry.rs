//! Entries: where a search goes on, in one word; and the headers of nodes.

/// Where a search goes on: at a node, in a leaf, or nowhere.
///
/// | Bits | |
/// |---|---|
/// | 63 | 1 for a node |
/// | 39–62 | the best rank that can be found there; all ones if there is nothing |
/// | 26–38 | chunks of the leaf |
/// | 0–25 | the first chunk of the leaf; of a node, bits 0–38 are its first word |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(pub u64);

/// The weakest rank that a rule can have.
pub(crate) const RANK_MAX: u32 = NOTHING - 1;
/// The rank of no rule.
pub(crate) const NOTHING: u32 = (1 << 24) - 1;

const RANK_SHIFT: u32 = 39;
const COUNT_SHIFT: u32 = 26;
const COUNT_MAX: usize = (1 << (RANK_SHIFT - COUNT_SHIFT)) - 1;
const NODE: u64 = 1 << 63;

impl Entry {
    /// Nothing is to be found.
    pub const EMPTY: Entry = Entry((NOTHING as u64) << RANK_SHIFT);

    /// A leaf of `count` chunks, if so many can be.
    pub fn leaf(rank: u32, at: usize, count: usize) -> Option<Self> {
        let fits = at < 1 << COUNT_SHIFT && count <= COUNT_MAX;
        let place = (count as u64) << COUNT_SHIFT | at as u64;
        fits.then_some(Entry(u64::from(rank) << RANK_SHIFT | place))
    }

    /// A node whose header is at word `at` of the index.
    pub fn node(rank: u32, at: usize) -> Self {
        Entry(NODE | u64::from(rank) << RANK_SHIFT | at as u64)
    }

    /// The node's first word, if it is one.
    pub fn as_node(self) -> Option<usize> {
        self.is_node().then_some(self.node_at())
    }

    #[inline(always)]
    pub fn is_node(self) -> bool {
        self.0 & NODE != 0
    }

    /// The best rank that can be found here.
    #[inline(always)]
    pub fn rank(self) -> u32 {
        (self.0 >> RANK_SHIFT) as u32 & NOTHING
    }

    #[inline(always)]
    pub fn node_at(self) -> usize {
        (self.0 & ((1 << RANK_SHIFT) - 1)) as usize
    }

    /// The first chunk of a leaf.
    #[inline(always)]
    pub fn chunk(self) -> usize {
        (self.0 & ((1 << COUNT_SHIFT) - 1)) as usize
    }

    /// How many chunks a leaf has.
    #[inline(always)]
    pub fn chunk_count(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize & COUNT_MAX
    }

    /// The leaf without its first chunk.
    #[inline(always)]
    pub fn next_chunk(self) -> Self {
        Entry(self.0.wrapping_add(1).wrapping_sub(1 << COUNT_SHIFT))
    }
}

/// Words before the entries of a node.
pub(crate) const NODE_HEADER: usize = 3;

/// A node's header: the two words of the key that it looks at, and which of their bits.
pub(crate) fn node_header(parts: [(usize, u64); 2]) -> [u64; NODE_HEADER] {
    let [(first, first_mask), (second, second_mask)] = parts;
    let first_bits = u64::from(first_mask.count_ones());
    let bits = first_bits + u64::from(second_mask.count_ones());
    [first_mask, second_mask, first as u64 | (second as u64) << 8 | first_bits << 16 | bits << 24]
}

/// A node, as a lookup sees it.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    /// The bits of the first word.
    pub first_mask: u64,
    /// The bits of the second word.
    pub second_mask: u64,
    control: u64,
    /// What follows for each value of the bits.
    pub entries: &'a [u64],
}

impl<'a> Node<'a> {
    /// The node whose header is at word `at`.
    #[inline(always)]
    pub fn at(index: &'a [u64], at: usize) -> Self {
        let header = &index[at..at + NODE_HEADER];
        let bits = header[2] >> 24 & 63;
        let entries = &index[at + NODE_HEADER..][..1 << bits];
        Node { first_mask: header[0], second_mask: header[1], control: header[2], entries }
    }

    /// The first word of the key.
    #[inline(always)]
    pub fn first(&self) -> usize {
        (self.control & 0xff) as usize
    }

    /// The second word of the key.
    #[inline(always)]
    pub fn second(&self) -> usize {
        (self.control >> 8 & 0xff) as usize
    }

    /// How many bits the first word contributes.
    #[inline(always)]
    pub fn first_bits(&self) -> u32 {
        (self.control >> 16 & 63) as u32
    }

    /// Whether the header agrees with itself, and names words of a key of `words`.
    pub fn is_sound(&self, words: usize) -> bool {
        let bits = self.first_mask.count_ones() + self.second_mask.count_ones();
        self.first() < words
            && self.second() < words
            && self.first_bits() == self.first_mask.count_ones()
            && self.entries.len() == 1usize << bits
    }
}

/// How many entries the node at word `at` has.
pub(crate) fn node_entries(index: &[u64], at: usize) -> usize {
    Node::at(index, at).entries.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_what_they_are_given() {
        let leaf = Entry::leaf(RANK_MAX, 12345, COUNT_MAX).unwrap();
        assert!(!leaf.is_node());
        assert_eq!((leaf.rank(), leaf.chunk(), leaf.chunk_count()), (RANK_MAX, 12345, COUNT_MAX));
        let next = leaf.next_chunk();
        assert_eq!((next.chunk(), next.chunk_count()), (12346, COUNT_MAX - 1));
        let node = Entry::node(7, 1 << 38);
        assert_eq!((node.as_node(), node.rank()), (Some(1 << 38), 7));
        assert_eq!(Entry::EMPTY.rank(), NOTHING);
        assert_eq!(Entry::leaf(0, 0, COUNT_MAX + 1), None);
        assert_eq!(Entry::leaf(0, 1 << COUNT_SHIFT, 1), None);
    }
}
