//! A key of key encapsulation that is being generated.

use std::ffi::c_int;
use std::sync::Arc;

use widelane_crypto::mlkem::{DecapsulationKey, SEED_BYTES};
use widelane_ossl_sys::core;

use crate::batching::execute::now;
use crate::batching::queues::Method;
use crate::counters::{How, count_job};
use crate::curve::generation::ephemeral;
use crate::delegate::Delegate;
use crate::kem::key::{Halves, Key};
use crate::kem::{MECHANISMS, Mechanism, batch};
use crate::secret::Secret;
use crate::{pool, process};

/// A key that is being generated.
pub(super) struct Generation {
    delegate: Arc<Delegate>,
    index: usize,
    selection: c_int,
    /// The seed of the key, if it is not random.
    pub(super) seed: Option<Secret>,
}

impl Generation {
    /// Begins to generate the selected parts of a key; nothing if the private half is not among
    /// them, nor a key without halves meant.
    pub(super) fn begin(delegate: &Arc<Delegate>, index: usize, selection: c_int) -> Option<Self> {
        let needed = core::SELECT_DOMAIN_PARAMETERS | core::SELECT_PRIVATE_KEY;
        let delegate = Arc::clone(delegate);
        (selection & needed != 0).then_some(Generation { delegate, index, selection, seed: None })
    }

    /// Whether there is a seed of ML-KEM alone that can be given.
    pub(super) fn takes_seed(&self) -> bool {
        MECHANISMS[self.index].curve.is_none()
    }

    /// The default provider.
    pub(super) fn delegate(&self) -> &Delegate {
        &self.delegate
    }

    /// Makes the key.
    pub(super) fn generate(&mut self) -> Option<Arc<Key>> {
        let key = Key::new(&self.delegate, self.index);
        match self.selection & core::SELECT_KEYPAIR {
            0 => return Some(Arc::new(key)),
            core::SELECT_PUBLIC_KEY => return None,
            _ => {}
        }
        let mechanism = key.mechanism();
        let on_curve = match mechanism.curve {
            Some(curve) => Some(ephemeral(&self.delegate, curve)?),
            None => None,
        };
        let (private, seed) = self.ml_kem(mechanism)?;
        let seed = mechanism.curve.is_none().then_some(seed);
        key.set(Halves::of(mechanism, private, seed, on_curve)?);
        Some(Arc::new(key))
    }

    /// The key of ML-KEM, and what it is made from.
    fn ml_kem(&mut self, mechanism: &Mechanism) -> Option<(DecapsulationKey, Secret)> {
        let (set, kind) = (mechanism.set, mechanism.generate_kind());
        if let Some(seed) = self.seed.take() {
            return Some((Self::alone(mechanism, &seed)?, seed));
        }
        if let Some(made) = pool::take_ml_kem(&self.delegate, set, kind) {
            let key = DecapsulationKey::from_generated(set, made.key())?;
            return Some((key, Secret(made.seed().to_vec())));
        }
        let begin = now();
        let seed = self.delegate.random_secret(SEED_BYTES)?;
        let key = Self::alone(mechanism, &seed)?;
        process::current().queues(kind).costs.record(Method::DefaultProvider, now().since(begin));
        Some((key, seed))
    }

    /// Makes a key without others.
    fn alone(mechanism: &Mechanism, seed: &Secret) -> Option<DecapsulationKey> {
        let is_batched = batch::is_batched();
        let how = if is_batched { How::Synchronous } else { How::Delegated };
        count_job(process::current().counters(), mechanism.generate_kind(), how);
        batch::generate_alone(mechanism.set, &seed.0)
    }
}
