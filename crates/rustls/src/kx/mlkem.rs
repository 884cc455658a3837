//! ML-KEM-768, the half of hybrid groups that quantum computers do not break.

use std::cell::RefCell;
use std::slice;

use rustls::Error;
use widelane_cpu::Policy;
use widelane_crypto::mlkem::{
    DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, Outcome, ParameterSet, Workspace,
};
use widelane_secret::wipe;

use super::{INVALID_SHARE, with_kept};
use crate::random::Random;

/// Bytes of a client's share, an encapsulation key of ML-KEM-768.
pub(super) const CLIENT_BYTES: usize = ParameterSet::MlKem768.encapsulation_key_bytes();
/// Bytes of a server's share, a ciphertext of ML-KEM-768.
pub(super) const SERVER_BYTES: usize = ParameterSet::MlKem768.ciphertext_bytes();

thread_local! {
    /// Made when a thread first needs it; no secret stays there.
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

fn with_workspace<R>(work: impl FnOnce(&mut Workspace) -> R) -> R {
    with_kept(&WORKSPACE, Workspace::new, work)
}

/// A shared secret; wiped when it is dropped.
pub(super) struct Shared(pub(super) [u8; 32]);

impl Drop for Shared {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// ML-KEM-768 in the room chosen for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MlKem768(MlKem);

impl MlKem768 {
    pub(super) fn choose(policy: &Policy) -> Self {
        MlKem768(MlKem::choose(ParameterSet::MlKem768, policy))
    }

    /// A client's new key.
    pub(super) fn generate(&self) -> Result<DecapsulationKey, Error> {
        let seed = Random::draw()?;
        Ok(with_workspace(|workspace| self.0.generate_batch(workspace, &[&*seed])).remove(0))
    }

    /// A server's answer to a client's key: the ciphertext, and the secret in it.
    pub(super) fn encapsulate(&self, client: &[u8]) -> Result<(Vec<u8>, Shared), Error> {
        let message = Random::draw()?;
        let mut ciphertext = vec![0; SERVER_BYTES];
        let mut shared = Shared([0; 32]);
        let mut job = EncapsulateJob::new(client, &message, &mut ciphertext, &mut shared.0);
        with_workspace(|workspace| {
            self.0.encapsulate_batch(workspace, slice::from_mut(&mut job));
        });
        if job.outcome == Outcome::Done { Ok((ciphertext, shared)) } else { Err(INVALID_SHARE) }
    }

    /// The secret in a server's answer.
    pub(super) fn decapsulate(
        &self,
        key: &DecapsulationKey,
        server: &[u8],
    ) -> Result<Shared, Error> {
        let mut shared = Shared([0; 32]);
        let mut job = DecapsulateJob::new(key, server, &mut shared.0);
        with_workspace(|workspace| {
            self.0.decapsulate_batch(workspace, slice::from_mut(&mut job));
        });
        if job.outcome == Outcome::Done { Ok(shared) } else { Err(INVALID_SHARE) }
    }
}
