//! The cipher suites.

use rustls::crypto::{CipherSuiteCommon, KeyExchangeAlgorithm};
use rustls::{
    CipherSuite, SignatureScheme, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite,
};
use widelane_cpu::Policy;
use widelane_crypto::aead::{Aead, Algorithm};
use widelane_crypto::digest;
use widelane_crypto::kdf;

use crate::cipher::{quic, tls12, tls13};
use crate::hash::Sha2;
use crate::kdf::KeySchedule;
use crate::leaked;

/// What a hash function does for cipher suites.
#[derive(Clone, Copy)]
struct SuiteHashes {
    hash: &'static Sha2,
    schedule: &'static KeySchedule,
}

impl SuiteHashes {
    fn choose(algorithm: digest::Algorithm, hash: kdf::Hash, policy: &Policy) -> Self {
        SuiteHashes {
            hash: leaked(Sha2::choose(algorithm, policy)),
            schedule: leaked(KeySchedule::choose(hash, policy)),
        }
    }
}

/// Every suite, the preferred ones first: TLS 1.3, then TLS 1.2 with ECDSA and with RSA.
pub(crate) fn all(policy: &Policy) -> Vec<SupportedCipherSuite> {
    let sha256 = SuiteHashes::choose(digest::Algorithm::Sha256, kdf::Hash::Sha256, policy);
    let sha384 = SuiteHashes::choose(digest::Algorithm::Sha384, kdf::Hash::Sha384, policy);
    let ciphers = [
        (Aead::choose(Algorithm::Aes256Gcm, policy), sha384),
        (Aead::choose(Algorithm::Aes128Gcm, policy), sha256),
        (Aead::choose(Algorithm::ChaCha20Poly1305, policy), sha256),
    ];
    let of_tls13 = ciphers.iter().map(|&(aead, hashes)| tls13_suite(aead, hashes));
    let of_tls12 = [ECDSA_SCHEMES, RSA_SCHEMES].into_iter().flat_map(|schemes| {
        ciphers.iter().map(move |&(aead, hashes)| tls12_suite(aead, hashes, schemes))
    });
    of_tls13.chain(of_tls12).collect()
}

fn tls13_suite(aead: Aead, hashes: SuiteHashes) -> SupportedCipherSuite {
    let suite = match aead.algorithm() {
        Algorithm::Aes128Gcm => CipherSuite::TLS13_AES_128_GCM_SHA256,
        Algorithm::Aes256Gcm => CipherSuite::TLS13_AES_256_GCM_SHA384,
        Algorithm::ChaCha20Poly1305 => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        Algorithm::Aes192Gcm => unreachable!("{NO_AES_192}"),
    };
    SupportedCipherSuite::Tls13(leaked(Tls13CipherSuite {
        common: common(suite, aead, hashes),
        hkdf_provider: hashes.schedule,
        aead_alg: leaked(tls13::Cipher(aead)),
        quic: Some(leaked(quic::Cipher(aead))),
    }))
}

fn tls12_suite(
    aead: Aead,
    hashes: SuiteHashes,
    schemes: &'static [SignatureScheme],
) -> SupportedCipherSuite {
    let is_rsa = schemes == RSA_SCHEMES;
    let suite = match (aead.algorithm(), is_rsa) {
        (Algorithm::Aes128Gcm, false) => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        (Algorithm::Aes256Gcm, false) => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        (Algorithm::ChaCha20Poly1305, false) => {
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        (Algorithm::Aes128Gcm, true) => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        (Algorithm::Aes256Gcm, true) => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        (Algorithm::ChaCha20Poly1305, true) => {
            CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
        (Algorithm::Aes192Gcm, _) => unreachable!("{NO_AES_192}"),
    };
    SupportedCipherSuite::Tls12(leaked(Tls12CipherSuite {
        common: common(suite, aead, hashes),
        prf_provider: hashes.schedule,
        kx: KeyExchangeAlgorithm::ECDHE,
        sign: schemes,
        aead_alg: leaked(tls12::Cipher(aead)),
    }))
}

fn common(suite: CipherSuite, aead: Aead, hashes: SuiteHashes) -> CipherSuiteCommon {
    // RFC 8446, 5.5: AES-GCM is good for 2^24.5 records of full size.
    let confidentiality_limit = match aead.algorithm() {
        Algorithm::ChaCha20Poly1305 => u64::MAX,
        Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => 1 << 24,
    };
    CipherSuiteCommon { suite, hash_provider: hashes.hash, confidentiality_limit }
}

const NO_AES_192: &str = "no cipher suite has AES-192";

const ECDSA_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::ED25519,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP256_SHA256,
];

const RSA_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];
