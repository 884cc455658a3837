//! Verdicts: pure functions from a record to what each policy gains, and to the one to have.

use serde::Serialize;
use widelane_meter::verdict::Ratio;

use super::candidate::{ALWAYS_512, Candidate, NEVER_512};
use super::record::{Record, Slice, Stage};
use crate::stats::{self, median};

/// What a policy must gain for the one that holds to be left: less is not worth a file.
const GAIN_WORTH: f64 = 0.01;

/// What a policy may gain and still be judged no better.
const GAIN_MISSED_MAX: f64 = 0.03;

/// Change of the ambient clock between two slices from which on they are not compared.
const DRIFT_MAX: f64 = 0.03;

/// Share of the CPUs below which a slice was more disturbed than measured.
const CPU_SHARE_MIN: f64 = 0.05;

/// Share of the CPUs below which somebody else, or a limit, has the rest.
const CPU_SHARE_FULL: f64 = 0.8;

/// Policies that are confirmed, beside those that they are held against.
const FINALISTS: usize = 2;

/// The finding of one stage about a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The candidate, by its place among all.
    pub candidate: usize,
    /// What it gets done, as a ratio to the first candidate; nothing where too few rounds were
    /// quiet.
    pub gain: Option<Ratio>,
    /// Rounds in which the clock stayed as it was.
    pub quiet: usize,
    /// Rounds taken.
    pub taken: usize,
    /// The clock amid its work, MHz.
    pub clock_mhz: Option<f64>,
}

impl Finding {
    /// Whether it gains for sure, and enough.
    fn gains(&self) -> bool {
        self.gain.is_some_and(|gain| gain.low > 1.0 && gain.value >= 1.0 + GAIN_WORTH)
    }

    /// Whether it loses for sure.
    fn loses(&self) -> bool {
        self.gain.is_some_and(|gain| gain.high < 1.0)
    }

    /// Whether it may gain more than is judged to be nothing.
    fn may_gain(&self) -> bool {
        self.gain.is_none_or(|gain| gain.high > 1.0 + GAIN_MISSED_MAX)
    }
}

/// Which policy to have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "decision")]
pub enum Decision {
    /// The first candidate: no other is better.
    Keep {
        /// What another one might gain for all that was measured, as a share.
        resolution: f64,
    },
    /// Another one.
    Change {
        /// The candidate, by its place among all.
        candidate: usize,
        /// What it gains.
        gain: Ratio,
    },
    /// The rounds do not tell.
    CannotTell {
        /// Why.
        reason: String,
    },
}

/// What a record proves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Which policy to have.
    #[serde(flatten)]
    pub decision: Decision,
    /// The findings of the survey about each candidate.
    pub survey: Vec<Finding>,
    /// What fresh figures tell of those that looked better, and of their rivals.
    pub confirmation: Vec<Finding>,
}

/// Computes what `record` proves.
pub fn judge(record: &Record) -> Verdict {
    let survey = findings(record, Stage::Survey);
    let confirmation = findings(record, Stage::Confirmation);
    let decision = match confirmation.is_empty() {
        true => from(record, &survey),
        false => confirmed(record, &survey, &confirmation),
    };
    Verdict { decision, survey, confirmation }
}

/// The candidates of `record` that look better than the first, best first.
pub(super) fn finalists(record: &Record) -> Vec<usize> {
    let survey = findings(record, Stage::Survey);
    let mut better: Vec<&Finding> = survey.iter().filter(|finding| finding.gains()).collect();
    better.sort_by(|a, b| value(b).total_cmp(&value(a)));
    better.iter().map(|finding| finding.candidate).take(FINALISTS).collect()
}

fn value(finding: &Finding) -> f64 {
    finding.gain.map_or(0.0, |gain| gain.value)
}

/// The decision by the survey alone. One of many candidates may look better by chance, so nothing
/// is changed before it is confirmed.
fn from(record: &Record, survey: &[Finding]) -> Decision {
    let name = |finding: &Finding| record.candidates[finding.candidate].name().to_owned();
    if let Some(better) = survey.iter().find(|finding| finding.gains()) {
        let reason = format!("{} looks better, but was not confirmed; run it again", name(better));
        return Decision::CannotTell { reason };
    }
    settle(record, survey)
}

/// The decision by fresh figures: the best of the candidates that are better by these, and were so
/// in the survey if they had a part in it. If none is, fresh figures replace the survey's findings
/// about the same candidates, unless they contradict them.
fn confirmed(record: &Record, survey: &[Finding], confirmation: &[Finding]) -> Decision {
    let before = |new: &Finding| survey.iter().find(|old| old.candidate == new.candidate);
    let better = confirmation.iter().filter(|new| new.gains());
    let best = better
        .filter(|new| before(new).is_none_or(Finding::gains))
        .filter_map(|finding| Some((finding.candidate, finding.gain?)))
        .max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    if let Some((candidate, gain)) = best {
        return Decision::Change { candidate, gain };
    }
    let contradicts = |new: &&Finding| {
        before(new).is_some_and(|old| old.gains() && new.loses() || old.loses() && new.gains())
    };
    if let Some(new) = confirmation.iter().find(contradicts) {
        let name = record.candidates[new.candidate].name();
        let [first, second] = [before(new), Some(new)].map(|finding| finding.map_or(0.0, value));
        let reason = format!(
            "{name} did {first:.3} times the work at first, and {second:.3} times once more; run \
             it again when nothing else changes on this machine"
        );
        return Decision::CannotTell { reason };
    }
    let is_left = |old: &&Finding| confirmation.iter().all(|new| new.candidate != old.candidate);
    let others = survey.iter().filter(is_left);
    settle(record, &confirmation.iter().chain(others).cloned().collect::<Vec<_>>())
}

/// Keeps the first candidate, if it is known well enough that none is better.
fn settle(record: &Record, findings: &[Finding]) -> Decision {
    if let Some(open) = findings.iter().find(|finding| finding.may_gain()) {
        let Candidate { names, .. } = &record.candidates[open.candidate];
        let remedy = remedy(record);
        let reason = match open.gain {
            Some(gain) => format!(
                "{} does {:.3} times the work, in an interval of {:.3} to {:.3}; {remedy}",
                names[0], gain.value, gain.low, gain.high
            ),
            None => format!(
                "only {} of {} rounds of {} were quiet enough; {remedy}",
                open.quiet, open.taken, names[0]
            ),
        };
        return Decision::CannotTell { reason };
    }
    let highs = findings.iter().filter_map(|finding| finding.gain).map(|gain| gain.high - 1.0);
    Decision::Keep { resolution: highs.fold(0.0, f64::max) }
}

/// What may make the rounds tell more. Under a CPU limit, neither more rounds nor another hour.
fn remedy(record: &Record) -> String {
    let shares: Vec<f64> = record.slices.iter().map(|slice| slice.cpu_share).collect();
    match median(&shares).filter(|share| *share < CPU_SHARE_FULL) {
        Some(share) => format!(
            "these threads got {:.0} % of their CPUs: a CPU limit (as of a control group) or a \
             busy machine",
            100.0 * share
        ),
        None => "use more --rounds, or a quieter machine".to_owned(),
    }
}

/// The findings of a stage about all its candidates but the first.
fn findings(record: &Record, stage: Stage) -> Vec<Finding> {
    let others = 1..record.candidates.len();
    others.map(|candidate| pair(record, stage, candidate, 0)).filter(|f| f.taken > 0).collect()
}

/// The finding of a stage about a candidate, compared with another one.
fn pair(record: &Record, stage: Stage, candidate: usize, rival: usize) -> Finding {
    let of = |candidate: usize| {
        let slices = record.slices.iter();
        slices.filter(move |slice| slice.stage == stage && slice.candidate == candidate)
    };
    let pairs: Vec<(&Slice, &Slice)> = of(candidate)
        .filter_map(|slice| Some((slice, of(rival).find(|other| other.round == slice.round)?)))
        .filter(|(slice, other)| are_alike(slice, other))
        .collect();
    let rounds: Vec<(f64, f64)> =
        pairs.iter().map(|(slice, other)| (slice.throughput, other.throughput)).collect();
    let clocks: Vec<f64> = pairs.iter().filter_map(|(slice, _)| slice.clock_mhz).collect();
    let gain = stats::ratio(&rounds).and_then(|ratio| {
        let [low, high] = ratio.ends?;
        Some(Ratio { value: ratio.value, low, high })
    });
    Finding {
        candidate,
        gain,
        quiet: rounds.len(),
        taken: of(candidate).count(),
        clock_mhz: median(&clocks),
    }
}

/// Whether two slices of a round can be compared: the clock of scalar code did not change between
/// them, and both had their CPUs for some of the time.
fn are_alike(slice: &Slice, first: &Slice) -> bool {
    let had_cpus = slice.cpu_share.min(first.cpu_share) >= CPU_SHARE_MIN;
    let steady = slice
        .ambient_mhz
        .zip(first.ambient_mhz)
        .is_some_and(|(ambient, before)| (ambient / before - 1.0).abs() <= DRIFT_MAX);
    had_cpus && steady
}

/// What the chosen policy gains over the two extremes, `always-512` and `never-512`, where these
/// are other policies; nothing where none was chosen.
pub fn over_extremes(record: &Record, verdict: &Verdict) -> Vec<(&'static str, Ratio)> {
    let chosen = match &verdict.decision {
        Decision::Change { candidate, .. } => *candidate,
        Decision::Keep { .. } => 0,
        Decision::CannotTell { .. } => return Vec::new(),
    };
    let confirmed = !verdict.confirmation.is_empty();
    let stage = if confirmed { Stage::Confirmation } else { Stage::Survey };
    let over = |name: &'static str| {
        let place = record.place(name).filter(|place| *place != chosen)?;
        Some((name, pair(record, stage, chosen, place).gain?))
    };
    [ALWAYS_512, NEVER_512].into_iter().filter_map(over).collect()
}

#[cfg(test)]
mod tests;
