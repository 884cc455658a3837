//! Results as Markdown.

use widelane_results::Results;
use widelane_tables::{Block, Kind, Table, printable};

use crate::document::document;

/// Shows `results` as Markdown: the same content as on a terminal, in tables that GitHub
/// understands.
pub fn markdown(results: &Results) -> String {
    let blocks: Vec<String> = document(results)
        .into_iter()
        .map(|block| match block {
            Block::Lead(_, text) => format!("**{}**\n", escape(&text)),
            Block::Text(text) | Block::Warning(text) => format!("{}\n", escape(&text)),
            Block::Heading(text) => format!("## {}\n", escape(&text)),
            Block::Table(table) => pipes(&table),
            Block::Command(command) => fenced(&command),
        })
        .filter(|block| block != "\n")
        .collect();
    blocks.join("\n")
}

/// Shows several results as Markdown, each below the name of its file.
pub fn markdown_of_files(files: &[(String, Results)]) -> String {
    let named = |(name, results): &(String, Results)| {
        format!("# {}\n\n{}", escape(name), markdown(results))
    };
    files.iter().map(named).collect::<Vec<_>>().join("\n")
}

/// A command in a fence that nothing in it can close.
fn fenced(command: &str) -> String {
    const LENGTH_MIN: usize = 3;
    let command = printable(command);
    let longest = command.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(LENGTH_MIN.max(longest + 1));
    format!("{fence}sh\n{command}\n{fence}\n")
}

fn pipes(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let titles = table.columns.iter().map(|column| escape(&column.title)).collect();
    let rules = table.columns.iter().map(|column| match column.kind {
        Kind::Words => "---".to_owned(),
        Kind::Number | Kind::Figure => "---:".to_owned(),
    });
    let rows = table.rows.iter().map(|row| line(row.iter().map(|cell| escape(cell)).collect()));
    line(titles) + &line(rules.collect()) + &rows.collect::<String>()
}

/// `text` without the characters that Markdown takes for its own.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\n' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_command_ends_its_fence_or_commands_a_terminal() {
        let shown = fenced("widelane '\n````\n# Heading\u{1b}[2J'");
        assert_eq!(shown, "`````sh\nwidelane '\n````\n# Heading\u{fffd}[2J'\n`````\n");
        assert_eq!(fenced("widelane compare"), "```sh\nwidelane compare\n```\n");
        assert_eq!(escape("a\rb\u{1b}c\nd"), "a\u{fffd}b\u{fffd}c d");
    }
}
