//! Source packages of Debian, fetched by apt without a change to the system's own sources.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::shell::{announce_and_run, capture};

/// Debian's keys, which sign the indexes that tell the checksums of packages.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Has `apt-get source` fetch a package of `suite` into `directory`, from `mirror`; `words` are the
/// package and what to do with it.
pub fn fetch(directory: &Path, mirror: &str, suite: &str, words: &[&str]) -> Result<()> {
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let list = format!("deb-src [signed-by={KEYRING}] {mirror} {suite} main\n");
    fs::write(directory.join("sources.list"), list)?;
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.current_dir(directory).arg("--quiet=2").stdout(Stdio::null());
        for (option, path) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::State::Lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            apt.arg(format!("--option={option}={}", directory.join(path).display()));
        }
        // Only the list above counts, and what is fetched belongs to the user who builds.
        apt.args(["--option=Dir::Etc::SourceParts=-", "--option=APT::Sandbox::User="]);
        apt.args(words);
        apt
    };
    announce_and_run(&mut apt(&["--option=APT::Update::Error-Mode=any", "update"]))?;
    announce_and_run(&mut apt(&[&["source"], words].concat()))
}

/// The mirror of Debian that apt uses on this machine.
pub fn mirror() -> Result<String> {
    let said = capture(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
        "Origin: Debian",
        "Label: Debian",
    ]))?;
    let mirror = said.lines().next().unwrap_or_default();
    ensure!(!mirror.is_empty(), "apt uses no mirror of Debian here; name one by --mirror URL");
    Ok(mirror.to_owned())
}
