//! Key encapsulation as libssl and programs use it: secrets, bad input, and who does the work.
#![allow(unsafe_code, reason = "calls libcrypto as libssl does")]

use std::collections::HashSet;
use std::ffi::{CStr, c_int};
use std::io::{Read, Write};
use std::process::Stdio;
use std::ptr;

use openssl::error::ErrorStack;
use widelane_bridge::counters::OperationKind;
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::mlkem::{DecapsulateJob, MlKem, ParameterSet, Workspace};
use widelane_host::counters::KindCounts;
use widelane_ossl_sys::core::OsslParam;
use widelane_testkit::hex;
use widelane_testkit::rooms::{policy_here, policy_here_up_to};

use crate::common::ffi;
use crate::common::process::{in_child, prefer, setting};
use crate::common::server::Server;
use crate::common::{Place, debian_13, done};
use crate::contexts::names;
use crate::kem::{KNOWN, octets};
use crate::pkey::{Context, Key};

const OURS: &CStr = c"?provider=widelane";

/// What keys of each of [`KNOWN`] are counted as.
const GENERATED: [OperationKind; 6] = [
    OperationKind::MlKem768Generate,
    OperationKind::MlKem512Generate,
    OperationKind::MlKem768Generate,
    OperationKind::MlKem1024Generate,
    OperationKind::MlKem768Generate,
    OperationKind::MlKem1024Generate,
];

/// Where the provider of this process computes ML-KEM.
fn room() -> Room {
    MlKem::choose(ParameterSet::MlKem768, &policy_here()).room()
}

/// Whether OpenSSL has ML-KEM itself. What we have no kernels for, and what is no ciphertext, is
/// then left to it.
fn openssl_has_groups() -> bool {
    openssl::version::number() >= 0x3050_0000
}

/// Operations of a kind by whatever way.
fn times_done(place: &Place, kind: OperationKind) -> u64 {
    let ways: [fn(&KindCounts) -> u64; 4] =
        [|it| it.batched, |it| it.single, |it| it.synchronous, |it| it.delegated];
    ways.into_iter().map(|way| place.sum(|counters| way(&counters.by_kind[kind as usize]))).sum()
}

#[test]
fn both_sides_of_a_handshake_share_a_secret() {
    let (place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let before = known.kinds.map(|kind| times_done(place, kind));
        // Enough that every way of doing it has its turn.
        for _ in 0..40 {
            let client = Key::of_group(known.name, true);
            assert_eq!(client.sizes(), known.sizes);
            let share = client.public();
            let [ciphertext, secret] =
                Key::peer(known.name, &share).unwrap().encapsulate().unwrap();
            assert_eq!([share.len(), ciphertext.len(), secret.len()], known.bytes[..3]);
            assert_eq!(client.decapsulate(&ciphertext).unwrap(), secret, "{:?}", known.name);
            let mut altered = ciphertext.clone();
            altered[known.begins[1] + 7] ^= 1;
            let rejected = client.decapsulate(&altered).unwrap();
            let begin = known.begins[2];
            assert_ne!(
                rejected[begin..begin + 32],
                secret[begin..begin + 32],
                "rejected implicitly"
            );
        }
        let after = known.kinds.map(|kind| times_done(place, kind));
        assert_eq!([after[0] - before[0], after[1] - before[1]], [40, 80], "{:?}", known.name);
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

#[test]
fn parts_lie_where_the_standard_has_them() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let client = Key::of_group(known.name, true);
        let [ciphertext, secret] =
            Key::peer(known.name, &client.public()).unwrap().encapsulate().unwrap();
        let private = client.octets(c"priv");
        assert_eq!(private.len(), known.bytes[3]);
        let ml_kem = MlKem::choose(known.set, &Policy::open());
        let mut memory = Workspace::new();
        let key = &private[known.begins[2]..][..known.set.decapsulation_key_bytes()];
        let key = ml_kem.import(&mut memory, key).expect("a key of ML-KEM");
        let begin = known.begins[0];
        assert_eq!(
            client.public()[begin..begin + known.set.encapsulation_key_bytes()],
            *key.encapsulation_key()
        );
        let its = &ciphertext[known.begins[1]..][..known.set.ciphertext_bytes()];
        let mut shared = [0; 32];
        let job = DecapsulateJob::new(&key, its, &mut shared);
        ml_kem.decapsulate_batch(&mut memory, &mut [job]);
        assert_eq!(shared, secret[known.begins[2]..][..32]);
        // The private key alone makes the whole again.
        let again = Key::from(known.name, &[(c"priv", &private)]).unwrap();
        assert_eq!(again.public(), client.public());
        assert_eq!(again.decapsulate(&ciphertext).unwrap(), secret);
    }
}

#[test]
fn keys_of_clients_are_made_in_advance_and_used_once() {
    let (place, _lock) = setting();
    prefer(OURS);
    let is_batched = room() != Room::Portable;
    for (known, kind) in KNOWN.iter().zip(GENERATED) {
        let counter =
            |of: fn(&KindCounts) -> u64| place.sum(|counters| of(&counters.by_kind[kind as usize]));
        let counters = || [counter(|it| it.pooled), counter(|it| it.pool_made)];
        let before = counters();
        let make = |number: usize| -> Vec<u8> {
            (0..number).flat_map(|_| Key::of_group(known.name, true).public()).collect()
        };
        let mut publics = make(48);
        let bytes = publics.len() / 48;
        let after = counters();
        assert_eq!(after[0] > before[0], is_batched, "{:?}", known.name);
        assert!(after[0] - before[0] <= 48, "{:?}", known.name);
        assert_eq!(after[1] - before[1] >= 8, is_batched, "{:?}", known.name);
        // A child makes keys of its own, whatever its parent has left.
        let (mut from, mut to) = std::io::pipe().unwrap();
        let status = in_child(|| to.write_all(&make(12)).unwrap());
        drop(to);
        assert_eq!(status, 0);
        publics.extend(make(12));
        from.read_to_end(&mut publics).unwrap();
        let distinct: HashSet<&[u8]> = publics.chunks(bytes).collect();
        assert_eq!(distinct.len(), 72, "{:?}", known.name);
        // Each half is one's own.
        let begin = known.begins[0];
        let end = begin + known.set.encapsulation_key_bytes();
        let halves = publics.chunks(bytes).map(|public| &public[begin..end]);
        assert_eq!(halves.collect::<HashSet<_>>().len(), 72, "{:?}", known.name);
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

#[test]
fn keys_are_copied_and_compared() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let (key, other) = (Key::of_group(known.name, true), Key::of_group(known.name, true));
        // SAFETY: the key lives.
        let copy = Key(unsafe { ffi::EVP_PKEY_dup(key.0) });
        let public = Key::from(known.name, &[(c"pub", &key.public())]).unwrap();
        for (second, same) in [(&copy, 1), (&public, 1), (&other, 0)] {
            // SAFETY: both live.
            assert_eq!(unsafe { ffi::EVP_PKEY_eq(key.0, second.0) }, same);
        }
        let [ciphertext, secret] = public.encapsulate().unwrap();
        assert_eq!(copy.decapsulate(&ciphertext).unwrap(), secret);
        assert!(public.decapsulate(&ciphertext).is_err(), "there is no private half");
        assert!(Key::of_group(known.name, false).encapsulate().is_err(), "there are no halves");
        // A key that is one stays what it is.
        let share = other.public();
        // SAFETY: pointer and length belong to the vector.
        let set =
            unsafe { ffi::EVP_PKEY_set1_encoded_public_key(key.0, share.as_ptr(), share.len()) };
        assert!(set <= 0);
        drop(ErrorStack::get());
    }
}

#[test]
fn bad_shares_and_ciphertexts_are_refused_with_an_error() {
    let (place, _lock) = setting();
    prefer(OURS);
    let refused = |result: Result<(), ErrorStack>, what: &str| {
        let errors = result.expect_err(what);
        assert!(!errors.errors().is_empty(), "{what}: an error says why");
    };
    for known in KNOWN {
        let client = Key::of_group(known.name, true);
        let share = client.public();
        for length in [0, 1, 32, share.len() - 1, share.len() + 1] {
            let bytes: Vec<u8> = share.iter().copied().cycle().take(length).collect();
            refused(Key::peer(known.name, &bytes).map(drop), "a share of wrong length");
        }
        for high in known.unreduced(&share) {
            refused(Key::peer(known.name, &high).map(drop), "a coefficient of q");
        }
        let [ciphertext, _] = Key::peer(known.name, &share).unwrap().encapsulate().unwrap();
        // Of one without any bytes we are not told.
        for length in [1, ciphertext.len() - 1, ciphertext.len() + 1] {
            let bytes: Vec<u8> = ciphertext.iter().copied().cycle().take(length).collect();
            let errors = client.decapsulate(&bytes).map(drop).expect_err("of wrong length");
            // OpenSSL's own, to which we leave it, does not say why.
            assert!(openssl_has_groups() || !errors.errors().is_empty(), "{:?}", known.name);
        }
        let on_curve = known.curve_in_share(&share);
        if on_curve.is_empty() {
            continue;
        }
        // Zeros are no point of NIST's curves, and no secret of X25519.
        let mut zeros = share.clone();
        zeros[on_curve].fill(0);
        let encapsulated = Key::peer(known.name, &zeros).and_then(|peer| peer.encapsulate());
        refused(encapsulated.map(drop), "a share without a point");
        let mut zeros = ciphertext.clone();
        zeros[known.curve_in_ciphertext(&ciphertext)].fill(0);
        refused(client.decapsulate(&zeros).map(drop), "a ciphertext without a point");
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

/// As OpenSSL 3.5 does: the first part of a name counts, and one without any bytes is none.
#[test]
fn parts_that_come_twice_or_do_not_belong_together() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let [one, other] = [(); 2].map(|()| Key::of_group(known.name, true));
        let [private, others] = [&one, &other].map(|key| key.octets(c"priv"));
        let [public, others_public] = [&one, &other].map(Key::public);
        let import = |parts: &[(&'static CStr, &[u8])]| {
            Key::from(known.name, parts).map(|key| key.public()).ok()
        };
        let is_hybrid = !known.name.to_bytes().starts_with(b"MLKEM");
        let short = &private[1..];
        for rest in [&private[..], &others, short, &[]] {
            let key = import(&[(c"priv", &private), (c"priv", rest)]);
            assert_eq!(key.as_ref(), Some(&public), "{:?}", known.name);
        }
        for first in [short, &[]] {
            assert_eq!(import(&[(c"priv", first), (c"priv", &private)]), None);
        }
        let twice = import(&[(c"pub", &public), (c"pub", &others_public)]);
        assert_eq!(twice.as_ref(), Some(&public));
        for empty in [c"priv", c"seed"] {
            let key = import(&[(empty, &[]), (c"pub", &public)]);
            assert_eq!(key.as_ref(), Some(&public), "{empty:?} is empty");
        }
        let key = import(&[(c"pub", &[]), (c"priv", &private)]);
        assert_eq!(key.as_ref(), Some(&public));
        let mixed = import(&[(c"pub", &others_public), (c"priv", &private)]);
        assert_eq!(mixed.is_some(), is_hybrid, "{:?} with another's public key", known.name);
    }
}

/// Its check sums are right, and what is encapsulated to its public half does not come out.
#[test]
fn a_private_key_that_is_damaged_is_refused() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let key = Key::of_group(known.name, true);
        let mut private = key.octets(c"priv");
        assert!(Key::from(known.name, &[(c"priv", &private)]).is_ok(), "{:?}", known.name);
        private[known.begins[2] + 3] ^= 1;
        let errors = Key::from(known.name, &[(c"priv", &private)]).map(drop).expect_err("damaged");
        assert!(!errors.errors().is_empty(), "{:?}: an error says why", known.name);
    }
}

/// As OpenSSL 3.5 does: of hybrids it has no check.
#[test]
fn keys_are_checked() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let whole = Key::of_group(known.name, true);
        let public = Key::from(known.name, &[(c"pub", &whole.public())]).unwrap();
        let empty = Key::of_group(known.name, false);
        let is_hybrid = !known.name.to_bytes().starts_with(b"MLKEM");
        let has = [(&whole, [true; 2]), (&public, [true, false]), (&empty, [false; 2])];
        for (key, [has_public, has_private]) in has {
            let context = Context::of(key);
            // SAFETY: the context lives.
            let pair = unsafe { ffi::EVP_PKEY_pairwise_check(context.0) };
            assert_eq!(pair == 1, is_hybrid || has_private, "{:?}", known.name);
            // SAFETY: as above.
            let half = unsafe { ffi::EVP_PKEY_public_check(context.0) };
            assert_eq!(half == 1, is_hybrid || has_public, "{:?}", known.name);
        }
        drop(ErrorStack::get());
    }
}

#[test]
fn vectors_of_nist_come_out_through_libcrypto() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for line in include_str!("../../../../vectors/nist/ml-kem.txt").lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let names = [c"ML-KEM-512", c"ML-KEM-768", c"ML-KEM-1024"];
        let is_meant = |name: &&CStr| name.to_str().unwrap().ends_with(&format!("-{}", fields[1]));
        let name = names.into_iter().find(is_meant).expect("a parameter set");
        assert!(is_right(name, fields[0], &fields[2..]), "{}", &line[..40]);
        drop(ErrorStack::get());
    }
}

#[test]
fn a_given_message_makes_one_secret_whoever_makes_it() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for name in [c"ML-KEM-512", c"ML-KEM-768", c"ML-KEM-1024"] {
        let key = Key::from_seed(name, &[3; 64]).expect("a key");
        let from = [octets(c"ikme", &[5; 32]), OsslParam::END];
        let first = key.encapsulate_from(&from).expect("a secret");
        // Enough that every way of doing it has its turn, the default provider's too.
        for _ in 0..40 {
            assert_eq!(key.encapsulate_from(&from).expect("a secret"), first, "{name:?}");
        }
    }
}

#[test]
fn contexts_are_copied_with_all_that_they_have() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let key = Key::of_group(known.name, true);
        let peer = Key::peer(known.name, &key.public()).expect("a peer");
        let [ciphertext, secret] = peer.encapsulate().expect("a secret");
        let context = Context::of(&key);
        // SAFETY: the context lives.
        assert_eq!(unsafe { ffi::EVP_PKEY_decapsulate_init(context.0, ptr::null()) }, 1);
        let copy = context.duplicate();
        drop((context, key));
        assert_eq!(copy.decapsulate(&ciphertext).expect("a secret"), secret, "{:?}", known.name);
    }
    for name in [c"ML-KEM-512", c"ML-KEM-768", c"ML-KEM-1024"] {
        let key = Key::from_seed(name, &[3; 64]).expect("a key");
        let from = [octets(c"ikme", &[5; 32]), OsslParam::END];
        let context = Context::of(&key);
        // SAFETY: the context lives; the array has an end.
        assert_eq!(unsafe { ffi::EVP_PKEY_encapsulate_init(context.0, from.as_ptr()) }, 1);
        let copy = context.duplicate();
        let made = [&context, &copy].map(|context| context.encapsulate().expect("a secret"));
        assert_eq!(made[0], made[1], "{name:?}: one message");
        assert_ne!(copy.encapsulate().expect("a secret"), made[0], "{name:?}: it serves once");
    }
}

#[test]
fn a_given_message_serves_once_whatever_comes_of_it() {
    let (_place, _lock) = setting();
    prefer(OURS);
    let nowhere = ptr::null_mut();
    for name in [c"ML-KEM-512", c"ML-KEM-768", c"ML-KEM-1024"] {
        let key = Key::from_seed(name, &[3; 64]).expect("a key");
        let from = [octets(c"ikme", &[5; 32]), OsslParam::END];
        let first = key.encapsulate_from(&from).expect("a secret");
        for missing in [[1, 0], [0, 1]] {
            let context = Context::of(&key);
            // SAFETY: the context lives; the array has an end.
            assert_eq!(unsafe { ffi::EVP_PKEY_encapsulate_init(context.0, from.as_ptr()) }, 1);
            let encapsulate = |missing: [usize; 2]| {
                let [mut ciphertext, mut secret] = first.each_ref().map(|part| vec![0; part.len()]);
                let (place, secret_place) = (ciphertext.as_mut_ptr(), secret.as_mut_ptr());
                let (mut length, mut secret_length) =
                    (ciphertext.len() - missing[0], secret.len() - missing[1]);
                let (length, secret_length) = (&mut length, &mut secret_length);
                // SAFETY: pointers and lengths belong to the vectors.
                let done = unsafe {
                    ffi::EVP_PKEY_encapsulate(context.0, place, length, secret_place, secret_length)
                };
                drop(ErrorStack::get());
                (done > 0).then_some([ciphertext, secret])
            };
            let mut length = 0;
            // SAFETY: only a length is asked for.
            let asked = unsafe {
                ffi::EVP_PKEY_encapsulate(context.0, nowhere, &mut length, nowhere, ptr::null_mut())
            };
            assert_eq!((asked, length), (1, first[0].len()));
            assert_eq!(encapsulate(missing), None, "there is too little room");
            let second = encapsulate([0, 0]).expect("a secret");
            assert!(second != first, "{name:?}: the message has served");
        }
    }
}

/// Whether what comes out is what a line says.
fn is_right(name: &CStr, kind: &str, fields: &[&str]) -> bool {
    match (kind, fields) {
        ("generate", [seed, public, private]) => {
            let seed = hex::decode(seed);
            let key = Key::from_seed(name, &seed).expect("a key");
            assert_eq!(key.octets(c"seed"), seed);
            let both = Key::from(name, &[(c"seed", &seed), (c"priv", &key.octets(c"priv"))]);
            assert_eq!(both.expect("the same key").public(), key.public());
            digest(&key.public()) == *public && digest(&key.octets(c"priv")) == *private
        }
        ("encapsulate", [key, message, ciphertext, secret]) => {
            let key = Key::from(name, &[(c"pub", &hex::decode(key))]).expect("a key");
            let message = hex::decode(message);
            let from = [octets(c"ikme", &message), OsslParam::END];
            let made = key.encapsulate_from(&from).expect("a secret");
            digest(&made[0]) == *ciphertext && made[1] == hex::decode(secret)
        }
        ("decapsulate", [key, ciphertext, secret]) => {
            let key = Key::from(name, &[(c"priv", &hex::decode(key))]).expect("a key");
            key.decapsulate(&hex::decode(ciphertext)).expect("a secret") == hex::decode(secret)
        }
        ("check-encapsulation", [key, passed]) => {
            Key::from(name, &[(c"pub", &hex::decode(key))]).is_ok() == (*passed == "true")
        }
        ("check-decapsulation", [key, passed]) => {
            Key::from(name, &[(c"priv", &hex::decode(key))]).is_ok() == (*passed == "true")
        }
        _ => panic!("no kind of test {kind}"),
    }
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(&openssl::sha::sha256(bytes))
}

#[test]
fn rooms_that_the_policy_closes_stay_closed() {
    for width in [Width::W128, Width::W256, Width::W512] {
        let place = Place::new();
        done(&mut place.ours("openssl genpkey -quiet -algorithm RSA -out key.pem"));
        done(&mut place.ours("openssl req -x509 -key key.pem -subj /CN=localhost -out root.pem"));
        let mut server = place.ours(
            "openssl s_server -accept 127.0.0.1:0 -cert root.pem -key key.pem -www \
             -groups MLKEM768",
        );
        server.env("WIDELANE_MAX_SIMD_BITWIDTH", width.bits().to_string());
        let server = Server::start(&mut server);
        place.forget_counters();
        // Enough for every way of doing it to have its turn.
        for _ in 0..12 {
            let mut client = place.ours(&format!(
                "openssl s_client -connect 127.0.0.1:{} -brief -groups MLKEM768",
                server.port
            ));
            client.env_remove("WIDELANE_COUNTERS_DIR");
            done(client.stdin(Stdio::null()));
        }
        let room = MlKem::choose(ParameterSet::MlKem768, &policy_here_up_to(width)).room();
        let is_offered = room != Room::Portable || !openssl_has_groups();
        let kind = OperationKind::MlKem768Encapsulate;
        let runs = place.sum(|counters| counters.by_kind[kind as usize].runs);
        let in_room = place.sum(|counters| counters.runs_by_room[room as usize]);
        assert_eq!(runs > 0, room != Room::Portable, "{width:?}");
        assert!(in_room >= runs, "{width:?}: {in_room} of {runs} runs in {}", room.name());
        assert_eq!(times_done(&place, kind), if is_offered { 12 } else { 0 });
    }
}

#[test]
fn every_group_shakes_hands_with_openssl_as_it_is() {
    let place = Place::new();
    done(&mut place.ours("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    done(&mut place.ours("openssl req -x509 -key key.pem -subj /CN=localhost -out root.pem"));
    for options in ["", "-async"] {
        for known in &KNOWN {
            let group = known.name.to_str().unwrap();
            let server = Server::start(&mut place.ours(&format!(
                "openssl s_server -accept 127.0.0.1:0 -cert root.pem -key key.pem -www \
                 -groups {group}:X25519 {options}"
            )));
            let client = |group: &str| {
                let mut client = place.ours(&format!(
                    "openssl s_client -connect 127.0.0.1:{} -CAfile root.pem -brief -tls1_3 \
                     -groups {group}",
                    server.port
                ));
                let said = done(client.stdin(Stdio::null()));
                assert!(said.contains("Verification: OK"), "{group}, {options}: {said}");
            };
            client(group);
            // A client that offers the group without a share for it is asked for one.
            client(&format!("X448:{group}"));
            client("X25519");
        }
    }
    for [encapsulate, decapsulate] in KNOWN.map(|known| known.kinds) {
        let counts = [encapsulate, decapsulate].map(|kind| times_done(&place, kind));
        assert_eq!(counts, [4, 4], "{}", encapsulate.name());
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

#[test]
fn openssl_with_groups_of_its_own_agrees_with_us() {
    const SHARED: &str = "-tls1_3 -psk 0123456789abcdef0123456789abcdef -groups";
    let place = Place::new();
    for known in &KNOWN {
        let group = known.name.to_str().unwrap();
        let server = format!("s_server -accept 127.0.0.1:0 -nocert -www {SHARED} {group}");
        for ours_is_server in [true, false] {
            let Some(mut theirs) = debian_13::openssl(&server) else {
                eprintln!("{}", debian_13::LEFT_OUT);
                return;
            };
            let server = if ours_is_server {
                Server::start(&mut place.ours(&format!("openssl {server}")))
            } else {
                Server::start(&mut theirs)
            };
            let client =
                format!("s_client -connect 127.0.0.1:{} -brief {SHARED} {group}", server.port);
            let mut client = if ours_is_server {
                debian_13::openssl(&client).expect("it was there")
            } else {
                place.ours(&format!("openssl {client}"))
            };
            let said = done(client.stdin(Stdio::null()));
            assert!(said.contains("Protocol version: TLSv1.3"), "{group}: {said}");
        }
        assert_eq!(known.kinds.map(|kind| times_done(&place, kind)), [1, 1], "{group}");
    }
}

/// As OpenSSL 3.5 has it.
#[test]
fn hybrids_answer_and_take_less_than_ml_kem() {
    let (_place, _lock) = setting();
    prefer(OURS);
    for known in KNOWN {
        let is_hybrid = known.begins[2] > 0 || known.bytes[2] > 32;
        let key = Key::of_group(known.name, true);
        let context = Context::of(&key);
        // SAFETY: the context lives.
        assert_eq!(unsafe { ffi::EVP_PKEY_encapsulate_init(context.0, ptr::null()) }, 1);
        // SAFETY: the key lives.
        let told = unsafe { ffi::EVP_PKEY_gettable_params(key.0) };
        // SAFETY: the context lives.
        let taken = unsafe { ffi::EVP_PKEY_CTX_settable_params(context.0) };
        let [told, taken] = [told, taken].map(|list| names(list).unwrap_or_default());
        let has = |list: &[String], name: &str| list.iter().any(|it| it == name);
        assert!(has(&told, "encoded-pub-key") && has(&told, "priv"), "{:?}", known.name);
        assert_eq!(has(&told, "pub"), !is_hybrid, "{:?}", known.name);
        assert_eq!(has(&told, "seed"), !is_hybrid, "{:?}", known.name);
        assert_eq!(has(&taken, "ikme"), !is_hybrid, "{:?}", known.name);
        let (mut length, mut room) = (0, vec![0; known.bytes[0]]);
        let (place, size) = (room.as_mut_ptr(), room.len());
        let ask = |name: &CStr, size, length: &mut usize| {
            // SAFETY: the key lives; there is room for so many bytes.
            unsafe {
                ffi::EVP_PKEY_get_octet_string_param(key.0, name.as_ptr(), place, size, length)
            }
        };
        assert_eq!(ask(c"pub", size, &mut length), c_int::from(!is_hybrid), "{:?}", known.name);
        assert_eq!(ask(c"encoded-pub-key", 7, &mut length), 0, "{:?}", known.name);
        assert_eq!(ErrorStack::get().errors().is_empty(), !is_hybrid, "{:?}", known.name);
    }
}
