//! EVP's calls that take parameters, each for whichever provider a query names.

use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use widelane_ossl_sys::core::OsslParam;

use super::ffi;
use super::params::Params;

type Begin = unsafe extern "C" fn(*mut c_void, *const OsslParam) -> c_int;
type Transform = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *const u8, usize) -> c_int;

/// A call's status, and the bytes that came out where it succeeded.
pub type Answer = (c_int, Vec<u8>);

/// Room for whatever comes out.
const ROOM: usize = 1024;

/// Defines objects of libcrypto's, freed when dropped.
macro_rules! owned {
    ($($(#[$doc:meta])* $name:ident: $free:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(*mut c_void);

        impl $name {
            fn new(object: *mut c_void) -> Option<Self> {
                (!object.is_null()).then_some($name(object))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: owned, freed once.
                unsafe { ffi::$free(self.0) };
            }
        }
    )*};
}

owned! {
    /// A key.
    Key: EVP_PKEY_free;
    /// What is done with a key.
    KeyContext: EVP_PKEY_CTX_free;
    /// A message that is being signed or verified.
    MessageContext: EVP_MD_CTX_free;
    /// Messages that are being sealed or opened.
    CipherContext: EVP_CIPHER_CTX_free;
    /// A key derivation.
    KdfContext: EVP_KDF_CTX_free;
}

// SAFETY: libcrypto's keys are made for use by many threads.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    pub fn import(
        algorithm: &CStr,
        query: &CStr,
        selection: c_int,
        params: &Params,
    ) -> Option<Self> {
        let context = KeyContext::named(algorithm, query);
        // SAFETY: a new context.
        assert_eq!(unsafe { ffi::EVP_PKEY_fromdata_init(context.0) }, 1);
        let mut key = ptr::null_mut();
        // SAFETY: the parameters have an end.
        let take =
            |params| unsafe { ffi::EVP_PKEY_fromdata(context.0, &mut key, selection, params) };
        let status = params.give(take);
        Self::new(key).filter(|_| status > 0)
    }

    /// Generates a key after its parameters were set; answers the statuses of both.
    pub fn generate(algorithm: &CStr, query: &CStr, params: &Params) -> (c_int, Option<Self>) {
        let context = KeyContext::named(algorithm, query);
        // SAFETY: a new context.
        assert_eq!(unsafe { ffi::EVP_PKEY_keygen_init(context.0) }, 1);
        let set = context.set(params);
        let mut key = ptr::null_mut();
        // SAFETY: the context was begun.
        let status = unsafe { ffi::EVP_PKEY_generate(context.0, &mut key) };
        (set, Self::new(key).filter(|_| status > 0))
    }

    pub fn duplicate(&self) -> Option<Self> {
        // SAFETY: a key.
        Self::new(unsafe { ffi::EVP_PKEY_dup(self.0) })
    }

    pub fn equals(&self, other: &Key) -> c_int {
        // SAFETY: both are keys.
        unsafe { ffi::EVP_PKEY_eq(self.0, other.0) }
    }

    /// The name of its provider.
    pub fn provider(&self) -> &CStr {
        // SAFETY: a key of a provider.
        let provider = unsafe { ffi::EVP_PKEY_get0_provider(self.0) };
        // SAFETY: that provider.
        let name = unsafe { ffi::OSSL_PROVIDER_get0_name(provider) };
        // SAFETY: a C string that stays with the provider.
        unsafe { CStr::from_ptr(name) }
    }

    pub fn bits(&self) -> c_int {
        // SAFETY: a key.
        unsafe { ffi::EVP_PKEY_get_bits(self.0) }
    }

    pub fn get(&self, params: &Params) -> Answer {
        // SAFETY: the parameters have an end, and room.
        params.ask(|params| unsafe { ffi::EVP_PKEY_get_params(self.0, params) })
    }

    pub fn set(&self, params: &Params) -> c_int {
        // SAFETY: the parameters have an end.
        params.give(|params| unsafe { ffi::EVP_PKEY_set_params(self.0, params) })
    }
}

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Sign,
    Verify,
    Decrypt,
    Derive,
    Encapsulate,
    Decapsulate,
}

impl KeyContext {
    fn named(algorithm: &CStr, query: &CStr) -> Self {
        let (name, query) = (algorithm.as_ptr(), query.as_ptr());
        // SAFETY: the default library context, and C strings.
        let context = unsafe { ffi::EVP_PKEY_CTX_new_from_name(ptr::null_mut(), name, query) };
        Self::new(context).expect("an algorithm of both providers")
    }

    pub fn of(key: &Key, query: &CStr) -> Self {
        // SAFETY: the default library context, a key and a C string.
        let context =
            unsafe { ffi::EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key.0, query.as_ptr()) };
        Self::new(context).expect("a key has an algorithm")
    }

    pub fn begin(&self, what: Use, params: &Params) -> c_int {
        let begin: Begin = match what {
            Use::Sign => ffi::EVP_PKEY_sign_init_ex,
            Use::Verify => ffi::EVP_PKEY_verify_init_ex,
            Use::Decrypt => ffi::EVP_PKEY_decrypt_init_ex,
            Use::Derive => ffi::EVP_PKEY_derive_init_ex,
            Use::Encapsulate => ffi::EVP_PKEY_encapsulate_init,
            Use::Decapsulate => ffi::EVP_PKEY_decapsulate_init,
        };
        // SAFETY: the parameters have an end.
        params.give(|params| unsafe { begin(self.0, params) })
    }

    pub fn get(&self, params: &Params) -> Answer {
        // SAFETY: the parameters have an end, and room.
        params.ask(|params| unsafe { ffi::EVP_PKEY_CTX_get_params(self.0, params) })
    }

    pub fn set(&self, params: &Params) -> c_int {
        // SAFETY: the parameters have an end.
        params.give(|params| unsafe { ffi::EVP_PKEY_CTX_set_params(self.0, params) })
    }

    /// Signs a digest, or decrypts.
    pub fn transform(&self, what: Use, input: &[u8]) -> Answer {
        let transform: Transform = match what {
            Use::Sign => ffi::EVP_PKEY_sign,
            _ => ffi::EVP_PKEY_decrypt,
        };
        // SAFETY: the lengths are those of the buffers.
        answer(|output, length| unsafe {
            transform(self.0, output, length, input.as_ptr(), input.len())
        })
    }

    pub fn verify(&self, digest: &[u8], signature: &[u8]) -> c_int {
        let (from, bytes) = (signature.as_ptr(), signature.len());
        // SAFETY: the lengths are those of the slices.
        unsafe { ffi::EVP_PKEY_verify(self.0, from, bytes, digest.as_ptr(), digest.len()) }
    }

    pub fn derive(&self, peer: &Key) -> (c_int, Answer) {
        // SAFETY: a key.
        let set = unsafe { ffi::EVP_PKEY_derive_set_peer(self.0, peer.0) };
        // SAFETY: the length is that of the buffer.
        let derive = |output, length| unsafe { ffi::EVP_PKEY_derive(self.0, output, length) };
        (set, answer(derive))
    }

    /// A ciphertext and a secret, each with so much room.
    pub fn encapsulate(&self, room: [usize; 2]) -> (c_int, [Vec<u8>; 2]) {
        let [mut ciphertext, mut secret] = room.map(|bytes| vec![0; bytes]);
        let [mut length, mut secret_length] = room;
        let (to, secret_to) = (ciphertext.as_mut_ptr(), secret.as_mut_ptr());
        // SAFETY: the lengths are those of the vectors.
        let done = unsafe {
            ffi::EVP_PKEY_encapsulate(self.0, to, &mut length, secret_to, &mut secret_length)
        };
        ciphertext.truncate(if done > 0 { length } else { 0 });
        secret.truncate(if done > 0 { secret_length } else { 0 });
        (done, [ciphertext, secret])
    }

    /// The secret in a ciphertext, with so much room.
    pub fn decapsulate(&self, ciphertext: &[u8], room: usize) -> Answer {
        let (mut secret, mut length) = (vec![0; room], room);
        let (to, from, bytes) = (secret.as_mut_ptr(), ciphertext.as_ptr(), ciphertext.len());
        // SAFETY: the lengths are those of the vector and the slice.
        let done = unsafe { ffi::EVP_PKEY_decapsulate(self.0, to, &mut length, from, bytes) };
        secret.truncate(if done > 0 { length } else { 0 });
        (done, secret)
    }

    /// Whether the public half is one.
    pub fn check_public(&self) -> c_int {
        // SAFETY: a context with a key.
        unsafe { ffi::EVP_PKEY_public_check(self.0) }
    }

    /// Whether both halves belong together.
    pub fn check_pairwise(&self) -> c_int {
        // SAFETY: a context with a key.
        unsafe { ffi::EVP_PKEY_pairwise_check(self.0) }
    }
}

impl MessageContext {
    /// A context that signs or verifies, and what takes its parameters; or why there is none.
    pub fn begin(
        what: Use,
        key: &Key,
        query: &CStr,
        digest: Option<&CStr>,
        params: &Params,
    ) -> Result<(Self, ManuallyDrop<KeyContext>), c_int> {
        // SAFETY: no arguments.
        let context = Self::new(unsafe { ffi::EVP_MD_CTX_new() }).expect("memory");
        let begin = if what == Use::Sign {
            ffi::EVP_DigestSignInit_ex
        } else {
            ffi::EVP_DigestVerifyInit_ex
        };
        let digest = digest.map_or(ptr::null(), CStr::as_ptr);
        let (mut inner, library, query) = (ptr::null_mut(), ptr::null_mut(), query.as_ptr());
        // SAFETY: a new context, a key, C strings, and parameters with an end.
        let begun = params.give(|params| unsafe {
            begin(context.0, &mut inner, digest, library, query, key.0, params)
        });
        // The inner context belongs to the outer one.
        let inner = KeyContext::new(inner).map(ManuallyDrop::new).filter(|_| begun > 0);
        inner.map(|inner| (context, inner)).ok_or(begun)
    }

    /// A context that goes on from here by itself.
    pub fn copy(&self) -> Self {
        // SAFETY: no arguments.
        let copy = Self::new(unsafe { ffi::EVP_MD_CTX_new() }).expect("memory");
        // SAFETY: both are contexts.
        assert_eq!(unsafe { ffi::EVP_MD_CTX_copy_ex(copy.0, self.0) }, 1);
        copy
    }

    pub fn sign(&self, message: &[u8]) -> Answer {
        // SAFETY: the lengths are those of the buffers.
        answer(|output, length| unsafe {
            ffi::EVP_DigestSign(self.0, output, length, message.as_ptr(), message.len())
        })
    }

    pub fn verify(&self, message: &[u8], signature: &[u8]) -> c_int {
        let (from, bytes) = (signature.as_ptr(), signature.len());
        // SAFETY: the lengths are those of the slices.
        unsafe { ffi::EVP_DigestVerify(self.0, from, bytes, message.as_ptr(), message.len()) }
    }
}

impl CipherContext {
    /// A context that seals or opens, and what its beginning answered; nothing if the provider has
    /// no such cipher.
    pub fn begin(
        name: &CStr,
        query: &CStr,
        (key, iv): (&[u8; 32], &[u8; 128]),
        seal: bool,
        params: &Params,
    ) -> Option<(Self, c_int)> {
        // SAFETY: the default library context, and C strings.
        let cipher =
            unsafe { ffi::EVP_CIPHER_fetch(ptr::null_mut(), name.as_ptr(), query.as_ptr()) };
        if cipher.is_null() {
            return None;
        }
        // SAFETY: no arguments.
        let context = Self::new(unsafe { ffi::EVP_CIPHER_CTX_new() })?;
        let (key, iv, way) = (key.as_ptr(), iv.as_ptr(), c_int::from(seal));
        // SAFETY: no cipher of ours has a longer key, nor takes a longer IV.
        let begun = params.give(|params| unsafe {
            ffi::EVP_CipherInit_ex2(context.0, cipher, key, iv, way, params)
        });
        // SAFETY: the context has its own reference.
        unsafe { ffi::EVP_CIPHER_free(cipher) };
        Some((context, begun))
    }

    pub fn get(&self, params: &Params) -> Answer {
        // SAFETY: the parameters have an end, and room.
        params.ask(|params| unsafe { ffi::EVP_CIPHER_CTX_get_params(self.0, params) })
    }

    pub fn set(&self, params: &Params) -> c_int {
        // SAFETY: the parameters have an end.
        params.give(|params| unsafe { ffi::EVP_CIPHER_CTX_set_params(self.0, params) })
    }

    /// Seals or opens so many bytes where they are, or takes them as what is authenticated only.
    pub fn update(&self, bytes: usize, aad: bool) -> Answer {
        let mut buffer = [7; ROOM];
        let place = buffer.as_mut_ptr();
        let output = if aad { ptr::null_mut() } else { place };
        let (mut length, count) = (0, bytes as c_int);
        // SAFETY: the buffer has room for every length that tests use.
        let done = unsafe { ffi::EVP_CipherUpdate(self.0, output, &mut length, place, count) };
        (done, if done > 0 { [&buffer[..], &length.to_le_bytes()].concat() } else { Vec::new() })
    }

    pub fn finish(&self) -> c_int {
        let (mut length, mut output) = (0, [0; 64]);
        // SAFETY: there is more room than any cipher needs.
        unsafe { ffi::EVP_CipherFinal_ex(self.0, output.as_mut_ptr(), &mut length) }
    }
}

impl KdfContext {
    pub fn new_of(name: &CStr, query: &CStr) -> Self {
        // SAFETY: the default library context, and C strings.
        let kdf = unsafe { ffi::EVP_KDF_fetch(ptr::null_mut(), name.as_ptr(), query.as_ptr()) };
        // SAFETY: fetched above.
        let context = Self::new(unsafe { ffi::EVP_KDF_CTX_new(kdf) });
        // SAFETY: the context has its own reference.
        unsafe { ffi::EVP_KDF_free(kdf) };
        context.expect("a key derivation of both providers")
    }

    pub fn get(&self, params: &Params) -> Answer {
        // SAFETY: the parameters have an end, and room.
        params.ask(|params| unsafe { ffi::EVP_KDF_CTX_get_params(self.0, params) })
    }

    pub fn set(&self, params: &Params) -> c_int {
        // SAFETY: the parameters have an end.
        params.give(|params| unsafe { ffi::EVP_KDF_CTX_set_params(self.0, params) })
    }

    pub fn derive(&self, bytes: usize, params: &Params) -> Answer {
        let mut made = vec![0; bytes];
        // SAFETY: the length is that of the buffer; the parameters have an end.
        let done = params.give(|params| unsafe {
            ffi::EVP_KDF_derive(self.0, made.as_mut_ptr(), bytes, params)
        });
        (done, if done > 0 { made } else { Vec::new() })
    }
}

/// Makes a call that writes at most its room; answers what it wrote.
fn answer(call: impl FnOnce(*mut u8, *mut usize) -> c_int) -> Answer {
    let (mut output, mut length) = (vec![0; ROOM], ROOM);
    let done = call(output.as_mut_ptr(), &mut length);
    output.truncate(if done > 0 { length } else { 0 });
    (done, output)
}
