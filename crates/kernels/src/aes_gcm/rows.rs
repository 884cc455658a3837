//! Rows of blocks for the rooms of aes_gcm: what registers of all widths have in common.
#![allow(unsafe_code, reason = "text of rooms: loads and stores")]

/// Defines the operations of a room on its rows, but for those that move blocks inside a row.
macro_rules! rows {
    (
        $vector:ty, $class:ident, #[$features:meta],
        load = $load:ident, store = $store:ident, xor = $xor:ident, shuffle = $shuffle:ident,
        count = $count:ident, encrypt = $encrypt:ident, encrypt_last = $encrypt_last:ident,
        multiply = $multiply:ident,
    ) => {
        /// Blocks of a row.
        const BLOCKS: usize = size_of::<$vector>() / BLOCK_BYTES;
        /// Rows of a chunk: what the registers hold beside the hash.
        const ROWS: usize = 8;

        type Row = $vector;

        crate::text::rows_of_text! { #[$features], load = $load, store = $store }

        /// The rows of a chunk, as they are read.
        #[inline]
        #[$features]
        fn rows_of(chunk: Text<'_>) -> [Row; ROWS] {
            let mut rows = [load(chunk, 0); ROWS];
            for (index, row) in rows.iter_mut().enumerate() {
                *row = load(chunk, index * ROW_BYTES);
            }
            rows
        }

        #[inline]
        #[$features]
        fn row_from(bytes: &[u8; ROW_BYTES]) -> Row {
            // SAFETY: the bytes are as many as a row has.
            unsafe { $load(bytes.as_ptr().cast()) }
        }

        /// The first blocks of several.
        #[inline]
        #[$features]
        fn row_of(blocks: &[[u64; 2]]) -> Row {
            let blocks: &[[u64; 2]; BLOCKS] = blocks.first_chunk().expect("a row of blocks");
            // SAFETY: the blocks are as many as a row has.
            unsafe { $load(blocks.as_ptr().cast()) }
        }

        /// Stores a row in the first blocks of several.
        #[inline]
        #[$features]
        fn store_row(blocks: &mut [[u64; 2]], row: Row) {
            let blocks: Option<&mut [_; BLOCKS]> = blocks.first_chunk_mut();
            let blocks = blocks.expect("a row of blocks");
            // SAFETY: the blocks are as many as a row has.
            unsafe { $store(blocks.as_mut_ptr().cast(), row) };
        }

        /// A block at every position.
        #[inline]
        #[$features]
        fn broadcast(block: &[u64; 2]) -> Row {
            all_of_row(field::element(*block))
        }

        /// Counter blocks from `counter` on; all with their bytes reversed.
        #[inline]
        #[$features]
        fn counters_from(counter: Element) -> Row {
            $count(all_of_row(counter), row_of(&const { places() }))
        }

        /// The counter blocks of the next row; all with their bytes reversed.
        #[inline]
        #[$features]
        fn next_row(counters: Row) -> Row {
            $count(counters, broadcast(&[BLOCKS as u64, 0]))
        }

        /// How far the blocks of a row count from the first one.
        const fn places() -> [[u64; 2]; BLOCKS] {
            let mut places = [[0; 2]; BLOCKS];
            let mut place = 0;
            while place < BLOCKS {
                places[place][0] = place as u64;
                place += 1;
            }
            places
        }

        #[inline]
        #[$features]
        fn swap_halves(row: Row) -> Row {
            $shuffle::<0x4e>(row)
        }

        #[inline]
        #[$features]
        fn add(left: Row, right: Row) -> Row {
            $xor(left, right)
        }

        #[inline]
        #[$features]
        fn encrypt(state: Row, round_key: Row) -> Row {
            $encrypt(state, round_key)
        }

        /// One round on a whole chunk, as a block that the compiler does not take apart: left to
        /// itself it encrypts row after row, and the units wait for one another.
        #[inline]
        #[$features]
        fn encrypt_chunk(states: &mut [Row; ROWS], round_key: Row) {
            // SAFETY: register arithmetic only. Not `pure`, so that loads keep their places
            // between rounds.
            unsafe {
                asm!(
                    encrypt!(0, 1, 2, 3, 4, 5, 6, 7),
                    s0 = inout($class) states[0], s1 = inout($class) states[1],
                    s2 = inout($class) states[2], s3 = inout($class) states[3],
                    s4 = inout($class) states[4], s5 = inout($class) states[5],
                    s6 = inout($class) states[6], s7 = inout($class) states[7],
                    key = in($class) round_key,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }

        #[inline]
        #[$features]
        fn encrypt_last(state: Row, round_key: Row) -> Row {
            $encrypt_last(state, round_key)
        }

        /// The product of one half of each block, per bits 0 and 4 of `HALVES`.
        #[inline]
        #[$features]
        fn carryless<const HALVES: i32>(left: Row, right: Row) -> Row {
            $multiply::<HALVES>(left, right)
        }
    };
}

/// Defines how a room without masks takes the beginning of a row: by words. Not by a copy, which
/// would be a call, before which registers are spilled.
macro_rules! parts_by_words {
    (#[$features:meta], and = $and:ident) => {
        /// What selects the first bytes of a row, from as many bytes before the middle on.
        static FIRST: [[u8; ROW_BYTES]; 2] = [[0xff; ROW_BYTES], [0; ROW_BYTES]];

        /// What there is of a row, then zeros.
        #[inline]
        #[$features]
        fn load_part(text: Text<'_>) -> Row {
            let bytes = text.len();
            // SAFETY: `source` names as many readable bytes, which nobody writes meanwhile.
            let bytes = unsafe { from_raw_parts(text.source(0, bytes), bytes) };
            let (blocks, rest) = bytes.as_chunks();
            let part = field::reverse(field::partial_block(rest));
            match blocks.first() {
                Some(block) => add(first_of_row(field::load(block)), last_of_row(part)),
                None => first_of_row(part),
            }
        }

        /// Stores as much of a row as there is room for and returns that, then zeros.
        #[inline]
        #[$features]
        fn store_part(text: Text<'_>, row: Row) -> Row {
            let bytes = text.len();
            let first = FIRST.as_flattened()[ROW_BYTES - bytes..].first_chunk();
            let row = $and(row, row_from(first.expect("a row from there on")));
            // SAFETY: `target` names as many writable bytes, which nobody else uses meanwhile.
            let bytes = unsafe { from_raw_parts_mut(text.target(0, bytes), bytes) };
            let (blocks, rest) = bytes.as_chunks_mut();
            match blocks.first_mut() {
                Some(block) => {
                    *block = field::store(first_block(row));
                    field::store_part(last_block(row), rest);
                }
                None => field::store_part(first_block(row), rest),
            }
            row
        }
    };
}
