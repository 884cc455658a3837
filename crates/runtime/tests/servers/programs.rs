//! Programs that cannot be accelerated: they run unchanged, and one line says why.

use std::process::{Command, Output};

use crate::support::counters::Sums;
use crate::support::{localhost, widelane};

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
    assert!(said.contains("echo is not linked with OpenSSL 3 or later itself"), "{said}");
}

/// Programs between `widelane run` and the server, and a server whose TLS is in a library that it
/// loads.
#[test]
fn wrappers_pass_on_what_their_server_needs() {
    let server = "openssl s_client -connect 127.0.0.1:1";
    let python = "import ssl; ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)";
    let wrapped: [&[&str]; 5] = [
        &["sh", "-c", server],
        &["sh", "-c", "true; openssl s_client -connect 127.0.0.1:1; exit 0"],
        &["env", "A=b", "openssl", "s_client", "-connect", "127.0.0.1:1"],
        &["nice", "sh", "-c", server],
        &["python3", "-c", python],
    ];
    for command_line in wrapped {
        if Command::new(command_line[0]).arg("--version").output().is_err() {
            eprintln!("there is no {}: it was not tested", command_line[0]);
            continue;
        }
        let directory = without_provider();
        let mut command = command();
        command.args(["run", "--"]).args(command_line);
        let output = command.env("WIDELANE_LIBRARY_DIR", directory.path()).output();
        let said = text(&output.expect("widelane was built").stderr);
        assert!(said.contains("is not linked with OpenSSL 3 or later itself"), "{said}");
        // What would have been accelerated says why it is not.
        let tried = said.matches("the provider cannot be loaded").count();
        assert_eq!(tried, 1, "{command_line:?}: {said}");
    }
}

#[test]
fn what_a_server_starts_is_not_accelerated() {
    let becomes_a_server = "import ssl; ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ";
    for (before, is_passed_on) in [("", true), (becomes_a_server, false)] {
        let program = format!("{before}import os; os.execv('/usr/bin/env', ['env'])");
        let output = run(&["--", "python3", "-c", &program]);
        let shown = text(&output.stdout);
        if !output.status.success() {
            eprintln!("there is no python3: nothing was tested");
            return;
        }
        assert_eq!(shown.contains("libwidelane_runtime.so"), is_passed_on, "{shown}");
    }
}

/// The connections of [`FORKS_FOR_EACH`].
const CONNECTIONS: u64 = 10;

/// Forks a process for each of its connections, and is the client of each.
pub const FORKS_FOR_EACH: &str = r"
import os, socket, ssl, sys
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(sys.argv[1], sys.argv[2])
client = ssl.create_default_context(cafile=sys.argv[3])
client.verify_flags &= ~ssl.VERIFY_X509_STRICT
for _ in range(10):
    near, far = socket.socketpair()
    child = os.fork()
    if child == 0:
        near.close()
        server.wrap_socket(far, server_side=True).close()
        sys.exit(0)
    far.close()
    client.wrap_socket(near, server_hostname='localhost').close()
    os.waitpid(child, 0)
";

#[test]
fn a_process_for_each_connection_counts_in_its_parent_s_file() {
    let (authority, identity) = localhost();
    for options in [["--combine", "auto"], ["--policy", "auto"]] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let output = Command::new(widelane())
            .arg("run")
            .args(options)
            .arg("--counters-dir")
            .arg(directory.path())
            .args(["--", "python3", "-c", FORKS_FOR_EACH])
            .args([&identity.certificate, &identity.key, &authority.certificate()])
            .output()
            .expect("widelane was built");
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        // Python's processes do not use epoll, and say so once, not one after the other.
        assert_eq!(said.matches("do not use epoll").count(), 1, "{said}");
        let sums = Sums::read(directory.path());
        assert_eq!(sums.processes, 1, "{options:?}: {sums:?}");
        assert!(!sums.has_lanes() || sums.rsa() == CONNECTIONS, "{sums:?} {said}");
    }
}

#[test]
fn a_daemon_counts_in_its_own_file_and_not_in_that_of_the_process_that_started_it() {
    let (authority, identity) = localhost();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let daemonize = r"
starter = os.getpid()
if os.fork() != 0:
    os._exit(0)
while os.getppid() == starter:
    time.sleep(0.001)
print(os.getpid(), flush=True)
for _";
    let program = FORKS_FOR_EACH.replace("\nfor _", daemonize).replace("sys\n", "sys, time\n");
    let output = Command::new(widelane())
        .args(["run", "--counters-dir"])
        .arg(directory.path())
        .args(["--", "python3", "-c", &program])
        .args([&identity.certificate, &identity.key, &authority.certificate()])
        .output()
        .expect("widelane was built");
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let file = directory.path().join(format!("{}.counters", told.trim()));
    let other = tempfile::tempdir().expect("a temporary directory");
    let moved = std::fs::rename(&file, other.path().join(file.file_name().expect("a name")));
    moved.unwrap_or_else(|error| panic!("{file:?}: {error}; {said}"));
    let (of_starter, of_daemon) = (Sums::read(directory.path()), Sums::read(other.path()));
    assert_eq!((of_starter.processes, of_starter.rsa()), (1, 0), "{of_starter:?}");
    assert!(!of_daemon.has_lanes() || of_daemon.rsa() == CONNECTIONS, "{of_daemon:?} {said}");
}

#[test]
fn a_system_without_proc_starts_the_server() {
    let hide = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    let mut command = Command::new(hide[0]);
    command.args(&hide[1..]).arg(widelane()).args(["run", "--", "openssl", "version"]);
    let output = command.env("WIDELANE_COUNTERS_DIR", "").output().expect("util-linux");
    if text(&output.stderr).starts_with("unshare: ") {
        eprintln!("only root can hide /proc, and not in a chroot: nothing was tested");
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("OpenSSL 3"), "{output:?}");
}

#[test]
fn a_static_program_runs_unchanged() {
    // Ubuntu's ldconfig is a script around it.
    let program = ["/sbin/ldconfig.real", "/sbin/ldconfig"];
    let program =
        program.into_iter().find(|path| std::path::Path::new(path).exists()).expect("a libc");
    let output = run(&["--", program, "--version"]);
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

/// A directory with the runtime, and a provider that is none.
fn without_provider() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let runtime = widelane().with_file_name("libwidelane_runtime.so");
    std::fs::copy(runtime, directory.path().join("libwidelane_runtime.so")).expect("a copy");
    std::fs::write(directory.path().join("widelane.so"), "not a library").expect("a write");
    directory
}

#[test]
fn a_provider_that_cannot_be_loaded_leaves_the_server_running() {
    let directory = without_provider();
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
