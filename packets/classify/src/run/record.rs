//! One lookup, step by step, for those who want to know what lookups cost.

use super::burst::{Engine, first_of};
use super::keys::Recipe;
use super::list::List;
use super::portable::Portable;
use crate::table::{Entry, NODE_HEADER, NOTHING, Node, Shape, Table, WORDS_MAX, verdict};

/// What a lookup reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The header of a node, at this word of the index, and one entry.
    Node { at: usize, entry_at: usize },
    /// This chunk.
    Chunk(usize),
}

/// Looks one packet up as bursts do, which take the first step of every tree, and notes all steps
/// with the number of their tree. Returns the verdict.
pub(crate) fn record(table: &Table, packet: &[u8], mut note: impl FnMut(usize, Step)) -> u64 {
    let recipe = Recipe::of(table);
    let mut keys = List::<[u64; WORDS_MAX], 1>::new();
    Portable.keys::<Shape, _, _>(&recipe, &[packet], &mut keys);
    let (key, shape) = (&keys.as_slice()[0], table.shape());
    let mut best = verdict(NOTHING, table.default());
    for (tree, &root) in table.index()[..table.roots()].iter().enumerate() {
        let mut entry = Entry(root);
        let mut is_first = true;
        while is_first || entry.may_better(best) {
            is_first = false;
            if let Some(at) = entry.as_node() {
                let entry_at = at + NODE_HEADER + follow(&Node::at(table.index(), at), key);
                note(tree, Step::Node { at, entry_at });
                entry = Entry(table.index()[entry_at]);
                continue;
            }
            note(tree, Step::Chunk(entry.chunk()));
            let (found, verdict) = compare(table, shape, entry, key);
            best = best.min(verdict);
            if found || !entry.is_long() {
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

fn compare(table: &Table, shape: Shape, entry: Entry, key: &[u64]) -> (bool, u64) {
    let stride = shape.chunk_words();
    let chunk = table.chunks().get(entry.chunk() * stride, stride);
    first_of(Portable.matches::<_, false>(shape, chunk, key), chunk)
}
