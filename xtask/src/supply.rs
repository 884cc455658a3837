//! What we are made of: licences and advisories of dependencies, and the list of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::reproduce::{self, SHIPPED};
use crate::shell::{announce, announce_and_run, capture, find_program, succeeds};
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
    let unchecked = ask_cargo_deny(workspace)?;
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
    if let Some(unchecked) = unchecked {
        announce(unchecked);
    }
    Ok(())
}

/// Has everything checked that can be checked here; answers what could not be.
fn ask_cargo_deny(workspace: &Workspace) -> Result<Option<&'static str>> {
    if find_program("cargo-deny").is_none() {
        return Ok(Some(
            "licences, sources and advisories were NOT checked: cargo install cargo-deny --locked",
        ));
    }
    let deny = |arguments: &[&str]| {
        let mut cargo = workspace.cargo();
        cargo.arg("deny").args(arguments);
        cargo
    };
    announce_and_run(&mut deny(&["check", "bans", "licenses", "sources"]))?;
    if !succeeds(&mut deny(&["fetch", "db", "index"])) {
        return Ok(Some(
            "advisories were NOT checked: github.com/RustSec/advisory-db cannot be fetched here",
        ));
    }
    announce_and_run(&mut deny(&["check", "advisories"]))?;
    Ok(None)
}

/// The bill of materials: CycloneDX 1.5. What no shipped file holds, because only builds or tests
/// need it, is listed as excluded.
fn bill(metadata: &Value) -> Value {
    let held = held(metadata);
    let components: Vec<Value> = list(&metadata["packages"])
        .iter()
        .filter(|package| !package["source"].is_null())
        .map(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            let version = package["version"].as_str().unwrap_or_default();
            // The older way to write that either licence may be chosen.
            let licences =
                package["license"].as_str().unwrap_or("NOASSERTION").replace('/', " OR ");
            let is_held = package["id"].as_str().is_some_and(|id| held.contains(id));
            json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:cargo/{name}@{version}"),
                "licenses": [{ "expression": licences }],
                "scope": if is_held { "required" } else { "excluded" },
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

/// The packages of which what is shipped is made, by their identifiers.
fn held(metadata: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &[Value]> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, list(&node["deps"]))))
        .collect();
    let packages = list(&metadata["packages"]);
    // What only the compiler runs, and all that it needs.
    let is_macro = |package: &&Value| {
        let kinds = list(&package["targets"]).iter().flat_map(|target| list(&target["kind"]));
        kinds.into_iter().any(|kind| kind == "proc-macro")
    };
    let macros: BTreeSet<&str> =
        packages.iter().filter(is_macro).filter_map(|package| package["id"].as_str()).collect();
    let mut left: Vec<&str> = packages
        .iter()
        .filter(|package| SHIPPED.iter().any(|(shipped, _)| package["name"] == *shipped))
        .filter_map(|package| package["id"].as_str())
        .collect();
    let mut held = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !macros.contains(id) && held.insert(id) {
            let is_linked = |kind: &Value| kind["kind"].is_null();
            let dependencies = nodes.get(id).copied().unwrap_or_default().iter();
            left.extend(
                dependencies
                    .filter(|dependency| list(&dependency["dep_kinds"]).iter().any(is_linked))
                    .filter_map(|dependency| dependency["pkg"].as_str()),
            );
        }
    }
    held
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_elsewhere_is_listed_and_what_is_linked_is_told_apart() {
        let package = |name: &str, license: &str, source: Option<&str>| {
            let version = "1.0.0";
            let kind = if name.ends_with("derive") { "proc-macro" } else { "lib" };
            json!({
                "id": name, "name": name, "version": version, "license": license, "source": source,
                "targets": [{ "kind": [kind] }],
            })
        };
        let needs = |name: &str, kind: Option<&str>| {
            let kinds = json!([{ "kind": kind }]);
            json!({ "pkg": name, "dep_kinds": kinds })
        };
        let metadata = json!({
            "packages": [
                package("widelane-cli", "Apache-2.0", None),
                package("serde", "MIT/Apache-2.0", Some("registry")),
                package("itoa", "MIT", Some("registry")),
                package("cc", "MIT", Some("registry")),
                package("ring", "ISC", Some("registry")),
                package("serde_derive", "MIT", Some("registry")),
                package("syn", "MIT", Some("registry")),
            ],
            "resolve": { "nodes": [
                {
                    "id": "widelane-cli",
                    "deps": [needs("serde", None), needs("ring", Some("dev"))],
                },
                {
                    "id": "serde",
                    "deps": [
                        needs("itoa", None),
                        needs("cc", Some("build")),
                        needs("serde_derive", None),
                    ],
                },
                { "id": "serde_derive", "deps": [needs("syn", None)] },
            ]},
        });
        let bill = bill(&metadata);
        let listed: Vec<_> = list(&bill["components"])
            .iter()
            .map(|component| (component["name"].as_str(), component["scope"].as_str()))
            .map(|(name, scope)| (name.unwrap(), scope.unwrap()))
            .collect();
        let (required, excluded) = ("required", "excluded");
        let expected = [
            ("serde", required),
            ("itoa", required),
            ("cc", excluded),
            ("ring", excluded),
            ("serde_derive", excluded),
            ("syn", excluded),
        ];
        assert_eq!(listed, expected);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/serde@1.0.0");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
