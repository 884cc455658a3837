//! Hashes in every room: against OpenSSL, the sha1 and sha2 crates and published vectors, in
//! pieces, many at once, and at guard pages.

use openssl::hash::{MessageDigest, hash};
use proptest::prelude::*;
use widelane_cpu::{Policy, Room};
use widelane_crypto::digest::{Algorithm, Digest, Hash};
use widelane_testkit::guard::{Edge, Guarded};
use widelane_testkit::hex;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{only, supported_of};

fn message_digest(algorithm: Algorithm) -> MessageDigest {
    match algorithm {
        Algorithm::Sha1 => MessageDigest::sha1(),
        Algorithm::Sha224 => MessageDigest::sha224(),
        Algorithm::Sha256 => MessageDigest::sha256(),
        Algorithm::Sha384 => MessageDigest::sha384(),
        Algorithm::Sha512 => MessageDigest::sha512(),
    }
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut made = vec![0; length];
    random.fill(&mut made);
    made
}

/// Calls `test` for every algorithm in each of its rooms, single and with lanes, and asserts the
/// tour.
fn tour(mut test: impl FnMut(Hash)) {
    for algorithm in Algorithm::ALL {
        let mut rooms = [algorithm.rooms(), algorithm.lane_rooms()].concat();
        rooms.sort();
        rooms.dedup();
        let (mut single, mut lanes) = (Vec::new(), Vec::new());
        for room in supported_of(&rooms) {
            let hash = Hash::choose(algorithm, &only(room));
            single.push(hash.room());
            lanes.extend(hash.lane_room());
            test(hash);
        }
        let all = Hash::choose(algorithm, &Policy::open());
        single.push(all.room());
        lanes.extend(all.lane_room());
        test(all);
        for visited in [&mut single, &mut lanes] {
            visited.sort();
            visited.dedup();
        }
        eprintln!("{algorithm:?}: rooms {single:?}, lanes {lanes:?}");
        let sorted = |rooms: &[Room]| {
            let mut rooms = supported_of(rooms);
            rooms.sort();
            rooms
        };
        assert_eq!(single, sorted(algorithm.rooms()), "rooms for single messages");
        assert_eq!(lanes, sorted(algorithm.lane_rooms()), "rooms with lanes");
    }
}

#[test]
fn every_length_is_hashed_as_openssl_does() {
    let mut random = Random::new(1);
    tour(|hash_function| {
        for length in (0..300).chain([511, 512, 4096, 16384, 16401]) {
            let message = bytes(&mut random, length);
            let expected = hash(message_digest(hash_function.algorithm()), &message).unwrap();
            assert_eq!(hash_function.digest(&message).as_ref(), &*expected, "{length}");
        }
    });
}

#[test]
fn a_third_lineage_agrees() {
    use sha2::Digest as _;
    let mut random = Random::new(2);
    tour(|hash_function| {
        for longest in [2000; 50].into_iter().chain([100_000; 4]) {
            let length = random.below(longest);
            let message = bytes(&mut random, length);
            let expected = match hash_function.algorithm() {
                Algorithm::Sha1 => sha1::Sha1::digest(&message).to_vec(),
                Algorithm::Sha224 => sha2::Sha224::digest(&message).to_vec(),
                Algorithm::Sha256 => sha2::Sha256::digest(&message).to_vec(),
                Algorithm::Sha384 => sha2::Sha384::digest(&message).to_vec(),
                Algorithm::Sha512 => sha2::Sha512::digest(&message).to_vec(),
            };
            assert_eq!(hash_function.digest(&message).as_ref(), expected, "{length} bytes");
        }
    });
}

/// The messages of SHAVS (`vectors/PROVENANCE.toml`).
#[test]
fn the_published_messages_come_out() {
    let [sha1, sha2] = [
        include_str!("../../../../vectors/nist/sha1.txt"),
        include_str!("../../../../vectors/nist/sha2.txt"),
    ];
    let vectors: Vec<_> = sha1
        .lines()
        .chain(sha2.lines())
        .map(|line| {
            let [bits, message, digest] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("a line has three fields");
            };
            (bits, hex::decode(message.trim_matches('-')), hex::decode(digest))
        })
        .collect();
    assert_eq!(vectors.len(), 65 + 65 + 129 + 129 + 4 * 4);
    tour(|hash| {
        let bits = match hash.algorithm() {
            Algorithm::Sha224 => return,
            Algorithm::Sha1 => "160",
            Algorithm::Sha256 => "256",
            Algorithm::Sha384 => "384",
            Algorithm::Sha512 => "512",
        };
        let vectors = vectors.iter().filter(|vector| vector.0 == bits);
        let (messages, expected): (Vec<_>, Vec<_>) =
            vectors.map(|(_, message, digest)| (&message[..], &digest[..])).unzip();
        let mut digests = vec![Digest::default(); messages.len()];
        hash.digest_many(&messages, &mut digests);
        for ((message, expected), digest) in messages.into_iter().zip(expected).zip(digests) {
            assert_eq!(hash.digest(message).as_ref(), expected, "{bits}, {message:02x?}");
            assert_eq!(digest.as_ref(), expected, "{bits}, many at once, {message:02x?}");
        }
    });
}

/// The Monte Carlo tests of SHAVS (NIST, "shabytetestvectors", CAVS 11.0): seed and checkpoint 4.
#[test]
fn the_published_chains_come_out() {
    let vectors = [
        (
            Algorithm::Sha1,
            "dd4df644eaf3d85bace2b21accaa22b28821f5cd",
            "d1c65e9ac55727fbf30eaf5f00cc22b9bab81a2c",
        ),
        (
            Algorithm::Sha224,
            "ed2b70d575d9d0b4196ae84a03eed940057ea89cdd729b95b7d4e6a5",
            "b285f829b0499ff45f8454eda2d4e0997b3f438c2728f1a25cfbb05a",
        ),
        (
            Algorithm::Sha256,
            "6d1e72ad03ddeb5de891e572e2396f8da015d899ef0e79503152d6010a3fe691",
            "f9eba2a4cf6263826beaf6150057849eb975a9513c0b76ecad0f1c19ebbad89b",
        ),
        (
            Algorithm::Sha384,
            "edff07255c71b54a9beae52cdfa083569a08be89949cbba73ddc8acf429359ca\
             5e5be7a673633ca0d9709848f522a9df",
            "d7b4d4e779ca70c8d065630db1f9128ee43b4bde08a81bce13d48659b6ef47b6\
             cfc802af6d8756f6cd43c709bb445bab",
        ),
        (
            Algorithm::Sha512,
            "5c337de5caf35d18ed90b5cddfce001ca1b8ee8602f367e7c24ccca6f893802f\
             b1aca7a3dae32dcd60800a59959bc540d63237876b799229ae71a2526fbc52cd",
            "b68f0cd2d63566b3934a50666dec6d62ca1db98e49d7733084c1f86d91a8a08c\
             756fa7ece815e20930dd7cb66351bad8c087c2f94e8757cb98e7f4b86b21a8a8",
        ),
    ];
    let mut chains = 0;
    tour(|hash| {
        for (_, seed, expected) in vectors.iter().filter(|vector| vector.0 == hash.algorithm()) {
            let mut seed = hex::decode(seed);
            for _ in 0..5 {
                let mut last = [seed.clone(), seed.clone(), seed];
                for _ in 0..1000 {
                    let next = hash.digest(&last.concat()).as_ref().to_vec();
                    last = [last[1].clone(), last[2].clone(), next];
                }
                [_, _, seed] = last;
            }
            assert_eq!(seed, hex::decode(expected), "{:?}", hash.algorithm());
            chains += 1;
        }
    });
    assert!(chains >= 2 * vectors.len(), "every algorithm in some rooms");
}

#[test]
fn many_messages_are_hashed_as_one_by_one() {
    let mut random = Random::new(3);
    tour(|hash| {
        for count in [0, 1, 2, 3, 5, 8, 15, 16, 17, 40, 100] {
            let messages: Vec<_> = (0..count)
                .map(|index| {
                    let longest = [1, 56, 120, 700, 3000][index % 5];
                    let length = random.below(longest);
                    bytes(&mut random, length)
                })
                .collect();
            let messages: Vec<_> = messages.iter().map(Vec::as_slice).collect();
            let mut digests = vec![Digest::default(); count];
            hash.digest_many(&messages, &mut digests);
            for (message, digest) in messages.iter().zip(digests) {
                assert_eq!(digest, hash.digest(message), "{count} messages");
            }
        }
    });
}

#[test]
fn nothing_beyond_a_message_is_read() {
    tour(|hash| {
        let mut random = Random::new(4);
        for edge in Edge::ALL {
            for length in 0..=4 * 64 {
                let message = Guarded::copy(&bytes(&mut random, length), edge);
                let expected = hash.digest(&message);
                let mut digests = [Digest::default(); 17];
                hash.digest_many(&[&message[..]; 17], &mut digests);
                assert_eq!(digests, [expected; 17], "{length}");
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Every split of a message gives the same digest, and a copy of a stream goes on by itself.
    #[test]
    fn pieces_make_the_whole(
        seed: u64,
        pieces in prop::collection::vec(prop_oneof![0usize..70, 0usize..1200], 0..8),
    ) {
        tour(|hash| {
            let message = bytes(&mut Random::new(seed), pieces.iter().sum());
            let (mut stream, mut rest) = (hash.begin(), &message[..]);
            for piece in &pieces {
                let (head, behind) = rest.split_at(*piece);
                let mut copy = stream.clone();
                stream.update(head);
                copy.update(rest);
                assert_eq!(copy.finish(), hash.digest(&message));
                rest = behind;
            }
            assert_eq!(stream.finish(), hash.digest(&message));
        });
    }
}
