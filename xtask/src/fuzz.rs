//! Every fuzz target for a while, from its corpus on.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::shell::{announce, announce_and_run, capture, find_program, nightly};
use crate::workspace::Workspace;

/// What `cargo xtask fuzz` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,

    /// Targets, all of them unless some are named
    targets: Vec<String>,
}

/// Runs one target after the other; the first that fails ends it, and its input is kept.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    ensure!(
        find_program("cargo-fuzz").is_some(),
        "cargo-fuzz is not installed: cargo install cargo-fuzz --locked, and a nightly compiler"
    );
    let fuzz = || {
        let mut cargo = nightly("cargo");
        cargo.current_dir(workspace.root.join("fuzz")).arg("fuzz");
        let leaks = workspace.root.join("fuzz/leaks.supp");
        cargo.env("LSAN_OPTIONS", format!("suppressions={}", leaks.display()));
        cargo
    };
    let mut targets = arguments.targets.clone();
    if targets.is_empty() {
        let listed = capture(fuzz().arg("list"))?;
        targets.extend(listed.lines().map(str::to_owned));
    }
    announce_and_run(fuzz().arg("build"))?;
    for target in &targets {
        // What is found stays out of the corpus, which people choose.
        let found = workspace.target.join("fuzz").join(target);
        fs::create_dir_all(&found)?;
        let seconds = format!("-max_total_time={}", arguments.seconds);
        announce_and_run(
            fuzz()
                .args(["run", target])
                .arg(&found)
                .arg(workspace.root.join("fuzz/corpus").join(target))
                .args(["--", &seconds, "-rss_limit_mb=2048", "-print_final_stats=1"]),
        )
        .with_context(|| {
            format!(
                "repair what {target} has found, and keep its input in fuzz/corpus/{target}: the \
                 tests replay it"
            )
        })?;
    }
    announce(&format!("{} targets, {} seconds each", targets.len(), arguments.seconds));
    Ok(())
}
