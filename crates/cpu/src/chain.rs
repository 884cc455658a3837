//! Chains of dependent instructions: their latency is known in cycles, so their time is the core
//! clock.
//!
//! The clock is measured with a chain of register-to-register multiplications of 32 bits: three
//! cycles each on every x86-64 since Nehalem and Zen (of 64 bits they take four to six on Intel's
//! efficient cores), and never resolved at rename. A second chain of register-to-register additions
//! (one cycle each), the witness, checks it: the ratio of the two must be 3.00, otherwise no clock
//! is reported. Additions with an immediate (`add $1`, `inc`, `lea`) would not do: recent cores
//! resolve them at rename, and the clock would be overstated threefold.
//!
//! Additions only check, because a hyper-thread on the same core, which a virtual machine cannot
//! see, sometimes occupies an adder: a chain of additions then takes one cycle in thirty longer,
//! while multiplications are not measurably slower.
#![allow(unsafe_code, reason = "the chain must reach the CPU as written")]

use std::arch::asm;

use serde::{Deserialize, Serialize};

/// Time between two readings of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Ticks at its begin.
    pub begin: u64,
    /// Ticks at its end.
    pub end: u64,
}

impl Window {
    /// How long it took.
    pub fn ticks(self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Links per turn of a chain's loop; the loop's own counter runs beside the chain.
pub const LINKS_PER_TURN: u64 = 32;

/// Core cycles of a turn of [`Chain::Multiplication`].
pub const CYCLES_PER_TURN: u64 = 3 * LINKS_PER_TURN;

/// A chain: what its links are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Register-to-register additions, one cycle each: the witness.
    Addition,
    /// Multiplications of 32 bits, three cycles each: the meter.
    Multiplication,
    /// Zeroing idioms, which no core executes: what a meter that trusts its chain falls for. The
    /// self-check must refuse it.
    Eliminated,
}

impl Chain {
    /// Runs `turns` times [`LINKS_PER_TURN`] links between two readings of the time-stamp counter.
    pub fn window(self, turns: u64) -> Window {
        match self {
            Chain::Addition => addition(turns),
            Chain::Multiplication => multiplication(turns),
            Chain::Eliminated => eliminated(turns),
        }
    }
}

/// The time-stamp counter now, after everything before it is done.
pub fn time_stamp() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter into registers; it touches no memory and no stack.
    unsafe {
        asm!(
            "lfence",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            out("rax") ticks,
            out("rdx") _,
            options(nomem, nostack),
        );
    }
    ticks
}

macro_rules! chain {
    ($name:ident, $link:literal) => {
        fn $name(turns: u64) -> Window {
            debug_assert!(turns > 0);
            let (begin, end): (u64, u64);
            // SAFETY: reads a counter, then works on registers in a counted loop; it touches no
            // memory and no stack.
            unsafe {
                asm!(
                    "lfence",
                    "rdtsc",
                    "shl rdx, 32",
                    "or rax, rdx",
                    "mov {begin}, rax",
                    "lfence",
                    ".p2align 5",
                    "2:",
                    ".rept 32",
                    $link,
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    "lfence",
                    "rdtsc",
                    "shl rdx, 32",
                    "or rax, rdx",
                    begin = out(reg) begin,
                    link = inout(reg) 3u64 => _,
                    with = in(reg) 5u64,
                    turns = inout(reg) turns => _,
                    out("rax") end,
                    out("rdx") _,
                    options(nomem, nostack),
                );
            }
            Window { begin, end }
        }
    };
}

chain!(addition, "add {link}, {with}");
chain!(multiplication, "imul {link:e}, {with:e}");
chain!(eliminated, "xor {link:e}, {link:e} /* {with} */");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_after_it_began_and_before_the_next() {
        for chain in [Chain::Addition, Chain::Multiplication, Chain::Eliminated] {
            let (first, second) = (chain.window(4), chain.window(4));
            assert!(first.begin <= first.end && first.end <= second.begin, "{chain:?}");
            assert!(second.end <= time_stamp());
        }
    }
}
