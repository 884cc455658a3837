//! Downloads from stock nginx and HAProxy under `widelane run`: they come whole, byte by byte, and
//! the provider's ciphers carry them, in the room that the policy leaves open and in no other.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use widelane_bench::programs::Programs;
use widelane_bench::server::content::{self, PATTERN};
use widelane_bench::server::{Identity, Key, SERVER_NAME, Server, ServerKind, Subject, Testbed};
use widelane_bridge::counters::CipherKind;
use widelane_cpu::Room;
use widelane_crypto::aead::{Aead, Algorithm};
use widelane_crypto::cbc_hmac::{self, CbcHmac, Mode};
use widelane_host::counters::Counts;
use widelane_host::programs::search_path;
use widelane_integration::server::widelane;
use widelane_loadgen::{Cipher, Group, Load, Pattern, TlsVersion, Work, run};
use widelane_testkit::rooms::{outruns_openssl, policy_here};

/// Bytes of a body.
const BODY_BYTES: u64 = 16 << 20;

/// Bytes of a record's text, at most.
const RECORD_BYTES: u64 = 16 << 10;

/// Suites, each with the cipher that its records have of the provider. With encrypt-then-MAC libssl
/// takes plain AES-CBC.
const SUITES: [(TlsVersion, Cipher, Option<CipherKind>); 6] = [
    (TlsVersion::Tls13, Cipher::Aes128Gcm, Some(CipherKind::Aes128Gcm)),
    (TlsVersion::Tls12, Cipher::Aes256Gcm, Some(CipherKind::Aes256Gcm)),
    (TlsVersion::Tls13, Cipher::Chacha20Poly1305, Some(CipherKind::ChaCha20Poly1305)),
    (TlsVersion::Tls12, Cipher::Chacha20Poly1305, Some(CipherKind::ChaCha20Poly1305)),
    (TlsVersion::Tls12, Cipher::Aes128ShaMacFirst, Some(CipherKind::Aes128CbcHmacSha1)),
    (TlsVersion::Tls12, Cipher::Aes128Sha, None),
];

#[test]
fn downloads_come_whole_through_the_providers_ciphers() -> Result<()> {
    let search = search_path(std::env::var_os("PATH"));
    let programs = Programs::search(widelane()?, None, &search);
    let kinds = programs.servers();
    assert_ne!(kinds, [ServerKind::Embedded], "install nginx and HAProxy");
    let mut testbed = Testbed::open(programs, &[], None)?;
    testbed.serve_content(&[BODY_BYTES], None)?;
    let identity = Identity::make(Key::Rsa(2048), testbed.directory())?;
    let mut before = records(testbed.directory())?;
    for kind in kinds {
        for (version, cipher, kind_of_records) in SUITES {
            let server =
                testbed.start(kind, Subject::Accelerated, std::slice::from_ref(&identity))?;
            download(&server, &identity, version, cipher)?;
            let name = server.name().to_owned();
            drop(server);
            let after = records(testbed.directory())?;
            let context = format!("{name} {version:?} {cipher:?}");
            assert_carried(&before, &after, kind_of_records, &context);
            before = after;
        }
    }
    Ok(())
}

/// Downloads a body; the client compares it byte by byte.
fn download(
    server: &Server,
    identity: &Identity,
    version: TlsVersion,
    cipher: Cipher,
) -> Result<()> {
    let load = Load {
        target: server.address(),
        server_name: SERVER_NAME.to_owned(),
        certificates: vec![identity.leaf.clone()],
        version,
        protocol: None,
        group: Group::X25519,
        cipher,
        shown: None,
        work: Work::Requests {
            path: content::path(BODY_BYTES),
            count: 1,
            body_bytes: Some(BODY_BYTES),
            pattern: Pattern::of(&PATTERN),
        },
        connections: 1,
        rate: None,
        seed: 0,
        cpus: Vec::new(),
        warm_up: Duration::ZERO,
        window: Duration::from_millis(20),
        handshakes_max: u64::MAX,
        patience: Duration::from_secs(20),
    };
    let tally = run(&load, &AtomicBool::new(false), |_| ())?.tally;
    assert!(tally.answers >= 1, "{version:?} {cipher:?}: {:?}", tally.errors);
    assert!(tally.errors.is_empty(), "{version:?} {cipher:?}: {:?}", tally.errors);
    Ok(())
}

/// Records of each cipher in each room.
type Records = Vec<((CipherKind, Room), u64)>;

/// The records that all servers so far have counted, below the directory of their testbed.
fn records(directory: &Path) -> Result<Records> {
    let mut processes = Vec::new();
    for server in fs::read_dir(directory)? {
        let counters = server?.path().join("counters");
        if counters.exists() {
            processes.extend(Counts::read_all(&counters));
        }
    }
    let count = |kind: CipherKind, room: Room| {
        let of_process =
            |counts: &Counts| counts.by_cipher[kind as usize].messages_by_room[room as usize];
        processes.iter().map(of_process).sum()
    };
    let places =
        CipherKind::ALL.into_iter().flat_map(|kind| Room::ALL.map(move |room| (kind, room)));
    Ok(places.map(|(kind, room)| ((kind, room), count(kind, room))).collect())
}

/// Asserts that a cipher carried a body in its room, and that nothing else was carried.
fn assert_carried(before: &Records, after: &Records, cipher: Option<CipherKind>, context: &str) {
    let expected = cipher.and_then(|kind| Some((kind, room(kind)?)));
    for ((place, before), (_, after)) in before.iter().zip(after) {
        let records = after - before;
        if Some(*place) == expected {
            assert!(records >= BODY_BYTES / RECORD_BYTES, "{context}: {records} records");
        } else {
            assert_eq!(records, 0, "{context}: {place:?}");
        }
    }
}

/// The room of a cipher on this machine, if the provider offers it there.
fn room(kind: CipherKind) -> Option<Room> {
    let policy = policy_here();
    let aead = |algorithm| Aead::choose(algorithm, &policy).room();
    let room = match kind {
        CipherKind::Aes128Gcm => aead(Algorithm::Aes128Gcm),
        CipherKind::Aes256Gcm => aead(Algorithm::Aes256Gcm),
        CipherKind::ChaCha20Poly1305 => aead(Algorithm::ChaCha20Poly1305),
        CipherKind::Aes128CbcHmacSha1 => {
            CbcHmac::choose(cbc_hmac::Algorithm::Aes128Sha1, Mode::MacThenEncrypt, &policy).room()
        }
        _ => return None,
    };
    outruns_openssl(kind, room).then_some(room)
}
