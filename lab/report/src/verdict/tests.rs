//! What is answered for rows of every kind.

use super::*;
use crate::words::{Metric, SERVER_CPU_PER_REQUEST};

fn row(scenario: &str, ratio: [f64; 3]) -> Row {
    Row {
        scenario: scenario.to_owned(),
        subject: "accelerated".to_owned(),
        metric: SERVER_CPU.name.to_owned(),
        rival: Some("native".to_owned()),
        ratio: Some(ratio[0]),
        ratio_low: Some(ratio[1]),
        ratio_high: Some(ratio[2]),
        ..Row::default()
    }
}

/// What a room of ours did beside a rival.
fn of_room(room: &str, metric: Metric, rival: &str, scenario: &str, ratio: [f64; 3]) -> Row {
    Row {
        subject: "widelane".to_owned(),
        room: Some(room.to_owned()),
        metric: metric.name.to_owned(),
        rival: Some(rival.to_owned()),
        ..row(scenario, ratio)
    }
}

fn verdict_of(rows: Vec<Row>) -> Verdict {
    verdict(&Results { rows, ..Results::default() })
}

#[test]
fn a_gain_is_told_with_its_figure() {
    let verdict = verdict_of(vec![
        row("haproxy/tls1.2/rsa2048/c200", [0.62, 0.60, 0.65]),
        row("nginx/tls1.2/rsa2048/c8", [0.70, 0.68, 0.72]),
        row("nginx/tls1.2/rsa2048/c200", [0.58, 0.56, 0.60]),
    ]);
    assert_eq!(verdict.tone, Tone::Better);
    assert_eq!(
        verdict.sentence,
        "nginx spends 0.58× the CPU per full TLS handshake: 1.7× as many handshakes per core."
    );
    assert_eq!(
        verdict.detail,
        "TLS 1.2, RSA-2048, 200 connections: 0.58×, 95 % interval 0.56–0.60. \
         HAProxy: 0.62× (0.60–0.65)."
    );
}

#[test]
fn what_is_not_the_plain_mode_is_named() {
    let scenario = "haproxy/tls1.3/rsa2048/x25519/c200";
    let mode = |subject: &str, ratio| Row { subject: subject.to_owned(), ..row(scenario, ratio) };
    let rejected = Row { status: Status::Rejected, ..mode("accelerated", [0.62, 0.60, 0.65]) };
    let verdict = verdict_of(vec![rejected, mode("async", [0.7, 0.68, 0.72])]);
    assert_eq!(
        verdict.sentence,
        "HAProxy, async, spends 0.70× the CPU per full TLS handshake: 1.4× as many handshakes \
         per core."
    );
    let verdict =
        verdict_of(vec![mode("async", [0.7, 0.68, 0.72]), mode("accelerated", [0.62, 0.60, 0.65])]);
    assert!(verdict.sentence.starts_with("HAProxy spends 0.62×"), "{}", verdict.sentence);
    assert!(verdict.detail.ends_with("HAProxy, async: 0.70× (0.68–0.72)."));
    let verdict = verdict_of(vec![mode("wait-0", [1.2, 1.15, 1.26])]);
    assert_eq!(
        verdict.sentence,
        "Not worth it here: HAProxy, no wait, spends 1.20× the CPU per full TLS handshake."
    );
}

#[test]
fn what_a_core_can_do_is_told_only_of_busy_servers() {
    let scenario = "nginx/tls1.3/rsa2048/x25519/c8";
    let sentence = |[native, accelerated]: [f64; 2]| {
        let measurement = |subject: &str, share: f64| Measurement {
            subject: subject.to_owned(),
            wall_s: 2.0,
            cpu_s: 4.0 * share,
            server_cpus: 2,
            ..Measurement::default()
        };
        let pair = Pair {
            scenario: scenario.to_owned(),
            measurements: vec![
                measurement("native", native),
                measurement("accelerated", accelerated),
            ],
            ..Pair::default()
        };
        let rows = vec![row(scenario, [0.58, 0.56, 0.60])];
        super::verdict(&Results { rows, pairs: vec![pair; 6], ..Results::default() }).sentence
    };
    assert!(sentence([0.99, 0.95]).ends_with(": 1.7× as many handshakes per core."));
    assert_eq!(
        sentence([0.99, 0.6]),
        "With 8 connections nginx spends 0.58× the CPU per full TLS handshake."
    );
}

#[test]
fn a_partial_load_is_told_behind_the_saturated_server() {
    let partial =
        |percent: u32, ratio| row(&format!("nginx/tls1.3/rsa2048/x25519/load{percent}"), ratio);
    let verdict = verdict_of(vec![
        partial(20, [0.83, 0.80, 0.86]),
        partial(30, [0.82, 0.80, 0.84]),
        row("nginx/tls1.3/rsa2048/x25519/c200", [0.58, 0.56, 0.60]),
    ]);
    assert_eq!(
        verdict.detail,
        "TLS 1.3, RSA-2048, X25519, 200 connections: 0.58×, 95 % interval 0.56–0.60. \
         TLS 1.3, RSA-2048, X25519, 30 % load: 0.82× (0.80–0.84)."
    );
    let alone = verdict_of(vec![partial(20, [0.83, 0.80, 0.86]), partial(80, [0.7, 0.68, 0.72])]);
    assert!(alone.detail.starts_with("TLS 1.3, RSA-2048, X25519, 80 % load: 0.70×"));
    assert_eq!(alone.sentence, "At 80 % load nginx spends 0.70× the CPU per full TLS handshake.");
}

#[test]
fn loads_of_other_keys_versions_and_servers_are_not_those_of_the_first() {
    let at = |scenario: &str, load: u32, ratio| row(&format!("{scenario}/load{load}"), ratio);
    let loads = |scenario: &str, ratio: f64| {
        let at = |load, ratio: f64| at(scenario, load, [ratio, ratio - 0.02, ratio + 0.02]);
        [at(30, ratio + 0.1), at(60, ratio)]
    };
    let verdict = verdict_of(
        [
            loads("nginx/tls1.3/rsa2048/x25519", 0.60),
            loads("nginx/tls1.3/ecdsa-p256/x25519", 0.75),
            loads("nginx/tls1.2/rsa2048/x25519", 0.55),
            loads("haproxy/tls1.3/ecdsa-p256/x25519", 0.80),
        ]
        .concat(),
    );
    assert_eq!(
        verdict.detail,
        "TLS 1.3, RSA-2048, X25519, 60 % load: 0.60×, 95 % interval 0.58–0.62. 30 % load: \
         0.70× (0.68–0.72). HAProxy, TLS 1.3, ECDSA P-256, X25519, 60 % load: 0.80× \
         (0.78–0.82)."
    );
    // Nor is the partial load of another key told behind a saturated server.
    let mut rows = loads("nginx/tls1.3/ecdsa-p256/x25519", 0.75).to_vec();
    rows.push(row("nginx/tls1.3/rsa2048/x25519/c200", [0.5, 0.48, 0.52]));
    rows.push(row("haproxy/tls1.3/rsa2048/x25519/load30", [0.8, 0.78, 0.82]));
    rows.push(row("haproxy/tls1.3/rsa2048/x25519/c200", [0.6, 0.58, 0.62]));
    assert_eq!(
        verdict_of(rows).detail,
        "TLS 1.3, RSA-2048, X25519, 200 connections: 0.50×, 95 % interval 0.48–0.52. HAProxy: \
         0.60× (0.58–0.62)."
    );
}

#[test]
fn every_server_has_its_name() {
    let verdict = verdict_of(vec![
        row("lighttpd/tls1.3/rsa2048/x25519/c100", [0.45, 0.43, 0.47]),
        row("mosquitto/tls1.3/rsa2048/x25519/c100", [0.62, 0.60, 0.65]),
    ]);
    assert!(verdict.sentence.contains("ighttpd spends 0.45×"), "{}", verdict.sentence);
    assert!(verdict.detail.ends_with("osquitto: 0.62× (0.60–0.65)."), "{}", verdict.detail);
}

#[test]
fn too_few_rounds_tell_nothing() {
    let load = "nginx/tls1.3/rsa2048/x25519/load30";
    let without = Row { ratio_low: None, ratio_high: None, ..row(load, [0.6; 3]) };
    let verdict = verdict_of(vec![without.clone()]);
    assert_eq!(verdict.tone, Tone::Unknown);
    assert_eq!(
        verdict.sentence,
        "This run cannot tell: at 30 % load nginx spent 0.60× the CPU per full TLS handshake, \
         but in too few rounds to rely on. More rounds (--pairs) tell more."
    );
    assert_eq!(
        verdict.detail,
        "TLS 1.3, RSA-2048, X25519, 30 % load: 0.60×, a 95 % interval takes 6 rounds or more."
    );
    // Files of before have the range of a few rounds where others have an interval.
    let pair = |status| Pair { scenario: load.to_owned(), status, ..Pair::default() };
    let of = |sound: usize| {
        let mut pairs = vec![pair(Status::Ok); sound];
        pairs.push(pair(Status::Rejected));
        let rows = vec![row(load, [0.6, 0.58, 0.62])];
        super::verdict(&Results { rows, pairs, ..Results::default() }).tone
    };
    assert_eq!((of(5), of(6)), (Tone::Unknown, Tone::Better));
    let speed = |metric: Metric, scenario: &str| Row {
        ratio_low: None,
        ratio_high: None,
        ..of_room("ifma512", metric, "openssl", scenario, [4.0; 3])
    };
    for row in [
        speed(OPERATIONS, "rsa2048/private"),
        speed(CYCLES_PER_LOOKUP, "acl/fw/burst32"),
        Row { rival: Some("table".to_owned()), ..speed(TIME_PER_LOOKUP, "acl/fw/updates100") },
    ] {
        let verdict = verdict_of(vec![row]);
        assert_eq!(verdict.tone, Tone::Unknown, "{}", verdict.sentence);
        assert!(verdict.sentence.starts_with("This run cannot tell"), "{}", verdict.sentence);
    }
}

#[test]
fn a_rebuilt_server_is_told_beside_the_native_one() {
    let against = |rival: &str, place: &str, ratio| Row {
        rival: Some(rival.to_owned()),
        ..row(&format!("haproxy/tls1.3/rsa2048/x25519/{place}"), ratio)
    };
    let verdict = verdict_of(vec![
        against("native", "c200", [0.45, 0.44, 0.46]),
        against("haproxy-aws-lc", "c200", [0.72, 0.70, 0.74]),
        against("haproxy-aws-lc", "load30", [0.95, 0.93, 0.97]),
    ]);
    assert_eq!(
        verdict.detail,
        "TLS 1.3, RSA-2048, X25519, 200 connections: 0.45×, 95 % interval 0.44–0.46. Against \
         HAProxy on AWS-LC, TLS 1.3, RSA-2048, X25519, 200 connections: 0.72× (0.70–0.74). \
         Against HAProxy on AWS-LC, TLS 1.3, RSA-2048, X25519, 30 % load: 0.95× (0.93–0.97)."
    );
}

#[test]
fn every_workload_is_told() {
    let of = |metric: words::Metric, scenario: &str, ratio: [f64; 3]| Row {
        metric: metric.name.to_owned(),
        ..row(scenario, ratio)
    };
    let mixed = |percent: u32, ratio| {
        let scenario = format!("nginx/mixed/chacha20-poly1305-{percent}/c16");
        of(SERVER_CPU_PER_REQUEST, &scenario, ratio)
    };
    let bulk = "nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4";
    let verdict = verdict_of(vec![
        mixed(0, [1.0, 0.9, 1.1]),
        mixed(10, [0.96, 0.9, 1.05]),
        of(SERVER_CPU_PER_GB, bulk, [0.74, 0.71, 0.79]),
        row("nginx/tls1.2/rsa2048/c200", [0.58, 0.56, 0.60]),
        row("haproxy/tls1.2/rsa2048/c200", [0.62, 0.60, 0.65]),
    ]);
    assert_eq!(
        verdict.detail,
        "TLS 1.2, RSA-2048, 200 connections: 0.58×, 95 % interval 0.56–0.60. \
         HAProxy: 0.62× (0.60–0.65). nginx per gigabyte, TLS 1.3, RSA-2048, AES-128-GCM, 16 \
         MiB, 4 connections: 0.74× (0.71–0.79). nginx per request, mixed, 10 % \
         ChaCha20-Poly1305, 16 connections: 0.96× (0.90–1.05)."
    );
}

#[test]
fn lookups_name_the_other_classifier() {
    let lookups = |room: &str, ratio: [f64; 3]| {
        of_room(room, CYCLES_PER_LOOKUP, "rte_acl", "acl/fw-4096/burst32", ratio)
    };
    let verdict = verdict_of(vec![
        lookups("portable", [1.33, 1.30, 1.34]),
        lookups("avx512", [0.36, 0.35, 0.37]),
    ]);
    assert_eq!(verdict.tone, Tone::Better);
    assert_eq!(
        verdict.sentence,
        "Widelane finds the rule of a packet in 0.36× the cycles of DPDK's rte_acl: 2.8× as \
         many packets per core."
    );
    assert_eq!(verdict.detail, "fw-4096, bursts of 32, avx512: 0.36× (0.35–0.37).");
}

#[test]
fn lookups_while_rules_change_are_told_by_their_rate() {
    let beside = |rival: &str, ratio: [f64; 3]| {
        of_room("avx512", TIME_PER_LOOKUP, rival, "acl/fw/updates10000", ratio)
    };
    let verdict =
        verdict_of(vec![beside("live/quiet", [1.6, 1.25, 2.0]), beside("table", [1.25, 1.0, 1.6])]);
    assert_eq!(verdict.tone, Tone::Same);
    assert_eq!(
        verdict.sentence,
        "While rules change, packets are looked up at 0.80× a table's rate."
    );
    assert_eq!(
        verdict.detail,
        "fw, 10,000 changes per second, avx512: 0.80× (0.62–1.00) the rate of a table; \
         0.62× (0.50–0.80) the rate of the same rules without changes."
    );
}

#[test]
fn downloads_under_a_limit_are_told_with_their_figures() {
    let limited = |ratio: f64| Row {
        metric: GOODPUT_WITHIN.name.to_owned(),
        unit: "Gbit/s".to_owned(),
        value: Some(10.0 * ratio),
        ..row("nginx/tls1.3/rsa2048/aes128-gcm/1MiB/c1000", [ratio; 3])
    };
    let verdict = verdict_of(vec![limited(1.5)]);
    assert_eq!(verdict.tone, Tone::Better);
    assert_eq!(verdict.sentence, "Within the limit, nginx sends 1.50× as much data accelerated.");
    let infeasible = Row {
        value: None,
        status: Status::NotApplicable,
        reason: Some("infeasible: 17.2 Gbit/s".to_owned()),
        ..limited(1.0)
    };
    let verdict = verdict_of(vec![infeasible]);
    assert_eq!(verdict.sentence, "No rate of downloads was found that keeps the limit.");
    assert!(verdict.detail.ends_with("infeasible: 17.2 Gbit/s."), "{}", verdict.detail);
}

#[test]
fn without_openssl_another_library_is_the_rival() {
    let beside = |rival: &str, ratio: [f64; 3]| {
        of_room("avx2", OPERATIONS, rival, "sha-1/digest-many/16384", ratio)
    };
    let other = beside("ipsec-mb", [1.05, 1.03, 1.07]);
    let sentence = |rows| verdict_of(rows).sentence;
    assert!(sentence(vec![other.clone()]).ends_with("per second as ipsec-mb."));
    let both = vec![other, beside("openssl", [1.8, 1.7, 1.9])];
    assert!(sentence(both).ends_with("per second as OpenSSL."));
}

#[test]
fn messages_without_openssl_are_not_taken_for_handshakes() {
    let missing = |scenario: &str| Row {
        scenario: scenario.to_owned(),
        subject: "widelane-evp".to_owned(),
        metric: OPERATIONS.name.to_owned(),
        rival: Some("openssl".to_owned()),
        status: Status::NotApplicable,
        reason: Some("the provider does not offer it".to_owned()),
        ..Row::default()
    };
    let verdict = verdict_of(vec![missing("sha-512/digest/16384")]);
    assert_eq!(verdict.sentence, "Nothing of Widelane's was timed beside another library here.");
    assert_eq!(verdict.tone, Tone::Unknown);
    let verdict = verdict_of(vec![missing("rsa2048/sign")]);
    assert_eq!(verdict.sentence, "Nothing could be compared here.");
    // What is timed beside nobody, and rejected, is no comparison.
    let alone = Row { rival: None, status: Status::Rejected, ..missing("rsa2048/sign") };
    let verdict = verdict_of(vec![alone, missing("rsa2048/sign")]);
    assert_eq!(verdict.sentence, "Nothing could be compared here.");
}

#[test]
fn an_interval_around_one_is_no_gain() {
    let verdict = verdict_of(vec![row("embedded/tls1.3/rsa2048/c8", [0.98, 0.95, 1.01])]);
    assert_eq!(verdict.tone, Tone::Same);
    assert_eq!(
        verdict.sentence,
        "Nothing to gain here: accelerated or not, the embedded server spends about the same \
         CPU per full TLS handshake."
    );
}

#[test]
fn a_certain_difference_too_small_to_be_seen_is_none() {
    for ratio in [[1.004, 1.001, 1.007], [0.996, 0.993, 0.999]] {
        let verdict = verdict_of(vec![row("nginx/tls1.3/rsa2048/c8", ratio)]);
        assert_eq!(verdict.tone, Tone::Same, "{}", verdict.sentence);
        assert!(verdict.sentence.starts_with("Nothing to gain here"), "{}", verdict.sentence);
    }
    let less = verdict_of(vec![row("nginx/tls1.3/rsa2048/c8", [0.98, 0.97, 0.99])]);
    assert_eq!(less.tone, Tone::Better, "{}", less.sentence);
}

#[test]
fn a_wide_interval_around_one_tells_nothing_and_other_loads_are_told() {
    let at = |load: u32, ratio| row(&format!("haproxy/tls1.3/ecdsa-p256/load{load}"), ratio);
    let verdict = verdict_of(vec![at(30, [0.79, 0.73, 0.97]), at(60, [0.85, 0.78, 1.02])]);
    assert_eq!(verdict.tone, Tone::Unknown);
    assert_eq!(
        verdict.sentence,
        "This run cannot tell: at 60 % load HAProxy spends between 0.78× and 1.02× the CPU per \
         full TLS handshake. More rounds (--pairs) tell more."
    );
    assert!(verdict.detail.ends_with(" 30 % load: 0.79× (0.73–0.97)."), "{}", verdict.detail);
}

#[test]
fn only_a_narrow_interval_around_one_makes_algorithms_and_lookups_alike() {
    let speed = |ratio| of_room("ifma256", OPERATIONS, "openssl", "rsa2048/private", ratio);
    let lookups = |ratio| of_room("avx512", CYCLES_PER_LOOKUP, "rte_acl", "acl/fw/burst32", ratio);
    for (row, expected) in [
        (
            speed([1.4, 0.8, 2.1]),
            "Widelane does between 0.80× and 2.10× as many RSA-2048 private-key operations \
             per second as OpenSSL. More rounds (--pairs) tell more.",
        ),
        (
            lookups([0.7, 0.5, 1.2]),
            "Widelane takes between 0.50× and 1.20× the cycles of DPDK's rte_acl for a \
             packet. More rounds (--rounds) tell more.",
        ),
        (
            lookups([1.004, 1.002, 1.2]),
            "Widelane takes between 1.00× and 1.20× the cycles of DPDK's rte_acl for a \
             packet. More rounds (--rounds) tell more.",
        ),
    ] {
        let verdict = verdict_of(vec![row]);
        assert_eq!(verdict.tone, Tone::Unknown);
        assert_eq!(verdict.sentence, format!("This run cannot tell: {expected}"));
    }
    for row in [
        speed([1.0, 0.98, 1.03]),
        lookups([1.0, 0.98, 1.03]),
        // What is certain, but not to be seen.
        speed([0.997, 0.994, 0.999]),
        lookups([1.004, 1.002, 1.008]),
        lookups([1.004, 1.002, 1.04]),
    ] {
        let verdict = verdict_of(vec![row]);
        assert_eq!(verdict.tone, Tone::Same, "{}", verdict.sentence);
    }
}

#[test]
fn a_loss_is_called_one() {
    let verdict = verdict_of(vec![row("haproxy/tls1.2/rsa2048/c8", [1.2, 1.15, 1.26])]);
    assert_eq!(verdict.tone, Tone::Worse);
    assert!(verdict.sentence.contains("HAProxy spends 1.20× the CPU"), "{}", verdict.sentence);
}

#[test]
fn without_an_answer_the_reason_is_given() {
    let with = |status| Row {
        status,
        reason: Some("no avx512ifma".to_owned()),
        ..row("nginx/tls1.2/rsa2048/c8", [0.5, 0.5, 0.5])
    };
    // Older files say so of handshakes on CPUs without lanes.
    let closed = verdict_of(vec![with(Status::NotApplicable)]);
    assert_eq!((closed.tone, closed.detail.as_str()), (Tone::Unknown, "No avx512ifma."));
    assert_eq!(closed.sentence, "Nothing could be compared here.");
    let noisy = verdict_of(vec![with(Status::NotApplicable), with(Status::Rejected)]);
    assert_eq!(noisy.tone, Tone::Unknown);
    assert!(noisy.detail.contains("no avx512ifma"), "{}", noisy.detail);
    assert_eq!(verdict_of(Vec::new()).sentence, "These results hold no comparison.");
}

#[test]
fn speed_results_name_the_algorithm_and_the_rival() {
    let row = |algorithm: &str, room: &str, ratio: f64| {
        let scenario = format!("{algorithm}/private");
        of_room(room, OPERATIONS, "openssl", &scenario, [ratio, ratio - 0.1, ratio + 0.1])
    };
    let verdict = verdict_of(vec![
        row("rsa2048", "portable", 0.3),
        row("rsa2048", "ifma512", 4.02),
        row("rsa2048", "ifma256", 2.1),
        row("rsa4096", "ifma512", 5.3),
    ]);
    assert_eq!(
        verdict.sentence,
        "Widelane does 4.02× as many RSA-2048 private-key operations per second as OpenSSL."
    );
    assert_eq!(
        verdict.detail,
        "RSA-2048, ifma512: 4.02× (3.92–4.12). RSA-4096, ifma512: 5.30× (5.20–5.40)."
    );
}
