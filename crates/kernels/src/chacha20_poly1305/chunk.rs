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
        fn words_before(key: &Key, nonce: &[u8; NONCE_BYTES], counter: u32) -> Words {
            let [lower, upper] = &key.words;
            let [counter, n0, n1, n2] = last_words(counter, nonce);
            [
                splat(CONSTANTS[0]),
                splat(CONSTANTS[1]),
                splat(CONSTANTS[2]),
                splat(CONSTANTS[3]),
                splat_from::<0>(lower),
                splat_from::<1>(lower),
                splat_from::<2>(lower),
                splat_from::<3>(lower),
                splat_from::<0>(upper),
                splat_from::<1>(upper),
                splat_from::<2>(upper),
                splat_from::<3>(upper),
                add(splat(counter), numbers()),
                splat(n0),
                splat(n1),
                splat(n2),
            ]
        }

        /// A round on the columns of all blocks, and one on their diagonals.
        #[inline]
        #[$features]
        fn double_round_of_words(words: &mut Words, rotations: &Rotations) {
            columns_of_words(words, rotations, || ());
            diagonals_of_words(words, rotations, || ());
        }

        /// A round on the columns of all blocks, with something else halfway.
        #[inline]
        #[$features]
        fn columns_of_words(words: &mut Words, rotations: &Rotations, halfway: impl FnOnce()) {
            let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *words;
            let mut columns =
                [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]];
            quarter_rounds(&mut columns, rotations, halfway);
            let [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]] = columns;
            *words = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
        }

        /// A round on their diagonals, with something else halfway.
        #[inline]
        #[$features]
        fn diagonals_of_words(words: &mut Words, rotations: &Rotations, halfway: impl FnOnce()) {
            let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *words;
            let mut diagonals =
                [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]];
            quarter_rounds(&mut diagonals, rotations, halfway);
            let [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]] =
                diagonals;
            *words = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
        }

        /// Four words of all blocks, with what was there before the rounds: a row of some blocks in
        /// each register.
        #[inline]
        #[$features]
        fn quarter_after(words: &Words, before: &Words, index: usize) -> Set {
            let mut quarter = [splat(0); 4];
            for (place, row) in quarter.iter_mut().enumerate() {
                *row = add(words[4 * index + place], before[4 * index + place]);
            }
            transpose(quarter)
        }

        /// Adds what was there before the rounds, and brings bytes into their order.
        #[inline]
        #[$features]
        fn words_after(words: &Words, before: &Words) -> [Set; SETS] {
            let mut quarters = [[splat(0); 4]; 4];
            for (index, quarter) in quarters.iter_mut().enumerate() {
                *quarter = quarter_after(words, before, index);
            }
            sets_of(quarters)
        }

        /// Brings the rows of the blocks into their order.
        #[inline]
        #[$features]
        fn sets_of(quarters: [Set; 4]) -> [Set; SETS] {
            let mut blocks = [splat(0); 16];
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

/// Defines what a long message begins with: a chunk between two sets, or behind one if that is
/// enough, which take the registers and the time that the rounds of a chunk leave idle.
macro_rules! opening_by_both {
    (#[$features:meta]) => {
        /// Whether registers are too few for a chunk and what goes beside it.
        const FEW_REGISTERS: bool = false;
        const SHORT_OPENING: usize = 1 + SETS;
        const OPENING: usize = 1 + SETS + 1;

        /// The sets that a message begins with. `SEAL` and `LONG` identify the caller: each has
        /// code of its own, where the sets that are sealed stay in registers.
        #[inline]
        #[$features]
        fn opening<const COUNT: usize, const SEAL: bool, const LONG: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
        ) -> [Set; COUNT] {
            let [first] = before_rounds(key, nonce, 0);
            let [last] = before_rounds(key, nonce, ((1 + SETS) * BLOCKS) as u32);
            let before = [first, last];
            let mut states = before;
            let rotations = Rotations::here();
            let mut words = words_before(key, nonce, BLOCKS as u32);
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words, &rotations);
                if COUNT == OPENING {
                    double_round(&mut states, &rotations);
                } else {
                    double_round::<1>(states.first_chunk_mut().expect("two sets"), &rotations);
                }
            }
            let [first, last] = after_rounds(states, &before);
            let mut sets = [first; COUNT];
            sets[1..=SETS]
                .copy_from_slice(&words_after(&words, &words_before(key, nonce, BLOCKS as u32)));
            if COUNT == OPENING {
                sets[1 + SETS] = last;
            }
            sets
        }
    };
}

/// Defines how a room adds a chunk of key stream to a text: from registers.
macro_rules! chunk_in_rows {
    (#[$features:meta]) => {
        /// Encrypts (`SEAL`) or decrypts a chunk of a text, while groups of it are authenticated.
        #[inline]
        #[$features]
        fn crypt_chunk<const SEAL: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            chunk: Text<'_>,
            text: Text<'_>,
            running: &mut Running,
            groups: Range<usize>,
        ) {
            let sets = text.with_ciphertext::<SEAL, _>(|bytes| {
                chunk_beside::<SEAL, true>(
                    key,
                    nonce,
                    counter,
                    running,
                    bytes[groups].as_chunks().0,
                )
            });
            for (index, row) in sets.as_flattened().iter().enumerate() {
                let offset = index * ROW_BYTES;
                store(chunk, offset, add_bits(load(chunk, offset), *row));
            }
        }
    };
}

/// Defines how a room with scalar products authenticates groups while it makes a chunk: those of a
/// whole chunk in three places of each double round, others one after the other as the rounds go.
/// A block waits for the one before: of more than two in one place the core does not see the rounds
/// behind.
macro_rules! paced {
    (#[$features:meta]) => {
        /// Blocks of a whole chunk that go with a third of a double round.
        const THIRD: usize = CHUNK_BYTES / TAG_BYTES / DOUBLE_ROUNDS / 3;
        const _: () = assert!(CHUNK_BYTES / TAG_BYTES / THIRD / 3 == DOUBLE_ROUNDS);

        chunk_in_rows! { #[$features] }

        /// A chunk of key stream. `SEAL` and `WHOLE` identify the caller: each has code of its own,
        /// where the key stream stays in registers.
        #[inline]
        #[$features]
        fn chunk_beside<const SEAL: bool, const WHOLE: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            running: &mut Running,
            groups: &[[u8; GROUP_BYTES]],
        ) -> [Set; SETS] {
            let Some(groups) = groups.as_array::<{ CHUNK_BYTES / GROUP_BYTES }>() else {
                return chunk_at_pace(key, nonce, counter, running, groups);
            };
            let rotations = Rotations::here();
            let mut words = words_before(key, nonce, counter);
            let (blocks, _) = groups.as_flattened().as_chunks();
            let (beside_rounds, rest) = blocks.as_chunks::<{ 3 * THIRD }>();
            for beside_round in beside_rounds {
                let (first, others) = beside_round.split_at(THIRD);
                let (second, third) = others.split_at(THIRD);
                columns_of_words(&mut words, &rotations, || running.absorb_blocks(first));
                diagonals_of_words(&mut words, &rotations, || running.absorb_blocks(second));
                running.absorb_blocks(third);
            }
            running.absorb_blocks(rest);
            words_after(&words, &words_before(key, nonce, counter))
        }

        /// As [`chunk_beside`], with any number of groups. Not inlined, so that the registers of
        /// whole chunks are given out without a look at it.
        #[inline(never)]
        #[$features]
        fn chunk_at_pace(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            running: &mut Running,
            groups: &[[u8; GROUP_BYTES]],
        ) -> [Set; SETS] {
            let rotations = Rotations::here();
            let mut words = words_before(key, nonce, counter);
            let mut pace = Pace::new(groups);
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words, &rotations);
                absorb_groups(running, pace.due());
            }
            words_after(&words, &words_before(key, nonce, counter))
        }
    };
}

/// Defines how a room with Poly1305 in lanes authenticates groups while it makes a chunk: in stages
/// between the rounds, so that neither waits for itself. Three go with the rounds; the fourth goes
/// with the transposition, which leaves one of two ports of Golden Cove idle.
macro_rules! staged {
    (#[$features:meta]) => {
        chunk_in_rows! { #[$features] }

        /// A chunk of key stream. `SEAL` and `WHOLE` identify the caller: each has code of its own,
        /// where the key stream stays in registers.
        #[inline]
        #[$features]
        fn chunk_beside<const SEAL: bool, const WHOLE: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            running: &mut Running,
            groups: &[[u8; GROUP_BYTES]],
        ) -> [Set; SETS] {
            let rotations = Rotations::here();
            let mut words = words_before(key, nonce, counter);
            let Some((more, [beside_rounds @ .., last])) = groups.split_last_chunk::<4>() else {
                absorb_groups(running, groups);
                for _ in 0..DOUBLE_ROUNDS {
                    double_round_of_words(&mut words, &rotations);
                }
                return words_after(&words, &words_before(key, nonce, counter));
            };
            absorb_groups(running, more);
            for group in beside_rounds {
                columns_of_words(&mut words, &rotations, || ());
                let limbs = running.limbs(rows_of_group(group));
                diagonals_of_words(&mut words, &rotations, || ());
                let columns = running.columns(limbs);
                columns_of_words(&mut words, &rotations, || ());
                let columns = running.with_sum(columns);
                diagonals_of_words(&mut words, &rotations, || ());
                running.carry(columns);
                double_round_of_words(&mut words, &rotations);
            }
            double_round_of_words(&mut words, &rotations);
            let before = words_before(key, nonce, counter);
            let limbs = running.limbs(rows_of_group(last));
            let first = quarter_after(&words, &before, 0);
            let columns = running.columns(limbs);
            let second = quarter_after(&words, &before, 1);
            let columns = running.with_sum(columns);
            let third = quarter_after(&words, &before, 2);
            running.carry(columns);
            sets_of([first, second, third, quarter_after(&words, &before, 3)])
        }
    };
}
