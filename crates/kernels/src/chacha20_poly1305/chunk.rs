//! Key stream for texts of some length, for the rooms of chacha20_poly1305: a word of many blocks
//! in each register.

/// Defines how a room makes a chunk of key stream: a word of all blocks in each register, which
/// spares the turning of rows and wants a transposition in the end.
macro_rules! by_words {
    (#[$features:meta]) => {
        /// One word of each block of a chunk.
        type Words = [Row; 16];

        #[inline]
        #[$features]
        fn chunk_beside(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            running: &mut Running,
            groups: &[[u8; GROUP_BYTES]],
        ) -> [Set; SETS] {
            let mut words = words_before(key, nonce, counter);
            let mut pace = Pace::new(groups);
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words);
                for group in pace.due() {
                    absorb_group(running, group);
                }
            }
            words_after(words, words_before(key, nonce, counter))
        }

        #[inline]
        #[$features]
        fn words_before(key: &Key, nonce: &[u8; NONCE_BYTES], counter: u32) -> Words {
            let [_, n0, n1, n2] = last_words(counter, nonce);
            let [c0, c1, c2, c3] = CONSTANTS;
            let [[k0, k1, k2, k3], [k4, k5, k6, k7]] = key.words;
            let mut words = [splat(0); 16];
            let values = [c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, counter, n0, n1, n2];
            for (word, value) in words.iter_mut().zip(values) {
                *word = splat(value);
            }
            words[12] = add(words[12], numbers());
            words
        }

        /// A round on the columns of all blocks, and one on their diagonals.
        #[inline]
        #[$features]
        fn double_round_of_words(words: &mut Words) {
            let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *words;
            let mut columns =
                [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]];
            quarter_rounds(&mut columns);
            let [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]] = columns;
            let mut diagonals =
                [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]];
            quarter_rounds(&mut diagonals);
            let [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]] =
                diagonals;
            *words = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
        }

        /// Adds what was there before the rounds, and brings bytes into their order.
        #[inline]
        #[$features]
        fn words_after(words: Words, before: Words) -> [Set; SETS] {
            let mut blocks = [splat(0); 16];
            let mut quarters = [[splat(0); 4]; 4];
            for (index, quarter) in quarters.iter_mut().enumerate() {
                for (place, row) in quarter.iter_mut().enumerate() {
                    *row = add(words[4 * index + place], before[4 * index + place]);
                }
                *quarter = transpose(*quarter);
            }
            for column in 0..4 {
                let [a, b, c, d] = quarters;
                let ordered = in_order([a[column], b[column], c[column], d[column]]);
                for (block, rows) in ordered.chunks_exact(ROWS_OF_BLOCK).enumerate() {
                    let place = (4 * block + column) * ROWS_OF_BLOCK;
                    blocks[place..place + ROWS_OF_BLOCK].copy_from_slice(rows);
                }
            }
            let mut sets = [[splat(0); 4]; SETS];
            sets.as_flattened_mut().copy_from_slice(&blocks);
            sets
        }
    };
}

/// Defines what a long message begins with: a chunk.
macro_rules! opening_by_words {
    (#[$features:meta]) => {
        const OPENING_SETS: usize = SETS;

        #[inline]
        #[$features]
        fn opening(key: &Key, nonce: &[u8; NONCE_BYTES]) -> [Set; OPENING_SETS] {
            let mut words = words_before(key, nonce, 0);
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words);
            }
            words_after(words, words_before(key, nonce, 0))
        }
    };
}

/// Defines what a long message begins with: a chunk between two sets, which take the registers and
/// the time that the rounds of a chunk leave idle.
macro_rules! opening_by_both {
    (#[$features:meta]) => {
        const OPENING_SETS: usize = 1 + SETS + 1;

        #[inline]
        #[$features]
        fn opening(key: &Key, nonce: &[u8; NONCE_BYTES]) -> [Set; OPENING_SETS] {
            let [first] = before_rounds(key, nonce, 0);
            let [last] = before_rounds(key, nonce, ((1 + SETS) * BLOCKS) as u32);
            let before = [first, last];
            let mut states = before;
            let mut words = words_before(key, nonce, BLOCKS as u32);
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words);
                double_round(&mut states);
            }
            let [first, last] = after_rounds(states, &before);
            let mut sets = [first; OPENING_SETS];
            sets[1..=SETS]
                .copy_from_slice(&words_after(words, words_before(key, nonce, BLOCKS as u32)));
            sets[1 + SETS] = last;
            sets
        }
    };
}
