//! The DER encoding of a session.
//!
//! libssl encodes a session four times for each ticket that it writes, and HAProxy's cache and
//! others twice more. libcrypto does so by templates, which it walks through three times for each
//! encoding, one call per field and tag: 6 µs of a handshake. Here the templates are read once, and
//! what a session has in its fields is written by them.
//!
//! The templates are of the public header `openssl/asn1t.h`. What one of them says that is not
//! known here, and what no session has any more (SSLv2's key), is left to libcrypto; so is
//! everything, for good, if libcrypto encodes the first of the others differently.
#![allow(unsafe_code, reason = "templates and structures of libcrypto and libssl")]

use core::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_ulong, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{ptr, slice};

use crate::provider::is_switched_off;
use crate::real::{self, OpenSsl};

/// `ASN1_ITEM`: how a type is encoded.
#[repr(C)]
struct Item {
    kind: c_char,
    universal: c_long,
    templates: *const Template,
    count: c_long,
    functions: *const c_void,
    /// Of a number: flags.
    size: c_long,
    name: *const c_char,
}

/// `ASN1_TEMPLATE`: how a field of a structure is encoded.
#[repr(C)]
struct Template {
    flags: c_ulong,
    tag: c_long,
    offset: c_ulong,
    name: *const c_char,
    item: Option<extern "C" fn() -> *const Item>,
}

const ASN1_ITYPE_PRIMITIVE: c_char = 0;
const ASN1_ITYPE_SEQUENCE: c_char = 1;
const V_ASN1_OCTET_STRING: c_long = 4;
const ASN1_TFLG_OPTIONAL: c_ulong = 0x1;
const ASN1_TFLG_EXPLICIT: c_ulong = 0x10 | 0x80;
const ASN1_TFLG_EMBED: c_ulong = 0x1000;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
pub(super) const SEQUENCE: u8 = 0x30;
/// Constructed, and of the context.
pub(super) const EXPLICIT: u8 = 0xA0;
/// The first tag that takes more than one byte.
const TAG_LONG: c_long = 31;

/// What the items of libcrypto's numbers are called: bytes of one, whether it has a sign, and
/// whether zero is left out.
const NUMBERS: [(&CStr, Number); 8] = [
    (c"INT32", Number { bytes: 4, is_signed: true, leaves_out_zero: false }),
    (c"UINT32", Number { bytes: 4, is_signed: false, leaves_out_zero: false }),
    (c"INT64", Number { bytes: 8, is_signed: true, leaves_out_zero: false }),
    (c"UINT64", Number { bytes: 8, is_signed: false, leaves_out_zero: false }),
    (c"ZINT32", Number { bytes: 4, is_signed: true, leaves_out_zero: true }),
    (c"ZUINT32", Number { bytes: 4, is_signed: false, leaves_out_zero: true }),
    (c"ZINT64", Number { bytes: 8, is_signed: true, leaves_out_zero: true }),
    (c"ZUINT64", Number { bytes: 8, is_signed: false, leaves_out_zero: true }),
];

/// How sessions are encoded.
struct Plan {
    /// The address of the item that libssl names them by.
    item: usize,
    fields: Vec<Field>,
}

/// What is known since the first session that could be compared; null before. The first thread
/// publishes it, without a lock, which a fork could leave taken.
static PLAN: AtomicPtr<Plan> = AtomicPtr::new(ptr::null_mut());

struct Field {
    offset: usize,
    /// The number of the tag around the field.
    tag: Option<u8>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Number(Number),
    Octets {
        is_optional: bool,
    },
    /// The peer's, of which there need not be one.
    Certificate,
    /// Left to libcrypto where there is one.
    Other,
}

#[derive(Clone, Copy)]
struct Number {
    bytes: usize,
    is_signed: bool,
    leaves_out_zero: bool,
}

/// What a session has in a field.
enum Value<'a> {
    Absent,
    Number(i128),
    Octets(&'a [u8]),
    /// A certificate, and the bytes of its encoding.
    Certificate(*const c_void, usize),
}

/// `ASN1_item_i2d` of a session: the bytes that its encoding has, which are written if `*output`
/// has room for them. `None`: not a session, or one that is left to libcrypto.
///
/// Secrets: what `value` points to, which has the session's master secret.
pub(crate) fn encode(
    value: *const c_void,
    output: *mut *mut c_uchar,
    item: *const c_void,
) -> Option<c_int> {
    let plan = match Plan::known() {
        Some(plan) => plan,
        None if is_of_sessions(item) => Plan::checked(item, value)?.publish(),
        None => return None,
    };
    if plan.item != item.addr() || is_switched_off() {
        return None;
    }
    let openssl = real::openssl()?;
    let content_bytes = plan.content_bytes(openssl, value)?;
    let bytes = with_header(content_bytes);
    if output.is_null() {
        return c_int::try_from(bytes).ok();
    }
    // SAFETY: a pointer of the caller's, by the contract of `ASN1_item_i2d`.
    let start = unsafe { *output };
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller has room for the whole encoding there, by the contract.
    let encoding = unsafe { slice::from_raw_parts_mut(start, bytes) };
    plan.write(openssl, value, content_bytes, encoding)?;
    let end = encoding.as_mut_ptr_range().end;
    // SAFETY: as above; the pointer ends behind what is written, by the contract.
    unsafe { *output = end };
    c_int::try_from(bytes).ok()
}

/// Where sessions that are named like this have the certificate of their peer, and the number of
/// the tag around it; nothing if they are left to libcrypto.
pub(super) fn place_of_certificate(item: *const c_void) -> Option<(usize, u8)> {
    let plan = Plan::known().filter(|plan| plan.item == item.addr())?;
    let field = plan.fields.iter().find(|field| matches!(field.kind, Kind::Certificate))?;
    Some((field.offset, field.tag?))
}

/// Whether this is how libssl names its sessions.
fn is_of_sessions(item: *const c_void) -> bool {
    // SAFETY: null, or the item of a caller of `ASN1_item_i2d`.
    let Some(item) = (unsafe { item.cast::<Item>().as_ref() }) else { return false };
    // SAFETY: null, or the C string that is the item's name.
    !item.name.is_null() && unsafe { CStr::from_ptr(item.name) } == c"SSL_SESSION_ASN1"
}

impl Plan {
    /// By this nothing is encoded: all sessions are left to libcrypto.
    const NONE: Self = Self { item: 0, fields: Vec::new() };

    fn known() -> Option<&'static Self> {
        // SAFETY: null, or what `publish` has leaked.
        unsafe { PLAN.load(Ordering::Acquire).as_ref() }
    }

    /// The plan of this process, which is this one if no other thread was first.
    fn publish(self) -> &'static Self {
        let ours = Box::into_raw(Box::new(self));
        let (none, order) = (ptr::null_mut(), Ordering::AcqRel);
        let first = match PLAN.compare_exchange(none, ours, order, Ordering::Acquire) {
            Ok(_) => ours,
            Err(first) => {
                // SAFETY: made above, and nobody else's.
                drop(unsafe { Box::from_raw(ours) });
                first
            }
        };
        // SAFETY: published once, and never freed.
        unsafe { &*first }
    }

    /// A plan by which `value` is encoded as libcrypto encodes it, or [`Plan::NONE`]. Nothing if
    /// this session cannot tell: it is left to libcrypto, or libcrypto has no memory for it.
    fn checked(item: *const c_void, value: *const c_void) -> Option<Self> {
        let openssl = real::openssl()?;
        let Some(plan) = Self::of(item) else { return Some(Self::NONE) };
        let content_bytes = plan.content_bytes(openssl, value)?;
        let mut expected = ptr::null_mut();
        let bytes = usize::try_from(real::ASN1_item_i2d(value, &mut expected, item)).ok()?;
        if expected.is_null() {
            return None;
        }
        let mut encoding = vec![0; with_header(content_bytes)];
        let is_written = plan.write(openssl, value, content_bytes, &mut encoding).is_some();
        // SAFETY: libcrypto has allocated the encoding, and returned its length.
        let written = unsafe { slice::from_raw_parts_mut(expected, bytes) };
        let is_equal = is_written && *written == *encoding;
        real::wipe(written);
        real::wipe(&mut encoding);
        (openssl.CRYPTO_free)(expected.cast(), c"".as_ptr(), 0);
        Some(if is_equal { plan } else { Self::NONE })
    }

    /// The plan that a sequence's templates are.
    fn of(address: *const c_void) -> Option<Self> {
        // SAFETY: the item of a caller of `ASN1_item_i2d`.
        let item = unsafe { address.cast::<Item>().as_ref() }?;
        let count = usize::try_from(item.count).ok()?;
        let is_plain = item.kind == ASN1_ITYPE_SEQUENCE && item.functions.is_null();
        if !is_plain || item.templates.is_null() {
            return None;
        }
        // SAFETY: an item of a sequence has so many templates.
        let templates = unsafe { slice::from_raw_parts(item.templates, count) };
        let fields = templates.iter().map(Template::field).collect::<Option<_>>()?;
        Some(Self { item: address.addr(), fields })
    }

    /// Bytes that the encoding of `value` has behind its tag and length.
    fn content_bytes(&self, openssl: &OpenSsl, value: *const c_void) -> Option<usize> {
        self.fields
            .iter()
            .try_fold(0, |sum, field| Some(sum + field.bytes(&field.value(openssl, value)?)))
    }

    /// Writes the encoding of `value`, which has exactly as many bytes as `encoding`.
    fn write(
        &self,
        openssl: &OpenSsl,
        value: *const c_void,
        content_bytes: usize,
        encoding: &mut [u8],
    ) -> Option<()> {
        let mut writer = Writer(encoding);
        writer.header(SEQUENCE, content_bytes)?;
        for field in &self.fields {
            field.write(openssl, &field.value(openssl, value)?, &mut writer)?;
        }
        writer.0.is_empty().then_some(())
    }
}

impl Template {
    /// `None`: unlike any field that sessions are known to have.
    fn field(&self) -> Option<Field> {
        // SAFETY: items are constant data.
        let item = unsafe { (self.item?)().as_ref() }?;
        if item.name.is_null() {
            return None;
        }
        // SAFETY: the C string that is the item's name.
        let name = unsafe { CStr::from_ptr(item.name) };
        let number = NUMBERS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        let is_optional = self.flags & ASN1_TFLG_OPTIONAL != 0;
        let is_embedded = self.flags & ASN1_TFLG_EMBED != 0;
        let known = ASN1_TFLG_OPTIONAL | ASN1_TFLG_EMBED | ASN1_TFLG_EXPLICIT;
        let is_primitive = item.kind == ASN1_ITYPE_PRIMITIVE;
        let is_octets =
            is_primitive && item.universal == V_ASN1_OCTET_STRING && item.functions.is_null();
        let (is_known, is_tagged) =
            (self.flags & !known == 0, self.flags & ASN1_TFLG_EXPLICIT == ASN1_TFLG_EXPLICIT);
        let tag = match is_tagged {
            true => Some((0..TAG_LONG).contains(&self.tag).then_some(self.tag as u8)?),
            false => None,
        };
        let kind = match number {
            Some(number) if is_known && is_embedded && is_primitive => Kind::Number(number),
            None if is_known && !is_embedded && is_octets => Kind::Octets { is_optional },
            None if is_known && is_optional && !is_embedded && name == c"X509" => Kind::Certificate,
            _ if is_optional && !is_embedded => Kind::Other,
            _ => return None,
        };
        Some(Field { offset: usize::try_from(self.offset).ok()?, tag, kind })
    }
}

impl Field {
    /// What the session at `session` has in this field; `None` leaves it to libcrypto.
    fn value<'a>(&self, openssl: &OpenSsl, session: *const c_void) -> Option<Value<'a>> {
        // SAFETY: the structure has this field at this offset, by its templates.
        let field = unsafe { session.byte_add(self.offset) };
        match self.kind {
            Kind::Number(number) => {
                // SAFETY: the field is a number of these bytes, by its item.
                let value = unsafe { number.read(field) };
                let is_absent = number.leaves_out_zero && value == 0;
                Some(if is_absent { Value::Absent } else { Value::Number(value) })
            }
            Kind::Octets { is_optional } => {
                // SAFETY: the field is a pointer to a string, by its item.
                let string = unsafe { field.cast::<*const c_void>().read() };
                if string.is_null() {
                    return is_optional.then_some(Value::Absent);
                }
                let bytes = usize::try_from((openssl.ASN1_STRING_length)(string)).ok()?;
                let start = (openssl.ASN1_STRING_get0_data)(string);
                if bytes == 0 || start.is_null() {
                    return (bytes == 0).then_some(Value::Octets(&[]));
                }
                // SAFETY: the string's data, which stay as they are during the call.
                Some(Value::Octets(unsafe { slice::from_raw_parts(start, bytes) }))
            }
            Kind::Certificate | Kind::Other => {
                // SAFETY: the field is a pointer: it is optional, and not embedded.
                let pointer = unsafe { field.cast::<*const c_void>().read() };
                if pointer.is_null() {
                    return Some(Value::Absent);
                }
                let Kind::Certificate = self.kind else { return None };
                let bytes = usize::try_from((openssl.i2d_X509)(pointer, ptr::null_mut())).ok()?;
                (bytes > 0).then_some(Value::Certificate(pointer, bytes))
            }
        }
    }

    /// Bytes that the field's encoding has.
    fn bytes(&self, value: &Value<'_>) -> usize {
        let bytes = match value {
            Value::Absent => return 0,
            Value::Number(number) => with_header(number_bytes(*number)),
            Value::Octets(octets) => with_header(octets.len()),
            Value::Certificate(_, bytes) => *bytes,
        };
        if self.tag.is_some() { with_header(bytes) } else { bytes }
    }

    fn write(&self, openssl: &OpenSsl, value: &Value<'_>, writer: &mut Writer<'_>) -> Option<()> {
        let number;
        let (kind, content) = match value {
            Value::Absent => return Some(()),
            Value::Certificate(certificate, bytes) => {
                if let Some(tag) = self.tag {
                    writer.header(EXPLICIT | tag, *bytes)?;
                }
                let mut start = writer.room(*bytes)?.as_mut_ptr();
                let written = (openssl.i2d_X509)(*certificate, &mut start);
                return (usize::try_from(written) == Ok(*bytes)).then_some(());
            }
            Value::Number(value) => {
                number = value.to_be_bytes();
                (INTEGER, &number[number.len() - number_bytes(*value)..])
            }
            Value::Octets(octets) => (OCTET_STRING, *octets),
        };
        if let Some(tag) = self.tag {
            writer.header(EXPLICIT | tag, with_header(content.len()))?;
        }
        writer.header(kind, content.len())?;
        writer.bytes(content)
    }
}

impl Number {
    /// # Safety
    /// At `field` there is a number of this kind.
    unsafe fn read(self, field: *const c_void) -> i128 {
        let mut bytes = [0; 8];
        // SAFETY: by the contract of this function.
        let read = unsafe { slice::from_raw_parts(field.cast::<u8>(), self.bytes) };
        bytes[..self.bytes].copy_from_slice(read);
        let value = u64::from_le_bytes(bytes);
        match (self.is_signed, self.bytes) {
            (true, 4) => i128::from(value as u32 as i32),
            (true, _) => i128::from(value as i64),
            (false, _) => i128::from(value),
        }
    }
}

/// Bytes of a number's shortest two's complement.
fn number_bytes(number: i128) -> usize {
    let magnitude = if number < 0 { !number } else { number };
    let bits = i128::BITS - magnitude.leading_zeros();
    bits as usize / 8 + 1
}

/// Bytes of a value with its tag and length.
pub(super) fn with_header(content_bytes: usize) -> usize {
    1 + length_bytes(content_bytes) + content_bytes
}

/// Bytes by which a length is said.
fn length_bytes(length: usize) -> usize {
    match length {
        0..=0x7F => 1,
        _ => 1 + significant(length),
    }
}

/// Bytes of a length without the zeroes before it.
fn significant(length: usize) -> usize {
    (usize::BITS - length.leading_zeros()).div_ceil(8) as usize
}

/// What is left of an encoding's room.
pub(super) struct Writer<'a>(pub(super) &'a mut [u8]);

impl Writer<'_> {
    pub(super) fn header(&mut self, tag: u8, length: usize) -> Option<()> {
        self.bytes(&[tag])?;
        if length < 0x80 {
            return self.bytes(&[length as u8]);
        }
        let bytes = significant(length);
        self.bytes(&[0x80 | bytes as u8])?;
        self.bytes(&length.to_be_bytes()[size_of::<usize>() - bytes..])
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }
}

impl<'a> Writer<'a> {
    /// Room for what comes next.
    fn room(&mut self, bytes: usize) -> Option<&'a mut [u8]> {
        let (place, rest) = core::mem::take(&mut self.0).split_at_mut_checked(bytes)?;
        self.0 = rest;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use foreign_types::ForeignType;

    use super::*;

    /// That the encodings are libcrypto's is for `tests/by_hand/sessions.rs`.
    #[test]
    fn templates_of_sessions_are_known() {
        unsafe extern "C" {
            fn SSL_SESSION_new() -> *mut openssl_sys::SSL_SESSION;
            fn SSL_SESSION_set_cipher(
                session: *mut openssl_sys::SSL_SESSION,
                cipher: *const openssl_sys::SSL_CIPHER,
            ) -> c_int;
            fn SSL_CIPHER_find(
                ssl: *mut openssl_sys::SSL,
                number: *const c_uchar,
            ) -> *const openssl_sys::SSL_CIPHER;
        }

        let method = openssl::ssl::SslMethod::tls();
        let context = openssl::ssl::SslContext::builder(method).expect("OpenSSL").build();
        let ssl = openssl::ssl::Ssl::new(&context).expect("a connection");
        // SAFETY: makes a session.
        let session = unsafe { SSL_SESSION_new() };
        // SAFETY: a live connection and the number of a cipher suite.
        let cipher = unsafe { SSL_CIPHER_find(ssl.as_ptr(), [0x13, 0x02].as_ptr()) };
        // SAFETY: a live session and cipher suite.
        assert_eq!(unsafe { SSL_SESSION_set_cipher(session, cipher) }, 1);
        // SAFETY: a live session, whose length is asked for through our door.
        assert!(unsafe { openssl_sys::i2d_SSL_SESSION(session, ptr::null_mut()) } > 0);
        // SAFETY: made above, and nobody else's.
        unsafe { openssl_sys::SSL_SESSION_free(session) };
        let plan = Plan::known().expect("the door was used");
        let is_other = |field: &&Field| matches!(field.kind, Kind::Other);
        assert!(plan.fields.len() >= 20);
        assert_eq!(plan.fields.iter().filter(is_other).count(), 1, "SSLv2's key");
        assert!(place_of_certificate(ptr::without_provenance(plan.item)).is_some());
    }

    #[test]
    fn numbers_are_as_short_as_can_be() {
        let encodings: [(i128, &[u8]); 12] = [
            (0, &[0]),
            (1, &[1]),
            (127, &[0x7F]),
            (128, &[0, 0x80]),
            (255, &[0, 0xFF]),
            (256, &[1, 0]),
            (-1, &[0xFF]),
            (-128, &[0x80]),
            (-129, &[0xFF, 0x7F]),
            (-256, &[0xFF, 0]),
            (i128::from(i64::MIN), &[0x80, 0, 0, 0, 0, 0, 0, 0]),
            (i128::from(u64::MAX), &[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
        ];
        let openssl = real::openssl().expect("OpenSSL");
        for (number, expected) in encodings {
            assert_eq!(number_bytes(number), expected.len(), "{number}");
            let mut encoding = [0; 24];
            let field = Field { offset: 0, tag: Some(9), kind: Kind::Other };
            let value = Value::Number(number);
            let bytes = field.bytes(&value);
            let mut writer = Writer(&mut encoding);
            field.write(openssl, &value, &mut writer).expect("room");
            assert_eq!(writer.0.len(), 24 - bytes);
            let length = expected.len() as u8;
            assert_eq!(encoding[..4], [0xA9, length + 2, INTEGER, length], "{number}");
            assert_eq!(&encoding[4..bytes], expected, "{number}");
        }
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        let lengths: [(usize, &[u8]); 6] = [
            (0, &[0]),
            (0x7F, &[0x7F]),
            (0x80, &[0x81, 0x80]),
            (0xFF, &[0x81, 0xFF]),
            (0x100, &[0x82, 1, 0]),
            (0x1_0000, &[0x83, 1, 0, 0]),
        ];
        for (length, expected) in lengths {
            assert_eq!(length_bytes(length), expected.len());
            let mut header = [0; 8];
            Writer(&mut header).header(OCTET_STRING, length).expect("room");
            assert_eq!(&header[1..=expected.len()], expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let mut room = [0; 3];
        assert!(Writer(&mut room).bytes(&[1; 4]).is_none());
        assert!(Writer(&mut room[..1]).header(SEQUENCE, 0x80).is_none());
    }
}
