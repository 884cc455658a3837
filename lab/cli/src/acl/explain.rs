//! What `widelane acl check --explain` says: how rules were divided, and what lookups cost.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use widelane_classify::build::GroupAccount;
use widelane_classify::explain::{TreeCost, explain};
use widelane_classify::rule::RuleSet;
use widelane_classify::{Flow, Limits, build};
use widelane_tables::{Block, Kind, Table as Sheet};

use super::input;

/// Flows that are drawn from the rules where no trace is given.
const FLOWS: usize = 4096;
/// Rules that are named.
const RULES: usize = 10;

/// How rules were divided, and what lookups cost.
#[derive(Serialize)]
pub struct Explained {
    lookups: usize,
    table_bytes: usize,
    /// In the order in which a lookup visits them.
    trees: Vec<Tree>,
    /// Those that lookups compare most often in vain.
    slow_rules: Vec<SlowRule>,
}

#[derive(Serialize)]
struct Tree {
    /// The address fields that its rules fix.
    fixed: Vec<String>,
    rules: usize,
    tables: usize,
    entries: usize,
    depth: usize,
    /// How many lists take one chunk of eight rules, two, and so on.
    lists_by_chunks: Vec<usize>,
    tables_per_lookup: f64,
    chunks_per_lookup: f64,
    bytes_per_lookup: f64,
    bytes_touched: usize,
}

#[derive(Serialize)]
struct SlowRule {
    line: u32,
    places_in_leaves: usize,
    compared_in_vain_per_lookup: f64,
}

impl Explained {
    /// Builds a table of a set, and looks flows up in it: those of a trace, or some drawn from the
    /// rules.
    pub fn of(set: &RuleSet, trace: Option<&Path>, limits: &Limits) -> anyhow::Result<Self> {
        let flows = match trace {
            Some(trace) => input::trace(trace, &set.layout)?,
            None => Flow::drawn(set, FLOWS, 1).context("rules of these fields need --trace")?,
        };
        let packets: Vec<&[u8]> = flows.iter().map(Flow::packet).collect();
        let (table, account) = build::build(set, limits)?;
        let found = explain(set, &table, &packets);
        let trees = account.groups.into_iter().zip(found.trees).map(Tree::of).collect();
        // A line with sets stands for several rules.
        let costs: Vec<_> = set.rules.iter().zip(&found.rules).collect();
        let by_line = costs.chunk_by(|one, other| one.0.line == other.0.line);
        let mut slow_rules: Vec<SlowRule> = by_line
            .map(|costs| SlowRule {
                line: costs[0].0.line,
                places_in_leaves: costs.iter().map(|of| of.1.places).sum(),
                compared_in_vain_per_lookup: costs.iter().map(|of| of.1.in_vain_per_lookup).sum(),
            })
            .collect();
        let vain = |rule: &SlowRule| rule.compared_in_vain_per_lookup;
        slow_rules.sort_by(|one, other| vain(other).total_cmp(&vain(one)));
        slow_rules.truncate(RULES);
        let table_bytes = account.table_bytes;
        Ok(Explained { lookups: packets.len(), table_bytes, trees, slow_rules })
    }

    /// What the screen shows.
    pub fn blocks(&self) -> Vec<Block> {
        let text = format!(
            "{} lookups in a table of {} bytes, per tree and lookup:",
            self.lookups, self.table_bytes
        );
        let columns = [
            ("Rules that fix", Kind::Words),
            ("Rules", Kind::Number),
            ("Tables", Kind::Number),
            ("Depth", Kind::Number),
            ("Lists", Kind::Number),
            ("Longest, chunks", Kind::Number),
            ("Tables read", Kind::Number),
            ("Chunks read", Kind::Number),
            ("Bytes read", Kind::Number),
            ("Bytes touched", Kind::Number),
        ];
        let mut trees = Sheet::new(&columns);
        trees.rows.extend(self.trees.iter().map(Tree::row));
        let mut rules = Sheet::new(&[
            ("Line", Kind::Number),
            ("Places in lists", Kind::Number),
            ("Compared in vain per lookup", Kind::Number),
        ]);
        rules.rows.extend(self.slow_rules.iter().map(|rule| {
            let vain = format!("{:.3}", rule.compared_in_vain_per_lookup);
            vec![rule.line.to_string(), rule.places_in_leaves.to_string(), vain]
        }));
        vec![Block::Text(text), Block::Table(trees), Block::Table(rules)]
    }
}

impl Tree {
    fn of((group, cost): (GroupAccount, TreeCost)) -> Self {
        Tree {
            fixed: group.fixed,
            rules: group.rules,
            tables: cost.nodes,
            entries: cost.entries,
            depth: cost.depth,
            lists_by_chunks: cost.leaves,
            tables_per_lookup: cost.nodes_per_lookup,
            chunks_per_lookup: cost.chunks_per_lookup,
            bytes_per_lookup: cost.bytes_per_lookup,
            bytes_touched: cost.bytes_touched,
        }
    }

    fn row(&self) -> Vec<String> {
        let fixed = match self.fixed.as_slice() {
            [] => "no common address".to_owned(),
            fixed => fixed.join(" and "),
        };
        vec![
            fixed,
            self.rules.to_string(),
            self.tables.to_string(),
            self.depth.to_string(),
            self.lists_by_chunks.iter().sum::<usize>().to_string(),
            self.lists_by_chunks.len().to_string(),
            format!("{:.2}", self.tables_per_lookup),
            format!("{:.2}", self.chunks_per_lookup),
            format!("{:.0}", self.bytes_per_lookup),
            self.bytes_touched.to_string(),
        ]
    }
}
