//! Records of TLS through libssl: every suite whose cipher is ours, the provider on either side and
//! on both, records of all lengths, new keys on the way, in every room.
#![allow(unsafe_code, reason = "calls libssl, and sets the environment of a forked child")]

use std::env;
use std::ffi::{CStr, c_int, c_void};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::time::Duration;

use foreign_types::ForeignTypeRef;
use openssl::ssl::{
    Ssl, SslContext, SslFiletype, SslMethod, SslOptions, SslRef, SslStream, SslVerifyMode,
    SslVersion,
};
use widelane_bridge::counters::CipherKind;
use widelane_cpu::{Room, Width};
use widelane_testkit::rooms::policy_here_up_to;

use crate::common::ffi;
use crate::common::process::{Child, in_child, prefer, setting};
use crate::common::{Place, ciphers_offered, done};

const KEY_UPDATE_REQUESTED: c_int = 1;
const CTRL_TOTAL_RENEGOTIATIONS: c_int = 12;
const NO_ENCRYPT_THEN_MAC: SslOptions = SslOptions::from_bits_retain(1 << 19);
const ALLOW_CLIENT_RENEGOTIATION: SslOptions = SslOptions::from_bits_retain(1 << 8);

/// A suite: its version, its name, whether the tag comes first, and the cipher that its records
/// have of the provider.
type Suite = (SslVersion, &'static str, Order, Option<CipherKind>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Suites whose cipher has a tag of its own, or where the tag is encrypted with the text.
    TagInside,
    /// Where the tag is that of the ciphertext, libssl takes plain AES-CBC.
    EncryptThenMac,
}

const SUITES: [Suite; 15] = {
    use CipherKind::*;
    use Order::*;
    const TLS_1_3: SslVersion = SslVersion::TLS1_3;
    const TLS_1_2: SslVersion = SslVersion::TLS1_2;
    [
        (TLS_1_3, "TLS_AES_128_GCM_SHA256", TagInside, Some(Aes128Gcm)),
        (TLS_1_3, "TLS_AES_256_GCM_SHA384", TagInside, Some(Aes256Gcm)),
        (TLS_1_3, "TLS_CHACHA20_POLY1305_SHA256", TagInside, Some(ChaCha20Poly1305)),
        (TLS_1_2, "ECDHE-RSA-AES128-GCM-SHA256", TagInside, Some(Aes128Gcm)),
        (TLS_1_2, "ECDHE-RSA-AES256-GCM-SHA384", TagInside, Some(Aes256Gcm)),
        (TLS_1_2, "ECDHE-RSA-CHACHA20-POLY1305", TagInside, Some(ChaCha20Poly1305)),
        (TLS_1_2, "AES128-SHA", TagInside, Some(Aes128CbcHmacSha1)),
        (TLS_1_2, "AES256-SHA", TagInside, Some(Aes256CbcHmacSha1)),
        (TLS_1_2, "AES128-SHA256", TagInside, Some(Aes128CbcHmacSha256)),
        (TLS_1_2, "AES256-SHA256", TagInside, Some(Aes256CbcHmacSha256)),
        (TLS_1_2, "AES128-SHA", EncryptThenMac, None),
        (TLS_1_2, "AES256-SHA256", EncryptThenMac, None),
        (SslVersion::TLS1_1, "ECDHE-RSA-AES128-SHA", TagInside, Some(Aes128CbcHmacSha1)),
        (SslVersion::TLS1, "ECDHE-RSA-AES256-SHA", TagInside, Some(Aes256CbcHmacSha1)),
        (SslVersion::TLS1, "ECDHE-RSA-AES256-SHA", EncryptThenMac, None),
    ]
};

/// Bytes of the messages that go there and back: records of all lengths, several records, and as
/// many as libssl makes at once where the cipher can.
const MESSAGES: [usize; 18] = [
    1, 2, 11, 12, 16, 17, 64, 255, 1000, 1350, 4096, 16383, 16384, 16385, 70_000, 140_000, 5, 1350,
];

/// Messages before which there are new keys.
const NEW_KEYS: [usize; 2] = [6, 15];

/// How long a side may keep the other one waiting.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who has the provider.
const SIDES: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

#[test]
fn every_suite_carries_text_both_ways() {
    let mut visited = 0;
    for width in [Width::W128, Width::W256, Width::W512] {
        let offered = ciphers_offered(&policy_here_up_to(width));
        visited += SUITES.iter().filter(|suite| room_of(suite, &offered).is_some()).count();
        let status = in_child(|| {
            // SAFETY: the child has one thread.
            unsafe { env::set_var("WIDELANE_MAX_SIMD_BITWIDTH", width.bits().to_string()) };
            let (place, _lock) = setting();
            done(&mut place.plain(
                "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem \
                 -out root.pem",
            ));
            for suite in &SUITES {
                let room = room_of(suite, &offered);
                for sides in SIDES {
                    let before = messages(place);
                    connect(place, suite, sides);
                    assert_grown(&before, &messages(place), suite, room, sides);
                }
            }
        });
        assert_eq!(status, 0, "the child's test at {width:?} passes");
    }
    eprintln!("{visited} suites in rooms of the provider");
    let gcm = ciphers_offered(&policy_here_up_to(Width::W256)).len() / 3;
    assert!(visited >= 4 * gcm, "every room that the machine has is visited");
}

fn room_of(suite: &Suite, offered: &[(CipherKind, Room)]) -> Option<Room> {
    offered.iter().find(|(kind, _)| Some(*kind) == suite.3).map(|(_, room)| *room)
}

/// Messages of each cipher in each room, so far.
fn messages(place: &Place) -> Vec<((CipherKind, Room), u64)> {
    let processes = place.counters();
    let each = CipherKind::ALL.into_iter().flat_map(|kind| Room::ALL.map(|room| (kind, room)));
    each.map(|(kind, room)| {
        let counted = processes
            .iter()
            .map(|counts| counts.by_cipher[kind as usize].messages_by_room[room as usize]);
        ((kind, room), counted.sum())
    })
    .collect()
}

/// Asserts that the records of a connection were made in the room of their cipher, and in no other.
fn assert_grown(
    before: &[((CipherKind, Room), u64)],
    after: &[((CipherKind, Room), u64)],
    suite: &Suite,
    room: Option<Room>,
    sides: (bool, bool),
) {
    for ((place, before), (_, after)) in before.iter().zip(after) {
        let records = after - before;
        // Each side that is ours seals and opens; long messages have several records.
        let ours = u64::from(sides.0) + u64::from(sides.1);
        let least = ours * 2 * MESSAGES.len() as u64;
        if Some(*place) == suite.3.zip(room) {
            assert!(records >= least, "{}: {records} records in {place:?}", suite.1);
        } else {
            assert_eq!(records, 0, "{}: {place:?}", suite.1);
        }
    }
}

/// A connection between two processes; `sides` says whether the server and the client are ours.
fn connect(place: &Place, suite: &Suite, sides: (bool, bool)) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    // The child inherits both ends, so that neither side sees the other one die.
    for end in [&near, &far] {
        end.set_read_timeout(Some(PATIENCE)).expect("a limit for reading");
    }
    let server = Child::fork(|| {
        prefer_ours(sides.0);
        let context = context(place, suite);
        let mut stream = SslStream::new(Ssl::new(&context).unwrap(), far).unwrap();
        stream.accept().unwrap();
        serve(&mut stream, suite);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the client says goodbye");
    });
    prefer_ours(sides.1);
    let context = context(place, suite);
    let mut stream = SslStream::new(Ssl::new(&context).unwrap(), near).unwrap();
    stream.connect().unwrap();
    assert_eq!(stream.ssl().version2(), Some(suite.0));
    assert_eq!(stream.ssl().current_cipher().unwrap().name(), suite.1);
    converse(&mut stream, suite);
    stream.shutdown().unwrap();
    drop(stream);
    assert_eq!(server.wait(), 0, "the server of {} goes through with it", suite.1);
}

fn prefer_ours(ours: bool) {
    const QUERIES: [&CStr; 2] = [c"provider=default", c"?provider=widelane"];
    prefer(QUERIES[usize::from(ours)]);
}

fn context(place: &Place, suite: &Suite) -> SslContext {
    let (version, name, order, _) = *suite;
    let mut builder = SslContext::builder(SslMethod::tls()).unwrap();
    builder.set_security_level(0);
    builder.set_min_proto_version(Some(version)).unwrap();
    builder.set_max_proto_version(Some(version)).unwrap();
    if version == SslVersion::TLS1_3 {
        builder.set_ciphersuites(name).unwrap();
    } else {
        builder.set_cipher_list(name).unwrap();
    }
    builder.set_options(ALLOW_CLIENT_RENEGOTIATION);
    if order == Order::TagInside {
        builder.set_options(NO_ENCRYPT_THEN_MAC);
    }
    builder.set_verify(SslVerifyMode::NONE);
    builder.set_certificate_file(place.path("root.pem"), SslFiletype::PEM).unwrap();
    builder.set_private_key_file(place.path("key.pem"), SslFiletype::PEM).unwrap();
    builder.build()
}

fn text(message: usize) -> Vec<u8> {
    (0..MESSAGES[message]).map(|index| (index * 7 + message) as u8).collect()
}

/// Sends all messages and has them sent back.
fn converse(stream: &mut SslStream<UnixStream>, suite: &Suite) {
    for message in 0..MESSAGES.len() {
        if NEW_KEYS.contains(&message) {
            change_keys(stream, suite);
        }
        let text = text(message);
        stream.write_all(&text).unwrap();
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == text, "{}: {} bytes come back as they were", suite.1, text.len());
    }
}

/// Sends all messages back.
fn serve(stream: &mut SslStream<UnixStream>, suite: &Suite) {
    for (message, bytes) in MESSAGES.into_iter().enumerate() {
        let mut there = vec![0; bytes];
        stream.read_exact(&mut there).unwrap();
        assert!(there == text(message), "{}: {} bytes arrive", suite.1, there.len());
        stream.write_all(&there).unwrap();
    }
}

/// Has both sides take new keys: with an update, or before TLS 1.3 with another handshake.
fn change_keys(stream: &mut SslStream<UnixStream>, suite: &Suite) {
    let ssl = pointer(stream.ssl());
    if suite.0 == SslVersion::TLS1_3 {
        // SAFETY: a connection.
        assert_eq!(unsafe { ffi::SSL_key_update(ssl, KEY_UPDATE_REQUESTED) }, 1);
        return;
    }
    let total = || {
        // SAFETY: a connection; the answer is a number.
        unsafe { ffi::SSL_ctrl(ssl, CTRL_TOTAL_RENEGOTIATIONS, 0, ptr::null_mut()) }
    };
    let before = total();
    // SAFETY: a connection.
    assert_eq!(unsafe { ffi::SSL_renegotiate(ssl) }, 1);
    stream.do_handshake().unwrap();
    assert_eq!(total(), before + 1);
}

fn pointer(ssl: &SslRef) -> *mut c_void {
    ssl.as_ptr().cast()
}
