//! `widelane acl forward`, `acl classify --pcap` and `acl bench --updates`: what they print, and
//! what they refuse.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use assert_cmd::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::acl;

const RULES: &str = "\
@10.9.0.0/16 0.0.0.0/0 0 : 65535 0 : 65535 0x0/0x0
R0.0.0.0/0 10.0.0.0/8 0 : 65535 0 : 65535 0x0/0x0 1
R0.0.0.0/0 10.1.0.0/16 0 : 65535 80 : 80 0x6/0xff 2
";

/// An Ethernet frame with an IPv4 packet over TCP to port 80.
fn frame(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend(source);
    frame.extend(destination);
    frame.extend([4, 0, 0, 80]);
    frame.resize(54, 0);
    frame
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let length = frame.len() as u32;
        bytes.extend([0, 0, length, length].iter().flat_map(|word: &u32| word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let frames = [
        frame([10, 9, 0, 1], [10, 1, 0, 1]),
        frame([1, 1, 1, 1], [10, 1, 0, 1]),
        frame([1, 1, 1, 1], [10, 2, 0, 1]),
        frame([1, 1, 1, 1], [11, 2, 0, 1]),
        frame([1, 1, 1, 1], [10, 2, 0, 1])[..30].to_vec(),
        vec![0x88; 60],
    ];
    fs::write(directory.path().join("a.rules"), RULES).unwrap();
    fs::write(directory.path().join("a.pcap"), pcap(&frames)).unwrap();
    fs::write(directory.path().join("cut.pcap"), &pcap(&frames[..2])[..150]).unwrap();
    directory
}

#[test]
fn packets_of_a_capture_are_looked_up() {
    let directory = directory();
    acl(directory.path(), &["classify", "a.rules", "--pcap", "a.pcap"])
        .assert()
        .success()
        .stdout("4026531840\n1\n1\n4294967295\ncut\nnot-ip\n");
    acl(directory.path(), &["classify", "a.rules", "--pcap", "a.pcap", "--counts"])
        .assert()
        .success()
        .stdout("2\t1\n1\t4026531840\n1\t4294967295\n1\tcut\n1\tnot-ip\n");
    acl(directory.path(), &["classify", "a.rules", "--pcap", "cut.pcap"])
        .assert()
        .failure()
        .stdout("4026531840\n")
        .stderr("widelane: cut.pcap ends in the middle of frame 2\n");
    acl(directory.path(), &["classify", "a.rules", "--pcap", "a.rules"])
        .assert()
        .failure()
        .stderr("widelane: a.rules\n  because: is neither a pcap nor a pcapng file\n");
}

#[test]
fn a_replay_counts_what_becomes_of_every_frame() {
    let directory = directory();
    let arguments = ["forward", "--rules-ipv4", "a.rules", "--pcap", "a.pcap", "--duration", "1"];
    let replayed =
        acl(directory.path(), &[&arguments[..], &["--json"]].concat()).assert().success();
    let counts: serde_json::Value = serde_json::from_slice(&replayed.get_output().stdout).unwrap();
    let passes = counts["received"].as_u64().unwrap() / 6;
    assert!(passes > 0);
    assert_eq!(counts["sent"], serde_json::json!([0, passes, passes]));
    for reason in ["denied", "no-route", "cut", "not-ip"] {
        assert_eq!(counts["dropped"][reason], passes, "{reason}");
    }
    let rooms = counts["rooms"].as_array().unwrap();
    assert_eq!((&rooms[0]["room"], &rooms[0]["of_portable"]), (&"portable".into(), &().into()));
    assert!(rooms.iter().all(|room| room["mpps_per_cpu_second"].as_f64().unwrap() > 0.0));
    let lines: Vec<&serde_json::Value> =
        counts["rules"].as_array().unwrap().iter().map(|rule| &rule["line"]).collect();
    assert_eq!(lines, [1, 2, 3]);
    let shown = acl(directory.path(), &arguments).assert().success();
    let text = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
    assert!(text.contains("portable") && text.contains("dropped: denied"), "{text}");
}

#[test]
fn a_file_without_rules_is_of_either_version() {
    let directory = directory();
    fs::write(directory.path().join("none.rules"), "# none yet\n").unwrap();
    for (flag, reason) in [("--rules-ipv4", "no-route"), ("--rules-ipv6", "other-version")] {
        let arguments =
            ["forward", flag, "none.rules", "--pcap", "a.pcap", "--duration", "1", "--json"];
        let replayed = acl(directory.path(), &arguments).assert().success();
        let counts: serde_json::Value =
            serde_json::from_slice(&replayed.get_output().stdout).unwrap();
        let passes = counts["received"].as_u64().unwrap() / 6;
        assert_eq!(counts["dropped"][reason], 4 * passes, "{flag}: {counts}");
    }
}

#[test]
fn what_cannot_be_forwarded_is_refused() {
    let directory = directory();
    fs::write(directory.path().join("b.rules"), "R0.0.0.0/0 10.0.0.0/8 0 : 1 0 : 1 0/0 254\n")
        .unwrap();
    let refused = |arguments: &[&str], reason: &str| {
        let arguments = [&["forward"], arguments].concat();
        let refused = acl(directory.path(), &arguments).assert().failure();
        let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(text.contains(reason), "{text}");
    };
    refused(
        &["--rules-ipv4", "b.rules", "--pcap", "a.pcap"],
        "b.rules:1: port 254 is not among the ports 0 to 253",
    );
    refused(
        &["--rules-ipv6", "a.rules", "--pcap", "a.pcap"],
        "a.rules: --rules-ipv6 got rules that are for --rules-ipv4",
    );
    refused(
        &["--rules-ipv4", "a.rules", "--pcap", "cut.pcap"],
        "cut.pcap ends in the middle of frame 2",
    );
    let ports = ["--port", "lo"].repeat(255);
    refused(
        &[&["--rules-ipv4", "a.rules"], &ports[..]].concat(),
        "--port is given 255 times; there can be 254",
    );
    refused(&["--rules-ipv4", "a.rules"], "--port");
    refused(&["--pcap", "a.pcap"], "--rules-ipv4");
}

#[test]
fn bench_shows_what_changes_cost() {
    let directory = directory();
    let arguments =
        ["bench", "a.rules", "--updates", "500", "--rounds", "1", "--flows", "64", "--json", "r"];
    let measured = acl(directory.path(), &arguments).assert().success();
    let text = String::from_utf8_lossy(&measured.get_output().stdout).into_owned();
    assert!(text.contains("changes per second") && text.contains("while rules change"), "{text}");
    let json = fs::read_to_string(directory.path().join("r")).unwrap();
    assert!(json.contains("\"acl/a/updates500\""), "{json}");
    let mut lengths = acl(directory.path(), &[&arguments[..], &["--burst", "1,32"]].concat());
    let refused = lengths.assert().failure();
    let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(text.contains("give --burst one number"), "{text}");
}

#[test]
fn a_look_at_the_clock_that_is_interrupted_says_so_and_keeps_what_it_saw() {
    let directory = directory();
    let arguments = ["--rules-ipv4", "a.rules", "--pcap", "a.pcap", "--watch-power", "power.csv"];
    let mut forward = acl(directory.path(), &[&["forward"], &arguments[..]].concat());
    let mut forward = forward.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As where only the first line is read.
    drop(forward.stdout.take());
    let catches = |signal: Signal| {
        let status = fs::read_to_string(format!("/proc/{}/status", forward.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
    };
    let comes_to_catch = |_| {
        sleep(Duration::from_millis(2));
        [Signal::INT, Signal::TERM].into_iter().all(catches)
    };
    assert!((0..10_000).any(comes_to_catch));
    sleep(Duration::from_millis(600));
    // As by `timeout`: to the process, and to its group.
    for _ in 0..2 {
        kill_process(Pid::from_child(&forward), Signal::TERM).unwrap();
        sleep(Duration::from_millis(1));
    }
    let ended = forward.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("interrupted"), "{said}");
    let csv = fs::read_to_string(directory.path().join("power.csv")).unwrap();
    assert!(csv.starts_with("width_bits,"), "{csv}");
    let as_json = [&["forward"], &arguments[..], &["--json"]].concat();
    let refused = acl(directory.path(), &as_json).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("cannot be used with"), "{said}");
}
