//! Sources: everything that can tell the core clock, each with a value or the reason why not.

mod cpufreq;
mod msr;
mod perf;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use widelane_cpu::Machine;

pub use self::perf::{LicenceCounters, Residency};

use crate::meter::Meter;
use crate::place;

/// The clock of a CPU, on which this thread is, over about the next ten milliseconds; an error
/// where the source does not work here, or not now: never a zero.
type ClockHz = fn(&Machine, usize) -> Result<f64, Unavailable>;

/// All sources of the core clock, the one that needs nothing first: name, what it reads, the clock.
const SOURCES: [(&str, &str, ClockHz); 4] = [
    ("chain", "a chain of multiplications against the time-stamp counter", metered_hz),
    ("perf", "cycles counted by the performance unit", perf::clock_hz),
    ("msr", "APERF over MPERF", msr::clock_hz),
    ("cpufreq", "scaling_cur_freq in sysfs", cpufreq::clock_hz),
];

/// Why a source has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not available, because {0}")]
pub struct Unavailable(pub String);

/// A source and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The source.
    pub source: String,
    /// What it reads.
    pub reads: String,
    /// The clock in MHz, where the source works.
    pub mhz: Option<f64>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// Asks every source once. The thread should stay on its CPU meanwhile.
pub fn ask_all(machine: &Machine) -> Vec<Answer> {
    let cpu = place::here();
    let answer = |(source, reads, clock_hz): (&str, &str, ClockHz)| {
        let (mhz, reason) = match clock_hz(machine, cpu) {
            Ok(hz) => (Some(hz / 1e6), None),
            Err(unavailable) => (None, Some(unavailable.to_string())),
        };
        Answer { source: source.to_owned(), reads: reads.to_owned(), mhz, reason }
    };
    SOURCES.map(answer).into()
}

/// The software meter's clock.
fn metered_hz(machine: &Machine, _: usize) -> Result<f64, Unavailable> {
    let meter = Meter::new(machine).map_err(|error| Unavailable(error.to_string()))?;
    let estimate = meter.read(2000, 5.0);
    Ok(estimate.map_err(|refusal| Unavailable(refusal.to_string()))?.hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_value_or_a_reason() {
        let answers = ask_all(&Machine::detect());
        assert_eq!(answers.len(), 4);
        for answer in answers {
            match (answer.mhz, answer.reason) {
                (Some(mhz), None) => assert!((500.0..8000.0).contains(&mhz), "{mhz}"),
                (None, Some(reason)) => {
                    assert!(reason.starts_with("not available, because "), "{reason}");
                }
                both => panic!("{}: {both:?}", answer.source),
            }
        }
    }
}
