//! Verdicts on recordings: made ones, whose truth is known, and real ones from busy hours.

use super::*;

const TSC_HZ: f64 = 2.0e9;
const CYCLES: f64 = 6000.0;

/// A machine of the imagination.
struct Machine {
    vendor: &'static str,
    /// The clock of scalar code, by round.
    ambient_mhz: fn(u32) -> f64,
    /// What heavy 512-bit code is held to.
    cap_mhz: f64,
    /// Time for which the cap holds afterwards.
    hold_us: f64,
    /// What one single heavy use costs.
    single_us: f64,
    /// One window in so many is interrupted.
    interrupted: u64,
}

const SAPPHIRE_RAPIDS: Machine = Machine {
    vendor: "GenuineIntel",
    ambient_mhz: |round| 2900.0 - 100.0 * f64::from(round % 3),
    cap_mhz: 2200.0,
    hold_us: 1500.0,
    single_us: 1.2,
    interrupted: 97,
};

impl Machine {
    fn is_capped(&self, subject: &str) -> bool {
        let density = subject.strip_prefix("density-").and_then(|d| d.parse::<f64>().ok());
        match density {
            Some(density) => density >= 1.5,
            None => subject.ends_with("512") && Subject::named(subject).unwrap().class().heavy,
        }
    }

    fn record(&self, subjects: &[&str], rounds: u32) -> Recording {
        let facts = [("tsc_hz", TSC_HZ.to_string()), ("vendor", self.vendor.to_owned())];
        let facts = facts.map(|(name, value)| (name.to_owned(), value));
        let mut recording = Recording::new("map", facts.into());
        let mut ticks = 1_000_000_u64;
        let mut random = 1;
        for round in 0..rounds {
            for subject in subjects {
                self.visit(subject, round, &mut ticks, &mut random, &mut recording.samples);
            }
        }
        recording
    }

    fn visit(
        &self,
        subject: &str,
        round: u32,
        ticks: &mut u64,
        random: &mut u64,
        samples: &mut Vec<Sample>,
    ) {
        let ambient_mhz = (self.ambient_mhz)(round);
        let capped_mhz = match self.is_capped(subject) {
            true => self.cap_mhz.min(ambient_mhz),
            false => ambient_mhz,
        };
        let mut keep = |phase, mhz: f64, lost_us: f64, pause_us: f64| {
            let mut length = ((CYCLES / mhz + lost_us) * TSC_HZ / 1e6) as u64;
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(12_345);
            if (*random >> 33).is_multiple_of(self.interrupted) {
                length += 30_000;
            }
            let (begin, end) = (*ticks, *ticks + length);
            let subject = subject.into();
            samples.push(Sample {
                subject,
                round,
                phase,
                cpu: 0,
                cores: 1,
                begin,
                end,
                work: CYCLES,
            });
            *ticks = end + (pause_us * TSC_HZ / 1e6) as u64;
        };
        (0..40).for_each(|_| keep(Phase::Ambient, ambient_mhz, 0.0, 20.0));
        let single_us = if self.is_capped(subject) { self.single_us } else { 0.0 };
        for index in 0..21 {
            keep(Phase::Single, ambient_mhz, if index == 1 { single_us } else { 0.0 }, 0.01);
        }
        for _ in 0..32 {
            keep(Phase::Burst, capped_mhz / 2.0, 0.0, 0.1);
            keep(Phase::During, capped_mhz, 0.0, 0.1);
        }
        for index in 0..80 {
            let held = f64::from(index) * 100.0 < self.hold_us;
            keep(Phase::After, if held { capped_mhz } else { ambient_mhz }, 0.0, 98.0);
        }
    }
}

const SUBJECTS: [&str; 7] = [
    "scalar",
    "vaesenc-512",
    "vpclmulqdq-512",
    "vpmadd52luq-256",
    "vpmadd52luq-512",
    "vfmadd213pd-512",
    "rsa2048-ifma512",
];

fn verdict_of<'a>(map: &'a Map, subject: &str) -> &'a Finding {
    map.findings.iter().find(|finding| finding.subject == subject).unwrap()
}

#[test]
fn heavy_512_is_told_from_light_512_and_from_256() {
    let map = judge(&SAPPHIRE_RAPIDS.record(&SUBJECTS, 12)).unwrap();
    for subject in ["scalar", "vaesenc-512", "vpclmulqdq-512", "vpmadd52luq-256"] {
        assert_eq!(verdict_of(&map, subject).verdict, Verdict::Free, "{subject}");
    }
    for subject in ["vpmadd52luq-512", "vfmadd213pd-512", "rsa2048-ifma512"] {
        let finding = verdict_of(&map, subject);
        let Verdict::CappedAt { mhz } = finding.verdict else { panic!("{finding:?}") };
        assert!((mhz - 2200.0).abs() < 10.0, "{finding:?}");
        assert!((finding.single_us.unwrap() - 1.2).abs() < 0.2, "{finding:?}");
        assert!((finding.halt_us.unwrap() - 1.2).abs() < 0.2, "{finding:?}");
        assert!((1300.0..1900.0).contains(&finding.hold_us.unwrap()), "{finding:?}");
    }
    let Advice::Choose { costly } = &map.advice else { panic!("{:?}", map.advice) };
    assert!(costly.contains(&"vpmadd52luq-512".to_owned()) && costly.len() == 3, "{costly:?}");
}

#[test]
fn verdicts_agree_between_a_fast_and_a_slow_hour() {
    let slow = Machine { ambient_mhz: |_| 2500.0, cap_mhz: 2100.0, ..SAPPHIRE_RAPIDS };
    let fast = judge(&SAPPHIRE_RAPIDS.record(&SUBJECTS, 10)).unwrap();
    let slow = judge(&slow.record(&SUBJECTS, 10)).unwrap();
    for (fast, slow) in fast.findings.iter().zip(&slow.findings) {
        let kind = std::mem::discriminant(&fast.verdict);
        assert_eq!(kind, std::mem::discriminant(&slow.verdict), "{fast:?} {slow:?}");
    }
}

#[test]
fn an_ambient_clock_as_low_as_the_cap_tells_nothing() {
    let hidden = Machine { ambient_mhz: |_| 2000.0, cap_mhz: 2000.0, ..SAPPHIRE_RAPIDS };
    let busy = Machine { ambient_mhz: |round| 2000.0 + 20.0 * f64::from(round % 3), ..hidden };
    for (machine, why) in [(&hidden, "turbo seems to be off"), (&busy, "try at another hour")] {
        let map = judge(&machine.record(&SUBJECTS, 12)).unwrap();
        let finding = verdict_of(&map, "vpmadd52luq-256");
        let Verdict::CannotTell { reason } = &finding.verdict else { panic!("{finding:?}") };
        assert!(reason.contains("ambient clock") && reason.contains(why), "{reason}");
    }
    let map = judge(&hidden.record(&SUBJECTS, 12)).unwrap();
    assert_eq!(map.advice, Advice::CannotTell { told: 0, silent: SUBJECTS.len() - 1 });
}

#[test]
fn without_licences_there_is_nothing_to_do() {
    let zen =
        Machine { vendor: "AuthenticAMD", cap_mhz: 9999.0, single_us: 0.0, ..SAPPHIRE_RAPIDS };
    let map = judge(&zen.record(&SUBJECTS, 12)).unwrap();
    assert!(map.findings.iter().all(|finding| finding.verdict == Verdict::Free), "{map:?}");
    assert_eq!(map.advice, Advice::NothingToDo);
    assert_eq!(map.density_threshold, None);
}

#[test]
fn the_density_threshold_is_the_lowest_that_falls() {
    let subjects = ["scalar", "density-0.50", "density-1.00", "density-1.50", "density-2.00"];
    let map = judge(&SAPPHIRE_RAPIDS.record(&subjects, 12)).unwrap();
    assert_eq!(map.density_threshold, Some(1.5));
}

#[test]
fn a_single_use_that_halts_is_told_though_the_clock_stays() {
    let halting = Machine { cap_mhz: 9999.0, single_us: 12.0, ..SAPPHIRE_RAPIDS };
    let map = judge(&halting.record(&SUBJECTS, 12)).unwrap();
    let finding = verdict_of(&map, "vpmadd52luq-512");
    let Verdict::Costs { us_per_use } = finding.verdict else { panic!("{finding:?}") };
    assert!((us_per_use - 12.0).abs() < 1.0, "{finding:?}");
}

#[test]
fn a_drifting_clock_is_no_cap() {
    // The clock falls by a third within a visit, whatever runs: such visits are rejected.
    let mut recording = SAPPHIRE_RAPIDS.record(&["scalar", "vpmadd52luq-512"], 12);
    for sample in &mut recording.samples {
        if sample.phase == Phase::After && sample.round < 9 {
            sample.end += (sample.end - sample.begin) / 3;
        }
    }
    let map = judge(&recording).unwrap();
    for finding in &map.findings {
        let Verdict::CannotTell { reason } = &finding.verdict else { panic!("{finding:?}") };
        assert!(reason.contains("3 of 12 rounds"), "{reason}");
    }
}

/// The same on so many CPUs at once, each of which sees what all of them do.
fn on_all(recording: Recording, cpus: usize) -> Recording {
    let on = |sample: &Sample, cpu| Sample { cpu, cores: cpus, ..sample.clone() };
    let samples = &recording.samples;
    let samples: Vec<Sample> =
        (0..cpus).flat_map(|cpu| samples.iter().map(move |sample| on(sample, cpu))).collect();
    Recording { samples, ..recording }
}

#[test]
fn cpus_of_one_round_are_one_observation() {
    let few = judge(&on_all(SAPPHIRE_RAPIDS.record(&SUBJECTS, 4), 8)).unwrap();
    for finding in &few.findings {
        assert_eq!((finding.visits, finding.rejected), (4, 0), "{finding:?}");
        assert!(matches!(finding.verdict, Verdict::CannotTell { .. }), "{finding:?}");
    }
    // What all CPUs of a round agree on makes it no more certain.
    let one = judge(&SAPPHIRE_RAPIDS.record(&SUBJECTS, 9)).unwrap();
    let eight = judge(&on_all(SAPPHIRE_RAPIDS.record(&SUBJECTS, 9), 8)).unwrap();
    for (one, eight) in one.findings.iter().zip(&eight.findings) {
        assert_eq!((one.ratio, &one.verdict), (eight.ratio, &eight.verdict), "{one:?}");
    }
}

#[test]
fn too_few_rounds_tell_nothing() {
    let map = judge(&SAPPHIRE_RAPIDS.record(&SUBJECTS, 4)).unwrap();
    let told = |finding: &Finding| !matches!(finding.verdict, Verdict::CannotTell { .. });
    assert!(!map.findings.iter().any(told), "{map:?}");
    let Verdict::CannotTell { reason } = &map.findings[0].verdict else { panic!("{map:?}") };
    assert_eq!(reason, "only 4 rounds were taken, and a verdict needs 6");
    assert_eq!(map.advice, Advice::CannotTell { told: 0, silent: SUBJECTS.len() - 1 });
}

/// As if the clock between bursts of a subject were at a share of what it was, by round.
fn slowed(mut recording: Recording, subject: &str, share: fn(u32) -> f64) -> Recording {
    let during = |sample: &&mut Sample| {
        *sample.subject == *subject && matches!(sample.phase, Phase::Burst | Phase::During)
    };
    for sample in recording.samples.iter_mut().filter(during) {
        let ticks = (sample.end - sample.begin) as f64 / share(sample.round);
        sample.end = sample.begin + ticks as u64;
    }
    recording
}

#[test]
fn an_unsteady_control_makes_no_cap_free() {
    let zen = Machine { vendor: "AuthenticAMD", cap_mhz: 9999.0, ..SAPPHIRE_RAPIDS };
    let subjects = ["scalar", "vaesenc-512", "vpmadd52luq-512"];
    let unsteady = |round: u32| [1.0, 0.95, 1.0, 0.96][round as usize % 4];
    let recording = slowed(zen.record(&subjects, 12), "scalar", unsteady);
    let map = judge(&slowed(recording, "vpmadd52luq-512", |_| 0.97)).unwrap();
    // It lost 3 %, less than twice what the control is unsteady by, and more than is free.
    let Verdict::CannotTell { reason } = &verdict_of(&map, "vpmadd52luq-512").verdict else {
        panic!("{map:?}")
    };
    assert!(reason.contains("unsteady"), "{reason}");
    assert_eq!(verdict_of(&map, "vaesenc-512").verdict, Verdict::Free, "{map:?}");
    assert_eq!(map.advice, Advice::CannotTell { told: 1, silent: 1 });
}

#[test]
fn the_control_alone_tells_nothing_of_width() {
    let map = judge(&SAPPHIRE_RAPIDS.record(&["scalar"], 8)).unwrap();
    assert_eq!(map.findings[0].verdict, Verdict::Free);
    assert_eq!(map.advice, Advice::CannotTell { told: 0, silent: 0 });
}

#[test]
fn what_is_not_known_of_all_cores_is_told() {
    let mut recording = SAPPHIRE_RAPIDS.record(&["scalar"], 8);
    assert_eq!(judge(&recording).unwrap().not_on_all, None);
    recording.facts.push((NOT_ON_ALL.to_owned(), "CPU 7: busy".to_owned()));
    assert_eq!(judge(&recording).unwrap().not_on_all.as_deref(), Some("CPU 7: busy"));
}

#[test]
fn what_the_cpu_lacks_has_a_line() {
    let mut recording = SAPPHIRE_RAPIDS.record(&["scalar"], 8);
    let reason = "not applicable: no avx512fp16".to_owned();
    recording.facts.push(("missing:vfmadd213ph-512".to_owned(), reason.clone()));
    let map = judge(&recording).unwrap();
    let finding = verdict_of(&map, "vfmadd213ph-512");
    assert_eq!(finding.verdict, Verdict::NotApplicable { reason });
    assert_eq!(finding.verdict.to_string(), "not applicable: no avx512fp16");
}

#[test]
fn clocks_of_one_core_and_of_all_are_told_apart() {
    let mut recording = SAPPHIRE_RAPIDS.record(&["scalar"], 12);
    let one: Vec<Sample> = recording.samples.clone();
    for cpu in 0..3 {
        recording.samples.extend(one.iter().cloned().map(|mut sample| {
            sample.end = sample.begin + (sample.end - sample.begin) * 5 / 4;
            Sample { cpu, cores: 3, ..sample }
        }));
    }
    let map = judge(&recording).unwrap();
    let near = |clock: Option<[f64; 3]>, mhz: f64| (clock.unwrap()[0] - mhz).abs() < 20.0;
    assert!(near(map.ambient_mhz, 2800.0), "{map:?}");
    assert!(near(map.ambient_all_mhz, 2240.0), "{map:?}");
    recording.samples.clear();
    let nothing = judge(&recording).unwrap();
    assert_eq!((nothing.ambient_mhz, nothing.ambient_all_mhz), (None, None));
}
