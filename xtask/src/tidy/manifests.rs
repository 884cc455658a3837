//! What crates forbid themselves in the first lines of `lib.rs` and in their manifests.

use std::path::Path;

use crate::tidy::source::Source;
use crate::tidy::{Finding, House};

/// T12: laws that a crate has lost.
pub fn laws(house: &House<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, attribute) in LAWS {
        let path = Path::new("crates").join(name).join("src/lib.rs");
        let source = house.sources.iter().find(|source| source.path == path);
        if !source.is_some_and(|source| source.code.lines().any(|line| line == *attribute)) {
            findings.push(Finding::new(path, 0, format!("lacks {attribute}")));
        }
    }
    let root = &house.workspace.root;
    let version = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let version = version.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.unwrap_or_default().trim_matches('"');
    let members = house.workspace.packages.iter().map(|package| package.directory.as_path());
    for directory in members.chain([root.as_path()]) {
        let manifest = directory.join("Cargo.toml");
        let path = manifest.strip_prefix(root).unwrap_or(&manifest);
        let text = std::fs::read_to_string(&manifest).unwrap_or_default();
        findings.extend(manifest_findings(path, &text, directory == root));
        findings.extend(package_findings(path, &text, version));
        if text.contains("doctest = false") {
            let place = directory.strip_prefix(root).unwrap_or(directory);
            let sources = house.sources.iter().filter(|source| source.path.starts_with(place));
            findings.extend(sources.flat_map(untested_examples));
        }
    }
    findings
}

/// Examples in documentation, which the crate's manifest keeps from being tested.
fn untested_examples(source: &Source) -> Vec<Finding> {
    let fences = source.text.lines().zip(1..).filter_map(|(line, number)| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some((number, text.trim_start().strip_prefix("```")?))
    });
    // Every other one ends a block.
    let examples = fences.step_by(2).filter(|(_, language)| language.is_empty());
    let what = "an example that `doctest = false` in the manifest keeps from being tested";
    examples.map(|(line, _)| Finding::new(&source.path, line, what)).collect()
}

fn manifest_findings(path: &Path, text: &str, is_root: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !is_root && !text.contains("[lints]\nworkspace = true") {
        findings.push(Finding::new(path, 0, "does not inherit the workspace's lints"));
    }
    for (index, line) in text.lines().enumerate() {
        let setting: String = line.chars().filter(|char| !char.is_whitespace()).collect();
        if setting.starts_with("panic=\"abort\"") {
            let what = "panic = \"abort\" would let a panic take the server down";
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

/// Packages of ours that depend on each other without the version that they were built with.
fn package_findings(path: &Path, text: &str, version: &str) -> Vec<Finding> {
    let wanted = format!(">= {version}");
    let is_loose = |line: &&str| match line.split_once(" = ") {
        Some(("depends", packages)) => packages
            .trim_matches('"')
            .split(", ")
            .any(|package| package.contains("widelane") && !package.contains(&wanted)),
        Some(("widelane", required)) => !required.starts_with('{') && !required.contains(&wanted),
        _ => false,
    };
    let lines = (1..).zip(text.lines());
    let what = || format!("a package depends on another of ours without ({wanted})");
    lines
        .filter(|(_, line)| is_loose(line))
        .map(|(line, _)| Finding::new(path, line, what()))
        .collect()
}

const LAWS: &[(&str, &str)] = &[
    ("batch", "#![forbid(unsafe_code)]"),
    ("crypto", "#![forbid(unsafe_code)]"),
    ("kernels", "#![no_std]"),
    ("rustls", "#![forbid(unsafe_code)]"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborting_profile_is_found() {
        let manifest = "[lints]\nworkspace = true\n[profile.release]\npanic = \"abort\"\n";
        let findings = manifest_findings(Path::new("Cargo.toml"), manifest, false);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn packages_need_those_of_their_version() {
        let found = |text| package_findings(Path::new("Cargo.toml"), text, "0.2.0").len();
        assert_eq!(found("depends = \"$auto, widelane\"\nwidelane = \"*\"\n"), 2);
        assert_eq!(found("depends = \"libwidelane-c0 (>= 0.1.0)\"\n"), 1);
        let sound = "depends = \"$auto, widelane (>= 0.2.0)\"\nwidelane = \">= 0.2.0\"\n";
        assert_eq!(found(sound) + found("depends = \"$auto\"\n"), 0);
    }

    #[test]
    fn an_example_that_is_not_tested_is_found() {
        let text =
            "//! ```text\n//! a\n//! ```\n\n/// Does:\n/// ```\n/// f();\n/// ```\nfn f() {}\n";
        let lines: Vec<_> =
            untested_examples(&Source::new("a.rs", text)).iter().map(|it| it.line).collect();
        assert_eq!(lines, [6]);
    }

    #[test]
    fn members_inherit_the_lints() {
        assert_eq!(manifest_findings(Path::new("Cargo.toml"), "[package]\n", false).len(), 1);
        assert_eq!(manifest_findings(Path::new("Cargo.toml"), "[workspace]\n", true).len(), 0);
    }
}
