//! The `widelane-bench` program: the commands of `widelane` that measure.

mod acl;
mod agent;
mod compare;
mod documents;
mod files;
mod keep;
mod load;
mod measure;
mod power;
mod report;
mod rival;
mod serve;
mod simulate;
mod speed;
mod targets;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use widelane_cli::output;

/// The commands of `widelane` that measure; `widelane` itself starts this program for them.
#[derive(Parser)]
#[command(name = "widelane-bench", bin_name = "widelane", version = widelane_cli::VERSION)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compare(Box<compare::Args>),
    Load(Box<load::Args>),
    Agent(agent::Args),
    Speed(speed::Args),
    Tune(tune::Args),
    Simulate(simulate::Args),
    Power(power::Args),
    Acl(acl::Args),
    Report(report::Args),
    #[command(hide = true)]
    Documents(documents::Args),
    #[command(hide = true)]
    ServeEmbedded(serve::Args),
}

/// The command line of this program.
fn command_line() -> clap::Command {
    widelane_cli::with_negative_values(CommandLine::command())
}

fn main() -> ExitCode {
    let mut command = command_line();
    let matches = command.get_matches_mut();
    let parsed = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    output::end_with(targets::check(&command, &matches).and_then(|()| run(parsed.command)))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Compare(args) => compare::run(*args),
        Command::Load(args) => load::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Speed(args) => speed::run(args),
        Command::Tune(args) => tune::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Power(args) => power::run(args),
        Command::Acl(args) => acl::run(args),
        Command::Report(args) => report::run(args),
        Command::Documents(args) => documents::run(&args, command_line()),
        Command::ServeEmbedded(args) => serve::run(args),
    }
}

#[cfg(test)]
mod tests {
    use widelane_cli::laboratory::COMMANDS;

    use super::*;

    #[test]
    fn widelane_lists_every_command_in_its_own_words() {
        let commands = CommandLine::command();
        let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let about = |command: &clap::Command| command.get_about().unwrap().to_string();
        let shown: Vec<_> = shown.map(|command| (command.get_name(), about(command))).collect();
        let listed: Vec<_> =
            COMMANDS.iter().map(|(name, about)| (*name, (*about).to_owned())).collect();
        assert_eq!(shown, listed);
    }
}
