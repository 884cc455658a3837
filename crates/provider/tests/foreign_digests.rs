//! Digests of other providers: signatures with them are made and verified.
#![allow(unsafe_code, reason = "calls libcrypto as programs do")]

mod common;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use common::process::setting;
use foreign_types::ForeignType;
use openssl::ec::{EcGroup, EcKey};
use openssl::md_ctx::MdCtx;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;

unsafe extern "C" {
    fn OSSL_PROVIDER_load(context: *mut c_void, name: *const c_char) -> *mut c_void;
    fn OSSL_PROVIDER_unload(provider: *mut c_void) -> c_int;
    fn EVP_DigestSignInit_ex(
        context: *mut openssl_sys::EVP_MD_CTX,
        operation: *mut *mut c_void,
        digest: *const c_char,
        library: *mut c_void,
        query: *const c_char,
        key: *mut openssl_sys::EVP_PKEY,
        params: *const c_void,
    ) -> c_int;
    fn EVP_DigestVerifyInit_ex(
        context: *mut openssl_sys::EVP_MD_CTX,
        operation: *mut *mut c_void,
        digest: *const c_char,
        library: *mut c_void,
        query: *const c_char,
        key: *mut openssl_sys::EVP_PKEY,
        params: *const c_void,
    ) -> c_int;
}

const MESSAGE: &[u8] = b"the message";

/// Signs with a digest of any provider; answers nothing where it is refused.
fn sign(key: &PKey<Private>, digest: &CStr) -> Option<Vec<u8>> {
    let mut context = MdCtx::new().unwrap();
    let none = ptr::null_mut();
    let (name, query) = (digest.as_ptr(), ptr::null());
    // SAFETY: context and key live, the name is a C string.
    let begun = unsafe {
        EVP_DigestSignInit_ex(
            context.as_ptr(),
            ptr::null_mut(),
            name,
            none,
            query,
            key.as_ptr(),
            ptr::null(),
        )
    };
    if begun != 1 {
        return None;
    }
    let mut signature = Vec::new();
    context.digest_sign_update(MESSAGE).ok()?;
    context.digest_sign_final_to_vec(&mut signature).ok()?;
    Some(signature)
}

fn verify(key: &PKey<Private>, digest: &CStr, query: &CStr, signature: &[u8]) -> bool {
    let mut context = MdCtx::new().unwrap();
    let none = ptr::null_mut();
    // SAFETY: context and key live, the names are C strings.
    let begun = unsafe {
        EVP_DigestVerifyInit_ex(
            context.as_ptr(),
            ptr::null_mut(),
            digest.as_ptr(),
            none,
            query.as_ptr(),
            key.as_ptr(),
            ptr::null(),
        )
    };
    assert_eq!(begun, 1, "{digest:?} is taken");
    context.digest_verify_update(MESSAGE).unwrap();
    // RSA says of a wrong signature why it is one.
    context.digest_verify_final(signature).unwrap_or(false)
}

#[test]
fn digests_of_other_providers_sign_and_verify() {
    let (_, _lock) = setting();
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let ec = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let rsa = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    assert_eq!(sign(&rsa, c"MD4"), None, "nobody has loaded it yet");
    // SAFETY: the default library context, and a C string.
    let legacy = unsafe { OSSL_PROVIDER_load(ptr::null_mut(), c"legacy".as_ptr()) };
    assert!(!legacy.is_null(), "the legacy provider loads");
    for (key, digest) in [(&rsa, c"MD4"), (&ec, c"MD4"), (&ec, c"WHIRLPOOL")] {
        let signature = sign(key, digest).unwrap_or_else(|| panic!("{digest:?} signs"));
        for query in [c"?provider=widelane", c"provider!=widelane"] {
            assert!(verify(key, digest, query, &signature), "{digest:?}, {query:?}");
            assert!(!verify(key, digest, query, &{
                let mut other = signature.clone();
                *other.last_mut().unwrap() ^= 1;
                other
            }));
        }
    }
    // SAFETY: loaded above, unloaded once.
    unsafe { OSSL_PROVIDER_unload(legacy) };
}
