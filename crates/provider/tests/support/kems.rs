//! Key encapsulation by parameters, keys and ciphertexts of any kind.
//!
//! Ours is compared with itself: what it answers depends on nothing that another call has left.
//! OpenSSL has ML-KEM since 3.5 only, and treats parameters that come twice in ways of its own.

use std::ffi::{CStr, c_int};
use std::sync::LazyLock;

use super::evp::{Key, KeyContext, Use};
use super::params::{MARGIN, Parameter, Params, Reader, Source};
use super::{PROVIDERS, Said, compare_of, load};

/// A right key of a mechanism, and a ciphertext for it.
struct Right {
    name: &'static CStr,
    /// Bytes of a point of NIST's curves in front of public keys and ciphertexts.
    point_bytes: usize,
    parts: Vec<Parameter>,
    ciphertext: Vec<u8>,
    secret_bytes: usize,
    /// The key in both providers.
    keys: [Key; 2],
}

impl Right {
    fn new((name, point_bytes): (&'static CStr, usize)) -> Self {
        let (_, key) = Key::generate(name, PROVIDERS[0], &Params::default());
        let key = key.expect("a key");
        let mut public = asked(&key, c"encoded-pub-key");
        public.name = c"pub";
        let mut parts = vec![public, asked(&key, c"priv")];
        if !is_hybrid(name) {
            parts.push(asked(&key, c"seed"));
        }
        let params = Params(parts.clone());
        let import = |query| Key::import(name, query, SELECTIONS[0], &params).expect("a right key");
        let context = KeyContext::of(&key, PROVIDERS[0]);
        assert_eq!(context.begin(Use::Encapsulate, &Params::default()), 1);
        let (done, [ciphertext, secret]) = context.encapsulate([2048; 2]);
        assert_eq!(done, 1);
        let (keys, secret_bytes) = (QUERIES.map(import), secret.len());
        Right { name, point_bytes, parts, ciphertext, secret_bytes, keys }
    }

    /// The key of the provider that is asked for.
    fn key(&self, query: &CStr) -> &Key {
        &self.keys[usize::from(query != PROVIDERS[0])]
    }

    /// Whether bytes begin with a point in the form that TLS forbids: OpenSSL takes it, we do not.
    fn has_forbidden_form(&self, bytes: &[u8]) -> bool {
        self.point_bytes > 0 && bytes.first().is_some_and(|form| [6, 7].contains(form))
    }

    /// What can be set of some key or other.
    fn settings(&self) -> Vec<Parameter> {
        vec![
            self.parts[0].named(c"encoded-pub-key"),
            Parameter::octets(c"ikme", &MESSAGE),
            Parameter::octets(c"seed", &[7; 64]),
            Parameter::text(c"group", self.name.to_str().expect("ASCII")),
        ]
    }
}

/// One key of each mechanism.
static RIGHT: LazyLock<Vec<Right>> = LazyLock::new(|| {
    load();
    let mechanisms = [
        (c"X25519MLKEM768", 0),
        (c"ML-KEM-512", 0),
        (c"ML-KEM-768", 0),
        (c"ML-KEM-1024", 0),
        (c"SecP256r1MLKEM768", 65),
        (c"SecP384r1MLKEM1024", 97),
    ];
    mechanisms.into_iter().map(Right::new).collect()
});

fn is_hybrid(name: &CStr) -> bool {
    !name.to_bytes().starts_with(b"ML-KEM")
}

/// Whose answers are compared.
const QUERIES: [&CStr; 2] = [PROVIDERS[0]; 2];

/// Without what says where OpenSSL's own looks for other algorithms: we do not look at it.
fn changed(mut params: Params) -> Params {
    params.0.retain(|param| param.name != c"properties");
    params
}

/// A part of a key as a parameter.
fn asked(key: &Key, part: &'static CStr) -> Parameter {
    let (done, said) = key.get(&Params(vec![Parameter::octets(part, &[0; 4096])]));
    assert_eq!(done, 1);
    let (length, place) = said.split_first_chunk().expect("a length");
    Parameter::octets(part, &place[MARGIN..][..usize::from_le_bytes(*length)])
}

/// Parts of a key: all, all but the private half, no half, and the private half alone.
const SELECTIONS: [c_int; 4] = [0x87, 0x86, 0x84, 0x01];

/// What can be asked of some key or other. Not for their category: ours tell it, OpenSSL's of 3.5
/// do not.
const QUESTIONS: [&CStr; 9] = [
    c"bits",
    c"security-bits",
    c"max-size",
    c"encoded-pub-key",
    c"pub",
    c"priv",
    c"seed",
    c"group",
    c"unknown",
];

const MESSAGE: [u8; 32] = [0x35; 32];

/// Makes a key, or uses one, in one of four ways.
pub fn kem_parameters(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let right = &RIGHT[usize::from(first / 4) % RIGHT.len()];
    compare_of(QUERIES, rest, |source, query, said| match first % 4 {
        0 => imported(right, source, query, said),
        1 => generated(right, source, query, said),
        2 => encapsulated(right, (right.key(query), true), source, query, said),
        _ => decapsulated(right, right.key(query), source, query, said),
    });
}

fn imported(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let selection = source.one(&SELECTIONS);
    let params = changed(source.all_of(&right.parts, Reader::Copies));
    if params.0.iter().any(|param| right.has_forbidden_form(param.bytes())) {
        return;
    }
    let key = Key::import(right.name, query, selection, &params);
    said.note("import", key.is_some());
    let Some(mut key) = key else { return };
    said.note("bits", key.bits());
    for _ in 0..source.below(4) {
        match source.below(4) {
            0 => said.note("get", key.get(&source.questions(&QUESTIONS))),
            1 => {
                let settings = changed(source.some_of(&right.settings(), Reader::Copies));
                said.note("set", key.set(&settings));
            }
            2 => said.note("equals", key.equals(right.key(query))),
            _ => {
                let Some(copy) = key.duplicate() else { return said.note("duplicate", false) };
                key = copy;
            }
        }
    }
    encapsulated(right, (&key, true), source, query, said);
    decapsulated(right, &key, source, query, said);
}

fn generated(right: &Right, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let params = changed(source.some_of(&right.settings(), Reader::Copies));
    let (set, key) = Key::generate(right.name, query, &params);
    said.note("set", set);
    said.note("generate", key.is_some());
    let Some(key) = key else { return };
    said.note("bits", key.bits());
    said.note("equals", key.equals(right.key(query)));
    let is_from_seed = !is_hybrid(right.name) && params.has(c"seed") && set > 0;
    let (done, told) = key.get(&source.questions(&QUESTIONS));
    said.note("get", (done, is_from_seed.then_some(told)));
    encapsulated(right, (&key, is_from_seed), source, query, said);
}

/// Encapsulates for a key, which may be the same in both providers, and notes what does not depend
/// on chance.
fn encapsulated(
    right: &Right,
    (key, is_same): (&Key, bool),
    source: &mut Source<'_>,
    query: &CStr,
    said: &mut Said,
) {
    let context = KeyContext::of(key, query);
    let settings = right.settings();
    // A message of the right length makes the same of the same key.
    let is_exact = source.is_chosen() && is_same && !is_hybrid(right.name);
    let first = if is_exact {
        Params(vec![Parameter::octets(c"ikme", &MESSAGE)])
    } else {
        changed(source.some_of(&settings, Reader::Copies))
    };
    let begun = context.begin(Use::Encapsulate, &first);
    said.note("begin to encapsulate", begun);
    if begun <= 0 {
        return;
    }
    if !is_exact {
        let set = context.set(&changed(source.some_of(&settings, Reader::Copies)));
        said.note("set", set);
        if set <= 0 {
            return;
        }
    }
    let lengths = [right.ciphertext.len(), right.secret_bytes];
    let (done, made) = context.encapsulate(lengths.map(|bytes| room(source, bytes)));
    said.note("encapsulate", (done, made.each_ref().map(Vec::len), is_exact.then_some(&made)));
    if done > 0 && key.equals(right.key(query)) == 1 {
        let context = KeyContext::of(right.key(query), query);
        assert_eq!(context.begin(Use::Decapsulate, &Params::default()), 1);
        let (done, secret) = context.decapsulate(&made[0], right.secret_bytes);
        assert_eq!((done, &secret), (1, &made[1]), "the other side has the same secret");
    }
}

/// Decapsulates what was a right ciphertext.
fn decapsulated(right: &Right, key: &Key, source: &mut Source<'_>, query: &CStr, said: &mut Said) {
    let context = KeyContext::of(key, query);
    let settings = changed(source.some_of(&right.settings(), Reader::Copies));
    let begun = context.begin(Use::Decapsulate, &settings);
    said.note("begin to decapsulate", begun);
    if begun <= 0 {
        return;
    }
    let mut ciphertext = right.ciphertext.clone();
    match source.below(6) {
        0 => {}
        1 => ciphertext.truncate(ciphertext.len() - 1 - source.below(200)),
        2 => ciphertext.extend(vec![0; 1 + source.below(200)]),
        3 => ciphertext.fill([0, 0xff][source.below(2)]),
        4 => ciphertext.rotate_left(1 + source.below(200)),
        _ => {
            for _ in 0..1 + source.below(3) {
                let at = (source.below(256) << 8 | source.below(256)) % ciphertext.len();
                ciphertext[at] ^= 1 << source.below(8);
            }
        }
    }
    if right.has_forbidden_form(&ciphertext) {
        return;
    }
    let room = room(source, right.secret_bytes);
    said.note("decapsulate", context.decapsulate(&ciphertext, room));
}

/// Room for so many bytes, mostly.
fn room(source: &mut Source<'_>, bytes: usize) -> usize {
    source.one(&[bytes, bytes, bytes, bytes + 9, bytes - 1, 0])
}
