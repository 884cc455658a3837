//! The workspace as cargo describes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// The profile of builds that a developer waits for: see the root manifest.
pub const QUICK: &str = "--profile=quick";

/// The workspace as cargo describes it.
pub struct Workspace {
    /// Directory of the root manifest.
    pub root: PathBuf,
    /// Where builds go.
    pub target: PathBuf,
    /// The members.
    pub packages: Vec<Package>,
}

/// One member of the workspace.
pub struct Package {
    /// Name without the `widelane-` prefix.
    pub name: String,
    /// Directory of its manifest.
    pub directory: PathBuf,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
    /// The root file of every target: library, programs, tests, examples, benchmarks, build script.
    pub roots: Vec<PathBuf>,
}

/// One line of a manifest's dependencies.
pub struct Dependency {
    /// Name without the `widelane-` prefix.
    pub name: String,
    /// Whether only tests need it.
    pub is_dev: bool,
    /// Whether it is a member of this workspace.
    pub is_ours: bool,
}

impl Workspace {
    /// Asks cargo.
    pub fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let json = shell::capture(
            shell::cargo()
                .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--quiet"])
                .arg("--manifest-path")
                .arg(manifest),
        )?;
        let metadata: Value = serde_json::from_str(&json).context("cargo metadata")?;
        Self::read(&metadata).context("cargo metadata lacks a field")
    }

    /// A cargo that works here.
    pub fn cargo(&self) -> Command {
        let mut cargo = shell::cargo();
        cargo.current_dir(&self.root);
        cargo
    }

    /// Builds both programs and the libraries that they put into servers, in [`QUICK`].
    pub fn build(&self) -> Result<()> {
        let packages = ["cli", "lab", "provider", "runtime"];
        let packages = packages.map(|name| format!("--package=widelane-{name}"));
        shell::announce_and_run(self.cargo().args(["build", QUICK]).args(packages))
    }

    /// A program or library that cargo made in [`QUICK`].
    pub fn quick(&self, name: &str) -> PathBuf {
        self.target.join("quick").join(name)
    }

    /// A program or library that `cargo build --release` made.
    pub fn released(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    fn read(metadata: &Value) -> Option<Self> {
        Some(Workspace {
            root: metadata["workspace_root"].as_str()?.into(),
            target: metadata["target_directory"].as_str()?.into(),
            packages: all(&metadata["packages"], Package::read)?,
        })
    }
}

impl Package {
    fn read(package: &Value) -> Option<Self> {
        Some(Package {
            name: own_name(package["name"].as_str()?),
            directory: Path::new(package["manifest_path"].as_str()?).parent()?.into(),
            dependencies: all(&package["dependencies"], Dependency::read)?,
            roots: all(&package["targets"], |target| Some(target["src_path"].as_str()?.into()))?,
        })
    }
}

impl Dependency {
    fn read(dependency: &Value) -> Option<Self> {
        Some(Dependency {
            name: own_name(dependency["name"].as_str()?),
            is_dev: dependency["kind"] == "dev",
            is_ours: dependency["path"].is_string(),
        })
    }
}

fn own_name(name: &str) -> String {
    name.strip_prefix("widelane-").unwrap_or(name).to_owned()
}

fn all<T>(values: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    values.as_array()?.iter().map(read).collect()
}
