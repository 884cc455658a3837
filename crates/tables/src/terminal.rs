//! Blocks as a terminal shows them.

use std::borrow::Cow;

use comfy_table::presets::NOTHING;
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Width,
};

use crate::{Block, Kind, Style, Table, Tone};

const BOLD: &str = "\x1b[1m";
const BOLD_GREEN: &str = "\x1b[1;32m";
const BOLD_YELLOW: &str = "\x1b[1;33m";
const YELLOW: &str = "\x1b[33m";
const RESET: &str = "\x1b[0m";

/// Shows `blocks` on a terminal.
pub fn show(blocks: impl IntoIterator<Item = Block>, style: &Style) -> String {
    let mut screen = Screen { text: String::new(), style };
    for block in blocks {
        match block {
            Block::Lead(Tone::Better, text) => screen.paragraph(&text, BOLD_GREEN),
            Block::Lead(Tone::Worse, text) => screen.paragraph(&text, BOLD_YELLOW),
            Block::Lead(Tone::Same | Tone::Unknown, text) => screen.paragraph(&text, BOLD),
            Block::Text(text) => screen.paragraph(&text, ""),
            Block::Warning(text) => screen.paragraph(&text, YELLOW),
            Block::Heading(text) => {
                screen.line("");
                screen.paragraph(&text, BOLD);
            }
            Block::Table(table) => screen.table(table),
            // Never wrapped: it is to be copied.
            Block::Command(command) => screen.line(&format!(" {}", printable(&command))),
        }
    }
    screen.text
}

/// Text without terminal control sequences: names of files and results may come from untrusted
/// sources. Line ends stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let commands = |char: char| char.is_control() && char != '\n';
    if text.contains(commands) {
        Cow::Owned(text.replace(commands, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text so far.
struct Screen<'a> {
    text: String,
    style: &'a Style,
}

impl Screen<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// `text` wrapped at spaces, in the ANSI style `ansi`.
    fn paragraph(&mut self, text: &str, ansi: &str) {
        let width = usize::from(self.style.width);
        let mut lines: Vec<String> = Vec::new();
        for word in printable(text).split_whitespace() {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        for line in lines {
            if self.style.colour && !ansi.is_empty() {
                self.line(&format!("{ansi}{line}{RESET}"));
            } else {
                self.line(&line);
            }
        }
    }

    fn table(&mut self, content: Table) {
        // Columns are three spaces apart, or one where no cell has to be wrapped then, or where
        // they would not fit otherwise.
        let width = usize::from(self.style.width);
        let columns = content.columns.len();
        let fits =
            |widths: &[usize], apart| widths.iter().sum::<usize>() + columns * apart <= width;
        // No number is broken, which over two lines would be read as two, and if there is room, no
        // word of a title.
        let mut needed: Vec<usize> = (0..columns).map(|it| content.title_width(it)).collect();
        if !fits(&needed, 1) {
            needed = (0..columns).map(|index| content.number_width(index)).collect();
        }
        let is_tight =
            content.width() <= width && content.width() + 2 * columns > width || !fits(&needed, 3);
        let padding = if is_tight { (0, 0) } else { (1, 1) };
        let mut table = comfy_table::Table::new();
        table
            .load_style(NOTHING.header_separator(LineStyle::none().fill('─').junction('─')))
            .force_no_tty()
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.style.width);
        if self.style.colour {
            table.enforce_styling();
        }
        if content.columns.iter().any(|column| !column.title.is_empty()) {
            table.set_header(content.columns.iter().map(|column| printable(&column.title)));
        }
        for row in content.rows {
            let cells = row.into_iter().zip(&content.columns).map(|(text, column)| {
                let cell = Cell::new(printable(&text));
                match column.kind {
                    Kind::Words => cell,
                    Kind::Number => cell.set_alignment(CellAlignment::Right),
                    Kind::Figure => {
                        cell.set_alignment(CellAlignment::Right).add_attribute(Attribute::Bold)
                    }
                }
            });
            table.add_row(cells);
        }
        let columns = table.column_iter_mut().zip(&content.columns);
        for ((column, content), needed) in columns.zip(needed) {
            column.set_padding(padding);
            if content.is_number() {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let width = Width::Fixed(needed as u16 + padding.0 + padding.1);
            column.set_constraint(ColumnConstraint::LowerBoundary(width));
        }
        for line in table.lines() {
            self.line(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_wrapped_and_columns_left_out_whole() {
        let kinds = [("Command", Kind::Words), ("PID", Kind::Number), ("Rate", Kind::Figure)];
        let mut table = Table::new(&kinds);
        let cells = ["a command of many words", "1234567", "123,456"];
        table.rows.push(cells.map(str::to_owned).into());
        let shown = |table: &Table, width| {
            show([Block::Table(table.clone())], &Style { colour: false, width })
        };
        for width in [1, 20, 40, 80] {
            let (whole, fitted) = (shown(&table, width), table.clone().fitted(width));
            assert!(whole.contains("1234567") && whole.contains("123,456"), "{whole}");
            let text = shown(&fitted, width);
            let is_short = text.lines().all(|line| line.chars().count() <= usize::from(width));
            assert!(is_short || fitted.columns.len() == 1, "{text}");
        }
        let columns =
            [1, 20, 30, 31, 38, 39].map(|width| table.clone().fitted(width).columns.len());
        assert_eq!(columns, [1, 1, 1, 2, 2, 3]);
        assert_eq!(shown(&table, u16::MAX).lines().count(), 3);
    }

    #[test]
    fn no_word_of_a_heading_is_broken() {
        let titles =
            ["Scenario", "Conn.", "Kernel", "Accelerated", "As installed", "95 % interval"];
        let kind = |title| if title == "Accelerated" { Kind::Number } else { Kind::Words };
        let mut table = Table::new(&titles.map(|title| (title, kind(title))));
        let scenario = "nginx, TLS 1.3, RSA-2048, X25519, with more words than fit into a line";
        let cells = [scenario, "64", "ifma512", "361", "586", "rejected"];
        table.rows.push(cells.map(str::to_owned).into());
        for width in [60, 72, 80] {
            let shown = show([Block::Table(table.clone())], &Style { colour: false, width });
            let words = titles.iter().flat_map(|title| title.split(' '));
            assert!(words.clone().all(|word| shown.contains(word)), "{shown}");
            let lines = shown.lines().map(|line| line.chars().count());
            assert!(lines.max() <= Some(usize::from(width)), "{shown}");
        }
    }

    #[test]
    fn nothing_shown_commands_the_terminal() {
        let hostile = "a\x1b]52;c;eA==\x07b\u{9b}2J";
        let mut table = Table::new(&[(hostile, Kind::Words)]);
        table.rows.push(vec![hostile.to_owned()]);
        let blocks = [
            Block::Warning(hostile.to_owned()),
            Block::Command(hostile.to_owned()),
            Block::Table(table),
        ];
        let shown = show(blocks, &Style { width: 80, colour: false });
        assert!(!shown.contains(|char: char| char.is_control() && char != '\n'), "{shown:?}");
        assert_eq!(shown.matches("a\u{fffd}]52;c;eA==\u{fffd}b").count(), 4, "{shown}");
    }
}
