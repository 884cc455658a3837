//! Room ifma512_x8 of mont: eight RSA private operations, one per 64-bit lane. Secret-independent.
#![allow(unsafe_code, reason = "room: doors and asm tiles")]

use core::arch::asm;
use core::ptr;

use widelane_cpu::Ifma512;
use widelane_secret::wipe_vector_registers;

use super::key::CrtJob;
use super::lanes::{self, Arithmetic, Halves, LaneModulus, Lanes, Lookup, Product, is_size};

/// Jobs that one batch holds.
pub const LANES: usize = 8;

/// Runs 1 to [`LANES`] private-key operations of one size, each with a key of its own.
///
/// Every job gets a verdict; outputs are zeros unless it is [`Done`](super::Verdict::Done). Needs
/// up to 200 kB of stack.
///
/// # Panics
///
/// Panics if there is no job, if there are more than [`LANES`], or if an input or output is not as
/// long as the modulus.
pub fn private_crt<const HALF: usize, const FULL: usize>(
    room: Ifma512,
    jobs: &mut [CrtJob<'_, HALF, FULL>],
) {
    lanes::private_crt::<LANES, HALF, FULL>(room, Halves::InTurn, jobs);
}

/// Runs 1 to half of [`LANES`] operations in half the time: each has two lanes, one for each prime.
///
/// Otherwise as [`private_crt`].
///
/// # Panics
///
/// Panics if there is no job, if there are too many, or if an input or output is not as long as the
/// modulus.
pub fn private_crt_abreast<const HALF: usize, const FULL: usize>(
    room: Ifma512,
    jobs: &mut [CrtJob<'_, HALF, FULL>],
) {
    lanes::private_crt::<LANES, HALF, FULL>(room, Halves::Abreast, jobs);
}

arithmetic!(Ifma512, 8, "zmm", 64);
