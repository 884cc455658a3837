//! X25519 (RFC 7748).

use std::slice;

use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup};
use widelane_cpu::Policy;
use widelane_crypto::x25519::{DeriveJob, GenerateJob, Outcome, PrivateKey, X25519};
use widelane_secret::wipe;

use super::INVALID_SHARE;
use crate::random::Random;

/// The group in the rooms that take least time for one key and for one secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct X25519Group {
    generate: X25519,
    derive: X25519,
}

impl X25519Group {
    pub(super) fn choose(policy: &Policy) -> Self {
        let first = |kernels: Vec<X25519>| kernels.into_iter().next();
        let any = X25519::choose(policy);
        X25519Group {
            generate: first(X25519::kernels(policy)).unwrap_or(any),
            derive: first(X25519::derive_kernels(policy)).unwrap_or(any),
        }
    }
}

impl SupportedKxGroup for X25519Group {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let private = PrivateKey::from_bytes(&*Random::draw()?);
        let mut public = [0; 32];
        let mut job = GenerateJob::new(&private, &mut public);
        self.generate.generate_batch(slice::from_mut(&mut job));
        Ok(Box::new(Active { derive: self.derive, private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Our key pair, waiting for the peer's share.
struct Active {
    derive: X25519,
    private: PrivateKey,
    public: [u8; 32],
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = peer.try_into().map_err(|_| INVALID_SHARE)?;
        let mut shared = [0; 32];
        let mut job = DeriveJob::new(&self.private, peer, &mut shared);
        self.derive.derive_batch(slice::from_mut(&mut job));
        let outcome = job.outcome;
        let secret = SharedSecret::from(&shared[..]);
        wipe(&mut shared);
        if outcome == Outcome::Done { Ok(secret) } else { Err(INVALID_SHARE) }
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
