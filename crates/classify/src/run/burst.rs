//! The search that all rooms share: a burst of packets goes through the trees side by side.
//!
//! In every group, all packets take a step, and then all those that are not in a leaf another one;
//! then all leaves are searched chunk by chunk. The steps of different packets do not wait for each
//! other, and which packets go on is written down without a branch, so that a processor predicts
//! well and has many loads under way.

use super::keys::Recipe;
use crate::table::{Entry, Node, Shape, Table};

/// Packets that go side by side.
pub(super) const BURST: usize = 64;
/// Tables beyond this size are fetched ahead: they do not fit the nearest caches.
const NEAR_BYTES: usize = 1 << 20;

/// What a room does in its own way.
pub(super) trait Engine: Copy {
    /// Whether comparing a chunk costs less than a branch that is predicted wrongly.
    const COMPARES_AT_ONCE: bool;

    /// Reads the keys of packets.
    fn keys<const K: usize>(self, recipe: &Recipe, packets: &[&[u8]], keys: &mut [[u64; K]]);

    /// Gathers the bits of `word` under `mask` at the low end.
    fn extract(self, word: u64, mask: u64) -> u64;

    /// Which of the eight rules of a chunk match, the first in the lowest bit. Unless `ALL`, only
    /// the lowest bit that is set counts.
    fn matches<W: Words, const ALL: bool>(self, words: W, chunk: &[u64], key: &[u64]) -> u32;

    /// Fetches what will be read soon.
    fn prefetch(self, words: &[u64]);
}

/// How many words of each kind a key has, if possible known when this is compiled.
pub(super) trait Words: Copy {
    fn shape(self) -> Shape;
}

/// A shape that has code of its own.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const MASKS: usize, const HALVES: usize>;

impl<const MASKS: usize, const HALVES: usize> Words for Fixed<MASKS, HALVES> {
    #[inline(always)]
    fn shape(self) -> Shape {
        Shape { masks: MASKS, halves: HALVES, wholes: 0 }
    }
}

impl Words for Shape {
    #[inline(always)]
    fn shape(self) -> Shape {
        self
    }
}

/// What a lookup needs.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub table: &'a Table,
    pub recipe: &'a Recipe,
    index: &'a [u64],
    chunks: &'a [u64],
    far: bool,
}

impl<'a> View<'a> {
    pub fn new(table: &'a Table, recipe: &'a Recipe) -> Self {
        let (index, chunks) = (table.index(), table.chunks());
        View { table, recipe, index, chunks, far: table.bytes() > NEAR_BYTES }
    }
}

/// Packets and where each of them goes on.
struct List {
    entries: [Entry; BURST],
    packets: [u8; BURST],
    count: usize,
}

impl List {
    const fn new() -> Self {
        List { entries: [Entry::EMPTY; BURST], packets: [0; BURST], count: 0 }
    }

    /// Writes a packet down, and keeps it if `keep`.
    #[inline(always)]
    fn push_if(&mut self, keep: bool, entry: Entry, packet: usize) {
        self.entries[self.count % BURST] = entry;
        self.packets[self.count % BURST] = packet as u8;
        self.count += usize::from(keep);
    }

    #[inline(always)]
    fn get(&self, place: usize) -> (Entry, usize) {
        (self.entries[place % BURST], usize::from(self.packets[place % BURST]) % BURST)
    }
}

/// The best verdict of each packet so far, in each of `C` categories: rank and result.
type Best<const C: usize> = [[u64; C]; BURST];

/// Looks up any number of packets, which are as long as the layout's span.
#[inline(always)]
pub(super) fn classify<E: Engine, W: Words, const K: usize, const C: usize>(
    engine: E,
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    let categories = if C == 1 { 1 } else { view.table.categories() };
    let nothing = u64::from(Entry::EMPTY.rank()) << 32 | u64::from(view.table.default());
    // Categories beyond those in use never ask for a search.
    let mut fresh = [0; C];
    fresh[..categories].fill(nothing);
    let mut keys = [[0; K]; BURST];
    for (packets, results) in packets.chunks(BURST).zip(results.chunks_mut(BURST * categories)) {
        engine.keys(view.recipe, packets, &mut keys[..packets.len()]);
        let mut best: Best<C> = [fresh; BURST];
        search(engine, words, view, &keys, packets.len(), &mut best);
        for (results, best) in results.chunks_mut(categories).zip(&best) {
            for (result, best) in results.iter_mut().zip(best) {
                *result = *best as u32;
            }
        }
    }
}

#[inline(always)]
fn search<E: Engine, W: Words, const K: usize, const C: usize>(
    engine: E,
    words: W,
    view: View<'_>,
    keys: &[[u64; K]; BURST],
    count: usize,
    best: &mut Best<C>,
) {
    let mut waiting = List::new();
    for (turn, &root) in view.table.roots().iter().enumerate() {
        waiting.count = 0;
        // In the first group nobody has found anything yet, so that most packets reach a leaf.
        let near = E::COMPARES_AT_ONCE && C == 1 && turn == 0 && !view.far;
        let any_node = match root.as_node() {
            Some(at) => {
                let node = Node::at(view.index, at);
                if near {
                    enter_near(engine, words, view, &node, &keys[..count], &mut waiting, best)
                } else {
                    enter(engine, &node, &keys[..count], &mut waiting, best)
                }
            }
            None => {
                for (packet, best) in best[..count].iter().enumerate() {
                    waiting.push_if(is_promising(root, best), root, packet);
                }
                false
            }
        };
        if any_node {
            descend(engine, view, keys, &mut waiting, best);
        }
        search_leaves(engine, words, view, keys, &mut waiting, best);
    }
}

/// Takes all packets through the first node of a group, and notes where they go on.
#[inline(always)]
fn enter<E: Engine, const K: usize, const C: usize>(
    engine: E,
    node: &Node<'_>,
    keys: &[[u64; K]],
    waiting: &mut List,
    best: &Best<C>,
) -> bool {
    let mut any_node = false;
    for (packet, (key, best)) in keys.iter().zip(best).enumerate() {
        let entry = step(engine, node, key);
        let promising = is_promising(entry, best);
        any_node |= promising & entry.is_node();
        waiting.push_if(promising, entry, packet);
    }
    any_node
}

/// Takes all packets through the first node of a group and the first chunk behind it, and notes
/// where they go on: most have ended. For tables so near that nothing is to be fetched ahead.
#[inline(always)]
fn enter_near<E: Engine, W: Words, const K: usize, const C: usize>(
    engine: E,
    words: W,
    view: View<'_>,
    node: &Node<'_>,
    keys: &[[u64; K]],
    waiting: &mut List,
    best: &mut Best<C>,
) -> bool {
    let stride = words.shape().chunk_words();
    let mut any_node = false;
    for (packet, (key, best)) in keys.iter().zip(best).enumerate() {
        let entry = step(engine, node, key);
        let promising = is_promising(entry, best);
        let is_node = promising & entry.is_node();
        let is_leaf = promising & !entry.is_node();
        any_node |= is_node;
        // Who is in no leaf looks at the first chunk too: a branch would cost more.
        let start = if is_leaf { entry.chunk() * stride } else { 0 };
        let chunk = &view.chunks[start..start + stride];
        let verdicts = &chunk[stride - 8..];
        engine.prefetch(verdicts);
        let found = engine.matches::<W, false>(words, chunk, key);
        let verdict = verdicts[found.trailing_zeros() as usize % 8];
        let found = is_leaf & (found != 0);
        best[0] = best[0].min(if found { verdict } else { u64::MAX });
        let more = is_leaf & !found & (entry.chunk_count() > 1);
        let next = if is_node { entry } else { entry.next_chunk() };
        waiting.push_if(is_node | more, next, packet);
    }
    any_node
}

/// Takes those that are not in a leaf yet from node to node until they are.
#[inline(always)]
fn descend<E: Engine, const K: usize, const C: usize>(
    engine: E,
    view: View<'_>,
    keys: &[[u64; K]; BURST],
    leaves: &mut List,
    best: &Best<C>,
) {
    let mut nodes = List::new();
    for place in 0..std::mem::take(&mut leaves.count) {
        let (entry, packet) = leaves.get(place);
        nodes.push_if(entry.is_node(), entry, packet);
        leaves.push_if(!entry.is_node(), entry, packet);
    }
    while nodes.count > 0 {
        let waiting = std::mem::take(&mut nodes.count);
        if view.far {
            for place in 0..waiting {
                let at = nodes.get(place).0.node_at();
                engine.prefetch(&view.index[at..at + 1]);
            }
        }
        for place in 0..waiting {
            let (entry, packet) = nodes.get(place);
            let entry = step(engine, &Node::at(view.index, entry.node_at()), &keys[packet]);
            let promising = is_promising(entry, &best[packet]);
            nodes.push_if(promising & entry.is_node(), entry, packet);
            leaves.push_if(promising & !entry.is_node(), entry, packet);
        }
    }
}

#[inline(always)]
fn search_leaves<E: Engine, W: Words, const K: usize, const C: usize>(
    engine: E,
    words: W,
    view: View<'_>,
    keys: &[[u64; K]; BURST],
    leaves: &mut List,
    best: &mut Best<C>,
) {
    let shape = words.shape();
    let stride = shape.chunk_words();
    while leaves.count > 0 {
        let waiting = std::mem::take(&mut leaves.count);
        if view.far {
            for place in 0..waiting {
                let start = leaves.get(place).0.chunk() * stride;
                engine.prefetch(&view.chunks[start..start + stride]);
            }
        }
        for place in 0..waiting {
            let (entry, packet) = leaves.get(place);
            let start = entry.chunk() * stride;
            let chunk = &view.chunks[start..start + stride];
            let verdicts = &chunk[stride - 8..];
            let key = &keys[packet];
            let more = entry.chunk_count() > 1;
            if C == 1 {
                let found = engine.matches::<W, false>(words, chunk, key);
                let verdict = verdicts[found.trailing_zeros() as usize % 8];
                let known = best[packet][0];
                best[packet][0] = if found != 0 && verdict < known { verdict } else { known };
                leaves.push_if(more & (found == 0), entry.next_chunk(), packet);
            } else {
                let mut found = engine.matches::<W, true>(words, chunk, key);
                while found != 0 {
                    let verdict = verdicts[found.trailing_zeros() as usize % 8];
                    let of = view.table.categories_of((verdict >> 32) as u32);
                    for (category, known) in best[packet].iter_mut().enumerate() {
                        if of >> category & 1 == 1 && verdict < *known {
                            *known = verdict;
                        }
                    }
                    found &= found - 1;
                }
                leaves.push_if(more, entry.next_chunk(), packet);
            }
        }
    }
}

/// Looks at the bits of a key that a node names.
#[inline(always)]
fn step<E: Engine, const K: usize>(engine: E, node: &Node<'_>, key: &[u64; K]) -> Entry {
    let first = engine.extract(key[node.first() % K], node.first_mask);
    if node.second_mask == 0 {
        return Entry(node.entries[first as usize]);
    }
    let second = engine.extract(key[node.second() % K], node.second_mask);
    Entry(node.entries[(first | second << node.first_bits()) as usize])
}

/// Whether something better than the best verdicts so far can be found.
#[inline(always)]
fn is_promising<const C: usize>(entry: Entry, best: &[u64; C]) -> bool {
    u64::from(entry.rank()) < worst(best) >> 32
}

/// The weakest verdict of all categories: nothing weaker is of use.
#[inline(always)]
fn worst<const C: usize>(best: &[u64; C]) -> u64 {
    best.iter().copied().max().unwrap_or(0)
}
