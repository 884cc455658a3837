//! `widelane documents`: man pages and completions, made of the flags themselves, for packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

/// Writes the man pages and the shells' completions to a directory; packages bring them along
#[derive(clap::Args)]
pub struct Args {
    /// Directory to write to; made if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs the command; `command` is the whole command line.
pub fn run(args: &Args, command: &Command) -> anyhow::Result<ExitCode> {
    let mut command = command.clone();
    command.build();
    let manual = args.directory.join("man");
    let completions = args.directory.join("completions");
    for directory in [&manual, &completions] {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    write_pages(&manual, &command)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut command, "widelane", &completions)
            .with_context(|| format!("cannot write to {}", completions.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A page for the command and each of those below it: `widelane-acl-check.1`.
fn write_pages(directory: &Path, command: &Command) -> anyhow::Result<()> {
    let mut page = Vec::new();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    let below = command.get_subcommands();
    let documented = below.filter(|below| !below.is_hide_set() && below.get_name() != "help");
    documented.into_iter().try_for_each(|below| write_pages(directory, below))
}
