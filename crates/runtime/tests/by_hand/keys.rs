//! Private keys that a program reads lie with the provider, and are the same to the program.
#![allow(unsafe_code, reason = "forms of keys, and whose they are, by libcrypto's C interface")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::ptr;

use foreign_types::ForeignTypeRef;
use openssl::base64;
use openssl::ec::{Asn1Flag, EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, PKeyRef, Private};
use openssl::rsa::Rsa;
use openssl::sign::{Signer, Verifier};
use openssl::ssl::{SslContext, SslFiletype, SslMethod};
use openssl_sys as sys;
use widelane_testkit::rooms::has_lanes_of_curves;

use crate::support::by_hand::{accelerated_and_native, file, quick_context};

unsafe extern "C" {
    fn EC_KEY_set_conv_form(key: *mut sys::EC_KEY, form: c_int);
    fn EC_KEY_set_enc_flags(key: *mut sys::EC_KEY, flags: c_uint);
    fn EVP_PKEY_get0_provider(key: *const sys::EVP_PKEY) -> *const c_void;
    fn EVP_set_default_properties(context: *mut c_void, properties: *const c_char) -> c_int;
    fn OSSL_LIB_CTX_free(context: *mut c_void);
    fn OSSL_LIB_CTX_new() -> *mut c_void;
    fn OSSL_LIB_CTX_set0_default(context: *mut c_void) -> *mut c_void;
    fn OSSL_PROVIDER_get0_name(provider: *const c_void) -> *const c_char;
    fn OSSL_PROVIDER_load(context: *mut c_void, name: *const c_char) -> *mut c_void;
    fn OSSL_PROVIDER_unload(provider: *mut c_void) -> c_int;
}

const POINT_CONVERSION_COMPRESSED: c_int = 2;
const EC_PKEY_NO_PUBKEY: c_uint = 2;

#[test]
fn keys_lie_with_the_provider_and_are_the_same() {
    let ([accelerated, native], _) = accelerated_and_native("keys::scenario_read");
    assert_eq!(accelerated.lines().count(), native.lines().count());
    let [generated, read @ ..] = &accelerated.lines().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(*generated, "generated: widelane");
    for line in read {
        let (kind, provider) = line.split_once(": ").expect("a kind and a provider");
        let is_ours = ["P-256", "P-256 in PKCS #8", "P-384"].contains(&kind);
        // Those before 3.0.8 export points compressed.
        let moves = is_ours && has_lanes_of_curves() && openssl::version::number() >= 0x3000_0080;
        assert_eq!(provider, if moves { "widelane" } else { "default" }, "{kind}");
    }
    assert!(native.lines().all(|line| line.ends_with(": default")), "{native}");
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_read() {
    let context = quick_context();
    let generated = PKey::ec_gen("prime256v1").expect("a key");
    let mut answers = format!("generated: {}\n", provider(&generated));
    for (kind, pem) in keys() {
        let key = PKey::private_key_from_pem(pem.as_bytes()).expect("a key");
        // What is read from DER does not come by the door that moves keys.
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        let der = base64::decode_block(&lines.collect::<String>()).expect("base64");
        let expected = PKey::private_key_from_der(&der).expect("a key");
        assert_same(kind, &key, &expected);
        let by_libssl = read_by_libssl(&pem);
        assert_eq!(provider(by_libssl.private_key().expect("a key")), provider(&key), "{kind}");
        let _ = writeln!(answers, "{kind}: {}", provider(&key));
    }
    drop(context);
    std::fs::write(file("answers"), answers).expect("a write");
}

#[test]
fn keys_lie_where_libcrypto_looks_for_them() {
    let ([accelerated, native], _) = accelerated_and_native("keys::scenario_contexts");
    assert!(native.lines().all(|line| line.ends_with(": true")), "{native}");
    assert_eq!(accelerated, native);
}

/// Reads keys while another library context is the thread's default, and while the default
/// properties name a provider; each time after keys of the default context.
#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_contexts() {
    let (context, keys, mut answers) = (quick_context(), keys(), String::new());
    let read = |pem: &str| PKey::private_key_from_pem(pem.as_bytes()).expect("a key");
    let providers = || keys.iter().map(|(_, pem)| provider(&read(pem))).collect::<Vec<_>>();
    let before = providers();
    for _ in 0..2 {
        // SAFETY: makes a context.
        let other = unsafe { OSSL_LIB_CTX_new() };
        // SAFETY: made above, and a C string.
        let loaded = unsafe { OSSL_PROVIDER_load(other, c"default".as_ptr()) };
        // SAFETY: made above.
        let former = unsafe { OSSL_LIB_CTX_set0_default(other) };
        for (kind, pem) in &keys {
            let key = read(pem);
            // SAFETY: a key that lives.
            let provider = unsafe { EVP_PKEY_get0_provider(key.as_ptr()) };
            let _ = writeln!(answers, "{kind}, other context: {}", ptr::eq(provider, loaded));
        }
        // SAFETY: the one that was this thread's.
        unsafe { OSSL_LIB_CTX_set0_default(former) };
        // SAFETY: loaded above.
        unsafe { OSSL_PROVIDER_unload(loaded) };
        // SAFETY: made above, and nothing of it is left.
        unsafe { OSSL_LIB_CTX_free(other) };
        let _ = writeln!(answers, "default context again: {}", providers() == before);
    }
    for (properties, is_default) in [(c"provider=default", true), (c"", false)] {
        // SAFETY: the default context and a C string.
        unsafe { EVP_set_default_properties(ptr::null_mut(), properties.as_ptr()) };
        let providers = providers();
        let is_right = match is_default {
            true => providers.iter().all(|provider| *provider == "default"),
            false => providers == before,
        };
        let _ = writeln!(answers, "{properties:?}: {is_right}");
    }
    drop(context);
    std::fs::write(file("answers"), answers).expect("a write");
}

/// A context whose key libssl has read from a file.
fn read_by_libssl(pem: &str) -> SslContext {
    let path = file("read.key");
    std::fs::write(&path, pem).expect("a write");
    let mut context = SslContext::builder(SslMethod::tls()).expect("OpenSSL");
    context.set_private_key_file(path, SslFiletype::PEM).expect("a key");
    context.build()
}

/// Keys in PEM, by their kinds.
fn keys() -> Vec<(&'static str, String)> {
    let ec = |curve, flag, change: &dyn Fn(*mut sys::EC_KEY)| {
        let mut group = EcGroup::from_curve_name(curve).expect("a curve");
        group.set_asn1_flag(flag);
        let key = EcKey::generate(&group).expect("a key");
        change(key.as_ptr());
        key.private_key_to_pem().expect("PEM")
    };
    let (named, none) = (Asn1Flag::NAMED_CURVE, |_: *mut sys::EC_KEY| ());
    // SAFETY: a key that lives.
    let compress = |key| unsafe { EC_KEY_set_conv_form(key, POINT_CONVERSION_COMPRESSED) };
    // SAFETY: as above.
    let leave_out = |key| unsafe { EC_KEY_set_enc_flags(key, EC_PKEY_NO_PUBKEY) };
    let pkcs8 = |key: PKey<Private>| key.private_key_to_pem_pkcs8().expect("PEM");
    let (p256, p384) = (Nid::X9_62_PRIME256V1, Nid::SECP384R1);
    let keys = vec![
        ("P-256", ec(p256, named, &none)),
        ("P-256 in PKCS #8", pkcs8(PKey::ec_gen("prime256v1").expect("a key"))),
        ("P-256 in numbers", ec(p256, Asn1Flag::EXPLICIT_CURVE, &none)),
        ("P-256 compressed", ec(p256, named, &compress)),
        ("P-256 without its public half", ec(p256, named, &leave_out)),
        ("P-384", ec(p384, named, &none)),
        ("P-521", ec(Nid::SECP521R1, named, &none)),
        ("secp256k1", ec(Nid::SECP256K1, named, &none)),
        ("RSA", Rsa::generate(2048).expect("a key").private_key_to_pem().expect("PEM")),
        ("Ed25519", pkcs8(PKey::generate_ed25519().expect("a key"))),
    ];
    keys.into_iter().map(|(kind, pem)| (kind, String::from_utf8(pem).expect("text"))).collect()
}

/// Whether a program finds the same in both keys, and whether each signs what the other verifies.
fn assert_same(kind: &str, key: &PKey<Private>, expected: &PKey<Private>) {
    let told = |key: &PKey<Private>| {
        let texts = [key.private_key_to_der(), key.private_key_to_pem_pkcs8()];
        let [traditional, pkcs8] = texts.map(|text| text.expect("a text"));
        let public = key.public_key_to_der().expect("a text");
        (key.id(), key.bits(), key.size(), traditional, pkcs8, public)
    };
    assert!(told(key) == told(expected), "{kind}");
    assert!(key.public_eq(expected) && expected.public_eq(key), "{kind}");
    let other = PKey::ec_gen("prime256v1").expect("a key");
    assert!(!key.public_eq(&other), "{kind}");
    for (signer, verifier) in [(key, expected), (expected, key)] {
        let digest = || (kind != "Ed25519").then(MessageDigest::sha256);
        let mut signing = match digest() {
            Some(digest) => Signer::new(digest, signer),
            None => Signer::new_without_digest(signer),
        }
        .expect("a signer");
        let signature = signing.sign_oneshot_to_vec(kind.as_bytes()).expect("a signature");
        let mut verifying = match digest() {
            Some(digest) => Verifier::new(digest, verifier),
            None => Verifier::new_without_digest(verifier),
        }
        .expect("a verifier");
        let verified = verifying.verify_oneshot(&signature, kind.as_bytes());
        assert!(verified.expect("an answer"), "{kind}");
    }
}

/// The name of the provider that a key lies with.
fn provider(key: &PKeyRef<Private>) -> &'static str {
    // SAFETY: a key that lives.
    let provider = unsafe { EVP_PKEY_get0_provider(key.as_ptr()) };
    assert!(!provider.is_null(), "a key of no provider");
    // SAFETY: a provider of this process, which stays.
    let name = unsafe { OSSL_PROVIDER_get0_name(provider) };
    // SAFETY: its name is a C string that stays as well.
    unsafe { CStr::from_ptr(name) }.to_str().expect("text")
}
