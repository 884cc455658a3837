//! Pure functions from results to text. No input, no output, no clock.
//!
//! | Function | For |
//! |---|---|
//! | [`terminal()`] | the screen, as wide as it is |
//! | [`markdown()`] | an issue, a wiki |
//! | [`csv()`] | a spreadsheet: every row, every field |
//! | [`html()`] | one file to open, print or mail; needs nothing from outside |
//!
//! All but `csv` begin with the same sentence: whether it is worth it on this machine, or the
//! answer that the command itself gave.
//!
//! Other text for the screen can be given the same looks: build [`Block`]s and [`show`] them.

mod csv;
mod document;
mod html;
mod markdown;
mod terminal;
mod verdict;
mod view;
mod words;

pub use crate::csv::csv;
pub use document::{Block, Column, Kind, Table};
pub use html::html;
pub use markdown::markdown;
pub use terminal::{show, terminal};
pub use view::grid_table;
pub use widelane_results::Tone;
pub use words::{count, percent};

/// How text for a terminal is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub colour: bool,
    /// Columns to fit into.
    pub width: u16,
}
