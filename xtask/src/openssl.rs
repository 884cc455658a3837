//! The provider under other releases of OpenSSL than the machine's: built from the registry's
//! `openssl-src`, which carries whole ones.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell::{announce, announce_and_run, capture, cargo, run as run_command};
use crate::workspace::Workspace;

/// What `cargo xtask openssl` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// A series, of which the newest release is taken; may be given several times
    #[arg(long, default_values = ["3.6", "4.0"], value_parser = series)]
    version: Vec<(u32, u32)>,
}

/// Builds each release once and runs what touches OpenSSL under it.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
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

    /// Builds libraries and program, if that was not done yet.
    fn build(&self) -> Result<()> {
        let built = self.directory.join("built");
        if built.exists() {
            return Ok(());
        }
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        announce(&format!("OpenSSL {} into {}", self.version, self.directory.display()));
        run_command(Command::new("cp").arg("-r").args([&self.pristine, &self.directory]))?;
        let here = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(&self.directory);
            command
        };
        announce_and_run(
            here("perl")
                .args(["Configure", "linux-x86_64", "shared"])
                .args(["no-docs", "no-legacy", "no-tests"])
                .arg(format!("--openssldir={}", self.programs().display())),
        )?;
        // The registry's source has the lists of symbols, but not the program that makes linker
        // scripts of them. `make` demands that it is there, older than what it would make.
        fs::write(self.directory.join("util/mkdef.pl"), "")?;
        for library in ["libcrypto", "libssl"] {
            let list = fs::read_to_string(self.directory.join(format!("util/{library}.num")))?;
            let script = linker_script(&list).with_context(|| format!("symbols of {library}"))?;
            fs::write(self.directory.join(format!("{library}.ld")), script)?;
        }
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        announce_and_run(here("make").args(["--silent", &format!("--jobs={jobs}")]).args([
            "build_generated",
            "libcrypto.so",
            "libssl.so",
            "apps/openssl",
        ]))?;
        fs::write(built, "")?;
        Ok(())
    }

    /// Runs the tests that touch OpenSSL under this release.
    ///
    /// Within OpenSSL 3 that is what was built for the machine's own, servers included: one file
    /// has to serve them all. Programs for another major version are linked anew, for which the
    /// provider is not; and the machine has no server for it.
    fn test(&self, workspace: &Workspace) -> Result<()> {
        let programs = self.programs();
        fs::write(programs.join("openssl.cnf"), CONFIGURATION)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = iter::once(programs).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path)?;
        let here = |command: &mut Command| {
            command.env("LD_LIBRARY_PATH", &self.directory).env("PATH", &path);
            command.current_dir(&workspace.root);
        };
        let mut version = Command::new("openssl");
        here(version.arg("version"));
        let said = capture(&mut version)?;
        if !said.contains(&format!("(Library: OpenSSL {} ", self.version)) {
            bail!("{} does not run: {said}", self.programs().join("openssl").display());
        }
        announce(said.trim());
        let mut test = cargo();
        here(test.args(["test", "--release", "--no-fail-fast", "--package=widelane-provider"]));
        if self.major == 3 {
            announce_and_run(workspace.cargo().args(["build", "--release"]))?;
            test.args(["--package=widelane-runtime", "--package=widelane-integration"]);
        } else {
            test.env("CARGO_TARGET_DIR", &self.target)
                .env("OPENSSL_LIB_DIR", &self.directory)
                .env("OPENSSL_INCLUDE_DIR", self.directory.join("include"));
        }
        announce_and_run(&mut test)
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
