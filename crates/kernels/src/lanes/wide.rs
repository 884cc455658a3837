//! What the two wide rooms of lanes have in common: the text of their implementation.

/// Calls an intrinsic of a room whose token is at hand.
macro_rules! intrinsic {
    ($name:ident $(::<$bits:tt>)? ($($argument:expr),*)) => {
        // SAFETY: a register holds the token of its room, which exists only where the machine has
        // every feature of the room.
        unsafe { arch::$name$(::<$bits>)?($($argument),*) }
    };
}

/// Implements [`Lanes`](super::Lanes) for a register of `$lanes` words.
macro_rules! wide_lanes {
    (
        $register:ident($vector:ident, $token:ident), $lanes:literal, features = $features:literal,
        splat = $splat:ident, splat_pair = $splat_pair:ident, blend = $blend:ident,
        equals = $equals:ident,
        less_than = $less_than:ident, top_bit = $top_bit:ident,
        add = $add:ident, sub = $sub:ident, mul = $mul:ident,
        and = $and:ident, or = $or:ident, xor = $xor:ident, shl = $shl:ident, shr = $shr:ident,
        rotate_left = $rotate_left:ident, shr_signed = $shr_signed:ident,
        madd52lo = $madd52lo:ident, madd52hi = $madd52hi:ident,
        align = $align:ident by $($count:literal)*,
        permute = $permute:ident,
    ) => {
        #[doc = concat!("A register of ", $lanes, " words, one job in each.")]
        #[derive(Clone, Copy)]
        pub struct $register(arch::$vector, $token);

        impl Lanes for $register {
            type Room = $token;
            type Words = [u64; $lanes];
            const LANES: usize = $lanes;
            const ZEROS: [u64; $lanes] = [0; $lanes];

            #[inline(always)]
            fn splat(room: $token, word: u64) -> Self {
                $register(intrinsic!($splat(word.cast_signed())), room)
            }

            #[inline(always)]
            fn splat_pair(room: $token, pair: [u64; 2]) -> Self {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                let pair = unsafe { transmute::<[u64; 2], arch::__m128i>(pair) };
                $register(intrinsic!($splat_pair(pair)), room)
            }

            #[inline(always)]
            fn load(room: $token, words: &[u64; $lanes]) -> Self {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                let vector = unsafe { transmute::<[u64; $lanes], arch::$vector>(*words) };
                $register(vector, room)
            }

            #[inline(always)]
            fn flatten(registers: &[[u64; $lanes]]) -> &[u64] {
                registers.as_flattened()
            }

            #[inline(always)]
            fn from_fn(room: $token, word: impl FnMut(usize) -> u64) -> Self {
                Self::load(room, &array::from_fn(word))
            }

            #[inline(always)]
            fn room(self) -> $token {
                self.1
            }

            #[inline(always)]
            fn words(self) -> [u64; $lanes] {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                unsafe { transmute::<arch::$vector, [u64; $lanes]>(self.0) }
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $register(intrinsic!($add(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                $register(intrinsic!($sub(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $register(intrinsic!($mul(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                $register(intrinsic!($and(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                $register(intrinsic!($or(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                $register(intrinsic!($xor(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn shl<const BITS: u32>(self) -> Self {
                $register(intrinsic!($shl::<BITS>(u8::MAX, self.0)), self.1)
            }

            #[inline(always)]
            fn rotate_left<const BITS: u32>(self) -> Self {
                let count = intrinsic!($splat(i64::from(BITS)));
                $register(intrinsic!($rotate_left(self.0, count)), self.1)
            }

            #[inline(always)]
            fn shr<const BITS: u32>(self) -> Self {
                $register(intrinsic!($shr::<BITS>(u8::MAX, self.0)), self.1)
            }

            #[inline(always)]
            fn shr_signed<const BITS: u32>(self) -> Self {
                $register(intrinsic!($shr_signed::<BITS>(u8::MAX, self.0)), self.1)
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

            #[inline(always)]
            fn call<T: Task<Self>>(room: $token, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                #[inline(never)]
                fn body<T: Task<$register>>(room: $token, task: T) -> T::Output {
                    task.run(room)
                }
                // SAFETY: the token exists only where the machine has every feature of the room.
                unsafe { body(room, task) }
            }

            fn wipe_registers(_room: $token) {
                // SAFETY: the token exists only where the machine has AVX-512.
                unsafe { wipe_vector_registers() }
            }
        }
    };
}
