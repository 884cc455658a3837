//! The key derivations of TLS, as libssl uses them: `TLS13-KDF` and `TLS1-PRF`.
//!
//! A TLS 1.3 handshake derives some twenty secrets and keys, and the default provider spends more
//! time on contexts, digests fetched by name and parameters than on hashing. So what libssl asks
//! is answered by ourselves. The unusual is the default provider's: as soon as something is set or
//! asked that we do not know, it gets all that was set before, and does the rest.

mod context;
mod fields;
pub(crate) mod kept;
mod tls13_kdf;
mod tls1_prf;

use std::sync::{Arc, LazyLock};

use widelane_crypto::kdf::{Hash, Kdf};

use crate::Family;
use crate::choosing::ByPolicy;
use crate::delegate::Delegate;
use crate::instance::Offer;

/// The key schedules by hash function, in the widest room that a policy leaves open.
static KDFS: LazyLock<ByPolicy<[Kdf; Hash::ALL.len()]>> =
    LazyLock::new(|| ByPolicy::new(|policy| Hash::ALL.map(|hash| Kdf::choose(hash, policy))));

fn kdf(hash: Hash) -> &'static Kdf {
    &KDFS.now()[hash as usize]
}

/// Key derivations, for the provider.
pub(crate) const FAMILY: Family = Family { offers, kinds: &[] };

/// What we offer of key derivations.
fn offers(delegate: &Arc<Delegate>) -> Vec<Offer> {
    // Chosen while the program has one thread, as kernels are when the queues of a process begin.
    LazyLock::force(&KDFS);
    vec![
        Offer::like(
            &delegate.algorithms.tls13_kdf,
            tls13_kdf::functions(delegate),
            c"key schedule of TLS 1.3, shortened by Widelane",
        ),
        Offer::like(
            &delegate.algorithms.tls1_prf,
            tls1_prf::functions(delegate),
            c"key schedule of TLS 1.2, shortened by Widelane",
        ),
    ]
}
