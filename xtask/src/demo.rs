//! Shows what Widelane does here: builds it in the least time, and compares the servers that are
//! installed.

use std::process::Command;

use anyhow::Result;

use crate::shell::{announce, announce_and_run_to};
use crate::workspace::{QUICK, Workspace};
use crate::{guided, setup, systems};

/// Builds Widelane and compares the servers that are installed; ends with the path of the report.
pub fn run(workspace: &Workspace) -> Result<()> {
    setup::run()?;
    let programs = guided::build(workspace, &["build", QUICK], "quick")?;
    let report = workspace.target.join("widelane-report.html");
    let program = programs.join("widelane");
    let mut compare = Command::new(&program);
    compare.args(["compare", "--quick", "--html"]).arg(&report);
    announce_and_run_to(&mut compare, systems::has_compared)?;
    announce(&format!(
        "`widelane` is {} here; docs/operate/ten-minutes.md goes on from here",
        program.display()
    ));
    announce(&format!("report {}", report.display()));
    Ok(())
}
