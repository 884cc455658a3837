//! Words in pages of their own: those of a file, read only, or fresh ones.
#![allow(unsafe_code, reason = "mapping pages, and lending their words")]

use std::alloc::{Layout, handle_alloc_error};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Words that begin a page, and so a cache line.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u64>,
    bytes: usize,
    /// Whether the words are ours alone, to be written.
    is_ours: bool,
}

// SAFETY: the pages belong to the mapping, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references only read, but for that of `SharedChunks`, whose writer promises that
// no other thread reads what it writes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file; an empty one is an error.
    pub fn of(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses an address that nothing else uses.
        let address =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { address, bytes, is_ours: false })
    }

    /// So many words, at least one, all of them zero; pages that are never written take up no
    /// memory.
    pub fn zeroed(words: usize) -> Self {
        let bytes = size_of::<u64>() * words.max(1);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address that nothing else uses.
        let address = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        match address.ok().and_then(|address| NonNull::new(address.cast())) {
            Some(address) => Mapping { address, bytes, is_ours: true },
            None => handle_alloc_error(Layout::array::<u64>(words).unwrap_or(Layout::new::<u64>())),
        }
    }

    /// Asks for large pages, where the words have not been written yet. Words that are read here
    /// and there then cost fewer searches for where their pages lie.
    pub fn prefer_large_pages(&mut self) {
        let (address, bytes) = (self.address.as_ptr().cast(), self.bytes);
        // SAFETY: the pages are those of the mapping, and advice does not change what they hold.
        // A kernel that has no large pages refuses it, and gives others.
        unsafe { madvise(address, bytes, Advice::LinuxHugepage) }.ok();
    }

    /// Where the words begin, and how many they are.
    #[inline]
    pub(super) fn parts(&self) -> (NonNull<u64>, usize) {
        (self.address, self.bytes / size_of::<u64>())
    }

    /// The words, to be written, unless they are a file's.
    pub fn words_mut(&mut self) -> Option<&mut [u64]> {
        let count = self.bytes / size_of::<u64>();
        // SAFETY: the mapping holds so many words until `drop`, readable and writable where they
        // are ours, and they are borrowed as `self` is.
        self.is_ours.then(|| unsafe { slice::from_raw_parts_mut(self.address.as_ptr(), count) })
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
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}
