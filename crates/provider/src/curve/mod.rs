//! Elliptic curves: X25519, Ed25519, and some of the many curves of EC keys.
//!
//! Keys that a handshake makes and forgets are a large part of what it costs, and much of that are
//! OpenSSL's own key objects. So ours hold such a key by themselves, and make the default
//! provider's object only when something is asked that we do not answer ([`key::Key`]).

pub(crate) mod batch;
pub(crate) mod ecdsa;
pub(crate) mod eddsa;
pub(crate) mod encoder;
pub(crate) mod exchange;
pub(crate) mod generation;
pub(crate) mod key;
pub(crate) mod keymgmt;
pub(crate) mod params;
pub(crate) mod single;
mod verified;

use std::ffi::CStr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::ec::{self, encoding};
use widelane_ossl_sys::core;
use widelane_ossl_sys::dispatch::{KeyexchFunctions, KeymgmtFunctions};

use crate::Family;
use crate::delegate::Delegate;
use crate::instance::Offer;
use crate::keymgmt::functions as key_functions;
use crate::signature::functions as signature_functions;

/// Elliptic curves, for the provider.
pub(crate) const FAMILY: Family = Family { offers, kinds: batch::KINDS };

/// What we offer of curves.
fn offers(delegate: &Arc<Delegate>) -> Vec<Offer> {
    let known = &delegate.algorithms;
    let mut offers = vec![
        Offer::like(
            &known.ec,
            key_functions::<keymgmt::Ec>(delegate),
            c"EC keys, batched by Widelane",
        ),
        Offer::like(
            &known.x25519,
            key_functions::<keymgmt::X25519>(delegate),
            c"X25519 keys, batched by Widelane",
        ),
        Offer::like(
            &known.ed25519,
            key_functions::<keymgmt::Ed25519>(delegate),
            c"Ed25519 keys, batched by Widelane",
        ),
        Offer::like(&known.ecdh, exchange::ecdh_functions(delegate), c"ECDH, batched by Widelane"),
        Offer::like(
            &known.x25519_exchange,
            exchange::x25519_functions(delegate),
            c"X25519, batched by Widelane",
        ),
        Offer::like(
            &known.ecdsa,
            signature_functions::<ecdsa::Ecdsa>(delegate),
            c"ECDSA, batched by Widelane",
        ),
        Offer::like(
            &known.ed25519_signature,
            signature_functions::<eddsa::Ed25519>(delegate),
            c"Ed25519, batched by Widelane",
        ),
    ];
    let encoders = known.ec_encoders.iter().zip(encoder::functions(delegate));
    offers.extend(encoders.map(|(encoder, table)| {
        let description = c"encoder of EC keys for Widelane";
        Offer::new(core::OP_ENCODER, &encoder.names, table, description)
            .with_properties(&encoder.properties)
    }));
    offers
}

/// A kind of keys, as OpenSSL distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Keys of ECDH and ECDSA, on any curve.
    Ec,
    /// Keys of Ed25519.
    Ed25519,
    /// Keys of X25519.
    X25519,
}

/// A curve that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    /// One of EC keys.
    Ec(ec::Curve),
    /// The curve of Ed25519.
    Ed25519,
    /// The curve of X25519.
    X25519,
}

impl Algorithm {
    /// The default provider's functions for such keys.
    pub(crate) fn keymgmt(self, delegate: &Delegate) -> &KeymgmtFunctions {
        match self {
            Algorithm::Ec => &delegate.algorithms.ec.functions,
            Algorithm::Ed25519 => &delegate.algorithms.ed25519.functions,
            Algorithm::X25519 => &delegate.algorithms.x25519.functions,
        }
    }

    /// The default provider's functions for a shared secret of such keys. Those of Ed25519 share
    /// none, and nobody asks.
    pub(crate) fn exchange(self, delegate: &Delegate) -> &KeyexchFunctions {
        match self {
            Algorithm::Ec | Algorithm::Ed25519 => &delegate.algorithms.ecdh.functions,
            Algorithm::X25519 => &delegate.algorithms.x25519_exchange.functions,
        }
    }
}

impl Curve {
    /// The curve of a name that OpenSSL knows it by, among keys of an algorithm.
    pub(crate) fn by_name(algorithm: Algorithm, name: &CStr) -> Option<Self> {
        let is = |known: &CStr| known.to_bytes().eq_ignore_ascii_case(name.to_bytes());
        match algorithm {
            Algorithm::Ec => {
                let named = |curve: &ec::Curve| words(*curve).names.into_iter().any(is);
                ec::Curve::ALL.into_iter().find(named).map(Curve::Ec)
            }
            Algorithm::Ed25519 => None,
            Algorithm::X25519 => is(c"x25519").then_some(Curve::X25519),
        }
    }

    /// The name of its curve that OpenSSL gives an EC key.
    pub(crate) fn group_name(self) -> Option<&'static CStr> {
        match self {
            Curve::Ec(curve) => Some(words(curve).names[0]),
            Curve::Ed25519 | Curve::X25519 => None,
        }
    }

    /// The kind of keys that lie on it.
    pub(crate) fn algorithm(self) -> Algorithm {
        match self {
            Curve::Ec(_) => Algorithm::Ec,
            Curve::Ed25519 => Algorithm::Ed25519,
            Curve::X25519 => Algorithm::X25519,
        }
    }

    /// Whether there are kernels for it.
    pub(crate) fn has_kernels(self) -> bool {
        match self {
            Curve::Ec(_) => !batch::EC.is_empty(),
            Curve::Ed25519 => !batch::ED25519.is_empty(),
            Curve::X25519 => !batch::X25519.is_empty(),
        }
    }

    /// Bytes of a private key, and of a shared secret.
    pub(crate) fn private_bytes(self) -> usize {
        match self {
            Curve::Ec(curve) => curve.bytes(),
            Curve::Ed25519 | Curve::X25519 => 32,
        }
    }

    /// Bytes of an encoded public key.
    pub(crate) fn public_bytes(self) -> usize {
        match self {
            Curve::Ec(curve) => curve.public_bytes(),
            Curve::Ed25519 | Curve::X25519 => 32,
        }
    }

    /// What OpenSSL says of its keys: their bits, their strength in bits, and the bytes of their
    /// longest output.
    pub(crate) fn sizes(self) -> [i32; 3] {
        match self {
            Curve::Ec(curve) => {
                let (bits, longest) = (curve.bits(), encoding::signature_bytes_max(curve));
                [bits, (bits / 2).min(256), longest].map(|size| size as i32)
            }
            Curve::Ed25519 => [256, 128, 64],
            Curve::X25519 => [253, 128, 32],
        }
    }

    /// What a new key is counted as.
    pub(crate) fn generate_kind(self) -> OperationKind {
        match self {
            Curve::Ec(curve) => words(curve).generate,
            Curve::Ed25519 => OperationKind::Other,
            Curve::X25519 => OperationKind::X25519Generate,
        }
    }

    /// What a shared secret is counted as.
    pub(crate) fn derive_kind(self) -> OperationKind {
        match self {
            Curve::Ec(curve) => words(curve).derive,
            Curve::Ed25519 => OperationKind::Other,
            Curve::X25519 => OperationKind::X25519Derive,
        }
    }

    /// What a signature is counted as.
    pub(crate) fn sign_kind(self) -> OperationKind {
        match self {
            Curve::Ec(curve) => words(curve).sign,
            Curve::Ed25519 => OperationKind::Ed25519Sign,
            Curve::X25519 => OperationKind::Other,
        }
    }

    /// What the verification of a signature is counted as.
    pub(crate) fn verify_kind(self) -> OperationKind {
        match self {
            Curve::Ec(curve) => words(curve).verify,
            Curve::Ed25519 | Curve::X25519 => OperationKind::Other,
        }
    }
}

/// What OpenSSL calls a curve of EC keys, and what operations on it are counted as.
struct Words {
    /// By which the default provider knows it; it gives keys the first one.
    names: [&'static CStr; 2],
    generate: OperationKind,
    derive: OperationKind,
    sign: OperationKind,
    verify: OperationKind,
}

const fn words(curve: ec::Curve) -> Words {
    match curve {
        ec::Curve::P256 => Words {
            names: [c"prime256v1", c"P-256"],
            generate: OperationKind::P256Generate,
            derive: OperationKind::P256Derive,
            sign: OperationKind::P256Sign,
            verify: OperationKind::P256Verify,
        },
        ec::Curve::P384 => Words {
            names: [c"secp384r1", c"P-384"],
            generate: OperationKind::P384Generate,
            derive: OperationKind::P384Derive,
            sign: OperationKind::P384Sign,
            verify: OperationKind::P384Verify,
        },
    }
}
