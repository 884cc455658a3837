//! Key exchange.

mod curve;
mod hybrid;
mod mlkem;
mod pool;
mod x25519;

use rustls::crypto::SupportedKxGroup;
use rustls::{Error, PeerMisbehaved};
use widelane_cpu::Policy;
use widelane_crypto::ec::Curve;

use self::curve::EcGroup;
use self::hybrid::Hybrid;
use self::mlkem::MlKem768;
use self::x25519::X25519Group;
use crate::leaked;

/// What the peer sent is no public key, or one that leads to a secret everybody knows.
const INVALID_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// Every group, the preferred ones first.
pub(crate) fn all(policy: &Policy) -> Vec<&'static dyn SupportedKxGroup> {
    let x25519 = leaked(X25519Group::choose(policy));
    let p256 = leaked(EcGroup::choose(Curve::P256, policy));
    let p384 = leaked(EcGroup::choose(Curve::P384, policy));
    let ml_kem = leaked(MlKem768::choose(policy));
    vec![
        leaked(Hybrid::with_x25519(ml_kem, x25519)),
        x25519,
        p256,
        p384,
        leaked(Hybrid::with_p256(ml_kem, p256)),
    ]
}
