//! Room ifma256_x4 of mont: four RSA private operations, one per 64-bit lane. Secret-independent.
#![allow(unsafe_code, reason = "room: asm tiles")]

use core::arch::asm;
use core::ptr;

use widelane_cpu::Ifma256;
use widelane_secret::wipe_vector_registers;

use super::lanes::{Arithmetic, LaneDigits, LaneModulus, Lookup, Product, is_size};

/// Jobs that one batch holds.
pub(super) const LANES: usize = 4;

arithmetic!(Ifma256, 4, "ymm", 32);
