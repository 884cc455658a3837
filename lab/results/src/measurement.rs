//! Raw measurements: pairs as they were taken, and histograms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Status;

/// One round of an interleaved comparison: every subject of a scenario measured once, back to back.
///
/// Rounds alternate their order (ABBA), so slow drift of the machine cancels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Scenario, as in [`crate::Row::scenario`].
    pub scenario: String,
    /// Number of the round, from 0.
    pub round: u32,
    /// The measurements in the order in which they were taken.
    pub measurements: Vec<Measurement>,
    /// `ok` if all its measurements count, `rejected` if not.
    pub status: Status,
    /// Why the first of them does not count.
    pub reason: Option<String>,
}

impl Pair {
    /// Why the round does not count for what is said of these subjects, if so. What disturbed
    /// others leaves their measurements as they are. Files of before do not tell whom it disturbed.
    pub fn objection(&self, subjects: &[&str]) -> Option<&str> {
        if self.status != Status::Ok && self.measurements.iter().all(|it| it.reason.is_none()) {
            return Some(self.reason.as_deref().unwrap_or("no reason given"));
        }
        let mut own = self.measurements.iter().filter(|it| subjects.contains(&&*it.subject));
        own.find_map(|it| it.reason.as_deref())
    }
}

/// One subject over one window of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// Who was measured.
    pub subject: String,
    /// Length of the window, seconds.
    pub wall_s: f64,
    /// Operations finished in the window: full handshakes, downloads, pages, answers to mixed
    /// requests, or operations of an algorithm.
    pub operations: u64,
    /// Bytes of bodies that came within the window, of downloads not finished in it too.
    #[serde(default)]
    pub bytes: u64,
    /// Handshakes that resumed a session, which a sound run has none of.
    pub resumed: u64,
    /// Failed operations by kind.
    pub errors: BTreeMap<String, u64>,
    /// CPU time of the subject, seconds.
    pub cpu_s: f64,
    /// The part of it that a lane process used on CPUs that are not the server's, seconds.
    #[serde(default)]
    pub lane_cpu_s: f64,
    /// CPU time of the load generator, seconds; 0 where there is none.
    pub client_cpu_s: f64,
    /// The most that one thread of it used, seconds; 0 where that is not known.
    #[serde(default)]
    pub client_thread_cpu_s: f64,
    /// CPU time that neither the subject nor the load generator used, seconds.
    pub foreign_cpu_s: f64,
    /// The part of it on the server's CPUs, seconds; 0 where that is not known.
    #[serde(default)]
    pub foreign_server_cpu_s: f64,
    /// What the hypervisor took of `foreign_cpu_s`, seconds; 0 where that is not known.
    #[serde(default)]
    pub stolen_cpu_s: f64,
    /// What it took of `foreign_server_cpu_s`, seconds; 0 where that is not known.
    #[serde(default)]
    pub stolen_server_cpu_s: f64,
    /// CPU time that was used on hardware threads beside the server's, which are nobody's of ours,
    /// seconds; 0 where there are none, or that is not known.
    #[serde(default)]
    pub sibling_cpu_s: f64,
    /// Time for which a CPU limit of our control group stopped a CPU's share of it, seconds; 0
    /// where there is none, or that is not known.
    #[serde(default)]
    pub throttled_s: f64,
    /// CPUs of the server; 0 where one is meant.
    #[serde(default)]
    pub server_cpus: u32,
    /// CPUs of the load generator; 0 where one is meant.
    #[serde(default)]
    pub client_cpus: u32,
    /// CPUs of a lane process that are neither the server's nor the load generator's; 0 where there
    /// are none.
    #[serde(default)]
    pub lane_cpus: u32,
    /// Connections that were to arrive within the window on average, where they arrive by
    /// themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals_due: Option<f64>,
    /// Median latency, microseconds.
    pub latency_us_p50: Option<f64>,
    /// 99th percentile of the latency, microseconds.
    pub latency_us_p99: Option<f64>,
    /// Core cycles per operation, where a clock was metered.
    pub cycles_per_operation: Option<f64>,
    /// Why it does not count, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Share of its CPUs from which on a server counts as busy: what it did is then what it can do.
pub const BUSY_SHARE: f64 = 0.90;

impl Measurement {
    /// The share of its own CPUs that a server used; what a lane process did on others is none of
    /// it.
    pub fn server_share(&self) -> f64 {
        let Measurement { wall_s, cpu_s, lane_cpu_s, server_cpus, .. } = *self;
        (cpu_s - lane_cpu_s).max(0.0) / wall_s / f64::from(server_cpus.max(1))
    }
}

/// A distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Scenario, as in [`crate::Row::scenario`].
    pub scenario: String,
    /// Whose distribution it is.
    pub subject: String,
    /// What is distributed.
    pub kind: HistogramKind,
    /// Unit of [`Bucket::upto`]: `jobs` or `us`.
    pub unit: String,
    /// Buckets in ascending order, without overlap; empty buckets may be left out.
    pub buckets: Vec<Bucket>,
}

/// One kind of public-key operation in one accelerated server: how many went by which path, over
/// the rounds that count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operations {
    /// Scenario, as in [`crate::Row::scenario`].
    pub scenario: String,
    /// Whose operations they are.
    pub subject: String,
    /// Kind of operation: `rsa-2048`, `x25519-derive`, `p256-sign`.
    pub kind: String,
    /// Operations that one batch holds at most.
    pub lanes: u32,
    /// Runs of the batch kernel, those that filled pools included.
    pub batches: u64,
    /// Groups of operations that were executed together, by one batch or divided among several.
    #[serde(default)]
    pub meetings: u64,
    /// Operations that waited for others and were done by a kernel, together or alone.
    pub batched: u64,
    /// Key pairs taken out of a pool.
    pub pooled: u64,
    /// Key pairs made for pools, a batch at a time.
    pub pool_made: u64,
    /// Key pairs of pools that were wiped because nobody took them in time.
    pub pool_expired: u64,
    /// Operations done one by one by the default provider, where that costs less.
    pub single: u64,
    /// Operations that ran at once because their caller could not wait.
    pub synchronous: u64,
    /// Operations left to OpenSSL's default provider.
    pub delegated: u64,
}

/// What a [`Histogram`] distributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HistogramKind {
    /// Jobs per executed batch; the last bucket is a full batch.
    BatchFill,
    /// Time from the start of a connection to its finished handshake, or to the end of its work
    /// where a load asks for something. Where connections come at a rate, they start at the instant
    /// at which they are due, whether the client is late or not.
    Latency,
    /// Time that an operation waited for its batch.
    Wait,
}

/// One bucket: how many values were at most `upto` and above the bucket before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bucket {
    /// Upper edge, included.
    pub upto: f64,
    /// Number of values.
    pub count: u64,
}
