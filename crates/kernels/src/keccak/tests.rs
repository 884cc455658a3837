//! Tests of Keccak: every register against a permutation written as FIPS 202 has it.

use std::vec;
use std::vec::Vec;

use widelane_cpu::{Avx2, Avx512, Policy, Room, Vbmi512};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::sponge::{SHAKE256, Sponges};
use super::*;
use crate::leavings::leaves_nothing;
use crate::words::{Avx2x4, Avx512x8, Vbmi512x8};

/// The steps of FIPS 202, 3.2, one after the other.
fn model(state: &mut [u64; STATE_WORDS]) {
    for constant in ROUND_CONSTANTS {
        let columns: [u64; 5] =
            core::array::from_fn(|x| (0..5).fold(0, |sum, y| sum ^ state[x + 5 * y]));
        for (index, word) in state.iter_mut().enumerate() {
            *word ^= columns[(index + 4) % 5] ^ columns[(index + 1) % 5].rotate_left(1);
        }
        let (mut x, mut y, mut last) = (1, 0, state[1]);
        for step in 0..24 {
            (x, y) = (y, (2 * x + 3 * y) % 5);
            let turned = last.rotate_left((step + 1) * (step + 2) / 2 % 64);
            last = core::mem::replace(&mut state[x + 5 * y], turned);
        }
        for row in state.as_chunks_mut::<5>().0 {
            let before = *row;
            for x in 0..5 {
                row[x] ^= !before[(x + 1) % 5] & before[(x + 2) % 5];
            }
        }
        state[0] ^= constant;
    }
}

fn agrees<W: Words<Word = u64>>(room: W::Room) {
    let mut random = Random::new(1600);
    let mut sponges = Sponges::<W>::default();
    let mut expected = vec![[0; STATE_WORDS]; W::LANES];
    for _ in 0..50 {
        for (lane, state) in expected.iter_mut().enumerate() {
            let index = random.below(STATE_WORDS);
            let word = random.next_u64();
            sponges.add_word(lane, index, word);
            state[index] ^= word;
            model(state);
        }
        sponges.permute(room);
        for (lane, state) in expected.iter().enumerate() {
            let words: Vec<_> = (0..STATE_WORDS).map(|index| sponges.word(lane, index)).collect();
            assert_eq!(words, state, "lane {lane}");
        }
    }
    leaves_nothing("the permutation", || {
        sponges.permute(room);
        [0u8; 0]
    });
}

#[test]
fn every_lane_of_every_register_is_permuted_as_published() {
    let mut visited = vec![Room::Portable];
    agrees::<u64>(());
    if let Some(room) = Avx2::enter(&Policy::open()) {
        agrees::<Avx2x4>(room);
        visited.push(Room::Avx2);
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        agrees::<Avx512x8>(room);
        visited.push(Room::Avx512);
    }
    if let Some(room) = Vbmi512::enter(&Policy::open()) {
        agrees::<Vbmi512x8>(room);
        visited.push(Room::Vbmi512);
    }
    assert_eq!(visited, supported_of(&[Room::Portable, Room::Avx2, Room::Avx512, Room::Vbmi512]));
}

#[test]
fn constants_are_those_of_fips_202() {
    assert_eq!(ROUND_CONSTANTS[..3], [1, 0x8082, 0x8000_0000_0000_808a]);
    assert_eq!(ROUND_CONSTANTS[23], 0x8000_0000_8000_8008);
}

/// SHAKE256 of the empty message, as NIST's example values have it.
#[test]
fn bytes_go_in_and_out_in_their_order() {
    let mut sponges = Sponges::<u64>::default();
    sponges.pad(0, 0, SHAKE256);
    sponges.permute(());
    let mut bytes = [0; 9];
    sponges.copy_bytes(0, 4, &mut bytes);
    assert_eq!(bytes, [0x0b, 0xa8, 0x8d, 0x13, 0x23, 0x3b, 0x3f, 0xeb, 0x74]);
}
