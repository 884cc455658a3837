//! The Debian package: built with cargo-deb, tried on a fresh Debian in a chroot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{announce, announce_and_run, capture, find_program, run as run_command};
use crate::workspace::Workspace;

/// What `cargo xtask deb` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Installs the package on a fresh Debian 12 in a chroot, accelerates its nginx, and takes
    /// everything back; as root, with debootstrap
    #[arg(long)]
    check: bool,
}

/// Builds the package; its path is the last line.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    if find_program("cargo-deb").is_none() {
        bail!("cargo-deb makes the package: cargo install cargo-deb --locked");
    }
    announce_and_run(workspace.cargo().args(["build", "--release"]))?;
    let documents = workspace.released("documents");
    announce_and_run(
        Command::new(workspace.released("widelane")).arg("documents").arg(&documents),
    )?;
    let printed = capture(
        workspace
            .cargo()
            .args(["deb", "--no-build", "--strip", "--package=widelane-cli", "--output"])
            .arg(workspace.target.join("debian/")),
    )?;
    let package = PathBuf::from(printed.lines().last().context("cargo-deb names no file")?);
    if arguments.check {
        check(workspace, &package)?;
    }
    announce(&format!("package {}", package.display()));
    Ok(())
}

/// The Debian that the package is tried on.
const SUITE: &str = "bookworm";

/// Installs and uses the package in a chroot: with processes, mounts and a network of its own, so
/// that nothing of it stays behind.
fn check(workspace: &Workspace, package: &Path) -> Result<()> {
    for (program, of) in [("debootstrap", "debootstrap"), ("unshare", "util-linux")] {
        if find_program(program).is_none() {
            bail!("{program} is missing; run this as root: apt-get install {of}");
        }
    }
    let root = workspace.target.join("debian-chroot");
    let fresh = root.with_extension("fresh");
    if !fresh.join("usr/bin/pkg-config").exists() {
        bootstrap(&fresh)?;
    }
    if root.exists() {
        fs::remove_dir_all(&root).context("cannot remove the last chroot; run this as root")?;
    }
    announce_and_run(
        Command::new("cp").args(["--archive", "--reflink=auto"]).args([&fresh, &root]),
    )?;
    fs::copy(package, root.join("widelane.deb"))?;
    let script = "packaging/debian/check-in-chroot";
    fs::copy(workspace.root.join(script), root.join("check"))?;
    announce(&format!("{script} in {}", root.display()));
    run_command(
        Command::new("unshare")
            .args([
                "--mount",
                "--pid",
                "--net",
                "--fork",
                "--kill-child",
                "sh",
                "-euc",
                ENTER,
                "sh",
            ])
            .arg(&root)
            .arg("/check"),
    )?;
    fs::remove_dir_all(&root)?;
    Ok(())
}

/// Enters the chroot `$1` and runs `$2` there.
const ENTER: &str = "\
ip link set lo up
mount -t proc proc \"$1/proc\"
exec chroot \"$1\" \"$2\"";

/// A fresh Debian with nginx, and with what compiles programs in C. Nothing is started in it: it
/// shares the network of this machine.
fn bootstrap(root: &Path) -> Result<()> {
    announce_and_run(Command::new("debootstrap").args(["--variant=minbase", SUITE]).arg(root))?;
    let policy = root.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    run_command(Command::new("chmod").arg("755").arg(&policy))?;
    let install = "DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 \
                   --no-install-recommends nginx-light openssl \
                   gcc libc6-dev libssl-dev pkg-config";
    announce_and_run(Command::new("chroot").arg(root).args(["sh", "-c", install]))
}
