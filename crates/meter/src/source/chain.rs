//! The source that needs nothing: the software meter.

use widelane_cpu::Machine;

use super::{Source, Unavailable};
use crate::meter::{Meter, MeterError};

/// The software meter as a source.
pub struct ChainSource(Result<Meter, MeterError>);

impl ChainSource {
    /// Sets up the meter; where that fails, the source says why.
    pub fn new(machine: &Machine) -> Self {
        ChainSource(Meter::new(machine))
    }
}

impl Source for ChainSource {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn reads(&self) -> &'static str {
        "a chain of multiplications against the time-stamp counter"
    }

    fn clock_hz(&mut self) -> Result<f64, Unavailable> {
        let meter = self.0.as_ref().map_err(|error| Unavailable(error.to_string()))?;
        let estimate = meter.read(2000, 5.0);
        Ok(estimate.map_err(|refusal| Unavailable(refusal.to_string()))?.hz)
    }
}
