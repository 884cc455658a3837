//! A session's encoding read again, with the certificate of its peer as it is known.
//!
//! libssl copies a session for each ticket that it writes by encoding and decoding it, and decodes
//! the session of each ticket that it is shown. What takes long in that is the peer's certificate.
#![allow(unsafe_code, reason = "encodings and structures at addresses of libssl's")]

use core::ffi::{c_long, c_uchar, c_void};
use core::{ptr, slice};

use super::encoding::{EXPLICIT, SEQUENCE, Writer, place_of_certificate, with_header};
use crate::certificates;
use crate::real;

/// `ASN1_item_d2i` of a session that has the certificate of its peer. `None`: it has none, or it is
/// left to libcrypto.
///
/// Secrets: the encoding, which has the session's master secret.
pub(crate) fn decode(
    value: *mut *mut c_void,
    input: *mut *const c_uchar,
    bytes: c_long,
    item: *const c_void,
) -> Option<*mut c_void> {
    let (offset, tag) = place_of_certificate(item)?;
    // SAFETY: null, or a place of the caller's, by the contract of `ASN1_item_d2i`.
    let is_new = value.is_null() || unsafe { value.read() }.is_null();
    if !is_new || input.is_null() {
        return None;
    }
    // SAFETY: the caller's place, by the contract.
    let start = unsafe { input.read() };
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller's encoding, of this length.
    let encoding = unsafe { slice::from_raw_parts(start, usize::try_from(bytes).ok()?) };
    let (SEQUENCE, content, behind) = split(encoding)? else { return None };
    let mut rest = content;
    let (found, before, certificate) = loop {
        let before = content.len() - rest.len();
        let (found, content, behind) = split(rest)?;
        rest = behind;
        if found >= EXPLICIT | tag {
            break (found, before, content);
        }
    };
    // Fields stand in the order of their tags, each once. Libcrypto would not see that the
    // certificate stands elsewhere or twice, if it gets the others only.
    let is_before_rest = rest.is_empty() || split(rest)?.0 > EXPLICIT | tag;
    if found != EXPLICIT | tag || !is_before_rest {
        return None;
    }
    let certificate = certificates::of_encoding(certificate)?;
    let openssl = real::openssl()?;
    let Some(session) = decode_without(&content[..before], rest, item) else {
        (openssl.X509_free)(certificate);
        return None;
    };
    // SAFETY: the structure has a pointer at this offset, by its templates, and nobody else has it.
    let place = unsafe { session.byte_add(offset) };
    // SAFETY: as above. It is null, since there was no certificate in what was decoded.
    unsafe { place.cast::<*mut c_void>().write(certificate) };
    // SAFETY: the caller's place, by the contract; what is behind the session is not used up.
    unsafe { input.write(behind.as_ptr()) };
    if !value.is_null() {
        // SAFETY: as above.
        unsafe { value.write(session) };
    }
    Some(session)
}

/// Has libcrypto decode a session with these fields.
fn decode_without(before: &[u8], behind: &[u8], item: *const c_void) -> Option<*mut c_void> {
    let openssl = real::openssl()?;
    let content_bytes = before.len() + behind.len();
    let mut encoding = vec![0; with_header(content_bytes)];
    let mut writer = Writer(&mut encoding);
    writer.header(SEQUENCE, content_bytes)?;
    writer.bytes(before)?;
    writer.bytes(behind)?;
    let mut input = encoding.as_ptr();
    let bytes = encoding.len() as c_long;
    let decode = || real::ASN1_item_d2i(ptr::null_mut(), &mut input, bytes, item);
    let session = openssl.quietly(decode);
    real::wipe(&mut encoding);
    (!session.is_null()).then_some(session)
}

/// Tag and content of the first value of an encoding, and what is behind it; nothing if its tag or
/// length is written in a way that sessions' are not.
fn split(encoding: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = encoding.split_first_chunk()?;
    if tag & 0x1F == 0x1F {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_where_they_end() {
        assert_eq!(split(&[4, 2, 7, 8, 9]), Some((4, &[7, 8][..], &[9][..])));
        assert_eq!(split(&[4, 0]), Some((4, &[][..], &[][..])));
        assert_eq!(split(&[4, 0x81, 1, 7]), Some((4, &[7][..], &[][..])));
        assert_eq!(split(&[4, 0x82, 0, 1, 7]), Some((4, &[7][..], &[][..])));
        let wrong: [&[u8]; 8] = [
            &[],
            &[4],
            &[4, 1],
            &[4, 0x81],
            &[4, 0x82, 0],
            &[4, 0x80, 7, 0, 0],
            &[4, 0x83, 0, 0, 0],
            &[0x1F, 1, 7],
        ];
        for wrong in wrong {
            assert_eq!(split(wrong), None, "{wrong:02x?}");
        }
    }
}
