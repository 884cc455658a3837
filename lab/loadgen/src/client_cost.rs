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
use aws_lc_rs::kem::{self, AlgorithmId, DecapsulationKey, ML_KEM_768, ML_KEM_1024};
use rustls::crypto::aws_lc_rs::cipher_suite as suites;
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{self, ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved, SupportedCipherSuite, Tls13CipherSuite};

/// X25519 with one key pair.
pub static X25519_REUSED: Reused<OnCurve> =
    Reused::new(NamedGroup::X25519, || OnCurve::generate(&X25519));

/// P-256 with one key pair.
pub static SECP256R1_REUSED: Reused<OnCurve> =
    Reused::new(NamedGroup::secp256r1, || OnCurve::generate(&ECDH_P256));

/// P-384 with one key pair.
pub static SECP384R1_REUSED: Reused<OnCurve> =
    Reused::new(NamedGroup::secp384r1, || OnCurve::generate(&ECDH_P384));

/// P-521 with one key pair.
pub static SECP521R1_REUSED: Reused<OnCurve> =
    Reused::new(NamedGroup::secp521r1, || OnCurve::generate(&ECDH_P521));

/// ML-KEM-768 with one key pair.
pub static ML_KEM_768_REUSED: Reused<OfMlKem> =
    Reused::new(NamedGroup::MLKEM768, || OfMlKem::generate(&ML_KEM_768));

/// ML-KEM-1024 with one key pair.
pub static ML_KEM_1024_REUSED: Reused<OfMlKem> =
    Reused::new(NamedGroup::MLKEM1024, || OfMlKem::generate(&ML_KEM_1024));

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
pub struct Reused<P> {
    name: NamedGroup,
    pair: LazyLock<Result<Arc<P>, Unspecified>>,
}

/// A key pair that can be used more than once.
pub trait Pair: Send + Sync + 'static {
    /// What the client sends of it.
    fn share(&self) -> &[u8];

    /// The secret that it shares with a server that has answered by `peer`.
    fn agree(&self, peer: &[u8]) -> Result<SharedSecret, Unspecified>;
}

/// A key pair on a curve.
pub struct OnCurve {
    private: PrivateKey,
    public: agreement::PublicKey,
}

/// A key pair of ML-KEM.
pub struct OfMlKem {
    private: DecapsulationKey<AlgorithmId>,
    public: Vec<u8>,
}

impl OnCurve {
    fn generate(curve: &'static agreement::Algorithm) -> Result<Arc<Self>, Unspecified> {
        let private = PrivateKey::generate(curve)?;
        let public = private.compute_public_key()?;
        Ok(Arc::new(OnCurve { private, public }))
    }
}

impl Pair for OnCurve {
    fn share(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn agree(&self, peer: &[u8]) -> Result<SharedSecret, Unspecified> {
        let peer = agreement::UnparsedPublicKey::new(self.private.algorithm(), peer);
        agreement::agree(&self.private, peer, Unspecified, |secret| Ok(secret.into()))
    }
}

impl OfMlKem {
    fn generate(set: &'static kem::Algorithm<AlgorithmId>) -> Result<Arc<Self>, Unspecified> {
        let private = DecapsulationKey::generate(set)?;
        let public = private.encapsulation_key()?.key_bytes()?.as_ref().to_vec();
        Ok(Arc::new(OfMlKem { private, public }))
    }
}

impl Pair for OfMlKem {
    fn share(&self) -> &[u8] {
        &self.public
    }

    fn agree(&self, peer: &[u8]) -> Result<SharedSecret, Unspecified> {
        self.private.decapsulate(peer.into()).map(|secret| SharedSecret::from(secret.as_ref()))
    }
}

impl<P> Reused<P> {
    const fn new(name: NamedGroup, generate: fn() -> Result<Arc<P>, Unspecified>) -> Self {
        Reused { name, pair: LazyLock::new(generate) }
    }
}

impl<P> fmt::Debug for Reused<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, one key pair", self.name)
    }
}

impl<P: Pair> SupportedKxGroup for Reused<P> {
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
struct Exchange<P> {
    name: NamedGroup,
    pair: Arc<P>,
}

impl<P: Pair> ActiveKeyExchange for Exchange<P> {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        self.pair.agree(peer).map_err(|Unspecified| PeerMisbehaved::InvalidKeyShare.into())
    }

    fn pub_key(&self) -> &[u8] {
        self.pair.share()
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
