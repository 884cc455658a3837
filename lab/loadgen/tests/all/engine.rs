//! The engine against servers of known conduct: what is drawn, what each loop sees, what a search
//! finds.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use openssl::nid::Nid;
use rustls::pki_types::CertificateDer;
use rustls::{NamedGroup, ProtocolVersion, RootCertStore};
use widelane_loadgen::{
    Arrivals, Cipher, Course, Doubt, Ending, ErrorKind, Goal, Group, LoadError, Mix, Outcome, Pace,
    Plan, Probe, Resume, Tally, TlsVersion, Trust, Weighted, Work, attempt, doubts, drive, search,
};

use crate::support::{Agreed, Conduct, Server, elliptic, key, serve, serve_as};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Handshakes of TLS 1.3 by four connections.
fn plan(server: &Server) -> Plan {
    Plan {
        target: server.address,
        sources: Vec::new(),
        trust: Trust::Pinned(server.certificates.clone()),
        mix: Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, Group::X25519, "localhost"),
        work: Work::Handshake,
        pace: Pace::Closed { connections: 4, ramp: Duration::ZERO },
        patience: Duration::from_secs(10),
        seed: 1,
    }
}

fn course(window: Duration) -> Course {
    Course { threads: 2, cpus: Vec::new(), warm_up: Duration::ZERO, window }
}

fn driven(plan: &Plan, window: Duration) -> Outcome {
    drive(plan, &course(window), &NEVER, |_, _| ()).unwrap()
}

/// A probe of a search.
fn from_here(plan: &Plan, course: &Course) -> Result<Outcome, LoadError> {
    attempt(plan, course, &NEVER)
}

#[test]
fn connects_from_the_addresses_that_are_given() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let accept = move || (0..4).map(|_| listener.accept().unwrap().1.ip()).collect::<BTreeSet<_>>();
    let seen = thread::spawn(accept);
    let sources = [2, 3].map(|last| IpAddr::from([127, 0, 0, last]));
    let plan = Plan { target, sources: sources.into(), ..plan(&serve_as(Conduct::default())) };
    // Nobody speaks TLS there.
    given_up(&plan);
    assert_eq!(seen.join().unwrap(), BTreeSet::from(sources));

    let strange = IpAddr::from([192, 0, 2, 1]);
    let error = given_up(&Plan { sources: vec![strange], ..plan }).to_string();
    assert!(error.contains("no such address"), "{error}");
}

/// Why a load that cannot succeed is given up.
fn given_up(plan: &Plan) -> LoadError {
    let course = Course { threads: 1, ..course(Duration::from_secs(60)) };
    drive(plan, &course, &NEVER, |_, _| ()).map(drop).unwrap_err().error
}

fn open(rate: f64, arrivals: Arrivals) -> Pace {
    Pace::Open { rate, arrivals, ramp: Duration::ZERO, connections_max: 1000 }
}

#[test]
fn draws_by_weight_from_everything_that_can_differ() {
    let server = serve_as(Conduct::default());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(server.certificates[0].clone())).unwrap();
    let plan = Plan {
        trust: Trust::Authorities(Arc::new(roots)),
        mix: Mix {
            versions: Weighted::new(vec![(TlsVersion::Tls12, 1), (TlsVersion::Tls13, 3)]).unwrap(),
            ciphers: Weighted::new(vec![
                (Cipher::Aes256Gcm, 1),
                (Cipher::Aes128Gcm, 2),
                (Cipher::Chacha20Poly1305, 5),
            ])
            .unwrap(),
            groups: Weighted::new(vec![
                (Group::X25519, 2),
                (Group::Secp256r1, 1),
                (Group::Secp384r1, 1),
            ])
            .unwrap(),
            names: Weighted::new(vec![("localhost".to_owned(), 4), ("other".to_owned(), 1)])
                .unwrap(),
            resumption: Weighted::new(vec![
                (Resume::Never, 1),
                (Resume::Ticket, 2),
                (Resume::SessionId, 1),
            ])
            .unwrap(),
            ..plan(&server).mix
        },
        ..plan(&server)
    };
    let mut seconds = 0;
    let outcome = drive(&plan, &course(Duration::from_secs(3)), &NEVER, |index, _| {
        assert_eq!(index, seconds);
        seconds += 1;
    })
    .unwrap();
    assert_eq!(seconds, 3);
    let tally = &outcome.tally;
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    assert!(tally.full > 0 && tally.resumed > 0, "{} {}", tally.full, tally.resumed);
    // The server counts more: what ended after the window.
    let saw = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    assert!((0..=4).contains(&(saw(&server.full) as i64 - tally.full as i64)));
    assert!((0..=4).contains(&(saw(&server.resumed) as i64 - tally.resumed as i64)));
    assert_eq!(tally.connect_ns.len() - tally.handshakes(), tally.unfinished_ns.len());

    let agreed = server.agreed.lock().unwrap();
    let assert_share = |share: f64, has: &dyn Fn(&Agreed) -> bool| {
        // Resumed handshakes of TLS 1.2 have no group.
        let all = agreed.iter().filter(|one| one.version == ProtocolVersion::TLSv1_3);
        let (those, all) = (all.clone().filter(|one| has(one)).count(), all.count());
        assert!((those as f64 / all as f64 - share).abs() < 0.1, "{those} of {all}, not {share}");
    };
    assert_share(0.8, &|one| one.name == "localhost");
    for (group, share) in
        [(NamedGroup::X25519, 0.5), (NamedGroup::secp256r1, 0.25), (NamedGroup::secp384r1, 0.25)]
    {
        assert_share(share, &|one| one.group == Some(group));
    }
    for (cipher, share) in [("AES_256", 0.125), ("AES_128", 0.25), ("CHACHA20", 0.625)] {
        assert_share(share, &|one| format!("{:?}", one.suite).contains(cipher));
    }
    let of_tls13 = agreed.iter().filter(|one| one.version == ProtocolVersion::TLSv1_3).count();
    let part = of_tls13 as f64 / agreed.len() as f64;
    assert!((part - 0.75).abs() < 0.1, "{of_tls13} of {}", agreed.len());
    let resumed = tally.resumed as f64 / tally.handshakes() as f64;
    assert!((0.3..0.8).contains(&resumed), "{resumed}: three of four may be");
}

#[test]
fn asks_again_and_again_on_one_connection() {
    let server = serve_as(Conduct { body: vec![7; 100_000], ..Conduct::default() });
    let work =
        |body_bytes| Work::Requests { path: "/".to_owned(), count: 5, body_bytes, pattern: None };
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let mix = Mix { versions: Weighted::only(version), ..plan(&server).mix };
        let plan = Plan { work: work(Some(100_000)), mix, ..plan(&server) };
        let outcome = driven(&plan, Duration::from_secs(1));
        let tally = &outcome.tally;
        assert!(tally.errors.is_empty(), "{:?}", tally.errors);
        assert!(
            tally.full > 0 && tally.answers > 4 * (tally.full - 1),
            "{} {}",
            tally.full,
            tally.answers
        );
        assert!(tally.answers <= 5 * tally.full);
        assert!(tally.body_bytes >= 100_000 * tally.answers);
        assert_eq!(tally.body_bytes_announced, 100_000);
        assert_eq!(tally.answer_ns.len(), tally.answers);
        // Each answer has one first byte, before its end.
        assert!((0..=4).contains(&(tally.first_byte_ns.len() as i64 - tally.answers as i64)));
        let medians =
            [&tally.first_byte_ns, &tally.answer_ns].map(|all| all.value_at_quantile(0.5));
        assert!(0 < medians[0] && medians[0] < medians[1], "{medians:?}");
    }
    let wrong = Plan { work: work(Some(99_999)), ..plan(&server) };
    let error = given_up(&wrong);
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Answer, .. }), "{error}");
}

#[test]
fn refuses_names_and_authorities_that_do_not_match() {
    let server = serve_as(Conduct::default());
    let stranger = serve_as(Conduct::default());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(stranger.certificates[0].clone())).unwrap();
    let strangers = Plan { trust: Trust::Authorities(Arc::new(roots)), ..plan(&server) };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(server.certificates[0].clone())).unwrap();
    let names = Weighted::only("elsewhere".to_owned());
    let elsewhere = Plan {
        trust: Trust::Authorities(Arc::new(roots)),
        mix: Mix { names, ..plan(&server).mix },
        ..plan(&server)
    };
    for plan in [strangers, elsewhere] {
        let error = given_up(&plan);
        assert!(
            matches!(error, LoadError::Failing { kind: ErrorKind::Certificate, .. }),
            "{error}"
        );
    }
    let anyone = Plan { trust: Trust::Anyone, ..plan(&server) };
    assert!(driven(&anyone, Duration::from_millis(500)).tally.full > 0);
}

/// A closed loop of one connection waits out each stall once; an open loop counts everybody who
/// would have come meanwhile.
#[test]
fn an_open_loop_sees_a_stall_that_a_closed_one_hides() {
    let stall = Duration::from_millis(400);
    let server = serve_as(Conduct { stall: Some(stall), ..Conduct::default() });
    let window = Duration::from_secs(6);
    let slow = |outcome: &Outcome| {
        let half = stall.as_nanos() as u64 / 2;
        outcome.tally.latency_ns.count_between(half, u64::MAX)
    };

    let open = driven(&Plan { pace: open(40.0, Arrivals::Poisson), ..plan(&server) }, window);
    assert!(open.tally.latency_ns.value_at_percentile(99.0) > 250_000_000);
    let closed = Pace::Closed { connections: 1, ramp: Duration::ZERO };
    let closed = driven(&Plan { pace: closed, ..plan(&server) }, window);
    // A fifth of all, 48, against one in each second.
    assert!(slow(&open) > 2 * slow(&closed), "{} {}", slow(&open), slow(&closed));
}

/// All who come while the server stops need a session each.
#[test]
fn a_stall_of_the_server_leaves_sessions_for_all_who_come_meanwhile() {
    let stall = Some(Duration::from_millis(150));
    let server = serve_as(Conduct { stall, ..Conduct::default() });
    let mix = Mix { resumption: Weighted::only(Resume::Ticket), ..plan(&server).mix };
    let plan = Plan { mix, pace: open(300.0, Arrivals::Constant), ..plan(&server) };
    let course = Course { warm_up: Duration::from_millis(1500), ..course(Duration::from_secs(3)) };
    let tally = drive(&plan, &course, &NEVER, |_, _| ()).unwrap().tally;
    assert!(tally.full == 0 && tally.resumed > 800, "{} {}", tally.full, tally.resumed);
}

/// A server that lets twenty handshakes through per second.
fn narrow() -> Server {
    let interval = Duration::from_millis(50);
    serve_as(Conduct { interval: Some(interval), ..Conduct::default() })
}

#[test]
fn follows_the_rate_of_an_open_loop_and_says_when_the_server_does_not() {
    let server = narrow();
    let window = Duration::from_secs(5);
    let slower = Plan { pace: open(10.0, Arrivals::Constant), ..plan(&server) };
    let outcome = driven(&slower, window);
    assert!((48..=53).contains(&outcome.tally.due), "{}", outcome.tally.due);
    assert!(doubts(&slower, &outcome).is_empty(), "{:?}", doubts(&slower, &outcome));

    let faster = Plan { pace: open(40.0, Arrivals::Constant), ..plan(&server) };
    let outcome = driven(&faster, window);
    let doubts = doubts(&faster, &outcome);
    assert!(matches!(doubts[..], [Doubt::Behind { .. }]), "{doubts:?}");
    let unfinished = outcome.tally.unfinished_ns.len();
    assert!(unfinished >= 90, "{unfinished}");
}

#[test]
fn a_server_that_takes_longer_than_the_warm_up_does_not_fall_behind() {
    let delay = Duration::from_millis(1500);
    let server = serve_as(Conduct { delay, ..Conduct::default() });
    let plan = Plan { pace: open(50.0, Arrivals::Constant), ..plan(&server) };
    let outcome = driven(&plan, Duration::from_secs(4));
    let early = outcome.tally.due_before_any_ended;
    assert!((70..=90).contains(&early), "{early}");
    assert!(doubts(&plan, &outcome).is_empty(), "{:?}", doubts(&plan, &outcome));
}

#[test]
fn a_search_finds_the_limit_of_a_server_within_ten_per_cent() {
    let server = narrow();
    // A busy machine may miss some of the server's twenty per second.
    let crowded = Pace::Closed { connections: 10, ramp: Duration::ZERO };
    let outcome = driven(&Plan { pace: crowded, ..plan(&server) }, Duration::from_secs(4));
    let capacity = outcome.tally.full as f64 / outcome.wall.as_secs_f64();
    assert!(capacity <= 21.0, "{capacity}");

    let plan = Plan { pace: open(1.0, Arrivals::Constant), ..plan(&server) };
    let goal = Goal { latency_max: Duration::from_secs(1), percentile: 99.0 };
    let course = Course { threads: 1, ..course(Duration::from_secs(5)) };
    let mut probes = 0;
    let found = search(&plan, &course, &goal, from_here, |_| probes += 1);
    assert_eq!(found.probes.len(), probes);
    let seen = |probe: &Probe| (probe.rate, probe.outcome.tally.due, probe.latency, probe.missed);
    let probes: Vec<_> = found.probes.iter().map(seen).collect();
    let Ending::Rate(rate) = found.ending else { panic!("{:?} {probes:?}", found.ending) };
    assert!((rate / capacity - 1.0).abs() < 0.1, "{rate} {capacity} {probes:?}");
    assert!(!found.client_bound);
}

#[test]
fn a_search_says_with_arithmetic_what_cannot_be_done() {
    let server = serve_as(Conduct { body: vec![0; 32 << 20], ..Conduct::default() });
    let plan = Plan {
        work: Work::Requests { path: "/".to_owned(), count: 1, body_bytes: None, pattern: None },
        ..plan(&server)
    };
    let goal = Goal { latency_max: Duration::from_millis(2), percentile: 100.0 };
    let found = search(&plan, &course(Duration::from_secs(2)), &goal, from_here, |_| ());
    let Ending::Infeasible(why) = &found.ending else { panic!("{:?}", found.ending) };
    assert!(why.starts_with("33554432 bytes in 0.002 s are 134.22 Gbit/s"), "{why}");
    assert_eq!(found.probes.len(), 1);
}

#[test]
fn stops_in_the_middle_and_tells_what_there_is() {
    let server = serve_as(Conduct::default());
    let stop = AtomicBool::new(false);
    let outcome = drive(&plan(&server), &course(Duration::from_secs(60)), &stop, |_, _| {
        stop.store(true, Ordering::Relaxed);
    })
    .unwrap();
    assert!(outcome.interrupted && outcome.wall < Duration::from_secs(30));
    assert!(outcome.tally.full > 0);
}

#[test]
fn an_outage_that_is_short_does_not_end_a_load() {
    let outage = |from: u64, to: u64| Conduct {
        outage: Some([from, to].map(Duration::from_millis)),
        ..Conduct::default()
    };
    let pace = open(1000.0, Arrivals::Constant);
    let server = serve_as(outage(500, 900));
    let outcome = driven(&Plan { pace, ..plan(&server) }, Duration::from_millis(1500));
    let tally = &outcome.tally;
    // As many as end a load whose server is gone.
    assert!(tally.failures() > 300, "{:?}", tally.errors);
    assert!(tally.full > 500, "{}", tally.full);

    let server = serve_as(outage(500, 60_000));
    let mut seconds = Vec::new();
    let second = |_: usize, tally: &Tally| seconds.push(tally.full);
    let long = course(Duration::from_secs(60));
    let given_up = drive(&Plan { pace, ..plan(&server) }, &long, &NEVER, second).unwrap_err();
    assert!(matches!(given_up.error, LoadError::Failing { .. }), "{given_up}");
    let outcome = given_up.outcome.expect("what was measured before");
    assert!(outcome.tally.full > 200, "{}", outcome.tally.full);
    assert_eq!(seconds.iter().sum::<u64>(), outcome.tally.full);
    assert!(outcome.wall > Duration::from_millis(1400) && outcome.wall < Duration::from_secs(30));
    assert!(!outcome.interrupted);
}

#[test]
fn a_load_is_stopped_also_while_its_connections_end() {
    // Connections get there, and are never answered.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let patience = Duration::from_secs(300);
    let plan = Plan { target, patience, ..plan(&serve_as(Conduct::default())) };
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(1));
            stop.store(true, Ordering::Relaxed);
        });
        drive(&plan, &course(Duration::from_millis(200)), &stop, |_, _| ()).unwrap()
    });
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    // The window had its full length.
    assert!(!outcome.interrupted);
    assert_eq!(outcome.tally.unfinished_ns.len(), 4);
}

#[test]
fn a_connection_that_the_server_leaves_open_is_counted_once() {
    let body = vec![1; 10];
    let server = serve_as(Conduct { lingers: true, body, ..Conduct::default() });
    let requests =
        Work::Requests { path: "/".to_owned(), count: 2, body_bytes: None, pattern: None };
    for work in [Work::Handshake, requests] {
        let plan = Plan { work, patience: Duration::from_millis(800), ..plan(&server) };
        let tally = driven(&plan, Duration::from_secs(2)).tally;
        assert!(tally.errors.is_empty(), "{:?}", tally.errors);
        // Four connections, several times.
        assert!(tally.done >= 8, "{}", tally.done);
        assert_eq!(tally.due, tally.done + tally.unfinished_ns.len());
    }
}

#[test]
fn a_server_that_never_answers_ends_a_load_of_few_connections() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let plan = Plan {
        target,
        patience: Duration::from_millis(500),
        pace: Pace::Closed { connections: 1, ramp: Duration::ZERO },
        ..plan(&serve_as(Conduct::default()))
    };
    let error = given_up(&plan);
    assert!(
        matches!(error, LoadError::Failing { kind: ErrorKind::Timeout, count: ..=9, .. }),
        "{error}"
    );
}

#[test]
fn a_probe_that_fails_on_this_host_says_nothing_about_the_server() {
    let plan = Plan {
        sources: vec![IpAddr::from([192, 0, 2, 1])],
        pace: open(1000.0, Arrivals::Constant),
        ..plan(&serve_as(Conduct::default()))
    };
    let short = attempt(&plan, &course(Duration::from_millis(200)), &NEVER).unwrap_err();
    assert!(matches!(short, LoadError::OwnHost(_)), "{short}");
    let long = attempt(&plan, &course(Duration::from_secs(60)), &NEVER).unwrap_err();
    assert!(matches!(long, LoadError::Failing { kind: ErrorKind::System, .. }), "{long}");
}

#[test]
fn a_server_that_limits_requests_per_connection_keeps_up() {
    let conduct = Conduct { answers_max: Some(2), body: vec![1; 10], ..Conduct::default() };
    let server = serve_as(conduct);
    let work = Work::Requests { path: "/".to_owned(), count: 5, body_bytes: None, pattern: None };
    let plan = Plan { work, pace: open(50.0, Arrivals::Constant), ..plan(&server) };
    let outcome = driven(&plan, Duration::from_secs(2));
    let (tally, doubts) = (&outcome.tally, doubts(&plan, &outcome));
    assert!(doubts.is_empty(), "{doubts:?}");
    assert!(tally.answers.abs_diff(2 * tally.done) < 4, "{} {}", tally.answers, tally.done);
}

#[test]
fn certificates_take_turns_by_connection() {
    let keys = [key(), elliptic(Nid::X9_62_PRIME256V1)];
    let server = serve(&keys.each_ref().map(|key| (key, key)));
    // At such a rate one slot serves all connections.
    let pace = open(40.0, Arrivals::Constant);
    let course = Course { threads: 1, ..course(Duration::from_secs(1)) };
    let outcome = drive(&Plan { pace, ..plan(&server) }, &course, &NEVER, |_, _| ()).unwrap();
    assert!(outcome.tally.errors.is_empty(), "{:?}", outcome.tally.errors);
    let full = outcome.tally.full;
    let shown = server.shown.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(full >= 30 && shown[0].abs_diff(shown[1]) <= 2, "{full} {shown:?}");
}
