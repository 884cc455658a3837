//! `widelane tune` from outside: a short run, recorded runs judged again, and what cannot be had.

use std::fs;
use std::path::PathBuf;

use assert_cmd::assert::Assert;
use assert_cmd::prelude::*;

use crate::common::support::{path, stderr, stdout};
use crate::common::widelane;

fn tune(arguments: &[&str]) -> Assert {
    widelane().arg("tune").args(arguments).assert()
}

fn recording(name: &str) -> String {
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/tests/recordings");
    PathBuf::from(recordings).join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_recorded_run_is_judged_again() {
    let recorded = recording("tune-handshakes-zen5.json");
    let text = stdout(&tune(&["--replay", &recorded]).success());
    for expected in ["rsa2048/private", "always-512", "Compared with", "never-512"] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    let file = stdout(&tune(&["--replay", &recorded, "--dry-run"]).success());
    assert!(file.contains("# Workload:\n#   name = \"handshakes\""), "{file}");
    assert!(file.contains("\nwidth_max = 512\n"), "{file}");
    let json = stdout(&tune(&["--replay", &recorded, "--json"]).success());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["file"], file);
    assert!(json["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{json}");
    assert_eq!(json["extremes"][0]["name"], "never-512", "{}", json["extremes"]);
}

#[test]
fn what_was_found_is_kept_for_reports() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("tune.json");
    let recorded = recording("tune-handshakes-zen5.json");
    tune(&["--replay", &recorded, "--results", path(&kept), "--dry-run"]).success();
    let report = |format: &str| {
        let command = ["report", path(&kept), "--format", format];
        stdout(&widelane().args(command).assert().success())
    };
    let text = report("markdown");
    let survey = "## Policies for handshakes, survey";
    for expected in ["always-512", "kept", survey, "rsa2048/private", "## Work done"] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    assert!(report("html").contains("class=\"mark worse\""));
    // What cannot be told is no answer.
    let noisy = recording("tune-packets-zen5-busy.json");
    tune(&["--replay", &noisy, "--results", path(&kept), "--dry-run"]).code(3);
    assert!(report("html").contains("<header class=\"unknown\">"));
}

#[test]
fn a_noisy_hour_tells_nothing_and_changes_nothing() {
    let failure = tune(&["--replay", &recording("tune-packets-zen5-busy.json")]).code(3);
    assert!(stderr(&failure).contains("no file was changed"), "{}", stderr(&failure));
}

#[test]
fn a_short_run_measures_and_never_guesses() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.toml");
    let workload = directory.path().join("workload.toml");
    fs::write(&workload, "name = \"idle\"\n[[work]]\nwhat = \"application\"\nshare = 1\n").unwrap();
    let arguments = ["--file", path(&file), "--workload", path(&workload), "--rounds", "6"];
    // Scalar code has one way to be done, so that there is nothing to choose from.
    let text = stdout(&tune(&arguments).success());
    assert!(text.contains("do this work alike") && text.contains("Written to"), "{text}");
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("#   name = \"idle\""), "{written}");
    widelane_cpu::policy::parse(&file, &written).expect("what every program obeys");
    tune(&["--file", path(&file), "--check", "--rounds", "6"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), written, "--check writes nothing");
    // What somebody has closed stays closed where nothing is better.
    let own = "# Ticket 123.\nwidth_max = 256\nrooms_closed = [\"avx2\"]\nwait_max = \"2ms\"\n";
    fs::write(&file, own).unwrap();
    // What is found is shown although it cannot be written: no copy can be made.
    let beside = directory.path().join("policy.toml.before");
    fs::create_dir(&beside).unwrap();
    let failure = tune(&arguments).code(1);
    let (text, said) = (stdout(&failure), stderr(&failure));
    assert!(text.contains("file stays") && !text.contains("Written to"), "{text}");
    assert!(said.contains("cannot write") && said.contains(".before"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), own);
    fs::remove_dir(&beside).unwrap();
    for _ in 0..2 {
        let text = stdout(&tune(&arguments).success());
        assert!(text.contains("do this work alike: file stays"), "{text}");
        // What tune has written does not take its place.
        assert_eq!(fs::read_to_string(&beside).unwrap(), own);
    }
    let kept = fs::read_to_string(&file).unwrap();
    for line in ["width_max = 256", "rooms_closed = [\"avx2\"]", "wait_max = \"2ms\""] {
        assert!(kept.contains(line), "{line} is missing in {kept}");
    }
}

#[test]
fn a_record_of_another_machine_is_judged_without_the_file_of_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.toml");
    fs::write(&file, "wait_max = \"2ms\"\n").unwrap();
    let recorded = recording("tune-handshakes-zen5.json");
    let replay = ["--replay", &recorded, "--dry-run"];
    let of = |more: &[&str]| stdout(&tune(&[&replay[..], more].concat()).success());
    assert!(!of(&[]).contains("wait_max"));
    assert!(of(&["--file", path(&file)]).contains("wait_max = \"2ms\""));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none.toml");
    let refused = |arguments: &[&str], expected: &str| {
        let failure = tune(arguments).code(1);
        assert!(stderr(&failure).contains(expected), "{arguments:?}: {}", stderr(&failure));
    };
    refused(&["--check", "--file", path(&missing)], "no policy file to check");
    refused(&["--dry-run", "--workload", "idle"], "mixed, handshakes, bulk-mixed, packets");
    refused(&["--dry-run", "--workload", "Cargo.toml"], "a workload holds");
    refused(&["--replay", "Cargo.toml"], "is not what");
    refused(&["--file", "/proc/policy.toml"], "name another file with --file");
    let wrong = directory.path().join("wrong.toml");
    fs::write(&wrong, "width_max = 300\n").unwrap();
    refused(&["--check", "--file", path(&wrong)], "wrong.toml:1:13");
    refused(&["--file", path(&wrong)], "wrong.toml:1:13");
    assert_eq!(fs::read_to_string(&wrong).unwrap(), "width_max = 300\n", "it is left alone");
}

#[test]
fn a_record_whose_parts_do_not_fit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken.json");
    let recorded = fs::read_to_string(recording("tune-handshakes-zen5.json")).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&recorded).unwrap();
    let empty = || serde_json::json!([]);
    for (place, value, expected) in [
        ("/record/candidates", empty(), "no candidates"),
        ("/record/candidates/0/names", empty(), "no name"),
        ("/record/candidates/0/rooms", empty(), "each kind of work"),
        ("/record/costs_us", empty(), "each kind of work"),
        ("/record/slices/0/candidate", 1000.into(), "candidate that there is not"),
    ] {
        let mut record = whole.clone();
        *record.pointer_mut(place).unwrap() = value;
        fs::write(&broken, record.to_string()).unwrap();
        let failure = tune(&["--replay", path(&broken)]).code(1);
        let said = stderr(&failure);
        assert!(said.contains("cannot be judged") && said.contains(expected), "{place}: {said}");
    }
}
