//! Memory that a device reads and writes: pinned by qatlib, and wiped before it is given back.
#![allow(unsafe_code, reason = "memory of another allocator")]

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;

use widelane_secret::wipe;

use super::interface::{CpaFlatBuffer, NUMA_ANY_NODE, PinnedMemory};
use crate::process;

/// Bytes in pinned memory.
pub(super) struct Pinned {
    memory: &'static PinnedMemory,
    bytes: NonNull<u8>,
    length: usize,
    /// [`process::identity`] of the process that has it: a child does not inherit pinned memory.
    owner: u64,
}

// SAFETY: the bytes are owned, as by a `Box`.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

/// What devices like best: lines of the cache.
const ALIGNMENT: usize = 64;

impl Pinned {
    /// Zeros; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory, length: usize) -> Option<Self> {
        // SAFETY: a length, a node and an alignment.
        let bytes = unsafe { (memory.qaeMemAllocNUMA)(length, NUMA_ANY_NODE, ALIGNMENT) };
        let bytes = NonNull::new(bytes.cast::<u8>())?;
        // SAFETY: allocated above, with this length.
        unsafe { ptr::write_bytes(bytes.as_ptr(), 0, length) };
        Some(Pinned { memory, bytes, length, owner: process::identity() })
    }

    /// Whether this process has it: otherwise there are no bytes.
    pub(super) fn is_own(&self) -> bool {
        self.owner == process::identity()
    }

    /// The bytes, to be read and written while no device does.
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: allocated by `new` with this length, and borrowed mutably as this is.
        unsafe { slice::from_raw_parts_mut(self.bytes.as_ptr(), self.length) }
    }

    /// Some of the bytes, for the device.
    pub(super) fn part(&mut self, start: usize, length: usize) -> CpaFlatBuffer {
        let part = &mut self.as_mut()[start..start + length];
        let length = u32::try_from(length).expect("far below 4 GiB");
        CpaFlatBuffer { dataLenInBytes: length, pData: part.as_mut_ptr() }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        wipe(self.as_mut());
        let mut bytes: *mut c_void = self.bytes.as_ptr().cast();
        // SAFETY: allocated by `new`, freed once.
        unsafe { (self.memory.qaeMemFreeNUMA)(&mut bytes) };
    }
}
