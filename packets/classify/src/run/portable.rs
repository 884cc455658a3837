//! Room portable of run: one rule after another, in plain Rust. The oracle of the other rooms.

use super::burst::{self, Engine, FEW, Queues, Search, View, Words};
use super::keys::Recipe;
use super::list::List;
use crate::table::RULES_PER_CHUNK;

/// The half of a word that holds two ranges.
const LOW: u64 = 0xffff_ffff;

/// Looks up packets that are as long as the layout's span.
pub(super) fn classify<W: Words, const K: usize, const C: usize>(
    _room: (),
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    if packets.len() <= FEW {
        few::<W, K, C>(words, view, packets, results);
    } else {
        many::<W, K, C>(words, view, packets, results);
    }
}

#[inline(never)]
fn few<W: Words, const K: usize, const C: usize>(
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    burst::few::<_, W, K, C>(Portable, words, view, packets, results);
}

#[inline(never)]
fn many<W: Words, const K: usize, const C: usize>(
    words: W,
    view: View<'_>,
    packets: &[&[u8]],
    results: &mut [u32],
) {
    burst::many::<_, W, K, C>(Portable, words, view, packets, results);
}

#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Engine for Portable {
    const COMPARES_AT_ONCE: bool = false;

    #[inline(always)]
    fn keys<W: Words, const K: usize, const N: usize>(
        self,
        recipe: &Recipe,
        packets: &[&[u8]],
        keys: &mut List<[u64; K], N>,
    ) {
        let mut keys = keys.writer();
        for packet in packets {
            let mut key = [0; K];
            for piece in &recipe.pieces {
                let bytes = &packet[usize::from(piece.offset)..][..usize::from(piece.bytes)];
                let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
                key[usize::from(piece.word) % K] |= value << piece.shift;
            }
            keys.push(key);
        }
    }

    #[inline(always)]
    fn extract(self, word: u64, mask: u64) -> u64 {
        let (mut found, mut left, mut place) = (0, mask, 0);
        while left != 0 {
            found |= (word >> left.trailing_zeros() & 1) << place;
            left &= left - 1;
            place += 1;
        }
        found
    }

    #[inline(always)]
    fn first<W: Words>(self, words: W, chunk: &[u64], key: &[u64]) -> (bool, u64) {
        burst::first_of(self.matches::<W, false>(words, chunk, key), chunk)
    }

    #[inline(always)]
    fn matches<W: Words, const ALL: bool>(self, words: W, chunk: &[u64], key: &[u64]) -> u32 {
        let shape = words.shape();
        let mut found = 0;
        for rule in 0..8 {
            let mut matches = true;
            for (word, &own) in key.iter().enumerate().take(shape.words()) {
                let at = RULES_PER_CHUNK * shape.row(word) + rule;
                let (value, other) = match shape.is_paired(word) {
                    true => (chunk[at] & LOW, chunk[at] >> 32 | !LOW),
                    false => (chunk[at], chunk[at + RULES_PER_CHUNK]),
                };
                matches = if word < shape.masks {
                    (own ^ value) & other == 0
                } else if word < shape.masks + shape.halves {
                    within::<16>(own, value, other)
                } else {
                    within::<32>(own, value, other)
                };
                if !matches {
                    break;
                }
            }
            if matches {
                found |= 1 << rule;
                if !ALL {
                    break;
                }
            }
        }
        found
    }

    #[inline(always)]
    fn prefetch(self, _words: &[u64]) {}

    #[inline(never)]
    fn pass_over<W: Words, const K: usize, const C: usize>(
        search: Search<'_, Self, W>,
        key: &[u64; K],
        best: &mut [u64; C],
        fresh: &[u64; C],
    ) {
        search.pass_over(key, best, fresh);
    }

    #[inline(never)]
    fn go_on<W: Words, const K: usize, const C: usize>(
        search: Search<'_, Self, W>,
        keys: &[[u64; K]],
        best: &mut [[u64; C]],
        queues: &mut Queues,
    ) {
        search.go_on(keys, best, queues);
    }
}

/// Whether every lane of `key` lies at most the lane of `extent` above the one of `lowest`.
#[inline(always)]
fn within<const BITS: u32>(key: u64, lowest: u64, extent: u64) -> bool {
    let all = u64::MAX >> (64 - BITS);
    (0..64 / BITS).all(|lane| {
        let part = |of: u64| of >> (lane * BITS) & all;
        part(key).wrapping_sub(part(lowest)) & all <= part(extent)
    })
}
