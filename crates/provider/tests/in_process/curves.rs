//! Ephemeral keys as libssl uses them: secrets, errors, threads and forks.
#![allow(unsafe_code, reason = "calls libcrypto as libssl does")]

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::ptr;
use std::thread;
use std::time::Duration;

use openssl::error::ErrorStack;
use widelane_bridge::counters::OperationKind;
use widelane_host::counters::Counts;
use widelane_ossl_sys::core::OsslParam;
use widelane_testkit::hex;
use widelane_testkit::rooms::{has_lanes_of_curves, has_x25519};

use crate::common::ffi;
use crate::common::process::{grown, in_child, prefer, setting};
use crate::pkey::{Context, Key, good};

const OURS: &CStr = c"?provider=widelane";
const THEIRS: &CStr = c"provider=default";

/// Algorithm and group, as libssl names them.
const GROUPS: [(&CStr, &CStr, Option<OperationKind>); 5] = [
    (c"X25519", c"X25519", Some(OperationKind::X25519Generate)),
    (c"EC", c"prime256v1", Some(OperationKind::P256Generate)),
    (c"EC", c"secp384r1", Some(OperationKind::P384Generate)),
    (c"EC", c"secp521r1", None),
    (c"X448", c"X448", None),
];

impl Key {
    fn generate(algorithm: &CStr, group: &CStr) -> Self {
        Key::make(algorithm, group, true).expect("a key is generated")
    }

    /// The peer's key of a handshake in TLS 1.2, whose parameters are those of ours.
    fn with_public(&self, encoded: &[u8]) -> Result<Self, ErrorStack> {
        // SAFETY: no arguments.
        let peer = Key(unsafe { ffi::EVP_PKEY_new() });
        // SAFETY: both keys live.
        good(unsafe { ffi::EVP_PKEY_copy_parameters(peer.0, self.0) })?;
        peer.take(encoded)
    }

    fn encoded(&self) -> Vec<u8> {
        let mut bytes = ptr::null_mut();
        // SAFETY: the key lives.
        let length = unsafe { ffi::EVP_PKEY_get1_encoded_public_key(self.0, &mut bytes) };
        assert!(length > 0, "a key has a public half");
        // SAFETY: libcrypto has written so many bytes.
        let public = unsafe { std::slice::from_raw_parts(bytes, length) }.to_vec();
        // SAFETY: allocated by libcrypto, freed once.
        unsafe { ffi::CRYPTO_free(bytes.cast(), c"".as_ptr(), 0) };
        public
    }

    /// As `ssl_derive` does.
    fn derive(&self, peer: &Key) -> Result<Vec<u8>, ErrorStack> {
        let context = Context::of(self);
        // SAFETY: the context lives.
        good(unsafe { ffi::EVP_PKEY_derive_init(context.0) })?;
        // SAFETY: as above, and the peer.
        good(unsafe { ffi::EVP_PKEY_derive_set_peer(context.0, peer.0) })?;
        let mut length = 0;
        // SAFETY: only the length is asked for.
        good(unsafe { ffi::EVP_PKEY_derive(context.0, ptr::null_mut(), &mut length) })?;
        let mut secret = vec![0; length];
        // SAFETY: pointer and length belong to the vector.
        good(unsafe { ffi::EVP_PKEY_derive(context.0, secret.as_mut_ptr(), &mut length) })?;
        secret.truncate(length);
        Ok(secret)
    }

    /// Whether it signs a digest.
    fn signs(&self) -> bool {
        let context = Context::of(self);
        let (digest, mut signature, mut length) = ([7; 32], [0; 128], 128);
        // SAFETY: the context lives.
        let begun = unsafe { ffi::EVP_PKEY_sign_init_ex(context.0, ptr::null()) } > 0;
        let (place, from) = (signature.as_mut_ptr(), digest.as_ptr());
        // SAFETY: as above; pointers and lengths belong to the arrays.
        let signed =
            unsafe { ffi::EVP_PKEY_sign(context.0, place, &mut length, from, digest.len()) };
        drop(ErrorStack::get());
        begun && signed > 0
    }

    /// A parameter that is a text.
    fn text(&self, name: &CStr) -> String {
        let (mut text, mut length) = ([0_u8; 32], 0);
        let (name, place) = (name.as_ptr(), text.as_mut_ptr().cast());
        // SAFETY: the key lives; pointer and length belong to the array.
        let told = unsafe {
            ffi::EVP_PKEY_get_utf8_string_param(self.0, name, place, text.len(), &mut length)
        };
        assert_eq!(told, 1);
        String::from_utf8_lossy(&text[..length]).into_owned()
    }
}

/// Runs `attempt` by our provider and by the default one: both give the same, or the same error.
fn same(what: &str, attempt: impl Fn() -> Result<Vec<u8>, ErrorStack>) {
    let reasons = |errors: ErrorStack| -> Vec<_> {
        let reason = |error: &openssl::error::Error| (error.library_code(), error.reason_code());
        errors.errors().iter().map(reason).collect()
    };
    let [theirs, ours] = [THEIRS, OURS].map(|query| {
        prefer(query);
        drop(ErrorStack::get());
        let result = attempt().map_err(reasons);
        assert!(ErrorStack::get().errors().is_empty(), "{what}: an error is left over");
        result
    });
    assert_eq!(ours, theirs, "{what}");
}

#[test]
fn secrets_are_those_of_the_default_provider() {
    let (_place, _lock) = setting();
    // More than make a batch worth while, and few enough to be made one by one.
    for round in 0..24 {
        for (algorithm, group, _) in GROUPS {
            prefer(OURS);
            let mine = Key::generate(algorithm, group);
            prefer(THEIRS);
            let yours = Key::generate(algorithm, group);
            let secret = yours.derive(&yours.with_public(&mine.encoded()).unwrap()).unwrap();
            prefer(OURS);
            assert_eq!(mine.derive(&mine.with_public(&yours.encoded()).unwrap()).unwrap(), secret);
            // TLS 1.3 makes the peer's key of the group alone.
            let peer = Key::make(algorithm, group, false).unwrap().take(&yours.encoded()).unwrap();
            assert_eq!(mine.derive(&peer).unwrap(), secret, "{group:?}, {round}");
            assert_eq!(mine.sizes(), yours.sizes());
        }
    }
}

#[test]
fn a_peer_may_be_asked_before_it_has_its_key() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for (algorithm, group, _) in GROUPS {
        let (mine, yours) = (Key::generate(algorithm, group), Key::generate(algorithm, group));
        let secret = mine.derive(&mine.with_public(&yours.encoded()).unwrap()).unwrap();
        let peer = Key::make(algorithm, group, false).unwrap();
        // No such parameter exists: the default provider is asked about a key without halves.
        let mut value = 0;
        // SAFETY: the key lives, and the name is a C string.
        unsafe { ffi::EVP_PKEY_get_int_param(peer.0, c"unheard-of".as_ptr(), &mut value) };
        drop(ErrorStack::get());
        let peer = peer.take(&yours.encoded()).unwrap();
        assert_eq!(peer.encoded(), yours.encoded(), "{group:?}");
        assert_eq!(mine.derive(&peer).unwrap(), secret, "{group:?}");
    }
}

#[test]
fn a_key_that_we_hold_is_what_the_default_provider_makes_of_it() {
    let (place, _lock) = setting();
    prefer(OURS);
    for (algorithm, group, kind) in GROUPS {
        let pooled = || match kind {
            Some(kind) => place.sum(move |counters| counters.by_kind[kind as usize].pooled),
            None => 0,
        };
        let before = pooled();
        let keys: Vec<_> = (0..32).map(|_| Key::generate(algorithm, group)).collect();
        let has_kernels = if group == c"X25519" { has_x25519() } else { has_lanes_of_curves() };
        assert_eq!(pooled() > before, has_kernels && kind.is_some(), "{group:?}");
        let key = keys.last().expect("32 keys");
        // SAFETY: the key lives.
        let copy = Key(unsafe { ffi::EVP_PKEY_dup(key.0) });
        // SAFETY: both live.
        assert_eq!(unsafe { ffi::EVP_PKEY_eq(key.0, copy.0) }, 1);
        // SAFETY: as above.
        assert_eq!(unsafe { ffi::EVP_PKEY_eq(key.0, keys[0].0) }, 0);
        assert_eq!(copy.encoded(), key.encoded());
        // SAFETY: the context lives.
        assert_eq!(unsafe { ffi::EVP_PKEY_check(Context::of(key).0) }, 1);
        // SAFETY: the name is asked for alone, if there is one.
        let named = unsafe { ffi::EVP_PKEY_get_group_name(key.0, ptr::null_mut(), 0, &mut 0) };
        assert_eq!(named == 1, algorithm == c"EC");
        // `pub` is not answered by ourselves.
        let (mut public, mut length) = ([0; 160], 0);
        // SAFETY: pointer and length belong to the array.
        let told = unsafe {
            ffi::EVP_PKEY_get_octet_string_param(
                key.0,
                c"pub".as_ptr(),
                public.as_mut_ptr(),
                public.len(),
                &mut length,
            )
        };
        assert_eq!((told, &public[..length]), (1, &key.encoded()[..]));
        let copy_secret = copy.derive(&copy.with_public(&keys[0].encoded()).unwrap()).unwrap();
        assert_eq!(key.derive(&key.with_public(&keys[0].encoded()).unwrap()).unwrap(), copy_secret);
    }
}

#[test]
fn bad_input_gives_the_same_errors() {
    let (_place, _lock) = setting();
    prefer(THEIRS);
    let publics: Vec<_> = GROUPS
        .iter()
        .map(|(algorithm, group, _)| Key::generate(algorithm, group).encoded())
        .collect();
    for ((algorithm, group, _), public) in GROUPS.iter().zip(&publics) {
        let peer_is = |bytes: Vec<u8>| {
            let attempt = || {
                let mine = Key::generate(algorithm, group);
                let peer = mine.with_public(&bytes)?;
                // The secret is of a fresh key: only whether there is one can be the same.
                mine.derive(&peer).map(|secret| vec![secret.len() as u8])
            };
            same(&format!("{group:?}, peer {bytes:02x?}"), attempt);
        };
        peer_is(public.clone());
        for length in [0, 1, 31, 32, 33, 64, 66, 96, 98] {
            peer_is(public.iter().copied().cycle().take(length).collect());
        }
        for other in &publics {
            peer_is(other.clone());
        }
        for index in [0, 1, public.len() / 2, public.len() - 1] {
            let mut bytes = public.clone();
            bytes[index] ^= 1;
            if *algorithm == c"EC" {
                peer_is(bytes);
            }
        }
        // Infinity, and the compressed and hybrid forms.
        peer_is(vec![0]);
        let coordinate = (public.len() - 1) / 2;
        let parity = public[public.len() - 1] & 1;
        peer_is([&[2 + parity], &public[1..1 + coordinate]].concat());
        peer_is([&[6 + parity], &public[1..]].concat());
        peer_is([&[7 - parity], &public[1..]].concat());
        // Coordinates above the prime of the field.
        peer_is([&public[..1], &vec![0xff; public.len() - 1]].concat());
    }
    for low_order in LOW_ORDER {
        let attempt = || {
            let mine = Key::generate(c"X25519", c"X25519");
            mine.derive(&mine.with_public(&low_order)?)
        };
        same(&format!("low order {low_order:02x?}"), attempt);
    }
    same("a peer of another group", || {
        let mine = Key::generate(c"EC", c"prime256v1");
        mine.derive(&Key::generate(c"EC", c"secp384r1"))
    });
    same("a peer of another algorithm", || {
        let mine = Key::generate(c"X25519", c"X25519");
        mine.derive(&Key::generate(c"EC", c"secp384r1"))
    });
    for group in [c"no-such-curve", c"X25519", c""] {
        same("an unknown curve", || Key::make(c"EC", group, true).map(|key| key.encoded()));
    }
    same("another name of X25519", || {
        Key::make(c"X25519", c"P-256", true).map(|key| key.encoded())
    });
}

#[test]
fn private_keys_out_of_range_give_the_same_errors() {
    let (place, _lock) = setting();
    let fallbacks = |counters: &Counts| counters.fallbacks;
    let before = place.sum(fallbacks);
    let mut order = hex::decode("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
    order.reverse();
    let mut last = order.clone();
    last[0] -= 1;
    let (mut one, mut next) = (vec![0; 32], order.clone());
    one[0] = 1;
    next[0] += 1;
    for private in [vec![0; 32], one, last, order, next, vec![0xff; 32], vec![0xff; 40]] {
        prefer(THEIRS);
        let public = Key::generate(c"EC", c"prime256v1").encoded();
        let attempt = || {
            let key = from_data(Some(&private), &public)?;
            // SAFETY: the context lives.
            let checked = unsafe { ffi::EVP_PKEY_check(Context::of(&key).0) };
            drop(ErrorStack::get());
            let peer = key.with_public(&public)?;
            // Often enough that each way of doing it has its turn.
            let mut signed = [(); 12].map(|()| u8::from(key.signs()));
            signed[0] = checked as u8;
            for _ in 0..12 {
                drop(key.derive(&peer));
                drop(ErrorStack::get());
            }
            Ok([&signed, &key.derive(&peer)?[..]].concat())
        };
        same(&format!("private key {private:02x?}"), attempt);
    }
    assert_eq!(place.sum(fallbacks) - before, 0, "what is no key is in nobody's batch");
}

/// Of keys of ours, and of keys that the default provider has made for us.
#[test]
fn copies_keep_what_is_set_of_keys_and_their_curve() {
    let (_place, _lock) = setting();
    let settings = [(c"point-format", c"compressed"), (c"encoding", c"explicit")];
    let groups = [c"prime256v1", c"secp384r1"];
    for ((name, value), group) in settings.into_iter().flat_map(|it| groups.map(|one| (it, one))) {
        let values = [THEIRS, OURS].map(|query| {
            prefer(query);
            // Often enough that each way of making keys has its turn.
            [(); 12].map(|()| {
                let key = Key::generate(c"EC", group);
                let (name_text, value) = (name.as_ptr(), value.as_ptr());
                // SAFETY: the key lives, and these are C strings.
                let set = unsafe { ffi::EVP_PKEY_set_utf8_string_param(key.0, name_text, value) };
                assert_eq!(set, 1);
                // SAFETY: no arguments.
                let parameters = Key(unsafe { ffi::EVP_PKEY_new() });
                // SAFETY: both keys live.
                assert_eq!(unsafe { ffi::EVP_PKEY_copy_parameters(parameters.0, key.0) }, 1);
                // SAFETY: the key lives.
                let copy = Key(unsafe { ffi::EVP_PKEY_dup(key.0) });
                [&key, &parameters, &copy].map(|key| key.text(name))
            })
        });
        assert_eq!(values[0], values[1], "{name:?}, {group:?}");
    }
}

#[test]
fn halves_of_keys_are_the_same_to_us_as_to_the_default_provider() {
    let (_place, _lock) = setting();
    prefer(THEIRS);
    let [public, another] = [(); 2].map(|()| Key::generate(c"EC", c"prime256v1").encoded());
    let off_the_curve = [&public[..64], &[public[64] ^ 1]].concat();
    let compressed = [&[2 + (public[64] & 1)], &public[1..33]].concat();
    let publics = [another, off_the_curve, compressed, public[..64].to_vec(), vec![0]];
    let compared = |other: &[u8]| {
        let (half, other) = (from_data(None, &public)?, from_data(None, other)?);
        let whole = from_data(Some(&[1; 32]), &public)?;
        let pairs = [(&half, &whole), (&whole, &half), (&half, &half), (&other, &whole)];
        // SAFETY: all of them live.
        Ok(pairs.map(|(one, two)| unsafe { ffi::EVP_PKEY_eq(one.0, two.0) } as u8).to_vec())
    };
    for other in publics {
        same(&format!("public key {other:02x?}"), || compared(&other));
    }
    prefer(OURS);
    assert_eq!(compared(&public).unwrap(), [1; 4]);
}

/// A key on P-256 of numbers; the private one is in the machine's byte order.
fn from_data(private: Option<&[u8]>, public: &[u8]) -> Result<Key, ErrorStack> {
    let param = |key: &'static CStr, data_type, data: &[u8]| {
        OsslParam::new(key, data_type, data.as_ptr().cast_mut().cast(), data.len())
    };
    let mut params = [
        // OpenSSL reads it up to its NUL.
        param(c"group", 4, b"prime256v1\0"),
        param(c"pub", 5, public),
        OsslParam::END,
        OsslParam::END,
    ];
    if let Some(private) = private {
        params[2] = param(c"priv", 2, private);
    }
    let context = Context::named(c"EC");
    // SAFETY: the context lives.
    good(unsafe { ffi::EVP_PKEY_fromdata_init(context.0) })?;
    let mut key = ptr::null_mut();
    // SAFETY: as above; the array has an end.
    good(unsafe { ffi::EVP_PKEY_fromdata(context.0, &mut key, 0x87, params.as_mut_ptr()) })?;
    Ok(Key(key))
}

#[test]
fn no_key_is_handed_out_twice_by_threads() {
    let (place, _lock) = setting();
    prefer(OURS);
    let mut publics = HashSet::new();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(|| {
                let keys = GROUPS.iter().flat_map(|(algorithm, group, _)| {
                    (0..30).map(|_| Key::generate(algorithm, group).encoded())
                });
                keys.collect::<Vec<_>>()
            })
        })
        .collect();
    for public in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        assert!(publics.insert(public), "two threads got the same key");
    }
    assert_eq!(publics.len(), 8 * 5 * 30);
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

#[test]
fn no_key_of_a_parent_is_handed_out_by_a_child() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for (algorithm, group, _) in GROUPS {
        let make = |number: usize| -> Vec<u8> {
            (0..number).flat_map(|_| Key::generate(algorithm, group).encoded()).collect()
        };
        // Whatever is left in the store after so many, one of these forks finds most of a batch.
        for spent in 0..9 {
            make(8 + spent);
            let mut ends = [0; 2];
            // SAFETY: room for two descriptors.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            // SAFETY: new descriptors that nobody else has.
            let [mut from, mut to] = ends.map(|end| unsafe { File::from_raw_fd(end) });
            let status = in_child(|| {
                let first = make(20);
                let grandchild = in_child(|| {
                    to.write_all(&make(20)).unwrap();
                });
                assert_eq!(grandchild, 0);
                to.write_all(&first).unwrap();
            });
            drop(to);
            assert_eq!(status, 0);
            let mut publics = make(20);
            let bytes = publics.len() / 20;
            from.read_to_end(&mut publics).unwrap();
            let distinct: HashSet<&[u8]> = publics.chunks(bytes).collect();
            assert_eq!((publics.len(), distinct.len()), (60 * bytes, 60), "{group:?}");
        }
    }
}

#[test]
fn keys_that_nobody_wants_expire() {
    let (place, _lock) = setting();
    prefer(OURS);
    let before = place.sum(pool_expired);
    for spent in 0..2 {
        for _ in 0..9 + spent {
            Key::generate(c"X25519", c"X25519");
        }
        thread::sleep(Duration::from_millis(1100));
    }
    Key::generate(c"X25519", c"X25519");
    assert_eq!(grown(place, before, pool_expired) > 0, has_lanes_of_curves());
}

fn pool_expired(counters: &Counts) -> u64 {
    counters.by_kind[OperationKind::X25519Generate as usize].pool_expired
}

/// Points that every private key of X25519 takes to zero: of order 1, 2, 4 and 8, and such that are
/// not reduced.
const LOW_ORDER: [[u8; 32]; 7] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    top(0xec),
    top(0xed),
    top(0xee),
];

/// A number near the prime of the field: only the lowest byte differs.
const fn top(lowest: u8) -> [u8; 32] {
    let mut bytes = [0xff; 32];
    bytes[0] = lowest;
    bytes[31] = 0x7f;
    bytes
}
