//! Rows of blocks for the rooms of chacha20_poly1305, in registers of either width.
#![allow(unsafe_code, reason = "text of rooms: loads and stores")]

/// Defines the operations of a room on its rows, but for what AVX-512 does in a way of its own.
macro_rules! rows {
    (
        $vector:ty, #[$features:meta],
        load = $load:ident, store = $store:ident, splat = $splat:ident,
        broadcast = $broadcast:ident, add = $add:ident, xor = $xor:ident, shuffle = $shuffle:ident,
        unpack32 = ($low32:ident, $high32:ident), unpack64 = ($low64:ident, $high64:ident),
    ) => {
        /// Blocks of a row.
        const BLOCKS: usize = size_of::<$vector>() / 16;
        /// Sets on the way at a time: sixteen registers, as many as a block has words.
        const SETS: usize = 4;
        /// Rows that a block fills.
        const ROWS_OF_BLOCK: usize = BLOCK_BYTES / ROW_BYTES;

        type Row = $vector;

        crate::text::rows_of_text! { #[$features], load = $load, store = $store }

        /// The first block of a set that is in order.
        #[inline]
        #[$features]
        fn first_block(set: Set) -> [u8; BLOCK_BYTES] {
            let mut block = [0; BLOCK_BYTES];
            for (bytes, row) in block.as_chunks_mut::<ROW_BYTES>().0.iter_mut().zip(set) {
                // SAFETY: the bytes are as many as a row has.
                unsafe { $store(bytes.as_mut_ptr().cast(), row) };
            }
            block
        }

        #[inline]
        #[$features]
        fn broadcast(words: &[u32; 4]) -> Row {
            let [w0, w1, w2, w3] = words.map(u32::cast_signed);
            $broadcast(_mm_set_epi32(w3, w2, w1, w0))
        }

        /// The same word everywhere.
        #[inline]
        #[$features]
        fn splat(word: u32) -> Row {
            $splat(word.cast_signed())
        }

        /// The last row some blocks later.
        #[inline]
        #[$features]
        fn count(last: Row, blocks: u32) -> Row {
            add(last, $broadcast(_mm_cvtsi32_si128(blocks.cast_signed())))
        }

        #[inline]
        #[$features]
        fn add(left: Row, right: Row) -> Row {
            $add(left, right)
        }

        #[inline]
        #[$features]
        fn add_bits(left: Row, right: Row) -> Row {
            $xor(left, right)
        }

        /// Moves the words of each block around.
        #[inline]
        #[$features]
        fn turn<const ORDER: i32>(row: Row) -> Row {
            $shuffle::<ORDER>(row)
        }

        /// Transposes each quarter of four registers, word by word.
        #[inline]
        #[$features]
        fn transpose([a, b, c, d]: Set) -> Set {
            let (ab_low, ab_high) = ($low32(a, b), $high32(a, b));
            let (cd_low, cd_high) = ($low32(c, d), $high32(c, d));
            [
                $low64(ab_low, cd_low),
                $high64(ab_low, cd_low),
                $low64(ab_high, cd_high),
                $high64(ab_high, cd_high),
            ]
        }
    };
}

/// Defines what AVX-512 has instructions for: rotations, and rows that are cut short.
macro_rules! masked_rows {
    (
        #[$features:meta],
        load = $load_masked:ident, store = $store_masked:ident, rotate = $rotate:ident,
    ) => {
        /// Adds the first bytes of a row to a text.
        #[inline]
        #[$features]
        fn add_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) {
            let mask = (u64::MAX >> (64 - bytes)) as _;
            let (source, target) = (text.source(offset, bytes), text.target(offset, bytes));
            // SAFETY: `source` names `bytes` readable bytes, and the mask selects no others.
            let part = unsafe { $load_masked(mask, source.cast()) };
            let sum = add_bits(part, row);
            // SAFETY: `target` names `bytes` writable bytes, and the mask selects no others.
            unsafe { $store_masked(target.cast(), mask, sum) };
        }

        /// A word from memory everywhere.
        #[inline]
        #[$features]
        fn splat_from<const INDEX: usize>(words: &[u32; 4]) -> Row {
            splat(words[INDEX])
        }

        /// Rotations of words by one instruction each.
        struct Rotations;

        impl Rotations {
            #[inline]
            fn here() -> Self {
                Rotations
            }

            #[inline]
            #[$features]
            fn by_16(&self, row: Row) -> Row {
                $rotate::<16>(row)
            }

            #[inline]
            #[$features]
            fn by_12(&self, row: Row) -> Row {
                $rotate::<12>(row)
            }

            #[inline]
            #[$features]
            fn by_8(&self, row: Row) -> Row {
                $rotate::<8>(row)
            }

            #[inline]
            #[$features]
            fn by_7(&self, row: Row) -> Row {
                $rotate::<7>(row)
            }
        }
    };
}

/// Defines rows in registers of 512 bits.
macro_rules! rows512 {
    (#[$features:meta]) => {
        rows! {
            __m512i, #[$features],
            load = _mm512_loadu_si512, store = _mm512_storeu_si512, splat = _mm512_set1_epi32,
            broadcast = _mm512_broadcast_i32x4, add = _mm512_add_epi32, xor = _mm512_xor_si512,
            shuffle = _mm512_shuffle_epi32,
            unpack32 = (_mm512_unpacklo_epi32, _mm512_unpackhi_epi32),
            unpack64 = (_mm512_unpacklo_epi64, _mm512_unpackhi_epi64),
        }

        masked_rows! {
            #[$features],
            load = _mm512_maskz_loadu_epi8, store = _mm512_mask_storeu_epi8,
            rotate = _mm512_rol_epi32,
        }

        /// Numbers the blocks of a row.
        #[inline]
        #[$features]
        fn count_blocks(last: Row) -> Row {
            add(last, _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0))
        }

        /// 0, 1, 2 and so on.
        #[inline]
        #[$features]
        fn numbers() -> Row {
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
        }

        /// Brings the rows of each block together.
        #[inline]
        #[$features]
        fn in_order([a, b, c, d]: Set) -> Set {
            let ab_low = _mm512_shuffle_i32x4::<0x44>(a, b);
            let ab_high = _mm512_shuffle_i32x4::<0xee>(a, b);
            let cd_low = _mm512_shuffle_i32x4::<0x44>(c, d);
            let cd_high = _mm512_shuffle_i32x4::<0xee>(c, d);
            [
                _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
                _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
                _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
                _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
            ]
        }
    };
}

/// Defines rows in registers of 256 bits.
macro_rules! rows256 {
    (#[$features:meta]) => {
        rows! {
            __m256i, #[$features],
            load = _mm256_loadu_si256, store = _mm256_storeu_si256, splat = _mm256_set1_epi32,
            broadcast = _mm256_broadcastsi128_si256, add = _mm256_add_epi32,
            xor = _mm256_xor_si256, shuffle = _mm256_shuffle_epi32,
            unpack32 = (_mm256_unpacklo_epi32, _mm256_unpackhi_epi32),
            unpack64 = (_mm256_unpacklo_epi64, _mm256_unpackhi_epi64),
        }

        /// Numbers the blocks of a row.
        #[inline]
        #[$features]
        fn count_blocks(last: Row) -> Row {
            add(last, _mm256_set_epi32(0, 0, 0, 1, 0, 0, 0, 0))
        }

        /// 0, 1, 2 and so on.
        #[inline]
        #[$features]
        fn numbers() -> Row {
            _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0)
        }

        /// Brings the rows of each block together.
        #[inline]
        #[$features]
        fn in_order([a, b, c, d]: Set) -> Set {
            [
                _mm256_permute2x128_si256::<0x20>(a, b),
                _mm256_permute2x128_si256::<0x20>(c, d),
                _mm256_permute2x128_si256::<0x31>(a, b),
                _mm256_permute2x128_si256::<0x31>(c, d),
            ]
        }
    };
}
