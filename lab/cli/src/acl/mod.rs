//! `widelane acl`: packet classification by rules.

mod bench;
mod build;
mod check;
mod classify;
mod explain;
mod forward;
mod input;
mod rival;

use std::process::ExitCode;

use widelane_classify::build::BuildError;
use widelane_classify::live::UpdateError;
use widelane_forward::RoutesError;

/// Classifies packets by rules: checks rule files, builds tables, looks packets up, measures
///
/// Rule files are those of DPDK's l3fwd-acl (`@` denies, `R` routes), ClassBench filters, what
/// iptables-save or `nft list ruleset` writes, or CSV with a line of column names;
/// docs/program/classify.md describes them.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
    Build(build::Args),
    Classify(classify::Args),
    Bench(bench::Args),
    Forward(Box<forward::Args>),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let outcome = match args.command {
        Command::Check(args) => check::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Classify(args) => classify::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Forward(args) => forward::run(&args),
    };
    outcome.map_err(name_limit)
}

/// Names the option where no table was built because it would be larger than allowed.
fn name_limit(error: anyhow::Error) -> anyhow::Error {
    match is_too_large(&error) {
        true => error.context("the rules need a larger table than --memory-max allows"),
        false => error,
    }
}

/// Whether no table was built because it would be larger than allowed.
fn is_too_large(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let build = match cause.downcast_ref() {
            Some(
                RoutesError::Build { error, .. }
                | RoutesError::Update { error: UpdateError::Build(error), .. },
            ) => Some(error),
            _ => cause.downcast_ref(),
        };
        matches!(build, Some(BuildError::TooLarge { .. }))
    })
}
