//! The provider under other releases of OpenSSL than the machine's: built from the registry's
//! `openssl-src`, which carries whole ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::programs::TestProgram;
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run, capture, cargo, path, remove, run as run_command};
use crate::test::runner::{self, Terms};
use crate::workspace::{QUICK, Workspace};

/// What `cargo xtask openssl` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// A series, of which the newest release is taken; may be given several times
    #[arg(long, default_values = ["3.6", "4.0"], value_parser = series)]
    version: Vec<(u32, u32)>,
}

/// Builds each release once and runs what touches OpenSSL under it.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run_to_build(NEEDS)?;
    for &series in &arguments.version {
        let release = Release::find(workspace, series)?;
        release.build()?;
        release.test(workspace)?;
        announce(&format!("OpenSSL {} passes", release.version));
    }
    Ok(())
}

/// Reads `3.6`.
fn series(text: &str) -> Result<(u32, u32)> {
    let (major, minor) = text.split_once('.').context("a series is written 3.6")?;
    let (major, minor) = (major.parse()?, minor.parse()?);
    ensure!(major >= 3, "OpenSSL {major} has no providers");
    Ok((major, minor))
}

/// One release of OpenSSL, and where it is built.
struct Release {
    /// As it calls itself.
    version: String,
    major: u32,
    /// Its source as the registry has it, which stays as it is.
    pristine: PathBuf,
    /// Where it is built, and where its libraries stay.
    directory: PathBuf,
    /// Where our tests are built for it.
    target: PathBuf,
}

impl Release {
    /// Has cargo fetch the newest release of a series: `openssl-src` calls 3.6 version 300.6.
    fn find(workspace: &Workspace, (major, minor): (u32, u32)) -> Result<Self> {
        let work = workspace.target.join("openssl").join(format!("{major}.{minor}"));
        let package = work.join("package");
        fs::create_dir_all(package.join("src"))?;
        fs::write(package.join("src/lib.rs"), "")?;
        let manifest = package.join("Cargo.toml");
        let requirement = format!("~{}.{minor}", 100 * major);
        fs::write(&manifest, PACKAGE.replace("REQUIREMENT", &requirement))?;
        let printed = capture(
            cargo()
                .args(["metadata", "--format-version=1", "--quiet", "--manifest-path"])
                .arg(&manifest),
        )?;
        let metadata: Value = serde_json::from_str(&printed)?;
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let source = packages
            .iter()
            .find(|package| package["name"] == "openssl-src")
            .context("cargo did not fetch openssl-src")?;
        let text = |field: &str| source[field].as_str().context("cargo metadata lacks a field");
        let (_, version) = text("version")?.split_once('+').context("a version of openssl-src")?;
        let pristine = Path::new(text("manifest_path")?).with_file_name("openssl");
        Ok(Release {
            version: version.to_owned(),
            major,
            pristine,
            directory: work.join(version),
            target: work.join("target"),
        })
    }

    /// Where its program is, and what that reads.
    fn programs(&self) -> PathBuf {
        self.directory.join("apps")
    }

    /// Where its modules are.
    fn modules(&self) -> PathBuf {
        self.directory.join("providers")
    }

    /// Builds libraries, program and the legacy provider, if that was not done yet in this way.
    fn build(&self) -> Result<()> {
        let built = self.directory.join("built");
        let directory = format!("--openssldir={}", self.programs().display());
        let options = ["linux-x86_64", "shared", "no-docs", "no-tests", &directory];
        let way = format!("{options:?} {PARTS:?}");
        if fs::read_to_string(&built).is_ok_and(|built| built == way) {
            return Ok(());
        }
        remove(&self.directory)?;
        announce(&format!("OpenSSL {} into {}", self.version, self.directory.display()));
        run_command(Command::new("cp").arg("-r").args([&self.pristine, &self.directory]))?;
        let here = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(&self.directory);
            command
        };
        // The registry's source has the libraries' lists of symbols, but not the program that makes
        // linker scripts of them, nor the list of what a provider exports. `Configure` and `make`
        // demand that they are there, older than what would be made of them.
        for missing in ["mkdef.pl", "providers.num"] {
            fs::write(self.directory.join("util").join(missing), "")?;
        }
        announce_and_run(here("perl").arg("Configure").args(options))?;
        for library in ["libcrypto", "libssl"] {
            let list = fs::read_to_string(self.directory.join(format!("util/{library}.num")))?;
            let script = linker_script(&list).with_context(|| format!("symbols of {library}"))?;
            fs::write(self.directory.join(format!("{library}.ld")), script)?;
        }
        fs::write(self.modules().join("legacy.ld"), "{ global: OSSL_provider_init; local: *; };")?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        announce_and_run(here("make").args(["--silent", &format!("--jobs={jobs}")]).args(PARTS))?;
        fs::write(built, way)?;
        Ok(())
    }

    /// Runs the tests that touch OpenSSL under this release.
    ///
    /// Within OpenSSL 3 that is what was built for the machine's own, servers included: one file
    /// has to serve them all. Programs for another major version are linked anew, for which the
    /// provider is not; and the machine has no server for it.
    fn test(&self, workspace: &Workspace) -> Result<()> {
        fs::write(self.programs().join("openssl.cnf"), CONFIGURATION)?;
        let variables = self.variables()?;
        let mut version = Command::new("openssl");
        let said = capture(version.arg("version").envs(variables.clone()))?;
        if !said.contains(&format!("(Library: OpenSSL {} ", self.version)) {
            bail!("{} does not run: {said}", self.programs().join("openssl").display());
        }
        announce(said.trim());
        let mut programs = if self.major == 3 {
            crate::test::build(workspace)?
        } else {
            let mut build = workspace.cargo();
            build.args(["build", QUICK, "--lib", "--tests", "--package=widelane-provider"]);
            TestProgram::build(
                build
                    .env("CARGO_TARGET_DIR", &self.target)
                    .env("OPENSSL_LIB_DIR", &self.directory)
                    .env("OPENSSL_INCLUDE_DIR", self.directory.join("include")),
            )?
        };
        programs.retain(|program| TESTED.contains(&program.package.as_str()));
        runner::run(programs, &Terms { variables: &variables, ..Terms::default() })
    }

    /// The environment in which programs find this release before the machine's.
    fn variables(&self) -> Result<[(&'static str, OsString); 3]> {
        let path = iter::once(self.programs()).chain(path());
        Ok([
            ("LD_LIBRARY_PATH", self.directory.clone().into()),
            ("OPENSSL_MODULES", self.modules().into()),
            ("PATH", std::env::join_paths(path)?),
        ])
    }
}

/// A linker script that exports what a list of OpenSSL's names, under the versions that it says.
fn linker_script(list: &str) -> Result<String> {
    let mut versions: BTreeMap<Vec<u32>, Vec<&str>> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let [symbol, _, version, exists] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            bail!("not a symbol, number, version and condition: {line}");
        };
        if exists.starts_with("EXIST:") {
            let version = version.split('_').map(str::parse).collect::<Result<_, _>>();
            versions.entry(version.with_context(|| line.to_owned())?).or_default().push(symbol);
        }
    }
    let mut script = String::new();
    let mut earlier = String::new();
    for (version, symbols) in versions {
        let numbers: Vec<String> = version.iter().map(u32::to_string).collect();
        let name = format!("OPENSSL_{}", numbers.join("."));
        let hidden = if earlier.is_empty() { " local: *;" } else { "" };
        let _ = writeln!(script, "{name} {{ global: {};{hidden} }}{earlier};", symbols.join("; "));
        earlier = format!(" {name}");
    }
    Ok(script)
}

/// What builds a release.
const NEEDS: &[Need] = &[
    Need::to_build("make", Proof::Program("make")),
    Need::to_build("perl", Proof::Program("perl")),
];

/// What is built of a release.
const PARTS: [&str; 5] =
    ["build_generated", "libcrypto.so", "libssl.so", "apps/openssl", "providers/legacy.so"];

/// The packages whose tests touch OpenSSL.
const TESTED: [&str; 3] = ["provider", "runtime", "integration"];

/// What `openssl req` wants to see, as Debian has it; the registry's source has none.
const CONFIGURATION: &str = "\
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always, issuer
basicConstraints = critical, CA:true
";

/// A package that has cargo fetch the source.
const PACKAGE: &str = r#"[package]
name = "source"
edition = "2024"

[dependencies]
openssl-src = "REQUIREMENT"

[workspace]
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tested_exists() {
        let packages = Workspace::find().unwrap().packages;
        for name in TESTED {
            assert!(packages.iter().any(|package| package.name == name), "{name}");
        }
    }

    #[test]
    fn symbols_keep_their_versions_in_order() {
        let list = "# comment\n\
                    b 2\t3_10_0\tEXIST::FUNCTION:\n\
                    a 1\t3_0_0\tEXIST::FUNCTION:RSA\n\
                    c 3\t3_0_0\tNOEXIST::FUNCTION:\n";
        assert_eq!(
            linker_script(list).unwrap(),
            "OPENSSL_3.0.0 { global: a; local: *; };\n\
             OPENSSL_3.10.0 { global: b; } OPENSSL_3.0.0;\n"
        );
        assert!(linker_script("only a symbol\n").is_err());
    }

    #[test]
    fn a_series_is_major_and_minor() {
        assert_eq!(series("3.6").unwrap(), (3, 6));
        assert!(series("1.1").is_err() && series("3").is_err());
    }
}
