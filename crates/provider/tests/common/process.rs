//! One process that has loaded the provider: what its tests share.

use std::env;
use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use widelane_host::counters::Counts;

use super::Place;
use super::ffi;

/// The process's provider and counters, and a lock: tests count, so they go one after the other.
static SETTING: LazyLock<(Place, Mutex<()>)> = LazyLock::new(|| {
    let place = Place::new();
    // SAFETY: no other thread of this test reads the environment yet: all wait for this value.
    unsafe { env::set_var("WIDELANE_COUNTERS_DIR", place.path("counters")) };
    for name in [c"default".to_owned(), CString::new(place.arg("widelane.so")).unwrap()] {
        // SAFETY: the default library context, and a C string.
        let provider = unsafe { ffi::OSSL_PROVIDER_load(ptr::null_mut(), name.as_ptr()) };
        assert!(!provider.is_null(), "{name:?} loads");
    }
    (place, Mutex::new(()))
});

/// The process's provider, which is preferred until the test says otherwise.
pub fn setting() -> (&'static Place, MutexGuard<'static, ()>) {
    let (place, lock) = &*SETTING;
    let lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
    prefer(c"?provider=widelane");
    (place, lock)
}

/// Says which provider this process prefers from now on.
pub fn prefer(query: &CStr) {
    // SAFETY: the default library context, and a C string.
    assert_eq!(unsafe { ffi::EVP_set_default_properties(ptr::null_mut(), query.as_ptr()) }, 1);
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
