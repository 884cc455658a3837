//! What a batch of mont is made of: prepared keys, jobs from bytes to bytes, and their verdicts.

use widelane_secret::{Mask, wipe};

use super::modulus::{BlockModulus, Modulus, ShortModulus};
use crate::digits::{from_bytes, modulus_bytes, to_bytes};

/// The big-endian numbers of an RSA key with two primes, already validated.
#[derive(Clone, Copy)]
pub struct CrtParts<'a> {
    /// The modulus n = p·q, its top bit set.
    pub n: &'a [u8],
    /// The public exponent: odd, 3 <= e < 2^33.
    pub e: u64,
    /// The first prime, half as long as n, its top bit set.
    pub p: &'a [u8],
    /// The second prime, half as long as n, its top bit set.
    pub q: &'a [u8],
    /// d mod (p − 1).
    pub dp: &'a [u8],
    /// d mod (q − 1).
    pub dq: &'a [u8],
    /// 1/q mod p.
    pub qinv: &'a [u8],
}

/// An RSA private key as the batch rooms want it. Wiped on drop.
///
/// Making one costs some ten thousand multiplications, all of them in constant time: once per key.
#[derive(Clone)]
pub struct CrtKey<const HALF: usize, const FULL: usize> {
    pub(super) n: Modulus<FULL>,
    /// n for the check of a job alone in 512-bit registers.
    pub(super) n_by_eight: BlockModulus<8, FULL>,
    pub(super) e: u64,
    pub(super) p: Modulus<HALF>,
    pub(super) q: Modulus<HALF>,
    /// p and q for a job alone.
    pub(super) short: [ShortModulus<HALF>; 2],
    pub(super) dp: [u64; HALF],
    pub(super) dq: [u64; HALF],
    /// qinv·R mod p.
    pub(super) qinv: [u64; HALF],
}

impl<const HALF: usize, const FULL: usize> CrtKey<HALF, FULL> {
    /// Prepares a validated key.
    ///
    /// Numbers that do not belong together are not noticed here; they make every operation end in
    /// [`Verdict::Fault`].
    ///
    /// # Panics
    ///
    /// Panics if n, p or q is even, has a clear top bit or does not fit its digits; if p and q are
    /// not of one length; or if e is even or below 3.
    pub fn new(parts: &CrtParts<'_>) -> Self {
        const { assert!(FULL == 2 * HALF && HALF >= 20 && HALF.is_multiple_of(10)) };
        assert_eq!(parts.p.len(), parts.q.len(), "both primes have the same length");
        assert!(parts.e & 1 == 1 && parts.e >= 3, "a public exponent is odd and at least 3");
        let n = Modulus::new(parts.n);
        let (p, q) = (Modulus::new(parts.p), Modulus::new(parts.q));
        let qinv = p.multiply(&from_bytes(parts.qinv), &p.rr);
        CrtKey {
            n_by_eight: n.by_eight(),
            n,
            e: parts.e,
            short: [&p, &q].map(|prime| ShortModulus::of(prime, 8 * parts.p.len())),
            p,
            q,
            dp: from_bytes(parts.dp),
            dq: from_bytes(parts.dq),
            qinv,
        }
    }

    /// A number that is as long as the modulus.
    ///
    /// # Panics
    ///
    /// Panics if it is not (`51.2·FULL` bits).
    pub(super) fn modulus_digits(&self, number: &[u8]) -> [u64; FULL] {
        assert_eq!(number.len(), modulus_bytes::<FULL>(), "a number is as long as its modulus");
        from_bytes(number)
    }
}

impl<const HALF: usize, const FULL: usize> Drop for CrtKey<HALF, FULL> {
    fn drop(&mut self) {
        for digits in [&mut self.dp, &mut self.dq, &mut self.qinv] {
            wipe(digits);
        }
    }
}

/// Whether two numbers are the same, having read all of both.
pub(super) fn are_equal<const D: usize>(x: &[u64; D], y: &[u64; D]) -> bool {
    Mask::equal_words(x, y).declassify()
}

/// One private-key operation of a batch.
pub struct CrtJob<'a, const HALF: usize, const FULL: usize> {
    /// The key; every job of a batch may have another one.
    pub key: &'a CrtKey<HALF, FULL>,
    /// The number to raise to d, big-endian, as long as the modulus.
    pub input: &'a [u8],
    /// Where the result goes, as long as the modulus; zeros unless the verdict is
    /// [`Verdict::Done`].
    pub output: &'a mut [u8],
    /// How it went.
    pub verdict: Verdict,
}

impl<const HALF: usize, const FULL: usize> CrtJob<'_, HALF, FULL> {
    /// The input as a number.
    ///
    /// # Panics
    ///
    /// Panics if input or output is not as long as the modulus (`51.2·FULL` bits).
    pub(super) fn input_digits(&self) -> [u64; FULL] {
        assert_eq!(self.output.len(), self.input.len(), "an output is as long as its modulus");
        self.key.modulus_digits(self.input)
    }

    /// Gives the verdict, and lets the result go if its public power is the input.
    pub(super) fn conclude(
        &mut self,
        input: &[u64; FULL],
        result: &[u64; FULL],
        is_confirmed: bool,
    ) {
        let in_range = input.iter().rev().lt(self.key.n.m.iter().rev());
        self.verdict = if !in_range {
            Verdict::OutOfRange
        } else if is_confirmed {
            Verdict::Done
        } else {
            Verdict::Fault
        };
        self.output.fill(0);
        if self.verdict == Verdict::Done {
            to_bytes(result, self.output);
        }
    }
}

/// How one job of a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not run yet.
    Pending,
    /// The output holds the result, and the result was checked against the input.
    Done,
    /// The input is not below the modulus.
    OutOfRange,
    /// The result did not lead back to the input: wrong key parts or a fault in the machine.
    Fault,
}
