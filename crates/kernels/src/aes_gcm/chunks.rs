//! Whole chunks of AES-GCM, woven by the compiler: for rooms with narrow registers.

/// Defines the functions that take them and that begin what is left.
macro_rules! chunks {
    ($class:ident, [$($count:literal),+], #[$features:meta]) => {
        /// What the first block of a text counts, if its nonce has 96 bits.
        const FIRST_COUNT: usize = 2;

        /// The lowest bits of the counters of a chunk, where they stand in the blocks.
        static LOWEST: Lowest = Lowest(lowest());

        #[repr(align(64))]
        struct Lowest([[u8; ROW_BYTES]; ROWS]);

        const fn lowest() -> [[u8; ROW_BYTES]; ROWS] {
            let mut lowest = [[0; ROW_BYTES]; ROWS];
            let mut block = 0;
            while block < CHUNK_BLOCKS {
                let last_byte = (block + 1) * BLOCK_BYTES - 1;
                let count = (FIRST_COUNT + block) % CHUNK_BLOCKS;
                lowest[last_byte / ROW_BYTES][last_byte % ROW_BYTES] = count as u8;
                block += 1;
            }
            lowest
        }

        /// Takes whole chunks as long as something is left for the tail.
        ///
        /// Sealed chunks are hashed one chunk later, when their rows are there.
        #[inline]
        #[$features]
        fn chunks<'a, const ROUNDS: usize, const SEAL: bool, const KNOWN: bool>(
            key: &Key,
            counters: Counters,
            strands: Row,
            text: Text<'a>,
        ) -> (Counters, Row, Text<'a>) {
            let (mut counters, mut strands, mut text) = (counters, strands, text);
            let counting = &mut counters;
            let mut rows = [last_of_row(field::zero()); ROWS];
            if SEAL {
                let (chunk, rest) = text.split_at(CHUNK_BYTES);
                rows = crypt_chunk::<ROUNDS, KNOWN>(key, counting, chunk);
                text = rest;
            }
            while text.len() > CHUNK_BYTES {
                let (chunk, rest) = text.split_at(CHUNK_BYTES);
                let rows = &mut rows;
                strands =
                    crypt_and_hash::<ROUNDS, SEAL, KNOWN>(key, counting, strands, chunk, rows);
                text = rest;
            }
            if SEAL {
                strands = hash_chunk(key, strands, &rows);
            }
            (counters, strands, text)
        }

        /// Encrypts one chunk, and answers its ciphertext.
        #[inline]
        #[$features]
        fn crypt_chunk<const ROUNDS: usize, const KNOWN: bool>(
            key: &Key,
            counters: &mut Counters,
            chunk: Text<'_>,
        ) -> [Row; ROWS] {
            let mut states = begin::<ROWS, KNOWN>(key, counters);
            for round_key in &key.round_keys[1..ROUNDS] {
                encrypt_chunk(&mut states, broadcast(round_key));
            }
            finish_chunk::<ROUNDS>(key, &states, chunk)
        }

        /// The last round on a chunk; answers what was written.
        #[inline]
        #[$features]
        fn finish_chunk<const ROUNDS: usize>(
            key: &Key,
            states: &[Row; ROWS],
            chunk: Text<'_>,
        ) -> [Row; ROWS] {
            let last_key = broadcast(&key.round_keys[ROUNDS]);
            let mut rows = *states;
            for (index, row) in rows.iter_mut().enumerate() {
                let offset = index * ROW_BYTES;
                *row = encrypt_last(*row, add(last_key, load(chunk, offset)));
                store(chunk, offset, *row);
            }
            rows
        }

        /// Seals one chunk while the one before is hashed, whose `rows` those of this one replace;
        /// or opens one, and hashes it meanwhile.
        #[inline]
        #[$features]
        fn crypt_and_hash<const ROUNDS: usize, const SEAL: bool, const KNOWN: bool>(
            key: &Key,
            counters: &mut Counters,
            strands: Row,
            chunk: Text<'_>,
            rows: &mut [Row; ROWS],
        ) -> Row {
            const { assert!(ROWS < ROUNDS, "the rounds have room for the rows") };
            // Read anew for every chunk: kept, round keys and powers would be spilled.
            let key = black_box(key);
            let mut states = begin::<ROWS, KNOWN>(key, counters);
            let mut sum = product_at(key, 0, strands);
            $(
                encrypt_chunk(&mut states, broadcast(&key.round_keys[$count]));
                if $count < ROWS {
                    let key = in_turn(key);
                    let row = cipher_row::<SEAL>(chunk, rows, $count - 1);
                    sum = add_products(sum, product_at(key, $count, row));
                    sum = settled(sum);
                }
            )+
            for round_key in &key.round_keys[ROWS + 1..ROUNDS] {
                encrypt_chunk(&mut states, broadcast(round_key));
            }
            let strands = add(reduce(sum), cipher_row::<SEAL>(chunk, rows, ROWS - 1));
            *rows = finish_chunk::<ROUNDS>(key, &states, chunk);
            strands
        }

        /// The key, which is not read before its turn among the rounds of a chunk.
        #[inline]
        #[$features]
        fn in_turn(key: &Key) -> &Key {
            let mut address = core::ptr::from_ref(key);
            // SAFETY: an empty block changes nothing. Not `pure`, so that it keeps its place.
            unsafe {
                asm!("/* {0} */", inout(reg) address, options(readonly, nostack, preserves_flags));
            }
            // SAFETY: the address is still the key's.
            unsafe { &*address }
        }

        /// The sum itself, which is there before the next round of a chunk begins.
        #[inline]
        #[$features]
        fn settled(sum: Product) -> Product {
            let (mut low, mut high) = sum;
            // SAFETY: an empty block changes nothing. Not `pure`, as above.
            unsafe {
                asm!(
                    "/* {0} {1} */", inout($class) low, inout($class) high,
                    options(nomem, nostack, preserves_flags),
                );
            }
            (low, high)
        }

        /// A row of ciphertext, ready for the hash: of the chunk that was sealed before, or of the
        /// one that is opened.
        #[inline]
        #[$features]
        fn cipher_row<const SEAL: bool>(chunk: Text<'_>, sealed: &[Row; ROWS], row: usize) -> Row {
            reverse(if SEAL { sealed[row] } else { load(chunk, row * ROW_BYTES) })
        }

        /// Counter blocks, with the first round key added.
        #[inline]
        #[$features]
        fn begin<const COUNT: usize, const KNOWN: bool>(
            key: &Key,
            counters: &mut Counters,
        ) -> [Row; COUNT] {
            let first_key = broadcast(&key.round_keys[0]);
            let mut states = [first_key; COUNT];
            if KNOWN {
                let base = counters.row;
                let later = counters.count.wrapping_add(CHUNK_BLOCKS as u32);
                let next = add(base, count_row(counters.count ^ later));
                for (row, state) in states.iter_mut().enumerate() {
                    let within = FIRST_COUNT + (row + 1) * BLOCKS <= CHUNK_BLOCKS;
                    let from = if within { base } else { wrapped(base, next) };
                    *state = add(from, row_from(&LOWEST.0[row]));
                }
                *counters = Counters { row: next, count: later };
            } else {
                for state in &mut states {
                    *state = add(*state, reverse(counters.row));
                    counters.row = next_row(counters.row);
                }
            }
            states
        }

        /// What known counters count from: a block that counts none, with the first round key
        /// added.
        #[inline]
        #[$features]
        fn known_row(zero: Element, first_key: Element) -> Row {
            all_of_row(field::add(zero, first_key))
        }
    };
}
