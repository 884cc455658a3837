//! Profile-guided optimisation (PGO) of what runs in servers: the provider and the runtime are
//! compiled with counters, real servers make handshakes with them, and they are compiled again by
//! what was counted: what a handshake executes lies together then, and calls in it are inlined.
//!
//! Arithmetic (`kernels`, `crypto`, `secret`) is not compiled by a profile: nothing is to turn a
//! selection by a secret into a branch because one side of it was rare.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use anyhow::{Context, Result, ensure};

use crate::server::{Key, Program, Server, Settings};
use crate::shell::{announce, announce_and_run, capture, find_program, make_afresh};
use crate::workspace::Workspace;
use crate::{setup, shell};

/// The libraries: the crate as the compiler calls it, and the file.
const LIBRARIES: [(&str, &str); 2] =
    [("widelane", "libwidelane.so"), ("widelane_runtime", "libwidelane_runtime.so")];

/// What the libraries are to be compiled with; build scripts watch it, so that cargo compiles them
/// again when it changes, and as ever once it is gone.
const VARIABLE: &str = "WIDELANE_GUIDED";

/// The file of a profile.
const PROFILE: &str = "libraries.profdata";

/// Handshakes that are counted, as arguments of `widelane load`.
const LOADS: [&[&str]; 6] = [
    &["--tls", "1.3", "--connections", "200"],
    &["--tls", "1.3", "--rate", "300"],
    &["--tls", "1.3", "--rate", "300", "--resume", "ticket", "--cipher", "aes128-gcm"],
    &["--tls", "1.3", "--rate", "300", "--group", "x25519mlkem768"],
    &["--tls", "1.2", "--rate", "300", "--group", "p256"],
    &["--tls", "1.2", "--rate", "300", "--resume", "ticket", "--cipher", "chacha20-poly1305"],
];

/// Builds what the packages hold.
pub fn run(workspace: &Workspace) -> Result<()> {
    let program = release(workspace)?.join("widelane");
    announce(&format!("`widelane` is {}", program.display()));
    Ok(())
}

/// Builds a release; the libraries by a profile if that can be made here.
pub fn release(workspace: &Workspace) -> Result<PathBuf> {
    setup::run()?;
    build(workspace, &["build", "--release"], "release")
}

/// Builds with these arguments for cargo, by which files come to be in the directory `built` below
/// the target directory; the libraries by a profile if that can be made here. They are there until
/// cargo builds again, and with the programs in the directory that is returned.
pub fn build(workspace: &Workspace, arguments: &[&str], built: &str) -> Result<PathBuf> {
    announce_and_run(workspace.cargo().args(arguments))?;
    build_by_profile(workspace, arguments, built).or_else(|error| {
        announce(&format!("going on without a profile of handshakes: {error:#}"));
        announce_and_run(workspace.cargo().args(arguments))?;
        Ok(workspace.target.join(built))
    })
}

/// Builds what was built like this once more, the libraries by a profile; fails where none can be
/// made, and leaves what is not to be used until cargo builds again.
pub fn build_by_profile(workspace: &Workspace, arguments: &[&str], built: &str) -> Result<PathBuf> {
    let merger = merger()?;
    let directory = directory(workspace, built);
    make_afresh(&directory)?;
    let built = workspace.target.join(built);
    copy(["widelane", "widelane-bench"], &built, &directory)?;
    let files = LIBRARIES.map(|(_, file)| file);
    let (counts, instrumented) = (directory.join("counts"), directory.join("instrumented"));
    fs::create_dir(&instrumented)?;
    announce("compiling what runs in servers with counters");
    compile(workspace.cargo().args(arguments), "-Cprofile-generate=", &counts)?;
    copy(files, &built, &instrumented)?;
    for program in [Program::Haproxy, Program::Nginx] {
        if program.path().is_some() {
            learn(program, &built.join("widelane"), &instrumented)?;
        }
    }
    // Each library that was loaded writes one when its server ends.
    let counted = fs::read_dir(&counts).map_or(0, Iterator::count);
    ensure!(
        counted == LIBRARIES.len(),
        "{counted} of {} libraries were counted: neither haproxy nor nginx has run with all",
        LIBRARIES.len()
    );
    let profile = directory.join(PROFILE);
    let mut merge = Command::new(merger);
    shell::run(merge.args(["merge", "--output"]).arg(&profile).arg(&counts))?;
    announce("compiling it by what was counted");
    compile_by(workspace.cargo().args(arguments), &profile)?;
    copy(files, &built, &directory)?;
    shell::remove(&counts)?;
    shell::remove(&instrumented)?;
    Ok(directory)
}

/// Where what is built by a profile is copied to: below the target directory itself, as everything
/// else that is built, so that programs find what lies beside it.
fn directory(workspace: &Workspace, built: &str) -> PathBuf {
    workspace.target.join(format!("{built}-guided"))
}

/// The profile that the packages were last built by, if there is one.
pub fn of_packages(workspace: &Workspace) -> Option<PathBuf> {
    Some(directory(workspace, "release").join(PROFILE)).filter(|profile| profile.exists())
}

/// Builds as `cargo` was told to, the libraries by a profile.
pub fn compile_by(cargo: &mut Command, profile: &Path) -> Result<()> {
    compile(cargo, "-Cprofile-use=", profile)
}

fn compile(cargo: &mut Command, flag: &str, path: &Path) -> Result<()> {
    let mut flag = OsString::from(flag);
    flag.push(path);
    // Also when cargo has built this program anew meanwhile, in another process.
    let this_program = format!("/proc/{}/exe", process::id());
    announce_and_run(cargo.env(VARIABLE, flag).env("RUSTC_WRAPPER", this_program))
}

/// Where cargo has called this program in place of the compiler: executes the compiler, with the
/// flag for the libraries. Returns only if it cannot, or if this is a chore.
pub fn stand_in_for_compiler() -> Result<()> {
    let Some(flag) = env::var_os(VARIABLE) else { return Ok(()) };
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let [compiler, arguments @ ..] = &arguments[..] else { return Ok(()) };
    let mut command = Command::new(compiler);
    command.args(arguments);
    if is_library(arguments) {
        command.arg(flag);
    }
    Err(command.exec()).with_context(|| format!("cannot execute {}", compiler.display()))
}

/// Whether the compiler is to compile one of the libraries; their tests are not.
fn is_library(arguments: &[OsString]) -> bool {
    let has = |option: &str, value: &str| {
        arguments.windows(2).any(|pair| pair[0] == option && pair[1] == value)
    };
    has("--crate-type", "cdylib") && LIBRARIES.iter().any(|(name, _)| has("--crate-name", name))
}

/// Has a server make handshakes with the libraries in `instrumented`.
fn learn(program: Program, widelane: &Path, instrumented: &Path) -> Result<()> {
    announce(&format!("{} makes handshakes, to count what they execute", program.name()));
    for key in [Key::EcdsaP256, Key::Rsa2048] {
        let mut command = Command::new(widelane);
        command.env("WIDELANE_LIBRARY_DIR", instrumented);
        command.args(["run", "--counters-dir"]).arg(instrumented.join("counters")).arg("--");
        let settings = Settings { program, key, groups: "X25519:P-256:X25519MLKEM768" };
        let mut server = Server::start(settings, instrumented, command)?;
        for load in LOADS {
            let mut clients = Command::new(widelane);
            clients.args(["load", server.address(), "--insecure", "--warm-up", "0"]);
            let clients = clients.args(["--duration", "1s"]).args(load);
            capture(clients).with_context(|| server.log())?;
        }
        server.end()?;
    }
    Ok(())
}

fn copy<const N: usize>(files: [&str; N], from: &Path, to: &Path) -> Result<()> {
    for file in files {
        fs::copy(from.join(file), to.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    Ok(())
}

/// The program that makes a profile of counts: it belongs to the compiler, and rustup has it as a
/// component.
fn merger() -> Result<PathBuf> {
    let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let path = "lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata";
    let merger = Path::new(sysroot.trim()).join(path);
    if !merger.exists() && find_program("rustup").is_some() {
        announce_and_run(Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    }
    ensure!(
        merger.exists(),
        "profiles take llvm-profdata of the compiler: rustup component add llvm-tools"
    );
    Ok(merger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_in_servers_are_compiled_by_a_profile_and_arithmetic_is_not() {
        let is_library =
            |line: &str| is_library(&line.split(' ').map(Into::into).collect::<Vec<_>>());
        for name in ["widelane", "widelane_runtime"] {
            assert!(is_library(&format!(
                "--crate-name {name} --crate-type cdylib --crate-type rlib"
            )));
            assert!(!is_library(&format!("--crate-name {name} --test")));
        }
        for name in ["widelane_crypto", "widelane_kernels", "widelane_secret"] {
            assert!(!is_library(&format!("--crate-name {name} --crate-type lib")));
        }
        assert!(!is_library("--crate-name widelane_c --crate-type cdylib"));
        assert!(!is_library("-vV"));
    }
}
