//! The test programs that a build makes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::capture;

/// A test program.
#[derive(Clone)]
pub struct TestProgram {
    /// Name of its package, without the `widelane-` prefix.
    pub package: String,
    /// Name of its target; `lib` or `bin` for unit tests.
    pub target: String,
    /// Whether it was built with debug assertions.
    pub is_checked: bool,
    /// Directory of the package, in which cargo runs it.
    pub directory: PathBuf,
    /// The program itself.
    pub path: PathBuf,
}

impl TestProgram {
    /// Its package, target and profile, as its results name it.
    pub fn name(&self) -> String {
        let suffix = if self.is_checked { " (checked)" } else { "" };
        format!("{}/{}{suffix}", self.package, self.target)
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
        // `…/lab/cli#widelane-lab@0.2.0`, or `…/xtask#0.2.0` where the directory has its name.
        let (place, package) = message["package_id"].as_str()?.rsplit_once('#')?;
        let package = match package.split_once('@') {
            Some((name, _)) => name,
            None => place.rsplit('/').next()?,
        };
        let package = package.strip_prefix("widelane-").unwrap_or(package).to_owned();
        let target = match message["target"]["kind"][0].as_str()? {
            "test" => message["target"]["name"].as_str()?,
            "bin" => "bin",
            _ => "lib",
        };
        let is_checked = message["profile"]["debug_assertions"] == true;
        Some(TestProgram { package, target: target.to_owned(), is_checked, directory, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_their_names() {
        let message = |directory: &str, package: &str, target: (&str, &str), is_checked: bool| {
            serde_json::json!({
                "executable": "/house/target/quick/deps/all-0123",
                "manifest_path": format!("/house/{directory}/Cargo.toml"),
                "package_id": format!("path+file:///house/{directory}#{package}"),
                "profile": { "debug_assertions": is_checked },
                "target": { "kind": [target.0], "name": target.1 },
            })
        };
        for (message, name) in [
            (message("lab/cli", "widelane-lab@0.2.0", ("test", "all"), false), "lab/all"),
            (message("crates/cli", "widelane-cli@0.2.0", ("test", "all"), false), "cli/all"),
            (message("crates/cli", "widelane-cli@0.2.0", ("bin", "widelane"), false), "cli/bin"),
            (message("xtask", "0.2.0", ("bin", "xtask"), false), "xtask/bin"),
            (message("crates/c", "widelane-c@0.2.0", ("test", "c"), false), "c/c"),
            (message("crates/c", "widelane-c@0.2.0", ("cdylib", "widelane_c"), false), "c/lib"),
            (
                message("crates/batch", "widelane-batch@0.2.0", ("lib", "widelane_batch"), true),
                "batch/lib (checked)",
            ),
        ] {
            let program = TestProgram::read(&message).unwrap();
            assert_eq!(program.name(), name);
            assert!(program.directory.starts_with("/house"));
        }
        let library = serde_json::json!({ "executable": null });
        assert!(TestProgram::read(&library).is_none());
    }
}
