//! Key derivation as libssl and others use it: each answer must be the default provider's.
#![allow(unsafe_code, reason = "calls libcrypto as libssl does")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use openssl::error::ErrorStack;
use widelane_ossl_sys::core::OsslParam;

use crate::common::ffi;
use crate::common::process::setting;

/// A parameter to set.
#[derive(Clone, Copy)]
enum Set<'a> {
    Int(&'static CStr, c_int),
    Text(&'static CStr, &'a CStr),
    Octets(&'static CStr, &'a [u8]),
}

/// What a program does with a context.
enum Step<'a> {
    Set(&'a [Set<'a>]),
    /// Derives so many bytes, with these parameters.
    Derive(usize, &'a [Set<'a>]),
    /// Derives so many bytes, without an array of parameters.
    DeriveAsSet(usize),
    /// Goes on with a copy.
    Duplicate,
    Reset,
    Size,
}

/// Does the steps with the implementation that `query` selects: the answer of each, and the reason
/// where there is one.
fn answers(name: &CStr, query: &CStr, steps: &[Step<'_>]) -> Vec<(i64, Vec<u8>, Option<c_int>)> {
    // SAFETY: the default library context, and C strings.
    let kdf = unsafe { ffi::EVP_KDF_fetch(ptr::null_mut(), name.as_ptr(), query.as_ptr()) };
    assert!(!kdf.is_null(), "{name:?} with {query:?}");
    // SAFETY: fetched above.
    let provider = unsafe { ffi::EVP_KDF_get0_provider(kdf) };
    // SAFETY: the provider of what was fetched.
    let provider = unsafe { ffi::OSSL_PROVIDER_get0_name(provider) };
    // SAFETY: a C string.
    let provider = unsafe { CStr::from_ptr(provider) };
    let ours = provider.to_str().is_ok_and(|name| name.ends_with("widelane.so"));
    assert_eq!(ours, query == OURS, "{provider:?} answered {query:?}");
    // SAFETY: fetched above.
    let mut context = unsafe { ffi::EVP_KDF_CTX_new(kdf) };
    // SAFETY: the context has its own reference.
    unsafe { ffi::EVP_KDF_free(kdf) };
    let mut said = Vec::new();
    for step in steps {
        let mut output = Vec::new();
        let answer = match step {
            Step::Set(set) => {
                // SAFETY: the parameters have an end.
                let set =
                    with(set, |params| unsafe { ffi::EVP_KDF_CTX_set_params(context, params) });
                i64::from(set)
            }
            Step::Derive(bytes, set) => {
                output = vec![0; *bytes];
                let place = output.as_mut_ptr();
                // SAFETY: as above, and there is room for the output.
                let call = |params| unsafe { ffi::EVP_KDF_derive(context, place, *bytes, params) };
                i64::from(with(set, call))
            }
            Step::DeriveAsSet(bytes) => {
                output = vec![0; *bytes];
                let (place, none) = (output.as_mut_ptr(), ptr::null());
                // SAFETY: there is room for the output.
                i64::from(unsafe { ffi::EVP_KDF_derive(context, place, *bytes, none) })
            }
            Step::Duplicate => {
                // SAFETY: a context.
                let copy = unsafe { ffi::EVP_KDF_CTX_dup(context) };
                if !copy.is_null() {
                    // SAFETY: a context that is not used any more.
                    unsafe { ffi::EVP_KDF_CTX_free(context) };
                    context = copy;
                }
                1
            }
            Step::Reset => {
                // SAFETY: a context.
                unsafe { ffi::EVP_KDF_CTX_reset(context) };
                1
            }
            // SAFETY: a context.
            Step::Size => unsafe { ffi::EVP_KDF_CTX_get_kdf_size(context) as i64 },
        };
        let reason = ErrorStack::get().errors().last().map(|error| error.reason_code());
        said.push((answer, output, reason));
    }
    // SAFETY: a context that is not used any more.
    unsafe { ffi::EVP_KDF_CTX_free(context) };
    said
}

fn with<R>(set: &[Set<'_>], call: impl FnOnce(*const OsslParam) -> R) -> R {
    let mut numbers: Vec<c_int> = set
        .iter()
        .map(|set| match set {
            Set::Int(_, number) => *number,
            _ => 0,
        })
        .collect();
    let mut params: Vec<OsslParam> = set
        .iter()
        .zip(&mut numbers)
        .map(|(set, number)| {
            let (key, data_type, data, data_size): (_, _, *mut c_void, _) = match set {
                Set::Int(key, _) => (key, 1, ptr::from_mut(number).cast(), size_of::<c_int>()),
                Set::Text(key, text) => {
                    (key, 4, text.as_ptr().cast_mut().cast(), text.count_bytes())
                }
                Set::Octets(key, bytes) => (key, 5, bytes.as_ptr().cast_mut().cast(), bytes.len()),
            };
            OsslParam::new(key, data_type, data, data_size)
        })
        .collect();
    params.push(OsslParam::END);
    call(params.as_ptr())
}

fn same(name: &CStr, steps: &[Step<'_>]) {
    let (_, _lock) = setting();
    let ours = answers(name, OURS, steps);
    assert_eq!(ours, answers(name, THEIRS, steps));
    let derived = |step: &&Step<'_>| matches!(step, Step::Derive(..));
    assert!(steps.iter().any(|step| derived(&step)), "something is derived");
}

const OURS: &CStr = c"provider=widelane";
const THEIRS: &CStr = c"provider=default";
const TLS13: &CStr = c"TLS13-KDF";
const TLS1: &CStr = c"TLS1-PRF";
const EXTRACT: Set<'_> = Set::Int(c"mode", 1);
const EXPAND: Set<'_> = Set::Int(c"mode", 2);
const PREFIX: Set<'_> = Set::Octets(c"prefix", b"tls13 ");
const DERIVED: Set<'_> = Set::Octets(c"label", b"derived");
const DIGESTS: [(&CStr, usize); 4] =
    [(c"SHA256", 32), (c"SHA2-384", 48), (c"SHA512", 64), (c"SHA1", 20)];

#[test]
fn tls13_stages_follow_from_each_other() {
    for (digest, bytes) in DIGESTS {
        let (digest, key, salt) = (Set::Text(c"digest", digest), [7; 64], [9; 64]);
        let key = Set::Octets(c"key", &key[..bytes]);
        let salt = Set::Octets(c"salt", &salt[..bytes]);
        let (no_key, no_salt) = (Set::Octets(c"key", &[]), Set::Octets(c"salt", &[]));
        for set in [
            &[digest, EXTRACT, no_key, salt, PREFIX, DERIVED][..],
            &[digest, EXTRACT, key, no_salt, PREFIX, DERIVED],
            &[digest, EXTRACT, no_key, no_salt, PREFIX, DERIVED],
            &[digest, EXTRACT, PREFIX, DERIVED],
            &[digest, EXTRACT, key, PREFIX, DERIVED],
            &[digest, EXTRACT, salt, PREFIX, DERIVED],
            &[digest, EXTRACT, key, salt, PREFIX, DERIVED],
            &[digest, EXTRACT, key, salt, PREFIX],
            &[digest, EXTRACT, key, salt],
        ] {
            same(TLS13, &[Step::Derive(bytes, set)]);
            same(TLS13, &[Step::Derive(bytes - 1, set)]);
        }
    }
}

/// The stage behind the one without a pre-shared key, whose secret everybody knows, and those that
/// only look like it.
#[test]
fn tls13_begins_without_a_pre_shared_key() {
    let key = Set::Octets(c"key", &[7; 48]);
    for (digest, bytes) in DIGESTS {
        let digest = Set::Text(c"digest", digest);
        let (_, lock) = setting();
        let early = [Step::Derive(bytes, &[digest, EXTRACT])];
        let early = answers(TLS13, THEIRS, &early).remove(0).1;
        drop(lock);
        let mut other = early.clone();
        other[bytes - 1] ^= 1;
        for salt in [&early, &other] {
            let salt = Set::Octets(c"salt", salt);
            for (prefix, label) in [
                (PREFIX, DERIVED),
                (PREFIX, Set::Octets(c"label", b"drived")),
                (Set::Octets(c"prefix", b"dtls13"), DERIVED),
            ] {
                for set in [
                    &[digest, EXTRACT, key, salt, prefix, label][..],
                    &[digest, EXTRACT, salt, prefix, label],
                ] {
                    same(TLS13, &[Step::Derive(bytes, set)]);
                }
            }
        }
    }
}

#[test]
fn tls13_labels_expand() {
    let data = [5; 300];
    for (digest, bytes) in DIGESTS {
        let (digest, key) = (Set::Text(c"digest", digest), [3; 64]);
        let key = Set::Octets(c"key", &key[..bytes]);
        for label in [&b"key"[..], b"c hs traffic", &[b'x'; 250], &[b'x'; 251], &[]] {
            for data in [0, 32, 48, 255, 256, 300].map(|length| &data[..length]) {
                let (label, data) = (Set::Octets(c"label", label), Set::Octets(c"data", data));
                let set = [digest, EXPAND, key, PREFIX, label, data];
                same(TLS13, &[Step::Derive(bytes, &set)]);
                same(TLS13, &[Step::Derive(12, &set[..5])]);
            }
        }
        let set = [digest, EXPAND, key, PREFIX, DERIVED];
        for length in [1, 100, 255 * bytes, 255 * bytes + 1] {
            same(TLS13, &[Step::Derive(length, &set)]);
        }
    }
}

#[test]
fn contexts_keep_what_is_set() {
    let all = [Set::Text(c"digest", c"SHA384"), EXPAND, Set::Octets(c"key", &[1; 48]), PREFIX];
    let other = [Set::Octets(c"key", &[2; 48]), DERIVED];
    let unknown = [Set::Text(c"properties", c"provider=default")];
    let set: &[Step<'_>] = &[Step::Set(&all), Step::Derive(48, &[DERIVED]), Step::Derive(48, &[])];
    same(TLS13, set);
    same(TLS13, &[Step::Set(&all), Step::Duplicate, Step::Derive(48, &other), Step::Size]);
    same(TLS13, &[Step::Derive(48, &all), Step::Derive(48, &other), Step::Derive(48, &all)]);
    same(TLS13, &[Step::Set(&all), Step::Size, Step::Derive(48, &other), Step::Duplicate]);
    same(TLS13, &[Step::Set(&all), Step::Set(&unknown), Step::Derive(48, &other)]);
    same(TLS13, &[Step::Derive(48, &all), Step::Reset, Step::Derive(48, &other)]);
    // Whether data outlast the next setting differs among versions of OpenSSL, also by what is set.
    let data = Set::Octets(c"data", &[4; 32]);
    for set in [&[][..], &[EXPAND], &other] {
        let with_data = [DERIVED, data];
        let [by_set, by_derive] = [Step::Set(&with_data), Step::Derive(48, &with_data)];
        for first in [by_set, by_derive] {
            let again = [Step::DeriveAsSet(48), Step::Derive(48, set), Step::DeriveAsSet(48)];
            let [as_set, then, in_the_end] = again;
            same(TLS13, &[Step::Set(&all), first, as_set, then, in_the_end]);
        }
    }
    // Of what is given twice the first counts.
    same(TLS13, &[Step::Set(&all), Step::Set(&[data, data]), Step::Derive(48, &[DERIVED])]);
    let twice = [Set::Octets(c"key", &[5; 48]), Set::Octets(c"key", &[6; 48]), DERIVED];
    same(TLS13, &[Step::Set(&all), Step::Derive(48, &twice)]);
    // More than there is room for.
    let again = [Set::Octets(c"key", &[3; 200])];
    let steps = [&again[..], &again, &again, &all, &other].map(Step::Set);
    let [first, second, third, all, other] = steps;
    same(TLS13, &[first, second, third, all, other, Step::Derive(48, &[])]);
}

#[test]
fn what_is_missing_or_wrong_is_refused_alike() {
    let digest = Set::Text(c"digest", c"SHA256");
    let key = Set::Octets(c"key", &[1; 32]);
    for set in [
        &[][..],
        &[digest, EXPAND, PREFIX, DERIVED],
        &[digest, key, PREFIX, DERIVED],
        &[EXPAND, key, PREFIX, DERIVED],
        &[Set::Text(c"digest", c"NONE"), EXPAND, key, PREFIX, DERIVED],
        &[digest, Set::Int(c"mode", 0), key, PREFIX, DERIVED],
        &[digest, Set::Int(c"mode", 7), key, PREFIX, DERIVED],
        &[digest, Set::Text(c"mode", c"EXPAND_ONLY"), key, PREFIX, DERIVED],
    ] {
        same(TLS13, &[Step::Derive(32, set), Step::Derive(0, set), Step::Derive(16, &[])]);
    }
    let seed = Set::Octets(c"seed", b"master secret");
    for set in [&[][..], &[digest, seed], &[digest, Set::Octets(c"secret", &[1; 48])], &[seed]] {
        same(TLS1, &[Step::Derive(48, set), Step::Derive(0, set)]);
    }
}

#[test]
fn tls12_key_blocks() {
    let bytes = [8; 600];
    let digests = DIGESTS.map(|(digest, _)| digest).into_iter().chain([c"MD5-SHA1"]);
    for digest in digests {
        for secret in [1, 48, 64, 65, 129, 256, 500].map(|length| &bytes[..length]) {
            let set = [
                Set::Text(c"digest", digest),
                Set::Octets(c"secret", secret),
                Set::Octets(c"seed", b"key expansion"),
                Set::Octets(c"seed", &bytes[..32]),
                Set::Octets(c"seed", &bytes[..32]),
            ];
            for length in [1, 12, 48, 72, 104, 1000] {
                same(TLS1, &[Step::Derive(length, &set)]);
            }
            // Seeds are added to those before, also over a change of the secret.
            let more = [Set::Octets(c"seed", b"more"), set[1], Set::Octets(c"seed", b"yet")];
            let steps = [Step::Derive(48, &set), Step::Set(&more), Step::Derive(48, &more)];
            same(TLS1, &steps);
        }
    }
}
