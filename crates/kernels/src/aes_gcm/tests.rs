//! Tests of aes_gcm: every room against OpenSSL, and its pieces against the whole.

use std::eprintln;
use std::vec;
use std::vec::Vec;

use openssl::symm::{Cipher, encrypt_aead};
use widelane_cpu::{Aesni, Policy, Room, Vaes256, Vaes512};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::*;
use crate::leavings::leaves_nothing;
use crate::text::{Direction, Text};

const ROOMS: [Room; 4] = [Room::Portable, Room::Aesni, Room::Vaes256, Room::Vaes512];

/// What the tests call in each room.
struct Tour {
    room: Room,
    seal: fn(&[u8], Block, &[u8], Text<'_>) -> Block,
    open: fn(&[u8], Block, &[u8], Text<'_>) -> Block,
}

macro_rules! tour {
    ($token:ident, $room:ident) => {
        $token::enter(&Policy::open()).map(|_| Tour {
            room: $token::ROOM,
            seal: |bytes, first, aad, text| {
                let room = $token::enter(&Policy::open()).unwrap();
                let (mut key, mut tag) = ($room::Key::default(), [0; 16]);
                $room::expand(room, KeyBytes::new(bytes).unwrap(), &mut key);
                $room::seal(room, Message { key: &key, first, aad, text, tag: &mut tag });
                tag
            },
            open: |bytes, first, aad, text| {
                let room = $token::enter(&Policy::open()).unwrap();
                let (mut key, mut tag) = ($room::Key::default(), [0; 16]);
                $room::expand(room, KeyBytes::new(bytes).unwrap(), &mut key);
                $room::open(room, Message { key: &key, first, aad, text, tag: &mut tag });
                tag
            },
        })
    };
}

fn tours() -> Vec<Tour> {
    let portable = Tour {
        room: Room::Portable,
        seal: |bytes, first, aad, text| {
            let (mut key, mut tag) = (portable::Key::default(), [0; 16]);
            portable::expand((), KeyBytes::new(bytes).unwrap(), &mut key);
            portable::seal((), Message { key: &key, first, aad, text, tag: &mut tag });
            tag
        },
        open: |bytes, first, aad, text| {
            let (mut key, mut tag) = (portable::Key::default(), [0; 16]);
            portable::expand((), KeyBytes::new(bytes).unwrap(), &mut key);
            portable::open((), Message { key: &key, first, aad, text, tag: &mut tag });
            tag
        },
    };
    let tours =
        [Some(portable), tour!(Aesni, aesni), tour!(Vaes256, vaes256), tour!(Vaes512, vaes512)];
    let tours: Vec<_> = tours.into_iter().flatten().collect();
    let rooms: Vec<_> = tours.iter().map(|tour| tour.room).collect();
    eprintln!("rooms: {rooms:?}");
    assert_eq!(rooms, supported_of(&ROOMS));
    tours
}

fn random_bytes(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut made = vec![0; bytes];
    random.fill(&mut made);
    made
}

fn cipher(key: &[u8]) -> Cipher {
    match key.len() {
        16 => Cipher::aes_128_gcm(),
        24 => Cipher::aes_192_gcm(),
        _ => Cipher::aes_256_gcm(),
    }
}

#[test]
fn every_length_is_sealed_as_openssl_does() {
    let mut random = Random::new(1);
    for tour in tours() {
        // The last one counts beyond two bytes.
        for length in (0..1200).chain((1200..5000).step_by(61)).chain([BLOCK_BYTES << 16 | 1]) {
            let key = random_bytes(&mut random, [16, 24, 32][length % 3]);
            let nonce: [u8; 12] = random_bytes(&mut random, 12).try_into().unwrap();
            let plain = random_bytes(&mut random, length);
            let aad = random_bytes(&mut random, [0, 13, 5, 16, 20, 300][length % 6]);
            let mut tag = [0; 16];
            let expected =
                encrypt_aead(cipher(&key), &key, Some(&nonce), &aad, &plain, &mut tag).unwrap();
            let mut sealed = vec![0; length];
            let first = first_counter(&nonce);
            let got = (tour.seal)(&key, first, &aad, Text::between(&plain, &mut sealed));
            assert_eq!(sealed, expected, "{:?} {length}", tour.room);
            assert_eq!(got, tag, "{:?} {length}", tour.room);
            let mut text = sealed;
            let got = (tour.open)(&key, first, &aad, Text::in_place(&mut text));
            assert_eq!(text, plain, "{:?} {length}", tour.room);
            assert_eq!(got, tag, "{:?} {length}", tour.room);
        }
    }
}

/// Seals and opens messages of many lengths in a room, behind which the stack holds nothing.
macro_rules! leaves_nothing {
    ($token:expr, $module:ident, $room:expr) => {{
        for raw in [&[0x77; 16][..], &[0x77; 32]] {
            let (mut key, mut tag) = ($module::Key::default(), [0; 16]);
            leaves_nothing(&std::format!("{}, a key", $room), || {
                $module::expand($token, KeyBytes::new(raw).unwrap(), &mut key);
                []
            });
            let (first, mut sum) = (first_counter(&[0x99; 12]), [0; BLOCK_BYTES]);
            leaves_nothing(&std::format!("{}, one block", $room), || {
                $module::encrypt_block($token, &key, &mut sum);
                $module::absorb($token, &key, &mut sum, &[0x55; 333]);
                $module::close($token, &key, &mut sum);
                []
            });
            let mut text = vec![0x33; 5000];
            for length in (0..2000).step_by(31).chain((2000..5000).step_by(297)) {
                let what = |doing| std::format!("{} {doing} {length} bytes", $room);
                for go in [$module::seal, $module::open] {
                    leaves_nothing(&what("seals or opens"), || {
                        let (text, aad) = (Text::in_place(&mut text[..length]), &[0x55; 13]);
                        go($token, Message { key: &key, first, aad, text, tag: &mut tag });
                        tag
                    });
                }
                for direction in [Direction::Seal, Direction::Open] {
                    leaves_nothing(&what("starts with"), || {
                        let (text, aad) = (Text::in_place(&mut text[..length]), &[0x55; 13]);
                        let message = Message { key: &key, first, aad, text, tag: &mut tag };
                        sum = $module::start($token, direction, message);
                        tag
                    });
                    leaves_nothing(&what("goes on by"), || {
                        let text = Text::in_place(&mut text[..length]);
                        $module::crypt($token, direction, &key, &first, &mut sum, text);
                        []
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
        Some(leaves_nothing!((), portable, Room::Portable)),
        Aesni::enter(&open).map(|room| leaves_nothing!(room, aesni, Room::Aesni)),
        Vaes256::enter(&open).map(|room| leaves_nothing!(room, vaes256, Room::Vaes256)),
        Vaes512::enter(&open).map(|room| leaves_nothing!(room, vaes512, Room::Vaes512)),
    ];
    let visited: Vec<_> = visited.into_iter().flatten().collect();
    eprintln!("rooms: {visited:?}");
    assert_eq!(visited, supported_of(&ROOMS));
}
