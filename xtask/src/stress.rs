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

/// Builds everything and runs the stress test of `integration/` with this many handshakes, and that
/// of the lane process.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run_for_tests()?;
    announce_and_run(workspace.cargo().args(["build", "--release"]))?;
    let tests = [
        ("widelane-integration", "all", "stress::"),
        (
            "widelane-runtime",
            "servers",
            "lane_process::no_handshake_fails_however_the_lane_process_fares",
        ),
    ];
    for (package, program, test) in tests {
        announce_and_run(
            workspace
                .cargo()
                .args(["test", "--release", "--package", package, "--test", program])
                .args(["--", test, "--include-ignored", "--nocapture"])
                .env("WIDELANE_STRESS_HANDSHAKES", arguments.handshakes.to_string()),
        )?;
    }
    Ok(())
}
