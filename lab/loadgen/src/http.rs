//! HTTP/1.1 as a load needs it: one request, and where its answer ends.

use std::net::Ipv6Addr;

use crate::plan::Pattern;
use crate::tally::Failure;

/// The port that `https` means where none is named.
const HTTPS: u16 = 443;

/// The value of the header `Host` (RFC 9110, 7.2): IPv6 in brackets, and the port unless it is that
/// of the scheme.
pub fn host(name: &str, port: u16) -> String {
    let name = match name.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => name.to_owned(),
    };
    if port == HTTPS { name } else { format!("{name}:{port}") }
}

/// A GET request; `last` asks the server to close the connection after its answer.
pub fn request(path: &str, host: &str, last: bool) -> Vec<u8> {
    let connection = if last { "close" } else { "keep-alive" };
    let agent = concat!("widelane/", env!("CARGO_PKG_VERSION"));
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
         Connection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

/// An answer on its way.
#[derive(Debug, Default)]
pub struct Answer {
    /// Bytes of a head, or of a line between chunks, that is not complete yet.
    begun: Vec<u8>,
    part: Part,
    status: u16,
    body_bytes: u64,
    body_bytes_announced: u64,
    /// Whether the server closes the connection afterwards.
    last: bool,
    /// What the body repeats, if that is known.
    pattern: Option<Pattern>,
}

/// What comes next in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// This many bytes of a body.
    Body(u64),
    /// A body that ends with the connection.
    Rest,
    /// The line with the size of a chunk.
    ChunkSize,
    /// This many bytes of a chunk and its line end.
    Chunk(u64),
    /// Lines after the last chunk.
    Trailer,
    Nothing,
}

/// Longest head that is accepted.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What follows each chunk.
const LINE_END_BYTES: u64 = 2;

/// Most header fields that are accepted.
const FIELDS_MAX: usize = 128;

impl Answer {
    /// An answer whose body is to repeat `pattern`.
    pub fn expecting(pattern: Option<Pattern>) -> Self {
        Answer { pattern, ..Answer::default() }
    }

    /// Takes what came next.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            bytes = match self.part {
                Part::Head => self.take_head(bytes)?,
                Part::Body(left) => {
                    let (taken, rest) = split(bytes, left);
                    self.take_body(taken)?;
                    let taken = taken.len() as u64;
                    self.part =
                        if taken == left { Part::Nothing } else { Part::Body(left - taken) };
                    rest
                }
                Part::Rest => {
                    self.take_body(bytes)?;
                    &[]
                }
                Part::Chunk(left) => {
                    let (taken, rest) = split(bytes, left);
                    self.take_body(split(taken, left.saturating_sub(LINE_END_BYTES)).0)?;
                    self.part = match left - taken.len() as u64 {
                        0 => Part::ChunkSize,
                        left => Part::Chunk(left),
                    };
                    rest
                }
                Part::ChunkSize | Part::Trailer => self.take_line(bytes)?,
                Part::Nothing => return Err(Failure::Answer("more than one part")),
            };
        }
        Ok(())
    }

    /// Takes a part of the body, whose content is not checked in an error response.
    fn take_body(&mut self, part: &[u8]) -> Result<(), Failure> {
        let pattern = self.pattern.filter(|_| self.status < 400);
        if pattern.is_some_and(|pattern| !pattern.is_at(self.body_bytes, part)) {
            return Err(Failure::Answer("a body that is not what was to be served"));
        }
        self.body_bytes += part.len() as u64;
        Ok(())
    }

    fn take_head<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Failure> {
        let before = self.begun.len();
        self.begun.extend_from_slice(bytes);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let length = match head.parse(&self.begun) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if self.begun.len() > HEAD_BYTES_MAX => {
                return Err(Failure::Answer("a head without an end"));
            }
            Ok(httparse::Status::Partial) => return Ok(&[]),
            Err(_) => return Err(Failure::Answer("no head of HTTP/1.1")),
        };
        let field = |name: &str| {
            let named = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            named.and_then(|field| std::str::from_utf8(field.value).ok()).map(str::trim)
        };
        // Lists may be given in several fields (RFC 9110, 5.3).
        let says = |name: &str, word: &str| {
            let named = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            let mut words = named.flat_map(|field| field.value.split(|byte| *byte == b','));
            words.any(|said| said.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        };
        self.status = head.code.unwrap_or_default();
        let is_kept = head.version != Some(0) || says("connection", "keep-alive");
        self.last = says("connection", "close") || !is_kept;
        self.part = if (100..200).contains(&self.status) {
            Part::Head
        } else if matches!(self.status, 204 | 304) {
            Part::Nothing
        } else if says("transfer-encoding", "chunked") {
            Part::ChunkSize
        } else {
            match field("content-length").map(str::parse) {
                Some(Ok(0)) => Part::Nothing,
                Some(Ok(length)) => {
                    self.body_bytes_announced = length;
                    Part::Body(length)
                }
                Some(Err(_)) => return Err(Failure::Answer("a length that is no number")),
                None => Part::Rest,
            }
        };
        self.begun.clear();
        Ok(&bytes[length - before..])
    }

    /// Takes a line of the framing of chunks.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Failure> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|index| index + 1);
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        self.begun.extend_from_slice(line);
        if self.begun.len() > HEAD_BYTES_MAX {
            return Err(Failure::Answer("a line without an end"));
        }
        if end.is_none() {
            return Ok(rest);
        }
        let empty = self.begun.trim_ascii().is_empty();
        self.part = match self.part {
            Part::Trailer if empty => Part::Nothing,
            Part::Trailer => Part::Trailer,
            _ => match httparse::parse_chunk_size(&self.begun) {
                Ok(httparse::Status::Complete((_, 0))) => Part::Trailer,
                Ok(httparse::Status::Complete((_, size))) => {
                    Part::Chunk(size.saturating_add(LINE_END_BYTES))
                }
                _ => return Err(Failure::Answer("a chunk without a size")),
            },
        };
        self.begun.clear();
        Ok(rest)
    }

    /// Whether nothing has come yet.
    pub fn is_awaited(&self) -> bool {
        self.part == Part::Head && self.status == 0 && self.begun.is_empty()
    }

    /// Whether all of it has come.
    pub fn is_complete(&self) -> bool {
        self.part == Part::Nothing
    }

    /// Whether it is complete if the connection ends here.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.part, Part::Rest | Part::Nothing)
    }

    /// Whether the server closes the connection afterwards.
    pub fn is_last(&self) -> bool {
        self.last || self.part == Part::Rest
    }

    /// Status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Length of the body as its head announces it; zero if it does not.
    pub fn body_bytes_announced(&self) -> u64 {
        self.body_bytes_announced
    }

    /// Length of the body so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }
}

/// At most `count` bytes, and the rest.
fn split(bytes: &[u8], count: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_brackets_and_a_port_where_it_must() {
        for (name, port, expected) in [
            ("localhost", 443, "localhost"),
            ("localhost", 8443, "localhost:8443"),
            ("127.0.0.1", 443, "127.0.0.1"),
            ("::1", 443, "[::1]"),
            ("::1", 8443, "[::1]:8443"),
        ] {
            assert_eq!(host(name, port), expected);
        }
    }

    /// Takes `text` in pieces of every size; all must come to the same.
    fn answer(text: &str) -> Result<Answer, Failure> {
        let mut whole = Answer::default();
        let result = whole.take(text.as_bytes());
        for size in 1..text.len() {
            let mut pieces = Answer::default();
            let taken = text.as_bytes().chunks(size).try_for_each(|piece| pieces.take(piece));
            assert_eq!(taken.is_ok(), result.is_ok(), "{size}: {text:?}");
            if result.is_ok() {
                let seen =
                    |answer: &Answer| (answer.part, answer.status, answer.body_bytes, answer.last);
                assert_eq!(seen(&pieces), seen(&whole), "{size}: {text:?}");
            }
        }
        result.map(|()| whole)
    }

    #[test]
    fn knows_where_an_answer_ends() {
        let fixed = answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        assert!(fixed.is_complete() && !fixed.is_last());
        assert_eq!((fixed.status(), fixed.body_bytes(), fixed.body_bytes_announced()), (200, 5, 5));

        let empty = answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert!(empty.is_complete());
        let none = answer("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n").unwrap();
        assert!(none.is_complete() && none.is_last());

        let body = "Content-Length: 1\r\n\r\n!";
        for (head, is_last) in [
            ("HTTP/1.0 200 OK\r\n", true),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: TE, close\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: TE\r\nConnection: close\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: keep-alive, TE\r\n", false),
        ] {
            assert_eq!(answer(&format!("{head}{body}")).unwrap().is_last(), is_last, "{head}");
        }
        let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\n!\r\n";
        assert!(!answer(coded).unwrap().is_complete());
        assert!(answer(&format!("{coded}0\r\n\r\n")).unwrap().is_complete());

        let chunks = "4\r\nwide\r\n4;x=y\r\nlane\r\n0\r\nTrailer: 1\r\n\r\n";
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunked = answer(&format!("{head}{chunks}")).unwrap();
        assert!(chunked.is_complete());
        assert_eq!(chunked.body_bytes(), 8);

        let rest = answer("HTTP/1.1 200 OK\r\n\r\nuntil the end").unwrap();
        assert!(!rest.is_complete() && rest.ends_with_connection() && rest.is_last());
        assert_eq!(rest.body_bytes(), 13);

        let twice = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!";
        assert!(answer(twice).unwrap().is_complete());
    }

    #[test]
    fn bodies_are_compared_with_their_pattern_in_any_pieces() {
        let head = "HTTP/1.1 200 OK\r\n";
        for (framed, right) in [
            ("Content-Length: 7\r\n\r\nabcabca", true),
            ("Content-Length: 7\r\n\r\nabcabcb", false),
            ("\r\nabcab", true),
            ("\r\nabcaa", false),
            ("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n4\r\ncabc\r\n0\r\n\r\n", true),
            ("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n4\r\nabca\r\n0\r\n\r\n", false),
        ] {
            let text = format!("{head}{framed}");
            for size in 1..text.len() {
                let mut answer = Answer::expecting(Pattern::of(b"abc"));
                let taken = text.as_bytes().chunks(size).try_for_each(|piece| answer.take(piece));
                assert_eq!(taken.is_ok(), right, "{size}: {text:?}");
            }
        }
    }

    #[test]
    fn refuses_what_is_no_answer() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        let mut endless = Answer::default();
        assert!(matches!(endless.take(long.as_bytes()), Err(Failure::Answer(_))));
        for text in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        ] {
            assert!(answer(text).is_err(), "{text:?}");
        }
    }
}
