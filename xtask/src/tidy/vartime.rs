//! Which functions may take a time that depends on what they are given.

use std::collections::BTreeSet;

use crate::tidy::source::Source;
use crate::tidy::{Finding, House};

/// T13: names that end in `_vartime` and are not listed, and lines of the list without a name.
pub fn check(house: &House<'_>) -> Vec<Finding> {
    let mut unseen: BTreeSet<&str> = VARTIME.iter().map(|(name, _)| *name).collect();
    let mut findings = Vec::new();
    for source in &house.sources {
        for (line, name) in names(source) {
            unseen.remove(name);
            if !VARTIME.iter().any(|(listed, _)| *listed == name) {
                findings.push(Finding::new(&source.path, line, format!("`{name}` is not listed")));
            }
        }
    }
    let list = "xtask/src/tidy/vartime.rs";
    let gone =
        |name| Finding::new(list, 0, format!("`{name}` is listed, and nothing is called so"));
    findings.extend(unseen.into_iter().map(gone));
    findings
}

/// All names that end in `_vartime`, with their lines.
fn names(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    source.code.lines().zip(1..).flat_map(move |(text, line)| {
        let words = text.split(move |char| !is_name(char));
        words.filter(|word| word.ends_with("_vartime")).map(move |word| (line, word))
    })
}

/// Functions whose time depends on values, and why these are no secrets.
const VARTIME: &[(&str, &str)] = &[
    ("accept_vartime", "candidates for a matrix of ML-KEM, which everybody can compute"),
    ("decapsulate_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("encapsulate_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("encrypt_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("exponentiate_public_vartime", "the public exponent of RSA"),
    ("first_rows_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("generate_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("matrix_rows_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("public_rows_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("reject_vartime", "the matrix of ML-KEM, of which the seed is public"),
    ("uniform_vartime", "the matrix of ML-KEM, of which the seed is public"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn findings(text: &str) -> Vec<String> {
        let workspace = Workspace { root: "/".into(), target: "/".into(), packages: Vec::new() };
        let every = VARTIME.iter().map(|(name, _)| format!("{name}();\n")).collect::<String>();
        let sources = vec![Source::new("a.rs", every), Source::new("b.rs", text)];
        let found = check(&House { workspace: &workspace, sources, outside: Vec::new() });
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_that_is_not_listed_is_found() {
        assert_eq!(findings("fn f() {}\nfn uniform_vartime() {} // leak_vartime\n"), [""; 0]);
        assert_eq!(findings("\nfn leak_vartime() {}\n"), ["b.rs:2: `leak_vartime` is not listed"]);
    }

    #[test]
    fn a_line_of_the_list_without_a_name_is_found() {
        let workspace = Workspace { root: "/".into(), target: "/".into(), packages: Vec::new() };
        let house = House { workspace: &workspace, sources: Vec::new(), outside: Vec::new() };
        assert_eq!(check(&house).len(), VARTIME.len());
    }
}
