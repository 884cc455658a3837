//! A file mapped into memory, read only.
#![allow(unsafe_code, reason = "mapping a file, and lending its words")]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The whole words of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u64>,
    bytes: usize,
}

// SAFETY: the mapping is read only, so that threads cannot disturb each other; unmapping needs no
// thread of its own.
unsafe impl Send for Mapping {}
// SAFETY: as above: there is no way to write through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file; an empty one is an error.
    pub fn of(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses an address that nothing else uses.
        let address =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { address, bytes })
    }

    /// The words; bytes at the end that make no word are left out.
    #[inline]
    pub fn words(&self) -> &[u64] {
        // SAFETY: the mapping begins at a page and holds `bytes` readable bytes until `drop`. That
        // nobody changes the file meanwhile is what `Table::open` asks of its callers; a lookup
        // checks every index it reads, so that even then it stays inside the table.
        unsafe { slice::from_raw_parts(self.address.as_ptr(), self.bytes / size_of::<u64>()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}
