//! Tests of hashes: every register, and the rooms for single messages, against OpenSSL.

use std::eprintln;
use std::vec;
use std::vec::Vec;

use openssl::hash::{MessageDigest, hash};
use widelane_cpu::{Avx2, Avx512, Policy, Room, Shani, Vaes512};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::*;
use crate::leavings::leaves_nothing;
use crate::sha1::{self, SHA1, Sha1};
use crate::sha2::{self, SHA224, SHA256, SHA384, SHA512, Sha256, Sha512};
use crate::words::{Avx2x1, Avx2x4, Avx2x8, Avx512x8, Avx512x16, Vaes512x8, Vaes512x16};

/// Blocks of the longest message, padding included.
const BLOCKS_MAX: usize = 5;

/// A message of a random length that fills up `blocks` blocks, and itself with padding.
fn padded(random: &mut Random, blocks: usize, block_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let longest = blocks * block_bytes - block_bytes / 8 - 1;
    let mut message = vec![0; longest - random.below(block_bytes.min(longest))];
    random.fill(&mut message);
    let mut padded = message.clone();
    padded.push(0x80);
    padded.resize(blocks * block_bytes - 8, 0);
    padded.extend((8 * message.len() as u64).to_be_bytes());
    (message, padded)
}

macro_rules! lanes_agree {
    ($hash:ty, $register:ty, $room:expr, $(($initial:expr, $digest:expr)),+) => {{
        let mut random = Random::new(1);
        for blocks in 1..=BLOCKS_MAX {
            let messages: Vec<_> = (0..<$register>::LANES)
                .map(|_| padded(&mut random, blocks, <$register>::BLOCK_BYTES))
                .collect();
            let padded: Vec<_> = messages.iter().map(|(_, padded)| &padded[..]).collect();
            $({
                let initial = $initial.map(|word| [word; <$register>::LANES]);
                let (mut states, mut in_pieces) = (initial, initial);
                compress_by::<$hash, $register, false>($room, &mut states, &padded, blocks);
                if <$register>::MAY_TAKE_PIECES {
                    compress_by::<$hash, $register, true>($room, &mut in_pieces, &padded, blocks);
                    assert_eq!(in_pieces, states, "{blocks} blocks in pieces");
                }
                for (lane, (message, _)) in messages.iter().enumerate() {
                    let expected = hash($digest, message).unwrap();
                    let words = states.iter().flat_map(|row| row[lane].to_be_bytes());
                    let got: Vec<_> = words.take(expected.len()).collect();
                    assert_eq!(got, &*expected, "lane {lane}, {blocks} blocks");
                }
            })+
        }
    }};
}

macro_rules! words_of_32_bits_agree {
    ($register:ty, $room:expr) => {
        lanes_agree!(Sha1, $register, $room, (SHA1, MessageDigest::sha1()));
        lanes_agree!(
            Sha256,
            $register,
            $room,
            (SHA224, MessageDigest::sha224()),
            (SHA256, MessageDigest::sha256())
        );
    };
}

macro_rules! words_of_64_bits_agree {
    ($register:ty, $room:expr) => {
        lanes_agree!(
            Sha512,
            $register,
            $room,
            (SHA384, MessageDigest::sha384()),
            (SHA512, MessageDigest::sha512())
        );
    };
}

#[test]
fn every_lane_of_every_register_hashes_as_openssl_does() {
    let mut visited = vec![Room::Portable];
    words_of_32_bits_agree!(u32, ());
    words_of_64_bits_agree!(u64, ());
    if let Some(room) = Avx2::enter(&Policy::open()) {
        words_of_32_bits_agree!(Avx2x1<u32>, room);
        words_of_32_bits_agree!(Avx2x8, room);
        words_of_64_bits_agree!(Avx2x4, room);
        visited.push(Room::Avx2);
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        words_of_32_bits_agree!(Avx512x16, room);
        words_of_64_bits_agree!(Avx512x8, room);
        visited.push(Room::Avx512);
    }
    if let Some(room) = Vaes512::enter(&Policy::open()) {
        words_of_32_bits_agree!(Vaes512x8, room);
        words_of_32_bits_agree!(Vaes512x16, room);
        visited.push(Room::Vaes512);
    }
    eprintln!("rooms: {visited:?}");
    assert_eq!(visited, supported_of(&[Room::Portable, Room::Avx2, Room::Avx512, Room::Vaes512]));
}

#[test]
fn a_schedule_in_vectors_hashes_as_the_portable_room_does() {
    let mut visited = vec![];
    if let Some(room) = Avx2::enter(&Policy::open()) {
        pairs_agree(|state, blocks| sha2::avx2::compress(room, state, blocks));
        visited.push(Room::Avx2);
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        pairs_agree(|state, blocks| sha2::avx512::compress(room, state, blocks));
        visited.push(Room::Avx512);
    }
    eprintln!("rooms: {visited:?}");
    assert_eq!(visited, supported_of(&[Room::Avx2, Room::Avx512]));
}

fn pairs_agree(compress_blocks: impl Fn(&mut [u64; STATE_WORDS], &[[u8; 128]])) {
    let mut random = Random::new(3);
    for count in 0..=BLOCKS_MAX {
        let mut blocks = vec![[0; 128]; count];
        random.fill(blocks.as_flattened_mut());
        let state: [u64; STATE_WORDS] = core::array::from_fn(|_| random.next_u64());
        let (mut got, mut expected) = (state, state.map(|word| [word]));
        compress_blocks(&mut got, &blocks);
        compress::<Sha512, u64>((), &mut expected, &[blocks.as_flattened()], count);
        assert_eq!(got, expected.map(|[word]| word), "SHA-512, {count} blocks");
    }
}

#[test]
fn the_sha_extensions_hash_as_the_portable_room_does() {
    let Some(room) = Shani::enter(&Policy::open()) else {
        eprintln!("rooms: none, this machine has no SHA extensions");
        return;
    };
    one_message_agrees::<Sha1>(room, 5, sha1::shani::compress, sha1::shani::end);
    one_message_agrees::<Sha256>(room, 8, sha2::shani::compress, sha2::shani::end);
}

type State = [u32; STATE_WORDS];

/// Every length, with and without padding, as the whole message and behind other blocks, against
/// the portable room.
fn one_message_agrees<H: Hash<u32>>(
    room: Shani,
    words: usize,
    add: impl Fn(Shani, &mut State, &[[u8; 64]]),
    end: impl Fn(Shani, &State, &[u8], Option<u64>, Option<&State>, &mut [u8; 32]),
) {
    let mut random = Random::new(2);
    let [state, outer]: [State; 2] =
        core::array::from_fn(|_| core::array::from_fn(|_| random.next_u64() as u32));
    let mut message = vec![0; 64 * BLOCKS_MAX];
    random.fill(&mut message);
    let portable = |blocks: &[u8]| {
        let mut expected = state.map(|word| [word]);
        compress::<H, u32>((), &mut expected, &[blocks], blocks.len() / 64);
        expected
    };
    for length in 0..=message.len() {
        let message = &message[..length];
        let total = length as u64 + 64 * (length as u64 % 3);
        let mut padded = message.to_vec();
        padded.push(0x80);
        padded.resize((length + 9).next_multiple_of(64) - 8, 0);
        padded.extend((8 * total).to_be_bytes());
        let blocks = message.as_chunks().0;
        let expected = portable(blocks.as_flattened());
        let mut got = state;
        add(room, &mut got, blocks);
        assert_eq!(got[..words], expected.as_flattened()[..words], "{length} bytes");
        for (total, expected) in [(None, expected), (Some(total), portable(&padded))] {
            let mut digest = [0xff; 32];
            end(room, &state, message, total, None, &mut digest);
            assert_eq!(digest[..4 * words], bytes_of(&expected)[..4 * words], "{length} bytes");
            end(room, &state, message, total, Some(&outer), &mut digest);
            let tag = outer_hash::<H>(&expected.as_flattened()[..words], &outer);
            assert_eq!(digest[..4 * words], tag[..4 * words], "{length} bytes");
        }
    }
}

#[test]
fn digests_in_lanes_are_padded_and_hashed() {
    let Some(room) = Vaes512::enter(&Policy::open()) else {
        eprintln!("rooms: none, this machine has no VAES on zmm registers");
        return;
    };
    digests_agree::<Sha1>(room, 5);
    digests_agree::<Sha256>(room, 8);
}

fn digests_agree<H: Hash<Vaes512x8> + Hash<u32>>(room: Vaes512, words: usize) {
    let mut random = Random::new(4);
    let mut row = |_| core::array::from_fn(|_| random.next_u64() as u32);
    let digests: States<Vaes512x8> = core::array::from_fn(&mut row);
    let outer: States<Vaes512x8> = core::array::from_fn(&mut row);
    let mut got = outer;
    compress_digests::<H, Vaes512x8>(room, &mut got, &digests, words);
    for lane in 0..Vaes512x8::LANES {
        let [digest, outer, got] = [digests, outer, got].map(|rows| rows.map(|row| row[lane]));
        let bytes = outer_hash::<H>(&digest[..words], &outer);
        let got = got.map(u32::to_be_bytes);
        assert_eq!(got.as_flattened()[..4 * words], bytes[..4 * words], "lane {lane}");
    }
}

/// The state, as bytes, when a digest was hashed behind a block that left `outer`.
fn outer_hash<H: Hash<u32>>(digest: &[u32], outer: &[u32; STATE_WORDS]) -> [u8; 32] {
    let mut block = [0; BLOCK_WORDS];
    block[..digest.len()].copy_from_slice(digest);
    block[digest.len()] = 1 << 31;
    block[BLOCK_WORDS - 1] = 512 + 32 * digest.len() as u32;
    let mut states = outer.map(|word| [word]);
    let block = block.map(u32::to_be_bytes);
    compress::<H, u32>((), &mut states, &[block.as_flattened()], 1);
    bytes_of(&states)
}

fn bytes_of(state: &States<u32>) -> [u8; 32] {
    let bytes = state.map(|[word]| word.to_be_bytes());
    bytes.as_flattened().try_into().expect("as many bytes")
}

macro_rules! lanes_leave_nothing {
    ($register:ty, $room:expr, $(($hash:ty, $initial:expr)),+) => {{
        $(for blocks in [1, 2, 5] {
            let message = vec![0x55; blocks * <$register>::BLOCK_BYTES];
            let messages = vec![&message[..]; <$register>::LANES];
            let mut states = $initial.map(|word| [word; <$register>::LANES]);
            let what = concat!(stringify!($hash), " in ", stringify!($register));
            leaves_nothing(what, || {
                compress_by::<$hash, $register, false>($room, &mut states, &messages, blocks);
                []
            });
            if <$register>::MAY_TAKE_PIECES {
                leaves_nothing(what, || {
                    compress_by::<$hash, $register, true>($room, &mut states, &messages, blocks);
                    []
                });
            }
        })+
    }};
    (u32: $register:ty, $room:expr) => {
        lanes_leave_nothing!($register, $room, (Sha1, SHA1), (Sha256, SHA256))
    };
    (u64: $register:ty, $room:expr) => {
        lanes_leave_nothing!($register, $room, (Sha512, SHA512))
    };
}

#[test]
#[cfg_attr(debug_assertions, ignore = "checks of every addition take stack of their own")]
fn no_room_leaves_anything_on_the_stack() {
    let (mut first, mut second, mut third) = (SHA512, SHA256, SHA1);
    lanes_leave_nothing!(u32: u32, ());
    lanes_leave_nothing!(u64: u64, ());
    if let Some(room) = Avx2::enter(&Policy::open()) {
        lanes_leave_nothing!(u32: Avx2x1<u32>, room);
        lanes_leave_nothing!(u32: Avx2x8, room);
        lanes_leave_nothing!(u64: Avx2x4, room);
        let blocks = [[0x55; 128]; 3];
        leaves_nothing("avx2", || {
            sha2::avx2::compress(room, &mut first, &blocks);
            []
        });
    }
    if let Some(room) = Avx512::enter(&Policy::open()) {
        lanes_leave_nothing!(u32: Avx512x16, room);
        lanes_leave_nothing!(u64: Avx512x8, room);
        let blocks = [[0x55; 128]; 3];
        leaves_nothing("avx512", || {
            sha2::avx512::compress(room, &mut first, &blocks);
            []
        });
    }
    if let Some(room) = Vaes512::enter(&Policy::open()) {
        lanes_leave_nothing!(u32: Vaes512x8, room);
        lanes_leave_nothing!(u32: Vaes512x16, room);
    }
    if let Some(room) = Shani::enter(&Policy::open()) {
        let (blocks, mut digest) = ([[0x55; 64]; 3], [0; DIGEST_BYTES]);
        let (end, total, outer) = (&blocks.as_flattened()[..70], Some(134), &SHA256);
        leaves_nothing("sha256", || {
            sha2::shani::compress(room, &mut second, &blocks);
            []
        });
        leaves_nothing("sha256, an end", || {
            sha2::shani::end(room, outer, end, total, Some(outer), &mut digest);
            []
        });
        leaves_nothing("sha1", || {
            sha1::shani::compress(room, &mut third, &blocks);
            []
        });
        leaves_nothing("sha1, an end", || {
            sha1::shani::end(room, &SHA1, end, total, Some(&SHA1), &mut digest);
            []
        });
        leaves_nothing("sha256, a short end", || {
            sha2::shani::end(room, outer, &end[..10], Some(74), Some(outer), &mut digest);
            []
        });
        leaves_nothing("sha1, a short end", || {
            sha1::shani::end(room, &SHA1, &end[..10], Some(74), Some(&SHA1), &mut digest);
            []
        });
        let (mut fourth, mut fifth) = (second, third);
        leaves_nothing("sha256, two", || {
            sha2::shani::compress_pair(room, [&mut second, &mut fourth], [&blocks; 2]);
            []
        });
        leaves_nothing("sha1, two", || {
            sha1::shani::compress_pair(room, [&mut third, &mut fifth], [&blocks; 2]);
            []
        });
    }
}
