//! One-line messages to the operator, on standard error, each at most once per process.

use std::io::Write;
use std::sync::Once;

/// Says `line` unless this `once` has spoken before.
pub(crate) fn say_once(once: &Once, line: &str) {
    once.call_once(|| say(line));
}

/// Says `line`; a closed standard error is no reason to disturb the server.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("widelane: {line}\n").as_bytes());
}
