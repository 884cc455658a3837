//! Hellos of TLS 1.3 made by hand, and what the other side answers before it encrypts.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// What comes back for a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A server's hello: it took a share.
    Hello,
    /// A request for a share of this group.
    Retry(u16),
    /// A fatal alert with this description.
    Alert(u8),
    /// Nothing: the connection ends.
    End,
}

/// A client's hello that offers these groups, with these shares.
pub fn client_hello(groups: &[u16], shares: &[(u16, &[u8])]) -> Vec<u8> {
    let groups: Vec<u8> = groups.iter().flat_map(|group| group.to_be_bytes()).collect();
    let shares: Vec<u8> = shares
        .iter()
        .flat_map(|(group, share)| [&group.to_be_bytes(), &*counted(share)].concat())
        .collect();
    let extensions = [
        extension(SUPPORTED_VERSIONS, &[2, 3, 4]),
        extension(SUPPORTED_GROUPS, &counted(&groups)),
        extension(SIGNATURE_ALGORITHMS, &counted(&SIGNATURES)),
        extension(KEY_SHARE, &counted(&shares)),
    ];
    let suites = counted(&CIPHER_SUITE);
    message(CLIENT_HELLO, &[&suites[..], &[1, 0], &counted(&extensions.concat())], &SESSION)
}

/// A server's hello to a client's, with this share.
pub fn server_hello(client: &[u8], group: u16, share: &[u8]) -> Vec<u8> {
    let share = [&group.to_be_bytes(), &*counted(share)].concat();
    let extensions = [extension(SUPPORTED_VERSIONS, &[3, 4]), extension(KEY_SHARE, &share)];
    let session = &client[SESSION_OFFSET..][..usize::from(client[SESSION_OFFSET - 1])];
    message(SERVER_HELLO, &[&CIPHER_SUITE, &[0], &counted(&extensions.concat())], session)
}

/// A record that was sealed with no key that anybody has.
pub fn unreadable() -> Vec<u8> {
    [&[APPLICATION_DATA, 3, 3][..], &counted(&[0; 64])].concat()
}

/// The share of a group in a client's hello.
pub fn share_of(client: &[u8], group: u16) -> Option<&[u8]> {
    let skip = |bytes: &mut &[u8], of_length: usize| -> Option<()> {
        let (length, rest) = bytes.split_at_checked(of_length)?;
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        *bytes = rest.get(length..)?;
        Some(())
    };
    let mut rest = client.get(SESSION_OFFSET - 1..)?;
    // The session's identifier, cipher suites, compression methods.
    [1, 2, 1].into_iter().try_for_each(|of_length| skip(&mut rest, of_length))?;
    let mut extensions = rest.get(2..)?;
    while !extensions.starts_with(&KEY_SHARE.to_be_bytes()) {
        extensions = extensions.get(2..)?;
        skip(&mut extensions, 2)?;
    }
    let mut shares = extensions.get(6..)?;
    while !shares.starts_with(&group.to_be_bytes()) {
        shares = shares.get(2..)?;
        skip(&mut shares, 2)?;
    }
    let length = u16::from_be_bytes(*shares.get(2..)?.first_chunk()?);
    shares.get(4..4 + usize::from(length))
}

/// Says one flight after the other, each when the one before was answered, and returns the answers,
/// up to the first that ends the connection.
///
/// # Errors
///
/// Those of the connection.
pub fn converse(mut connection: TcpStream, flights: &[Vec<u8>]) -> io::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for flight in flights {
        // Error: the other side has ended the connection, which reading tells.
        let _ = connection.write_all(flight);
        answers.push(answer(&mut connection)?);
        if matches!(answers.last(), Some(Answer::Alert(_) | Answer::End)) {
            break;
        }
    }
    Ok(answers)
}

/// The body of the next record of another type than `change_cipher_spec`, and its type; nothing at
/// the end of the connection.
///
/// # Errors
///
/// Those of the connection.
pub fn record(connection: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    loop {
        let mut header = [0; 5];
        match connection.read_exact(&mut header) {
            Err(error) if is_end(&error) => return Ok(None),
            other => other?,
        }
        let mut body = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
        connection.read_exact(&mut body)?;
        if header[0] != CHANGE_CIPHER_SPEC {
            return Ok(Some((header[0], body)));
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

fn answer(connection: &mut impl Read) -> io::Result<Answer> {
    let Some((kind, body)) = record(connection)? else { return Ok(Answer::End) };
    Ok(match (kind, &*body) {
        (ALERT, [_, description]) => Answer::Alert(*description),
        (HANDSHAKE, body) if body.get(RANDOM_OFFSET..).is_some_and(is_retry) => {
            // The group is all that the last extension holds.
            Answer::Retry(u16::from_be_bytes(*body.last_chunk().expect("a whole message")))
        }
        (HANDSHAKE, [SERVER_HELLO, ..]) => Answer::Hello,
        _ => return Err(io::Error::other(format!("a record of type {kind}: {body:02x?}"))),
    })
}

fn is_retry(random: &[u8]) -> bool {
    random.starts_with(&RETRY_RANDOM)
}

/// A message in a record of its own. `parts` come behind the session's identifier.
fn message(kind: u8, parts: &[&[u8]], session: &[u8]) -> Vec<u8> {
    let length = u8::try_from(session.len()).expect("at most 32 bytes");
    let begin = [&[3, 3], &[0x5a; 32][..], &[length], session].concat();
    let body = [begin, parts.concat()].concat();
    let length = u32::try_from(body.len()).expect("a short message").to_be_bytes();
    let message = [&[kind], &length[1..], &body].concat();
    [&[HANDSHAKE, 3, 3][..], &counted(&message)].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), &*counted(body)].concat()
}

/// Bytes behind how many they are.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("few bytes");
    [&length.to_be_bytes(), bytes].concat()
}

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;

const SUPPORTED_GROUPS: u16 = 10;
const SIGNATURE_ALGORITHMS: u16 = 13;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

/// `TLS_AES_256_GCM_SHA384`.
const CIPHER_SUITE: [u8; 2] = [0x13, 0x02];

/// RSA-PSS with SHA-256, and ECDSA on P-256 with it.
const SIGNATURES: [u8; 4] = [8, 4, 4, 3];

const SESSION: [u8; 32] = [0x22; 32];

/// Where a hello has its random number, and behind that the session's identifier.
const RANDOM_OFFSET: usize = 6;
const SESSION_OFFSET: usize = RANDOM_OFFSET + 33;

/// Begin of the random number of a request for another share (RFC 8446, 4.1.3).
const RETRY_RANDOM: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
