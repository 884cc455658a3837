//! Packages for systems that use rpm: the files of the Debian packages, packed by
//! cargo-generate-rpm. The library for C is not among them; the archive has it.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run, find_program, make_afresh};
use crate::workspace::Workspace;
use crate::{chroot, deb, tarball};

/// What `cargo xtask rpm` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Takes the Debian packages that an earlier run has built
    #[arg(long)]
    built: bool,
    /// Installs the packages by rpm into a Debian in a chroot, which has no other libraries than
    /// theirs, accelerates its nginx and takes them away again; as root, with debootstrap and rpm
    #[arg(long)]
    check: bool,
}

/// The packages and the crates whose manifests describe them.
const PACKAGES: [(&str, &str); 2] = [("widelane", "crates/cli"), ("widelane-bench", "lab/cli")];

/// What installs the packages in a chroot.
const NEEDS: &[Need] = &[Need::to_build("rpm", Proof::Program("rpm"))];

/// Makes the packages; their paths are the last lines.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    if find_program("cargo-generate-rpm").is_none() {
        bail!("cargo-generate-rpm makes the packages: cargo install cargo-generate-rpm --locked");
    }
    let built = deb::packages(workspace, arguments.built)?;
    let place = workspace.target.join("rpm");
    make_afresh(&place)?;
    let mut packages = Vec::new();
    for (name, described) in PACKAGES {
        let files = place.join(format!("{name}-files"));
        tarball::unpack(&[one(&built, name)?], &files)?;
        let assets = place.join(format!("{name}.toml"));
        fs::write(&assets, listed(&files)?)?;
        let package = place.join(format!("{name}-{}.x86_64.rpm", deb::version(&built)?));
        let mut generate = workspace.cargo();
        generate.args(["generate-rpm", "--package", described, "--metadata-overwrite"]);
        announce_and_run(generate.arg(&assets).arg("--output").arg(&package))?;
        packages.push(package);
    }
    if arguments.check {
        check(workspace, &packages)?;
    }
    for package in packages {
        announce(&format!("package {}", package.display()));
    }
    Ok(())
}

/// The Debian package of a name.
fn one(packages: &[PathBuf], name: &str) -> Result<PathBuf> {
    let is_it = |path: &&PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str());
        file.is_some_and(|file| file.split('_').next() == Some(name))
    };
    packages.iter().find(is_it).cloned().with_context(|| format!("there is no package {name}"))
}

/// The files as cargo-generate-rpm reads them.
fn listed(files: &Path) -> Result<String> {
    let mut list = "assets = [\n".to_owned();
    for path in tarball::manifest(files)?.lines() {
        let source = files.join(path);
        let mode = fs::symlink_metadata(&source)?.permissions().mode() & 0o777;
        let source = source.display();
        writeln!(list, "{{ source = \"{source}\", dest = \"/{path}\", mode = \"{mode:o}\" }},")?;
    }
    Ok(list + "]\n")
}

/// Installs, uses and removes the packages.
fn check(workspace: &Workspace, packages: &[PathBuf]) -> Result<()> {
    setup::meet(chroot::NEEDS.iter().chain(NEEDS))?;
    let root = deb::fresh(workspace, "trixie")?;
    let rpm = || {
        let mut rpm = Command::new("rpm");
        // What dpkg has installed, rpm does not know.
        rpm.arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--nodeps"]);
        rpm
    };
    announce_and_run(rpm().arg("--install").args(packages))?;
    chroot::run_script(workspace, &root, "packaging/rpm/check-in-chroot")?;
    announce_and_run(rpm().args(["--erase", "widelane-bench", "widelane"]))?;
    for left in ["usr/bin/widelane", "usr/lib/widelane", "etc/systemd/system/nginx.service.d"] {
        ensure!(!root.join(left).exists(), "erased, and left: /{left}");
    }
    Ok(fs::remove_dir_all(&root)?)
}
