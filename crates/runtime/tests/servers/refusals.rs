//! What a system refuses to a server: it runs all the same, accelerated where that can be, and one
//! line says what helps.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use widelane_host::counters::Counts;

use super::programs::FORKS_FOR_EACH;
use crate::support::{SAYS_NO_END, localhost, run, widelane};

/// Somebody else than who runs the tests.
const NOBODY: u32 = 65_534;

/// Takes from root what lets it read and write everything.
const AS_OTHERS: &str =
    "setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override";

/// Runs a server that forks a process for each of its connections under `widelane run` and
/// `options`, after the shell has done `setup` in a space of mounts of its own; returns what
/// widelane and the dynamic loader said, and what is in /run/widelane at the end. Nothing where
/// only root could do so.
fn serve(setup: &str, variables: &[(&str, &Path)], options: &[&str]) -> Option<(String, String)> {
    let (authority, identity) = localhost();
    let script = format!("{setup}\n\"$@\"\nls -A /run/widelane 2>/dev/null || true");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", &script, "sh"]).arg(widelane()).arg("run");
    command.args(options).args(["--", "python3", "-c", FORKS_FOR_EACH]);
    command.args([&identity.certificate, &identity.key, &authority.certificate()]);
    command.env_remove("WIDELANE_COUNTERS_DIR").envs(variables.iter().copied());
    command.envs([SAYS_NO_END]);
    let output = command.output().expect("util-linux");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.starts_with("unshare: ") || said.contains("there is no program python3") {
        eprintln!("only root can do this, with python3 and not in a chroot: nothing was tested");
        return None;
    }
    assert!(output.status.success(), "{said}");
    let expected = ["is not linked with OpenSSL 3 or later itself", "do not use epoll"];
    let is_of_us = |line: &&str| line.starts_with("widelane: ") || line.contains("ld.so");
    let is_told = |line: &&str| is_of_us(line) && !expected.iter().any(|part| line.contains(part));
    let told: Vec<_> = said.lines().filter(is_told).collect();
    Some((told.join("\n"), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[track_caller]
fn assert_one_line(told: &str, parts: &[&str]) {
    assert_eq!(told.lines().count(), 1, "{told}");
    for part in parts {
        assert!(told.contains(part), "{part} is missing in: {told}");
    }
}

#[test]
fn a_full_run_costs_the_counters() {
    let full = "mount -t tmpfs -o size=4k none /run && echo > /run/full";
    let Some((told, _)) = serve(full, &[], &[]) else { return };
    let why = "cannot write counters to /run/widelane: No space left on device";
    assert_one_line(&told, &[why, "another --counters-dir", "runs without counters"]);
}

#[test]
fn a_run_in_which_nothing_can_be_made_costs_the_counters() {
    let closed = "mount -t tmpfs none /run && mount -o remount,ro /run";
    for options in [&[][..], &["--counters-dir", "/run/counters"]] {
        let Some((told, _)) = serve(closed, &[], options) else { return };
        let why = "cannot make the counters directory /run/";
        assert_one_line(&told, &[why, "Read-only", "another --counters-dir", "without counters"]);
    }
}

/// As where a drop-in of `widelane enable` names a directory that is gone or closed.
#[test]
fn a_directory_of_counters_that_is_not_there_costs_them() {
    let missing = ("WIDELANE_COUNTERS_DIR", Path::new("/run/widelane"));
    let Some((told, _)) = serve("mount -t tmpfs none /run", &[missing], &[]) else { return };
    assert_one_line(&told, &["cannot write counters to /run/widelane: No such file", "give its"]);
}

/// Beyond it the system ends a process that does not ask for the limit first.
#[test]
fn a_limit_of_file_size_costs_the_counters() {
    let limited = "mount -t tmpfs none /run && mkdir /run/widelane
                   set -- prlimit --fsize=102400 \"$@\"";
    let Some((told, counters)) = serve(limited, &[], &[]) else { return };
    assert_one_line(&told, &["the limit of file size", "LimitFSIZE=", "runs without counters"]);
    assert_eq!(counters, "");
    let named = ("WIDELANE_COUNTERS_DIR", Path::new("/run/widelane"));
    let Some((told, counters)) = serve(limited, &[named], &[]) else { return };
    assert_one_line(&told, &["cannot write counters to /run/widelane: file too", "LimitFSIZE="]);
    assert_eq!(counters, "");
}

#[test]
fn a_temporary_directory_that_is_closed_costs_nothing() {
    let closed = "mount -t tmpfs none /run
                  for place in /tmp /var/tmp
                  do mount --bind $place $place && mount -o remount,bind,ro $place
                  done";
    let Some((told, counters)) = serve(closed, &[], &[]) else { return };
    assert_eq!(told, "");
    assert!(counters.contains(".counters"), "{counters:?}");
}

/// The variable is not that by which `widelane run` was started, which refuses a wrong one.
#[test]
fn a_policy_that_cannot_be_used_is_counted() {
    if Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("there is no python3: nothing was tested");
    }
    let (authority, identity) = localhost();
    let counters = tempfile::tempdir().expect("a temporary directory");
    let output = run(Command::new(widelane())
        .args(["run", "--counters-dir"])
        .arg(counters.path())
        .args(["--", "env", "WIDELANE_POLICY=/nonexistent", "python3", "-c", FORKS_FOR_EACH])
        .args([&identity.certificate, &identity.key, &authority.certificate()])
        .envs([SAYS_NO_END]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no policy file /nonexistent"), "{said}");
    let refused: Vec<_> =
        Counts::read_all(counters.path()).iter().map(|counts| counts.policy_refused).collect();
    assert_eq!(refused, [1]);
}

#[test]
fn keys_that_cannot_be_locked_are_told_of_once() {
    let limited = "mount -t tmpfs none /run
                   ulimit -l 0
                   set -- setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\"";
    let Some((told, counters)) = serve(limited, &[], &[]) else { return };
    if widelane_testkit::rooms::has_lanes() {
        assert_one_line(&told, &["not locked in memory", "LimitMEMLOCK="]);
    }
    assert!(counters.contains(".counters"), "{counters:?}");
}

/// What AppArmor and SELinux do: files that are there and may not be read.
#[test]
fn libraries_that_may_not_be_read_leave_the_server_running() {
    let beside = |name: &str| widelane().with_file_name(name);
    for (closed, why) in [
        ("widelane.so", &["the provider cannot be loaded", "Permission denied", "AppArmor"][..]),
        ("libwidelane_runtime.so", &["ld.so", "cannot be preloaded"]),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (from, to) in [
            ("libwidelane.so", "widelane.so"),
            ("libwidelane_runtime.so", "libwidelane_runtime.so"),
        ] {
            std::fs::copy(beside(from), directory.path().join(to)).expect("a copy");
        }
        let closed = directory.path().join(closed);
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&closed, mode).expect("a file of ours");
        if chown(&closed, Some(NOBODY), None).is_err() {
            return eprintln!("only root can give files away: nothing was tested");
        }
        let setup = format!("mount -t tmpfs none /run\nset -- {AS_OTHERS} \"$@\"");
        let libraries = ("WIDELANE_LIBRARY_DIR", directory.path());
        let Some((told, _)) = serve(&setup, &[libraries], &[]) else { return };
        // The loader says it of each program that it starts: of Python, and of what that starts.
        assert_one_line(told.lines().next().unwrap_or_default(), why);
        assert!(closed.ends_with("libwidelane_runtime.so") || told.lines().count() == 1, "{told}");
    }
}

#[test]
fn a_wrapper_that_drops_the_preload_is_told_what_helps() {
    let output = run(Command::new(widelane())
        .env("WIDELANE_COUNTERS_DIR", "")
        .args(["run", "--"])
        .args(["env", "-u", "LD_PRELOAD", "openssl", "version"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_one_line(&said, &["without LD_PRELOAD, put `widelane run --` before that server"]);
}
