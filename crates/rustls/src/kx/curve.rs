//! ECDH on NIST's curves.

use std::cell::RefCell;
use std::slice;

use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup};
use widelane_cpu::Policy;
use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, KeyError, Outcome, PrivateKey, PublicKey,
};

use super::pool::{Demand, Pool};
use super::{INVALID_SHARE, with_kept};
use crate::curve::words;
use crate::random::Random;

/// A key pair.
struct Pair {
    private: PrivateKey,
    public: Vec<u8>,
}

type Pools = [Pool<Pair>; Curve::ALL.len()];

const NONE: Pools = [Pool::EMPTY; Curve::ALL.len()];

thread_local! {
    /// One for each curve.
    static POOLS: RefCell<Pools> = const { RefCell::new(NONE) };
}

/// The group: its kernels for few key pairs or one secret, and for many key pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcGroup {
    curve: Curve,
    few: Ec,
    many: Ec,
}

impl EcGroup {
    pub(super) fn choose(curve: Curve, policy: &Policy) -> Self {
        EcGroup { curve, few: Ec::for_one(policy), many: Ec::choose(policy) }
    }

    /// Draws a private key: again if the number is zero or not below the order of the curve.
    fn draw(&self) -> Result<PrivateKey, Error> {
        loop {
            let mut random = Random::<{ Curve::LARGEST.bytes() }>::draw()?;
            let random = &mut random[..self.curve.bytes()];
            self.curve.trim(random);
            match PrivateKey::from_bytes(self.curve, random) {
                Ok(private) => return Ok(private),
                Err(KeyError::OutOfRange) => {}
                Err(error) => return Err(Error::General(error.to_string())),
            }
        }
    }

    fn make(&self, demand: Demand) -> Result<Vec<Pair>, Error> {
        let kernel = match demand {
            Demand::High => self.many,
            Demand::Low => self.few,
        };
        let public = || vec![0; self.curve.public_bytes()];
        let pair = |_| Ok(Pair { private: self.draw()?, public: public() });
        let mut pairs = (0..kernel.lanes()).map(pair).collect::<Result<Vec<_>, Error>>()?;
        let mut jobs: Vec<_> = pairs
            .iter_mut()
            .map(|pair| GenerateJob::new(&pair.private, &mut pair.public))
            .collect();
        kernel.generate_batch(&mut jobs);
        if jobs.iter().any(|job| job.outcome != Outcome::Done) {
            let what = "a new public key failed its check; look for a fault of this machine";
            return Err(Error::General(what.into()));
        }
        Ok(pairs)
    }
}

impl SupportedKxGroup for EcGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let pair = with_kept(
            &POOLS,
            || NONE,
            |pools| pools[self.curve as usize].take(|demand| self.make(demand)),
        );
        Ok(Box::new(Active { group: *self, pair: pair? }))
    }

    fn name(&self) -> NamedGroup {
        words(self.curve).group
    }
}

/// Our key pair, waiting for the peer's share.
struct Active {
    group: EcGroup,
    pair: Pair,
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let EcGroup { curve, few, .. } = self.group;
        let peer = PublicKey::from_uncompressed(curve, peer).map_err(|_| INVALID_SHARE)?;
        let mut shared = vec![0; curve.bytes()];
        let mut job = DeriveJob::new(&self.pair.private, &peer, &mut shared);
        few.derive_batch(slice::from_mut(&mut job));
        let outcome = job.outcome;
        released(outcome, SharedSecret::from(shared))
    }

    fn pub_key(&self) -> &[u8] {
        &self.pair.public
    }

    fn group(&self) -> NamedGroup {
        self.group.name()
    }
}

/// A secret that was confirmed. The peer's share is a point of the curve by then, so that it is not
/// to blame for one that was not.
fn released(outcome: Outcome, secret: SharedSecret) -> Result<SharedSecret, Error> {
    if outcome == Outcome::Done {
        return Ok(secret);
    }
    let what = "a shared secret failed its check; look for a fault of this machine";
    Err(Error::General(what.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_not_blamed_for_a_fault() {
        let secret = |outcome| released(outcome, SharedSecret::from(&[7; 32][..]));
        assert_eq!(secret(Outcome::Done).expect("a secret").secret_bytes(), [7; 32]);
        let error = secret(Outcome::FaultDetected).map(drop);
        assert!(matches!(error, Err(Error::General(_))), "{error:?}");
    }
}
