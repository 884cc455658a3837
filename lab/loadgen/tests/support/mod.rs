//! A rustls server in this process, whose conduct and counters are known.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use openssl::asn1::Asn1Time;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509NameBuilder};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, HandshakeKind, NamedGroup, ProtocolVersion, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_rustls::TlsAcceptor;

/// A server that counts the connections which ended with the client's `close_notify`.
pub struct Server {
    pub address: SocketAddr,
    pub certificates: Vec<Vec<u8>>,
    pub closed_properly: Arc<AtomicU64>,
    pub closed_otherwise: Arc<AtomicU64>,
    pub full: Arc<AtomicU64>,
    pub resumed: Arc<AtomicU64>,
    /// How often the first and the second certificate were shown.
    pub shown: Arc<[AtomicU64; 2]>,
    pub agreed: Arc<Mutex<Vec<Agreed>>>,
}

/// What a handshake agreed on.
pub struct Agreed {
    pub version: ProtocolVersion,
    pub suite: CipherSuite,
    pub group: Option<NamedGroup>,
    pub name: String,
}

/// What a server is like.
#[derive(Clone, Default)]
pub struct Conduct {
    /// What it answers to every request.
    pub body: Vec<u8>,
    /// Stops for so long once a second.
    pub stall: Option<Duration>,
    /// Lets one handshake through in so much time.
    pub interval: Option<Duration>,
    /// Lets each handshake wait for so long, however many there are.
    pub delay: Duration,
    /// Ends each connection with so many answers.
    pub answers_max: Option<u32>,
    /// Closes every connection at once that comes after the first time and before the second.
    pub outage: Option<[Duration; 2]>,
    /// Leaves connections open when the client has closed its side.
    pub lingers: bool,
}

/// Shows the first certificate whose key the client can verify.
#[derive(Debug)]
struct Shown(Vec<Arc<CertifiedKey>>, Arc<[AtomicU64; 2]>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |certified: &&Arc<CertifiedKey>| {
            certified.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let place = self.0.iter().position(|certified| fits(&certified))?;
        if let Some(count) = self.1.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.0.get(place).cloned()
    }
}

pub fn key() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
}

pub fn elliptic(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

pub fn certificate(key: &PKey<Private>) -> Vec<u8> {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.set_pubkey(key).unwrap();
    let names = SubjectAlternativeName::new()
        .dns("localhost")
        .dns("other")
        .build(&builder.x509v3_context(None, None));
    builder.append_extension(names.unwrap()).unwrap();
    let digest = match key.id() {
        Id::ED25519 => MessageDigest::null(),
        _ => MessageDigest::sha256(),
    };
    builder.sign(key, digest).unwrap();
    builder.build().to_der().unwrap()
}

/// Starts a server that shows the certificate of a pair's first key and signs with the second.
pub fn serve(pairs: &[(&PKey<Private>, &PKey<Private>)]) -> Server {
    serve_with(aws_lc_rs::default_provider(), pairs, Conduct::default())
}

/// Starts a server of that conduct, with a key on P-256.
pub fn serve_as(conduct: Conduct) -> Server {
    let key = elliptic(Nid::X9_62_PRIME256V1);
    serve_with(aws_lc_rs::default_provider(), &[(&key, &key)], conduct)
}

pub fn serve_with(
    provider: CryptoProvider,
    pairs: &[(&PKey<Private>, &PKey<Private>)],
    conduct: Conduct,
) -> Server {
    let (mut certificates, mut shown) = (Vec::new(), Vec::new());
    for (named, signing) in pairs {
        let der = certificate(named);
        let private = PrivatePkcs8KeyDer::from(signing.private_key_to_pkcs8().unwrap());
        let signer = provider.key_provider.load_private_key(PrivateKeyDer::from(private)).unwrap();
        let chain = vec![CertificateDer::from(der.clone())];
        shown.push(Arc::new(CertifiedKey::new(chain, signer)));
        certificates.push(der);
    }
    let times: Arc<[AtomicU64; 2]> = Arc::default();
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Shown(shown, Arc::clone(&times))));
    // Of its own store the server would forget sessions.
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();

    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = Server {
        address: listener.local_addr().unwrap(),
        certificates,
        closed_properly: Arc::default(),
        closed_otherwise: Arc::default(),
        full: Arc::default(),
        resumed: Arc::default(),
        shown: times,
        agreed: Arc::default(),
    };
    let host = Arc::new(Host {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        properly: Arc::clone(&server.closed_properly),
        otherwise: Arc::clone(&server.closed_otherwise),
        full: Arc::clone(&server.full),
        resumed: Arc::clone(&server.resumed),
        agreed: Arc::clone(&server.agreed),
        conduct,
    });
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(host.accept(listener));
    });
    server
}

/// The server's side of [`Server`].
struct Host {
    acceptor: TlsAcceptor,
    properly: Arc<AtomicU64>,
    otherwise: Arc<AtomicU64>,
    full: Arc<AtomicU64>,
    resumed: Arc<AtomicU64>,
    agreed: Arc<Mutex<Vec<Agreed>>>,
    conduct: Conduct,
}

impl Host {
    async fn accept(self: Arc<Self>, listener: std::net::TcpListener) {
        if let Some(length) = self.conduct.stall {
            tokio::spawn(async move {
                let mut each = tokio::time::interval(Duration::from_secs(1));
                loop {
                    each.tick().await;
                    // All connections are on this thread.
                    thread::sleep(length);
                }
            });
        }
        let gate = self.conduct.interval.map(|interval| {
            let mut gate = tokio::time::interval(interval);
            // It never makes up for time in which nobody came.
            gate.set_missed_tick_behavior(MissedTickBehavior::Skip);
            Arc::new(tokio::sync::Mutex::new(gate))
        });
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let mut began = None;
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let since = began.get_or_insert_with(Instant::now).elapsed();
            if self.conduct.outage.is_some_and(|[from, to]| (from..to).contains(&since)) {
                continue;
            }
            tokio::spawn(Arc::clone(&self).attend(tcp, gate.clone()));
        }
    }

    async fn attend(
        self: Arc<Self>,
        tcp: TcpStream,
        gate: Option<Arc<tokio::sync::Mutex<Interval>>>,
    ) {
        if let Some(gate) = gate {
            gate.lock().await.tick().await;
        }
        tokio::time::sleep(self.conduct.delay).await;
        let proper = match self.acceptor.accept(tcp).await {
            Ok(mut tls) => {
                let session = tls.get_ref().1;
                self.agreed.lock().unwrap().push(Agreed {
                    version: session.protocol_version().unwrap(),
                    suite: session.negotiated_cipher_suite().unwrap().suite(),
                    group: session.negotiated_key_exchange_group().map(|group| group.name()),
                    name: session.server_name().unwrap_or_default().to_owned(),
                });
                let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
                let kind = if resumed { &self.resumed } else { &self.full };
                kind.fetch_add(1, Ordering::Relaxed);
                let mut request = [0; 4096];
                let mut answers = 0;
                let proper = loop {
                    match tls.read(&mut request).await {
                        Ok(0) => break true,
                        Ok(_) => {
                            let length = self.conduct.body.len();
                            answers += 1;
                            let is_last = Some(answers) == self.conduct.answers_max;
                            let close = if is_last { "Connection: close\r\n" } else { "" };
                            let head = format!(
                                "HTTP/1.1 200 OK\r\n{close}Content-Length: {length}\r\n\r\n"
                            );
                            let answer = [head.as_bytes(), &self.conduct.body].concat();
                            if tls.write_all(&answer).await.is_err() {
                                break false;
                            }
                        }
                        Err(_) => break false,
                    }
                };
                if self.conduct.lingers {
                    // `tls` closes the connection only when it is dropped.
                    std::future::pending::<()>().await;
                }
                proper
            }
            Err(_) => false,
        };
        let count = if proper { &self.properly } else { &self.otherwise };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
