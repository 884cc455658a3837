//! Many messages at once, for the rooms of chacha20_poly1305: short ones side by side.
//!
//! Twenty rounds of one set take as long as those of four, since each step waits for the one in
//! front: short messages share that time.

use super::engine::{Engine, apply, begin_block, wipe_stack_of};
use super::rounds::{after_rounds, before_rounds, double_round};
use super::rows::Set;
use super::{
    BLOCK_BYTES, DOUBLE_ROUNDS, LONG_STACK, Message, NARROW_LONG_STACK, Poly1305, TAG_BYTES, close,
    last_block, whole_blocks,
};
use crate::registers::Task;

/// Short messages that are sealed side by side.
pub(super) const ABREAST: usize = 4;

/// Seals messages, by the functions of a room that seal one, and several side by side.
#[inline(always)]
pub(super) fn seal_many<'a, R: Engine>(
    room: R::Room,
    messages: impl Iterator<Item = Message<'a>>,
    seal: impl Fn(R::Room, Message<'_>),
    seal_abreast: impl Fn(R::Room, &mut [Option<Message<'_>>; ABREAST]),
) {
    let mut waiting = [const { None }; ABREAST];
    let mut count = 0;
    for message in messages {
        if !is_of_one_set::<R>(&message) {
            seal(room, message);
            continue;
        }
        waiting[count] = Some(message);
        count += 1;
        if count == ABREAST {
            seal_abreast(room, &mut waiting);
            count = 0;
        }
    }
    waiting.into_iter().flatten().for_each(|message| seal(room, message));
}

/// Seals the messages side by side and takes them away.
#[inline(always)]
pub(super) fn seal_abreast<R: Engine>(
    room: R::Room,
    messages: &mut [Option<Message<'_>>; ABREAST],
) {
    R::call(room, Abreast(messages));
    wipe_stack_of::<R, LONG_STACK, LONG_STACK, NARROW_LONG_STACK>();
}

/// Whether one set is key stream enough, and the AAD is a block.
fn is_of_one_set<R: Engine>(message: &Message<'_>) -> bool {
    message.text.len() + BLOCK_BYTES <= R::SET_BYTES && message.aad.len() <= TAG_BYTES
}

struct Abreast<'a, 'm>(&'a mut [Option<Message<'m>>; ABREAST]);

impl<R: Engine> Task<R> for Abreast<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        let mut before = [[R::splat(room, 0); 4]; ABREAST];
        for (set, message) in before.iter_mut().zip(self.0.iter().flatten()) {
            [*set] = before_rounds::<R, 1>(room, message.key, message.nonce, 0);
        }
        let rotations = R::rotations();
        let mut states = before;
        for _ in 0..DOUBLE_ROUNDS {
            double_round(&mut states, &rotations);
        }
        let sets = after_rounds(states, &before);
        for (set, message) in sets.iter().zip(self.0) {
            after_stream(*set, message.take().expect("as many messages as go abreast"));
        }
        R::wipe_registers(room);
    }
}

/// Seals a message whose key stream is there, with the block of the one-time key in front.
#[inline(always)]
fn after_stream<R: Engine>(set: Set<R>, message: Message<'_>) {
    let Message { aad, text, tag, .. } = message;
    let mut poly = Poly1305::default();
    begin_block(&mut poly, R::first_block(set));
    poly.absorb(aad);
    apply(&[set], BLOCK_BYTES, text);
    poly.absorb(whole_blocks(text.ciphertext::<true>()));
    let last = last_block(text);
    *tag = close(&poly, last.ciphertext::<true>(), aad.len() as u64, text.len() as u64);
}
