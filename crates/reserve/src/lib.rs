//! Memory for what is loaded into servers of others: the system's allocator with a reserve behind
//! it, and mappings of their own for stacks, secrets and what forked processes share, such as which
//! messages a server has written.
//!
//! Where Rust gets no memory, it ends the process, and with it every connection of a server that
//! would have refused one and gone on. What we need while a server is short of memory is little and
//! needed briefly: an operation, its result, a place in a list. The reserve is there from the
//! beginning, in memory that costs nothing until it is used, and holds that.
//!
//! **Invariant**: memory comes from the reserve only where the system has none; no lock is taken.
#![allow(unsafe_code, reason = "an allocator, and memory from the kernel")]

mod blocks;
mod cancel;
mod mapped;
mod notices;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use blocks::Blocks;
pub use cancel::uncancelled;
pub use mapped::{PAGE_BYTES, Private, Stack, shared};
pub use notices::{Notices, say};

/// The allocator, for `#[global_allocator]`.
pub struct Reserved;

/// For what an operation needs.
static SMALL: Blocks<512, 16> = Blocks::new();

/// For keys that are made ready, and for lists.
static LARGE: Blocks<{ 16 << 10 }, 1> = Blocks::new();

// SAFETY: what is given out is the system's, or a block of the reserve that nobody else has; both
// fit the layout, and each goes back where it came from. Nothing here panics.
unsafe impl GlobalAlloc for Reserved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let memory = take(layout);
        if !memory.is_null() {
            // SAFETY: a block that has at least this size and that nobody else has.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !give_back(memory) {
            // SAFETY: not from the reserve, so from the system.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_reserved(memory) {
            // SAFETY: not from the reserve, so from the system.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller promises that the size fits the alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the caller promises that the size is not zero.
        let place = unsafe { self.alloc(wanted) };
        // SAFETY: the caller's memory and layout, and a new place of the size wanted.
        unsafe { move_to(place, memory, layout, size) }
    }
}

/// Moves what is in `memory` to `place`. Where that is null, it stays, if its block of the reserve
/// is large enough; null if not.
///
/// # Safety
///
/// `memory` is as [`Reserved`] has given it out for `layout`; `place` is null, or other memory of
/// `size` bytes.
unsafe fn move_to(place: *mut u8, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    if place.is_null() {
        return if holds(memory, size) { memory } else { place };
    }
    // SAFETY: both are at least so long, and they are different memory.
    unsafe { ptr::copy_nonoverlapping(memory, place, size.min(layout.size())) };
    // SAFETY: the caller's, who has it in its new place now.
    unsafe { Reserved.dealloc(memory, layout) };
    place
}

/// Takes memory out of the reserve; null where it has none that fits.
fn take(layout: Layout) -> *mut u8 {
    let memory = SMALL.take(layout);
    if memory.is_null() { LARGE.take(layout) } else { memory }
}

fn give_back(memory: *mut u8) -> bool {
    SMALL.give_back(memory) || LARGE.give_back(memory)
}

fn is_reserved(memory: *mut u8) -> bool {
    SMALL.index(memory).is_some() || LARGE.index(memory).is_some()
}

/// Whether it is a block of the reserve that has so many bytes.
fn holds(memory: *mut u8, bytes: usize) -> bool {
    SMALL.holds(memory, bytes) || LARGE.holds(memory, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_that_is_used_up_gives_the_larger_blocks_and_then_nothing() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        let blocks: Vec<*mut u8> = std::iter::from_fn(|| {
            let block = take(layout);
            (!block.is_null()).then_some(block)
        })
        .collect();
        assert_eq!(blocks.len(), 64 * 16 + 64);
        assert!(blocks.iter().all(|block| is_reserved(*block)));
        for (block, bytes) in [(blocks[0], 512), (blocks[1087], 16 << 10)] {
            // SAFETY: one of the blocks, and its layout; there is no place to move it to.
            let grow = |bytes| unsafe { move_to(ptr::null_mut(), block, layout, bytes) };
            assert_eq!(grow(bytes), block, "it stays where it is");
            assert!(grow(bytes + 1).is_null(), "no block is larger than it is");
        }
        let grown = Layout::from_size_align(16 << 10, 8).unwrap();
        // SAFETY: the last one, which is large enough, and its own layout.
        let moved = unsafe { Reserved.realloc(blocks[1087], layout, grown.size()) };
        assert!(!is_reserved(moved), "the system has memory again");
        // SAFETY: as the line above made it.
        unsafe { Reserved.dealloc(moved, grown) };
        assert_eq!(take(layout), blocks[1087], "it went back");
        for block in blocks {
            // SAFETY: taken above, with this layout.
            unsafe { Reserved.dealloc(block, layout) };
        }
        let block = take(layout);
        assert!(is_reserved(block) && give_back(block));
    }
}
