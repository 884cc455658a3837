//! Digests of other providers sign, verify, encrypt and derive.
#![allow(unsafe_code, reason = "calls libcrypto as programs do")]

use std::ffi::CStr;
use std::fs;
use std::ptr;

use foreign_types::ForeignType;
use openssl::ec::{EcGroup, EcKey};
use openssl::md_ctx::MdCtx;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;

use crate::common::ffi;
use crate::common::process::setting;
use crate::common::{Place, done, toy};

const MESSAGE: &[u8] = b"the message";

/// Signs with a digest of any provider; answers nothing where it is refused.
fn sign(key: &PKey<Private>, digest: &CStr) -> Option<Vec<u8>> {
    let mut context = MdCtx::new().unwrap();
    let none = ptr::null_mut();
    let (name, query) = (digest.as_ptr(), ptr::null());
    // SAFETY: context and key live, the name is a C string.
    let begun = unsafe {
        ffi::EVP_DigestSignInit_ex(
            context.as_ptr().cast(),
            ptr::null_mut(),
            name,
            none,
            query,
            key.as_ptr().cast(),
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
        ffi::EVP_DigestVerifyInit_ex(
            context.as_ptr().cast(),
            ptr::null_mut(),
            digest.as_ptr(),
            none,
            query.as_ptr(),
            key.as_ptr().cast(),
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
    let legacy = unsafe { ffi::OSSL_PROVIDER_load(ptr::null_mut(), c"legacy".as_ptr()) };
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
    unsafe { ffi::OSSL_PROVIDER_unload(legacy) };
    assert_eq!(sign(&rsa, c"MD4"), None, "unloaded");
}

#[test]
fn digests_of_third_parties_come_and_go() {
    let (_, _lock) = setting();
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    for _ in 0..2 {
        assert_eq!(sign(&key, toy::DIGEST), None, "not loaded");
        let provider = toy::load();
        assert!(!provider.is_null());
        let signature = sign(&key, toy::DIGEST).expect("the provider is loaded");
        for query in [c"?provider=widelane", c"provider!=widelane"] {
            assert!(verify(&key, toy::DIGEST, query, &signature), "{query:?}");
        }
        // SAFETY: loaded above, unloaded once.
        unsafe { ffi::OSSL_PROVIDER_unload(provider) };
    }
}

/// What `openssl pkeyutl` takes to sign 16 or 64 bytes with digests that only `legacy` has.
const SIGNATURES: [(&str, usize, &str); 4] = [
    ("ec", 64, "-pkeyopt digest:whirlpool"),
    ("rsa", 16, "-pkeyopt digest:md4"),
    ("rsa", 16, "-pkeyopt rsa_padding_mode:pss -pkeyopt digest:md4"),
    (
        "rsa",
        16,
        "-pkeyopt rsa_padding_mode:pss -pkeyopt digest:md5 -pkeyopt rsa_mgf1_md:md4 \
         -pkeyopt rsa_pss_saltlen:20",
    ),
];

const ENCRYPTIONS: [&str; 3] = [
    "-pkeyopt rsa_oaep_md:md4",
    "-pkeyopt rsa_oaep_md:md4 -pkeyopt rsa_mgf1_md:whirlpool",
    "-pkeyopt rsa_oaep_md:sha256 -pkeyopt rsa_mgf1_md:whirlpool",
];

const DERIVATIONS: [&str; 2] = [
    "openssl pkeyutl -derive -inkey ec.pem -peerkey ec.public.pem -pkeyopt kdf-type:X963KDF \
     -pkeyopt kdf-digest:whirlpool -pkeyopt kdf-outlen:50",
    "openssl kdf -keylen 16 -kdfopt digest:whirlpool -kdfopt secret:a -kdfopt seed:b TLS1-PRF",
];

/// Runs a command with the legacy provider loaded, and ours preferred or not there.
fn with_legacy(place: &Place, ours: bool, command: &str) -> Result<String, String> {
    // Providers are named behind the command of `openssl`, before what it works on.
    let place_of = command.match_indices(' ').nth(1).expect("openssl, a command and its options").0;
    let (begin, rest) = command.split_at(place_of);
    let command = format!("{begin} -provider legacy -provider default{rest}");
    let mut command = if ours { place.ours(&command) } else { place.plain(&command) };
    let output = command.output().expect("openssl is installed");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn with_keys() -> Place {
    let place = Place::new();
    for command in [
        "openssl genpkey -quiet -algorithm RSA -out rsa.pem",
        "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.pem",
        "openssl pkey -in ec.pem -pubout -out ec.public.pem",
    ] {
        done(&mut place.plain(command));
    }
    place
}

#[test]
fn digests_that_are_set_later_sign_encrypt_and_derive() {
    let place = with_keys();
    for (key, bytes, options) in SIGNATURES {
        fs::write(place.path("digest"), vec![7; bytes]).unwrap();
        for (signer, verifier) in [(true, false), (false, true), (true, true)] {
            let arguments = format!("-inkey {key}.pem -in digest {options}");
            let sign = format!("openssl pkeyutl -sign {arguments} -out signature");
            let verify = format!("openssl pkeyutl -verify {arguments} -sigfile signature");
            for (ours, command) in [(signer, sign), (verifier, verify)] {
                with_legacy(&place, ours, &command)
                    .unwrap_or_else(|why| panic!("{command}: {why}"));
            }
        }
    }
    for options in ENCRYPTIONS {
        fs::write(place.path("message"), "the message").unwrap();
        for (sender, receiver) in [(true, false), (false, true), (true, true)] {
            let run = |ours, what| {
                let command = format!(
                    "openssl pkeyutl {what} -inkey rsa.pem -pkeyopt rsa_padding_mode:oaep {options}"
                );
                with_legacy(&place, ours, &command).unwrap_or_else(|why| panic!("{command}: {why}"))
            };
            run(sender, "-encrypt -in message -out box");
            assert_eq!(run(receiver, "-decrypt -in box"), "the message");
        }
    }
    for command in DERIVATIONS {
        let theirs = with_legacy(&place, false, command);
        assert!(theirs.is_ok(), "{theirs:?}");
        assert_eq!(with_legacy(&place, true, command), theirs);
    }
}

#[test]
fn what_is_refused_with_a_digest_is_refused_with_the_same_words() {
    let place = with_keys();
    fs::write(place.path("digest"), [7; 64]).unwrap();
    let command = "openssl pkeyutl -sign -inkey rsa.pem -in digest -pkeyopt digest:whirlpool";
    for ours in [false, true] {
        let why = with_legacy(&place, ours, command).expect_err("no RSA scheme has this digest");
        assert!(why.contains("digest not allowed"), "{why}");
        let mut without = if ours { place.ours(command) } else { place.plain(command) };
        assert!(!without.output().unwrap().status.success(), "nobody has it");
    }
}

#[test]
fn keys_are_encrypted_with_ciphers_of_other_providers() {
    let place = with_keys();
    let key = fs::read_to_string(place.path("ec.pem")).unwrap();
    for (writer, reader) in [(true, false), (false, true)] {
        let write = "openssl pkey -in ec.pem -bf-cbc -passout pass:secret -out box.pem";
        let read = "openssl pkey -in box.pem -passin pass:secret";
        with_legacy(&place, writer, write).unwrap();
        assert_eq!(with_legacy(&place, reader, read).unwrap(), key);
    }
}
