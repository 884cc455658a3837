//! Rivals, and both ends of a connection in memory.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openssl::asn1::Asn1Time;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509Builder, X509NameBuilder};
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, NamedGroup, RootCertStore, ServerConfig,
    ServerConnection, version,
};

/// A provider that takes part.
pub struct Rival {
    pub name: &'static str,
    pub provider: CryptoProvider,
}

/// All that take part, ours first.
pub fn rivals() -> Vec<Rival> {
    let ours = widelane_rustls::default_provider().expect("a policy that is well-formed");
    vec![
        Rival { name: "widelane", provider: ours },
        Rival { name: "aws-lc-rs", provider: aws_lc_rs::default_provider() },
        Rival { name: "ring", provider: ring::default_provider() },
    ]
}

/// What is agreed on.
#[derive(Clone, Copy)]
pub struct Terms {
    pub suite: CipherSuite,
    pub group: NamedGroup,
}

/// A private key with a certificate that it has signed itself.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub fn p256() -> Self {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
        Self::new(&PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key"))
    }

    pub fn rsa2048() -> Self {
        Self::new(&PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key"))
    }

    fn new(key: &PKey<Private>) -> Self {
        let mut name = X509NameBuilder::new().expect("a name");
        name.append_entry_by_text("CN", "localhost").expect("an entry");
        let name = name.build();
        let mut builder = X509Builder::new().expect("a certificate");
        builder.set_version(2).expect("version 3");
        builder.set_subject_name(&name).expect("a name");
        builder.set_issuer_name(&name).expect("a name");
        let days = |days| Asn1Time::days_from_now(days).expect("a time");
        builder.set_not_before(&days(0)).expect("a time");
        builder.set_not_after(&days(2)).expect("a time");
        builder.set_pubkey(key).expect("a key");
        let context = builder.x509v3_context(None, None);
        let names = SubjectAlternativeName::new().dns("localhost").build(&context);
        builder.append_extension(names.expect("names")).expect("an extension");
        builder.sign(key, MessageDigest::sha256()).expect("a signature");
        Identity {
            certificate: builder.build().to_der().expect("DER").into(),
            key: PrivateKeyDer::Pkcs8(key.private_key_to_pkcs8().expect("PKCS #8").into()),
        }
    }

    /// A client of AWS-LC's, whoever serves.
    pub fn client(&self, terms: Terms) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate");
        let config =
            ClientConfig::builder_with_provider(limited(&aws_lc_rs::default_provider(), terms))
                .with_protocol_versions(&[&version::TLS13])
                .expect("TLS 1.3")
                .with_root_certificates(roots)
                .with_no_client_auth();
        Arc::new(config)
    }

    /// A server; nothing where the provider lacks the group.
    pub fn server(&self, provider: &CryptoProvider, terms: Terms) -> Option<Arc<ServerConfig>> {
        let provider = limited(provider, terms);
        if provider.kx_groups.is_empty() {
            return None;
        }
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .expect("a key with its certificate");
        Some(Arc::new(config))
    }
}

fn limited(provider: &CryptoProvider, terms: Terms) -> Arc<CryptoProvider> {
    let mut provider = provider.clone();
    provider.cipher_suites.retain(|suite| suite.suite() == terms.suite);
    provider.kx_groups.retain(|group| group.name() == terms.group);
    Arc::new(provider)
}

/// Both ends of a connection.
pub struct Pair {
    pub client: ClientConnection,
    pub server: ServerConnection,
    buffer: Vec<u8>,
}

impl Pair {
    /// Shakes hands; returns how long the server was at work.
    pub fn connect(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> (Self, Duration) {
        let name = ServerName::try_from("localhost").expect("a name");
        let client = ClientConnection::new(Arc::clone(client), name).expect("a client");
        let begin = Instant::now();
        let server = ServerConnection::new(Arc::clone(server)).expect("a server");
        let mut busy = begin.elapsed();
        let mut pair = Pair { client, server, buffer: Vec::with_capacity(1 << 15) };
        while pair.client.wants_write() || pair.server.wants_write() {
            pair.buffer.clear();
            while pair.client.wants_write() {
                pair.client.write_tls(&mut pair.buffer).expect("memory");
            }
            let begin = Instant::now();
            pair.serve();
            busy += begin.elapsed();
            let mut flight = &pair.buffer[..];
            while !flight.is_empty() {
                pair.client.read_tls(&mut flight).expect("memory");
                pair.client.process_new_packets().expect("a good handshake");
            }
        }
        assert!(!pair.server.is_handshaking() && !pair.client.is_handshaking());
        (pair, busy)
    }

    /// The server reads what is in the buffer, and leaves its answer there.
    fn serve(&mut self) {
        let mut flight = &self.buffer[..];
        while !flight.is_empty() {
            self.server.read_tls(&mut flight).expect("memory");
            self.server.process_new_packets().expect("a good handshake");
        }
        self.buffer.clear();
        while self.server.wants_write() {
            self.server.write_tls(&mut self.buffer).expect("memory");
        }
    }
}

/// A network that takes everything and keeps nothing.
pub struct Sink;

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
