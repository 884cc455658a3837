//! The algorithm of ChaCha20-Poly1305, written once for all rooms with vector registers.
//!
//! A room brings a *row*: four words of the state of each of `BLOCKS` blocks. A quarter round works
//! on four rows, so that it does all columns, or all diagonals, of all these blocks; `SETS` of four
//! rows are on the way at a time. Blocks stay together, which is what makes short messages quick.

/// Defines the room: see the module.
macro_rules! engine {
    ($token:ty, #[$features:meta]) => {
        const ROW_BYTES: usize = 16 * BLOCKS;
        /// Bytes of a set: whole blocks.
        const SET_BYTES: usize = 4 * ROW_BYTES;
        const CHUNK_BYTES: usize = SETS * SET_BYTES;
        /// What is encrypted before it is authenticated: about a TLS record.
        const PORTION_BYTES: usize = 16 << 10;

        /// Four rows: the state of `BLOCKS` blocks.
        type Set = [Row; 4];

        /// Seals: encrypts the text and stores the tag.
        pub fn seal(_room: $token, message: Message<'_>) {
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { message_body::<true>(message) }
        }

        /// Opens: decrypts the text and stores the tag that it should have come with.
        pub fn open(_room: $token, message: Message<'_>) {
            // SAFETY: as above.
            unsafe { message_body::<false>(message) }
        }

        /// Seals (`SEAL`) or opens a message that may go on: stores the tag that it has if it ends
        /// here, and answers the authenticator of AAD and whole blocks of text.
        pub fn start<const SEAL: bool>(_room: $token, message: Message<'_>) -> Poly1305 {
            // SAFETY: as above.
            unsafe { start_body::<SEAL>(message) }
        }

        /// Seals one message after the other.
        pub fn seal_many<'a>(_room: $token, messages: impl Iterator<Item = Message<'a>>) {
            // SAFETY: as above.
            unsafe { seal_many_body(messages) }
        }

        /// The authenticator of a message.
        pub fn begin(room: $token, key: &Key, nonce: &[u8; NONCE_BYTES]) -> Poly1305 {
            let mut block = stream_block(room, key, nonce, 0);
            let (one_time_key, _) = block.split_first_chunk().expect("half a block");
            let poly = Poly1305::new(one_time_key);
            wipe(&mut block);
            poly
        }

        /// Authenticates blocks; the last one is filled up with zeros.
        pub fn absorb(_room: $token, poly: &mut Poly1305, bytes: &[u8]) {
            // SAFETY: as above.
            unsafe { absorb_body(poly, bytes) }
        }

        /// Encrypts (`SEAL`) or decrypts whole blocks from `counter` on and authenticates the
        /// ciphertext.
        pub fn crypt<const SEAL: bool>(
            _room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            // SAFETY: as above.
            unsafe { crypt_body::<SEAL>(key, nonce, counter, poly, text) }
        }

        /// A block of the key stream.
        pub fn stream_block(
            _room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
        ) -> [u8; BLOCK_BYTES] {
            // SAFETY: as above.
            unsafe { stream_block_body(key, nonce, counter) }
        }

        #[$features]
        fn message_body<const SEAL: bool>(message: Message<'_>) {
            whole::<SEAL>(message);
            wipe_registers();
        }

        #[$features]
        fn start_body<const SEAL: bool>(message: Message<'_>) -> Poly1305 {
            let poly = whole::<SEAL>(message);
            wipe_registers();
            poly
        }

        #[$features]
        fn seal_many_body<'a>(messages: impl Iterator<Item = Message<'a>>) {
            for message in messages {
                whole::<true>(message);
            }
            wipe_registers();
        }

        #[$features]
        fn absorb_body(poly: &mut Poly1305, bytes: &[u8]) {
            authenticate(poly, bytes);
            wipe_registers();
        }

        #[$features]
        fn crypt_body<const SEAL: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            chunks::<SEAL>(key, nonce, counter, poly, text);
            wipe_registers();
        }

        #[$features]
        fn stream_block_body(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
        ) -> [u8; BLOCK_BYTES] {
            let [set] = key_stream::<1>(key, nonce, counter);
            let block = first_block(set);
            wipe_registers();
            block
        }

        /// A whole message; answers its authenticator without the last block, if that is not whole.
        /// The first block of the key stream makes the one-time key; a message that is shorter than
        /// a chunk by that block needs no other turn.
        #[inline]
        #[$features]
        fn whole<const SEAL: bool>(message: Message<'_>) -> Poly1305 {
            let Message { key, nonce, aad, text, tag } = message;
            let blocks = 1 + text.len().div_ceil(BLOCK_BYTES);
            let (mut last, end) = ([0; BLOCK_BYTES], last_block(text));
            if !SEAL {
                end.with_source(|bytes| last[..bytes.len()].copy_from_slice(bytes));
            }
            let (mut poly, rest) = if blocks <= BLOCKS {
                first_turn::<1, SEAL>(key, nonce, aad, text)
            } else if blocks <= 2 * BLOCKS {
                first_turn::<2, SEAL>(key, nonce, aad, text)
            } else {
                first_turn::<SETS, SEAL>(key, nonce, aad, text)
            };
            chunks::<SEAL>(key, nonce, (SETS * BLOCKS) as u32, &mut poly, rest);
            if SEAL {
                end.with_target(|bytes| last[..bytes.len()].copy_from_slice(bytes));
            }
            *tag = close(&poly, &last[..end.len()], aad.len() as u64, text.len() as u64);
            poly
        }

        /// Begins a message, and takes as much of it as the turn has blocks.
        #[inline]
        #[$features]
        fn first_turn<'a, const COUNT: usize, const SEAL: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            aad: &[u8],
            text: Text<'a>,
        ) -> (Poly1305, Text<'a>) {
            let sets = key_stream::<COUNT>(key, nonce, 0);
            let mut block = first_block(sets[0]);
            let (one_time_key, _) = block.split_first_chunk().expect("half a block");
            let mut poly = Poly1305::new(one_time_key);
            wipe(&mut block);
            authenticate(&mut poly, aad);
            let bytes = text.len().min(COUNT * SET_BYTES - BLOCK_BYTES);
            let (text, rest) = text.split_at(bytes);
            if !SEAL {
                text.with_source(|bytes| authenticate(&mut poly, whole_blocks(bytes)));
            }
            apply(sets, BLOCK_BYTES, text);
            if SEAL {
                text.with_target(|bytes| authenticate(&mut poly, whole_blocks(bytes)));
            }
            (poly, rest)
        }

        /// Takes a text in portions that stay in the nearest cache, first by one algorithm, then by
        /// the other.
        #[inline]
        #[$features]
        fn chunks<const SEAL: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            let (mut counter, mut text) = (counter, text);
            while !text.is_empty() {
                let (portion, rest) = text.split_at(text.len().min(PORTION_BYTES));
                if !SEAL {
                    portion.with_source(|bytes| authenticate(poly, whole_blocks(bytes)));
                }
                encrypt(key, nonce, counter, portion);
                if SEAL {
                    portion.with_target(|bytes| authenticate(poly, whole_blocks(bytes)));
                }
                counter = counter.wrapping_add((PORTION_BYTES / BLOCK_BYTES) as u32);
                text = rest;
            }
        }

        /// Adds the key stream from block `counter` on to a text.
        #[inline]
        #[$features]
        fn encrypt(key: &Key, nonce: &[u8; NONCE_BYTES], counter: u32, text: Text<'_>) {
            let (mut counter, mut text) = (counter, text);
            while text.len() > 2 * SET_BYTES {
                let (chunk, rest) = text.split_at(text.len().min(CHUNK_BYTES));
                apply(key_stream::<SETS>(key, nonce, counter), 0, chunk);
                counter = counter.wrapping_add((SETS * BLOCKS) as u32);
                text = rest;
            }
            if text.len() > SET_BYTES {
                apply(key_stream::<2>(key, nonce, counter), 0, text);
            } else if !text.is_empty() {
                apply(key_stream::<1>(key, nonce, counter), 0, text);
            }
        }

        /// Adds a key stream, from byte `skip` on, to a text that is no longer.
        #[inline]
        #[$features]
        fn apply<const COUNT: usize>(sets: [Set; COUNT], skip: usize, text: Text<'_>) {
            let mut offset = 0;
            for (index, set) in sets.iter().enumerate() {
                for row in set.iter().skip(if index == 0 { skip / ROW_BYTES } else { 0 }) {
                    let bytes = (text.len() - offset).min(ROW_BYTES);
                    if bytes == ROW_BYTES {
                        store(text, offset, add_bits(load(text, offset), *row));
                    } else if bytes > 0 {
                        add_part(text, offset, bytes, *row);
                    }
                    offset += bytes;
                }
            }
        }

        /// Blocks of the key stream from `counter` on, each set as bytes in their order.
        #[inline]
        #[$features]
        fn key_stream<const COUNT: usize>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
        ) -> [Set; COUNT] {
            let upper = [&CONSTANTS, &key.words[0], &key.words[1]];
            let upper = [broadcast(upper[0]), broadcast(upper[1]), broadcast(upper[2])];
            let last = count_blocks(broadcast(&last_words(counter, nonce)));
            let mut states = [[upper[0], upper[1], upper[2], last]; COUNT];
            for (index, state) in states.iter_mut().enumerate() {
                state[3] = count(state[3], (index * BLOCKS) as u32);
            }
            let before = states;
            for _ in 0..10 {
                quarter_rounds(&mut states);
                for [_, b, c, d] in &mut states {
                    (*b, *c, *d) = (turn::<0x39>(*b), turn::<0x4e>(*c), turn::<0x93>(*d));
                }
                quarter_rounds(&mut states);
                for [_, b, c, d] in &mut states {
                    (*b, *c, *d) = (turn::<0x93>(*b), turn::<0x4e>(*c), turn::<0x39>(*d));
                }
            }
            for (state, before) in states.iter_mut().zip(&before) {
                for (row, before) in state.iter_mut().zip(before) {
                    *row = add(*row, *before);
                }
                *state = in_order(*state);
            }
            states
        }

        /// A quarter round on the columns of all blocks.
        #[inline]
        #[$features]
        fn quarter_rounds<const COUNT: usize>(states: &mut [Set; COUNT]) {
            for [a, b, _, d] in &mut *states {
                *a = add(*a, *b);
                *d = rotate16(add_bits(*d, *a));
            }
            for [_, b, c, d] in &mut *states {
                *c = add(*c, *d);
                *b = rotate12(add_bits(*b, *c));
            }
            for [a, b, _, d] in &mut *states {
                *a = add(*a, *b);
                *d = rotate8(add_bits(*d, *a));
            }
            for [_, b, c, d] in &mut *states {
                *c = add(*c, *d);
                *b = rotate7(add_bits(*b, *c));
            }
        }
    };
}
