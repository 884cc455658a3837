//! What the tests of the command line share.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod fleet;
pub mod haproxy;
pub mod nginx;
#[path = "../../../../crates/cli/tests/support/mod.rs"]
pub mod support;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use widelane_testkit::program::without_policy;

/// `widelane-bench`, whatever policy is in the environment of the tests.
pub fn widelane() -> Command {
    without_policy(env!("CARGO_BIN_EXE_widelane-bench"))
}

/// `widelane acl`, in a directory.
pub fn acl(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = widelane();
    command.current_dir(directory).arg("acl").args(arguments);
    command
}

/// What a command complained of.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command printed for programs.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), stderr(output))
    })
}
