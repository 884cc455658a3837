//! The `widelane` binary: parses the command line, runs one command, prints what went wrong.

mod acl;
#[cfg(feature = "load")]
mod agent;
mod compare;
mod cpu;
mod documents;
mod enable;
mod exporter;
mod files;
mod http;
mod keep;
mod live;
#[cfg(feature = "load")]
mod load;
mod measure;
mod output;
mod power;
mod report;
mod rival;
mod run;
mod serve;
mod simulate;
mod speed;
mod top;
mod tune;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Makes the wide vector units of this machine pay off for TLS servers, and proves on it that they
/// do.
#[derive(Parser)]
#[command(name = "widelane", version = env!("WIDELANE_VERSION"), after_help = AFTER_HELP)]
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
    Acl(acl::Args),
    #[cfg(feature = "load")]
    Agent(agent::Args),
    Compare(Box<compare::Args>),
    Cpu(cpu::Args),
    Disable(enable::DisableArgs),
    #[command(hide = true)]
    Documents(documents::Args),
    Enable(enable::EnableArgs),
    Exporter(exporter::Args),
    #[cfg(feature = "load")]
    Load(Box<load::Args>),
    Power(power::Args),
    Report(report::Args),
    Run(run::Args),
    #[command(hide = true)]
    ServeEmbedded(serve::Args),
    Simulate(simulate::Args),
    Speed(speed::Args),
    Status(enable::StatusArgs),
    Top(top::Args),
    Tune(tune::Args),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Acl(args) => acl::run(args),
        #[cfg(feature = "load")]
        Command::Agent(args) => agent::run(&args),
        Command::Compare(args) => compare::run(*args),
        Command::Cpu(args) => cpu::run(args),
        Command::Disable(args) => enable::disable(&args),
        Command::Documents(args) => documents::run(&args, &CommandLine::command()),
        Command::Enable(args) => enable::enable(&args),
        Command::Exporter(args) => exporter::run(&args),
        #[cfg(feature = "load")]
        Command::Load(args) => load::run(&args),
        Command::Power(args) => power::run(args),
        Command::Report(args) => report::run(args),
        Command::Run(args) => run::run(args),
        Command::ServeEmbedded(args) => serve::run(args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Speed(args) => speed::run(args),
        Command::Status(args) => enable::status(&args),
        Command::Top(args) => top::run(&args),
        Command::Tune(args) => tune::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        if error.is::<output::ReaderGone>() {
            return ExitCode::from(output::ReaderGone::EXIT_STATUS);
        }
        output::complain(&error);
        ExitCode::FAILURE
    })
}
