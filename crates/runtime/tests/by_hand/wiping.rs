//! Wiping by libcrypto's own function goes through ours, and wipes what it is given and no more.
//!
//! The test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libcrypto by its C interface")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use crate::support::by_hand::accelerated;

#[test]
fn wiping_leaves_nothing_and_touches_nothing_else() {
    accelerated("wiping::scenario_wiping");
}

unsafe extern "C" {
    fn OPENSSL_cleanse(memory: *mut c_void, bytes: usize);
}

/// The file that the function of this program's calls is in.
fn file_of_cleanse() -> String {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    let address = OPENSSL_cleanse as *const c_void;
    // SAFETY: the address of a function, and room for what is known of it.
    assert_ne!(unsafe { libc::dladdr(address, info.as_mut_ptr()) }, 0);
    // SAFETY: filled by the call above.
    let info = unsafe { info.assume_init() };
    // SAFETY: the loader's C string.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    name.to_str().expect("text").to_owned()
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_wiping() {
    let file = file_of_cleanse();
    assert!(file.ends_with("libwidelane_runtime.so"), "{file}");
    for bytes in [0, 1, 7, 8, 31, 64, 100, 4096, 20_000] {
        let mut memory = vec![0xA5_u8; bytes + 128];
        // SAFETY: memory of this length within the vector's.
        unsafe { OPENSSL_cleanse(memory[64..].as_mut_ptr().cast(), bytes) };
        assert!(memory[64..64 + bytes].iter().all(|byte| *byte == 0), "{bytes} bytes");
        let around = memory[..64].iter().chain(&memory[64 + bytes..]);
        assert!(around.clone().count() == 128 && around.clone().all(|byte| *byte == 0xA5));
    }
    // SAFETY: nothing to wipe, which libcrypto allows.
    unsafe { OPENSSL_cleanse(ptr::null_mut(), 0) };
}
