//! `widelane acl build`: from a rule file to a table in a file.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use widelane_classify::{Limits, Table, build};

use super::input::{self, Format};
use crate::output;

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
    output: Option<PathBuf>,
    /// The largest table allowed, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
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
        write(path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::print(&format!("{} rules in {elapsed:.3} s\n{account}", set.rules.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// The limits of a table of at most so many MiB.
pub fn limits(mebibytes: usize) -> Limits {
    Limits { table_bytes: mebibytes.saturating_mul(1 << 20) }
}

/// Writes a table beside its place first, then over it: who has mapped the old one keeps it.
fn write(path: &Path, table: &Table) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    let mut writer = BufWriter::new(file);
    table.write(&mut writer)?;
    writer.flush()?;
    writer.into_inner()?.persist(path)?;
    Ok(())
}
