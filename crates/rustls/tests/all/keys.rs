//! Private keys in every form, and what is none.

use openssl::pkey::PKey;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::sign::SigningKey;
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;

use crate::common::{Kind, ours};

fn load(key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
    ours().key_provider.load_private_key(key)
}

fn pkcs8(bytes: &[u8]) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(bytes.to_vec()))
}

/// The key in the form that only its algorithm has.
fn own_form(kind: Kind) -> Option<Vec<u8>> {
    let key = &kind.identity().key;
    match kind {
        Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096 => {
            Some(key.rsa().expect("RSA").private_key_to_der().expect("PKCS #1"))
        }
        Kind::P256 | Kind::P384 => {
            Some(key.ec_key().expect("ECDSA").private_key_to_der().expect("SEC 1"))
        }
        Kind::Ed25519 => None,
    }
}

#[test]
fn every_form_is_read() {
    for kind in Kind::ALL {
        let identity = kind.identity();
        let mut forms = vec![identity.pkcs8()];
        forms.extend(own_form(kind).map(|bytes| match kind.is_rsa() {
            true => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(bytes)),
            false => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(bytes)),
        }));
        let public = identity.key.public_key_to_der().expect("a public key");
        for form in forms {
            let key = load(form).expect("a key");
            assert_eq!(key.public_key().expect("a public key").as_ref(), public, "{kind:?}");
            let expected = match kind {
                Kind::P256 | Kind::P384 => SignatureAlgorithm::ECDSA,
                Kind::Ed25519 => SignatureAlgorithm::ED25519,
                _ => SignatureAlgorithm::RSA,
            };
            assert_eq!(key.algorithm(), expected);
            assert!(key.choose_scheme(&[SignatureScheme::ECDSA_NISTP521_SHA512]).is_none());
        }
    }
}

#[test]
fn a_key_in_the_wrong_form_is_refused() {
    let rsa = own_form(Kind::Rsa2048).expect("PKCS #1");
    let ec = own_form(Kind::P256).expect("SEC 1");
    let ed25519 = Kind::Ed25519.identity().key.private_key_to_pkcs8().expect("PKCS #8");
    for key in [
        PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(ec.clone())),
        PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(rsa.clone())),
        PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(ed25519.clone())),
        pkcs8(&rsa),
        pkcs8(&ec),
    ] {
        let error = load(key).expect_err("another form").to_string();
        assert!(error.contains("is not well-formed"), "{error}");
    }
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let unknown = [
        PKey::generate_ed448().expect("a key"),
        PKey::from_rsa(openssl::rsa::Rsa::generate(1024).expect("a key")).expect("a key"),
    ];
    let errors = unknown.map(|key| {
        let bytes = key.private_key_to_pkcs8().expect("PKCS #8");
        load(pkcs8(&bytes)).expect_err("another kind").to_string()
    });
    assert!(errors[0].contains("another kind than RSA, P-256, P-384 and Ed25519"), "{}", errors[0]);
    assert!(errors[1].contains("1024 bits"), "{}", errors[1]);
}

#[test]
fn a_refusal_tells_what_the_key_is() {
    use openssl::ec::{EcGroup, EcKey};
    use openssl::nid::Nid;
    for curve in [Nid::SECP521R1, Nid::SECP256K1, Nid::SECP224R1] {
        let group = EcGroup::from_curve_name(curve).expect("a curve");
        let sec1 = EcKey::generate(&group).expect("a key").private_key_to_der().expect("SEC 1");
        let key = PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(sec1));
        let error = load(key).expect_err("another curve").to_string();
        assert!(error.contains("another curve than P-256 and P-384"), "{error}");
    }

    let (_, pkcs1) = parts(Kind::Rsa2048);
    let pss = b"\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
    let error = load(joined(0, pss, &pkcs1, &[])).expect_err("for PSS only").to_string();
    assert!(error.contains("RSA for PSS only"), "{error}");

    // Of three primes, as `openssl genrsa -primes 3` writes them.
    let own = Kind::Rsa2048.identity().key.rsa().expect("RSA");
    let n = element(2, &[&[0][..], &own.n().to_vec()].concat());
    let (e, third) = (element(2, &own.e().to_vec()), element(2, &[0x7f; 85]));
    let numbers = [n.clone(), e, n, third.repeat(5)].concat();
    let more = element(0x30, &element(0x30, &third.repeat(3)));
    let key = |version, more: &[u8]| {
        let parts = [&element(2, &[version])[..], &numbers, more].concat();
        let key = PrivatePkcs1KeyDer::from(element(0x30, &parts));
        load(PrivateKeyDer::Pkcs1(key)).expect_err("three primes").to_string()
    };
    let error = key(1, &more);
    assert!(error.contains("more than two primes are not supported"), "{error}");
    for error in [key(0, &more), key(1, &[]), key(2, &more)] {
        assert!(error.contains("is not well-formed"), "{error}");
    }
}

#[test]
fn nothing_that_is_cut_or_changed_panics() {
    for kind in Kind::ALL {
        let bytes = kind.identity().key.private_key_to_pkcs8().expect("PKCS #8");
        for length in 0..bytes.len() {
            load(pkcs8(&bytes[..length])).expect_err("a part of a key");
        }
        // What is left is good only where the change is in what nobody reads.
        for index in 0..bytes.len().min(200) {
            for bit in [0, 7] {
                let mut changed = bytes.clone();
                changed[index] ^= 1 << bit;
                let _ = load(pkcs8(&changed));
            }
        }
    }
}

#[test]
fn the_public_key_beside_a_private_one_has_to_be_its_own() {
    let key = Kind::P256.identity();
    let mut bytes = key.key.private_key_to_pkcs8().expect("PKCS #8");
    *bytes.last_mut().expect("bytes") ^= 1;
    let error = load(pkcs8(&bytes)).expect_err("another public key").to_string();
    assert!(error.contains("does not belong to it"), "{error}");
}

/// An element of DER.
pub fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(contents.len()).expect("a short element").to_be_bytes();
    let head: &[u8] = match (high, low) {
        (0, ..0x80) => &[tag, low],
        (0, _) => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, contents].concat()
}

/// What the element at the beginning of some DER holds, and what follows it.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = match bytes[1] {
        0x81 => (usize::from(bytes[2]), &bytes[3..]),
        0x82 => (usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), &bytes[4..]),
        short => (usize::from(short), &bytes[2..]),
    };
    rest.split_at(length)
}

/// An element that has more inside, behind what it has.
fn longer(bytes: &[u8], more: &[u8]) -> Vec<u8> {
    element(bytes[0], &[split(bytes).0, more].concat())
}

/// The algorithm of a key in PKCS #8, and the key itself without what is around it.
fn parts(kind: Kind) -> (Vec<u8>, Vec<u8>) {
    let bytes = kind.identity().key.private_key_to_pkcs8().expect("PKCS #8");
    let behind_version = split(split(&bytes).0).1;
    let behind_algorithm = split(behind_version).1;
    let algorithm = &behind_version[..behind_version.len() - behind_algorithm.len()];
    (algorithm.to_vec(), split(behind_algorithm).0.to_vec())
}

fn joined(version: u8, algorithm: &[u8], key: &[u8], more: &[u8]) -> PrivateKeyDer<'static> {
    let parts = [&[2, 1, version][..], algorithm, &element(4, key), more].concat();
    pkcs8(&element(0x30, &parts))
}

#[test]
fn nothing_may_stand_behind_what_a_key_has() {
    const NULL: [u8; 2] = [5, 0];
    for kind in Kind::ALL {
        let (algorithm, key) = parts(kind);
        load(joined(0, &algorithm, &key, &[])).expect("the key as it was");
        // No attributes are good, and some.
        load(joined(0, &algorithm, &key, &[0xa0, 0])).expect("no attributes");
        load(joined(1, &algorithm, &key, &[0xa0, 2, 5, 0])).expect("attributes");
        let within = match kind {
            Kind::Ed25519 => [&key[..], &NULL].concat(),
            _ => longer(&key, &NULL),
        };
        for (key, what) in [
            (joined(0, &algorithm, &within, &[]), "in the key itself"),
            (joined(0, &algorithm, &[&key[..], &NULL].concat(), &[]), "behind the key"),
            (joined(0, &algorithm, &key, &NULL), "in PKCS #8"),
            (joined(0, &algorithm, &key, &[0xa0, 0, 5, 0]), "behind attributes"),
        ] {
            let error = load(key).expect_err(what).to_string();
            assert!(error.contains("is not well-formed"), "{kind:?}, {what}: {error}");
        }
        let Some(own) = own_form(kind) else { continue };
        let form = match kind.is_rsa() {
            true => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(longer(&own, &NULL))),
            false => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(longer(&own, &NULL))),
        };
        let error = load(form).expect_err("in its own form").to_string();
        assert!(error.contains("is not well-formed"), "{kind:?}: {error}");
    }
}

#[test]
fn the_public_key_of_pkcs8_has_to_be_its_own() {
    for kind in Kind::ALL {
        let (algorithm, key) = parts(kind);
        let theirs = &kind.identity().key;
        let info = theirs.public_key_to_der().expect("a public key");
        let own = match kind {
            Kind::P256 => info[info.len() - 65..].to_vec(),
            Kind::P384 => info[info.len() - 97..].to_vec(),
            Kind::Ed25519 => theirs.raw_public_key().expect("32 bytes"),
            _ => theirs.rsa().expect("RSA").public_key_to_der_pkcs1().expect("PKCS #1"),
        };
        let bits = [&[0][..], &own].concat();
        let implicit = element(0x81, &bits);
        load(joined(1, &algorithm, &key, &implicit)).expect("its own");
        let explicit = element(0xa1, &element(3, &bits));
        load(joined(1, &algorithm, &key, &explicit)).expect("its own, as older programs wrote it");
        load(joined(1, &algorithm, &key, &[&[0xa0, 0][..], &implicit].concat())).expect("its own");
        for place in [1, bits.len() / 2, bits.len() - 1] {
            let mut other = bits.clone();
            other[place] ^= 1;
            let other = joined(1, &algorithm, &key, &element(0x81, &other));
            let error = load(other).expect_err("another public key").to_string();
            assert!(error.contains("does not belong to it"), "{kind:?}: {error}");
        }
        for (malformed, what) in [
            (joined(1, &algorithm, &key, &element(0x81, &[])), "no bits"),
            (joined(1, &algorithm, &key, &element(0x81, &[&[1][..], &own].concat())), "a cut bit"),
            (joined(1, &algorithm, &key, &[&implicit[..], &[5, 0]].concat()), "more behind it"),
            (joined(0, &algorithm, &key, &implicit), "a version that has none"),
        ] {
            let error = load(malformed).expect_err(what).to_string();
            assert!(error.contains("is not well-formed"), "{kind:?}, {what}: {error}");
        }
    }
}

#[test]
fn openssl_accepts_every_signature() {
    use openssl::sign::{RsaPssSaltlen, Verifier};
    use openssl::{hash::MessageDigest, rsa::Padding};
    for kind in Kind::ALL {
        let identity = kind.identity();
        let key = load(identity.pkcs8()).expect("a key");
        for scheme in [
            (SignatureScheme::RSA_PSS_SHA256, MessageDigest::sha256()),
            (SignatureScheme::RSA_PSS_SHA384, MessageDigest::sha384()),
            (SignatureScheme::RSA_PSS_SHA512, MessageDigest::sha512()),
            (SignatureScheme::RSA_PKCS1_SHA256, MessageDigest::sha256()),
            (SignatureScheme::RSA_PKCS1_SHA384, MessageDigest::sha384()),
            (SignatureScheme::RSA_PKCS1_SHA512, MessageDigest::sha512()),
            (SignatureScheme::ECDSA_NISTP256_SHA256, MessageDigest::sha256()),
            (SignatureScheme::ECDSA_NISTP384_SHA384, MessageDigest::sha384()),
            (SignatureScheme::ED25519, MessageDigest::null()),
        ] {
            let (scheme, digest) = scheme;
            let Some(signer) = key.choose_scheme(&[scheme]) else { continue };
            assert_eq!(signer.scheme(), scheme);
            let signature = signer.sign(b"message").expect("a signature");
            let mut verifier = if scheme == SignatureScheme::ED25519 {
                Verifier::new_without_digest(&identity.key)
            } else {
                Verifier::new(digest, &identity.key)
            }
            .expect("a verifier");
            if format!("{scheme:?}").contains("PSS") {
                verifier.set_rsa_padding(Padding::PKCS1_PSS).expect("PSS");
                verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).expect("a length");
            }
            assert!(verifier.verify_oneshot(&signature, b"message").expect("an answer"));
            assert!(!verifier_of_other(&signature, key.as_ref(), scheme));
        }
    }
}

/// Whether our verifiers take the signature for one of another message; that of the right one they
/// have to take.
fn verifier_of_other(signature: &[u8], key: &dyn SigningKey, scheme: SignatureScheme) -> bool {
    let public = key.public_key().expect("a public key");
    let algorithms = ours().signature_verification_algorithms;
    let (_, verifiers) =
        algorithms.mapping.iter().find(|(other, _)| *other == scheme).expect("every scheme");
    // The bits behind the algorithm.
    let info = openssl::pkey::PKey::public_key_from_der(&public).expect("a public key");
    let bits = match scheme {
        SignatureScheme::ED25519 => info.raw_public_key().expect("32 bytes"),
        SignatureScheme::ECDSA_NISTP256_SHA256 => public[public.len() - 65..].to_vec(),
        SignatureScheme::ECDSA_NISTP384_SHA384 => public[public.len() - 97..].to_vec(),
        _ => info.rsa().expect("RSA").public_key_to_der_pkcs1().expect("PKCS #1"),
    };
    let verifier = verifiers[0];
    verifier.verify_signature(&bits, b"message", signature).expect("a good signature");
    for index in 0..signature.len() {
        let mut changed = signature.to_vec();
        changed[index] ^= 1;
        assert!(verifier.verify_signature(&bits, b"message", &changed).is_err(), "byte {index}");
    }
    for length in [0, 1, signature.len() - 1] {
        assert!(verifier.verify_signature(&bits, b"message", &signature[..length]).is_err());
        assert!(
            verifier
                .verify_signature(&bits[..length.min(bits.len() - 1)], b"message", signature)
                .is_err()
        );
    }
    verifier.verify_signature(&bits, b"another", signature).is_ok()
}
