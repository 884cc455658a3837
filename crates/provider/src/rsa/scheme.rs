//! How a signature is to be made: what the default provider's context says.
#![allow(unsafe_code, reason = "calls the default provider's functions")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use widelane_crypto::rsa::KeySize;
use widelane_crypto::rsa::encoding::{DigestAlgorithm, pkcs1_sign_encode, pss_encode};
use widelane_ossl_sys::core::{self, OsslParam};
use widelane_ossl_sys::dispatch::SignatureFunctions;

use crate::delegate::{Delegate, SignContext};
use crate::digest::{Digest, by_name};
use crate::params::{self, Text};
use crate::rsa::key::Key;
use crate::secret::Secret;

/// How a signature is to be made.
pub(super) struct Scheme {
    padding: c_int,
    digest: Text,
    mask_digest: Text,
    salt_length: c_int,
}

impl Scheme {
    /// Asks a context of the default provider.
    pub(super) fn of(functions: &SignatureFunctions, context: *mut c_void) -> Option<Self> {
        let mut scheme = Scheme {
            padding: 0,
            digest: Text::empty(),
            mask_digest: Text::empty(),
            salt_length: 0,
        };
        let mut asked = [
            params::int(core::PARAM_PAD_MODE, &mut scheme.padding),
            params::text(core::SIGNATURE_PARAM_DIGEST, &mut scheme.digest),
            params::text(core::SIGNATURE_PARAM_MGF1_DIGEST, &mut scheme.mask_digest),
            params::int(core::SIGNATURE_PARAM_PSS_SALTLEN, &mut scheme.salt_length),
            OsslParam::END,
        ];
        let get_ctx_params = functions.get_ctx_params?;
        // SAFETY: a context of the default provider; `asked` has an end.
        let answered = unsafe { get_ctx_params(context, asked.as_mut_ptr()) > 0 };
        answered.then_some(scheme)
    }

    /// The digest, if one is set that our encodings know.
    pub(super) fn digest_algorithm(&self) -> Option<DigestAlgorithm> {
        by_name(self.digest.as_c_str())
    }

    /// Whether what is signed is the encoding of a digest, and not whatever the program gives.
    pub(super) fn encodes_digests(&self) -> bool {
        self.digest_algorithm().is_some()
    }

    /// Encodes a digest, or whatever is signed where no digest is set, for a key of a size; nothing
    /// if we leave such signatures to the default provider.
    pub(super) fn encode(
        &self,
        delegate: &Arc<Delegate>,
        size: KeySize,
        digest: &[u8],
    ) -> Option<Vec<u8>> {
        let algorithm = self.digest_algorithm();
        if algorithm.is_none() && !self.digest.as_c_str().is_empty() {
            return None;
        }
        let mut encoded = vec![0; size.bytes()];
        match self.padding {
            core::PADDING_PKCS1 => pkcs1_sign_encode(algorithm, digest, &mut encoded).ok()?,
            // A digest beside it has been refused already, so signing is refused, too.
            core::PADDING_NONE if algorithm.is_none() && digest.len() == encoded.len() => {
                encoded.copy_from_slice(digest);
            }
            core::PADDING_PSS => {
                let algorithm = algorithm?;
                let mut hash = Digest::begin(delegate, algorithm)?;
                let mut mask_hash = Digest::begin(delegate, by_name(self.mask_digest.as_c_str())?)?;
                let mut salt = vec![0; self.salt_bytes(size, algorithm)?];
                delegate.random(&mut salt)?;
                pss_encode(&mut hash, &mut mask_hash, digest, &salt, size.bits(), &mut encoded)
                    .ok()?;
            }
            _ => return None,
        }
        Some(encoded)
    }

    /// Signs a digest by the default provider, from the beginning; the caller has `size` bytes of
    /// room.
    pub(super) fn sign_delegated(
        &self,
        delegate: &Delegate,
        key: &Key,
        digest: &[u8],
        size: usize,
    ) -> Option<Secret> {
        let (mut padding, mut salt_length) = (self.padding, self.salt_length);
        let mut params = vec![params::int(core::PARAM_PAD_MODE, &mut padding)];
        if !self.digest.as_c_str().is_empty() {
            params.push(params::text_in(core::SIGNATURE_PARAM_DIGEST, self.digest.as_c_str()));
        }
        if self.padding == core::PADDING_PSS {
            params.extend([
                params::int(core::SIGNATURE_PARAM_PSS_SALTLEN, &mut salt_length),
                params::text_in(core::SIGNATURE_PARAM_MGF1_DIGEST, self.mask_digest.as_c_str()),
            ]);
        }
        params.push(OsslParam::END);
        let functions = &delegate.algorithms.rsa_signature.functions;
        SignContext::begin(delegate, functions, key.as_ptr(), &params)?
            .signature(digest, size.min(key.signature_bytes()?))
    }

    /// Bytes of salt of a PSS signature (RFC 8017 section 9.1), by OpenSSL's rules.
    fn salt_bytes(&self, size: KeySize, algorithm: DigestAlgorithm) -> Option<usize> {
        let digest_bytes = algorithm.digest_bytes();
        let longest = size.bytes().checked_sub(digest_bytes + 2)?;
        match self.salt_length {
            core::SALTLEN_DIGEST => Some(digest_bytes),
            core::SALTLEN_AUTO | core::SALTLEN_MAX => Some(longest),
            core::SALTLEN_AUTO_DIGEST_MAX => Some(longest.min(digest_bytes)),
            bytes => usize::try_from(bytes).ok().filter(|bytes| *bytes <= longest),
        }
    }
}
