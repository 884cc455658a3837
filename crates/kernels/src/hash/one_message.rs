//! What the rooms shani of all hashes have in common: the text of their door.

/// Defines the door of a room with the SHA extensions: its `State` takes block after block.
macro_rules! one_message {
    () => {
        /// Adds blocks to the state of one message.
        pub fn compress(
            _room: Shani,
            state: &mut [u32; STATE_WORDS],
            blocks: &[[u8; BLOCK_BYTES]],
        ) {
            // SAFETY: the token exists only if every feature of its room was detected.
            unsafe { compress_body(state, blocks) }
        }

        #[target_feature(enable = "sha,aes,avx")]
        fn compress_body(state: &mut [u32; STATE_WORDS], blocks: &[[u8; BLOCK_BYTES]]) {
            let mut registers = State::load(state);
            for block in blocks {
                registers.add(block);
            }
            registers.store(state);
            wipe_ymm_registers();
        }
    };
}
pub(crate) use one_message;
