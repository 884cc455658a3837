//! Trace equality: two HMAC keys and two messages of one length take the same way through every
//! room, instruction by instruction, and touch the same memory.

use std::hint::black_box;

use widelane_cpu::Policy;
use widelane_crypto::digest::{Algorithm, Digest, Hash};
use widelane_crypto::mac::{Hmac, Key, TagJob, tag_many};
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::trace::{Tracing, trace};

/// Some blocks and one that is not whole.
const LENGTH: usize = 300;

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    for algorithm in Algorithm::ALL {
        let mut rooms = [algorithm.rooms(), algorithm.lane_rooms()].concat();
        rooms.sort();
        rooms.dedup();
        let visited = for_each_room_of(&rooms, |room, policy| {
            let hmac = Hmac::choose(algorithm, policy);
            report(room.name(), "alone", alone(&hmac, 0x00), alone(&hmac, 0xa5));
            // Both keys come first, and are copied: the heap must be the same for both traces.
            let keys = [0x00, 0xa5].map(|pattern| hmac.key(&bytes::<32>(pattern)));
            report(room.name(), "many", many(&keys[0], 0x00), many(&keys[1], 0xa5));
        });
        assert!(!visited.is_empty());
        let digest = |text| Hash::choose(algorithm, &Policy::open()).digest(text);
        let (expected, other) = (digest(b"expected"), digest(b"other"));
        let [equal, different] = [expected, other].map(|digest| compared(expected, digest).end());
        eprintln!("comparison: {} instructions", equal.instructions);
        assert_eq!(equal, different, "a comparison takes two ways");
    }
}

/// Bytes that differ from one another and from those of another `pattern`.
fn bytes<const N: usize>(pattern: u8) -> [u8; N] {
    std::array::from_fn(|index| pattern ^ (index as u8).wrapping_mul(89))
}

#[inline(never)]
fn alone(hmac: &Hmac, pattern: u8) -> Tracing {
    trace(Digest::default, |tag| {
        *tag = hmac.key(&bytes::<32>(pattern)).tag(&bytes::<LENGTH>(!pattern))
    })
}

#[inline(never)]
fn many(key: &Key, pattern: u8) -> Tracing {
    trace(
        || (key.clone(), bytes::<LENGTH>(!pattern)),
        |(key, message)| {
            let job = || TagJob { key, message, tag: Digest::default() };
            tag_many(&mut [(); 6].map(|()| job()));
        },
    )
}

#[inline(never)]
fn compared(expected: Digest, digest: Digest) -> Tracing {
    trace(
        || [expected, digest],
        |[expected, digest]| {
            black_box(expected == digest);
        },
    )
}

fn report(room: &str, what: &str, one: Tracing, other: Tracing) {
    let [one, other] = [one, other].map(Tracing::end);
    eprintln!("{room} {what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} in {room} takes two ways");
    assert!(one.instructions > 1000, "{what} did something");
}
