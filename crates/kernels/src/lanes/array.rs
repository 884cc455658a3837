//! Registers of any number of words in plain Rust: so what is written for wide ones is tested on
//! machines that have none. Nothing is inlined, or the texts for wide registers would be compiled
//! for minutes.

use super::{LaneMask, Lanes};
use crate::registers::{Register, Task};

/// A register of `N` words.
#[derive(Clone, Copy)]
pub struct Array<const N: usize>([u64; N]);

impl<const N: usize> Array<N> {
    #[inline(never)]
    fn of(word: impl FnMut(usize) -> u64) -> Self {
        Array(core::array::from_fn(word))
    }

    /// What a register of one word does, lane by lane.
    #[inline(never)]
    fn each(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self::of(|lane| operation(self.0[lane], other.0[lane]))
    }

    /// Which lanes say yes.
    #[inline(never)]
    fn mask(self, other: Self, question: impl Fn(u64, u64) -> LaneMask) -> LaneMask {
        let bits = (0..N).map(|lane| {
            let answer = question(self.0[lane], other.0[lane]).declassify(0);
            u8::from(answer) << lane
        });
        LaneMask::from_bits(bits.sum())
    }
}

/// Implements operations of two registers by those of their words.
macro_rules! by_lane {
    ($($name:ident)*) => {
        $(
            #[inline(never)]
            fn $name(self, other: Self) -> Self {
                self.each(other, u64::$name)
            }
        )*
    };
}

impl<const N: usize> Register for Array<N> {
    type Room = ();
    type Word = u64;
    type Row = [u64; N];
    const LANES: usize = N;
    const ZEROS: [u64; N] = [0; N];

    #[inline(never)]
    fn splat((): (), word: u64) -> Self {
        Array([word; N])
    }

    #[inline(never)]
    fn load((): (), row: &[u64; N]) -> Self {
        Array(*row)
    }

    #[inline(never)]
    fn row(self) -> [u64; N] {
        self.0
    }

    #[inline(never)]
    fn room(self) {}

    by_lane!(add sub and or xor);

    #[inline(never)]
    fn shl(self, bits: u32) -> Self {
        self.each(self, |word, _| word << bits)
    }

    #[inline(never)]
    fn shr(self, bits: u32) -> Self {
        self.each(self, |word, _| word >> bits)
    }

    #[inline(never)]
    fn call<T: Task<Self>>((): (), task: T) -> T::Output {
        task.run(())
    }

    #[inline(never)]
    fn wipe_registers((): ()) {}
}

impl<const N: usize> Lanes for Array<N> {
    #[inline(never)]
    fn splat_pair((): (), pair: [u64; 2]) -> Self {
        Self::of(|lane| pair[lane % 2])
    }

    #[inline(never)]
    fn flatten(registers: &[[u64; N]]) -> &[u64] {
        registers.as_flattened()
    }

    by_lane!(mul);

    #[inline(never)]
    fn shr_signed(self, bits: u32) -> Self {
        self.each(self, |word, _| word.shr_signed(bits))
    }

    #[inline(never)]
    fn madd52lo(self, a: Self, b: Self) -> Self {
        Self::of(|lane| self.0[lane].madd52lo(a.0[lane], b.0[lane]))
    }

    #[inline(never)]
    fn madd52hi(self, a: Self, b: Self) -> Self {
        Self::of(|lane| self.0[lane].madd52hi(a.0[lane], b.0[lane]))
    }

    #[inline(never)]
    fn equals(self, other: Self) -> LaneMask {
        self.mask(other, u64::equals)
    }

    #[inline(never)]
    fn less_than(self, other: Self) -> LaneMask {
        self.mask(other, u64::less_than)
    }

    #[inline(never)]
    fn top_bit(self) -> LaneMask {
        self.mask(self, |word, _| word.top_bit())
    }

    #[inline(never)]
    fn pick(row: &[u64; 16], index: Self) -> Self {
        index.each(index, |index, _| u64::pick(row, index))
    }

    #[inline(never)]
    fn permute(self, index: Self) -> Self {
        Self::of(|lane| self.0[index.0[lane] as usize % N])
    }

    #[inline(never)]
    fn select(self, mask: LaneMask, other: Self) -> Self {
        Self::of(|lane| if mask.declassify(lane) { self.0[lane] } else { other.0[lane] })
    }

    #[inline(never)]
    fn shift_in(self, below: Self, count: usize) -> Self {
        Self::of(|lane| match lane.checked_sub(count) {
            Some(lane) => self.0[lane],
            None => below.0[N + lane - count],
        })
    }
}
