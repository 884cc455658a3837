//! What every function for C does: no panic crosses, and pointers are looked at before use.
#![allow(unsafe_code, reason = "pointers of C")]

use std::borrow::Cow;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{ptr, slice};

use widelane_cpu::{Policy, Width};

use crate::status::Status;

/// Runs a function's body; a panic ends here.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Status>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(status)) => status,
        Err(_) => Status::Defect.because("a defect of widelane; please report it"),
    }
}

/// The memory that a pointer of C points to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The pointer's name.
    name: &'static str,
    start: usize,
    bytes: usize,
    is_written: bool,
}

impl Span {
    /// What [`reference()`] makes a reference of.
    pub(crate) fn reference<T>(name: &'static str, pointer: *const T) -> Self {
        Span::array(name, pointer, 1)
    }

    /// What [`exclusive()`] makes a reference of.
    pub(crate) fn exclusive<T>(name: &'static str, pointer: *mut T) -> Self {
        Span::places(name, pointer, 1)
    }

    /// What [`array()`] makes a slice of.
    pub(crate) fn array<T>(name: &'static str, first: *const T, count: usize) -> Self {
        let bytes = count.saturating_mul(size_of::<T>());
        Span { name, start: first.addr(), bytes, is_written: false }
    }

    /// What [`places()`] makes a slice of.
    pub(crate) fn places<T>(name: &'static str, first: *mut T, count: usize) -> Self {
        Span { is_written: true, ..Span::array(name, first, count) }
    }

    /// Whether there can be such memory.
    fn check(&self) -> Result<(), String> {
        let Span { name, start, bytes, .. } = *self;
        if bytes > isize::MAX.cast_unsigned() {
            return Err(format!("{name} cannot have {bytes} bytes"));
        }
        if start == 0 && bytes > 0 {
            return Err(format!("{name} is null"));
        }
        Ok(())
    }

    fn overlaps(&self, other: &Span) -> bool {
        let end = |span: &Span| span.start.saturating_add(span.bytes);
        self.start.max(other.start) < end(self).min(end(other))
    }
}

/// Checks the pointers of one job, before any reference is made of them: what is written must not
/// overlap anything else.
pub(crate) fn apart(spans: &[Span]) -> Result<(), String> {
    for (index, span) in spans.iter().enumerate() {
        span.check()?;
        for other in &spans[..index] {
            if (span.is_written || other.is_written) && span.overlaps(other) {
                return Err(format!("{} and {} overlap", other.name, span.name));
            }
        }
    }
    Ok(())
}

/// Checks a pointer that has no name.
fn check(span: Span) -> Result<(), Status> {
    span.check().map_err(|reason| Status::Argument.because(reason))
}

/// What a pointer without a name is called.
const POINTER: &str = "a pointer";

/// What a pointer of C points to; an error if it is null.
///
/// # Safety
///
/// It is null, or points to a value that is not changed while the reference is in use.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    check(Span::reference(POINTER, pointer))?;
    // SAFETY: it is not null, and the caller vouches for the rest.
    Ok(unsafe { &*pointer })
}

/// What a pointer of C points to, for a value that the caller has for itself; an error if it is
/// null.
///
/// # Safety
///
/// It is null, or points to a value that is not used otherwise while the reference is in use.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T) -> Result<&'a mut T, Status> {
    check(Span::exclusive(POINTER, pointer))?;
    // SAFETY: it is not null, and the caller vouches for the rest.
    Ok(unsafe { &mut *pointer })
}

/// An array of C; null is allowed where there is no element.
///
/// # Safety
///
/// There are `count` elements, which are not changed while the slice is in use.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize) -> Result<&'a [T], Status> {
    check(Span::array(POINTER, first, count))?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: it is not null, and the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// An array of C that is written to; null is allowed where there is no element.
///
/// # Safety
///
/// There are `count` elements, which are not used otherwise while the slice is in use.
pub(crate) unsafe fn places<'a, T>(first: *mut T, count: usize) -> Result<&'a mut [T], Status> {
    check(Span::places(POINTER, first, count))?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: it is not null, and the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts_mut(first, count) })
}

/// A text of C; what is not UTF-8 is replaced.
///
/// # Safety
///
/// It is null, or ends with a zero.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Cow<'a, str>, Status> {
    // SAFETY: the caller vouches for it.
    Ok(unsafe { terminated(text) }?.to_string_lossy())
}

/// A path of C, which need not be UTF-8.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Status> {
    // SAFETY: the caller vouches for it.
    let path = unsafe { terminated(path) }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// The bytes of a text.
///
/// # Safety
///
/// As [`text`].
unsafe fn terminated<'a>(text: *const c_char) -> Result<&'a CStr, Status> {
    if text.is_null() {
        return Err(Status::Argument.because("a text is null"));
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Makes a value and lends it to C: `place` gets null if there is none.
///
/// # Safety
///
/// `place` is null, or can be written to.
pub(crate) unsafe fn make<T>(
    place: *mut *mut T,
    value: impl FnOnce() -> Result<T, Status>,
) -> Status {
    let mut made = ptr::null_mut();
    let status = guarded(|| {
        if place.is_null() {
            return Err(Status::Argument.because("a pointer is null"));
        }
        made = lend(value()?);
        Ok(())
    });
    if !place.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { place.write(made) };
    }
    status
}

/// Lends a value to C.
pub(crate) fn lend<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a value back from C.
///
/// # Safety
///
/// It is null, or comes from [`lend`] and was not taken back before.
pub(crate) unsafe fn take<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: the caller vouches for it.
    let value = unsafe { Box::from_raw(pointer) };
    // A value that cannot be dropped is lost, which is better than a panic in C.
    drop(catch_unwind(AssertUnwindSafe(|| drop(value))));
}

/// What a number of C stands for: its place in `all`.
pub(crate) fn choice<T: Copy>(all: &[T], number: u32, what: &str) -> Result<T, Status> {
    let chosen = all.get(number as usize).copied();
    chosen.ok_or_else(|| Status::Argument.because(format!("there is no {what} {number}")))
}

/// The policy that a width stands for; 0 is no limit.
pub(crate) fn policy(width_max: u32) -> Result<Policy, Status> {
    match width_max {
        0 | 512 => Ok(Policy::open()),
        256 => Ok(Policy::up_to(Width::W256)),
        128 => Ok(Policy::up_to(Width::W128)),
        other => {
            let reason = format!("width_max is 0, 128, 256 or 512, not {other}");
            Err(Status::Argument.because(reason))
        }
    }
}
