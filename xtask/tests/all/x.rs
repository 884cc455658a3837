//! The script `x`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs `x` with a cargo that has this version.
fn x(version: &str) -> String {
    let directory = env::temp_dir().join(format!("widelane-x-{}-{version}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let script = directory.join("script");
    let said = format!("${{0##*/}} {version} (abc 2026-01-01)");
    fs::write(&script, format!("#!/bin/sh\necho \"{said}\" \"$@\"\n")).unwrap();
    // Written by another process: of this one, a program that another test starts right now would
    // have it open for writing.
    for program in ["cargo", "quick/xtask"] {
        let mut install = Command::new("install");
        install.args(["-D", "--mode=755"]).args([&script, &directory.join(program)]);
        assert!(install.status().unwrap().success());
    }
    let path = env::var_os("PATH").unwrap();
    let path = [directory.clone()].into_iter().chain(env::split_paths(&path));
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../x"))
        .arg("tidy")
        .env("PATH", env::join_paths(path).unwrap())
        .env("CARGO_TARGET_DIR", &directory)
        .output()
        .unwrap();
    fs::remove_dir_all(&directory).unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn a_cargo_that_is_too_old_is_told_and_a_newer_one_runs_the_chore() {
    for version in ["1.63.0", "1.94.9"] {
        let said = x(version);
        let wanted = format!("x: there is cargo {version}; Widelane needs Rust 1.95 or later");
        assert!(said.starts_with(&wanted) && said.lines().count() == 1, "{said}");
    }
    for version in ["1.95.0", "1.100.0-nightly", "2.0.0"] {
        let said = x(version);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("cargo ") && lines[0].ends_with("--bin xtask"), "{said}");
        assert!(lines[1].starts_with("xtask ") && lines[1].ends_with(" tidy"), "{said}");
    }
}
