//! Memory that a process shares with those that it forks.
#![allow(unsafe_code, reason = "maps memory")]

use std::ptr::{self, NonNull};
use std::{io, mem};

/// Maps memory, which stays until it is unmapped, and holds zeroes.
///
/// # Safety
///
/// A `T` of zeroes is valid, whatever other processes write to it meanwhile: all of it is atomic
/// numbers. It needs no more than a page's alignment.
pub(crate) unsafe fn map<T>() -> io::Result<&'static T> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let bytes = mem::size_of::<T>();
    // SAFETY: a new mapping, where the kernel likes.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let shared = NonNull::new(mapped).ok_or_else(|| io::Error::other("mapped at address 0"))?;
    // SAFETY: a mapping of this size, aligned to a page and zeroed, which the caller knows to do.
    Ok(unsafe { shared.cast::<T>().as_ref() })
}
