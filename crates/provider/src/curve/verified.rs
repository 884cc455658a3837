//! Signatures that were found to be good, and need not be verified again.
//!
//! A handshake verifies the signatures of all certificates that the peer shows, and these are the
//! same each time: of an authority's intermediate always, of a client or an upstream whenever it
//! comes back. Whether a signature is good depends on the curve, the key, the digest and the
//! signature alone. A thread remembers the last that were good, with all of that; one that differs
//! in any bit is verified. Everything here is public.

use std::cell::RefCell;

use widelane_crypto::ec::Curve;

use crate::switch;

/// Signatures that a thread remembers, of some 200 bytes each.
const KEPT_MAX: usize = 128;

thread_local! {
    static VERIFIED: RefCell<Verified> = const { RefCell::new(Verified::NONE) };
}

/// A signature of a digest by a key.
pub(super) struct Statement(Box<[u8]>);

impl Statement {
    /// Key and signature have the lengths that they have on this curve.
    pub(super) fn new(curve: Curve, key: &[u8], digest: &[u8], signature: &[u8]) -> Self {
        Statement([&[curve as u8], key, signature, digest].concat().into())
    }

    /// Whether this thread has found it to be good lately.
    pub(super) fn is_known(&self) -> bool {
        !switch::is_off() && with_verified(|verified| verified.find(&self.0)).unwrap_or(false)
    }

    /// Remembers that it is good.
    pub(super) fn remember(self) {
        with_verified(|verified| verified.add(self.0));
    }
}

/// Nothing where the thread is ending.
fn with_verified<T>(work: impl FnOnce(&mut Verified) -> T) -> Option<T> {
    VERIFIED.try_with(|verified| Some(work(&mut *verified.try_borrow_mut().ok()?))).ok()?
}

struct Verified {
    kept: Vec<Box<[u8]>>,
    /// The place of the last one that took another's, once all are taken.
    last: usize,
}

impl Verified {
    const NONE: Self = Verified { kept: Vec::new(), last: KEPT_MAX - 1 };

    fn find(&mut self, statement: &[u8]) -> bool {
        let Some(place) = self.kept.iter().position(|kept| **kept == *statement) else {
            return false;
        };
        // What comes back moves out of the half that what never does goes through.
        self.kept.swap(place, place / 2);
        true
    }

    fn add(&mut self, statement: Box<[u8]>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(statement);
            return;
        }
        self.last = if self.last + 1 < KEPT_MAX { self.last + 1 } else { KEPT_MAX / 2 };
        self.kept[self.last] = statement;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(number: u32) -> Box<[u8]> {
        number.to_be_bytes().into()
    }

    #[test]
    fn what_comes_back_stays_among_many_that_do_not() {
        let mut verified = Verified::NONE;
        for number in 0..10_000 {
            if !verified.find(&statement(0)) {
                assert_eq!(number, 0, "forgotten");
                verified.add(statement(0));
            }
            verified.add(statement(number + 1));
            assert!(verified.find(&statement(number + 1)));
        }
        assert_eq!(verified.kept.len(), KEPT_MAX);
        assert!(!verified.find(&statement(1)), "long ago");
    }

    #[test]
    fn statements_differ_wherever_they_do() {
        let of = |curve, key: u8, digest: u8, signature: u8| {
            Statement::new(curve, &[key; 64], &[digest; 32], &[signature; 64])
        };
        assert!(!of(Curve::P256, 1, 2, 3).is_known());
        of(Curve::P256, 1, 2, 3).remember();
        assert!(of(Curve::P256, 1, 2, 3).is_known());
        for other in [
            of(Curve::P384, 1, 2, 3),
            of(Curve::P256, 0, 2, 3),
            of(Curve::P256, 1, 0, 3),
            of(Curve::P256, 1, 2, 0),
            Statement::new(Curve::P256, &[1; 64], &[2; 31], &[3; 64]),
        ] {
            assert!(!other.is_known());
        }
    }
}
