//! The algorithm of AES-GCM, written once for all rooms with AES instructions.
//!
//! A room brings a *row* (`BLOCKS` blocks in a register) with its operations, from which this macro
//! makes what the room offers. A chunk of `ROWS` rows is encrypted while another one is hashed:
//! the AES rounds and the carry-less multiplications keep different units busy.
//!
//! This is a macro, and not generic code over a register as in [`registers`](crate::registers),
//! because of the assembly of a chunk: the class of its operands, its template and the list of
//! `#[target_feature]` are text, which stable Rust takes from no type parameter. So each room needs
//! a text of its own, in a function that enables its features, and such a function cannot be
//! `#[inline(always)]`: where LLVM did not inline it into generic code, sixteen rows would go
//! through memory for each chunk. Here every function enables the features of its room, and LLVM
//! inlines all that take or return rows, except `store_part` in the narrow rooms, which runs once
//! per message. Nothing enforces that; `crypto/tests/leftovers` finds what room `vaes512`, which
//! clears no stack behind a message, would then leave there.
//!
//! A room calls `engine!` and defines, beside it:
//!
//! - by `rows!`: the row and its size, and what instructions do to it; by `parts_by_words!`, or by
//!   hand where there are masks, loads and stores of a part of a row;
//! - by `ghash!`, and `three_products!` or `four_products!`: the powers of the hash key, and
//!   products;
//! - by `chunks!`, or by hand as `vaes512` does: `chunks`, `begin` and `known_row`;
//! - by hand: `SPILLS` and `SPILLED_WORDS`, `reverse`, `count_row`, `wrapped`, and what moves
//!   blocks between rows and elements: `all_of_row`, `first_of_row`, `last_of_row`, `sum_of_row`,
//!   and `first_block` and `last_block` for `parts_by_words!`.
//!
//! Each position in a row is a strand of its own while chunks are hashed: the strands advance by
//! H^`BLOCKS` from row to row and come together at the end only.
#![allow(unsafe_code, reason = "text of rooms: their doors")]

/// Defines the room: see the module.
macro_rules! engine {
    ($token:ty, #[$features:meta]) => {
        /// Blocks of a chunk.
        const CHUNK_BLOCKS: usize = ROWS * BLOCKS;
        const ROW_BYTES: usize = BLOCKS * BLOCK_BYTES;
        const CHUNK_BYTES: usize = ROWS * ROW_BYTES;

        /// The counter blocks that come next.
        ///
        /// Of a nonce of 96 bits they are `KNOWN` at the beginning of a chunk: the lowest bits of
        /// what they count, which tell the blocks of a chunk apart, are the same in every chunk,
        /// and adding is `xor`.
        struct Counters {
            /// Known: what the room counts a chunk from, with the first round key added. Otherwise
            /// those of the next row, with their bytes reversed.
            row: Row,
            /// What known blocks count, lowest bits zero.
            count: u32,
        }

        /// A key of this room.
        pub type Key = super::Key<ENTRIES>;

        /// Expands a key into `made`, with the powers of its hash key.
        pub fn expand(room: $token, key: KeyBytes<'_>, made: &mut Key) {
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { expand_body(key, made) }
            wipe_spilled(room);
        }

        /// Seals: encrypts the text and stores the tag.
        pub fn seal(room: $token, message: Message<'_, Key>) {
            // SAFETY: as above.
            unsafe { message_body::<true>(message) }
            if SPILLS {
                wipe_spilled(room);
            }
        }

        /// Opens: decrypts the text and stores the tag that it should have come with.
        pub fn open(room: $token, message: Message<'_, Key>) {
            // SAFETY: as above.
            unsafe { message_body::<false>(message) }
            if SPILLS {
                wipe_spilled(room);
            }
        }

        /// Seals or opens a message that may go on: stores the tag that it has if it ends here,
        /// and returns the hash of AAD and text, a last block filled up with zeros.
        pub fn start(room: $token, direction: Direction, message: Message<'_, Key>) -> Block {
            let sum = match direction {
                // SAFETY: as above.
                Direction::Seal => unsafe { start_body::<true>(message) },
                // SAFETY: as above.
                Direction::Open => unsafe { start_body::<false>(message) },
            };
            if SPILLS {
                wipe_spilled(room);
            }
            sum
        }

        /// Seals one message after the other. Short messages overlap in the pipeline.
        ///
        /// Whoever has the messages, the code of the room exists once.
        pub fn seal_many<'a>(room: $token, messages: &mut dyn Iterator<Item = Message<'a, Key>>) {
            // SAFETY: as above.
            unsafe { seal_many_body(messages) }
            wipe_spilled(room);
        }

        /// Encrypts one block where it is.
        pub fn encrypt_block(_room: $token, key: &Key, block: &mut Block) {
            // SAFETY: as above.
            unsafe { encrypt_block_body(key, block) }
        }

        /// Adds blocks to a hash; the last one is filled up with zeros.
        pub fn absorb(_room: $token, key: &Key, sum: &mut Block, bytes: &[u8]) {
            // SAFETY: as above.
            unsafe { absorb_body(key, sum, bytes) }
        }

        /// Encrypts or decrypts blocks from `counter` on and adds the ciphertext to the hash. A
        /// last block that is not whole is filled up with zeros for the hash.
        pub fn crypt(
            room: $token,
            direction: Direction,
            key: &Key,
            counter: &Block,
            sum: &mut Block,
            text: Text<'_>,
        ) {
            match direction {
                // SAFETY: as above.
                Direction::Seal => unsafe { crypt_body::<true>(key, counter, sum, text) },
                // SAFETY: as above.
                Direction::Open => unsafe { crypt_body::<false>(key, counter, sum, text) },
            }
            wipe_spilled(room);
        }

        /// Clears what did not fit the registers of the room.
        fn wipe_spilled(_room: $token) {
            #[inline(never)]
            #[$features]
            fn body() {
                wipe_frame::<SPILLED_WORDS>();
            }
            // SAFETY: as above.
            unsafe { body() }
        }

        /// Multiplies a hash by the hash key.
        pub fn close(_room: $token, key: &Key, sum: &mut Block) {
            // SAFETY: as above.
            unsafe { close_body(key, sum) }
        }

        #[$features]
        fn expand_body(key: KeyBytes<'_>, made: &mut Key) {
            made.rounds = key.rounds();
            expand_rounds(key, &mut made.round_keys);
            expand_powers(field::reverse(encrypt_any(made, field::zero())), made);
            wipe_registers();
        }

        #[$features]
        fn message_body<const SEAL: bool>(message: Message<'_, Key>) {
            whole::<SEAL>(message, false);
            wipe_registers();
        }

        #[$features]
        fn start_body<const SEAL: bool>(message: Message<'_, Key>) -> Block {
            let sum = whole::<SEAL>(message, true);
            wipe_registers();
            sum
        }

        #[$features]
        fn seal_many_body<'a>(messages: &mut dyn Iterator<Item = Message<'a, Key>>) {
            for message in messages {
                whole::<true>(message, false);
            }
            wipe_registers();
        }

        #[$features]
        fn encrypt_block_body(key: &Key, block: &mut Block) {
            *block = field::store(encrypt_any(key, field::load(block)));
            wipe_registers();
        }

        #[$features]
        fn absorb_body(key: &Key, sum: &mut Block, bytes: &[u8]) {
            *sum = field::bytes(hash(key, field::block(sum), bytes));
            wipe_registers();
        }

        #[$features]
        fn crypt_body<const SEAL: bool>(
            key: &Key,
            counter: &Block,
            sum: &mut Block,
            text: Text<'_>,
        ) {
            let counters = Counters { row: counters_from(field::block(counter)), count: 0 };
            let before = field::block(sum);
            *sum = field::bytes(match key.rounds {
                10 => run::<10, SEAL, false>(key, counters, before, text, None),
                12 => run::<12, SEAL, false>(key, counters, before, text, None),
                _ => run::<14, SEAL, false>(key, counters, before, text, None),
            });
            wipe_registers();
        }

        #[$features]
        fn close_body(key: &Key, sum: &mut Block) {
            let h = field::element(key.powers[POWER_MAX - 1]);
            *sum = field::bytes(field::product(field::block(sum), h));
            wipe_registers();
        }

        /// A whole message, or the beginning of one that `goes_on`, perhaps: then the hash is
        /// returned as it is before the lengths come to it. Not in a vector, whose way back would
        /// be the stack.
        #[inline]
        #[$features]
        fn whole<const SEAL: bool>(message: Message<'_, Key>, goes_on: bool) -> Block {
            match message.key.rounds {
                10 => whole_rounds::<10, SEAL>(message, goes_on),
                12 => whole_rounds::<12, SEAL>(message, goes_on),
                _ => whole_rounds::<14, SEAL>(message, goes_on),
            }
        }

        #[inline]
        #[$features]
        fn whole_rounds<const ROUNDS: usize, const SEAL: bool>(
            message: Message<'_, Key>,
            goes_on: bool,
        ) -> Block {
            let Message { key, first, aad, text, tag } = message;
            let lengths = field::element([8 * text.len() as u64, 8 * aad.len() as u64]);
            let first = field::load(&first);
            let zero = field::add(first, field::element([0, 1 << 56]));
            let row = known_row(zero, field::element(key.round_keys[0]));
            let counters = Counters { row, count: 0 };
            // What masks the tag waits where the tag goes: in a register it would be spilled, and a
            // copy of it would stay on the stack.
            *tag = field::store(encrypt_one::<ROUNDS>(key, first));
            let tag = black_box(tag);
            let sum = if aad.len() < BLOCK_BYTES {
                field::partial_block(aad)
            } else {
                hash(key, field::zero(), aad)
            };
            let end = if goes_on { None } else { Some(lengths) };
            let sum = run::<ROUNDS, SEAL, true>(key, counters, sum, text, end);
            let closed = if goes_on {
                let sum = product_from(key, 2, first_of_row(sum));
                let lengths = product_from(key, 1, first_of_row(lengths));
                reduce_sum(add_products(sum, lengths))
            } else {
                sum
            };
            *tag = field::store(field::add(field::reverse(closed), field::load(tag)));
            if goes_on { field::bytes(sum) } else { Block::default() }
        }

        #[inline]
        #[$features]
        fn encrypt_any(key: &Key, block: Element) -> Element {
            match key.rounds {
                10 => encrypt_one::<10>(key, block),
                12 => encrypt_one::<12>(key, block),
                _ => encrypt_one::<14>(key, block),
            }
        }

        #[inline]
        #[$features]
        fn encrypt_one<const ROUNDS: usize>(key: &Key, block: Element) -> Element {
            let mut state = field::add(block, field::element(key.round_keys[0]));
            for round_key in &key.round_keys[1..ROUNDS] {
                state = field::encrypt(state, field::element(*round_key));
            }
            field::encrypt_last(state, field::element(key.round_keys[ROUNDS]))
        }

        /// Encrypts or decrypts a text and adds its ciphertext to a hash; with `lengths` the hash
        /// is finished, without it is still to be multiplied.
        #[inline]
        #[$features]
        fn run<const ROUNDS: usize, const SEAL: bool, const KNOWN: bool>(
            key: &Key,
            counters: Counters,
            sum: Element,
            text: Text<'_>,
            lengths: Option<Element>,
        ) -> Element {
            let (mut counters, mut strands, mut text) = (counters, last_of_row(sum), text);
            if text.len() > CHUNK_BYTES {
                (counters, strands, text) =
                    chunks::<ROUNDS, SEAL, KNOWN>(key, counters, strands, text);
            }
            tail::<ROUNDS, SEAL, KNOWN>(key, counters, strands, text, lengths)
        }

        /// Up to a chunk, and the end of the hash.
        #[inline]
        #[$features]
        fn tail<const ROUNDS: usize, const SEAL: bool, const KNOWN: bool>(
            key: &Key,
            counters: Counters,
            strands: Row,
            text: Text<'_>,
            lengths: Option<Element>,
        ) -> Element {
            let mut counters = counters;
            // Blocks to come after the strands; what finishes the hash counts for one, and so does
            // the multiplication that follows it.
            let after = text.len().div_ceil(BLOCK_BYTES) + if lengths.is_some() { 2 } else { 0 };
            let power = after + BLOCKS - 1;
            // The strands wait as they are: three sums of their products would be spilled.
            let hashed = if text.is_empty() {
                None
            } else {
                let (counters, power) = (&mut counters, power - BLOCKS);
                Some(match text.len().div_ceil(ROW_BYTES) {
                    1 => tail_rows::<ROUNDS, 1, SEAL, KNOWN>(key, counters, text, power),
                    2 => tail_rows::<ROUNDS, 2, SEAL, KNOWN>(key, counters, text, power),
                    3 => tail_rows::<ROUNDS, 3, SEAL, KNOWN>(key, counters, text, power),
                    4 => tail_rows::<ROUNDS, 4, SEAL, KNOWN>(key, counters, text, power),
                    5 => tail_rows::<ROUNDS, 5, SEAL, KNOWN>(key, counters, text, power),
                    6 => tail_rows::<ROUNDS, 6, SEAL, KNOWN>(key, counters, text, power),
                    7 => tail_rows::<ROUNDS, 7, SEAL, KNOWN>(key, counters, text, power),
                    8 => tail_rows::<ROUNDS, 8, SEAL, KNOWN>(key, counters, text, power),
                    _ => unreachable!("a tail has no more rows than a chunk"),
                })
            };
            let mut sum = product_from(key, power, strands);
            if let Some(hashed) = hashed {
                sum = add_products(sum, hashed);
            }
            if let Some(lengths) = lengths {
                sum = add_products(sum, product_from(key, 1, first_of_row(lengths)));
            }
            reduce_sum(sum)
        }

        /// Rows of a tail, of which the last may be shorter; returns what they contribute when the
        /// first block stands at `power`.
        #[inline]
        #[$features]
        fn tail_rows<
            const ROUNDS: usize,
            const COUNT: usize,
            const SEAL: bool,
            const KNOWN: bool,
        >(
            key: &Key,
            counters: &mut Counters,
            text: Text<'_>,
            power: usize,
        ) -> Product {
            let rows = crypt_rows::<ROUNDS, COUNT, SEAL, KNOWN>(key, counters, text);
            let mut sum = product_from(key, power, reverse(rows[0]));
            // Not by an iterator over the array itself, which would be kept in memory.
            for index in 1..COUNT {
                let product = product_from(key, power - index * BLOCKS, reverse(rows[index]));
                sum = add_products(sum, product);
            }
            sum
        }

        /// Encrypts or decrypts rows, of which the last may be shorter, and returns their
        /// ciphertext, filled up with zeros.
        #[inline]
        #[$features]
        fn crypt_rows<
            const ROUNDS: usize,
            const COUNT: usize,
            const SEAL: bool,
            const KNOWN: bool,
        >(
            key: &Key,
            counters: &mut Counters,
            text: Text<'_>,
        ) -> [Row; COUNT] {
            // Split once: with a check for each row, rows would be encrypted one after the other.
            let (whole, last) = text.split_at((COUNT - 1) * ROW_BYTES);
            let mut states = begin::<COUNT, KNOWN>(key, counters);
            for round_key in &key.round_keys[1..ROUNDS] {
                let round_key = broadcast(round_key);
                for state in &mut states {
                    *state = encrypt(*state, round_key);
                }
            }
            let last_key = broadcast(&key.round_keys[ROUNDS]);
            // Not by an iterator, as above.
            for row in 0..COUNT - 1 {
                let source = load(whole, row * ROW_BYTES);
                let target = encrypt_last(states[row], add(last_key, source));
                store(whole, row * ROW_BYTES, target);
                states[row] = if SEAL { target } else { source };
            }
            states[COUNT - 1] = if last.len() == ROW_BYTES {
                let source = load(last, 0);
                let target = encrypt_last(states[COUNT - 1], add(last_key, source));
                store(last, 0, target);
                if SEAL { target } else { source }
            } else {
                let source = load_part(last);
                let target = encrypt_last(states[COUNT - 1], add(last_key, source));
                let stored = store_part(last, target);
                if SEAL { stored } else { source }
            };
            states
        }
    };
}
