//! Algorithms that a thread has looked up by name, kept for its next handshakes and contexts.
//!
//! libcrypto finds an algorithm under several locks, each an atomic write to a cache line that all
//! threads share. What it finds depends on the name, the properties, the library context, and on
//! which providers and default properties that context has at the moment. So a thread keeps what it
//! found for the process's default context without further properties, until anything changes what
//! providers or properties there are, in whichever thread ([`forget`]). Only algorithms of the
//! default provider and of our own are kept: others may offer something else each time they are
//! asked.
//!
//! Each algorithm kept is one reference, as libcrypto's own caches have them; a provider that is
//! unloaded ends when every thread has noticed.
#![allow(unsafe_code, reason = "names as C strings")]

use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CString;

use crate::activate::PROVIDER_NAME;
use crate::certificates::Certificates;
use crate::event_loop::on_fibre;
use crate::interpose::end::ends_with_process;
use crate::provider::{is_switched_off, provider};
use crate::random::Drawn;
use crate::real::{self, OpenSsl};

/// Algorithms that a thread keeps; a handshake needs some twenty, a new context some seventy.
const KEPT_MAX: usize = 128;

/// Providers that always offer the same, each with the properties that only its algorithms have.
const KEPT_PROVIDERS: [(&CStr, &CStr); 2] =
    [(c"default", c"provider=default"), (PROVIDER_NAME, c"provider=widelane")];

/// Grows with every change of providers or properties.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static METHODS: RefCell<Methods> = const { RefCell::new(Methods::EMPTY) };
    /// Whether the thread is in a function of libssl that it called on its own stack.
    static IS_IN_LIBSSL: Cell<bool> = const { Cell::new(false) };
    /// Whether all that it does counts as that.
    static KEEPS_FOR_PROGRAM: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of libssl, whose look-ups are answered from what the thread keeps, as all are
/// on a handshake's fibre.
///
/// A thread that is cancelled in there, or a callback that throws, leaves no destructor behind: the
/// thread is in libssl then until [`begin_turn`].
pub(crate) fn within_libssl<T>(f: impl FnOnce() -> T) -> T {
    // A fibre may be left in the middle of the call.
    if provider().is_none() || is_on_fibre() {
        return f();
    }
    let before = IS_IN_LIBSSL.replace(true);
    let result = f();
    IS_IN_LIBSSL.set(before);
    result
}

/// The thread waits for events: it is in no function of libssl, but for one whose callback waits.
pub(crate) fn begin_turn() {
    IS_IN_LIBSSL.set(KEEPS_FOR_PROGRAM.get());
}

/// Has all look-ups of the calling thread answered like that, those of its program included: nginx
/// does the packets of QUIC itself, and derives each of their keys by what it looks up anew.
pub(crate) fn keep_for_program() {
    KEEPS_FOR_PROGRAM.set(true);
    IS_IN_LIBSSL.set(true);
}

/// What libcrypto asks itself whenever it makes random bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Random {
    /// The method behind `RAND_bytes`.
    Method,
    /// The thread's generator of what becomes public.
    Public,
    /// The thread's generator of secrets.
    Private,
}

/// libcrypto's functions for the algorithms of one operation.
struct Functions {
    free: extern "C" fn(*mut c_void),
    provider: extern "C" fn(*const c_void) -> *const c_void,
    up_ref: extern "C" fn(*mut c_void) -> c_int,
}

macro_rules! operations {
    ($($operation:ident: $free:ident, $provider:ident, $up_ref:ident;)*) => {
        /// What an algorithm does: each kind is looked up by a function of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($operation,)*
        }

        impl Operation {
            fn functions(self, openssl: &OpenSsl) -> Functions {
                let (free, provider, up_ref) = match self {
                    $(Self::$operation => (openssl.$free, openssl.$provider, openssl.$up_ref),)*
                };
                Functions { free, provider, up_ref }
            }
        }
    };
}

operations! {
    AsymCipher: EVP_ASYM_CIPHER_free, EVP_ASYM_CIPHER_get0_provider, EVP_ASYM_CIPHER_up_ref;
    Cipher: EVP_CIPHER_free, EVP_CIPHER_get0_provider, EVP_CIPHER_up_ref;
    Digest: EVP_MD_free, EVP_MD_get0_provider, EVP_MD_up_ref;
    Kdf: EVP_KDF_free, EVP_KDF_get0_provider, EVP_KDF_up_ref;
    Kem: EVP_KEM_free, EVP_KEM_get0_provider, EVP_KEM_up_ref;
    KeyExchange: EVP_KEYEXCH_free, EVP_KEYEXCH_get0_provider, EVP_KEYEXCH_up_ref;
    KeyManagement: EVP_KEYMGMT_free, EVP_KEYMGMT_get0_provider, EVP_KEYMGMT_up_ref;
    Mac: EVP_MAC_free, EVP_MAC_get0_provider, EVP_MAC_up_ref;
    Signature: EVP_SIGNATURE_free, EVP_SIGNATURE_get0_provider, EVP_SIGNATURE_up_ref;
}

/// The algorithm of this name, with a reference for the caller, if it may be kept: as it was found
/// before, or as `fetch` finds it now.
pub(crate) fn fetch(
    operation: Operation,
    context: *mut c_void,
    name: *const c_char,
    properties: *const c_char,
    fetch: impl FnOnce() -> *mut c_void,
) -> Option<*mut c_void> {
    let name = name_alone(name, properties)?;
    let before = changes();
    let known = with_methods(context, |methods| methods.find(operation, name))?;
    let openssl = real::openssl()?;
    let functions = operation.functions(openssl);
    if let Some(known) = known {
        return ((functions.up_ref)(known) == 1).then_some(known);
    }
    let found = fetch();
    if !found.is_null() && is_to_be_kept(openssl, &functions, found) {
        with_methods(context, |methods| {
            let is_current = changes() == before;
            if is_current && methods.kept.len() < KEPT_MAX && (functions.up_ref)(found) == 1 {
                methods.kept.push(Kept::new(operation, Some(name.to_owned()), found));
            }
        });
    }
    Some(found)
}

/// While the process is switched off, the default provider's own of what each handshake begins anew
/// and does not keep, so that it does not even pass through our provider. Keys and ciphers, which a
/// program keeps, are looked up as ever.
pub(crate) fn fetch_while_off(
    operation: Operation,
    context: *mut c_void,
    name: *const c_char,
    properties: *const c_char,
    fetch: impl FnOnce(*const c_char) -> *mut c_void,
) -> Option<*mut c_void> {
    let name = name_alone(name, properties)?;
    let is_passing = match operation {
        Operation::Kdf => true,
        Operation::KeyManagement => name == c"X25519",
        _ => false,
    };
    let openssl = (is_passing && is_in_libssl() && is_switched_off()).then(real::openssl)??;
    if !is_default(openssl, context) {
        return None;
    }
    let [(_, of_default), _] = KEPT_PROVIDERS;
    let found = openssl.quietly(|| fetch(of_default.as_ptr()));
    (!found.is_null()).then_some(found)
}

/// One of libcrypto's answers that stay the same for a thread: as it was before, or as `get` finds
/// it now for this context.
pub(crate) fn random(
    part: Random,
    context: *mut c_void,
    get: impl FnOnce() -> *const c_void,
) -> Option<*const c_void> {
    with_methods(context, |methods| {
        let place = &mut methods.random[part as usize];
        if place.is_null() {
            *place = get();
        }
        *place
    })
}

/// Fills `bytes`, which need not be secret, from what the thread has drawn before or draws now;
/// false where that is to be asked for as ever.
pub(crate) fn random_bytes(
    context: *mut c_void,
    bytes: &mut [u8],
    draw: impl FnOnce(&mut [u8]) -> bool,
) -> bool {
    let filled = with_methods(context, |methods| {
        let openssl = real::openssl()?;
        let method = &mut methods.random[Random::Method as usize];
        if method.is_null() {
            *method = real::RAND_get_rand_method();
        }
        // A method of the program's own is asked each time.
        if !ptr::eq(*method, (openssl.RAND_OpenSSL)()) {
            return None;
        }
        if methods.drawn.is_none() {
            methods.drawn = Drawn::nothing();
        }
        Some(methods.drawn.as_mut()?.fill(bytes, draw))
    });
    filled.flatten().unwrap_or(false)
}

/// Whether it is known that no engine has keys of this kind; asks `has_engine` the first time.
pub(crate) fn has_no_engine(name: &[u8], has_engine: impl FnOnce() -> bool) -> Option<bool> {
    with_methods(ptr::null_mut(), |methods| {
        if methods.without_engine.iter().any(|known| **known == *name) {
            return true;
        }
        let is_without = !has_engine();
        if is_without && methods.without_engine.len() < KEPT_MAX {
            methods.without_engine.push(name.into());
        }
        is_without
    })
}

/// Whether the key management has this name, as `ask` finds it the first time; nothing if it is
/// not kept, since its address could become another one's.
pub(crate) fn is_a(
    key_management: *const c_void,
    name: &CStr,
    ask: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let openssl = real::openssl()?;
    with_methods(ptr::null_mut(), |methods| {
        let kept = methods.key_management(openssl, key_management)?;
        if let Some((_, answer)) = kept.answers.iter().find(|(known, _)| **known == *name) {
            return Some(*answer);
        }
        let answer = ask();
        if kept.answers.len() < KEPT_MAX {
            kept.answers.push((name.to_owned(), answer));
        }
        Some(answer)
    })?
}

/// Names of one algorithm, as many as there are.
pub(crate) type Names = [*const c_char; NAMES_MAX];

/// Names of one algorithm that are kept; key managements have two to four.
const NAMES_MAX: usize = 8;

/// The names of a key management, as `all` hands them out the first time; nothing if it is not
/// kept.
///
/// They are libcrypto's own strings, which live as long as its library context.
pub(crate) fn names(
    key_management: *const c_void,
    all: impl FnOnce(NameCallback, *mut c_void) -> c_int,
) -> Option<Names> {
    let openssl = real::openssl()?;
    with_methods(ptr::null_mut(), |methods| {
        let kept = methods.key_management(openssl, key_management)?;
        if kept.names[0].is_null() {
            let mut found: Vec<*const c_char> = Vec::with_capacity(NAMES_MAX);
            let done = all(add_name, ptr::from_mut(&mut found).cast());
            if done != 1 || found.len() > NAMES_MAX {
                return None;
            }
            kept.names[..found.len()].copy_from_slice(&found);
        }
        Some(kept.names)
    })?
}

/// What libcrypto hands names to, with an argument of the caller's.
pub(crate) type NameCallback = extern "C" fn(*const c_char, *mut c_void);

extern "C" fn add_name(name: *const c_char, names: *mut c_void) {
    // SAFETY: the list that `names` handed out with this function.
    if let Some(names) = unsafe { names.cast::<Vec<*const c_char>>().as_mut() } {
        names.push(name);
    }
}

/// Calls `f` with what this thread keeps, within libssl and for the default context only: what a
/// program looks up itself is found as ever, unless [`keep_for_program`] says otherwise. Not while
/// the process is switched off.
fn with_methods<T>(context: *mut c_void, f: impl FnOnce(&mut Methods) -> T) -> Option<T> {
    let openssl = (is_in_libssl() || is_on_fibre()).then(real::openssl)??;
    if is_switched_off() {
        return None;
    }
    if !is_default(openssl, context) {
        return None;
    }
    let answer = METHODS.try_with(|methods| {
        let mut methods = methods.try_borrow_mut().ok()?;
        methods.refresh(openssl);
        Some(f(&mut methods))
    });
    answer.ok()?
}

/// The name by which something is looked up, if there are no properties beside it.
fn name_alone<'a>(name: *const c_char, properties: *const c_char) -> Option<&'a CStr> {
    // Libcrypto passes empty ones where it looks up what a program names by a constant.
    let is_alone = properties.is_null() || text(properties).is_empty();
    (is_alone && !name.is_null()).then(|| text(name))
}

/// Whether a context that is asked for, null for none, is the default one.
fn is_default(openssl: &OpenSsl, context: *mut c_void) -> bool {
    default_context(openssl).is_some_and(|default| context.is_null() || context == default)
}

/// The process's default context, if it is the calling thread's as well. Another one that a thread
/// has made its default may be freed unnoticed, and a new one get its address.
pub(crate) fn default_context(openssl: &OpenSsl) -> Option<*mut c_void> {
    // Without an argument it changes nothing.
    let of_thread = (openssl.OSSL_LIB_CTX_set0_default)(ptr::null_mut());
    (of_thread == (openssl.OSSL_LIB_CTX_get0_global_default)()).then_some(of_thread)
}

/// Calls `f` with the certificates that this thread keeps, within libssl and for the default
/// context only; not while the process is switched off.
pub(crate) fn with_certificates<T>(
    context: *mut c_void,
    f: impl FnOnce(&OpenSsl, &mut Certificates) -> T,
) -> Option<T> {
    let openssl = real::openssl()?;
    with_methods(context, |methods| f(openssl, &mut methods.certificates))
}

fn is_in_libssl() -> bool {
    IS_IN_LIBSSL.get()
}

fn is_on_fibre() -> bool {
    on_fibre(|_| ()).is_some()
}

/// Called whenever an algorithm's name may have come to mean another one.
pub(crate) fn forget() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// How often that was called. What libcrypto finds may be kept if this is still the same
/// afterwards: otherwise it may have been found before the change.
pub(crate) fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// Called when libcrypto frees what it has for the calling thread, its generators among them.
pub(crate) fn forget_generators() {
    // Error: the thread is ending, and what it kept is gone.
    let _ = METHODS.try_with(|methods| match methods.try_borrow_mut() {
        Ok(mut methods) => methods.forget_generators(),
        // Called from within a look-up: what is in use cannot be changed now, but is not used the
        // next time.
        Err(_) => forget(),
    });
}

/// Whether the algorithm's provider always offers the same.
fn is_to_be_kept(openssl: &OpenSsl, functions: &Functions, method: *mut c_void) -> bool {
    let provider = (functions.provider)(method);
    if provider.is_null() {
        return false;
    }
    let name = (openssl.OSSL_PROVIDER_get0_name)(provider);
    !name.is_null() && KEPT_PROVIDERS.iter().any(|(known, _)| *known == text(name))
}

/// The same key management, with a reference, if it is the default context's and may be kept.
///
/// One of another context may end with that context, although references to it exist.
fn find_in_default_context(
    openssl: &OpenSsl,
    key_management: *const c_void,
) -> Option<*mut c_void> {
    let provider = (openssl.EVP_KEYMGMT_get0_provider)(key_management);
    let name = (openssl.EVP_KEYMGMT_get0_name)(key_management);
    if provider.is_null() || name.is_null() {
        return None;
    }
    let provider = (openssl.OSSL_PROVIDER_get0_name)(provider);
    let is_theirs = |known: &&(&CStr, &CStr)| !provider.is_null() && known.0 == text(provider);
    let (_, properties) = KEPT_PROVIDERS.iter().find(is_theirs)?;
    let fetch = || real::EVP_KEYMGMT_fetch(ptr::null_mut(), name, properties.as_ptr());
    let found = openssl.quietly(fetch);
    if ptr::eq(found, key_management) {
        return Some(found);
    }
    (openssl.EVP_KEYMGMT_free)(found);
    None
}

fn text<'a>(string: *const c_char) -> &'a CStr {
    // SAFETY: not null; a C string of the caller's or of libcrypto's, which outlives the call.
    unsafe { CStr::from_ptr(string) }
}

/// What one thread keeps.
struct Methods {
    /// [`CHANGES`] when the first was kept.
    changes: u64,
    kept: Vec<Kept>,
    /// By [`Random`]; null if it was not asked for.
    random: [*const c_void; 3],
    /// Random bytes of its generator.
    drawn: Option<Drawn>,
    /// Kinds of keys that no engine has.
    without_engine: Vec<Box<[u8]>>,
    /// Addresses of key managements that are not to be kept.
    foreign: Vec<*const c_void>,
    certificates: Certificates,
}

/// An algorithm kept, with a reference.
struct Kept {
    operation: Operation,
    /// The name by which it is looked up; nothing if it was not looked up.
    name: Option<CString>,
    method: *mut c_void,
    /// Names that it was asked about, and the answers.
    answers: Vec<(CString, c_int)>,
    /// All of its names; null where there are no more, or where they have not been read.
    names: Names,
}

impl Kept {
    fn new(operation: Operation, name: Option<CString>, method: *mut c_void) -> Self {
        Self { operation, name, method, answers: Vec::new(), names: [ptr::null(); NAMES_MAX] }
    }
}

impl Methods {
    const EMPTY: Self = Self {
        changes: 0,
        kept: Vec::new(),
        random: [ptr::null(); 3],
        drawn: None,
        without_engine: Vec::new(),
        foreign: Vec::new(),
        certificates: Certificates::EMPTY,
    };

    /// Lets go of everything if anything has changed since it was kept.
    fn refresh(&mut self, openssl: &OpenSsl) {
        let changes = changes();
        if self.changes != changes {
            self.clear(openssl);
            self.changes = changes;
        }
    }

    /// The algorithm of this name, if it was kept.
    fn find(&mut self, operation: Operation, name: &CStr) -> Option<*mut c_void> {
        let is_it = |kept: &Kept| {
            kept.operation == operation && kept.name.as_deref().is_some_and(|known| known == name)
        };
        let place = self.kept.iter().position(is_it)?;
        let method = self.kept[place].method;
        // What handshakes ask for comes to the front, before what only new contexts do.
        self.kept.swap(place, place / 2);
        Some(method)
    }

    /// What is kept of the key management at this address. One that a key came with, such as a
    /// certificate's, is kept when it is first asked about.
    fn key_management(
        &mut self,
        openssl: &OpenSsl,
        key_management: *const c_void,
    ) -> Option<&mut Kept> {
        let is_it = |kept: &Kept| ptr::eq(kept.method, key_management);
        if let Some(place) = self.kept.iter().position(is_it) {
            return self.kept.get_mut(place);
        }
        if self.kept.len() == KEPT_MAX || self.foreign.contains(&key_management) {
            return None;
        }
        let Some(found) = find_in_default_context(openssl, key_management) else {
            if self.foreign.len() < KEPT_MAX {
                self.foreign.push(key_management);
            }
            return None;
        };
        self.kept.push(Kept::new(Operation::KeyManagement, None, found));
        self.kept.last_mut()
    }

    fn clear(&mut self, openssl: &OpenSsl) {
        for kept in self.kept.drain(..) {
            (kept.operation.functions(openssl).free)(kept.method);
        }
        self.forget_generators();
        self.without_engine.clear();
        self.foreign.clear();
        self.certificates.clear(openssl);
    }

    fn forget_generators(&mut self) {
        self.random = [ptr::null(); 3];
        self.drawn = None;
    }
}

impl Drop for Methods {
    fn drop(&mut self) {
        // Where the process ends, libcrypto frees what these belong to beside this thread.
        if let Some(openssl) = real::openssl().filter(|_| !ends_with_process()) {
            self.clear(openssl);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks up a digest twice: whether libcrypto was asked the first and the second time.
    fn is_asked_twice(meanwhile: impl Fn()) -> [bool; 2] {
        [(), ()].map(|()| {
            let mut is_asked = false;
            let (context, name, properties) = (ptr::null_mut(), c"SHA2-256".as_ptr(), ptr::null());
            let found = fetch(Operation::Digest, context, name, properties, || {
                is_asked = true;
                let found = real::EVP_MD_fetch(context, name, properties);
                meanwhile();
                found
            });
            let found = found.expect("the default context's");
            assert!(!found.is_null());
            (real::openssl().expect("OpenSSL").EVP_MD_free)(found);
            is_asked
        })
    }

    #[test]
    fn what_was_found_before_a_change_is_not_kept() {
        keep_for_program();
        assert_eq!(is_asked_twice(forget), [true; 2]);
        // Other tests may change something meanwhile.
        let is_kept = (0..100).any(|_| !is_asked_twice(|| ())[1]);
        assert!(is_kept);
    }
}
