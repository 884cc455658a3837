//! Faults: bits of the stack flip while ECDSA signatures are made, at any moment of that. No wrong
//! signature leaves: one whose nonce or key was another in one place than in the next would give
//! some bits of them away.
//!
//! A bit may also flip in the digest before anything is computed from it, or in the signature after
//! it was confirmed. What leaves then is a right signature but for that bit, and says nothing about
//! the key.

use std::time::Instant;

use num_bigint::BigUint;
use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcKey, EcPoint};
use openssl::pkey::Private;
use widelane_crypto::ec::{Curve, Ec, Outcome, PrivateKey, SignJob};
use widelane_testkit::fault::{Leaves, attack};
use widelane_testkit::rooms::for_each_room;

use crate::openssl_ec;

/// Batches that are signed one after the other: what is disturbed lasts milliseconds then.
const BATCHES: u8 = 40;

/// Flips bits; panics when a signature leaves that must not.
pub fn run(full: bool) {
    let flips = if full { 4_000 } else { 400 };
    for_each_room(|room, policy| {
        let widest = Ec::choose(policy);
        assert_eq!(widest.room(), room);
        disturb(widest, flips);
        for alone in Ec::sign_kernels(policy).into_iter().filter(|kernel| kernel.lanes() == 1) {
            disturb(alone, flips);
        }
    });
}

/// Flips bits while a kernel signs on each curve.
fn disturb(ec: Ec, flips: usize) {
    for curve in Curve::ALL {
        let secret = vec![0x42; curve.bytes()];
        let ours = PrivateKey::from_bytes(curve, &secret).expect("a private key");
        let theirs = openssl_ec::key(curve, &secret);
        let digests: Vec<_> = (0..BATCHES).map(|batch| vec![batch; curve.bytes()]).collect();
        let began = Instant::now();
        let right = sign(ec, &ours, &digests);
        let lasts = began.elapsed();
        assert!(right.iter().all(|(outcome, _)| *outcome == Outcome::Done));
        let judge = |digests: &mut Vec<Vec<u8>>| {
            let signatures = sign(ec, &ours, digests);
            let judged = signatures.iter().zip(&right).enumerate().map(|(index, pair)| {
                let ((outcome, signature), (_, right)) = pair;
                let digest = &digests[index / ec.lanes()];
                match outcome {
                    Outcome::Done if signature == right => Leaves::Right,
                    // With another nonce.
                    Outcome::Done if verifies(&theirs, digest, signature) => Leaves::Right,
                    Outcome::Done
                        if is_off_by_a_bit(curve, &theirs, digest, signature)
                            || is_with_another_r(curve, &theirs, digest, signature) =>
                    {
                        Leaves::Useless
                    }
                    Outcome::Done => Leaves::Revealing,
                    _ => Leaves::Nothing,
                }
            });
            judged.max().expect("there are signatures")
        };
        let what = format!("{curve:?} in {}, {} at a time", ec.room(), ec.lanes());
        attack(&what, flips, lasts, || digests.clone(), judge);
    }
}

/// Signs each digest in all lanes.
fn sign(ec: Ec, key: &PrivateKey, digests: &[Vec<u8>]) -> Vec<(Outcome, Vec<u8>)> {
    let mut signatures =
        vec![(Outcome::Pending, vec![0; 2 * key.curve().bytes()]); digests.len() * ec.lanes()];
    let entropy: Vec<[u8; 32]> = (0..ec.lanes()).map(|lane| [lane as u8; 32]).collect();
    for (digest, signatures) in digests.iter().zip(signatures.chunks_mut(ec.lanes())) {
        let mut jobs: Vec<_> = (signatures.iter_mut().zip(&entropy))
            .map(|((_, signature), entropy)| SignJob::new(key, digest, entropy, signature))
            .collect();
        ec.sign_batch(&mut jobs);
        let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
        for ((outcome, _), signed) in signatures.iter_mut().zip(outcomes) {
            *outcome = signed;
        }
    }
    signatures
}

fn verifies(key: &EcKey<Private>, digest: &[u8], signature: &[u8]) -> bool {
    let signature = openssl_ec::signature(signature);
    signature.verify(digest, key).unwrap_or(false)
}

/// Whether s was made with an r that is off by a bit, and that one or the right one stands in the
/// signature. As with another digest, that is an equation with two unknowns: it tells nothing that
/// the right one would not.
fn is_with_another_r(curve: Curve, key: &EcKey<Private>, digest: &[u8], signature: &[u8]) -> bool {
    let number = |number: &BigUint| BigNum::from_slice(&number.to_bytes_be()).unwrap();
    let order = BigUint::from_bytes_be(&openssl_ec::order(curve).to_vec());
    let r = BigUint::from_bytes_be(&signature[..signature.len() / 2]);
    let digest = number(&BigUint::from_bytes_be(digest));
    let (own, s) = (number(&r), &signature[signature.len() / 2..]);
    (0..8 * curve.bytes() + 24).any(|bit| {
        let amount = (BigUint::from(1u32) << bit) % &order;
        [&r + &amount, &r + &order - &amount].into_iter().any(|other| {
            let other = number(&(other % &order));
            let r_of_nonce = other.to_vec_padded(curve.bytes() as i32).expect("below the order");
            leads_to_r(curve, key, [&digest, &other], signature)
                || leads_to_r(curve, key, [&digest, &own], &[&r_of_nonce, s].concat())
        })
    })
}

/// Whether a signature is that of a digest but for one bit of either. The digits of numbers leave
/// room for bits beyond them, so that a bit is an amount to be added or taken away.
fn is_off_by_a_bit(curve: Curve, key: &EcKey<Private>, digest: &[u8], signature: &[u8]) -> bool {
    let flipped = (0..8 * signature.len()).any(|bit| {
        let mut signature = signature.to_vec();
        signature[bit / 8] ^= 1 << (bit % 8);
        verifies(key, digest, &signature)
    });
    let order = BigUint::from_bytes_be(&openssl_ec::order(curve).to_vec());
    let number = BigUint::from_bytes_be(digest);
    flipped
        || (0..8 * digest.len() + 24).any(|bit| {
            let amount = (BigUint::from(1u32) << bit) % &order;
            [&number + &amount, &number + &order - &amount].into_iter().any(|number| {
                let bytes = (number % &order).to_bytes_be();
                let padding = vec![0; digest.len() - bytes.len()];
                verifies(key, &[padding, bytes].concat(), signature)
            })
        })
}

/// Whether the x coordinate of (digest·G + `other`·Q)/s is r, for the signature r || s and the
/// public key Q.
fn leads_to_r(
    curve: Curve,
    key: &EcKey<Private>,
    [digest, other]: [&BigNum; 2],
    signature: &[u8],
) -> bool {
    let (group, order) = (openssl_ec::group(curve), openssl_ec::order(curve));
    let mut context = BigNumContext::new().unwrap();
    let (r, s) = signature.split_at(signature.len() / 2);
    let [r, s] = [r, s].map(|number| BigNum::from_slice(number).unwrap());
    let mut inverse = BigNum::new().unwrap();
    if inverse.mod_inverse(&s, &order, &mut context).is_err() {
        return false;
    }
    let mut times_inverse = |number: &BigNum| {
        let mut product = BigNum::new().unwrap();
        product.mod_mul(number, &inverse, &order, &mut context).unwrap();
        product
    };
    let [of_base, of_key] = [times_inverse(digest), times_inverse(other)];
    let mut point = EcPoint::new(&group).unwrap();
    point.mul_full(&group, &of_base, key.public_key(), &of_key, &mut context).unwrap();
    let [mut x, mut y, mut reduced] = [(); 3].map(|()| BigNum::new().unwrap());
    let is_finite = point.affine_coordinates(&group, &mut x, &mut y, &mut context).is_ok();
    is_finite && reduced.nnmod(&x, &order, &mut context).is_ok() && reduced == r
}
