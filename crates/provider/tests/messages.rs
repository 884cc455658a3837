//! Ed25519 by the calls that OpenSSL has since 3.4 for signatures of whole messages.
#![allow(unsafe_code, reason = "looks functions of libcrypto up, and calls them")]

mod common;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::AtomicU64;

use common::process::{grown, prefer, setting};
use foreign_types::ForeignType;
use openssl::pkey::{PKey, Private};
use openssl::sign::{Signer, Verifier};
use widelane_bridge::counters::{Counters, OperationKind};

type Begin = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void) -> c_int;
type Sign = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *const u8, usize) -> c_int;
type Verify = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;

unsafe extern "C" {
    fn EVP_PKEY_CTX_new_from_pkey(
        context: *mut c_void,
        key: *mut c_void,
        query: *const c_char,
    ) -> *mut c_void;
    fn EVP_PKEY_CTX_free(context: *mut c_void);
    fn EVP_PKEY_sign(
        context: *mut c_void,
        signature: *mut u8,
        length: *mut usize,
        message: *const u8,
        bytes: usize,
    ) -> c_int;
    fn EVP_PKEY_verify(
        context: *mut c_void,
        signature: *const u8,
        length: usize,
        message: *const u8,
        bytes: usize,
    ) -> c_int;
    fn EVP_SIGNATURE_fetch(
        context: *mut c_void,
        name: *const c_char,
        query: *const c_char,
    ) -> *mut c_void;
    fn EVP_SIGNATURE_free(signature: *mut c_void);
}

const SIGN: Sign = EVP_PKEY_sign;
const VERIFY: Verify = EVP_PKEY_verify;

/// A function that not every libcrypto has.
fn find(name: &CStr) -> Option<Begin> {
    // SAFETY: a C string; the default handle is what the process has loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: OpenSSL's manual gives both functions that are asked for this type.
    (!found.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, Begin>(&found) })
}

/// A context for a key, begun with the algorithm of whoever is preferred.
struct Context {
    context: *mut c_void,
    algorithm: *mut c_void,
}

impl Context {
    fn begun(key: &PKey<Private>, begin: Begin) -> Self {
        // SAFETY: the default library context, and a C string.
        let algorithm =
            unsafe { EVP_SIGNATURE_fetch(ptr::null_mut(), c"ED25519".as_ptr(), ptr::null()) };
        let key = key.as_ptr().cast();
        // SAFETY: the default library context, and a key that lives.
        let context = unsafe { EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key, ptr::null()) };
        let begun = Context { context, algorithm };
        // SAFETY: both were made above.
        assert_eq!(unsafe { begin(begun.context, begun.algorithm, ptr::null()) }, 1);
        begun
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { EVP_PKEY_CTX_free(self.context) };
        // SAFETY: as above.
        unsafe { EVP_SIGNATURE_free(self.algorithm) };
    }
}

fn signed_at_once(counters: &Counters) -> &AtomicU64 {
    &counters.kinds[OperationKind::Ed25519Sign as usize].synchronous
}

#[test]
fn messages_are_signed_and_verified_by_either_pair_of_calls() {
    let (place, _lock) = setting();
    let begins = [c"EVP_PKEY_sign_message_init", c"EVP_PKEY_verify_message_init"].map(find);
    let [Some(begin_sign), Some(begin_verify)] = begins else {
        eprintln!("this OpenSSL has no such calls: nothing was tested");
        return;
    };
    let before = place.sum(signed_at_once);
    let key = PKey::generate_ed25519().unwrap();
    let mut made = 0;
    for bytes in [0, 1, 130, 4096, 4097] {
        let message = vec![7; bytes];
        let expected = Signer::new_without_digest(&key).unwrap().sign_oneshot_to_vec(&message);
        let expected = expected.unwrap();
        for preferred in [c"?provider=widelane", c"provider=default"] {
            prefer(preferred);
            let context = Context::begun(&key, begin_sign);
            let (mut signature, mut length) = ([0; 64], 0);
            // SAFETY: the length is asked for alone.
            let asked = unsafe {
                SIGN(context.context, ptr::null_mut(), &mut length, message.as_ptr(), bytes)
            };
            assert_eq!((asked, length), (1, 64));
            // SAFETY: there is room for so many bytes.
            let signed = unsafe {
                let signature = signature.as_mut_ptr();
                SIGN(context.context, signature, &mut length, message.as_ptr(), bytes)
            };
            assert_eq!(
                (signed, &signature[..length]),
                (1, &expected[..]),
                "{bytes}, {preferred:?}"
            );
            made += 1;
            for (right, flip) in [(1, 0), (0, 1)] {
                signature[9] ^= flip;
                let context = Context::begun(&key, begin_verify);
                // SAFETY: pointers and lengths belong to each other.
                let verified = unsafe {
                    VERIFY(context.context, signature.as_ptr(), length, message.as_ptr(), bytes)
                };
                assert_eq!(verified == 1, right == 1);
            }
        }
        prefer(c"?provider=widelane");
        let mut verifier = Verifier::new_without_digest(&key).unwrap();
        assert!(verifier.verify_oneshot(&expected, &message).unwrap());
    }
    assert_eq!(made, 10);
    if common::room(widelane_cpu::Width::W512) != widelane_cpu::Room::Portable {
        assert!(grown(place, before, signed_at_once) > 0, "no message was signed by ourselves");
    }
}
