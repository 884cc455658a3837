//! Stock `openssl s_client` and `openssl s_server` on the other side.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, Stream};
use tempfile::TempDir;
use widelane_testkit::server::{Process, free_address};

use crate::common::{Kind, client, ours, server};

const PATIENCE: Duration = Duration::from_secs(20);

/// What both sides are told, for every suite, group and kind of key once.
const TERMS: [(Kind, &[&str]); 9] = [
    (Kind::P256, &["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-groups", "X25519"]),
    (Kind::P384, &["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384", "-groups", "P-384"]),
    (
        Kind::Rsa2048,
        &["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "-groups", "P-256"],
    ),
    (Kind::Rsa3072, &["-tls1_3"]),
    (Kind::Rsa4096, &["-tls1_3"]),
    (Kind::Ed25519, &["-tls1_3"]),
    (Kind::P256, &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"]),
    (Kind::Rsa2048, &["-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"]),
    (Kind::Rsa2048, &["-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"]),
];

#[test]
fn s_client_speaks_to_us() {
    for (kind, terms) in TERMS {
        let directory = TempDir::new().expect("a directory");
        let certificate = directory.path().join("certificate.pem");
        fs::write(&certificate, kind.identity().certificate.to_pem().expect("PEM"))
            .expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let config = Arc::new(server(ours(), kind));
        let serving = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let mut connection = ServerConnection::new(config).expect("a server");
            let mut stream = Stream::new(&mut connection, &mut socket);
            let mut request = [0; 6];
            stream.read_exact(&mut request).expect("a request");
            stream.write_all(b"answer\n").expect("an answer");
            stream.conn.send_close_notify();
            stream.flush().expect("the end");
            request
        });
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error", "-verify_hostname", "localhost"])
            .args(["-connect", &address.to_string(), "-servername", "localhost", "-CAfile"])
            .arg(&certificate)
            .args(terms)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        client.stdin.take().expect("a pipe").write_all(b"hello\n").expect("a pipe");
        let output = client.wait_with_output().expect("an end");
        assert_eq!(serving.join().expect("a server"), *b"hello\n", "{terms:?}");
        assert_eq!(output.stdout, b"answer\n", "{terms:?}");
    }
}

#[test]
fn we_speak_to_s_server() {
    for (kind, terms) in TERMS {
        let identity = kind.identity();
        let directory = TempDir::new().expect("a directory");
        let (certificate, key) =
            (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
        fs::write(&certificate, identity.certificate.to_pem().expect("PEM")).expect("a file");
        fs::write(&key, identity.key.private_key_to_pem_pkcs8().expect("PEM")).expect("a file");
        let address = free_address();
        let mut command = Command::new("openssl");
        command
            .args(["s_server", "-quiet", "-rev", "-accept", &address.to_string(), "-cert"])
            .arg(&certificate)
            .arg("-key")
            .arg(&key)
            .args(terms)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _process = Process::listening(&mut command, address);
        let mut socket = std::net::TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut connection =
            ClientConnection::new(Arc::new(client(ours(), kind)), name).expect("a client");
        let mut stream = Stream::new(&mut connection, &mut socket);
        stream.write_all(b"hello\n").expect("a request");
        let mut answer = [0; 6];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *b"olleh\n", "{terms:?}");
    }
}
