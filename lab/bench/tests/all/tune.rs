//! Verdicts of `tune` recomputed from recorded runs of a busy Zen 5 in a VM, also with a gain of
//! known depth laid over the real noise.

use std::fs;

use serde::Deserialize;
use widelane_bench::tune::candidate::{ALWAYS_512, DEFAULT, NEVER_512};
use widelane_bench::tune::file;
use widelane_bench::tune::record::{Record, Slice, Stage};
use widelane_bench::tune::verdict::{Decision, judge, over_extremes};

fn recorded(name: &str) -> Record {
    #[derive(Deserialize)]
    struct Recorded {
        record: Record,
    }
    let path = format!("{}/tests/recordings/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str::<Recorded>(&fs::read_to_string(path).unwrap()).unwrap().record
}

/// The record with what a candidate got done scaled, so that it gets `gain` of the first one's
/// done, and a confirmation that shows the same rounds once more.
fn with_gain(mut record: Record, candidate: usize, gain: f64) -> Record {
    let found = judge(&record).survey.iter().find(|f| f.candidate == candidate).unwrap().gain;
    let factor = gain / found.unwrap().value;
    for slice in record.slices.iter_mut().filter(|slice| slice.candidate == candidate) {
        slice.throughput *= factor;
    }
    let again = |slice: &Slice| Slice { stage: Stage::Confirmation, ..slice.clone() };
    let confirmation: Vec<Slice> = record.slices.iter().map(again).collect();
    record.slices.extend(confirmation);
    record
}

#[test]
fn what_was_recorded_keeps_the_default() {
    for name in ["tune-handshakes-zen5", "tune-bulk-mixed-zen5"] {
        let record = recorded(name);
        assert!(record.candidates[0].is(DEFAULT) && record.candidates[0].is(ALWAYS_512));
        let verdict = judge(&record);
        assert!(matches!(verdict.decision, Decision::Keep { .. }), "{name}: {verdict:?}");
        let over = over_extremes(&record, &verdict);
        assert!(over.len() == 1 && over[0].0 == NEVER_512 && over[0].1.low > 1.0, "{over:?}");
        assert!(file::render(&record, &verdict, None).unwrap().contains("\nwidth_max = 512\n"));
    }
}

#[test]
fn a_gain_amid_real_noise_is_found_and_none_is_not_made_up() {
    for name in ["tune-handshakes-zen5", "tune-bulk-mixed-zen5"] {
        let narrow = recorded(name).place(NEVER_512).unwrap();
        let verdict = judge(&with_gain(recorded(name), narrow, 1.06));
        let Decision::Change { candidate, gain } = verdict.decision else { panic!("{verdict:?}") };
        assert!(candidate == narrow && gain.low < 1.06 && 1.06 < gain.high, "{name}: {gain:?}");
        for gain in [0.97, 1.0] {
            let verdict = judge(&with_gain(recorded(name), narrow, gain));
            assert!(!matches!(verdict.decision, Decision::Change { .. }), "{name}: {verdict:?}");
        }
    }
}

#[test]
fn six_rounds_of_a_busy_hour_tell_nothing() {
    let record = recorded("tune-packets-zen5-busy");
    let verdict = judge(&record);
    let Decision::CannotTell { reason } = &verdict.decision else { panic!("{verdict:?}") };
    assert!(reason.contains(NEVER_512) && reason.contains("in an interval of"), "{reason}");
    assert_eq!(file::render(&record, &verdict, None), None);
}
