//! One report on side channels: planted leaks are seen, secrets take one way and touch the same
//! memory in every room, and the emitted code has no instruction whose time or address could tell.

mod scan;

use std::ffi::OsStr;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run};
use crate::workspace::Workspace;

/// What `cargo xtask ct` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Measures instead whether secrets take different times: a smoke alarm, on a quiet machine.
    /// Takes two minutes
    #[arg(long)]
    timing: bool,
}

/// Where the traces are: a file for each family of algorithms.
const TRACES: &str = "crates/crypto/tests/constant_time";

/// Looks for side channels in every way that we have; the report is what is printed.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run_to_build(&[Need::to_build("binutils", Proof::Program("objdump"))])?;
    if arguments.timing {
        announce("times of secrets that stay the same, and of secrets that change");
        let mut cargo = workspace.cargo();
        cargo.args(["run", "--release", "--quiet", "--package=widelane-crypto"]);
        return announce_and_run(cargo.args(["--example", "timing_alarm"]));
    }
    let trace = |package: &str, test: &[&str]| {
        let mut cargo = workspace.cargo();
        cargo
            .args(["test", "--release", "--quiet", &format!("--package=widelane-{package}")])
            .arg("--test")
            .args(test);
        announce_and_run(&mut cargo)
    };
    announce("leaks that were planted have to be seen");
    trace("testkit", &["planted_leaks", "--"])?;
    announce("two secrets take the same way and touch the same memory, in every room");
    let mut leaking = Vec::new();
    // Each is run alone: a leak in one hides none in others.
    for module in traces(workspace)? {
        if let Err(error) = trace("crypto", &["constant_time", "--", "--must-match", &module]) {
            eprintln!("    {error:#}");
            leaking.push(module);
        }
    }
    announce("the emitted code of kernels and secret, where it is not inlined into other crates");
    announce_and_run(workspace.cargo().args([
        "build",
        "--release",
        "--package=widelane-provider",
    ]))?;
    let scanned = scan::scan(&workspace.released("libwidelane.so"))
        .context("cannot look at the emitted code")?;
    scanned.print();
    ensure!(scanned.functions > 100, "the library has hardly a function; was it stripped?");
    ensure!(leaking.is_empty(), "secrets can be distinguished in {}", leaking.join(", "));
    ensure!(
        scanned.findings.is_empty(),
        "the emitted code has instructions that must not be there"
    );
    announce(
        "no side channel was found; docs/operate/security.md says what this proves and what not",
    );
    Ok(())
}

/// The modules of the traces, by their files.
fn traces(workspace: &Workspace) -> Result<Vec<String>> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(workspace.root.join(TRACES)).context(TRACES)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(OsStr::to_str).context("a name in UTF-8")?;
        if stem != "main" {
            modules.push(stem.to_owned());
        }
    }
    modules.sort_unstable();
    Ok(modules)
}
