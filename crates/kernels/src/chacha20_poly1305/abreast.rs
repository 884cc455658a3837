//! Many messages at once, for the rooms of chacha20_poly1305: short ones side by side.
#![allow(unsafe_code, reason = "text of rooms: their doors")]

/// Defines how a room seals many messages.
///
/// Twenty rounds of one set take as long as those of four, since each step waits for the one in
/// front: short messages share that time.
macro_rules! abreast {
    ($token:ty, #[$features:meta]) => {
        /// Short messages that are sealed side by side.
        const ABREAST: usize = 4;

        /// Seals messages, short ones side by side.
        pub fn seal_many<'a>(room: $token, messages: impl Iterator<Item = Message<'a>>) {
            let mut waiting = [const { None }; ABREAST];
            let mut count = 0;
            for message in messages {
                if !is_of_one_set(&message) {
                    seal(room, message);
                    continue;
                }
                waiting[count] = Some(message);
                count += 1;
                if count == ABREAST {
                    // SAFETY: the token exists only if every feature of its room was detected.
                    unsafe { abreast_body(&mut waiting) }
                    wipe_stack::<LONG_STACK_OF_ROOM>();
                    count = 0;
                }
            }
            waiting.into_iter().flatten().for_each(|message| seal(room, message));
        }

        /// Seals the messages and takes them away.
        #[$features]
        fn abreast_body(messages: &mut [Option<Message<'_>>; ABREAST]) {
            let mut before = [[splat(0); 4]; ABREAST];
            for (set, message) in before.iter_mut().zip(messages.iter().flatten()) {
                [*set] = before_rounds::<1>(message.key, message.nonce, 0);
            }
            let rotations = Rotations::here();
            let mut states = before;
            for _ in 0..DOUBLE_ROUNDS {
                double_round(&mut states, &rotations);
            }
            let sets = after_rounds(states, &before);
            for (set, message) in sets.into_iter().zip(messages) {
                let message = message.take().expect("as many messages as go abreast");
                after_stream(set, message);
            }
            wipe_registers();
        }

        /// Whether one set is key stream enough, and the AAD is a block.
        fn is_of_one_set(message: &Message<'_>) -> bool {
            message.text.len() + BLOCK_BYTES <= SET_BYTES && message.aad.len() <= TAG_BYTES
        }

        /// Seals a message whose key stream is there, with the block of the one-time key in front.
        #[inline]
        #[$features]
        fn after_stream(set: Set, message: Message<'_>) {
            let Message { aad, text, .. } = message;
            with_tag::<true>(message, &mut Poly1305::default(), |poly| {
                begin_first(poly, set);
                poly.absorb(aad);
                apply(&[set], BLOCK_BYTES, text);
                text.with_target(|bytes| poly.absorb(whole_blocks(bytes)));
            });
        }
    };
}
