//! The smoke alarm over all that handles secrets, in every room: do keys that never change take
//! another time than keys that always do? `cargo xtask ct --timing` runs it.
#![allow(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::process::ExitCode;

use widelane_crypto::aead::{Aead, Algorithm, TAG_BYTES};
use widelane_crypto::cbc_hmac::{self, CbcHmac, Header, Mode};
use widelane_crypto::ec::{self, Curve, Ec};
use widelane_crypto::ed25519::{self, Ed25519};
use widelane_crypto::rsa::{Components, PrivateJob, PrivateKey, Rsa};
use widelane_crypto::x25519::{self, X25519};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{for_each_room, for_each_room_of};
use widelane_testkit::rsa::{TestKey, test_keys};
use widelane_testkit::timing::{ALARM, largest_t};

/// How long each operation is measured.
const DURATION_NS: u64 = 1_000_000_000;

/// Bytes of what is sealed.
const TEXT: usize = 1000;

fn main() -> ExitCode {
    let mut alarm = Alarm { random: Random::new(1), raised: Vec::new() };
    alarm.judge("planted leak", secret::<64>, leak);
    assert_eq!(alarm.raised, ["planted leak"], "a leak that was planted is not seen");
    alarm.raised.clear();
    for_each_room(|room, policy| {
        let (x25519, ed25519) = (X25519::choose(policy), Ed25519::choose(policy));
        let (ec, rsa) = (Ec::choose(policy), Rsa::choose(policy));
        alarm.x25519(&format!("X25519 in {room}"), x25519);
        alarm.ed25519(&format!("Ed25519 in {room}"), ed25519);
        for curve in Curve::ALL {
            alarm.ec(&format!("{curve:?} in {room}"), &ec, curve);
        }
        alarm.rsa(&format!("RSA-2048 in {room}"), rsa);
    });
    for algorithm in Algorithm::ALL {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            alarm.aead(&format!("{algorithm:?} in {room}"), Aead::choose(algorithm, policy));
        });
    }
    for algorithm in [cbc_hmac::Algorithm::Aes128Sha1, cbc_hmac::Algorithm::Aes256Sha256] {
        for_each_room_of(algorithm.rooms(), |room, policy| {
            let suite = CbcHmac::choose(algorithm, Mode::MacThenEncrypt, policy);
            alarm.padding(&format!("padding of {algorithm:?} in {room}"), &suite);
        });
    }
    if alarm.raised.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("times differ: {}", alarm.raised.join(", "));
    ExitCode::FAILURE
}

struct Alarm {
    random: Random,
    raised: Vec<String>,
}

impl Alarm {
    /// Measures an operation, and once more where that gives cause.
    fn judge<S>(&mut self, what: &str, make: impl Fn(u64) -> S, operation: impl Fn(&mut S)) {
        let mut measure = || {
            let (t, measurements) = largest_t(DURATION_NS, &mut self.random, &make, &operation);
            println!("{what}: t {t:.1} of {measurements} measurements");
            t
        };
        if measure() > ALARM && measure() > ALARM {
            self.raised.push(what.to_owned());
        }
    }

    fn x25519(&mut self, what: &str, x25519: X25519) {
        let peer = secret(2);
        let make = |seed| {
            let keys =
                many(x25519.lanes(), seed, |seed| x25519::PrivateKey::from_bytes(&secret(seed)));
            (vec![[0; 32]; keys.len()], keys)
        };
        self.judge(what, make, |(secrets, keys)| {
            let jobs = keys.iter().zip(secrets);
            let mut jobs: Vec<_> =
                jobs.map(|(key, secret)| x25519::DeriveJob::new(key, &peer, secret)).collect();
            x25519.derive_batch(&mut jobs);
        });
    }

    fn ed25519(&mut self, what: &str, ed25519: Ed25519) {
        let make = |seed| {
            let keys =
                many(ed25519.lanes(), seed, |seed| ed25519::SigningKey::from_seed(&secret(seed)));
            (vec![[0; 64]; keys.len()], keys)
        };
        self.judge(what, make, |(signatures, keys)| {
            let jobs = keys.iter().zip(signatures);
            let mut jobs: Vec<_> = jobs
                .map(|(key, signature)| ed25519::SignJob::new(key, b"message", signature))
                .collect();
            ed25519.sign_batch(&mut jobs);
        });
    }

    fn ec(&mut self, what: &str, ec: &Ec, curve: Curve) {
        let key = |seed| {
            let mut bytes: [u8; 48] = secret(seed);
            bytes[0] &= 0x7f;
            ec::PrivateKey::from_bytes(curve, &bytes[..curve.bytes()]).expect("below the order")
        };
        let make = |seed| {
            let keys = many(ec.lanes(), seed, key);
            (vec![vec![0; 2 * curve.bytes()]; keys.len()], keys)
        };
        self.judge(&format!("signing on {what}"), make, |(signatures, keys)| {
            let jobs = keys.iter().zip(signatures);
            let mut jobs: Vec<_> = jobs
                .map(|(key, made)| ec::SignJob::new(key, &[0x42; 32], &[0x17; 32], made))
                .collect();
            ec.sign_batch(&mut jobs);
        });
        let mut peer = vec![0; 1 + 2 * curve.bytes()];
        ec.generate_batch(&mut [ec::GenerateJob::new(&key(2), &mut peer)]);
        let peer = ec::PublicKey::from_uncompressed(curve, &peer).expect("a public key");
        let make = |seed| {
            let keys = many(ec.lanes(), seed, key);
            (vec![vec![0; curve.bytes()]; keys.len()], keys)
        };
        self.judge(&format!("a secret on {what}"), make, |(secrets, keys)| {
            let jobs = keys.iter().zip(secrets);
            let mut jobs: Vec<_> =
                jobs.map(|(key, secret)| ec::DeriveJob::new(key, &peer, secret)).collect();
            ec.derive_batch(&mut jobs);
        });
    }

    fn rsa(&mut self, what: &str, rsa: Rsa) {
        // The exponent is public, and the check with it takes its time.
        let keys: Vec<TestKey> =
            test_keys(2048).into_iter().filter(|key| key.e == [1, 0, 1]).collect();
        let make = |seed| {
            let keys = many(rsa.lanes(), seed, |seed| {
                let TestKey { n, e, p, q, dp, dq, qinv, .. } =
                    &keys[(seed % keys.len() as u64) as usize];
                PrivateKey::from_components(&Components { n, e, p, q, dp, dq, qinv })
                    .expect("a good key")
            });
            (vec![[0; 256]; keys.len()], keys)
        };
        self.judge(what, make, |(outputs, keys)| {
            let jobs = keys.iter().zip(outputs);
            let mut jobs: Vec<_> =
                jobs.map(|(key, output)| PrivateJob::new(key, &[0x42; 256], output)).collect();
            rsa.private_batch(&mut jobs);
        });
    }

    fn aead(&mut self, what: &str, aead: Aead) {
        let make = |seed| {
            let key: [u8; 32] = secret(seed);
            let text: [u8; TEXT] = secret(!seed);
            (aead.key(&key[..aead.algorithm().key_bytes()]).expect("a key"), text)
        };
        self.judge(what, make, |(key, text)| {
            let mut tag = [0; TAG_BYTES];
            key.seal_in_place(&[7; 12], b"header", text, &mut tag).expect("sealed");
        });
    }

    /// Records that never were sealed: what their padding seems to be is as random as they are.
    fn padding(&mut self, what: &str, suite: &CbcHmac) {
        let key: [u8; 64] = secret(2);
        let (cipher, mac) = key.split_at(suite.algorithm().key_bytes());
        let key = suite.key(cipher, mac).expect("a key");
        let header = Header { sequence: 5, kind: 23, version: 0x0303 };
        self.judge(what, secret::<320>, |record| {
            assert!(key.open(&[7; 16], header, record).is_err(), "nobody sealed it");
        });
    }
}

/// As many keys as a batch has lanes.
fn many<K>(count: usize, seed: u64, key: impl Fn(u64) -> K) -> Vec<K> {
    let mut random = Random::new(seed);
    (0..count).map(|_| key(random.next_u64())).collect()
}

/// The secret bytes of a seed.
fn secret<const N: usize>(seed: u64) -> [u8; N] {
    let mut bytes = [0; N];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Takes as many steps as the secret says.
fn leak(secret: &mut [u8; 64]) {
    for step in 0..secret[0] {
        std::hint::black_box(step);
    }
}
