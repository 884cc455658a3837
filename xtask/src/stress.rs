//! Drives real servers hard, in the full form of what the integration tests do briefly.

use anyhow::Result;

use crate::shell::announce_and_run;
use crate::{setup, workspace::Workspace};

/// What `cargo xtask stress` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Handshakes to make through each server.
    #[arg(long, default_value_t = 200_000)]
    handshakes: u64,
}

/// Builds everything and runs the stress test of `integration/` with so many handshakes.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run_for_tests()?;
    announce_and_run(workspace.cargo().args(["build", "--release"]))?;
    announce_and_run(
        workspace
            .cargo()
            .args(["test", "--release", "--package=widelane-integration", "--test=all"])
            .args(["--", "stress::", "--nocapture"])
            .env("WIDELANE_STRESS_HANDSHAKES", arguments.handshakes.to_string()),
    )
}
