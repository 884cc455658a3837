//! All chores of the workspace: `cargo xtask demo`, `test`, `stress`, `tidy`.

mod demo;
mod setup;
mod shell;
mod stress;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// All chores of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Installs what the machine lacks, builds, compares your servers with and without Widelane.
    Demo,
    /// Installs what the machine lacks: compiler tools, OpenSSL's headers, nginx, HAProxy.
    Setup,
    /// Drives real servers hard: hang-ups at every stage, reloads, killed workers.
    Stress(stress::Arguments),
    /// Runs everything that has to pass: formatting, clippy, tidy, documentation, loom, all tests.
    #[command(visible_alias = "ci")]
    Test,
    /// Checks the rules of the house that no other tool checks.
    Tidy,
}

fn main() -> ExitCode {
    let result = Workspace::find().and_then(|workspace| match Arguments::parse().chore {
        Chore::Demo => demo::run(&workspace),
        Chore::Setup => setup::run(),
        Chore::Stress(arguments) => stress::run(&workspace, &arguments),
        Chore::Test => test::run(&workspace),
        Chore::Tidy => tidy::run(&workspace),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
