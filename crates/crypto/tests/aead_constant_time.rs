//! Trace equality: two keys and two messages of one length take the same way through every room,
//! instruction by instruction, and touch the same memory.

use widelane_cpu::{Policy, Room};
use widelane_crypto::aead::{Aead, Algorithm, TAG_BYTES};
use widelane_testkit::rooms::{for_each_room_of, supported_of};
use widelane_testkit::trace::{Trace, trace};

/// Every way that short messages have of their own, and chunks, a tail of several rows and a block
/// that is not whole, in every wide room.
const LENGTHS: [usize; 6] = [40, 64, 120, 250, 500, LONGEST];
const LONGEST: usize = 2100;

/// The portable rooms take more instructions, and have one way for all lengths.
const LENGTHS_PORTABLE: [usize; 1] = [150];

fn main() {
    for algorithm in Algorithm::ALL {
        let visited = for_each_room_of(algorithm.rooms(), |room, policy| {
            let expand = expanded(algorithm, policy, 0x00);
            report(room.name(), "expand", expand, expanded(algorithm, policy, 0xa5));
            let portable = room == Room::Portable;
            for length in if portable { &LENGTHS_PORTABLE[..] } else { &LENGTHS } {
                let sealed = |key, message| sealed(algorithm, policy, key, message, *length);
                let opened = |key, message| opened(algorithm, policy, key, message, *length);
                let seal = sealed(0x00, 0x00);
                report(room.name(), &format!("seal {length}"), seal, sealed(0xa5, 0xff));
                let open = opened(0x00, 0x00);
                report(room.name(), &format!("open {length}"), open, opened(0xa5, 0xff));
            }
        });
        assert_eq!(visited, supported_of(algorithm.rooms()));
    }
}

/// Bytes that differ from one another and from those of another `pattern`.
fn bytes<const N: usize>(pattern: u8) -> [u8; N] {
    std::array::from_fn(|index| pattern ^ (index as u8).wrapping_mul(89))
}

#[inline(never)]
fn expanded(algorithm: Algorithm, policy: &Policy, pattern: u8) -> Trace {
    let aead = Aead::choose(algorithm, policy);
    let key: [u8; 32] = bytes(pattern);
    let length = algorithm.key_bytes();
    trace(|| None, |made| *made = Some(aead.key(&key[..length]).expect("a key")))
}

#[inline(never)]
fn sealed(algorithm: Algorithm, policy: &Policy, key: u8, message: u8, length: usize) -> Trace {
    let key = &bytes::<32>(key)[..algorithm.key_bytes()];
    let prepare = || {
        let key = Aead::choose(algorithm, policy).key(key).expect("a key");
        (key, bytes::<LONGEST>(message), [0; TAG_BYTES])
    };
    trace(prepare, |(key, text, tag)| {
        key.seal_in_place(&[7; 12], b"header", &mut text[..length], tag).expect("sealed");
    })
}

#[inline(never)]
fn opened(algorithm: Algorithm, policy: &Policy, key: u8, message: u8, length: usize) -> Trace {
    let key = &bytes::<32>(key)[..algorithm.key_bytes()];
    let prepare = || {
        let key = Aead::choose(algorithm, policy).key(key).expect("a key");
        let (mut text, mut tag) = (bytes::<LONGEST>(message), [0; TAG_BYTES]);
        key.seal_in_place(&[7; 12], b"header", &mut text[..length], &mut tag).expect("sealed");
        (key, text, tag)
    };
    trace(prepare, |(key, text, tag)| {
        key.open_in_place(&[7; 12], b"header", &mut text[..length], &*tag).expect("opened");
    })
}

fn report(room: &str, what: &str, one: Trace, other: Trace) {
    eprintln!("{room} {what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} in {room} takes two ways");
    assert!(one.instructions > 50, "{what} did something");
}
