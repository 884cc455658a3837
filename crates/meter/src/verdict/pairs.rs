//! Verdicts on experiments that hold one thing beside another: duty, sibling, speculation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ByRound, Ratio, Visit, every};
use crate::estimate::median;
use crate::experiment::duty::{BURSTS_US, PERIODS_US, cell};
use crate::experiment::sibling::{FIRST, SECOND, TOGETHER};
use crate::stimulus::Dispatch;
use crate::trace::{Phase, Recording, Sample, TraceError};

/// The clock beside something, over the ambient clock of the same visits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// Beside what.
    pub subject: String,
    /// Rounds that count, on however many CPUs.
    pub visits: usize,
    /// The ratio; nothing where too few rounds were quiet.
    pub ratio: Option<Ratio>,
    /// The clock, in MHz.
    pub clock_mhz: Option<f64>,
    /// Work of the bursts per second, of all CPUs that do it at a time together: for each the
    /// median of its visits' medians.
    pub pace: Option<f64>,
}

/// A clock this much lower is lower.
const LOWER: f64 = 0.985;

/// What scalar code keeps of its speed beside heavy bursts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Duty {
    /// What the bursts were made of.
    pub subject: String,
    /// Lengths of a burst, in microseconds: the rows.
    pub bursts_us: Vec<f64>,
    /// From one burst to the next, in microseconds: the columns.
    pub periods_us: Vec<f64>,
    /// The share kept; nothing where a burst does not fit, or nothing could be told.
    pub kept: Vec<Vec<Option<f64>>>,
    /// The verdict.
    pub verdict: String,
}

/// Judges a recording of the duty experiment.
///
/// # Errors
///
/// Where the recording lacks the rate of the time stamps.
pub fn duty(recording: &Recording) -> Result<Duty, TraceError> {
    let found = beside(recording, |visit, tsc_hz| visit.clock_between_bursts_hz(tsc_hz))?;
    let ratio = |burst: f64, period: f64| {
        found.iter().find(|beside| beside.subject == cell(burst, period))?.ratio
    };
    let kept: Vec<Vec<Option<f64>>> = BURSTS_US
        .iter()
        .map(|burst| PERIODS_US.map(|period| Some(ratio(*burst, period)?.value)).into())
        .collect();
    let cells = BURSTS_US.iter().flat_map(|burst| PERIODS_US.map(|period| (*burst, period)));
    let told: Vec<((f64, f64), Ratio)> = cells
        .filter_map(|(burst, period)| Some(((burst, period), ratio(burst, period)?)))
        .collect();
    let slow = told.iter().filter(|(_, ratio)| ratio.is_below(LOWER));
    let worst = slow.clone().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let shortest = slow.map(|((burst, _), _)| *burst).fold(f64::INFINITY, f64::min);
    let lowest = told.iter().min_by(|a, b| a.1.low.total_cmp(&b.1.low));
    let fitting = BURSTS_US.iter().flat_map(|burst| PERIODS_US.map(|period| *burst < period));
    let cells = fitting.filter(|fits| *fits).count();
    let verdict = match (worst, lowest) {
        (_, None) => "cannot tell: no cell had enough quiet rounds".to_owned(),
        (Some(((burst, period), ratio)), _) => format!(
            "scalar code keeps {:.0} % beside {}; bursts from {shortest} µs on cost it something",
            100.0 * ratio.value,
            cell(*burst, *period),
        ),
        (None, Some(((burst, period), ratio))) if !ratio.is_above(LOWER) => {
            format!("{} beside {}", between(*ratio), cell(*burst, *period))
        }
        _ if told.len() < cells => {
            format!("cannot tell: {} of {cells} cells had too few quiet rounds", cells - told.len())
        }
        _ => "free: scalar code keeps its speed beside every burst".to_owned(),
    };
    Ok(Duty {
        subject: recording.fact("subject").unwrap_or("unknown").to_owned(),
        bursts_us: BURSTS_US.into(),
        periods_us: PERIODS_US.into(),
        kept,
        verdict,
    })
}

/// That an interval proves neither a loss nor that there is none.
fn between(Ratio { low, high, .. }: Ratio) -> String {
    format!("cannot tell: the ratio lies between {low:.3} and {high:.3}")
}

/// Parts of an experiment, and what they prove together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The parts.
    pub parts: Vec<Beside>,
    /// The verdict.
    pub verdict: String,
}

impl Comparison {
    fn part(&self, subject: &str) -> Option<&Beside> {
        self.parts.iter().find(|part| part.subject == subject)
    }
}

/// Judges a recording of the sibling experiment.
///
/// # Errors
///
/// Where the recording lacks the rate of the time stamps.
pub fn sibling(recording: &Recording) -> Result<Comparison, TraceError> {
    let mut comparison =
        Comparison { parts: beside(recording, undisturbed_hz)?, verdict: String::new() };
    let clock = |subject: &str| comparison.part(subject)?.ratio;
    let [first, second, together] =
        [clock(&FIRST.to_string()), clock(&SECOND.to_string()), clock(TOGETHER)];
    comparison.verdict = match (first, second, together) {
        (Some(first), Some(second), Some(together)) => {
            let alone = first.low.min(second.low);
            if together.high < alone - (1.0 - LOWER) {
                format!(
                    "together they lower the core to {:.0} % of ambient, alone to no less than \
                     {:.0} %",
                    100.0 * together.value,
                    100.0 * alone,
                )
            } else if together.is_above(first.high.min(second.high) - (1.0 - LOWER)) {
                "free: together they lower the core no further than alone".to_owned()
            } else {
                format!("{} together, and alone it is {alone:.3} at least", between(together))
            }
        }
        _ => "cannot tell: too few rounds were quiet enough".to_owned(),
    };
    Ok(comparison)
}

/// Judges a recording of the speculation experiment.
///
/// # Errors
///
/// Where the recording lacks the rate of the time stamps.
pub fn speculation(recording: &Recording) -> Result<Comparison, TraceError> {
    let mut comparison =
        Comparison { parts: beside(recording, undisturbed_hz)?, verdict: String::new() };
    let part = |form: Dispatch| comparison.part(form.name());
    let ratio = |form: Dispatch| part(form)?.ratio;
    let told = (ratio(Dispatch::Branch), ratio(Dispatch::Pointer), ratio(Dispatch::Narrow));
    comparison.verdict = match told {
        (Some(branch), Some(pointer), Some(narrow)) => {
            let bound = narrow.low.min(pointer.low) - (1.0 - LOWER);
            if branch.high < bound {
                format!(
                    "branches speculate into the wide side: the clock falls to {:.0} % of ambient; \
                     dispatch through pointers",
                    100.0 * branch.value,
                )
            } else if branch.is_above(narrow.high.min(pointer.high) - (1.0 - LOWER)) {
                "free: branches to a wide side that is never taken cost the clock nothing"
                    .to_owned()
            } else {
                let least = narrow.low.min(pointer.low);
                format!("{} by branches, and otherwise it is {least:.3} at least", between(branch))
            }
        }
        _ => "cannot tell: too few rounds were quiet enough".to_owned(),
    };
    Ok(comparison)
}

/// The clock between bursts, of windows that agree with their neighbours.
fn undisturbed_hz(visit: &Visit<'_>, tsc_hz: f64) -> Option<f64> {
    visit.clock_hz(Phase::During, tsc_hz, every)
}

/// Each subject's clock, as `during` tells it, over the ambient clock of the same visit, round by
/// round.
fn beside(
    recording: &Recording,
    during: impl Fn(&Visit<'_>, f64) -> Option<f64>,
) -> Result<Vec<Beside>, TraceError> {
    let tsc_hz = recording.tsc_hz()?;
    let visits = Visit::all(&recording.samples);
    let mut by_subject: BTreeMap<&str, Vec<&Visit<'_>>> = BTreeMap::new();
    for visit in &visits {
        by_subject.entry(visit.subject).or_default().push(visit);
    }
    let of = |(subject, visits): (&&str, &Vec<&Visit<'_>>)| {
        let clock = |visit: &Visit<'_>| {
            let ambient = visit.clock_hz(Phase::Ambient, tsc_hz, every)?;
            Some((during(visit, tsc_hz)?, ambient))
        };
        let clocks: Vec<(u32, Option<(f64, f64)>)> =
            visits.iter().map(|visit| (visit.round, clock(visit))).collect();
        let by_round = |of: fn((f64, f64)) -> f64| {
            ByRound::of(clocks.iter().map(|(round, clocks)| (*round, clocks.map(of)))).medians()
        };
        let ratios = by_round(|(during, ambient)| during / ambient);
        let during = by_round(|(during, _)| during / 1e6);
        let mut paces: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for visit in visits {
            let pace = pace(visit.phase(Phase::Burst), tsc_hz);
            paces.entry(visit.cpu).or_default().extend(pace);
        }
        let paces: Vec<f64> = paces.values().filter_map(|paces| median(paces)).collect();
        Beside {
            subject: (*subject).to_owned(),
            visits: ratios.len(),
            ratio: Ratio::of(&ratios),
            clock_mhz: median(&during),
            pace: (!paces.is_empty()).then(|| paces.iter().sum()),
        }
    };
    Ok(by_subject.iter().map(of).collect())
}

/// The median work per second of bursts.
fn pace(bursts: &[&Sample], tsc_hz: f64) -> Option<f64> {
    let pace = |burst: &&Sample| burst.work * tsc_hz / burst.window().ticks().max(1) as f64;
    median(&bursts.iter().map(pace).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten rounds in which every subject runs at its share of 3 GHz.
    fn recording(experiment: &str, shares: &[(String, f64)]) -> Recording {
        record(experiment, shares, 10, 1)
    }

    /// The same with the clock of a subject 5 % lower in every other round.
    fn unsteady(mut recording: Recording, subject: &str) -> Recording {
        let during =
            |sample: &&mut Sample| *sample.subject == *subject && sample.phase == Phase::During;
        for sample in recording.samples.iter_mut().filter(during) {
            let share = if sample.round.is_multiple_of(2) { 1.0 } else { 0.95 };
            let ticks = (sample.end - sample.begin) as f64 / share;
            sample.end = sample.begin + ticks as u64;
        }
        recording
    }

    /// So many rounds of it, on so many CPUs at once.
    fn record(experiment: &str, shares: &[(String, f64)], rounds: u32, cpus: usize) -> Recording {
        let facts = vec![("tsc_hz".to_owned(), "2e9".to_owned())];
        let mut recording = Recording::new(experiment, facts);
        let mut ticks = 0;
        for (round, cpu) in (0..rounds).flat_map(|round| (0..cpus).map(move |cpu| (round, cpu))) {
            for (subject, share) in shares {
                for index in 0..60 {
                    let phase = if index < 30 { Phase::Ambient } else { Phase::During };
                    let share = if index < 30 { 1.0 } else { *share };
                    let end = ticks + (6000.0 / (3e9 * share) * 2e9) as u64;
                    let (subject, begin) = (subject.as_str().into(), ticks);
                    let (cores, work) = (cpus, 6000.0);
                    recording.samples.push(Sample {
                        subject,
                        round,
                        phase,
                        cpu,
                        cores,
                        begin,
                        end,
                        work,
                    });
                    ticks = end + 100;
                }
            }
        }
        recording
    }

    #[test]
    fn the_worst_cell_is_named() {
        let shares = [(cell(10.0, 20.0), 0.81), (cell(10.0, 50.0), 0.84), (cell(1.0, 20.0), 1.0)];
        let duty = duty(&recording("duty", &shares)).unwrap();
        assert!(duty.verdict.contains("81 % beside 10 µs every 20 µs"), "{}", duty.verdict);
        assert!(duty.verdict.contains("bursts from 10 µs"), "{}", duty.verdict);
        assert_eq!(duty.kept[5][5], None);
        assert!((duty.kept[0][0].unwrap() - 1.0).abs() < 0.01);
    }

    /// Periods of a millisecond with eight windows each, of which those `held` run at half the
    /// clock, and in every eighth round one window is interrupted.
    fn held(held: usize) -> Recording {
        let name = cell(1.0, 1000.0);
        let mut recording = recording("duty", &[(name.clone(), 1.0)]);
        recording.samples.retain(|sample| sample.phase == Phase::Ambient);
        let mut keep = |round, phase, begin, ticks: u64, work| {
            let (subject, cpu, cores, end) = (name.as_str().into(), 0, 1, begin + ticks);
            recording.samples.push(Sample { subject, round, phase, cpu, cores, begin, end, work });
        };
        for (round, period) in (0..10_u32).flat_map(|round| (0..4).map(move |at| (round, at))) {
            let start = 1_000_000_000 * (u64::from(round) + 1) + period * 2_000_000;
            keep(round, Phase::Burst, start, 2000, 1000.0);
            for place in 0..8 {
                let interrupted = round % 8 == 0 && period == 2 && place == 3;
                let ticks = match (place < held, interrupted) {
                    (_, true) => 1_000_000,
                    (true, _) => 200_000,
                    _ => 100_000,
                };
                let begin = start + 2000 + place as u64 * 240_000;
                keep(round, Phase::During, begin, ticks, 150_000.0);
            }
        }
        recording
    }

    #[test]
    fn what_a_burst_leaves_behind_counts_by_its_time() {
        for (windows, expected) in [(0, 1.0), (1, 8.0 / 9.0), (4, 8.0 / 12.0)] {
            let kept = duty(&held(windows)).unwrap().kept[0][5].unwrap();
            assert!((kept - expected).abs() < 0.001, "{windows}: {kept}");
        }
    }

    #[test]
    fn bursts_that_cost_nothing_are_free() {
        let fits = |burst: f64| PERIODS_US.into_iter().filter(move |period| burst < *period);
        let all: Vec<(String, f64)> = BURSTS_US
            .iter()
            .flat_map(|burst| fits(*burst).map(|period| (cell(*burst, period), 1.0)))
            .collect();
        let duty = duty(&recording("duty", &all)).unwrap();
        assert!(duty.verdict.starts_with("free"), "{}", duty.verdict);
        let one = super::duty(&recording("duty", &all[1..])).unwrap();
        assert_eq!(one.verdict, "cannot tell: 1 of 32 cells had too few quiet rounds");
        let some = super::duty(&unsteady(recording("duty", &all), &all[3].0)).unwrap();
        assert!(some.verdict.starts_with("cannot tell: the ratio lies between 0.95"), "{some:?}");
        assert!(some.verdict.ends_with(&format!(" beside {}", all[3].0)), "{some:?}");
        let nothing = recording("duty", &[]);
        assert!(super::duty(&nothing).unwrap().verdict.starts_with("cannot tell"));
    }

    #[test]
    fn siblings_that_push_each_other_down_are_told() {
        let shares = |together| {
            [(FIRST.to_string(), 0.97), (SECOND.to_string(), 0.98), (TOGETHER.to_owned(), together)]
        };
        let low = sibling(&recording("sibling", &shares(0.80))).unwrap();
        assert!(low.verdict.starts_with("together they lower the core to 80 %"), "{low:?}");
        let shaky = unsteady(recording("sibling", &shares(0.80)), &FIRST.to_string());
        let shaky = sibling(&shaky).unwrap();
        assert!(shaky.verdict.ends_with("alone to no less than 92 %"), "{shaky:?}");
        let free = sibling(&recording("sibling", &shares(0.97))).unwrap();
        assert!(free.verdict.starts_with("free"), "{free:?}");
        let unsteady = sibling(&unsteady(recording("sibling", &shares(0.97)), TOGETHER)).unwrap();
        assert!(
            unsteady.verdict.starts_with("cannot tell: the ratio lies between"),
            "{unsteady:?}"
        );
    }

    #[test]
    fn the_paces_of_a_core_add_up() {
        let mut recording = record("sibling", &[(TOGETHER.to_owned(), 1.0)], 6, 2);
        for round in 0..6 {
            for (cpu, work) in [(0, 6000.0), (1, 2000.0)] {
                let (subject, phase) = (TOGETHER.into(), Phase::Burst);
                let (cores, begin, end) = (2, 0, 2000);
                let burst = Sample { subject, round, phase, cpu, cores, begin, end, work };
                recording.samples.push(burst);
            }
        }
        let pace = sibling(&recording).unwrap().parts[0].pace.unwrap();
        assert!((pace / 8e9 - 1.0).abs() < 1e-6, "{pace}");
    }

    #[test]
    fn two_cpus_of_a_round_are_no_two_rounds() {
        let shares =
            [(FIRST.to_string(), 0.97), (SECOND.to_string(), 0.98), (TOGETHER.to_owned(), 0.80)];
        let few = sibling(&record("sibling", &shares, 4, 2)).unwrap();
        assert!(few.verdict.starts_with("cannot tell"), "{few:?}");
        let enough = sibling(&record("sibling", &shares, 6, 2)).unwrap();
        assert!(enough.verdict.starts_with("together they lower"), "{enough:?}");
        assert!(enough.parts.iter().all(|part| part.visits == 6), "{enough:?}");
    }

    #[test]
    fn speculation_shows_in_the_clock() {
        let shares = |branch| {
            [("branch", branch), ("pointer", 1.0), ("narrow", 0.99)]
                .map(|(name, share)| (name.to_owned(), share))
        };
        let wide = speculation(&recording("speculation", &shares(0.85))).unwrap();
        assert!(wide.verdict.contains("dispatch through pointers"), "{wide:?}");
        let free = speculation(&recording("speculation", &shares(0.99))).unwrap();
        assert!(free.verdict.starts_with("free"), "{free:?}");
        let unsteady = unsteady(recording("speculation", &shares(0.99)), "branch");
        let unsteady = speculation(&unsteady).unwrap();
        assert!(
            unsteady.verdict.starts_with("cannot tell: the ratio lies between"),
            "{unsteady:?}"
        );
        let few = speculation(&recording("speculation", &shares(0.99)[..2])).unwrap();
        assert!(few.verdict.starts_with("cannot tell"), "{few:?}");
    }
}
