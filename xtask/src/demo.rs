//! Shows what Widelane does here: builds it in the least time, and compares the servers that are
//! installed.

use std::process::Command;

use anyhow::Result;

use crate::setup;
use crate::shell::{announce, announce_and_run};
use crate::workspace::{QUICK, Workspace};

/// Builds Widelane and compares the servers that are installed; ends with the path of the report.
pub fn run(workspace: &Workspace) -> Result<()> {
    setup::run()?;
    announce_and_run(workspace.cargo().args(["build", QUICK, "--no-default-features"]))?;
    let report = workspace.target.join("widelane-report.html");
    let program = workspace.quick("widelane");
    announce_and_run(Command::new(&program).args(["compare", "--quick", "--html"]).arg(&report))?;
    announce(&format!(
        "`widelane` is {} here; docs/operate/ten-minutes.md goes on from here",
        program.display()
    ));
    Ok(())
}
