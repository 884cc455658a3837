//! Verdicts: pure functions from recordings to what they prove, and to what they do not.

pub mod map;
pub mod pairs;
pub mod transitions;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::estimate::{INTERRUPTED, WINDOWS_MIN, estimate, mean, median, median_with_interval};
use crate::trace::{Phase, Sample, Window};

/// A ratio, as to the ambient clock, with its 95 % interval over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median over the rounds.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// The median of `values` and its interval; nothing where there are too few.
    pub fn of(values: &[f64]) -> Option<Self> {
        median_with_interval(values).map(|(value, low, high)| Ratio { value, low, high })
    }

    /// Whether the whole interval lies below `bound`.
    pub fn is_below(self, bound: f64) -> bool {
        self.high < bound
    }

    /// Whether the whole interval lies at or above `bound`.
    pub fn is_above(self, bound: f64) -> bool {
        self.low >= bound
    }
}

impl fmt::Display for Ratio {
    /// `1.031 (1.022 to 1.040)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3} ({:.3} to {:.3})", self.value, self.low, self.high)
    }
}

/// The samples of one visit to one subject, by phase.
pub(crate) struct Visit<'a> {
    pub(crate) subject: &'a str,
    pub(crate) cpu: usize,
    pub(crate) cores: usize,
    pub(crate) round: u32,
    phases: BTreeMap<Phase, Vec<&'a Sample>>,
}

impl<'a> Visit<'a> {
    /// The visits of a recording, by subject, cores, round and CPU.
    pub(crate) fn all(samples: &'a [Sample]) -> Vec<Self> {
        let mut visits: BTreeMap<_, Visit<'a>> = BTreeMap::new();
        for sample in samples {
            let key = (&*sample.subject, sample.cores, sample.round, sample.cpu);
            let visit = visits.entry(key).or_insert_with(|| Visit {
                subject: &sample.subject,
                cpu: sample.cpu,
                cores: sample.cores,
                round: sample.round,
                phases: BTreeMap::new(),
            });
            visit.phases.entry(sample.phase).or_default().push(sample);
        }
        visits.into_values().collect()
    }

    pub(crate) fn phase(&self, phase: Phase) -> &[&'a Sample] {
        self.phases.get(&phase).map_or(&[], Vec::as_slice)
    }

    /// The clock in a phase, or in the part of it that `chosen` names; nothing where too few
    /// windows were left alone.
    pub(crate) fn clock_hz(
        &self,
        phase: Phase,
        tsc_hz: f64,
        chosen: impl Fn(usize, usize) -> bool,
    ) -> Option<f64> {
        let samples = self.phase(phase);
        let chosen: Vec<&Sample> = samples
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen(*index, samples.len()))
            .map(|(_, sample)| *sample)
            .collect();
        let windows: Vec<Window> = chosen.iter().map(|sample| sample.window()).collect();
        estimate(&windows, chosen.first()?.work, tsc_hz).ok().map(|of| of.hz)
    }

    /// The clock from one burst to the next, by time; nothing where too few windows were taken.
    ///
    /// A window is compared with those at the same place behind the other bursts: what a burst
    /// leaves behind is there each time, and an interruption is not.
    pub(crate) fn clock_between_bursts_hz(&self, tsc_hz: f64) -> Option<f64> {
        let (bursts, windows) = (self.phase(Phase::Burst), self.phase(Phase::During));
        if windows.len() < WINDOWS_MIN {
            return None;
        }
        let mut periods: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for sample in windows {
            let period = bursts.partition_point(|burst| burst.begin <= sample.begin);
            periods.entry(period).or_default().push(sample.window().ticks() as f64);
        }
        // Places that only some periods reach are those of the interrupted or the longest ones.
        let places = median(&periods.values().map(|ticks| ticks.len() as f64).collect::<Vec<_>>())?;
        let usual_ticks = |place: usize| {
            let ticks: Vec<f64> =
                periods.values().filter_map(|ticks| ticks.get(place).copied()).collect();
            let longest = median(&ticks)? * INTERRUPTED;
            Some(mean(&ticks.into_iter().filter(|ticks| *ticks <= longest).collect::<Vec<_>>()))
        };
        let ticks = (0..places as usize).map(usual_ticks).collect::<Option<Vec<f64>>>()?;
        Some(windows.first()?.work * tsc_hz / mean(&ticks)).filter(|hz| hz.is_finite())
    }
}

/// What several CPUs showed, round by round. They share what disturbs a round, so that a round is
/// one observation, however many CPUs took part: the median of theirs.
pub(crate) struct ByRound {
    /// Of each round the visits that were made, and what those showed that count.
    rounds: BTreeMap<u32, (usize, Vec<f64>)>,
}

impl ByRound {
    /// Sorts visits by their rounds; the value of a visit that does not count is `None`.
    pub(crate) fn of(visits: impl Iterator<Item = (u32, Option<f64>)>) -> Self {
        let mut rounds: BTreeMap<u32, (usize, Vec<f64>)> = BTreeMap::new();
        for (round, value) in visits {
            let (visits, told) = rounds.entry(round).or_default();
            *visits += 1;
            told.extend(value);
        }
        ByRound { rounds }
    }

    /// How many rounds there were.
    pub(crate) fn taken(&self) -> usize {
        self.rounds.len()
    }

    /// The medians of the rounds that count: those in which at least half of the CPUs told
    /// something.
    pub(crate) fn medians(&self) -> Vec<f64> {
        let counts = |(visits, told): &&(usize, Vec<f64>)| told.len() * 2 >= *visits;
        self.rounds.values().filter(counts).filter_map(|(_, told)| median(told)).collect()
    }
}

/// Every window of a phase.
pub(crate) fn every(_index: usize, _count: usize) -> bool {
    true
}
