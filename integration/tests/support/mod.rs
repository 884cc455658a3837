//! What the fuzz targets of all that comes from outside do with any bytes; `tests/all/fuzzed.rs`
//! does it without a fuzzer.

use std::path::Path;

use widelane_bridge::counters::{CipherKind, Counters};
use widelane_cpu::{Room, policy};
use widelane_host::counters::Counts;
use widelane_report::{csv, html, markdown, terminal};
use widelane_results::Results;
use widelane_tables::Style;

/// A policy file is understood, and then obeyed; or the place of its first mistake is named.
pub fn policy_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match policy::parse(Path::new("policy.toml"), &text) {
        Ok(policy) => {
            let obeyed = |room: &Room| !policy.rooms_closed.contains(room) || !policy.allows(*room);
            assert!(Room::ALL.iter().all(obeyed), "{policy:?}");
        }
        Err(mistake) => {
            let lines = text.split('\n').count();
            assert!((1..=lines).contains(&mistake.line), "{mistake}");
            assert!(mistake.column > 0 && !mistake.message.is_empty(), "{mistake}");
        }
    }
}

/// A counters file is believed only if it is whole and of this version, and no figure overflows.
pub fn counters_files(bytes: &[u8]) {
    let Some(counts) = Counts::parse(bytes) else { return };
    assert!(bytes.len() >= size_of::<Counters>(), "a whole page");
    let of_kinds = counts.kinds().map(|(_, kind)| kind.operations());
    let operations = counts.device_jobs + of_kinds.sum::<u64>();
    assert_eq!(counts.jobs(), operations);
    assert!(counts.widest() < counts.fills().len());
    let fills: u64 = counts.fills().iter().sum();
    assert!(fills >= counts.batches_by_fill.iter().sum());
    for kind in CipherKind::ALL {
        assert!(counts.room_of(kind).is_none() || counts.ciphers().count() > 0);
    }
    let mut twice = counts.clone();
    twice.add(&counts);
    assert_eq!(twice - counts.clone(), counts);
}

/// A results file is refused with a reason, or read, shown in every form, and written as it was.
pub fn results_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(results) = Results::from_json(&text) else { return };
    let written = results.to_json();
    let again = Results::from_json(&written).expect("what is written can be read");
    assert_eq!(again.to_json(), written);
    let style = Style { colour: true, width: 80 };
    for shown in [terminal(&results, &style), markdown(&results), html(&results), csv(&results)] {
        assert!(!shown.is_empty());
    }
}

/// Whatever comes over the bus is refused, or within its bounds.
pub fn fleet_messages(bytes: &[u8]) {
    widelane_fleet::read_whatever(bytes);
}
