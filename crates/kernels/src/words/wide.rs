//! What the wide rooms of words have in common: the text of their implementation.
#![allow(unsafe_code, reason = "text of rooms: loads, assembly, and doors")]

use super::PIECE_BYTES;

/// Implements [`Words`](super::Words) for a register of `$lanes` words of type `$word`.
///
/// A piece is 16 bytes of one message. `$gather` puts pieces of several messages into one vector,
/// `$shuffle` brings the bytes of each word into the order `$order` of a piece, and `$transpose`
/// turns vectors of pieces into vectors of words. The assembler knows the vector as a register of
/// `$class` under the letter `$width`. Tasks without a feed spill up to `$spilled` words
/// of stack, those with one `$fed`.
macro_rules! wide_words {
    (
        $register:ident: $lanes:tt of $word:ident in $size:ident, $token:ident,
        features = $features:literal, wipe = $wipe:ident,
        vector = $vector:ident in $class:ident as $width:literal,
        gather = $gather:ident, shuffle = $shuffle:ident, broadcast = $broadcast:ident,
        order = ($high:literal, $low:literal), transpose = $transpose:ident,
        spilled = $spilled:literal, fed = $fed:literal,
        and_not = $and_not:ident,
        $(ternary = $ternary:ident,)?
    ) => {
        register! {
            $register: $lanes of $word in $size, $token, features = $features, wipe = $wipe
        }

        impl $register {
            /// Each word rotated right by a byte, where bytes are moved: rotations by other numbers
            /// of bits have a port of Intel's for themselves, which is the busiest one.
            #[inline(always)]
            fn rotate_by_a_byte(self) -> Self {
                #[target_feature(enable = $features)]
                #[inline]
                fn moved(register: arch::$vector, order: arch::$vector) -> arch::$vector {
                    let moved;
                    // SAFETY: works on registers only. The compiler would make a rotation of it.
                    unsafe {
                        asm!(
                            concat!("vpshufb {0:", $width, "}, {1:", $width, "}, {2:", $width, "}"),
                            lateout($class) moved,
                            in($class) register,
                            in($class) order,
                            options(pure, nomem, nostack, preserves_flags),
                        );
                    }
                    moved
                }
                const ORDER: [i64; 2] = wide::rotation_by_a_byte(size_of::<$word>());
                let order = intrinsic!(_mm_set_epi64x(ORDER[1], ORDER[0]));
                let order = intrinsic!($broadcast(order));
                // SAFETY: the token exists only where the machine has every feature of the room.
                $register(unsafe { moved(self.0, order) }, self.1)
            }

            /// The words of one piece of every message.
            #[inline(always)]
            fn words_of_piece(
                room: $token,
                mut rows: [arch::$vector; Self::PIECE_WORDS],
            ) -> [arch::$vector; Self::PIECE_WORDS] {
                for row in &mut rows {
                    *row = $register(*row, room).in_order().0;
                }
                $transpose(room, rows)
            }
        }

        impl Words for $register {
            #[inline(always)]
            fn block(
                room: $token,
                messages: &[impl Message],
                offset: usize,
            ) -> [Self; BLOCK_WORDS] {
                let mut lanes = [&[[0u8; PIECE_BYTES]; Self::BLOCK_BYTES / PIECE_BYTES]; $lanes];
                for (lane, message) in lanes.iter_mut().zip(&messages[..$lanes]) {
                    *lane = chunks_at(message, offset);
                }
                let mut block = [Self::splat(room, 0); BLOCK_WORDS];
                let (groups, _) = block.as_chunks_mut::<{ Self::PIECE_WORDS }>();
                for (piece, words) in groups.iter_mut().enumerate() {
                    let mut rows = [words[0].0; Self::PIECE_WORDS];
                    for (first, row) in rows.iter_mut().enumerate() {
                        *row = $gather(room, |at| &lanes[first + Self::PIECE_WORDS * at][piece]);
                    }
                    for (word, row) in words.iter_mut().zip(Self::words_of_piece(room, rows)) {
                        *word = $register(row, room);
                    }
                }
                block
            }

            // In ymm registers the clock is not lowered, nor is it by words of 64 bits.
            const MAY_TAKE_PIECES: bool =
                size_of::<arch::$vector>() == 64 && size_of::<$word>() == 4;

            #[inline(always)]
            fn words_of_pieces(room: $token, block: &mut [Self; BLOCK_WORDS]) {
                let (groups, _) = block.as_chunks_mut::<{ Self::PIECE_WORDS }>();
                for words in groups {
                    let mut rows = [words[0].0; Self::PIECE_WORDS];
                    for (row, piece) in rows.iter_mut().zip(&*words) {
                        *row = piece.0;
                    }
                    for (word, row) in words.iter_mut().zip(Self::words_of_piece(room, rows)) {
                        *word = $register(row, room);
                    }
                }
            }

            #[inline(always)]
            fn in_order(self) -> Self {
                let order = intrinsic!(_mm_set_epi64x($high, $low));
                let order = intrinsic!($broadcast(order));
                $register(intrinsic!($shuffle(self.0, order)), self.1)
            }

            #[inline(always)]
            fn and_not(self, other: Self) -> Self {
                $register(intrinsic!($and_not(other.0, self.0)), self.1)
            }

            $(
                const HAS_TERNARY: bool = true;

                #[inline(always)]
                fn majority(self, second: Self, third: Self) -> Self {
                    $register(intrinsic!($ternary::<0xe8>(self.0, second.0, third.0)), self.1)
                }

                #[inline(always)]
                fn parity(self, second: Self, third: Self) -> Self {
                    $register(intrinsic!($ternary::<0x96>(self.0, second.0, third.0)), self.1)
                }

                #[inline(always)]
                fn chi(self, second: Self, third: Self) -> Self {
                    $register(intrinsic!($ternary::<0xd2>(self.0, second.0, third.0)), self.1)
                }
            )?

            #[inline(always)]
            fn rotate_right(self, bits: u32) -> Self {
                if bits == 8 {
                    return self.rotate_by_a_byte();
                }
                self.shl($word::BITS - bits).or(self.shr(bits))
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
            fn call_and_wipe<const FEEDS: bool, T: Task<Self>>(
                room: $token,
                task: T,
            ) -> T::Output {
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
                    if FEEDS { wipe_spilled::<$fed>() } else { wipe_spilled::<$spilled>() }
                }
                output
            }
        }
    };
}

/// Implements [`Words`](super::Words) for a zmm register of sixteen words of 32 bits.
macro_rules! words_of_32_bits_in_zmm {
    ($register:ident, $token:ident, features = $features:literal, fed = $fed:literal) => {
        wide_words! {
            $register: 16 of u32 in zmm, $token, features = $features, wipe = wipe_vector_registers,
            vector = __m512i in zmm_reg as "z",
            gather = gather, shuffle = _mm512_shuffle_epi8,
            broadcast = _mm512_broadcast_i32x4,
            order = (0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203),
            transpose = transpose4, spilled = 80, fed = $fed,
            and_not = _mm512_andnot_si512, ternary = _mm512_ternarylogic_epi64,
        }
    };
}

/// Implements [`Words`](super::Words) for a zmm register of eight words of 64 bits.
macro_rules! words_of_64_bits_in_zmm {
    ($register:ident, $token:ident, features = $features:literal) => {
        wide_words! {
            $register: 8 of u64 in zmm, $token, features = $features, wipe = wipe_vector_registers,
            vector = __m512i in zmm_reg as "z",
            gather = gather, shuffle = _mm512_shuffle_epi8,
            broadcast = _mm512_broadcast_i32x4,
            order = (0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607),
            transpose = transpose2, spilled = 96, fed = 256,
            and_not = _mm512_andnot_si512, ternary = _mm512_ternarylogic_epi64,
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
        #[allow(dead_code, reason = "words of 64 bits need pairs of rows only")]
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

/// Which byte comes to each place of a piece when words of so many bytes are rotated right by one.
pub(super) const fn rotation_by_a_byte(word_bytes: usize) -> [i64; 2] {
    let (mut order, mut at) = ([0; 2], 0);
    while at < PIECE_BYTES {
        let from = at - at % word_bytes + (at + 1) % word_bytes;
        order[at / 8] |= (from as i64) << (8 * (at % 8));
        at += 1;
    }
    order
}
