//! One lookup, step by step, for those who want to know what lookups cost.

use super::burst::{Engine, verdicts};
use super::keys::Recipe;
use super::list::List;
use super::portable::Portable;
use crate::table::{
    Entry, NODE_HEADER, NOTHING, Node, RULES_PER_CHUNK, Shape, Table, WORDS_MAX, rank_of, verdict,
};

/// What a lookup reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The header of a node, at this word of the index, and one entry.
    Node { at: usize, entry_at: usize },
    /// This chunk.
    Chunk(usize),
}

/// Looks one packet up as bursts do, which take the first step of every tree, and notes all steps
/// with the number of their tree. Returns the verdict in each category.
pub(crate) fn record(table: &Table, packet: &[u8], mut note: impl FnMut(usize, Step)) -> Vec<u64> {
    let recipe = Recipe::of(table);
    let mut keys = List::<[u64; WORDS_MAX], 1>::new();
    Portable.keys::<Shape, _, _>(&recipe, &[packet], &mut keys);
    let (key, shape) = (&keys.as_slice()[0], table.shape());
    let mut best = vec![verdict(NOTHING, table.default()); table.categories()];
    let is_single = best.len() == 1;
    for (tree, &root) in table.index()[..table.roots()].iter().enumerate() {
        let mut entry = Entry(root);
        let mut is_first = true;
        while is_first || best.iter().any(|best| entry.may_better(*best)) {
            is_first = false;
            if let Some(at) = entry.as_node() {
                let entry_at = at + NODE_HEADER + follow(&Node::at(table.index(), at), key);
                note(tree, Step::Node { at, entry_at });
                entry = Entry(table.index()[entry_at]);
                continue;
            }
            // With several categories, no room compares the chunk that belongs to no leaf.
            if entry == Entry::EMPTY && !is_single {
                break;
            }
            note(tree, Step::Chunk(entry.chunk()));
            if compare(table, shape, entry, key, &mut best) && is_single || !entry.is_long() {
                break;
            }
            entry = entry.next_chunk();
        }
    }
    best
}

/// Which entry of a node a key leads to.
fn follow(node: &Node<'_>, key: &[u64]) -> usize {
    let first = Portable.extract(key[node.first()], node.first_mask);
    let second = Portable.extract(key[node.second()], node.second_mask);
    (first | second << node.first_bits()) as usize
}

/// Compares a key with a chunk, and notes the verdicts of the rules that match, the strongest
/// first, in their categories; says whether there are any.
fn compare(table: &Table, shape: Shape, entry: Entry, key: &[u64], best: &mut [u64]) -> bool {
    let stride = shape.chunk_words();
    let chunk = table.chunks().get(entry.chunk() * stride, stride);
    let matching = Portable.matches::<_, true>(shape, chunk, key);
    for place in (0..RULES_PER_CHUNK).filter(|place| matching >> place & 1 == 1) {
        let verdict = verdicts(chunk)[place];
        let categories = match best.len() {
            1 => 1,
            _ => table.categories_of(rank_of(verdict)),
        };
        for (category, best) in best.iter_mut().enumerate() {
            if categories >> category & 1 == 1 {
                *best = verdict.min(*best);
            }
        }
    }
    matching != 0
}
