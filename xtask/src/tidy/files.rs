//! Which files the compiler reaches.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::tidy::{Finding, House};

/// T5: files that no `mod` reaches.
pub fn orphans(house: &House<'_>) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for package in &house.workspace.packages {
        for root in &package.roots {
            if let Ok(root) = root.strip_prefix(&house.workspace.root) {
                reach(house, root, &root.parent().unwrap_or(Path::new("")).join(""), &mut reached);
            }
        }
    }
    let sources = house.sources.iter();
    let orphans = sources.filter(|source| !reached.contains(&source.path));
    orphans.map(|source| Finding::new(&source.path, 0, "no `mod` reaches this file")).collect()
}

/// Follows the `mod` declarations of the file at `path`, whose modules lie in `directory`.
fn reach(house: &House<'_>, path: &Path, directory: &Path, reached: &mut BTreeSet<PathBuf>) {
    let Some(source) = house.sources.iter().find(|source| source.path == path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    for name in source.code.lines().filter_map(declared_module) {
        let below = directory.join(name);
        reach(house, &directory.join(format!("{name}.rs")), &below, reached);
        reach(house, &below.join("mod.rs"), &below, reached);
    }
    for place in source.text.lines().filter_map(declared_path) {
        let file = resolved(&path.with_file_name(place));
        reach(house, &file, file.parent().unwrap_or(Path::new("")), reached);
    }
}

/// The path in `#[path = "…"]`, which is relative to the file's directory.
fn declared_path(line: &str) -> Option<&str> {
    line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")
}

/// A path without `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}

/// The name in `mod name;`.
fn declared_module(line: &str) -> Option<&str> {
    let declaration = line.trim().strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once("mod ")?;
    let before = before.trim_end();
    let is_visibility = before.is_empty() || before.starts_with("pub") || before.starts_with("#[");
    (is_visibility && !name.contains(' ')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;
    use crate::workspace::{Package, Workspace};

    #[test]
    fn declarations_are_told_from_inline_modules() {
        assert_eq!(declared_module("mod lane;"), Some("lane"));
        assert_eq!(declared_module("    pub(crate) mod lane;"), Some("lane"));
        assert_eq!(declared_module("#[cfg(test)] mod tests;"), Some("tests"));
        assert_eq!(declared_module("mod tests {"), None);
        assert_eq!(declared_module("let mod_ = a;"), None);
    }

    #[test]
    fn what_no_declaration_reaches_is_an_orphan() {
        let root = PathBuf::from("/house");
        let package = Package {
            name: "batch".into(),
            directory: root.join("crates/batch"),
            dependencies: Vec::new(),
            roots: vec![root.join("crates/batch/src/lib.rs")],
        };
        let workspace = Workspace { target: root.join("target"), root, packages: vec![package] };
        let sources = vec![
            Source::new("crates/batch/src/lib.rs", "mod lane;\nmod queue;\n// mod old;\n"),
            Source::new(
                "crates/batch/src/lane.rs",
                "mod deep;\n#[path = \"../a/mod.rs\"]\nmod a;\n",
            ),
            Source::new("crates/batch/a/mod.rs", "mod b;\n"),
            Source::new("crates/batch/a/b.rs", ""),
            Source::new("crates/batch/src/lane/deep.rs", ""),
            Source::new("crates/batch/src/old.rs", ""),
            Source::new("crates/batch/src/queue/mod.rs", ""),
        ];
        let orphans = orphans(&House { workspace: &workspace, sources, outside: Vec::new() });
        let paths: Vec<_> = orphans.iter().map(|finding| finding.path.as_path()).collect();
        assert_eq!(paths, [Path::new("crates/batch/src/old.rs")]);
    }
}
