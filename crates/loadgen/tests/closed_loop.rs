//! The closed loop against a rustls server in this process: what is counted, refused and given up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::{X509, X509NameBuilder};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;
use widelane_loadgen::{Cipher, ErrorKind, Group, Load, LoadError, TlsVersion, run};

/// A server that counts the connections which ended with the client's `close_notify`.
struct Server {
    address: SocketAddr,
    certificate: Vec<u8>,
    closed_properly: Arc<AtomicU64>,
    closed_otherwise: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Fixed(Arc<CertifiedKey>);

impl ResolvesServerCert for Fixed {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn key() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
}

fn certificate(key: &PKey<Private>) -> Vec<u8> {
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
    builder.sign(key, MessageDigest::sha256()).unwrap();
    builder.build().to_der().unwrap()
}

/// Starts a server that shows `shown`'s certificate and signs with `signing`.
fn serve(shown: &PKey<Private>, signing: &PKey<Private>) -> Server {
    let der = certificate(shown);
    let provider = aws_lc_rs::default_provider();
    let private = PrivatePkcs8KeyDer::from(signing.private_key_to_pkcs8().unwrap());
    let signer = provider.key_provider.load_private_key(PrivateKeyDer::from(private)).unwrap();
    let certified = CertifiedKey::new(vec![CertificateDer::from(der.clone())], signer);
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Fixed(Arc::new(certified))));
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = Server {
        address: listener.local_addr().unwrap(),
        certificate: der,
        closed_properly: Arc::default(),
        closed_otherwise: Arc::default(),
    };
    let (properly, otherwise) =
        (Arc::clone(&server.closed_properly), Arc::clone(&server.closed_otherwise));
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                let (properly, otherwise) = (Arc::clone(&properly), Arc::clone(&otherwise));
                tokio::spawn(async move {
                    let mut rest = Vec::new();
                    let proper = match acceptor.accept(tcp).await {
                        Ok(mut tls) => tls.read_to_end(&mut rest).await.is_ok(),
                        Err(_) => false,
                    };
                    let count = if proper { properly } else { otherwise };
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    });
    server
}

fn load(server: &Server, version: TlsVersion) -> Load {
    Load {
        target: server.address,
        server_name: "localhost".to_owned(),
        certificate: server.certificate.clone(),
        version,
        group: Group::X25519,
        cipher: Cipher::Aes256Gcm,
        connections: 8,
        cpu: None,
        warm_up: Duration::ZERO,
        window: Duration::from_secs(20),
        handshakes_max: 50,
        patience: Duration::from_secs(5),
    }
}

#[test]
fn counts_full_handshakes_that_the_server_saw_end_properly() {
    let key = key();
    let server = serve(&key, &key);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let edges = AtomicU64::new(0);
        let window = run(&load(&server, version), &AtomicBool::new(false), || {
            edges.fetch_add(1, Ordering::Relaxed)
        })
        .unwrap();
        assert_eq!((window.begin, window.end), (0, 1));
        assert!(window.tally.full >= 50, "{version:?}: {:?}", window.tally.full);
        assert_eq!(window.tally.resumed, 0);
        assert!(window.tally.errors.is_empty(), "{:?}", window.tally.errors);
        assert_eq!(window.tally.latency_ns.len(), window.tally.full);
        let (tcp_and_tls, tls) = (&window.tally.latency_ns, &window.tally.handshake_ns);
        assert!(tls.min() > 0 && tls.max() <= tcp_and_tls.max(), "{} {}", tls.min(), tls.max());
        assert!(!window.client_cpu.is_zero());
    }
    assert_eq!(server.closed_otherwise.load(Ordering::Relaxed), 0);
    assert!(server.closed_properly.load(Ordering::Relaxed) >= 100);
}

#[test]
fn refuses_another_certificate() {
    let key = key();
    let server = serve(&key, &key);
    let pinned = certificate(&self::key());
    let load = Load { certificate: pinned, ..load(&server, TlsVersion::Tls13) };
    let error = run(&load, &AtomicBool::new(false), || ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Certificate, .. }), "{error}");
}

#[test]
fn refuses_a_wrong_signature() {
    let server = serve(&key(), &key());
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let error = run(&load(&server, version), &AtomicBool::new(false), || ()).unwrap_err();
        assert!(
            matches!(error, LoadError::Failing { kind: ErrorKind::Signature, .. }),
            "{version:?}: {error}"
        );
    }
}

#[test]
fn gives_up_where_nobody_listens() {
    let key = key();
    let closed =
        std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let server = Server { address: closed, ..serve(&key, &key) };
    let error = run(&load(&server, TlsVersion::Tls12), &AtomicBool::new(false), || ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Refused, .. }), "{error}");
}

#[test]
fn stops_when_told_to() {
    let key = key();
    let server = serve(&key, &key);
    let error = run(&load(&server, TlsVersion::Tls12), &AtomicBool::new(true), || ()).unwrap_err();
    assert!(matches!(error, LoadError::Interrupted), "{error}");
}
