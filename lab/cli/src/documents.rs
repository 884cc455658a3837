//! `widelane-bench documents`: man pages and completions, made of the flags themselves, for
//! packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use widelane_cli::laboratory::COMMANDS;

/// Writes the man pages and the shells' completions to a directory; packages bring them along
#[derive(clap::Args)]
pub struct Args {
    /// Directory to write to; made if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs the command, whose own command line is `laboratory`.
pub fn run(args: &Args, laboratory: Command) -> anyhow::Result<ExitCode> {
    let mut command = whole(laboratory);
    command.build();
    let pages = ["man", "man-bench"].map(|name| args.directory.join(name));
    let completions = args.directory.join("completions");
    for directory in pages.iter().chain([&completions]) {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    write_pages(&pages, &command)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut command, "widelane", &completions)
            .with_context(|| format!("cannot write to {}", completions.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The command line of `widelane`, with those of the laboratory in the place of their names.
fn whole(laboratory: Command) -> Command {
    let measures = laboratory.get_subcommands().filter(|command| !command.is_hide_set());
    measures.cloned().fold(widelane_cli::command_line(), |whole, command| {
        whole.mut_subcommand(command.get_name(), |_| command.clone())
    })
}

/// A page for the command and each of those below it, such as `widelane-acl-check.1`; those of the
/// laboratory into the second directory.
fn write_pages(directories: &[PathBuf; 2], command: &Command) -> anyhow::Result<()> {
    let [directory, of_laboratory] = directories;
    write_page(directory, command)?;
    for below in documented(command) {
        let is_of_laboratory = COMMANDS.iter().any(|(name, _)| below.get_name() == *name);
        write_all(if is_of_laboratory { of_laboratory } else { directory }, below)?;
    }
    Ok(())
}

fn write_all(directory: &Path, command: &Command) -> anyhow::Result<()> {
    write_page(directory, command)?;
    documented(command).try_for_each(|below| write_all(directory, below))
}

fn write_page(directory: &Path, command: &Command) -> anyhow::Result<()> {
    let mut page = Vec::new();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The commands below `command` that have pages.
fn documented(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that has a page.
    fn commands() -> Vec<Command> {
        fn add(command: &Command, all: &mut Vec<Command>) {
            all.push(command.clone());
            documented(command).for_each(|below| add(below, all));
        }
        let mut all = Vec::new();
        add(&whole(crate::command_line()), &mut all);
        all
    }

    #[test]
    fn every_example_is_a_command_line() {
        let whole = whole(crate::command_line());
        let with_examples = [
            "run", "enable", "off", "gain", "exporter", "compare", "load", "speed", "tune",
            "simulate",
        ];
        for name in with_examples {
            let command = whole.find_subcommand(name).unwrap();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().filter(|line| line.starts_with("  widelane ")).collect();
            assert!(examples.len() > 1, "{name} has few examples: {help}");
            for example in examples {
                let matches = whole.clone().try_get_matches_from(example.split_whitespace());
                assert!(matches.is_ok(), "{example}: {}", matches.unwrap_err());
            }
        }
    }

    /// ARCHITECTURE.md defines it for readers of the code.
    #[test]
    fn no_help_text_calls_other_operations_company() {
        for mut command in commands() {
            let help = command.render_long_help().to_string();
            assert!(!help.contains("company"), "{help}");
        }
    }
}
