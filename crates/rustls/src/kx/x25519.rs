//! X25519 (RFC 7748).

use std::cell::RefCell;
use std::slice;

use rustls::crypto::{ActiveKeyExchange, SecureRandom, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup};
use widelane_cpu::Policy;
use widelane_crypto::x25519::{DeriveJob, GenerateJob, Outcome, PrivateKey, X25519};
use widelane_secret::wipe;
use zeroize::Zeroizing;

use super::pool::{Demand, Pool};
use super::{INVALID_SHARE, with_kept};
use crate::random::Os;

/// Bytes of private and public keys.
const KEY_BYTES: usize = 32;

/// A key pair.
struct Pair {
    private: PrivateKey,
    public: [u8; KEY_BYTES],
}

thread_local! {
    static POOL: RefCell<Pool<Pair>> = const { RefCell::new(Pool::EMPTY) };
}

/// The group: its kernels for few key pairs, for many, and for one secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct X25519Group {
    few: X25519,
    many: X25519,
    derive: X25519,
}

impl X25519Group {
    pub(super) fn choose(policy: &Policy) -> Self {
        X25519Group {
            few: X25519::for_one(policy),
            many: X25519::choose(policy),
            derive: X25519::derive_for_one(policy),
        }
    }

    fn make(&self, demand: Demand) -> Result<Vec<Pair>, Error> {
        let kernel = match demand {
            Demand::High => self.many,
            Demand::Low => self.few,
        };
        let mut random = Zeroizing::new(vec![[0; KEY_BYTES]; kernel.lanes()]);
        Os.fill(random.as_flattened_mut())?;
        let pair = |bytes| Pair { private: PrivateKey::from_bytes(bytes), public: [0; KEY_BYTES] };
        let mut pairs: Vec<_> = random.iter().map(pair).collect();
        let mut jobs: Vec<_> = pairs
            .iter_mut()
            .map(|pair| GenerateJob::new(&pair.private, &mut pair.public))
            .collect();
        kernel.generate_batch(&mut jobs);
        Ok(pairs)
    }
}

impl SupportedKxGroup for X25519Group {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let take = |pool: &mut Pool<Pair>| pool.take(|demand| self.make(demand));
        let pair = with_kept(&POOL, || Pool::EMPTY, take)?;
        Ok(Box::new(Active { derive: self.derive, pair }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Our key pair, waiting for the peer's share.
struct Active {
    derive: X25519,
    pair: Pair,
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = peer.try_into().map_err(|_| INVALID_SHARE)?;
        let mut shared = [0; 32];
        let mut job = DeriveJob::new(&self.pair.private, peer, &mut shared);
        self.derive.derive_batch(slice::from_mut(&mut job));
        let outcome = job.outcome;
        let secret = SharedSecret::from(&shared[..]);
        wipe(&mut shared);
        if outcome == Outcome::Done { Ok(secret) } else { Err(INVALID_SHARE) }
    }

    fn pub_key(&self) -> &[u8] {
        &self.pair.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
