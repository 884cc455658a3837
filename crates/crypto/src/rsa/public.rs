//! RSA public keys: the verification of signatures (RFC 8017, 8.1.2 and 8.2.2).

use std::fmt;

use widelane_kernels::mont::portable::{self, Modulus, Workspace};

use super::encoding::{DigestAlgorithm, HashFunction, pkcs1_sign_encode, pss_verify};
use super::key::{self, KeyError, KeySize, limbs};

/// An RSA public key, of a length that [`KeySize`] has. Nothing here is a secret.
pub struct PublicKey {
    exponent: u64,
    modulus: SizedModulus,
}

/// The modulus, by size.
enum SizedModulus {
    Rsa2048(Box<Modulus<32>>),
    Rsa3072(Box<Modulus<48>>),
    Rsa4096(Box<Modulus<64>>),
}

impl PublicKey {
    /// Takes over a modulus and a public exponent, big-endian.
    ///
    /// # Errors
    /// [`KeyError::ModulusSize`], [`KeyError::ModulusMismatch`] if the modulus is even, and
    /// [`KeyError::PublicExponent`].
    pub fn from_components(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let leading = modulus.iter().take_while(|byte| **byte == 0).count();
        let n = &modulus[leading..];
        let modulus = match key::bits(n) {
            2048 => sized(n).map(SizedModulus::Rsa2048),
            3072 => sized(n).map(SizedModulus::Rsa3072),
            4096 => sized(n).map(SizedModulus::Rsa4096),
            bits => return Err(KeyError::ModulusSize { bits }),
        };
        Ok(PublicKey {
            exponent: key::public_exponent(exponent).ok_or(KeyError::PublicExponent)?,
            modulus: modulus.ok_or(KeyError::ModulusMismatch)?,
        })
    }

    /// The length of the modulus.
    pub fn size(&self) -> KeySize {
        match self.modulus {
            SizedModulus::Rsa2048(_) => KeySize::Rsa2048,
            SizedModulus::Rsa3072(_) => KeySize::Rsa3072,
            SizedModulus::Rsa4096(_) => KeySize::Rsa4096,
        }
    }

    /// Whether `signature` is one of RSASSA-PKCS1-v1_5 for a message with this digest.
    #[must_use]
    pub fn verifies_pkcs1(
        &self,
        algorithm: DigestAlgorithm,
        digest: &[u8],
        signature: &[u8],
    ) -> bool {
        let mut expected = vec![0; self.size().bytes()];
        pkcs1_sign_encode(Some(algorithm), digest, &mut expected).is_ok()
            && self.raised(signature).is_some_and(|encoded| encoded == expected)
    }

    /// Whether `signature` is one of RSASSA-PSS for a message whose digest by `hash` is `digest`,
    /// with MGF1 by `mask_hash` and a salt as long as the digest.
    #[must_use]
    pub fn verifies_pss(
        &self,
        hash: &mut dyn HashFunction,
        mask_hash: &mut dyn HashFunction,
        digest: &[u8],
        signature: &[u8],
    ) -> bool {
        let bits = self.size().bits();
        let salt_bytes = digest.len();
        self.raised(signature).is_some_and(|encoded| {
            pss_verify(hash, mask_hash, digest, salt_bytes, bits, &encoded) == Ok(true)
        })
    }

    /// The public operation; nothing if `input` is not as long as the modulus, or not below it.
    fn raised(&self, input: &[u8]) -> Option<Vec<u8>> {
        match &self.modulus {
            SizedModulus::Rsa2048(modulus) => raised(modulus, self.exponent, input),
            SizedModulus::Rsa3072(modulus) => raised(modulus, self.exponent, input),
            SizedModulus::Rsa4096(modulus) => raised(modulus, self.exponent, input),
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PublicKey").field("size", &self.size()).finish_non_exhaustive()
    }
}

fn sized<const LIMBS: usize>(bytes: &[u8]) -> Option<Box<Modulus<LIMBS>>> {
    key::modulus(bytes).map(Box::new)
}

fn raised<const LIMBS: usize>(
    modulus: &Modulus<LIMBS>,
    exponent: u64,
    input: &[u8],
) -> Option<Vec<u8>> {
    let base = limbs(input).filter(|_| input.len() == 8 * LIMBS)?;
    let mut difference = base;
    if !portable::subtract(&mut difference, modulus.limbs()) {
        return None;
    }
    let mut result = [0; LIMBS];
    let mut workspace = Workspace::new();
    modulus.exponentiate_public_vartime(&mut result, &base, exponent, &mut workspace);
    Some(result.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect())
}
