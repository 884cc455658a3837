//! What both sides of a handshake answer on the wire to bad shares of groups with ML-KEM: as
//! OpenSSL 3.5 does, by the alerts of RFC 8446.
#![allow(unsafe_code, reason = "calls libcrypto as libssl does")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use widelane_testkit::hello::{self, Answer, client_hello, converse, server_hello, unreadable};

use crate::common::process::{prefer, setting};
use crate::common::server::Server;
use crate::common::{Place, debian_13, done};
use crate::kem::{KNOWN, Known};
use crate::pkey::Key;

/// Alerts by their names in RFC 8446.
const BAD_RECORD_MAC: Answer = Answer::Alert(20);
const ILLEGAL_PARAMETER: Answer = Answer::Alert(47);
const DECODE_ERROR: Answer = Answer::Alert(50);
const INTERNAL_ERROR: Answer = Answer::Alert(80);

const X25519: u16 = 0x001d;

/// What a client says, and what a server answers.
struct Case {
    what: &'static str,
    flights: Vec<Vec<u8>>,
    answers: Vec<Answer>,
}

fn cases(known: &Known, share: &[u8]) -> Vec<Case> {
    let id = known.id;
    let with = |share: &[u8]| client_hello(&[id], &[(id, share)]);
    let without = || client_hello(&[id], &[]);
    let of_length = |bytes| with(&share.iter().copied().cycle().take(bytes).collect::<Vec<_>>());
    let case = |what, flights, answers: &[Answer]| Case { what, flights, answers: answers.into() };
    let refused = |what, flight| case(what, vec![flight], &[ILLEGAL_PARAMETER]);
    let asked =
        |what, second, answer| case(what, vec![without(), second], &[Answer::Retry(id), answer]);
    let [first, last] = known.unreduced(share);
    let on_x25519: (u16, &[u8]) = (X25519, &[9; 32]);
    let mut cases = vec![
        case("a right share", vec![with(share)], &[Answer::Hello]),
        case("an empty share", vec![of_length(0)], &[DECODE_ERROR]),
        refused("one byte", of_length(1)),
        refused("a byte too few", of_length(share.len() - 1)),
        refused("a byte too many", of_length(share.len() + 1)),
        refused("a share twice as long", of_length(2 * share.len())),
        refused("a first coefficient of q", with(&first)),
        refused("a last coefficient of q", with(&last)),
        refused("a share of a group that is not offered", client_hello(&[X25519], &[(id, share)])),
        asked("no share, then a right one", with(share), Answer::Hello),
        asked("no share, and again none", without(), ILLEGAL_PARAMETER),
        asked("no share, then a short one", of_length(share.len() - 1), ILLEGAL_PARAMETER),
        case(
            "a bad share behind a good one",
            vec![client_hello(&[X25519, id], &[on_x25519, (id, &share[1..])])],
            &[Answer::Hello],
        ),
    ];
    let on_curve = known.curve_in_share(share);
    let changed = |change: fn(&mut [u8])| {
        let mut share = share.to_vec();
        change(&mut share[on_curve.clone()]);
        with(&share)
    };
    if !on_curve.is_empty() {
        cases.push(refused("zeros on the curve", changed(|point| point.fill(0))));
    }
    if on_curve.len() > 32 {
        cases.push(refused("a compressed point", changed(|point| point[0] = 2)));
        cases.push(refused("no point", changed(|point| point[point.len() - 1] ^= 1)));
    } else if !on_curve.is_empty() {
        cases.push(refused(
            "a point of order 1",
            changed(|point| {
                point.fill(0);
                point[0] = 1;
            }),
        ));
    }
    cases
}

/// A server of each kind that is to be had, ours first.
fn servers(place: &Place, known: &Known) -> Vec<Server> {
    let group = known.name.to_str().unwrap();
    let command = |directory: &str| {
        format!(
            "s_server -accept 127.0.0.1:0 -cert {directory}/root.pem -key {directory}/key.pem \
             -www -groups {group}:X25519"
        )
    };
    let mut servers = vec![Server::start(&mut place.ours(&format!("openssl {}", command("."))))];
    // That system sees its own files only.
    let folder = debian_13::root().join("tmp");
    let Ok(folder) = tempfile::tempdir_in(folder) else { return servers };
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["root.pem", "key.pem"] {
        fs::copy(place.path(name), folder.path().join(name)).unwrap();
    }
    let in_there = format!("/tmp/{}", folder.path().file_name().unwrap().to_str().unwrap());
    let theirs = debian_13::openssl(&command(&in_there));
    servers.extend(theirs.map(|mut openssl| Server::start(&mut openssl)));
    servers
}

#[test]
fn servers_answer_bad_shares_as_openssl_3_5_does() {
    let (_place, _lock) = setting();
    prefer(c"?provider=widelane");
    let place = Place::new();
    done(&mut place.ours("openssl genpkey -quiet -algorithm RSA -out key.pem"));
    done(&mut place.ours("openssl req -x509 -key key.pem -subj /CN=localhost -out root.pem"));
    let mut compared = 0;
    for known in &KNOWN {
        let cases = cases(known, &Key::of_group(known.name, true).public());
        let servers = servers(&place, known);
        compared += servers.len() - 1;
        for (index, server) in servers.iter().enumerate() {
            for case in &cases {
                let address = format!("127.0.0.1:{}", server.port);
                let connection = TcpStream::connect(address).expect("a server that listens");
                connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let answers = converse(connection, &case.flights).expect("an answer");
                let what = format!("{:?}, {}, server {index}", known.name, case.what);
                assert_eq!(answers, case.answers, "{what}");
            }
        }
    }
    if compared == 0 {
        eprintln!("{}", debian_13::LEFT_OUT);
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}

/// What a client answers to a server's share.
fn answer_of(mut client: Command, listener: &TcpListener, known: &Known, share: &[u8]) -> Answer {
    let group = known.name.to_str().unwrap();
    let address = listener.local_addr().unwrap().to_string();
    client.args(["-tls1_3", "-groups", group, "-connect", &address]);
    client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = client.spawn().expect("openssl is installed");
    let (mut connection, _) = listener.accept().unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (_, said) = hello::record(&mut connection).unwrap().expect("a hello");
    let flight = [server_hello(&said, known.id, share), unreadable()].concat();
    let answers = converse(connection, &[flight]).expect("an answer");
    client.wait().expect("our child");
    answers[0]
}

/// Of a ciphertext that cannot be opened libssl itself says `internal_error`, in 3.0 as in 3.5.
#[test]
fn clients_answer_bad_ciphertexts_as_openssl_3_5_does() {
    let (_place, _lock) = setting();
    prefer(c"?provider=widelane");
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for known in &KNOWN {
        let share = Key::of_group(known.name, true).public();
        let [ciphertext, _] = Key::peer(known.name, &share).unwrap().encapsulate().unwrap();
        let of_length = |bytes| ciphertext.iter().copied().cycle().take(bytes).collect::<Vec<u8>>();
        let mut cases = vec![
            // Rejected implicitly: the client goes on, to what follows.
            (ciphertext.clone(), BAD_RECORD_MAC),
            (of_length(0), DECODE_ERROR),
            (of_length(1), INTERNAL_ERROR),
            (of_length(ciphertext.len() - 1), INTERNAL_ERROR),
            (of_length(ciphertext.len() + 1), INTERNAL_ERROR),
        ];
        let on_curve = known.curve_in_ciphertext(&ciphertext);
        if !on_curve.is_empty() {
            let mut zeros = ciphertext.clone();
            zeros[on_curve].fill(0);
            cases.push((zeros, INTERNAL_ERROR));
        }
        for (share, expected) in cases {
            let ours = Some(place.ours("openssl s_client"));
            for client in [ours, debian_13::openssl("s_client")].into_iter().flatten() {
                let what = format!("{:?}, {} bytes, {client:?}", known.name, share.len());
                assert_eq!(answer_of(client, &listener, known, &share), expected, "{what}");
            }
        }
    }
    assert_eq!(place.sum(|counters| counters.fallbacks), 0);
}
