//! The event-loop runtime of `widelane run`, where this process has it.
#![allow(unsafe_code, reason = "looks the runtime up and calls its hooks")]

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use widelane_bridge::counters::Counters;
use widelane_bridge::hooks::{
    ATTACH_SYMBOL, Attach, Extent, HOOKS_VERSION, ProviderHooks, RuntimeHooks, VARIABLE_SYMBOL,
    Variable,
};
use widelane_ossl_sys::core::SELECT_ALL;
use widelane_reserve::uncancelled;

use crate::batching::{combining, event_loop};
use crate::curve::params::Plain;
use crate::entry::hook;
use crate::kdf::kept;
use crate::params::Array;
use crate::process;
use crate::rsa::loaded;
use crate::switch;

/// A handshake of the runtime's, as it names it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handshake(NonNull<c_void>);

// SAFETY: only a name; never followed.
unsafe impl Send for Handshake {}
// SAFETY: as above.
unsafe impl Sync for Handshake {}

#[cfg(test)]
impl Handshake {
    /// One that the runtime does not have.
    pub(crate) fn nobody() -> Self {
        Handshake(NonNull::dangling())
    }
}

/// Finds the runtime, if it is there, and exchanges hooks with it.
pub(crate) fn attach() {
    RUNTIME.get_or_init(|| {
        // SAFETY: looks a name up.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, ATTACH_SYMBOL.as_ptr()) };
        if symbol.is_null() {
            return None;
        }
        // SAFETY: what has this name has this type.
        let attach = unsafe { transmute::<*mut c_void, Attach>(symbol) };
        // SAFETY: our table is a constant.
        let hooks = unsafe { attach(&PROVIDER_HOOKS) };
        // SAFETY: null, or the runtime's table, which stays.
        unsafe { hooks.as_ref() }.filter(|hooks| hooks.version == HOOKS_VERSION)
    });
}

/// What a variable of the environment was when the program started, where the runtime knows it: the
/// program may have cleared its environment since.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    // SAFETY: looks a name up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, VARIABLE_SYMBOL.as_ptr()) };
    let symbol = NonNull::new(symbol)?;
    // SAFETY: what has this name has this type.
    let variable = unsafe { transmute::<*mut c_void, Variable>(symbol.as_ptr()) };
    let name = CString::new(name).ok()?;
    // SAFETY: a C string.
    let value = NonNull::new(unsafe { variable(name.as_ptr()) }.cast_mut())?;
    // SAFETY: a C string of the runtime's, which stays.
    let value = unsafe { CStr::from_ptr(value.as_ptr()) };
    Some(OsStr::from_bytes(value.to_bytes()).to_owned())
}

/// The runtime's table, where there is one.
fn hooks() -> Option<&'static RuntimeHooks> {
    RUNTIME.get().copied().flatten()
}

/// The handshake that the runtime drives on this thread now, if it may park.
pub(crate) fn current() -> Option<Handshake> {
    NonNull::new((hooks()?.current)()).map(Handshake)
}

/// Leaves the fibre of the current handshake until the runtime resumes it, which may be before its
/// request is finished.
pub(crate) fn pause() {
    if let Some(hooks) = hooks() {
        (hooks.pause)();
    }
}

/// Whether a handshake may be made to wait for company, which it may once.
pub(crate) fn may_wait(handshake: Handshake) -> bool {
    hooks().is_some_and(|hooks| (hooks.may_wait)(handshake.0.as_ptr()))
}

/// The round-trip time of a handshake's connection, 0 where it is not known.
pub(crate) fn round_trip_ns(handshake: Handshake) -> u64 {
    hooks().map_or(0, |hooks| (hooks.round_trip_ns)(handshake.0.as_ptr()))
}

/// Notifies the runtime that the request of a handshake is finished.
pub(crate) fn completed(handshake: Handshake) {
    if let Some(hooks) = hooks() {
        (hooks.completed)(handshake.0.as_ptr());
    }
}

hook! {
    fn begin_thread(), otherwise (); {
        process::begin_thread();
    }

    fn before_threads(), otherwise (); {
        uncancelled(combining::before_threads);
    }

    fn fibre(is_begun: bool), otherwise (); {
        kept::fibre(is_begun);
    }

    fn full() -> bool, otherwise false; {
        event_loop::full()
    }

    fn execute(what: Extent), otherwise (); {
        event_loop::execute(what);
    }

    fn wait_ns(begins: bool) -> u64, otherwise 0; {
        event_loop::wait_ns(begins)
    }

    fn wake_descriptor() -> c_int, otherwise -1; {
        event_loop::wake_descriptor()
    }

    fn configures(), otherwise (); {
        process::configures();
    }

    fn wants_keys() -> bool, otherwise false; {
        loaded::is_imported_at_once()
    }

    fn cancel(handshake: *mut c_void), otherwise (); {
        if let Some(handshake) = NonNull::new(handshake) {
            event_loop::cancel(Handshake(handshake));
        }
    }

    fn keeps_key(parameters: *const c_void) -> bool, otherwise false; {
        // SAFETY: the runtime passes on what libcrypto gives it.
        let parameters = unsafe { Array::new(parameters.cast()) };
        Plain::read(SELECT_ALL, parameters).is_some_and(|key| key.is_batched())
    }

    fn is_off() -> bool, otherwise false; {
        switch::is_off()
    }

    fn counters() -> *const Counters, otherwise ptr::null(); {
        ptr::from_ref(process::current().counters_of_handshake())
    }
}

static RUNTIME: OnceLock<Option<&'static RuntimeHooks>> = OnceLock::new();

static PROVIDER_HOOKS: ProviderHooks = ProviderHooks {
    version: HOOKS_VERSION,
    begin_thread,
    before_threads,
    fibre,
    full,
    execute,
    wait_ns,
    wake_descriptor,
    configures,
    wants_keys,
    cancel,
    keeps_key,
    is_off,
    counters,
};
