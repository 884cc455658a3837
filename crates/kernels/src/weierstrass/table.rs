//! The form of a generator's table, which the build script computes.

/// `WINDOWS` windows of 16·`ROWS` points each: digits of x, then digits of y, in Montgomery form,
/// each digit of all points in a row.
#[repr(C, align(64))]
pub(super) struct Table<const WINDOWS: usize, const D: usize, const ROWS: usize>(
    pub [[[[[u64; 16]; ROWS]; D]; 2]; WINDOWS],
);
