//! Whole chunks of AES-GCM where registers are narrow: rounds of AES and the hash woven by hand.
//! Secret-independent. What every room is woven of comes first.
//!
//! Sixteen registers hold the rows of a chunk, three sums, and four that change all the time. So
//! sealed rows are read again from where they were stored, a chunk later, and factors for each use.
#![allow(unsafe_code, reason = "text of rooms: rounds of a chunk in assembly")]

/// An instruction.
macro_rules! op {
    ($($part:literal)+) => { concat!($($part,)+ "\n") };
}

/// The key of a round, by the instruction that loads a block to all positions.
macro_rules! round_key {
    ($load:literal, $round:literal) => {
        op!($load " {key}, [{keys} + {round_keys} + 16*" $round "]")
    };
}

/// A round on some rows of the chunk.
macro_rules! encrypt {
    ($($row:literal),+) => { concat!($(op!("vaesenc {s" $row "}, {s" $row "}, {key}")),+) };
}

/// A round on all rows.
macro_rules! round {
    ($load:literal, $round:literal) => {
        concat!(round_key!($load, $round), encrypt!(0, 1, 2, 3, 4, 5, 6, 7))
    };
}

/// A round, and a row that is hashed meanwhile: multiplied by its power, as `product_at` does.
macro_rules! hashed {
    ($load:literal, $round:literal, $row:literal) => {
        concat!(
            round_key!($load, $round),
            op!("vmovdqu {row}, [{hashed} + {row_bytes}*" $row "]"),
            op!("vpshufb {row}, {row}, [{order}]"),
            encrypt!(0),
            op!($load " {a}, [{keys} + {powers} + {row_bytes}*" $row "]"),
            op!("vpclmulqdq {b}, {row}, {a}, 0x00"),
            encrypt!(1, 2),
            op!("vpclmulqdq {a}, {row}, {a}, 0x11"),
            op!("vpxor {low}, {low}, {b}"),
            encrypt!(3, 4),
            op!("vpshufd {b}, {row}, 0x4e"),
            op!("vpxor {high}, {high}, {a}"),
            encrypt!(5),
            op!($load " {a}, [{keys} + {middles} + {row_bytes}*" $row "]"),
            op!("vpxor {b}, {b}, {row}"),
            encrypt!(6),
            op!("vpclmulqdq {b}, {b}, {a}, 0x00"),
            encrypt!(7),
            op!("vpxor {middle}, {middle}, {b}"),
        )
    };
}

/// All rounds but the last one, and all rows but the last one.
macro_rules! woven {
    ($load:literal, 10) => {
        concat!(
            hashed!($load, 1, 0),
            hashed!($load, 2, 1),
            hashed!($load, 3, 2),
            hashed!($load, 4, 3),
            hashed!($load, 5, 4),
            hashed!($load, 6, 5),
            hashed!($load, 7, 6),
            round!($load, 8),
            round!($load, 9),
        )
    };
    ($load:literal, 12) => {
        concat!(woven!($load, 10), round!($load, 10), round!($load, 11))
    };
    ($load:literal, 14) => {
        concat!(woven!($load, 12), round!($load, 12), round!($load, 13))
    };
}

/// The block of assembly: all rounds but the last one on `$states`; meanwhile the rows of `$hashed`
/// are multiplied and added to `$sum`, but for the last one.
///
/// Not a function, which the compiler might not inline: it would get its rows in memory.
macro_rules! weave {
    ($class:ident, $template:expr, $key:expr, $hashed:expr, $states:expr, $sum:expr) => {{
        // Given a type, since without one registers get names that the assembler does not know.
        let (_key, _row, _a, _b): (Row, Row, Row, Row);
        // SAFETY: reads the key where its fields are, and a chunk that the text vouches for.
        unsafe {
            asm!(
                $template,
                keys = in(reg) core::ptr::from_ref::<Key>($key),
                hashed = in(reg) $hashed.source(0, CHUNK_BYTES),
                order = in(reg) CONSTANTS.order.as_ptr(),
                row_bytes = const ROW_BYTES,
                round_keys = const offset_of!(Key, round_keys),
                powers = const offset_of!(Key, powers) + FIRST_POWER,
                middles = const offset_of!(Key, beside) + FIRST_POWER,
                s0 = inout($class) $states[0], s1 = inout($class) $states[1],
                s2 = inout($class) $states[2], s3 = inout($class) $states[3],
                s4 = inout($class) $states[4], s5 = inout($class) $states[5],
                s6 = inout($class) $states[6], s7 = inout($class) $states[7],
                low = inout($class) $sum.0, middle = inout($class) $sum.1,
                high = inout($class) $sum.2,
                key = out($class) _key, row = out($class) _row,
                a = out($class) _a, b = out($class) _b,
                options(readonly, nostack, preserves_flags),
            );
        }
    }};
}

/// Defines the functions that take whole chunks, and that begin what is left.
macro_rules! chunks {
    ($class:ident, load = $load:literal, #[$features:meta]) => {
        /// What the first block of a text counts, if its nonce has 96 bits.
        const FIRST_COUNT: usize = 2;

        static CONSTANTS: Constants = Constants::new();

        #[repr(C, align(64))]
        struct Constants {
            /// The lowest bits of the counters of a chunk, where they stand in the blocks.
            lowest: [[u8; ROW_BYTES]; ROWS],
            /// The order that turns the bytes of each block around.
            order: [u8; ROW_BYTES],
        }

        impl Constants {
            const fn new() -> Self {
                let mut lowest = [[0; ROW_BYTES]; ROWS];
                let mut block = 0;
                while block < CHUNK_BLOCKS {
                    let last_byte = (block + 1) * BLOCK_BYTES - 1;
                    let count = (FIRST_COUNT + block) % CHUNK_BLOCKS;
                    lowest[last_byte / ROW_BYTES][last_byte % ROW_BYTES] = count as u8;
                    block += 1;
                }
                let mut order = [0; ROW_BYTES];
                let mut byte = 0;
                while byte < ROW_BYTES {
                    order[byte] = (BLOCK_BYTES - 1 - byte % BLOCK_BYTES) as u8;
                    byte += 1;
                }
                Constants { lowest, order }
            }
        }

        /// Where the power stands that the first row of a chunk is multiplied by.
        const FIRST_POWER: usize = (POWER_MAX - CHUNK_BLOCKS + BLOCKS) * BLOCK_BYTES;

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
            let mut before = text;
            if SEAL {
                (before, text) = text.split_at(CHUNK_BYTES);
                let mut states = begin::<ROWS, KNOWN>(key, &mut counters);
                for round_key in &key.round_keys[1..ROUNDS] {
                    encrypt_chunk(&mut states, broadcast(round_key));
                }
                finish_chunk::<ROUNDS>(key, &states, before);
            }
            while text.len() > CHUNK_BYTES {
                let (chunk, rest) = text.split_at(CHUNK_BYTES);
                // Read anew for every chunk: kept, round keys and powers would be spilled.
                let key = black_box(key);
                let mut states = begin::<ROWS, KNOWN>(key, &mut counters);
                let mut sum = product_at(key, 0, strands);
                let hashed = if SEAL { before.result() } else { chunk };
                match ROUNDS {
                    10 => weave!($class, woven!($load, 10), key, hashed, states, sum),
                    12 => weave!($class, woven!($load, 12), key, hashed, states, sum),
                    14 => weave!($class, woven!($load, 14), key, hashed, states, sum),
                    _ => unreachable!("AES has no other number of rounds"),
                }
                strands = add(reduce(sum), reverse(load(hashed, (ROWS - 1) * ROW_BYTES)));
                finish_chunk::<ROUNDS>(key, &states, chunk);
                (before, text) = (chunk, rest);
            }
            if SEAL {
                strands = hash_chunk(key, strands, &rows_of(before.result()));
            }
            (counters, strands, text)
        }

        /// The last round on a chunk.
        #[inline]
        #[$features]
        fn finish_chunk<const ROUNDS: usize>(key: &Key, states: &[Row; ROWS], chunk: Text<'_>) {
            let last_key = broadcast(&key.round_keys[ROUNDS]);
            for (index, state) in states.iter().enumerate() {
                let offset = index * ROW_BYTES;
                store(chunk, offset, encrypt_last(*state, add(last_key, load(chunk, offset))));
            }
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
                    *state = add(from, row_from(&CONSTANTS.lowest[row]));
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
