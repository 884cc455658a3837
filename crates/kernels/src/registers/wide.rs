//! What the registers of wide rooms have in common: the text of their implementation.
#![allow(unsafe_code, reason = "text of rooms: intrinsics behind safe methods, and doors")]

/// Calls an intrinsic of a room whose token is at hand.
macro_rules! intrinsic {
    ($name:ident $(::<$bits:tt>)? ($($argument:expr),*)) => {
        // SAFETY: a register holds the token of its room, which exists only where the machine has
        // every feature of the room.
        unsafe { arch::$name$(::<$bits>)?($($argument),*) }
    };
}

/// Defines a register of a room with these features, and implements
/// [`Register`](crate::registers::Register) for it. `$wipe` clears all registers of the room.
macro_rules! register {
    ($register:ident: $lanes:tt of $word:ident in $class:ident, $($room:tt)*) => {
        register! { $register: $lanes of $word in $class as [$word; $lanes], $($room)* }
    };
    ($register:ident: 8 of u64 in zmm as $row:ty, $($room:tt)*) => {
        register_of_words! {
            $register(__m512i), 8 of u64 in $row, splat = _mm512_set1_epi64,
            add = _mm512_add_epi64, sub = _mm512_sub_epi64, and = _mm512_and_si512,
            or = _mm512_or_si512, xor = _mm512_xor_si512, shl = _mm512_sll_epi64,
            shr = _mm512_srl_epi64, $($room)*
        }
    };
    ($register:ident: 16 of u32 in zmm as $row:ty, $($room:tt)*) => {
        register_of_words! {
            $register(__m512i), 16 of u32 in $row, splat = _mm512_set1_epi32,
            add = _mm512_add_epi32, sub = _mm512_sub_epi32, and = _mm512_and_si512,
            or = _mm512_or_si512, xor = _mm512_xor_si512, shl = _mm512_sll_epi32,
            shr = _mm512_srl_epi32, $($room)*
        }
    };
    ($register:ident: 4 of u64 in ymm as $row:ty, $($room:tt)*) => {
        register_of_words! {
            $register(__m256i), 4 of u64 in $row, splat = _mm256_set1_epi64x,
            add = _mm256_add_epi64, sub = _mm256_sub_epi64, and = _mm256_and_si256,
            or = _mm256_or_si256, xor = _mm256_xor_si256, shl = _mm256_sll_epi64,
            shr = _mm256_srl_epi64, $($room)*
        }
    };
    ($register:ident: 8 of u32 in ymm as $row:ty, $($room:tt)*) => {
        register_of_words! {
            $register(__m256i), 8 of u32 in $row, splat = _mm256_set1_epi32,
            add = _mm256_add_epi32, sub = _mm256_sub_epi32, and = _mm256_and_si256,
            or = _mm256_or_si256, xor = _mm256_xor_si256, shl = _mm256_sll_epi32,
            shr = _mm256_srl_epi32, $($room)*
        }
    };
}

/// Defines a register of `$lanes` words, by these intrinsics.
macro_rules! register_of_words {
    (
        $register:ident($vector:ident), $lanes:literal of $word:ident in $row:ty,
        splat = $splat:ident, add = $add:ident, sub = $sub:ident, and = $and:ident, or = $or:ident,
        xor = $xor:ident, shl = $shl:ident, shr = $shr:ident,
        $token:ident, features = $features:literal, wipe = $wipe:ident
    ) => {
        #[doc = concat!("A register of ", $lanes, " words of type `", stringify!($word), "`.")]
        #[derive(Clone, Copy)]
        pub struct $register(pub(crate) arch::$vector, pub(crate) $token);

        impl $crate::registers::Register for $register {
            type Room = $token;
            type Word = $word;
            type Row = $row;
            const LANES: usize = $lanes;
            // SAFETY: all values of words are valid.
            const ZEROS: $row = unsafe { zeroed() };

            #[inline(always)]
            fn splat(room: $token, word: $word) -> Self {
                $register(intrinsic!($splat(word.cast_signed())), room)
            }

            #[inline(always)]
            fn load(room: $token, row: &$row) -> Self {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                $register(unsafe { transmute::<$row, arch::$vector>(*row) }, room)
            }

            #[inline(always)]
            fn row(self) -> $row {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                unsafe { transmute::<arch::$vector, $row>(self.0) }
            }

            #[inline(always)]
            fn room(self) -> $token {
                self.1
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
            fn shl(self, bits: u32) -> Self {
                let count = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
                $register(intrinsic!($shl(self.0, count)), self.1)
            }

            #[inline(always)]
            fn shr(self, bits: u32) -> Self {
                let count = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
                $register(intrinsic!($shr(self.0, count)), self.1)
            }

            call_in_room!($token, features = $features, wipe = $wipe);
        }
    };
}

/// Implements how work is done in a room with these features, whose registers `$wipe` clears.
macro_rules! call_in_room {
    ($token:ident, features = $features:literal, wipe = $wipe:ident) => {
        #[inline(always)]
        fn call<T: $crate::registers::Task<Self>>(room: $token, task: T) -> T::Output {
            #[target_feature(enable = $features)]
            #[inline(never)]
            fn body<R, T>(room: $token, task: T) -> T::Output
            where
                R: $crate::registers::Register<Room = $token>,
                T: $crate::registers::Task<R>,
            {
                task.run(room)
            }
            // SAFETY: the token exists only where the machine has every feature of the room.
            unsafe { body::<Self, T>(room, task) }
        }

        #[inline(always)]
        fn wipe_registers(_room: $token) {
            // SAFETY: as above.
            unsafe { $wipe() }
        }
    };
}
