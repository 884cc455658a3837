//! The clock of the core, from a chain of dependent register additions: one cycle each.
#![allow(unsafe_code, reason = "one asm block: the chain")]

use core::arch::asm;

use widelane_cpu::clock::now_ns;

/// Cycles per nanosecond, over a chain of `rounds` times 64 additions.
pub fn cycles_per_ns(rounds: u64) -> f64 {
    let start = now_ns();
    // SAFETY: register arithmetic only.
    unsafe {
        asm!(
            "2:",
            ".rept 64",
            "add {sum}, {one}",
            ".endr",
            "dec {count}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            one = in(reg) 1u64,
            count = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
    (64 * rounds) as f64 / (now_ns() - start) as f64
}
