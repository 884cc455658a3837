//! Authenticated encryption in every room: against OpenSSL and AWS-LC, in pieces, at guard pages,
//! and what is refused.

use aws_lc_rs::aead as aws;
use openssl::symm::{Cipher, encrypt_aead};
use proptest::prelude::*;
use widelane_cpu::Room;
use widelane_crypto::aead::{
    Aead, AeadError, Algorithm, Direction, Key, Outcome, SealJob, Stream, TAG_BYTES, seal_many,
};
use widelane_testkit::guard::{Edge, Guarded};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

const NONCE: [u8; 12] = *b"twelve bytes";

fn cipher(algorithm: Algorithm) -> Cipher {
    match algorithm {
        Algorithm::Aes128Gcm => Cipher::aes_128_gcm(),
        Algorithm::Aes192Gcm => Cipher::aes_192_gcm(),
        Algorithm::Aes256Gcm => Cipher::aes_256_gcm(),
        Algorithm::ChaCha20Poly1305 => Cipher::chacha20_poly1305(),
    }
}

fn aws_algorithm(algorithm: Algorithm) -> &'static aws::Algorithm {
    match algorithm {
        Algorithm::Aes128Gcm => &aws::AES_128_GCM,
        Algorithm::Aes192Gcm => &aws::AES_192_GCM,
        Algorithm::Aes256Gcm => &aws::AES_256_GCM,
        Algorithm::ChaCha20Poly1305 => &aws::CHACHA20_POLY1305,
    }
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut made = vec![0; length];
    random.fill(&mut made);
    made
}

/// Calls `test` with a chooser for every algorithm in each of its rooms, and asserts the tour.
fn tour(mut test: impl FnMut(Aead)) {
    for algorithm in Algorithm::ALL {
        let mut rooms = algorithm.rooms().to_vec();
        rooms.sort();
        let visited = for_each_room_of(&rooms, |room, policy| {
            let aead = Aead::choose(algorithm, policy);
            assert_eq!(aead.room(), room, "{algorithm:?} runs where the policy says");
            test(aead);
        });
        assert!(visited.contains(&Room::Portable));
    }
}

fn key(aead: &Aead, random: &mut Random) -> (Key, Vec<u8>) {
    let key = bytes(random, aead.algorithm().key_bytes());
    (aead.key(&key).unwrap(), key)
}

#[test]
fn random_messages_are_sealed_as_openssl_and_aws_lc_do() {
    let mut random = Random::new(4);
    tour(|aead| {
        let lengths = (0..150).chain([
            255, 256, 257, 511, 512, 513, 767, 1023, 1024, 1025, 1350, 1536, 1537, 4096, 16384,
            16401,
        ]);
        for length in lengths {
            let (key, raw) = key(&aead, &mut random);
            let plain = bytes(&mut random, length);
            let aad_length = random.below(70);
            let aad = bytes(&mut random, aad_length);
            let mut expected_tag = [0; TAG_BYTES];
            let expected = encrypt_aead(
                cipher(aead.algorithm()),
                &raw,
                Some(&NONCE),
                &aad,
                &plain,
                &mut expected_tag,
            )
            .unwrap();
            let (mut sealed, mut tag) = (vec![0; length], [0; TAG_BYTES]);
            key.seal(&NONCE, &aad, &plain, &mut sealed, &mut tag).unwrap();
            assert_eq!((&sealed, tag), (&expected, expected_tag), "{length}");

            let raw = aws::UnboundKey::new(aws_algorithm(aead.algorithm()), &raw).unwrap();
            let mut aws_text = plain.clone();
            let aws_tag = aws::LessSafeKey::new(raw)
                .seal_in_place_separate_tag(
                    aws::Nonce::assume_unique_for_key(NONCE),
                    aws::Aad::from(&aad),
                    &mut aws_text,
                )
                .unwrap();
            assert_eq!((&sealed, &tag[..]), (&aws_text, aws_tag.as_ref()), "{length}");

            let mut opened = vec![0; length];
            key.open(&NONCE, &aad, &sealed, &mut opened, &tag).unwrap();
            assert_eq!(opened, plain);
        }
    });
}

#[test]
fn nothing_beyond_a_buffer_is_touched() {
    tour(|aead| {
        let mut random = Random::new(5);
        let (key, _) = key(&aead, &mut random);
        // Four of the widest registers, and a little more than the widest chunk.
        for length in (0..=4 * 64).chain(500..520).chain(1020..1030) {
            let plain = bytes(&mut random, length);
            let aad = bytes(&mut random, length % 40);
            let (mut expected, mut expected_tag) = (plain.clone(), [0; TAG_BYTES]);
            key.seal_in_place(&NONCE, &aad, &mut expected, &mut expected_tag).unwrap();
            for edge in Edge::ALL {
                let aad = Guarded::copy(&aad, edge);
                let nonce = Guarded::copy(&NONCE, edge);
                let mut text = Guarded::copy(&plain, edge);
                let mut tag = [0; TAG_BYTES];
                key.seal_in_place(&nonce, &aad, &mut text, &mut tag).unwrap();
                assert_eq!((&*text, tag), (&*expected, expected_tag), "{length} in place");
                let tag = Guarded::copy(&tag, edge);
                key.open_in_place(&nonce, &aad, &mut text, &tag).unwrap();
                assert_eq!(&*text, &*plain, "{length} in place");

                let (source, mut target) =
                    (Guarded::copy(&plain, edge), Guarded::new(length, edge));
                let mut tag = [0; TAG_BYTES];
                key.seal(&nonce, &aad, &source, &mut target, &mut tag).unwrap();
                assert_eq!((&*target, tag), (&*expected, expected_tag), "{length} apart");
                let mut opened = Guarded::new(length, edge);
                key.open(&nonce, &aad, &target, &mut opened, &tag).unwrap();
                assert_eq!(&*opened, &*plain, "{length} apart");
            }
        }
    });
}

#[test]
fn a_forgery_releases_nothing() {
    tour(|aead| {
        let mut random = Random::new(6);
        let (key, _) = key(&aead, &mut random);
        for length in [1, 15, 64, 700, 1300] {
            let plain = bytes(&mut random, length);
            let (mut sealed, mut tag) = (vec![0; length], [0; TAG_BYTES]);
            key.seal(&NONCE, b"aad", &plain, &mut sealed, &mut tag).unwrap();
            let refused = |aad: &[u8], sealed: &[u8], tag: &[u8]| {
                let mut opened = vec![0xff; length];
                let outcome = key.open(&NONCE, aad, sealed, &mut opened, tag);
                assert_eq!(outcome, Err(AeadError::Rejected));
                assert_eq!(opened, vec![0; length], "no plaintext leaves");
                let mut text = sealed.to_vec();
                let outcome = key.open_in_place(&NONCE, aad, &mut text, tag);
                assert_eq!(outcome, Err(AeadError::Rejected));
                assert_eq!(text, vec![0; length], "no plaintext leaves");
            };
            refused(b"aaa", &sealed, &tag);
            for bit in [0, 7, 64, 127] {
                let mut forged = tag;
                forged[bit / 8] ^= 1 << (bit % 8);
                refused(b"aad", &sealed, &forged);
            }
            for index in [0, length / 2, length - 1] {
                let mut forged = sealed.clone();
                forged[index] ^= 0x80;
                refused(b"aad", &forged, &tag);
            }
            let mut opened = vec![0; length];
            key.open(&NONCE, b"aad", &sealed, &mut opened, &tag[..12]).unwrap();
            assert_eq!(opened, plain, "a tag may be cut to 96 bits");
        }
    });
}

#[test]
fn wrong_lengths_are_named_and_nothing_is_written() {
    tour(|aead| {
        let algorithm = aead.algorithm();
        for got in [0, 15, 17, 31, 33, 64] {
            assert_eq!(
                aead.key(&vec![0; got]).err(),
                Some(AeadError::KeyLength { algorithm, got })
            );
        }
        let key = aead.key(&vec![1; algorithm.key_bytes()]).unwrap();
        let (mut tag, mut text) = ([0; TAG_BYTES], *b"untouched");
        let outcome = key.seal(&NONCE, b"", b"eight by", &mut text, &mut tag);
        assert_eq!(outcome, Err(AeadError::OutputLength { got: 9, wanted: 8 }));
        let outcome = key.seal_in_place(b"", b"", &mut text, &mut tag);
        assert_eq!(outcome, Err(AeadError::NonceLength { got: 0 }));
        if algorithm == Algorithm::ChaCha20Poly1305 {
            let outcome = key.seal_in_place(&[0; 13], b"", &mut text, &mut tag);
            assert_eq!(outcome, Err(AeadError::NonceLength { got: 13 }));
        }
        for got in [0, 11, 17] {
            let outcome = key.open_in_place(&NONCE, b"", &mut text, &vec![0; got]);
            assert_eq!(outcome, Err(AeadError::TagLength { got }));
        }
        assert_eq!((&text, tag), (b"untouched", [0; TAG_BYTES]));
    });
}

#[test]
fn many_messages_are_sealed_as_one_by_one() {
    let mut random = Random::new(7);
    let mut keys = Vec::new();
    tour(|aead| keys.extend((0..2).map(|_| key(&aead, &mut random).0)));
    let messages: Vec<_> =
        (0..200).map(|index| bytes(&mut random, [0, 1, 64, 300, 1350][index % 5])).collect();
    let mut texts = messages.clone();
    let mut tags = vec![[0; TAG_BYTES]; texts.len()];
    let jobs = texts.iter_mut().zip(&mut tags).enumerate();
    let mut jobs: Vec<_> = jobs
        .map(|(index, (text, tag))| SealJob {
            key: &keys[index / 8 % keys.len()],
            nonce: &NONCE,
            aad: b"many",
            text,
            tag,
            outcome: Outcome::Pending,
        })
        .collect();
    seal_many(&mut jobs);
    assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
    for (index, (mut text, got)) in messages.into_iter().zip(texts.iter().zip(&tags)).enumerate() {
        let mut tag = [0; TAG_BYTES];
        keys[index / 8 % keys.len()].seal_in_place(&NONCE, b"many", &mut text, &mut tag).unwrap();
        assert_eq!((&text, &tag), got, "{index}");
    }
}

#[test]
fn a_stream_keeps_its_order_and_its_nonces_apart() {
    tour(|aead| {
        let key = aead.key(&vec![9; aead.algorithm().key_bytes()]).unwrap();
        let mut stream = Stream::new(&key);
        assert_eq!(stream.start(Direction::Seal, b""), Err(AeadError::NonceLength { got: 0 }));
        assert_eq!(stream.aad(b"early"), Err(AeadError::OutOfOrder));
        assert_eq!(stream.update_in_place(&mut [0]), Err(AeadError::OutOfOrder));
        assert_eq!(stream.finish(), Err(AeadError::OutOfOrder));
        stream.start(Direction::Seal, &NONCE).unwrap();
        stream.update_in_place(&mut [1, 2, 3]).unwrap();
        assert_eq!(stream.aad(b"late"), Err(AeadError::OutOfOrder));
        stream.finish().unwrap();
        assert_eq!(stream.finish(), Err(AeadError::OutOfOrder));
        assert_eq!(stream.start(Direction::Seal, &NONCE), Err(AeadError::NonceReused));
        stream.start(Direction::Open, &NONCE).unwrap();
        assert_eq!(stream.verify(&[0; 16]), Err(AeadError::Rejected));
        assert_eq!(stream.start(Direction::Seal, b""), Err(AeadError::NonceLength { got: 0 }));
        stream.start_trusted(Direction::Seal, &NONCE).unwrap();
        stream.start(Direction::Seal, b"another one!").unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Every split of AAD and message gives the same bytes, sealed and opened, with nonces of all
    /// lengths.
    #[test]
    fn pieces_make_the_whole(
        seed: u64,
        nonce_bytes in prop_oneof![Just(12), 1usize..40],
        aad_pieces in prop::collection::vec(0usize..40, 0..6),
        pieces in prop::collection::vec(prop_oneof![0usize..40, 0usize..1200], 0..8),
    ) {
        tour(|aead| {
            let mut random = Random::new(seed);
            let (key, raw) = key(&aead, &mut random);
            let nonce_bytes =
                if aead.algorithm() == Algorithm::ChaCha20Poly1305 { 12 } else { nonce_bytes };
            let nonce = bytes(&mut random, nonce_bytes);
            let aad = bytes(&mut random, aad_pieces.iter().sum());
            let plain = bytes(&mut random, pieces.iter().sum());
            let (mut sealed, mut tag) = (plain.clone(), [0; TAG_BYTES]);
            key.seal_in_place(&nonce, &aad, &mut sealed, &mut tag).unwrap();
            let (cipher, mut expected_tag) = (cipher(aead.algorithm()), [0; TAG_BYTES]);
            let expected =
                encrypt_aead(cipher, &raw, Some(&nonce), &aad, &plain, &mut expected_tag).unwrap();
            assert_eq!((&sealed, tag), (&expected, expected_tag));

            for direction in [Direction::Seal, Direction::Open] {
                let mut stream = Stream::new(&key);
                stream.start(direction, &nonce).unwrap();
                let mut rest = &aad[..];
                for piece in &aad_pieces {
                    let (head, behind) = rest.split_at(*piece);
                    stream.aad(head).unwrap();
                    rest = behind;
                }
                let (input, expected) = match direction {
                    Direction::Seal => (&plain, &sealed),
                    Direction::Open => (&sealed, &plain),
                };
                let (mut output, mut start) = (input.clone(), 0);
                for (index, piece) in pieces.iter().enumerate() {
                    let range = start..start + piece;
                    if index % 2 == 0 {
                        stream.update_in_place(&mut output[range.clone()]).unwrap();
                    } else {
                        stream.update(&input[range.clone()], &mut output[range.clone()]).unwrap();
                    }
                    start = range.end;
                }
                assert_eq!(&output, expected);
                match direction {
                    Direction::Seal => assert_eq!(stream.finish().unwrap(), tag),
                    Direction::Open => stream.verify(&tag).unwrap(),
                }
            }
        });
    }
}
