//! A chain of dependent additions: one cycle each on every x86-64, so their time is the core clock.
//!
//! The additions are register to register; forms with an immediate are resolved at rename on recent
//! cores and would overstate the clock.
#![allow(unsafe_code, reason = "the chain must reach the CPU as written")]

use std::arch::asm;
use std::time::Instant;

/// Additions per turn of the loop; the loop's own counter runs beside the chain.
const ADDITIONS_PER_TURN: u64 = 32;
const TURNS: u64 = 2000;

/// Cycles of one measurement.
pub const CYCLES: f64 = (TURNS * ADDITIONS_PER_TURN) as f64;

/// Core clock now, in Hz, over about twenty microseconds.
pub fn clock_hz() -> f64 {
    let began = Instant::now();
    run(TURNS);
    let elapsed = began.elapsed().as_secs_f64();
    CYCLES / elapsed
}

fn run(turns: u64) {
    // SAFETY: adds one register to another in a counted loop; it touches no memory and no stack.
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "add {sum}, {one}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            one = in(reg) 1u64,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}
