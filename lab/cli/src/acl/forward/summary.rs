//! What is said at the end: rates and counters.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use widelane_bench::stats::Ratio;
use widelane_cli::output;
use widelane_forward::Counts;
use widelane_tables::{Block, Kind, Table};

use super::rules::Rules;

#[derive(Serialize)]
struct Summary {
    seconds: f64,
    /// In memory, of each room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rooms: Vec<Rate>,
    received: u64,
    /// By port.
    sent: Vec<u64>,
    /// By reason.
    dropped: BTreeMap<String, u64>,
    /// Those that were met, the most frequent first.
    rules: Vec<Met>,
}

/// How fast a room was.
#[derive(Serialize)]
pub struct Rate {
    pub room: String,
    pub mpps_per_cpu_second: Option<f64>,
    /// How many times as fast as `portable`, and between which bounds; those where there were turns
    /// enough.
    pub of_portable: Option<[Option<f64>; 3]>,
}

#[derive(Serialize)]
struct Met {
    line: u32,
    rule: String,
    packets: u64,
}

/// Rules that the screen shows; JSON has all.
const SHOWN: usize = 20;

/// Rates and counters as text, or as JSON.
pub fn of(
    rooms: Vec<Rate>,
    counts: &Counts,
    rules: &Rules,
    took: Duration,
    json: bool,
) -> anyhow::Result<String> {
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
        rooms,
        received: counts.received,
        sent: counts.sent.clone(),
        dropped: counts.dropped().collect(),
        rules: met,
    };
    match json {
        true => Ok(serde_json::to_string_pretty(&summary)?),
        false => Ok(widelane_tables::show(summary.blocks(), &output::style())),
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
        let rates = (!self.rooms.is_empty()).then(|| Block::Table(rates(&self.rooms)));
        let mut blocks: Vec<Block> = rates.into_iter().chain([Block::Table(facts)]).collect();
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

fn rates(rooms: &[Rate]) -> Table {
    let mut table = Table::new(&[
        ("Room", Kind::Words),
        ("Mpps per CPU-second", Kind::Number),
        ("Of portable's", Kind::Words),
    ]);
    table.rows.extend(rooms.iter().map(|Rate { room, mpps_per_cpu_second, of_portable }| {
        let mpps = mpps_per_cpu_second.map_or(String::new(), |mpps| format!("{mpps:.2}"));
        let ratio = of_portable.and_then(|[value, low, high]| {
            let ends = low.zip(high).map(|(low, high)| [low, high]);
            Some(Ratio { value: value?, ends }.to_string())
        });
        vec![room.clone(), mpps, ratio.unwrap_or_default()]
    }));
    table
}
