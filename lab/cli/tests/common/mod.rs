//! What the tests of the command line share.

#[allow(dead_code, reason = "each test program uses its part")]
pub mod haproxy;
#[allow(dead_code, reason = "each test program uses its part")]
pub mod nginx;

use std::path::Path;
use std::process::{Command, Output};

/// `widelane-bench`, whatever policy is in the environment of the tests.
pub fn widelane() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_widelane-bench"));
    for variable in [
        "WIDELANE_POLICY",
        "WIDELANE_MAX_SIMD_BITWIDTH",
        "WIDELANE_WAIT_MAX",
        "WIDELANE_COMBINE",
        "WIDELANE_LANE_CPUS",
    ] {
        command.env_remove(variable);
    }
    command
}

/// `widelane acl`, in a directory.
#[allow(dead_code, reason = "each test program uses its part")]
pub fn acl(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = widelane();
    command.current_dir(directory).arg("acl").args(arguments);
    command
}

/// What a command complained of.
#[allow(dead_code, reason = "each test program uses its part")]
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
