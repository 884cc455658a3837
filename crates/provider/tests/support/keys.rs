//! Keys from parameters of any kind: what is imported or generated, asked and set, and whether it
//! works the same.

use std::ffi::{CStr, c_int};
use std::sync::LazyLock;

use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcPoint, PointConversionForm};
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey};
use widelane_testkit::rsa::test_keys;

use super::evp::{Key, KeyContext, MessageContext, Use};
use super::params::{Parameter, Params, Reader, Source};
use super::{PROVIDERS, Said, compare, is_since, load};

/// A right key of a kind.
pub struct Right {
    pub algorithm: &'static CStr,
    parts: Vec<Parameter>,
    /// The key in both providers.
    keys: [Key; 2],
}

impl Right {
    fn new(algorithm: &'static CStr, parts: Vec<Parameter>) -> Self {
        let params = Params(parts.clone());
        let import = |query| Key::import(algorithm, query, KEYPAIR, &params);
        let keys = PROVIDERS.map(|query| import(query).expect("a right key"));
        assert_eq!(keys.each_ref().map(Key::provider), [c"widelane", c"default"]);
        Right { algorithm, parts, keys }
    }

    /// The key of the provider that is asked for.
    pub fn key(&self, query: &CStr) -> &Key {
        &self.keys[usize::from(query != PROVIDERS[0])]
    }

    pub fn signs_with_digest(&self) -> bool {
        self.algorithm != c"ED25519"
    }

    pub fn is_rsa(&self) -> bool {
        self.algorithm.to_bytes().starts_with(b"RSA")
    }

    fn is_montgomery_or_edwards(&self) -> bool {
        [c"X25519", c"ED25519"].contains(&self.algorithm)
    }

    /// Whether it makes shared secrets.
    pub fn derives(&self) -> bool {
        [c"EC", c"X25519"].contains(&self.algorithm)
    }
}

/// One key of each kind.
pub static RIGHT: LazyLock<Vec<Right>> = LazyLock::new(|| {
    load();
    let rsa = &test_keys(2048)[0];
    let parts = vec![
        Parameter::number(c"n", &rsa.n),
        Parameter::number(c"e", &rsa.e),
        Parameter::number(c"d", &rsa.d),
        Parameter::number(c"rsa-factor1", &rsa.p),
        Parameter::number(c"rsa-factor2", &rsa.q),
        Parameter::number(c"rsa-exponent1", &rsa.dp),
        Parameter::number(c"rsa-exponent2", &rsa.dq),
        Parameter::number(c"rsa-coefficient1", &rsa.qinv),
    ];
    let mut right = vec![Right::new(c"RSA", parts.clone()), Right::new(c"RSA-PSS", parts)];
    for (nid, name) in [
        (Nid::X9_62_PRIME256V1, "prime256v1"),
        (Nid::SECP384R1, "secp384r1"),
        (Nid::SECP521R1, "secp521r1"),
    ] {
        let public = ec_public(nid).expect("a point");
        let group = Parameter::text(c"group", name);
        let halves = [Parameter::octets(c"pub", &public), Parameter::number(c"priv", &PRIVATE)];
        right.push(Right::new(c"EC", [group].into_iter().chain(halves).collect()));
    }
    for (name, id) in [(c"X25519", Id::X25519), (c"ED25519", Id::ED25519)] {
        let key = PKey::private_key_from_raw_bytes(&PRIVATE, id).expect("a key");
        let public = key.raw_public_key().expect("a public half");
        let halves = [Parameter::octets(c"pub", &public), Parameter::octets(c"priv", &PRIVATE)];
        right.push(Right::new(name, halves.to_vec()));
    }
    right
});

/// The public half of a key whose private half is [`PRIVATE`], uncompressed.
fn ec_public(curve: Nid) -> Result<Vec<u8>, ErrorStack> {
    let (group, context) = (EcGroup::from_curve_name(curve)?, &mut BigNumContext::new()?);
    let mut point = EcPoint::new(&group)?;
    point.mul_generator2(&group, &*BigNum::from_slice(&PRIVATE)?, context)?;
    point.to_bytes(&group, PointConversionForm::UNCOMPRESSED, context)
}

/// Below the order of every curve.
const PRIVATE: [u8; 32] = [0x2a; 32];

/// `EVP_PKEY_KEYPAIR`.
const KEYPAIR: c_int = 0x87;

/// `OSSL_KEYMGMT_SELECT_PRIVATE_KEY`.
const PRIVATE_HALF: c_int = 0x01;

/// Parts of a key: all, all but the private half, no half, and no curve.
const SELECTIONS: [c_int; 4] = [KEYPAIR, 0x86, 0x84, 0x03];

/// What can be asked of some key or other.
const QUESTIONS: [&CStr; 26] = [
    c"bits",
    c"security-bits",
    c"max-size",
    c"security-category",
    c"default-digest",
    c"mandatory-digest",
    c"group",
    c"encoded-pub-key",
    c"pub",
    c"priv",
    c"qx",
    c"qy",
    c"n",
    c"e",
    c"d",
    c"rsa-factor1",
    c"rsa-coefficient1",
    c"p",
    c"order",
    c"cofactor",
    c"field-type",
    c"encoding",
    c"point-format",
    c"use-cofactor-flag",
    c"decoded-from-explicit",
    c"unknown",
];

/// What can be set of some key or other, or before one is generated.
fn settings(right: &Right) -> Vec<Parameter> {
    let mut settings = vec![
        Parameter::int(c"use-cofactor-flag", 1),
        Parameter::text(c"point-format", "compressed"),
        Parameter::text(c"encoding", "named_curve"),
        Parameter::int(c"include-public", 1),
        Parameter::text(c"group-check", "named"),
        Parameter::text(c"group", "P-256"),
        Parameter::text(c"group", "secp384r1"),
        Parameter::text(c"group", "x25519"),
        Parameter::size(c"bits", 512),
        Parameter::text(c"digest", "SHA256"),
        Parameter::int(c"saltlen", 20),
    ];
    let public = right.parts.iter().find(|part| part.name == c"pub");
    settings.extend(public.map(|part| part.named(c"encoded-pub-key")));
    settings
}

/// Imports a key, asks and sets its parameters, and uses it; or generates one.
pub fn key_parameters(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let right = &RIGHT[usize::from(first >> 1) % RIGHT.len()];
    // To generate RSA keys takes too long to be fuzzed.
    let imports = first % 2 == 0 || right.is_rsa();
    compare(rest, |source, query, said| match imports {
        true => imported(right, source, query, said),
        false => generated(right, source, query, said),
    });
}

fn imported(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let selection = source.one(&SELECTIONS);
    let params = source.all_of(&right.parts, Reader::Copies);
    let needs_private = params.has(c"priv") && !params.has(c"pub") && selection & PRIVATE_HALF == 0;
    if needs_private && right.is_montgomery_or_edwards() && is_since(3, 6) {
        // OpenSSL 3.6 and 4.0 themselves do not survive it: they make a public half of no private
        // one.
        return;
    }
    let key = Key::import(right.algorithm, query, selection, &params);
    said.note("import", key.is_some());
    let Some(mut key) = key else { return };
    said.note("bits", key.bits());
    if key.bits() <= 0 {
        // OpenSSL 3.0 itself does not survive the use of an RSA key without a modulus.
        return;
    }
    for _ in 0..source.below(4) {
        match source.below(5) {
            0 => {
                let mut questions = source.questions(&QUESTIONS);
                // Keys that we hold tell their category under OpenSSL before 3.5, too.
                let is_asked = |name| is_since(3, 5) || name != c"security-category";
                questions.0.retain(|question| is_asked(question.name));
                said.note("get", key.get(&questions));
            }
            1 => said.note("set", key.set(&source.some_of(&settings(right), Reader::Trusts))),
            2 => said.note("equals", key.equals(right.key(query))),
            3 => check(right, &key, query, said),
            _ => {
                let Some(copy) = key.duplicate() else { return said.note("duplicate", false) };
                key = copy;
            }
        }
    }
    if right.derives() {
        let context = KeyContext::of(&key, query);
        said.note("begin to derive", context.begin(Use::Derive, &Params::default()));
        said.note("derive", context.derive(right.key(query)));
    }
    if right.algorithm != c"X25519" {
        said.note("sign", signature(right, &key, query));
    }
}

fn check(right: &Right, key: &Key, query: &CStr, said: &mut Said) {
    let context = KeyContext::of(key, query);
    said.note("check", context.check_public());
    // That RSA's primes are such takes too long to be fuzzed.
    if !right.is_rsa() {
        said.note("check both", context.check_pairwise());
    }
}

/// Whether a key makes signatures that it takes itself, and those that are the same each time.
fn signature(right: &Right, key: &Key, query: &CStr) -> Result<(c_int, Option<Vec<u8>>), c_int> {
    let digest = right.signs_with_digest().then_some(c"SHA256");
    let begin = |what| MessageContext::begin(what, key, query, digest, &Params::default());
    let (signed, signature) = begin(Use::Sign)?.0.sign(MESSAGE);
    if signed <= 0 {
        return Err(signed);
    }
    let verified = begin(Use::Verify)?.0.verify(MESSAGE, &signature);
    // What a damaged RSA key makes is blinded by chance.
    let is_one = verified == 1 && [c"RSA", c"ED25519"].contains(&right.algorithm);
    Ok((verified, is_one.then_some(signature)))
}

fn generated(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let params = source.some_of(&settings(right), Reader::Trusts);
    let (set, key) = Key::generate(right.algorithm, query, &params);
    said.note("set", set);
    said.note("generate", key.is_some());
    let Some(key) = key else { return };
    said.note("bits", key.bits());
    check(right, &key, query, said);
    said.note("get", key.get(&source.questions(&GENERAL_QUESTIONS)));
    if right.derives() {
        let context = KeyContext::of(&key, query);
        said.note("begin to derive", context.begin(Use::Derive, &Params::default()));
        let (set, (derived, _)) = context.derive(right.key(query));
        said.note("derive", (set, derived));
    }
}

/// What is the same of all keys of a kind.
const GENERAL_QUESTIONS: [&CStr; 7] =
    [c"bits", c"security-bits", c"max-size", c"group", c"default-digest", c"encoding", c"unknown"];

pub const MESSAGE: &[u8] = b"the message";
