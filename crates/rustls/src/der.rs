//! A reader of DER: as much of it as keys need.

/// The tags of what keys consist of.
pub(crate) mod tag {
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(crate) const SEQUENCE: u8 = 0x30;

    /// An optional field that is a structure of its own.
    pub(crate) const fn context(number: u8) -> u8 {
        0xa0 | number
    }

    /// An optional field whose own tag this one stands for.
    pub(crate) const fn implicit(number: u8) -> u8 {
        0x80 | number
    }
}

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What is still to be read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// What an element holds that has this tag and is all there is.
    pub(crate) fn whole(tag: u8, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let mut reader = Reader(bytes);
        let inside = reader.element(tag)?;
        reader.end()?;
        Ok(inside)
    }

    /// Reads what a sequence holds that is all there is.
    pub(crate) fn whole_sequence(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::whole(tag::SEQUENCE, bytes).map(Reader)
    }

    /// What the next element holds, which has this tag.
    pub(crate) fn element(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        if first != tag {
            return Err(Malformed);
        }
        let (length, rest) = length(rest)?;
        let (contents, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(contents)
    }

    /// The contents of the next element if it has this tag; nothing, and no step forward, if it has
    /// another.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Malformed> {
        if self.0.first() == Some(&tag) { self.element(tag).map(Some) } else { Ok(None) }
    }

    /// The bytes of a number that is not negative, big-endian.
    pub(crate) fn unsigned(&mut self) -> Result<&'a [u8], Malformed> {
        let bytes = self.element(tag::INTEGER)?;
        match bytes {
            // Negative, or longer than it need be.
            [] | [0x80..=0xff, ..] | [0, 0..=0x7f, ..] => Err(Malformed),
            _ => Ok(bytes),
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Agrees that nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// The length of an element, and what follows it.
fn length(bytes: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    let (&first, rest) = bytes.split_first().ok_or(Malformed)?;
    if first < 0x80 {
        return Ok((first.into(), rest));
    }
    // No key is so long that its length has more than two bytes.
    let (length, rest, least) = match (first, rest) {
        (0x81, [length, rest @ ..]) => (usize::from(*length), rest, 0x80),
        (0x82, [high, low, rest @ ..]) => {
            (usize::from(u16::from_be_bytes([*high, *low])), rest, 0x100)
        }
        _ => return Err(Malformed),
    };
    if length < least { Err(Malformed) } else { Ok((length, rest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_one_by_one() {
        let mut reader = Reader::whole_sequence(&[0x30, 5, 2, 1, 7, 4, 0]).expect("a sequence");
        assert_eq!(reader.unsigned(), Ok(&[7][..]));
        assert_eq!(reader.optional(tag::BIT_STRING), Ok(None));
        assert_eq!(reader.optional(tag::OCTET_STRING), Ok(Some(&[][..])));
        assert!(reader.is_empty());
        assert_eq!(reader.element(tag::INTEGER), Err(Malformed));
    }

    #[test]
    fn lengths_are_as_short_as_can_be() {
        for (bytes, expected) in [
            (&[4, 1, 9][..], Ok(&[9][..])),
            (&[4, 0x81, 1, 9], Err(Malformed)),
            (&[4, 0x82, 0, 1, 9], Err(Malformed)),
            (&[4, 0x80, 9, 0, 0], Err(Malformed)),
            (&[4, 0x84, 0, 0, 0, 1, 9], Err(Malformed)),
            (&[4, 2, 9], Err(Malformed)),
            (&[4], Err(Malformed)),
            (&[], Err(Malformed)),
        ] {
            assert_eq!(Reader(bytes).element(tag::OCTET_STRING), expected, "{bytes:?}");
        }
        let mut long = vec![4, 0x82, 1, 0];
        long.resize(4 + 256, 5);
        assert_eq!(Reader(&long).element(tag::OCTET_STRING).map(<[u8]>::len), Ok(256));
    }

    #[test]
    fn what_is_whole_has_nothing_behind_it() {
        assert_eq!(Reader::whole(tag::OCTET_STRING, &[4, 1, 9]), Ok(&[9][..]));
        assert_eq!(Reader::whole(tag::OCTET_STRING, &[4, 1, 9, 0]), Err(Malformed));
        assert!(Reader::whole_sequence(&[0x30, 0, 0]).is_err());
    }

    #[test]
    fn numbers_are_not_negative_and_not_padded() {
        for (bytes, expected) in [
            (&[2, 1, 0][..], Ok(&[0][..])),
            (&[2, 2, 0, 0x80], Ok(&[0, 0x80])),
            (&[2, 1, 0x80], Err(Malformed)),
            (&[2, 2, 0, 0x7f], Err(Malformed)),
            (&[2, 0], Err(Malformed)),
        ] {
            assert_eq!(Reader(bytes).unsigned(), expected, "{bytes:?}");
        }
    }
}
