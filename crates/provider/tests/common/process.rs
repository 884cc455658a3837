//! One process that has loaded the provider: what its tests share.

use std::env;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use widelane_host::counters::Counts;

use super::Place;
use super::ffi;

/// The process's provider and counters, and a lock: tests count, so they go one after the other.
static SETTING: LazyLock<(Place, Mutex<()>)> = LazyLock::new(|| {
    let place = counted();
    load(ptr::null_mut(), &place);
    (place, Mutex::new(()))
});

/// A place in whose counters this process will count, once it has loaded the provider.
pub fn counted() -> Place {
    let place = Place::new();
    // SAFETY: no other thread of this test reads the environment yet: all wait for this value.
    unsafe { env::set_var("WIDELANE_COUNTERS_DIR", place.path("counters")) };
    place
}

fn load(context: *mut c_void, place: &Place) -> [*mut c_void; 2] {
    [c"default".to_owned(), CString::new(place.arg("widelane.so")).unwrap()].map(|name| {
        // SAFETY: a library context, and a C string.
        let provider = unsafe { ffi::OSSL_PROVIDER_load(context, name.as_ptr()) };
        assert!(!provider.is_null(), "{name:?} loads");
        provider
    })
}

/// Has `body` work with a provider that is loaded for it and unloaded behind it, and of which it
/// keeps no objects.
pub fn with_own_provider(place: &Place, body: impl FnOnce()) {
    // SAFETY: no arguments.
    let context = unsafe { ffi::OSSL_LIB_CTX_new() };
    let providers = load(context, place);
    prefer_in(context, c"?provider=widelane");
    // SAFETY: made above.
    let before = unsafe { ffi::OSSL_LIB_CTX_set0_default(context) };
    body();
    // SAFETY: the context that was this thread's.
    unsafe { ffi::OSSL_LIB_CTX_set0_default(before) };
    for provider in providers {
        // SAFETY: loaded once.
        assert_eq!(unsafe { ffi::OSSL_PROVIDER_unload(provider) }, 1);
    }
    // SAFETY: nothing of it is left.
    unsafe { ffi::OSSL_LIB_CTX_free(context) };
}

/// The process's provider, which is preferred until the test says otherwise.
pub fn setting() -> (&'static Place, MutexGuard<'static, ()>) {
    let (place, lock) = &*SETTING;
    let lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
    prefer(c"?provider=widelane");
    (place, lock)
}

/// Says which provider this process prefers from now on.
pub fn prefer(query: &CStr) {
    prefer_in(ptr::null_mut(), query);
}

fn prefer_in(context: *mut c_void, query: &CStr) {
    // SAFETY: a library context, and a C string.
    assert_eq!(unsafe { ffi::EVP_set_default_properties(context, query.as_ptr()) }, 1);
}

/// How much a counter of this process has grown since `before`.
pub fn grown(place: &Place, before: u64, counter: fn(&Counts) -> u64) -> u64 {
    place.sum(counter) - before
}

/// Runs `body` in a forked child; answers the child's status.
pub fn in_child(body: impl FnOnce()) -> c_int {
    Child::fork(body).wait()
}

/// A forked child on its way.
pub struct Child(libc::pid_t);

impl Child {
    /// A child that runs `body` and ends.
    pub fn fork(body: impl FnOnce()) -> Self {
        // SAFETY: the child does what libcrypto and the allocator of glibc allow after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the child without the handlers of its parent.
            unsafe { libc::_exit(c_int::from(result.is_err())) };
        }
        assert!(child > 0, "the system has room for a process");
        Child(child)
    }

    /// Its status, once it has ended.
    pub fn wait(self) -> c_int {
        let mut status = -1;
        // SAFETY: our own child, waited for once.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        status
    }
}
