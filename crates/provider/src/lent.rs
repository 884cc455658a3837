//! Digests and ciphers that other providers of the program have and the default provider lacks:
//! those providers are lent to our library context, where the default provider finds them.
//!
//! A provider is lent by a second one of the same name, which has its context and its algorithms.
#![allow(unsafe_code, reason = "calls libcrypto")]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core::{
    self, EvpCipher, EvpMd, OsslAlgorithm, OsslCoreHandle, OsslDispatch, OsslLibCtx, OsslProvider,
};
use widelane_ossl_sys::dispatch::ProviderFunctions;

use crate::entry::entry;
use crate::errors::quietly;
use crate::stack::on_large;

/// The providers of the program that are lent to our library context.
#[derive(Default)]
pub(crate) struct Lent {
    core: Option<Core>,
    /// A child of the program's library context, which has the same providers at any time; made
    /// when something is first looked for in it, and null until then.
    child: AtomicPtr<OsslLibCtx>,
    loans: Mutex<Vec<Loan>>,
}

/// What libcrypto handed us when it loaded us, and keeps as long as we are loaded.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    pub(crate) handle: *const OsslCoreHandle,
    pub(crate) upcalls: *const OsslDispatch,
}

/// A provider that is or was lent.
struct Loan {
    /// One of its algorithms, which keeps the provider there for as long as ours may be in use.
    algorithm: Algorithm,
    /// The second provider; null if the loan was withdrawn.
    second: *mut OsslProvider,
}

/// An algorithm, asked for by its name and a property query.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// A digest.
    Digest(&'a CStr, Option<&'a CStr>),
    /// A cipher.
    Cipher(&'a CStr),
}

/// An algorithm that was found; given back by [`Algorithm::free`].
enum Algorithm {
    Digest(*mut EvpMd),
    Cipher(*mut EvpCipher),
}

impl Lent {
    /// Providers of the library context that `core` belongs to.
    pub(crate) fn of(core: Core) -> Self {
        Lent { core: Some(core), ..Lent::default() }
    }

    /// Sees to it that `context` has an algorithm if the program's library context has it, and that
    /// what the program has unloaded is lent no more.
    pub(crate) fn expect(&self, libcrypto: &Libcrypto, context: *mut OsslLibCtx, wanted: Wanted) {
        let here = Algorithm::fetch(libcrypto, context, wanted);
        let is_lent = |algorithm: &Algorithm| {
            let provider = algorithm.provider(libcrypto);
            self.loans().iter().any(|loan| ptr::eq(loan.second, provider))
        };
        if here.as_ref().is_none_or(is_lent) {
            // The caller may be on the small stack of an ASYNC job.
            on_large(|| self.search(libcrypto, context, wanted, here.as_ref()));
        }
        if let Some(algorithm) = here {
            algorithm.free(libcrypto);
        }
    }

    /// Looks into the program's library context for an algorithm that is lent or is not here.
    fn search(
        &self,
        libcrypto: &Libcrypto,
        context: *mut OsslLibCtx,
        wanted: Wanted,
        lent: Option<&Algorithm>,
    ) {
        let Some(child) = self.child(libcrypto) else { return };
        match (Algorithm::fetch(libcrypto, child, wanted), lent) {
            (Some(theirs), None) => self.lend(libcrypto, context, theirs),
            (Some(theirs), Some(_)) => theirs.free(libcrypto),
            (None, Some(lent)) => {
                let provider = lent.provider(libcrypto);
                self.withdraw(libcrypto, |second| ptr::eq(second, provider));
            }
            (None, None) => {}
        }
    }

    /// Lends the provider of an algorithm.
    fn lend(&self, libcrypto: &Libcrypto, context: *mut OsslLibCtx, algorithm: Algorithm) {
        let provider = algorithm.provider(libcrypto);
        let mut loans = self.loans();
        let known = loans.iter().position(|loan| loan.algorithm.provider(libcrypto) == provider);
        // SAFETY: the algorithm keeps its provider.
        let name = unsafe { (libcrypto.OSSL_PROVIDER_get0_name)(provider) };
        let loan = if let Some(index) = known {
            algorithm.free(libcrypto);
            &mut loans[index]
        } else {
            // SAFETY: the context is ours, the name a C string.
            if unsafe { (libcrypto.OSSL_PROVIDER_add_builtin)(context, name, Some(begin)) } <= 0 {
                // For want of memory, say: the next look-up tries again.
                return algorithm.free(libcrypto);
            }
            lenders().push(Lender::new(libcrypto, provider));
            loans.push(Loan { algorithm, second: ptr::null_mut() });
            loans.last_mut().expect("pushed above")
        };
        // Another thread may have lent it just now.
        if loan.second.is_null() {
            NEXT.set(Lender::new(libcrypto, provider).provctx);
            // SAFETY: as above.
            loan.second = unsafe { (libcrypto.OSSL_PROVIDER_load)(context, name) };
        }
    }

    /// Withdraws the loans whose second provider is meant.
    fn withdraw(&self, libcrypto: &Libcrypto, is_meant: impl Fn(*const OsslProvider) -> bool) {
        for loan in self.loans().iter_mut() {
            if !loan.second.is_null() && is_meant(loan.second) {
                // SAFETY: loaded by `lend`, unloaded once.
                unsafe { (libcrypto.OSSL_PROVIDER_unload)(loan.second) };
                loan.second = ptr::null_mut();
            }
        }
    }

    /// Withdraws all loans and gives back what was lent; how many there were.
    pub(crate) fn free(&mut self, libcrypto: &Libcrypto) -> usize {
        self.withdraw(libcrypto, |_| true);
        let loans = std::mem::take(&mut *self.loans());
        for loan in &loans {
            let provider = loan.algorithm.provider(libcrypto);
            lenders().retain(|lender| !ptr::eq(lender.provider, provider));
            loan.algorithm.free(libcrypto);
        }
        let child = std::mem::replace(self.child.get_mut(), ptr::null_mut());
        // SAFETY: null, or made by `child` and freed once, after what we had of it.
        unsafe { (libcrypto.OSSL_LIB_CTX_free)(child) };
        loans.len()
    }

    fn child(&self, libcrypto: &Libcrypto) -> Option<*mut OsslLibCtx> {
        let made = self.child.load(Ordering::Acquire);
        if !made.is_null() {
            return Some(made);
        }
        let Core { handle, upcalls } = self.core?;
        // SAFETY: libcrypto passed both to `OSSL_provider_init` of this provider.
        let made = unsafe { (libcrypto.OSSL_LIB_CTX_new_child)(handle, upcalls) };
        let (none, order) = (ptr::null_mut(), Ordering::AcqRel);
        match self.child.compare_exchange(none, made, order, Ordering::Acquire) {
            Ok(_) => (!made.is_null()).then_some(made),
            Err(earlier) => {
                // SAFETY: null, or made above, and nobody else has it.
                unsafe { (libcrypto.OSSL_LIB_CTX_free)(made) };
                Some(earlier)
            }
        }
    }

    fn loans(&self) -> MutexGuard<'_, Vec<Loan>> {
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Algorithm {
    /// Finds an algorithm; leaves no error behind where there is none.
    fn fetch(libcrypto: &Libcrypto, context: *mut OsslLibCtx, wanted: Wanted) -> Option<Self> {
        quietly(libcrypto, || match wanted {
            Wanted::Digest(name, query) => {
                let query = query.map_or(ptr::null(), CStr::as_ptr);
                // SAFETY: a library context of ours, and C strings.
                let found = unsafe { (libcrypto.EVP_MD_fetch)(context, name.as_ptr(), query) };
                (!found.is_null()).then_some(Algorithm::Digest(found))
            }
            Wanted::Cipher(name) => {
                let fetch = libcrypto.EVP_CIPHER_fetch;
                // SAFETY: as above.
                let found = unsafe { fetch(context, name.as_ptr(), ptr::null()) };
                (!found.is_null()).then_some(Algorithm::Cipher(found))
            }
        })
    }

    /// The provider that it belongs to.
    fn provider(&self, libcrypto: &Libcrypto) -> *const OsslProvider {
        match *self {
            // SAFETY: fetched and not given back yet.
            Algorithm::Digest(digest) => unsafe { (libcrypto.EVP_MD_get0_provider)(digest) },
            // SAFETY: as above.
            Algorithm::Cipher(cipher) => unsafe { (libcrypto.EVP_CIPHER_get0_provider)(cipher) },
        }
    }

    /// Gives it back; it must not be used afterwards.
    fn free(&self, libcrypto: &Libcrypto) {
        match *self {
            // SAFETY: fetched, and given back once.
            Algorithm::Digest(digest) => unsafe { (libcrypto.EVP_MD_free)(digest) },
            // SAFETY: as above.
            Algorithm::Cipher(cipher) => unsafe { (libcrypto.EVP_CIPHER_free)(cipher) },
        }
    }
}

/// A provider of the program, as its second finds it.
#[derive(Clone, Copy)]
struct Lender {
    /// What its functions take for its own context: the core hands the second's to them.
    provctx: *mut c_void,
    provider: *const OsslProvider,
    query_operation: Query,
}

type Query = unsafe extern "C" fn(*const OsslProvider, c_int, *mut c_int) -> *const OsslAlgorithm;

// SAFETY: providers are made for use by many threads.
unsafe impl Send for Lender {}

impl Lender {
    fn new(libcrypto: &Libcrypto, provider: *const OsslProvider) -> Self {
        // SAFETY: an algorithm of the provider is held by the caller.
        let provctx = unsafe { (libcrypto.OSSL_PROVIDER_get0_provider_ctx)(provider) };
        let query_operation = libcrypto.OSSL_PROVIDER_query_operation;
        Lender { provctx, provider, query_operation }
    }
}

/// All providers that are or were lent, in any library context.
fn lenders() -> MutexGuard<'static, Vec<Lender>> {
    static LENDERS: Mutex<Vec<Lender>> = Mutex::new(Vec::new());
    LENDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The context of the provider whose second this thread loads.
    static NEXT: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

entry! {
    /// Begins a second provider.
    fn begin(
        _handle: *const OsslCoreHandle,
        _upcalls: *const OsslDispatch,
        functions: *mut *const OsslDispatch,
        provctx: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: the core waits for the answer here.
        unsafe { functions.write(FUNCTIONS.as_ptr()) };
        // SAFETY: as above.
        unsafe { provctx.write(NEXT.get()) };
        Some(1)
    }

    fn query_operation(
        provctx: *mut c_void,
        operation: c_int,
        no_cache: *mut c_int,
    ) -> *const OsslAlgorithm {
        if !matches!(operation, core::OP_DIGEST | core::OP_CIPHER) {
            return None;
        }
        let lender = lenders().iter().copied().find(|lender| lender.provctx == provctx)?;
        // SAFETY: a loan keeps the provider; the rest is the core's.
        Some(unsafe { (lender.query_operation)(lender.provider, operation, no_cache) })
    }
}

/// The functions of a second provider.
static FUNCTIONS: LazyLock<Box<[OsslDispatch]>> = LazyLock::new(|| {
    ProviderFunctions { query_operation: Some(query_operation), ..Default::default() }.write()
});
