//! Simulate: what acceleration is worth over the load, on machines with more workers than are at
//! hand.
//!
//! From measured costs of operations that are done together follows how many meet at a load, and
//! from that CPU time and latency of a handshake: `docs/measure/simulate.md`.

pub mod costs;
pub mod model;

use std::time::Duration;

use widelane_results::{Results, Row, Trace};

use self::costs::Costs;
use self::model::{Model, Outcome};

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The private-key operations of a handshake.
    pub costs: Costs,
    /// What a handshake takes besides its private-key operations: natively, and accelerated.
    pub rest: [Duration; 2],
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// How long an operation may wait for company.
    pub waits: Vec<Duration>,
    /// Whether workers combine their operations; one alone has nothing to combine.
    pub combine: Vec<bool>,
    /// Loads, in percent of what the native server can do.
    pub loads: Vec<u8>,
    /// Handshakes of each simulation.
    pub handshakes: usize,
    /// Makes arrivals reproducible.
    pub seed: u64,
}

/// The share of the rest of a handshake that is done before its operation: connection and hello
/// messages; the client's answer and the end come after it.
const SHARE_BEFORE: f64 = 0.6;

const CPU_RATIO: &str = "cpu_ratio";

/// One configuration of the accelerated server.
#[derive(Clone, Copy)]
struct Configuration {
    workers: usize,
    wait: Duration,
    combined: bool,
}

impl Configuration {
    /// The path of its results: `simulate/4-workers/wait-500us/combined`.
    fn path(self) -> String {
        let Configuration { workers, wait, combined } = self;
        let how = if combined { "combined" } else { "apart" };
        format!("simulate/{workers}-workers/wait-{}us/{how}", wait.as_micros())
    }
}

impl Plan {
    /// Simulates every configuration at every load and adds rows and curves to `results`.
    pub fn run(&self, results: &mut Results) {
        for configuration in self.configurations() {
            let mut points = Vec::new();
            for load in &self.loads {
                let [native, ours] = self.pair(configuration, *load);
                let ratio = ours.cpu_ns / native.cpu_ns;
                points.push([f64::from(*load), ratio]);
                results.rows.extend(rows(configuration, *load, &native, &ours));
            }
            results.traces.push(Trace {
                scenario: "simulate".to_owned(),
                subject: configuration.path().trim_start_matches("simulate/").replace('/', ", "),
                metric: CPU_RATIO.to_owned(),
                unit: "1".to_owned(),
                along: "load".to_owned(),
                along_unit: "%".to_owned(),
                points,
            });
        }
    }

    fn configurations(&self) -> Vec<Configuration> {
        let mut all = Vec::new();
        for workers in &self.workers {
            for wait in &self.waits {
                let combine = self.combine.iter().filter(|combined| *workers > 1 || !**combined);
                all.extend(combine.map(|combined| Configuration {
                    workers: *workers,
                    wait: *wait,
                    combined: *combined,
                }));
            }
        }
        all
    }

    /// The native server and the accelerated one under the same arrivals.
    fn pair(&self, configuration: Configuration, load: u8) -> [Outcome; 2] {
        let Configuration { workers, wait, combined } = configuration;
        let [rest, rest_ours] = self.rest.map(|rest| rest.as_nanos() as u64);
        let rate = f64::from(load) / 100.0 * 1e9 / (rest + self.costs.native) as f64;
        let before = |rest: u64| (rest as f64 * SHARE_BEFORE).round() as u64;
        let native = Model {
            workers,
            rate,
            before: before(rest),
            after: rest - before(rest),
            together: vec![self.costs.native],
            wait: 0,
            combined: false,
            handshakes: self.handshakes,
            seed: self.seed,
        };
        let ours = Model {
            before: before(rest_ours),
            after: rest_ours - before(rest_ours),
            together: self.costs.together.clone(),
            wait: wait.as_nanos() as u64,
            combined,
            ..native.clone()
        };
        [native.run(), ours.run()]
    }
}

/// The rows of one load.
fn rows(configuration: Configuration, load: u8, native: &Outcome, ours: &Outcome) -> Vec<Row> {
    let us = |ns: u64| ns as f64 / 1e3;
    let [p50, p99] = [0.5, 0.99].map(|share| {
        let (ours, native) = (us(ours.latency(share)), us(native.latency(share)));
        (ours, ours - native)
    });
    let figures = [
        (CPU_RATIO, "1", ours.cpu_ns / native.cpu_ns),
        ("jobs_per_batch", "jobs", ours.fill),
        ("latency_p50", "us", p50.0),
        ("added_p50", "us", p50.1),
        ("latency_p99", "us", p99.0),
        ("added_p99", "us", p99.1),
    ];
    let row = |(metric, unit, value): (&str, &str, f64)| Row {
        scenario: configuration.path(),
        subject: format!("{load} % load"),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        value: Some(value),
        ..Row::default()
    };
    figures.map(row).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_has_a_figure_for_every_load() {
        let us = Duration::from_micros;
        let plan = Plan {
            costs: Costs::new(242.0, &[205.0, 385.0, 509.0, 509.0]).unwrap(),
            rest: [us(284), us(215)],
            workers: vec![1, 4],
            waits: vec![us(0), us(500)],
            combine: vec![false, true],
            loads: vec![10, 50],
            handshakes: 2_000,
            seed: 1,
        };
        let mut results = Results::default();
        plan.run(&mut results);
        // One worker has nobody to combine with.
        assert_eq!(results.traces.len(), 2 + 4);
        assert_eq!(results.rows.len(), 6 * 2 * 6);
        let idle = &results.rows[0];
        assert_eq!(idle.scenario, "simulate/1-workers/wait-0us/apart");
        assert_eq!((idle.subject.as_str(), idle.metric.as_str()), ("10 % load", CPU_RATIO));
        let alone = (205.0 + 215.0) / (242.0 + 284.0);
        let ratio = idle.value.unwrap();
        assert!((ratio - alone).abs() < 0.02, "{ratio}, {alone}");
    }
}
