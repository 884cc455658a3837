//! RSA: the default provider's keys, signatures and decryption, with their private-key operation
//! batched.

pub(crate) mod asym_cipher;
pub(crate) mod batch;
pub(crate) mod key;
pub(crate) mod keymgmt;
pub(crate) mod loaded;
mod scheme;
pub(crate) mod signature;

use std::sync::Arc;

use crate::Family;
use crate::delegate::Delegate;
use crate::instance::Offer;
use crate::keymgmt::functions as key_functions;
use crate::signature::functions as signature_functions;

/// RSA, for the provider.
pub(crate) const FAMILY: Family = Family { offers, kinds: &[batch::KINDS] };

/// What we offer of RSA.
fn offers(delegate: &Arc<Delegate>) -> Vec<Offer> {
    let known = &delegate.algorithms;
    vec![
        Offer::like(
            &known.rsa,
            key_functions::<keymgmt::Rsa>(delegate),
            c"RSA keys, batched by Widelane",
        ),
        Offer::like(
            &known.rsa_pss,
            key_functions::<keymgmt::RsaPss>(delegate),
            c"RSA-PSS keys, batched by Widelane",
        ),
        Offer::like(
            &known.rsa_signature,
            signature_functions::<signature::Rsa>(delegate),
            c"RSA signatures, batched by Widelane",
        ),
        Offer::like(
            &known.rsa_cipher,
            asym_cipher::functions(delegate),
            c"RSA decryption, batched by Widelane",
        ),
    ]
}
