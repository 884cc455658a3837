//! `off`, `on` and `gain`, on processes that stand in for servers: their counters are written here.

use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::prelude::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tempfile::TempDir;
use widelane_bridge::counters::{
    COUNTERS_FILE_BYTES, COUNTERS_MAGIC, COUNTERS_VERSION, Counters, KindCounters,
};
use widelane_host::process::Stat;
use widelane_testkit::program::install;

use crate::support::{path, stderr, stdout};
use crate::widelane;

/// A directory of counters.
struct Place {
    counters: TempDir,
    programs: TempDir,
}

/// A process with counters, which ends with its test.
struct Server {
    child: Child,
    counters: PathBuf,
}

impl Place {
    fn new() -> Self {
        Place { counters: TempDir::new().unwrap(), programs: TempDir::new().unwrap() }
    }

    /// A program that sleeps under this name.
    fn start(&self, name: &str) -> Server {
        self.start_as(name, "/bin/sleep", &["600"])
    }

    fn start_as(&self, name: &str, original: &str, arguments: &[&str]) -> Server {
        let program = self.programs.path().join(name);
        if !program.exists() {
            install(Path::new(original), &program);
        }
        let child = Command::new(&program).args(arguments).spawn().unwrap();
        let pid = child.id();
        let mut bytes = vec![0; COUNTERS_FILE_BYTES];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(offset_of!(Counters, magic), &COUNTERS_MAGIC.to_ne_bytes());
        put(offset_of!(Counters, version), &COUNTERS_VERSION.to_ne_bytes());
        put(offset_of!(Counters, pid), &pid.to_ne_bytes());
        put(offset_of!(Counters, pages_used), &1u64.to_ne_bytes());
        let counters = self.counters.path().join(format!("{pid}.counters"));
        fs::write(&counters, bytes).unwrap();
        Server { child, counters }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = widelane();
        command.args(arguments).args(["--counters-dir", path(self.counters.path())]);
        command
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        stdout(&self.command(arguments).assert().success())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.succeeds(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        stderr(&self.command(arguments).assert().code(1))
    }
}

impl Server {
    fn read(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        File::open(&self.counters).unwrap().read_exact_at(&mut bytes, offset as u64).unwrap();
        u64::from_ne_bytes(bytes)
    }

    fn write(&self, offset: usize, value: u64) {
        let file = File::options().write(true).open(&self.counters).unwrap();
        file.write_all_at(&value.to_ne_bytes(), offset as u64).unwrap();
    }

    /// Until when it is off.
    fn word(&self) -> u64 {
        self.read(offset_of!(Counters, off_until_ns))
    }

    fn set_word(&self, word: u64) {
        self.write(offset_of!(Counters, off_until_ns), word);
    }

    /// The CPU time that it has used, in steps of a clock tick of 10 ms.
    fn cpu_us(&self) -> u64 {
        Stat::of(self.child.id()).unwrap().used.as_micros() as u64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn is_off(word: u64) -> bool {
    word > now_ns()
}

/// Waits until something is true.
fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it takes too long");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn processes_are_switched_off_and_on_by_name_and_number() {
    let place = Place::new();
    let [one, two, other] = ["server", "server", "other"].map(|name| place.start(name));
    let words = || [&one, &two, &other].map(Server::word);
    let said = place.succeeds(&["off", "server"]);
    assert!(
        said.contains("server: 2 processes leave all operations to OpenSSL from now"),
        "{said}"
    );
    assert_eq!(words(), [u64::MAX, u64::MAX, 0]);

    let said = place.succeeds(&["on", &one.child.id().to_string()]);
    assert!(said.contains("server: 1 process is accelerated from now on."), "{said}");
    assert_eq!(words(), [0, u64::MAX, 0]);

    let done = place.json(&["off"]);
    assert_eq!((done["off"].as_bool(), done["off_until"].as_f64()), (Some(true), None));
    assert_eq!(
        (&done["switched"][0]["command"], &done["switched"][1]["changed"]),
        (&"other".into(), &1.into())
    );
    assert_eq!(done["switched"][1]["pids"].as_array().map(Vec::len), Some(2));
    assert_eq!(words(), [u64::MAX; 3]);
    place.succeeds(&["on"]);
    assert_eq!(words(), [0; 3]);
}

#[test]
fn a_time_is_a_deadline() {
    let place = Place::new();
    let server = place.start("server");
    let before = now_ns();
    let said = place.succeeds(&["off", "server", "--for", "10m"]);
    assert!(said.contains("to OpenSSL for 10 min"), "{said}");
    let minutes = 600_000_000_000;
    assert!((before + minutes..=now_ns() + minutes).contains(&server.word()));
    for (arguments, expected) in [
        (&["top", "--once", "--interval", "0.1"][..], "1 process of server is switched off for"),
        (&["exporter", "--once"], "command=\"server\"} 1\n"),
    ] {
        let said = place.succeeds(arguments);
        assert!(said.contains(expected), "{expected} is missing in {said}");
    }
    // When it has passed, nobody has to switch anything on.
    server.set_word(now_ns());
    let metrics = place.succeeds(&["exporter", "--once"]);
    assert!(metrics.contains("widelane_switched_off{"), "{metrics}");
    assert!(metrics.contains("widelane_processes 1\n"), "{metrics}");
}

#[test]
fn what_cannot_be_switched_is_told_with_what_can() {
    let place = Place::new();
    let said = place.fails(&["off"]);
    assert!(said.starts_with("widelane: no accelerated process has counters in"), "{said}");
    let server = place.start("server");
    let said = place.fails(&["off", "serv"]);
    assert!(
        said.contains("no process serv has counters in") && said.contains("server (1)"),
        "{said}"
    );
    server.write(offset_of!(Counters, policy_refused), 1);
    for arguments in [&["off"][..], &["on", "server"], &["gain", "server"]] {
        let said = place.fails(arguments);
        assert!(said.contains("its policy is refused"), "{said}");
    }
    assert_eq!(server.word(), 0);
}

#[test]
fn files_that_are_not_believed_are_not_written_to() {
    let place = Place::new();
    let [linked, strange] = ["linked", "strange"].map(|name| place.start(name));
    let elsewhere = place.programs.path().join("elsewhere");
    fs::rename(&linked.counters, &elsewhere).unwrap();
    symlink(&elsewhere, &linked.counters).unwrap();
    // That of another process.
    strange.write(offset_of!(Counters, magic), 77);
    for (name, expected) in [("linked", "it is a symbolic link"), ("strange", "another version")] {
        let said = place.fails(&["off", name]);
        assert!(said.contains(expected), "{expected} is missing in {said}");
    }
    assert_eq!((linked.word(), strange.word()), (0, 0));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let [server, other] = ["server", "other"].map(|name| place.start(name));
    let usage = |arguments: &[&str]| stderr(&place.command(arguments).assert().code(2));
    assert!(usage(&["gain"]).contains("say which server is meant: other, server"));
    let said = usage(&["gain", "server", "--for", "30s"]);
    assert!(said.contains("--for is four slices at least, 40 s here"), "{said}");
    assert!(usage(&["gain", "server", "--slice", "500ms"]).contains("--slice is 1s at least"));
    server.set_word(u64::MAX);
    assert!(place.fails(&["gain", "server"]).contains("server is switched off: `widelane on "));
    assert_eq!(server.word(), u64::MAX);
    let operations = offset_of!(Counters, kinds) + offset_of!(KindCounters, synchronous);
    other.write(operations, 5);
    let said = place.fails(&["gain", "other"]);
    assert!(said.contains("the handshakes of other are not counted"), "{said}");
}

#[test]
fn a_measurement_that_is_ended_leaves_the_server_on() {
    let place = Place::new();
    let server = place.start("server");
    let end = |signal| {
        let mut command = place.command(&["gain", "server", "--slice", "2s", "--for", "1m"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let gain = command.spawn().unwrap();
        wait_until(|| is_off(server.word()));
        kill(Pid::from_raw(gain.id() as i32), signal).unwrap();
        gain.wait_with_output().unwrap()
    };
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let output: Output = end(signal);
        assert_eq!((output.status.code(), server.word()), (Some(3), 0), "{signal}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("ended before its time; the server is on"), "{said}");
    }
    end(Signal::SIGKILL);
    let left = server.word().saturating_sub(now_ns());
    assert!(left < 4_000_000_000, "it is on again by itself after {left} ns");
}

/// As `nohup` starts it.
#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let place = Place::new();
    let server = place.start("server");
    let inner = place.command(&["gain", "server", "--slice", "1s", "--for", "1m"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args());
    let mut gain = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let send = |signal| kill(Pid::from_raw(gain.id() as i32), signal).unwrap();
    wait_until(|| is_off(server.word()));
    send(Signal::SIGHUP);
    wait_until(|| !is_off(server.word()));
    wait_until(|| is_off(server.word()));
    send(Signal::SIGTERM);
    assert_eq!((gain.wait().unwrap().code(), server.word()), (Some(3), 0));
}

#[test]
fn a_measurement_ends_where_somebody_else_switches() {
    let place = Place::new();
    let server = place.start("server");
    let mut command = place.command(&["gain", "server", "--slice", "1s", "--for", "1m"]);
    let gain = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| is_off(server.word()));
    place.succeeds(&["off", "server"]);
    let output = gain.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Somebody else has switched the server"), "{said}");
    assert_eq!((output.status.code(), server.word()), (Some(3), u64::MAX));
}

/// A process that spends all its time on handshakes, twice as much on each while it is off.
#[test]
fn a_gain_is_measured() {
    let place = Place::new();
    let server = place.start_as("busy", "/bin/sh", &["-c", "while :; do :; done"]);
    let is_over = AtomicBool::new(false);
    let count = || {
        let (mut cpu_us, mut handshakes) = (server.cpu_us(), 0);
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
            let used_us = server.cpu_us() - cpu_us;
            cpu_us += used_us;
            handshakes += used_us / if is_off(server.word()) { 1_000 } else { 500 };
            server.write(offset_of!(Counters, handshakes), handshakes);
        }
    };
    let output = thread::scope(|scope| {
        scope.spawn(count);
        let mut command = place.command(&["gain", "--for", "16s", "--slice", "1s", "--json"]);
        let output = command.output();
        is_over.store(true, Ordering::Relaxed);
        output.unwrap()
    });
    let gain: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), gain["answer"].as_str()), (Some(0), Some("saves")), "{gain}");
    let ratio = gain["ratio"].as_f64().unwrap();
    assert!((0.4..0.6).contains(&ratio), "{gain}");
    assert_eq!(gain["slices"].as_array().map(Vec::len), Some(16), "{gain}");
    assert_eq!((&gain["server"], server.word()), (&"busy".into(), 0));
    let progress = String::from_utf8(output.stderr).unwrap();
    assert!(
        progress.contains("switching 1 process of busy off and on in turns for 16 s"),
        "{progress}"
    );
    assert!(progress.contains("widelane: pair 8 of 8: "), "{progress}");
}
