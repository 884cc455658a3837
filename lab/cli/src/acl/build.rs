//! `widelane acl build`: from a rule file to a table in a file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use widelane_classify::build::{Account, GroupAccount};
use widelane_classify::{Limits, build};
use widelane_cli::{output, system};

use super::input::{self, Format};
use crate::targets::WrittenFile;

/// Builds a table, and says how the rules were divided
#[derive(clap::Args)]
pub struct Args {
    /// Rule file
    rules: PathBuf,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Writes the table; `widelane acl classify` maps it
    #[arg(long, short, value_name = "FILE")]
    output: Option<WrittenFile>,
    /// The largest table allowed, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// What was built, for programs.
#[derive(Serialize)]
struct Built {
    rules: usize,
    build_s: f64,
    key_words: usize,
    table_bytes: usize,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct Group {
    /// The address fields that its rules fix.
    fixed: Vec<String>,
    /// Counting the pieces that ranges are cut into.
    rules: usize,
    /// Tables of its tree; none where it is one list.
    tables: usize,
    first_table_entries: usize,
    places_in_leaves: usize,
}

impl Built {
    fn new(rules: usize, build_s: f64, account: Account) -> Self {
        let group = |of: GroupAccount| Group {
            fixed: of.fixed,
            rules: of.rules,
            tables: of.nodes,
            first_table_entries: of.root_entries,
            places_in_leaves: of.listed,
        };
        Built {
            rules,
            build_s,
            key_words: account.words,
            table_bytes: account.table_bytes,
            groups: account.groups.into_iter().map(group).collect(),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let set = input::rules(&args.rules, args.format)?;
    let limits = limits(args.memory_max);
    let began = Instant::now();
    let (table, account) = build::build(&set, &limits)
        .with_context(|| format!("cannot build a table of {}", args.rules.display()))?;
    let elapsed = began.elapsed().as_secs_f64();
    if let Some(path) = &args.output {
        let written = match system::own_stream(path) {
            Some(mut stream) => table.write(&mut stream),
            None => system::linked(path).and_then(|path| table.save(&path)),
        };
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let rules = set.rules.len();
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&Built::new(rules, elapsed, account))?,
        false => format!("{rules} rules in {elapsed:.3} s\n{account}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The limits of a table of at most so many MiB.
pub fn limits(mebibytes: usize) -> Limits {
    Limits { table_bytes: mebibytes.saturating_mul(1 << 20) }
}
