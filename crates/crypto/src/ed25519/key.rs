//! Signing keys of Ed25519: what is computed of a seed, once per key.

use std::fmt;
use std::slice;

use widelane_cpu::Policy;
use widelane_kernels::curve25519::{Scalar, ed25519_base};
use widelane_kernels::lanes::Portable;
use widelane_secret::stack::{kib, wiped};
use widelane_secret::wipe;
use widelane_vault::Vault;

use crate::digest::{Algorithm, Hash};

/// Stack of an import.
const STACK: usize = kib(6);

/// A private key and its public key; wiped when dropped.
pub struct SigningKey {
    /// In a vault, so that moving a key leaves no copies behind.
    material: Vault<Material>,
}

#[derive(Clone, Default)]
struct Material {
    /// The factor of the base point.
    scalar: Scalar,
    /// What nonces are hashed from.
    prefix: [u8; 32],
    public: [u8; 32],
}

impl SigningKey {
    /// Expands a seed, the private key of RFC 8032 section 5.1.5.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let mut material = Vault::new(Material::default());
        wiped::<STACK, _>(|| material.expand(seed));
        SigningKey { material }
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.material.public
    }

    pub(super) fn public_bytes(&self) -> &[u8; 32] {
        &self.material.public
    }

    pub(super) fn prefix(&self) -> &[u8; 32] {
        &self.material.prefix
    }

    pub(super) fn scalar(&self) -> &Scalar {
        &self.material.scalar
    }
}

impl Clone for SigningKey {
    fn clone(&self) -> Self {
        // The copy is made on the stack.
        let material = || Vault::new(Material::clone(&self.material));
        SigningKey { material: wiped::<STACK, _>(material) }
    }
}

impl Material {
    fn expand(&mut self, seed: &[u8; 32]) {
        // A key is made once, and without a policy: in rooms that none closes.
        let hash = Hash::choose(Algorithm::Sha512, &Policy::closed());
        let mut digest = hash.digest(seed);
        let (first, second) = super::split(super::whole(&digest));
        let mut factor = *first;
        factor[0] &= !7;
        factor[31] = factor[31] & 0x3f | 0x40;
        self.scalar = Scalar::from_bytes(&factor);
        self.prefix = *second;
        let mut reduced = self.scalar.to_bytes();
        ed25519_base::<Portable>((), &[&reduced], slice::from_mut(&mut self.public));
        wipe(&mut reduced);
        wipe(&mut factor);
        digest.wipe();
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SigningKey").finish_non_exhaustive()
    }
}
