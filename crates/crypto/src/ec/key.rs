//! Keys on a curve: import and validation.

use std::fmt;

use thiserror::Error;
use widelane_secret::stack::{kib, wiped};
use widelane_vault::Vault;

use super::Curve;
use super::curve::{CurvePoint, Material};

/// Stack of an import.
const STACK: usize = kib(3);

/// The first byte of an uncompressed point (SEC 1, section 2.3.3).
pub(super) const UNCOMPRESSED: u8 = 4;

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The bytes are not as many as the curve wants.
    #[error("the key has {bytes} bytes where the curve takes {expected}")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// The private key is zero, or not below the order of the curve.
    #[error("the private key is not between 1 and the order of the curve less 1")]
    OutOfRange,
    /// The public key does not begin with the byte 04.
    #[error("the public key is not an uncompressed point; convert it to 04 || x || y")]
    Format,
    /// The public key is no point of the curve.
    #[error("the public key is not a point of the curve")]
    NotOnCurve,
}

/// A private key: a number from 1 to the order of the curve less 1; wiped when dropped.
pub struct PrivateKey {
    /// In a vault, so that moving a key leaves no copies behind.
    pub(super) material: Vault<Material>,
}

/// A public key: a point of the curve other than infinity.
#[derive(Clone)]
pub struct PublicKey {
    pub(super) point: CurvePoint,
}

impl PrivateKey {
    /// Takes over a private key, big-endian and as long as a coordinate.
    ///
    /// Secrets: the bytes. The time tells whether the key is refused, nothing else.
    ///
    /// # Errors
    /// A [`KeyError`] when the length is wrong or the number out of range.
    pub fn from_bytes(curve: Curve, bytes: &[u8]) -> Result<Self, KeyError> {
        check_length(bytes, curve.bytes())?;
        let read = || Material::read(curve, bytes).map(Vault::new);
        let material = wiped::<STACK, _>(read);
        Ok(PrivateKey { material: material.ok_or(KeyError::OutOfRange)? })
    }

    /// The private key, big-endian and as long as a coordinate.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.material.as_bytes()
    }

    /// The curve of the key.
    pub fn curve(&self) -> Curve {
        self.material.curve()
    }
}

impl Clone for PrivateKey {
    fn clone(&self) -> Self {
        // The copy is made on the stack.
        let material = || Vault::new(Material::clone(&self.material));
        PrivateKey { material: wiped::<STACK, _>(material) }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PrivateKey").field("curve", &self.curve()).finish_non_exhaustive()
    }
}

impl PublicKey {
    /// Takes over a public key, as 04 || x || y.
    ///
    /// # Errors
    /// A [`KeyError`] when that is not what the bytes are, or not a point of the curve.
    pub fn from_uncompressed(curve: Curve, bytes: &[u8]) -> Result<Self, KeyError> {
        check_length(bytes, curve.public_bytes())?;
        let (&[first], coordinates) = bytes.split_first_chunk().expect("the length is checked");
        if first != UNCOMPRESSED {
            return Err(KeyError::Format);
        }
        let point = CurvePoint::read(curve, coordinates);
        Ok(PublicKey { point: point.ok_or(KeyError::NotOnCurve)? })
    }

    /// The public key, as 04 || x || y.
    #[must_use]
    pub fn to_uncompressed(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.curve().public_bytes()];
        bytes[0] = UNCOMPRESSED;
        self.point.write(&mut bytes[1..]);
        bytes
    }

    /// The curve of the key.
    pub fn curve(&self) -> Curve {
        self.point.curve()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PublicKey").field("curve", &self.curve()).finish_non_exhaustive()
    }
}

/// Whether coordinates x || y, big-endian, are a point of the curve: what a shared secret that
/// something else has made is confirmed by.
///
/// Secrets: the coordinates. The time tells whether they are a point, nothing else.
#[must_use]
pub fn is_point(curve: Curve, coordinates: &[u8]) -> bool {
    wiped::<STACK, _>(|| CurvePoint::read(curve, coordinates).is_some())
}

fn check_length(bytes: &[u8], expected: usize) -> Result<(), KeyError> {
    let length = bytes.len();
    if length == expected { Ok(()) } else { Err(KeyError::Length { bytes: length, expected }) }
}
