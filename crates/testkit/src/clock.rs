//! The clock of the core, for examples that count cycles.

use widelane_cpu::chain::{CYCLES_PER_TURN, Chain};
use widelane_cpu::clock::now_ns;

/// Turns of the chain: some 20,000 cycles.
const TURNS: u64 = 200;

/// Cycles per nanosecond now, by a chain of dependent multiplications.
pub fn cycles_per_ns() -> f64 {
    let start = now_ns();
    Chain::Multiplication.window(TURNS);
    (CYCLES_PER_TURN * TURNS) as f64 / (now_ns() - start) as f64
}
