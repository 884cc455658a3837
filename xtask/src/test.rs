//! Everything that has to pass, in one order, for people and machines alike.

use std::process::Command;

use anyhow::{Context, Result};
use widelane_cpu::Room;

use crate::shell::{announce, announce_and_run, capture};
use crate::workspace::{QUICK, Workspace};
use crate::{pages, setup, tidy};

/// Runs everything that has to pass; what costs least goes first.
pub fn run(workspace: &Workspace) -> Result<()> {
    introduce()?;
    setup::run_for_tests()?;
    announce_and_run(workspace.cargo().args(["fmt", "--all", "--check"]))
        .context("run `cargo fmt --all` and look at what it changed")?;
    tidy::run(workspace)?;
    announce_and_run(
        workspace
            .cargo()
            .args(["clippy", QUICK, "--workspace", "--all-targets", "--quiet"])
            .args(["--", "--deny=warnings"]),
    )?;
    // The demo builds it so; with all else, its dependencies have the features that they had.
    announce_and_run(
        workspace
            .cargo()
            .args(["clippy", QUICK, "--workspace", "--all-targets", "--no-default-features"])
            .args(["--quiet", "--", "--deny=warnings"]),
    )?;
    // Nobody publishes these pages, so they may link to what is private. The program's go where the
    // provider's go, who has the same name: side by side, one would take the other's away.
    for packages in
        [["--workspace", "--exclude=widelane-cli"].as_slice(), &["--package=widelane-cli"]]
    {
        announce_and_run(
            workspace
                .cargo()
                .args(["doc", QUICK, "--no-deps", "--document-private-items"])
                .args(["--keep-going", "--quiet"])
                .args(packages)
                .env("RUSTDOCFLAGS", "--deny=warnings --allow=rustdoc::private_intra_doc_links"),
        )?;
    }
    // A target directory of its own: other flags would throw the first one's builds away.
    for (package, tests) in
        [("batch", ["--test=loom"].as_slice()), ("classify", &["--lib", "relay"])]
    {
        announce_and_run(
            workspace
                .cargo()
                .args(["test", &format!("--package=widelane-{package}"), "--release", "--quiet"])
                .args(tests)
                .env("RUSTFLAGS", "--cfg loom")
                .env("CARGO_TARGET_DIR", workspace.target.join("loom")),
        )?;
    }
    announce(&format!("{} with every debug assertion on", CHECKED.join(", ")));
    announce_and_run(
        workspace
            .cargo()
            .args(["test", "--quiet"])
            .args(CHECKED.map(|name| format!("--package=widelane-{name}"))),
    )?;
    // The tests of the servers need the program and both shared objects beside it; built with the
    // tests, they have the features that the tests want of what both use, and are built once. What
    // is left out are examples, which Clippy has checked, and doc tests, of which there are none.
    announce_and_run(workspace.cargo().arg("build").args(TESTED).arg("--quiet"))?;
    announce_and_run(
        workspace.cargo().arg("test").args(TESTED).arg("--no-fail-fast").env(BUILT, "yes"),
    )?;
    if Room::Ifma256.is_supported() {
        announce("servers once more, as on a CPU whose operations cannot be batched");
        announce_and_run(
            workspace
                .cargo()
                .args(["test", QUICK, "--package=widelane-runtime", "--test=*", "--no-fail-fast"])
                .env(BUILT, "yes")
                .env(widelane_cpu::policy::BITWIDTH_VARIABLE, "128"),
        )?;
    }
    pages::run(workspace, &pages::Arguments::default())
}

/// What is built and tested as it is shipped: everything at once, for what is built of a package
/// alone has other features. The kernels' own tests take as long to compile as a sixth of the
/// rest; what is shipped of kernels is tested by those of crypto.
const TESTED: [&str; 6] =
    [QUICK, "--workspace", "--exclude=widelane-kernels", "--lib", "--bins", "--tests"];

/// Tells the tests of the runtime that the program and what it preloads are built: on their own
/// account, they would build them as packages, with other features.
const BUILT: &str = "WIDELANE_BUILT";

/// Crates that are tested in the dev profile: those that bring no large dependency along.
const CHECKED: [&str; 5] = ["batch", "bridge", "cpu", "kernels", "secret"];

/// Says what this run stands for: compiler, CPU, rooms.
fn introduce() -> Result<()> {
    announce(capture(Command::new("rustc").arg("--version"))?.trim());
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    announce(&format!("CPU {}", model.map_or("unknown", |(_, model)| model)));
    let rooms: Vec<String> = Room::ALL
        .iter()
        .map(|room| {
            format!("{}{}", room.name(), if room.is_supported() { "" } else { " (closed)" })
        })
        .collect();
    announce(&format!("rooms {}", rooms.join(", ")));
    Ok(())
}
