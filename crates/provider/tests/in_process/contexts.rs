//! Contexts of signatures that are begun again or get parameters in the middle of a message: what
//! both providers make of the same calls.
#![allow(unsafe_code, reason = "calls libcrypto as programs do")]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use foreign_types::ForeignType;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::md::Md;
use openssl::md_ctx::MdCtx;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::pkey_ctx::PkeyCtx;
use openssl::rsa::Rsa;
use openssl::sign::Verifier;
use widelane_ossl_sys::core::{
    OsslParam, PARAM_OCTET_STRING, PARAM_UNSIGNED_INTEGER, PARAM_UTF8_STRING,
};

use crate::common::ffi;
use crate::common::process::{prefer, setting};
use crate::pkey::Key;

const PROVIDERS: [&CStr; 2] = [c"?provider=widelane", c"provider=default"];

/// Whether nonces can be made of key and message, and Ed25519 has instances: since OpenSSL 3.2.
fn has_parameters() -> bool {
    openssl::version::number() >= 0x3020_0000
}

/// A context that signs by whoever is preferred.
struct Signing {
    context: MdCtx,
    operation: *mut c_void,
}

impl Signing {
    fn begin(key: &PKey<Private>, digest: Option<&CStr>, params: &[OsslParam]) -> Self {
        let mut signing = Signing { context: MdCtx::new().unwrap(), operation: ptr::null_mut() };
        assert_eq!(signing.init(digest, key.as_ptr(), params), 1, "begun");
        signing
    }

    /// Begins again with the key that it has.
    fn begin_again(&mut self, digest: Option<&CStr>) {
        assert_eq!(self.init(digest, ptr::null_mut(), &[OsslParam::END]), 1, "begun again");
    }

    fn init(
        &mut self,
        digest: Option<&CStr>,
        key: *mut openssl_sys::EVP_PKEY,
        params: &[OsslParam],
    ) -> c_int {
        let digest = digest.map_or(ptr::null(), CStr::as_ptr);
        let (context, operation) = (self.context.as_ptr(), &mut self.operation);
        // SAFETY: context and key live, and parameters have an end.
        unsafe {
            ffi::EVP_DigestSignInit_ex(
                context.cast(),
                operation,
                digest,
                ptr::null_mut(),
                ptr::null(),
                key.cast(),
                params.as_ptr(),
            )
        }
    }

    fn set(&self, params: &[OsslParam]) -> c_int {
        // SAFETY: the outer context owns this one; parameters have an end.
        unsafe { ffi::EVP_PKEY_CTX_set_params(self.operation, params.as_ptr()) }
    }

    fn set_of_digest(&self, params: &[OsslParam]) -> c_int {
        // SAFETY: the context lives; parameters have an end.
        unsafe { ffi::EVP_MD_CTX_set_params(self.context.as_ptr().cast(), params.as_ptr()) }
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut signature = Vec::new();
        self.context.digest_sign_final_to_vec(&mut signature).unwrap();
        signature
    }
}

fn on_curve(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn p256() -> PKey<Private> {
    on_curve(Nid::X9_62_PRIME256V1)
}

/// A new key that the provider that is preferred holds, and its point.
fn held(group: &CStr) -> (PKey<Private>, Vec<u8>) {
    let key = ManuallyDrop::new(Key::make(c"EC", group, true).unwrap());
    // SAFETY: a key with both halves, which is not freed otherwise.
    (unsafe { PKey::from_ptr(key.0.cast()) }, key.public())
}

fn set_public(key: &PKey<Private>, point: &[u8]) {
    let (key, bytes, length) = (key.as_ptr().cast(), point.as_ptr(), point.len());
    // SAFETY: the key lives; pointer and length belong to the slice.
    assert_eq!(unsafe { ffi::EVP_PKEY_set1_encoded_public_key(key, bytes, length) }, 1);
}

fn text(name: &'static CStr, value: &CStr) -> OsslParam {
    let data = value.as_ptr().cast_mut().cast();
    OsslParam::new(name, PARAM_UTF8_STRING, data, value.count_bytes())
}

fn nonce_type(value: &mut c_uint) -> OsslParam {
    let data = ptr::from_mut(value).cast();
    OsslParam::new(c"nonce-type", PARAM_UNSIGNED_INTEGER, data, size_of::<c_uint>())
}

fn verifies(key: &PKey<Private>, digest: MessageDigest, message: &[u8], signature: &[u8]) -> bool {
    prefer(PROVIDERS[1]);
    let mut verifier = Verifier::new(digest, key).unwrap();
    verifier.verify_oneshot(signature, message).unwrap()
}

#[test]
fn contexts_begun_again_keep_the_instance_of_ed25519() {
    let (_place, _lock) = setting();
    let key = PKey::generate_ed25519().unwrap();
    let mut word = *b"a context";
    let word = OsslParam::new(c"context-string", PARAM_OCTET_STRING, word.as_mut_ptr().cast(), 9);
    let params = [text(c"instance", c"Ed25519ctx"), word, OsslParam::END];
    let params = if has_parameters() { &params[..] } else { &params[2..] };
    let signatures = PROVIDERS.map(|preferred| {
        prefer(preferred);
        let mut signing = Signing::begin(&key, None, params);
        signing.begin_again(None);
        let mut signature = Vec::new();
        signing.context.digest_sign_to_vec(b"message", &mut signature).unwrap();
        signature
    });
    assert_eq!(signatures[0], signatures[1]);
}

#[test]
fn contexts_begun_again_keep_how_nonces_are_made() {
    let (_place, _lock) = setting();
    let (key, mut value) = (p256(), 1);
    let params = [nonce_type(&mut value), OsslParam::END];
    let signatures = PROVIDERS.map(|preferred| {
        prefer(preferred);
        let mut signing = Signing::begin(&key, Some(c"SHA256"), &params);
        signing.begin_again(Some(c"SHA256"));
        signing.context.digest_sign_update(b"message").unwrap();
        signing.finish()
    });
    for signature in &signatures {
        assert!(verifies(&key, MessageDigest::sha256(), b"message", signature));
    }
    assert_eq!(signatures[0] == signatures[1], has_parameters());
}

#[test]
fn how_nonces_are_made_may_be_said_in_the_middle_of_a_message() {
    let (_place, _lock) = setting();
    let (key, mut value) = (p256(), 1);
    let params = [nonce_type(&mut value), OsslParam::END];
    let signatures = PROVIDERS.map(|preferred| {
        prefer(preferred);
        let mut signing = Signing::begin(&key, Some(c"SHA384"), &[OsslParam::END]);
        signing.context.digest_sign_update(b"mes").unwrap();
        // OpenSSL 3.0 knows of no such parameter, and does not mind.
        assert_eq!(signing.set(&params), 1);
        signing.context.digest_sign_update(b"sage").unwrap();
        signing.finish()
    });
    for signature in &signatures {
        assert!(verifies(&key, MessageDigest::sha384(), b"message", signature));
    }
    assert_eq!(signatures[0] == signatures[1], has_parameters());
}

#[test]
fn a_public_half_that_is_set_in_the_middle_leaves_the_message_as_it_is() {
    let (_place, _lock) = setting();
    let places = [c"P-256", c"P-384"].into_iter().flat_map(|it| PROVIDERS.map(|by| (it, by)));
    for (group, preferred) in places {
        for in_pieces in [true, false] {
            prefer(preferred);
            let (key, point) = held(group);
            let mut signing = Signing::begin(&key, Some(c"SHA256"), &[OsslParam::END]);
            let mut signature = Vec::new();
            if in_pieces {
                signing.context.digest_sign_update(b"mes").unwrap();
                set_public(&key, &point);
                signing.context.digest_sign_update(b"sage").unwrap();
                signature = signing.finish();
            } else {
                set_public(&key, &point);
                signing.context.digest_sign_to_vec(b"message", &mut signature).unwrap();
            }
            let is_good = verifies(&key, MessageDigest::sha256(), b"message", &signature);
            assert!(is_good, "{group:?}, {preferred:?}, in pieces {in_pieces}");
        }
        for (end, expected) in [(b"sage", true), (b"SAGE", false)] {
            prefer(preferred);
            let (key, point) = held(group);
            let mut signature = Vec::new();
            let mut signing = Signing::begin(&key, Some(c"SHA256"), &[OsslParam::END]);
            signing.context.digest_sign_to_vec(b"message", &mut signature).unwrap();
            let [mut in_pieces, mut at_once] = [(); 2].map(|()| {
                let mut context = MdCtx::new().unwrap();
                context.digest_verify_init(Some(Md::sha256()), &key).unwrap();
                context
            });
            in_pieces.digest_verify_update(b"mes").unwrap();
            set_public(&key, &point);
            in_pieces.digest_verify_update(end).unwrap();
            let message = [b"mes", &end[..]].concat();
            let found = [
                in_pieces.digest_verify_final(&signature).unwrap_or(false),
                at_once.digest_verify(&message, &signature).unwrap_or(false),
            ];
            drop(ErrorStack::get());
            assert_eq!(found, [expected; 2], "{group:?}, {preferred:?}");
        }
    }
}

/// A context may be told that it signs one message, and is then not copied for the signature.
#[test]
fn a_message_that_is_signed_leaves_no_empty_one() {
    const EVP_MD_CTX_FLAG_FINALISE: c_int = 0x200;
    let (_place, _lock) = setting();
    for key in [p256(), PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()] {
        for preferred in PROVIDERS {
            prefer(preferred);
            let mut signing = Signing::begin(&key, Some(c"SHA256"), &[OsslParam::END]);
            let context = signing.context.as_ptr().cast();
            // SAFETY: the context lives.
            unsafe { ffi::EVP_MD_CTX_set_flags(context, EVP_MD_CTX_FLAG_FINALISE) };
            signing.context.digest_sign_update(b"message").unwrap();
            let signature = signing.finish();
            let mut again = vec![0; key.size()];
            assert!(verifies(&key, MessageDigest::sha256(), b"message", &signature));
            // Nor after parameters are set.
            for sets in [false, true] {
                if sets {
                    signing.set(&[OsslParam::END]);
                }
                let bytes = signing.context.digest_sign_final(Some(&mut again)).unwrap_or(0);
                drop(ErrorStack::get());
                let signs_nothing =
                    bytes > 0 && verifies(&key, MessageDigest::sha256(), b"", &again[..bytes]);
                assert!(!signs_nothing, "{preferred:?}, {sets}");
            }
        }
    }
}

/// That input and output overlap, only Miri would see; this shows what they hold in the end. The
/// default provider of OpenSSL 3.0 does not sign with Ed25519 like this.
#[test]
fn our_signatures_may_take_the_place_of_what_is_signed() {
    let (_place, _lock) = setting();
    let rsa = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let keys = [rsa, p256(), on_curve(Nid::SECP384R1), PKey::generate_ed25519().unwrap()];
    for key in &keys {
        let digest = (key.id() != Id::ED25519).then_some(c"SHA256");
        prefer(PROVIDERS[0]);
        let mut buffer = [7; 256];
        let (place, mut length) = (buffer.as_mut_ptr(), buffer.len());
        let signing = Signing::begin(key, digest, &[OsslParam::END]);
        let context = signing.context.as_ptr().cast();
        // SAFETY: the buffer is longer than the message and than any signature here.
        let done = unsafe { ffi::EVP_DigestSign(context, place, &mut length, place, 32) };
        assert_eq!(done, 1, "{:?}", key.id());
        prefer(PROVIDERS[1]);
        let mut verifier = match digest {
            Some(_) => Verifier::new(MessageDigest::sha256(), key).unwrap(),
            None => Verifier::new_without_digest(key).unwrap(),
        };
        assert!(verifier.verify_oneshot(&buffer[..length], &[7; 32]).unwrap());
        if digest.is_none() {
            continue;
        }
        prefer(PROVIDERS[0]);
        let mut buffer = [7; 256];
        let (place, mut length) = (buffer.as_mut_ptr(), buffer.len());
        let mut signing = PkeyCtx::new(key).unwrap();
        signing.sign_init().unwrap();
        let context = signing.as_ptr().cast();
        // SAFETY: as above.
        let done = unsafe { ffi::EVP_PKEY_sign(context, place, &mut length, place, 32) };
        assert_eq!(done, 1, "{:?}", key.id());
        prefer(PROVIDERS[1]);
        let mut verifying = PkeyCtx::new(key).unwrap();
        verifying.verify_init().unwrap();
        assert!(verifying.verify(&[7; 32], &buffer[..length]).unwrap());
    }
}

#[test]
fn parameters_of_digests_leave_the_message_as_it_is() {
    let (_place, _lock) = setting();
    let params = [text(c"unknown", c"value"), OsslParam::END];
    for key in [p256(), PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()] {
        for begins in [false, true] {
            let answers = PROVIDERS.map(|preferred| {
                prefer(preferred);
                // This one takes parameters in the middle of a message; most digests have none.
                let mut signing = Signing::begin(&key, Some(c"SHA1"), &[OsslParam::END]);
                let early = if begins { signing.set_of_digest(&params) } else { 1 };
                signing.context.digest_sign_update(b"mes").unwrap();
                let set = signing.set_of_digest(&params);
                signing.context.digest_sign_update(b"sage").unwrap();
                let signature = signing.finish();
                (early, set, verifies(&key, MessageDigest::sha1(), b"message", &signature))
            });
            assert_eq!(answers, [(1, 1, true); 2]);
        }
    }
}

/// OpenSSL lets the digest be changed from when the length was asked for, and then signs no more.
#[test]
fn a_digest_that_is_set_after_the_length_was_asked_for_signs_nothing_else() {
    let (_place, _lock) = setting();
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let digests = [c"SHA256", c"SHA3-256", c"SHA2-512/256", c"SHA384"];
    for (digest, in_pieces) in digests.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let answers = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let mut signing = Signing::begin(&key, Some(c"SHA256"), &[OsslParam::END]);
            let mut signature = [0; 256];
            let finish = |context: &mut MdCtx, signature: Option<&mut [u8]>| match in_pieces {
                true => context.digest_sign_final(signature),
                false => context.digest_sign(b"message", signature),
            };
            if in_pieces {
                signing.context.digest_sign_update(b"message").unwrap();
            }
            assert_eq!(finish(&mut signing.context, None).unwrap(), 256);
            let set = signing.set(&[text(c"digest", digest), OsslParam::END]);
            let signed = finish(&mut signing.context, Some(&mut signature)).ok();
            drop(ErrorStack::get());
            (set, signed, signature)
        });
        assert!(answers[0] == answers[1], "{digest:?}, in pieces {in_pieces}");
    }
}

#[test]
fn exchanges_name_the_parameters_of_their_own_algorithm() {
    let (_place, _lock) = setting();
    for name in [c"X25519", c"ECDH"] {
        let names = PROVIDERS.map(|query| {
            // SAFETY: the default library context, and C strings.
            let exchange =
                unsafe { ffi::EVP_KEYEXCH_fetch(ptr::null_mut(), name.as_ptr(), query.as_ptr()) };
            assert!(!exchange.is_null(), "{name:?}");
            let lists: [unsafe extern "C" fn(*const c_void) -> *const OsslParam; 2] =
                [ffi::EVP_KEYEXCH_gettable_ctx_params, ffi::EVP_KEYEXCH_settable_ctx_params];
            // SAFETY: fetched above.
            let names = lists.map(|list| names(unsafe { list(exchange) }));
            // SAFETY: fetched above, given back once.
            unsafe { ffi::EVP_KEYEXCH_free(exchange) };
            names
        });
        assert_eq!(names[0], names[1], "{name:?}");
    }
}

/// The names in a list of parameters, if there is one.
pub fn names(list: *const OsslParam) -> Option<Vec<String>> {
    // SAFETY: null, or a list with an end.
    let first = unsafe { list.as_ref() }?;
    let mut names = Vec::new();
    let mut next = ptr::from_ref(first);
    // SAFETY: the end has not been seen yet.
    while let Some(key) = unsafe { next.as_ref() }.map(|param| param.key).filter(|it| !it.is_null())
    {
        // SAFETY: a C string.
        names.push(unsafe { CStr::from_ptr(key) }.to_string_lossy().into_owned());
        // SAFETY: this one was not the end.
        next = unsafe { next.add(1) };
    }
    Some(names)
}
