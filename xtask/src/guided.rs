//! Profile-guided optimisation (PGO) of what runs in servers: the provider and the runtime are
//! compiled with counters, real servers make handshakes with them, and they are compiled again by
//! what was counted: what a handshake executes lies together then, and calls in it are inlined.
//!
//! Arithmetic (`kernels`, and what of `crypto` and `secret` is not inlined) is not compiled by a
//! profile: nothing is to turn a selection by a secret into a branch because one side of it was
//! rare.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use anyhow::{Context, Result, ensure};
use widelane_cpu::Room;

use crate::server::{Key, Program, Server, Settings};
use crate::shell::{announce, announce_and_run, capture, make_afresh};
use crate::workspace::Workspace;
use crate::{setup, shell};

/// The libraries: the crate as the compiler calls it, and the file.
const LIBRARIES: [(&str, &str); 2] =
    [("widelane", "libwidelane.so"), ("widelane_runtime", "libwidelane_runtime.so")];

const LIBRARY_FILES: [&str; LIBRARIES.len()] = [LIBRARIES[0].1, LIBRARIES[1].1];

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
    setup::run_to_build(&[])?;
    if Program::ALL.iter().all(|program| program.path().is_none()) {
        // A release is made all the same.
        setup::run().unwrap_or_else(|error| announce(&format!("{error:#}")));
    }
    if !Room::Ifma256.is_supported() {
        announce(
            "this CPU lacks AVX-512 IFMA: a profile from here has few batches; make packages for \
             CPUs that have it on one of them",
        );
    }
    build(workspace, &["build", "--release"], "release")
}

/// Builds with these arguments for cargo, by which files come to be in the directory `built` below
/// the target directory. Programs and libraries are then in the directory that is returned, and
/// until cargo builds again in `built`: the libraries by a profile if that can be made here.
pub fn build(workspace: &Workspace, arguments: &[&str], built: &str) -> Result<PathBuf> {
    announce_and_run(workspace.cargo().args(arguments))?;
    let profiled = build_by_profile(workspace, arguments, built);
    profiled.or_else(|error| {
        announce(&format!("going on without a profile of handshakes: {error:#}"));
        announce_and_run(workspace.cargo().args(arguments))?;
        replace(workspace, built, |_| Ok(()))
    })
}

/// Builds what was built like this once more, the libraries by a profile; fails where none can be
/// made, and leaves what is not to be used until cargo builds again.
pub fn build_by_profile(workspace: &Workspace, arguments: &[&str], built: &str) -> Result<PathBuf> {
    let merger = merger()?;
    replace(workspace, built, |directory| {
        let (counts, instrumented) = (directory.join("counts"), directory.join("instrumented"));
        announce("compiling what runs in servers with counters");
        compile(workspace.cargo().args(arguments), "-Cprofile-generate=", &counts)?;
        let built = workspace.target.join(built);
        fs::create_dir(&instrumented)?;
        copy(&LIBRARY_FILES, &built, &instrumented)?;
        // Who uses `built` while the next compilation goes on is not to count.
        copy(&LIBRARY_FILES, directory, &built)?;
        learn_from_all(&built.join("widelane"), &instrumented)?;
        // Each library that was loaded writes one when its server ends.
        let counted = fs::read_dir(&counts).map_or(0, Iterator::count);
        ensure!(
            counted == LIBRARIES.len(),
            "{counted} of {} libraries were counted: no server has run with all",
            LIBRARIES.len()
        );
        let profile = directory.join(PROFILE);
        let mut merge = Command::new(merger);
        shell::run(merge.args(["merge", "--output"]).arg(&profile).arg(&counts))?;
        announce("compiling it by what was counted");
        compile_by(workspace.cargo().args(arguments), &profile)?;
        copy(&LIBRARY_FILES, &built, directory)?;
        ensure_without_counters(directory)?;
        shell::remove(&counts)?;
        shell::remove(&instrumented)
    })
}

/// Copies what is in the directory `built` to another one, changes it there by `change`, and puts
/// it in the place of what was built by a profile before. Servers may use that until then, and for
/// good where something fails.
fn replace(
    workspace: &Workspace,
    built: &str,
    change: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let directory = directory(workspace, built);
    let [new, old] = ["new", "old"].map(|name| directory.with_extension(name));
    make_afresh(&new)?;
    let built = workspace.target.join(built);
    copy(&["widelane", "widelane-bench"], &built, &new)?;
    copy(&LIBRARY_FILES, &built, &new)?;
    change(&new)?;
    shell::remove(&old)?;
    if directory.exists() {
        fs::rename(&directory, &old)?;
    }
    fs::rename(&new, &directory)?;
    shell::remove(&old)?;
    Ok(directory)
}

/// Refuses libraries that count what they execute: they would write files at the end of each
/// process that has them.
pub fn ensure_without_counters(directory: &Path) -> Result<()> {
    for file in LIBRARY_FILES {
        let library = directory.join(file);
        let bytes = fs::read(&library).with_context(|| library.display().to_string())?;
        ensure!(
            !counts(&bytes),
            "{} counts what it executes; build it again, with no other chore beside it",
            library.display()
        );
    }
    Ok(())
}

/// Whether a library has the section that the compiler's counters are in.
fn counts(library: &[u8]) -> bool {
    const SECTION: &[u8] = b"__llvm_prf_cnts";
    library.windows(SECTION.len()).any(|part| part == SECTION)
}

/// Where what is built by a profile is copied to: below the target directory itself, as everything
/// else that is built, so that programs find what lies beside it.
fn directory(workspace: &Workspace, built: &str) -> PathBuf {
    workspace.target.join(format!("{built}-guided"))
}

/// The profile that the packages were last built by; nothing if they were built without one.
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

/// Has all servers that are here make handshakes with the libraries in `instrumented`; fails where
/// none can.
fn learn_from_all(widelane: &Path, instrumented: &Path) -> Result<()> {
    let installed = Program::ALL.into_iter().filter(|program| program.path().is_some());
    let failures: Vec<Result<()>> =
        installed.map(|program| learn(program, widelane, instrumented)).collect();
    ensure!(!failures.is_empty(), "it takes nginx or HAProxy; apt-get install nginx-light haproxy");
    let has_learned = failures.iter().any(Result::is_ok);
    for error in failures.into_iter().filter_map(Result::err) {
        if !has_learned {
            return Err(error);
        }
        announce(&format!("without this server: {error:#}"));
    }
    Ok(())
}

/// Has a server make handshakes with the libraries in `instrumented`, under a policy that closes
/// nothing.
fn learn(program: Program, widelane: &Path, instrumented: &Path) -> Result<()> {
    announce(&format!("{} makes handshakes, to count what they execute", program.name()));
    let policy = instrumented.join("policy.toml");
    fs::write(&policy, "")?;
    for key in [Key::EcdsaP256, Key::Rsa2048] {
        let mut command = Command::new(widelane);
        let ours = |(name, _): &(OsString, OsString)| {
            name.as_bytes().starts_with(b"WIDELANE_") || name == "LLVM_PROFILE_FILE"
        };
        env::vars_os().filter(ours).for_each(|(name, _)| _ = command.env_remove(name));
        command.env("WIDELANE_LIBRARY_DIR", instrumented).arg("run").arg("--policy").arg(&policy);
        command.arg("--counters-dir").arg(instrumented.join("counters")).arg("--");
        let settings = Settings { program, key, groups: "X25519:P-256:X25519MLKEM768" };
        let mut server = Server::start(settings, instrumented, command)?;
        for load in LOADS {
            let mut clients = Command::new(widelane);
            clients.args(["load", &server.address(), "--insecure", "--warm-up", "0"]);
            let clients = clients.args(["--duration", "1s"]).args(load);
            capture(clients).with_context(|| server.log())?;
        }
        server.end()?;
    }
    Ok(())
}

/// Puts new files in the place of those of these names, which may be cargo's or mapped.
fn copy(files: &[&str], from: &Path, to: &Path) -> Result<()> {
    for file in files {
        let new = to.join(format!(".{file}"));
        fs::copy(from.join(file), &new).with_context(|| format!("cannot copy {file}"))?;
        fs::rename(&new, to.join(file))?;
    }
    Ok(())
}

/// The program that makes a profile of counts: it belongs to the compiler, and rustup has it as a
/// component.
fn merger() -> Result<PathBuf> {
    let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let path = "lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata";
    let merger = Path::new(sysroot.trim()).join(path);
    let rustup = capture(Command::new("rustup").args(["which", "rustc"]));
    if !merger.exists() && rustup.is_ok_and(|rustc| rustc.starts_with(sysroot.trim())) {
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
    fn counters_are_found_wherever_they_are_named() {
        assert!(counts(b"\x7fELF .text\0__llvm_prf_cnts\0"));
        assert!(!counts(b"\x7fELF .text\0__llvm_"));
    }

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
