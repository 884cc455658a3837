//! Loads that agents share whose clocks and latencies count.

use std::iter;
use std::process::Output;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use widelane_testkit::server::Process;
use widelane_testkit::star::Star;

use crate::common::fleet::{Agent, Nats, agents_for, load, load_on};
use crate::common::haproxy::Haproxy;
use crate::common::nginx::{EC, Nginx};
use crate::common::{json, stderr};

/// The parts that agents had in a load.
fn parts(found: &Value, name: &str) -> Vec<Option<f64>> {
    let agents = found["agents"].as_array().unwrap();
    agents.iter().map(|part| part[name].as_f64()).collect()
}

#[test]
fn agents_on_hosts_of_their_own_begin_together() {
    const HOSTS: usize = 4;
    let star = match Star::build("wf", HOSTS) {
        Ok(star) => star,
        Err(reason) => return eprintln!("skipped: no network namespaces here: {reason}"),
    };
    let start = || (Nats::at(Star::MIDDLE, &[]), Nginx::at(Star::MIDDLE, EC));
    let (nats, nginx) = star.in_the_middle(start);
    let agent = |host: usize| {
        let words = ["--allow", nginx.address.as_str()];
        star.on_host(host, || Agent::start(&format!("a{host}"), &nats.url(), &words))
    };
    let mut agents: Vec<Agent> = (0..HOSTS).map(agent).collect();
    let begin = |seconds: u32| {
        let mut command = load(&nats, &nginx, HOSTS, seconds, &["--rate", "100"]);
        star.in_the_middle(|| Process::start(&mut command))
    };

    // Whoever waits for a CPU is late, which a busy machine may do to one now and then.
    let together = (0..5).any(|_| {
        let output = begin(1).output();
        assert!(output.status.success(), "{}", stderr(&output));
        let late: Vec<f64> = parts(&json(&output), "late_s").into_iter().flatten().collect();
        assert_eq!(late.len(), HOSTS);
        let ends = late
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), late| (low.min(*late), high.max(*late)));
        ends.1 - ends.0 < 0.02
    });
    assert!(together, "agents begin more than 20 ms apart");

    let running = begin(4);
    agents[2].says("takes part");
    thread::sleep(Duration::from_secs(2));
    agents[2].process.child().kill().unwrap();
    let output = running.output();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found = json(&output);
    let lost: Vec<bool> = parts(&found, "lost_s").iter().map(Option::is_some).collect();
    assert_eq!(lost, [false, false, true, false], "{found}");
    let handshakes: f64 = parts(&found, "handshakes").into_iter().flatten().sum();
    assert_eq!(found["full"].as_f64().unwrap(), handshakes, "{found}");
    assert!(found["degraded"][0].as_str().unwrap().contains("25.0 connections per second"));
}

#[test]
fn a_search_has_all_agents_probe_together() {
    let (nats, haproxy) = (Nats::start(&[]), Haproxy::limited(100));
    let agents = agents_for(2, &nats, &haproxy.address);
    let search = |words: &[&str]| {
        // Poisson arrivals are more than HAProxy takes in some seconds, and fewer in others.
        let probes = ["--search-max", "--duration", "1s", "--warm-up", "1s", "--arrivals=constant"];
        load_on(&nats, &haproxy.address, 2, &[&probes[..], words].concat())
    };
    let attempt = || search(&["--latency-max", "400ms", "--percentile", "99"]).output().unwrap();
    // Beside other work a search may end without an answer, and says so.
    let tells = |output: &Output| !stderr(output).contains("on a quieter machine");
    let output = iter::repeat_with(attempt).take(4).find(tells).expect("one of four tells");
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&output);
    let rate = found["rate"].as_f64().unwrap();
    assert!((75.0..125.0).contains(&rate), "{found}");
    let probes = found["probes"].as_array().unwrap();
    assert!(probes[0]["rate"].is_null() && probes.len() > 3, "{found}");

    let never = search(&["--latency-max", "1us"]).output().unwrap();
    assert_eq!(never.status.code(), Some(1));
    assert!(json(&never)["ending"].as_str().unwrap().starts_with("infeasible: "));
    drop(agents);
}

#[test]
fn a_search_ends_with_its_first_lost_agent() {
    let (nats, haproxy) = (Nats::start(&[]), Haproxy::limited(100));
    let mut agents = agents_for(2, &nats, &haproxy.address);
    let words =
        ["--search-max", "--latency-max", "400ms", "--percentile", "90", "--duration", "3s"];
    let running = Process::start(&mut load_on(&nats, &haproxy.address, 2, &words));
    // The connection that works alone is the first agent's.
    agents[1].says("takes part");
    thread::sleep(Duration::from_secs(2));
    agents[1].process.child().kill().unwrap();
    let output = running.output();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("needs all its agents") && said.contains("a1"), "{said}");
}
