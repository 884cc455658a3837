//! The package archives of Debian and Ubuntu: where they are, which keys sign them, and source
//! packages from them, fetched by apt without a change to the system's own sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::shell::{announce_and_run, capture, make_afresh, run};

/// An archive of packages.
pub struct Archive {
    pub mirror: String,
    /// The keys which sign the indexes that tell the checksums of packages.
    pub keyring: PathBuf,
    /// The parts of the archive that are used.
    pub components: &'static str,
}

/// Debian's keys.
pub const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The releases of Ubuntu by their code names: 22.04, 24.04 and 26.04.
const UBUNTU: [&str; 3] = ["jammy", "noble", "resolute"];

const UBUNTU_MIRROR: &str = "http://archive.ubuntu.com/ubuntu";

/// Ubuntu's keys, where the package `ubuntu-keyring` has them. Debian has no such package.
const UBUNTU_KEYRING: &str = "usr/share/keyrings/ubuntu-archive-keyring.gpg";

/// The package with Ubuntu's keys, below the mirror, and its SHA-256.
const UBUNTU_KEYS: (&str, &str) = (
    "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb",
    "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8",
);

/// Whether a suite is one of Ubuntu's, and not of Debian's.
pub fn is_ubuntu(suite: &str) -> bool {
    UBUNTU.contains(&suite)
}

impl Archive {
    /// The archive that has `suite`. Ubuntu's keys are fetched into `directory` where this system
    /// has none.
    pub fn of(suite: &str, directory: &Path) -> Result<Self> {
        if is_ubuntu(suite) { Self::ubuntu(directory) } else { Ok(Self::debian(mirror()?)) }
    }

    /// Debian's, at a mirror.
    pub fn debian(mirror: String) -> Self {
        Archive { mirror, keyring: DEBIAN_KEYRING.into(), components: "main" }
    }

    fn ubuntu(directory: &Path) -> Result<Self> {
        let mut keyring = Path::new("/").join(UBUNTU_KEYRING);
        if !keyring.exists() {
            let unpacked = directory.join("ubuntu-keyring");
            keyring = unpacked.join(UBUNTU_KEYRING);
            if !keyring.exists() {
                fetch_ubuntu_keys(&unpacked)?;
            }
        }
        let mirror = UBUNTU_MIRROR.to_owned();
        Ok(Archive { mirror, keyring, components: "main universe" })
    }
}

/// Unpacks the package with Ubuntu's keys into a directory.
fn fetch_ubuntu_keys(unpacked: &Path) -> Result<()> {
    let (package, sha256) = UBUNTU_KEYS;
    fs::create_dir_all(unpacked)?;
    let fetched = unpacked.join("package.deb");
    let mut helper = Command::new("/usr/lib/apt/apt-helper");
    helper.arg("download-file").arg(format!("{UBUNTU_MIRROR}/{package}")).arg(&fetched);
    run(helper.arg(format!("SHA256:{sha256}")).stdout(Stdio::null()))
        .context("cannot fetch Ubuntu's keys")?;
    run(Command::new("dpkg-deb").arg("--extract").arg(&fetched).arg(unpacked))
}

/// Has `apt-get source` fetch a package of `suite` into `directory`; `words` are the package and
/// what to do with it.
pub fn fetch_source(
    directory: &Path,
    archive: &Archive,
    suite: &str,
    words: &[&str],
) -> Result<()> {
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let Archive { mirror, keyring, components } = archive;
    let keyring = keyring.display();
    let list = format!("deb-src [signed-by={keyring}] {mirror} {suite} {components}\n");
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

/// The archive of a program's makers that [`fetch_source`] has fetched into a directory, if it has.
pub fn fetched(directory: &Path) -> Result<Option<PathBuf>> {
    let files = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let is_archive = |path: &PathBuf| path.to_string_lossy().contains(FETCHED);
    Ok(files.into_iter().map(|file| file.path()).find(is_archive))
}

/// The name that Debian gives such an archive, without version and kind.
pub const FETCHED: &str = ".orig.tar.";

/// Unpacks such an archive into a fresh directory.
pub fn unpack(archive: &Path, to: &Path) -> Result<()> {
    make_afresh(to)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]).arg(archive);
    run(tar.arg("--directory").arg(to))
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
