//! The types of a results file, the contract between what measures and what shows.
//!
//! A results file is one JSON object, [`Results`]. Its JSON Schema is published as
//! `docs/formats/results-schema.json` and `docs/formats/results.md` explains it in prose. A reader
//! accepts the schemas of [`READABLE`]; unknown fields are ignored, so fields may be added without
//! a new version.
//!
//! **Invariant**: types only. Nothing here measures, prints or touches a file.

mod found;
mod machine;
mod measurement;
mod read;
mod row;

use serde::{Deserialize, Serialize};

pub use found::{Answer, Axis, Grid, Trace};
pub use machine::{Machine, RoomStatus};
pub use measurement::{
    BUSY_SHARE, Bucket, Histogram, HistogramKind, Measurement, Operations, Pair,
};
pub use read::ReadError;
pub use row::{Row, Status};
pub use widelane_tables::Tone;

/// The schema that this version writes.
pub const SCHEMA: &str = "widelane-results/2";

/// The schemas that this version reads. In the first, a ratio was that of medians over all rounds,
/// and scenarios of servers did not name the key-exchange group.
pub const READABLE: [&str; 2] = ["widelane-results/1", SCHEMA];

/// The fewest rounds whose ratios have a 95 % interval that holds whatever their distribution: of
/// fewer, the true median lies outside of all of them too often.
pub const ROUNDS_FOR_INTERVAL: usize = 6;

/// Everything that one run of a measuring command found out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Results {
    /// [`SCHEMA`], or what an older version of the program wrote.
    pub schema: String,
    /// When the run began, RFC 3339 in UTC.
    pub created: String,
    /// The command line, program name first.
    pub command: Vec<String>,
    /// How long the run has taken so far, seconds.
    pub duration_s: f64,
    /// Whether the run came to its end; `false` in the partial results of one that was cut short.
    pub complete: bool,
    /// What decided the arrivals and draws of clients, together with scenario and round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// Where it ran.
    pub machine: Machine,
    /// The results proper, one per scenario, subject and metric.
    pub rows: Vec<Row>,
    /// The raw interleaved measurements behind the ratios, rejected ones included.
    pub pairs: Vec<Pair>,
    /// Batch fill, waits and latencies.
    pub histograms: Vec<Histogram>,
    /// By which path the public-key operations of accelerated servers went.
    #[serde(default)]
    pub operations: Vec<Operations>,
    /// The answer, where the command judges what it measured.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// What ran along time or another quantity.
    #[serde(default)]
    pub traces: Vec<Trace>,
    /// Maps of two quantities.
    #[serde(default)]
    pub grids: Vec<Grid>,
    /// Remarks for the reader, each one sentence or two.
    pub notes: Vec<String>,
}

impl Results {
    /// Adds a remark, unless it is there already.
    pub fn note(&mut self, remark: impl Into<Option<String>>) {
        let is_new = |remark: &String| !self.notes.contains(remark);
        let remark = remark.into().filter(is_new);
        self.notes.extend(remark);
    }
}

/// The JSON Schema of [`Results`], pretty-printed, as published in
/// `docs/formats/results-schema.json`.
#[cfg(feature = "schema")]
pub fn json_schema() -> String {
    let mut text = format!("{:#}", schemars::schema_for!(Results).as_value());
    text.push('\n');
    text
}
