//! Real servers: they start, are driven and accounted for, and every way to fail is told apart.
//!
//! Needs nginx and HAProxy; `cargo xtask test` installs them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use widelane_bench::accounting;
use widelane_bench::embedded;
use widelane_bench::programs::Programs;
use widelane_bench::server::application::Application;
use widelane_bench::server::content::{self, PATTERN};
use widelane_bench::server::{
    GROUPS, Identity, Key, Processes, SERVER_NAME, Server, ServerError, ServerKind, Subject,
    Testbed,
};
use widelane_host::programs::search_path;
use widelane_loadgen::{Cipher, Group, Load, LoadError, Pattern, TlsVersion, Work, run};

fn programs() -> Programs {
    let search = search_path(std::env::var_os("PATH"));
    let programs = Programs::search(PathBuf::from("/nonexistent/widelane"), None, &search);
    assert!(programs.nginx.is_some(), "install nginx");
    assert!(programs.haproxy.is_some(), "install haproxy");
    assert!(programs.openssl.is_some(), "install openssl");
    programs
}

fn testbed() -> (Testbed, Identity) {
    let testbed = Testbed::open(programs(), &[], None).unwrap();
    let identity = Identity::make(Key::EcdsaP256, testbed.directory()).unwrap();
    (testbed, identity)
}

fn load(target: SocketAddr, identities: &[Identity], version: TlsVersion, group: Group) -> Load {
    Load {
        target,
        server_name: SERVER_NAME.to_owned(),
        certificates: identities.iter().map(|identity| identity.leaf.clone()).collect(),
        version,
        group,
        cipher: Cipher::Aes256Gcm,
        protocol: None,
        shown: None,
        work: Work::Handshake,
        connections: 8,
        rate: None,
        seed: 0,
        cpus: Vec::new(),
        warm_up: Duration::from_millis(20),
        window: Duration::from_secs(20),
        handshakes_max: 40,
        patience: Duration::from_secs(10),
    }
}

/// Drives a server with both versions and all groups; all handshakes must be full and free of
/// errors.
fn drive(target: SocketAddr, identities: &[Identity]) {
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for group in [Group::X25519, Group::Secp256r1, Group::Secp384r1] {
            let load = load(target, identities, version, group);
            let window = run(&load, &AtomicBool::new(false), |_| ()).unwrap();
            let context = format!("{version:?}, {group:?}, {:?}", identities[0].key);
            assert!(window.tally.full >= 40, "{context}: {}", window.tally.full);
            assert_eq!(window.tally.resumed, 0, "{context}");
            assert!(window.tally.errors.is_empty(), "{context}: {:?}", window.tally.errors);
        }
    }
}

/// Drives a server with each kind of certificate, and with two on one server.
fn drive_and_account(kind: ServerKind, processes: usize) {
    let mut testbed = Testbed::open(programs(), &[], None).unwrap();
    let certificates: [&[Key]; 5] = [
        &[Key::Rsa(2048)],
        &[Key::EcdsaP256],
        &[Key::EcdsaP384],
        &[Key::Ed25519],
        &[Key::Rsa(2048), Key::EcdsaP256],
    ];
    for keys in certificates {
        let identities: Vec<_> =
            keys.iter().map(|key| Identity::make(*key, testbed.directory()).unwrap()).collect();
        let server = testbed.start(kind, Subject::Native, &identities).unwrap();
        let processes = processes_of(&server, processes);
        let before = server.usage(&processes).unwrap();
        drive(server.address(), &identities);
        assert_eq!(server.processes().unwrap(), processes);
        assert!(server.usage(&processes).unwrap().cpu > before.cpu);
        assert_eq!(server.counts(), None);
    }
}

/// The processes of a server once it has so many; nginx listens before its worker is there.
fn processes_of(server: &Server, count: usize) -> Processes {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let processes = server.processes().unwrap();
        if processes.all.len() == count {
            return processes;
        }
        assert!(Instant::now() < end, "{processes:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nginx_is_driven_and_accounted_for_with_its_worker() {
    drive_and_account(ServerKind::Nginx, 2);
}

#[test]
fn haproxy_is_driven_and_accounted_for() {
    drive_and_account(ServerKind::Haproxy, 1);
}

#[test]
fn s_server_is_driven_and_accounted_for() {
    drive_and_account(ServerKind::SServer, 1);
}

/// Starts the embedded server in this process.
fn embedded_server(identities: &[Identity]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let served = identities.to_vec();
    thread::spawn(move || {
        let files: Vec<_> = (served.iter())
            .map(|identity| (identity.certificate.as_path(), identity.private_key.as_path()))
            .collect();
        embedded::serve(address, &files, GROUPS)
    });
    let end = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "the embedded server does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    address
}

#[test]
fn embedded_server_does_full_handshakes() {
    let directory = tempfile::tempdir().unwrap();
    let identities =
        [Key::Rsa(2048), Key::EcdsaP256].map(|key| Identity::make(key, directory.path()).unwrap());
    let address = embedded_server(&identities);
    drive(address, &identities);
    drive(address, &identities[1..]);
}

/// A length that is no multiple of a record, a file block or the pattern.
const BODY_BYTES: u64 = (1 << 20) + 12_345;

/// Downloads a body under every suite; the client compares it byte by byte.
fn download(target: SocketAddr, identity: &Identity) {
    let mut suites = vec![
        (TlsVersion::Tls12, Cipher::Aes128Sha, true),
        (TlsVersion::Tls12, Cipher::Aes128ShaMacFirst, false),
    ];
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Chacha20Poly1305] {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            suites.push((version, cipher, false));
        }
    }
    for (version, cipher, encrypt_then_mac) in suites {
        let downloads = downloads(target, identity, version, cipher, &content::path(BODY_BYTES));
        let window = run(&downloads, &AtomicBool::new(false), |_| ()).unwrap();
        let tally = window.tally;
        let context = format!("{version:?}, {cipher:?}");
        assert!(tally.answers >= 1 && tally.body_bytes > 0, "{context}");
        assert!(tally.errors.is_empty(), "{context}: {:?}", tally.errors);
        let negotiated = if encrypt_then_mac { tally.full } else { 0 };
        assert_eq!(tally.encrypt_then_mac, negotiated, "{context}");
    }
}

fn downloads(
    target: SocketAddr,
    identity: &Identity,
    version: TlsVersion,
    cipher: Cipher,
    path: &str,
) -> Load {
    Load {
        cipher,
        work: Work::Requests {
            path: path.to_owned(),
            count: 1,
            body_bytes: Some(BODY_BYTES),
            pattern: Pattern::of(&PATTERN),
        },
        connections: 2,
        warm_up: Duration::ZERO,
        window: Duration::from_millis(100),
        handshakes_max: u64::MAX,
        ..load(target, std::slice::from_ref(identity), version, Group::X25519)
    }
}

#[test]
fn bodies_come_whole_from_every_server_under_every_suite() {
    let mut testbed = Testbed::open(programs(), &[], None).unwrap();
    testbed.serve_content(&[BODY_BYTES], None).unwrap();
    let identity = Identity::make(Key::Rsa(2048), testbed.directory()).unwrap();
    let identities = std::slice::from_ref(&identity);
    for kind in [ServerKind::Nginx, ServerKind::Haproxy] {
        let server = testbed.start(kind, Subject::Native, identities).unwrap();
        download(server.address(), &identity);
        drive(server.address(), identities);
    }
    download(embedded_server(identities), &identity);
}

#[test]
fn a_body_that_is_not_there_is_told() {
    let (mut testbed, identity) = testbed();
    testbed.serve_content(&[1000], None).unwrap();
    let server =
        testbed.start(ServerKind::Nginx, Subject::Native, std::slice::from_ref(&identity)).unwrap();
    for (path, expected) in [("/bytes/999", "404"), ("/bytes/1000", "another length")] {
        let (version, cipher) = (TlsVersion::Tls13, Cipher::Aes128Gcm);
        let downloads = downloads(server.address(), &identity, version, cipher, path);
        let error = run(&downloads, &AtomicBool::new(false), |_| ()).unwrap_err();
        let LoadError::Failing { message, .. } = &error else { panic!("{error}") };
        assert!(message.contains(expected), "{error}");
    }
}

#[test]
fn pages_come_from_behind_nginx_or_what_is_missing_is_named() {
    let (mut testbed, identity) = testbed();
    if let Some(missing) = Application::missing(&programs()) {
        let error = testbed.host_application().unwrap_err().to_string();
        assert!(error.contains(missing) && error.contains("apt-get install"), "{error}");
        return;
    }
    testbed.host_application().unwrap();
    let identities = std::slice::from_ref(&identity);
    let server = testbed.start(ServerKind::Nginx, Subject::Native, identities).unwrap();
    let work = Work::Requests { path: "/".to_owned(), count: 1, body_bytes: None, pattern: None };
    let load = Load {
        work,
        connections: 2,
        window: Duration::from_secs(1),
        handshakes_max: u64::MAX,
        patience: Duration::from_secs(60),
        ..load(server.address(), identities, TlsVersion::Tls13, Group::X25519)
    };
    let tally = run(&load, &AtomicBool::new(false), |_| ()).unwrap().tally;
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    // A page without its posts, or one that tells of an error, is shorter.
    assert!(tally.answers >= 1 && tally.body_bytes > 20_000 * tally.answers, "{tally:?}");
    let processes = server.processes().unwrap().all;
    // nginx and its worker, PHP and its children, MariaDB.
    assert_eq!(processes.len(), 2 + 5 + 1);
    drop(server);
    drop(testbed);
    for pid in processes {
        assert!(accounting::process_tree(pid).is_err(), "{pid} lives on");
    }
}

#[test]
fn rejected_key_shows_what_the_server_says() {
    let (mut testbed, identity) = testbed();
    let other_directory = tempfile::tempdir().unwrap();
    let other = Identity::make(Key::EcdsaP256, other_directory.path()).unwrap();
    let mixed =
        [Identity::load(&identity.certificate, &other.private_key, testbed.directory()).unwrap()];
    for kind in [ServerKind::Nginx, ServerKind::Haproxy] {
        let Err(error) = testbed.start(kind, Subject::Native, &mixed) else {
            panic!("{} took a key that is not the certificate's", kind.name());
        };
        let ServerError::Rejected { output, .. } = &error else { panic!("{error}") };
        assert!(output.contains("key"), "{output}");
        assert!(error.to_string().contains("--certificate"), "{error}");
    }
}

#[test]
fn busy_port_is_named_with_the_remedy() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut testbed = Testbed::open(programs(), &[], Some(port)).unwrap();
    let identity = Identity::make(Key::Rsa(2048), testbed.directory()).unwrap();
    let Err(error) =
        testbed.start(ServerKind::Nginx, Subject::Native, std::slice::from_ref(&identity))
    else {
        panic!("port {port} is in use");
    };
    assert!(matches!(error, ServerError::PortInUse { port: named, .. } if named == port));
    assert!(error.to_string().contains("--port"), "{error}");
}

#[test]
fn a_port_is_called_in_use_only_if_it_is() {
    let nothing = Programs::search(PathBuf::from("/nonexistent/widelane"), None, &[]);
    let start = |testbed: &mut Testbed| {
        testbed.start(ServerKind::Nginx, Subject::Native, &[]).err().unwrap()
    };
    let mut testbed = Testbed::open(nothing.clone(), &[], Some(u16::MAX)).unwrap();
    assert!(!matches!(start(&mut testbed), ServerError::NoPortLeft));
    assert!(matches!(start(&mut testbed), ServerError::NoPortLeft));
    // An address for documentation, which no host has.
    let mut testbed = Testbed::open(nothing, &[], None).unwrap();
    testbed.listen_on(Ipv4Addr::new(192, 0, 2, 1));
    let error = start(&mut testbed);
    assert!(matches!(error, ServerError::Address { .. }), "{error}");
}

#[test]
fn missing_program_is_named() {
    let nothing = Programs::search(PathBuf::from("/nonexistent/widelane"), None, &[]);
    let mut testbed = Testbed::open(nothing, &[], None).unwrap();
    let identity = Identity::make(Key::Rsa(2048), testbed.directory()).unwrap();
    let Err(error) =
        testbed.start(ServerKind::Haproxy, Subject::Native, std::slice::from_ref(&identity))
    else {
        panic!("there is no HAProxy");
    };
    assert!(matches!(error, ServerError::NotInstalled("haproxy")), "{error}");
}

#[test]
fn death_of_a_server_is_noticed() {
    let (mut testbed, identity) = testbed();
    let mut server = testbed
        .start(ServerKind::Haproxy, Subject::Native, std::slice::from_ref(&identity))
        .unwrap();
    server.check_alive().unwrap();
    kill(server.pid(), Signal::SIGKILL).unwrap();
    let error = died(&mut server);
    assert!(error.to_string().contains("ended during the run"), "{error}");
}

fn died(server: &mut Server) -> ServerError {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match server.check_alive() {
            Err(error) => return error,
            Ok(()) => assert!(Instant::now() < end, "the server lives on"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn dropping_a_server_ends_master_and_worker() {
    let (mut testbed, identity) = testbed();
    let server =
        testbed.start(ServerKind::Nginx, Subject::Native, std::slice::from_ref(&identity)).unwrap();
    let processes = processes_of(&server, 2).all;
    drop(server);
    let end = Instant::now() + Duration::from_secs(10);
    for pid in processes {
        while accounting::process_tree(pid).is_ok() {
            assert!(Instant::now() < end, "{pid} lives on");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
