//! Trace equality: two keys and two messages of one length take the same way through every room,
//! instruction by instruction, and touch the same memory.

use widelane_cpu::{Policy, Room};
use widelane_crypto::aead::{Aead, Algorithm, TAG_BYTES};
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::trace::{Tracing, trace};

/// Every way that short messages have of their own, and chunks, a tail of several rows and a block
/// that is not whole, in every wide room of AES-GCM.
const LENGTHS_GCM: [usize; 6] = [40, 64, 120, 250, 500, 2100];

/// The same of ChaCha20-Poly1305: at least one length for each branch of `start`, on every kind
/// of CPU that `Ways` tells apart, and for each kind of turn behind it. In 512 bits a chunk has
/// 1024 bytes and may come behind 1216, and the first one that is sealed has fewer groups beside it
/// than the second.
const LENGTHS_CHACHA: [usize; 13] =
    [10, 70, 200, 330, 450, 520, 580, 1030, 1220, 1480, 2250, 3080, LONGEST];
const LONGEST: usize = 3650;

/// The portable rooms take more instructions, and have one way for all lengths.
const LENGTHS_PORTABLE: [usize; 1] = [150];

fn lengths(algorithm: Algorithm, room: Room) -> &'static [usize] {
    match (algorithm, room) {
        (_, Room::Portable) => &LENGTHS_PORTABLE,
        (Algorithm::ChaCha20Poly1305, _) => &LENGTHS_CHACHA,
        _ => &LENGTHS_GCM,
    }
}

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            // Both traces are begun before anything else: the heap must be the same for both.
            let expansions = [0x00, 0xa5].map(|key| expanded(algorithm, policy, key));
            report(room, "expand", expansions);
            for &length in lengths(algorithm, room) {
                let secrets = [(0x00, 0x00), (0xa5, 0xff)];
                let seals = secrets.map(|secrets| sealed(algorithm, policy, secrets, length));
                report(room, &format!("seal {length}"), seals);
                let openings = secrets.map(|secrets| opened(algorithm, policy, secrets, length));
                report(room, &format!("open {length}"), openings);
            }
        });
    }
}

/// Bytes that differ from one another and from those of another `pattern`.
fn bytes<const N: usize>(pattern: u8) -> [u8; N] {
    std::array::from_fn(|index| pattern ^ (index as u8).wrapping_mul(89))
}

#[inline(never)]
fn expanded(algorithm: Algorithm, policy: &Policy, pattern: u8) -> Tracing {
    let aead = Aead::choose(algorithm, policy);
    let key: [u8; 32] = bytes(pattern);
    let length = algorithm.key_bytes();
    trace(|| None, |made| *made = Some(aead.key(&key[..length]).expect("a key")))
}

#[inline(never)]
fn sealed(
    algorithm: Algorithm,
    policy: &Policy,
    (key, message): (u8, u8),
    length: usize,
) -> Tracing {
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
fn opened(
    algorithm: Algorithm,
    policy: &Policy,
    (key, message): (u8, u8),
    length: usize,
) -> Tracing {
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

fn report(room: Room, what: &str, traces: [Tracing; 2]) {
    let [one, other] = traces.map(Tracing::end);
    eprintln!("{room} {what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} in {room} takes two ways");
    assert!(one.instructions > 50, "{what} did something");
}
