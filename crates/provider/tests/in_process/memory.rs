//! A time without memory is over when it is over: no key keeps a failure.
#![allow(unsafe_code, reason = "calls libcrypto, and allocates for it")]

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use foreign_types::ForeignType;
use openssl::ec::{Asn1Flag, EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::md_ctx::MdCtx;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use widelane_bridge::counters::OperationKind;
use widelane_testkit::program::assert_ran_one;
use widelane_testkit::rooms::has_lanes;

use crate::common::ffi;
use crate::common::process::{in_child, setting};
use crate::common::{Place, done};

unsafe extern "C" {
    fn CRYPTO_set_mem_functions(
        allocate: unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void,
        resize: unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void, *const c_char, c_int),
    ) -> c_int;
}

/// libcrypto takes its allocator before it has allocated anything: in a process of its own.
#[test]
fn what_fails_without_memory_is_tried_again() {
    let mut command = Command::new(env::current_exe().expect("this program"));
    let said = done(command.args(["--ignored", "--exact", "--nocapture", "memory::scenario"]));
    assert_ran_one(said.as_bytes());
}

#[test]
#[ignore = "runs by itself"]
fn scenario() {
    // SAFETY: functions that do what libcrypto asks of them.
    let set = unsafe { CRYPTO_set_mem_functions(allocate, resize, free) };
    assert_eq!(set, 1, "nothing is allocated yet");
    let (place, _lock) = setting();
    let [[rsa, ec, ed25519], others] = [(); 2].map(|()| keys());
    for (key, digest) in others.iter().zip([Some(c"SHA256"), Some(c"SHA256"), None]) {
        // If libcrypto cannot fetch an algorithm of ours, it stays with another provider's.
        assert!(sign(key, digest).is_some());
    }
    for (key, digest, kind) in [
        (&rsa, Some(c"SHA256"), OperationKind::Rsa2048),
        (&ec, Some(c"SHA256"), OperationKind::P256Sign),
        (&ed25519, None, OperationKind::Ed25519Sign),
    ] {
        // Each child fails a little later than the one before.
        let mut failed = 0;
        while fails_and_recovers(place, failed, key, digest, kind) {
            failed += 1;
        }
        assert!(failed > 10, "{kind:?}: libcrypto allocates");
    }
}

/// Keys of which ours are made of the default provider's.
fn keys() -> [PKey<Private>; 3] {
    let mut group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    // A curve that is given by its name makes a key of ours at once.
    group.set_asn1_flag(Asn1Flag::EXPLICIT_CURVE);
    [
        PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap(),
        PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap(),
        PKey::generate_ed25519().unwrap(),
    ]
}

/// Has a child without memory from a number of allocations on sign, and then again with memory, by
/// us. Answers whether there was an allocation that failed.
fn fails_and_recovers(
    place: &Place,
    allocations: u64,
    key: &PKey<Private>,
    digest: Option<&CStr>,
    kind: OperationKind,
) -> bool {
    place.forget_counters();
    let status = in_child(|| {
        LEFT.store(allocations, Ordering::Relaxed);
        drop(sign(key, digest));
        let left = LEFT.swap(UNLIMITED, Ordering::Relaxed);
        drop(ErrorStack::get());
        assert!(sign(key, digest).is_some(), "there is memory: {:?}", ErrorStack::get());
        if has_lanes() {
            let done = place.sum(|counters| {
                let of_kind = &counters.by_kind[kind as usize];
                of_kind.batched + of_kind.single + of_kind.synchronous
            });
            assert!(done > 0, "{kind:?} is done by us");
        }
        if left > 0 {
            // SAFETY: ends the child without the handlers of its parent.
            unsafe { libc::_exit(ALL_SUCCEEDED) };
        }
    });
    assert!(libc::WIFEXITED(status));
    let ended = libc::WEXITSTATUS(status);
    assert!([0, ALL_SUCCEEDED].contains(&ended), "{kind:?}, {allocations} allocations: {ended}");
    ended == 0
}

/// Signs as a program does; nothing if any step fails.
fn sign(key: &PKey<Private>, digest: Option<&CStr>) -> Option<Vec<u8>> {
    let mut context = MdCtx::new().ok()?;
    let digest = digest.map_or(ptr::null(), CStr::as_ptr);
    let (operation, none) = (ptr::null_mut(), ptr::null());
    let (library, key) = (ptr::null_mut(), key.as_ptr().cast());
    let params = ptr::null();
    // SAFETY: context and key live, and the name is a C string.
    let begun = unsafe {
        let context = context.as_ptr().cast();
        ffi::EVP_DigestSignInit_ex(context, operation, digest, library, none, key, params)
    };
    let mut signature = vec![0; 512];
    let made = (begun == 1).then(|| context.digest_sign(b"message", Some(&mut signature)).ok())?;
    signature.truncate(made?);
    Some(signature)
}

/// How many allocations succeed from now on; not counted where that is [`UNLIMITED`].
static LEFT: AtomicU64 = AtomicU64::new(UNLIMITED);

const UNLIMITED: u64 = u64::MAX;

/// How a child ends that did not want for memory.
const ALL_SUCCEEDED: c_int = 2;

fn is_refused() -> bool {
    let less = |left| (left != UNLIMITED && left > 0).then(|| left - 1);
    LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Err(0)
}

unsafe extern "C" fn allocate(bytes: usize, _: *const c_char, _: c_int) -> *mut c_void {
    if bytes == 0 || is_refused() {
        return ptr::null_mut();
    }
    // SAFETY: as its manual says.
    unsafe { libc::malloc(bytes) }
}

unsafe extern "C" fn resize(
    memory: *mut c_void,
    bytes: usize,
    _: *const c_char,
    _: c_int,
) -> *mut c_void {
    if bytes > 0 && is_refused() {
        return ptr::null_mut();
    }
    if bytes == 0 {
        // SAFETY: null, or from `malloc`, freed once.
        unsafe { libc::free(memory) };
        return ptr::null_mut();
    }
    // SAFETY: null, or from `malloc`.
    unsafe { libc::realloc(memory, bytes) }
}

unsafe extern "C" fn free(memory: *mut c_void, _: *const c_char, _: c_int) {
    // SAFETY: null, or from `malloc`, freed once.
    unsafe { libc::free(memory) };
}
