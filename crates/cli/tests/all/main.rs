//! The `widelane` program from outside: what its commands print, do and refuse.

mod command_line;
mod enable;
mod laboratory;

use std::process::Command;

/// `widelane`, whatever policy is in the environment of the tests.
fn widelane() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_widelane"));
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
