//! Programs that cannot be accelerated: they run unchanged, and one line says why.

mod support;

use std::process::{Command, Output};

use support::widelane;

/// `widelane`, told to keep no counters.
fn command() -> Command {
    let mut command = Command::new(widelane());
    command.env("WIDELANE_COUNTERS_DIR", "");
    command
}

fn run(arguments: &[&str]) -> Output {
    command().arg("run").args(arguments).output().expect("widelane was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_without_tls_runs_unchanged() {
    let output = run(&["--", "echo", "hello"]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "hello\n");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("runs unchanged: it is not linked with OpenSSL 3"), "{said}");
}

#[test]
fn a_static_program_runs_unchanged() {
    let output = run(&["--", "/sbin/ldconfig", "--version"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("ldconfig "));
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("statically linked"), "{said}");
}

#[test]
fn the_exit_status_is_the_programs() {
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let missing = run(&["--", "no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("there is no program no-such-program-anywhere"));
}

#[test]
fn a_client_of_openssl_is_not_disturbed() {
    let output = run(&["--", "openssl", "version"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("OpenSSL 3"));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn missing_libraries_and_malformed_policies_are_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = command()
        .args(["run", "--", "openssl", "version"])
        .env("WIDELANE_LIBRARY_DIR", directory.path())
        .output()
        .expect("widelane was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("widelane.so"), "{}", text(&output.stderr));

    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, "width_max = 300\n").expect("a short write");
    let policy = policy.to_str().expect("text");
    let output = run(&["--policy", policy, "--", "openssl", "version"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("policy.toml"), "{}", text(&output.stderr));
}

#[test]
fn a_policy_is_found_from_every_directory() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, "width_max = 512\n").expect("a short write");
    let prints_environment = ["--", "openssl", "enc", "-none", "-in", "/proc/self/environ"];
    let run = |flags: &[&str], variable: &str| {
        command()
            .arg("run")
            .args(flags)
            .args(prints_environment)
            .env("WIDELANE_POLICY", variable)
            .current_dir(&directory)
            .output()
            .expect("widelane was built")
    };
    let expected = format!("WIDELANE_POLICY={}\0", policy.display());
    for output in [run(&["--policy", "policy.toml"], ""), run(&[], "policy.toml")] {
        assert!(text(&output.stdout).contains(&expected), "{output:?}");
    }
}

#[test]
fn a_provider_that_cannot_be_loaded_leaves_the_server_running() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let runtime = widelane().with_file_name("libwidelane_runtime.so");
    std::fs::copy(runtime, directory.path().join("libwidelane_runtime.so")).expect("a copy");
    std::fs::write(directory.path().join("widelane.so"), "not a library").expect("a write");
    let output = command()
        .args(["run", "--", "openssl", "s_client", "-connect", "127.0.0.1:1"])
        .env("WIDELANE_LIBRARY_DIR", directory.path())
        .output()
        .expect("widelane was built");
    let said = text(&output.stderr);
    assert!(said.contains("widelane: the provider cannot be loaded"), "{said}");
    assert!(said.contains("runs unaccelerated"), "{said}");
    assert!(said.to_lowercase().contains("connect"), "s_client went on: {said}");
}
