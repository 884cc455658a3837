//! The licence map: what each class and each kernel costs the clock, and how sure that is.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Serialize;

use super::{ByRound, Ratio, Visit, every};
use crate::estimate::{median, quantile};
use crate::experiment::map::NOT_ON_ALL;
use crate::stimulus::Subject;
use crate::trace::{Phase, Recording, Sample, TraceError};

/// What a recording of `map` proves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Map {
    /// The clock of scalar code on one core: its median and the range of nine in ten visits, in
    /// MHz; nothing where none was metered.
    pub ambient_mhz: Option<[f64; 3]>,
    /// The clock of scalar code on all cores at once: its median and the range of nine in ten
    /// visits, in MHz; nothing where none was metered.
    pub ambient_all_mhz: Option<[f64; 3]>,
    /// Why nothing is known of all cores at once, where they were to be measured.
    pub not_on_all: Option<String>,
    /// What the self-check found on the first CPU: 3.00 where a core is ours alone.
    pub self_check: Option<f64>,
    /// One line for each subject, on one core and on all.
    pub findings: Vec<Finding>,
    /// Heavy 512-bit multiplications per cycle from which on the clock falls.
    pub density_threshold: Option<f64>,
    /// What to do.
    pub advice: Advice,
}

/// What is known of one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The subject.
    pub subject: String,
    /// The licence class that Intel's rules give it.
    pub class: Option<String>,
    /// How many cores did it at a time.
    pub cores: usize,
    /// Rounds that count, in which it was visited on each of those cores.
    pub visits: usize,
    /// Rounds that do not, because the ambient clock drifted or the machine was busy.
    pub rejected: usize,
    /// The clock after bursts, in MHz.
    pub clock_mhz: Option<f64>,
    /// That clock over the ambient clock of the same visit, of several cores the median.
    pub ratio: Option<Ratio>,
    /// Instructions per cycle of the loop, where it is a loop.
    pub per_cycle: Option<f64>,
    /// Time that one single use costs, in microseconds.
    pub single_us: Option<f64>,
    /// Longest halt after a single use, in microseconds.
    pub halt_us: Option<f64>,
    /// Time until the clock is back, in microseconds, where it fell.
    pub hold_us: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// What a subject costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Nothing that can be measured.
    Free,
    /// The clock falls to this.
    CappedAt {
        /// In MHz.
        mhz: f64,
    },
    /// The clock stays, but each single use halts the core.
    Costs {
        /// In microseconds.
        us_per_use: f64,
    },
    /// The recording does not tell.
    CannotTell {
        /// Why not.
        reason: String,
    },
    /// This CPU lacks it.
    NotApplicable {
        /// What it lacks.
        reason: String,
    },
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "advice")]
pub enum Advice {
    /// Width is free here.
    NothingToDo,
    /// Some subjects cost something.
    Choose {
        /// Those subjects.
        costly: Vec<String>,
    },
    /// Nothing was found that costs anything, but not all subjects could be told.
    CannotTell {
        /// Subjects besides the control that are free.
        told: usize,
        /// Subjects that could not be told.
        silent: usize,
    },
}

/// Two looks at the ambient clock of one visit may differ by so much.
const DRIFT_MAX: f64 = 0.03;

/// A clock this much lower is a cap, at least; only one that provably fell by less is free.
const FALL_MIN: f64 = 0.015;

/// A single use that costs less than this is as good as free: so much takes code that was not in
/// the nearest cache.
const SINGLE_US_MIN: f64 = 0.6;

/// Fewest rounds of which a median has an interval.
const ROUNDS_MIN: usize = 6;

/// Resolution of the hold time.
const HOLD_BIN_US: f64 = 100.0;

/// On CPUs with licences, an ambient clock this close to the nominal one hides a cap.
const HEADROOM: f64 = 1.03;

/// How far a clock that is fixed may be off the nominal one.
const STEADY: f64 = 0.01;

/// Judges a recording of the map experiment.
///
/// # Errors
///
/// Where the recording lacks the rate of the time stamps.
pub fn judge(recording: &Recording) -> Result<Map, TraceError> {
    let tsc_hz = recording.tsc_hz()?;
    let visits = Visit::all(&recording.samples);
    let ambient = |on_all: bool| {
        let visits = visits.iter().filter(|visit| (visit.cores > 1) == on_all);
        let clocks = visits.filter_map(|visit| visit.clock_hz(Phase::Ambient, tsc_hz, every));
        let mhz: Vec<f64> = clocks.map(|hz| hz / 1e6).collect();
        Some([quantile(&mhz, 0.5)?, quantile(&mhz, 0.05)?, quantile(&mhz, 0.95)?])
    };
    let mut by_subject: BTreeMap<(usize, &str), Vec<&Visit<'_>>> = BTreeMap::new();
    for visit in &visits {
        by_subject.entry((visit.cores, visit.subject)).or_default().push(visit);
    }
    let evidence: Vec<Evidence> = by_subject
        .iter()
        .map(|((cores, subject), visits)| Evidence::gather(subject, *cores, visits, tsc_hz))
        .collect();
    let has_licences = recording.fact("vendor") == Some("GenuineIntel");
    let mut findings: Vec<Finding> = evidence
        .iter()
        .map(|found| {
            let control = evidence.iter().find(|e| e.subject == CONTROL && e.cores == found.cores);
            found.judge(control, has_licences, tsc_hz)
        })
        .collect();
    findings.extend(missing(recording));
    findings.sort_by_key(|finding| (finding.cores, place_of(&finding.subject)));
    Ok(Map {
        ambient_mhz: ambient(false),
        ambient_all_mhz: ambient(true),
        not_on_all: recording.fact(NOT_ON_ALL).map(str::to_owned),
        self_check: recording.number("self_check"),
        density_threshold: density_threshold(&findings),
        advice: advice(&findings),
        findings,
    })
}

/// The subject against which everything is held.
const CONTROL: &str = "scalar";

/// Where a subject stands among all.
fn place_of(name: &str) -> usize {
    let all = Subject::all();
    all.iter().position(|subject| subject.to_string() == name).unwrap_or(all.len())
}

/// What the visits to one subject show, before any verdict: ratios and clocks by round.
struct Evidence {
    subject: String,
    cores: usize,
    rejected: usize,
    ratios: Vec<f64>,
    clocks_mhz: Vec<f64>,
    ambient_mhz: Vec<f64>,
    per_cycle: Option<f64>,
    single_us: Option<Ratio>,
    halt_us: Option<f64>,
    hold_us: Option<f64>,
}

impl Evidence {
    fn gather(subject: &str, cores: usize, visits: &[&Visit<'_>], tsc_hz: f64) -> Self {
        let looks: Vec<(u32, Option<Look>)> =
            visits.iter().map(|visit| (visit.round, Look::at(visit, tsc_hz))).collect();
        let rounds = |of: fn(&Look) -> Option<f64>| {
            let told = looks.iter().map(|(round, look)| (*round, look.as_ref().and_then(of)));
            ByRound::of(told)
        };
        let by_round = |of| rounds(of).medians();
        let told = |of: fn(&Look) -> Option<f64>| {
            let of_looks = looks.iter().filter_map(|(_, look)| of(look.as_ref()?));
            median(&of_looks.collect::<Vec<_>>())
        };
        let of_ratios = rounds(|look| Some(look.during / look.ambient));
        let ratios = of_ratios.medians();
        let is_loop = !matches!(Subject::named(subject), Some(Subject::Kernel(_)));
        Evidence {
            subject: subject.to_owned(),
            cores,
            rejected: of_ratios.taken() - ratios.len(),
            clocks_mhz: by_round(|look| Some(look.during / 1e6)),
            ambient_mhz: by_round(|look| Some(look.ambient / 1e6)),
            per_cycle: told(|look| look.pace).filter(|_| is_loop),
            single_us: Ratio::of(&by_round(|look| look.single.map(|(lost, _)| lost))),
            halt_us: told(|look| look.single.map(|(_, halt)| halt)),
            hold_us: median(&ratios).and_then(|ratio| hold_us(visits, ratio, tsc_hz)),
            ratios,
        }
    }

    fn judge(&self, control: Option<&Evidence>, has_licences: bool, tsc_hz: f64) -> Finding {
        let ratio = Ratio::of(&self.ratios);
        let control_single = control.and_then(|control| control.single_us);
        let single = self.single_us.zip(control_single);
        let single_us = single.map(|(ours, control)| (ours.value - control.value).max(0.0));
        // A cost is told where the two intervals do not meet.
        let single_costs = single.is_some_and(|(ours, control)| ours.low > control.high);
        let halt_us = self.halt_us.zip(control.and_then(|control| control.halt_us));
        let halt_us = halt_us.map(|(ours, control)| (ours - control).max(0.0));
        let class = Subject::named(&self.subject).map(Subject::class);
        let clock_mhz = median(&self.clocks_mhz);
        let fall = control
            .and_then(|control| Ratio::of(&control.ratios))
            .map_or(FALL_MIN, |control| FALL_MIN.max(2.0 * (1.0 - control.low)));
        let hidden = has_licences
            && class.is_some_and(|class| class.width > widelane_cpu::Width::W128)
            && median(&self.ambient_mhz).is_some_and(|mhz| mhz * 1e6 <= tsc_hz * HEADROOM);
        let cannot_tell = |reason: String| Verdict::CannotTell { reason };
        let taken = self.ratios.len() + self.rejected;
        let verdict = match (ratio, clock_mhz) {
            (None, _) | (_, None) if taken < ROUNDS_MIN => cannot_tell(format!(
                "only {taken} rounds were taken, and a verdict needs {ROUNDS_MIN}"
            )),
            (None, _) | (_, None) => cannot_tell(format!(
                "only {} of {taken} rounds were quiet enough",
                self.ratios.len(),
            )),
            (Some(ratio), Some(mhz)) if ratio.is_below(1.0 - fall) => Verdict::CappedAt { mhz },
            (Some(_), _) if hidden => cannot_tell(self.why_hidden(tsc_hz)),
            // An unsteady control raises what a cap takes, and lowers nothing of what is free.
            (Some(ratio), _) if !ratio.is_above(1.0 - FALL_MIN) => cannot_tell(format!(
                "the ratio lies between {:.3} and {:.3}: the clock was unsteady",
                ratio.low, ratio.high,
            )),
            _ => match single_us {
                Some(us) if us >= SINGLE_US_MIN && single_costs => {
                    Verdict::Costs { us_per_use: us }
                }
                _ => Verdict::Free,
            },
        };
        let capped = matches!(verdict, Verdict::CappedAt { .. });
        Finding {
            subject: self.subject.clone(),
            class: class.map(|class| class.to_string()),
            cores: self.cores,
            visits: self.ratios.len(),
            rejected: self.rejected,
            clock_mhz,
            ratio,
            per_cycle: self.per_cycle,
            single_us,
            halt_us,
            hold_us: self.hold_us.filter(|_| capped),
            verdict,
        }
    }
}

impl Evidence {
    /// Why a cap would not show, and what helps.
    fn why_hidden(&self, tsc_hz: f64) -> String {
        let is_nominal = |mhz: &f64| (mhz * 1e6 / tsc_hz - 1.0).abs() <= STEADY;
        match self.ambient_mhz.iter().all(is_nominal) {
            true => {
                "the ambient clock is always the nominal one, and a cap would not show: turbo \
                     seems to be off"
            }
            false => "the ambient clock is as low as a cap would be; try at another hour",
        }
        .to_owned()
    }
}

/// What one quiet visit shows.
struct Look {
    /// The clock of scalar code before and after, in Hz.
    ambient: f64,
    /// The clock between bursts, in Hz.
    during: f64,
    /// Work of the bursts per cycle.
    pace: Option<f64>,
    /// Time lost to a single use, and the longest halt in it, in microseconds.
    single: Option<(f64, f64)>,
}

impl Look {
    /// Nothing where the machine was busy, or the ambient clock drifted.
    fn at(visit: &Visit<'_>, tsc_hz: f64) -> Option<Self> {
        let before = visit.clock_hz(Phase::Ambient, tsc_hz, every)?;
        let during = visit.clock_hz(Phase::During, tsc_hz, every)?;
        let recovered = visit.clock_hz(Phase::After, tsc_hz, |i, count| i * 4 >= count * 3)?;
        if (recovered / before - 1.0).abs() > DRIFT_MAX {
            return None;
        }
        let ambient = (before + recovered) / 2.0;
        let per_tick = visit.phase(Phase::Burst).iter().map(|burst| per_tick(burst));
        let pace = quantile(&per_tick.collect::<Vec<_>>(), 0.5);
        Some(Look {
            ambient,
            during,
            pace: pace.map(|pace| pace * tsc_hz / during),
            single: single_use(visit.phase(Phase::Single), ambient, tsc_hz),
        })
    }
}

/// Work of a burst per tick.
fn per_tick(burst: &Sample) -> f64 {
    burst.work / (burst.window().ticks() as f64).max(1.0)
}

/// Time lost to one single use and the longest halt in it, against the same windows at the ambient
/// clock, in microseconds. The first sample is the use itself.
fn single_use(samples: &[&Sample], ambient_hz: f64, tsc_hz: f64) -> Option<(f64, f64)> {
    let (first, windows) = samples.split_first()?;
    let last = windows.last()?;
    let us = |ticks: f64| ticks / tsc_hz * 1e6;
    let excess =
        |sample: &&Sample| us(sample.window().ticks() as f64 - sample.work * tsc_hz / ambient_hz);
    let lost = us(last.end.saturating_sub(first.begin) as f64)
        - windows.iter().map(|window| window.work / ambient_hz * 1e6).sum::<f64>();
    let halt = windows.iter().map(excess).fold(0.0, f64::max);
    Some((lost, halt))
}

/// Time after the last burst until the clock is back for good: two thirds of the way from `ratio`,
/// as it may rest on a lower level in between.
///
/// Points of all visits are put together by their time, since an interruption shifts all that
/// follow it in its own visit.
fn hold_us(visits: &[&Visit<'_>], ratio: f64, tsc_hz: f64) -> Option<f64> {
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for visit in visits {
        for (us, clock) in recovery(visit.phase(Phase::After), tsc_hz)? {
            bins.entry((us / HOLD_BIN_US) as u64).or_default().push(clock);
        }
    }
    let clocks: Vec<(u64, f64)> =
        bins.iter().filter_map(|(bin, clocks)| Some((*bin, median(clocks)?))).collect();
    let back = 1.0 - (1.0 - ratio) / 3.0;
    // One or two low bins alone are interruptions.
    let is_low = |index: usize| {
        let around = &clocks[index.saturating_sub(2)..(index + 3).min(clocks.len())];
        let around: Vec<f64> = around.iter().map(|(_, clock)| *clock).collect();
        median(&around).is_some_and(|clock| clock < back)
    };
    match (0..clocks.len()).rfind(|&index| is_low(index)) {
        None => Some(0.0),
        // Where every visit was interrupted at that time, it is not known.
        Some(last) => {
            let next = clocks.get(last + 1).filter(|(bin, _)| bin - clocks[last].0 <= 3)?;
            Some(next.0 as f64 * HOLD_BIN_US)
        }
    }
}

/// The clock after the last burst over that at the end of the visit, by microseconds.
fn recovery(after: &[&Sample], tsc_hz: f64) -> Option<Vec<(f64, f64)>> {
    let start = after.first()?.begin;
    let clock = |sample: &&Sample| sample.work / (sample.window().ticks() as f64).max(1.0);
    let tail: Vec<f64> = after[after.len() * 3 / 4..].iter().map(clock).collect();
    let settled = median(&tail)?;
    let point = |sample: &&Sample| {
        (sample.begin.saturating_sub(start) as f64 / tsc_hz * 1e6, clock(sample) / settled)
    };
    (after.len() >= 16).then(|| after.iter().map(point).collect())
}

/// Findings for the subjects that the CPU lacks.
fn missing(recording: &Recording) -> Vec<Finding> {
    let facts = recording.facts.iter();
    facts
        .filter_map(|(name, reason)| Some((name.strip_prefix("missing:")?, reason)))
        .map(|(subject, reason)| Finding {
            subject: subject.to_owned(),
            class: Subject::named(subject).map(|subject| subject.class().to_string()),
            cores: 1,
            visits: 0,
            rejected: 0,
            clock_mhz: None,
            ratio: None,
            per_cycle: None,
            single_us: None,
            halt_us: None,
            hold_us: None,
            verdict: Verdict::NotApplicable { reason: reason.clone() },
        })
        .collect()
}

/// The lowest density whose clock falls, if all higher ones that tell anything fall too.
fn density_threshold(findings: &[Finding]) -> Option<f64> {
    let mut threshold = None;
    for finding in findings.iter().rev() {
        let Some(density) = finding.subject.strip_prefix("density-") else { continue };
        match finding.verdict {
            Verdict::CappedAt { .. } => threshold = density.parse().ok(),
            Verdict::CannotTell { .. } => {}
            _ => break,
        }
    }
    threshold
}

fn advice(findings: &[Finding]) -> Advice {
    let mut costly: Vec<String> = findings
        .iter()
        .filter(|f| matches!(f.verdict, Verdict::CappedAt { .. } | Verdict::Costs { .. }))
        .map(|finding| finding.subject.clone())
        .collect();
    // The control is free by definition, and a subject counts once, on however many cores.
    let subjects = |is: fn(&Verdict) -> bool| {
        let own = findings.iter().filter(|f| f.subject != CONTROL && is(&f.verdict));
        own.map(|finding| finding.subject.as_str()).collect::<HashSet<_>>()
    };
    let silent = subjects(|verdict| matches!(verdict, Verdict::CannotTell { .. }));
    let free = subjects(|verdict| matches!(verdict, Verdict::Free));
    let told = free.difference(&silent).count();
    match costly.as_slice() {
        [] if silent.is_empty() && told > 0 => Advice::NothingToDo,
        [] => Advice::CannotTell { told, silent: silent.len() },
        _ => {
            // What costs something on one core mostly does on all.
            let mut named = HashSet::new();
            costly.retain(|subject| named.insert(subject.clone()));
            Advice::Choose { costly }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Free => formatter.write_str("free"),
            Verdict::CappedAt { mhz } => write!(formatter, "capped at {mhz:.0} MHz"),
            Verdict::Costs { us_per_use } => write!(formatter, "costs {us_per_use:.1} µs per use"),
            Verdict::CannotTell { reason } => write!(formatter, "cannot tell: {reason}"),
            Verdict::NotApplicable { reason } => formatter.write_str(reason),
        }
    }
}

#[cfg(test)]
mod tests;
