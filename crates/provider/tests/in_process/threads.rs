//! Threads that end at inconvenient times.
#![allow(unsafe_code, reason = "library contexts, and threads that are cancelled")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Barrier;
use std::thread;

use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;

use crate::common::ffi;
use crate::common::process::{in_child, setting, with_own_provider};
use crate::pkey::Key;

/// As the manual of `OSSL_LIB_CTX_free` has it, the thread is stopped for the program's library
/// context; it does not know of ours.
#[test]
fn threads_may_end_after_the_library_context_that_they_used() {
    let (place, _lock) = setting();
    let moments = [(); 2].map(|()| Barrier::new(2));
    thread::scope(|scope| {
        with_own_provider(place, || {
            // SAFETY: null asks for that of this thread.
            let context = unsafe { ffi::OSSL_LIB_CTX_set0_default(ptr::null_mut()) } as usize;
            let moments = &moments;
            scope.spawn(move || {
                let context = context as *mut c_void;
                // SAFETY: it lives until `moments[0]`.
                let before = unsafe { ffi::OSSL_LIB_CTX_set0_default(context) };
                drop(Key::make(c"EC", c"P-256", true).expect("a key"));
                // SAFETY: the one that was this thread's.
                unsafe { ffi::OSSL_LIB_CTX_set0_default(before) };
                // SAFETY: as above.
                unsafe { ffi::OPENSSL_thread_stop_ex(context) };
                moments.iter().for_each(|moment| _ = moment.wait());
            });
            moments[0].wait();
        });
        moments[1].wait();
    });
}

unsafe extern "C" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}

unsafe extern "C-unwind" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn pthread_testcancel();
}

const PTHREAD_CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

struct Signing {
    key: PKey<Private>,
    is_done: bool,
}

/// A thread that signs after it was cancelled. Nothing in it has a destructor when it ends.
extern "C-unwind" fn sign(signing: *mut c_void) -> *mut c_void {
    // SAFETY: no precondition.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: this thread, which is alive.
    unsafe { pthread_cancel(thread) };
    // SAFETY: the test waits for this thread.
    let signing = unsafe { &mut *signing.cast::<Signing>() };
    signing.is_done = Signer::new(MessageDigest::sha256(), &signing.key)
        .and_then(|mut signer| signer.sign_oneshot_to_vec(b"message"))
        .is_ok();
    // SAFETY: the thread ends here.
    unsafe { pthread_testcancel() };
    ptr::null_mut()
}

/// Its first operation is the one that opens the counters of a process.
#[test]
fn a_cancelled_thread_signs_first_and_ends_alone() {
    let (_place, _lock) = setting();
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut signing = Signing { key, is_done: false };
    let status = in_child(|| {
        let (mut thread, mut answer) = (0, ptr::null_mut());
        let argument = ptr::from_mut(&mut signing).cast();
        // SAFETY: what the thread uses stays until it has ended.
        assert_eq!(unsafe { pthread_create(&mut thread, ptr::null(), sign, argument) }, 0);
        // SAFETY: made above, waited for once.
        assert_eq!(unsafe { libc::pthread_join(thread, &mut answer) }, 0);
        assert!(signing.is_done && answer == PTHREAD_CANCELED);
    });
    assert_eq!(status, 0);
}
