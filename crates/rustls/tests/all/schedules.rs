//! The key schedules against published vectors: RFC 5869 and the pseudorandom function of TLS 1.2.

use rustls::SupportedCipherSuite;
use rustls::crypto::hash::HashAlgorithm;
use rustls::crypto::tls12::Prf;
use rustls::crypto::tls13::{Hkdf, OkmBlock};
use widelane_testkit::hex;

use crate::common::ours;

fn hkdf(hash: HashAlgorithm) -> &'static dyn Hkdf {
    let suites = ours().cipher_suites;
    let fits = |suite: &SupportedCipherSuite| {
        suite.tls13().filter(|suite| suite.common.hash_provider.algorithm() == hash)
    };
    suites.iter().find_map(fits).expect("a suite").hkdf_provider
}

fn prf(hash: HashAlgorithm) -> &'static dyn Prf {
    let suites = ours().cipher_suites;
    let of_tls12 = suites.iter().find_map(|suite| match suite {
        SupportedCipherSuite::Tls12(suite) if suite.common.hash_provider.algorithm() == hash => {
            Some(suite.prf_provider)
        }
        _ => None,
    });
    of_tls12.expect("a suite")
}

#[test]
fn hkdf_of_rfc_5869() {
    let hkdf = hkdf(HashAlgorithm::SHA256);
    // A.1, in pieces.
    let salt: Vec<u8> = (0..=0x0c).collect();
    let expander = hkdf.extract_from_secret(Some(&salt), &[0x0b; 22]);
    let mut output = [0; 42];
    let info: [&[u8]; 2] = [&[0xf0, 0xf1, 0xf2], &[0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9]];
    expander.expand_slice(&info, &mut output).expect("not too long");
    let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf\
                    34007208d5b887185865";
    assert_eq!(output[..], hex::decode(expected));
    // A.3: neither salt nor info.
    let expander = hkdf.extract_from_secret(None, &[0x0b; 22]);
    expander.expand_slice(&[], &mut output).expect("not too long");
    let expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d\
                    9d201395faa4b61a96c8";
    assert_eq!(output[..], hex::decode(expected));
    assert!(expander.expand_slice(&[], &mut vec![0; 255 * 32]).is_ok());
    assert!(expander.expand_slice(&[], &mut vec![0; 255 * 32 + 1]).is_err());
    assert_eq!(expander.expand_block(&[]).as_ref(), &output[..32]);
    assert_eq!(expander.hash_len(), 32);
}

#[test]
fn extraction_of_nothing_is_that_of_zeros() {
    for hash in [HashAlgorithm::SHA256, HashAlgorithm::SHA384] {
        let hkdf = hkdf(hash);
        let bytes = hkdf.extract_from_zero_ikm(None).hash_len();
        let nothing = hkdf.extract_from_zero_ikm(None).expand_block(&[b"x"]);
        let zeros = hkdf.extract_from_secret(Some(&vec![0; bytes]), &vec![0; bytes]);
        assert_eq!(nothing.as_ref(), zeros.expand_block(&[b"x"]).as_ref());
    }
}

#[test]
fn finished_messages_are_hmac() {
    // RFC 4231, test case 2.
    let tag = hkdf(HashAlgorithm::SHA384)
        .hmac_sign(&OkmBlock::new(b"Jefe"), b"what do ya want for nothing?");
    let expected = "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e\
                    8e2240ca5e69e2c78b3239ecfab21649";
    assert_eq!(tag.as_ref(), hex::decode(expected));
}

#[test]
fn the_pseudorandom_function_of_tls12() {
    // https://mailarchive.ietf.org/arch/msg/tls/fzVCzk-z3FShgGJ6DOXqM1ydxms/
    let mut output = [0; 100];
    let secret = hex::decode("9bbe436ba940f017b17652849a71db35");
    let seed = hex::decode("a0ba9f936cda311827a6f796ffd5198c");
    prf(HashAlgorithm::SHA256).for_secret(&mut output, &secret, b"test label", &seed);
    let expected = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a\
                    6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab\
                    4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701\
                    87347b66";
    assert_eq!(output[..], hex::decode(expected));
    let mut output = [0; 148];
    let secret = hex::decode("b80b733d6ceefcdc71566ea48e5567df");
    let seed = hex::decode("cd665cf6a8447dd6ff8b27555edb7465");
    prf(HashAlgorithm::SHA384).for_secret(&mut output, &secret, b"test label", &seed);
    let expected = "7b0c18e9ced410ed1804f2cfa34a336a1c14dffb4900bb5fd7942107e81c83cd\
                    e9ca0faa60be9fe34f82b1233c9146a0e534cb400fed2700884f9dc236f80edd\
                    8bfa961144c9e8d792eca722a7b32fc3d416d473ebc2c5fd4abfdad05d918425\
                    9b5bf8cd4d90fa0d31e2dec479e4f1a26066f2eea9a69236a3e52655c9e9aee6\
                    91c8f3a26854308d5eaa3be85e0990703d73e56f";
    assert_eq!(output[..], hex::decode(expected));
}
