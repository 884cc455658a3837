//! The key schedules of TLS in every room against published vectors and against aws-lc-rs.

use aws_lc_rs::{hkdf, hmac, tls_prf};
use widelane_crypto::digest::Algorithm;
use widelane_crypto::kdf::{Hash, Kdf, tls12, tls13};
use widelane_testkit::hex;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room_of;

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
