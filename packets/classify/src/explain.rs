//! What lookups in a table cost, and why: how rules were divided, what a lookup reads, and which
//! rules it compares in vain.

use std::collections::HashSet;
use std::ops::Range;

use crate::rule::RuleSet;
use crate::run::record::{Step, record};
use crate::table::{Entry, NODE_HEADER, Node, RULES_PER_CHUNK, Table, rank_of};

/// What lookups in a table cost.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The trees, in the order in which a lookup visits them.
    pub trees: Vec<TreeCost>,
    /// What each rule costs, in the order of the set.
    pub rules: Vec<RuleCost>,
}

/// The form of one tree, and what lookups read of it.
#[derive(Clone, Debug, Default)]
pub struct TreeCost {
    /// Nodes.
    pub nodes: usize,
    /// Entries of all nodes together.
    pub entries: usize,
    /// Nodes on the longest path.
    pub depth: usize,
    /// How many leaves have a list of one chunk of eight rules, of two, and so on.
    pub leaves: Vec<usize>,
    /// Nodes read by a lookup, on average.
    pub nodes_per_lookup: f64,
    /// Chunks compared by a lookup, on average.
    pub chunks_per_lookup: f64,
    /// Bytes read by a lookup in whole cache lines, on average.
    pub bytes_per_lookup: f64,
    /// Bytes that all lookups together read: what competes for the caches.
    pub bytes_touched: usize,
}

/// What a rule costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleCost {
    /// How often it stands in leaves.
    pub places: usize,
    /// How often a lookup compares it and another rule, or none, decides; on average.
    pub in_vain_per_lookup: f64,
}

/// Words and bytes of a cache line, the least that a lookup reads.
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = 64;

/// Looks up packets in a table that was built of a set, and reports what that reads.
///
/// # Panics
///
/// If a packet is shorter than the layout's span.
pub fn explain(set: &RuleSet, table: &Table, packets: &[&[u8]]) -> Explanation {
    let order = set.by_strength();
    let mut rules = vec![RuleCost::default(); set.rules.len()];
    let mut trees: Vec<TreeCost> =
        table.index()[..table.roots()].iter().map(|root| form(table, Entry(*root))).collect();
    let mut counted = HashSet::new();
    let leaves = trees.iter_mut().zip(table.index());
    for (tree, root) in leaves {
        count_leaves(table, Entry(*root), tree, &mut counted, &mut |rank| {
            if let Some(&rule) = order.get(rank as usize) {
                rules[rule as usize].places += 1;
            }
        });
    }
    let each = 1.0 / packets.len().max(1) as f64;
    let mut touched = vec![HashSet::new(); trees.len()];
    let mut compared = Vec::new();
    for packet in packets {
        let found = record(table, packet, |tree, step| {
            let cost = &mut trees[tree];
            match step {
                Step::Node { .. } => cost.nodes_per_lookup += each,
                Step::Chunk(at) => {
                    cost.chunks_per_lookup += each;
                    compared.push(at);
                }
            }
            for line in lines(table, step) {
                cost.bytes_per_lookup += LINE_BYTES as f64 * each;
                touched[tree].insert(line);
            }
        });
        let decisive: Vec<u32> = found.into_iter().map(rank_of).collect();
        for rank in compared.drain(..).flat_map(|at| ranks(table, at)) {
            if let Some(&rule) = order.get(rank as usize).filter(|_| !decisive.contains(&rank)) {
                rules[rule as usize].in_vain_per_lookup += each;
            }
        }
    }
    for (tree, touched) in trees.iter_mut().zip(touched) {
        tree.bytes_touched = LINE_BYTES * touched.len();
    }
    Explanation { trees, rules }
}

/// The nodes below an entry.
fn form(table: &Table, root: Entry) -> TreeCost {
    let mut tree = TreeCost::default();
    let mut open = vec![(root, 1)];
    while let Some((entry, depth)) = open.pop() {
        let Some(at) = entry.as_node() else { continue };
        let node = Node::at(table.index(), at);
        tree.nodes += 1;
        tree.entries += node.entries.len();
        tree.depth = tree.depth.max(depth);
        open.extend(node.entries.iter().map(|entry| (Entry(*entry), depth + 1)));
    }
    tree
}

/// Counts the leaves below an entry that no other cell has led to, and calls `note` with the rank
/// of each rule that they list.
fn count_leaves(
    table: &Table,
    root: Entry,
    tree: &mut TreeCost,
    counted: &mut HashSet<usize>,
    note: &mut impl FnMut(u32),
) {
    let mut open = vec![root];
    while let Some(entry) = open.pop() {
        if let Some(at) = entry.as_node() {
            open.extend(Node::at(table.index(), at).entries.iter().map(|entry| Entry(*entry)));
        } else if entry != Entry::EMPTY && counted.insert(entry.chunk()) {
            let length = entry.further_chunks() + 1;
            tree.leaves.resize(tree.leaves.len().max(length), 0);
            tree.leaves[length - 1] += 1;
            let chunks = entry.chunk()..entry.chunk() + length;
            chunks.flat_map(|at| ranks(table, at)).for_each(&mut *note);
        }
    }
}

/// The ranks of the rules in a chunk, whose free places repeat the last of them.
fn ranks(table: &Table, at: usize) -> Vec<u32> {
    let stride = table.shape().chunk_words();
    let chunk = table.chunks().get(at * stride, stride);
    let mut ranks: Vec<u32> =
        chunk[stride - RULES_PER_CHUNK..].iter().map(|verdict| rank_of(*verdict)).collect();
    ranks.dedup();
    ranks
}

/// A cache line of the index, or of the chunks.
type Line = (bool, usize);

/// The cache lines that a step reads.
fn lines(table: &Table, step: Step) -> impl Iterator<Item = Line> {
    let of_words = |words: Range<usize>| words.start / LINE_WORDS..=(words.end - 1) / LINE_WORDS;
    let stride = table.shape().chunk_words();
    let (is_chunk, lines) = match step {
        Step::Chunk(at) => (true, vec![of_words(at * stride..(at + 1) * stride)]),
        Step::Node { at, entry_at } => {
            (false, vec![of_words(at..at + NODE_HEADER), of_words(entry_at..entry_at + 1)])
        }
    };
    let lines: HashSet<usize> = lines.into_iter().flatten().collect();
    lines.into_iter().map(move |line| (is_chunk, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::build;
    use crate::rule::csv;
    use crate::{Flow, Limits};

    #[test]
    fn a_rule_that_decides_any_category_is_not_compared_in_vain() {
        let text = "source,result,categories\n10.0.0.0/8,1,0\n10.1.0.0/16,2,1\n\
                    10.1.1.0/24,3,1\n*,4,0 1 2\n";
        let set = csv::parse("r", text).unwrap();
        let (table, account) = build(&set, &Limits::default()).unwrap();
        let flow = Flow::v4(0x0a01_0101, 1, [2, 3], 6);
        let explained = explain(&set, &table, &[flow.packet()]);
        let vain: Vec<f64> = explained.rules.iter().map(|rule| rule.in_vain_per_lookup).collect();
        assert_eq!(vain[..2], [0.0, 0.0], "they decide");
        assert_eq!(vain[3], 0.0, "it decides the last category");
        assert!(vain[2] <= 1.0);
        let places: usize = explained.rules.iter().map(|rule| rule.places).sum();
        let listed: usize = account.groups.iter().map(|group| group.listed).sum();
        assert_eq!(listed, places, "free places of chunks do not count");
    }
}
