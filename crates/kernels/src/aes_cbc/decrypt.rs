//! Decryption, written once for the rooms with AES instructions: rows of `BLOCKS` blocks, `ROWS` of
//! them at a time, since no block waits for another one. It is text for the reason that
//! `aes_gcm/engine.rs` has.
#![allow(unsafe_code, reason = "text of rooms: their doors, loads and stores")]

/// Defines decryption, and the doors to what is done block by block: see the module.
macro_rules! cbc_doors {
    ($token:ty, #[$features:meta]) => {
        const ROW_BYTES: usize = BLOCKS * BLOCK_BYTES;
        /// Words of stack that are cleared behind less than a row.
        const REST_STACK: usize = 48;

        /// Expands a key into `made`.
        pub fn expand(_room: $token, key: KeyBytes<'_>, made: &mut Key) {
            #[$features]
            fn body(key: KeyBytes<'_>, made: &mut Key) {
                chain::expand(key, made);
                wipe_registers();
            }
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { body(key, made) }
        }

        /// Encrypts whole blocks behind the block `last`, and leaves the last one there.
        pub fn encrypt(_room: $token, key: &Key, last: &mut Block, text: Text<'_>) {
            #[$features]
            fn body(key: &Key, last: &mut Block, text: Text<'_>) {
                chain::encrypt(key, last, text);
                wipe_registers();
            }
            // SAFETY: as above.
            unsafe { body(key, last, text) }
        }

        /// Decrypts whole blocks behind the block `last`, and leaves the last one there.
        pub fn decrypt(_room: $token, key: &Key, last: &mut Block, text: Text<'_>) {
            let rest = text.len() % ROW_BYTES;
            // SAFETY: as above.
            unsafe { decrypt_body(key, last, text) }
            if rest > 0 {
                // What is less than a row was decrypted there.
                wipe_stack::<REST_STACK>();
            }
        }

        #[inline(never)]
        #[$features]
        fn decrypt_body(key: &Key, last: &mut Block, text: Text<'_>) {
            let (mut before, mut text) = (first_row(last), text);
            while text.len() >= ROWS * ROW_BYTES {
                let (chunk, rest) = text.split_at(ROWS * ROW_BYTES);
                before = rows::<ROWS>(key, before, chunk);
                text = rest;
            }
            while text.len() >= ROW_BYTES {
                let (chunk, rest) = text.split_at(ROW_BYTES);
                before = rows::<1>(key, before, chunk);
                text = rest;
            }
            *last = last_block(before);
            rest(key, last, text);
            wipe_registers();
        }

        /// What is less than a row.
        #[inline]
        #[$features]
        fn rest(key: &Key, last: &mut Block, text: Text<'_>) {
            debug_assert!(BLOCKS > 1 || text.is_empty(), "texts are whole blocks");
            let bytes = text.len() / BLOCK_BYTES * BLOCK_BYTES;
            if bytes == 0 {
                return;
            }
            text.map(|blocks: &mut [u8; ROW_BYTES]| {
                let ciphertext = *blocks;
                rows::<1>(key, first_row(last), Text::in_place(blocks));
                last.copy_from_slice(&ciphertext[bytes - BLOCK_BYTES..bytes]);
            });
        }

        /// Decrypts some rows, and returns the last row of ciphertext.
        #[inline]
        #[$features]
        fn rows<const COUNT: usize>(key: &Key, before: Row, text: Text<'_>) -> Row {
            let keys = &key.decrypt[..=key.rounds];
            let (first, inner) = keys.split_first().expect("keys");
            let (last, inner) = inner.split_last().expect("keys");
            let mut before = before;
            let mut states = [before; COUNT];
            let mut masks = [before; COUNT];
            for (index, (state, mask)) in states.iter_mut().zip(&mut masks).enumerate() {
                let row = load(text, index * ROW_BYTES);
                *mask = behind(before, row);
                *state = add(row, broadcast(first));
                before = row;
            }
            for round_key in inner {
                let round_key = broadcast(round_key);
                for state in &mut states {
                    *state = decrypt_round(*state, round_key);
                }
            }
            let round_key = broadcast(last);
            for (index, (state, mask)) in states.iter().zip(&masks).enumerate() {
                store(text, index * ROW_BYTES, decrypt_last(*state, add(round_key, *mask)));
            }
            before
        }
    };
}
