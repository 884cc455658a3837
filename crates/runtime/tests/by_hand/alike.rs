//! Accelerated and native servers answer alike, byte for byte: to a right hello of a client and to
//! hundreds that have something changed by chance, by alerts, messages, their order and extensions.
//! Only what is random by nature is left out: the server's random number, its key share and, where
//! it can be seen, its signature.
#![allow(unsafe_code, reason = "libssl and epoll by their C interfaces")]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use openssl::ssl::SslContext;
use openssl_sys as sys;
use widelane_testkit::fuzz::mutated;
use widelane_testkit::hex;
use widelane_testkit::random::Random;

use crate::reads::Function;
use crate::support::by_hand::{Connection, Epoll, HELLOS, accelerated_and_native, context, file};

/// Hellos of each version, of which the first are as they were, one for each way to call.
const CHANGED: usize = 250;

const SEED: u64 = 71;

#[test]
fn whatever_a_client_says_is_answered_alike() {
    let ([accelerated, native], counters) = accelerated_and_native("alike::scenario_alike");
    counters.assert_parked(None);
    assert_eq!(counters.fallbacks, 0, "{counters:?}");
    let (accelerated, native): (Vec<_>, Vec<_>) =
        (accelerated.lines().collect(), native.lines().collect());
    assert_eq!(accelerated.len(), HELLOS.len() * CHANGED);
    for (ours, theirs) in accelerated.iter().zip(&native) {
        assert_eq!(ours, theirs, "seed {SEED}");
    }
    let flights = native.iter().filter(|answer| answer.contains("16:")).count();
    let alerts = native.iter().filter(|answer| answer.contains("15:")).count();
    eprintln!("{flights} flights and {alerts} alerts by seed {SEED}");
    assert!(flights > 50 && alerts > 50);
}

#[test]
#[ignore = "runs under `accelerated_and_native`"]
fn scenario_alike() {
    let context = context();
    let mut random = Random::new(SEED);
    let mut answers = String::new();
    for (name, _) in HELLOS {
        let hello = std::fs::read(file(name)).expect("captured");
        for index in 0..CHANGED {
            let is_right = index <= Function::ALL.len();
            let hello = if is_right { hello.clone() } else { changed(&hello, &mut random) };
            // Every other hello, after the first ones, by `SSL_do_handshake`.
            let count = if is_right { Function::ALL.len() + 1 } else { 2 * Function::ALL.len() };
            let function = Function::ALL.get(index % count).copied();
            let said = answer(&context, &hello, function);
            let _ = writeln!(answers, "{name} {index}, {function:?}: {said}");
        }
    }
    std::fs::write(file("answers"), answers).expect("a write");
}

/// A hello with something changed behind the header of its record, which is made right again.
fn changed(hello: &[u8], random: &mut Random) -> Vec<u8> {
    let mut body = mutated(&hello[5..], random);
    body.truncate(8_000);
    let bytes = u16::try_from(body.len()).expect("truncated above");
    let mut record = hello[..3].to_vec();
    record.extend(bytes.to_be_bytes());
    record.append(&mut body);
    record
}

/// What a server answers to a hello, until it waits or fails. It handshakes by this function, or by
/// the one that does nothing else.
fn answer(context: &SslContext, hello: &[u8], function: Option<Function>) -> String {
    let (connection, mut client) = Connection::with_client(context);
    let epoll = Epoll::new();
    epoll.add(connection.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET);
    client.write_all(hello).expect("room");
    client.shutdown(std::net::Shutdown::Write).expect("our own socket");
    let mut ended = (-1, sys::SSL_ERROR_WANT_READ);
    // The end of the client's words comes with them, so a server never waits for more.
    while matches!(ended.1, sys::SSL_ERROR_WANT_READ | sys::SSL_ERROR_WANT_WRITE) {
        epoll.wait(-1).expect("an event");
        ended = match function {
            None => {
                let result = connection.handshake();
                (result, connection.error(result))
            }
            Some(function) => {
                let (_, result, error) = function.call(connection.ssl);
                (result, error)
            }
        };
    }
    let errors = errors();
    // What was said is there already; a read that would have to wait is behind its end.
    client.set_nonblocking(true).expect("our own socket");
    let mut flight = Vec::new();
    let _ = client.read_to_end(&mut flight);
    connection.free();
    format!("{ended:?} {errors} {}", masked(&flight))
}

/// The reasons in this thread's error queue.
fn errors() -> String {
    let mut text = String::new();
    // SAFETY: reads this thread's queue.
    while let error @ 1.. = unsafe { sys::ERR_get_error() } {
        let _ = write!(text, "{error:x},");
    }
    text
}

/// Records of a flight: type, version and length of each, and what is in those that can be read,
/// without what is random.
fn masked(mut flight: &[u8]) -> String {
    let mut text = String::new();
    while let [kind, major, minor, high, low, rest @ ..] = flight {
        let bytes = usize::from(u16::from_be_bytes([*high, *low]));
        let body = &rest[..bytes.min(rest.len())];
        let _ = write!(text, " {kind:x}:{major}.{minor}:{bytes}:");
        match kind {
            22 => messages(body, &mut text),
            // What is encrypted is random throughout.
            23 => {}
            _ => text.push_str(&hex::encode(body)),
        }
        flight = &rest[body.len()..];
    }
    text
}

/// Handshake messages of a record.
fn messages(mut body: &[u8], text: &mut String) {
    while let [kind, a, b, c, rest @ ..] = body {
        let bytes = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let message = &rest[..bytes.min(rest.len())];
        let shown = match kind {
            2 => server_hello(message),
            // Its curve is what is not random.
            12 => hex::encode(&message[..4.min(message.len())]),
            _ => hex::encode(message),
        };
        let _ = write!(text, "[{kind}:{bytes}:{shown}]");
        body = &rest[message.len()..];
    }
}

/// A hello of a server without its random number, the identifier of its session and its key share.
fn server_hello(message: &[u8]) -> String {
    let identifier = usize::from(message[34]);
    let behind = &message[35 + identifier..];
    let mut text =
        format!("{} {identifier} {}", hex::encode(&message[..2]), hex::encode(&behind[..3]));
    let mut extensions = behind.get(5..).unwrap_or_default();
    while let [a, b, high, low, rest @ ..] = extensions {
        let bytes = usize::from(u16::from_be_bytes([*high, *low]));
        let shown = if [*a, *b] == [0, 0x33] { 2 } else { bytes };
        let _ = write!(
            text,
            " {}({bytes})={}",
            hex::encode(&[*a, *b]),
            hex::encode(&rest[..shown.min(bytes)])
        );
        extensions = &rest[bytes..];
    }
    text
}
