//! Running other programs, with a line that says so.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

/// Says what is about to happen.
pub fn announce(what: &str) {
    eprintln!("==> {what}");
}

/// Runs `command` without standard input; an error names it and its exit status.
pub fn run(command: &mut Command) -> Result<()> {
    run_to(command, |status| status.success())
}

fn run_to(command: &mut Command, is_good: impl FnOnce(ExitStatus) -> bool) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(is_good(status), "`{}` failed: {status}", line(command));
    Ok(())
}

/// Announces and runs `command`.
pub fn announce_and_run(command: &mut Command) -> Result<()> {
    announce_and_run_to(command, |status| status.success())
}

/// The same of one whose exit status may be another good one.
pub fn announce_and_run_to(
    command: &mut Command,
    is_good: impl FnOnce(ExitStatus) -> bool,
) -> Result<()> {
    announce(&line(command));
    run_to(command, is_good)
}

/// Runs `command` and returns what it printed.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(output.status.success(), "`{}` failed: {}", line(command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `command` can be run and succeeds; what it prints is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Removes a directory with all that is in it, if there is one.
pub fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Makes an empty directory, whatever was there.
pub fn make_afresh(directory: &Path) -> Result<()> {
    remove(directory)?;
    Ok(std::fs::create_dir_all(directory)?)
}

/// The directories of `PATH`; none where it is not set.
pub fn path() -> Vec<PathBuf> {
    std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect()
}

/// The name of this machine's CPU, as Linux has it.
pub fn cpu_model() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown", |(_, model)| model).to_owned()
}

/// Finds a program in `PATH` or where servers are installed, which many a `PATH` leaves out.
pub fn find_program(name: &str) -> Option<PathBuf> {
    path()
        .into_iter()
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program of rustup's nightly compiler: `cargo` or `rustc`.
pub fn nightly(program: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("+nightly");
    command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// The command as it would be typed.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
