//! The archive for systems without Debian's packages: what the packages hold, with a script that
//! installs it below any directory; tried in a Debian that knows nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{announce, announce_and_run, make_afresh, run as run_command};
use crate::workspace::Workspace;
use crate::{chroot, deb, setup};

/// What `cargo xtask tarball` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Takes the Debian packages that an earlier run has built
    #[arg(long)]
    built: bool,
    /// Installs the archive in a Debian in a chroot, accelerates its nginx, and takes everything
    /// away again; as root, with debootstrap
    #[arg(long)]
    check: bool,
}

/// Makes the archive; its path is the last line.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let packages = deb::packages(workspace, arguments.built)?;
    let place = workspace.target.join("tarball");
    make_afresh(&place)?;
    let name = format!("widelane-{}-x86_64", deb::version(&packages)?);
    let staged = place.join(&name);
    let files = staged.join("files");
    unpack(&packages, &place.join("unpacked"))?;
    fs::create_dir_all(&staged)?;
    fs::rename(place.join("unpacked/usr"), &files)?;
    rearrange(&files)?;
    fs::write(staged.join("manifest"), manifest(&files)?)?;
    for (from, to) in [("packaging/tarball/install", "install"), ("LICENSE", "LICENSE")] {
        fs::copy(workspace.root.join(from), staged.join(to))?;
    }
    let archive = place.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--directory"]);
    announce_and_run(
        tar.arg(&place).args(["--create", "--gzip", "--file"]).arg(&archive).arg(&name),
    )?;
    if arguments.check {
        check(workspace, &archive)?;
    }
    announce(&format!("archive {}", archive.display()));
    Ok(())
}

/// Unpacks what packages install.
pub fn unpack(packages: &[PathBuf], to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for package in packages {
        run_command(Command::new("dpkg-deb").arg("--extract").arg(package).arg(to))?;
    }
    Ok(())
}

/// Other systems have no directory of libraries for each architecture.
fn rearrange(files: &Path) -> Result<()> {
    let theirs = files.join("lib/x86_64-linux-gnu");
    for entry in fs::read_dir(&theirs)? {
        let entry = entry?;
        fs::rename(entry.path(), files.join("lib").join(entry.file_name()))?;
    }
    fs::remove_dir(theirs)?;
    let pkgconfig = files.join("lib/pkgconfig/widelane.pc");
    let text = fs::read_to_string(&pkgconfig)?;
    Ok(fs::write(&pkgconfig, text.replace("/lib/x86_64-linux-gnu", "/lib"))?)
}

/// All files below a directory, by their paths from there, one on a line.
pub fn manifest(files: &Path) -> Result<String> {
    let mut paths = Vec::new();
    let mut directories = vec![files.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => directories.push(entry.path()),
                false => paths.push(entry.path()),
            }
        }
    }
    paths.sort();
    let lines = paths.iter().map(|path| {
        let path = path.strip_prefix(files)?.to_str().context("a file's name is no text")?;
        Ok(format!("{path}\n"))
    });
    lines.collect()
}

/// Installs, uses and removes the archive where no package is.
fn check(workspace: &Workspace, archive: &Path) -> Result<()> {
    setup::meet(chroot::NEEDS)?;
    let root = deb::fresh(workspace, "trixie")?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file"]).arg(archive).arg("--directory").arg(root.join("root"));
    announce_and_run(&mut tar)?;
    chroot::run_script(workspace, &root, "packaging/tarball/check-in-chroot")?;
    fs::remove_dir_all(&root)?;
    Ok(())
}
