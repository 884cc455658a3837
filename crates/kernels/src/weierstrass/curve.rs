//! What sets one curve apart from another.

use super::element::{Field, Prime};
use super::numbers::Numbers;

/// A curve y² = x³ − 3·x + b of prime order, its coordinates and scalars in `D` digits.
pub trait Curve<const D: usize>: Copy + 'static {
    /// The prime of the coordinates.
    #[allow(private_bounds, reason = "a curve is one of those in this module")]
    type Field: Field<D>;
    /// The prime of the scalars: the number of points.
    #[allow(private_bounds, reason = "a curve is one of those in this module")]
    type Order: Prime<D>;
    /// Its numbers.
    const NUMBERS: &'static Numbers;
    /// Bytes of a coordinate, and of a scalar.
    const BYTES: usize = Self::NUMBERS.bytes();
    /// b, in Montgomery form.
    const B: [u64; D];
    /// Bits of a scalar that one entry of the generator's table stands for.
    const BASE_WINDOW: usize = Self::NUMBERS.base_window;

    /// One digit of x or y (0 or 1) of all entries of a window of the generator's table: entry j of
    /// window i is (j + 1)·2^(i·`BASE_WINDOW`) times the generator.
    fn base_row(window: usize, coordinate: usize, digit: usize) -> &'static [[u64; 16]];
}
