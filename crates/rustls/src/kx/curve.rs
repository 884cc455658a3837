//! ECDH on P-256 and P-384.

use std::slice;

use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup};
use widelane_cpu::Policy;
use widelane_crypto::ec::{
    Curve, DeriveJob, Ec, GenerateJob, KeyError, Outcome, PrivateKey, PublicKey,
};

use super::INVALID_SHARE;
use crate::random::Random;

/// The group in the room that takes least time for one key or secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcGroup {
    curve: Curve,
    ec: Ec,
}

impl EcGroup {
    pub(super) fn choose(curve: Curve, policy: &Policy) -> Self {
        let ec = Ec::kernels(policy).into_iter().next().unwrap_or(Ec::choose(policy));
        EcGroup { curve, ec }
    }

    /// Draws a private key: again if the number is zero or not below the order of the curve.
    fn draw(&self) -> Result<PrivateKey, Error> {
        loop {
            let random = Random::<48>::draw()?;
            match PrivateKey::from_bytes(self.curve, &random[..self.curve.bytes()]) {
                Ok(private) => return Ok(private),
                Err(KeyError::OutOfRange) => {}
                Err(error) => return Err(Error::General(error.to_string())),
            }
        }
    }
}

impl SupportedKxGroup for EcGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let private = self.draw()?;
        let mut public = vec![0; 1 + 2 * self.curve.bytes()];
        let mut job = GenerateJob::new(&private, &mut public);
        self.ec.generate_batch(slice::from_mut(&mut job));
        if job.outcome != Outcome::Done {
            let what = "a new public key failed its check; look for a fault of this machine";
            return Err(Error::General(what.into()));
        }
        Ok(Box::new(Active { group: *self, private, public }))
    }

    fn name(&self) -> NamedGroup {
        match self.curve {
            Curve::P256 => NamedGroup::secp256r1,
            Curve::P384 => NamedGroup::secp384r1,
        }
    }
}

/// Our key pair, waiting for the peer's share.
struct Active {
    group: EcGroup,
    private: PrivateKey,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let EcGroup { curve, ec } = self.group;
        let peer = PublicKey::from_uncompressed(curve, peer).map_err(|_| INVALID_SHARE)?;
        let mut shared = vec![0; curve.bytes()];
        let mut job = DeriveJob::new(&self.private, &peer, &mut shared);
        ec.derive_batch(slice::from_mut(&mut job));
        let outcome = job.outcome;
        let secret = SharedSecret::from(shared);
        if outcome == Outcome::Done { Ok(secret) } else { Err(INVALID_SHARE) }
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        self.group.name()
    }
}
