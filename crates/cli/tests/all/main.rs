//! The `widelane` program from outside: what its commands print, do and refuse.

mod command_line;
mod enable;
mod install;
mod laboratory;
mod run;
#[path = "../support/mod.rs"]
mod support;
mod switch;

use std::process::Command;

use widelane_testkit::program::without_policy;

/// `widelane`, whatever policy is in the environment of the tests.
fn widelane() -> Command {
    without_policy(env!("CARGO_BIN_EXE_widelane"))
}
