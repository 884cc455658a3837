//! The program from outside: flags, exit statuses, error texts, what `report` and `simulate` print.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use assert_cmd::assert::Assert;
use assert_cmd::prelude::*;
use tempfile::TempDir;
use widelane_results::Results;

use crate::common::widelane as command;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/sample.json");

fn widelane(arguments: &[&str]) -> Assert {
    command().args(arguments).assert()
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

fn file(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_wrong_command_line_has_its_own_status() {
    for (arguments, expected) in [
        (&["report"][..], "<FILE>"),
        (&["report", SAMPLE, "--format", "pdf"], "terminal, markdown, csv, html"),
        (&["compare", "--server", "caddy"], "nginx"),
        (&["compare", "--connections", "0"], "1..=4000"),
        (&["compare", "--sizes", "16T"], "between 1K and 4G"),
        (&["compare", "--workers", "0"], "1..=64"),
        (&["compare", "--engine", "gpu"], "in-loop, lane-cpus, qat, auto"),
        (&["simulate", "--rest", "200us"], "--speed"),
        (&["simulate", "--rest", "200us", "--cost", "fast", "--native-cost", "1us"], "no time"),
        (&["speed", "--jobs", "9"], "1..=8"),
        (&["compare", "--ciphers", "rc4"], "aes128-sha, aes128-sha-mac-first"),
    ] {
        let failure = widelane(arguments).code(2);
        assert!(stderr(&failure).contains(expected), "{arguments:?}: {}", stderr(&failure));
    }
}

#[test]
fn report_writes_what_the_name_of_the_file_says() {
    let directory = TempDir::new().unwrap();
    for (name, beginning) in [
        ("r.html", "<!doctype html>"),
        ("r.md", "**nginx spends"),
        ("r.csv", "scenario,subject,"),
        ("r.txt", "nginx spends"),
    ] {
        let output = directory.path().join(name);
        let quiet = widelane(&["report", SAMPLE, "-o", path(&output)]).success();
        assert_eq!(stdout(&quiet), "");
        let text = fs::read_to_string(&output).unwrap();
        assert!(text.starts_with(beginning), "{name}: {}", text.lines().next().unwrap());
    }
}

#[test]
fn report_of_several_files_has_one_csv_header() {
    let one = stdout(&widelane(&["report", SAMPLE, "--format", "csv"]).success());
    let two = stdout(&widelane(&["report", SAMPLE, SAMPLE, "--format", "csv"]).success());
    assert_eq!(two.lines().count(), 2 * one.lines().count() - 1);
    assert_eq!(two.lines().filter(|line| line.starts_with("scenario,")).count(), 1);
}

#[test]
fn report_refuses_what_it_cannot_show() {
    let directory = TempDir::new().unwrap();
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let other = sample.replace("widelane-results/1", "widelane-results/9");
    let truncated = file(&directory, "truncated.json", &sample[..sample.len() / 2]);
    let other = file(&directory, "other.json", &other);
    let text = file(&directory, "notes.txt", "handshakes: many");
    let absent = directory.path().join("absent.json");
    for (file, expected) in [
        (&truncated, "truncated"),
        (&other, "widelane-results/9"),
        (&text, "not a results file"),
        (&absent, "No such file"),
    ] {
        let failure = widelane(&["report", path(file)]).code(1);
        let message = stderr(&failure);
        assert!(message.starts_with("widelane: cannot "), "{message}");
        assert!(message.contains(path(file)) && message.contains(expected), "{message}");
    }
    let failure = widelane(&["report", SAMPLE, SAMPLE, "--format", "html"]).code(1);
    assert!(stderr(&failure).contains("one results file"));
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = command()
        .args(["report", SAMPLE, "--format", "html"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn every_command_has_a_page_and_every_shell_its_completions() {
    let directory = TempDir::new().unwrap();
    widelane(&["documents", path(directory.path())]).success();
    let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    for (page, expected) in [
        ("man/widelane.1", "widelane\\-top(1)"),
        ("man/widelane-top.1", "interval"),
        ("man-bench/widelane-acl-check.1", "acl"),
        ("completions/widelane.bash", "exporter"),
        ("completions/_widelane", "exporter"),
        ("completions/widelane.fish", "exporter"),
    ] {
        assert!(text(page).contains(expected), "{expected} is missing in {page}");
    }
    assert!(!directory.path().join("man/widelane-serve-embedded.1").exists());
}

#[test]
fn a_simulation_is_reproducible_and_says_what_it_rests_on() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results.json");
    let simulate = |more: &[&str]| {
        let costs = ["simulate", "--cost", "205us,385us,509us,509us", "--native-cost", "242us"];
        let rest = ["--rest", "284us", "--rest-accelerated", "215us", "--handshakes", "1000"];
        widelane(&[&costs[..], &rest, more].concat())
    };
    let first = stdout(&simulate(&["--workers", "1,2", "--json", path(&results)]).success());
    assert!(first.contains("Predicted, not measured") && first.contains("242 µs"), "{first}");
    assert!(first.contains("2 workers, wait of 500 µs at most, combined"), "{first}");
    let kept = Results::from_json(&fs::read_to_string(&results).unwrap()).unwrap();
    // One worker and two, those also combined; each with and without a wait, at seven loads.
    assert_eq!(kept.rows.iter().filter(|row| row.metric == "cpu_ratio").count(), 3 * 2 * 7);
    let again = directory.path().join("again.json");
    simulate(&["--workers", "1,2", "--json", path(&again)]).success();
    let again = Results::from_json(&fs::read_to_string(&again).unwrap()).unwrap();
    assert_eq!(kept.rows, again.rows);
    let nothing = simulate(&["--rest-accelerated", "1us"]);
    assert!(stderr(&nothing.code(2)).contains("--rest-accelerated"));
    let other = widelane(&["simulate", "--speed", path(&results), "--rest", "1us"]).code(1);
    assert!(stderr(&other).contains("rsa2048/private/1-jobs beside OpenSSL; measure it"));
}

#[test]
fn engines_are_named_once_and_have_their_cpus() {
    for (arguments, expected) in [
        (&["--engine", "lane-cpus"][..], "add --lane-cpus LIST"),
        (&["--engine", "qat", "--lane-cpus", "0"], "add lane-cpus to --engine"),
        (&["--engine", "qat,qat"], "say each once"),
        (&["--wait-max", "2ms,2ms"], "say each once"),
        (&["--wait-max", "3ms"], "0, 0.5ms, 1ms, 2ms, 5ms, 10ms, rtt"),
        (&["--wait-max", "2ms", "--engine", "in-loop"], "cannot be used with"),
        (&["--rtt", "20ms"], "--load"),
        (&["--load", "30", "--rtt", "1us"], "1ms to 500ms"),
        (&["--load", "30", "--rtt", "20ms", "--workload", "bulk"], "cannot be used with"),
        (&["--wait-max", "2ms", "--lane-cpus", "0"], "leave one of them out"),
    ] {
        let failure = widelane(&[&["compare"], arguments].concat()).failure();
        assert!(stderr(&failure).contains(expected), "{arguments:?}: {}", stderr(&failure));
    }
}

#[test]
fn workers_and_threads_are_counted_of_servers_that_have_them() {
    for (flags, expected) in [
        (["--server", "haproxy", "--workers", "2"], "--threads for HAProxy"),
        (["--server", "embedded", "--threads", "2"], "--workers for nginx"),
    ] {
        let failure = widelane(&[&["compare"][..], &flags].concat()).code(1);
        let said = stderr(&failure);
        assert!(said.contains(expected) || said.contains("libwidelane"), "{said}");
    }
}
