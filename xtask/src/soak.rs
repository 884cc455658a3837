//! Runs real servers for long, and draws what they held.

use anyhow::Result;

use crate::shell::{announce, announce_and_run};
use crate::{setup, workspace::Workspace};

/// What `cargo xtask soak` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// How long the load lasts
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
}

/// Builds everything and runs the soak test of `integration/`; ends with the path of its report.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let report = workspace.target.join("soak-report.html");
    announce_and_run(workspace.cargo().args(["build", "--release"]))?;
    announce_and_run(
        workspace
            .cargo()
            .args(["test", "--release", "--package=widelane-integration", "--test=all"])
            .args(["--", "soak::", "--ignored", "--nocapture"])
            .env("WIDELANE_SOAK_SECONDS", (60 * arguments.minutes).to_string())
            .env("WIDELANE_SOAK_REPORT", &report),
    )?;
    announce(&format!("report {}", report.display()));
    Ok(())
}
