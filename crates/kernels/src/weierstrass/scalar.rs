//! Scalars cut into signed windows.

use super::element::{Element, Prime};
use crate::digits::DIGIT_BITS;
use crate::lanes::{LaneMask, Lanes};

/// Secret scalars, one per lane, to be read as Σ d_i·2^(w·i) with −2^(w−1) ≤ d_i ≤ 2^(w−1).
pub(super) struct Windows<L: Lanes, const D: usize> {
    /// The digits of twice the scalar: the bit below the lowest window is zero.
    doubled: [L::Row; D],
    bits: usize,
}

impl<L: Lanes, const D: usize> Windows<L, D> {
    /// Cuts canonical scalars into windows of `bits` bits.
    #[inline(always)]
    pub fn new<P: Prime<D>>(scalar: Element<P, L, D>, bits: usize) -> Self {
        Windows { doubled: scalar.plus(scalar).carry().0.map(L::row), bits }
    }

    /// |d_i|, and where d_i is negative.
    #[inline(always)]
    pub fn digit(&self, room: L::Room, window: usize) -> (L, LaneMask) {
        self.digits(room, |_| window)
    }

    /// The same of another window in each lane; zero beyond the last one.
    ///
    /// The window's bits and the top bit of the window below make w + 1 bits u; d_i is ⌈u/2⌉, less
    /// 2^w if the top bit of u is set.
    #[inline(always)]
    pub fn digits(&self, room: L::Room, window: impl Fn(usize) -> usize) -> (L, LaneMask) {
        let ones = L::splat(room, (2 << self.bits) - 1);
        let top = L::splat(room, 1 << self.bits);
        let window = L::from_fn(room, |lane| {
            let position = window(lane) * self.bits;
            let (index, shift) = (position / DIGIT_BITS as usize, position as u32 % DIGIT_BITS);
            let word =
                |index: usize| self.doubled.get(index).map_or(0, |words| words.as_ref()[lane]);
            word(index) >> shift | word(index + 1) << (DIGIT_BITS - shift)
        })
        .and(ones);
        let negative = window.and(top).equals(top);
        let magnitude = window.xor(ones).select(negative, window);
        (magnitude.add(L::splat(room, 1)).shr(1), negative)
    }
}

/// Windows of `window_bits` bits that scalars of `bits` bits have, the last one for the carry.
pub(super) const fn window_count(bits: usize, window_bits: usize) -> usize {
    bits / window_bits + 1
}
