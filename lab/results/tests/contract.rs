//! The contract: files survive the round trip, strangers are refused, the published schema is in
//! step.

use widelane_results::{
    Answer, Axis, Bucket, Grid, Histogram, HistogramKind, Measurement, Operations, Pair, ReadError,
    Results, Row, SCHEMA, Status, Tone, Trace,
};

fn sample() -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        created: "2026-11-21T21:00:00Z".to_owned(),
        command: vec!["widelane".to_owned(), "compare".to_owned()],
        rows: vec![Row {
            scenario: "nginx/tls1.2/rsa2048/c200".to_owned(),
            subject: "accelerated".to_owned(),
            ratio: Some(0.58),
            status: Status::Rejected,
            ..Row::default()
        }],
        pairs: vec![Pair {
            measurements: vec![Measurement {
                operations: 7,
                reason: Some("it idled".to_owned()),
                ..Measurement::default()
            }],
            ..Pair::default()
        }],
        histograms: vec![Histogram {
            scenario: "nginx/tls1.2/rsa2048/c200".to_owned(),
            subject: "accelerated".to_owned(),
            kind: HistogramKind::BatchFill,
            unit: "jobs".to_owned(),
            buckets: vec![Bucket { upto: 8.0, count: 3 }],
        }],
        operations: vec![Operations {
            kind: "x25519-derive".to_owned(),
            batched: 9,
            ..Operations::default()
        }],
        answer: Some(Answer {
            tone: Tone::Worse,
            sentence: "It costs.".to_owned(),
            detail: String::new(),
        }),
        traces: vec![Trace { points: vec![[0.0, 1.5], [0.5, 2.0]], ..Trace::default() }],
        grids: vec![Grid {
            down: Axis { places: vec![1.0, 10.0], ..Axis::default() },
            shares: vec![vec![Some(0.9)], vec![None]],
            ..Grid::default()
        }],
        ..Results::default()
    }
}

#[test]
fn a_remark_is_there_once() {
    let mut results = sample();
    results.note("First.".to_owned());
    results.note(None);
    results.note(Some("Second.".to_owned()));
    results.note("First.".to_owned());
    assert_eq!(results.notes, ["First.", "Second."]);
}

#[test]
fn survives_the_round_trip() {
    assert_eq!(Results::from_json(&sample().to_json()).unwrap(), sample());
}

#[test]
fn tolerates_unknown_fields() {
    let text = sample().to_json().replacen('{', "{\"from_the_future\": 1,", 1);
    assert_eq!(Results::from_json(&text).unwrap(), sample());
}

#[test]
fn refuses_another_schema() {
    let text = sample().to_json().replace(SCHEMA, "widelane-results/3");
    let error = Results::from_json(&text).unwrap_err();
    assert!(matches!(&error, ReadError::OtherSchema { found } if found == "widelane-results/3"));
    assert!(error.to_string().contains("widelane-results/1 and widelane-results/2"), "{error}");
}

#[test]
fn reads_what_the_first_version_wrote() {
    let records = concat!(env!("CARGO_MANIFEST_DIR"), "/../../records/epyc-zen5-2vcpu");
    let text = std::fs::read_to_string(format!("{records}/2026-11-21-speed.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    assert_eq!(results.schema, "widelane-results/1");
    assert!(!results.rows.is_empty() && !results.pairs.is_empty());
    assert_eq!(results.operations, []);
}

#[test]
fn a_rejected_round_counts_for_those_whose_measurements_do() {
    let measured = |subject: &str, reason: Option<&str>| Measurement {
        subject: subject.to_owned(),
        reason: reason.map(str::to_owned),
        ..Measurement::default()
    };
    let of = |reason| Pair {
        measurements: vec![measured("native", None), measured("async", reason)],
        status: Status::Rejected,
        reason: Some("async: 2 failed".to_owned()),
        ..Pair::default()
    };
    let now = of(Some("async: 2 failed"));
    assert_eq!(now.objection(&["native"]), None);
    assert_eq!(now.objection(&["native", "async"]), Some("async: 2 failed"));
    // What was written before does not tell whose fault it was.
    assert_eq!(of(None).objection(&["native"]), Some("async: 2 failed"));
}

#[test]
fn names_truncation() {
    let text = sample().to_json();
    for end in [0, text.len() / 3, text.len() - 3] {
        let error = Results::from_json(&text[..end]).unwrap_err();
        assert!(matches!(error, ReadError::Truncated { .. }), "cut at {end}: {error}");
    }
}

#[test]
fn refuses_what_is_not_results() {
    for text in ["[]", "{}", "{\"schema\": 1}", "hello"] {
        let error = Results::from_json(text).unwrap_err();
        assert!(matches!(error, ReadError::NotResults(_)), "{text}: {error}");
    }
}

#[test]
fn published_schema_is_in_step() {
    let published = include_str!("../../../docs/formats/results-schema.json");
    assert!(
        published == widelane_results::json_schema(),
        "docs/formats/results-schema.json is stale; run: cargo run -p widelane-results \
         --features schema \
         --example schema > docs/formats/results-schema.json"
    );
}
