//! The caretaker: rules of the house that no other tool checks, each with reason and remedy.

mod arrows;
mod files;
mod guide;
mod manifests;
mod placement;
mod rooms;
mod source;
mod text;
mod unsafe_code;
mod vartime;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::shell::announce;
use crate::tidy::source::Source;
use crate::workspace::Workspace;

/// Checks all rules, and says for each broken one where, why it exists and what to do.
pub fn run(workspace: &Workspace) -> Result<()> {
    let house = House::read(workspace)?;
    let mut findings = 0;
    for rule in RULES {
        let broken = (rule.check)(&house);
        if broken.is_empty() {
            continue;
        }
        findings += broken.len();
        eprintln!("{}: {}\n    fix: {}", rule.id, rule.reason, rule.fix);
        broken.iter().for_each(|finding| eprintln!("    {finding}"));
    }
    ensure!(findings == 0, "tidy found {findings} places that break a rule of the house");
    let files = house.sources.len() + house.outside.len();
    announce(&format!("tidy: {} rules hold in {files} files", RULES.len()));
    Ok(())
}

/// The Rust files of fuzz targets and rivals, which belong to no package of the workspace.
pub fn files_outside(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    Ok(House::read(workspace)?.outside.into_iter().map(|source| source.path).collect())
}

/// One rule of the house.
struct Rule {
    id: &'static str,
    reason: &'static str,
    fix: &'static str,
    check: fn(&House<'_>) -> Vec<Finding>,
}

/// What rules look at.
struct House<'a> {
    workspace: &'a Workspace,
    /// All Rust files of the workspace, by path relative to the root.
    sources: Vec<Source>,
    /// Those of fuzz targets and rivals, which only rules of text look at.
    outside: Vec<Source>,
}

/// A place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    /// Counted from 1; 0 where the whole file is meant.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: impl Into<PathBuf>, line: usize, what: impl Into<String>) -> Self {
        Finding { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)
    }
}

const RULES: &[Rule] = &[
    Rule {
        id: "T1 features",
        reason: "a token proves the features of its room's list, and no others",
        fix: "enable what `Room::features` in cpu/src/rooms.rs lists, or a subset in a helper",
        check: rooms::features,
    },
    Rule {
        id: "T2 instructions",
        reason: "instructions stand in rooms and detection in `cpu`, so that a token guards both",
        fix: "move the code into a room of `kernels`, or ask `widelane_cpu` for a token",
        check: placement::instructions,
    },
    Rule {
        id: "T3 unsafe",
        reason: "a review for undefined behaviour finds by one search which files to read, and why",
        fix: "write it safely, or begin the file with `#![allow(unsafe_code, reason = \"…\")]`",
        check: unsafe_code::check,
    },
    Rule {
        id: "T4 choice",
        reason: "a room that nothing chooses is dead, and no test visits it",
        fix: "name the room where its folder's mod.rs or crates/crypto chooses",
        check: rooms::choice,
    },
    Rule {
        id: "T5 orphans",
        reason: "a file that no `mod` reaches is never compiled, yet looks alive",
        fix: "declare it with `mod`, or delete it",
        check: files::orphans,
    },
    Rule {
        id: "T6 places",
        reason: "C doors, printing, the clock and the environment have one place each",
        fix: "pass the value in from a place listed in tidy/placement.rs",
        check: placement::places,
    },
    Rule {
        id: "T8 text",
        reason: "lines fit side by side, and unfinished work belongs into issues",
        fix: "wrap at 100 columns; finish what the note asks for, or open an issue",
        check: text::lines,
    },
    Rule {
        id: "T9 name plate",
        reason: "the first line of a file says what it is; a room's names room and algorithm",
        fix: "begin with `//! …`, one sentence; in a room `//! Room ROOM of FOLDER: …`",
        check: text::name_plates,
    },
    Rule {
        id: "T10 changelog",
        reason: "users read CHANGELOG.md to decide whether to upgrade (keepachangelog.com)",
        fix: "keep `## [Unreleased]` first, releases as `## [1.2.3] - 2026-01-31`",
        check: text::changelog,
    },
    Rule {
        id: "T11 arrows",
        reason: "crates depend one way, as listed; the load generator must not use our crypto",
        fix: "remove the dependency or the line, or argue in ARCHITECTURE.md and tidy/arrows.rs",
        check: arrows::check,
    },
    Rule {
        id: "T12 laws",
        reason: "a crate's first lines are its law: what it may not do is a compile error",
        fix: "restore the attribute in lib.rs; set `[lints] workspace = true` in the manifest, and \
              remove `doctest = false` where there is an example",
        check: manifests::laws,
    },
    Rule {
        id: "T13 times",
        reason: "time may depend on public values only, and the list has to say why they are",
        fix: "make the time constant, or add the name to tidy/vartime.rs and say what is public",
        check: vartime::check,
    },
    Rule {
        id: "T14 guide",
        reason: "CONTRIBUTING.md names the files that an addition touches, and these are few",
        fix: "correct the paths; where a list has more than twelve, merge two of the tables that \
              it names in the code, so that one line serves both",
        check: guide::check,
    },
];
