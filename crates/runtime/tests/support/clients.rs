//! Clients: many handshakes at once, and the `openssl` program for everything special.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use openssl::ssl::{Ssl, SslContext, SslMethod, SslVersion};
use openssl::x509::X509;
use widelane_loadgen::{Cipher, Group, Load, LoadError, Tally, TlsVersion, Work, run};

use super::KINDS_MIXED;
use super::authority::Identity;
use super::server::Server;

/// Makes `handshakes` full handshakes, `connections` at a time, none of which may fail; the
/// server's signature is verified.
#[track_caller]
pub fn load(
    port: u16,
    identity: &Identity,
    version: TlsVersion,
    connections: usize,
    handshakes: u64,
) -> Tally {
    load_mixed(port, &[identity], version, Group::X25519, connections, handshakes)
}

/// Like [`load`], for all certificates of a server in turn, and any key-exchange group.
#[track_caller]
pub fn load_mixed(
    port: u16,
    identities: &[&Identity],
    version: TlsVersion,
    group: Group,
    connections: usize,
    handshakes: u64,
) -> Tally {
    let tally = try_load(port, identities, version, group, connections, handshakes)
        .expect("a load that can be made");
    assert!(tally.errors.is_empty(), "{version:?}, {group:?}: {:?}", tally.errors);
    tally
}

/// Has clients shake hands in both versions of TLS and every group of a curve, and demands that all
/// kinds of operations of that were parked and batched.
pub fn load_every_group(server: &Server, identities: &[&Identity]) {
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for group in [Group::X25519, Group::Secp256r1, Group::Secp384r1] {
            load_mixed(server.port, identities, version, group, 64, 300);
        }
    }
    let counters = server.counters();
    counters.assert_batched();
    KINDS_MIXED.into_iter().for_each(|kind| counters.assert_parked_kind(kind));
}

/// Like [`load_mixed`], where handshakes may fail, or why it cannot be made.
pub fn try_load(
    port: u16,
    identities: &[&Identity],
    version: TlsVersion,
    group: Group,
    connections: usize,
    handshakes: u64,
) -> Result<Tally, LoadError> {
    let load = Load {
        version,
        group,
        connections,
        handshakes_max: handshakes,
        ..load_of(port, identities)
    };
    Ok(run(&load, &AtomicBool::new(false), |_| ())?.tally)
}

/// A load by TLS 1.3 on a server with these certificates, to be changed at will.
pub fn load_of(port: u16, identities: &[&Identity]) -> Load {
    let certificate = |identity: &&Identity| {
        let pem = std::fs::read(&identity.certificate).expect("made");
        X509::from_pem(&pem).and_then(|it| it.to_der()).expect("a certificate")
    };
    Load {
        target: SocketAddr::from(([127, 0, 0, 1], port)),
        server_name: "localhost".to_owned(),
        certificates: identities.iter().map(certificate).collect(),
        version: TlsVersion::Tls13,
        group: Group::X25519,
        cipher: Cipher::Aes256Gcm,
        shown: None,
        protocol: None,
        work: Work::Handshake,
        connections: 1,
        rate: None,
        seed: 0,
        cpus: Vec::new(),
        warm_up: Duration::ZERO,
        window: Duration::from_secs(60),
        handshakes_max: u64::MAX,
        patience: Duration::from_secs(20),
    }
}

/// `openssl s_client` with `arguments`, sending `request`; what it printed.
pub fn s_client(port: u16, arguments: &[&str], request: &str) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-ign_eof"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut input = client.stdin.take().expect("piped");
    input.write_all(request.as_bytes()).expect("a client that reads its input");
    let output = client.wait_with_output().expect("our child");
    drop(input);
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A request after which the server closes the connection.
pub const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The first flight of a client of one version, `-tls1_2` say, captured from `openssl s_client`.
pub fn client_hello(directory: &Path, version: &str) -> Vec<u8> {
    let mut client = Command::new("openssl");
    client.args(["s_client", version, "-servername", "localhost"]).current_dir(directory);
    first_flight(&mut client)
}

/// The first flight of a client, which takes `-connect` as its next argument.
pub fn first_flight(client: &mut Command) -> Vec<u8> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let mut client = client
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let (mut connection, _) = listener.accept().expect("a client that connects");
    let mut header = [0; 5];
    connection.read_exact(&mut header).expect("a record");
    let mut record = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    connection.read_exact(&mut record).expect("a whole record");
    drop(connection);
    client.wait().expect("our child");
    [&header[..], &record].concat()
}

/// Connects and sends `bytes`.
pub fn send(port: u16, bytes: &[u8]) -> TcpStream {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("a server that listens");
    connection.write_all(bytes).expect("a server that reads");
    connection
}

/// A socket whose writes leave when the next read waits for their answer: the last flight of a
/// handshake and a request come to the server together.
#[derive(Debug)]
pub struct Together {
    /// The socket.
    pub socket: TcpStream,
    /// What has been written and has not left yet.
    pub written: Vec<u8>,
}

impl Read for Together {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.socket.write_all(&std::mem::take(&mut self.written))?;
        self.socket.read(buffer)
    }
}

impl Write for Together {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// In how many packets a server sends its flight, its session tickets and an answer, where the
/// request comes with the end of the handshake.
pub fn packets_of_an_answer(port: u16) -> u32 {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    let counted = socket.try_clone().expect("a second handle");
    let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).expect("a version");
    let ssl = Ssl::new(&context.build()).expect("a connection");
    let stream = Together { socket, written: Vec::new() };
    let mut stream = ssl.connect(stream).expect("a handshake");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("room");
    let read = stream.read(&mut [0; 1024]).expect("an answer");
    assert!(read > 0);
    data_packets_in(&counted)
}

/// How many packets with data have come in, by the kernel's `tcp_info`, of which the `libc` crate
/// knows the beginning.
#[allow(unsafe_code, reason = "asks the kernel about a socket")]
fn data_packets_in(socket: &TcpStream) -> u32 {
    const DATA_SEGMENTS_IN: usize = 152;
    let mut info = [0_u8; DATA_SEGMENTS_IN + 4];
    let mut bytes = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes as many bytes as there are at most, and their number.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    assert_eq!((status, bytes as usize), (0, info.len()));
    let (_, count) = info.split_last_chunk().expect("four bytes and more");
    u32::from_ne_bytes(*count)
}
