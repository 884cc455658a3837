//! Groups of TLS 1.3 that combine ML-KEM-768 with a curve: an attacker has to break both.

use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, ProtocolVersion};
use widelane_crypto::mlkem::DecapsulationKey;

use super::INVALID_SHARE;
use super::curve::EcGroup;
use super::mlkem::{CLIENT_BYTES, MlKem768, SERVER_BYTES};
use super::x25519::X25519Group;

/// How the halves of shares and secrets are put together.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bytes of the curve's share, in either direction.
    curve_bytes: usize,
    /// Whether the curve's half comes first.
    is_curve_first: bool,
}

impl Layout {
    fn join(self, ml_kem: &[u8], curve: &[u8]) -> Vec<u8> {
        if self.is_curve_first { [curve, ml_kem].concat() } else { [ml_kem, curve].concat() }
    }

    /// The halves of a share, ML-KEM's first, if there are as many bytes as both have.
    fn split(self, share: &[u8], ml_kem_bytes: usize) -> Result<(&[u8], &[u8]), Error> {
        if share.len() != ml_kem_bytes + self.curve_bytes {
            return Err(INVALID_SHARE);
        }
        if self.is_curve_first {
            let (curve, ml_kem) = share.split_at(self.curve_bytes);
            Ok((ml_kem, curve))
        } else {
            Ok(share.split_at(ml_kem_bytes))
        }
    }
}

/// A hybrid group.
#[derive(Debug)]
pub(super) struct Hybrid {
    name: NamedGroup,
    ml_kem: &'static MlKem768,
    curve: &'static dyn SupportedKxGroup,
    layout: Layout,
}

impl Hybrid {
    /// X25519MLKEM768, which has ML-KEM's half first.
    pub(super) fn with_x25519(ml_kem: &'static MlKem768, curve: &'static X25519Group) -> Self {
        let layout = Layout { curve_bytes: 32, is_curve_first: false };
        Hybrid { name: NamedGroup::X25519MLKEM768, ml_kem, curve, layout }
    }

    /// SecP256r1MLKEM768, which has the curve's half first.
    pub(super) fn with_p256(ml_kem: &'static MlKem768, curve: &'static EcGroup) -> Self {
        let layout = Layout { curve_bytes: 65, is_curve_first: true };
        Hybrid { name: NamedGroup::secp256r1MLKEM768, ml_kem, curve, layout }
    }
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let curve = self.curve.start()?;
        let key = self.ml_kem.generate()?;
        let public = self.layout.join(key.encapsulation_key(), curve.pub_key());
        let Hybrid { name, ml_kem, layout, .. } = *self;
        Ok(Box::new(Active { name, ml_kem, layout, key, curve, public }))
    }

    fn start_and_complete(&self, client: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (ml_kem, curve) = self.layout.split(client, CLIENT_BYTES)?;
        let of_curve = self.curve.start_and_complete(curve)?;
        let (ciphertext, shared) = self.ml_kem.encapsulate(ml_kem)?;
        let secret = self.layout.join(&shared.0, of_curve.secret.secret_bytes());
        Ok(CompletedKeyExchange {
            group: self.name,
            pub_key: self.layout.join(&ciphertext, &of_curve.pub_key),
            secret: SharedSecret::from(secret),
        })
    }

    fn name(&self) -> NamedGroup {
        self.name
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// A client's keys, waiting for the server's share.
struct Active {
    name: NamedGroup,
    ml_kem: &'static MlKem768,
    layout: Layout,
    key: DecapsulationKey,
    curve: Box<dyn ActiveKeyExchange>,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let (ml_kem, curve) = self.layout.split(peer, SERVER_BYTES)?;
        let of_curve = self.curve.complete(curve)?;
        let shared = self.ml_kem.decapsulate(&self.key, ml_kem)?;
        Ok(SharedSecret::from(self.layout.join(&shared.0, of_curve.secret_bytes())))
    }

    /// The client offers the curve's share alone too, for servers without the hybrid group.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.curve.group(), self.curve.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        self.curve.complete(peer)
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        self.name
    }
}
