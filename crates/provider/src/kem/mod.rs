//! Key encapsulation: ML-KEM, and ML-KEM beside a curve, as TLS 1.3 has them as groups.
//!
//! OpenSSL has these since 3.5; under earlier releases they are new, and there is no implementation
//! behind ours. Keys are held by us, and the default provider's are images of them, made where
//! something of ours fails ([`key::Key`]). A handshake's three parts, an encapsulation, a key pair
//! that is used once, and a shared secret on the curve, are one operation ([`batch`]).

pub(crate) mod batch;
mod context;
mod generation;
mod group;
mod key;
mod keymgmt;
mod single;

use std::ffi::CStr;
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::ec;
use widelane_crypto::mlkem::{ParameterSet, SHARED_BYTES};
use widelane_ossl_sys::core;

use crate::Family;
use crate::curve::Curve;
use crate::delegate::Delegate;
use crate::instance::Offer;
pub(crate) use group::tell_groups;

/// A key encapsulation mechanism, with all that distinguishes it from others.
pub(crate) struct Mechanism {
    /// Its names, and those of its keys, as OpenSSL 3.5 has them.
    pub(crate) names: &'static CStr,
    /// Name and number of its group of TLS. The name is one of its own, too.
    pub(crate) group: (&'static CStr, u32),
    set: ParameterSet,
    /// The curve beside ML-KEM.
    curve: Option<Curve>,
    /// Whether what belongs to the curve comes first in keys, ciphertexts and secrets.
    is_curve_first: bool,
    encapsulate: OperationKind,
    decapsulate: OperationKind,
}

/// All mechanisms.
pub(crate) static MECHANISMS: [Mechanism; 6] = [
    Mechanism {
        names: c"X25519MLKEM768",
        group: (c"X25519MLKEM768", 0x11ec),
        set: ParameterSet::MlKem768,
        curve: Some(Curve::X25519),
        is_curve_first: false,
        encapsulate: OperationKind::X25519MlKem768Encapsulate,
        decapsulate: OperationKind::X25519MlKem768Decapsulate,
    },
    Mechanism {
        names: c"ML-KEM-512:MLKEM512:id-alg-ml-kem-512:2.16.840.1.101.3.4.4.1",
        group: (c"MLKEM512", 0x0200),
        set: ParameterSet::MlKem512,
        curve: None,
        is_curve_first: false,
        encapsulate: OperationKind::MlKem512Encapsulate,
        decapsulate: OperationKind::MlKem512Decapsulate,
    },
    Mechanism {
        names: c"ML-KEM-768:MLKEM768:id-alg-ml-kem-768:2.16.840.1.101.3.4.4.2",
        group: (c"MLKEM768", 0x0201),
        set: ParameterSet::MlKem768,
        curve: None,
        is_curve_first: false,
        encapsulate: OperationKind::MlKem768Encapsulate,
        decapsulate: OperationKind::MlKem768Decapsulate,
    },
    Mechanism {
        names: c"ML-KEM-1024:MLKEM1024:id-alg-ml-kem-1024:2.16.840.1.101.3.4.4.3",
        group: (c"MLKEM1024", 0x0202),
        set: ParameterSet::MlKem1024,
        curve: None,
        is_curve_first: false,
        encapsulate: OperationKind::MlKem1024Encapsulate,
        decapsulate: OperationKind::MlKem1024Decapsulate,
    },
    Mechanism {
        names: c"SecP256r1MLKEM768",
        group: (c"SecP256r1MLKEM768", 0x11eb),
        set: ParameterSet::MlKem768,
        curve: Some(Curve::Ec(ec::Curve::P256)),
        is_curve_first: true,
        encapsulate: OperationKind::Secp256r1MlKem768Encapsulate,
        decapsulate: OperationKind::Secp256r1MlKem768Decapsulate,
    },
    Mechanism {
        names: c"SecP384r1MLKEM1024",
        group: (c"SecP384r1MLKEM1024", 0x11ed),
        set: ParameterSet::MlKem1024,
        curve: Some(Curve::Ec(ec::Curve::P384)),
        is_curve_first: true,
        encapsulate: OperationKind::Secp384r1MlKem1024Encapsulate,
        decapsulate: OperationKind::Secp384r1MlKem1024Decapsulate,
    },
];

impl Mechanism {
    /// Bytes of a public key on the curve.
    fn curve_public_bytes(&self) -> usize {
        self.curve.map_or(0, Curve::public_bytes)
    }

    /// Bytes of a private key on the curve, and of a secret that two of them share.
    fn curve_private_bytes(&self) -> usize {
        self.curve.map_or(0, Curve::private_bytes)
    }

    /// Bytes of an encoded public key.
    fn public_bytes(&self) -> usize {
        self.set.encapsulation_key_bytes() + self.curve_public_bytes()
    }

    /// Bytes of an encoded private key.
    fn private_bytes(&self) -> usize {
        self.set.decapsulation_key_bytes() + self.curve_private_bytes()
    }

    /// Bytes of a ciphertext.
    fn ciphertext_bytes(&self) -> usize {
        self.set.ciphertext_bytes() + self.curve_public_bytes()
    }

    /// Bytes of a shared secret.
    fn shared_bytes(&self) -> usize {
        SHARED_BYTES + self.curve_private_bytes()
    }

    /// The parts of a public key or ciphertext: ML-KEM's and the curve's.
    fn public_parts<'a>(&self, whole: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        self.parts(whole, self.curve_public_bytes())
    }

    /// The parts of a private key, likewise.
    fn private_parts<'a>(&self, whole: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        self.parts(whole, self.curve_private_bytes())
    }

    fn parts<'a>(&self, whole: &'a [u8], of_curve: usize) -> (&'a [u8], &'a [u8]) {
        if self.is_curve_first {
            let (first, second) = whole.split_at(of_curve);
            (second, first)
        } else {
            whole.split_at(whole.len() - of_curve)
        }
    }

    fn parts_mut<'a>(&self, whole: &'a mut [u8], of_curve: usize) -> (&'a mut [u8], &'a mut [u8]) {
        if self.is_curve_first {
            let (first, second) = whole.split_at_mut(of_curve);
            (second, first)
        } else {
            let of_ml_kem = whole.len() - of_curve;
            whole.split_at_mut(of_ml_kem)
        }
    }

    /// What a new key of ML-KEM is counted as.
    fn generate_kind(&self) -> OperationKind {
        match self.set {
            ParameterSet::MlKem512 => OperationKind::MlKem512Generate,
            ParameterSet::MlKem768 => OperationKind::MlKem768Generate,
            ParameterSet::MlKem1024 => OperationKind::MlKem1024Generate,
        }
    }

    /// What OpenSSL says of its keys, which is what it says of those of ML-KEM: their bits, their
    /// strength in bits, and NIST's category.
    fn sizes(&self) -> [u16; 3] {
        match self.set {
            ParameterSet::MlKem512 => [512, 128, 1],
            ParameterSet::MlKem768 => [768, 192, 3],
            ParameterSet::MlKem1024 => [1024, 256, 5],
        }
    }
}

/// Key encapsulation, for the provider.
pub(crate) const FAMILY: Family = Family { offers, kinds: &[batch::KINDS] };

/// What we offer of key encapsulation. Where the default provider has it and we have no kernels,
/// that is nothing.
fn offers(delegate: &Arc<Delegate>) -> Vec<Offer> {
    let known = delegate.algorithms.kems.iter().enumerate();
    let offered = known.filter(|(_, theirs)| theirs.is_none() || batch::is_batched());
    let offers = offered.flat_map(|(index, theirs)| {
        let names = theirs.as_ref().map_or(MECHANISMS[index].names, |theirs| &theirs.keys.names);
        let is_hybrid = MECHANISMS[index].curve.is_some();
        let (keys, functions) = (keymgmt::functions(index), context::functions(is_hybrid));
        [
            Offer::new(core::OP_KEYMGMT, names, keys, c"KEM keys, batched by Widelane"),
            Offer::new(core::OP_KEM, names, functions, c"KEM, batched by Widelane"),
        ]
    });
    offers.collect()
}
