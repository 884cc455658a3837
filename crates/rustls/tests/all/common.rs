//! What the tests share: keys with certificates, and handshakes in memory.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::RsaPrivateKeyBuilder;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion, version,
};
use widelane_rustls::{Policy, provider};
use widelane_testkit::rsa::test_keys;

/// A kind of private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rsa2048,
    Rsa3072,
    Rsa4096,
    P256,
    P384,
    Ed25519,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Rsa2048, Kind::Rsa3072, Kind::Rsa4096, Kind::P256, Kind::P384, Kind::Ed25519];

    pub fn is_rsa(self) -> bool {
        matches!(self, Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096)
    }

    /// The key of this kind, with its certificate.
    pub fn identity(self) -> &'static Identity {
        static ALL: LazyLock<Vec<Identity>> = LazyLock::new(|| Kind::ALL.map(Identity::new).into());
        &ALL[self as usize]
    }
}

/// A private key with a certificate that it has signed itself.
pub struct Identity {
    pub key: PKey<Private>,
    pub certificate: X509,
}

impl Identity {
    fn new(kind: Kind) -> Self {
        let key = match kind {
            Kind::Rsa2048 => rsa(2048),
            Kind::Rsa3072 => rsa(3072),
            Kind::Rsa4096 => rsa(4096),
            Kind::P256 => ec(Nid::X9_62_PRIME256V1),
            Kind::P384 => ec(Nid::SECP384R1),
            Kind::Ed25519 => PKey::generate_ed25519().expect("a key"),
        };
        let digest = match kind {
            Kind::Rsa2048 | Kind::P256 => MessageDigest::sha256(),
            Kind::Rsa3072 | Kind::P384 => MessageDigest::sha384(),
            Kind::Rsa4096 => MessageDigest::sha512(),
            Kind::Ed25519 => MessageDigest::null(),
        };
        let certificate = certificate(&key, digest);
        Identity { key, certificate }
    }

    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.to_der().expect("DER").into()]
    }

    /// The private key in PKCS #8.
    pub fn pkcs8(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.private_key_to_pkcs8().expect("PKCS #8").into())
    }
}

fn rsa(bits: usize) -> PKey<Private> {
    let key = test_keys(bits).into_iter().find(|key| key.e == [1, 0, 1]).expect("a usual exponent");
    let number = |bytes: &[u8]| BigNum::from_slice(bytes).expect("a number");
    let builder = RsaPrivateKeyBuilder::new(number(&key.n), number(&key.e), number(&key.d));
    let builder = builder.expect("a key").set_factors(number(&key.p), number(&key.q));
    let (dp, dq, qinv) = (number(&key.dp), number(&key.dq), number(&key.qinv));
    let builder = builder.expect("primes").set_crt_params(dp, dq, qinv);
    PKey::from_rsa(builder.expect("exponents").build()).expect("a key")
}

fn ec(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

/// A certificate of a key that is signed with it.
pub fn certificate(key: &PKey<Private>, digest: MessageDigest) -> X509 {
    let mut name = X509NameBuilder::new().expect("a name");
    name.append_entry_by_text("CN", "localhost").expect("an entry");
    let name = name.build();
    let mut builder = X509Builder::new().expect("a certificate");
    builder.set_version(2).expect("version 3");
    let mut serial = BigNum::new().expect("a number");
    serial.rand(64, MsbOption::MAYBE_ZERO, false).expect("random bytes");
    builder.set_serial_number(&serial.to_asn1_integer().expect("an integer")).expect("a number");
    builder.set_subject_name(&name).expect("a name");
    builder.set_issuer_name(&name).expect("a name");
    builder.set_not_before(&Asn1Time::days_from_now(0).expect("a time")).expect("a time");
    builder.set_not_after(&Asn1Time::days_from_now(2).expect("a time")).expect("a time");
    builder.set_pubkey(key).expect("a key");
    let names =
        SubjectAlternativeName::new().dns("localhost").build(&builder.x509v3_context(None, None));
    builder.append_extension(names.expect("names")).expect("an extension");
    builder.sign(key, digest).expect("a signature");
    builder.build()
}

/// Our provider in everything that the machine has.
pub fn ours() -> CryptoProvider {
    static OURS: LazyLock<CryptoProvider> = LazyLock::new(|| provider(&Policy::open()));
    OURS.clone()
}

/// That of AWS-LC.
pub fn theirs() -> CryptoProvider {
    let groups = aws_lc_rs::ALL_KX_GROUPS.to_vec();
    CryptoProvider { kx_groups: groups, ..aws_lc_rs::default_provider() }
}

/// A provider that has no other suite and no other group than these.
pub fn only(
    provider: &CryptoProvider,
    suite: rustls::CipherSuite,
    group: rustls::NamedGroup,
) -> CryptoProvider {
    let mut provider = provider.clone();
    provider.cipher_suites.retain(|other| other.suite() == suite);
    provider.kx_groups.retain(|other| other.name() == group);
    assert!(!provider.cipher_suites.is_empty() && !provider.kx_groups.is_empty());
    provider
}

pub const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];

/// A client that trusts a server with this key.
pub fn client(provider: CryptoProvider, server: Kind) -> ClientConfig {
    client_that_trusts(provider, server.identity().chain().remove(0))
}

pub fn client_that_trusts(
    provider: CryptoProvider,
    certificate: CertificateDer<'static>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(BOTH)
        .expect("both versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A server with this key, that remembers no session.
pub fn server(provider: CryptoProvider, kind: Kind) -> ServerConfig {
    server_with_chain(provider, kind, kind.identity().chain())
}

pub fn server_with_chain(
    provider: CryptoProvider,
    kind: Kind,
    chain: Vec<CertificateDer<'static>>,
) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(BOTH)
        .expect("both versions")
        .with_no_client_auth()
        .with_single_cert(chain, kind.identity().pkcs8())
        .expect("a key with its certificate")
}

/// Two ends of a connection.
pub struct Pair {
    pub client: ClientConnection,
    pub server: ServerConnection,
}

impl Pair {
    pub fn new(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Self {
        let name = ServerName::try_from("localhost").expect("a name");
        Pair {
            client: ClientConnection::new(Arc::clone(client), name).expect("a client"),
            server: ServerConnection::new(Arc::clone(server)).expect("a server"),
        }
    }

    /// A handshake between ends that nothing else is wanted from.
    pub fn connected(mut client: ClientConfig, server: ServerConfig) -> Self {
        client.resumption = Resumption::disabled();
        let mut pair = Pair::new(&Arc::new(client), &Arc::new(server));
        pair.shake_hands().expect("a handshake");
        pair
    }

    /// Carries bytes to and fro until nobody has any more.
    pub fn shake_hands(&mut self) -> Result<(), Error> {
        loop {
            let sent = self.client_speaks(|_| ())? + self.server_speaks(|_| ())?;
            if sent == 0 {
                return Ok(());
            }
        }
    }

    /// Carries what the client has to say to the server; returns how many bytes.
    pub fn client_speaks(&mut self, change: impl FnOnce(&mut Vec<u8>)) -> Result<usize, Error> {
        let mut flight = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut flight).expect("memory");
        }
        change(&mut flight);
        let (count, mut rest) = (flight.len(), &flight[..]);
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).expect("memory");
            self.server.process_new_packets()?;
        }
        Ok(count)
    }

    /// The same the other way.
    pub fn server_speaks(&mut self, change: impl FnOnce(&mut Vec<u8>)) -> Result<usize, Error> {
        let mut flight = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut flight).expect("memory");
        }
        change(&mut flight);
        let (count, mut rest) = (flight.len(), &flight[..]);
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).expect("memory");
            self.client.process_new_packets()?;
        }
        Ok(count)
    }

    /// Sends texts of many lengths both ways.
    pub fn converse(&mut self) {
        for bytes in [0, 1, 15, 16, 17, 1000, 16_383, 16_384] {
            let text: Vec<u8> = (0..bytes).map(|index| (index * 7 + bytes) as u8).collect();
            self.client.writer().write_all(&text).expect("room in the buffer");
            self.client_speaks(|_| ()).expect("records");
            let mut received = vec![0; bytes];
            self.server.reader().read_exact(&mut received).expect("the whole text");
            assert!(received == text, "{bytes} bytes to the server");
            self.server.writer().write_all(&text).expect("room in the buffer");
            self.server_speaks(|_| ()).expect("records");
            self.client.reader().read_exact(&mut received).expect("the whole text");
            assert!(received == text, "{bytes} bytes to the client");
        }
    }
}
