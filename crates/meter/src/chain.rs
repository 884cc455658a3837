//! Chains of dependent instructions: their latency is known in cycles, so their time is the core
//! clock.
//!
//! The chain that meters adds register to register: one cycle each on every x86-64. Forms with an
//! immediate (`add $1`, `inc`, `lea`) are resolved at rename on recent cores and would overstate the
//! clock threefold. A chain of multiplications, three cycles each, is its witness: the two must
//! differ by 3.00, or nothing is metered.
#![allow(unsafe_code, reason = "the chain must reach the CPU as written")]

use std::arch::asm;

use crate::trace::Window;

/// Links per turn of a chain's loop; the loop's own counter runs beside the chain.
pub const LINKS_PER_TURN: u64 = 32;

/// A chain: what its links are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Register-to-register additions, one cycle each: the meter.
    Addition,
    /// Multiplications, three cycles each: the witness.
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
chain!(multiplication, "imul {link}, {with}");
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
