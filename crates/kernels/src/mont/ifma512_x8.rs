//! Room ifma512_x8 of mont: eight RSA private operations, one per 64-bit lane. Secret-independent.
#![allow(unsafe_code, reason = "room: asm tiles")]

use core::arch::asm;
use core::ptr;

use widelane_cpu::Ifma512;
use widelane_secret::wipe_vector_registers;

use super::lanes::{Arithmetic, LaneDigits, LaneModulus, Lookup, Product, is_size};

/// Jobs that one batch holds.
pub(super) const LANES: usize = 8;

arithmetic!(Ifma512, 8, "zmm", 64);
