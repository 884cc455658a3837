//! What tests in TAP, the Test Anything Protocol, say.

use std::collections::BTreeMap;

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed, or failed as it is known to.
    Passed,
    /// It failed.
    Failed,
    /// It was not run.
    Skipped,
}

/// Reads what a recipe printed: the outcome of each of its tests, by the names of those that it is
/// part of and its own.
///
/// A test that has parts comes behind them, under its own name.
pub fn read(text: &str) -> BTreeMap<String, Outcome> {
    let mut outcomes = BTreeMap::new();
    let mut parents: Vec<&str> = Vec::new();
    for line in text.lines() {
        let said = line.trim_start();
        let depth = (line.len() - said.len()) / INDENTATION;
        if let Some(name) = said.strip_prefix("# Subtest: ") {
            // It stands as deep as its parts.
            parents.truncate(depth.saturating_sub(1));
            parents.push(name);
            continue;
        }
        let (failed, rest) = match said.strip_prefix("not ") {
            Some(rest) => (true, rest),
            None => (false, said),
        };
        let Some(test) = rest.strip_prefix("ok ") else { continue };
        let Some((name, directive)) = test.split_once('#').or(Some((test, ""))) else { continue };
        let directive = directive.trim_start().to_ascii_lowercase();
        let outcome = match failed {
            _ if directive.starts_with("skip") => Outcome::Skipped,
            true if !directive.starts_with("todo") => Outcome::Failed,
            _ => Outcome::Passed,
        };
        parents.truncate(depth);
        let path = [&parents[..], &[name.trim_end()]].concat().join(" / ");
        outcomes.insert(path, outcome);
    }
    outcomes
}

/// Blanks in front of each part of a test.
const INDENTATION: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_from_what_they_are_part_of() {
        let text = "00-test_x.t ..\n1..2\n    # Subtest: x\n    1..2\n\
                    \x20       # Subtest: inner\n        \
                    1..1\n        ok 1 - iteration 1\n    ok 1 - inner\n    not ok 2 - other\n\
                    not ok 1 - running x\nok 2 # skip not here\nok\nDubious\n";
        let outcomes: Vec<_> = read(text).into_iter().collect();
        let expected = [
            ("1 - running x", Outcome::Failed),
            ("2", Outcome::Skipped),
            ("x / 1 - inner", Outcome::Passed),
            ("x / 2 - other", Outcome::Failed),
            ("x / inner / 1 - iteration 1", Outcome::Passed),
        ];
        assert_eq!(outcomes, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
    }

    #[test]
    fn known_failures_pass() {
        let outcomes = read("not ok 1 - x # TODO later\nnot ok 2 - y\n");
        assert_eq!(outcomes["1 - x"], Outcome::Passed);
        assert_eq!(outcomes["2 - y"], Outcome::Failed);
    }
}
