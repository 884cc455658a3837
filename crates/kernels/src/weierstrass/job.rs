//! What a batch works on: keys, jobs, and what became of them.

use widelane_secret::{Mask, wipe};

use super::curve::Curve;
use super::element::{Element, Prime};
use super::numbers::NONCE_BYTES;
use super::point::Affine;
use crate::digits::{difference, from_bytes, less, to_bytes};
use crate::lanes::Portable;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not executed yet.
    Pending,
    /// The result is in the output, or the signature is good.
    Done,
    /// The result failed its check or cannot be used, or the signature is bad.
    Rejected,
}

/// A secret number d from 1 to n − 1, in digits; wiped when dropped.
#[derive(Clone)]
pub struct Scalar<const D: usize> {
    pub(super) digits: [u64; D],
    /// n − d: signatures are made with one and confirmed with the other, so that none leaves once a
    /// bit of either has flipped.
    pub(super) negated: [u64; D],
}

/// A point of a curve that is not infinity.
#[derive(Clone)]
pub struct Point<const D: usize> {
    /// In Montgomery form, below p.
    pub(super) x: [u64; D],
    pub(super) y: [u64; D],
}

/// Makes the public key of a private one.
pub struct GenerateJob<'a, const D: usize> {
    /// The private key.
    pub private: &'a Scalar<D>,
    /// x and y of the public key; zeros unless done.
    pub public: &'a mut [u8],
    /// What became of the job.
    pub verdict: Verdict,
}

/// Multiplies the point of a peer.
pub struct DeriveJob<'a, const D: usize> {
    /// Our private key.
    pub private: &'a Scalar<D>,
    /// The peer's public key.
    pub peer: &'a Point<D>,
    /// x of the product; zeros unless done.
    pub shared: &'a mut [u8],
    /// What became of the job.
    pub verdict: Verdict,
}

/// Signs a digest by ECDSA.
pub struct SignJob<'a, const D: usize> {
    /// The private key.
    pub private: &'a Scalar<D>,
    /// A uniform number that is used once; the nonce is its remainder modulo n.
    pub nonce: &'a [u8; NONCE_BYTES],
    /// The leftmost bits of the digest, as many as n has.
    pub digest: &'a [u8],
    /// r and s; zeros unless done.
    pub signature: &'a mut [u8],
    /// What became of the job.
    pub verdict: Verdict,
}

/// Verifies a signature of ECDSA.
pub struct VerifyJob<'a, const D: usize> {
    /// The public key.
    pub public: &'a Point<D>,
    /// The leftmost bits of the digest, as many as n has.
    pub digest: &'a [u8],
    /// r and s.
    pub signature: &'a [u8],
    /// What became of the job.
    pub verdict: Verdict,
}

impl<const D: usize> Scalar<D> {
    /// Reads a big-endian number of as many bytes as n; `None` unless it is from 1 to n − 1.
    pub fn from_bytes<C: Curve<D>>(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != C::BYTES {
            return None;
        }
        let n = &<C::Order as Prime<D>>::MODULUS.m;
        let digits = from_bytes(bytes);
        let is_zero = Mask::equal_words(&digits, &[0; D]).declassify();
        let is_in_range = !is_zero & less(&digits, n);
        let scalar = Scalar { digits, negated: difference(n, &digits) };
        is_in_range.then_some(scalar)
    }
}

impl<const D: usize> Drop for Scalar<D> {
    fn drop(&mut self) {
        wipe(&mut self.digits);
        wipe(&mut self.negated);
    }
}

impl<const D: usize> Point<D> {
    /// Reads x and y, big-endian; `None` unless they are below p and on the curve.
    pub fn from_bytes<C: Curve<D>>(bytes: &[u8]) -> Option<Self> {
        let p = &const { <C::Field as Prime<D>>::MODULUS }.m;
        if bytes.len() != 2 * C::BYTES {
            return None;
        }
        let (x, y) = bytes.split_at(C::BYTES);
        let [x, y] = [x, y].map(from_bytes::<D>);
        if !less(&x, p) || !less(&y, p) {
            return None;
        }
        let montgomery = |digits: [u64; D]| {
            Element::<C::Field, Portable, D>::splat((), &digits).enter_montgomery().canonical()
        };
        let point = Affine::<C, Portable, D> { x: montgomery(x), y: montgomery(y) };
        let is_on_curve = point.is_on_curve().declassify(0);
        is_on_curve.then(|| Point { x: point.x.lane(0), y: point.y.lane(0) })
    }

    /// Writes x and y, big-endian.
    pub fn to_bytes<C: Curve<D>>(&self, bytes: &mut [u8]) {
        let (x, y) = bytes.split_at_mut(C::BYTES);
        for (digits, bytes) in [(&self.x, x), (&self.y, y)] {
            let number = Element::<C::Field, Portable, D>::splat((), digits);
            to_bytes(&number.leave_montgomery().lane(0), bytes);
        }
    }
}
