//! The program from outside: flags, exit statuses, error texts, what `report` and `simulate` print.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use assert_cmd::assert::Assert;
use assert_cmd::prelude::*;
use tempfile::TempDir;
use widelane_results::{Results, Row};
use widelane_testkit::program;

use crate::common::support::{file, path, stderr, stdout};
use crate::common::widelane as command;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/sample.json");

fn widelane(arguments: &[&str]) -> Assert {
    command().args(arguments).assert()
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
        (&["compare", "--server-cores", "0"], "a number of cores"),
        (&["compare", "--pairs", "-1"], "1..=1000"),
        (&["load", "--rate", "-5", "localhost:443"], "no number above 0"),
        (&["load", "localhost"], "did you mean localhost:443?"),
        (&["load", "--duration", "5", "localhost:443"], "write a unit, such as 300us"),
        (&["simulate", "--rest", "200us"], "give --speed FILE, or --cost and --native-cost"),
        (&["simulate", "--rest", "200us", "--cost", "1us"], "--cost and --native-cost"),
        (&["simulate", "--rest", "5"], "write a unit, such as 300us"),
        (&["simulate", "--rest", "-5us"], "no time in us, ms"),
        (&["simulate", "--rest", "200us", "--cost", "fast", "--native-cost", "1us"], "no time"),
        (&["speed", "--jobs", "9"], "1..=8"),
        (&["power", "map", "--rounds", "5"], "6..=1000"),
        (&["speed", "--jobs", "2", "--size", "64"], "cannot be used with"),
        (&["speed", "rsa2048", "--cipher-compare"], "cannot be used with"),
        (&["speed", "--cipher-compare", "--rival", "x"], "cannot be used with"),
        (&["tune", "--replay", "x", "--rounds", "6"], "cannot be used with"),
        (&["tune", "--replay", "x", "--seconds", "1"], "cannot be used with"),
        (&["load", "--nats-credentials", "x", "localhost:443"], "--nats <URL>"),
        (&["load", "--nats-authorities", "x", "localhost:443"], "--nats <URL>"),
        (&["load", "--nats-certificate", "x:y", "localhost:443"], "--nats <URL>"),
        (
            &["simulate", "--rest", "1us", "--speed", "x", "--native-cost", "1us"],
            "cannot be used with",
        ),
        (
            &["simulate", "--rest", "1us", "--cost", "1us", "--operations", "x"],
            "cannot be used with",
        ),
        (&["compare", "--ciphers", "rc4"], "aes128-sha, aes128-sha-mac-first"),
    ] {
        let failure = widelane(arguments).code(2);
        assert!(stderr(&failure).contains(expected), "{arguments:?}: {}", stderr(&failure));
    }
}

#[test]
fn a_simulation_ends_before_its_clock_does() {
    let costs = ["simulate", "--rest", "1440m", "--cost", "1us", "--native-cost", "1us"];
    let long = [&costs[..], &["--load", "1", "--handshakes", "10000000"]].concat();
    let said = stderr(&widelane(&long).code(1));
    assert!(said.contains("more than 100 years"), "{said}");
}

#[test]
fn speed_leaves_nothing_out_without_a_word() {
    let lanes = widelane(&["speed", "x25519/derive", "aes-128-gcm", "--jobs", "1"]).code(1);
    assert!(stderr(&lanes).contains("--jobs counts public-key operations"), "{}", stderr(&lanes));
    let short = ["--pairs", "1", "--seconds", "0.005", "--against", "openssl"];
    let alone = [&["speed", "x25519/derive", "--room", "vaes512"], &short[..]].concat();
    let told = stdout(&widelane(&alone).success());
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("x25519/derive has none of the rooms asked for; it has "), "{told}");
}

#[test]
fn report_writes_what_the_name_of_the_file_says() {
    let directory = TempDir::new().unwrap();
    for (name, beginning) in [
        ("r.html", "<!doctype html>"),
        ("r.md", "**nginx spends"),
        ("r.csv", "scenario,subject,"),
        ("r.txt", "nginx spends"),
        ("R.HTML", "<!doctype html>"),
    ] {
        let output = directory.path().join(name);
        let quiet = widelane(&["report", SAMPLE, "-o", path(&output)]).success();
        assert_eq!(stdout(&quiet), "");
        let text = fs::read_to_string(&output).unwrap();
        assert!(text.starts_with(beginning), "{name}: {}", text.lines().next().unwrap());
    }
}

#[test]
fn reports_of_several_files_name_each() {
    for (format, heading) in
        [("terminal", format!("\n{SAMPLE}\n")), ("markdown", String::from("# "))]
    {
        let report = |files: &[&str]| {
            let arguments = [&["report", "--format", format][..], files].concat();
            stdout(&widelane(&arguments).success())
        };
        let [one, two] = [report(&[SAMPLE]), report(&[SAMPLE, SAMPLE])];
        assert!(!one.starts_with(&heading), "{one}");
        assert!(two.starts_with(&heading), "{two}");
        assert_eq!(two.matches("sample.json").count(), 2, "{two}");
    }
}

#[test]
fn csv_of_several_files_names_them_under_one_header() {
    let one = stdout(&widelane(&["report", SAMPLE, "--format", "csv"]).success());
    let two = stdout(&widelane(&["report", SAMPLE, SAMPLE, "--format", "csv"]).success());
    let (header, rows) = one.split_once('\n').unwrap();
    let rows: String = rows.lines().map(|row| format!("{SAMPLE},{row}\n")).collect();
    assert_eq!(two, format!("file,{header}\n{rows}{rows}"));
}

#[test]
fn report_refuses_what_it_cannot_show() {
    let directory = TempDir::new().unwrap();
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let other = sample.replace("widelane-results/1", "widelane-results/9");
    let later = sample.replace("\"status\": \"ok\"", "\"status\": \"of-tomorrow\"");
    let later = file(&directory, "later.json", &later);
    let truncated = file(&directory, "truncated.json", &sample[..sample.len() / 2]);
    let other = file(&directory, "other.json", &other);
    let text = file(&directory, "notes.txt", "handshakes: many");
    let absent = directory.path().join("absent.json");
    for (file, expected) in [
        (&truncated, "truncated"),
        (&other, "widelane-results/9"),
        (&later, "of a later version of widelane, or damaged: unknown variant `of-tomorrow`"),
        (&text, "not a results file"),
        (&absent, "No such file"),
    ] {
        let failure = widelane(&["report", path(file)]).code(1);
        let message = stderr(&failure);
        assert!(message.starts_with("widelane: cannot "), "{message}");
        assert!(message.contains(path(file)) && message.contains(expected), "{message}");
    }
    let empty = file(&directory, "empty.json", "\n");
    let message = stderr(&widelane(&["report", path(&empty)]).code(1));
    assert!(message.ends_with("empty.json: the file is empty\n"), "{message}");
    let failure = widelane(&["report", SAMPLE, SAMPLE, "--format", "html"]).code(1);
    assert!(stderr(&failure).contains("one results file"));
    for name in ["r.pdf", "r.json", "report"] {
        let output = directory.path().join(name);
        let said = stderr(&widelane(&["report", SAMPLE, "-o", path(&output)]).code(1));
        assert!(said.contains("does not end in .txt, .md, .csv or .html"), "{said}");
        assert!(!output.exists());
    }
}

#[test]
fn what_a_command_reads_it_does_not_replace() {
    let directory = TempDir::new().unwrap();
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let own = file(&directory, "own.json", &sample);
    let other_spelling = format!("{}/./own.json", path(directory.path()));
    for arguments in [
        &["report", path(&own), "--format", "markdown", "-o", path(&own)][..],
        &["report", path(&own), "--format", "csv", "--output", &other_spelling],
        &["compare", "--certificate", SAMPLE, "--private-key", path(&own), "--json", path(&own)],
        &["simulate", "--rest", "1us", "--speed", path(&own), "--json", path(&own)],
        &["acl", "bench", path(&own), "--json", path(&own)],
        &["acl", "build", path(&own), "--output", path(&own)],
        &["load", "localhost:1", "--authorities", path(&own), "--results", path(&own)],
        &["acl", "forward", "--rules-ipv4", "a", "--pcap", path(&own), "--watch-power", path(&own)],
        &["tune", "--workload", path(&own), "--dry-run", "--results", path(&own)],
        &["tune", "--file", "new.toml", "--dry-run", "--results", "./new.toml"],
        &[
            "load",
            "localhost:1",
            "--nats",
            "x",
            "--nats-credentials",
            "own.json",
            "--results",
            "own.json",
        ],
        &[
            "load",
            "localhost:1",
            "--nats",
            "x",
            "--nats-certificate",
            "c:own.json",
            "--results",
            "own.json",
        ],
    ] {
        let said = stderr(&command().current_dir(&directory).args(arguments).assert().code(1));
        assert!(said.contains("name another file to be written"), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_to_string(&own).unwrap(), sample);
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
fn a_simulation_of_one_thing_twice_is_refused() {
    let costs = ["simulate", "--rest", "1us", "--cost", "1us", "--native-cost", "1us"];
    for (flag, values) in [("--workers", "1,1"), ("--load", "30,30"), ("--wait", "0,0us")] {
        let said = stderr(&widelane(&[&costs[..], &[flag, values]].concat()).code(1));
        assert!(said.contains(&format!("{flag} names one twice")), "{said}");
    }
}

#[test]
fn a_worker_that_has_nobody_to_combine_with_is_refused() {
    let costs = ["simulate", "--rest", "1us", "--cost", "1us", "--native-cost", "1us"];
    let refused = [&costs[..], &["--combine", "on", "--workers", "1,4"]].concat();
    let said = stderr(&widelane(&refused).code(1));
    assert!(said.contains("--combine on takes two --workers or more"), "{said}");
}

#[test]
fn a_simulation_is_of_the_machine_whose_costs_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let [speed, kept] = ["speed.json", "kept.json"].map(|name| directory.path().join(name));
    let mut measured = Results { schema: "widelane-results/1".to_owned(), ..Results::default() };
    measured.machine.model = Some("Xeon of the other machine".to_owned());
    for jobs in 1..=8 {
        measured.rows.extend(["openssl", "widelane"].map(|subject| Row {
            scenario: format!("x25519/derive/{jobs}-jobs"),
            subject: subject.to_owned(),
            metric: "operations_per_second".to_owned(),
            unit: "1/s".to_owned(),
            value: Some(20_000.0),
            ..Row::default()
        }));
    }
    fs::write(&speed, serde_json::to_string(&measured).unwrap()).unwrap();
    let simulate = |more: &[&str]| {
        widelane(&[&["simulate", "--rest", "200us", "--handshakes", "1000"][..], more].concat())
    };
    let of_speed = ["--speed", path(&speed), "--operations", "x25519/derive", "--json"];
    simulate(&[&of_speed[..], &[path(&kept)]].concat()).success();
    let results = || Results::from_json(&fs::read_to_string(&kept).unwrap()).unwrap();
    assert_eq!(results().machine.model.as_deref(), Some("Xeon of the other machine"));
    assert!(results().notes.iter().any(|note| note.contains("incomplete")));
    let refused = simulate(&[&of_speed[..], &[path(&speed)]].concat()).code(1);
    assert!(stderr(&refused).contains("name another file"), "{}", stderr(&refused));
    simulate(&["--cost", "50us", "--native-cost", "50us", "--json", path(&kept)]).success();
    assert_eq!((results().machine.model, results().notes.len()), (None, 0));
}

#[test]
fn a_comparison_of_ciphers_without_a_size_for_them_is_none() {
    let failure = widelane(&["speed", "--cipher-compare", "--size", "20000"]).code(1);
    assert!(stderr(&failure).contains("at most 16384 bytes"), "{}", stderr(&failure));
}

#[test]
fn cores_that_leave_none_for_clients_are_refused() {
    let said = stderr(&widelane(&["compare", "--server-cores", "60000"]).code(2));
    let one_core = said.contains("a server and its clients take two cores at least");
    assert!(one_core || said.contains("60000 cores for the server leave none of "), "{said}");
    assert!(one_core || said.contains(" for the clients; give at most "), "{said}");
}

/// Nothing of this starts a server or a measurement.
#[test]
fn files_that_cannot_be_written_are_told_before_anything_is_measured() {
    let directory = TempDir::new().unwrap();
    let [occupied, missing] = ["occupied", "missing/x"].map(|name| directory.path().join(name));
    fs::create_dir(&occupied).unwrap();
    for (arguments, flag) in [
        (&["compare"][..], "--html"),
        (&["compare"], "--json"),
        (&["speed", "x25519"], "--json"),
        (&["speed", "x25519"], "--html"),
        (&["power", "map"], "--results"),
        (&["power", "map"], "--csv"),
        (&["power", "watch"], "--csv"),
        (&["tune", "--dry-run"], "--results"),
        (&["load", "localhost:1"], "--results"),
        (&["acl", "bench", "a.rules"], "--json"),
        (&["acl", "forward", "--rules-ipv4", "a", "--pcap", "a"], "--watch-power"),
        (&["simulate", "--rest", "1us", "--cost", "1us", "--native-cost", "1us"], "--html"),
    ] {
        for (target, why) in [(&occupied, "it is a directory"), (&missing, "there is no directory")]
        {
            let said = stderr(&widelane(&[arguments, &[flag, path(target)]].concat()).code(1));
            let start = format!("widelane: cannot write {}: {why}", path(target));
            assert!(said.starts_with(&start), "{arguments:?} {flag}: {said}");
            let advice = format!("; name another file by {flag}; nothing was done\n");
            assert!(said.ends_with(&advice), "{said}");
        }
    }
    let [one, same] = ["x", "./x"].map(|name| directory.path().join(name));
    for command in [&["compare"][..], &["speed", "x25519"]] {
        let twice = [command, &["--json", path(&one), "--html", path(&same)]].concat();
        let said = stderr(&widelane(&twice).code(1));
        assert!(said.starts_with("widelane: --json and --html name the same file"), "{said}");
    }
    // The report that nobody has asked for.
    let nowhere = directory.path().join("nowhere");
    fs::create_dir(&nowhere).unwrap();
    let mut unasked = command();
    unasked.current_dir(&nowhere).arg("compare");
    fs::create_dir(nowhere.join("widelane-report.html")).unwrap();
    assert!(stderr(&unasked.assert().code(1)).contains("name another file by --html"));
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    let directory = TempDir::new().unwrap();
    let null = directory.path().join("null");
    std::os::unix::fs::symlink("/dev/null", &null).unwrap();
    let costs = ["simulate", "--rest", "1us", "--cost", "1us", "--native-cost", "1us"];
    let short = ["--workers", "1", "--load", "10", "--handshakes", "100", "--html", path(&null)];
    widelane(&[&costs[..], &short].concat()).success();
    assert!(fs::symlink_metadata(&null).unwrap().is_symlink());
}

#[test]
fn what_compare_cannot_do_is_told_before_it_starts() {
    let directory = TempDir::new().unwrap();
    let html = directory.path().join("report.html");
    for (arguments, expected) in [
        (
            &["--certificate", "/nope", "--private-key", "/nope"][..],
            "widelane: cannot read --certificate /nope: no such file\n",
        ),
        (
            &["--certificate", SAMPLE, "--private-key", "/"],
            "widelane: cannot read --private-key /: it is a directory\n",
        ),
        (&["--certificate", SAMPLE, "--private-key", SAMPLE], "holds no certificate in PEM"),
    ] {
        let failure = widelane(&[&["compare", "--html", path(&html)], arguments].concat()).code(1);
        assert!(stderr(&failure).contains(expected), "{arguments:?}: {}", stderr(&failure));
    }
    // Of a machine with a device there would be nothing to tell.
    if widelane_host::qat::devices() == 0 {
        let failure = widelane(&["compare", "--html", path(&html), "--engine", "qat"]).code(1);
        assert!(stderr(&failure).starts_with("widelane: no device"), "{}", stderr(&failure));
    }
}

/// A server that is not there, or was built without what is asked for, is told in one line.
#[test]
fn servers_that_cannot_be_compared_are_told_before_others_are_measured() {
    let directory = TempDir::new().unwrap();
    let html = directory.path().join("report.html");
    let script = file(&directory, "script", "#!/bin/sh\necho HAProxy version 2.6.12-1 -QUIC\n");
    program::install(&script, &directory.path().join("haproxy"));
    let compare = |server: &str| {
        let mut command = command();
        command.env("PATH", directory.path()).args(["compare", "--html", path(&html)]);
        stderr(&command.args(["--server", server, "--http3"]).assert().code(1))
    };
    for (server, expected) in [
        ("node", "nodejs is not installed; install it"),
        ("embedded,node", "nodejs; or name the other servers alone by --server"),
        ("haproxy", "HAProxy 2.6.12 was built without QUIC"),
    ] {
        let said = compare(server);
        assert!(said.contains(expected) || said.contains("libwidelane"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
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
        (&["--workload", "handshake", "--sizes", "16M"], "add --workload bulk"),
        (&["--workload", "handshake", "--ciphers", "aes128-gcm"], "add --workload bulk"),
        (&["--workload", "mixed,handshake", "--latency-max", "2s"], "add --workload bulk"),
        (&["--workload", "bulk", "--load", "30"], "add --workload handshake"),
        (&["--load", "30", "--rtt", "1us"], "1ms to 500ms"),
        (&["--load", "30", "--rtt", "20ms", "--workload", "bulk"], "cannot be used with"),
        (&["--wait-max", "2ms", "--lane-cpus", "0"], "leave one of them out"),
        (&["--client-certificates", "--http3"], "cannot be used with"),
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

#[test]
fn certificates_of_clients_go_to_servers_that_demand_them() {
    for (arguments, expected) in [
        (&["--server", "embedded"][..], "embedded is not set up to demand certificates of clients"),
        (&["--server", "nginx,apache"], "nginx and haproxy are: name those by --server"),
        (&["--server", "nginx", "--workload", "handshake,bulk"], "is about handshakes"),
        (&["--server", "nginx", "--workload", "all"], "is about handshakes"),
    ] {
        let arguments = [&["compare", "--client-certificates"], arguments].concat();
        let said = stderr(&widelane(&arguments).code(1));
        assert!(said.contains(expected) || said.contains("libwidelane"), "{said}");
    }
}

#[test]
fn reports_on_a_terminal_hold_nothing_that_commands_it() {
    let directory = tempfile::tempdir().unwrap();
    let schema = "widelane-results/2".to_owned();
    let mut sample = Results { schema, ..Results::default() };
    sample.command = vec!["a\u{1b}]0;owned\u{7}".to_owned()];
    sample.rows.push(Row {
        scenario: "a\u{1b}]0;owned\u{7}".to_owned(),
        subject: "b\u{1b}[2J".to_owned(),
        metric: "c".to_owned(),
        unit: "1".to_owned(),
        value: Some(1.0),
        ..Row::default()
    });
    let sample = sample.to_json();
    let results = file(&directory, "results.json", &sample);
    for format in ["terminal", "markdown", "csv", "html"] {
        let command = format!(
            "{} report {} --format {format}",
            env!("CARGO_BIN_EXE_widelane-bench"),
            path(&results)
        );
        // A terminal of its own.
        let mut script = std::process::Command::new("script");
        script.args(["-q", "-e", "-c", &command, "/dev/null"]).env("NO_COLOR", "1");
        let shown = script.assert().success().get_output().stdout.clone();
        assert!(!shown.contains(&0x1b) && !shown.contains(&0x07), "{format}");
        assert!(shown.len() > 10, "{format}");
    }
    // A file gets what was written.
    let csv = widelane(&["report", path(&results), "--format", "csv"]).success();
    assert!(csv.get_output().stdout.contains(&0x1b));
}

/// `/dev/stdout` is such a link. Where it leads to a file, nothing takes the place of either.
#[test]
fn what_standard_output_goes_to_is_written_as_it_is() {
    let place = TempDir::new().unwrap();
    let (link, kept) = (place.path().join("stdout"), place.path().join("kept"));
    symlink("/proc/self/fd/1", &link).unwrap();
    let written = |stdout: File| {
        let mut command = command();
        command.args(["report", SAMPLE, "--format", "csv", "--output"]).arg(&link).stdout(stdout);
        assert!(command.status().unwrap().success());
    };
    let file = File::create(&kept).unwrap();
    written(file.try_clone().unwrap());
    written(file);
    assert!(link.is_symlink());
    let text = fs::read_to_string(&kept).unwrap();
    let first = text.lines().next().unwrap();
    assert_eq!(text.matches(first).count(), 2, "{text}");
}
