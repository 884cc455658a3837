//! Pinned memory: whether it is in use, and whether it was wiped.
#![allow(unsafe_code, reason = "an allocator for C")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Lengths and alignments by address.
static BLOCKS: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// Allocates zeros.
pub(crate) fn allocate(bytes: usize, alignment: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(bytes, alignment.max(1)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: callers ask for some bytes, not for none.
    let block = unsafe { alloc_zeroed(layout) };
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    blocks.insert(block.addr(), (bytes, alignment.max(1)));
    block
}

/// Frees what [`allocate`] gave, which must have been wiped.
pub(crate) fn free(block: *mut u8) {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((bytes, alignment)) = blocks.remove(&block.addr()) else {
        give_up("memory is freed that is not pinned");
    };
    // SAFETY: allocated with this length, and not freed yet.
    let content = unsafe { std::slice::from_raw_parts(block, bytes) };
    if content.iter().any(|byte| *byte != 0) {
        give_up("pinned memory is freed that was not wiped");
    }
    let layout = Layout::from_size_align(bytes, alignment).expect("as it was allocated");
    // SAFETY: as above.
    unsafe { dealloc(block, layout) };
}

/// Makes sure that bytes lie in pinned memory.
pub(crate) fn check(start: *const u8, bytes: usize) {
    let blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let before = blocks.range(..=start.addr()).next_back();
    let is_pinned = before.is_some_and(|(block, (length, _))| {
        start.addr() + bytes <= block + length && !start.is_null()
    });
    if !is_pinned {
        give_up("the device is given memory that is not pinned");
    }
}

/// Ends the process, which the test that runs it notices.
pub(crate) fn give_up(why: &str) -> ! {
    eprintln!("QAT stand-in: {why}");
    std::process::abort()
}
