//! A Debian or Ubuntu in a directory, made by debootstrap and entered with processes, mounts and a
//! network of its own, so that nothing of what runs in it stays behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::archive::{Archive, is_ubuntu};
use crate::setup::{Need, Proof};
use crate::shell::{announce, announce_and_run, make_afresh, run};
use crate::workspace::Workspace;

/// What makes chroots.
pub const NEEDS: &[Need] = &[
    Need::to_build("debootstrap", Proof::Program("debootstrap")),
    Need::to_build("util-linux", Proof::Program("unshare")),
];

/// Makes a minimal Debian or Ubuntu of `suite` at `root`, in which installed services are not
/// started.
pub fn bootstrap(root: &Path, suite: &str) -> Result<()> {
    let unfinished = root.with_extension("unfinished");
    make_afresh(&unfinished)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.arg("--variant=minbase");
    if is_ubuntu(suite) {
        let archive = Archive::of(suite, root.parent().context("a chroot is in a directory")?)?;
        let Archive { mirror, keyring, components } = archive;
        debootstrap.arg(format!("--keyring={}", keyring.display()));
        debootstrap.arg(format!("--components={}", components.replace(' ', ",")));
        // Debian's debootstrap may not know the newest releases: all have one recipe.
        debootstrap.arg(suite).arg(&unfinished).args([&*mirror, "gutsy"]);
        announce_and_run(&mut debootstrap)?;
        let updates = format!("deb {mirror} {suite}-updates {components}\n");
        fs::write(unfinished.join("etc/apt/sources.list.d/updates.list"), updates)?;
    } else {
        announce_and_run(debootstrap.arg(suite).arg(&unfinished))?;
    }
    let policy = unfinished.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    run(Command::new("chmod").arg("755").arg(&policy))?;
    fs::rename(unfinished, root)?;
    Ok(())
}

/// Makes sure that `packages` are installed in the system at `root`; they come from the network of
/// this machine.
pub fn install(root: &Path, packages: &str) -> Result<()> {
    // A mirror may be older than a suite that changes daily says its lists may be.
    let script = format!(
        "dpkg --status {packages} >/dev/null 2>&1 && exit
         export DEBIAN_FRONTEND=noninteractive
         apt-get update --quiet=2 -o Acquire::Check-Valid-Until=false >/dev/null
         apt-get install --yes --quiet=2 --no-install-recommends {packages} >/dev/null"
    );
    let words = ["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", ENTER, "sh"];
    run(Command::new("unshare").args(words).arg(root).args(["sh", "-euc", &script]))
}

/// A command that runs `words` in the system at `root`, without a network but loopback. The
/// directories of `shared` are there under the same paths.
pub fn command(root: &Path, shared: &[&Path], words: &[&str]) -> Command {
    let mut script = "ip link set lo up\n".to_owned();
    for directory in shared {
        let directory = directory.display();
        script +=
            &format!("mkdir -p \"$1{directory}\"\nmount --bind {directory} \"$1{directory}\"\n");
    }
    script += ENTER;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-euc"]);
    command.args([&script, "sh"]).arg(root).args(words);
    command
}

/// `command`, killed after some seconds. `timeout` stands outside: that of Debian sid fails as the
/// first process of a system.
pub fn within(seconds: u32, command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--signal=KILL", &seconds.to_string()]).arg(command.get_program());
    limited.args(command.get_args());
    limited
}

/// Runs a script of the workspace in the system at `root`, with what such scripts share.
pub fn run_script(workspace: &Workspace, root: &Path, script: &str) -> Result<()> {
    let common = "packaging/check-common";
    for (from, to) in [(script, "check"), (common, "check-common")] {
        fs::copy(workspace.root.join(from), root.join(to))?;
    }
    announce(&format!("{script} in {}", root.display()));
    run(&mut command(root, &[], &["/check"]))
}

/// Enters the chroot `$1` and runs the other words there.
const ENTER: &str = "\
root=$1
shift
mount -t proc proc \"$root/proc\"
mount -t devpts -o newinstance,ptmxmode=0666 devpts \"$root/dev/pts\"
mount -t tmpfs tmpfs \"$root/run\"
mount -t tmpfs tmpfs \"$root/tmp\"
mkdir -p \"$root/dev/shm\"
mount -t tmpfs tmpfs \"$root/dev/shm\"
exec chroot \"$root\" \"$@\"";
