//! The choice of a room, jobs and keys that must be refused, and the shape of signatures.

use num_bigint::BigUint;
use sha2::{Digest, Sha512};
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::ec::encoding::{EncodingError, signature_from_der, signature_to_der};
use widelane_crypto::ec::*;
use widelane_testkit::hex;
use widelane_testkit::rooms::{for_each_room, supported};
use widelane_testkit::rsa::padded;

/// A private key made of one byte.
fn private(curve: Curve, byte: u8) -> PrivateKey {
    let mut bytes = vec![0; curve.bytes()];
    *bytes.last_mut().unwrap() = byte;
    PrivateKey::from_bytes(curve, &bytes).unwrap()
}

fn public_bytes(ec: &Ec, private: &PrivateKey) -> Vec<u8> {
    let mut bytes = vec![0xaa; 1 + 2 * private.curve().bytes()];
    let mut job = GenerateJob::new(private, &mut bytes);
    ec.generate_batch(std::slice::from_mut(&mut job));
    assert_eq!(job.outcome, Outcome::Done);
    bytes
}

fn public(ec: &Ec, private: &PrivateKey) -> PublicKey {
    PublicKey::from_uncompressed(private.curve(), &public_bytes(ec, private)).unwrap()
}

#[test]
fn each_policy_chooses_its_room() {
    let expect = |width, best_first: &[Room]| {
        let ec = Ec::choose(&Policy::up_to(width));
        let best = best_first.iter().copied().find(|room| room.is_supported());
        assert_eq!(Some(ec.room()), best, "{width:?}");
        assert_eq!(ec.lanes(), lanes_of(ec.room()));
    };
    expect(Width::W128, &[Room::Portable]);
    expect(Width::W256, &[Room::Ifma256, Room::Fma256, Room::Portable]);
    expect(Width::W512, &[Room::Ifma512, Room::Ifma256, Room::Fma256, Room::Portable]);
}

fn lanes_of(room: Room) -> usize {
    match room {
        Room::Ifma512 => 8,
        Room::Ifma256 | Room::Fma256 => 4,
        _ => 1,
    }
}

#[test]
fn the_narrowest_room_has_a_kernel_for_a_single_signature() {
    let kernels = |policy: &Policy| -> Vec<_> {
        Ec::sign_kernels(policy).iter().map(|ec| (ec.lanes(), ec.room())).collect()
    };
    for_each_room(|room, policy| {
        let lanes = lanes_of(room);
        let expected = if lanes == 1 { vec![] } else { vec![(1, room), (lanes, room)] };
        assert_eq!(kernels(policy), expected, "{room}");
        let (one, signer) = (Ec::for_one(policy), Ec::sign_for_one(policy));
        assert_eq!((one.lanes(), signer.lanes(), signer.room()), (lanes, 1, one.room()), "{room}");
    });
    if supported().contains(&Room::Ifma256) && supported().contains(&Room::Ifma512) {
        let expected = [(1, Room::Ifma256), (4, Room::Ifma256), (8, Room::Ifma512)];
        assert_eq!(kernels(&Policy::open()), expected);
    }
}

#[test]
fn nonces_for_elsewhere_differ_with_all_that_they_are_made_of() {
    let ec = Ec::choose(&Policy::up_to(Width::W128));
    for curve in Curve::ALL {
        let made = |byte, digest: &[u8], entropy| {
            let nonce = ec.nonce(&private(curve, byte), digest, &[entropy; 32]).unwrap();
            assert_eq!(nonce.curve(), curve);
            nonce.as_bytes().to_vec()
        };
        let nonce = made(1, b"digest", 2);
        assert_eq!(nonce, made(1, b"digest", 2));
        for other in [made(2, b"digest", 2), made(1, b"another", 2), made(1, b"digest", 3)] {
            assert_ne!(nonce, other);
        }
    }
}

#[test]
fn nonces_are_what_the_documentation_says() {
    let ec = Ec::choose(&Policy::up_to(Width::W128));
    for (curve, order) in Curve::ALL.into_iter().zip(ORDERS) {
        let n = BigUint::from_bytes_be(&hex::decode(order));
        let (key, entropy) = (private(curve, 7), [2; 32]);
        // What is hashed for signatures here must not be what is hashed for those elsewhere, of
        // whatever bytes.
        for digest in [&b"digest"[..], b"\x01digest", b"\0digest"] {
            let hash = |kind| Sha512::digest([key.as_bytes(), &entropy, &[kind], digest].concat());
            let elsewhere = ec.nonce(&key, digest, &entropy).unwrap();
            assert_eq!(elsewhere.as_bytes(), &hash(1)[..curve.bytes()]);
            let k = padded(&(BigUint::from_bytes_be(&hash(0)) % &n), curve.bytes());
            let public = public_bytes(&ec, &PrivateKey::from_bytes(curve, &k).unwrap());
            let x = BigUint::from_bytes_be(&public[1..][..curve.bytes()]) % &n;
            let mut signature = vec![0; 2 * curve.bytes()];
            ec.sign_batch(&mut [SignJob::new(&key, digest, &entropy, &mut signature)]);
            assert_eq!(BigUint::from_bytes_be(&signature[..curve.bytes()]), x);
        }
    }
}

#[test]
fn only_pairs_of_numbers_are_encoded() {
    assert_eq!(signature_to_der(&[1, 2]), [0x30, 6, 2, 1, 1, 2, 1, 2]);
    for length in [0, 1, 3, 95, 97, 98] {
        let encoded = std::panic::catch_unwind(|| signature_to_der(&vec![1; length]));
        let message = encoded.expect_err("a panic");
        let is_ours = message.downcast_ref::<&str>().is_some_and(|text| text.contains("numbers"));
        assert!(is_ours, "{length} bytes");
    }
}

#[test]
fn coordinates_are_a_point_only_on_the_curve() {
    let ec = Ec::choose(&Policy::up_to(Width::W128));
    for curve in Curve::ALL {
        let mut coordinates = public_bytes(&ec, &private(curve, 7)).split_off(1);
        assert!(is_point(curve, &coordinates));
        assert!(!is_point(curve, &coordinates[1..]));
        for index in [0, curve.bytes() - 1, 2 * curve.bytes() - 1] {
            coordinates[index] ^= 4;
            assert!(!is_point(curve, &coordinates));
            coordinates[index] ^= 4;
        }
        assert!(!is_point(curve, &vec![0; 2 * curve.bytes()]), "b is not zero");
    }
}

#[test]
fn keys_and_rooms_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<PrivateKey>();
    shared::<PublicKey>();
    shared::<Ec>();
}

#[test]
fn a_batch_may_mix_curves_and_bad_jobs() {
    for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        assert_eq!(ec.room(), room);
        let keys = Curve::ALL.map(|curve| private(curve, 7));
        let publics = keys.each_ref().map(|key| public(&ec, key));

        let mut secrets = [(0, 0, 32), (1, 1, 48), (0, 1, 32), (1, 0, 48), (0, 0, 31), (1, 1, 49)]
            .map(|(key, peer, length)| (key, peer, vec![0xaa; length]));
        let mut jobs: Vec<_> = secrets
            .iter_mut()
            .map(|(key, peer, secret)| DeriveJob::new(&keys[*key], &publics[*peer], secret))
            .collect();
        ec.derive_batch(&mut jobs);
        for (index, job) in jobs.iter().enumerate() {
            let wanted = if index < 2 { Outcome::Done } else { Outcome::Mismatched };
            assert_eq!(job.outcome, wanted, "{room} {index}");
            assert_eq!(
                *job.shared == vec![0; job.shared.len()],
                [2, 3].contains(&index),
                "{index}"
            );
            assert_eq!(*job.shared == vec![0xaa; job.shared.len()], index >= 4, "{index}");
        }

        let mut signatures = Default::default();
        for ec in Ec::sign_kernels(policy).iter().chain([&ec]) {
            signatures = [64, 96, 65, 64].map(|length| vec![0xaa; length]);
            let mut jobs: Vec<_> = signatures
                .iter_mut()
                .enumerate()
                .map(|(index, out)| SignJob::new(&keys[index % 2], &[1; 32], &[2; 32], out))
                .collect();
            ec.sign_batch(&mut jobs);
            for (index, job) in jobs.iter().enumerate() {
                let wanted = if index < 2 { Outcome::Done } else { Outcome::Mismatched };
                assert_eq!(job.outcome, wanted, "{room} {index}");
                let is_left = job.signature.iter().all(|byte| *byte == 0xaa);
                assert_eq!(is_left, index >= 2, "{room} {index}");
            }
        }

        let mut short = [0xaa; 64];
        let mut jobs = [GenerateJob::new(&keys[0], &mut short)];
        ec.generate_batch(&mut jobs);
        assert_eq!(jobs[0].outcome, Outcome::Mismatched);
        assert_eq!(short, [0xaa; 64]);

        let [p256, p384, ..] = &signatures;
        let mut jobs = [
            VerifyJob::new(&publics[0], &[1; 32], p256),
            VerifyJob::new(&publics[1], &[1; 32], p384),
            VerifyJob::new(&publics[0], &[3; 32], p256),
            VerifyJob::new(&publics[0], &[1; 32], p384),
            VerifyJob::new(&publics[1], &[1; 32], &p384[1..]),
        ];
        ec.verify_batch(&mut jobs);
        use Outcome::{Done, Mismatched, Rejected};
        assert_eq!(jobs.map(|job| job.outcome), [Done, Done, Rejected, Mismatched, Mismatched]);
    });
}

#[test]
fn halves_of_a_signature_out_of_range_are_rejected() {
    for_each_room(|room, policy| {
        let ec = Ec::choose(policy);
        for (curve, order) in Curve::ALL.into_iter().zip(ORDERS) {
            let key = private(curve, 9);
            let public = public(&ec, &key);
            let mut good = vec![0; 2 * curve.bytes()];
            ec.sign_batch(&mut [SignJob::new(&key, &[1; 32], &[2; 32], &mut good)]);
            let (zero, order) = (vec![0; curve.bytes()], hex::decode(order));
            let ones = vec![0xff; curve.bytes()];
            let (r, s) = good.split_at(curve.bytes());
            let bad: Vec<_> = [&zero, &order, &ones]
                .into_iter()
                .flat_map(|bad| [[bad, s].concat(), [r, bad].concat()])
                .collect();
            let mut jobs: Vec<_> = bad
                .iter()
                .chain([&good])
                .map(|signature| VerifyJob::new(&public, &[1; 32], signature))
                .collect();
            ec.verify_batch(&mut jobs);
            for (index, job) in jobs.iter().enumerate() {
                let wanted = if index == 6 { Outcome::Done } else { Outcome::Rejected };
                assert_eq!(job.outcome, wanted, "{room} {curve:?} {index}");
            }
        }
    });
}

#[test]
fn entropy_and_digest_make_the_nonce() {
    let ec = Ec::choose(&Policy::open());
    let key = private(Curve::P256, 7);
    let sign = |digest: &[u8], entropy: &[u8; 32]| {
        let mut signature = vec![0; 64];
        ec.sign_batch(&mut [SignJob::new(&key, digest, entropy, &mut signature)]);
        signature
    };
    let nonce_point = |signature: &[u8]| signature[..32].to_vec();
    let first = sign(&[1; 32], &[2; 32]);
    assert_eq!(first, sign(&[1; 32], &[2; 32]));
    assert_ne!(nonce_point(&first), nonce_point(&sign(&[1; 32], &[3; 32])));
    assert_ne!(nonce_point(&first), nonce_point(&sign(&[4; 32], &[2; 32])));
}

#[test]
fn a_batch_fits_the_promised_stack() {
    let run = || {
        for_each_room(|_, policy| {
            let ec = Ec::choose(policy);
            for curve in Curve::ALL {
                let key = private(curve, 7);
                let peer = public(&ec, &key);
                let mut secret = vec![0; curve.bytes()];
                ec.derive_batch(&mut [DeriveJob::new(&key, &peer, &mut secret)]);
                let mut signature = vec![0; 2 * curve.bytes()];
                for ec in Ec::sign_kernels(policy).iter().chain([&ec]) {
                    ec.sign_batch(&mut [SignJob::new(&key, &[1; 32], &[2; 32], &mut signature)]);
                }
                let mut job = VerifyJob::new(&peer, &[1; 32], &signature);
                ec.verify_batch(std::slice::from_mut(&mut job));
                assert_eq!(job.outcome, Outcome::Done);
            }
        })
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), supported());
}

const ORDERS: [&str; 2] = [
    "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
    "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf\
     581a0db248b0a77aecec196accc52973",
];

#[test]
fn malformed_keys_are_refused_by_name() {
    let ec = Ec::choose(&Policy::open());
    for (curve, order) in Curve::ALL.into_iter().zip(ORDERS) {
        let bytes = curve.bytes();
        let refused = |key: &[u8]| PrivateKey::from_bytes(curve, key).err();
        let length = |bytes, expected| Some(KeyError::Length { bytes, expected });
        assert_eq!(refused(&[]), length(0, bytes));
        assert_eq!(refused(&vec![1; bytes + 1]), length(bytes + 1, bytes));
        assert_eq!(refused(&vec![0; bytes]), Some(KeyError::OutOfRange));
        assert_eq!(refused(&vec![0xff; bytes]), Some(KeyError::OutOfRange));
        let mut edge = hex::decode(order);
        assert_eq!(refused(&edge), Some(KeyError::OutOfRange));
        edge[bytes - 1] -= 1;
        let largest = PrivateKey::from_bytes(curve, &edge).unwrap();
        assert_eq!(largest.as_bytes(), edge);

        let good = public_bytes(&ec, &largest);
        let refused = |damage: &dyn Fn(&mut Vec<u8>)| {
            let mut key = good.clone();
            damage(&mut key);
            PublicKey::from_uncompressed(curve, &key).err()
        };
        assert_eq!(refused(&|_| ()), None);
        let whole = 1 + 2 * bytes;
        assert_eq!(refused(&|key| key.push(0)), length(whole + 1, whole));
        assert_eq!(refused(&|key| key.truncate(1 + bytes)), length(1 + bytes, whole));
        assert_eq!(refused(&|key| key[0] = 2), Some(KeyError::Format));
        for damage in [1, bytes, bytes + 1, 2 * bytes] {
            assert_eq!(refused(&|key| key[damage] ^= 1), Some(KeyError::NotOnCurve));
        }
        assert_eq!(refused(&|key| key[1..].fill(0)), Some(KeyError::NotOnCurve));
        assert_eq!(refused(&|key| key[1..=bytes].fill(0xff)), Some(KeyError::NotOnCurve));
        assert_eq!(refused(&|key| key[1 + bytes..].fill(0xff)), Some(KeyError::NotOnCurve));
    }
}

#[test]
fn signatures_survive_der_and_back() {
    for curve in Curve::ALL {
        let bytes = curve.bytes();
        for first in [0u8, 1, 0x7f, 0x80, 0xff] {
            for zeros in [0, 1, bytes - 1] {
                let mut signature = vec![first; 2 * bytes];
                signature[..zeros].fill(0);
                let der = signature_to_der(&signature);
                let openssl = openssl::ecdsa::EcdsaSig::from_der(&der).unwrap();
                assert_eq!(openssl.to_der().unwrap(), der);
                assert_eq!(signature_from_der(curve, &der), Ok(signature));
            }
        }
    }
}

#[test]
fn malformed_der_is_refused() {
    let good = [0x30, 6, 2, 1, 5, 2, 1, 9];
    let mut expected = [0; 64];
    (expected[31], expected[63]) = (5, 9);
    assert_eq!(signature_from_der(Curve::P256, &good).unwrap(), expected);
    for malformed in [
        &[][..],
        &good[..7],
        &[0x31, 6, 2, 1, 5, 2, 1, 9],
        &[0x30, 6, 3, 1, 5, 2, 1, 9],
        &[0x30, 0x81, 6, 2, 1, 5, 2, 1, 9],
        &[0x30, 7, 2, 1, 5, 2, 1, 9, 0],
        &[0x30, 6, 2, 1, 5, 2, 1, 9, 0],
        &[0x30, 7, 2, 2, 0, 5, 2, 1, 9],
        &[0x30, 5, 2, 0, 2, 1, 9],
        &[0x30, 6, 2, 1, 5, 2, 2, 9],
        &[0x30, 3, 2, 1, 5],
    ] {
        let refused = signature_from_der(Curve::P256, malformed);
        assert_eq!(refused, Err(EncodingError::Malformed), "{malformed:?}");
    }
    let negative = [0x30, 6, 2, 1, 0x85, 2, 1, 9];
    assert_eq!(signature_from_der(Curve::P256, &negative), Err(EncodingError::OutOfRange));
    let mut long = vec![0x30, 38, 2, 33, 1];
    long.extend([0; 32]);
    long.extend([2, 1, 9]);
    assert_eq!(signature_from_der(Curve::P256, &long), Err(EncodingError::OutOfRange));
    assert!(signature_from_der(Curve::P384, &long).is_ok());
}
