//! The rounds of ChaCha20 on rows, which do all blocks of some sets side by side.

use super::rows::{Row, Set, Steps};
use super::{CONSTANTS, Key, NONCE_BYTES, last_words};

/// Sets of blocks from `counter` on before their rounds.
#[inline(always)]
pub(super) fn before_rounds<R: Row, const COUNT: usize>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
) -> [Set<R>; COUNT] {
    let a = R::broadcast(room, &CONSTANTS);
    let b = R::broadcast(room, &key.words[0]);
    let c = R::broadcast(room, &key.words[1]);
    let d = R::broadcast(room, &last_words(counter, nonce)).count_blocks();
    let mut states = [[a, b, c, d]; COUNT];
    for (index, state) in states.iter_mut().enumerate() {
        state[3] = state[3].count((index * R::BLOCKS) as u32);
    }
    states
}

/// Adds what was there before the rounds, and brings bytes into their order.
#[inline(always)]
pub(super) fn after_rounds<R: Row, const COUNT: usize>(
    states: [Set<R>; COUNT],
    before: &[Set<R>; COUNT],
) -> [Set<R>; COUNT] {
    let mut states = states;
    for (state, before) in states.iter_mut().zip(before) {
        for (row, before) in state.iter_mut().zip(before) {
            *row = row.add(*before);
        }
        *state = R::in_order(*state);
    }
    states
}

/// A round on the columns of all blocks, and one on their diagonals.
#[inline(always)]
pub(super) fn double_round<const COUNT: usize, R: Steps>(
    states: &mut [Set<R>; COUNT],
    rotations: &R::Rotations,
) {
    // Row b is what a quarter round ends and begins with: the others are turned against it.
    half_of_quarter_rounds::<16, 12, COUNT, R>(states, rotations);
    half_of_quarter_rounds::<8, 7, COUNT, R>(states, rotations);
    for [a, _, c, d] in &mut *states {
        (*a, *c, *d) = (a.turn::<0x93>(), c.turn::<0x39>(), d.turn::<0x4e>());
    }
    half_of_quarter_rounds::<16, 12, COUNT, R>(states, rotations);
    half_of_quarter_rounds::<8, 7, COUNT, R>(states, rotations);
    for [a, _, c, d] in &mut *states {
        (*a, *c, *d) = (a.turn::<0x39>(), c.turn::<0x93>(), d.turn::<0x4e>());
    }
}

/// Half of a quarter round on the columns of all blocks: with the rotations of the first, or of the
/// second.
#[inline(always)]
pub(super) fn half_of_quarter_rounds<const D: i32, const B: i32, const COUNT: usize, R: Steps>(
    states: &mut [Set<R>; COUNT],
    rotations: &R::Rotations,
) {
    for [a, b, _, d] in &mut *states {
        *a = a.add(*b);
        *d = d.xor(*a).rotate::<D>(rotations);
    }
    for [_, b, c, d] in &mut *states {
        *c = c.add(*d);
        *b = b.xor(*c).rotate::<B>(rotations);
    }
}
