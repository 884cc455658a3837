//! `widelane compare` and `widelane speed` from the command line, end to end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use widelane_bench::programs::Programs;
use widelane_bench::server::application::Application;
use widelane_cli::system;
use widelane_cpu::Room;
use widelane_results::{Results, Status};
use widelane_testkit::program::without_policy;
use widelane_testkit::rooms::{has_lanes, has_x25519};

use crate::common::support::path;
use crate::common::{stderr, widelane};

/// Whether the shared objects were built beside the binary under test.
fn is_whole() -> bool {
    let directory = Path::new(env!("CARGO_BIN_EXE_widelane-bench")).parent().unwrap();
    ["libwidelane.so", "libwidelane_runtime.so"].iter().all(|name| directory.join(name).exists())
}

/// The servers that are installed here.
fn programs() -> Programs {
    let bench = env!("CARGO_BIN_EXE_widelane-bench").into();
    Programs::search(bench, None, &system::search_path())
}

fn assert_names_what_is_missing(output: &Output) {
    let said = stderr(output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("apt-get install") || said.contains("libwidelane"), "{said}");
}

/// Whether it did its job; a busy machine may have it reject every comparison.
fn has_run(output: &Output) -> bool {
    const ALL_REJECTED: i32 = 3;
    output.status.success() || output.status.code() == Some(ALL_REJECTED)
}

fn compare(directory: &Path, arguments: &[&str]) -> Output {
    compare_by(widelane(), directory, arguments)
}

fn compare_by(mut command: Command, directory: &Path, arguments: &[&str]) -> Output {
    command.arg("compare").args(arguments).arg("--json").arg(directory.join("results.json"));
    command.arg("--html").arg(directory.join("report.html")).output().unwrap()
}

#[test]
fn compares_the_embedded_server_or_names_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let what = ["--server", "embedded", "--quick", "--key", "rsa2048"];
    let arguments = [&what[..], &["--connections", "64", "--pairs", "2"]].concat();
    let output =
        compare(directory.path(), &[&arguments[..], &["--workload", "handshake"]].concat());
    if !is_whole() {
        assert!(!output.status.success());
        assert!(stderr(&output).contains("libwidelane"), "{}", stderr(&output));
        return;
    }
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert!(results.complete && results.seed.is_some());
    let row = |subject: &str| {
        let mut rows = results
            .rows
            .iter()
            .filter(|row| row.subject == subject && row.metric == "server_cpu_per_handshake");
        rows.next().unwrap_or_else(|| panic!("no row of {subject}: {text}"))
    };
    assert!(row("native").value.unwrap() > 0.0);
    let accelerated = row("accelerated");
    assert_eq!(accelerated.scenario, "embedded/tls1.3/rsa2048/x25519/c64");
    assert!(accelerated.value.unwrap() > 0.0);
    // A quiet machine is not to be had in a test; that our code ran is.
    let reason = accelerated.reason.as_deref().unwrap_or_default();
    assert!(!reason.contains("unaccelerated") && !reason.contains("failed"), "{reason}");
    // Which of them ran most depends on how many operations met.
    let is_open =
        |name: &String| results.machine.rooms.iter().any(|it| it.open && it.room == *name);
    assert_eq!(accelerated.room.as_ref().is_some_and(is_open), has_x25519(), "{accelerated:?}");
    let html = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(html.contains("embedded/tls1.3/rsa2048/x25519/c64"));
}

/// A configuration of OpenSSL, and the variable that names it.
fn configured(directory: &Path, command: &mut Command, text: &str) {
    let file = directory.join("openssl.cnf");
    std::fs::write(&file, format!("openssl_conf = init\n[init]\nproviders = all\n{text}")).unwrap();
    command.env("OPENSSL_CONF", &file);
}

#[test]
fn nothing_in_the_environment_accelerates_the_native_server() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let libraries = Path::new(env!("CARGO_BIN_EXE_widelane-bench")).parent().unwrap();
    let [provider, runtime] =
        ["libwidelane.so", "libwidelane_runtime.so"].map(|name| libraries.join(name));
    let short = ["--server", "s-server", "--workload", "handshake", "--tls", "1.3"];
    let short = [&short[..], &["--connections", "1", "--pairs", "1", "--seconds", "0.1"]].concat();
    // Whatever starts from here has our libraries, but for what is compared.
    let mut command = widelane();
    command.env("LD_PRELOAD", &runtime).env("WIDELANE_PROVIDER", &provider);
    let sections = "[all]\ndefault = on\nwidelane = ours\n[on]\nactivate = 1\n";
    let text = format!("{sections}[ours]\nmodule = {}\nactivate = 1\n", provider.display());
    configured(directory.path(), &mut command, &text);
    let output = compare_by(command, directory.path(), &short);
    let said = stderr(&output);
    if said.contains("is not installed") {
        return;
    }
    assert!(has_run(&output), "{said}");
    // A script in the place of the server does what no environment undoes.
    let script = directory.path().join("openssl");
    let preload = format!("LD_PRELOAD={} WIDELANE_PROVIDER={}", path(&runtime), path(&provider));
    std::fs::write(&script, format!("#!/bin/sh\n{preload} exec /usr/bin/openssl \"$@\"\n"))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = widelane();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let search = format!("{}:{}", directory.path().display(), search.display());
    command.env("PATH", search);
    let output = compare_by(command, directory.path(), &short);
    let said = stderr(&output);
    assert!(!has_run(&output), "{said}");
    for expected in ["s-server/native runs with", "libwidelane_runtime.so", "sets LD_PRELOAD"] {
        assert!(said.contains(expected), "{expected} is missing in {said}");
    }
}

#[test]
fn speed_times_openssl_whatever_its_configuration_says() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = widelane();
    // By this configuration OpenSSL has no algorithm at all.
    configured(directory.path(), &mut command, "[all]\nbase = on\n[on]\nactivate = 1\n");
    let short = ["--pairs", "1", "--seconds", "0.05", "--room", "portable", "--size", "64"];
    let algorithms = ["rsa2048", "x25519", "ed25519", "ecdsa-p256", "ecdh-p256", "aes-128-gcm"];
    command.args(["speed", "--against", "openssl"]).args(short).args(algorithms);
    let output = command.args(["sha-256", "hmac-sha-256", "aes-128-cbc-hmac-sha1"]).output();
    let output = output.unwrap();
    assert!(has_run(&output), "{}", stderr(&output));
}

/// What is said of a group depends on whether OpenSSL has it, alone or with the provider.
#[test]
fn groups_with_ml_kem_are_compared_or_what_lacks_them_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let short = ["--server", "embedded", "--connections", "8", "--pairs", "1", "--seconds", "0.1"];
    let compare = |more: &[&str]| compare(directory.path(), &[&short[..], more].concat());
    let wrong = compare(&["--group", "kyber"]);
    assert!(stderr(&wrong).contains("values: x25519, p256"), "{}", stderr(&wrong));
    let alone = compare(&["--group", "secp256r1mlkem768"]);
    let is_native = !stderr(&alone).contains("--native-group x25519");
    let older = compare(&["--group", "x25519mlkem768", "--tls", "1.2"]);
    let advice = if is_native { "TLS 1.2 has none of the groups" } else { "--native-group x25519" };
    assert!(stderr(&older).contains(advice), "{}", stderr(&older));
    let output = compare(&["--group", "x25519mlkem768", "--native-group", "x25519"]);
    let said = stderr(&output);
    if !is_whole() || said.contains("group 'X25519MLKEM768' cannot be set") {
        assert!(!output.status.success(), "{said}");
        return;
    }
    assert!(has_run(&output), "{said}");
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    let scenario = "embedded/tls1.3/rsa2048/x25519mlkem768-vs-x25519/c8";
    assert!(results.rows.iter().all(|row| row.scenario == scenario), "{text}");
    assert!(results.notes.iter().any(|note| note.contains("two key exchanges")), "{text}");
}

#[test]
fn mixed_requests_are_served_or_what_is_missing_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let mixed = ["--workload", "mixed", "--quick", "--connections", "2", "--pairs", "1"];
    let output = compare(directory.path(), &mixed);
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    let programs = programs();
    let has_modules = programs.nginx_modules().is_some_and(|modules| {
        ["ngx_http_lua_module.so", "ngx_http_brotli_filter_module.so"]
            .iter()
            .all(|name| modules.join(name).is_file())
    });
    if !has_modules || !is_whole() {
        assert_names_what_is_missing(&output);
        assert_eq!(results.rows[0].status, Status::NotApplicable, "{text}");
        return;
    }
    assert!(has_run(&output), "{}", stderr(&output));
    let rates = results.rows.iter().filter(|row| row.metric == "requests_per_second");
    let rates: Vec<_> = rates.collect();
    assert_eq!(rates.len(), 5 * 4, "{text}");
    // A busy machine may leave a server no time to answer.
    let mut zeroes = rates.iter().filter(|row| row.value == Some(0.0));
    assert!(rates.iter().all(|row| row.value.is_some()), "{text}");
    assert!(zeroes.all(|row| row.status == Status::Rejected), "{text}");
    let is_open = |name: &str| results.machine.rooms.iter().any(|r| r.room == name && r.open);
    let ours = rates.iter().find(|row| row.subject == "accelerated").unwrap();
    assert_eq!(ours.scenario, "nginx/mixed/chacha20-poly1305-0/c2");
    let is_named = ours.room.as_deref() == Some("vaes512");
    let is_measured = ours.status == Status::Ok;
    assert!(is_named == is_open("vaes512") || !is_measured, "{ours:?}");
    let failed = |reason: &String| reason.contains("failed");
    assert!(!rates.iter().any(|row| row.reason.as_ref().is_some_and(failed)), "{text}");
}

#[test]
fn pages_of_an_application_are_served_or_what_is_missing_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let pages = ["--workload", "application", "--quick", "--tls", "1.3", "--pairs", "1"];
    let output = compare(directory.path(), &[&pages[..], &["--server", "nginx"]].concat());
    let programs = programs();
    if programs.nginx.is_none() || Application::missing(&programs).is_some() || !is_whole() {
        assert_names_what_is_missing(&output);
        return;
    }
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    for metric in ["requests_per_second", "server_cpu_per_request"] {
        let of_both = results.rows.iter().filter(|row| {
            row.scenario == "nginx/tls1.3/rsa2048/application/c8"
                && row.metric == metric
                && row.value.unwrap() > 0.0
        });
        assert_eq!(of_both.count(), 2, "{metric}: {text}");
    }
    assert!(results.pairs.iter().flat_map(|pair| &pair.measurements).all(|m| m.errors.is_empty()));
}

#[test]
fn several_workloads_make_one_report_and_cores_are_counted() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let what = ["--workload", "handshake,bulk", "--server", "nginx,embedded", "--tls", "1.3"];
    let how = ["--quick", "--connections", "8", "--pairs", "1", "--ciphers", "aes128-gcm"];
    let cores = ["--sizes", "1M", "--server-cores", "1"];
    let output = compare(directory.path(), &[&what[..], &how, &cores].concat());
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert!(results.complete);
    let statuses = |scenario: &str| {
        let rows = results.rows.iter().filter(|row| row.scenario == scenario);
        rows.map(|row| (row.status, row.value.is_some())).collect::<Vec<_>>()
    };
    for work in ["x25519", "aes128-gcm/1MiB"] {
        for server in ["nginx", "embedded"] {
            let path = |cores: u32| format!("{server}/tls1.3/rsa2048/{work}/{cores}-cores/c8");
            let measured = statuses(&path(1));
            assert!(measured.iter().all(|(_, has_value)| *has_value), "{measured:?}: {text}");
            assert!(measured.len() >= 4, "{server}, {work}: {text}");
        }
    }
    let html = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    let [handshakes, bytes] = ["Server CPU per full handshake", "Server CPU per gigabyte"];
    assert!(html.contains(handshakes) && html.contains(bytes));
}

/// More connections at a time than `openssl s_server` takes.
#[test]
fn where_nothing_could_be_compared_the_job_was_not_done() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let short = ["--server", "s-server", "--connections", "64", "--pairs", "1", "--tls", "1.3"];
    let output = compare(directory.path(), &short);
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert!(results.rows.iter().all(|row| row.status == Status::NotApplicable), "{text}");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing could be compared"), "{}", stderr(&output));
}

#[test]
fn clients_show_certificates_or_what_is_missing_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let keys = "ecdsa-p256,rsa2048";
    let what = ["--client-certificates", "--server", "nginx,haproxy", "--key", keys];
    let how = ["--tls", "1.2,1.3", "--group", "x25519", "--connections", "8", "--pairs", "1"];
    let output = compare(directory.path(), &[&what[..], &how, &["--quick"]].concat());
    let programs = programs();
    if programs.nginx.is_none() || programs.haproxy.is_none() || !is_whole() {
        assert_names_what_is_missing(&output);
        return;
    }
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert!(results.complete);
    assert!(results.notes.iter().any(|note| note.contains("demanded and verified")), "{text}");
    assert!(results.pairs.iter().flat_map(|pair| &pair.measurements).all(|m| m.errors.is_empty()));
    for server in ["nginx", "haproxy"] {
        for (version, key) in [("1.2", "ecdsa-p256"), ("1.3", "ecdsa-p256"), ("1.2", "rsa2048")] {
            let path = format!("{server}/tls{version}/{key}/x25519/client-certificates/c8");
            let of_both = results.rows.iter().filter(|row| {
                row.scenario == path
                    && row.metric == "server_cpu_per_handshake"
                    && row.value.is_some_and(|value| value > 0.0)
            });
            let subjects: Vec<_> = of_both.map(|row| row.subject.as_str()).collect();
            assert_eq!(subjects, ["native", "accelerated"], "{path}: {text}");
        }
    }
    let html = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    for report in [html, String::from_utf8_lossy(&output.stdout).into_owned()] {
        assert!(report.contains("clients show certificates"), "{report}");
    }
}

/// By nginx's socket, and by HAProxy's, which its BIO hides.
#[test]
fn who_is_far_away_waits_longer() {
    if can_make_links(&[]) {
        who_is_far_away_waits_longer_by(widelane(), "nginx,haproxy");
    }
}

#[test]
fn clients_at_a_distance_take_no_root() {
    let program = env!("CARGO_BIN_EXE_widelane-bench");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    // Who is not root has no need of it: the test above shows the same then.
    let may_be_nobody = succeeds(&[&nobody[..], &[program, "--version"]].concat());
    if may_be_nobody && can_make_links(&nobody) {
        let mut command = without_policy(nobody[0]);
        command.args(&nobody[1..]).arg(program);
        who_is_far_away_waits_longer_by(command, "nginx");
    }
}

/// Whether what `prefix` starts may have interfaces of its own, as others than this project tell.
fn can_make_links(prefix: &[&str]) -> bool {
    let make =
        "ip tuntap add dev widelane-test mode tun && ip tuntap del dev widelane-test mode tun";
    let words = ["unshare", "--user", "--net", "--map-root-user", "sh", "-euc", make];
    is_whole() && succeeds(&[prefix, &words].concat())
}

fn succeeds(words: &[&str]) -> bool {
    Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success())
}

fn who_is_far_away_waits_longer_by(command: Command, servers: &str) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let load = ["--server", servers, "--tls", "1.3", "--group", "x25519", "--load", "50"];
    let far = ["--rtt", "40ms", "--wait-max", "0.5ms,rtt", "--pairs", "1", "--seconds", "0.1"];
    let output = compare_by(command, directory.path(), &[load, far].concat());
    let said = stderr(&output);
    assert!(has_run(&output), "{said}");
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    for server in servers.split(',') {
        let value = |subject: &str, metric: &str| {
            let scenario = format!("{server}/tls1.3/rsa2048/x25519/rtt40ms/load50");
            let mut rows = results.rows.iter().filter(|row| row.scenario == scenario);
            let row = rows.find(|row| row.subject == subject && row.metric == metric);
            row.and_then(|row| row.value)
        };
        let latency_us = value("native", "latency_p50").unwrap_or_else(|| panic!("{text}"));
        assert!(latency_us >= 80_000.0, "two round trips: {text}");
        // Without lanes nothing waits, nor in a server that is always late.
        if let Some(waited_us) = value("wait-rtt", "short_wait_mean") {
            // At most 4 ms. A busy machine ends waits late, by less than the round trip.
            assert!(has_lanes(), "{text}");
            assert!((1_000.0..40_000.0).contains(&waited_us), "{server} {waited_us}: {text}");
        }
    }
}

#[test]
fn where_user_namespaces_are_denied_the_remedy_is_named() {
    // One namespace more than there may be.
    let script = "echo 1 >/proc/sys/user/max_user_namespaces
                  exec unshare --user --map-user=1000 \"$@\"";
    let denied = ["unshare", "--user", "--map-root-user", "sh", "-euc", script, "sh"];
    if !succeeds(&[&denied[..], &["true"]].concat()) {
        return;
    }
    let mut command = without_policy(denied[0]);
    command.args(&denied[1..]).arg(env!("CARGO_BIN_EXE_widelane-bench"));
    let directory = tempfile::tempdir().unwrap();
    let far = ["--server", "nginx", "--load", "50", "--rtt", "9ms"];
    let output = compare_by(command, directory.path(), &far);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("run this as root") && said.contains("max_user_namespaces"), "{said}");
}

#[test]
fn mixed_requests_go_to_nginx_only() {
    let directory = tempfile::tempdir().unwrap();
    let output = compare(directory.path(), &["--workload", "mixed", "--server", "haproxy"]);
    assert!(stderr(&output).contains("--server nginx"), "{}", stderr(&output));
}

/// A policy file under which no signature or derivation has lanes, and ciphers are as they were.
fn without_lanes(directory: &Path) -> Command {
    let policy = directory.join("policy.toml");
    std::fs::write(&policy, "classes_closed = [\"256-heavy\", \"512-heavy\"]\n").unwrap();
    let mut command = widelane();
    command.env("WIDELANE_POLICY", &policy);
    command
}

#[test]
fn without_lanes_handshakes_are_compared_all_the_same() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let what = ["--server", "embedded", "--quick", "--key", "rsa2048", "--group", "x25519"];
    let how = ["--connections", "64", "--load", "30", "--pairs", "6"];
    let command = without_lanes(directory.path());
    let output = compare_by(command, directory.path(), &[&what[..], &how].concat());
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    let remark = "No lanes are open here for RSA and X25519: these operations run one at a time";
    assert_eq!(results.notes.iter().filter(|note| note.starts_with(remark)).count(), 1, "{text}");
    for load in ["c64", "load30"] {
        let scenario = format!("embedded/tls1.3/rsa2048/x25519/{load}");
        let rounds = results.pairs.iter().filter(|pair| pair.scenario == scenario).count();
        assert!(rounds >= 6, "{rounds} of {scenario}: {text}");
        let cost = results.rows.iter().find(|row| {
            row.scenario == scenario
                && row.subject == "accelerated"
                && row.metric == "server_cpu_per_handshake"
        });
        let cost = cost.unwrap_or_else(|| panic!("no cost at {load}: {text}"));
        // A busy machine may reject rounds; there is a ratio with an interval all the same.
        assert_ne!(cost.status, Status::NotApplicable, "{cost:?}");
        assert!(cost.ratio_low < cost.ratio && cost.ratio < cost.ratio_high, "{cost:?}");
        let reason = cost.reason.as_deref().unwrap_or_default();
        assert!(!reason.contains("no batch was executed"), "{reason}");
    }
    // Numbers of connections and loads are those of handshakes.
    assert!(results.rows.iter().all(|row| row.metric != "server_cpu_per_gb"), "{text}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let html = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    for wrong in ["not applicable", "othing to gain from batching"] {
        assert!(!printed.contains(wrong) && !html.contains(wrong), "{printed}");
    }
    assert!(printed.contains(remark.split(": ").next().unwrap()), "{printed}");
}

#[test]
fn downloads_are_compared_where_signatures_have_no_lanes_and_ciphers_gain() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--server", "embedded", "--quick", "--key", "ecdsa-p256", "--pairs", "1"];
    let command = without_lanes(directory.path());
    let output = compare_by(command, directory.path(), &arguments);
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    let of = |metric: &str| {
        let rows = results.rows.iter().filter(|row| row.metric == metric);
        rows.map(|row| row.scenario.as_str()).collect::<Vec<_>>()
    };
    let handshakes = of("server_cpu_per_handshake");
    for load in ["c1", "c200", "load30", "load60"] {
        let of_load = handshakes.iter().filter(|scenario| scenario.ends_with(&format!("/{load}")));
        assert_eq!(of_load.count(), 2, "{load}: {text}");
    }
    let ciphers = ["aes128-gcm", "aes256-gcm", "chacha20-poly1305"];
    let download = |cipher| format!("embedded/tls1.3/ecdsa-p256/{cipher}/16MiB/c4");
    let expected = ciphers.map(|cipher| [download(cipher), download(cipher)]).concat();
    let expected = if Room::Vaes256.is_supported() { expected } else { vec![] };
    assert_eq!(of("server_cpu_per_gb"), expected, "{text}");
}

#[test]
fn speed_times_every_room_or_says_why_not() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("speed.json");
    let output = widelane()
        .env("WIDELANE_MAX_SIMD_BITWIDTH", "256")
        .args(["speed", "rsa2048", "--pairs", "1", "--seconds", "0.05", "--json"])
        .arg(&json)
        .output()
        .unwrap();
    assert!(has_run(&output), "{}", stderr(&output));
    let results = Results::from_json(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let row = |room: Option<&str>| {
        let mut rows = results
            .rows
            .iter()
            .filter(|row| row.room.as_deref() == room && row.metric == "operations_per_second");
        rows.next().unwrap_or_else(|| panic!("no row of {room:?}"))
    };
    assert!(row(None).value.unwrap() > 0.0);
    assert!(row(Some("portable")).ratio.unwrap() > 0.0);
    let closed = row(Some("ifma512"));
    assert_eq!(closed.status, Status::NotApplicable);
    assert!(closed.reason.is_some());
}

#[test]
fn speed_times_messages_by_size_directly_and_through_evp() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("speed.json");
    let html = directory.path().join("speed.html");
    let output = widelane()
        .args(["speed", "aes-128-gcm/seal", "sha-256/digest", "--size", "1350,64"])
        .args(["--against", "openssl", "--pairs", "1", "--seconds", "0.05", "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .unwrap();
    assert!(has_run(&output), "{}", stderr(&output));
    let results = Results::from_json(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let scenarios = [
        "aes-128-gcm/seal/64",
        "aes-128-gcm/seal/1350",
        "sha-256/digest/64",
        "sha-256/digest/1350",
    ];
    for scenario in scenarios {
        let row = |subject: &str, metric: &str| {
            let mut rows = results.rows.iter().filter(|row| {
                (row.scenario.as_str(), row.subject.as_str()) == (scenario, subject)
                    && row.metric == metric
            });
            rows.next().unwrap_or_else(|| panic!("no {metric} of {subject} at {scenario}"))
        };
        assert!(row("openssl", "cycles_per_byte").value.unwrap() > 0.0);
        assert!(row("openssl", "throughput").value.unwrap() > 0.0);
        // A room that the CPU lacks has a row too, without a rival.
        let ours = results.rows.iter().find(|row| {
            (row.scenario.as_str(), row.subject.as_str()) == (scenario, "widelane")
                && row.metric == "operations_per_second"
                && row.rival.as_deref() == Some("openssl")
        });
        assert!(ours.and_then(|row| row.ratio).unwrap() > 0.0, "{ours:?}");
        if is_whole() {
            let through_evp = row("widelane-evp", "operations_per_second");
            let is_missing = through_evp.status == Status::NotApplicable;
            assert_eq!(is_missing, scenario.starts_with("sha"), "{through_evp:?}");
        }
    }
    assert!(std::fs::read_to_string(&html).unwrap().contains("AES-128-GCM seal"));
}

#[test]
fn speed_compares_two_ciphers() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("speed.json");
    let output = widelane()
        .args(["speed", "--cipher-compare", "--size", "1024", "--pairs", "1"])
        .args(["--seconds", "0.05", "--json"])
        .arg(&json)
        .output()
        .unwrap();
    assert!(has_run(&output), "{}", stderr(&output));
    let results = Results::from_json(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let ratio = results.rows.iter().find(|row| row.metric == "cipher_ratio").unwrap();
    assert_eq!(
        (ratio.scenario.as_str(), ratio.subject.as_str()),
        ("cipher-compare/1024", "openssl")
    );
    assert!(ratio.value.unwrap() > 1.0, "{ratio:?}");
}

#[test]
fn compares_partial_loads_of_what_native_can_do() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--server", "embedded", "--workload", "handshake", "--tls", "1.3"];
    let loads = ["--load", "20,60", "--pairs", "2", "--seconds", "0.1", "--seed", "7"];
    let limits = ["--wait-max", "0,2ms"];
    let output = compare(directory.path(), &[&arguments[..], &loads, &limits].concat());
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert_eq!(results.seed, Some(7));
    let due = |percent: u32| -> Vec<f64> {
        let scenario = format!("embedded/tls1.3/rsa2048/x25519/load{percent}");
        let pairs = results.pairs.iter().filter(|pair| pair.scenario == scenario);
        let rate = |m: &widelane_results::Measurement| m.arrivals_due.unwrap() / m.wall_s;
        pairs.flat_map(|pair| &pair.measurements).map(rate).collect()
    };
    let (low, high) = (due(20), due(60));
    assert!(low.len() >= 4 && high.len() >= 4, "{text}");
    // All subjects get the same, and the shares are those that were asked for.
    for (low, high) in low.iter().zip(&high) {
        assert!((high / low - 3.0).abs() < 1e-6, "{low} {high}");
    }
    assert!(results.notes.iter().any(|note| note.contains("handshakes per second at most")));
    assert!(results.rows.iter().any(|row| row.metric == "jobs_per_batch"));
    for subject in ["wait-0", "wait-2ms"] {
        assert!(results.rows.iter().any(|row| row.subject == subject), "{subject}: {text}");
    }
}

#[test]
fn loads_that_are_none_are_named() {
    for (loads, said) in [("0", "from 1 to 95"), ("101", "from 1 to 95"), ("ten", "from 1 to 95")] {
        let output = widelane().args(["compare", "--load", loads]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let output = widelane().args(["compare", "--load", "20,20"]).output().unwrap();
    assert!(!output.status.success());
    assert!(stderr(&output).contains("--load names one twice"), "{}", stderr(&output));
}

#[test]
fn compares_downloads_from_the_embedded_server() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "--workload",
        "bulk",
        "--server",
        "embedded",
        "--sizes",
        "1M",
        "--ciphers",
        "aes128-gcm,aes128-sha",
        "--pairs",
        "2",
        "--seconds",
        "0.05",
    ];
    let output = compare(directory.path(), &arguments);
    assert!(has_run(&output), "{}", stderr(&output));
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    for scenario in
        ["embedded/tls1.3/rsa2048/aes128-gcm/1MiB/c4", "embedded/tls1.2/rsa2048/aes128-sha/1MiB/c4"]
    {
        for metric in ["server_cpu_per_gb", "goodput"] {
            let of_both = results.rows.iter().filter(|row| {
                row.scenario == scenario && row.metric == metric && row.value.unwrap() > 0.0
            });
            assert_eq!(of_both.count(), 2, "{scenario}, {metric}: {text}");
        }
    }
    assert!(results.pairs.iter().flat_map(|pair| &pair.measurements).all(|m| m.errors.is_empty()));
    // A busy machine may leave clients no time for a handshake within a window.
    let measurements = results.pairs.iter().filter(|pair| pair.scenario.contains("aes128-sha"));
    let mut measurements = measurements.flat_map(|pair| &pair.measurements);
    let is_due = measurements.any(|measurement| measurement.operations > 4);
    let told = |note: &&String| note.contains("encrypt-then-MAC was negotiated");
    let told = results.notes.iter().filter(told).count();
    assert!(told == 1 || told == 0 && !is_due, "{:?}", results.notes);
}

#[test]
fn names_what_exists_when_a_name_is_unknown() {
    let output = widelane().args(["speed", "--room", "ifma1024"]).output().unwrap();
    assert!(!output.status.success());
    assert!(stderr(&output).contains("portable, ifma256, ifma512"), "{}", stderr(&output));
    let output = widelane().args(["speed", "rot13"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("rsa2048, rsa3072, rsa4096"), "{}", stderr(&output));
}

#[test]
fn a_rival_is_measured_or_told_how_to_be_built() {
    if !is_whole() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let rival = ["--rival", "haproxy-aws-lc", "--key", "rsa2048", "--quick", "--pairs", "1"];
    let output = compare(directory.path(), &[&rival[..], &["--server", "nginx"]].concat());
    assert!(stderr(&output).contains("say --server haproxy"), "{}", stderr(&output));
    let how = ["--server", "haproxy", "--connections", "8"];
    let output = compare(directory.path(), &[&rival[..], &how].concat());
    if !has_run(&output) {
        let said = stderr(&output);
        assert!(said.contains("apt-get install haproxy"), "{said}");
        return;
    }
    let text = std::fs::read_to_string(directory.path().join("results.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert!(results.complete);
    let rows = results.rows.iter().filter(|row| row.metric == "server_cpu_per_handshake");
    let compared: Vec<_> = rows.filter(|row| row.subject == "accelerated").collect();
    let against = |rival: &str| {
        let row = compared.iter().find(|row| row.rival.as_deref() == Some(rival));
        row.unwrap_or_else(|| panic!("nothing against {rival}: {text}"))
    };
    assert!(against("native").value.unwrap() > 0.0);
    let row = against("haproxy-aws-lc");
    if results.machine.haproxy_aws_lc.is_some() {
        assert_eq!(row.scenario, "haproxy/tls1.3/rsa2048/x25519/c8");
        assert!(row.value.unwrap() > 0.0, "{text}");
    } else {
        let how = "`cargo xtask rival haproxy-aws-lc` builds it";
        assert!(stderr(&output).contains(how), "{}", stderr(&output));
        assert_eq!(row.status, Status::NotApplicable);
        assert!(row.reason.as_ref().unwrap().contains(how), "{text}");
    }
}
