//! The algorithm of ChaCha20-Poly1305, written once for all rooms with vector registers.
//!
//! A room brings a *row*: four words of the state of each of `BLOCKS` blocks. A quarter round works
//! on four rows, so that it does all columns, or all diagonals, of all these blocks. Blocks stay
//! together, which is what makes short messages quick; longer ones are made by words (`chunk.rs`).
//!
//! This is a macro, and not generic code over a register as in [`registers`](crate::registers),
//! but only the work of rewriting it keeps it so. Tried with room `avx512` on a Zen 4: the
//! functions below without features and `#[inline(always)]`, as in generic code, and those that are
//! not inlined as in `Register::call`. Sealing and opening 16 bytes to 16 KiB took 0.95 to 1.02
//! times as long. The price is care with closures: the one that `with_tag` takes had to be written
//! out in its callers, since LLVM did not inline it there, and a closure without features calls
//! each instruction as a function (27 to 32 times as long for 1,350 bytes). The assembly of the
//! other rooms, whose operands are of a room's register class, would go into functions with
//! features, as `words` has some. Here every function, and so every closure in it, enables the
//! features of its room, and intrinsics are safe to call.
//!
//! Functions that are not inlined share the same stack one after the other, so little is spilled
//! for a message, and little has to be wiped behind it: the sizes in `mod.rs` follow what is
//! emitted.
//!
//! A room calls `engine!` and defines, beside it:
//!
//! - by `rows256!` or `rows512!`: the row and what instructions do to it; with AVX-512 they or
//!   `masked_rows!` also define `Rotations`, `splat_from` and `add_part`, which `avx2` has by hand;
//! - by `by_words!`: a chunk of key stream with one word of all blocks in each register;
//! - by `paced!` or `staged!`, or by hand as `avx2` does: `chunk_beside` and `crypt_chunk`;
//! - by `opening_by_both!`, or by hand: `opening`, `OPENING`, `SHORT_OPENING` and `FEW_REGISTERS`;
//! - by `scalar!` or `in_lanes!`: how groups of blocks are authenticated;
//! - by `abreast!`: `seal_many`, which uses what `engine!` defines.
#![allow(unsafe_code, reason = "text of rooms: their doors")]

/// Repeats an expression for each index of the sets of an opening, as straight code.
macro_rules! each_set {
    ($index:ident => $step:expr) => {
        each_set!($index => $step, 0 1 2 3 4 5)
    };
    ($index:ident => $step:expr, $($number:literal)+) => {
        $({
            const $index: usize = $number;
            $step;
        })+
    };
}

/// Defines the room: see the module.
macro_rules! engine {
    ($token:ty, #[$features:meta]) => {
        const ROW_BYTES: usize = 16 * BLOCKS;
        /// Bytes of a set: whole blocks.
        const SET_BYTES: usize = 4 * ROW_BYTES;
        const CHUNK_BYTES: usize = SETS * SET_BYTES;
        /// Bytes of text that an opening has behind the block of the one-time key.
        const OPENING_BYTES: usize = OPENING * SET_BYTES - BLOCK_BYTES;
        const SHORT_OPENING_BYTES: usize = SHORT_OPENING * SET_BYTES - BLOCK_BYTES;
        /// Of the words of a short stack, most are rows.
        const SHORT_STACK_OF_ROOM: usize = SHORT_STACK - 7 * (64 - ROW_BYTES);
        const SETS_STACK_OF_ROOM: usize =
            if FEW_REGISTERS { NARROW_SETS_STACK } else { SHORT_STACK_OF_ROOM };
        const SEALED_STACK_OF_ROOM: usize = SEALED_STACK - 3 * (64 - ROW_BYTES);
        const LONG_STACK_OF_ROOM: usize =
            if FEW_REGISTERS { NARROW_LONG_STACK } else { LONG_STACK };
        const SEALED_LONG_STACK_OF_ROOM: usize =
            if FEW_REGISTERS { NARROW_LONG_STACK } else { SEALED_LONG_STACK };
        const GROUP_BYTES: usize = GROUP_BLOCKS * TAG_BYTES;

        /// Four rows: the state of `BLOCKS` blocks.
        type Set = [Row; 4];

        /// Seals: encrypts the text and stores the tag.
        pub fn seal(room: $token, message: Message<'_>) {
            start(room, Direction::Seal, message, &mut Poly1305::default());
        }

        /// Opens: decrypts the text and stores the tag that it should have come with.
        pub fn open(room: $token, message: Message<'_>) {
            start(room, Direction::Open, message, &mut Poly1305::default());
        }

        /// Seals or opens a message that may go on: stores the tag that it has if it ends here,
        /// and in `poly` the authenticator of AAD and whole blocks of text.
        pub fn start(
            room: $token,
            direction: Direction,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            let ways = Ways::of_this_cpu();
            match direction {
                Direction::Seal => start_by::<true>(room, message, poly, ways),
                Direction::Open => start_by::<false>(room, message, poly, ways),
            }
        }

        /// As [`start`], in `ways` that need not be those of this CPU.
        pub(super) fn start_by<const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
            ways: Ways,
        ) {
            let bytes = message.text.len();
            // Of a text that is longer.
            let turns_behind = |first: usize| (bytes - first).div_ceil(CHUNK_BYTES);
            // Twice as many, where a turn of no more than two sets counts half.
            let half_turns_behind = |first: usize| {
                let (chunks, rest) = ((bytes - first) / CHUNK_BYTES, (bytes - first) % CHUNK_BYTES);
                2 * chunks + rest.div_ceil(2 * SET_BYTES)
            };
            let key_beside_chunk = ways.beside_chunk && !FEW_REGISTERS;
            let beside_sets = ways.beside_sets || fills_a_set(bytes, SET_BYTES);
            if !beside_sets && bytes <= SET_BYTES - BLOCK_BYTES {
                // SAFETY: the token exists only if every feature of its room was detected.
                unsafe { message_body::<1, SEAL>(room, message, poly) }
                wipe_stack::<SHORTEST_STACK>();
            } else if !beside_sets && bytes <= 2 * SET_BYTES - BLOCK_BYTES {
                // SAFETY: as above.
                unsafe { message_body::<2, SEAL>(room, message, poly) }
                wipe_stack::<SETS_STACK_OF_ROOM>();
            } else if !beside_sets && FEW_REGISTERS && bytes <= 3 * SET_BYTES - BLOCK_BYTES {
                // SAFETY: as above.
                unsafe { message_body::<3, SEAL>(room, message, poly) }
                wipe_stack::<SETS_STACK_OF_ROOM>();
            } else if bytes <= BLOCK_BYTES {
                // SAFETY: as above.
                unsafe { block_body::<SEAL>(room, message, poly) }
                wipe_stack::<SHORTEST_STACK>();
            } else if bytes <= SET_BYTES {
                // SAFETY: as above.
                unsafe { beside_body::<1, SEAL>(room, message, poly) }
                wipe_stack::<BESIDE_STACK>();
            } else if bytes <= 2 * SET_BYTES {
                // SAFETY: as above.
                unsafe { beside_body::<2, SEAL>(room, message, poly) }
                wipe_stack::<SHORT_STACK_OF_ROOM>();
            } else if key_beside_chunk && bytes <= CHUNK_BYTES {
                // SAFETY: as above.
                unsafe { chunk_body::<false, SEAL>(room, message, poly) }
                wipe_stack::<SHORT_STACK_OF_ROOM>();
            } else if bytes <= SHORT_OPENING_BYTES {
                // SAFETY: as above.
                unsafe { message_body::<SHORT_OPENING, SEAL>(room, message, poly) }
                wipe_short_stack::<SEAL>();
            } else if bytes <= OPENING_BYTES {
                // SAFETY: as above.
                unsafe { message_body::<OPENING, SEAL>(room, message, poly) }
                wipe_short_stack::<SEAL>();
            } else if !SEAL && FEW_REGISTERS {
                // What an opening decrypts is authenticated before, beside nothing: it is short.
                if half_turns_behind(2 * SET_BYTES - BLOCK_BYTES)
                    < half_turns_behind(SET_BYTES - BLOCK_BYTES)
                {
                    // SAFETY: as above.
                    unsafe { long_message_body::<2, SEAL>(room, message, poly) }
                } else {
                    // SAFETY: as above.
                    unsafe { long_message_body::<1, SEAL>(room, message, poly) }
                }
                wipe_long_stack::<SEAL>();
            } else if key_beside_chunk && turns_behind(CHUNK_BYTES) == turns_behind(OPENING_BYTES) {
                // SAFETY: as above.
                unsafe { chunk_body::<true, SEAL>(room, message, poly) }
                wipe_stack::<LONG_STACK_OF_ROOM>();
            } else if turns_behind(SHORT_OPENING_BYTES) == turns_behind(OPENING_BYTES) {
                // SAFETY: as above.
                unsafe { long_message_body::<SHORT_OPENING, SEAL>(room, message, poly) }
                wipe_long_stack::<SEAL>();
            } else {
                // SAFETY: as above.
                unsafe { long_message_body::<OPENING, SEAL>(room, message, poly) }
                wipe_long_stack::<SEAL>();
            }
        }

        /// Clears the stack behind a message of an opening.
        fn wipe_short_stack<const SEAL: bool>() {
            if SEAL {
                wipe_stack::<SEALED_STACK_OF_ROOM>();
            } else {
                wipe_stack::<SHORT_STACK_OF_ROOM>();
            }
        }

        /// Clears the stack behind a longer message.
        fn wipe_long_stack<const SEAL: bool>() {
            if SEAL {
                wipe_stack::<SEALED_LONG_STACK_OF_ROOM>();
            } else {
                wipe_stack::<LONG_STACK_OF_ROOM>();
            }
        }

        /// Begins the authenticator of a message.
        pub fn begin(room: $token, key: &Key, nonce: &[u8; NONCE_BYTES], poly: &mut Poly1305) {
            let mut block = [0; BLOCK_BYTES];
            stream_block(room, key, nonce, 0, &mut block);
            poly.begin(&block);
            wipe(&mut block);
        }

        /// Authenticates blocks; the last one is filled up with zeros.
        pub fn absorb(room: $token, poly: &mut Poly1305, bytes: &[u8]) {
            // SAFETY: as above.
            unsafe { absorb_body(room, poly, bytes) }
            wipe_stack::<SHORT_STACK_OF_ROOM>();
        }

        /// Encrypts or decrypts whole blocks from `counter` on and authenticates the ciphertext.
        pub fn crypt(
            room: $token,
            direction: Direction,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            match direction {
                // SAFETY: as above.
                Direction::Seal => unsafe {
                    crypt_body::<true>(room, key, nonce, counter, poly, text);
                },
                // SAFETY: as above.
                Direction::Open => unsafe {
                    crypt_body::<false>(room, key, nonce, counter, poly, text);
                },
            }
            wipe_stack::<LONG_STACK_OF_ROOM>();
        }

        /// Stores a block of the key stream.
        pub fn stream_block(
            _room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            block: &mut [u8; BLOCK_BYTES],
        ) {
            // SAFETY: as above.
            unsafe { stream_block_body(key, nonce, counter, block) }
            wipe_stack::<SHORT_STACK_OF_ROOM>();
        }

        #[$features]
        fn block_body<const SEAL: bool>(room: $token, message: Message<'_>, poly: &mut Poly1305) {
            of_one_block::<SEAL>(room, message, poly);
            wipe_registers();
        }

        #[$features]
        fn beside_body<const COUNT: usize, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            beside_key::<COUNT, SEAL>(room, message, poly);
            wipe_registers();
        }

        #[$features]
        fn chunk_body<const LONG: bool, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            beside_chunk::<LONG, SEAL>(room, message, poly);
            wipe_registers();
        }

        #[$features]
        fn message_body<const COUNT: usize, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            behind_key::<COUNT, SEAL>(room, message, poly);
            wipe_registers();
        }

        #[$features]
        fn long_message_body<const COUNT: usize, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            long::<COUNT, SEAL>(room, message, poly);
            wipe_registers();
        }

        #[$features]
        fn absorb_body(room: $token, poly: &mut Poly1305, bytes: &[u8]) {
            authenticate(room, poly, bytes);
            wipe_registers();
        }

        #[$features]
        fn crypt_body<const SEAL: bool>(
            room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            pieces::<SEAL>(room, key, nonce, counter, poly, text);
            wipe_registers();
        }

        #[$features]
        fn stream_block_body(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            block: &mut [u8; BLOCK_BYTES],
        ) {
            let [set] = key_stream::<1>(key, nonce, counter);
            *block = first_block(set);
            wipe_registers();
        }

        /// A message whose text is one block; `poly` ends without it, if it is not whole. The block
        /// moves to general registers once that of the one-time key has left them.
        #[inline]
        #[$features]
        fn of_one_block<const SEAL: bool>(room: $token, message: Message<'_>, poly: &mut Poly1305) {
            let Message { key, nonce, aad, text, .. } = message;
            with_tag::<SEAL>(message, poly, |poly| {
                let mut states = before_rounds::<1>(key, nonce, 1);
                begin_beside(room, key, nonce, aad, &mut states, poly);
                let mut block = Single::from_bytes(&first_block(in_order(states[0])));
                for _ in BESIDE_KEY..DOUBLE_ROUNDS {
                    block.double_round();
                }
                let stream = block.after_rounds(&Single::new(key, nonce, 1));
                one_turn::<SEAL>(text, poly, Poly1305::absorb_inline, || text.add_words(&stream));
            });
        }

        /// A longer message, of one set or two beside the block of the one-time key; `poly` ends
        /// without the last block, if that is not whole.
        #[inline]
        #[$features]
        fn beside_key<const COUNT: usize, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            let Message { key, nonce, aad, text, .. } = message;
            with_tag::<SEAL>(message, poly, |poly| {
                let sets = key_stream_after_key::<COUNT>(room, key, nonce, aad, poly);
                if COUNT == 1 {
                    one_turn::<SEAL>(text, poly, Poly1305::absorb_inline, || apply(&sets, 0, text));
                } else {
                    let mut queue = Queue::<SEAL>::new(begin_running(room, poly), text);
                    queue.apply(&sets, 0);
                    queue.end(poly);
                }
            });
        }

        /// A message of `COUNT` sets, whose first block makes the one-time key; `poly` ends without
        /// the last block, if that is not whole.
        #[inline]
        #[$features]
        fn behind_key<const COUNT: usize, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            let Message { key, nonce, aad, text, .. } = message;
            with_tag::<SEAL>(message, poly, |poly| {
                if COUNT <= 3 {
                    let sets = key_stream::<COUNT>(key, nonce, 0);
                    begin_first(poly, sets[0]);
                    let apply = || apply(&sets, BLOCK_BYTES, text);
                    if COUNT == 1 {
                        poly.absorb_inline(aad);
                        one_turn::<SEAL>(text, poly, Poly1305::absorb_inline, apply);
                    } else {
                        authenticate(room, poly, aad);
                        let absorb = |poly: &mut _, bytes: &_| authenticate(room, poly, bytes);
                        one_turn::<SEAL>(text, poly, absorb, apply);
                    }
                    return;
                }
                if SEAL {
                    begin_opened(room, poly, seal_opening::<COUNT, false>(key, nonce, text), aad);
                    text.with_target(|bytes| authenticate(room, poly, whole_blocks(bytes)));
                } else {
                    let sets = opening::<COUNT, false, false>(key, nonce);
                    begin_opened(room, poly, first_block(sets[0]), aad);
                    text.with_source(|bytes| authenticate(room, poly, whole_blocks(bytes)));
                    apply(&sets, BLOCK_BYTES, text);
                }
            });
        }

        /// A message that is longer than its opening of `COUNT` sets.
        #[inline]
        #[$features]
        fn long<const COUNT: usize, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            let Message { key, nonce, aad, text, .. } = message;
            with_tag::<SEAL>(message, poly, |poly| {
                let mut queue = if COUNT <= 3 {
                    let sets = key_stream::<COUNT>(key, nonce, 0);
                    begin_opened(room, poly, first_block(sets[0]), aad);
                    let mut queue = Queue::new(begin_running(room, poly), text);
                    queue.apply(&sets, BLOCK_BYTES);
                    queue
                } else if SEAL {
                    let (first, _) = text.split_at(COUNT * SET_BYTES - BLOCK_BYTES);
                    begin_opened(room, poly, seal_opening::<COUNT, true>(key, nonce, first), aad);
                    let mut queue = Queue::new(begin_running(room, poly), text);
                    queue.done = first.len();
                    queue
                } else {
                    open_opening::<COUNT, SEAL>(room, key, nonce, aad, text, poly)
                };
                rest(key, nonce, 1, &mut queue);
                queue.end(poly);
            });
        }

        /// Decrypts what an opening of `COUNT` sets has of a longer text. Not inlined: its key
        /// stream is gone from the stack before there is more.
        #[inline(never)]
        #[$features]
        fn open_opening<'a, const COUNT: usize, const SEAL: bool>(
            room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            aad: &[u8],
            text: Text<'a>,
            poly: &mut Poly1305,
        ) -> Queue<'a, SEAL> {
            let sets = opening::<COUNT, false, true>(key, nonce);
            begin_opened(room, poly, first_block(sets[0]), aad);
            let mut queue = Queue::new(begin_running(room, poly), text);
            queue.apply(&sets, BLOCK_BYTES);
            queue
        }

        /// A message of a chunk beside the block of the one-time key, or a longer one (`LONG`);
        /// `poly` ends without the last block, if that is not whole.
        #[inline]
        #[$features]
        fn beside_chunk<const LONG: bool, const SEAL: bool>(
            room: $token,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            let Message { key, nonce, aad, text, .. } = message;
            with_tag::<SEAL>(message, poly, |poly| {
                let mut sets = [[splat(0); 4]; SETS];
                let block = chunk_after_key(key, nonce, &mut sets);
                begin_with(room, poly, &block, aad);
                if LONG {
                    let mut queue = Queue::<SEAL>::new(begin_running(room, poly), text);
                    queue.apply(&sets, 0);
                    rest(key, nonce, 1, &mut queue);
                    queue.end(poly);
                } else {
                    let absorb = |poly: &mut _, bytes: &_| authenticate(room, poly, bytes);
                    one_turn::<SEAL>(text, poly, absorb, || apply(&sets, 0, text));
                }
            });
        }

        /// A chunk of key stream from block 1 on, and the block before, which is made in general
        /// registers meanwhile. Not inlined: what it has on the stack is gone before more is there.
        #[inline(never)]
        #[$features]
        fn chunk_after_key(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            sets: &mut [Set; SETS],
        ) -> [u64; BLOCK_BYTES / 8] {
            let before = Single::new(key, nonce, 0);
            let rotations = Rotations::here();
            let (mut block, mut words) = (before, words_before(key, nonce, 1));
            for _ in 0..DOUBLE_ROUNDS {
                double_round_of_words(&mut words, &rotations);
                block.double_round();
            }
            *sets = words_after(&words, &words_before(key, nonce, 1));
            block.after_rounds(&before)
        }

        /// Key stream from block 1 on, while the block before makes the one-time key and the AAD is
        /// authenticated.
        #[inline]
        #[$features]
        fn key_stream_after_key<const COUNT: usize>(
            room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            aad: &[u8],
            poly: &mut Poly1305,
        ) -> [Set; COUNT] {
            let before = before_rounds::<COUNT>(key, nonce, 1);
            let rotations = Rotations::here();
            let mut states = before;
            begin_beside(room, key, nonce, aad, &mut states, poly);
            for _ in BESIDE_KEY..DOUBLE_ROUNDS {
                double_round(&mut states, &rotations);
            }
            after_rounds(states, &before)
        }

        /// Takes sets of blocks through the first double rounds and makes the one-time key in
        /// general registers beside; then begins the authenticator, with the AAD.
        #[inline]
        #[$features]
        fn begin_beside<const COUNT: usize>(
            room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            aad: &[u8],
            states: &mut [Set; COUNT],
            poly: &mut Poly1305,
        ) {
            let before = Single::new(key, nonce, 0);
            let rotations = Rotations::here();
            let mut block = before;
            for _ in 0..BESIDE_KEY / 2 {
                double_round(states, &rotations);
                block.double_round();
                block.double_round();
                double_round(states, &rotations);
                block.double_round();
            }
            block.double_round();
            begin_with(room, poly, &block.after_rounds(&before), aad);
        }

        /// Begins an authenticator whose key is in general registers, with the AAD.
        #[inline]
        #[$features]
        fn begin_with(
            room: $token,
            poly: &mut Poly1305,
            block: &[u64; BLOCK_BYTES / 8],
            aad: &[u8],
        ) {
            let [r0, r1, s0, s1, ..] = *block;
            poly.begin_words([r0, r1, s0, s1]);
            if aad.len() <= TAG_BYTES {
                poly.absorb_block(aad);
            } else {
                absorb(room, poly, aad);
            }
        }

        /// Has a message encrypted or decrypted, and authenticated but for a last block that is not
        /// whole, and stores its tag.
        #[inline]
        #[$features]
        fn with_tag<const SEAL: bool>(
            message: Message<'_>,
            poly: &mut Poly1305,
            crypt: impl FnOnce(&mut Poly1305),
        ) {
            let Message { aad, text, tag, .. } = message;
            let (mut last, end) = ([0; BLOCK_BYTES], last_block(text));
            if !SEAL && !end.is_empty() {
                end.with_source(|bytes| last[..bytes.len()].copy_from_slice(bytes));
            }
            crypt(poly);
            let close = |last: &[u8]| close(poly, last, aad.len() as u64, text.len() as u64);
            *tag = if SEAL { end.with_target(close) } else { close(&last[..end.len()]) };
        }

        /// Has a text encrypted or decrypted by `crypt`, and its whole blocks authenticated by
        /// `absorb`.
        #[inline]
        #[$features]
        fn one_turn<const SEAL: bool>(
            text: Text<'_>,
            poly: &mut Poly1305,
            absorb: impl Fn(&mut Poly1305, &[u8]),
            crypt: impl FnOnce(),
        ) {
            if !SEAL {
                text.with_source(|bytes| absorb(poly, whole_blocks(bytes)));
            }
            crypt();
            if SEAL {
                text.with_target(|bytes| absorb(poly, whole_blocks(bytes)));
            }
        }

        /// Begins an authenticator whose key is the first block of an opening, with the AAD.
        #[inline]
        #[$features]
        fn begin_opened(
            room: $token,
            poly: &mut Poly1305,
            block: [u8; BLOCK_BYTES],
            aad: &[u8],
        ) {
            begin_block(poly, block);
            authenticate(room, poly, aad);
        }

        /// Begins an authenticator whose key is the first block of a set.
        #[inline]
        #[$features]
        fn begin_first(poly: &mut Poly1305, set: Set) {
            begin_block(poly, first_block(set));
        }

        /// Begins an authenticator whose key is a block of key stream.
        #[inline]
        #[$features]
        fn begin_block(poly: &mut Poly1305, block: [u8; BLOCK_BYTES]) {
            let mut block = block;
            poly.begin(&block);
            wipe(&mut block);
        }

        /// A piece of a message, from block `counter` on.
        #[inline]
        #[$features]
        fn pieces<const SEAL: bool>(
            room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            if text.len() > 2 * SET_BYTES {
                let mut queue = Queue::<SEAL>::new(begin_running(room, poly), text);
                rest(key, nonce, counter, &mut queue);
                queue.end(poly);
                return;
            }
            if !SEAL {
                text.with_source(|bytes| authenticate(room, poly, bytes));
            }
            if text.len() > SET_BYTES {
                apply(&key_stream::<2>(key, nonce, counter), 0, text);
            } else if !text.is_empty() {
                apply(&key_stream::<1>(key, nonce, counter), 0, text);
            }
            if SEAL {
                text.with_target(|bytes| authenticate(room, poly, bytes));
            }
        }

        /// The rest of a text, one chunk of which is encrypted while another one is authenticated:
        /// when sealing the chunk before, when opening the same one. A last block that is not whole
        /// is not authenticated. The text begins with block `counter`.
        #[inline]
        #[$features]
        fn rest<const SEAL: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            queue: &mut Queue<'_, SEAL>,
        ) {
            while queue.done < queue.text.len() {
                let start = queue.done;
                let bytes = (queue.text.len() - start).min(CHUNK_BYTES);
                let counter = counter.wrapping_add((start / BLOCK_BYTES) as u32);
                if queue.is_next_whole(bytes) {
                    queue.turn_of_chunk(key, nonce, counter);
                } else {
                    queue.turn_of_part(key, nonce, counter, bytes);
                }
            }
        }

        /// The groups of a text that are still to be authenticated. The first one has as many
        /// blocks as it takes to make the others whole.
        struct Queue<'a, const SEAL: bool> {
            text: Text<'a>,
            running: Running,
            /// Bytes that are encrypted or decrypted.
            done: usize,
            first_bytes: usize,
            /// Where the next group begins.
            next: usize,
            /// Where the last one ends.
            end: usize,
        }

        impl<'a, const SEAL: bool> Queue<'a, SEAL> {
            #[inline]
            #[$features]
            fn new(running: Running, text: Text<'a>) -> Self {
                let end = text.len() - text.len() % BLOCK_BYTES;
                let first_bytes = first_blocks(end / TAG_BYTES) * TAG_BYTES;
                Queue { text, running, done: 0, first_bytes, next: 0, end }
            }

            /// Encrypts or decrypts what comes first with a key stream that is there, from byte
            /// `skip` on.
            #[inline]
            #[$features]
            fn apply<const COUNT: usize>(&mut self, sets: &[Set; COUNT], skip: usize) {
                let bytes = self.text.len().min(COUNT * SET_BYTES - skip);
                self.absorb(if SEAL { 0 } else { bytes });
                apply(sets, skip, self.text.split_at(bytes).0);
                self.done = bytes;
            }

            /// Encrypts or decrypts the next bytes with what `stream` makes, which authenticates
            /// meanwhile.
            #[inline]
            #[$features]
            fn turn<const COUNT: usize>(
                &mut self,
                bytes: usize,
                stream: impl FnOnce(&mut Running, &[[u8; GROUP_BYTES]]) -> [Set; COUNT],
            ) {
                let start = self.done;
                self.done += bytes;
                let ready = self.ready(if SEAL { start } else { self.done });
                let running = &mut self.running;
                let beside = |bytes: &[u8]| stream(running, bytes[ready].as_chunks().0);
                let sets = self.text.with_ciphertext::<SEAL, _>(beside);
                let (_, rest) = self.text.split_at(start);
                apply(&sets, 0, rest.split_at(bytes).0);
            }

            /// Encrypts or decrypts a chunk, without a key stream in memory: what is stored there
            /// would be waited for by loads from the text that have the same place in a page.
            #[inline(never)]
            #[$features]
            fn turn_of_chunk(&mut self, key: &Key, nonce: &[u8; NONCE_BYTES], counter: u32) {
                let start = self.done;
                self.done += CHUNK_BYTES;
                let ready = self.ready(if SEAL { start } else { self.done });
                let (_, rest) = self.text.split_at(start);
                let chunk = rest.split_at(CHUNK_BYTES).0;
                let running = &mut self.running;
                crypt_chunk::<SEAL>(key, nonce, counter, chunk, self.text, running, ready);
            }

            /// Whether the next bytes are a chunk that goes by `turn_of_chunk`: where registers are
            /// few, beside no less than a chunk of groups.
            #[inline]
            #[$features]
            fn is_next_whole(&self, bytes: usize) -> bool {
                let end = if SEAL { self.done } else { self.done + CHUNK_BYTES };
                bytes == CHUNK_BYTES
                    && (!FEW_REGISTERS || self.groups(end) * GROUP_BYTES >= CHUNK_BYTES)
            }

            /// Encrypts or decrypts what is less than a whole chunk, or goes beside less. Not
            /// inlined: its key stream is on the stack, but not beside what a chunk has there.
            #[inline(never)]
            #[$features]
            fn turn_of_part(
                &mut self,
                key: &Key,
                nonce: &[u8; NONCE_BYTES],
                counter: u32,
                bytes: usize,
            ) {
                match bytes.div_ceil(SET_BYTES) {
                    1 => self.turn(bytes, |running, groups| {
                        key_stream_beside::<1>(key, nonce, counter, running, groups)
                    }),
                    2 => self.turn(bytes, |running, groups| {
                        key_stream_beside::<2>(key, nonce, counter, running, groups)
                    }),
                    _ => self.turn(bytes, |running, groups| {
                        chunk_beside::<SEAL, false>(key, nonce, counter, running, groups)
                    }),
                }
            }

            /// Authenticates what is left.
            #[inline]
            #[$features]
            fn end(&mut self, poly: &mut Poly1305) {
                self.absorb(self.done);
                end_running(&self.running, poly);
            }

            /// Authenticates what is ready when so much ciphertext is there.
            #[inline]
            #[$features]
            fn absorb(&mut self, end: usize) {
                let ready = self.ready(end);
                let running = &mut self.running;
                self.text.with_ciphertext::<SEAL, _>(|bytes| {
                    absorb_groups(running, bytes[ready].as_chunks().0);
                });
            }

            /// Takes the groups up to `end` out of the queue.
            #[inline]
            #[$features]
            fn ready(&mut self, end: usize) -> Range<usize> {
                if self.next == 0 && end >= self.first_bytes {
                    let (running, first_bytes) = (&mut self.running, self.first_bytes);
                    self.text.with_ciphertext::<SEAL, _>(|bytes| {
                        absorb_first(running, &bytes[..first_bytes]);
                    });
                    self.next = first_bytes;
                }
                let start = self.next;
                self.next += self.groups(end) * GROUP_BYTES;
                start..self.next
            }

            /// Groups up to `end`, but for the first one: those that have all their bytes when
            /// sealing, and when opening all that have one.
            #[inline]
            #[$features]
            fn groups(&self, end: usize) -> usize {
                let bytes = end.min(self.end).saturating_sub(self.next.max(self.first_bytes));
                if SEAL { bytes / GROUP_BYTES } else { bytes.div_ceil(GROUP_BYTES) }
            }
        }

        /// Blocks of the first group of a text, so that the others are whole.
        #[inline]
        fn first_blocks(blocks: usize) -> usize {
            (blocks - 1) % GROUP_BLOCKS + 1
        }

        /// Encrypts what an opening of `COUNT` sets has behind its first block, and returns that
        /// block. The key stream stays in registers; `LONG` identifies the caller, which has code
        /// of its own.
        #[inline]
        #[$features]
        fn seal_opening<const COUNT: usize, const LONG: bool>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            text: Text<'_>,
        ) -> [u8; BLOCK_BYTES] {
            let sets = opening::<COUNT, true, LONG>(key, nonce);
            let block = first_block(sets[0]);
            each_set!(INDEX => if let Some(set) = sets.get(INDEX) {
                for (place, row) in set.iter().enumerate() {
                    let offset = INDEX * SET_BYTES + place * ROW_BYTES;
                    if offset >= BLOCK_BYTES {
                        apply_row(text, offset - BLOCK_BYTES, *row);
                    }
                }
            });
            block
        }

        /// Adds a key stream, from byte `skip` on, to a text that is no longer.
        #[inline]
        #[$features]
        fn apply<const COUNT: usize>(sets: &[Set; COUNT], skip: usize, text: Text<'_>) {
            let (_, rows) = sets.as_flattened().split_at(skip / ROW_BYTES);
            let (whole, rest) = rows.split_at(text.len() / ROW_BYTES);
            for (index, row) in whole.iter().enumerate() {
                let offset = index * ROW_BYTES;
                store(text, offset, add_bits(load(text, offset), *row));
            }
            if let ([row, ..], bytes @ 1..) = (rest, text.len() % ROW_BYTES) {
                add_part(text, whole.len() * ROW_BYTES, bytes, *row);
            }
        }

        /// Adds a row, or as much of it as there is text.
        #[inline]
        #[$features]
        fn apply_row(text: Text<'_>, offset: usize, row: Row) {
            let bytes = text.len().saturating_sub(offset);
            if bytes >= ROW_BYTES {
                store(text, offset, add_bits(load(text, offset), row));
            } else if bytes > 0 {
                add_part(text, offset, bytes, row);
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
            let before = before_rounds::<COUNT>(key, nonce, counter);
            let rotations = Rotations::here();
            let mut states = before;
            for _ in 0..DOUBLE_ROUNDS {
                double_round(&mut states, &rotations);
            }
            after_rounds(states, &before)
        }

        /// Blocks of the key stream, while groups are authenticated.
        #[inline]
        #[$features]
        fn key_stream_beside<const COUNT: usize>(
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            running: &mut Running,
            groups: &[[u8; GROUP_BYTES]],
        ) -> [Set; COUNT] {
            let before = before_rounds::<COUNT>(key, nonce, counter);
            let rotations = Rotations::here();
            let mut states = before;
            let mut pace = Pace::new(groups);
            for _ in 0..DOUBLE_ROUNDS {
                double_round(&mut states, &rotations);
                absorb_groups(running, pace.due());
            }
            after_rounds(states, &before)
        }

        /// Sets of blocks from `counter` on before their rounds.
        #[inline]
        #[$features]
        fn before_rounds<const COUNT: usize>(
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
            states
        }

        /// Adds what was there before the rounds, and brings bytes into their order.
        #[inline]
        #[$features]
        fn after_rounds<const COUNT: usize>(
            states: [Set; COUNT],
            before: &[Set; COUNT],
        ) -> [Set; COUNT] {
            let mut states = states;
            for (state, before) in states.iter_mut().zip(before) {
                for (row, before) in state.iter_mut().zip(before) {
                    *row = add(*row, *before);
                }
                *state = in_order(*state);
            }
            states
        }

        /// A round on the columns of all blocks, and one on their diagonals.
        #[inline]
        #[$features]
        fn double_round<const COUNT: usize>(states: &mut [Set; COUNT], rotations: &Rotations) {
            // Row b is what a quarter round ends and begins with: the others are turned against it.
            quarter_rounds(states, rotations, || ());
            for [a, _, c, d] in &mut *states {
                (*a, *c, *d) = (turn::<0x93>(*a), turn::<0x39>(*c), turn::<0x4e>(*d));
            }
            quarter_rounds(states, rotations, || ());
            for [a, _, c, d] in &mut *states {
                (*a, *c, *d) = (turn::<0x39>(*a), turn::<0x93>(*c), turn::<0x4e>(*d));
            }
        }

        /// A quarter round on the columns of all blocks, with something else halfway.
        #[inline]
        #[$features]
        fn quarter_rounds<const COUNT: usize>(
            states: &mut [Set; COUNT],
            rotations: &Rotations,
            halfway: impl FnOnce(),
        ) {
            for [a, b, _, d] in &mut *states {
                *a = add(*a, *b);
                *d = rotations.by_16(add_bits(*d, *a));
            }
            for [_, b, c, d] in &mut *states {
                *c = add(*c, *d);
                *b = rotations.by_12(add_bits(*b, *c));
            }
            halfway();
            for [a, b, _, d] in &mut *states {
                *a = add(*a, *b);
                *d = rotations.by_8(add_bits(*d, *a));
            }
            for [_, b, c, d] in &mut *states {
                *c = add(*c, *d);
                *b = rotations.by_7(add_bits(*b, *c));
            }
        }
    };
}
