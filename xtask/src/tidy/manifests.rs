//! What crates forbid themselves in the first lines of `lib.rs` and in their manifests.

use std::path::Path;

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
    let members = house.workspace.packages.iter().map(|package| package.directory.as_path());
    for directory in members.chain([root.as_path()]) {
        let manifest = directory.join("Cargo.toml");
        let path = manifest.strip_prefix(root).unwrap_or(&manifest);
        let text = std::fs::read_to_string(&manifest).unwrap_or_default();
        findings.extend(manifest_findings(path, &text, directory == root));
    }
    findings
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
    fn members_inherit_the_lints() {
        assert_eq!(manifest_findings(Path::new("Cargo.toml"), "[package]\n", false).len(), 1);
        assert_eq!(manifest_findings(Path::new("Cargo.toml"), "[workspace]\n", true).len(), 0);
    }
}
