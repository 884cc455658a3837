//! Key stream for texts of some length, for the rooms of chacha20_poly1305: a word of many blocks
//! in each register.
//!
//! This spares the turning of rows and wants a transposition in the end.

use super::poly1305_lanes::{self, BlockLanes};
use super::rounds::{after_rounds, before_rounds, double_round, half_of_quarter_rounds};
use super::rows::{Row, SETS, Set, Steps};
use super::{CONSTANTS, DOUBLE_ROUNDS, Key, NONCE_BYTES, last_words};

/// One word of each block of a chunk.
pub(super) type Words<R> = [R; 16];

#[inline(always)]
pub(super) fn words_before<R: Steps>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
) -> Words<R> {
    let [lower, upper] = &key.words;
    let [counter, n0, n1, n2] = last_words(counter, nonce);
    [
        R::splat(room, CONSTANTS[0]),
        R::splat(room, CONSTANTS[1]),
        R::splat(room, CONSTANTS[2]),
        R::splat(room, CONSTANTS[3]),
        R::splat_from::<0>(room, lower),
        R::splat_from::<1>(room, lower),
        R::splat_from::<2>(room, lower),
        R::splat_from::<3>(room, lower),
        R::splat_from::<0>(room, upper),
        R::splat_from::<1>(room, upper),
        R::splat_from::<2>(room, upper),
        R::splat_from::<3>(room, upper),
        R::splat(room, counter).add(R::numbers(room)),
        R::splat(room, n0),
        R::splat(room, n1),
        R::splat(room, n2),
    ]
}

/// A round on the columns of all blocks, and one on their diagonals.
#[inline(always)]
pub(super) fn double_round_of_words<R: Steps>(words: &mut Words<R>, rotations: &R::Rotations) {
    columns_of_words(words, rotations);
    diagonals_of_words(words, rotations);
}

/// A round on the columns of all blocks.
#[inline(always)]
fn columns_of_words<R: Steps>(words: &mut Words<R>, rotations: &R::Rotations) {
    half_of_columns::<16, 12, R>(words, rotations);
    half_of_columns::<8, 7, R>(words, rotations);
}

/// A round on their diagonals.
#[inline(always)]
fn diagonals_of_words<R: Steps>(words: &mut Words<R>, rotations: &R::Rotations) {
    half_of_diagonals::<16, 12, R>(words, rotations);
    half_of_diagonals::<8, 7, R>(words, rotations);
}

/// Half of a round on the columns of all blocks.
#[inline(always)]
pub(super) fn half_of_columns<const D: i32, const B: i32, R: Steps>(
    words: &mut Words<R>,
    rotations: &R::Rotations,
) {
    let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *words;
    let mut columns = [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]];
    half_of_quarter_rounds::<D, B, 4, R>(&mut columns, rotations);
    let [[a0, b0, c0, d0], [a1, b1, c1, d1], [a2, b2, c2, d2], [a3, b3, c3, d3]] = columns;
    *words = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
}

/// Half of a round on their diagonals.
#[inline(always)]
pub(super) fn half_of_diagonals<const D: i32, const B: i32, R: Steps>(
    words: &mut Words<R>,
    rotations: &R::Rotations,
) {
    let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = *words;
    let mut diagonals = [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]];
    half_of_quarter_rounds::<D, B, 4, R>(&mut diagonals, rotations);
    let [[a0, b1, c2, d3], [a1, b2, c3, d0], [a2, b3, c0, d1], [a3, b0, c1, d2]] = diagonals;
    *words = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
}

/// Four words of all blocks, with what was there before the rounds: a row of some blocks in each
/// register.
#[inline(always)]
fn quarter_after<R: Row>(words: &Words<R>, before: &Words<R>, index: usize) -> Set<R> {
    let mut quarter = [words[0]; 4];
    for (place, row) in quarter.iter_mut().enumerate() {
        *row = words[4 * index + place].add(before[4 * index + place]);
    }
    R::transpose(quarter)
}

/// Adds what was there before the rounds, and brings bytes into their order.
#[inline(always)]
pub(super) fn words_after<R: Row>(words: &Words<R>, before: &Words<R>) -> [Set<R>; SETS] {
    let mut quarters = [[words[0]; 4]; 4];
    for (index, quarter) in quarters.iter_mut().enumerate() {
        *quarter = quarter_after(words, before, index);
    }
    sets_of(quarters)
}

/// Brings the rows of the blocks into their order.
#[inline(always)]
fn sets_of<R: Row>(quarters: [Set<R>; 4]) -> [Set<R>; SETS] {
    let mut sets = [quarters[0]; SETS];
    let blocks = sets.as_flattened_mut();
    for column in 0..4 {
        let [a, b, c, d] = quarters;
        let ordered = R::in_order([a[column], b[column], c[column], d[column]]);
        for (block, rows) in ordered.chunks_exact(R::ROWS_OF_BLOCK).enumerate() {
            let place = (4 * block + column) * R::ROWS_OF_BLOCK;
            blocks[place..place + R::ROWS_OF_BLOCK].copy_from_slice(rows);
        }
    }
    sets
}

/// [`Engine::opening`](super::engine::Engine::opening) where registers are enough: a chunk between
/// two sets, or behind one if that is enough, which take the registers and the time that the rounds
/// of a chunk leave idle.
#[inline(always)]
pub(super) fn opening_by_both<R: Steps, const COUNT: usize>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
) -> [Set<R>; COUNT] {
    let [first] = before_rounds::<R, 1>(room, key, nonce, 0);
    let [last] = before_rounds::<R, 1>(room, key, nonce, ((1 + SETS) * R::BLOCKS) as u32);
    let before = [first, last];
    let mut states = before;
    let rotations = R::rotations();
    let mut words = words_before::<R>(room, key, nonce, R::BLOCKS as u32);
    for _ in 0..DOUBLE_ROUNDS {
        double_round_of_words(&mut words, &rotations);
        if COUNT == 1 + SETS + 1 {
            double_round(&mut states, &rotations);
        } else {
            double_round::<1, R>(states.first_chunk_mut().expect("two sets"), &rotations);
        }
    }
    let [first, last] = after_rounds(states, &before);
    let mut sets = [first; COUNT];
    let before = words_before::<R>(room, key, nonce, R::BLOCKS as u32);
    sets[1..=SETS].copy_from_slice(&words_after(&words, &before));
    if COUNT == 1 + SETS + 1 {
        sets[1 + SETS] = last;
    }
    sets
}

/// [`Engine::chunk_beside`](super::engine::Engine::chunk_beside) with Poly1305 in lanes: in stages
/// between the rounds, so that neither waits for itself. Three go with the rounds; the fourth goes
/// with the transposition, which leaves one of two ports of Golden Cove idle.
#[inline(always)]
pub(super) fn staged<R: Steps, L: BlockLanes>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    running: &mut poly1305_lanes::Running<L>,
    groups: &[[L::RowBytes; 2]],
) -> [Set<R>; SETS] {
    let rotations = R::rotations();
    let mut words = words_before::<R>(room, key, nonce, counter);
    let Some((more, [beside_rounds @ .., last])) = groups.split_last_chunk::<4>() else {
        running.absorb(groups);
        for _ in 0..DOUBLE_ROUNDS {
            double_round_of_words(&mut words, &rotations);
        }
        return words_after(&words, &words_before(room, key, nonce, counter));
    };
    running.absorb(more);
    for group in beside_rounds {
        columns_of_words(&mut words, &rotations);
        let limbs = running.limbs(group);
        diagonals_of_words(&mut words, &rotations);
        let columns = running.columns(limbs);
        columns_of_words(&mut words, &rotations);
        let columns = running.with_sum(columns);
        diagonals_of_words(&mut words, &rotations);
        running.carry(columns);
        double_round_of_words(&mut words, &rotations);
    }
    double_round_of_words(&mut words, &rotations);
    let before = words_before(room, key, nonce, counter);
    let limbs = running.limbs(last);
    let first = quarter_after(&words, &before, 0);
    let columns = running.columns(limbs);
    let second = quarter_after(&words, &before, 1);
    let columns = running.with_sum(columns);
    let third = quarter_after(&words, &before, 2);
    running.carry(columns);
    sets_of([first, second, third, quarter_after(&words, &before, 3)])
}
