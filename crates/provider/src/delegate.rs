//! The default provider, in a library context of our own: it does everything that we do not batch.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::array;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use widelane_bridge::counters::CipherKind;
use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core::{
    self, OsslAlgorithm, OsslCallback, OsslLibCtx, OsslParam, OsslProvider,
};
use widelane_ossl_sys::dispatch::{
    AsymCipherFunctions, CipherFunctions, EncoderFunctions, KdfFunctions, KemFunctions,
    KeyexchFunctions, KeymgmtFunctions, SignatureFunctions, Table,
};

use crate::digest::{self, Digests};
use crate::errors::quietly;
use crate::known::Retried;
use crate::lent::{Core, Lent, Wanted};
use crate::params::Array;
use crate::secret::Secret;
use crate::{cipher, kem, params};

/// The default provider, in a library context of our own.
///
/// We call its functions as the core would. So whatever a program does with one of our keys, it
/// meets the default provider's own behaviour, but for the operations that we take over.
pub(crate) struct Delegate {
    /// The libcrypto that loaded us.
    pub(crate) libcrypto: Libcrypto,
    /// What it offers of what we offer.
    pub(crate) algorithms: Algorithms,
    /// The digests of our encodings.
    pub(crate) digests: Digests,
    /// What the default provider's functions take for its own context.
    pub(crate) provctx: *mut c_void,
    library: Library,
    /// For digests and ciphers that the default provider does not have.
    lent: Lent,
}

/// A library context of our own with the default provider, for one [`Delegate`] after another.
///
/// It is never freed. Threads that have drawn random bytes in it look into it when they end, and
/// before OpenSSL 3.5 would look into memory that is gone. A program that frees a library context
/// calls `OPENSSL_thread_stop_ex` for it in its threads before, but does not know of this one.
#[derive(Clone, Copy)]
struct Library {
    context: *mut OsslLibCtx,
    provider: *mut OsslProvider,
    /// A function of the libcrypto that it belongs to, which tells it from another one.
    made_by: unsafe extern "C" fn() -> *mut OsslLibCtx,
}

// SAFETY: library contexts and providers are made for use by many threads.
unsafe impl Send for Library {}

impl Library {
    /// One that nobody uses, or a new one.
    fn take(libcrypto: &Libcrypto) -> Result<Self, String> {
        let made_by = libcrypto.OSSL_LIB_CTX_new;
        let mut unused = Self::unused();
        if let Some(index) = unused.iter().position(|it| ptr::fn_addr_eq(it.made_by, made_by)) {
            return Ok(unused.swap_remove(index));
        }
        drop(unused);
        // SAFETY: no arguments.
        let context = unsafe { made_by() };
        if context.is_null() {
            return Err("cannot make a library context".into());
        }
        // SAFETY: the context was made above.
        let provider = unsafe { (libcrypto.OSSL_PROVIDER_load)(context, c"default".as_ptr()) };
        if provider.is_null() {
            // SAFETY: made above; nothing was drawn in it.
            unsafe { (libcrypto.OSSL_LIB_CTX_free)(context) };
            return Err("cannot load the default provider beside this one".into());
        }
        Ok(Library { context, provider, made_by })
    }

    /// Those that were given back.
    fn unused() -> MutexGuard<'static, Vec<Library>> {
        static UNUSED: Mutex<Vec<Library>> = Mutex::new(Vec::new());
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The algorithms of the default provider that we offer as well.
#[derive(Default)]
pub(crate) struct Algorithms {
    /// RSA keys.
    pub(crate) rsa: Algorithm<KeymgmtFunctions>,
    /// RSA keys that sign with PSS only.
    pub(crate) rsa_pss: Algorithm<KeymgmtFunctions>,
    /// RSA signatures.
    pub(crate) rsa_signature: Algorithm<SignatureFunctions>,
    /// RSA encryption.
    pub(crate) rsa_cipher: Algorithm<AsymCipherFunctions>,
    /// Keys on NIST's curves, and on many others.
    pub(crate) ec: Algorithm<KeymgmtFunctions>,
    /// Encoders of such keys.
    pub(crate) ec_encoders: Vec<Encoder>,
    /// ECDH.
    pub(crate) ecdh: Algorithm<KeyexchFunctions>,
    /// ECDSA.
    pub(crate) ecdsa: Algorithm<SignatureFunctions>,
    /// X25519 keys.
    pub(crate) x25519: Algorithm<KeymgmtFunctions>,
    /// X25519.
    pub(crate) x25519_exchange: Algorithm<KeyexchFunctions>,
    /// Ed25519 keys.
    pub(crate) ed25519: Algorithm<KeymgmtFunctions>,
    /// Ed25519 signatures.
    pub(crate) ed25519_signature: Algorithm<SignatureFunctions>,
    /// Key derivation of TLS 1.3.
    pub(crate) tls13_kdf: Algorithm<KdfFunctions>,
    /// Key derivation of earlier versions.
    pub(crate) tls1_prf: Algorithm<KdfFunctions>,
    /// Key encapsulation by its place in [`kem::MECHANISMS`], where it has it.
    pub(crate) kems: [Option<Kem>; kem::MECHANISMS.len()],
    /// Ciphers by kind, those that it has.
    pub(crate) ciphers: [Option<Algorithm<CipherFunctions>>; CipherKind::ALL.len()],
}

/// An algorithm of the default provider.
#[derive(Default)]
pub(crate) struct Algorithm<F> {
    /// Its names, by which ours is known as well.
    pub(crate) names: CString,
    /// Its functions.
    pub(crate) functions: F,
}

/// Key encapsulation of the default provider.
pub(crate) struct Kem {
    /// Its keys.
    pub(crate) keys: Algorithm<KeymgmtFunctions>,
    /// What is done with them.
    pub(crate) mechanism: Algorithm<KemFunctions>,
}

/// An encoder of the default provider.
pub(crate) struct Encoder {
    /// Its names, by which ours is known as well.
    pub(crate) names: CString,
    /// What it writes, as properties by which ours is found.
    pub(crate) properties: CString,
    /// Its functions.
    pub(crate) functions: EncoderFunctions,
}

// SAFETY: library context, provider and functions are made for use by many threads.
unsafe impl Send for Delegate {}
// SAFETY: as above.
unsafe impl Sync for Delegate {}

impl Delegate {
    /// Loads the default provider into a library context of our own.
    ///
    /// # Errors
    /// A text that says what is missing.
    pub(crate) fn load(libcrypto: Libcrypto) -> Result<Self, String> {
        let library = Library::take(&libcrypto)?;
        let mut delegate = Delegate {
            libcrypto,
            algorithms: Algorithms::default(),
            digests: Digests::default(),
            // SAFETY: the library context has the provider loaded.
            provctx: unsafe { (libcrypto.OSSL_PROVIDER_get0_provider_ctx)(library.provider) },
            library,
            lent: Lent::default(),
        };
        delegate.algorithms = Algorithms {
            rsa: delegate.algorithm(c"RSA")?,
            rsa_pss: delegate.algorithm(c"RSA-PSS")?,
            rsa_signature: delegate.algorithm(c"RSA")?,
            rsa_cipher: delegate.algorithm(c"RSA")?,
            ec: delegate.algorithm(c"EC")?,
            ec_encoders: delegate.encoders(c"EC"),
            ecdh: delegate.algorithm(c"ECDH")?,
            ecdsa: delegate.algorithm(c"ECDSA")?,
            x25519: delegate.algorithm(c"X25519")?,
            x25519_exchange: delegate.algorithm(c"X25519")?,
            ed25519: delegate.algorithm(c"ED25519")?,
            ed25519_signature: delegate.algorithm(c"ED25519")?,
            tls13_kdf: delegate.algorithm(c"TLS13-KDF")?,
            tls1_prf: delegate.algorithm(c"TLS1-PRF")?,
            kems: array::from_fn(|index| delegate.kem(kem::MECHANISMS[index].group.0).ok()),
            ciphers: CipherKind::ALL.map(|kind| delegate.algorithm(cipher::name(kind)).ok()),
        };
        quietly(&delegate.libcrypto, || delegate.fetch_ahead());
        Ok(delegate)
    }

    /// Has libcrypto make what it makes at first use: generators, and the lists of all algorithms
    /// from which they, our digests and the MAC of key schedules are taken.
    ///
    /// Where memory is short while it makes a list, libcrypto keeps what there is of it for good. A
    /// server's workers inherit what is made here.
    fn fetch_ahead(&self) {
        // What fails here is tried again where it is needed. The generators are made but not used:
        // the first byte that is drawn settles whether they or an engine's are used from then on,
        // and the program may not have set its engine up yet.
        // SAFETY: the context was made by `load`.
        unsafe { (self.libcrypto.RAND_get0_private)(self.library.context) };
        // SAFETY: as above.
        unsafe { (self.libcrypto.RAND_get0_public)(self.library.context) };
        self.digests.find_all(self);
        let (context, fetch) = (self.library.context, self.libcrypto.EVP_MAC_fetch);
        // SAFETY: the context was made by `load`, the name is a C string.
        let mac = unsafe { fetch(context, c"HMAC".as_ptr(), ptr::null()) };
        // SAFETY: null, or fetched above and given back once.
        unsafe { (self.libcrypto.EVP_MAC_free)(mac) };
    }

    /// Lets the default provider use the digests and ciphers of the library context that `core`
    /// belongs to.
    pub(crate) fn with_core(mut self, core: Core) -> Self {
        self.lent = Lent::of(core);
        self
    }

    /// Sees to it that the default provider finds the digest of this name, if there is one.
    ///
    /// # Safety
    /// `digest` must be null or a C string.
    pub(crate) unsafe fn expect_digest(&self, digest: *const c_char) {
        if digest.is_null() {
            return;
        }
        // SAFETY: passed on to the caller.
        self.expect(Wanted::Digest(unsafe { CStr::from_ptr(digest) }, None));
    }

    /// Sees to it that the default provider finds the digests and the cipher that parameters name.
    ///
    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    pub(crate) unsafe fn expect_all(&self, params: *const OsslParam) {
        // SAFETY: passed on to the caller.
        let params = unsafe { Array::new(params) };
        for param in params.iter() {
            let name = params::name(param);
            let is_digest = DIGESTS.iter().any(|known| name == *known);
            if !is_digest && name != core::ENCODER_PARAM_CIPHER {
                continue;
            }
            let Some(named) = params::text_of(param) else { continue };
            if !is_digest {
                self.expect(Wanted::Cipher(named.as_c_str()));
                continue;
            }
            self.expect(Wanted::Digest(named.as_c_str(), None));
            let is_query =
                |param: &&OsslParam| QUERIES.iter().any(|known| params::key(param) == *known);
            for query in params.iter().filter(is_query).filter_map(params::whole_text_of) {
                self.expect(Wanted::Digest(named.as_c_str(), Some(&query)));
            }
        }
    }

    fn expect(&self, wanted: Wanted) {
        let is_known = match wanted {
            Wanted::Digest(name, None) => name.is_empty() || digest::by_name(name).is_some(),
            _ => false,
        };
        if !is_known {
            self.lent.expect(&self.libcrypto, self.library.context, wanted);
        }
    }

    /// The library context of the default provider.
    pub(crate) fn context(&self) -> *mut OsslLibCtx {
        self.library.context
    }

    /// Has the default provider tell `callback` of each of its answers about a capability.
    pub(crate) fn capabilities(
        &self,
        capability: &CStr,
        callback: OsslCallback,
        argument: *mut c_void,
    ) -> c_int {
        let ask = self.libcrypto.OSSL_PROVIDER_get_capabilities;
        // SAFETY: the provider is loaded, the name a C string; the rest belongs to the caller.
        unsafe { ask(self.library.provider, capability.as_ptr(), Some(callback), argument) }
    }

    /// Fills `bytes` from the default provider's generator for secrets.
    pub(crate) fn random(&self, bytes: &mut [u8]) -> Option<()> {
        self.fill(self.libcrypto.RAND_priv_bytes_ex, bytes)
    }

    /// `bytes` bytes from the same generator.
    pub(crate) fn random_secret(&self, bytes: usize) -> Option<Secret> {
        let mut secret = Secret(vec![0; bytes]);
        self.random(&mut secret.0)?;
        Some(secret)
    }

    /// Fills `bytes` from the default provider's generator for what everybody may see.
    pub(crate) fn public_random(&self, bytes: &mut [u8]) -> Option<()> {
        self.fill(self.libcrypto.RAND_bytes_ex, bytes)
    }

    fn fill(&self, generate: Generate, bytes: &mut [u8]) -> Option<()> {
        // SAFETY: pointer and length belong to the slice.
        let done =
            unsafe { generate(self.library.context, bytes.as_mut_ptr(), bytes.len(), 0) > 0 };
        done.then_some(())
    }

    fn kem(&self, name: &CStr) -> Result<Kem, String> {
        Ok(Kem { keys: self.algorithm(name)?, mechanism: self.algorithm(name)? })
    }

    /// The encoders of keys of a name.
    fn encoders(&self, name: &CStr) -> Vec<Encoder> {
        self.with_list(core::OP_ENCODER, |list| {
            let encoders = entries(list).filter(|(names, _)| has_name(names, name));
            encoders.filter_map(|(names, algorithm)| Encoder::read(names, algorithm)).collect()
        })
    }

    /// The algorithm of a name, for the operation of its functions.
    fn algorithm<F: Table>(&self, name: &CStr) -> Result<Algorithm<F>, String> {
        let operation = F::OPERATION;
        let found = self.with_list(operation, |list| {
            let (names, algorithm) = entries(list).find(|(names, _)| has_name(names, name))?;
            // SAFETY: the table of an algorithm for this operation.
            let functions = unsafe { F::read(algorithm.implementation) };
            Some(Algorithm { names: names.to_owned(), functions })
        });
        let name = name.to_string_lossy();
        found.ok_or_else(|| format!("the default provider has no {name} (operation {operation})"))
    }

    /// Asks the default provider for its algorithms for an operation, for as long as `read` runs.
    fn with_list<R>(&self, operation: c_int, read: impl FnOnce(*const OsslAlgorithm) -> R) -> R {
        let mut no_cache = 0;
        // SAFETY: the provider is loaded.
        let list = unsafe {
            let query = self.libcrypto.OSSL_PROVIDER_query_operation;
            query(self.library.provider, operation, &mut no_cache)
        };
        let result = read(list);
        if !list.is_null() {
            // SAFETY: `list` is the answer of the query above.
            unsafe {
                let unquery = self.libcrypto.OSSL_PROVIDER_unquery_operation;
                unquery(self.library.provider, operation, list);
            }
        }
        result
    }
}

impl Encoder {
    /// Reads an entry of the default provider's list; nothing if it does not say what it writes.
    fn read(names: &CStr, algorithm: &OsslAlgorithm) -> Option<Self> {
        if algorithm.property_definition.is_null() {
            return None;
        }
        // SAFETY: checked for null; properties are a C string.
        let properties = unsafe { CStr::from_ptr(algorithm.property_definition) };
        let properties = properties.to_str().ok()?.replace("provider=default", "provider=widelane");
        Some(Encoder {
            names: names.to_owned(),
            properties: CString::new(properties).ok()?,
            // SAFETY: the table of an encoder.
            functions: unsafe { EncoderFunctions::read(algorithm.implementation) },
        })
    }
}

/// Parameters that name a digest.
const DIGESTS: [&CStr; 3] = [
    core::SIGNATURE_PARAM_DIGEST,
    core::SIGNATURE_PARAM_MGF1_DIGEST,
    core::EXCHANGE_PARAM_KDF_DIGEST,
];

/// Parameters that say which implementation of a digest is meant.
const QUERIES: [&CStr; 4] =
    [c"properties", c"mgf1-properties", c"digest-props", c"kdf-digest-props"];

/// A generator of random bytes.
type Generate = unsafe extern "C" fn(*mut OsslLibCtx, *mut u8, usize, c_uint) -> c_int;

impl Drop for Delegate {
    fn drop(&mut self) {
        self.digests.free(&self.libcrypto);
        // What it keeps of second providers has no use for the next delegate.
        if self.lent.free(&self.libcrypto) == 0 {
            Library::unused().push(self.library);
        }
    }
}

/// The algorithms of a list, each with its names.
fn entries<'a>(list: *const OsslAlgorithm) -> impl Iterator<Item = (&'a CStr, &'a OsslAlgorithm)> {
    let mut next = list;
    std::iter::from_fn(move || {
        // SAFETY: null, or an entry of the list: its end has not been seen yet.
        let algorithm = unsafe { next.as_ref() }?;
        if algorithm.algorithm_names.is_null() {
            return None;
        }
        // SAFETY: this entry was not the end, so there is another.
        next = unsafe { next.add(1) };
        // SAFETY: checked for null; the names are a C string.
        Some((unsafe { CStr::from_ptr(algorithm.algorithm_names) }, algorithm))
    })
}

/// Whether a list of names of one algorithm has a name.
pub(crate) fn has_name(names: &CStr, name: &CStr) -> bool {
    let mut words = names.to_bytes().split(|byte| *byte == b':');
    words.any(|word| word.eq_ignore_ascii_case(name.to_bytes()))
}

/// A key or context of the default provider, owned.
pub(crate) struct Owned {
    object: NonNull<c_void>,
    free: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: the default provider's keys are made for use by many threads, and its contexts may move
// between threads; nobody shares one of ours.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Owned {
    /// Owns a new object from now on; nothing if there is none.
    pub(crate) fn adopt(
        object: *mut c_void,
        free: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> Option<Self> {
        NonNull::new(object).map(|object| Owned { object, free })
    }

    /// Has the default provider make one by its function `new`; nothing if it has none, or fails.
    pub(crate) fn made(
        new: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
        delegate: &Delegate,
        free: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> Option<Self> {
        // SAFETY: a function of the default provider, and its own context.
        Owned::adopt(unsafe { new?(delegate.provctx) }, free)
    }

    /// The object, for the default provider's functions.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.object.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: owned by this object alone, freed once.
            unsafe { free(self.object.as_ptr()) };
        }
    }
}

/// A context of the default provider's, or its image of a key, made when it is first needed.
pub(crate) type OnDemand = Retried<Owned>;

impl OnDemand {
    /// The object, made now if there is none.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Option<Owned>) -> Option<*mut c_void> {
        self.get_or_try(make).map(Owned::as_ptr)
    }

    /// A copy of what there is; nothing if a context cannot be copied.
    ///
    /// # Safety
    /// `dupctx` must be the default provider's function for such contexts.
    pub(crate) unsafe fn duplicate(
        &self,
        dupctx: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    ) -> Option<Self> {
        let Some(original) = self.get() else { return Some(OnDemand::new()) };
        // SAFETY: a context of the default provider, and its own function.
        let context = unsafe { dupctx?(original.as_ptr()) };
        Some(OnDemand::of(Owned::adopt(context, original.free)?))
    }
}

/// A signature of the default provider's that is about to be made, on an encoded message or a
/// digest.
pub(crate) struct SignContext<'a> {
    functions: &'a SignatureFunctions,
    context: Owned,
}

impl<'a> SignContext<'a> {
    /// Begins a signature with the default provider's key `key`.
    pub(crate) fn begin(
        delegate: &Delegate,
        functions: &'a SignatureFunctions,
        key: *mut c_void,
        params: &[OsslParam],
    ) -> Option<Self> {
        let (newctx, sign_init) = (functions.newctx?, functions.sign_init?);
        let no_query = ptr::null::<c_char>();
        // SAFETY: the default provider's own context.
        let context =
            Owned::adopt(unsafe { newctx(delegate.provctx, no_query) }, functions.freectx)?;
        let context = SignContext { functions, context };
        // SAFETY: context and key are the default provider's; `params` has an end.
        let begun = unsafe { sign_init(context.context.as_ptr(), key, params.as_ptr()) };
        (begun > 0).then_some(context)
    }

    /// Makes the signature; returns its length, which is at most that of `output`.
    ///
    /// The default provider takes the -1 of `i2d_ECDSA_SIG`, which finds no memory, for a length
    /// (`ossl_ecdsa_sign`), and says that it has signed.
    pub(crate) fn sign(&self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        let sign = self.functions.sign?;
        let mut length = output.len();
        // SAFETY: pointers and lengths belong to the slices.
        let done = unsafe {
            sign(
                self.context.as_ptr(),
                output.as_mut_ptr(),
                &mut length,
                output.len(),
                input.as_ptr(),
                input.len(),
            )
        };
        (done > 0 && length <= output.len()).then_some(length)
    }

    /// Makes the signature, of at most `size` bytes, and returns it; nothing if that fails.
    pub(crate) fn signature(&self, input: &[u8], size: usize) -> Option<Secret> {
        let mut signature = Secret(vec![0; size]);
        let length = self.sign(input, &mut signature.0)?;
        signature.0.truncate(length);
        Some(signature)
    }
}

/// Has the default provider verify the signature of a digest, with its key `key`; nothing if it
/// cannot be asked.
///
/// # Safety
/// `key` must be the default provider's, and `signature` null or readable for `length` bytes.
pub(crate) unsafe fn verify_digest(
    delegate: &Delegate,
    functions: &SignatureFunctions,
    key: *mut c_void,
    digest: &[u8],
    signature: *const c_uchar,
    length: usize,
) -> Option<c_int> {
    let (newctx, begin, verify) = (functions.newctx?, functions.verify_init?, functions.verify?);
    // SAFETY: the default provider's own context.
    let context =
        Owned::adopt(unsafe { newctx(delegate.provctx, ptr::null()) }, functions.freectx)?;
    // SAFETY: context and key are the default provider's.
    if unsafe { begin(context.as_ptr(), key, ptr::null()) } <= 0 {
        return None;
    }
    let (from, bytes) = (digest.as_ptr(), digest.len());
    // SAFETY: the context was begun; the signature is the caller's, the digest a slice.
    Some(unsafe { verify(context.as_ptr(), signature, length, from, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ossl_ecdsa_sign` of OpenSSL 3.0 does where memory is short.
    unsafe extern "C" fn signs_without_memory(
        _context: *mut c_void,
        _signature: *mut c_uchar,
        length: *mut usize,
        _size: usize,
        _input: *const c_uchar,
        _bytes: usize,
    ) -> c_int {
        // SAFETY: the caller waits for the length here.
        unsafe { length.write(u32::MAX as usize) };
        1
    }

    #[test]
    fn a_signature_longer_than_its_room_is_none() {
        let functions =
            SignatureFunctions { sign: Some(signs_without_memory), ..Default::default() };
        let context = Owned::adopt(NonNull::dangling().as_ptr(), None).expect("not null");
        let context = SignContext { functions: &functions, context };
        assert_eq!(context.sign(&[1; 32], &mut [0; 104]), None);
    }
}
