//! `widelane load` from the command line, beside stock nginx where it is installed.

use std::fs;
use std::net::Ipv6Addr;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use widelane_testkit::server::free_address;

use crate::common::haproxy::Haproxy;
use crate::common::nginx::{EC, Nginx, RSA};
use crate::common::{json, stderr, widelane};

fn load(arguments: &[&str]) -> Output {
    widelane().arg("load").args(arguments).output().unwrap()
}

#[test]
fn counts_full_and_resumed_handshakes_as_nginx_does() {
    let nginx = Nginx::start();
    let url = format!("https://{}/", nginx.address);
    let authority = nginx.authority();
    let mut before = (0, 0);
    for (tls, resume) in [
        ("1.2", "never"),
        ("1.3", "never"),
        ("1.2", "ticket=3,never=1"),
        ("1.2", "session-id=3,never=1"),
        ("1.3", "ticket=3,never=1"),
        ("1.2,1.3", "ticket"),
    ] {
        let output = load(&[
            &url,
            "--sni",
            "localhost",
            "--authorities",
            authority.to_str().unwrap(),
            "--json",
            "--tls",
            tls,
            "--resume",
            resume,
            "--connections",
            "4",
            "--warm-up",
            "0",
            "--duration",
            "1s",
            "--group",
            "x25519,p256",
            "--cipher",
            "aes128-gcm,aes256-gcm",
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        let found = json(&output);
        let ours = |name: &str| found[name].as_u64().unwrap();
        let counted = nginx.counted((before.0 + ours("full"), before.1 + ours("resumed")));
        let (full, resumed) = (counted.0 - before.0, counted.1 - before.1);
        before = counted;
        // nginx has also seen those that ended after the window.
        assert!((0..=4).contains(&(full as i64 - ours("full") as i64)), "{resume}: {full} {found}");
        let late = resumed as i64 - ours("resumed") as i64;
        assert!((0..=4).contains(&late), "{resume}: {resumed} {found}");
        assert_eq!(resumed > 0, resume != "never", "{resume}: {found}");
        assert!(full > 0 && ours("answers") > 0, "{found}");
        assert_eq!(found["errors"], serde_json::json!({}));
    }
}

#[test]
fn counts_full_and_resumed_handshakes_as_haproxy_does() {
    let haproxy = Haproxy::start();
    let mut before = haproxy.counted();
    for (tls, resume) in [("1.2", "never"), ("1.3", "ticket=3,never=1"), ("1.2", "session-id")] {
        let url = format!("https://{}/", haproxy.address);
        let words = [&url, "--insecure", "--json", "--tls", tls, "--resume", resume];
        let length = ["--connections", "4", "--warm-up", "0", "--duration", "1s"];
        let output = load(&[&words[..], &length].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let found = json(&output);
        let ours = |name: &str| found[name].as_u64().unwrap();
        let counted = haproxy.counted();
        let (full, resumed) = (counted.0 - before.0, counted.1 - before.1);
        before = counted;
        // HAProxy has also seen those that ended after the window.
        for (theirs, ours) in [(full, ours("full")), (resumed, ours("resumed"))] {
            assert!((0..=4).contains(&(theirs as i64 - ours as i64)), "{resume}: {theirs} {found}");
        }
        assert_eq!(resumed > 0, resume != "never", "{resume}: {found}");
    }
}

#[test]
fn names_the_host_as_a_server_expects_it() {
    for nginx in [Nginx::start(), Nginx::at(Ipv6Addr::LOCALHOST, EC)] {
        let url = format!("https://{}/host", nginx.address);
        let short = ["--insecure", "--connections", "2", "--warm-up", "0", "--duration", "1s"];
        let output = load(&[&[url.as_str(), "--json"], &short[..]].concat());
        assert!(output.status.success(), "{url}: {}", stderr(&output));
        let found = json(&output);
        assert_eq!(found["errors"], serde_json::json!({}), "{url}");
        assert!(found["answers"].as_u64().unwrap() > 0, "{url}: {found}");
    }
}

#[test]
fn speaks_the_cipher_that_rustls_leaves_out() {
    let nginx = Nginx::with_key(RSA);
    let authority = nginx.authority();
    let url = format!("https://{}/", nginx.address);
    let short = ["--connections", "4", "--warm-up", "0", "--duration", "1s", "--json"];
    let trusting = ["--sni", "localhost", "--authorities", authority.to_str().unwrap()];
    let old = ["--tls", "1.2", "--cipher", "aes128-sha=3,aes128-gcm=1", "--requests", "3"];
    let output = load(&[&[url.as_str()], &short[..], &trusting, &old].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["errors"], serde_json::json!({}));
    let (full, answers) = (found["full"].as_u64().unwrap(), found["answers"].as_u64().unwrap());
    assert!(full > 0 && answers > 2 * full - 12, "{found}");
    assert_eq!(found["body_bytes"].as_u64().unwrap(), 5 * answers, "{found}");

    // A name that the certificate does not have, and a server that has no RSA key.
    let wrong = ["--sni", "example.com", "--authorities", authority.to_str().unwrap()];
    let wrong = load(&[&[url.as_str()], &short[..], &wrong, &old].concat());
    assert!(stderr(&wrong).contains("certificate"), "{}", stderr(&wrong));
    let elliptic = Nginx::start();
    let only = ["--insecure", "--tls", "1.2", "--cipher", "aes128-sha"];
    let refused = load(&[&[elliptic.address.as_str()], &short[..], &only].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("alert"), "{}", stderr(&refused));

    let newer = ["--insecure", "--tls", "1.2,1.3", "--cipher", "aes128-sha"];
    let never = load(&[&[elliptic.address.as_str()], &short[..], &newer].concat());
    assert!(stderr(&never).contains("does not go with TLS 1.3"), "{}", stderr(&never));
}

#[test]
fn what_was_found_is_kept_for_reports() {
    let nginx = Nginx::start();
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("load.json");
    let kept = kept.to_str().unwrap();
    let report = |format: &str| {
        let output = widelane().args(["report", kept, "--format", format]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let url = format!("https://{}/", nginx.address);
    let short = ["--insecure", "--connections", "2", "--warm-up", "0", "--results", kept];
    let made = load(&[&[url.as_str(), "--duration", "3s"], &short[..]].concat());
    assert!(made.status.success(), "{}", stderr(&made));
    let text = report("terminal");
    for expected in ["answers per second", ", latency", ": handshakes per second", "first-byte"] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    let html = report("html");
    // Full handshakes, answers, and three latencies, each with its dots.
    assert_eq!(html.matches("<svg class=\"curves\"").count(), 3, "{html}");
    assert_eq!(html.matches("<polyline class=\"ours0\"").count(), 3);
    assert_eq!(html.matches("<svg class=\"columns\"").count(), 4);

    let crossed = load(&[&[&nginx.address, "--fail-if", "p50>1us"], &short[..]].concat());
    assert_eq!(crossed.status.code(), Some(1));
    assert!(report("terminal").contains("Crossed: p50>1us."), "{}", report("terminal"));

    let search = ["--search-max", "--duration", "100ms", "--latency-max", "1us"];
    let never = load(&[&[nginx.address.as_str()], &search[..], &short].concat());
    assert_eq!(never.status.code(), Some(1));
    let text = report("markdown");
    assert!(text.contains("Infeasible: ") && text.contains("missed: too slow"), "{text}");
}

#[test]
fn thresholds_and_doubts_make_the_status() {
    let nginx = Nginx::start();
    let short = ["--insecure", "--connections", "2", "--warm-up", "0", "--duration", "500ms"];
    let run = |target: &str, more: &[&str]| load(&[&[target], &short[..], more].concat());

    let kept = run(&nginx.address, &["--fail-if", "p99>9s", "--fail-if", "errors>0"]);
    assert!(kept.status.success(), "{}", stderr(&kept));
    let text = String::from_utf8_lossy(&kept.stdout).into_owned();
    assert!(text.contains("Handshakes") && text.contains("handshake"), "{text}");

    let crossed = run(&nginx.address, &["--fail-if", "p50>1us", "--json"]);
    assert_eq!(crossed.status.code(), Some(1));
    assert_eq!(json(&crossed)["crossed"], serde_json::json!(["p50>1us"]));
    assert!(stderr(&crossed).contains("crossed: p50>1us"), "{}", stderr(&crossed));

    let untrusted = load(&[&nginx.address, "--duration", "5s"]);
    assert_eq!(untrusted.status.code(), Some(1));
    assert!(stderr(&untrusted).contains("certificate"), "{}", stderr(&untrusted));

    let missing = run(&format!("https://{}/missing", nginx.address), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains(" status"), "{}", stderr(&missing));

    // A name that TLS cannot send, and a file that is no certificate.
    let name = run(&nginx.address, &["--sni", "no name"]);
    assert!(stderr(&name).contains("\"no name\" is not a valid server name"), "{}", stderr(&name));
    let key = nginx.directory.path().join("key.pem");
    let authority = load(&[&nginx.address, "--authorities", key.to_str().unwrap()]);
    assert!(stderr(&authority).contains("holds no certificate"), "{}", stderr(&authority));
}

#[test]
fn threads_of_clients_have_open_files_of_their_own() {
    let nginx = Nginx::start();
    let few = "ulimit -Sn 64 && exec \"$0\" load \"$1\" --insecure --connections 32 --threads 32 \
               --warm-up 0 --duration 1s --json";
    let mut limited = Command::new("sh");
    limited.args(["-c", few, env!("CARGO_BIN_EXE_widelane-bench"), &nginx.address]);
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&output)["errors"], serde_json::json!({}));
}

#[test]
fn says_what_is_wrong_with_a_command_line() {
    let closed = free_address();
    let refused = load(&[&closed.to_string(), "--insecure"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("refused"), "{}", stderr(&refused));

    // Only a process with the right to do so goes beyond its maximum, and then nobody listens.
    let few = "ulimit -n 100 && exec \"$0\" load \"$1\" --insecure --connections 200";
    let mut limited = Command::new("sh");
    limited.args(["-c", few, env!("CARGO_BIN_EXE_widelane-bench"), &closed.to_string()]);
    let limited = limited.output().unwrap();
    assert_eq!(limited.status.code(), Some(1));
    let said = stderr(&limited);
    let told = "200 connections need 233 open files, and this process may have 100, enough for 67";
    assert!(said.contains(told) || said.contains("refused"), "{said}");

    let unknown = load(&["https://host.invalid/", "--insecure"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("cannot resolve \"host.invalid\""), "{}", stderr(&unknown));

    for (arguments, said) in [
        (&["localhost"][..], "neither https://HOST[:PORT]/PATH nor HOST:PORT"),
        (&["localhost:1", "--rate", "0"], "no number above 0"),
        (&["localhost:1", "--rate", "1e12"], "no number above 0"),
        (
            &["localhost:1", "--cipher", "rc4"],
            "none of aes128-sha, aes128-sha-mac-first, aes128-gcm",
        ),
        (&["localhost:1", "--tls", "1.3=x"], "the weight is no whole number"),
        (&["localhost:1", "--fail-if", "p99=1s"], "there is no < or >"),
        (&["localhost:1", "--search-max"], "--latency-max"),
        (
            &["localhost:1", "--search-max", "--latency-max", "1s", "--fail-if", "p99>1s"],
            "cannot be used with",
        ),
        (&["localhost:1", "--client-certificate", "/none:/none"], "cannot read /none as PEM"),
    ] {
        let output = load(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    let body = load(&["localhost:1", "--insecure", "--body-bytes", "1M"]);
    assert!(stderr(&body).contains("--body-bytes is about requests"), "{}", stderr(&body));
    let closed = load(&["localhost:1", "--insecure", "--arrivals", "constant"]);
    assert!(stderr(&closed).contains("add --rate or --search-max"), "{}", stderr(&closed));
}

#[test]
fn a_server_that_goes_away_ends_a_load_and_what_was_measured_is_kept() {
    let nginx = Nginx::start();
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("load.json");
    let load = widelane()
        .args(["load", &nginx.address, "--insecure", "--rate", "500", "--json", "--results"])
        .arg(&kept)
        .args(["--warm-up", "0", "--duration", "60s", "--fail-if", "errors>0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_secs(2));
    drop(nginx);
    let output = load.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("failed in a row"), "{}", stderr(&output));
    let found = json(&output);
    assert!(found["full"].as_u64().unwrap() > 100, "{found}");
    assert!(found["wall_s"].as_f64().unwrap() < 50.0, "{found}");
    assert!(found["given_up"].as_str().unwrap().contains("failed in a row"), "{found}");
    let kept = fs::read_to_string(&kept).unwrap();
    let results: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(results["complete"], false);
    assert!(kept.contains("The load ended early: "), "{kept}");
}
