//! The scribe: pure functions from results to text. No input, no output, no clock.

/// How text for a terminal is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub colour: bool,
    /// Columns to fit into.
    pub width: u16,
}
