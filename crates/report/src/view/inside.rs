//! What went on inside the servers: the paths of operations, and how waits and latencies spread.

use widelane_results::{Bucket, Histogram, HistogramKind, Operations, Results};

use super::{detour, join, mode};
use crate::words::{self, Scenario};

/// By which paths one kind of operation went on one server.
#[derive(Debug, PartialEq)]
pub struct Paths {
    /// Server, protocol, key, group and mode, and the connections.
    pub title: String,
    /// What was done: `X25519 derive`.
    pub operation: String,
    /// How often.
    pub count: u64,
    /// Shares in batches, out of a pool, alone, at once, and left to the default provider.
    pub shares: [f64; 5],
    /// Jobs in a batch of the kernel, on average.
    pub jobs_per_batch: Option<f64>,
    /// Lanes of the kernel.
    pub lanes: u32,
}

impl Paths {
    /// The shares in words; nothing where there is none.
    pub fn shares(&self) -> [String; 5] {
        self.shares.map(words::share)
    }

    /// Jobs per batch beside the lanes: `7.8 of 8`; nothing where none ran in batches.
    pub fn jobs(&self) -> String {
        let lanes = self.lanes;
        self.jobs_per_batch.map_or(String::new(), |jobs| format!("{jobs:.1} of {lanes}"))
    }
}

/// What [`Paths::shares`] are called.
pub const PATHS: [&str; 5] = ["in batches", "from a pool", "alone", "at once", "default provider"];

/// The paths of operations, of those scenarios that differ in connections alone in the one that
/// speaks for the server.
pub fn paths(results: &Results) -> Vec<Paths> {
    let place = |operations: &Operations| {
        let scenario = Scenario::parse(&operations.scenario);
        (join([Some(scenario.family()), mode(&operations.subject)]), scenario.connections)
    };
    let telling = |operations: &&Operations| {
        let (family, connections) = place(operations);
        let rivals = results.operations.iter().map(place).filter(|(other, _)| *other == family);
        rivals.map(|(_, connections)| detour(connections)).min() == Some(detour(connections))
    };
    let paths = |operations: &Operations| {
        let Operations { batched, pooled, single, synchronous, delegated, .. } = *operations;
        let by_path = [batched, pooled, single, synchronous, delegated];
        let count: u64 = by_path.iter().sum();
        let made = batched + operations.pool_made;
        let (family, connections) = place(operations);
        Paths {
            title: join([family, connections.map(words::connections)]).unwrap_or_default(),
            operation: words::operation(&operations.kind),
            count,
            shares: by_path.map(|part| part as f64 / count.max(1) as f64),
            jobs_per_batch: (operations.batches > 0 && made > 0)
                .then(|| made as f64 / operations.batches as f64),
            lanes: operations.lanes,
        }
    };
    results.operations.iter().filter(telling).map(paths).filter(|paths| paths.count > 0).collect()
}

/// One distribution over time, or two to compare.
#[derive(Debug, PartialEq)]
pub struct Distribution {
    /// What is distributed, and where.
    pub title: String,
    /// As installed; nothing where there is no such thing.
    pub native: Vec<Bucket>,
    /// Accelerated.
    pub accelerated: Vec<Bucket>,
}

/// The distributions of one kind, of those scenarios that differ in connections alone in the one
/// that speaks for the server.
pub fn distributions(results: &Results, kind: HistogramKind) -> Vec<Distribution> {
    let of_kind = || results.histograms.iter().filter(move |histogram| histogram.kind == kind);
    let place = |histogram: &Histogram| {
        let scenario = Scenario::parse(&histogram.scenario);
        (scenario.family(), detour(scenario.connections))
    };
    let telling = |histogram: &&Histogram| {
        let (family, detour) = place(histogram);
        let rivals = of_kind().map(place).filter(|(other, _)| *other == family);
        rivals.map(|(_, detour)| detour).min() == Some(detour)
    };
    let ours = of_kind().filter(|histogram| !words::is_rival(&histogram.subject));
    ours.filter(telling)
        .filter(|histogram| histogram.buckets.iter().any(|bucket| bucket.count > 0))
        .map(|histogram| {
            let native = of_kind()
                .find(|native| native.scenario == histogram.scenario && native.subject == "native");
            let title = Scenario::parse(&histogram.scenario).title();
            Distribution {
                title: join([Some(title), mode(&histogram.subject)]).unwrap_or_default(),
                native: native.map(|native| native.buckets.clone()).unwrap_or_default(),
                accelerated: histogram.buckets.clone(),
            }
        })
        .collect()
}
