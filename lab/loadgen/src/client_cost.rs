//! What repeats from connection to connection, done once: less cost to the client, the same work
//! for the server.
//!
//! * One ephemeral key pair per curve, and one of each parameter set of ML-KEM, serves all
//!   connections of this process. What a load generator sends needs no forward secrecy.
//! * HKDF of TLS 1.3 keeps the state of a keyed HMAC instead of computing it for every label.

use std::fmt;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, ECDH_P521, PrivateKey, X25519};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac::{self, HMAC_SHA256, HMAC_SHA384};
use aws_lc_rs::kem::{AlgorithmId, DecapsulationKey, ML_KEM_768, ML_KEM_1024};
use rustls::crypto::aws_lc_rs::cipher_suite as suites;
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{self, ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, SupportedCipherSuite, Tls13CipherSuite};

/// X25519 with one key pair.
pub static X25519_REUSED: Reused = Reused {
    name: NamedGroup::X25519,
    pair: LazyLock::new(|| Pair::generate(PrivateKey::generate(&X25519))),
};

/// P-256 with one key pair.
pub static SECP256R1_REUSED: Reused = Reused {
    name: NamedGroup::secp256r1,
    pair: LazyLock::new(|| Pair::generate(PrivateKey::generate(&ECDH_P256))),
};

/// P-384 with one key pair.
pub static SECP384R1_REUSED: Reused = Reused {
    name: NamedGroup::secp384r1,
    pair: LazyLock::new(|| Pair::generate(PrivateKey::generate(&ECDH_P384))),
};

/// P-521 with one key pair.
pub static SECP521R1_REUSED: Reused = Reused {
    name: NamedGroup::secp521r1,
    pair: LazyLock::new(|| Pair::generate(PrivateKey::generate(&ECDH_P521))),
};

/// ML-KEM-768 with one key pair.
pub static ML_KEM_768_REUSED: ReusedKem = ReusedKem {
    name: NamedGroup::MLKEM768,
    pair: LazyLock::new(|| KemPair::generate(DecapsulationKey::generate(&ML_KEM_768))),
};

/// ML-KEM-1024 with one key pair.
pub static ML_KEM_1024_REUSED: ReusedKem = ReusedKem {
    name: NamedGroup::MLKEM1024,
    pair: LazyLock::new(|| KemPair::generate(DecapsulationKey::generate(&ML_KEM_1024))),
};

/// `TLS_AES_256_GCM_SHA384`.
pub static TLS13_AES_256_GCM_SHA384: LazyLock<SupportedCipherSuite> =
    LazyLock::new(|| keyed_once(suites::TLS13_AES_256_GCM_SHA384, &SHA384));

/// `TLS_AES_128_GCM_SHA256`.
pub static TLS13_AES_128_GCM_SHA256: LazyLock<SupportedCipherSuite> =
    LazyLock::new(|| keyed_once(suites::TLS13_AES_128_GCM_SHA256, &SHA256));

/// `TLS_CHACHA20_POLY1305_SHA256`.
pub static TLS13_CHACHA20_POLY1305_SHA256: LazyLock<SupportedCipherSuite> =
    LazyLock::new(|| keyed_once(suites::TLS13_CHACHA20_POLY1305_SHA256, &SHA256));

/// A group in which this process makes one key pair.
pub struct Reused {
    name: NamedGroup,
    pair: LazyLock<Result<Arc<Pair>, Unspecified>>,
}

struct Pair {
    private: PrivateKey,
    public: agreement::PublicKey,
}

impl Pair {
    fn generate(private: Result<PrivateKey, Unspecified>) -> Result<Arc<Self>, Unspecified> {
        let private = private?;
        let public = private.compute_public_key()?;
        Ok(Arc::new(Pair { private, public }))
    }
}

impl fmt::Debug for Reused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, one key pair", self.name)
    }
}

impl SupportedKxGroup for Reused {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        match &*self.pair {
            Ok(pair) => Ok(Box::new(Exchange { name: self.name, pair: Arc::clone(pair) })),
            Err(Unspecified) => Err(crypto::GetRandomFailed.into()),
        }
    }

    fn name(&self) -> NamedGroup {
        self.name
    }
}

/// One use of the pair.
struct Exchange {
    name: NamedGroup,
    pair: Arc<Pair>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let algorithm = self.pair.private.algorithm();
        let peer = agreement::UnparsedPublicKey::new(algorithm, peer);
        let misbehaved = Error::from(PeerMisbehaved::InvalidKeyShare);
        agreement::agree(&self.pair.private, peer, misbehaved, |secret| Ok(secret.into()))
    }

    fn pub_key(&self) -> &[u8] {
        self.pair.public.as_ref()
    }

    fn group(&self) -> NamedGroup {
        self.name
    }
}

/// A parameter set of ML-KEM with which this process makes one key pair.
pub struct ReusedKem {
    name: NamedGroup,
    pair: LazyLock<Result<Arc<KemPair>, Unspecified>>,
}

struct KemPair {
    private: DecapsulationKey<AlgorithmId>,
    public: Vec<u8>,
}

impl KemPair {
    fn generate(
        private: Result<DecapsulationKey<AlgorithmId>, Unspecified>,
    ) -> Result<Arc<Self>, Unspecified> {
        let private = private?;
        let public = private.encapsulation_key()?.key_bytes()?.as_ref().to_vec();
        Ok(Arc::new(KemPair { private, public }))
    }
}

impl fmt::Debug for ReusedKem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, one key pair", self.name)
    }
}

impl SupportedKxGroup for ReusedKem {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        match &*self.pair {
            Ok(pair) => Ok(Box::new(Decapsulation { name: self.name, pair: Arc::clone(pair) })),
            Err(Unspecified) => Err(crypto::GetRandomFailed.into()),
        }
    }

    fn name(&self) -> NamedGroup {
        self.name
    }
}

/// One use of the pair.
struct Decapsulation {
    name: NamedGroup,
    pair: Arc<KemPair>,
}

impl ActiveKeyExchange for Decapsulation {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        match self.pair.private.decapsulate(peer.into()) {
            Ok(secret) => Ok(SharedSecret::from(secret.as_ref())),
            Err(Unspecified) => Err(PeerMisbehaved::InvalidKeyShare.into()),
        }
    }

    fn pub_key(&self) -> &[u8] {
        &self.pair.public
    }

    fn group(&self) -> NamedGroup {
        self.name
    }
}

/// The suite with HKDF by way of keyed HMACs.
fn keyed_once(suite: SupportedCipherSuite, hmac: &'static Keyed) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = suite else { return suite };
    let hkdf_provider = Box::leak(Box::new(HkdfUsingHmac(hmac)));
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: crypto::CipherSuiteCommon { ..suite.common },
        hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: suite.quic,
    })))
}

/// HMAC by aws-lc-rs as rustls asks for it.
struct Keyed(hmac::Algorithm);

static SHA256: Keyed = Keyed(HMAC_SHA256);
static SHA384: Keyed = Keyed(HMAC_SHA384);

impl crypto::hmac::Hmac for Keyed {
    fn with_key(&self, key: &[u8]) -> Box<dyn crypto::hmac::Key> {
        Box::new(Key(hmac::Key::new(self.0, key)))
    }

    fn hash_output_len(&self) -> usize {
        self.0.tag_len()
    }
}

struct Key(hmac::Key);

impl crypto::hmac::Key for Key {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> crypto::hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(first);
        middle.iter().for_each(|part| context.update(part));
        context.update(last);
        crypto::hmac::Tag::new(context.sign().as_ref())
    }

    fn tag_len(&self) -> usize {
        self.0.algorithm().tag_len()
    }
}
