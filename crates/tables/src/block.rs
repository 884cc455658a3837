//! What is shown: blocks of text and tables.

use serde::{Deserialize, Serialize};

/// Which way an answer goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// It pays.
    Better,
    /// No significant difference, or none was asked for.
    Same,
    /// It costs.
    Worse,
    /// The results do not answer.
    #[default]
    Unknown,
}

/// One block of the document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The answer.
    Lead(Tone, String),
    /// Running text.
    Text(String),
    /// Running text to heed.
    Warning(String),
    /// The title of what follows.
    Heading(String),
    /// A table.
    Table(Table),
    /// A line for the shell.
    Command(String),
}

/// A table of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, as many cells each as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its title; all columns of a table have one, or none.
    pub title: String,
    /// What it holds.
    pub kind: Kind,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words, set to the left.
    Words,
    /// Numbers, set to the right.
    Number,
    /// The numbers that matter most.
    Figure,
}

impl Column {
    /// Whether it is set to the right.
    pub fn is_number(&self) -> bool {
        self.kind != Kind::Words
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&str, Kind)]) -> Self {
        let columns =
            columns.iter().map(|&(title, kind)| Column { title: title.to_owned(), kind }).collect();
        Table { columns, rows: Vec::new() }
    }

    /// A table of names and values, without titles.
    pub fn of_facts(facts: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut table = Table::new(&[("", Kind::Words), ("", Kind::Words)]);
        table.rows.extend(facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]));
        table
    }

    /// Leaves out the columns that have nothing but a title.
    pub fn without_empty_columns(mut self) -> Self {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[index].is_empty()) {
                self.columns.remove(index);
                self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
            }
        }
        self
    }

    /// Leaves out as many of the last columns as lines of `width` have no room for.
    pub fn fitted(mut self, width: u16) -> Self {
        while self.columns.len() > 1 && self.width() > usize::from(width) {
            self.columns.pop();
            self.rows.iter_mut().for_each(|row| drop(row.pop()));
        }
        self
    }

    /// The length of its lines where no cell is wrapped, with a space between two.
    pub(crate) fn width(&self) -> usize {
        let columns = self.columns.iter().enumerate();
        let widths =
            columns.map(|(index, column)| self.cells_width(index).max(width(&column.title)));
        widths.sum::<usize>() + self.columns.len().saturating_sub(1)
    }

    /// The width in which no number of a column is broken.
    pub(crate) fn number_width(&self, index: usize) -> usize {
        if self.columns[index].is_number() { self.cells_width(index) } else { 0 }
    }

    /// The width in which no word of a column's title is broken either.
    pub(crate) fn title_width(&self, index: usize) -> usize {
        let words = self.columns[index].title.split_whitespace().map(width);
        words.max().unwrap_or_default().max(self.number_width(index))
    }

    /// The length of the longest line in the cells of a column.
    fn cells_width(&self, index: usize) -> usize {
        self.rows.iter().map(|row| width(&row[index])).max().unwrap_or(0)
    }
}

/// The length of the longest line of a text.
fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}
