//! Pure functions from results to text. No input, no output, no clock.
//!
//! | Function | For |
//! |---|---|
//! | [`terminal`], [`terminal_of_files`] | the screen, as wide as it is |
//! | [`markdown()`], [`markdown_of_files`] | an issue, a wiki |
//! | [`csv()`], [`csv_of_files`] | a spreadsheet: every row, every field |
//! | [`html()`] | one file to open, print or mail; needs nothing from outside |
//!
//! All but CSV begin with the same sentence: whether it is worth it on this machine, or the
//! answer that the command itself gave.

mod csv;
mod document;
mod html;
mod markdown;
mod verdict;
mod view;
mod words;

pub use crate::csv::{csv, csv_of_files};
pub use document::{terminal, terminal_of_files};
pub use html::html;
pub use markdown::{markdown, markdown_of_files};
pub use view::grid_table;
