//! The answer to a download: its head, and a body of known length and content.

use std::io;

/// Longest head that is accepted.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// An answer on its way.
pub struct Body<'a> {
    head: Vec<u8>,
    has_head: bool,
    /// Bytes of the body that have come.
    come: u64,
    bytes: u64,
    pattern: &'a [u8],
}

impl<'a> Body<'a> {
    /// Expects `bytes` bytes that repeat `pattern`.
    pub fn new(bytes: u64, pattern: &'a [u8]) -> Self {
        Body { head: Vec::new(), has_head: false, come: 0, bytes, pattern }
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        self.has_head && self.come == self.bytes
    }

    /// Takes what came next; answers how much of it belongs to the body.
    pub fn take(&mut self, mut came: &[u8]) -> io::Result<u64> {
        if !self.has_head {
            let before = self.head.len();
            self.head.extend_from_slice(came);
            let end = self.head.windows(4).position(|window| window == b"\r\n\r\n");
            let Some(end) = end.map(|start| start + 4) else {
                if self.head.len() > HEAD_BYTES_MAX {
                    return Err(wrong("the answer has no end of its head"));
                }
                return Ok(0);
            };
            self.head.truncate(end);
            self.check_head()?;
            self.has_head = true;
            came = &came[end - before..];
        }
        let length = came.len() as u64;
        if length > self.bytes - self.come {
            return Err(wrong("the body is longer than it should be"));
        }
        while !came.is_empty() {
            let expected = &self.pattern[(self.come % self.pattern.len() as u64) as usize..];
            let (now, later) = came.split_at(came.len().min(expected.len()));
            if now != &expected[..now.len()] {
                return Err(wrong("the body is not what was to be served"));
            }
            self.come += now.len() as u64;
            came = later;
        }
        Ok(length)
    }

    fn check_head(&self) -> io::Result<()> {
        let head = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
        if head.split(' ').nth(1) != Some("200") {
            let line = head.lines().next().unwrap_or_default();
            return Err(wrong(&format!("the server answers {line:?}")));
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        match length.and_then(|length| length.trim().parse::<u64>().ok()) {
            Some(length) if length == self.bytes => Ok(()),
            Some(length) => Err(wrong(&format!("the body has {length} bytes"))),
            None => Err(wrong("the answer does not say how long it is")),
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 7\r\n\r\nabcabca";

    fn take(answer: &[u8], piece: usize) -> io::Result<bool> {
        let mut body = Body::new(7, b"abc");
        let mut bytes = 0;
        for piece in answer.chunks(piece) {
            bytes += body.take(piece)?;
        }
        assert_eq!(body.is_whole(), bytes == 7);
        Ok(body.is_whole())
    }

    #[test]
    fn any_split_of_an_answer_gives_the_same_body() {
        for piece in 1..=ANSWER.len() {
            assert!(take(ANSWER, piece).unwrap(), "{piece}");
            assert!(!take(&ANSWER[..ANSWER.len() - 1], piece).unwrap(), "{piece}");
        }
    }

    #[test]
    fn what_is_not_the_body_is_refused() {
        let answer = String::from_utf8(ANSWER.to_vec()).unwrap();
        for (from, to, expected) in [
            ("200", "404", "answers \"http/1.1 404 ok\""),
            ("7\r\n", "8\r\n", "has 8 bytes"),
            ("Content-Length", "Content-Type", "does not say how long"),
            ("abcabca", "abcabcb", "not what was to be served"),
            ("abcabca", "abcabcab", "longer than it should be"),
        ] {
            let changed = answer.replace(from, to);
            let error = take(changed.as_bytes(), 16).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let endless = vec![b'x'; HEAD_BYTES_MAX + 1];
        assert!(take(&endless, 1000).is_err());
    }
}
