//! The core clock between slices of work, by the chain of the meter.

use std::time::Instant;

use widelane_meter::chain::{Chain, LINKS_PER_TURN};

/// Cycles of a link of the chain.
const CYCLES_PER_LINK: u64 = 3;
const TURNS: u64 = 667;

/// Cycles of one measurement.
pub const CYCLES: f64 = (TURNS * LINKS_PER_TURN * CYCLES_PER_LINK) as f64;

/// Core clock now, in Hz, over about twenty microseconds.
pub fn clock_hz() -> f64 {
    let began = Instant::now();
    Chain::Multiplication.window(TURNS);
    let elapsed = began.elapsed().as_secs_f64();
    CYCLES / elapsed
}
