//! The counters at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use widelane_forward::Counts;
use widelane_report::{Block, Kind, Table};

use super::rules::Rules;
use crate::output;

#[derive(Serialize)]
struct Summary {
    seconds: f64,
    received: u64,
    /// By port.
    sent: Vec<u64>,
    /// By reason.
    dropped: BTreeMap<String, u64>,
    /// Those that were met, the most frequent first.
    rules: Vec<Met>,
}

#[derive(Serialize)]
struct Met {
    line: u32,
    rule: String,
    packets: u64,
}

/// Rules that the screen shows; JSON has all.
const SHOWN: usize = 20;

/// The counters as text, or as JSON.
pub fn of(counts: &Counts, rules: &Rules, took: Duration, json: bool) -> anyhow::Result<String> {
    let mut met = Vec::new();
    for (is_v6, counts) in [false, true].into_iter().zip(&counts.rules) {
        let numbered = counts.iter().zip(0..).filter(|(packets, _)| **packets > 0);
        met.extend(numbered.filter_map(|(&packets, number)| {
            let info = rules.info(is_v6, number)?;
            Some(Met { line: info.line, rule: info.text.to_string(), packets })
        }));
    }
    met.sort_by_key(|met| std::cmp::Reverse(met.packets));
    let summary = Summary {
        seconds: took.as_secs_f64(),
        received: counts.received,
        sent: counts.sent.clone(),
        dropped: counts.dropped().collect(),
        rules: met,
    };
    match json {
        true => Ok(serde_json::to_string_pretty(&summary)?),
        false => Ok(widelane_report::show(summary.blocks(), &output::style())),
    }
}

impl Summary {
    fn blocks(&self) -> Vec<Block> {
        let mut facts = Table::new(&[("Packets", Kind::Words), ("", Kind::Number)]);
        let mut fact = |name: String, count: u64| facts.rows.push(vec![name, count.to_string()]);
        fact("received".to_owned(), self.received);
        for (port, count) in self.sent.iter().enumerate().filter(|(_, count)| **count > 0) {
            fact(format!("sent by port {port}"), *count);
        }
        for (reason, count) in self.dropped.iter().filter(|(_, count)| **count > 0) {
            fact(format!("dropped: {reason}"), *count);
        }
        let mut rules =
            Table::new(&[("Line", Kind::Number), ("Rule", Kind::Words), ("Packets", Kind::Number)]);
        let shown = self.rules.iter().take(SHOWN);
        rules.rows.extend(
            shown.map(|met| vec![met.line.to_string(), met.rule.clone(), met.packets.to_string()]),
        );
        let mut blocks = vec![Block::Table(facts)];
        if !self.rules.is_empty() {
            blocks.push(Block::Table(rules));
        }
        if self.rules.len() > SHOWN {
            let others = self.rules.len() - SHOWN;
            blocks.push(Block::Text(format!("and {others} other rules; --json lists all")));
        }
        blocks
    }
}
