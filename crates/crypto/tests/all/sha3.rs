//! SHA-3 and SHAKE in every room: against OpenSSL, in pieces, many at once, and at guard pages.

use openssl::hash::{MessageDigest, hash, hash_xof};
use widelane_cpu::Policy;
use widelane_crypto::sha3::{Algorithm, LANE_ROOMS, Sha3};
use widelane_testkit::guard::{Edge, Guarded};
use widelane_testkit::hex;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room_of, only};

/// Calls `test` for every algorithm in every room with lanes, and where there is none.
fn tour(mut test: impl FnMut(Sha3)) {
    for_each_room_of(LANE_ROOMS, |room, policy| {
        for algorithm in Algorithm::ALL {
            let sha3 = Sha3::choose(algorithm, policy);
            assert_eq!(sha3.lane_room(), Some(room));
            test(sha3);
        }
    });
    for algorithm in Algorithm::ALL {
        let sha3 = Sha3::choose(algorithm, &only(widelane_cpu::Room::Portable));
        assert_eq!(sha3.lane_room(), None);
        test(sha3);
    }
}

fn openssl(algorithm: Algorithm, message: &[u8], bytes: usize) -> Vec<u8> {
    let mut digest = vec![0; bytes];
    match algorithm {
        Algorithm::Sha3_256 => hash(MessageDigest::sha3_256(), message).unwrap().to_vec(),
        Algorithm::Sha3_512 => hash(MessageDigest::sha3_512(), message).unwrap().to_vec(),
        Algorithm::Shake128 => {
            hash_xof(MessageDigest::shake_128(), message, &mut digest).unwrap();
            digest
        }
        Algorithm::Shake256 => {
            hash_xof(MessageDigest::shake_256(), message, &mut digest).unwrap();
            digest
        }
    }
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut made = vec![0; length];
    random.fill(&mut made);
    made
}

/// The digests of the empty message (FIPS 202, as NIST's example values have them).
#[test]
fn the_published_digests_come_out() {
    let expected = [
        (Algorithm::Sha3_256, "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
        (
            Algorithm::Sha3_512,
            "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6\
             15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
        ),
        (Algorithm::Shake128, "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26"),
        (Algorithm::Shake256, "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f"),
    ];
    for (algorithm, expected) in expected {
        let mut digest = vec![0; expected.len() / 2];
        Sha3::choose(algorithm, &Policy::open()).digest(b"", &mut digest);
        assert_eq!(digest, hex::decode(expected), "{algorithm:?}");
    }
}

#[test]
fn every_length_is_hashed_as_openssl_does() {
    let mut random = Random::new(202);
    tour(|sha3| {
        let algorithm = sha3.algorithm();
        for count in [1, 2, 3, 8, 9, 30] {
            let messages: Vec<_> = (0..count)
                .map(|_| {
                    let length = random.below(600);
                    bytes(&mut random, length)
                })
                .collect();
            let lengths = messages
                .iter()
                .map(|message| algorithm.digest_bytes().unwrap_or(1 + message.len() * 7 % 500));
            let mut digests: Vec<_> = lengths.map(|length| vec![0; length]).collect();
            let mut places: Vec<_> = digests.iter_mut().map(Vec::as_mut_slice).collect();
            let messages: Vec<_> = messages.iter().map(Vec::as_slice).collect();
            sha3.digest_many(&messages, &mut places);
            for (message, digest) in messages.iter().zip(&digests) {
                let expected = openssl(algorithm, message, digest.len());
                assert_eq!(*digest, expected, "{sha3:?}, {} bytes", message.len());
            }
        }
        for length in 0..=280 {
            let message = bytes(&mut random, length);
            let mut digest = vec![0; algorithm.digest_bytes().unwrap_or(200)];
            sha3.digest(&message, &mut digest);
            assert_eq!(digest, openssl(algorithm, &message, digest.len()), "{length} bytes");
        }
    });
}

#[test]
fn pieces_make_the_whole() {
    let mut random = Random::new(203);
    for algorithm in Algorithm::ALL {
        let sha3 = Sha3::choose(algorithm, &Policy::open());
        for _ in 0..200 {
            let (mut stream, mut message) = (sha3.begin(), Vec::new());
            for _ in 0..random.below(6) {
                let longest = [3, 80, 400][random.below(3)];
                let length = random.below(longest);
                let piece = bytes(&mut random, length);
                stream.update(&piece);
                message.extend(piece);
            }
            let mut digest = vec![0; algorithm.digest_bytes().unwrap_or(300)];
            let mut whole = digest.clone();
            stream.finish(&mut digest);
            sha3.digest(&message, &mut whole);
            assert_eq!(digest, whole, "{algorithm:?}");
        }
    }
}

#[test]
fn nothing_beyond_a_message_or_digest_is_touched() {
    let mut random = Random::new(204);
    tour(|sha3| {
        for edge in Edge::ALL {
            for length in [0, 1, 7, 8, 71, 72, 135, 136, 137, 168, 300] {
                let message = Guarded::copy(&bytes(&mut random, length), edge);
                let size = sha3.algorithm().digest_bytes().unwrap_or(length + 1);
                let mut digests: Vec<_> = (0..9).map(|_| Guarded::new(size, edge)).collect();
                let mut places: Vec<_> = digests.iter_mut().map(|digest| &mut digest[..]).collect();
                sha3.digest_many(&[&message[..]; 9], &mut places);
                assert!(digests.iter().all(|digest| digest[..] == digests[0][..]));
            }
        }
    });
}
