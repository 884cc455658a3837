//! The closed loop against a rustls server in this process: what is counted, refused and given up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use openssl::asn1::Asn1Time;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::{X509, X509NameBuilder};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;
use widelane_loadgen::{Cipher, ErrorKind, Group, KeyKind, Load, LoadError, TlsVersion, run};

/// A server that counts the connections which ended with the client's `close_notify`.
struct Server {
    address: SocketAddr,
    certificates: Vec<Vec<u8>>,
    closed_properly: Arc<AtomicU64>,
    closed_otherwise: Arc<AtomicU64>,
}

/// Shows the first certificate whose key the client can verify.
#[derive(Debug)]
struct Shown(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |certified: &&Arc<CertifiedKey>| {
            certified.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        self.0.iter().find(fits).cloned()
    }
}

fn key() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
}

fn elliptic(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
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
    let digest = match key.id() {
        Id::ED25519 => MessageDigest::null(),
        _ => MessageDigest::sha256(),
    };
    builder.sign(key, digest).unwrap();
    builder.build().to_der().unwrap()
}

/// Starts a server that shows the certificate of a pair's first key and signs with the second.
fn serve(pairs: &[(&PKey<Private>, &PKey<Private>)]) -> Server {
    serve_with(aws_lc_rs::default_provider(), pairs)
}

fn serve_with(provider: CryptoProvider, pairs: &[(&PKey<Private>, &PKey<Private>)]) -> Server {
    let (mut certificates, mut shown) = (Vec::new(), Vec::new());
    for (named, signing) in pairs {
        let der = certificate(named);
        let private = PrivatePkcs8KeyDer::from(signing.private_key_to_pkcs8().unwrap());
        let signer = provider.key_provider.load_private_key(PrivateKeyDer::from(private)).unwrap();
        let chain = vec![CertificateDer::from(der.clone())];
        shown.push(Arc::new(CertifiedKey::new(chain, signer)));
        certificates.push(der);
    }
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Shown(shown)));
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = Server {
        address: listener.local_addr().unwrap(),
        certificates,
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
        certificates: server.certificates.clone(),
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
    let server = serve(&[(&key, &key)]);
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
fn sees_every_kind_of_certificate_in_turn() {
    let keys = [
        key(),
        elliptic(Nid::X9_62_PRIME256V1),
        elliptic(Nid::SECP384R1),
        PKey::generate_ed25519().unwrap(),
    ];
    let server = serve(&keys.each_ref().map(|key| (key, key)));
    let kinds: Vec<_> = (server.certificates.iter())
        .map(|der| KeyKind::of(&CertificateDer::from(der.as_slice())).unwrap())
        .collect();
    let expected = [KeyKind::Rsa, KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::Ed25519];
    assert_eq!(kinds, expected);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for group in [Group::X25519, Group::Secp256r1, Group::Secp384r1] {
            // Each connection refuses any certificate but the one that it asks for.
            let load = Load { group, ..load(&server, version) };
            let window = run(&load, &AtomicBool::new(false), || ()).unwrap();
            assert!(window.tally.full >= 50, "{version:?}, {group:?}: {}", window.tally.full);
            assert!(window.tally.errors.is_empty(), "{version:?}: {:?}", window.tally.errors);
        }
    }
}

#[test]
fn refuses_a_certificate_that_no_client_of_ours_can_ask_for() {
    let unknown = certificate(&elliptic(Nid::SECP521R1));
    let server = serve(&[(&key(), &key())]);
    for certificates in [vec![unknown], vec![b"no certificate".to_vec()]] {
        let load = Load { certificates, ..load(&server, TlsVersion::Tls13) };
        let error = run(&load, &AtomicBool::new(false), || ()).unwrap_err();
        assert!(matches!(error, LoadError::Tls(_)), "{error}");
    }
    let load = Load { certificates: Vec::new(), ..load(&server, TlsVersion::Tls13) };
    let error = run(&load, &AtomicBool::new(false), || ()).unwrap_err();
    assert!(matches!(error, LoadError::NoCertificate), "{error}");
}

#[test]
fn refuses_another_group() {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::SECP256R1];
    let key = elliptic(Nid::X9_62_PRIME256V1);
    let server = serve_with(provider, &[(&key, &key)]);
    // The client offers the certificate's curve too, and would get it.
    let load = Load { group: Group::Secp384r1, ..load(&server, TlsVersion::Tls12) };
    let Err(error) = run(&load, &AtomicBool::new(false), || ()) else { panic!("it took P-256") };
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Group, .. }), "{error}");
}

#[test]
fn refuses_another_certificate() {
    let key = key();
    let server = serve(&[(&key, &key)]);
    let pinned = certificate(&self::key());
    let load = Load { certificates: vec![pinned], ..load(&server, TlsVersion::Tls13) };
    let error = run(&load, &AtomicBool::new(false), || ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Certificate, .. }), "{error}");
}

#[test]
fn refuses_a_wrong_signature() {
    let server = serve(&[(&key(), &key())]);
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
    let server = Server { address: closed, ..serve(&[(&key, &key)]) };
    let error = run(&load(&server, TlsVersion::Tls12), &AtomicBool::new(false), || ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Refused, .. }), "{error}");
}

#[test]
fn stops_when_told_to() {
    let key = key();
    let server = serve(&[(&key, &key)]);
    let error = run(&load(&server, TlsVersion::Tls12), &AtomicBool::new(true), || ()).unwrap_err();
    assert!(matches!(error, LoadError::Interrupted), "{error}");
}
