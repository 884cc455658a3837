//! What searches and doubts make of outcomes that are given.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use widelane_loadgen::{
    Arrivals, Cipher, Course, Doubt, Ending, ErrorKind, Found, Goal, Group, Missed, Mix, Outcome,
    Pace, Plan, Tally, TlsVersion, Trust, Work, doubts, search,
};

const SECOND: Duration = Duration::from_secs(1);
const SEED: u64 = 7;

fn plan(rate: f64) -> Plan {
    Plan {
        target: (Ipv4Addr::LOCALHOST, 1).into(),
        sources: Vec::new(),
        trust: Trust::Anyone,
        mix: Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, Group::X25519, "localhost"),
        work: Work::Handshake,
        pace: Pace::Open {
            rate,
            arrivals: Arrivals::Constant,
            ramp: Duration::ZERO,
            connections_max: 1000,
        },
        patience: SECOND,
        seed: SEED,
    }
}

/// A second in which so many handshakes ended of those that were due.
fn outcome(due: u64, done: u64) -> Outcome {
    let mut tally = Tally { due, done, full: done, ..Tally::new() };
    tally.latency_ns.record_n(1_000_000, done).unwrap();
    let client_cpu = Duration::ZERO;
    Outcome { wall: SECOND, busy: 0.1, client_cpu, tally, interrupted: false }
}

/// A second in which every connection failed.
fn failed(kind: ErrorKind, count: u64) -> Outcome {
    let mut outcome = outcome(count, 0);
    outcome.tally.errors.insert(kind, count);
    outcome
}

/// A search whose probes are what `attempt` makes of a rate and a seed.
fn found(mut attempt: impl FnMut(Option<f64>, u64) -> Outcome) -> Found<Infallible> {
    let goal = Goal { latency_max: SECOND / 10, percentile: 99.0 };
    let course = Course { threads: 1, cpus: Vec::new(), warm_up: Duration::ZERO, window: SECOND };
    let attempt = |plan: &Plan, course: &Course| {
        // Whatever keeps the limit has ended by then, if it came at the beginning.
        assert_eq!(course.warm_up, goal.latency_max);
        let rate = match plan.pace {
            Pace::Open { rate, .. } => Some(rate),
            Pace::Closed { .. } => None,
        };
        Ok(attempt(rate, plan.seed))
    };
    search(&plan(0.0), &course, &goal, attempt, |_| ())
}

/// A server that does a hundred per second.
fn hundred(rate: Option<f64>) -> Outcome {
    let due = rate.unwrap_or(10.0) as u64;
    outcome(due, due.min(100))
}

#[test]
fn no_two_probes_have_the_same_arrivals() {
    let mut seeds = Vec::new();
    let found = found(|rate, seed| {
        seeds.push(seed);
        hundred(rate)
    });
    let Ending::Rate(rate) = found.ending else { panic!("{:?}", found.ending) };
    assert!((rate / 105.0 - 1.0).abs() < 0.1, "{rate}");
    assert_eq!(seeds[0], SEED);
    assert_eq!(BTreeSet::from_iter(&seeds).len(), seeds.len());
    // Neither do their threads, whose seeds are counted upwards.
    let nearest = seeds.windows(2).map(|pair| pair[1] - pair[0]).min();
    assert!(nearest > Some(1 << 42), "{nearest:?}");
}

#[test]
fn a_search_that_fails_keeps_its_probes() {
    let goal = Goal { latency_max: SECOND / 10, percentile: 99.0 };
    let course = Course { threads: 1, cpus: Vec::new(), warm_up: Duration::ZERO, window: SECOND };
    let mut probes = 0;
    let attempt = |_: &Plan, _: &Course| {
        probes += 1;
        if probes < 4 { Ok(outcome(100, 100)) } else { Err("an agent was lost") }
    };
    let found = search(&plan(0.0), &course, &goal, attempt, |_| ());
    assert_eq!(found.probes.len(), 3);
    assert!(matches!(found.ending, Ending::GivenUp("an agent was lost")), "{:?}", found.ending);
}

#[test]
fn a_server_that_has_ended_ends_a_search() {
    let mut probes = 0;
    let found = found(|rate, _| {
        probes += 1;
        if probes < 6 { hundred(rate) } else { failed(ErrorKind::Refused, 50) }
    });
    assert!(matches!(found.ending, Ending::Gone), "{:?}", found.ending);
    assert_eq!(found.probes.len(), 6);
}

#[test]
fn what_no_rate_kept_is_told_from_what_none_kept_twice() {
    let none = found(|rate, _| match rate {
        None => hundred(None),
        Some(_) => failed(ErrorKind::Closed, 3),
    });
    assert!(matches!(none.ending, Ending::NeverKept(Missed::Failures(3))), "{:?}", none.ending);

    let mut seen = BTreeSet::new();
    let once = found(|rate, _| match seen.insert(rate.unwrap_or_default().to_bits()) {
        true => hundred(rate),
        false => failed(ErrorKind::Closed, 3),
    });
    assert!(matches!(once.ending, Ending::Unsteady), "{:?}", once.ending);
}

#[test]
fn a_lone_connection_that_fails_is_not_called_slow() {
    let found = found(|_, _| {
        let mut outcome = outcome(10, 7);
        outcome.tally.errors.insert(ErrorKind::Status, 3);
        outcome
    });
    let Ending::Infeasible(why) = &found.ending else { panic!("{:?}", found.ending) };
    assert_eq!(why, "one connection alone: 3 failed (status)");
}

#[test]
fn what_a_warm_up_left_over_was_not_asked_for() {
    let plan = plan(10_000.0);
    let behind = doubts(&plan, &outcome(16_000, 500));
    assert_eq!(behind, [Doubt::Behind { done: 500.0, asked: 10_000.0 }]);
    assert_eq!(doubts(&plan, &outcome(16_000, 10_000)), []);
}

#[test]
fn what_came_before_any_could_end_is_not_missed() {
    let plan = plan(10_000.0);
    let settled = |due_before_any_ended: u64, done: u64| {
        let mut outcome = outcome(10_000, done);
        outcome.tally.due_before_any_ended = due_before_any_ended;
        doubts(&plan, &outcome)
    };
    assert_eq!(settled(4_000, 6_000), []);
    assert_eq!(settled(0, 6_000), [Doubt::Behind { done: 6_000.0, asked: 10_000.0 }]);
    assert_eq!(settled(4_000, 5_500), [Doubt::Behind { done: 5_500.0, asked: 10_000.0 }]);
}

#[test]
fn clients_bound_a_search_only_where_the_slowest_rate_missed_kept_them_busy() {
    let found_as = |busy: fn(f64) -> f64| {
        found(|rate, _| Outcome { busy: busy(rate.unwrap_or_default()), ..hundred(rate) })
    };
    let overshot = found_as(|rate| if rate > 120.0 { 1.0 } else { 0.6 });
    assert!(overshot.probes.iter().any(|probe| probe.outcome.busy == 1.0));
    assert!(!overshot.client_bound);
    assert!(found_as(|_| 1.0).client_bound);
}
