//! `OSSL_provider_init`, by which libcrypto starts `widelane.so`, and what may come before.
#![allow(unsafe_code, reason = "exports a C symbol and reads the core's tables")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use widelane_ossl_sys::Libcrypto;
use widelane_ossl_sys::core::{OsslCoreHandle, OsslDispatch};

use crate::config::config;
use crate::delegate::Delegate;
use crate::entry::{entry, lend};
use crate::errors::{raise_text, say, share};
use crate::instance::Instance;
use crate::lent::Core;
use crate::stack::on_large;
use crate::{process, runtime};

entry! {
    /// Called by libcrypto when it loads the provider.
    #[unsafe(no_mangle)]
    pub fn OSSL_provider_init(
        handle: *const OsslCoreHandle,
        upcalls: *const OsslDispatch,
        functions: *mut *const OsslDispatch,
        provctx: *mut *mut c_void,
    ) -> c_int {
        let upcall = first(upcalls)?;
        let libcrypto = match Libcrypto::of_caller(upcall) {
            Ok(libcrypto) => libcrypto,
            Err(error) => {
                // Without libcrypto there is no error queue to put this on.
                say(&error.to_string());
                return None;
            }
        };
        let instance = on_large(|| begin(libcrypto, Core { handle, upcalls })).or_else(|| {
            raise_text(&libcrypto, "no memory for a stack");
            None
        })?;
        let instance = instance.inspect_err(|error| raise_text(&libcrypto, error)).ok()?;
        // SAFETY: the core waits for the answer here.
        unsafe { functions.write(instance.functions()) };
        // SAFETY: as above.
        unsafe { provctx.write(lend(instance)) };
        Some(1)
    }
}

entry! {
    /// Called by the runtime where the program is about to enter another root directory; see
    /// `widelane_bridge::hooks`.
    #[unsafe(no_mangle)]
    pub fn widelane_provider_prepare() -> c_int {
        config();
        share();
        process::watch_forks();
        process::current().pages();
        Some(1)
    }
}

/// Makes all that a loaded provider has.
///
/// # Errors
/// A text that says what is missing.
fn begin(libcrypto: Libcrypto, core: Core) -> Result<Arc<Instance>, String> {
    let delegate = Delegate::load(libcrypto)?.with_core(core);
    config();
    share();
    process::watch_forks();
    process::begin_thread();
    runtime::attach();
    Ok(Instance::new(delegate))
}

/// Any function of the core: all are in libcrypto.
fn first(upcalls: *const OsslDispatch) -> Option<unsafe extern "C" fn()> {
    // SAFETY: null, or the core's table, which has at least an end.
    unsafe { upcalls.as_ref() }?.function
}
