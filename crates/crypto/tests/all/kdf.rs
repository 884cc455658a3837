//! The key schedules of TLS in every room against published vectors and against aws-lc-rs.

use aws_lc_rs::{hkdf, hmac, tls_prf};
use widelane_cpu::{Policy, Room};
use widelane_crypto::digest::Algorithm;
use widelane_crypto::kdf::tls13::{EXPANSIONS_MAX, Expansion, SOURCES_MAX, Source};
use widelane_crypto::kdf::{Hash, Kdf, TooLong, tls12, tls13};
use widelane_testkit::hex;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room_of, only, supported_of};

/// Calls `test` for a hash function in each of its rooms.
fn tour(hash: Hash, mut test: impl FnMut(&Kdf)) {
    let algorithm = match hash {
        Hash::Sha256 => Algorithm::Sha256,
        Hash::Sha384 => Algorithm::Sha384,
    };
    for_each_room_of(algorithm.rooms(), |room, policy| {
        let kdf = Kdf::choose(hash, policy);
        assert_eq!((kdf.hash(), kdf.room()), (hash, room));
        test(&kdf);
    });
}

#[test]
fn tls13_of_rfc_8448() {
    tour(Hash::Sha256, simple_handshake);
}

/// RFC 8448, section 3: the secrets of a simple handshake.
fn simple_handshake(kdf: &Kdf) {
    const EARLY: &str = "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a";
    const DERIVED: &str = "6f2615a108c702c5678f54fc9dbab69716c076189c48250cebeac3576c3611ba";
    const AGREED: &str = "8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d";
    const HANDSHAKE: &str = "1dc826e93606aa6fdc0aadc12f741b01046aa6b99f691ed221a9f0ca043fbeac";
    const HELLOS: &str = "860c06edc07858ee8e78f0e7428c58edd6b43f2ca3e6e95f02ed063cf0e1cad8";
    const CLIENT: &str = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21";
    const CLIENT_KEY: &str = "dbfaa693d1762c5b666af5d950258d01";
    const CLIENT_IV: &str = "5bd3c71b836e0b76bb73265f";

    let extract = |salt: &[u8], input: &[u8]| {
        let mut output = vec![0; 32];
        tls13::extract(kdf, salt, input, &mut output).expect("a digest's length");
        output
    };
    let expand = |secret: &[u8], label: &[u8], context: &[u8], bytes: usize| {
        let mut output = vec![0; bytes];
        tls13::expand_label(kdf, secret, b"tls13 ", label, context, &mut output)
            .expect("allowed lengths");
        output
    };
    let early = extract(&[], &[0; 32]);
    assert_eq!(early, hex::decode(EARLY));
    let derived = expand(&early, b"derived", tls13::empty_digest(Hash::Sha256), 32);
    assert_eq!(derived, hex::decode(DERIVED));
    let handshake = extract(&derived, &hex::decode(AGREED));
    assert_eq!(handshake, hex::decode(HANDSHAKE));
    let client = expand(&handshake, b"c hs traffic", &hex::decode(HELLOS), 32);
    assert_eq!(client, hex::decode(CLIENT));
    assert_eq!(expand(&client, b"key", &[], 16), hex::decode(CLIENT_KEY));
    assert_eq!(expand(&client, b"iv", &[], 12), hex::decode(CLIENT_IV));
}

#[test]
fn tls13_as_aws_lc_has_it() {
    for (hash, theirs, hmac) in [
        (Hash::Sha256, hkdf::HKDF_SHA256, hmac::HMAC_SHA256),
        (Hash::Sha384, hkdf::HKDF_SHA384, hmac::HMAC_SHA384),
    ] {
        let mut random = Random::new(0x13);
        tour(hash, |kdf| {
            for round in 0..300 {
                let secret = bytes(&mut random, hash.bytes());
                let label = bytes(&mut random, round % 200);
                let context = bytes(&mut random, round % 256);
                let output_bytes = round * 37 % 1000;
                let mut info = u16::try_from(output_bytes).expect("short").to_be_bytes().to_vec();
                for part in [[&b"tls13 "[..], &label].concat(), context.clone()] {
                    info.push(u8::try_from(part.len()).expect("short"));
                    info.extend(part);
                }
                let mut expected = vec![0; output_bytes];
                hkdf::Prk::new_less_safe(theirs, &secret)
                    .expand(&[&info], Bytes(output_bytes))
                    .and_then(|made| made.fill(&mut expected))
                    .expect("allowed lengths");
                let mut output = vec![0; output_bytes];
                tls13::expand_label(kdf, &secret, b"tls13 ", &label, &context, &mut output)
                    .expect("allowed lengths");
                assert_eq!(output, expected, "{hash:?}, {output_bytes} bytes");

                let salt = bytes(&mut random, round);
                let expected = hmac::sign(&hmac::Key::new(hmac, &salt), &secret);
                let mut output = vec![0; hash.bytes()];
                tls13::extract(kdf, &salt, &secret, &mut output).expect("a digest's length");
                assert_eq!(output, expected.as_ref(), "{hash:?}, {round} bytes of salt");
            }
        });
    }
}

#[test]
fn what_is_derived_at_once_is_what_is_derived_alone() {
    for hash in Hash::ALL {
        let portable = Kdf::choose(hash, &only(Room::Portable));
        let mut random = Random::new(0x14);
        // Lanes are rooms of their own beside those for single messages; all together as well.
        let rooms = [Room::Portable, Room::Avx2, Room::Shani, Room::Avx512];
        let kdfs = supported_of(&rooms).into_iter().map(only).chain([Policy::open()]);
        for kdf in kdfs.map(|policy| Kdf::choose(hash, &policy)) {
            for round in 0..400 {
                at_once(&kdf, &portable, &mut random, round);
            }
            let mut outputs = [[7; Hash::BYTES_MAX]; EXPANSIONS_MAX];
            let secret = vec![1; hash.bytes()];
            let whole = Source::Bytes(&secret);
            let usual = Expansion { source: 0, label: b"key", context: b"", bytes: 16 };
            let long = [0; 128];
            for (sources, expansion) in [
                (&[Source::Bytes(&secret[1..])][..], usual),
                (&[whole; SOURCES_MAX + 1], usual),
                (&[whole], Expansion { source: 1, ..usual }),
                (&[whole], Expansion { label: &long, ..usual }),
                (&[whole], Expansion { context: &long, ..usual }),
                (&[whole], Expansion { bytes: hash.bytes() + 1, ..usual }),
            ] {
                let result =
                    tls13::expand_labels(&kdf, sources, b"", &[usual, expansion], &mut outputs);
                assert_eq!(result, Err(TooLong));
            }
            let many = [usual; EXPANSIONS_MAX + 1];
            let result = tls13::expand_labels(&kdf, &[whole], b"", &many, &mut outputs);
            assert_eq!(result, Err(TooLong));
            let result = tls13::expand_labels(&kdf, &[whole], b"", &many[..3], &mut outputs[..2]);
            assert_eq!((result, outputs), (Err(TooLong), [[7; Hash::BYTES_MAX]; EXPANSIONS_MAX]));
        }
    }
}

/// Some values from one secret or two, each as it is or made ready, against the portable room.
fn at_once(kdf: &Kdf, portable: &Kdf, random: &mut Random, round: usize) {
    let digest_bytes = kdf.hash().bytes();
    let secrets = [(); SOURCES_MAX].map(|()| bytes(random, digest_bytes));
    let ready = secrets.each_ref().map(|secret| kdf.secret(secret));
    let source = |place: usize| match round >> place & 1 {
        0 => Source::Bytes(&secrets[place]),
        _ => Source::Ready(&ready[place]),
    };
    let sources: [_; SOURCES_MAX] = std::array::from_fn(source);
    let count = round % (EXPANSIONS_MAX + 1);
    let mut pick = |count: usize| random.next_u64() as usize % count;
    // The longest are the longest that fit a block of SHA-256.
    let text = [3; 40];
    let sizes = [(); EXPANSIONS_MAX].map(|()| (pick(13), pick(33), pick(digest_bytes + 1)));
    let places = [(); EXPANSIONS_MAX].map(|()| pick(SOURCES_MAX));
    let expansions: [Expansion<'_>; EXPANSIONS_MAX] = std::array::from_fn(|place| {
        let (label, context, bytes) = sizes[place];
        let (label, context) = (&text[..label], &text[..context]);
        Expansion { source: places[place], label, context, bytes }
    });
    let mut outputs = [[0; Hash::BYTES_MAX]; EXPANSIONS_MAX];
    let expansions = &expansions[..count];
    tls13::expand_labels(kdf, &sources, b"tls13 ", expansions, &mut outputs).expect("short");
    for (it, output) in expansions.iter().zip(&outputs) {
        let mut expected = vec![0; it.bytes];
        let secret = &secrets[it.source];
        tls13::expand_label(portable, secret, b"tls13 ", it.label, it.context, &mut expected)
            .expect("short");
        assert_eq!(output[..it.bytes], expected, "{kdf:?}, {count} values");
    }
    let [mut first, mut expected] = [(); 2].map(|()| vec![0; digest_bytes]);
    let input = &text[..round % 41];
    tls13::extract_first(kdf, input, &mut first).expect("a digest's length");
    tls13::extract(portable, tls13::early(kdf.hash()).salt, input, &mut expected)
        .expect("a digest's length");
    assert_eq!(first, expected, "{kdf:?}, {} bytes", input.len());
}

#[test]
fn tls12_as_aws_lc_has_it() {
    for (hash, theirs) in [(Hash::Sha256, &tls_prf::P_SHA256), (Hash::Sha384, &tls_prf::P_SHA384)] {
        let mut random = Random::new(0x12);
        tour(hash, |kdf| {
            for round in 1..300 {
                let secret = bytes(&mut random, round);
                let seed = bytes(&mut random, round * 7 % 200);
                let output_bytes = 1 + round * 37 % 500;
                let label = b"key expansion";
                let expected = tls_prf::Secret::new(theirs, &secret)
                    .and_then(|secret| secret.derive(label, &seed, output_bytes))
                    .expect("a key block");
                let mut output = vec![0; output_bytes];
                tls12::prf(kdf, &secret, &[&label[..], &seed].concat(), &mut output);
                assert_eq!(output, expected.as_ref(), "{hash:?}, {output_bytes} bytes");
            }
        });
    }
}

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}

struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}
