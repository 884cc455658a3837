//! Verdicts recomputed from recordings of real hours: a Zen 5 whose two CPUs had eleven tasks to
//! run, beside neighbours that the machine cannot see, and an Emerald Rapids with two CPUs of a VM,
//! quiet and while compilers had both of them.

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
    assert!((3500.0..3800.0).contains(&map.ambient_mhz.unwrap()[0]), "{:?}", map.ambient_mhz);
    assert_eq!(map.ambient_all_mhz, None, "one core was recorded");
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
        if &*sample.subject != "vpmadd52luq-512" {
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
    assert_eq!(map.advice, Advice::CannotTell { told: 0, silent: 2 });
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

/// What any hour of the Emerald Rapids must show: dense multiplications of 512 bits lower the clock
/// to what the pace of the multiplications themselves says, and light code does not.
fn assert_heavy_is_capped(map: &Map) {
    let heavy = finding(map, "vpmadd52luq-512");
    let Verdict::CappedAt { mhz } = heavy.verdict else { panic!("{heavy:?}") };
    assert!((2700.0..2850.0).contains(&mhz), "{heavy:?}");
    // Two start per cycle: the burst is a meter of its own, within 50 MHz of the chain behind it.
    let by_pace = mhz * heavy.per_cycle.unwrap() / 2.0;
    assert!((by_pace - mhz).abs() < 50.0, "{heavy:?}");
    for light in ["scalar", "vaesenc-512"] {
        assert_eq!(finding(map, light).verdict, Verdict::Free, "{map:?}");
    }
}

#[test]
fn emerald_rapids_pays_for_dense_multiplications_only() {
    let map = map::judge(&recording("map-emerald-rapids.csv")).unwrap();
    assert_heavy_is_capped(&map);
    assert_eq!(map.density_threshold, Some(1.75));
    assert_eq!(finding(&map, "density-1.50").verdict, Verdict::Free);
    // Between two levels the clock rests on a third: the hold lasts until it is back for good.
    let held = finding(&map, "vpmadd52luq-512").hold_us.unwrap();
    assert!((1500.0..4500.0).contains(&held), "{held}");
    // Light instructions, but so many of so many kinds that the core lowers its clock for them.
    let gcm = finding(&map, "aes128gcm-vaes512");
    assert!(matches!(gcm.verdict, Verdict::CappedAt { .. }), "{gcm:?}");
}

#[test]
fn emerald_rapids_shows_the_same_in_a_busy_hour() {
    assert_heavy_is_capped(&map::judge(&recording("map-emerald-rapids-busy.csv")).unwrap());
}

#[test]
fn a_cap_below_an_ambient_clock_that_is_nominal_is_not_told() {
    // As if the time-stamp counter ran at the clock of the core, and the core thus at its base.
    let mut recording = recording("map-emerald-rapids.csv");
    let (ticks, base) = (recording.tsc_hz().unwrap(), 2.97e9);
    let stretch = |at: u64| (at as f64 * base / ticks) as u64;
    for sample in &mut recording.samples {
        (sample.begin, sample.end) = (stretch(sample.begin), stretch(sample.end));
    }
    for (name, value) in &mut recording.facts {
        if name == "tsc_hz" {
            *value = base.to_string();
        }
    }
    let map = map::judge(&recording).unwrap();
    let light = finding(&map, "vaesenc-512");
    assert!(matches!(light.verdict, Verdict::CannotTell { .. }), "{light:?}");
}

#[test]
fn emerald_rapids_rises_to_a_licence_in_steps() {
    let found = transitions::judge(&recording("transitions-emerald-rapids.csv")).unwrap();
    let sentence = found[0].sentence();
    assert!((100.0..500.0).contains(&found[0].up_us.unwrap()), "{sentence}");
    assert!(found[0].throttled_to < 0.9, "{sentence}");
    assert!(found[0].after_mhz < 0.98 * found[0].ambient_mhz, "{sentence}");
}
