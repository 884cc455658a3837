//! `widelane power` from outside: answers from recordings, models, and what cannot be had.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

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
        // Nothing in these recordings tells their day, which is not that of the replay.
        let results = std::fs::read_to_string(kept).unwrap();
        assert!(results.contains("\"created\": \"\""), "{results}");
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
fn a_recording_is_not_replaced_by_results() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("transitions.csv");
    std::fs::copy(recording("transitions-zen5-busy.csv"), &copy).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&copy, &link).unwrap();
    let before = std::fs::read(&copy).unwrap();
    for target in [&copy, &link] {
        let (copy, target) = (copy.to_str().unwrap(), target.to_str().unwrap());
        let failure = power(&["transitions", "--replay", copy, "--results", target]).code(1);
        assert!(stderr(&failure).contains("name another file"), "{}", stderr(&failure));
    }
    assert_eq!(std::fs::read(&copy).unwrap(), before);
}

#[test]
fn flags_that_a_replay_would_ignore_are_refused() {
    let file = "--replay=recording.csv";
    for arguments in [
        &["map", file, "--only", "scalar"][..],
        &["map", file, "--one-core"],
        &["map", file, "--rounds", "6"],
        &["transitions", file, "--subject", "vaesenc-512"],
        &["transitions", file, "--trials", "99"],
        &["duty", file, "--subject", "vaesenc-512"],
        &["duty", file, "--rounds", "6"],
        &["sibling", file, "--rounds", "6"],
        &["speculation", file, "--rounds", "6"],
    ] {
        let failure = power(arguments).code(2);
        assert!(stderr(&failure).contains("cannot be used with"), "{}", stderr(&failure));
    }
}

#[test]
fn the_control_has_no_transition() {
    let failure = power(&["transitions", "--subject", "scalar"]).code(1);
    assert!(stderr(&failure).contains("name another subject"), "{}", stderr(&failure));
}

#[test]
fn a_map_tells_its_cpu_and_its_sources_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("map.csv");
    let recorded = std::fs::read_to_string(recording("map-zen5-busy.csv")).unwrap();
    let source = r#"{"source":"msr","reads":"APERF over MPERF","mhz":null,"reason":"no root"}"#;
    let (first, rest) = recorded.split_once('\n').unwrap();
    let facts = format!("# source:msr={source}\n# not_on_all=CPU 7: no quiet moment\n# cpu=3");
    std::fs::write(&file, format!("{first}\n{facts}\n{rest}")).unwrap();
    let file = file.to_str().unwrap();
    let json = stdout(&power(&["map", "--replay", file, "--json"]).success());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sources"][0]["reason"], "no root");
    assert_eq!(json["cpu"], 3);
    assert_eq!(json["not_on_all"], "CPU 7: no quiet moment");
    assert!(json["model"].as_str().unwrap().contains("EPYC"), "{}", json["model"]);
    let text = stdout(&power(&["map", "--replay", file]).success());
    assert!(text.contains("Sources") && text.contains("no root"), "{text}");
    assert!(text.contains("Measured on CPU 3."), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("nothing was measured: CPU 7: no quiet moment."), "{text}");
}

#[test]
fn a_watch_ends_with_its_process_and_keeps_what_it_saw() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("watch.json");
    let mut watched =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = watched.id().to_string();
    let mut watch = widelane()
        .args(["power", "watch", "--pid", &pid, "--results", kept.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("  CPU ")), "no look at the process");
    drop(watched.stdin.take());
    watched.wait().unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(watch.wait().unwrap().success(), "{rest:?}");
    assert_eq!(rest.last(), Some(&format!("process {pid} has ended")), "{rest:?}");
    assert!(kept.exists());
    let failure = power(&["watch", "--pid", &pid]).code(1);
    assert!(stderr(&failure).contains("there is no process"), "{}", stderr(&failure));
}

#[test]
fn a_plot_keeps_its_lines() {
    let recording = recording("transitions-zen5-busy.csv");
    let text = stdout(&power(&["transitions", "--replay", &recording]).success());
    assert!(text.contains("no transition"), "{text}");
    assert!(text.lines().filter(|line| line.contains('│')).count() >= 20, "{text}");
}

#[test]
fn too_few_trials_are_an_answer_and_leave_results() {
    let directory = tempfile::tempdir().unwrap();
    let [few, kept] = ["few.csv", "kept.json"].map(|name| directory.path().join(name));
    let recorded = std::fs::read_to_string(recording("transitions-zen5-busy.csv")).unwrap();
    let round = |line: &str| line.split(',').nth(1)?.parse::<u32>().ok();
    let is_early = |line: &&str| round(line).is_none_or(|round| round < 3);
    let lines: Vec<&str> = recorded.lines().filter(is_early).collect();
    std::fs::write(&few, lines.join("\n")).unwrap();
    let [few, kept] = [&few, &kept].map(|path| path.to_str().unwrap());
    let text = stdout(&power(&["transitions", "--replay", few, "--results", kept]).code(3));
    assert!(text.starts_with("Cannot tell: fewer than six trials"), "{text}");
    assert!(std::fs::read_to_string(kept).unwrap().contains("Cannot tell"));
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
    let failure = power(&["model", "--cpu", "Xeon Platinum 8280", "--cores", "29"]).code(1);
    assert!(stderr(&failure).contains("has 28 cores, not 29"), "{}", stderr(&failure));
    for clock in ["-5", "nan", "0"] {
        let clock = format!("--ambient-mhz={clock}");
        let failure = power(&["model", "--cpu", "Xeon Platinum 8380", &clock]).code(2);
        assert!(stderr(&failure).contains("is not a clock"), "{}", stderr(&failure));
    }
    let json = stdout(&power(&["model", "--cpu", "Xeon Platinum 8280", "--json"]).success());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["cpu"], &json[0]["cores"]), (&"Xeon Platinum 8280".into(), &12.into()));
}
