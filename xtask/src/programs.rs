//! The test programs that a build makes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::capture;

/// A test program.
pub struct TestProgram {
    /// Name of its package, without the `widelane-` prefix.
    pub package: String,
    /// Name of its target, without the prefix: the package's for unit tests.
    pub target: String,
    /// Directory of the package, in which cargo runs it.
    pub directory: PathBuf,
    /// The program itself.
    pub path: PathBuf,
}

impl TestProgram {
    /// Its package and target, as its results name it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.package, self.target)
    }

    /// Builds the tests that `cargo test` with its options names, and returns their programs.
    pub fn build(cargo: &mut Command) -> Result<Vec<Self>> {
        cargo.args(["--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
        let mut programs = Vec::new();
        for line in capture(cargo)?.lines() {
            let message: Value =
                serde_json::from_str(line).context("what cargo says of a build")?;
            if message["profile"]["test"] == true {
                programs.extend(Self::read(&message));
            }
        }
        Ok(programs)
    }

    /// The program that a message names; none where nothing was linked.
    fn read(message: &Value) -> Option<Self> {
        let path = message["executable"].as_str()?.into();
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = directory.file_name()?.to_str()?.to_owned();
        let target = message["target"]["name"].as_str()?;
        let target = target.strip_prefix("widelane_").unwrap_or(target).to_owned();
        Some(TestProgram { package, target, directory, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_without_the_prefix() {
        let message = serde_json::json!({
            "executable": "/house/target/quick/deps/all-0123",
            "manifest_path": "/house/crates/crypto/Cargo.toml",
            "target": { "name": "all" },
        });
        let program = TestProgram::read(&message).unwrap();
        assert_eq!((program.package.as_str(), program.target.as_str()), ("crypto", "all"));
        assert_eq!(program.directory, Path::new("/house/crates/crypto"));
        let library = serde_json::json!({ "executable": null });
        assert!(TestProgram::read(&library).is_none());
    }
}
