//! The way in and out of curve25519: little-endian numbers of 32 bytes, one per lane.

use crate::lanes::Lanes;

/// The four words of each lane's number. Lanes without a number repeat the first one.
///
/// # Panics
///
/// Panics if there is none.
#[inline(always)]
pub(super) fn load<L: Lanes>(room: L::Room, numbers: &[&[u8; 32]]) -> [L; 4] {
    load_each::<1, L>(room, numbers)
}

/// The same, with every number in `WIDTH` lanes side by side.
#[inline(always)]
pub(super) fn load_each<const WIDTH: usize, L: Lanes>(
    room: L::Room,
    numbers: &[&[u8; 32]],
) -> [L; 4] {
    let word = |index: usize| {
        L::from_fn(room, |lane| {
            let lane = lane / WIDTH;
            let number = numbers[if lane < numbers.len() { lane } else { 0 }];
            let bytes = number[8 * index..].first_chunk().expect("four words are 32 bytes");
            u64::from_le_bytes(*bytes)
        })
    };
    [word(0), word(1), word(2), word(3)]
}

/// Writes the numbers of the lanes that have somewhere to write to.
#[inline(always)]
pub(super) fn store<L: Lanes>(words: [L; 4], numbers: &mut [[u8; 32]]) {
    store_each::<1, L>(words, numbers);
}

/// The same, of the first of every `WIDTH` lanes.
#[inline(always)]
pub(super) fn store_each<const WIDTH: usize, L: Lanes>(words: [L; 4], numbers: &mut [[u8; 32]]) {
    for (index, word) in words.into_iter().enumerate() {
        for (number, word) in numbers.iter_mut().zip(word.row().as_ref().iter().step_by(WIDTH)) {
            number[8 * index..][..8].copy_from_slice(&word.to_le_bytes());
        }
    }
}
