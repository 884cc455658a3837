//! Tests of chacha20_poly1305: every room against OpenSSL, at every length.

use std::boxed::Box;
use std::eprintln;
use std::vec;
use std::vec::Vec;

use openssl::symm::{Cipher, encrypt_aead};
use widelane_cpu::{Avx2, Avx512, Ifma256, Ifma512, Policy, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::avx2::Avx2Row;
use super::avx512::Avx512Row;
use super::ifma256::Ifma256Row;
use super::ifma512::Ifma512Row;
use super::*;
use crate::leavings::leaves_nothing;
use crate::text::Text;

const ROOMS: [Room; 5] = [Room::Portable, Room::Avx2, Room::Avx512, Room::Ifma256, Room::Ifma512];

/// A room, and how it seals and opens.
type Tour = (Room, Box<dyn Fn(Message<'_>)>, Box<dyn Fn(Message<'_>)>);

/// A room, by the way that messages go on this machine or on another.
macro_rules! tour {
    ($token:ident, $row:ident, $ways:expr) => {
        $token::enter(&Policy::open()).map(|room| -> Tour {
            (
                $token::ROOM,
                Box::new(move |message| {
                    let poly = &mut Poly1305::default();
                    engine::start::<$row, true>(room, message, poly, $ways);
                }),
                Box::new(move |message| {
                    let poly = &mut Poly1305::default();
                    engine::start::<$row, false>(room, message, poly, $ways);
                }),
            )
        })
    };
}

/// The one-time key is made with the text.
const WITH_TEXT: Ways = Ways { beside_sets: false, beside_chunk: false };
/// It is made in general registers.
const BESIDE: Ways = Ways { beside_sets: true, beside_chunk: true };
/// That of a longer text only is made there.
const CHUNK_BESIDE: Ways = Ways { beside_sets: false, beside_chunk: true };

fn tours() -> Vec<Tour> {
    let portable: Tour = (
        Room::Portable,
        Box::new(|message| portable::seal((), message)),
        Box::new(|message| portable::open((), message)),
    );
    let tours = [
        Some(portable),
        tour!(Avx2, Avx2Row, WITH_TEXT),
        tour!(Avx2, Avx2Row, BESIDE),
        tour!(Avx512, Avx512Row, WITH_TEXT),
        tour!(Avx512, Avx512Row, BESIDE),
        tour!(Ifma256, Ifma256Row, WITH_TEXT),
        tour!(Ifma256, Ifma256Row, BESIDE),
        tour!(Ifma512, Ifma512Row, WITH_TEXT),
        tour!(Ifma512, Ifma512Row, BESIDE),
        tour!(Ifma512, Ifma512Row, CHUNK_BESIDE),
    ];
    let tours: Vec<_> = tours.into_iter().flatten().collect();
    let mut rooms: Vec<_> = tours.iter().map(|tour| tour.0).collect();
    rooms.dedup();
    eprintln!("rooms: {rooms:?}");
    assert_eq!(rooms, supported_of(&ROOMS));
    tours
}

#[test]
fn every_length_is_sealed_as_openssl_does() {
    let mut random = Random::new(2);
    for (room, seal, open) in tours() {
        for length in (0..1200).chain((1200..5000).step_by(61)).chain([16384, 17500, 40000]) {
            let (mut bytes, mut nonce) = ([0; KEY_BYTES], [0; NONCE_BYTES]);
            random.fill(&mut bytes);
            random.fill(&mut nonce);
            let mut key = Key::default();
            key.fill(&bytes);
            let mut plain = vec![0; length];
            random.fill(&mut plain);
            let mut aad = vec![0; [0, 13, 5, 16, 20, 300][length % 6]];
            random.fill(&mut aad);
            let mut tag = [0; TAG_BYTES];
            let cipher = Cipher::chacha20_poly1305();
            let expected =
                encrypt_aead(cipher, &bytes, Some(&nonce), &aad, &plain, &mut tag).unwrap();

            let (mut sealed, mut got) = (vec![0; length], [0; TAG_BYTES]);
            let text = Text::between(&plain, &mut sealed);
            seal(Message { key: &key, nonce: &nonce, aad: &aad, text, tag: &mut got });
            assert_eq!(sealed, expected, "{room} {length}");
            assert_eq!(got, tag, "{room} {length}");

            let (mut opened, mut got) = (sealed, [0; TAG_BYTES]);
            let text = Text::in_place(&mut opened);
            open(Message { key: &key, nonce: &nonce, aad: &aad, text, tag: &mut got });
            assert_eq!(opened, plain, "{room} {length}");
            assert_eq!(got, tag, "{room} {length}");
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "checks of every addition take stack of their own")]
fn no_room_leaves_anything_on_the_stack() {
    let mut key = Key::default();
    key.fill(&[0x77; KEY_BYTES]);
    let (nonce, mut tag, mut text) = ([0x99; NONCE_BYTES], [0; TAG_BYTES], vec![0x33; 5000]);
    for (room, seal, open) in tours() {
        for length in (0..2000).step_by(31).chain((2000..5000).step_by(297)) {
            for (what, go, aad_bytes) in
                [("sealed", &seal, 13), ("opened", &open, 13), ("opened", &open, 500)]
            {
                let aad = &[0x55; 500][..aad_bytes];
                leaves_nothing(&std::format!("{room}, {length} bytes {what}"), || {
                    let text = Text::in_place(&mut text[..length]);
                    go(Message { key: &key, nonce: &nonce, aad, text, tag: &mut tag });
                    tag
                });
            }
        }
    }
}

#[test]
fn sums_next_to_the_modulus_are_reduced() {
    // r = 1, so that the sum is that of the blocks; RFC 8439, A.3 goes the same way.
    let tag_of = |blocks: &[u128], s: u128| {
        let mut key = [0; BLOCK_BYTES];
        key[0] = 1;
        key[16..32].copy_from_slice(&s.to_le_bytes());
        let mut poly = Poly1305::default();
        poly.begin(&key);
        let (last, blocks) = blocks.split_last().expect("a block");
        blocks.iter().for_each(|block| poly.absorb(&block.to_le_bytes()));
        poly.tag(&[], *last)
    };
    // 2^128 is added to each block: three of them and 2^128 − 6, − 5, − 4 surround 2^130 − 5.
    for (last, expected) in [(6u128, u128::MAX - 5), (5, 0), (4, 1)] {
        assert_eq!(tag_of(&[0, 0, last.wrapping_neg()], 0), expected);
    }
    assert_eq!(tag_of(&[7], u128::MAX), 6);
}

#[test]
fn every_room_absorbs_the_largest_blocks_under_the_largest_keys() {
    let mut random = Random::new(3);
    let mut visited = vec![Room::Portable];
    for (r, byte) in
        [(u64::MAX, 0xff), (u64::MAX, 0xfb), (4, 0xff), (0, 0xff), (random.next_u64(), 0xff)]
    {
        let blocks = vec![byte; 70 * TAG_BYTES];
        let mut begun = Poly1305::default();
        begun.begin_words([r, r, u64::MAX, u64::MAX]);
        for count in 0..70 {
            let (first, second) = blocks[..count * TAG_BYTES].split_at(count / 3 * TAG_BYTES);
            let mut expected = begun.clone();
            portable::absorb((), &mut expected, first);
            portable::absorb((), &mut expected, second);
            let expected = expected.tag(&[], u128::MAX);
            macro_rules! check {
                ($token:ident, $room:ident) => {
                    if let Some(room) = $token::enter(&Policy::open()) {
                        let mut poly = begun.clone();
                        $room::absorb(room, &mut poly, first);
                        $room::absorb(room, &mut poly, second);
                        let tag = poly.tag(&[], u128::MAX);
                        assert_eq!(tag, expected, "{} {r:#x} {count}", $token::ROOM);
                        visited.push($token::ROOM);
                    }
                };
            }
            check!(Avx2, avx2);
            check!(Avx512, avx512);
            check!(Ifma256, ifma256);
            check!(Ifma512, ifma512);
        }
    }
    visited.sort_by_key(|room| ROOMS.iter().position(|other| other == room));
    visited.dedup();
    eprintln!("rooms: {visited:?}");
    assert_eq!(visited, supported_of(&ROOMS));
}
