//! The generators' tables, which the build script computes.

use super::numbers;
use super::scalar::window_count;

/// `WINDOWS` windows of 16·`ROWS` points each: digits of x, then digits of y, in Montgomery form,
/// each digit of all points in a row.
#[repr(C, align(64))]
pub(super) struct Table<const WINDOWS: usize, const D: usize, const ROWS: usize>(
    pub [[[[[u64; 16]; ROWS]; D]; 2]; WINDOWS],
);

/// The table of P-256: 185 KiB.
pub(super) static P256: Table<{ window_count(256, numbers::P256.base_window) }, 5, 4> =
    Table(include!(concat!(env!("OUT_DIR"), "/p256.rs")));

/// The table of P-384: 260 KiB.
pub(super) static P384: Table<{ window_count(384, numbers::P384.base_window) }, 8, 2> =
    Table(include!(concat!(env!("OUT_DIR"), "/p384.rs")));
