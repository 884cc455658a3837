//! What the wide rooms of words have in common: the text of their implementation.

/// Implements [`Words`](super::Words) for a register of `$lanes` words of type `$word`.
///
/// A piece is 16 bytes of one message. `$gather` puts pieces of several messages into one vector,
/// `$shuffle` brings the bytes of each word into the order `$order` of a piece, and `$transpose`
/// turns vectors of pieces into vectors of words. The assembler knows the vector as a register of
/// `$class` under the letter `$width`. Tasks without a feed spill up to `$spilled` words
/// of stack.
macro_rules! wide_words {
    (
        $register:ident($vector:ident in $class:ident as $width:literal, $token:ident),
        $lanes:literal of $word:ident, features = $features:literal,
        splat = $splat:ident, add = $add:ident, and = $and:ident,
        xor = $xor:ident, or = $or:ident, left = $left:ident, right = $right:ident,
        gather = $gather:ident, shuffle = $shuffle:ident, broadcast = $broadcast:ident,
        order = ($high:literal, $low:literal), transpose = $transpose:ident, wipe = $wipe:ident,
        spilled = $spilled:literal,
        $(majority = $majority:ident::<$table:literal>,)?
    ) => {
        #[doc = concat!("A register of ", $lanes, " words, one message in each.")]
        #[derive(Clone, Copy)]
        pub struct $register(arch::$vector, $token);

        impl $register {
            /// How many bits each word is shifted by.
            #[inline(always)]
            fn bits(self, bits: u32) -> arch::$vector {
                Self::splat(self.1, $word::from(bits)).0
            }
        }

        impl Words for $register {
            type Room = $token;
            type Word = $word;
            type Row = [$word; $lanes];
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(room: $token, word: $word) -> Self {
                $register(intrinsic!($splat(word.cast_signed())), room)
            }

            #[inline(always)]
            fn load(room: $token, row: &[$word; $lanes]) -> Self {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                $register(unsafe { transmute::<[$word; $lanes], arch::$vector>(*row) }, room)
            }

            #[inline(always)]
            fn row(self) -> [$word; $lanes] {
                // SAFETY: both types are the same number of bytes, and all their values are valid.
                unsafe { transmute::<arch::$vector, [$word; $lanes]>(self.0) }
            }

            #[inline(always)]
            fn block(
                room: $token,
                messages: &[impl Message],
                offset: usize,
            ) -> [Self; BLOCK_WORDS] {
                const STEP: usize = PIECE_BYTES / size_of::<$word>();
                let mut lanes = [&[[0; PIECE_BYTES]; Self::BLOCK_BYTES / PIECE_BYTES]; $lanes];
                for (lane, message) in lanes.iter_mut().zip(&messages[..$lanes]) {
                    *lane = chunks_at(message, offset);
                }
                let order = intrinsic!(_mm_set_epi64x($high, $low));
                let order = intrinsic!($broadcast(order));
                let mut block = [Self::splat(room, 0); BLOCK_WORDS];
                let (groups, _) = block.as_chunks_mut::<STEP>();
                for (piece, words) in groups.iter_mut().enumerate() {
                    let mut rows = [order; STEP];
                    for (first, row) in rows.iter_mut().enumerate() {
                        let gathered = $gather(room, |at| &lanes[first + STEP * at][piece]);
                        *row = intrinsic!($shuffle(gathered, order));
                    }
                    for (word, row) in words.iter_mut().zip($transpose(room, rows)) {
                        *word = $register(row, room);
                    }
                }
                block
            }

            #[inline(always)]
            fn in_order(self) -> Self {
                let order = intrinsic!(_mm_set_epi64x($high, $low));
                let order = intrinsic!($broadcast(order));
                $register(intrinsic!($shuffle(self.0, order)), self.1)
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $register(intrinsic!($add(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                $register(intrinsic!($and(self.0, other.0)), self.1)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                $register(intrinsic!($xor(self.0, other.0)), self.1)
            }

            $(
                #[inline(always)]
                fn majority(self, second: Self, third: Self) -> Self {
                    $register(intrinsic!($majority::<$table>(self.0, second.0, third.0)), self.1)
                }
            )?

            #[inline(always)]
            fn rotate<const BITS: u32>(self) -> Self {
                let (left, right) = (self.bits($word::BITS - BITS), self.bits(BITS));
                let (left, right) =
                    (intrinsic!($left(self.0, left)), intrinsic!($right(self.0, right)));
                $register(intrinsic!($or(left, right)), self.1)
            }

            #[inline(always)]
            fn shift<const BITS: u32>(self) -> Self {
                let bits = self.bits(BITS);
                $register(intrinsic!($right(self.0, bits)), self.1)
            }

            #[inline(always)]
            fn settled(self) -> Self {
                #[target_feature(enable = $features)]
                #[inline]
                fn settled(register: arch::$vector) -> arch::$vector {
                    let mut settled = register;
                    // SAFETY: an empty block changes nothing. Not `pure`, so that those of several
                    // words keep their order.
                    unsafe {
                        asm!(
                            concat!("/* {0:", $width, "} */"),
                            inout($class) settled,
                            options(nomem, nostack, preserves_flags),
                        );
                    }
                    settled
                }
                // SAFETY: the token exists only where the machine has every feature of the room.
                $register(unsafe { settled(self.0) }, self.1)
            }

            #[inline(always)]
            fn call<T: Task<Self>>(room: $token, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                #[inline(never)]
                fn body<T: Task<$register>>(room: $token, task: T) -> T::Output {
                    let output = task.run(room);
                    $wipe();
                    output
                }
                #[target_feature(enable = $features)]
                #[inline(never)]
                fn wipe_spilled<const WORDS: usize>() {
                    wipe_frame::<WORDS>();
                }
                // SAFETY: the token exists only where the machine has every feature of the room.
                let output = unsafe { body(room, task) };
                // SAFETY: as above.
                unsafe {
                    if T::FEEDS { wipe_spilled::<FED_WORDS>() } else { wipe_spilled::<$spilled>() }
                }
                output
            }
        }
    };
}

/// Implements [`Words`](super::Words) for a zmm register of sixteen words of 32 bits.
macro_rules! words_of_32_bits_in_zmm {
    ($register:ident, $token:ident, features = $features:literal) => {
        wide_words! {
            $register(__m512i in zmm_reg as "z", $token), 16 of u32, features = $features,
            splat = _mm512_set1_epi32, add = _mm512_add_epi32,
            and = _mm512_and_si512, xor = _mm512_xor_si512, or = _mm512_or_si512,
            left = _mm512_sllv_epi32, right = _mm512_srlv_epi32,
            gather = gather, shuffle = _mm512_shuffle_epi8,
            broadcast = _mm512_broadcast_i32x4,
            order = (0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203),
            transpose = transpose4, wipe = wipe_vector_registers, spilled = 80,
            majority = _mm512_ternarylogic_epi64::<0xe8>,
        }
    };
}

/// Defines how pieces get into ymm registers: two in a row.
macro_rules! pieces_in_ymm {
    ($token:ident) => {
        transpositions! {
            __m256i, $token, low32 = _mm256_unpacklo_epi32, high32 = _mm256_unpackhi_epi32,
            low64 = _mm256_unpacklo_epi64, high64 = _mm256_unpackhi_epi64,
        }

        /// Two pieces in a row.
        #[inline(always)]
        fn gather<'a>(
            _room: $token,
            piece: impl Fn(usize) -> &'a [u8; PIECE_BYTES],
        ) -> arch::__m256i {
            // SAFETY: a piece has as many bytes as are read.
            let load = |at| unsafe { arch::_mm_loadu_si128(piece(at).as_ptr().cast()) };
            let (first, second) = (load(0), load(1));
            let row = intrinsic!(_mm256_zextsi128_si256(first));
            intrinsic!(_mm256_inserti128_si256::<1>(row, second))
        }
    };
}

/// Defines how pieces get into zmm registers: four in a row.
macro_rules! pieces_in_zmm {
    ($token:ident) => {
        transpositions! {
            __m512i, $token, low32 = _mm512_unpacklo_epi32, high32 = _mm512_unpackhi_epi32,
            low64 = _mm512_unpacklo_epi64, high64 = _mm512_unpackhi_epi64,
        }

        /// Four pieces in a row.
        #[inline(always)]
        fn gather<'a>(
            _room: $token,
            piece: impl Fn(usize) -> &'a [u8; PIECE_BYTES],
        ) -> arch::__m512i {
            // SAFETY: a piece has as many bytes as are read.
            let load = |at| unsafe { arch::_mm_loadu_si128(piece(at).as_ptr().cast()) };
            let (first, second, third, fourth) = (load(0), load(1), load(2), load(3));
            let row = intrinsic!(_mm512_zextsi128_si512(first));
            let row = intrinsic!(_mm512_inserti32x4::<1>(row, second));
            let row = intrinsic!(_mm512_inserti32x4::<2>(row, third));
            intrinsic!(_mm512_inserti32x4::<3>(row, fourth))
        }
    };
}

/// Defines how four rows of words of 32 bits, or two of 64 bits, are transposed in each piece.
macro_rules! transpositions {
    (
        $vector:ident, $token:ident, low32 = $low32:ident, high32 = $high32:ident,
        low64 = $low64:ident, high64 = $high64:ident,
    ) => {
        #[inline(always)]
        fn transpose4(room: $token, [a, b, c, d]: [arch::$vector; 4]) -> [arch::$vector; 4] {
            let (ab_low, ab_high) = (intrinsic!($low32(a, b)), intrinsic!($high32(a, b)));
            let (cd_low, cd_high) = (intrinsic!($low32(c, d)), intrinsic!($high32(c, d)));
            let [first, second] = transpose2(room, [ab_low, cd_low]);
            let [third, fourth] = transpose2(room, [ab_high, cd_high]);
            [first, second, third, fourth]
        }

        #[inline(always)]
        fn transpose2(_room: $token, [a, b]: [arch::$vector; 2]) -> [arch::$vector; 2] {
            [intrinsic!($low64(a, b)), intrinsic!($high64(a, b))]
        }
    };
}
