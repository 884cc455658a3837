//! The commands that measure: `widelane` hands them over to `widelane-bench`.

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::prelude::*;
use tempfile::TempDir;
use widelane_testkit::program;

/// `widelane` alone in a directory, and nothing in the `PATH`.
fn alone() -> (TempDir, Command) {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("widelane");
    program::install(Path::new(env!("CARGO_BIN_EXE_widelane")), &copy);
    let mut command = Command::new(copy);
    command.env("PATH", "/nonexistent");
    (directory, command)
}

#[test]
fn the_program_that_measures_is_named_where_it_is_missing() {
    for arguments in [&["compare", "--quick"][..], &["help", "speed"], &["acl"]] {
        let (_directory, mut command) = alone();
        let assert = command.args(arguments).assert().code(1);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains("install the package widelane-bench"), "{text}");
    }
}

#[test]
fn the_program_that_measures_gets_all_arguments_and_its_status_is_passed_on() {
    let (directory, _) = alone();
    let script = directory.path().join("script");
    fs::write(&script, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    program::install(&script, &directory.path().join("widelane-bench"));
    for arguments in [&["compare", "--no-such-flag", "-h"][..], &["help", "tune"]] {
        let mut command = Command::new(directory.path().join("widelane"));
        command.args(arguments).assert().code(7).stdout(arguments.join(" ") + "\n");
    }
}

#[test]
fn help_lists_the_commands_of_both_programs() {
    let (_directory, mut command) = alone();
    let assert = command.arg("--help").assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    for name in ["run", "enable", "top", "compare", "acl", "power"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name}:\n{text}");
    }
}
