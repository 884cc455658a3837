//! The record of a run: all that was measured, from which every verdict can be computed again.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::candidate::Candidate;
use super::workload::Workload;

/// All that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When, RFC 3339 in UTC.
    pub created: String,
    /// The CPU model.
    pub model: String,
    /// The hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// The CPUs that all worked at once.
    pub cpus: Vec<usize>,
    /// How many CPUs are on line; nothing in records of before.
    #[serde(default)]
    pub cpus_online: Option<u32>,
    /// What they did.
    pub workload: Workload,
    /// Microseconds of one operation of each kind of work, under the first candidate.
    pub costs_us: Vec<f64>,
    /// The policies tried; the others are held against the first.
    pub candidates: Vec<Candidate>,
    /// What they got done.
    pub slices: Vec<Slice>,
}

/// What one policy got done in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Whether candidates were looked for, or one that was found was confirmed.
    pub stage: Stage,
    /// The round.
    pub round: u32,
    /// The candidate, by its place among all.
    pub candidate: usize,
    /// Work done in a second of CPU time, in seconds that it took when it was first timed.
    pub throughput: f64,
    /// Share of the CPUs that the work could have.
    pub cpu_share: f64,
    /// The clock amid the work, MHz, mean of all CPUs; nothing where it could not be metered.
    pub clock_mhz: Option<f64>,
    /// The clock of scalar code just before, MHz, mean of all CPUs.
    pub ambient_mhz: Option<f64>,
}

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// All candidates, to see which may be better.
    Survey,
    /// The candidates that may be better, once more, on fresh figures.
    Confirmation,
}

/// What a record lacks that was not written by a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Nothing was tried.
    #[error("it has no candidates")]
    NoCandidates,
    /// Something was tried that is called nothing.
    #[error("a candidate has no name")]
    NoName,
    /// Not one figure for each kind of work.
    #[error("it does not have one cost and one room for each kind of work")]
    Work,
    /// A figure of something that was not tried.
    #[error("a slice is of a candidate that there is not")]
    NoSuchCandidate,
}

impl Record {
    /// Whether all parts of it fit together, so that it can be judged.
    ///
    /// # Errors
    ///
    /// See [`Malformed`].
    pub fn check(&self) -> Result<(), Malformed> {
        let kinds = self.workload.work.len();
        let Record { candidates, costs_us, slices, .. } = self;
        for (holds, malformed) in [
            (!candidates.is_empty(), Malformed::NoCandidates),
            (candidates.iter().all(|candidate| !candidate.names.is_empty()), Malformed::NoName),
            (costs_us.len() == kinds, Malformed::Work),
            (candidates.iter().all(|it| it.rooms.len() == kinds), Malformed::Work),
            (
                slices.iter().all(|slice| slice.candidate < candidates.len()),
                Malformed::NoSuchCandidate,
            ),
        ] {
            if !holds {
                return Err(malformed);
            }
        }
        Ok(())
    }

    /// The place of the candidate with this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.is(name))
    }
}
