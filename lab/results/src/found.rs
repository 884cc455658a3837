//! What a command found beside its rows: the answer, what ran along time, and maps of two
//! quantities.

use serde::{Deserialize, Serialize};
use widelane_tables::Tone;

/// The answer of a command that judges what it measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Which way it goes.
    pub tone: Tone,
    /// The answer, one sentence.
    pub sentence: String,
    /// What it rests on; empty where the sentence says all.
    pub detail: String,
}

/// One value along time or another quantity. Traces of the same scenario, metric and quantity
/// belong into one chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trace {
    /// Scenario, as in [`crate::Row::scenario`].
    pub scenario: String,
    /// Whose trace it is: `full`, `p99`, `CPU 1`.
    pub subject: String,
    /// What was measured, as listed in `docs/formats/results.md`.
    pub metric: String,
    /// Unit of the values; `1` for a plain number.
    pub unit: String,
    /// What it runs along: `time`, `rate due`.
    pub along: String,
    /// Unit of that.
    pub along_unit: String,
    /// Where, and the value there; the first of each pair never falls.
    pub points: Vec<[f64; 2]>,
}

/// Shares of one by two quantities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grid {
    /// Scenario, as in [`crate::Row::scenario`].
    pub scenario: String,
    /// Whose shares they are.
    pub subject: String,
    /// What was measured, as listed in `docs/formats/results.md`.
    pub metric: String,
    /// What changes from row to row.
    pub down: Axis,
    /// What changes from column to column.
    pub across: Axis,
    /// Row by row; nothing where there was nothing to measure, or nothing could be told.
    pub shares: Vec<Vec<Option<f64>>>,
}

/// One quantity of a [`Grid`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Axis {
    /// What it is called.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Its values.
    pub places: Vec<f64>,
}
