//! `widelane power` from outside: answers from recordings, models, and what cannot be had.

use std::path::PathBuf;

use assert_cmd::assert::Assert;
use assert_cmd::prelude::*;

use crate::common::support::{stderr, stdout};
use crate::common::widelane;

fn power(arguments: &[&str]) -> Assert {
    widelane().arg("power").args(arguments).assert()
}

fn recording(name: &str) -> String {
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/meter/tests/recordings");
    PathBuf::from(recordings).join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_map_is_judged_again_from_its_recording() {
    let recording = recording("map-zen5-busy.csv");
    let text = stdout(&power(&["map", "--replay", &recording]).success());
    for expected in ["nothing to do", "vpmadd52luq-512", "free", "not applicable: no avx512fp16"] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    let json = stdout(&power(&["map", "--replay", &recording, "--json"]).success());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["advice"]["advice"], "nothing-to-do");
    assert_eq!(json["findings"][0]["subject"], "scalar");
    assert_eq!(json["findings"][0]["verdict"]["verdict"], "free");
}

#[test]
fn what_was_found_is_kept_for_reports() {
    let directory = tempfile::tempdir().unwrap();
    for (question, name, told, drawn) in [
        ("map", "map-zen5-busy.csv", "Licence map, 1 CPU", "class=\"mark"),
        (
            "transitions",
            "transitions-zen5-busy.csv",
            "Transitions: pace",
            "<polyline class=\"ours0",
        ),
        ("speculation", "speculation-zen5-busy.csv", "Speculation", "class=\"mark"),
    ] {
        let kept = directory.path().join(name).with_extension("json");
        let kept = kept.to_str().unwrap();
        let answer =
            stdout(&power(&[question, "--replay", &recording(name), "--results", kept]).success());
        let report = |format: &str| {
            let mut command = widelane();
            stdout(&command.args(["report", kept, "--format", format]).assert().success())
        };
        let text = report("terminal");
        assert!(text.contains(told), "{told} is missing in:\n{text}");
        // Both begin with the same answer, wherever its lines end.
        let words = |text: &str| text.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&text), words(&answer));
        assert!(report("html").contains(drawn), "{question}");
        assert!(report("csv").contains("power/"), "{question}");
    }
}

#[test]
fn a_plot_keeps_its_lines() {
    let recording = recording("transitions-zen5-busy.csv");
    let text = stdout(&power(&["transitions", "--replay", &recording]).success());
    assert!(text.contains("no transition"), "{text}");
    assert!(text.lines().filter(|line| line.contains('│')).count() >= 20, "{text}");
}

#[test]
fn a_recording_of_something_else_is_refused() {
    let failure = power(&["duty", "--replay", &recording("map-zen5-busy.csv")]).code(1);
    assert!(stderr(&failure).contains("widelane power map --replay"), "{}", stderr(&failure));
    let failure = power(&["map", "--replay", "Cargo.toml"]).code(1);
    assert!(stderr(&failure).contains("no recording"), "{}", stderr(&failure));
}

#[test]
fn unknown_names_are_told_what_there_is() {
    let failure = power(&["map", "--only", "vaesenc-1024"]).code(1);
    assert!(stderr(&failure).contains("vaesenc-512"), "{}", stderr(&failure));
    let failure = power(&["model", "--cpu", "Pentium"]).code(1);
    assert!(stderr(&failure).contains("Xeon Silver 4116"), "{}", stderr(&failure));
    let failure = power(&["watch", "--cpu", "1000"]).code(1);
    assert!(stderr(&failure).contains("it may use"), "{}", stderr(&failure));
}

#[test]
fn a_model_predicts_or_says_what_was_not_published() {
    let arguments = ["model", "--cpu", "Xeon Platinum 8380", "--ambient-mhz", "2900"];
    let text = stdout(&power(&arguments).success());
    assert!(text.contains("ifma512") && text.contains("Requests/s"), "{text}");
    let text = stdout(&power(&["model", "--cpu", "Xeon Platinum 8280", "--cores", "28"]).success());
    assert!(text.contains("3300") && text.contains("2400"), "{text}");
    let text = stdout(&power(&["model", "--cpu", "Xeon Platinum 8180"]).success());
    assert!(text.contains("not everything") && text.contains("licence level 2"), "{text}");
    let text = stdout(&power(&["model", "--cpu", "Xeon 6980P"]).success());
    assert!(text.contains("nothing can be predicted"), "{text}");
}
