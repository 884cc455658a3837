//! Rivals of `widelane compare` that no registry has as programs: HAProxy linked with AWS-LC.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::archive::{self, Archive, DEBIAN_KEYRING};
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, announce_and_run, capture};
use crate::workspace::Workspace;

/// What `cargo xtask rival` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The rival
    rival: Rival,

    /// Where to fetch Debian's source package from [default: the mirror that apt uses]
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rival {
    /// HAProxy from Debian 13's source package, linked with the library of the aws-lc-sys crate
    HaproxyAwsLc,
}

/// Builds the rival where `widelane compare --rival` looks for it. If that fails, the reason stays
/// beside it, and the comparison prints it.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let Rival::HaproxyAwsLc = arguments.rival;
    let build = Build { workspace, directory: workspace.target.join(NAME) };
    let rivals = workspace.target.join("rivals");
    let (program, reason) = (rivals.join(NAME), rivals.join(format!("{NAME}.failed")));
    fs::create_dir_all(&build.directory)?;
    fs::create_dir_all(&rivals)?;
    match build.program(arguments.mirror.as_deref()) {
        Ok(built) => {
            fs::copy(built, &program)?;
            let _ = fs::remove_file(&reason);
            announce(&format!("{} can be compared: --rival {NAME}", program.display()));
            Ok(())
        }
        Err(error) => {
            fs::write(&reason, format!("{error:#}\n"))?;
            Err(error)
        }
    }
}

/// The rival's name: of its folder in `rivals`, of its program, and in results.
const NAME: &str = "haproxy-aws-lc";

/// Debian 13.
const SUITE: &str = "trixie";

/// Where HAProxy is fetched, unpacked and built.
struct Build<'a> {
    workspace: &'a Workspace,
    directory: PathBuf,
}

/// AWS-LC as cargo built it.
struct AwsLc {
    version: String,
    headers: PathBuf,
    libraries: PathBuf,
}

impl Build<'_> {
    /// The path of the program, built if it is not there yet.
    fn program(&self, mirror: Option<&str>) -> Result<PathBuf> {
        setup::meet(NEEDS)?;
        let archive = self.fetch(mirror)?;
        let aws_lc = self.aws_lc()?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let haproxy = name.split(archive::FETCHED).next().unwrap_or_default();
        // Of another library it is another build: make would keep what it has of the last one.
        let source = self.directory.join(format!("{haproxy}_aws-lc-sys_{}", aws_lc.version));
        if !source.exists() {
            let fresh = source.with_extension("fresh");
            archive::unpack(&archive, &fresh)?;
            fs::rename(fresh, &source)?;
        }
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        announce_and_run(
            Command::new("make")
                .current_dir(&source)
                .args(["--silent", &format!("--jobs={jobs}"), "haproxy"])
                .args(["TARGET=linux-glibc", "USE_OPENSSL_AWSLC=1"])
                .arg(format!("SSL_INC={}", aws_lc.headers.display()))
                .arg(format!("SSL_LIB={}", aws_lc.libraries.display()))
                // A line for every file.
                .stdout(Stdio::null()),
        )?;
        Ok(source.join("haproxy"))
    }

    /// HAProxy's own archive out of Debian's source package, fetched by apt, which compares its
    /// checksum with that of the index that Debian has signed.
    fn fetch(&self, mirror: Option<&str>) -> Result<PathBuf> {
        if let Some(archive) = archive::fetched(&self.directory)? {
            return Ok(archive);
        }
        let mirror = mirror.map_or_else(archive::mirror, |mirror| Ok(mirror.to_owned()))?;
        let words = ["--download-only", "--tar-only", "haproxy"];
        archive::fetch_source(&self.directory, &Archive::debian(mirror), SUITE, &words)?;
        archive::fetched(&self.directory)?.context("apt fetched no archive of HAProxy")
    }

    /// Has cargo build AWS-LC, the version that the rival's lock file names.
    fn aws_lc(&self) -> Result<AwsLc> {
        let manifest = self.workspace.root.join("rivals").join(NAME).join("Cargo.toml");
        announce("building AWS-LC");
        let printed = capture(
            self.workspace
                .cargo()
                .args(["build", "--release", "--locked", "--quiet"])
                .arg("--message-format=json-render-diagnostics")
                .arg("--manifest-path")
                .arg(manifest)
                .arg("--target-dir")
                .arg(self.directory.join("target"))
                // HAProxy calls functions by the names that they have in OpenSSL.
                .env("AWS_LC_SYS_NO_PREFIX", "1"),
        )?;
        AwsLc::read(&printed).context("what cargo says of aws-lc-sys")
    }
}

impl AwsLc {
    /// Finds library and headers in cargo's messages.
    fn read(messages: &str) -> Result<Self> {
        let (mut version, mut libraries, mut headers) = (None, None, None);
        for line in messages.lines() {
            let message: Value = serde_json::from_str(line)?;
            let package = message["package_id"].as_str().unwrap_or_default();
            let Some((_, of)) = package.split_once("#aws-lc-sys@") else { continue };
            version = Some(of.to_owned());
            if let Some(path) = message["linked_paths"][0].as_str() {
                libraries = Some(path.trim_start_matches("native=").into());
            }
            if let Some(manifest) = message["manifest_path"].as_str() {
                // Those beside the library give every function a prefix, which it does not have.
                headers = Some(Path::new(manifest).with_file_name("aws-lc").join("include"));
            }
        }
        let (Some(version), Some(headers), Some(libraries)) = (version, headers, libraries) else {
            bail!("the build does not report version, headers and libraries");
        };
        Ok(AwsLc { version, headers, libraries })
    }
}

/// What this takes beside cargo.
const NEEDS: &[Need] = &[
    Need::to_build("debian-archive-keyring", Proof::OneOf(&[DEBIAN_KEYRING])),
    Need::to_build("cmake", Proof::Program("cmake")),
    Need::to_build("make", Proof::Program("make")),
    Need::to_build("g++", Proof::Program("g++")),
    // For bindgen, by which aws-lc-sys describes libssl to Rust.
    Need::to_build("libclang-dev", Proof::Package),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_where_aws_lc_is() {
        let messages = r#"{"package_id":"index#libc@0.2.0","manifest_path":"/libc/Cargo.toml"}
            {"package_id":"index#aws-lc-sys@0.47.0","linked_paths":["native=/out/artifacts"]}
            {"package_id":"index#aws-lc-sys@0.47.0","manifest_path":"/aws-lc-sys/Cargo.toml"}"#;
        let found = AwsLc::read(messages).unwrap();
        assert_eq!(found.version, "0.47.0");
        assert_eq!(found.headers, Path::new("/aws-lc-sys/aws-lc/include"));
        assert_eq!(found.libraries, Path::new("/out/artifacts"));
        let (unfinished, _) = messages.rsplit_once('\n').unwrap();
        assert!(AwsLc::read(unfinished).is_err());
    }
}
