//! Verdicts recomputed from recordings of real, busy hours: a Zen 5 whose two CPUs had eleven tasks
//! to run, beside neighbours that the machine cannot see.

use std::fs::File;
use std::path::Path;

use widelane_meter::trace::{Phase, Recording};
use widelane_meter::verdict::map::{Advice, Finding, Map, Verdict};
use widelane_meter::verdict::{map, pairs, transitions};

fn recording(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
    Recording::read(File::open(path).unwrap()).unwrap()
}

fn busy_map() -> Recording {
    recording("map-zen5-busy.csv")
}

fn finding<'a>(map: &'a Map, subject: &str) -> &'a Finding {
    map.findings.iter().find(|finding| finding.subject == subject).unwrap()
}

#[test]
fn zen_5_is_free_at_every_width() {
    let map = map::judge(&busy_map()).unwrap();
    for subject in ["scalar", "vaesenc-512", "vpmadd52luq-512"] {
        assert_eq!(finding(&map, subject).verdict, Verdict::Free, "{map:?}");
    }
    assert_eq!(map.advice, Advice::NothingToDo);
    assert!((3500.0..3800.0).contains(&map.ambient_mhz[0]), "{:?}", map.ambient_mhz);
    let lacking = finding(&map, "vfmadd213ph-512");
    assert!(matches!(lacking.verdict, Verdict::NotApplicable { .. }), "{lacking:?}");
}

#[test]
fn the_meter_agrees_with_an_independent_loop() {
    // Two of these instructions start per cycle on a Zen 5, so a loop of them is a meter, too.
    let map = map::judge(&busy_map()).unwrap();
    for subject in ["vaesenc-512", "vpmadd52luq-512"] {
        let per_cycle = finding(&map, subject).per_cycle.unwrap();
        assert!((per_cycle / 2.0 - 1.0).abs() < 0.01, "{subject}: {per_cycle}");
    }
}

/// As if the core had been at `share` of its clock for heavy code and `hold_us` afterwards.
fn capped(mut recording: Recording, share: f64, hold_us: f64) -> Recording {
    let tsc_hz = recording.tsc_hz().unwrap();
    let mut last_burst = 0;
    for sample in &mut recording.samples {
        if sample.subject != "vpmadd52luq-512" {
            continue;
        }
        if sample.phase == Phase::Burst {
            last_burst = sample.end;
        }
        let since_us = sample.begin.saturating_sub(last_burst) as f64 / tsc_hz * 1e6;
        let is_held = sample.phase == Phase::After && since_us < hold_us;
        if is_held || matches!(sample.phase, Phase::Burst | Phase::During) {
            let ticks = (sample.end - sample.begin) as f64;
            sample.end = sample.begin + (ticks / share) as u64;
        }
    }
    recording
}

#[test]
fn a_cap_shows_through_the_noise_of_a_busy_hour() {
    let truth = map::judge(&busy_map()).unwrap();
    let ambient = finding(&truth, "vpmadd52luq-512").clock_mhz.unwrap();
    for share in [0.80, 0.90, 0.96] {
        let map = map::judge(&capped(busy_map(), share, 1000.0)).unwrap();
        let heavy = finding(&map, "vpmadd52luq-512");
        let Verdict::CappedAt { mhz } = heavy.verdict else { panic!("{share}: {heavy:?}") };
        assert!((mhz - share * ambient).abs() < 50.0, "{mhz} of {}", share * ambient);
        assert!((900.0..1400.0).contains(&heavy.hold_us.unwrap()), "{share}: {heavy:?}");
        for light in ["scalar", "vaesenc-512"] {
            assert_eq!(finding(&map, light).verdict, Verdict::Free, "{share}");
        }
        let costly = vec!["vpmadd52luq-512".to_owned()];
        assert_eq!(map.advice, Advice::Choose { costly });
    }
}

#[test]
fn a_hold_time_that_no_visit_saw_the_end_of_is_not_told() {
    // The scheduler took the CPU away in every visit, from 1.8 to 5.9 ms after the last burst.
    let map = map::judge(&capped(busy_map(), 0.80, 2500.0)).unwrap();
    let heavy = finding(&map, "vpmadd52luq-512");
    assert!(matches!(heavy.verdict, Verdict::CappedAt { .. }), "{heavy:?}");
    assert_eq!(heavy.hold_us, None);
}

#[test]
fn a_part_of_a_recording_does_not_tell() {
    let mut recording = busy_map();
    recording.samples.retain(|sample| sample.round < 3);
    let map = map::judge(&recording).unwrap();
    let heavy = finding(&map, "vpmadd52luq-512");
    assert!(matches!(heavy.verdict, Verdict::CannotTell { .. }), "{heavy:?}");
    assert_eq!(map.advice, Advice::CannotTell);
}

#[test]
fn zen_5_has_no_transition() {
    let found = transitions::judge(&recording("transitions-zen5-busy.csv")).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].sentence().starts_with("no transition"), "{}", found[0].sentence());
}

#[test]
fn zen_5_pays_nothing_for_a_wide_side_never_taken() {
    let found = pairs::speculation(&recording("speculation-zen5-busy.csv")).unwrap();
    assert_eq!(found.parts.len(), 3);
    assert!(found.verdict.starts_with("free"), "{}", found.verdict);
}
