//! Parameters of the core: making them, and reading those that we are handed.
#![allow(unsafe_code, reason = "parameters are C arrays of pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use widelane_ossl_sys::core::{
    OsslParam, PARAM_INTEGER, PARAM_OCTET_STRING, PARAM_UNMODIFIED, PARAM_UNSIGNED_INTEGER,
    PARAM_UTF8_PTR, PARAM_UTF8_STRING,
};

/// A number, passed in or asked for.
pub(crate) fn int(key: &'static CStr, value: &mut c_int) -> OsslParam {
    OsslParam::new(key, PARAM_INTEGER, ptr::from_mut(value).cast(), size_of::<c_int>())
}

/// A number without sign, passed in or asked for.
pub(crate) fn uint(key: &'static CStr, value: &mut c_uint) -> OsslParam {
    OsslParam::new(key, PARAM_UNSIGNED_INTEGER, ptr::from_mut(value).cast(), size_of::<c_uint>())
}

/// A text asked for.
pub(crate) fn text(key: &'static CStr, value: &mut Text) -> OsslParam {
    OsslParam::new(key, PARAM_UTF8_STRING, value.0.as_mut_ptr().cast(), value.0.len() - 1)
}

/// A text passed in; the core does not write to it.
pub(crate) fn text_in(key: &'static CStr, value: &CStr) -> OsslParam {
    let data = value.as_ptr().cast_mut().cast();
    OsslParam::new(key, PARAM_UTF8_STRING, data, value.count_bytes())
}

/// Bytes passed in; the core does not write to them.
pub(crate) fn octets_in(key: &'static CStr, value: &mut [u8]) -> OsslParam {
    OsslParam::new(key, PARAM_OCTET_STRING, value.as_mut_ptr().cast(), value.len())
}

/// A number passed in, in the machine's byte order; the core does not write to it.
pub(crate) fn number_in(key: &'static CStr, value: &mut [u8]) -> OsslParam {
    OsslParam::new(key, PARAM_UNSIGNED_INTEGER, value.as_mut_ptr().cast(), value.len())
}

/// The name of a parameter that can be asked for.
pub(crate) const fn gettable(key: &'static CStr, data_type: c_uint) -> OsslParam {
    OsslParam::new(key, data_type, ptr::null_mut(), 0)
}

/// A short text that the core writes.
pub(crate) struct Text([u8; 64]);

impl Text {
    /// No text yet.
    pub(crate) const fn empty() -> Self {
        Text([0; 64])
    }

    /// The text.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// The parameters of an array that ends with a null name.
///
/// # Safety
/// `array` must be null or such an array, and stay while the iterator is used.
pub(crate) unsafe fn iter<'a>(array: *const OsslParam) -> impl Iterator<Item = &'a OsslParam> {
    let mut next = array;
    std::iter::from_fn(move || {
        // SAFETY: null, or a parameter: the end has not been seen yet.
        let param = unsafe { next.as_ref() }?;
        if param.key.is_null() {
            return None;
        }
        // SAFETY: this one was not the end, so there is another.
        next = unsafe { next.add(1) };
        Some(param)
    })
}

/// The name of a parameter of [`iter`].
pub(crate) fn key(param: &OsslParam) -> &CStr {
    // SAFETY: parameters of `iter` have names, which are C strings.
    unsafe { CStr::from_ptr(param.key) }
}

/// The number of a parameter of [`iter`], which may be of any length: its bytes, big-endian.
pub(crate) fn big_endian(param: &OsslParam) -> Option<Vec<u8>> {
    if param.data_type != PARAM_UNSIGNED_INTEGER || param.data.is_null() {
        return None;
    }
    // SAFETY: the core says that so many bytes are there, and we have looked for null.
    let native = unsafe { std::slice::from_raw_parts(param.data.cast::<u8>(), param.data_size) };
    Some(native.iter().rev().copied().collect())
}

/// The bytes of a parameter of [`iter`].
pub(crate) fn octets(param: &OsslParam) -> Option<&[u8]> {
    if param.data_type != PARAM_OCTET_STRING || param.data.is_null() {
        return None;
    }
    // SAFETY: the core says that so many bytes are there, and we have looked for null.
    Some(unsafe { std::slice::from_raw_parts(param.data.cast::<u8>(), param.data_size) })
}

/// The text of a parameter of [`iter`], if it is short.
pub(crate) fn text_of(param: &OsslParam) -> Option<Text> {
    if param.data_type != PARAM_UTF8_STRING || param.data.is_null() {
        return None;
    }
    // SAFETY: the core says that so many bytes are there, and we have looked for null.
    let bytes = unsafe { std::slice::from_raw_parts(param.data.cast::<u8>(), param.data_size) };
    let mut text = Text::empty();
    // The text may or may not end with a NUL.
    let room = text.0.len() - 1;
    text.0[..room].get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(text)
}

/// Answers every parameter of an array by `value`; false, with some answered, if one asks for what
/// has no value or leaves no room for it.
///
/// # Safety
/// `array` must be null or an array that ends with a null name, with room for what it asks for.
pub(crate) unsafe fn answer_all<'a>(
    array: *mut OsslParam,
    value: impl Fn(&CStr) -> Option<Value<'a>>,
) -> bool {
    let mut next = array;
    // SAFETY: null, or a parameter: the end has not been seen yet.
    while let Some(param) = unsafe { next.as_mut() }
        && !param.key.is_null()
    {
        let Some(value) = value(key(param)) else { return false };
        // SAFETY: the caller vouches for the room.
        if !unsafe { value.write_to(param) } {
            return false;
        }
        // SAFETY: this one was not the end, so there is another.
        next = unsafe { next.add(1) };
    }
    true
}

/// What a parameter that asks for a copy can be answered with.
pub(crate) enum Value<'a> {
    /// A number.
    Int(c_int),
    /// Text.
    Text(&'static CStr),
    /// Bytes.
    Octets(&'a [u8]),
}

impl Value<'_> {
    /// As `OSSL_PARAM_set_int`, `_utf8_string` and `_octet_string` do.
    unsafe fn write_to(&self, param: &mut OsslParam) -> bool {
        let (bytes, data_type): (&[u8], _) = match self {
            Value::Int(number) => (&number.to_ne_bytes(), PARAM_INTEGER),
            Value::Text(text) => (text.to_bytes(), PARAM_UTF8_STRING),
            Value::Octets(bytes) => (bytes, PARAM_OCTET_STRING),
        };
        if param.data_type != data_type {
            return false;
        }
        param.return_size = bytes.len();
        if param.data.is_null() {
            return true;
        }
        let data = param.data.cast::<u8>();
        if param.data_size < bytes.len() || data_type == PARAM_INTEGER && param.data_size != 4 {
            return false;
        }
        // SAFETY: there is room for so many bytes; what we hold is not the program's buffer.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
        if data_type == PARAM_UTF8_STRING && param.data_size > bytes.len() {
            // SAFETY: there is room for one more.
            let end = unsafe { data.add(bytes.len()) };
            // SAFETY: as above.
            unsafe { end.write(0) };
        }
        true
    }
}

/// Answers a parameter that asks for a constant text or a number; others are left as they are.
///
/// # Safety
/// `array` must be null or an array that ends with a null name, with room for what it asks for.
pub(crate) unsafe fn answer(array: *mut OsslParam, constants: &[(&CStr, Constant)]) {
    let mut next = array;
    // SAFETY: null, or a parameter: the end has not been seen yet.
    while let Some(param) = unsafe { next.as_mut() }
        && !param.key.is_null()
    {
        if let Some((_, constant)) = constants.iter().find(|(name, _)| *name == key(param)) {
            // SAFETY: the caller vouches for the room.
            unsafe { constant.write_to(param) };
        }
        // SAFETY: this one was not the end, so there is another.
        next = unsafe { next.add(1) };
    }
}

/// What a parameter that asks can be answered with.
pub(crate) enum Constant {
    /// A pointer to text.
    Text(&'static CStr),
    /// A number.
    Int(c_int),
}

impl Constant {
    unsafe fn write_to(&self, param: &mut OsslParam) {
        debug_assert_eq!(param.return_size, PARAM_UNMODIFIED);
        match (self, param.data_type) {
            (Constant::Text(text), PARAM_UTF8_PTR) if !param.data.is_null() => {
                // SAFETY: a parameter of this type asks for a pointer.
                unsafe { param.data.cast::<*const c_char>().write(text.as_ptr()) };
                param.return_size = text.count_bytes();
            }
            (Constant::Int(number), PARAM_INTEGER) if param.data_size == size_of::<c_int>() => {
                // SAFETY: the parameter has room for a number of this size.
                unsafe { param.data.cast::<c_int>().write_unaligned(*number) };
                param.return_size = size_of::<c_int>();
            }
            _ => {}
        }
    }
}

/// An address that only serves as a name.
pub(crate) const fn address<T>(item: &'static T) -> *const c_void {
    ptr::from_ref(item).cast()
}
