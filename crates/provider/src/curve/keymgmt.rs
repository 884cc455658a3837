//! Families of keys on elliptic curves, for key management.

use crate::curve::Algorithm;
use crate::curve::key::Key;
use crate::keymgmt::KeyFamily;

/// Keys of [`Algorithm::Ec`].
pub(crate) enum Ec {}

/// Keys of [`Algorithm::Ed25519`].
pub(crate) enum Ed25519 {}

/// Keys of [`Algorithm::X25519`].
pub(crate) enum X25519 {}

impl KeyFamily for Ec {
    type Key = Key;
    const KIND: Algorithm = Algorithm::Ec;
}

impl KeyFamily for Ed25519 {
    type Key = Key;
    const KIND: Algorithm = Algorithm::Ed25519;
}

impl KeyFamily for X25519 {
    type Key = Key;
    const KIND: Algorithm = Algorithm::X25519;
}
