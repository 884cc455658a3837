//! What the tests share: an authority, servers under `widelane run`, clients, counters.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod authority;
pub mod by_hand;
pub mod clients;
pub mod counters;
pub mod kems;
pub mod orders;
pub mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use authority::{Authority, Identity};
use widelane_bridge::counters::OperationKind;

/// An authority, and what it issued for `localhost`.
pub fn localhost() -> (Authority, Identity) {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    (authority, identity)
}

/// The kinds of operations that handshakes with certificates of RSA-2048 and P-256 need, in all
/// groups.
pub const KINDS_MIXED: [OperationKind; 5] = [
    OperationKind::Rsa2048,
    OperationKind::P256Sign,
    OperationKind::X25519Derive,
    OperationKind::P256Derive,
    OperationKind::P384Derive,
];

/// For programs that at their end cannot reach what they could when they began: `cargo xtask asan`
/// has each write there that it has ended, and AddressSanitizer aborts who cannot. A mistake that
/// it finds in them aborts them as well.
pub const SAYS_NO_END: (&str, &str) = ("ASAN_OPTIONS", "atexit=0");

/// Runs a tool to its end; panics with what it said if it fails.
pub fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{:?}: {error}; install it", command.get_program()));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

/// The `widelane` program, built with its two shared objects into the profile of this one, unless
/// `WIDELANE_BUILT` says that they are.
pub fn widelane() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| match std::env::var_os("WIDELANE_BUILT") {
        Some(_) => profile().join("widelane"),
        None => build(cargo()),
    })
}

/// What builds the workspace.
pub fn cargo() -> Command {
    // Set by `cargo test`.
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()))
}

/// Has `cargo` build what [`widelane`] answers.
pub fn build(mut cargo: Command) -> PathBuf {
    let profile = profile();
    cargo.args(["build", "--quiet", "-p", "widelane-cli"]);
    cargo.args(["-p", "widelane-provider", "-p", "widelane-runtime", "--target-dir"]);
    cargo.arg(profile.parent().expect("a directory for all profiles"));
    let name = profile.file_name().expect("target/<profile>");
    cargo.arg("--profile").arg(if name == "debug" { "dev".as_ref() } else { name });
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let workspace = folders.find(|folder| folder.join("crates").exists());
    run(cargo.current_dir(workspace.expect("tests are built in the workspace")));
    profile.join("widelane")
}

/// Where this program's profile has its programs.
fn profile() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a file");
    let mut profile = this.parent().expect("target/<profile>/<fuzz target>");
    if profile.ends_with("deps") {
        profile = profile.parent().expect("target/<profile>/deps/<test>");
    }
    profile.to_owned()
}

/// Waits until `is_so`; panics with `what` after a generous time.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("waited half a minute for {what}");
}
