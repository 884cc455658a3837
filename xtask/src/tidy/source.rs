//! A Rust file, and what is left of it when comments and literals are blanked.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tidy::House;
use crate::workspace::Workspace;

/// A Rust file.
pub struct Source {
    /// Path relative to the workspace's root.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
    /// The text with comments and the insides of literals replaced by spaces, line for line.
    pub code: String,
}

impl Source {
    /// Takes a file's text.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let text = text.into();
        let code = blank(&text);
        Source { path: path.into(), text, code }
    }

    /// Lines of code that contain `words`, counted from 1. Words are not found inside longer names.
    pub fn lines_with<'a>(&'a self, words: &'a str) -> impl Iterator<Item = usize> + 'a {
        let lines = self.code.lines().enumerate();
        lines.filter(move |(_, line)| has_word(line, words)).map(|(index, _)| index + 1)
    }

    /// Whether a line stands in unit tests, which are at the very bottom of their file.
    pub fn is_in_unit_tests(&self, line: usize) -> bool {
        let marker = self.code.lines().position(|line| line.ends_with("mod tests {"));
        marker.is_some_and(|index| line > index)
    }

    /// Whether the file is a test, an example or a benchmark.
    pub fn is_test(&self) -> bool {
        self.path.components().any(|part| {
            ["tests", "examples", "benches", "integration"]
                .iter()
                .any(|name| part.as_os_str() == *name)
        })
    }
}

impl<'a> House<'a> {
    /// Reads all Rust files.
    pub fn read(workspace: &'a Workspace) -> Result<Self> {
        let directories = workspace.packages.iter().map(|package| package.directory.clone());
        let sources = read_all(workspace, directories)?;
        let outside = read_all(workspace, OUTSIDE.iter().map(|place| workspace.root.join(place)))?;
        Ok(House { workspace, sources, outside })
    }
}

/// Where Rust files are that belong to no package of the workspace.
const OUTSIDE: [&str; 2] = ["fuzz/fuzz_targets", "rivals"];

fn read_all(
    workspace: &Workspace,
    directories: impl Iterator<Item = PathBuf>,
) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for directory in directories {
        read_below(workspace, &directory, &mut sources)?;
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    // A package may be in the directory of another.
    sources.dedup_by(|a, b| a.path == b.path);
    Ok(sources)
}

fn read_below(workspace: &Workspace, directory: &Path, sources: &mut Vec<Source>) -> Result<()> {
    let entries = directory.read_dir().with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        // Rivals are built where they stand.
        if path.is_dir() && !path.ends_with("target") {
            read_below(workspace, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("{} is not text", path.display()))?;
            sources.push(Source::new(path.strip_prefix(&workspace.root)?, text));
        }
    }
    Ok(())
}

/// Whether `line` contains `words` with no part of a name on either side.
pub fn has_word(line: &str, words: &str) -> bool {
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let begins = words.starts_with(is_name);
    let ends = words.ends_with(is_name);
    line.match_indices(words).any(|(index, _)| {
        let inside = (begins && line[..index].ends_with(is_name))
            || (ends && line[index + words.len()..].starts_with(is_name));
        !inside
    })
}

/// Replaces comments and the insides of literals by spaces; line breaks stay.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let in_name = code.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let literal = match char {
            '"' => Some(string(rest)),
            'r' if !in_name || is_prefixed(&code) => raw_string(rest),
            '\'' => char_literal(rest),
            _ => None,
        };
        let length = if let Some(length) = literal {
            code.push(char);
            erase(&rest[1..length - 1], &mut code);
            code.push_str(&rest[length - 1..length]);
            length
        } else if rest.starts_with("//") || rest.starts_with("/*") {
            let length = comment(rest);
            erase(&rest[..length], &mut code);
            length
        } else {
            code.push(char);
            char.len_utf8()
        };
        rest = &rest[length..];
    }
    code
}

/// Writes a space for every character of `text` but the line breaks.
fn erase(text: &str, code: &mut String) {
    code.extend(text.chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
}

/// Whether `code` ends in the `b` or `c` of a literal such as `br"…"`.
fn is_prefixed(code: &str) -> bool {
    let mut back = code.chars().rev();
    matches!(back.next(), Some('b' | 'c'))
        && !back.next().is_some_and(|char| char.is_alphanumeric() || char == '_')
}

/// Length of the comment, with the comments inside it, that `rest` begins with.
fn comment(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    let mut depth = 0;
    let mut index = 0;
    while index < rest.len() {
        let here = &rest.as_bytes()[index..];
        if here.starts_with(b"/*") {
            depth += 1;
            index += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            index += 2;
            if depth == 0 {
                return index;
            }
        } else {
            index += 1;
        }
    }
    rest.len()
}

/// Length of the string literal that `rest` begins with.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (index, char) in rest.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of the raw string literal that `rest` begins with, if it does.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|&byte| byte == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |index| index + end.len());
    Some(2 + hashes + length)
}

/// Length of the character literal that `rest` begins with; none if it is a lifetime.
fn char_literal(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        let (end, _) = chars.skip(1).find(|&(_, char)| char == '\'')?;
        return Some(end + 1);
    }
    chars.next().filter(|&(_, char)| char == '\'').map(|(end, _)| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_line_for_line() {
        let text = "a // unsafe\nb /* unsafe /* x */\n unsafe */ c\n\"unsafe \\\" unsafe\" d";
        assert_eq!(
            blank(text),
            "a          \nb                  \n           c\n\"                \" d"
        );
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        assert!(!blank(r####"let a = r##"x"# unsafe"##; b"####).contains("unsafe"));
        assert!(blank(r####"let a = r##"x"# unsafe"##; b"####).ends_with("; b"));
        assert!(!blank(r##"br#"unsafe"#"##).contains("unsafe"));
        assert_eq!(blank("for r in 0..4"), "for r in 0..4");
    }

    #[test]
    fn quotes_in_characters_open_no_string_and_lifetimes_no_character() {
        assert!(blank("let a = '\"'; unsafe").ends_with("; unsafe"));
        assert!(blank("let a = '\\''; unsafe").ends_with("; unsafe"));
        assert_eq!(blank("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn words_are_not_found_inside_names() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
        assert!(!has_word("multiple_unsafe", "unsafe"));
        assert!(has_word("std::env::var", "std::env"));
        assert!(has_word("a::println!()", "println!"));
        assert!(!has_word("eprintln!()", "println!"));
    }

    #[test]
    fn tests_are_told_by_their_directory() {
        assert!(Source::new("crates/kernels/tests/mont.rs", "").is_test());
        assert!(!Source::new("crates/kernels/src/mont/mod.rs", "").is_test());
    }
}
