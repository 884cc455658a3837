//! Nothing of a test program lives on when it has ended.

use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn supervise(seconds: &str, script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["supervise", seconds, "sh", "-c", script]);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many processes sleep for a time that nobody else sleeps for.
fn sleeping(time: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{time}\0");
    lines.filter(|line| *line == wanted.as_bytes()).count()
}

#[test]
fn a_program_that_fails_is_told() {
    assert!(supervise("60", "true").status().unwrap().success());
    for (script, expected) in [("exit 3", "exit status 3"), ("kill -6 $$", "ended by signal 6")] {
        let output = supervise("60", script).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(expected), "{output:?}");
    }
}

#[test]
fn what_is_left_behind_is_killed_and_named() {
    let daemon = "setsid sh -c 'sleep 9001 & sleep 9001' & sleep 0.2";
    let began = Instant::now();
    let output = supervise("60", daemon).output().unwrap();
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("left behind and killed: "), "{said}");
    assert!(said.matches("sleep (").count() == 2 && sleeping("9001") == 0, "{said}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_ends_soon_is_waited_for() {
    assert!(supervise("60", "setsid sleep 1 &").status().unwrap().success());
}

#[test]
fn a_program_that_hangs_is_killed() {
    let output = supervise("1", "sleep 9002").output().unwrap();
    assert!(stderr(&output).contains("more than 1 s"), "{output:?}");
    assert_eq!(sleeping("9002"), 0);
}

#[test]
fn nothing_outlives_a_runner_that_is_killed() {
    let line =
        format!("'{}' supervise 60 sleep 9003 & exec sleep 600", env!("CARGO_BIN_EXE_xtask"));
    let mut runner = Command::new("sh").args(["-c", &line]).spawn().unwrap();
    let wait_until = |count| {
        let end = Instant::now() + Duration::from_secs(30);
        while sleeping("9003") != count {
            assert!(Instant::now() < end, "{} sleep", sleeping("9003"));
            sleep(Duration::from_millis(20));
        }
    };
    wait_until(1);
    runner.kill().unwrap();
    runner.wait().unwrap();
    wait_until(0);
}
