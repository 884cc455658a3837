//! The core clock between slices of work, by the chain of the meter.

use std::time::Instant;

use widelane_meter::chain::{CYCLES_PER_TURN, Chain};

const TURNS: u64 = 667;

/// Cycles of one measurement.
pub const CYCLES: f64 = (TURNS * CYCLES_PER_TURN) as f64;

/// Core clock now, in Hz, over about twenty microseconds.
pub fn clock_hz() -> f64 {
    let began = Instant::now();
    Chain::Multiplication.window(TURNS);
    let elapsed = began.elapsed().as_secs_f64();
    CYCLES / elapsed
}
