//! `widelane cpu`: what this machine can do, what the policy lets it do, and who decided.

use std::process::ExitCode;

use widelane_cpu::Room;

use crate::output;

/// Shows rooms, policy and machine
#[derive(clap::Args)]
pub struct Args {
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    for room in Room::ALL {
        output::style();
        output::print(room.name())?;
    }
    Ok(ExitCode::SUCCESS)
}
