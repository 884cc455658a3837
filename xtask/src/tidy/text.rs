//! Rules of text: width, notes, name plates, the changelog.

use std::path::Path;

use crate::tidy::rooms::room_of;
use crate::tidy::source::{Source, has_word};
use crate::tidy::{Finding, House};

/// T8: lines that are too wide, and notes of unfinished work.
pub fn lines(house: &House<'_>) -> Vec<Finding> {
    house.sources.iter().chain(&house.outside).flat_map(lines_of).collect()
}

fn lines_of(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            findings.push(Finding::new(&source.path, index + 1, format!("{columns} columns")));
        }
        // Notes stand in comments, and the words may stand in literals such as the list below.
        let comment = line.find("//").map_or("", |at| &line[at..]);
        if let Some(note) = NOTES.iter().find(|note| has_word(comment, note)) {
            findings.push(Finding::new(&source.path, index + 1, format!("a {note}")));
        }
    }
    let unfinished = ["todo!", "unimplemented!", "dbg!"];
    for words in unfinished {
        let places = source.lines_with(words);
        findings.extend(places.map(|line| Finding::new(&source.path, line, format!("`{words}`"))));
    }
    findings
}

/// T9: files whose first line does not say what they are.
pub fn name_plates(house: &House<'_>) -> Vec<Finding> {
    house.sources.iter().chain(&house.outside).filter_map(name_plate).collect()
}

fn name_plate(source: &Source) -> Option<Finding> {
    let first = source.text.lines().next().unwrap_or_default();
    let Some(sentence) = first.strip_prefix("//! ") else {
        let includes_readme = first.starts_with("#![doc = include_str!(");
        let what = "the first line is no `//! …`";
        return (!includes_readme).then(|| Finding::new(&source.path, 1, what));
    };
    let (_, stem) = room_of(&source.path)?;
    let folder = source.path.parent()?.file_name()?.to_str()?;
    let plate = format!("Room {stem} of {folder}: ");
    let what = format!("the first line does not begin with `//! {plate}…`");
    (!sentence.starts_with(&plate)).then(|| Finding::new(&source.path, 1, what))
}

/// T10: a changelog that does not keep its shape.
pub fn changelog(house: &House<'_>) -> Vec<Finding> {
    let path = Path::new("CHANGELOG.md");
    match std::fs::read_to_string(house.workspace.root.join(path)) {
        Ok(text) => changelog_findings(path, &text),
        Err(error) => vec![Finding::new(path, 0, error.to_string())],
    }
}

fn changelog_findings(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut releases = 0;
    for (index, line) in text.lines().enumerate() {
        let what = if let Some(release) = line.strip_prefix("## ") {
            releases += 1;
            let is_right =
                if releases == 1 { release == "[Unreleased]" } else { is_release(release) };
            (!is_right).then(|| format!("`{release}` is neither [Unreleased] nor a dated release"))
        } else if let Some(section) = line.strip_prefix("### ") {
            (!SECTIONS.contains(&section)).then(|| format!("sections are {}", SECTIONS.join(", ")))
        } else {
            None
        };
        findings.extend(what.map(|what| Finding::new(path, index + 1, what)));
    }
    if releases == 0 {
        findings.push(Finding::new(path, 0, "there is no `## [Unreleased]`"));
    }
    findings
}

/// Whether `release` looks like `[1.2.3] - 2026-01-31`, yanked or not.
fn is_release(release: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let Some((version, date)) = release.split_once(" - ") else { return false };
    let version = version.strip_prefix('[').and_then(|version| version.strip_suffix(']'));
    let date = date.strip_suffix(" [YANKED]").unwrap_or(date);
    let lengths: Vec<usize> = date.split('-').map(str::len).collect();
    version
        .is_some_and(|version| version.split('.').count() == 3 && version.split('.').all(is_number))
        && lengths == [4, 2, 2]
        && date.split('-').all(is_number)
}

const COLUMNS_MAX: usize = 100;

const NOTES: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

/// Those of keepachangelog.com, and measured performance.
const SECTIONS: &[&str] =
    &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Performance"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_and_notes_are_found() {
        let note = NOTES[0];
        let text = format!("//! A file.\n// {}\nlet a = 1; // {note}: more\n", "é".repeat(98));
        let findings = lines_of(&Source::new("a.rs", text));
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(lines_of(&Source::new("a.rs", "let todo = \"\";\n")), []);
        assert_eq!(lines_of(&Source::new("a.rs", "fn f() { todo!() }\n")).len(), 1);
    }

    #[test]
    fn a_room_names_itself() {
        let path = "crates/kernels/src/mont/ifma512_x8.rs";
        let plate = "//! Room ifma512_x8 of mont: eight products, one per lane.\n";
        assert_eq!(name_plate(&Source::new(path, plate)), None);
        assert!(name_plate(&Source::new(path, "//! Eight products.\n")).is_some());
        assert!(name_plate(&Source::new("crates/batch/src/lane.rs", "use a;\n")).is_some());
    }

    #[test]
    fn a_changelog_keeps_its_shape() {
        let path = Path::new("CHANGELOG.md");
        let right = "# Changelog\n## [Unreleased]\n### Added\n- a\n## [0.1.0] - 2026-01-31\n";
        assert_eq!(changelog_findings(path, right), []);
        assert_eq!(changelog_findings(path, "# Changelog\n").len(), 1);
        let wrong = "## [Unreleased]\n### News\n## [0.1] - 2026-1-31\n";
        let lines: Vec<_> =
            changelog_findings(path, wrong).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
