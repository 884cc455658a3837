//! `widelane run`: what the program inherits, and that it starts whatever is wrong with us.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use widelane_testkit::program::{install, without_policy};

use crate::widelane;

/// What a program that is run by `script`, in a shell, says that it ignores of signals.
fn ignored_signals(script: &str) -> u64 {
    let mut shell = without_policy("/bin/sh");
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_widelane")]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mask = said.strip_prefix("SigIgn:").map(str::trim);
    u64::from_str_radix(mask.unwrap_or_else(|| panic!("{script}: {said}")), 16).unwrap()
}

#[test]
fn the_program_ignores_the_signals_that_widelane_was_started_with() {
    const SIGPIPE: u64 = 1 << 12;
    let run = "exec \"$0\" run -- grep SigIgn /proc/self/status";
    let natively = "exec grep SigIgn /proc/self/status";
    for (before, is_ignored) in [("", false), ("trap '' PIPE; ", true)] {
        let ignored = ignored_signals(&format!("{before}{run}"));
        assert_eq!(ignored & SIGPIPE != 0, is_ignored, "{before}{run}");
        assert_eq!(ignored, ignored_signals(&format!("{before}{natively}")));
    }
}

/// `widelane` in a directory without the libraries.
fn without_libraries() -> (tempfile::TempDir, Command) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("widelane");
    install(Path::new(env!("CARGO_BIN_EXE_widelane")), &program);
    let mut command = without_policy(program.to_str().unwrap());
    command.env_remove("WIDELANE_LIBRARY_DIR").args(["run", "--", "sh", "-c", "echo runs"]);
    (directory, command)
}

#[test]
fn a_server_starts_without_the_libraries() {
    let (_directory, mut command) = without_libraries();
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.stdout, output.status.code()), (b"runs\n".to_vec(), Some(0)), "{said}");
    assert!(said.contains("runs unchanged: widelane.so or libwidelane.so is missing"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// A log on a disk that is full keeps no server from its start.
#[test]
fn a_server_starts_where_nothing_can_be_said() {
    let (_directory, mut command) = without_libraries();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stderr(full).output().unwrap();
    assert_eq!((output.stdout, output.status.code()), (b"runs\n".to_vec(), Some(0)));
}

#[test]
fn a_wrong_directory_of_libraries_is_an_error() {
    let (_directory, mut command) = without_libraries();
    let output = command.env("WIDELANE_LIBRARY_DIR", "/nonexistent").output().unwrap();
    assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(1)));
}

/// The system's policy file is the same for all programs, so the test has a mount namespace where
/// it is another.
#[test]
fn a_server_starts_whatever_the_systems_policy_file_says() {
    if !Path::new("/etc/widelane").is_dir() || !can_mount() {
        eprintln!("/etc/widelane cannot be covered here: nothing was tested");
        return;
    }
    let script = "mount -t tmpfs none /etc/widelane &&
                  echo width_max = 7 >/etc/widelane/policy.toml &&
                  exec \"$0\" run -- sh -c 'echo runs \"$LD_PRELOAD\"'";
    let libraries = tempfile::tempdir().unwrap();
    for name in ["widelane.so", "libwidelane_runtime.so"] {
        std::fs::write(libraries.path().join(name), "").unwrap();
    }
    let mut shell = without_policy("unshare");
    shell.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_widelane")]);
    let output = shell.env("WIDELANE_LIBRARY_DIR", libraries.path()).output().unwrap();
    // The provider says what is wrong, and brings the groups that a configuration may name.
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(said.starts_with("runs ") && said.contains("libwidelane_runtime.so"), "{said}");
}

/// Whether this user may mount something in a namespace.
fn can_mount() -> bool {
    let mut trial = Command::new("unshare");
    let trial = trial.args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    trial.is_ok_and(|output| output.status.success())
}

#[test]
fn a_hidden_process_is_no_ended_one() {
    if !can_mount() {
        eprintln!("/proc cannot be covered here: nothing was tested");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // As much of a counters file as is looked at before its process.
    std::fs::write(directory.path().join("1.counters"), "").unwrap();
    let file = std::fs::File::options().write(true).open(directory.path().join("1.counters"));
    file.unwrap().set_len(512 << 10).unwrap();
    let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let counters = ["--counters-dir", directory.path().to_str().unwrap()];
    for (command, expected) in [
        (&["exporter", "--once"][..], "widelane_files_skipped 1\n"),
        (&["top", "--json", "--interval", "0.1"], "its process is hidden from this user (hidepid)"),
    ] {
        let mut shell = without_policy("unshare");
        shell.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_widelane")]);
        let output = shell.args(command).args(counters).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(expected), "{said}");
    }
    // Where it can be seen, it is what it is.
    let output = widelane().args(["top", "--json", "--interval", "0.1"]).args(counters).output();
    assert!(!String::from_utf8(output.unwrap().stdout).unwrap().contains("hidepid"));
}

/// Where systemd runs, a process is of a service by its control group, whatever its name is.
#[test]
fn a_process_of_the_same_name_is_not_of_a_service_of_systemd() {
    if !can_mount() {
        eprintln!("/run cannot be covered here: nothing was tested");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("haproxy");
    install(Path::new("/bin/sleep"), &program);
    let mut other = Command::new(&program).arg0("sleep").arg("60").spawn().unwrap();
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/system &&
                  printf '[Service]\\nExecStart=/haproxy\\n' >/run/systemd/system/haproxy.service &&
                  exec \"$0\" status --json";
    let mut shell = without_policy("unshare");
    shell.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_widelane")]);
    let output = shell.output().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let services = status.as_array().unwrap();
    let haproxy = services.iter().find(|service| service["service"] == "haproxy").unwrap();
    assert_eq!(haproxy["processes"], 0, "{haproxy}");
}
