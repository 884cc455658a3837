//! `widelane acl`: what it prints, and what it refuses.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use assert_cmd::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use widelane_results::Results;

use crate::common::acl;

const RULES: &str = "\
# two that route, one that denies, one that nobody reaches
R10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x0/0x0 1
R10.1.0.0/16 0.0.0.0/0 0 : 65535 80 : 80 0x6/0xff 2
@0.0.0.0/0 192.168.0.0/16 0 : 65535 0 : 1023 0x11/0xff
";

const TRACE: &str = "\
10.1.2.3 1.2.3.4 1000 80 6
9.9.9.9 192.168.1.1 1000 53 17
9.9.9.9 192.168.1.1 1000 2000 17
";

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.rules"), RULES).unwrap();
    fs::write(directory.path().join("a.trace"), TRACE).unwrap();
    directory
}

#[test]
fn a_table_in_the_place_of_rules_is_named() {
    let directory = directory();
    acl(directory.path(), &["build", "a.rules", "-o", "a.table"]).assert().success();
    let failure = acl(directory.path(), &["check", "a.table"]).assert().code(1);
    let text = String::from_utf8_lossy(&failure.get_output().stderr).into_owned();
    assert!(text.contains("a.table is a table that was built of rules"), "{text}");
}

#[test]
fn check_lists_rules_that_others_hide() {
    let directory = directory();
    acl(directory.path(), &["check", "a.rules", "--conflicts", "9"]).assert().success().stdout(
        "a.rules: 3 rules, 1 shadowed, 0 redundant\n\
         a.rules:3: is never reached: it says something else than line 2\n\
         a.rules:4: is overruled where it overlaps line 2\n",
    );
}

#[test]
fn a_line_whose_choices_are_hidden_by_rules_of_both_kinds_never_decides() {
    let directory = directory();
    let listed = "table inet filter {\n\tchain forward {\n\t\ttype filter hook forward priority \
                  filter; policy accept;\n\t\ttcp dport 80 accept\n\t\ttcp dport 81 drop\n\t\ttcp \
                  dport { 80, 81 } accept\n\t}\n}\n";
    fs::write(directory.path().join("listed"), listed).unwrap();
    let told = acl(directory.path(), &["check", "listed"]).assert().success();
    told.stdout(
        "listed: 3 rules, 1 shadowed, 0 redundant\n\
         listed:6: is never reached: it says something else than line 5\n\
         listed:6: is superfluous: it says the same as line 4\n",
    );
}

#[test]
fn check_tells_lines_that_are_hidden_from_those_of_which_some_choices_are() {
    let directory = directory();
    let listed = "table inet filter {\n\tchain forward {\n\t\ttype filter hook forward priority \
                  filter; policy accept;\n\t\tip saddr 10.0.0.0/8 drop\n\t\tip saddr { \
                  10.1.0.0/16, 192.168.0.0/16, 10.2.0.0/16 } drop\n\t\tip saddr { 10.3.0.0/16, \
                  10.4.0.0/16 } tcp dport { 22, 80 } accept\n\t\tip daddr { 192.0.2.1, 192.0.2.7 \
                  } accept\n\t}\n}\n";
    fs::write(directory.path().join("listed"), listed).unwrap();
    let arguments = ["check", "listed", "--conflicts", "9", "--explain"];
    let told = acl(directory.path(), &arguments[..4]).assert().success();
    told.stdout(
        "listed: 4 rules, 1 shadowed, 0 redundant, 1 in part\n\
         listed:6: is never reached: it says something else than line 4\n\
         listed:5: is superfluous for some choices of its sets: it says the same as line 4\n\
         listed:7: is overruled where it overlaps line 4\n\
         listed:7: is overruled where it overlaps line 5\n",
    );
    let told = acl(directory.path(), &[&arguments[..], &["--json"]].concat()).assert().success();
    let told: serde_json::Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    assert_eq!(told["shadowed"], json!([{ "line": 6, "other_line": 4, "whole": true }]), "{told}");
    assert_eq!(told["redundant"], json!([{ "line": 5, "other_line": 4, "whole": false }]));
    let rules = told["explained"]["slow_rules"].as_array().unwrap();
    let mut lines: Vec<_> = rules.iter().map(|rule| rule["line"].as_u64().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, [4, 5, 6, 7], "each once: {told}");
}

#[test]
fn check_names_the_stronger_rule_by_its_priority() {
    let directory = directory();
    let rules = "source,destination,priority,result\n10.0.0.0/8,*,1,1\n*,192.0.2.0/24,2,2\n";
    fs::write(directory.path().join("a.csv"), rules).unwrap();
    acl(directory.path(), &["check", "a.csv", "--conflicts", "9"]).assert().success().stdout(
        "a.csv: 2 rules, 0 shadowed, 0 redundant\n\
         a.csv:2: is overruled where it overlaps line 3\n",
    );
}

#[test]
fn a_table_that_is_too_large_is_refused_by_the_option_that_allows_more() {
    let directory = directory();
    for command in ["check", "build"] {
        let arguments = [command, "a.rules", "--memory-max", "0"];
        let failure = acl(directory.path(), &arguments).assert().code(1);
        let text = String::from_utf8_lossy(&failure.get_output().stderr).into_owned();
        assert!(text.contains("than --memory-max allows"), "{text}");
    }
}

#[test]
fn check_explains_what_lookups_cost() {
    let directory = directory();
    let arguments = ["check", "a.rules", "--explain", "--trace", "a.trace"];
    let told = acl(directory.path(), &[&arguments[..], &["--json"]].concat()).assert().success();
    let told: serde_json::Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    let explained = &told["explained"];
    assert_eq!(explained["lookups"], 3, "{told}");
    let tree = &explained["trees"][0];
    assert_eq!((&tree["rules"], &tree["lists_by_chunks"]), (&3.into(), &json!([1])), "{told}");
    let each = [&tree["tables_per_lookup"], &tree["chunks_per_lookup"]];
    assert!(each.iter().all(|each| (each.as_f64().unwrap() - 1.0).abs() < 1e-9), "{told}");
    // The first rule decides one of three lookups, and all are compared with it.
    let rules = explained["slow_rules"].as_array().unwrap();
    let first = rules.iter().find(|rule| rule["line"] == 2).unwrap();
    let in_vain = first["compared_in_vain_per_lookup"].as_f64().unwrap();
    assert!((in_vain - 2.0 / 3.0).abs() < 1e-9, "{told}");
    let shown = acl(directory.path(), &arguments).assert().success();
    let shown = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    assert!(shown.contains("3 lookups") && shown.contains("Compared in vain"), "{shown}");
}

#[test]
fn a_table_and_its_rules_classify_alike() {
    let directory = directory();
    let built = acl(directory.path(), &["build", "a.rules", "-o", "a.table"]).assert().success();
    let text = String::from_utf8(built.get_output().stdout.clone()).unwrap();
    assert!(text.starts_with("3 rules in "), "{text}");
    let told = acl(directory.path(), &["build", "a.rules", "--json"]).assert().success();
    let told: serde_json::Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    assert_eq!((&told["rules"], &told["groups"][0]["tables"]), (&3.into(), &0.into()), "{told}");
    assert_eq!(told["groups"][0]["places_in_leaves"], 3, "of a chunk of eight: {told}");
    for rules in ["a.rules", "a.table"] {
        acl(directory.path(), &["classify", rules, "--trace", "a.trace"])
            .assert()
            .success()
            .stdout("1\n4026531840\n4294967295\n");
    }
    acl(directory.path(), &["classify", "a.table", "--trace", "a.trace", "--counts"])
        .assert()
        .success()
        .stdout("1\t1\n1\t4026531840\n1\t4294967295\n");
    let told = |arguments: &[&str]| -> serde_json::Value {
        let arguments = [&["classify", "a.table", "--trace", "a.trace", "--json"], arguments];
        let told = acl(directory.path(), &arguments.concat()).assert().success();
        serde_json::from_slice(&told.get_output().stdout).unwrap()
    };
    let results = [1, 4_026_531_840u32, 4_294_967_295];
    let packets = results.map(|result| json!({ "results": [result] }));
    assert_eq!(told(&[]), json!({ "packets": packets }));
    let counts = results.map(|result| json!({ "results": [result], "count": 1 }));
    assert_eq!(told(&["--counts"]), json!({ "counts": counts }));
}

#[test]
fn rules_and_tables_may_come_through_a_pipe() {
    let directory = directory();
    acl(directory.path(), &["build", "a.rules", "-o", "a.table"]).assert().success();
    for name in ["a.rules", "a.table"] {
        let bytes = fs::read(directory.path().join(name)).unwrap();
        let mut command = acl(directory.path(), &["classify", "/dev/stdin", "--trace", "a.trace"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"1\n4026531840\n4294967295\n", "{name}");
    }
}

#[test]
fn a_damaged_table_and_a_wrong_line_are_named() {
    let directory = directory();
    acl(directory.path(), &["build", "a.rules", "-o", "a.table"]).assert().success();
    let path = directory.path().join("a.table");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    acl(directory.path(), &["classify", "a.table", "--trace", "a.trace"])
        .assert()
        .failure()
        .stderr(
            "widelane: cannot use a.table\n  \
         because: the table's checksum is wrong: it is damaged; build it again\n",
        );
    fs::write(directory.path().join("b.rules"), "R10.0.0.0/8 0.0.0.0/99\n").unwrap();
    acl(directory.path(), &["check", "b.rules"])
        .assert()
        .failure()
        .stderr("widelane: b.rules:1:21: expected a prefix length, 0 to 32, found \"99\"\n");
}

#[test]
fn a_trace_of_the_other_version_is_refused() {
    let directory = directory();
    fs::write(directory.path().join("b.trace"), "::1 ::2 1 2 6\n").unwrap();
    acl(directory.path(), &["classify", "a.rules", "--trace", "b.trace"])
        .assert()
        .failure()
        .stderr("widelane: b.trace: flow 1 is IPv6, the rules are IPv4\n");
}

#[test]
fn a_saved_firewall_is_told_from_its_first_lines() {
    let directory = directory();
    let saved = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 10.0.0.0/8 -p tcp -j ACCEPT\nCOMMIT\n";
    fs::write(directory.path().join("saved"), saved).unwrap();
    let listed = "table inet filter {\n\tchain forward {\n\t\ttype filter hook forward priority \
                  filter; policy drop;\n\t\tip saddr { 10.0.0.0/8, 11.0.0.1 } tcp dport 1-80 \
                  accept\n\t}\n}\n";
    fs::write(directory.path().join("listed"), listed).unwrap();
    for rules in ["saved", "listed"] {
        acl(directory.path(), &["classify", rules, "--trace", "a.trace"])
            .assert()
            .success()
            .stdout("1\n0\n0\n");
    }
    fs::write(directory.path().join("listed"), listed.replace("tcp", "iif lo tcp")).unwrap();
    acl(directory.path(), &["check", "listed"]).assert().failure().stderr(
        "widelane: listed:4:37: expected ip, ip6, tcp, udp, th, meta l4proto, counter, accept, \
         drop or reject, found \"iif\"\n",
    );
}

#[test]
fn comments_may_be_in_any_encoding() {
    let directory = directory();
    let saved = b"# B\xfcro\n*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 10.0.0.0/8 -m comment \
                  --comment \"B\xfcro 1\" -j ACCEPT\nCOMMIT\n";
    fs::write(directory.path().join("latin"), saved).unwrap();
    acl(directory.path(), &["classify", "latin", "--trace", "a.trace"])
        .assert()
        .success()
        .stdout("1\n0\n0\n");
    fs::write(directory.path().join("b.rules"), b"R10.0.0.0/8 \xfc\n").unwrap();
    let refused = acl(directory.path(), &["check", "b.rules"]).assert().failure();
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("b.rules:1:13: expected"), "{said}");
}

#[test]
fn a_file_that_rules_nothing_is_refused() {
    let directory = directory();
    for (text, said) in [
        ("", "file holds no rules: it is empty, or has comments only"),
        ("\u{feff}# nothing\n\n", "file holds no rules: it is empty, or has comments only"),
        (
            "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n",
            "file:3:1: expected the chain FORWARD of the table filter, as iptables-save writes it, \
             found the end of the file",
        ),
        (
            "table ip t {\n}\n",
            "file:2:1: expected a filter chain at the hook forward, as nft list ruleset writes it, \
             found the end of the file",
        ),
    ] {
        fs::write(directory.path().join("file"), text).unwrap();
        let refused = acl(directory.path(), &["check", "file"]).assert().failure();
        refused.stderr(format!("widelane: {said}\n"));
    }
}

#[test]
fn what_is_read_is_not_overwritten() {
    let directory = directory();
    for arguments in [
        &["build", "a.rules", "-o", "a.rules"][..],
        &["bench", "a.rules", "--alone", "--json", "a.rules"],
        &["bench", "a.rules", "--alone", "--trace", "a.trace", "--json", "a.trace"],
        &["forward", "--rules-ipv4", "a.rules", "--pcap", "a.trace", "--watch-power", "a.trace"],
        &["forward", "--rules-ipv4", "a.rules", "--pcap", "a.trace", "--watch-power", "a.rules"],
    ] {
        let refused = acl(directory.path(), arguments).assert().code(1);
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        let name = arguments.last().unwrap();
        let expected =
            format!("widelane: another argument names {name} as well: name another file");
        assert!(said.starts_with(&expected), "{said}");
    }
    assert_eq!(fs::read_to_string(directory.path().join("a.rules")).unwrap(), RULES);
    assert_eq!(fs::read_to_string(directory.path().join("a.trace")).unwrap(), TRACE);
    let refused = acl(directory.path(), &["build", "a.rules", "-o", "no/a.table"]).assert().code(1);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        said.contains("there is no directory no; name another file by --output; nothing was done"),
        "{said}"
    );
}

#[test]
fn a_format_is_recognised_or_asked_for() {
    let directory = directory();
    fs::write(directory.path().join("values"), "source,result\n*,7\n").unwrap();
    acl(directory.path(), &["classify", "values", "--trace", "a.trace"])
        .assert()
        .success()
        .stdout("7\n7\n7\n");
    fs::write(directory.path().join("listed"), "{ \"nftables\": [] }\n").unwrap();
    acl(directory.path(), &["check", "listed"])
        .assert()
        .failure()
        .stderr("widelane: listed has no format that is recognised; --format names it\n");
}

/// Three rules of one category each, of which the first two are for the same packets.
const CATEGORIES: &str = "\
source,result,categories
10.0.0.0/8,1,0
10.0.0.0/8,2,1
*,3,0 1 2
";

#[test]
fn sets_of_several_categories_are_measured_whole() {
    let directory = directory();
    fs::write(directory.path().join("a.csv"), CATEGORIES).unwrap();
    let arguments = ["check", "a.csv", "--explain", "--trace", "a.trace", "--json"];
    let told = acl(directory.path(), &arguments).assert().success();
    let told: serde_json::Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    let rules = told["explained"]["slow_rules"].as_array().unwrap();
    let vain = |line: u32| {
        let rule = rules.iter().find(|rule| rule["line"] == line).unwrap();
        rule["compared_in_vain_per_lookup"].as_f64().unwrap()
    };
    // The last decides a category of every packet, the others two of the one from 10.0.0.0/8.
    assert!(vain(2) < 0.7 && vain(3) < 0.7 && vain(4) == 0.0, "{told}");
    let arguments = ["bench", "a.csv", "--updates", "100", "--rounds", "1", "--flows", "16"];
    acl(directory.path(), &arguments).assert().success();
}

#[test]
fn bench_names_what_is_wrong_with_a_trace() {
    let directory = directory();
    for (trace, wanted) in [
        ("", "b.trace has no flows"),
        (&format!("{TRACE}::1 ::2 1 2 6\n"), "b.trace: flow 4 is IPv6, the rules are IPv4"),
    ] {
        fs::write(directory.path().join("b.trace"), trace).unwrap();
        acl(directory.path(), &["bench", "a.rules", "--alone", "--trace", "b.trace"])
            .assert()
            .failure()
            .stderr(format!("widelane: {wanted}\n"));
    }
}

#[test]
fn bench_measures_every_room_without_a_rival() {
    let directory = directory();
    let arguments =
        ["bench", "a.rules", "--alone", "--rounds", "1", "--flows", "64", "--json", "r.json"];
    let measured = acl(directory.path(), &arguments).assert().success();
    let text = String::from_utf8(measured.get_output().stdout.clone()).unwrap();
    assert!(["portable", "avx2", "avx512"].iter().all(|room| text.contains(room)), "{text}");
    let json = fs::read_to_string(directory.path().join("r.json")).unwrap();
    assert!(json.contains("\"acl/a/burst32\"") && json.contains("cycles_per_lookup"), "{json}");
}

#[test]
fn bench_refuses_a_cpu_that_no_system_has() {
    let directory = directory();
    let arguments = ["bench", "a.rules", "--alone", "--cpu", "1024"];
    let refused = acl(directory.path(), &arguments).assert().code(1);
    let said = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(said.contains("may not run on CPU 1024"), "{said}");
}

#[test]
fn bench_refuses_rule_files_of_one_name() {
    let directory = directory();
    fs::create_dir(directory.path().join("other")).unwrap();
    fs::copy(directory.path().join("a.rules"), directory.path().join("other/a.rules")).unwrap();
    for more in [&["--alone"][..], &["--updates", "100"]] {
        let arguments = [&["bench", "a.rules", "other/a.rules"][..], more].concat();
        let refused = acl(directory.path(), &arguments).assert().code(1);
        let said = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
        assert!(said.contains("a.rules and other/a.rules would both be called a"), "{said}");
    }
}

#[test]
fn bench_records_the_changes_that_were_made() {
    let directory = directory();
    let arguments = ["bench", "a.rules", "--updates", "100", "--rounds", "1", "--json", "r.json"];
    acl(directory.path(), &arguments).assert().success();
    let json = fs::read_to_string(directory.path().join("r.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut rows = results["rows"].as_array().unwrap().iter();
    let row = rows.find(|row| row["metric"] == "changes_per_second").unwrap();
    let rate = row["value"].as_f64().unwrap();
    assert!((1.0..=101.0).contains(&rate), "{rate}");
}

#[test]
fn what_was_measured_before_ctrl_c_is_kept() {
    let directory = directory();
    fs::write(directory.path().join("b.rules"), RULES).unwrap();
    let arguments =
        ["bench", "a.rules", "b.rules", "--alone", "--rounds", "100", "--json", "r.json"];
    let mut bench = acl(directory.path(), &arguments).stdout(Stdio::null()).spawn().unwrap();
    let kept = directory.path().join("r.json");
    // Written after the first rule set.
    while !kept.exists() && bench.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(1));
    let kept = Results::from_json(&fs::read_to_string(kept).unwrap()).unwrap();
    assert!(!kept.complete);
    assert!(kept.rows.iter().any(|row| row.scenario.starts_with("acl/a/")));
}

#[test]
fn every_rule_file_is_read_before_anything_is_measured() {
    let directory = directory();
    let arguments = ["bench", "a.rules", "typo.rules", "--alone", "--json", "r.json"];
    let refused = acl(directory.path(), &arguments).assert().code(1);
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("typo.rules"));
    assert!(!directory.path().join("r.json").exists());
}
