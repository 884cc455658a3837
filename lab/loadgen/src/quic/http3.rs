//! HTTP/3 as a load needs it (RFC 9114): one request, and where its answer ends. Of QPACK (RFC
//! 9204) only the static table is used, by us and, as we allow it no other, by the server.

use crate::plan::Pattern;
use crate::tally::Failure;

/// What opens a client's control stream: its type, and no settings.
pub const CONTROL: [u8; 3] = [0, SETTINGS as u8, 0];

const DATA: u64 = 0;
const HEADERS: u64 = 1;
const SETTINGS: u64 = 4;

/// Indices of QPACK's static table.
const METHOD_GET: u8 = 17;
const SCHEME_HTTPS: u8 = 23;
const AUTHORITY: usize = 0;
const PATH: usize = 1;
const USER_AGENT: usize = 95;

/// The statuses of QPACK's static table.
const STATUSES: [(u8, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];

/// From this index on, more of it is in a second byte.
const INDEX_MAX: u8 = 63;

/// Longest head that is accepted.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// A GET request: one frame.
pub fn request(path: &str, host: &str) -> Vec<u8> {
    // No entry of the dynamic table is needed.
    let mut fields = vec![0, 0, 0xc0 | METHOD_GET, 0xc0 | SCHEME_HTTPS];
    let agent = concat!("widelane/", env!("CARGO_PKG_VERSION"));
    for (name, value) in [(AUTHORITY, host), (PATH, path), (USER_AGENT, agent)] {
        // A literal field with a name of the static table.
        put_prefixed(&mut fields, 0x50, 4, name);
        put_prefixed(&mut fields, 0, 7, value.len());
        fields.extend_from_slice(value.as_bytes());
    }
    let mut frame = vec![HEADERS as u8];
    put_varint(&mut frame, fields.len());
    frame.extend(fields);
    frame
}

/// An integer of QPACK, below `bits` bits of a first byte that holds `flags` besides.
fn put_prefixed(to: &mut Vec<u8>, flags: u8, bits: u32, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        to.push(flags | value as u8);
        return;
    }
    to.push(flags | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

/// An integer of QUIC below 2^30, in four bytes.
fn put_varint(to: &mut Vec<u8>, value: usize) {
    to.extend((0x8000_0000 | value as u32).to_be_bytes());
}

/// An integer of QUIC at the beginning of `bytes`, and its length.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = |value, byte: &u8| value << 8 | u64::from(*byte);
    Some((rest.iter().fold(u64::from(first & 0x3f), value), length))
}

/// An answer on its way.
#[derive(Debug, Default)]
pub struct Answer {
    /// The beginning of a frame, or of the fields in it.
    begun: Vec<u8>,
    /// Bytes of the frame at hand that are still to come, and its type.
    frame: Option<(u64, u64)>,
    status: Option<u16>,
    body_bytes: u64,
    pattern: Option<Pattern>,
}

impl Answer {
    /// An answer whose body is to repeat `pattern`.
    pub fn expecting(pattern: Option<Pattern>) -> Self {
        Answer { pattern, ..Answer::default() }
    }

    /// The status, once it is there.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Bytes of the body so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether an answer may end here.
    pub fn is_between_frames(&self) -> bool {
        self.frame.is_none() && self.begun.is_empty()
    }

    /// Takes what came next on the stream.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            bytes = match self.frame {
                None => self.take_head(bytes),
                Some((kind, left)) => self.take_content(kind, left, bytes)?,
            };
        }
        Ok(())
    }

    /// Takes one byte at a time of a frame's type and length.
    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.begun.push(bytes[0]);
        let parsed = varint(&self.begun).and_then(|(kind, at)| {
            let (length, _) = varint(&self.begun[at..])?;
            Some((kind, length))
        });
        if parsed.is_some() {
            self.begun.clear();
            // An empty frame has no content to wait for.
            self.frame = parsed.filter(|(_, length)| *length > 0);
        }
        &bytes[1..]
    }

    fn take_content<'a>(
        &mut self,
        kind: u64,
        left: u64,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], Failure> {
        let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (taken, rest) = bytes.split_at(length);
        let left = left - length as u64;
        self.frame = Some((kind, left)).filter(|_| left > 0);
        match kind {
            DATA => self.take_body(taken)?,
            HEADERS if self.begun.len() as u64 + left > HEAD_BYTES_MAX => {
                return Err(Failure::Answer("a head of more than 64 KiB"));
            }
            HEADERS => {
                self.begun.extend_from_slice(taken);
                if left == 0 {
                    let fields = std::mem::take(&mut self.begun);
                    self.take_fields(&fields)?;
                }
            }
            // Of types that are not known nothing is to be said (RFC 9114, 9).
            _ => {}
        }
        Ok(rest)
    }

    /// Takes the status, which is the first field of a head; trailers and heads that are only
    /// preliminary are passed over.
    fn take_fields(&mut self, fields: &[u8]) -> Result<(), Failure> {
        if self.status.is_some_and(|status| status >= 200) {
            return Ok(());
        }
        // Behind two integers that are 0 where the dynamic table is not used.
        let status = match fields {
            [0, 0, 0xff, more, ..] => more.checked_add(INDEX_MAX).and_then(indexed),
            [0, 0, first @ 0xc0..=0xfe, ..] => indexed(first & INDEX_MAX),
            [0, 0, first, rest @ ..] if first & 0xf0 == 0x50 || first & 0xf0 == 0x70 => {
                literal(*first, rest)
            }
            _ => None,
        };
        self.status = Some(status.ok_or(Failure::Answer("no status that could be read"))?);
        Ok(())
    }

    fn take_body(&mut self, part: &[u8]) -> Result<(), Failure> {
        let pattern = self.pattern.filter(|_| self.status.is_none_or(|status| status < 400));
        if pattern.is_some_and(|pattern| !pattern.is_at(self.body_bytes, part)) {
            return Err(Failure::Answer("a body that is not what was to be served"));
        }
        self.body_bytes += part.len() as u64;
        Ok(())
    }
}

/// A status of the static table.
fn indexed(index: u8) -> Option<u16> {
    STATUSES.iter().find(|(known, _)| *known == index).map(|(_, status)| *status)
}

/// A status in three digits, behind a name of the static table that begins with `first`.
fn literal(first: u8, rest: &[u8]) -> Option<u16> {
    // The index of a status's name is one of 24 to 28 and 63 to 71: it takes a second byte.
    let value = if first & 0x0f == 0x0f { rest.get(1..)? } else { rest };
    let (&length, value) = value.split_first()?;
    if length & HUFFMAN != 0 {
        return digits(value.get(..usize::from(length & !HUFFMAN))?);
    }
    let digits = value.get(..3).filter(|_| length == 3)?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// In the length of a literal: it is coded by Huffman.
const HUFFMAN: u8 = 0x80;

/// Three digits by the Huffman code of HPACK (RFC 7541, appendix B): 0, 1 and 2 in five bits, the
/// others in six; what is left of the last byte is ones.
fn digits(coded: &[u8]) -> Option<u16> {
    if !(2..=3).contains(&coded.len()) {
        return None;
    }
    let bits = coded.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
    let mut left = 8 * coded.len() as u32;
    let mut status = 0;
    for _ in 0..3 {
        let code = |length: u32| Some(bits >> left.checked_sub(length)? & ((1 << length) - 1));
        let (length, digit) = match code(5)? {
            digit @ 0..=2 => (5, digit),
            // The code of 3 is 25.
            _ => (6, code(6)?.checked_sub(25 - 3)?),
        };
        if digit > 9 {
            return None;
        }
        (left, status) = (left - length, 10 * status + digit as u16);
    }
    let padding = (1 << left) - 1;
    (left < 8 && bits & padding == padding).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer as nginx writes it, in one piece or byte by byte.
    fn answered(frames: &[u8]) -> [Result<Answer, Failure>; 2] {
        let take = |size| {
            let mut answer = Answer::expecting(Pattern::of(b"ab"));
            frames.chunks(size).try_for_each(|chunk| answer.take(chunk)).map(|()| answer)
        };
        [take(frames.len()), take(1)]
    }

    #[test]
    fn an_answer_ends_where_its_frames_end() {
        // 200, an unknown frame, a body of three bytes in two frames, an empty frame.
        let frames = [1, 3, 0, 0, 0xd9, 0x21, 1, 7, 0, 2, b'a', b'b', 0, 0x40, 1, b'a', 0, 0];
        for answer in answered(&frames) {
            let answer = answer.unwrap();
            assert_eq!((answer.status(), answer.body_bytes()), (Some(200), 3));
            assert!(answer.is_between_frames());
        }
    }

    #[test]
    fn an_answer_is_not_whole_within_a_frame() {
        // Behind 200: within a type, between type and length, behind a length, within a body.
        let cut: [&[u8]; 4] = [&[0x40], &[0], &[0, 3], &[0, 3, b'a', b'b']];
        for cut in cut {
            let frames = [&[1, 3, 0, 0, 0xd9], cut].concat();
            for answer in answered(&frames) {
                assert!(!answer.unwrap().is_between_frames(), "{cut:?}");
            }
        }
    }

    #[test]
    fn statuses_are_read_from_the_table_and_as_digits() {
        for (fields, status) in [
            (vec![0, 0, 0xc0 | 27], 404),
            // Of an index from 63 on the rest is in the second byte.
            (vec![0, 0, 0xff, 0], 100),
            (vec![0, 0, 0xff, 8], 500),
            (vec![0, 0, 0x5f, 9, 3, b'4', b'2', b'9', 0xd9], 429),
            // By Huffman: RFC 7541, C.6.1 and C.6.2.
            (vec![0, 0, 0x5f, 9, 0x82, 0x64, 0x02], 302),
            (vec![0, 0, 0x5f, 9, 0x83, 0x64, 0x0e, 0xff, 0xd9], 307),
        ] {
            let frame = [&[1, fields.len() as u8], &fields[..]].concat();
            for answer in answered(&frame) {
                assert_eq!(answer.unwrap().status(), Some(status), "{fields:?}");
            }
        }
        // Among them letters, a fourth digit and wrong padding by Huffman.
        for fields in [
            vec![2, 0, 0x80],
            vec![0, 0, 0x5f, 9, 0x82, 0x18, 0xc7],
            vec![0, 0, 0x5f, 9, 0x83, 0x64, 0x0e, 0x80],
            vec![0, 0, 0x5f, 9, 0x83, 0x64, 0x02, 0x07],
            vec![0, 0, 0x5f, 9, 0x87, 1],
            vec![0, 0, 0x5f, 9, 0x87, 0, 0, 0, 0, 0, 0x64, 0x02],
            vec![0, 0],
            vec![],
        ] {
            let frame = [&[1, fields.len() as u8 + 1], &fields[..], &[0]].concat();
            assert!(answered(&frame).iter().all(Result::is_err), "{fields:?}");
        }
    }

    #[test]
    fn a_wrong_body_and_an_endless_head_are_refused() {
        assert!(answered(&[1, 3, 0, 0, 0xd9, 0, 2, b'a', b'a']).iter().all(Result::is_err));
        assert!(answered(&[1, 0x80, 2, 0, 0, 0]).iter().all(Result::is_err));
    }

    #[test]
    fn a_request_is_one_frame() {
        for repeated in [100, 10_000] {
            let request = request(&"/x".repeat(repeated), "widelane.test:4433");
            let (length, at) = varint(&request[1..]).unwrap();
            assert_eq!((request[0], length as usize), (1, request.len() - 1 - at));
            assert!(request.ends_with(concat!("widelane/", env!("CARGO_PKG_VERSION")).as_bytes()));
        }
        let mut integer = Vec::new();
        put_prefixed(&mut integer, 0, 5, 1337);
        // RFC 7541, C.1.2.
        assert_eq!(integer, [31, 154, 10]);
    }
}
