//! An accelerated nginx that the kernel confines: Debian 13 with AppArmor, then with SELinux, in a
//! virtual machine with systemd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run, run as run_command};
use crate::workspace::Workspace;
use crate::{chroot, deb};

/// What `cargo xtask confined` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Takes the Debian packages that an earlier run has built
    #[arg(long)]
    built: bool,
}

/// Debian 13.
const SUITE: &str = "trixie";

/// What boots, and what confines.
const PACKAGES: &str = "linux-image-cloud-amd64 initramfs-tools systemd-sysv udev procps \
                        apparmor apparmor-utils selinux-policy-default selinux-basics";

/// What confines, by the name of its part of the script, with the kernel's arguments.
const CONFINING: [(&str, &str); 2] =
    [("apparmor", "security=apparmor"), ("selinux", "security=selinux enforcing=1")];

/// Longest time for one boot with all checks, in seconds; it takes two minutes.
const SECONDS_MAX: u32 = 900;

const SCRIPT: &str = "packaging/confined/check";

/// What makes a virtual machine of a chroot.
const NEEDS: &[Need] = &[
    Need::to_build("qemu-system-x86", Proof::Program("qemu-system-x86_64")),
    Need::to_build("e2fsprogs", Proof::Program("mkfs.ext4")),
];

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::meet(chroot::NEEDS.iter().chain(NEEDS))?;
    let packages = deb::packages(workspace, arguments.built)?;
    let place = workspace.target.join("confined");
    fs::create_dir_all(&place)?;
    for (name, kernel_arguments) in CONFINING {
        let root = prepare(workspace, &packages, name)?;
        let said = boot(&root, &place, name, kernel_arguments);
        fs::remove_dir_all(&root)?;
        let said = said?;
        said.lines().for_each(announce);
        let has_passed = said.lines().any(|line| line == "passed");
        ensure!(has_passed, "nginx confined by {name}: see above");
    }
    Ok(())
}

/// A Debian with the packages, which runs the script when it has booted.
fn prepare(workspace: &Workspace, packages: &[PathBuf], name: &str) -> Result<PathBuf> {
    let root = deb::fresh(workspace, SUITE)?;
    chroot::install(&root, PACKAGES)?;
    for package in packages {
        let to = root.join("root").join(package.file_name().context("a package has a name")?);
        fs::copy(package, to)?;
    }
    for (from, to) in [(SCRIPT, "check"), ("packaging/check-common", "check-common")] {
        fs::copy(workspace.root.join(from), root.join(to))?;
    }
    let unit = format!(
        "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\n\
         ExecStart=/check {name}\n"
    );
    fs::write(root.join("etc/systemd/system/check.service"), unit)?;
    fs::write(root.join("etc/fstab"), "/dev/vda / ext4 rw 0 1\n")?;
    // Services start again.
    fs::remove_file(root.join("usr/sbin/policy-rc.d"))?;
    let script = "dpkg --install /root/widelane_*.deb >/dev/null
        systemctl disable --quiet nginx
        systemctl add-wants --quiet multi-user.target check.service
        setfiles -F /etc/selinux/default/contexts/files/file_contexts / >/dev/null";
    run_command(&mut chroot::command(&root, &[], &["sh", "-euc", script]))?;
    Ok(root)
}

/// Boots it; what the script has said. The CPU is emulated, since this machine may be a virtual one
/// itself.
fn boot(root: &Path, place: &Path, name: &str, kernel_arguments: &str) -> Result<String> {
    announce(&format!("Debian 13, confined by {name}, in a virtual machine"));
    let image = place.join("image");
    let _ = fs::remove_file(&image);
    fs::File::create(&image)?.set_len(3 << 30)?;
    run_command(Command::new("mkfs.ext4").args(["-q", "-d"]).arg(root).arg(&image))?;
    let said = place.join(format!("{name}.txt"));
    let console = place.join(format!("{name}-console.txt"));
    let mut machine = Command::new("qemu-system-x86_64");
    machine.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2G"]);
    machine.args(["-display", "none", "-nic", "none", "-no-reboot"]);
    machine.arg("-kernel").arg(in_boot(root, "vmlinuz")?);
    machine.arg("-initrd").arg(in_boot(root, "initrd.img")?);
    machine.arg("-append");
    machine.arg(format!("root=/dev/vda rw quiet console=ttyS0 {kernel_arguments}"));
    machine.arg("-drive").arg(format!("file={},format=raw,if=virtio", image.display()));
    for log in [&console, &said] {
        machine.arg("-serial").arg(format!("file:{}", log.display()));
    }
    announce_and_run(&mut chroot::within(SECONDS_MAX, &machine))
        .with_context(|| format!("{} has what the kernel said", console.display()))?;
    fs::remove_file(&image)?;
    Ok(fs::read_to_string(said)?)
}

/// The only file in /boot of this name and a version.
fn in_boot(root: &Path, name: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(root.join("boot"))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)) {
            return Ok(path);
        }
    }
    bail!("no kernel was installed: /boot has no {name}")
}
