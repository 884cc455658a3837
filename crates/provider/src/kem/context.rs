//! Encapsulation and decapsulation, as libssl and programs ask for them.
#![allow(unsafe_code, reason = "speaks to the core")]

use std::ffi::{c_int, c_uchar, c_void};
use std::sync::Arc;

use widelane_bridge::counters::OperationKind;
use widelane_crypto::mlkem::SHARED_BYTES;
use widelane_ossl_sys::core::{self, OsslDispatch, OsslParam, PARAM_OCTET_STRING};
use widelane_ossl_sys::dispatch::KemFunctions;

use crate::batching::Operation;
use crate::counters::count_delegated;
use crate::curve::generation::ephemeral;
use crate::delegate::Delegate;
use crate::entry::{borrow, borrow_mut, end_given, entry, give, input, output, share};
use crate::errors::raise;
use crate::instance::Instance;
use crate::kem::batch::{self, Decapsulate, Encapsulate};
use crate::kem::key::{Key, Reason};
use crate::kem::single;
use crate::params::{self, Array};
use crate::pool::{self, Message};
use crate::secret::Secret;

/// Our functions for ML-KEM alone, of which the message can be set, or for a hybrid.
pub(super) fn functions(is_hybrid: bool) -> Box<[OsslDispatch]> {
    let settable_ctx_params =
        if is_hybrid { settable_of_hybrid as SettableParams } else { settable_ctx_params };
    KemFunctions { settable_ctx_params: Some(settable_ctx_params), ..FUNCTIONS }.write()
}

type SettableParams = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const OsslParam;

const FUNCTIONS: KemFunctions = KemFunctions {
    newctx: Some(newctx),
    encapsulate_init: Some(encapsulate_init),
    encapsulate: Some(encapsulate),
    decapsulate_init: Some(decapsulate_init),
    decapsulate: Some(decapsulate),
    freectx: Some(end_given::<Context>),
    dupctx: Some(dupctx),
    set_ctx_params: Some(set_ctx_params),
    settable_ctx_params: Some(settable_ctx_params),
};

/// A secret that is to be shared.
struct Context {
    delegate: Arc<Delegate>,
    key: Option<Arc<Key>>,
    /// Whether it takes a message: encapsulation by ML-KEM alone does. As in OpenSSL, nothing else
    /// looks at one.
    takes_message: bool,
    /// The input of the next encapsulation, if it is not random.
    message: Option<Box<Message>>,
}

impl Context {
    fn raise(&self, reason: Reason) {
        raise(&self.delegate.libcrypto, reason);
    }

    /// Begins with a key, of which the public half is needed, or the private one.
    ///
    /// # Safety
    /// `key` must be null or a key of ours, `params` an array that ends with a null name, or null.
    unsafe fn begin(
        &mut self,
        key: *mut c_void,
        encapsulates: bool,
        params: *const OsslParam,
    ) -> Option<c_int> {
        let has_part = |key: &Arc<Key>| match encapsulates {
            true => key.public().is_some(),
            false => key.decapsulation_key().is_some(),
        };
        // SAFETY: passed on to the caller.
        let key = unsafe { share::<Key>(key) }.filter(has_part);
        let Some(key) = key else {
            self.raise(core::PROV_R_MISSING_KEY);
            return None;
        };
        self.takes_message = encapsulates && key.mechanism().curve.is_none();
        (self.key, self.message) = (Some(key), None);
        // SAFETY: passed on to the caller.
        unsafe { self.set(params) }
    }

    /// # Safety
    /// `params` must be null or an array that ends with a null name.
    unsafe fn set(&mut self, params: *const OsslParam) -> Option<c_int> {
        // SAFETY: passed on to the caller.
        let params = unsafe { Array::new(params) };
        let Some(given) = params.find(core::KEM_PARAM_IKME).filter(|_| self.takes_message) else {
            return Some(1);
        };
        self.message = params::octets(given).and_then(Message::new);
        if self.message.is_none() {
            self.raise(core::PROV_R_INVALID_SEED_LENGTH);
            return None;
        }
        Some(1)
    }

    /// Does an operation; what cannot be done is left to the default provider, and if there is
    /// none, an error says why.
    fn run(
        &self,
        operation: impl Operation,
        theirs: impl FnOnce() -> Option<Secret>,
        reason: Reason,
    ) -> Option<Secret> {
        let kind = operation.kind();
        batch::run(operation).or_theirs(|| self.delegate_to(kind, theirs, reason))
    }

    /// Has the default provider do it, or say why not.
    fn delegate_to(
        &self,
        kind: OperationKind,
        theirs: impl FnOnce() -> Option<Secret>,
        reason: Reason,
    ) -> Option<Secret> {
        if self.key.as_ref().is_some_and(|key| key.theirs().is_some()) {
            count_delegated(kind);
            return theirs();
        }
        self.raise(reason);
        None
    }

    /// A ciphertext, and behind it the shared secret, made of a message if one is given.
    fn encapsulate(&self, given: Option<Box<Message>>) -> Option<Secret> {
        let peer = Arc::clone(self.key.as_ref()?);
        let copy = given.as_ref().and_then(|given| Message::new(given.bytes()));
        let is_given = given.is_some();
        let message = given.or_else(|| self.random_message())?;
        let ephemeral = match peer.mechanism().curve {
            Some(curve) => Some(ephemeral(&self.delegate, curve)?),
            None => None,
        };
        let operation = Encapsulate { peer: Arc::clone(&peer), message, is_given, ephemeral };
        let theirs = || single::encapsulate(&peer, copy.as_deref());
        self.run(operation, theirs, core::PROV_R_INVALID_KEY)
    }

    /// New random bytes.
    fn random_message(&self) -> Option<Box<Message>> {
        pool::take_message(&self.delegate)
            .or_else(|| Message::new(&self.delegate.random_secret(SHARED_BYTES)?.0))
    }

    /// The shared secret in a ciphertext.
    fn decapsulate(&self, ciphertext: &[u8]) -> Option<Secret> {
        let key = Arc::clone(self.key.as_ref()?);
        let mechanism = key.mechanism();
        let theirs = || single::decapsulate(&key, ciphertext);
        if ciphertext.len() != mechanism.ciphertext_bytes() {
            return self.delegate_to(mechanism.decapsulate, theirs, core::PROV_R_BAD_LENGTH);
        }
        let peer = match mechanism.curve {
            Some(_) => {
                let (_, encoded) = mechanism.public_parts(ciphertext);
                let Some(peer) = key.peer_on_curve(encoded) else {
                    return self.delegate_to(
                        mechanism.decapsulate,
                        theirs,
                        core::PROV_R_INVALID_KEY,
                    );
                };
                Some(peer)
            }
            None => None,
        };
        let operation = Decapsulate { key: Arc::clone(&key), ciphertext: ciphertext.into(), peer };
        self.run(operation, theirs, core::PROV_R_INVALID_KEY)
    }
}

entry! {
    fn newctx(provctx: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes our instance.
        let delegate = Arc::clone(unsafe { borrow::<Instance>(provctx) }?.delegate());
        Some(give(Context { delegate, key: None, takes_message: false, message: None }))
    }

    fn dupctx(context: *mut c_void) -> *mut c_void {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let message = context.message.as_ref().and_then(|message| Message::new(message.bytes()));
        Some(give(Context {
            delegate: Arc::clone(&context.delegate),
            key: context.key.clone(),
            takes_message: context.takes_message,
            message,
        }))
    }

    fn encapsulate_init(
        context: *mut c_void,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's key and parameters.
        unsafe { context.begin(key, true, params) }
    }

    fn decapsulate_init(
        context: *mut c_void,
        key: *mut c_void,
        params: *const OsslParam,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's key and parameters.
        unsafe { context.begin(key, false, params) }
    }

    fn encapsulate(
        context: *mut c_void,
        ciphertext: *mut c_uchar,
        ciphertext_length: *mut usize,
        secret: *mut c_uchar,
        secret_length: *mut usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        let mechanism = context.key.as_ref()?.mechanism();
        let bytes = [mechanism.ciphertext_bytes(), mechanism.shared_bytes()];
        // SAFETY: null, or where the core has the lengths and waits for them.
        let lengths = [ciphertext_length, secret_length].map(|length| unsafe { length.as_mut() });
        if ciphertext.is_null() && lengths.iter().any(Option::is_some) {
            for (length, bytes) in lengths.into_iter().zip(bytes) {
                if let Some(length) = length {
                    *length = bytes;
                }
            }
            return Some(1);
        }
        // As in OpenSSL, a message has served whatever comes of it.
        let given = context.message.take();
        let [Some(length), Some(secret_length)] = lengths else { return None };
        if secret.is_null() || *length < bytes[0] || *secret_length < bytes[1] {
            context.raise(core::PROV_R_OUTPUT_BUFFER_TOO_SMALL);
            return None;
        }
        let made = context.encapsulate(given)?;
        let (made, shared) = made.0.split_at(bytes[0]);
        // SAFETY: there is room for it, and the core waits for the length.
        unsafe { output(made, ciphertext, length) };
        // SAFETY: as above.
        unsafe { output(shared, secret, secret_length) };
        Some(1)
    }

    fn decapsulate(
        context: *mut c_void,
        secret: *mut c_uchar,
        length: *mut usize,
        ciphertext: *const c_uchar,
        bytes: usize,
    ) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow::<Context>(context) }?;
        let shared_bytes = context.key.as_ref()?.mechanism().shared_bytes();
        // SAFETY: null, or where the core has the length and waits for it.
        let length = unsafe { length.as_mut() };
        if secret.is_null() {
            *length? = shared_bytes;
            return Some(1);
        }
        let mut untold = shared_bytes;
        let length = length.unwrap_or(&mut untold);
        if *length < shared_bytes {
            context.raise(core::PROV_R_OUTPUT_BUFFER_TOO_SMALL);
            return None;
        }
        // SAFETY: the core's ciphertext.
        let made = context.decapsulate(unsafe { input(ciphertext, bytes) })?;
        // SAFETY: there is room for it, and the core waits for the length.
        unsafe { output(&made.0, secret, length) };
        Some(1)
    }

    fn set_ctx_params(context: *mut c_void, params: *const OsslParam) -> c_int {
        // SAFETY: the core passes a context of ours.
        let context = unsafe { borrow_mut::<Context>(context) }?;
        // SAFETY: the core's parameters.
        unsafe { context.set(params) }
    }

    fn settable_ctx_params(_context: *mut c_void, _provctx: *mut c_void) -> *const OsslParam {
        Some(SETTABLE.as_ptr())
    }

    fn settable_of_hybrid(_context: *mut c_void, _provctx: *mut c_void) -> *const OsslParam {
        Some(SETTABLE[1..].as_ptr())
    }
}

static SETTABLE: [OsslParam; 2] =
    [params::gettable(core::KEM_PARAM_IKME, PARAM_OCTET_STRING), OsslParam::END];
