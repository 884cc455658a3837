//! The commands that measure: `widelane` hands them over to `widelane-bench`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use assert_cmd::prelude::*;
use tempfile::TempDir;

/// `widelane` alone in a directory, and nothing in the `PATH`.
fn alone() -> (TempDir, Command) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("widelane");
    fs::copy(env!("CARGO_BIN_EXE_widelane"), &program).unwrap();
    let mut command = Command::new(program);
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
    let other = directory.path().join("widelane-bench");
    fs::write(&other, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
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
