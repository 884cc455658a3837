//! The closed loop against a rustls server in this process: what is counted, refused and given up.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use widelane_loadgen::{Cipher, ErrorKind, Group, KeyKind, Load, LoadError, TlsVersion, Work, run};

use crate::support::{Conduct, Server, certificate, elliptic, key, serve, serve_with};

fn load(server: &Server, version: TlsVersion) -> Load {
    Load {
        target: server.address,
        server_name: "localhost".to_owned(),
        certificates: server.certificates.clone(),
        version,
        group: Group::X25519,
        cipher: Cipher::Aes256Gcm,
        protocol: None,
        shown: None,
        work: Work::Handshake,
        connections: 8,
        rate: None,
        seed: 0,
        cpus: Vec::new(),
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
        let window = run(&load(&server, version), &AtomicBool::new(false), |_| {
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
        assert!(!window.client_cpu_most.is_zero());
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
            let window = run(&load, &AtomicBool::new(false), |_| ()).unwrap();
            assert!(window.tally.full >= 50, "{version:?}, {group:?}: {}", window.tally.full);
            assert!(window.tally.errors.is_empty(), "{version:?}: {:?}", window.tally.errors);
        }
    }
}

#[test]
fn refuses_a_certificate_that_no_client_of_ours_can_ask_for() {
    let unknown = certificate(&elliptic(Nid::SECP256K1));
    let server = serve(&[(&key(), &key())]);
    for certificates in [vec![unknown], vec![b"no certificate".to_vec()]] {
        let load = Load { certificates, ..load(&server, TlsVersion::Tls13) };
        let error = run(&load, &AtomicBool::new(false), |_| ()).unwrap_err();
        assert!(matches!(error, LoadError::Tls(_)), "{error}");
    }
    let load = Load { certificates: Vec::new(), ..load(&server, TlsVersion::Tls13) };
    let error = run(&load, &AtomicBool::new(false), |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::NoCertificate), "{error}");
}

#[test]
fn hands_out_shares_of_ml_kem() {
    use aws_lc_rs::kx_group::{SECP256R1MLKEM768, X25519MLKEM768};
    let key = elliptic(Nid::X9_62_PRIME256V1);
    let groups =
        [(Group::X25519MlKem768, X25519MLKEM768), (Group::Secp256r1MlKem768, SECP256R1MLKEM768)];
    for (group, of_server) in groups {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![of_server];
        let server = serve_with(provider, &[(&key, &key)], Conduct::default());
        let load = Load { group, ..load(&server, TlsVersion::Tls13) };
        let window = run(&load, &AtomicBool::new(false), |_| ()).unwrap();
        assert!(window.tally.full >= 50, "{group:?}: {}", window.tally.full);
        assert!(window.tally.errors.is_empty(), "{group:?}: {:?}", window.tally.errors);
    }
}

#[test]
fn a_server_without_ml_kem_is_told_by_the_curve_that_it_takes() {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let key = elliptic(Nid::X9_62_PRIME256V1);
    let server = serve_with(provider, &[(&key, &key)], Conduct::default());
    let of = |version| Load { group: Group::X25519MlKem768, ..load(&server, version) };
    let error =
        run(&of(TlsVersion::Tls13), &AtomicBool::new(false), |_| ()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Group, .. }), "{error}");
    assert!(error.to_string().contains("the server took X25519"), "{error}");
    let error =
        run(&of(TlsVersion::Tls12), &AtomicBool::new(false), |_| ()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Tls13Only("x25519mlkem768")), "{error}");
}

#[test]
fn refuses_another_group() {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::SECP256R1];
    let key = elliptic(Nid::X9_62_PRIME256V1);
    let server = serve_with(provider, &[(&key, &key)], Conduct::default());
    // The client offers the certificate's curve too, and would get it.
    let load = Load { group: Group::Secp384r1, ..load(&server, TlsVersion::Tls12) };
    let Err(error) = run(&load, &AtomicBool::new(false), |_| ()) else { panic!("it took P-256") };
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Group, .. }), "{error}");
}

#[test]
fn refuses_another_certificate() {
    let key = key();
    let server = serve(&[(&key, &key)]);
    let pinned = certificate(&self::key());
    let load = Load { certificates: vec![pinned], ..load(&server, TlsVersion::Tls13) };
    let error = run(&load, &AtomicBool::new(false), |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Certificate, .. }), "{error}");
}

#[test]
fn refuses_a_wrong_signature() {
    let server = serve(&[(&key(), &key())]);
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let error = run(&load(&server, version), &AtomicBool::new(false), |_| ()).unwrap_err();
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
    let error =
        run(&load(&server, TlsVersion::Tls12), &AtomicBool::new(false), |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Failing { kind: ErrorKind::Refused, .. }), "{error}");
}

#[test]
fn stops_when_told_to() {
    let key = key();
    let server = serve(&[(&key, &key)]);
    let error = run(&load(&server, TlsVersion::Tls12), &AtomicBool::new(true), |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Interrupted), "{error}");
}

#[test]
fn clients_go_on_while_the_beginning_is_observed() {
    let pause = Duration::from_millis(200);
    let key = key();
    let server = serve(&[(&key, &key)]);
    let load = Load {
        rate: Some(200.0),
        warm_up: Duration::from_millis(200),
        window: Duration::from_millis(500),
        handshakes_max: u64::MAX,
        ..load(&server, TlsVersion::Tls13)
    };
    let observe = |begin: Option<&()>| thread::sleep(begin.map_or(pause, |()| Duration::ZERO));
    let tally = run(&load, &AtomicBool::new(false), observe).unwrap().tally;
    let late = tally.latency_ns.count_between(pause.as_nanos() as u64 / 4, u64::MAX);
    assert!(tally.full > 60 && late < 10, "{late} of {}", tally.full);
}

#[test]
fn a_window_ends_with_the_first_answer_to_any_thread() {
    let key = key();
    let conduct = Conduct {
        body: vec![7; 1000],
        interval: Some(Duration::from_millis(400)),
        ..Conduct::default()
    };
    let server = serve_with(aws_lc_rs::default_provider(), &[(&key, &key)], conduct);
    let work =
        Work::Requests { path: "/".to_owned(), count: 1, body_bytes: Some(1000), pattern: None };
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpu = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    let load = Load {
        work,
        connections: 2,
        cpus: vec![cpu; 2],
        window: Duration::ZERO,
        handshakes_max: u64::MAX,
        ..load(&server, TlsVersion::Tls13)
    };
    let tally = run(&load, &AtomicBool::new(false), |_| ()).unwrap().tally;
    assert_eq!(tally.answers, 1);
}
