//! Parameters of the core: making them, and reading those that we are handed.
#![allow(unsafe_code, reason = "parameters are C arrays of pointers")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use widelane_ossl_sys::core::{
    OsslParam, PARAM_INTEGER, PARAM_OCTET_PTR, PARAM_OCTET_STRING, PARAM_REAL,
    PARAM_UNSIGNED_INTEGER, PARAM_UTF8_PTR, PARAM_UTF8_STRING,
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
pub(crate) fn octets_in(key: &'static CStr, value: &[u8]) -> OsslParam {
    let data = value.as_ptr().cast_mut().cast();
    OsslParam::new(key, PARAM_OCTET_STRING, data, value.len())
}

/// Bytes asked for.
pub(crate) fn octets_out(key: &'static CStr, value: &mut [u8]) -> OsslParam {
    OsslParam::new(key, PARAM_OCTET_STRING, value.as_mut_ptr().cast(), value.len())
}

/// A number passed in, in the machine's byte order; the core does not write to it.
pub(crate) fn number_in(key: &'static CStr, value: &[u8]) -> OsslParam {
    let data = value.as_ptr().cast_mut().cast();
    OsslParam::new(key, PARAM_UNSIGNED_INTEGER, data, value.len())
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

/// The parameters of an array that ends with a null name, or none.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    first: *const OsslParam,
    array: PhantomData<&'a OsslParam>,
}

impl<'a> Array<'a> {
    /// # Safety
    /// `first` must be null or begin such an array, and stay while this is used.
    pub(crate) unsafe fn new(first: *const OsslParam) -> Self {
        Array { first, array: PhantomData }
    }

    /// All of them.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a OsslParam> {
        // SAFETY: passed on to the caller of `new`.
        unsafe { iter(self.first) }
    }

    /// The first one of a name.
    pub(crate) fn find(self, name: &CStr) -> Option<&'a OsslParam> {
        self.iter().find(|param| self::name(param) == name)
    }
}

/// Whether an array has no parameters.
///
/// # Safety
/// As for [`iter`].
pub(crate) unsafe fn is_empty(array: *const OsslParam) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { iter(array) }.next().is_none()
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

/// The name of a parameter.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    text: *const c_char,
    param: PhantomData<&'a OsslParam>,
}

impl<'a> Name<'a> {
    /// # Safety
    /// `text` must be a C string, and stay while this is used.
    unsafe fn new(text: *const c_char) -> Self {
        Name { text, param: PhantomData }
    }

    /// The name as a text.
    fn as_c_str(self) -> &'a CStr {
        // SAFETY: passed on to the caller of `new`.
        unsafe { CStr::from_ptr(self.text) }
    }
}

impl PartialEq<&CStr> for Name<'_> {
    /// Looks at bytes up to the first that differs, which for a known name takes less time than to
    /// measure the unknown one.
    #[inline(always)]
    fn eq(&self, known: &&CStr) -> bool {
        known.to_bytes_with_nul().iter().enumerate().all(|(index, byte)| {
            // SAFETY: all bytes in front of this one are those of `known`, so none was the end.
            let place = unsafe { self.text.add(index) };
            // SAFETY: as above.
            unsafe { place.cast::<u8>().read() == *byte }
        })
    }
}

/// Names and parameters of an array that ends with a null name, to be answered.
///
/// # Safety
/// `array` must be null or such an array, used by nobody else while the iterator is.
pub(crate) unsafe fn iter_mut<'a>(
    array: *mut OsslParam,
) -> impl Iterator<Item = (Name<'a>, &'a mut OsslParam)> {
    let mut next = array;
    std::iter::from_fn(move || {
        // SAFETY: null, or a parameter that was not handed out: the end has not been seen yet.
        let param = unsafe { next.as_mut() }?;
        if param.key.is_null() {
            return None;
        }
        // SAFETY: this one was not the end, so there is another.
        next = unsafe { next.add(1) };
        // SAFETY: checked for null; names are C strings, and not what is answered.
        Some((unsafe { Name::new(param.key) }, param))
    })
}

/// The name of a parameter of [`iter`].
pub(crate) fn name(param: &OsslParam) -> Name<'_> {
    // SAFETY: parameters of `iter` have names, which are C strings.
    unsafe { Name::new(param.key) }
}

/// The name of a parameter of [`iter`] as a text.
pub(crate) fn key(param: &OsslParam) -> &CStr {
    name(param).as_c_str()
}

/// What a parameter of [`iter`] holds, if that is of a type.
fn bytes(param: &OsslParam, data_type: c_uint) -> Option<&[u8]> {
    let is_there = param.data_type == data_type && !param.data.is_null();
    // No slice is longer: a parameter that claims more is invalid.
    if !is_there || isize::try_from(param.data_size).is_err() {
        return None;
    }
    // SAFETY: the core says that so many bytes are there, and we have looked for null.
    Some(unsafe { std::slice::from_raw_parts(param.data.cast::<u8>(), param.data_size) })
}

/// The number of a parameter of [`iter`], which may be of any length: its bytes, big-endian.
pub(crate) fn big_endian(param: &OsslParam) -> Option<Vec<u8>> {
    bytes(param, PARAM_UNSIGNED_INTEGER).map(|native| native.iter().rev().copied().collect())
}

/// The bytes of a parameter of [`iter`].
pub(crate) fn octets(param: &OsslParam) -> Option<&[u8]> {
    bytes(param, PARAM_OCTET_STRING)
}

/// The text of a parameter of [`iter`], if it is short.
pub(crate) fn text_of(param: &OsslParam) -> Option<Text> {
    let bytes = bytes(param, PARAM_UTF8_STRING)?;
    let mut text = Text::empty();
    // The text may or may not end with a NUL.
    let room = text.0.len() - 1;
    text.0[..room].get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(text)
}

/// The text of a parameter of [`iter`], of any length.
pub(crate) fn whole_text_of(param: &OsslParam) -> Option<CString> {
    let bytes = bytes(param, PARAM_UTF8_STRING)?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(text).ok()
}

/// The number of a parameter of [`iter`], if it is an `int`.
pub(crate) fn int_of(param: &OsslParam) -> Option<c_int> {
    let is_int = param.data_type == PARAM_INTEGER && param.data_size == size_of::<c_int>();
    if !is_int || param.data.is_null() {
        return None;
    }
    // SAFETY: the core says that so many bytes are there, and we have looked for null.
    Some(unsafe { param.data.cast::<c_int>().read_unaligned() })
}

/// The number of a parameter of [`iter`], as `OSSL_PARAM_get_size_t` reads it: of any length, and
/// with any sign that it can do without.
pub(crate) fn size(param: &OsslParam) -> Option<usize> {
    if param.data_type == PARAM_REAL {
        let real = bytes(param, PARAM_REAL)?.try_into().map(f64::from_ne_bytes).ok()?;
        // Below the limit, 2^64, every whole number of this type is one of the other.
        let is_size = real >= 0.0 && real < 2.0 * (1_u64 << 63) as f64 && real.fract() == 0.0;
        return is_size.then_some(real as usize);
    }
    let number = match param.data_type {
        PARAM_INTEGER => bytes(param, PARAM_INTEGER)
            .filter(|number| number.last().is_none_or(|highest| highest >> 7 == 0)),
        _ => bytes(param, PARAM_UNSIGNED_INTEGER),
    }?;
    let (low, high) = number.split_at(number.len().min(size_of::<usize>()));
    let mut size = [0; size_of::<usize>()];
    size[..low.len()].copy_from_slice(low);
    high.iter().all(|byte| *byte == 0).then_some(usize::from_le_bytes(size))
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
    // SAFETY: passed on to the caller.
    let mut params = unsafe { iter_mut(array) };
    params.all(|(name, param)| {
        let value = value(name.as_c_str());
        // SAFETY: the caller vouches for the room.
        value.is_some_and(|value| unsafe { value.write_to(param) })
    })
}

/// What a parameter that asks for a copy can be answered with.
pub(crate) enum Value<'a> {
    /// A number.
    Int(c_int),
    /// A number of bytes.
    Size(usize),
    /// Text.
    Text(&'static CStr),
    /// A pointer to text.
    Pointer(&'static CStr),
    /// Bytes.
    Octets(&'a [u8]),
    /// Bytes that stay where they are, so that a pointer to them is an answer too.
    Place(&'a [u8]),
}

impl Value<'_> {
    /// Writes the value as `OSSL_PARAM_set_int`, `_size_t`, `_utf8_string`, `_utf8_ptr`,
    /// `_octet_string` and `_octet_ptr` do; false if the parameter asks for something else or
    /// leaves no room.
    ///
    /// # Safety
    /// The parameter must have room for what it asks for.
    #[inline(always)]
    pub(crate) unsafe fn write_to(&self, param: &mut OsslParam) -> bool {
        let string: Option<&[u8]> = match self {
            Value::Text(text) | Value::Pointer(text) => Some(text.to_bytes()),
            Value::Octets(bytes) | Value::Place(bytes) => Some(bytes),
            Value::Int(_) | Value::Size(_) => None,
        };
        // Without a buffer, the caller asks for the length only; the type does not matter then.
        if let Some(string) = string.filter(|_| param.data.is_null()) {
            param.return_size = string.len();
            return true;
        }
        let (int, real);
        let bytes: &[u8] = match (self, param.data_type) {
            (Value::Int(number), PARAM_INTEGER) => {
                int = number.to_ne_bytes();
                &int
            }
            (Value::Size(number), PARAM_UNSIGNED_INTEGER | PARAM_INTEGER) => {
                // SAFETY: passed on to the caller.
                return unsafe { write_size(*number, param) };
            }
            (Value::Size(number), PARAM_REAL) if number >> f64::MANTISSA_DIGITS == 0 => {
                real = (*number as f64).to_ne_bytes();
                &real
            }
            (Value::Text(text), PARAM_UTF8_STRING) => text.to_bytes(),
            (Value::Octets(bytes) | Value::Place(bytes), PARAM_OCTET_STRING) => bytes,
            (Value::Pointer(text), PARAM_UTF8_PTR) => {
                // SAFETY: a parameter of this type asks for a pointer.
                return unsafe { write_pointer(text.to_bytes(), param) };
            }
            (Value::Place(bytes), PARAM_OCTET_PTR) => {
                // SAFETY: as above.
                return unsafe { write_pointer(bytes, param) };
            }
            _ => return false,
        };
        param.return_size = bytes.len();
        if param.data.is_null() {
            return true;
        }
        let is_number = matches!(param.data_type, PARAM_INTEGER | PARAM_REAL);
        if param.data_size < bytes.len() || is_number && param.data_size != bytes.len() {
            return false;
        }
        let data = param.data.cast::<u8>();
        // SAFETY: there is room for so many bytes; what we hold is not the program's buffer.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
        if param.data_type == PARAM_UTF8_STRING && param.data_size > bytes.len() {
            // SAFETY: there is room for one more.
            let end = unsafe { data.add(bytes.len()) };
            // SAFETY: as above.
            unsafe { end.write(0) };
        }
        true
    }
}

/// Writes where bytes are, and how many.
///
/// # Safety
/// The parameter must have room for a pointer.
unsafe fn write_pointer(bytes: &[u8], param: &mut OsslParam) -> bool {
    param.return_size = bytes.len();
    // SAFETY: passed on to the caller.
    unsafe { param.data.cast::<*const u8>().write(bytes.as_ptr()) };
    true
}

/// Writes a number in as many bytes as are asked for; false if it does not fit into them.
///
/// # Safety
/// As for [`Value::write_to`].
#[inline(always)]
unsafe fn write_size(number: usize, param: &mut OsslParam) -> bool {
    let bytes = number.to_le_bytes();
    param.return_size = bytes.len();
    if param.data.is_null() {
        return true;
    }
    let sign = usize::from(param.data_type == PARAM_INTEGER);
    if number.checked_ilog2().map_or(0, |log| log as usize + 1) + sign > 8 * param.data_size {
        return false;
    }
    // SAFETY: the caller vouches for the room.
    let place = unsafe { std::slice::from_raw_parts_mut(param.data.cast(), param.data_size) };
    place.fill(0);
    place.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    param.return_size = param.data_size;
    true
}

/// An address that only serves as a name.
pub(crate) const fn address<T>(item: &'static T) -> *const c_void {
    ptr::from_ref(item).cast()
}
