//! Tells the binary which commit it was built from, where there is a repository to ask.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's standard output")]

use std::path::Path;
use std::process::Command;

fn main() {
    // HEAD says which branch, its log grows with every commit; absent files are not named, because
    // cargo would then run this again on every build.
    println!("cargo::rerun-if-changed=build.rs");
    for watched in ["../../.git/HEAD", "../../.git/logs/HEAD"] {
        if Path::new(watched).exists() {
            println!("cargo::rerun-if-changed={watched}");
        }
    }
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        Some(commit) => println!("cargo::rustc-env=WIDELANE_VERSION={version} ({})", commit.trim()),
        None => println!("cargo::rustc-env=WIDELANE_VERSION={version}"),
    }
}
