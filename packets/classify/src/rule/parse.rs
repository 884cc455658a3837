//! Reading text: a cursor over one line, and errors that say where, what was expected, what stood.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Match;

/// What is wrong with a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: expected {expected}, found {found}")]
pub struct ParseError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What would have been right.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

/// The lines of a text. A byte order mark in front of the first, as editors of Windows write it,
/// does not count.
pub(super) fn lines(text: &str) -> std::str::Lines<'_> {
    text.strip_prefix('\u{feff}').unwrap_or(text).lines()
}

/// A place in a line of a file.
pub(super) struct Cursor<'a> {
    file: &'a str,
    number: u32,
    line: &'a str,
    at: usize,
}

/// An address of either version, and its length.
pub(super) enum Address {
    V4(u32),
    V6(u128),
}

impl Address {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Address::V4(_) => 4,
            Address::V6(_) => 16,
        }
    }

    pub(super) fn value(&self) -> u128 {
        match *self {
            Address::V4(value) => value.into(),
            Address::V6(value) => value,
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a str, number: u32, line: &'a str) -> Self {
        Cursor { file, number, line, at: 0 }
    }

    /// The lines of a file that say something: not empty and no comment. A crash may leave zeros in
    /// place of the rest of a file; these are no comment, wherever they begin.
    pub(super) fn lines(file: &'a str, text: &'a str) -> impl Iterator<Item = Cursor<'a>> {
        let lines = lines(text).zip(1..);
        let lines = lines.map(move |(line, number)| Cursor::new(file, number, line));
        lines.filter(|cursor| {
            let line = cursor.line.trim();
            !line.is_empty() && (!line.starts_with('#') || line.contains('\0'))
        })
    }

    /// The next cell of a line that commas divide, as a line that ends where the cell does.
    pub(super) fn cell(&mut self) -> Option<Cursor<'a>> {
        if self.at > self.line.len() || (self.at == self.line.len() && !self.line.ends_with(',')) {
            return None;
        }
        let end = self.rest().find(',').map_or(self.line.len(), |length| self.at + length);
        let cell = Cursor { line: &self.line[..end], ..*self };
        self.at = end + 1;
        Some(cell)
    }

    /// What is left of the line, without space around it.
    pub(super) fn rest_trimmed(&self) -> &'a str {
        self.rest().trim()
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Goes on to `at`, a byte of the line.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or("")
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// The error that something else was expected here.
    pub(super) fn expected(&mut self, expected: impl Into<String>) -> ParseError {
        self.skip_space();
        let word: String =
            self.rest().chars().take_while(|c| !c.is_whitespace()).take(40).collect();
        ParseError {
            file: self.file.to_owned(),
            line: self.number,
            column: self.line[..self.at.min(self.line.len())].chars().count() + 1,
            expected: expected.into(),
            found: if word.is_empty() { "the end of the line".into() } else { format!("{word:?}") },
        }
    }

    /// The error that a file says nothing of what it should.
    pub(super) fn missing(file: &str, text: &str, expected: &str) -> ParseError {
        let number = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        let found = if text.trim().is_empty() { "an empty file" } else { "the end of the file" };
        ParseError {
            file: file.to_owned(),
            line: number.max(1),
            column: 1,
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }

    /// Takes `wanted` if it comes next.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let taken = self.rest().starts_with(wanted);
        self.at += if taken { wanted.len_utf8() } else { 0 };
        taken
    }

    /// Takes `wanted`, which must come next.
    pub(super) fn must_take(&mut self, wanted: char) -> Result<(), ParseError> {
        if self.take(wanted) { Ok(()) } else { Err(self.expected(format!("\"{wanted}\""))) }
    }

    /// Makes sure that nothing but space follows.
    pub(super) fn end(&mut self) -> Result<(), ParseError> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    /// The next word, which stays.
    pub(super) fn peek(&mut self) -> &'a str {
        self.word(|c| !c.is_whitespace())
    }

    /// Takes `wanted`, letters, digits and hyphens, if it comes next and ends there.
    pub(super) fn take_name(&mut self, wanted: &str) -> bool {
        let taken = self.name() == wanted;
        self.at += if taken { wanted.len() } else { 0 };
        taken
    }

    /// Leaves letters, digits and hyphens behind.
    pub(super) fn skip_name(&mut self) {
        self.at += self.name().len();
    }

    fn name(&mut self) -> &'a str {
        self.word(|c| c.is_ascii_alphanumeric() || c == '-')
    }

    /// Goes on behind `mark`, or at the end of the line if there is none.
    pub(super) fn skip_behind(&mut self, mark: char) {
        let length = self.rest().find(mark).map(|length| length + mark.len_utf8());
        self.at += length.unwrap_or(self.rest().len());
    }

    /// Takes the name of a protocol if it comes next and ends there.
    pub(super) fn take_protocol(&mut self, wanted: &str) -> bool {
        let taken = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')) == wanted;
        self.at += if taken { wanted.len() } else { 0 };
        taken
    }

    /// Has the line end where `mark` and a number end it.
    pub(super) fn cut_off(&mut self, mark: &str) {
        if let Some((kept, number)) = self.line.rsplit_once(mark)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.line = kept;
        }
    }

    /// Leaves the next word behind.
    pub(super) fn skip(&mut self) {
        self.at += self.peek().len();
    }

    /// Leaves a word behind, or several in quotes.
    pub(super) fn skip_quoted(&mut self) {
        if !self.take('"') {
            return self.skip();
        }
        let mut escaped = false;
        let end = self.rest().find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.at = end.map_or(self.line.len(), |length| self.at + length + 1);
    }

    fn word(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        &rest[..rest.find(|c| !of(c)).unwrap_or(rest.len())]
    }

    /// Takes a number, decimal or with `0x`, that is at most `max`.
    pub(super) fn integer(&mut self, what: &str, max: u128) -> Result<u128, ParseError> {
        let word = self.word(|c| c.is_ascii_alphanumeric());
        let value = match hexadecimal(word) {
            Some(digits) => u128::from_str_radix(digits, 16),
            None => word.parse(),
        };
        match value {
            Ok(value) if value <= max => {
                self.at += word.len();
                Ok(value)
            }
            _ => Err(self.expected(format!("{what}, 0 to {max}"))),
        }
    }

    /// Takes an address of either version.
    pub(super) fn address(&mut self) -> Result<Address, ParseError> {
        let word = self.word(|c| c.is_ascii_hexdigit() || c == '.' || c == ':');
        let address = match (word.parse::<Ipv4Addr>(), word.parse::<Ipv6Addr>()) {
            (Ok(v4), _) => Address::V4(v4.into()),
            (_, Ok(v6)) => Address::V6(v6.into()),
            _ => return Err(self.expected("an IPv4 or IPv6 address")),
        };
        self.at += word.len();
        Ok(address)
    }

    /// Takes an address, where IPv4 may be one decimal number.
    pub(super) fn flow_address(&mut self) -> Result<Address, ParseError> {
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':'));
        if word.contains(['.', ':']) {
            return self.address();
        }
        Ok(Address::V4(self.integer("an address", u32::MAX.into())? as u32))
    }

    /// Takes two prefixes, two ranges of ports and a protocol. The first address of a file settles
    /// how many `bytes` all have.
    pub(super) fn five_fields(
        &mut self,
        bytes: &mut Option<usize>,
    ) -> Result<Box<[Match]>, ParseError> {
        let (source, source_bytes) = self.prefix(*bytes)?;
        *bytes = Some(source_bytes);
        let (destination, _) = self.prefix(*bytes)?;
        Ok([source, destination, self.ports()?, self.ports()?, self.protocol()?].into())
    }

    /// Takes `ADDRESS/LENGTH`, with an address of `bytes` bytes if that is settled.
    pub(super) fn prefix(&mut self, bytes: Option<usize>) -> Result<(Match, usize), ParseError> {
        self.skip_space();
        let began = self.at;
        let address = self.address()?;
        if let Some(settled) = bytes.filter(|&settled| settled != address.bytes()) {
            self.at = began;
            let version = if settled == 4 { 4 } else { 6 };
            return Err(self.expected(format!("an IPv{version} address, as the file's others are")));
        }
        self.must_take('/')?;
        let length = self.integer("a prefix length", 8 * address.bytes() as u128)? as u32;
        Ok((Match::prefix(address.value(), length, address.bytes()), address.bytes()))
    }

    /// Takes `FIRST : LAST`, two ports in order.
    pub(super) fn ports(&mut self) -> Result<Match, ParseError> {
        let first = self.integer("a port", 0xffff)?;
        self.must_take(':')?;
        self.last_port(first)
    }

    /// Takes a port, or two in order with `between` them.
    pub(super) fn port_or_ports(&mut self, between: char) -> Result<Match, ParseError> {
        let first = self.integer("a port", 0xffff)?;
        if self.take(between) { self.last_port(first) } else { Ok(Match::exact(first, 2)) }
    }

    fn last_port(&mut self, first: u128) -> Result<Match, ParseError> {
        self.skip_space();
        let began = self.at;
        let last = self.integer("a port", 0xffff)?;
        if last < first {
            self.at = began;
            return Err(self.expected(format!("a port that is not below {first}")));
        }
        Ok(Match::range(first, last))
    }

    /// Takes `VALUE/MASK`, two numbers of one byte.
    pub(super) fn protocol(&mut self) -> Result<Match, ParseError> {
        let value = self.integer("a protocol", 0xff)?;
        self.must_take('/')?;
        let mask = self.integer("a mask", 0xff)?;
        Ok(Match::Mask { value, mask })
    }

    /// Takes what a field of `bytes` bytes is compared with, up to the end of the line: `*`,
    /// `VALUE`, `FIRST-LAST`, `VALUE/LENGTH` or `VALUE/0xMASK`; values are numbers or addresses.
    pub(super) fn comparison(&mut self, bytes: usize) -> Result<Match, ParseError> {
        if self.take('*') {
            self.end()?;
            return Ok(Match::ANY);
        }
        let found = self.values(bytes)?;
        self.end()?;
        Ok(found)
    }

    /// Takes `VALUE`, `FIRST-LAST`, `VALUE/LENGTH` or `VALUE/0xMASK`, of `bytes` bytes.
    pub(super) fn values(&mut self, bytes: usize) -> Result<Match, ParseError> {
        let value = self.value(bytes)?;
        if self.take('-') {
            self.skip_space();
            let began = self.at;
            let last = self.value(bytes)?;
            if last < value {
                self.at = began;
                return Err(self.expected("a last value that is not below the first"));
            }
            Ok(Match::range(value, last))
        } else if self.take('/') {
            if hexadecimal(self.word(|c| c.is_ascii_alphanumeric())).is_some() {
                let mask = self.integer("a mask", super::ones(8 * bytes as u32))?;
                return Ok(Match::Mask { value, mask });
            }
            let length = self.integer("a prefix length", 8 * bytes as u128)? as u32;
            Ok(Match::prefix(value, length, bytes))
        } else {
            Ok(Match::exact(value, bytes))
        }
    }

    fn value(&mut self, bytes: usize) -> Result<u128, ParseError> {
        let word = self.word(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | 'x' | 'X'));
        if word.contains(['.', ':']) {
            self.skip_space();
            let began = self.at;
            let address = self.address()?;
            if address.bytes() != bytes {
                self.at = began;
                return Err(self.expected(format!("a value of {bytes} bytes")));
            }
            return Ok(address.value());
        }
        self.integer("a number", super::ones(8 * bytes as u32))
    }
}

/// The digits of a number in hexadecimal.
fn hexadecimal(word: &str) -> Option<&str> {
    word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(text: &str, bytes: usize) -> Result<Match, String> {
        Cursor::new("f", 3, text).comparison(bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn comparisons_have_five_forms() {
        assert_eq!(comparison("*", 4), Ok(Match::ANY));
        assert_eq!(comparison("80", 2), Ok(Match::exact(80, 2)));
        assert_eq!(comparison("0x50 - 0x60", 2), Ok(Match::range(0x50, 0x60)));
        assert_eq!(comparison("10.0.0.0/8", 4), Ok(Match::prefix(0x0a00_0000, 8, 4)));
        assert_eq!(comparison("2001:db8::/32", 16), Ok(Match::prefix(0x2001_0db8 << 96, 32, 16)));
        assert_eq!(comparison("3/0x83", 1), Ok(Match::Mask { value: 3, mask: 0x83 }));
        assert_eq!(comparison("80/0X10", 2), Ok(Match::Mask { value: 80, mask: 0x10 }));
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = |text, bytes| comparison(text, bytes).unwrap_err();
        assert_eq!(error("300", 1), "f:3:1: expected a number, 0 to 255, found \"300\"");
        assert_eq!(
            error("9-8", 1),
            "f:3:3: expected a last value that is not below the first, found \"8\""
        );
        assert_eq!(
            error("10.0.0.0/33", 4),
            "f:3:10: expected a prefix length, 0 to 32, found \"33\""
        );
        assert_eq!(error("::1", 4), "f:3:1: expected a value of 4 bytes, found \"::1\"");
        assert_eq!(error("1 2", 4), "f:3:3: expected the end of the line, found \"2\"");
        assert_eq!(
            error("", 4),
            "f:3:1: expected a number, 0 to 4294967295, found the end of the line"
        );
        assert_eq!(error("äö", 4), "f:3:1: expected a number, 0 to 4294967295, found \"äö\"");
    }
}
