//! Verdicts on records made up, with noise of known depth.

use widelane_cpu::{Policy, Width};

use super::*;
use crate::tune::candidate::DEFAULT;
use crate::tune::workload::Workload;

/// What is laid into a record: what each candidate gets done in a stage, and the noise over it.
struct Made {
    survey: &'static [f64],
    confirmation: &'static [f64],
    noise: f64,
    rounds: u32,
}

const QUIET: Made = Made { survey: &[], confirmation: &[], noise: 0.01, rounds: 30 };

fn record(made: &Made) -> Record {
    let named = |names: &[&str], policy: Policy| Candidate {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        policy,
        rooms: Vec::new(),
    };
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + made.noise * ((seed >> 33) as f64 / (1_u64 << 30) as f64 - 1.0)
    };
    let mut slices = Vec::new();
    for (stage, levels) in [(Stage::Survey, made.survey), (Stage::Confirmation, made.confirmation)]
    {
        for round in 0..made.rounds {
            // What all candidates of a round share: the hour.
            let hour = 1.0 + 0.02 * f64::from(round % 5);
            slices.extend(levels.iter().enumerate().map(|(candidate, level)| Slice {
                stage,
                round,
                candidate,
                throughput: level * hour * noise(),
                cpu_share: 0.9,
                clock_mhz: Some(2400.0 * hour),
                ambient_mhz: Some(2500.0 * hour),
            }));
        }
    }
    Record {
        created: "2026-01-01T00:00:00Z".to_owned(),
        model: "a CPU".to_owned(),
        hypervisor: None,
        cpus: vec![0, 1],
        cpus_online: None,
        workload: Workload::named("mixed").unwrap(),
        costs_us: vec![1.0; 6],
        candidates: vec![
            named(&[DEFAULT, ALWAYS_512], Policy::open()),
            named(&[NEVER_512], Policy::up_to(Width::W256)),
            named(&["other"], Policy::up_to(Width::W128)),
        ],
        slices,
    }
}

#[test]
fn what_makes_no_difference_is_left_as_it_is() {
    let record = record(&Made { survey: &[1.0, 1.0, 0.9], ..QUIET });
    let verdict = judge(&record);
    let Decision::Keep { resolution } = verdict.decision else { panic!("{:?}", verdict.decision) };
    assert!((0.0..0.02).contains(&resolution), "{resolution}");
    assert!(finalists(&record).is_empty());
    let over = over_extremes(&record, &verdict);
    assert_eq!(over.len(), 1, "the default is always-512 itself");
    assert!(over[0].0 == NEVER_512 && over[0].1.low < 1.0 && over[0].1.high > 1.0);
}

#[test]
fn what_gains_twice_is_chosen() {
    let made = Made { survey: &[1.0, 1.05, 1.02], confirmation: &[1.0, 1.04, 1.02], ..QUIET };
    let record = record(&made);
    assert_eq!(finalists(&record), [1, 2]);
    let verdict = judge(&record);
    let Decision::Change { candidate: 1, gain } = verdict.decision else {
        panic!("{:?}", verdict.decision)
    };
    assert!(gain.low < 1.04 && 1.04 < gain.high && gain.low > 1.0, "{gain:?}");
    let over = over_extremes(&record, &verdict);
    assert!(over.len() == 1 && over[0].0 == ALWAYS_512 && over[0].1 == gain);
}

#[test]
fn what_gains_once_is_not_chosen() {
    let made = Made { survey: &[1.0, 1.05, 1.0], confirmation: &[1.0, 1.0], ..QUIET };
    assert!(matches!(judge(&record(&made)).decision, Decision::Keep { .. }));
    // What was not confirmed since it did not look better must not be better unseen, either.
    let mut unseen = record(&made);
    for slice in unseen.slices.iter_mut().filter(|slice| slice.candidate == 2) {
        slice.ambient_mhz = None;
    }
    let Decision::CannotTell { reason } = judge(&unseen).decision else { panic!("{unseen:?}") };
    assert!(reason.contains("rounds of other"), "{reason}");
    let unconfirmed = judge(&record(&Made { confirmation: &[], ..made })).decision;
    let Decision::CannotTell { reason } = unconfirmed else { panic!("{unconfirmed:?}") };
    assert!(reason.contains("never-512 looks better"), "{reason}");
}

#[test]
fn what_was_worse_before_is_not_chosen_by_one_measurement() {
    // An extreme is measured again only for comparison; nothing else stands in for the survey.
    let made = Made { survey: &[1.0, 0.99, 1.03], confirmation: &[1.0, 1.015, 1.0], ..QUIET };
    let record = record(&Made { noise: 0.004, ..made });
    assert_eq!(finalists(&record), [2]);
    let Decision::CannotTell { reason } = judge(&record).decision else { panic!("{record:?}") };
    assert!(reason.starts_with("never-512 did 0.9"), "{reason}");
    // Neither better nor worse before, it is no better for certain.
    let made = Made { survey: &[1.0, 1.0, 1.03], confirmation: &[1.0, 1.015, 1.0], ..QUIET };
    let decision = judge(&self::record(&Made { noise: 0.004, ..made })).decision;
    assert!(matches!(decision, Decision::Keep { .. }), "{decision:?}");
}

#[test]
fn a_union_that_the_survey_has_not_seen_may_be_chosen() {
    let made = Made { survey: &[1.0, 1.02], confirmation: &[1.0, 1.02, 1.04], ..QUIET };
    let decision = judge(&record(&made)).decision;
    assert!(matches!(decision, Decision::Change { candidate: 2, .. }), "{decision:?}");
}

#[test]
fn a_gain_that_is_worth_nothing_changes_nothing() {
    let made = Made { survey: &[1.0, 1.006, 1.0], noise: 0.002, ..QUIET };
    assert!(matches!(judge(&record(&made)).decision, Decision::Keep { .. }));
}

#[test]
fn noise_that_may_hide_a_gain_is_said_to() {
    let made = Made { survey: &[1.0, 1.0, 1.0], noise: 0.3, rounds: 12, ..QUIET };
    let decision = judge(&record(&made)).decision;
    let Decision::CannotTell { reason } = decision else { panic!("{decision:?}") };
    assert!(reason.contains("in an interval of") && reason.contains("--rounds"), "{reason}");
    // Where a limit takes half of the CPUs away, more rounds are no remedy.
    let mut limited = record(&Made { survey: &[1.0, 1.0, 1.0], noise: 0.3, rounds: 12, ..QUIET });
    limited.slices.iter_mut().for_each(|slice| slice.cpu_share = 0.5);
    let decision = judge(&limited).decision;
    let Decision::CannotTell { reason } = decision else { panic!("{decision:?}") };
    assert!(
        reason.ends_with(
            "got 50 % of their CPUs: a CPU limit (as of a control group) or a busy machine"
        ),
        "{reason}"
    );
}

#[test]
fn rounds_with_another_clock_do_not_count() {
    let mut record = record(&Made { survey: &[1.0, 1.2, 1.0], ..QUIET });
    for slice in record.slices.iter_mut().filter(|slice| slice.candidate == 1) {
        slice.ambient_mhz = slice.ambient_mhz.map(|mhz| mhz * 1.04);
    }
    let verdict = judge(&record);
    assert_eq!((verdict.survey[0].gain, verdict.survey[0].quiet), (None, 0));
    let Decision::CannotTell { reason } = verdict.decision else { panic!("{verdict:?}") };
    assert!(reason.contains("only 0 of 30 rounds") && reason.contains("never-512"), "{reason}");
}

#[test]
fn rounds_without_clock_or_cpu_do_not_count() {
    let sound = record(&Made { survey: &[1.0, 1.0, 1.0], ..QUIET });
    let spoil = |spoil: fn(&mut Slice)| {
        let mut record = sound.clone();
        record.slices.iter_mut().filter(|slice| slice.round >= 4).for_each(spoil);
        judge(&record)
    };
    let flaws: [fn(&mut Slice); 2] =
        [|slice| slice.ambient_mhz = None, |slice| slice.cpu_share = 0.01];
    for flaw in flaws {
        let verdict = spoil(flaw);
        assert!(matches!(verdict.decision, Decision::CannotTell { .. }), "{verdict:?}");
        assert!(verdict.survey.iter().all(|finding| finding.quiet == 4));
    }
}

#[test]
fn with_one_candidate_there_is_nothing_to_choose() {
    let mut record = record(&Made { survey: &[1.0], ..QUIET });
    record.candidates.truncate(1);
    assert_eq!(judge(&record).decision, Decision::Keep { resolution: 0.0 });
}
