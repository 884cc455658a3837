//! The command line of `widelane`, and what `widelane-bench` shares with it.

mod cpu;
mod enable;
mod exporter;
mod flags;
pub mod http;
pub mod laboratory;
pub mod libraries;
pub mod live;
pub mod output;
mod run;
pub mod system;
mod top;
pub mod units;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// The version of both programs, and the commit that they were built from where it is known.
pub const VERSION: &str = env!("WIDELANE_VERSION");

/// Makes the wide vector units of this machine pay off for TLS servers, and proves on it that they
/// do.
#[derive(Parser)]
#[command(name = "widelane", version = VERSION, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit status: 0 the job was done; 1 it was not, and standard error says why; 2 the command line
is wrong.
`widelane run` ends with the status of the program it ran; 127 if there is no such program.
Colour is used on terminals only; NO_COLOR=1 turns it off.";

#[derive(Subcommand)]
enum Command {
    Cpu(cpu::Args),
    Disable(enable::DisableArgs),
    Enable(enable::EnableArgs),
    Exporter(exporter::Args),
    Run(run::Args),
    Status(enable::StatusArgs),
    Top(top::Args),
}

/// Does what the command line says, and says what went wrong.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if laboratory::has(&arguments) {
        return output::end_with(laboratory::replace_process(&arguments));
    }
    let matches = command_line().get_matches();
    let parsed = <CommandLine as clap::FromArgMatches>::from_arg_matches(&matches);
    output::end_with(match parsed.unwrap_or_else(|error| error.exit()).command {
        Command::Cpu(args) => cpu::run(args),
        Command::Disable(args) => enable::disable(&args),
        Command::Enable(args) => enable::enable(&args),
        Command::Exporter(args) => exporter::run(&args),
        Command::Run(args) => run::run(args),
        Command::Status(args) => enable::status(&args),
        Command::Top(args) => top::run(&args),
    })
}

/// The whole command line, with a line for each command of the laboratory.
pub fn command_line() -> clap::Command {
    let lines = laboratory::COMMANDS
        .iter()
        .map(|(name, about)| clap::Command::new(*name).about(*about).disable_help_flag(true));
    CommandLine::command().subcommands(lines)
}
