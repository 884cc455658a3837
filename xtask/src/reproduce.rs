//! Whether a release can be built again: twice from scratch, in different places, byte for byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::guided;
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run, capture, make_afresh, run as run_command};
use crate::workspace::Workspace;

/// What the packages hold of what cargo builds, by crate.
pub const SHIPPED: [(&str, &str); 5] = [
    ("widelane-c", "libwidelane_c.so"),
    ("widelane-cli", "widelane"),
    ("widelane-lab", "widelane-bench"),
    ("widelane-provider", "libwidelane.so"),
    ("widelane-runtime", "libwidelane_runtime.so"),
];

/// Builds the last commit twice and compares what would be shipped.
pub fn run(workspace: &Workspace) -> Result<()> {
    setup::run_to_build(&[Need::to_build("binutils", Proof::Program("strip"))])?;
    let place = workspace.target.join("reproduce");
    make_afresh(&place)?;
    let commit = capture(Command::new("git").current_dir(&workspace.root).args([
        "rev-parse",
        "--verify",
        "HEAD",
    ]))?;
    // Names of different lengths, so that a path that stays behind in a file moves what follows it.
    let build = |name| build(workspace, commit.trim(), &place.join(name));
    let builds = [build("one")?, build("another")?];
    for (_, file) in SHIPPED {
        let [one, another] = builds.each_ref().map(|build| build.join(file));
        let same = fs::read(&one)? == fs::read(&another)?;
        ensure!(same, "{} and {} differ", one.display(), another.display());
        announce(&format!("{file}: the same bytes twice"));
    }
    fs::remove_dir_all(&place)?;
    Ok(())
}

/// Takes `commit` to `place` and builds it there; what would be shipped is stripped, as
/// `cargo xtask deb` has it done, and lies in the directory that is returned.
fn build(workspace: &Workspace, commit: &str, place: &Path) -> Result<PathBuf> {
    let source = place.join("source");
    fs::create_dir_all(&source)?;
    let archive = place.join("source.tar");
    run_command(
        Command::new("git")
            .current_dir(&workspace.root)
            .args(["archive", "--output"])
            .arg(&archive)
            .arg(commit),
    )?;
    run_command(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source))?;
    let target = place.join("target");
    let mut cargo = workspace.cargo();
    // The build identifier covers debug information, which names where the source was.
    cargo.env("RUSTFLAGS", format!("--remap-path-prefix={}=/build", place.display()));
    cargo.current_dir(&source).args(["build", "--release", "--locked", "--target-dir"]);
    cargo.arg(&target);
    match guided::of_packages(workspace) {
        Some(profile) => guided::compile_by(&mut cargo, &profile)?,
        None => announce_and_run(&mut cargo)?,
    }
    let release = target.join("release");
    for (_, file) in SHIPPED {
        run_command(Command::new("strip").arg(release.join(file)))?;
    }
    Ok(release)
}
