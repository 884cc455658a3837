//! Entries: where a search goes on, in one word; and the headers of nodes.

use std::hint::select_unpredictable;

/// Where a search goes on: at a node, in a leaf, or nowhere.
///
/// | Bits | |
/// |---|---|
/// | 40–63 | the best rank that can be found there; all ones if there is nothing |
/// | 39 | 1 for a node |
/// | 26–38 | chunks of the leaf behind the first |
/// | 0–25 | the first chunk of the leaf; of a node, bits 0–38 are its first word |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(pub u64);

/// The weakest rank that a rule can have.
pub(crate) const RANK_MAX: u32 = NOTHING - 1;
/// The rank of no rule.
pub(crate) const NOTHING: u32 = (1 << 24) - 1;

/// The lowest bit of the rank, in entries and in verdicts, so that of both the lesser is better.
const RANK_SHIFT: u32 = 40;
const COUNT_SHIFT: u32 = 26;
const NODE: u64 = 1 << 39;
/// The most chunks of a leaf behind its first.
const FURTHER_MAX: usize = (1 << (39 - COUNT_SHIFT)) - 1;

/// What a rule says of a packet that matches it: the rule's rank and its result.
pub(crate) const fn verdict(rank: u32, result: u32) -> u64 {
    (rank as u64) << RANK_SHIFT | result as u64
}

/// The rank of the rule that says `verdict`.
pub(crate) const fn rank_of(verdict: u64) -> u32 {
    (verdict >> RANK_SHIFT) as u32
}

impl Entry {
    /// An entry where nothing is to be found: a leaf of the miss chunk.
    pub const EMPTY: Entry = Entry((NOTHING as u64) << RANK_SHIFT);

    /// A leaf of `count` chunks, if so many can be.
    pub fn leaf(rank: u32, at: usize, count: usize) -> Option<Self> {
        let further = count.checked_sub(1)?;
        let fits = at < 1 << COUNT_SHIFT && further <= FURTHER_MAX;
        let place = (further as u64) << COUNT_SHIFT | at as u64;
        fits.then_some(Entry(verdict(rank, 0) | place))
    }

    /// A node whose header is at word `at` of the index.
    pub fn node(rank: u32, at: usize) -> Self {
        Entry(verdict(rank, 0) | NODE | at as u64)
    }

    /// The node's first word, if it is one.
    pub fn as_node(self) -> Option<usize> {
        self.is_node().then_some(self.node_at())
    }

    #[inline(always)]
    pub fn is_node(self) -> bool {
        self.0 & NODE != 0
    }

    /// Whether something better than a verdict may be found here.
    #[inline(always)]
    pub fn may_better(self, verdict: u64) -> bool {
        self.0 < verdict
    }

    #[inline(always)]
    pub fn node_at(self) -> usize {
        (self.0 & (NODE - 1)) as usize
    }

    /// The first chunk of a leaf.
    #[inline(always)]
    pub fn chunk(self) -> usize {
        (self.0 & ((1 << COUNT_SHIFT) - 1)) as usize
    }

    /// How many chunks a leaf has behind its first.
    #[inline(always)]
    pub fn further_chunks(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize & FURTHER_MAX
    }

    /// Whether a leaf has more chunks than one.
    #[inline(always)]
    pub fn is_long(self) -> bool {
        self.0 & ((FURTHER_MAX as u64) << COUNT_SHIFT) != 0
    }

    /// The leaf, or nothing if this is a node.
    #[inline(always)]
    pub fn or_nothing(self) -> Self {
        select_unpredictable(self.is_node(), Entry::EMPTY, self)
    }

    /// The leaf without its first chunk; it has others.
    #[inline(always)]
    pub fn next_chunk(self) -> Self {
        Entry(self.0.wrapping_add(1).wrapping_sub(1 << COUNT_SHIFT))
    }
}

/// Words before the entries of a node.
pub(crate) const NODE_HEADER: usize = 3;

/// [`Node::LEADS_ON`], if one of these entries does.
pub(crate) fn leads_on_bit(entries: &[u64]) -> u64 {
    let leads_on = |entry: &u64| Entry(*entry).is_node() || Entry(*entry).is_long();
    if entries.iter().any(leads_on) { Node::LEADS_ON } else { 0 }
}

/// A node's header: the two words of the key that it looks at, and which of their bits.
/// [`leads_on_bit`] is to be added to the last word.
pub(crate) fn node_header(parts: [(usize, u64); 2]) -> [u64; NODE_HEADER] {
    let [(first, first_mask), (second, second_mask)] = parts;
    let first_bits = u64::from(first_mask.count_ones());
    let bits = first_bits + u64::from(second_mask.count_ones());
    let words = first as u64 | (second as u64) << 8;
    [first_mask, second_mask, words | first_bits << 16 | bits << 24]
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
    /// The bit of a header's last word that says that nodes or leaves of several chunks follow.
    pub const LEADS_ON: u64 = 1 << 32;

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

    /// The words of the key, and which of their bits.
    pub fn parts(&self) -> [(usize, u64); 2] {
        [(self.first(), self.first_mask), (self.second(), self.second_mask)]
    }

    /// Whether a search may have to go on behind the first chunk it comes to.
    #[inline(always)]
    pub fn leads_on(&self) -> bool {
        self.control & Self::LEADS_ON != 0
    }

    /// Whether the header is consistent with itself and with its entries, and refers only to words
    /// of a key that is `words` long.
    pub fn is_sound(&self, words: usize) -> bool {
        let bits = self.first_mask.count_ones() + self.second_mask.count_ones();
        self.first() < words
            && self.second() < words
            && self.first_bits() == self.first_mask.count_ones()
            && 1usize.checked_shl(bits) == Some(self.entries.len())
            && self.control >> 32 << 32 == leads_on_bit(self.entries)
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
        let leaf = Entry::leaf(RANK_MAX, 12345, FURTHER_MAX + 1).unwrap();
        assert!(!leaf.is_node());
        assert_eq!((rank_of(leaf.0), leaf.chunk()), (RANK_MAX, 12345));
        assert_eq!(leaf.further_chunks(), FURTHER_MAX);
        let next = leaf.next_chunk();
        assert_eq!((next.chunk(), next.further_chunks()), (12346, FURTHER_MAX - 1));
        assert!(!next.is_node() && rank_of(next.0) == RANK_MAX);
        let node = Entry::node(7, 1 << 38);
        assert_eq!((node.as_node(), rank_of(node.0)), (Some(1 << 38), 7));
        assert_eq!((rank_of(Entry::EMPTY.0), Entry::EMPTY.chunk()), (NOTHING, 0));
        assert_eq!(Entry::leaf(0, 0, FURTHER_MAX + 2), None);
        assert_eq!(Entry::leaf(0, 1 << COUNT_SHIFT, 1), None);
        assert_eq!(Entry::leaf(0, 1, 0), None);
    }

    #[test]
    fn the_stronger_rule_may_better_the_weaker() {
        let found = verdict(8, u32::MAX);
        assert!(Entry::node(7, 1 << 38).may_better(found));
        assert!(!Entry::leaf(9, 1, 1).unwrap().may_better(found));
        assert!(Entry::leaf(RANK_MAX, 1, 1).unwrap().may_better(verdict(NOTHING, 0)));
    }
}
