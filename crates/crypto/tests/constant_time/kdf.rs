//! Trace equality: values of TLS 1.3 derived at once from two secrets take the same way through
//! every room, instruction by instruction, and touch the same memory.

use widelane_cpu::Room;
use widelane_crypto::kdf::tls13::{self, Expansion, Source};
use widelane_crypto::kdf::{Hash, Kdf};
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::trace::{Tracing, trace};

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    for hash in Hash::ALL {
        let rooms = [Room::Portable, Room::Avx2, Room::Shani, Room::Avx512];
        let visited = for_each_room_of(&rooms, |room, policy| {
            let kdf = Kdf::choose(hash, policy);
            let [one, other] = [0x00, 0xa5].map(|pattern| derived(&kdf, pattern)).map(Tracing::end);
            eprintln!("{room:?}: {} and {} instructions", one.instructions, other.instructions);
            assert_eq!(one, other, "{hash:?} in {room:?} takes two ways");
            assert!(one.instructions > 1000, "something is derived");
        });
        assert!(!visited.is_empty());
    }
}

#[inline(never)]
fn derived(kdf: &Kdf, pattern: u8) -> Tracing {
    type Secret = [u8; Hash::BYTES_MAX];
    let secrets = || -> [Secret; 2] {
        [1, 89]
            .map(|factor| std::array::from_fn(|index| pattern ^ (index as u8).wrapping_mul(factor)))
    };
    trace(
        || (secrets(), [[0; Hash::BYTES_MAX]; 6]),
        |(secrets, outputs)| {
            let sources = secrets.each_ref().map(|it| Source::Bytes(&it[..kdf.hash().bytes()]));
            let expansion = |source, label, bytes| Expansion { source, label, context: &[], bytes };
            let expansions = [
                expansion(0, b"key", 32),
                expansion(0, b"iv", 12),
                expansion(0, b"finished", 32),
                expansion(1, b"key", 32),
                expansion(1, b"iv", 12),
                expansion(1, b"finished", 32),
            ];
            // All at once, and as many as are singles or a pair.
            for count in [6, 2, 1] {
                let expansions = &expansions[..count];
                tls13::expand_labels(kdf, &sources, b"tls13 ", expansions, outputs)
                    .expect("what TLS 1.3 has");
            }
        },
    )
}
