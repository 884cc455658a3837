//! The commands that measure. They are in a program of their own, which servers can do without.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use widelane_host::programs;

use crate::{sigpipe, system};

/// The program that has these commands.
pub const PROGRAM: &str = "widelane-bench";

/// The commands, and what help says of each.
pub const COMMANDS: &[(&str, &str)] = &[
    ("compare", "Measures what Widelane saves on this machine, on the servers installed here"),
    ("load", "Makes TLS load: handshakes, requests or downloads, in a closed or an open loop"),
    ("agent", "Waits on NATS for loads to take part in: the other side of `widelane load --nats`"),
    ("speed", "Times the algorithms alone, room by room, beside OpenSSL's own and other libraries"),
    (
        "tune",
        "Finds the width policy under which this machine gets most done, and writes it to a file",
    ),
    (
        "simulate",
        "Predicts CPU time and latency of handshakes from measured costs, for many workers or few",
    ),
    ("power", "Measures what vector width costs the clock of this machine, without privilege"),
    (
        "acl",
        "Classifies packets by rules: checks rule files, builds tables, looks packets up, measures",
    ),
    ("report", "Shows results files on the terminal, as Markdown, CSV or HTML"),
];

/// Whether these arguments of `widelane` are for one of the commands, or ask for help on one.
pub fn has(arguments: &[OsString]) -> bool {
    let named = match arguments {
        [help, named, ..] if help == "help" => named,
        [named, ..] => named,
        [] => return false,
    };
    COMMANDS.iter().any(|(name, _)| named == *name)
}

/// Replaces this process by the program that has the commands; returns only if that fails.
pub fn replace_process(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let program = system::find_beside(PROGRAM)
        .or_else(|| programs::find(PROGRAM, &system::search_path()))
        .with_context(|| {
            format!(
                "this command is in the program {PROGRAM}, which is not installed: install the \
                 package {PROGRAM}, or build it by `cargo build --release -p widelane-lab`"
            )
        })?;
    let mut command = Command::new(&program);
    command.arg0("widelane").args(arguments);
    sigpipe::pass_on(&mut command);
    Err(command.exec()).with_context(|| format!("cannot execute {}", program.display()))
}
