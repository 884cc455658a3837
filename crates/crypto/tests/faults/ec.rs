//! Faults: bits of the stack flip while ECDSA signatures are made, at any moment of that. No wrong
//! signature leaves: one whose nonce or key was another in one place than in the next would give
//! some bits of them away.
//!
//! A bit may also flip in the digest before anything is computed from it, or in the signature after
//! it was confirmed. What leaves then is a right signature but for that bit, and says nothing about
//! the key.

use std::time::Instant;

use num_bigint::BigUint;
use openssl::ec::{EcKey, EcPoint};
use openssl::pkey::Private;
use widelane_crypto::ec::{Curve, Ec, Outcome, PrivateKey, SignJob};
use widelane_testkit::fault::{Leaves, attack};
use widelane_testkit::rooms::for_each_room;

use crate::openssl_ec;
use crate::points::Points;

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
        let judge = |signatures: Vec<(Outcome, Vec<u8>)>| {
            Leaves::worst(signatures.iter().zip(&right).enumerate().map(|(index, pair)| {
                let ((outcome, signature), (_, right)) = pair;
                match outcome {
                    Outcome::Done if signature == right => Leaves::Right,
                    Outcome::Done => {
                        let digest = &digests[index / ec.lanes()];
                        let leaves = leaves(curve, &theirs, digest, signature);
                        if leaves == Leaves::Revealing {
                            // Key and nonce are the test's own: these tell what was wrong.
                            eprintln!("{curve:?}, digest {digest:02x?}: {signature:02x?}");
                        }
                        leaves
                    }
                    _ => Leaves::Nothing,
                }
            }))
        };
        let what = format!("{curve:?} in {}, {} at a time", ec.room(), ec.lanes());
        attack(&what, flips, lasts, || sign(ec, &ours, &digests), judge);
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

/// What a signature that is not the expected one says of the key.
fn leaves(curve: Curve, key: &EcKey<Private>, digest: &[u8], signature: &[u8]) -> Leaves {
    let is_right = openssl_ec::signature(signature).verify(digest, key).unwrap_or(false);
    match () {
        // With another nonce.
        () if is_right => Leaves::Right,
        () if is_off_by_a_bit(curve, key, digest, signature) => Leaves::Useless,
        () => Leaves::Revealing,
    }
}

/// Whether a wrong signature r || s is right but for one bit of the digest e, of r or of s, or was
/// made with an r that is off by a bit, where that one or the right one stands in it. As with
/// another digest, that is an equation with two unknowns: it tells nothing that the right one would
/// not. The words of numbers have room for bits beyond them, so a bit is an amount to be added or
/// taken away.
///
/// A signature is right if the point P = (e·G + r·Q)/s has the x coordinate r. With another e or r,
/// P moves by a power of two times G/s or Q/s. With another s, s·X has the x coordinate of s·P,
/// where X is a point with the coordinate r.
fn is_off_by_a_bit(curve: Curve, key: &EcKey<Private>, digest: &[u8], signature: &[u8]) -> bool {
    let mut points = Points::of(curve, key);
    let n = points.order.clone();
    let (r, s) = signature.split_at(signature.len() / 2);
    let [e, r, s] = [digest, r, s].map(|number| BigUint::from_bytes_be(number) % &n);
    let Some(inverse) = s.modinv(&n) else { return false };
    let point = points.sum(&(&e * &inverse % &n), &(&r * &inverse % &n));
    let multiple = points.sum(&e, &r);
    let [x_of_point, x_of_multiple] = [&point, &multiple].map(|point| points.x(point));
    let [of_base, of_key] = [[&inverse, &BigUint::ZERO], [&BigUint::ZERO, &inverse]]
        .map(|[of_base, of_key]| points.sum(of_base, of_key));
    let mut by_digest = Walk { start: points.copy(&point), step: of_base };
    let mut by_r = Walk { start: point, step: of_key };
    let mut by_s =
        points.with_x(&r).map(|of_r| Walk { start: points.multiple(&of_r, &s), step: of_r });
    let mut amount = BigUint::from(1_u32);
    (0..bits_in_memory(curve)).any(|_| {
        let other_r = [(&r + &amount) % &n, (&r + &n - &amount) % &n].map(Some);
        let of_digest = by_digest.go_on(&mut points);
        let of_r = by_r.go_on(&mut points);
        let of_s = by_s.as_mut().map(|walk| walk.go_on(&mut points));
        amount = (&amount << 1_u32) % &n;
        let r = Some(r.clone());
        of_digest.contains(&r)
            || of_r.contains(&r)
            || of_r[0] == other_r[0]
            || of_r[1] == other_r[1]
            || other_r.contains(&x_of_point)
            || of_s.is_some_and(|of_s| of_s.contains(&x_of_multiple))
    })
}

/// Bits of a number in memory, where digits of 52 bits have 64 each.
fn bits_in_memory(curve: Curve) -> usize {
    (curve.bits().div_ceil(52) - 1) * 52 + 64
}

/// A point, and what is added to it and taken away, twice as much each time.
struct Walk {
    start: EcPoint,
    step: EcPoint,
}

impl Walk {
    /// The x coordinates of both points.
    fn go_on(&mut self, points: &mut Points) -> [Option<BigUint>; 2] {
        let moved = [false, true].map(|is_back| {
            let step = if is_back { points.opposite(&self.step) } else { points.copy(&self.step) };
            let moved = points.add(&self.start, &step);
            points.x(&moved)
        });
        self.step = points.add(&self.step, &self.step);
        moved
    }
}

/// Signatures with one wrong bit, and what each says of the key.
pub fn run_planted(_: bool) {
    for curve in Curve::ALL {
        let secret = BigUint::from_bytes_be(&vec![0x42; curve.bytes()]);
        let key = openssl_ec::key(curve, &secret.to_bytes_be());
        let mut points = Points::of(curve, &key);
        let n = points.order.clone();
        let digest = BigUint::from_bytes_be(&vec![0x17; curve.bytes()]);
        let nonce = BigUint::from_bytes_be(&vec![0x23; curve.bytes()]);
        let flipped = |number: &BigUint| number ^ (BigUint::from(1_u32) << 200_u32);
        let mut r_of = |nonce: &BigUint| {
            let point = points.sum(nonce, &BigUint::ZERO);
            points.x(&point).expect("a point")
        };
        let (r, r_of_another) = (r_of(&nonce), r_of(&flipped(&nonce)));
        let s_of = |digest: &BigUint, r: &BigUint, secret: &BigUint| {
            (digest + r * secret) * nonce.modinv(&n).expect("a prime") % &n
        };
        let s = s_of(&digest, &r, &secret);
        let beyond = &digest + (BigUint::from(1_u32) << (bits_in_memory(curve) - 1));
        for (r, s, expected) in [
            (&r, s.clone(), Leaves::Right),
            (&flipped(&r), s.clone(), Leaves::Useless),
            (&r, flipped(&s), Leaves::Useless),
            (&r, s_of(&flipped(&digest), &r, &secret), Leaves::Useless),
            (&r, s_of(&beyond, &r, &secret), Leaves::Useless),
            (&r, s_of(&digest, &flipped(&r), &secret), Leaves::Useless),
            (&flipped(&r), s_of(&digest, &flipped(&r), &secret), Leaves::Useless),
            (&r, s_of(&digest, &r, &flipped(&secret)), Leaves::Revealing),
            (&r_of_another, s_of(&digest, &r_of_another, &secret), Leaves::Revealing),
        ] {
            let padded = |number: &BigUint| {
                let bytes = number.to_bytes_be();
                [vec![0; curve.bytes() - bytes.len()], bytes].concat()
            };
            let found = leaves(curve, &key, &padded(&digest), &[padded(r), padded(&s)].concat());
            assert_eq!(found, expected, "{curve:?}: {r} {s}");
        }
    }
}
