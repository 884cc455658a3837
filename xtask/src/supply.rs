//! What we are made of: licences and advisories of dependencies, and the list of them.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::reproduce;
use crate::shell::{announce, announce_and_run, capture, find_program};
use crate::workspace::Workspace;

/// What `cargo xtask supply` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Builds what the package holds twice, from scratch and in different places, and compares.
    /// Takes as long as two releases
    #[arg(long)]
    reproduce: bool,
}

/// Asks cargo-deny where it is installed, and writes the list of all dependencies.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let checked = find_program("cargo-deny").is_some();
    if checked {
        announce_and_run(workspace.cargo().args(["deny", "check"]))?;
    }
    let metadata = capture(
        workspace
            .cargo()
            .args(["metadata", "--format-version=1", "--locked", "--offline"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"]),
    )?;
    let bill = bill(&serde_json::from_str(&metadata)?);
    let path = workspace.target.join("widelane.cdx.json");
    fs::write(&path, serde_json::to_string_pretty(&bill)? + "\n")?;
    announce(&format!("bill of materials (CycloneDX) {}", path.display()));
    if arguments.reproduce {
        reproduce::run(workspace)?;
    }
    if !checked {
        announce(
            "licences, sources and advisories were NOT checked: cargo install cargo-deny --locked",
        );
    }
    Ok(())
}

/// The bill of materials: CycloneDX 1.5.
fn bill(metadata: &Value) -> Value {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let components: Vec<Value> = packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .map(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            let version = package["version"].as_str().unwrap_or_default();
            json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:cargo/{name}@{version}"),
                "licenses": [{ "expression": package["license"] }],
            })
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "name": "widelane",
            "version": env!("CARGO_PKG_VERSION"),
        }},
        "components": components,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_elsewhere_is_listed() {
        let metadata = json!({ "packages": [
            { "name": "widelane-cpu", "version": "0.1.0", "source": null },
            { "name": "serde", "version": "1.0.0", "license": "MIT", "source": "registry" },
        ]});
        let bill = bill(&metadata);
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(1));
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/serde@1.0.0");
    }
}
