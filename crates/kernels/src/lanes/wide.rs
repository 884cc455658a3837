//! What the two wide rooms of lanes have in common: the text of their implementation.
#![allow(unsafe_code, reason = "text of rooms: an array as a register")]

/// Implements [`Lanes`](super::Lanes) for a register of `$lanes` words.
macro_rules! wide_lanes {
    (
        $register:ident: $lanes:tt of u64 in $size:ident, $token:ident,
        features = $features:literal,
        splat_pair = $splat_pair:ident, blend = $blend:ident, equals = $equals:ident,
        less_than = $less_than:ident, top_bit = $top_bit:ident, mul = $mul:ident,
        shr_signed = $shr_signed:ident,
        madd52lo = $madd52lo:ident, madd52hi = $madd52hi:ident,
        align = $align:ident by $($count:literal)*,
        permute = $permute:ident,
    ) => {
        register! {
            $register: $lanes of u64 in $size, $token, features = $features,
            wipe = wipe_vector_registers
        }

        impl Lanes for $register {
            #[inline(always)]
            fn splat_pair(room: $token, pair: [u64; 2]) -> Self {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                let pair = unsafe { transmute::<[u64; 2], arch::__m128i>(pair) };
                $register(intrinsic!($splat_pair(pair)), room)
            }

            #[inline(always)]
            fn flatten(registers: &[[u64; $lanes]]) -> &[u64] {
                registers.as_flattened()
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $register(intrinsic!($mul(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn shr_signed(self, bits: u32) -> Self {
                let count = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
                $register(intrinsic!($shr_signed(self.0, count)), self.1)
            }

            #[inline(always)]
            fn madd52lo(self, a: Self, b: Self) -> Self {
                $register(intrinsic!($madd52lo(self.0, a.0, b.0)), self.1)
            }

            #[inline(always)]
            fn madd52hi(self, a: Self, b: Self) -> Self {
                $register(intrinsic!($madd52hi(self.0, a.0, b.0)), self.1)
            }

            #[inline(always)]
            fn equals(self, other: Self) -> LaneMask {
                LaneMask::from_bits(intrinsic!($equals(self.0, other.0)))
            }

            #[inline(always)]
            fn less_than(self, other: Self) -> LaneMask {
                LaneMask::from_bits(intrinsic!($less_than(self.0, other.0)))
            }

            #[inline(always)]
            fn top_bit(self) -> LaneMask {
                LaneMask::from_bits(intrinsic!($top_bit(self.0)))
            }

            #[inline(always)]
            fn pick(row: &[u64; 16], index: Self) -> Self {
                pick(row, index)
            }

            #[inline(always)]
            fn permute(self, index: Self) -> Self {
                $register(intrinsic!($permute(index.0, self.0)), self.1)
            }

            #[inline(always)]
            fn select(self, mask: LaneMask, other: Self) -> Self {
                $register(intrinsic!($blend(mask.bits(), other.0, self.0)), self.1)
            }

            #[inline(always)]
            fn shift_in(self, below: Self, count: usize) -> Self {
                // What comes from below is what the lowest lanes of a pair moved down would be.
                let vector = match count {
                    0 => self.0,
                    $($count => intrinsic!($align::<{ $lanes - $count }>(self.0, below.0)),)*
                    _ => unreachable!("there are {} lanes", $lanes),
                };
                $register(vector, self.1)
            }
        }
    };
}
