//! Digests of the default provider: for messages that we sign, and for the PSS encoding.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use widelane_crypto::rsa::encoding::{DigestAlgorithm, EncodingError, HashFunction};
use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core::{EvpMd, EvpMdCtx, OsslParam};

use crate::delegate::Delegate;

/// The digests that our encodings know, each found when it is first used.
#[derive(Default)]
pub(crate) struct Digests([AtomicPtr<EvpMd>; DigestAlgorithm::ALL.len()]);

impl Digests {
    /// Finds a digest in the default provider.
    fn find(&self, delegate: &Delegate, algorithm: DigestAlgorithm) -> Option<NonNull<EvpMd>> {
        let place = &self.0[algorithm as usize];
        if let Some(found) = NonNull::new(place.load(Ordering::Acquire)) {
            return Some(found);
        }
        let name = name(algorithm);
        // SAFETY: the context is the delegate's, the name a C string.
        let found = NonNull::new(unsafe {
            (delegate.libcrypto.EVP_MD_fetch)(delegate.context(), name.as_ptr(), ptr::null())
        })?;
        match place.compare_exchange(
            ptr::null_mut(),
            found.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => Some(found),
            Err(earlier) => {
                // SAFETY: found above, and nobody else has it.
                unsafe { (delegate.libcrypto.EVP_MD_free)(found.as_ptr()) };
                NonNull::new(earlier)
            }
        }
    }

    /// Finds all digests.
    pub(crate) fn find_all(&self, delegate: &Delegate) {
        for algorithm in DigestAlgorithm::ALL {
            self.find(delegate, algorithm);
        }
    }

    /// Gives all digests back.
    pub(crate) fn free(&mut self, libcrypto: &Libcrypto) {
        for place in &mut self.0 {
            // SAFETY: null, or found by `find` and given back once.
            unsafe { (libcrypto.EVP_MD_free)(std::mem::replace(place.get_mut(), ptr::null_mut())) };
        }
    }
}

/// The algorithm of a name, if our encodings know it.
pub(crate) fn by_name(name: &CStr) -> Option<DigestAlgorithm> {
    let name = name.to_bytes();
    let same = |(_, known): &&(DigestAlgorithm, &CStr)| known.to_bytes().eq_ignore_ascii_case(name);
    NAMES.iter().find(same).map(|(algorithm, _)| *algorithm)
}

/// The name by which libcrypto knows an algorithm.
pub(crate) fn name(algorithm: DigestAlgorithm) -> &'static CStr {
    let found = NAMES.iter().find(|(named, _)| *named == algorithm);
    found.map_or(c"", |(_, name)| name)
}

/// A digest being computed.
pub(crate) struct Digest {
    delegate: Arc<Delegate>,
    algorithm: DigestAlgorithm,
    md: NonNull<EvpMd>,
    context: NonNull<EvpMdCtx>,
}

// SAFETY: a digest context may move between threads; it is used by one at a time.
unsafe impl Send for Digest {}

impl Digest {
    /// Begins a digest.
    pub(crate) fn begin(delegate: &Arc<Delegate>, algorithm: DigestAlgorithm) -> Option<Self> {
        let md = delegate.digests.find(delegate, algorithm)?;
        let digest = Self::allocate(delegate, algorithm, md)?;
        digest.restart().then_some(digest)
    }

    /// What it computes.
    pub(crate) fn algorithm(&self) -> DigestAlgorithm {
        self.algorithm
    }

    /// Feeds the digest.
    pub(crate) fn update(&self, data: &[u8]) -> bool {
        let update = self.delegate.libcrypto.EVP_DigestUpdate;
        // SAFETY: the context is ours; pointer and length belong to the slice.
        unsafe { update(self.context.as_ptr(), data.as_ptr().cast(), data.len()) > 0 }
    }

    /// Ends the digest; it has [`DigestAlgorithm::digest_bytes`] bytes.
    pub(crate) fn finish(&self) -> Option<[u8; DIGEST_BYTES_MAX]> {
        let finish = self.delegate.libcrypto.EVP_DigestFinal_ex;
        let mut digest = [0; DIGEST_BYTES_MAX];
        let mut length = 0;
        // SAFETY: the context is ours; no digest of libcrypto is longer than the buffer.
        let done = unsafe { finish(self.context.as_ptr(), digest.as_mut_ptr(), &mut length) > 0 };
        done.then_some(digest)
    }

    /// A second digest that begins where this one stands.
    pub(crate) fn duplicate(&self) -> Option<Self> {
        let copy = Self::allocate(&self.delegate, self.algorithm, self.md)?;
        let copy_from = self.delegate.libcrypto.EVP_MD_CTX_copy_ex;
        // SAFETY: both contexts are ours.
        let copied = unsafe { copy_from(copy.context.as_ptr(), self.context.as_ptr()) > 0 };
        copied.then_some(copy)
    }

    /// Asks for parameters, and answers as libcrypto does.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name, with room for the answers.
    pub(crate) unsafe fn get_params(&self, params: *mut OsslParam) -> c_int {
        // SAFETY: the context is ours; the rest is passed on to the caller.
        unsafe { (self.delegate.libcrypto.EVP_MD_CTX_get_params)(self.context.as_ptr(), params) }
    }

    /// Sets parameters in the middle of the message, and answers as libcrypto does.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    pub(crate) unsafe fn set_params(&self, params: *const OsslParam) -> c_int {
        // SAFETY: the context is ours; the rest is passed on to the caller.
        unsafe { (self.delegate.libcrypto.EVP_MD_CTX_set_params)(self.context.as_ptr(), params) }
    }

    fn allocate(
        delegate: &Arc<Delegate>,
        algorithm: DigestAlgorithm,
        md: NonNull<EvpMd>,
    ) -> Option<Self> {
        // SAFETY: no arguments.
        let context = NonNull::new(unsafe { (delegate.libcrypto.EVP_MD_CTX_new)() })?;
        Some(Digest { delegate: Arc::clone(delegate), algorithm, md, context })
    }

    fn restart(&self) -> bool {
        let restart = self.delegate.libcrypto.EVP_DigestInit_ex2;
        // SAFETY: the context is ours; the delegate keeps the digest.
        unsafe { restart(self.context.as_ptr(), self.md.as_ptr(), ptr::null()) > 0 }
    }
}

impl HashFunction for Digest {
    fn digest_bytes(&self) -> usize {
        self.algorithm.digest_bytes()
    }

    fn digest(&mut self, parts: &[&[u8]], digest: &mut [u8]) -> Result<(), EncodingError> {
        let fed = self.restart() && parts.iter().all(|part| self.update(part));
        let whole = fed.then(|| self.finish()).flatten().ok_or(EncodingError::Hash)?;
        digest.copy_from_slice(&whole[..self.digest_bytes()]);
        Ok(())
    }
}

impl Drop for Digest {
    fn drop(&mut self) {
        // SAFETY: made by `allocate`, freed once.
        unsafe { (self.delegate.libcrypto.EVP_MD_CTX_free)(self.context.as_ptr()) };
    }
}

/// Longest digest of libcrypto: `EVP_MAX_MD_SIZE`.
pub(crate) const DIGEST_BYTES_MAX: usize = 64;

/// The names by which libcrypto knows the digests of our encodings; the first of each finds it.
const NAMES: &[(DigestAlgorithm, &CStr)] = &[
    (DigestAlgorithm::Sha256, c"SHA2-256"),
    (DigestAlgorithm::Sha256, c"SHA256"),
    (DigestAlgorithm::Sha256, c"SHA-256"),
    (DigestAlgorithm::Sha384, c"SHA2-384"),
    (DigestAlgorithm::Sha384, c"SHA384"),
    (DigestAlgorithm::Sha384, c"SHA-384"),
    (DigestAlgorithm::Sha512, c"SHA2-512"),
    (DigestAlgorithm::Sha512, c"SHA512"),
    (DigestAlgorithm::Sha512, c"SHA-512"),
    (DigestAlgorithm::Sha1, c"SHA1"),
    (DigestAlgorithm::Sha1, c"SHA-1"),
    (DigestAlgorithm::Md5Sha1, c"MD5-SHA1"),
    (DigestAlgorithm::Sha224, c"SHA2-224"),
    (DigestAlgorithm::Sha224, c"SHA224"),
    (DigestAlgorithm::Sha224, c"SHA-224"),
    (DigestAlgorithm::Sha512Truncated224, c"SHA2-512/224"),
    (DigestAlgorithm::Sha512Truncated224, c"SHA512-224"),
    (DigestAlgorithm::Sha512Truncated224, c"SHA-512/224"),
    (DigestAlgorithm::Sha512Truncated256, c"SHA2-512/256"),
    (DigestAlgorithm::Sha512Truncated256, c"SHA512-256"),
    (DigestAlgorithm::Sha512Truncated256, c"SHA-512/256"),
    (DigestAlgorithm::Sha3_224, c"SHA3-224"),
    (DigestAlgorithm::Sha3_256, c"SHA3-256"),
    (DigestAlgorithm::Sha3_384, c"SHA3-384"),
    (DigestAlgorithm::Sha3_512, c"SHA3-512"),
];
