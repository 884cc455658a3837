//! Buffers at the edge of what may be touched: one byte too far ends the process.
#![allow(unsafe_code, reason = "mmap")]

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE_BYTES: usize = 4096;

/// Which edge a buffer lies at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The byte before the buffer cannot be touched.
    Low,
    /// The byte after the buffer cannot be touched.
    High,
}

impl Edge {
    /// Both edges.
    pub const ALL: [Edge; 2] = [Edge::Low, Edge::High];
}

/// Bytes between two pages that cannot be read or written, at one of them.
pub struct Guarded {
    mapping: NonNull<std::ffi::c_void>,
    mapping_bytes: usize,
    offset: usize,
    bytes: usize,
}

impl Guarded {
    /// As many zeros as are asked for.
    ///
    /// # Panics
    /// When the system has no memory for it.
    pub fn new(bytes: usize, edge: Edge) -> Self {
        let inside = bytes.next_multiple_of(PAGE_BYTES);
        let mapping_bytes = inside + 2 * PAGE_BYTES;
        let length = NonZeroUsize::new(mapping_bytes).expect("two pages at least");
        // SAFETY: a new mapping touches no memory that is in use.
        let mapping =
            unsafe { mmap_anonymous(None, length, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) }
                .expect("a mapping");
        let offset = match edge {
            Edge::Low => PAGE_BYTES,
            Edge::High => PAGE_BYTES + inside - bytes,
        };
        let guarded = Guarded { mapping, mapping_bytes, offset, bytes };
        if inside > 0 {
            // SAFETY: the second page is in the mapping.
            let first = unsafe { mapping.byte_add(PAGE_BYTES) };
            let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            // SAFETY: these pages are in the mapping, and nothing refers to them yet.
            unsafe { mprotect(first, inside, access) }.expect("pages of our own");
        }
        guarded
    }

    /// A copy of `bytes`.
    pub fn copy(bytes: &[u8], edge: Edge) -> Self {
        let mut guarded = Guarded::new(bytes.len(), edge);
        guarded.copy_from_slice(bytes);
        guarded
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: the offset is inside the mapping, or at its last page.
        unsafe { self.mapping.cast::<u8>().byte_add(self.offset) }
    }
}

impl Deref for Guarded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` bytes from the start are mapped, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.bytes) }
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { munmap(self.mapping, self.mapping_bytes) }.expect("a mapping of our own");
    }
}
