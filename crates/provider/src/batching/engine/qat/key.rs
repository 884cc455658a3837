//! Private keys in pinned memory, where a device reads them.
#![allow(unsafe_code, reason = "pointers for Intel's library")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use widelane_batch::KeyName;
use widelane_crypto::ec;
use widelane_crypto::rsa::Components;

use super::curve::PinnedCurve;
use super::interface::{
    CPA_CY_RSA_PRIVATE_KEY_REP_TYPE_2, CPA_CY_RSA_VERSION_TWO_PRIME, CpaCyRsaPrivateKey,
    CpaCyRsaPrivateKeyRep1, CpaCyRsaPrivateKeyRep2, CpaFlatBuffer, PinnedMemory,
};
use super::memory::Pinned;
use crate::rsa::key::Key;

/// A private key as the device reads it.
pub(super) struct PinnedKey {
    description: CpaCyRsaPrivateKey,
    /// What the description points to.
    _numbers: Pinned,
}

// SAFETY: the pointers lead to what it owns and never changes.
unsafe impl Send for PinnedKey {}
// SAFETY: as above.
unsafe impl Sync for PinnedKey {}

impl PinnedKey {
    /// Copies a key whose modulus has `bytes` bytes; nothing if it has not, or for want of memory.
    fn new(memory: &'static PinnedMemory, key: &Components<'_>, bytes: usize) -> Option<Self> {
        let half = bytes / 2;
        let parts = [key.p, key.q, key.dp, key.dq, key.qinv];
        let mut numbers = Pinned::new(memory, parts.len() * half)?;
        for (place, part) in numbers.as_mut().chunks_exact_mut(half).zip(parts) {
            let missing = half.checked_sub(part.len())?;
            place[missing..].copy_from_slice(part);
        }
        let mut part = |index: usize| numbers.part(index * half, half);
        let description = CpaCyRsaPrivateKey {
            version: CPA_CY_RSA_VERSION_TWO_PRIME,
            privateKeyRepType: CPA_CY_RSA_PRIVATE_KEY_REP_TYPE_2,
            privateKeyRep1: CpaCyRsaPrivateKeyRep1 {
                modulusN: CpaFlatBuffer::NONE,
                privateExponentD: CpaFlatBuffer::NONE,
            },
            privateKeyRep2: CpaCyRsaPrivateKeyRep2 {
                prime1P: part(0),
                prime2Q: part(1),
                exponent1Dp: part(2),
                exponent2Dq: part(3),
                coefficientQInv: part(4),
            },
        };
        Some(PinnedKey { description, _numbers: numbers })
    }

    /// Its description for the device.
    pub(super) fn description(&self) -> &CpaCyRsaPrivateKey {
        &self.description
    }
}

/// What lies in pinned memory for as long as a process uses devices: the keys that were used with
/// one, and the curves of all others, which are there for one operation only.
pub(super) struct Keys {
    memory: &'static PinnedMemory,
    known: Mutex<HashMap<KeyName, Known>>,
    /// In the order of [`ec::Curve::ALL`].
    curves: Vec<PinnedCurve>,
}

struct Known {
    key: Weak<Key>,
    /// Nothing if the device does not take it.
    pinned: Option<Arc<PinnedKey>>,
}

impl Keys {
    /// No keys yet; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory) -> Option<Self> {
        let pinned = |curve: ec::Curve| PinnedCurve::new(memory, curve.numbers());
        let curves = ec::Curve::ALL.into_iter().map(pinned).collect::<Option<_>>()?;
        Some(Keys { memory, known: Mutex::new(HashMap::new()), curves })
    }

    /// A curve in pinned memory.
    pub(super) fn curve(&self, curve: ec::Curve) -> &PinnedCurve {
        &self.curves[curve as usize]
    }

    /// A key in pinned memory, copied there when it is first asked for; nothing if the device does
    /// not take it. Those that the program has freed since are wiped when a new one comes.
    pub(super) fn get(&self, name: KeyName, key: &Arc<Key>) -> Option<Arc<PinnedKey>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&name) {
            return found.pinned.clone();
        }
        known.retain(|_, old| old.key.strong_count() > 0);
        let bytes = key.signature_bytes()?;
        let copied = key.with_components(|key| PinnedKey::new(self.memory, key, bytes));
        let pinned = copied.map(Arc::new);
        known.insert(name, Known { key: Arc::downgrade(key), pinned: pinned.clone() });
        pinned
    }

    /// The device does not take a key: it is wiped, and not offered again.
    pub(super) fn refuse(&self, name: &KeyName) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(name) {
            known.pinned = None;
        }
    }
}
