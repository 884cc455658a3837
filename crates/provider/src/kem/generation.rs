//! A key of key encapsulation that is being generated.

use std::ffi::c_int;
use std::sync::Arc;

use widelane_crypto::mlkem::{DecapsulationKey, SEED_BYTES};
use widelane_ossl_sys::core;

use crate::batching::{Answer, Secret};
use crate::counters::count;
use crate::curve::generation::ephemeral;
use crate::delegate::Delegate;
use crate::kem::MECHANISMS;
use crate::kem::batch::{self, Generate};
use crate::kem::key::{Halves, Key};
use crate::process;

/// A key that is being generated.
pub(super) struct Generation {
    delegate: Arc<Delegate>,
    index: usize,
    selection: c_int,
    /// What the key is made from, if that is not left to chance.
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
        let given = self.seed.take();
        let seed = given.or_else(|| self.delegate.random_secret(SEED_BYTES))?;
        let delegate = Arc::clone(&self.delegate);
        let operation = Generate { delegate, mechanism, seed: Secret(seed.0.clone()) };
        let made = match batch::run(operation) {
            Answer::Done(made) => made,
            Answer::Cancelled => return None,
            Answer::Failed | Answer::Rejected => {
                count(&process::current().counters().fallbacks);
                batch::generate_alone(mechanism.set, seed.0.first_chunk()?)?
            }
        };
        let private = DecapsulationKey::from_generated(mechanism.set, &made.0)?;
        let seed = mechanism.curve.is_none().then_some(seed);
        key.set(Halves::of(mechanism, private, seed, on_curve)?);
        Some(Arc::new(key))
    }
}
