//! What Miri can run: the tests of crates that are neither assembly nor OpenSSL.

use anyhow::{Context, Result};

use crate::shell::{announce_and_run, nightly};
use crate::workspace::Workspace;

/// Batches shared by threads, and the allocator for when memory has ended.
const CRATES: [&str; 2] = ["widelane-batch", "widelane-reserve"];

/// Runs their unit tests, with overflow checks, under the interpreter.
pub fn run(workspace: &Workspace) -> Result<()> {
    let mut cargo = nightly("cargo");
    cargo.current_dir(&workspace.root).args(["miri", "test", "--lib"]);
    cargo.args(CRATES.iter().flat_map(|name| ["-p", name]));
    // Property tests look for a file of seeds, and the interpreter is a hundred times slower.
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "16");
    announce_and_run(&mut cargo).context(
        "if Miri is not installed: rustup toolchain install nightly --component miri,rust-src",
    )
}
