//! Ed25519 by the calls that OpenSSL has since 3.4, for whole messages and for digests.
#![allow(unsafe_code, reason = "looks functions of libcrypto up, and calls them")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;

use foreign_types::ForeignType;
use openssl::pkey::{PKey, Private};
use openssl::sign::{Signer, Verifier};
use widelane_bridge::counters::OperationKind;
use widelane_host::counters::Counts;
use widelane_ossl_sys::core::{OsslParam, PARAM_UTF8_STRING};
use widelane_testkit::rooms::has_lanes_of_curves;

use crate::common::ffi;
use crate::common::process::{grown, prefer, setting};

type Begin = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void) -> c_int;
type Sign = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *const u8, usize) -> c_int;
type Verify = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;

const SIGN: Sign = ffi::EVP_PKEY_sign;
const VERIFY: Verify = ffi::EVP_PKEY_verify;

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
    fn begun(key: &PKey<Private>, begin: Begin, params: Option<&[OsslParam]>) -> Self {
        // SAFETY: the default library context, and a C string.
        let algorithm =
            unsafe { ffi::EVP_SIGNATURE_fetch(ptr::null_mut(), c"ED25519".as_ptr(), ptr::null()) };
        let key = key.as_ptr().cast();
        // SAFETY: the default library context, and a key that lives.
        let context = unsafe { ffi::EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key, ptr::null()) };
        let begun = Context { context, algorithm };
        let params = params.map_or(ptr::null(), |params| params.as_ptr().cast());
        // SAFETY: both were made above, and parameters have an end.
        assert_eq!(unsafe { begin(begun.context, begun.algorithm, params) }, 1);
        begun
    }

    fn sign(&self, message: &[u8]) -> [u8; 64] {
        let (mut signature, mut length) = ([0; 64], 0);
        let (from, bytes) = (message.as_ptr(), message.len());
        // SAFETY: the length is asked for alone.
        let asked = unsafe { SIGN(self.context, ptr::null_mut(), &mut length, from, bytes) };
        assert_eq!((asked, length), (1, 64));
        let to = signature.as_mut_ptr();
        // SAFETY: there is room for so many bytes.
        let signed = unsafe { SIGN(self.context, to, &mut length, from, bytes) };
        assert_eq!((signed, length), (1, 64));
        signature
    }

    fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let (from, length) = (signature.as_ptr(), signature.len());
        // SAFETY: pointers and lengths belong to each other.
        let verified =
            unsafe { VERIFY(self.context, from, length, message.as_ptr(), message.len()) };
        verified == 1
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { ffi::EVP_PKEY_CTX_free(self.context) };
        // SAFETY: as above.
        unsafe { ffi::EVP_SIGNATURE_free(self.algorithm) };
    }
}

fn signed_at_once(counters: &Counts) -> u64 {
    counters.by_kind[OperationKind::Ed25519Sign as usize].synchronous
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
            let mut signature = Context::begun(&key, begin_sign, None).sign(&message);
            assert_eq!(signature[..], expected, "{bytes}, {preferred:?}");
            made += 1;
            for flip in [0, 1] {
                signature[9] ^= flip;
                let context = Context::begun(&key, begin_verify, None);
                assert_eq!(context.verifies(&message, &signature), flip == 0);
            }
        }
        prefer(c"?provider=widelane");
        let mut verifier = Verifier::new_without_digest(&key).unwrap();
        assert!(verifier.verify_oneshot(&expected, &message).unwrap());
    }
    assert_eq!(made, 10);
    if has_lanes_of_curves() {
        assert!(grown(place, before, signed_at_once) > 0, "no message was signed by ourselves");
    }
}

#[test]
fn digests_are_signed_and_verified_as_by_the_default_provider() {
    let (_place, _lock) = setting();
    let begins = [c"EVP_PKEY_sign_init_ex2", c"EVP_PKEY_verify_init_ex2"].map(find);
    let [Some(begin_sign), Some(begin_verify)] = begins else {
        eprintln!("this OpenSSL has no such calls: nothing was tested");
        return;
    };
    let mut instance = *b"Ed25519ph\0";
    let bytes = instance.len() - 1;
    let data = instance.as_mut_ptr().cast();
    let params = [OsslParam::new(c"instance", PARAM_UTF8_STRING, data, bytes), OsslParam::END];
    let (key, digest) = (PKey::generate_ed25519().unwrap(), [7; 64]);
    let signatures = [c"?provider=widelane", c"provider=default"].map(|preferred| {
        prefer(preferred);
        let mut signature = Context::begun(&key, begin_sign, Some(&params)).sign(&digest);
        for flip in [0, 1] {
            signature[9] ^= flip;
            let context = Context::begun(&key, begin_verify, Some(&params));
            assert_eq!(context.verifies(&digest, &signature), flip == 0);
        }
        signature
    });
    prefer(c"?provider=widelane");
    assert_eq!(signatures[0], signatures[1]);
}
