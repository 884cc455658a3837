//! Room portable of registers: a word is a register of one lane, in plain Rust. Secret-independent.

use super::{Register, Task};

macro_rules! plain_register {
    ($word:ident) => {
        impl Register for $word {
            type Room = ();
            type Word = $word;
            type Row = [$word; 1];
            const LANES: usize = 1;
            const ZEROS: [$word; 1] = [0];

            #[inline(always)]
            fn splat((): (), word: $word) -> Self {
                word
            }

            #[inline(always)]
            fn load((): (), row: &[$word; 1]) -> Self {
                row[0]
            }

            #[inline(always)]
            fn row(self) -> [$word; 1] {
                [self]
            }

            #[inline(always)]
            fn room(self) {}

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn shl(self, bits: u32) -> Self {
                self << bits
            }

            #[inline(always)]
            fn shr(self, bits: u32) -> Self {
                self >> bits
            }

            #[inline(never)]
            fn call<T: Task<Self>>((): (), task: T) -> T::Output {
                task.run(())
            }

            fn wipe_registers((): ()) {}
        }
    };
}

plain_register!(u32);
plain_register!(u64);
