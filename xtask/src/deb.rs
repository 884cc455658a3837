//! The Debian packages: built with cargo-deb, tried on a fresh Debian or Ubuntu in a chroot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{announce, announce_and_run, capture, find_program};
use crate::workspace::Workspace;
use crate::{chroot, guided, setup};

/// What `cargo xtask deb` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Installs the packages on a fresh Debian in a chroot, accelerates its nginx, goes to other
    /// versions and back, and takes everything back; as root, with debootstrap
    #[arg(long)]
    check: bool,
    /// Takes the packages that an earlier run has built
    #[arg(long)]
    built: bool,
    /// The releases of Debian and Ubuntu that the packages are tried on, by their code names
    #[arg(long, value_delimiter = ',', default_value = "bookworm,trixie", requires = "check")]
    suites: Vec<String>,
}

/// Builds the packages; their paths are the last lines.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let packages = packages(workspace, arguments.built)?;
    if arguments.check {
        setup::meet(chroot::NEEDS)?;
        for suite in &arguments.suites {
            check(workspace, &packages, suite)?;
        }
    }
    for package in packages {
        announce(&format!("package {}", package.display()));
    }
    Ok(())
}

/// The packages: those below the target directory if they are `built`, else new ones.
pub fn packages(workspace: &Workspace, built: bool) -> Result<Vec<PathBuf>> {
    if built {
        return found(&workspace.target.join("debian"));
    }
    if find_program("cargo-deb").is_none() {
        bail!("cargo-deb makes the package: cargo install cargo-deb --locked");
    }
    guided::release(workspace)?;
    let documents = workspace.released("documents");
    announce_and_run(
        Command::new(workspace.released("widelane-bench")).arg("documents").arg(&documents),
    )?;
    let packages = CRATES.iter().map(|names| package(workspace, names)).collect();
    // Nor did another chore of this checkout build any meanwhile.
    guided::ensure_without_counters(&workspace.target.join("release"))?;
    announce(match guided::of_packages(workspace) {
        Some(_) => "the packages hold libraries that were compiled by a profile of handshakes",
        None => "the packages hold libraries that were compiled without a profile of handshakes",
    });
    packages
}

/// The packages in a directory, one of each.
fn found(directory: &Path) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(directory).map(|entries| {
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter(|path| path.extension().is_some_and(|it| it == "deb")).collect::<Vec<_>>()
    });
    match listed {
        Ok(packages) if packages.len() == CRATES.len() => Ok(packages),
        _ => bail!(
            "{} should have {} packages, all of one version; leave out --built, or remove others",
            directory.display(),
            CRATES.len()
        ),
    }
}

/// The version of the packages, without that of Debian's packaging.
pub fn version(packages: &[PathBuf]) -> Result<String> {
    let name = packages.first().and_then(|path| path.file_name()?.to_str());
    let version =
        name.and_then(|name| name.split('_').nth(1)).context("a package has a version")?;
    Ok(version.rsplit_once('-').map_or(version, |parts| parts.0).to_owned())
}

/// The crates of which packages are made, and of which variant.
const CRATES: [&[&str]; 4] = [
    &["--package=widelane-cli"],
    &["--package=widelane-lab"],
    &["--package=widelane-c"],
    &["--package=widelane-c", "--variant=dev"],
];

/// Makes the package of a crate; answers where it is.
fn package(workspace: &Workspace, names: &[&str]) -> Result<PathBuf> {
    let printed = capture(
        workspace
            .cargo()
            .args(["deb", "--no-build", "--strip"])
            .args(names)
            .arg("--output")
            .arg(workspace.target.join("debian/")),
    )?;
    Ok(PathBuf::from(printed.lines().last().context("cargo-deb names no file")?))
}

/// Installs and uses the packages in a fresh Debian.
fn check(workspace: &Workspace, packages: &[PathBuf], suite: &str) -> Result<()> {
    let root = fresh(workspace, suite)?;
    fs::create_dir(root.join("packages"))?;
    for package in packages {
        let name = package.file_name().context("a package has a name")?;
        fs::copy(package, root.join("packages").join(name))?;
    }
    chroot::run_script(workspace, &root, "packaging/debian/check-in-chroot")?;
    fs::remove_dir_all(&root)?;
    Ok(())
}

/// A fresh Debian with a server, to be removed by the caller.
pub fn fresh(workspace: &Workspace, suite: &str) -> Result<PathBuf> {
    let root = workspace.target.join(format!("debian-chroot-{suite}"));
    let fresh = root.with_extension("fresh");
    if !fresh.exists() {
        chroot::bootstrap(&fresh, suite)?;
    }
    chroot::install(&fresh, PACKAGES)?;
    if root.exists() {
        fs::remove_dir_all(&root).context("cannot remove the last chroot; run this as root")?;
    }
    announce_and_run(
        Command::new("cp").args(["--archive", "--reflink=auto"]).args([&fresh, &root]),
    )?;
    Ok(root)
}

/// Servers, and what compiles programs in C.
const PACKAGES: &str =
    "nginx-light haproxy openssl iproute2 procps gcc libc6-dev libssl-dev pkg-config";
