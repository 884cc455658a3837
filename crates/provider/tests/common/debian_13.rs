//! `openssl` of Debian 13, which has the groups of ML-KEM itself, where `cargo xtask systems` has
//! made that system and this process may enter it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What one has to do where it is not there.
pub const LEFT_OUT: &str = "left out: no Debian 13 in target/systems; cargo xtask systems makes it";

/// Where that system is.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/systems/trixie")
}

/// Its `openssl`, if there is one.
pub fn openssl(command: &str) -> Option<Command> {
    let in_there = |command: &str| {
        let mut openssl = Command::new("chroot");
        openssl.arg(root()).arg("openssl").args(command.split_whitespace());
        openssl.env_remove("OPENSSL_CONF");
        openssl
    };
    let version = in_there("version").output().ok()?;
    let has_groups = String::from_utf8_lossy(&version.stdout).starts_with("OpenSSL 3.5");
    has_groups.then(|| in_there(command))
}
