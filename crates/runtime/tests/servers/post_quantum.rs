//! What is post-quantum: `widelane run --pq`, by which a server that names no key-exchange groups
//! offers X25519MLKEM768, and certificates of ML-DSA, which OpenSSL signs with.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use widelane_bridge::counters::OperationKind;
use widelane_loadgen::{Group, TlsVersion};
use widelane_testkit::hello::{Answer, client_hello, converse, share_of};
use widelane_testkit::server::{free_address, nginx_files};

use crate::support::authority::{Authority, Identity, Kind};
use crate::support::clients::{REQUEST, first_flight, load, load_mixed, s_client, try_load};
use crate::support::server::Server;
use crate::support::{localhost, widelane};

/// What a system's administrator may have set for all programs.
const CONFIGURATION: &str = "\
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = default
[default]
Groups = X25519:P-384
";

/// nginx under `widelane run --pq`, with `more` in its block.
fn nginx(identity: &Identity, configuration: Option<&str>, more: &str) -> Server {
    let port = free_address().port();
    let mut run = Command::new(widelane());
    run.args(["run", "--pq"]);
    let directory = identity.certificate.parent().expect("a directory");
    if let Some(text) = configuration {
        let file = directory.join("openssl.cnf");
        std::fs::write(&file, text).expect("a write");
        run.env("OPENSSL_CONF", file);
    }
    let blocks = format!(
        "http {{ {}
           server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {};
                     ssl_certificate_key {};
                     ssl_protocols TLSv1.3; {more} return 200; }} }}",
        nginx_files(Path::new(".")),
        identity.certificate.display(),
        identity.key.display()
    );
    Server::nginx_run(&mut run, port, 1, "", &blocks)
}

/// Whether handshakes in `group` succeed.
fn negotiates(server: &Server, identity: &Identity, group: Group) -> bool {
    let tally = try_load(server.port, &[identity], TlsVersion::Tls13, group, 4, 8);
    tally.is_ok_and(|tally| tally.errors.is_empty() && tally.full >= 8)
}

#[test]
fn puts_ml_kem_in_front_of_what_openssl_offers() {
    let (_authority, identity) = localhost();
    let server = nginx(&identity, None, "");
    assert!(negotiates(&server, &identity, Group::X25519));
    assert!(negotiates(&server, &identity, Group::Secp256r1));
    let said = server.output();
    assert!(!said.contains("neither OpenSSL nor the provider has"), "{said}");
    assert!(negotiates(&server, &identity, Group::X25519MlKem768), "{said}");
}

#[test]
fn what_the_system_offers_stays_behind_it() {
    let (_authority, identity) = localhost();
    let server = nginx(&identity, Some(CONFIGURATION), "");
    assert!(negotiates(&server, &identity, Group::Secp384r1));
    // OpenSSL 3.0.2 does not heed groups in its configuration, with or without us.
    let heeds_none = openssl::version::number() == 0x3000_0020;
    assert_eq!(negotiates(&server, &identity, Group::Secp256r1), heeds_none);
    assert!(negotiates(&server, &identity, Group::X25519MlKem768), "{}", server.output());
}

#[test]
fn a_server_that_names_groups_has_the_last_word() {
    let (_authority, identity) = localhost();
    let server = nginx(&identity, None, "ssl_ecdh_curve P-256;");
    assert!(negotiates(&server, &identity, Group::Secp256r1));
    assert!(!negotiates(&server, &identity, Group::X25519));
    assert!(!negotiates(&server, &identity, Group::X25519MlKem768));
}

/// `curl` of Debian 13, on OpenSSL 3.5, where `cargo xtask systems` has made that system and this
/// process may enter it.
fn curl_of_debian_13(url: &str) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/systems/trixie");
    let curl = || {
        let mut curl = Command::new("chroot");
        curl.arg(&root).arg("curl").env_remove("OPENSSL_CONF");
        curl
    };
    let version = curl().arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).contains("OpenSSL/3.5") {
        return None;
    }
    let mut curl = curl();
    curl.args(["--silent", "--show-error", "--insecure", "--max-time", "20", url]);
    Some(curl)
}

/// Chromium without a window, if it is installed; `place` is for what it keeps.
fn chromium(url: &str, place: &Path) -> Option<Command> {
    Command::new("chromium").arg("--version").output().ok()?;
    let mut chromium = Command::new("timeout");
    chromium
        .args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
        .arg(format!("--user-data-dir={}", place.join("chromium").display()))
        .args(["--ignore-certificate-errors", "--dump-dom", url]);
    Some(chromium)
}

#[test]
fn clients_of_other_makers_shake_hands() {
    const ONLY: &str = "X25519MLKEM768";
    let (authority, identity) = localhost();
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let nginx = Server::nginx(
        1,
        &format!(
            "ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_ecdh_curve {ONLY};
             return 200 ok;"
        ),
    );
    // Further settings stand behind the file on the same line of the configuration.
    let pem = PathBuf::from(format!("{} curves {ONLY}", authority.bundle(&identity).display()));
    let haproxy = Server::haproxy("  nbthread 2\n", &pem, &["-db"]);
    for server in [nginx, haproxy] {
        assert!(negotiates(&server, &identity, Group::X25519MlKem768), "{}", server.output());
        let url = format!("https://127.0.0.1:{}/", server.port);
        let place = server.path("");
        let clients = [curl_of_debian_13(&url), chromium(&url, &place)];
        for (name, client) in ["curl of Debian 13", "chromium"].into_iter().zip(clients) {
            let Some(mut client) = client else {
                eprintln!("left out: there is no {name}");
                continue;
            };
            let said = client.output().expect("it was there a moment ago");
            let page = String::from_utf8_lossy(&said.stdout);
            assert!(page.contains("ok"), "{name}: {said:?}\n{}", server.output());
        }
        assert_eq!(server.counters().fallbacks, 0);
    }
}

#[test]
fn a_curve_without_kernels_keeps_no_group_from_shaking_hands() {
    let (_authority, identity) = localhost();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let policy = directory.path().join("policy.toml");
    for text in ["rooms_closed = [\"ifma256\", \"ifma512\"]\n", "width_max = 128\n"] {
        std::fs::write(&policy, text).expect("a short write");
        let certificate = identity.certificate.display();
        let http = format!(
            "ssl_certificate {certificate}; ssl_certificate_key {}; ssl_ecdh_curve X25519MLKEM768;",
            identity.key.display()
        );
        let run = ["--policy", policy.to_str().expect("text")];
        let server = Server::nginx_under(&run, 1, &http);
        let group = Group::X25519MlKem768;
        load_mixed(server.port, &[&identity], TlsVersion::Tls13, group, 4, 20);
    }
}

/// X25519MLKEM768, and where its shares have their last coefficient and the key of X25519.
const GROUP: u16 = 0x11ec;
const LAST_COEFFICIENT: usize = 1150;
const ON_CURVE: usize = 1184;

const OPENSSL_3_0_13: i64 = 0x3000_00d0;

#[test]
fn bad_shares_are_refused_and_harm_none_beside_them() {
    let (_authority, identity) = localhost();
    let server = nginx(&identity, None, "");
    let mut client = Command::new(widelane());
    client.args(["run", "--", "openssl", "s_client", "-tls1_3", "-groups", "X25519MLKEM768"]);
    let flight = first_flight(&mut client);
    let right = share_of(&flight[5..], GROUP).expect("a share of the only group");
    assert_eq!(right.len(), ON_CURVE + 32);
    let with = |share: &[u8]| client_hello(&[GROUP], &[(GROUP, share)]);
    let (mut zeros, mut unreduced) = (right.to_vec(), right.to_vec());
    zeros[ON_CURVE..].fill(0);
    unreduced[LAST_COEFFICIENT..ON_CURVE - 32].fill(0xff);
    let illegal_parameter = Answer::Alert(47);
    // The provider refuses zeros where it encapsulates, and libssl chooses the alert: that of
    // Ubuntu 22.04 and 24.04 says `internal_error`.
    let of_zeros = match openssl::version::number() {
        ..=OPENSSL_3_0_13 => Answer::Alert(80),
        _ => illegal_parameter,
    };
    let cases = [
        (vec![with(right)], vec![Answer::Hello]),
        (vec![with(&zeros)], vec![of_zeros]),
        (vec![with(right)], vec![Answer::Hello]),
        (vec![with(&unreduced)], vec![illegal_parameter]),
        (vec![with(&right[1..])], vec![illegal_parameter]),
        (vec![client_hello(&[GROUP], &[]), with(right)], vec![Answer::Retry(GROUP), Answer::Hello]),
        (vec![client_hello(&[GROUP], &[]), with(&zeros)], vec![Answer::Retry(GROUP), of_zeros]),
    ];
    // All at once, so that good and bad ones share batches.
    let clients: Vec<_> = (0..8)
        .flat_map(|_| cases.clone())
        .map(|(flights, expected)| {
            let connection = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
            thread::spawn(move || (converse(connection, &flights).expect("an answer"), expected))
        })
        .collect();
    for client in clients {
        let (answers, expected) = client.join().expect("a client");
        assert_eq!(answers, expected);
    }
    let counters = server.counters();
    assert_eq!(counters.fallbacks, 0, "{counters:?}");
    if counters.has_lanes() {
        counters.assert_parked_kind(OperationKind::X25519MlKem768Encapsulate);
    }
}

/// Whether the installed OpenSSL has ML-DSA.
fn has_ml_dsa() -> bool {
    let list = Command::new("openssl").args(["list", "-signature-algorithms"]).output();
    list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains("ML-DSA-65"))
}

#[test]
fn a_certificate_of_ml_dsa_is_shown_beside_one_of_rsa() {
    if !has_ml_dsa() {
        eprintln!("left out: the installed OpenSSL has no ML-DSA");
        return;
    }
    let authority = Authority::new();
    let [ml_dsa, rsa] =
        [Kind::MlDsa65, Kind::Rsa2048].map(|kind| authority.issue_with("localhost", kind));
    let pair = |identity: &Identity| {
        let (certificate, key) = (identity.certificate.display(), identity.key.display());
        format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
    };
    let server = Server::nginx(1, &format!("{} {} return 200;", pair(&ml_dsa), pair(&rsa)));
    let (port, trusted) = (server.port, authority.certificate());
    let arguments = ["-CAfile", trusted.to_str().expect("UTF-8"), "-verify_return_error"];
    let clients = [(); 8].map(|()| {
        std::thread::spawn({
            let arguments = arguments.map(str::to_owned);
            move || s_client(port, &arguments.each_ref().map(String::as_str), REQUEST)
        })
    });
    for client in clients {
        let said = client.join().expect("a client");
        assert!(said.contains("Peer signature type: mldsa65"), "{said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
        assert!(said.contains("200 OK"), "{said}");
    }
    // Who does not know ML-DSA gets the other one, in batches as ever.
    load(port, &rsa, TlsVersion::Tls13, 32, 200);
    server.counters().assert_parked_kind(OperationKind::Rsa2048);
}
