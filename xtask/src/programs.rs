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
    /// Whether it was built in the dev profile, with every debug assertion.
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

    /// Its name among those of the crates with arithmetic: of its target, or of its package where
    /// that has unit tests.
    pub fn short_name(&self) -> &str {
        if self.target == "lib" { &self.package } else { &self.target }
    }

    /// Builds what a `cargo build` names, and returns the test programs among it.
    pub fn build(cargo: &mut Command) -> Result<Vec<Self>> {
        cargo.args(["--quiet", "--message-format=json-render-diagnostics"]);
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
        let path = PathBuf::from(message["executable"].as_str()?);
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
        // A few packages have debug assertions in each profile: what counts is the profile.
        let is_checked = path.ancestors().nth(2)?.ends_with("debug");
        Some(TestProgram { package, target: target.to_owned(), is_checked, directory, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_their_names() {
        let message = |directory: &str, package: &str, target: (&str, &str), profile: &str| {
            serde_json::json!({
                "executable": format!("/house/target/{profile}/deps/all-0123"),
                "manifest_path": format!("/house/{directory}/Cargo.toml"),
                "package_id": format!("path+file:///house/{directory}#{package}"),
                "target": { "kind": [target.0], "name": target.1 },
            })
        };
        for (message, name, short_name) in [
            (message("lab/cli", "widelane-lab@0.2.0", ("test", "all"), "quick"), "lab/all", "all"),
            (
                message("crates/cli", "widelane-cli@0.2.0", ("bin", "widelane"), "quick"),
                "cli/bin",
                "bin",
            ),
            (message("xtask", "0.2.0", ("bin", "xtask"), "quick"), "xtask/bin", "bin"),
            (message("crates/c", "widelane-c@0.2.0", ("test", "c"), "quick"), "c/c", "c"),
            (
                message("crates/c", "widelane-c@0.2.0", ("cdylib", "widelane_c"), "quick"),
                "c/lib",
                "c",
            ),
            (
                message("crates/cpu", "widelane-cpu@0.2.0", ("lib", "widelane_cpu"), "debug"),
                "cpu/lib (checked)",
                "cpu",
            ),
        ] {
            let program = TestProgram::read(&message).unwrap();
            assert_eq!((program.name().as_str(), program.short_name()), (name, short_name));
            assert!(program.directory.starts_with("/house"));
        }
        let library = serde_json::json!({ "executable": null });
        assert!(TestProgram::read(&library).is_none());
    }
}
