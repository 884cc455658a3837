//! Programs: test programs without the test harness, whose modules run one after the other in one
//! thread, and our programs under test.

use std::env;
use std::path::Path;
use std::process::Command;

use widelane_cpu::policy;

/// The name of a module, and what runs it, given whether it was asked for everything.
pub type Module = (&'static str, fn(bool));

/// Runs the modules that this program's arguments name, or all if there is no name among them.
/// Each is told whether `--full` is among the arguments; other options, which cargo passes to every
/// test program, have no effect.
///
/// # Panics
///
/// If `--must-match` is among the arguments and a name is no module's: without it, names may be
/// meant for other test programs.
pub fn run_modules(modules: &[Module]) {
    let (options, names): (Vec<String>, Vec<String>) =
        env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let has = |wanted: &str| options.iter().any(|option| option == wanted);
    let full = has("--full");
    let is_known = |name: &String| modules.iter().any(|(module, _)| module == name);
    assert!(!has("--must-match") || names.iter().all(is_known), "not all are modules: {names:?}");
    for (module, run) in modules {
        if names.is_empty() || names.iter().any(|name| name == *module) {
            eprintln!("{module}:");
            run(full);
        }
    }
}

/// Demands that a test program of the usual harness, which was asked for a test by its name, has
/// run it: where there is none of that name, the program ends well.
///
/// # Panics
///
/// If it has not.
#[track_caller]
pub fn assert_ran_one(printed: &[u8]) {
    let printed = String::from_utf8_lossy(printed);
    assert!(printed.contains("test result: ok. 1 passed; 0 failed;"), "{printed}");
}

/// One of our programs, whatever policy is in the environment of the tests.
pub fn without_policy(program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in policy::variables() {
        command.env_remove(variable);
    }
    command
}

/// Copies a program or script to `to`, where it can be executed at once. Another process does the
/// copying: while a test has the copy open for writing, a program that another thread starts would
/// inherit that descriptor, and the kernel refuses to execute a file that somebody may write
/// (`ETXTBSY`).
pub fn install(from: &Path, to: &Path) {
    let status = Command::new("install").arg("--mode=755").args([from, to]).status();
    let done = status.expect("coreutils are installed").success();
    assert!(done, "{} to {}", from.display(), to.display());
}
