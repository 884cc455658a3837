//! What is post-quantum: `widelane run --pq`, by which a server that names no key-exchange groups
//! offers X25519MLKEM768, and certificates of ML-DSA, which OpenSSL signs with.

use std::path::Path;
use std::process::Command;

use widelane_bridge::counters::OperationKind;
use widelane_loadgen::{Group, TlsVersion};
use widelane_testkit::server::{free_address, nginx_files};

use crate::support::authority::{Authority, Identity, Kind};
use crate::support::clients::{REQUEST, load, s_client, try_load};
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
    assert!(!negotiates(&server, &identity, Group::Secp256r1));
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
    let tally = load(port, &rsa, TlsVersion::Tls13, 32, 200);
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    server.counters().assert_parked_kind(OperationKind::Rsa2048);
}
