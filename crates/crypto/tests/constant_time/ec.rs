//! Trace equality on P-256 and P-384: two sets of keys take the same way through the code,
//! instruction by instruction.

use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, Outcome, PrivateKey, PublicKey, SignJob,
};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room;
use widelane_testkit::trace::{Tracing, trace};

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        for curve in Curve::ALL {
            // All keys come first, and are copied: the heap must be the same for both.
            let sets = [1, 2].map(|seed| keys(&ec, curve, seed));
            let compare = |what: &str, traced: &dyn Fn(&[PrivateKey]) -> Tracing| {
                let [one, other] = sets.each_ref().map(|keys| traced(keys)).map(Tracing::end);
                let what = format!("{what} on {curve:?} in {room}");
                eprintln!("{what}: {} and {} instructions", one.instructions, other.instructions);
                assert_eq!(one, other, "{what} takes two ways");
                assert!(one.instructions > 100, "{what} did something");
            };
            compare("signing", &|keys| signing(&ec, curve, keys));
            for alone in Ec::sign_kernels(policy).iter().filter(|kernel| kernel.lanes() == 1) {
                compare("signing alone", &|keys| signing(alone, curve, &keys[..1]));
            }
            compare("importing", &|keys| import(curve, keys));
            compare("generating", &|keys| generation(&ec, curve, keys));
            let peer = peer(&ec, &sets[0][0]);
            compare("deriving", &|keys| derivation(&ec, curve, keys, &peer));
        }
    });
}

#[inline(never)]
fn import(curve: Curve, keys: &[PrivateKey]) -> Tracing {
    let prepare = || (keys[0].as_bytes().to_vec(), None);
    trace(prepare, |(bytes, key)| *key = Some(PrivateKey::from_bytes(curve, bytes)))
}

#[inline(never)]
fn generation(ec: &Ec, curve: Curve, keys: &[PrivateKey]) -> Tracing {
    trace(
        || (keys.to_vec(), vec![vec![0; 1 + 2 * curve.bytes()]; keys.len()]),
        |(keys, publics)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(publics)
                .map(|(key, public)| GenerateJob::new(key, public))
                .collect();
            ec.generate_batch(&mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}

#[inline(never)]
fn derivation(ec: &Ec, curve: Curve, keys: &[PrivateKey], peer: &PublicKey) -> Tracing {
    trace(
        || (keys.to_vec(), vec![vec![0; curve.bytes()]; keys.len()]),
        |(keys, secrets)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(secrets)
                .map(|(key, secret)| DeriveJob::new(key, peer, secret))
                .collect();
            ec.derive_batch(&mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}

#[inline(never)]
fn signing(ec: &Ec, curve: Curve, keys: &[PrivateKey]) -> Tracing {
    trace(
        || (keys.to_vec(), vec![vec![0; 2 * curve.bytes()]; keys.len()]),
        |(keys, signatures)| {
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(signatures)
                .map(|(key, signature)| SignJob::new(key, &[0x42; 32], &[0x17; 32], signature))
                .collect();
            ec.sign_batch(&mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}

fn peer(ec: &Ec, key: &PrivateKey) -> PublicKey {
    let mut public = vec![0; 1 + 2 * key.curve().bytes()];
    ec.generate_batch(&mut [GenerateJob::new(key, &mut public)]);
    PublicKey::from_uncompressed(key.curve(), &public).expect("a public key")
}

/// As many keys as there are lanes.
fn keys(ec: &Ec, curve: Curve, seed: u64) -> Vec<PrivateKey> {
    let mut random = Random::new(seed);
    let mut key = || {
        let bytes = secret_bytes(curve, &mut random);
        PrivateKey::from_bytes(curve, &bytes).expect("below the order")
    };
    (0..ec.lanes()).map(|_| key()).collect()
}

fn secret_bytes(curve: Curve, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; curve.bytes()];
    random.fill(&mut bytes);
    bytes[0] &= 0x7f;
    bytes
}
