//! Rows of blocks for the rooms of aes_gcm: what registers of all widths have in common.

/// Defines the operations of a room on its rows, but for those that move blocks inside a row.
macro_rules! rows {
    (
        $vector:ty, $class:ident, [$($state:literal),+], #[$features:meta],
        load = $load:ident, store = $store:ident, xor = $xor:ident, shuffle = $shuffle:ident,
        count = $count:ident, encrypt = $encrypt:ident, encrypt_last = $encrypt_last:ident,
        multiply = $multiply:ident,
    ) => {
        /// Blocks of a row.
        const BLOCKS: usize = size_of::<$vector>() / BLOCK_BYTES;
        /// Rows of a chunk: what the registers hold beside the hash.
        const ROWS: usize = [$($state),+].len();

        type Row = $vector;

        crate::text::rows_of_text! { #[$features], load = $load, store = $store }

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
                    $(concat!("vaesenc {", $state, "}, {", $state, "}, {key}"),)+
                    $(inout($class) states[$state],)+
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

/// Defines how a room without masks takes the beginning of a row: by way of a copy.
macro_rules! parts_by_copy {
    (#[$features:meta], store = $store:ident) => {
        /// The first bytes of a row, then zeros.
        #[inline]
        #[$features]
        fn load_part(text: Text<'_>, offset: usize, bytes: usize) -> Row {
            if bytes == ROW_BYTES {
                return load(text, offset);
            }
            let mut row = [0; ROW_BYTES];
            let source = text.source(offset, bytes);
            // SAFETY: `source` names `bytes` readable bytes; a row has room for them.
            unsafe { source.copy_to_nonoverlapping(row[..bytes].as_mut_ptr(), bytes) };
            row_from(&row)
        }

        /// Stores the first bytes of a row and answers them, then zeros. What lies behind the text
        /// is key stream: no copy of it stays.
        #[inline]
        #[$features]
        fn store_part(text: Text<'_>, offset: usize, bytes: usize, row: Row) -> Row {
            if bytes == ROW_BYTES {
                store(text, offset, row);
                return row;
            }
            let mut row = bytes_of(row);
            wipe(&mut row[bytes..]);
            let target = text.target(offset, bytes);
            // SAFETY: `target` names `bytes` writable bytes; a row has as many.
            unsafe { target.copy_from_nonoverlapping(row[..bytes].as_ptr(), bytes) };
            row_from(&row)
        }

        #[inline]
        #[$features]
        fn bytes_of(row: Row) -> [u8; ROW_BYTES] {
            let mut bytes = [0; ROW_BYTES];
            // SAFETY: the bytes are as many as a row has.
            unsafe { $store(bytes.as_mut_ptr().cast(), row) };
            bytes
        }
    };
}
