//! Text for terminals: an answer, paragraphs, tables. Pure functions, without input and output.
//!
//! Build [`Block`]s and [`show`] them.

mod block;
mod numbers;
mod terminal;

pub use block::{Block, Column, Kind, Table, Tone};
pub use numbers::{count, counted, grouped, percent};
pub use terminal::{printable, show};

/// How text for a terminal is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub colour: bool,
    /// Columns to fit into.
    pub width: u16,
}
