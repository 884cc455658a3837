//! What the fuzz targets of parameters do with any bytes; `tests/fuzzed.rs` does it without a
//! fuzzer.
//!
//! Every call is made twice, of our provider and of the default one: both must answer the same.
#![allow(unsafe_code, reason = "calls libcrypto as programs do")]

mod evp;
#[path = "../ffi/mod.rs"]
pub mod ffi;
mod kems;
mod keys;
mod operations;
mod params;

use std::ffi::{CStr, c_int, c_void};
use std::fmt::Debug;
use std::ptr;
use std::sync::Once;

// It is linked.
use widelane as _;
use widelane_ossl_sys::core::{OsslCoreHandle, OsslDispatch};

use params::Source;

pub use kems::kem_parameters;
pub use keys::key_parameters;
pub use operations::operation_parameters;

unsafe extern "C" {
    fn OSSL_provider_init(
        handle: *const OsslCoreHandle,
        upcalls: *const OsslDispatch,
        functions: *mut *const OsslDispatch,
        context: *mut *mut c_void,
    ) -> c_int;
}

/// Whose algorithms a call uses: digests are the default provider's anyhow.
const PROVIDERS: [&CStr; 2] = [c"?provider=widelane", c"provider=default"];

/// Whether libcrypto is of a series or of a later one.
fn is_since(major: i64, minor: i64) -> bool {
    openssl::version::number() >= major << 28 | minor << 20
}

/// What one of both providers answered, call by call.
#[derive(Default)]
struct Said(Vec<(&'static str, String)>);

impl Said {
    fn note(&mut self, call: &'static str, answer: impl Debug) {
        self.0.push((call, format!("{answer:?}")));
    }
}

/// Makes the same calls of both providers, and demands the same answers.
fn compare(bytes: &[u8], calls: impl Fn(&mut Source<'_>, &CStr, &mut Said)) {
    compare_of(PROVIDERS, bytes, calls);
}

/// The same for two queries.
fn compare_of(
    queries: [&CStr; 2],
    bytes: &[u8],
    calls: impl Fn(&mut Source<'_>, &CStr, &mut Said),
) {
    load();
    let [(ours, made), (theirs, _)] = queries.map(|query| {
        let (mut source, mut said) = (Source::new(bytes), Said::default());
        calls(&mut source, query, &mut said);
        // SAFETY: no arguments.
        unsafe { ffi::ERR_clear_error() };
        (said.0, source.made)
    });
    assert_eq!(ours, theirs, "{made:?}");
}

/// Loads both providers: ours as it is linked, so that a fuzzer sees it.
fn load() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        let (name, init) = (c"widelane", OSSL_provider_init);
        // SAFETY: the default library context, a C string, and the function of a provider.
        let added = unsafe { ffi::OSSL_PROVIDER_add_builtin(ptr::null_mut(), name.as_ptr(), init) };
        assert_eq!(added, 1);
        for name in [c"default", name] {
            // SAFETY: the default library context, and a C string.
            let provider = unsafe { ffi::OSSL_PROVIDER_load(ptr::null_mut(), name.as_ptr()) };
            assert!(!provider.is_null(), "{name:?} loads");
        }
    });
}
