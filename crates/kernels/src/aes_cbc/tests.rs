//! Tests of aes_cbc: every room against OpenSSL, in place and apart, alone, in lanes, and stitched.

use std::eprintln;
use std::vec;
use std::vec::Vec;

use openssl::symm::{Cipher, Crypter, Mode};
use widelane_cpu::{Aesni, Policy, Room, Shani, Vaes256, Vaes512};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::*;
use crate::hash::{self, Hash, STATE_WORDS};
use crate::leavings::leaves_nothing;
use crate::text::Text;
use crate::words::{Vaes512x8, Vaes512x16, Words};
use crate::{sha1, sha2};

/// What the tests call in each room.
struct Tour {
    room: Room,
    encrypt: fn(&[u8], &mut Block, Text<'_>),
    decrypt: fn(&[u8], &mut Block, Text<'_>),
}

macro_rules! tour {
    ($name:expr, $room:expr, $module:ident, $key:ty) => {
        Tour {
            room: $name,
            encrypt: |bytes, last, text| {
                let mut key = <$key>::default();
                $module::expand($room, KeyBytes::new(bytes).unwrap(), &mut key);
                $module::encrypt($room, &key, last, text);
            },
            decrypt: |bytes, last, text| {
                let mut key = <$key>::default();
                $module::expand($room, KeyBytes::new(bytes).unwrap(), &mut key);
                $module::decrypt($room, &key, last, text);
            },
        }
    };
}

const ROOMS: [Room; 4] = [Room::Portable, Room::Aesni, Room::Vaes256, Room::Vaes512];

fn tours() -> Vec<Tour> {
    let mut tours = vec![tour!(Room::Portable, (), portable, portable::Key)];
    if Aesni::enter(&Policy::open()).is_some() {
        let tour = tour!(Room::Aesni, Aesni::enter(&Policy::open()).unwrap(), aesni, Key);
        tours.push(tour);
    }
    if Vaes256::enter(&Policy::open()).is_some() {
        let tour = tour!(Room::Vaes256, Vaes256::enter(&Policy::open()).unwrap(), vaes256, Key);
        tours.push(tour);
    }
    if Vaes512::enter(&Policy::open()).is_some() {
        let tour = tour!(Room::Vaes512, Vaes512::enter(&Policy::open()).unwrap(), vaes512, Key);
        tours.push(tour);
    }
    let visited: Vec<_> = tours.iter().map(|tour| tour.room).collect();
    eprintln!("rooms: {visited:?}");
    assert_eq!(visited, supported_of(&ROOMS));
    tours
}

fn random_bytes(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut made = vec![0; bytes];
    random.fill(&mut made);
    made
}

fn random_block(random: &mut Random) -> Block {
    let mut block = [0; BLOCK_BYTES];
    random.fill(&mut block);
    block
}

fn openssl_encrypt(key: &[u8], iv: &Block, plain: &[u8]) -> Vec<u8> {
    let cipher = match key.len() {
        16 => Cipher::aes_128_cbc(),
        24 => Cipher::aes_192_cbc(),
        _ => Cipher::aes_256_cbc(),
    };
    let mut crypter = Crypter::new(cipher, Mode::Encrypt, key, Some(iv)).unwrap();
    crypter.pad(false);
    let mut encrypted = vec![0; plain.len() + BLOCK_BYTES];
    let count = crypter.update(plain, &mut encrypted).unwrap();
    encrypted.truncate(count);
    encrypted
}

fn last_block(bytes: &[u8], before: &Block) -> Block {
    *bytes.last_chunk().unwrap_or(before)
}

#[test]
fn every_number_of_blocks_is_encrypted_as_openssl_does() {
    let mut random = Random::new(1);
    for tour in tours() {
        for blocks in (0..70).chain([127, 128, 129, 200]) {
            let key = random_bytes(&mut random, [16, 24, 32][blocks % 3]);
            let iv = random_block(&mut random);
            let plain = random_bytes(&mut random, blocks * BLOCK_BYTES);
            let expected = openssl_encrypt(&key, &iv, &plain);

            let (mut last, mut encrypted) = (iv, vec![0; plain.len()]);
            (tour.encrypt)(&key, &mut last, Text::between(&plain, &mut encrypted));
            assert_eq!(encrypted, expected, "{:?} {blocks}", tour.room);
            assert_eq!(last, last_block(&expected, &iv));

            let (mut last, mut decrypted) = (iv, vec![0; plain.len()]);
            (tour.decrypt)(&key, &mut last, Text::between(&encrypted, &mut decrypted));
            assert_eq!(decrypted, plain, "{:?} {blocks}", tour.room);
            assert_eq!(last, last_block(&expected, &iv));

            let mut last = iv;
            (tour.decrypt)(&key, &mut last, Text::in_place(&mut encrypted));
            assert_eq!(encrypted, plain, "{:?} {blocks} in place", tour.room);
            let mut last = iv;
            (tour.encrypt)(&key, &mut last, Text::in_place(&mut encrypted));
            assert_eq!(encrypted, expected, "{:?} {blocks} in place", tour.room);
        }
    }
}

#[test]
fn lanes_encrypt_as_one_text_after_the_other() {
    let open = Policy::open();
    if let Some(room) = Vaes256::enter(&open) {
        lanes_encrypt::<2, _>(vaes256::expand, lanes::encrypt_in_halves, room);
        lanes_encrypt::<4, _>(vaes256::expand, lanes::encrypt_in_halves, room);
    } else {
        eprintln!("rooms: none, this machine has no VAES on ymm registers");
    }
    if let Some(room) = Vaes512::enter(&open) {
        lanes_encrypt::<4, _>(vaes512::expand, lanes::encrypt, room);
        lanes_encrypt::<8, _>(vaes512::expand, lanes::encrypt, room);
    }
}

/// How a room encrypts in lanes.
type Encrypt<R, const LANE_ROWS: usize> = fn(
    R,
    &lanes::LaneKeys<LANE_ROWS>,
    &mut [[Block; lanes::LANES]; LANE_ROWS],
    &[[Text<'_>; lanes::LANES]; LANE_ROWS],
    usize,
);

fn lanes_encrypt<const LANE_ROWS: usize, R: Copy>(
    expand: fn(R, KeyBytes<'_>, &mut Key),
    encrypt: Encrypt<R, LANE_ROWS>,
    room: R,
) {
    let mut random = Random::new(2);
    for (key_bytes, blocks) in [(16, 0), (16, 1), (24, 2), (32, 3), (16, 65)] {
        let keys: Vec<_> = (0..LANE_ROWS * lanes::LANES)
            .map(|_| {
                let (raw, mut key) = (random_bytes(&mut random, key_bytes), Key::default());
                expand(room, KeyBytes::new(&raw).unwrap(), &mut key);
                (raw, key)
            })
            .collect();
        let mut lane_keys = lanes::LaneKeys::<LANE_ROWS>::default();
        for (lane, (_, key)) in keys.iter().enumerate() {
            lane_keys.set(lane, key);
        }
        let mut ivs = [[[0; BLOCK_BYTES]; lanes::LANES]; LANE_ROWS];
        random.fill(ivs.as_flattened_mut().as_flattened_mut());
        let plain: Vec<_> =
            keys.iter().map(|_| random_bytes(&mut random, blocks * BLOCK_BYTES)).collect();
        let (mut texts, mut last) = (plain.clone(), ivs);
        let mut each = texts.iter_mut().map(|text| Text::in_place(text));
        let mut row = |_| core::array::from_fn(|_| each.next().unwrap());
        let rows = core::array::from_fn(&mut row);
        encrypt(room, &lane_keys, &mut last, &rows, blocks);
        let (ivs, last) = (ivs.as_flattened(), last.as_flattened());
        for (lane, (raw, _)) in keys.iter().enumerate() {
            let expected = openssl_encrypt(raw, &ivs[lane], &plain[lane]);
            assert_eq!(texts[lane], expected, "lane {lane}, {blocks} blocks");
            assert_eq!(last[lane], last_block(&expected, &ivs[lane]));
        }
    }
}

#[test]
fn lanes_are_encrypted_and_hashed_at_once() {
    let Some(room) = Vaes512::enter(&Policy::open()) else {
        eprintln!("rooms: none, this machine has no VAES on zmm registers");
        return;
    };
    encrypted_and_hashed::<sha1::Sha1, Vaes512x8, 2, false>(room, 5);
    encrypted_and_hashed::<sha1::Sha1, Vaes512x16, 4, false>(room, 5);
    encrypted_and_hashed::<sha1::Sha1, Vaes512x16, 4, true>(room, 5);
    encrypted_and_hashed::<sha2::Sha256, Vaes512x8, 2, false>(room, 8);
    encrypted_and_hashed::<sha2::Sha256, Vaes512x16, 4, false>(room, 8);
    encrypted_and_hashed::<sha2::Sha256, Vaes512x16, 4, true>(room, 8);
}

fn encrypted_and_hashed<H, W, const ROWS: usize, const PIECES: bool>(room: Vaes512, words: usize)
where
    H: Hash<W> + Hash<u32>,
    W: Words<Word = u32, Room = Vaes512>,
{
    let mut random = Random::new(4);
    for (key_bytes, ahead, blocks) in [(16, 51, 0), (16, 0, 1), (24, 51, 3), (32, 67, 20)] {
        let mut keys = lanes::LaneKeys::<ROWS>::default();
        let raw: Vec<_> = (0..W::LANES).map(|_| random_bytes(&mut random, key_bytes)).collect();
        for (lane, raw) in raw.iter().enumerate() {
            let mut key = Key::default();
            vaes512::expand(room, KeyBytes::new(raw).unwrap(), &mut key);
            keys.set(lane, &key);
        }
        let mut ivs = [[[0; BLOCK_BYTES]; lanes::LANES]; ROWS];
        random.fill(ivs.as_flattened_mut().as_flattened_mut());
        let bytes = ahead + blocks * HASH_BLOCK_BYTES;
        let plain: Vec<_> = raw.iter().map(|_| random_bytes(&mut random, bytes)).collect();
        let mut states = hash::zeros::<W>();
        for word in states.iter_mut().flat_map(AsMut::as_mut) {
            *word = random.next_u64() as u32;
        }

        let (mut texts, mut last, mut hashed) = (plain.clone(), ivs, states);
        let mut each = texts.iter_mut().map(|text| Text::in_place(text));
        let rows = core::array::from_fn(|_| core::array::from_fn(|_| each.next().unwrap()));
        lanes::encrypt_hashed_by::<H, W, ROWS, PIECES>(
            room,
            &keys,
            &mut last,
            &mut hashed,
            ahead,
            &rows,
            blocks,
        );
        let done = bytes - ahead;
        for (lane, plain) in plain.iter().enumerate() {
            let iv = &ivs.as_flattened()[lane];
            let expected = openssl_encrypt(&raw[lane], iv, &plain[..done]);
            assert_eq!(texts[lane][..done], expected, "lane {lane}, {blocks} blocks");
            assert_eq!(texts[lane][done..], plain[done..], "the rest is left alone");
            assert_eq!(last.as_flattened()[lane], last_block(&expected, iv));
            let mut expected = states.map(|row| [row.as_ref()[lane]]);
            hash::compress::<H, u32>((), &mut expected, &[&plain[ahead..]], blocks);
            let got = hashed.map(|row| [row.as_ref()[lane]]);
            assert_eq!(got[..words], expected[..words], "lane {lane}, {ahead} ahead");
        }
    }
}

#[test]
fn stitching_changes_neither_the_text_nor_the_hash() {
    type Stitched = fn(Shani, &Key, &mut Block, &mut [u32; STATE_WORDS], usize, Text<'_>) -> usize;
    type Compress = fn(Shani, &mut [u32; STATE_WORDS], &[[u8; HASH_BLOCK_BYTES]]);
    let (Some(room), Some(aesni)) = (Shani::enter(&Policy::open()), Aesni::enter(&Policy::open()))
    else {
        eprintln!("rooms: none, this machine has no SHA extensions");
        return;
    };
    let hashes: [(Stitched, Compress, usize); 2] = [
        (shani::encrypt_with_sha1, sha1::shani::compress, 5),
        (shani::encrypt_with_sha256, sha2::shani::compress, 8),
    ];
    let mut random = Random::new(3);
    for (stitched, compress, words) in hashes {
        for (bytes, ahead) in
            [(0, 0), (40, 51), (64, 0), (72, 0), (115, 51), (1000, 51), (1024, 35), (1093, 67)]
        {
            let raw = random_bytes(&mut random, [16, 32][bytes % 2]);
            let mut key = Key::default();
            aesni::expand(aesni, KeyBytes::new(&raw).unwrap(), &mut key);
            let iv = random_block(&mut random);
            let plain = random_bytes(&mut random, bytes);
            let state: [u32; STATE_WORDS] = core::array::from_fn(|_| random.next_u64() as u32);
            let (mut text, mut last, mut hashed) = (plain.clone(), iv, state);
            let done =
                stitched(room, &key, &mut last, &mut hashed, ahead, Text::in_place(&mut text));
            assert_eq!(done, bytes.saturating_sub(ahead) / 64 * 64);
            assert_eq!(text[..done], openssl_encrypt(&raw, &iv, &plain[..done]));
            assert_eq!(text[done..], plain[done..], "the rest is left alone");
            assert_eq!(last, last_block(&text[..done], &iv));
            let mut expected = state;
            compress(
                room,
                &mut expected,
                plain.get(ahead..).map_or(&[], |rest| rest.as_chunks().0),
            );
            assert_eq!(hashed[..words], expected[..words], "{bytes} bytes, {ahead} ahead");
        }
    }
}

/// Takes a key, and encrypts and decrypts in a room, behind which the stack holds nothing.
macro_rules! leaves_nothing {
    ($token:expr, $module:ident, $key:ty, $room:expr) => {{
        for raw in [&[0x77; 16][..], &[0x77; 32]] {
            let (raw, mut key) = (KeyBytes::new(raw).unwrap(), <$key>::default());
            leaves_nothing(&std::format!("{}, a key", $room), || {
                $module::expand($token, raw, &mut key);
                []
            });
            for blocks in [0, 1, 3, 9, 40, 77] {
                let what = std::format!("{}, {blocks} blocks", $room);
                let mut encrypted = vec![0x33; blocks * BLOCK_BYTES];
                let mut text = encrypted.clone();
                let first = [0x99; BLOCK_BYTES];
                $module::encrypt($token, &key, &mut { first }, Text::in_place(&mut encrypted));
                for go in [$module::encrypt, $module::decrypt] {
                    let (mut last, text) = (first, Text::in_place(&mut text));
                    leaves_nothing(&what, || {
                        go($token, &key, &mut last, text);
                        &encrypted
                    });
                }
            }
        }
        $room
    }};
}

#[test]
#[cfg_attr(debug_assertions, ignore = "checks of every addition take stack of their own")]
fn no_room_leaves_anything_on_the_stack() {
    let open = Policy::open();
    let visited = [
        Some(leaves_nothing!((), portable, portable::Key, Room::Portable)),
        Aesni::enter(&open).map(|room| leaves_nothing!(room, aesni, Key, Room::Aesni)),
        Vaes256::enter(&open).map(|room| leaves_nothing!(room, vaes256, Key, Room::Vaes256)),
        Vaes512::enter(&open).map(|room| leaves_nothing!(room, vaes512, Key, Room::Vaes512)),
    ];
    let visited: Vec<_> = visited.into_iter().flatten().collect();
    eprintln!("rooms: {visited:?}");
    assert_eq!(visited, supported_of(&ROOMS));
    if let Some(room) = Vaes256::enter(&open) {
        halves_leave_nothing::<2>(room);
        halves_leave_nothing::<4>(room);
    }
    if let Some(room) = Vaes512::enter(&open) {
        lanes_leave_nothing::<sha1::Sha1, Vaes512x8, 2, false>(room);
        lanes_leave_nothing::<sha1::Sha1, Vaes512x16, 4, false>(room);
        lanes_leave_nothing::<sha1::Sha1, Vaes512x16, 4, true>(room);
        lanes_leave_nothing::<sha2::Sha256, Vaes512x8, 2, false>(room);
        lanes_leave_nothing::<sha2::Sha256, Vaes512x16, 4, false>(room);
        lanes_leave_nothing::<sha2::Sha256, Vaes512x16, 4, true>(room);
    }
    if let (Some(room), Some(aesni)) = (Shani::enter(&open), Aesni::enter(&open)) {
        let mut key = Key::default();
        aesni::expand(aesni, KeyBytes::new(&[0x77; 16]).unwrap(), &mut key);
        for stitched in [shani::encrypt_with_sha1, shani::encrypt_with_sha256] {
            let (mut text, mut last, mut state) = (vec![0x33; 1000], [0x99; BLOCK_BYTES], [7; 8]);
            let text = Text::in_place(&mut text);
            leaves_nothing("stitched", || {
                stitched(room, &key, &mut last, &mut state, 51, text);
                []
            });
        }
    }
}

fn halves_leave_nothing<const ROWS: usize>(room: Vaes256) {
    let (mut keys, mut key) = (lanes::LaneKeys::<ROWS>::default(), Key::default());
    vaes256::expand(room, KeyBytes::new(&[0x77; 16]).unwrap(), &mut key);
    (0..ROWS * lanes::LANES).for_each(|lane| keys.set(lane, &key));
    for blocks in [1, 5] {
        let mut last = [[[0x99; BLOCK_BYTES]; lanes::LANES]; ROWS];
        let mut texts = vec![vec![0x33; blocks * BLOCK_BYTES]; ROWS * lanes::LANES];
        let mut each = texts.iter_mut().map(|text| Text::in_place(text));
        let rows = core::array::from_fn(|_| core::array::from_fn(|_| each.next().unwrap()));
        leaves_nothing("halves", || {
            lanes::encrypt_in_halves(room, &keys, &mut last, &rows, blocks);
            []
        });
    }
}

fn lanes_leave_nothing<H, W, const ROWS: usize, const PIECES: bool>(room: Vaes512)
where
    H: Hash<W>,
    W: Words<Word = u32, Room = Vaes512>,
{
    let (mut keys, mut key) = (lanes::LaneKeys::<ROWS>::default(), Key::default());
    vaes512::expand(room, KeyBytes::new(&[0x77; 16]).unwrap(), &mut key);
    (0..W::LANES).for_each(|lane| keys.set(lane, &key));
    let mut states = hash::zeros::<W>();
    for blocks in [1, 5] {
        let mut last = [[[0x99; BLOCK_BYTES]; lanes::LANES]; ROWS];
        let mut texts = vec![vec![0x33; 51 + blocks * HASH_BLOCK_BYTES]; W::LANES];
        let mut each = texts.iter_mut().map(|text| Text::in_place(text));
        let rows = core::array::from_fn(|_| core::array::from_fn(|_| each.next().unwrap()));
        leaves_nothing("lanes", || {
            lanes::encrypt(room, &keys, &mut last, &rows, blocks);
            []
        });
        leaves_nothing("lanes, hashed", || {
            lanes::encrypt_hashed_by::<H, W, ROWS, PIECES>(
                room,
                &keys,
                &mut last,
                &mut states,
                51,
                &rows,
                blocks,
            );
            []
        });
    }
}
