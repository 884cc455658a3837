//! The program from outside: flags, exit statuses, error texts, what `cpu` and `top` print.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use assert_cmd::assert::Assert;
use assert_cmd::prelude::*;
use tempfile::TempDir;

use crate::support::{file, path, stderr, stdout};
use crate::widelane as command;

/// A text without its line ends, which stand wherever lines are full.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn widelane(arguments: &[&str]) -> Assert {
    command().args(arguments).assert()
}

#[test]
fn a_wrong_command_line_has_its_own_status() {
    for (arguments, expected) in [
        (&["no-such-command"][..], "no-such-command"),
        (&["cpu", "--no-such-flag"], "--no-such-flag"),
        (&["run"], "<CMD>"),
        (&[], "Usage"),
    ] {
        let failure = widelane(arguments).code(2);
        assert!(stderr(&failure).contains(expected), "{arguments:?}: {}", stderr(&failure));
    }
}

#[test]
fn help_and_version_are_no_failures() {
    assert!(stdout(&widelane(&["--version"]).success()).starts_with("widelane 0."));
    let help = stdout(&widelane(&["help"]).success());
    for part in ["Exit status", "127", "126", "Start with: widelane cpu;"] {
        assert!(help.contains(part), "{part} is missing in:\n{help}");
    }
}

#[test]
fn cpu_tells_every_room_and_who_decided() {
    let text = stdout(&widelane(&["cpu"]).success());
    for expected in ["portable", "ifma256", "ifma512", "512-heavy", "Set by", "Kernel"] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "colour where there is no terminal:\n{text}");
}

#[test]
fn cpu_speaks_json() {
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&widelane(&["cpu", "--json"]).success())).unwrap();
    assert_eq!(json["rooms"][0]["room"], "portable");
    assert_eq!(json["rooms"][0]["open"], true);
    assert_eq!(json["rooms"][2]["licence_class"], "512-heavy");
    assert!(json["machine"]["vendor"].is_string());
    assert_eq!(json["servers"].as_array().unwrap().len(), 2);
    assert!(json["lane_mistakes"].as_array().unwrap().is_empty());
    let families = json["batched"].as_array().unwrap();
    assert_eq!((families.len(), &families[0]["family"]), (5, &"RSA".into()));
    assert!(families.iter().all(|it| it["room"].is_string() || it["room"].is_null()));
}

#[test]
fn servers_are_programs_in_the_path_and_nowhere_else() {
    let directory = TempDir::new().unwrap();
    let file = file(&directory, "nginx", "#!/bin/sh\n");
    let found = |path: Option<&Path>, mode: u32| {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let mut command = command();
        command.args(["cpu", "--json"]).current_dir(directory.path()).env_remove("PATH");
        let shown = command.envs(path.map(|path| ("PATH", path))).assert().success();
        let json: serde_json::Value = serde_json::from_str(&stdout(&shown)).unwrap();
        json["servers"][0]["path"].as_str().map(PathBuf::from)
    };
    assert_eq!(found(Some(directory.path()), 0o755).as_ref(), Some(&file));
    assert_ne!(found(Some(directory.path()), 0o644).as_ref(), Some(&file), "it has no x bit");
    assert_ne!(found(None, 0o755).as_deref(), Some(Path::new("nginx")), "of this directory");
}

#[test]
fn a_narrow_policy_closes_rooms_and_is_named() {
    let narrow = command().arg("cpu").env("WIDELANE_MAX_SIMD_BITWIDTH", "128").assert().success();
    let text = stdout(&narrow);
    assert!(text.starts_with("Public-key operations run one at a time here"), "{text}");
    let answer = text.lines().take(2).collect::<Vec<_>>().join(" ");
    assert!(answer.contains("What Widelane saves is the work around them"), "{text}");
    assert!(text.contains("WIDELANE_MAX_SIMD_BITWIDTH=128"), "{text}");
}

#[test]
fn a_wrong_bitwidth_is_told_what_is_allowed() {
    let failure = command().arg("cpu").env("WIDELANE_MAX_SIMD_BITWIDTH", "300").assert().code(1);
    let text = stderr(&failure);
    assert!(text.starts_with("widelane: WIDELANE_MAX_SIMD_BITWIDTH is \"300\""), "{text}");
    assert!(text.contains("128, 256 or 512"), "{text}");
}

#[test]
fn a_wrong_wait_is_told_what_a_time_is() {
    let allowed = "the longest wait is a time up to 10ms such as 0.5ms or 200us, 0 for none";
    for subcommand in ["run", "enable"] {
        let arguments = [subcommand, "--wait-max", "soon", "--", "nginx"];
        let text = stderr(&command().args(arguments).assert().code(2));
        assert!(text.contains(allowed) && text.contains("\"soon\""), "{text}");
    }
    let failure = command().arg("cpu").env("WIDELANE_WAIT_MAX", "11ms").assert().code(1);
    let text = stderr(&failure);
    assert!(text.starts_with(&format!("widelane: WIDELANE_WAIT_MAX: {allowed}")), "{text}");
    let policy = stdout(&command().arg("cpu").env("WIDELANE_WAIT_MAX", "200us").assert().success());
    assert!(policy.contains("waits up to 0.2ms"), "{policy}");
}

#[test]
fn a_wrong_choice_of_combining_is_told_what_there_is() {
    for subcommand in ["run", "enable"] {
        let arguments = [subcommand, "--combine", "yes", "--", "nginx"];
        let text = stderr(&command().args(arguments).assert().code(2));
        assert!(text.contains("combining is on, off or auto, not \"yes\""), "{text}");
    }
    let failure = command().arg("cpu").env("WIDELANE_COMBINE", "1").assert().code(1);
    let text = stderr(&failure);
    assert!(text.starts_with("widelane: WIDELANE_COMBINE: combining is on, off or auto"), "{text}");
    let policy = stdout(&command().arg("cpu").env("WIDELANE_COMBINE", "off").assert().success());
    assert!(policy.contains("combining off"), "{policy}");
}

#[test]
fn wrong_lane_cpus_are_told_what_a_list_is() {
    let allowed = "lane CPUs are a list such as 3 or 2,4-7, or none";
    for subcommand in ["run", "enable"] {
        for wrong in ["", "last", "3-1"] {
            let arguments = [subcommand, "--lane-cpus", wrong, "--", "nginx"];
            let text = stderr(&command().args(arguments).assert().code(2));
            assert!(text.contains(&format!("{allowed}, not {wrong:?}")), "{text}");
        }
    }
    let failure = command().arg("cpu").env("WIDELANE_LANE_CPUS", "x").assert().code(1);
    let text = stderr(&failure);
    assert!(text.starts_with(&format!("widelane: WIDELANE_LANE_CPUS: {allowed}")), "{text}");
    let policy = stdout(&command().arg("cpu").env("WIDELANE_LANE_CPUS", "1,0").assert().success());
    assert!(policy.contains("lane CPUs 0-1"), "{policy}");
}

#[test]
fn a_wrong_engine_is_told_which_there_are() {
    for subcommand in ["run", "enable"] {
        let arguments = [subcommand, "--engine", "card", "--", "nginx"];
        let text = stderr(&command().args(arguments).assert().code(2));
        assert!(text.contains("an engine is cpu, qat or qat-first, not \"card\""), "{text}");
    }
    let failure = command().arg("cpu").env("WIDELANE_ENGINE", "x").assert().code(1);
    let text = stderr(&failure);
    assert!(text.starts_with("widelane: WIDELANE_ENGINE: an engine is cpu, qat"), "{text}");
    let policy = stdout(&command().arg("cpu").env("WIDELANE_ENGINE", "qat").assert().success());
    assert!(policy.contains("engine qat"), "{policy}");
}

#[test]
fn a_wrong_lane_user_is_told_what_a_name_is() {
    for subcommand in ["run", "enable"] {
        let arguments = [subcommand, "--lane-user", "a b", "--", "nginx"];
        let text = stderr(&command().args(arguments).assert().code(2));
        assert!(text.contains("a name such as widelane, not \"a b\""), "{text}");
    }
    let failure = command().arg("cpu").env("WIDELANE_LANE_USER", "a:b").assert().code(1);
    assert!(stderr(&failure).starts_with("widelane: WIDELANE_LANE_USER: the user"));
}

#[test]
fn a_wrong_width_of_the_lane_process_is_told_which_there_are() {
    for subcommand in ["run", "enable"] {
        let arguments = [subcommand, "--lane-max-simd-bitwidth", "64", "--", "nginx"];
        let text = stderr(&command().args(arguments).assert().code(2));
        assert!(text.contains("[possible values: 128, 256, 512]"), "{text}");
    }
    let variable = "WIDELANE_LANE_MAX_SIMD_BITWIDTH";
    let failure = command().arg("cpu").env(variable, "64").assert().code(1);
    let allowed = "is \"64\": set it to 128, 256 or 512, or unset it\n";
    assert_eq!(stderr(&failure), format!("widelane: {variable} {allowed}"));
    let mut command = command();
    command.arg("cpu").env(variable, "128").env("WIDELANE_LANE_CPUS", "0");
    let policy = words(&stdout(&command.assert().success()));
    assert!(policy.contains("the lane process has registers up to 128 bits"), "{policy}");
}

#[test]
fn auto_is_a_policy_and_no_file() {
    let policy = stdout(&command().arg("cpu").env("WIDELANE_POLICY", "auto").assert().success());
    assert!(policy.contains("chooses auto") && policy.contains("WIDELANE_POLICY=auto"), "{policy}");
}

#[test]
fn what_is_wrong_in_a_variable_is_said_once() {
    for (variable, value) in [("WIDELANE_WAIT_MAX", "99ms"), ("WIDELANE_ENGINE", "foo")] {
        let text = stderr(&command().arg("cpu").env(variable, value).assert().code(1));
        assert_eq!(text.matches(value).count(), 1, "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn a_policy_that_is_no_file_of_text_is_refused_with_what_named_it() {
    let directory = TempDir::new().unwrap();
    let binary = directory.path().join("binary");
    fs::write(&binary, [0xff]).unwrap();
    for (policy, expected) in [
        (Path::new("/nope"), "there is no policy file /nope"),
        (directory.path(), " is a directory, not a policy file"),
        (&binary, " is not text (UTF-8), so no policy file"),
    ] {
        let text = stderr(&widelane(&["run", "--policy", path(policy), "--", "true"]).code(1));
        assert!(text.ends_with(&format!("{expected}; correct --policy\n")), "{text}");
        let failure = command().arg("cpu").env("WIDELANE_POLICY", policy).assert().code(1);
        let remedy = "; correct WIDELANE_POLICY or unset it\n";
        assert!(stderr(&failure).ends_with(&format!("{expected}{remedy}")), "{failure}");
    }
}

#[test]
fn a_lane_process_that_the_machine_cannot_have_is_told() {
    let directory = TempDir::new().unwrap();
    let of = "[lane_process]\nwidth_max = 256\n";
    for (text, mistakes) in [
        (
            "lane_cpus = \"8191\"\nlane_user = \"nosuch\"\n",
            &["there is no CPU 8191 to set aside", "there is no user nosuch"][..],
        ),
        ("lane_user = \"root\"\n", &["there is no lane process that could run as root"]),
        ("", &[]),
    ] {
        let policy = file(&directory, "policy.toml", &format!("{text}{of}"));
        let show = |arguments: &[&str]| {
            let shown = command().args(arguments).env("WIDELANE_POLICY", &policy).assert();
            stdout(&shown.success())
        };
        let shown = words(&show(&["cpu"]));
        assert_eq!(shown.matches("Mistake").count(), mistakes.len(), "{shown}");
        assert_eq!(shown.contains("the lane process has"), text.contains("cpus"), "{shown}");
        let json: serde_json::Value = serde_json::from_str(&show(&["cpu", "--json"])).unwrap();
        for (said, expected) in json["lane_mistakes"].as_array().unwrap().iter().zip(mistakes) {
            assert!(said.as_str().unwrap().starts_with(expected), "{said}");
        }
    }
}

#[test]
fn a_negative_value_is_told_what_is_allowed() {
    for (arguments, expected) in [
        (&["top", "--interval", "-1"][..], "seconds between 0.05 and 600"),
        (&["run", "--wait-max", "-1ms", "--", "true"], "a time up to 10ms"),
        (&["exporter", "--once", "--listen", "[::1]:1"], "cannot be used with"),
        (&["status", "--root", "/", "--counters-dir", "/"], "cannot be used with"),
        (&["off", "--for", "-1m"], "is no time in us, ms, s, m or h, such as"),
    ] {
        let text = stderr(&widelane(arguments).code(2));
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_program_without_dashes_before_it_is_told_where_they_go() {
    let text = stderr(&widelane(&["run", "--pq", "nginx", "-g", "daemon off;"]).code(2));
    let tip = "put -- before the program: widelane run --pq -- nginx -g 'daemon off;'";
    assert!(text.contains(tip), "{text}");
}

#[test]
fn what_cannot_be_executed_is_told_in_one_line() {
    let text = stderr(&widelane(&["run", "--", "/etc/passwd"]).code(126));
    assert!(text.starts_with("widelane: cannot execute /etc/passwd"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = stderr(&widelane(&["run", "--", "no-such-program"]).code(127));
    assert!(text.contains("there is no program no-such-program"), "{text}");
}

#[test]
fn directories_that_are_named_must_exist() {
    for arguments in [
        &["top", "--once", "--counters-dir"][..],
        &["exporter", "--once", "--counters-dir"],
        &["status", "--counters-dir"],
        &["off", "--counters-dir"],
        &["on", "nginx", "--counters-dir"],
        &["gain", "--counters-dir"],
        &["status", "--root"],
        &["enable", "nginx", "--root"],
        &["disable", "nginx", "--root"],
    ] {
        let failure = widelane(&[arguments, &["/nonexistent"]].concat()).code(1);
        assert_eq!(stderr(&failure), "widelane: there is no directory /nonexistent\n");
    }
}

#[test]
fn the_exporter_waits_for_its_directory_and_says_so() {
    let arguments = ["exporter", "--listen", "127.0.0.1:0", "--counters-dir", "/nonexistent"];
    let mut exporter = command().args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(exporter.stderr.take().unwrap()).lines();
    let said: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    exporter.kill().unwrap();
    exporter.wait().unwrap();
    let expected = "widelane: there is no directory /nonexistent yet;";
    assert!(said[0].contains("/metrics") && said[1].starts_with(expected), "{said:?}");
}

#[test]
fn an_address_to_listen_at_has_a_port() {
    let text = stderr(&widelane(&["exporter", "--listen", "foo"]).code(2));
    assert!(text.contains("expected ADDRESS:PORT, such as 127.0.0.1:9847"), "{text}");
}

#[test]
fn a_malformed_policy_is_named_with_file_and_line() {
    let directory = TempDir::new().unwrap();
    let policy =
        file(&directory, "policy.toml", "width_max = 512\nrooms_closed = [\"ifma1024\"]\n");
    let failure = command().arg("cpu").env("WIDELANE_POLICY", &policy).assert().code(1);
    let text = stderr(&failure);
    assert!(text.contains("policy.toml:2:17"), "{text}");
    assert!(text.contains("the rooms are portable, ifma256, ifma512"), "{text}");
}

#[test]
fn top_and_the_exporter_speak_where_nobody_is_accelerated() {
    let directory = TempDir::new().unwrap();
    let place = path(directory.path());
    let json: serde_json::Value = serde_json::from_str(&stdout(
        &widelane(&["top", "--json", "--interval", "0.1", "--counters-dir", place]).success(),
    ))
    .unwrap();
    assert_eq!((json["processes"].as_array().unwrap().len(), json["ended"].as_u64()), (0, Some(0)));
    let once = ["top", "--once", "--interval", "0.1", "--counters-dir", place];
    assert!(stdout(&widelane(&once).success()).contains("widelane run"));

    file(&directory, "1.counters", "planted");
    let json = stdout(
        &widelane(&["top", "--json", "--interval", "0.1", "--counters-dir", place]).success(),
    );
    assert!(json.contains("1.counters") && json.contains("7 bytes instead of"), "{json}");
    let metrics = stdout(&widelane(&["exporter", "--once", "--counters-dir", place]).success());
    assert!(metrics.contains("widelane_files_skipped 1\n"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"));
}
