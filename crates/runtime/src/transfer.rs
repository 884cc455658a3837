//! Private keys that move into the provider when they have been read.
//!
//! OpenSSL's decoders make keys of its default provider's, and import each into ours when it first
//! signs. Such a key exists twice, and each signature takes a lock to find ours; and each worker
//! has pages of its own for each certificate. A key that is the provider's from the beginning is
//! found without a lock, and exists once.
//!
//! Workers count references in the `EVP_PKEY` of each key that they use. Those are made ahead, next
//! to each other, so that nine keys and not one share a page that is written.
#![allow(unsafe_code, reason = "reads names that libcrypto returns, and a callback's argument")]

use core::ffi::{CStr, c_int, c_void};
use core::iter;
use core::ptr::{self, NonNull};

use crate::activate::PROVIDER_NAME;
use crate::keys::EVP_PKEY_KEYPAIR;
use crate::provider::provider;
use crate::real::{self, OpenSsl};

/// The kind of keys that move.
const ALGORITHM: &CStr = c"EC";

/// The kinds of keys with which a lane process signs.
const LENT_ALGORITHMS: [&CStr; 2] = [c"RSA", c"RSA-PSS"];

/// Blank keys that are made at once.
const AHEAD: usize = 32;

/// Where keys of EC move to.
pub(crate) struct Transfer {
    openssl: &'static OpenSsl,
    /// `EVP_PKEY_CTX` of the provider's key management.
    context: NonNull<c_void>,
    /// `EVP_PKEY`s with nothing in them.
    blank: Vec<NonNull<c_void>>,
}

// SAFETY: objects of libcrypto's that one thread at a time may use.
unsafe impl Send for Transfer {}

impl Transfer {
    /// Prepares to move keys of EC; nothing if they are not the provider's affair.
    pub(crate) fn new(openssl: &'static OpenSsl) -> Option<Self> {
        let (library, algorithm, any) = (ptr::null_mut(), ALGORITHM.as_ptr(), ptr::null());
        let management = NonNull::new(real::EVP_KEYMGMT_fetch(library, algorithm, any))?;
        let provider = (openssl.EVP_KEYMGMT_get0_provider)(management.as_ptr());
        let name = (openssl.OSSL_PROVIDER_get0_name)(provider);
        // SAFETY: each provider has a name, a C string, and is there as long as its algorithms.
        let is_ours = unsafe { CStr::from_ptr(name) } == PROVIDER_NAME;
        (openssl.EVP_KEYMGMT_free)(management.as_ptr());
        if !is_ours {
            return None;
        }
        let context = (openssl.EVP_PKEY_CTX_new_from_name)(library, algorithm, any);
        Some(Transfer { openssl, context: NonNull::new(context)?, blank: Vec::new() })
    }

    /// The provider's key in place of `key`, or `key` itself if it would lose something there, or
    /// has no lanes to fill.
    pub(crate) fn transfer(&mut self, key: NonNull<c_void>) -> NonNull<c_void> {
        if (self.openssl.EVP_PKEY_is_a)(key.as_ptr(), ALGORITHM.as_ptr()) != 1 {
            return key;
        }
        let Some(mut arrival) = self.arrival() else { return key };
        let into = ptr::from_mut(&mut arrival).cast();
        (self.openssl.EVP_PKEY_export)(key.as_ptr(), EVP_PKEY_KEYPAIR, arrive, into);
        let (kept, freed) = if arrival.done { (arrival.key, key) } else { (key, arrival.key) };
        (self.openssl.EVP_PKEY_free)(freed.as_ptr());
        kept
    }

    fn arrival(&mut self) -> Option<Arrival> {
        if self.blank.is_empty() {
            let new = || NonNull::new((self.openssl.EVP_PKEY_new)());
            self.blank.extend(iter::repeat_with(new).take(AHEAD).flatten());
        }
        let key = self.blank.pop()?;
        Some(Arrival { openssl: self.openssl, context: self.context, key, done: false })
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.blank.iter().for_each(|key| (self.openssl.EVP_PKEY_free)(key.as_ptr()));
        (self.openssl.EVP_PKEY_CTX_free)(self.context.as_ptr());
    }
}

/// Has OpenSSL import an RSA key that the program will sign with into the provider now, where that
/// wants it: a process that is forked later has it then, and need not import it. What cannot be
/// imported now is imported by the first signature with it.
pub(crate) fn make_known(key: *mut c_void) {
    let Some(openssl) = real::openssl().filter(|_| provider().is_some_and(|it| (it.wants_keys)()))
    else {
        return;
    };
    let is_a = |name: &CStr| (openssl.EVP_PKEY_is_a)(key, name.as_ptr()) == 1;
    if !LENT_ALGORITHMS.iter().any(|name| is_a(name)) {
        return;
    }
    openssl.quietly(|| {
        let context = (openssl.EVP_PKEY_CTX_new_from_pkey)(ptr::null_mut(), key, ptr::null());
        if !context.is_null() {
            (openssl.EVP_PKEY_sign_init)(context);
            (openssl.EVP_PKEY_CTX_free)(context);
        }
    });
}

/// Has OpenSSL import the private key of a context of TLS into the provider now, as [`make_known`]
/// does.
pub(crate) fn make_own_known(context: *mut c_void) {
    let Some(openssl) = real::openssl() else { return };
    let key = (openssl.SSL_CTX_get0_privatekey)(context);
    if !key.is_null() {
        make_known(key);
    }
}

/// A key on its way.
struct Arrival {
    openssl: &'static OpenSsl,
    context: NonNull<c_void>,
    /// Blank until it is `done`.
    key: NonNull<c_void>,
    done: bool,
}

/// Takes the parameters of an exported key.
extern "C" fn arrive(parameters: *const c_void, into: *mut c_void) -> c_int {
    // SAFETY: `transfer` passes its arrival through libcrypto, and looks at it afterwards only.
    let arrival = unsafe { &mut *into.cast::<Arrival>() };
    let Arrival { openssl, context, .. } = *arrival;
    let mut key = arrival.key.as_ptr();
    arrival.done = provider().is_some_and(|hooks| (hooks.keeps_key)(parameters))
        && (openssl.EVP_PKEY_fromdata_init)(context.as_ptr()) == 1
        && (openssl.EVP_PKEY_fromdata)(
            context.as_ptr(),
            &raw mut key,
            EVP_PKEY_KEYPAIR,
            parameters,
        ) == 1;
    c_int::from(arrival.done)
}
