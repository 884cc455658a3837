//! Key encapsulation as libssl and programs ask libcrypto for it, and what is known of mechanisms.
#![allow(unsafe_code, reason = "calls libcrypto as libssl and programs do")]
#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::{CStr, c_int};
use std::ops::Range;
use std::ptr;

use openssl::error::ErrorStack;
use widelane_bridge::counters::OperationKind;
use widelane_crypto::mlkem::ParameterSet;
use widelane_ossl_sys::core::{OsslParam, PARAM_OCTET_STRING};

use crate::ffi;
use crate::pkey::{Context, Key, good};

/// A parameter of bytes.
pub fn octets(key: &'static CStr, bytes: &[u8]) -> OsslParam {
    OsslParam::new(key, PARAM_OCTET_STRING, bytes.as_ptr().cast_mut().cast(), bytes.len())
}

/// A mechanism, and what is known of it.
pub struct Known {
    pub name: &'static CStr,
    /// The number of its group of TLS.
    pub id: u16,
    /// Bytes of public keys, ciphertexts, secrets and private keys.
    pub bytes: [usize; 4],
    /// What OpenSSL 3.5 says of bits, strength and longest output.
    pub sizes: [c_int; 3],
    pub set: ParameterSet,
    /// Where what belongs to ML-KEM begins in public keys, ciphertexts and secrets; in private keys
    /// it begins where it does in secrets.
    pub begins: [usize; 3],
    pub kinds: [OperationKind; 2],
}

pub const KNOWN: [Known; 6] = [
    Known {
        name: c"X25519MLKEM768",
        id: 0x11ec,
        bytes: [1184 + 32, 1088 + 32, 64, 2400 + 32],
        sizes: [768, 192, 1088 + 32],
        set: ParameterSet::MlKem768,
        begins: [0, 0, 0],
        kinds: [OperationKind::X25519MlKem768Encapsulate, OperationKind::X25519MlKem768Decapsulate],
    },
    Known {
        name: c"MLKEM512",
        id: 0x0200,
        bytes: [800, 768, 32, 1632],
        sizes: [512, 128, 768],
        set: ParameterSet::MlKem512,
        begins: [0, 0, 0],
        kinds: [OperationKind::MlKem512Encapsulate, OperationKind::MlKem512Decapsulate],
    },
    Known {
        name: c"MLKEM768",
        id: 0x0201,
        bytes: [1184, 1088, 32, 2400],
        sizes: [768, 192, 1088],
        set: ParameterSet::MlKem768,
        begins: [0, 0, 0],
        kinds: [OperationKind::MlKem768Encapsulate, OperationKind::MlKem768Decapsulate],
    },
    Known {
        name: c"MLKEM1024",
        id: 0x0202,
        bytes: [1568, 1568, 32, 3168],
        sizes: [1024, 256, 1568],
        set: ParameterSet::MlKem1024,
        begins: [0, 0, 0],
        kinds: [OperationKind::MlKem1024Encapsulate, OperationKind::MlKem1024Decapsulate],
    },
    Known {
        name: c"SecP256r1MLKEM768",
        id: 0x11eb,
        bytes: [65 + 1184, 65 + 1088, 64, 32 + 2400],
        sizes: [768, 192, 65 + 1088],
        set: ParameterSet::MlKem768,
        begins: [65, 65, 32],
        kinds: [
            OperationKind::Secp256r1MlKem768Encapsulate,
            OperationKind::Secp256r1MlKem768Decapsulate,
        ],
    },
    Known {
        name: c"SecP384r1MLKEM1024",
        id: 0x11ed,
        bytes: [97 + 1568, 97 + 1568, 48 + 32, 48 + 3168],
        sizes: [1024, 256, 97 + 1568],
        set: ParameterSet::MlKem1024,
        begins: [97, 97, 48],
        kinds: [
            OperationKind::Secp384r1MlKem1024Encapsulate,
            OperationKind::Secp384r1MlKem1024Decapsulate,
        ],
    },
];

impl Known {
    /// A share of this group with a first or last coefficient of q, which is too much by one.
    pub fn unreduced(&self, share: &[u8]) -> [Vec<u8>; 2] {
        let begin = self.begins[0];
        let end = begin + self.set.encapsulation_key_bytes() - 32;
        let (mut first, mut last) = (share.to_vec(), share.to_vec());
        first[begin] = 0x01;
        first[begin + 1] = first[begin + 1] & 0xf0 | 0x0d;
        last[end - 2] = last[end - 2] & 0xf | 0x10;
        last[end - 1] = 0xd0;
        [first, last]
    }

    /// Where a share has what belongs to the curve.
    pub fn curve_in_share(&self, share: &[u8]) -> Range<usize> {
        Self::curve_beside(share, self.begins[0], self.set.encapsulation_key_bytes())
    }

    /// Where a ciphertext has it.
    pub fn curve_in_ciphertext(&self, ciphertext: &[u8]) -> Range<usize> {
        Self::curve_beside(ciphertext, self.begins[1], self.set.ciphertext_bytes())
    }

    fn curve_beside(whole: &[u8], begin: usize, of_ml_kem: usize) -> Range<usize> {
        if begin > 0 { 0..begin } else { of_ml_kem..whole.len() }
    }
}

impl Key {
    /// A key of ML-KEM alone that a seed makes.
    pub fn from_seed(name: &CStr, seed: &[u8]) -> Result<Self, ErrorStack> {
        let context = Context::named(name);
        // SAFETY: the context lives.
        good(unsafe { ffi::EVP_PKEY_keygen_init(context.0) })?;
        let params = [octets(c"seed", seed), OsslParam::END];
        // SAFETY: as above; the array has an end.
        good(unsafe { ffi::EVP_PKEY_CTX_set_params(context.0, params.as_ptr()) })?;
        let mut key = ptr::null_mut();
        // SAFETY: as above.
        good(unsafe { ffi::EVP_PKEY_generate(context.0, &mut key) })?;
        Ok(Key(key))
    }

    /// A key of a group of TLS, which is called like its algorithm.
    pub fn of_group(group: &CStr, whole: bool) -> Self {
        Key::make(group, group, whole).expect("generated")
    }

    pub fn from(name: &CStr, parts: &[(&'static CStr, &[u8])]) -> Result<Self, ErrorStack> {
        let context = Context::named(name);
        // SAFETY: the context lives.
        good(unsafe { ffi::EVP_PKEY_fromdata_init(context.0) })?;
        let mut params: Vec<_> = parts.iter().map(|(name, bytes)| octets(name, bytes)).collect();
        params.push(OsslParam::END);
        let mut key = ptr::null_mut();
        // SAFETY: as above; the array has an end.
        good(unsafe { ffi::EVP_PKEY_fromdata(context.0, &mut key, 0x87, params.as_mut_ptr()) })?;
        Ok(Key(key))
    }

    /// The key of a peer that has sent its share.
    pub fn peer(group: &CStr, encoded: &[u8]) -> Result<Self, ErrorStack> {
        Key::of_group(group, false).take(encoded)
    }

    pub fn octets(&self, name: &CStr) -> Vec<u8> {
        let (mut bytes, mut length) = (vec![0; 4096], 0);
        let (place, size) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the key lives; pointer and length belong to the vector.
        let told = unsafe {
            ffi::EVP_PKEY_get_octet_string_param(self.0, name.as_ptr(), place, size, &mut length)
        };
        assert_eq!(told, 1, "{name:?}");
        bytes.truncate(length);
        bytes
    }

    pub fn public(&self) -> Vec<u8> {
        self.octets(c"encoded-pub-key")
    }

    /// As `ssl_encapsulate` does: a ciphertext and a secret.
    pub fn encapsulate(&self) -> Result<[Vec<u8>; 2], ErrorStack> {
        self.encapsulate_from(&[OsslParam::END])
    }

    pub fn encapsulate_from(&self, params: &[OsslParam]) -> Result<[Vec<u8>; 2], ErrorStack> {
        let context = Context::of(self);
        // SAFETY: the context lives; the array has an end.
        good(unsafe { ffi::EVP_PKEY_encapsulate_init(context.0, params.as_ptr()) })?;
        context.encapsulate()
    }

    /// As `ssl_decapsulate` does.
    pub fn decapsulate(&self, ciphertext: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let context = Context::of(self);
        // SAFETY: the context lives.
        good(unsafe { ffi::EVP_PKEY_decapsulate_init(context.0, ptr::null()) })?;
        context.decapsulate(ciphertext)
    }
}

impl Context {
    /// A ciphertext and a secret, by a context that was begun.
    pub fn encapsulate(&self) -> Result<[Vec<u8>; 2], ErrorStack> {
        let (mut length, mut secret_length) = (0, 0);
        let (nowhere, place) = (ptr::null_mut(), &mut length);
        // SAFETY: only the lengths are asked for.
        good(unsafe {
            ffi::EVP_PKEY_encapsulate(self.0, nowhere, place, nowhere, &mut secret_length)
        })?;
        let (mut ciphertext, mut secret) = (vec![0; length], vec![0; secret_length]);
        // SAFETY: pointers and lengths belong to the vectors.
        good(unsafe {
            ffi::EVP_PKEY_encapsulate(
                self.0,
                ciphertext.as_mut_ptr(),
                &mut length,
                secret.as_mut_ptr(),
                &mut secret_length,
            )
        })?;
        assert_eq!([length, secret_length], [ciphertext.len(), secret.len()]);
        Ok([ciphertext, secret])
    }

    /// The secret in a ciphertext, likewise.
    pub fn decapsulate(&self, ciphertext: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let (mut length, bytes) = (0, ciphertext.as_ptr());
        // SAFETY: only the length is asked for.
        good(unsafe {
            ffi::EVP_PKEY_decapsulate(self.0, ptr::null_mut(), &mut length, bytes, ciphertext.len())
        })?;
        let mut secret = vec![0; length];
        // SAFETY: pointers and lengths belong to the slices.
        good(unsafe {
            ffi::EVP_PKEY_decapsulate(
                self.0,
                secret.as_mut_ptr(),
                &mut length,
                bytes,
                ciphertext.len(),
            )
        })?;
        assert_eq!(length, secret.len());
        Ok(secret)
    }
}
