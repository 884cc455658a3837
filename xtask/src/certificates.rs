//! What very many certificates on one nginx cost, natively and accelerated.

use anyhow::Result;

use crate::shell::announce_and_run;
use crate::{setup, workspace::Workspace};

/// What `cargo xtask certificates` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// How many
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
}

/// Builds everything and runs the measurement of `integration/`.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run()?;
    announce_and_run(workspace.cargo().args(["build", "--release"]))?;
    announce_and_run(
        workspace
            .cargo()
            .args(["test", "--release", "--package=widelane-integration", "--test=all"])
            .args(["--", "certificates::", "--ignored", "--nocapture"])
            .env("WIDELANE_CERTIFICATES", arguments.count.to_string()),
    )
}
