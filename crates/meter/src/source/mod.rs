//! Sources: everything that can tell the core clock, each with a value or the reason why not.

mod chain;
mod cpufreq;
mod msr;
mod perf;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use widelane_cpu::Machine;

pub use self::perf::{LicenceCounters, Residency};

use crate::place;

/// A source of the core clock on this thread's CPU.
pub trait Source {
    /// Its name: `chain`, `perf`, `msr`, `cpufreq`.
    fn name(&self) -> &'static str;

    /// What it reads, in a few words.
    fn reads(&self) -> &'static str;

    /// The clock over about the next ten milliseconds.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] where the source does not work here, or not now: never a zero.
    fn clock_hz(&mut self) -> Result<f64, Unavailable>;
}

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

/// All sources for the CPU that this thread is on, the one that needs nothing first.
pub fn all(machine: &Machine) -> Vec<Box<dyn Source>> {
    let cpu = place::here();
    vec![
        Box::new(chain::ChainSource::new(machine)),
        Box::new(perf::PerfSource),
        Box::new(msr::MsrSource::new(machine, cpu)),
        Box::new(cpufreq::CpufreqSource::new(cpu)),
    ]
}

/// Asks every source once. The thread should stay on its CPU meanwhile.
pub fn ask_all(machine: &Machine) -> Vec<Answer> {
    all(machine)
        .iter_mut()
        .map(|source| {
            let (mhz, reason) = match source.clock_hz() {
                Ok(hz) => (Some(hz / 1e6), None),
                Err(unavailable) => (None, Some(unavailable.to_string())),
            };
            let (source, reads) = (source.name().to_owned(), source.reads().to_owned());
            Answer { source, reads, mhz, reason }
        })
        .collect()
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
