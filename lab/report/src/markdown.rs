//! Results as Markdown.

use widelane_results::Results;
use widelane_tables::{Block, Kind, Table};

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
            Block::Command(command) => format!("```sh\n{command}\n```\n"),
        })
        .filter(|block| block != "\n")
        .collect();
    blocks.join("\n")
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
    for character in text.chars() {
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
