//! Tells the binary which commit it was built from, where there is a repository to ask.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's standard output")]

use std::path::Path;
use std::process::Command;

fn main() {
    // HEAD says which branch, its log grows with every commit; absent files are not named, because
    // cargo would then run this again on every build.
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        let watched = git(&["rev-parse", "--git-path", name]);
        if let Some(watched) = watched.filter(|watched| Path::new(watched).exists()) {
            println!("cargo::rerun-if-changed={watched}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => println!("cargo::rustc-env=WIDELANE_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=WIDELANE_VERSION={version}"),
    }
}

/// A line that git answers, where it has one.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let line = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(line.trim().to_owned())
}
