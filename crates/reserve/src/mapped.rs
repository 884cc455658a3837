//! Memory from the kernel, in mappings of its own.
#![allow(unsafe_code, reason = "memory from the kernel")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// A page.
pub const PAGE_BYTES: usize = 4096;

/// A stack, with a guard page at its low end. Pages that are never touched are never there.
pub struct Stack {
    base: NonNull<u8>,
    bytes: usize,
}

impl Stack {
    /// Maps a stack of `bytes` bytes, whole pages, if memory allows that and `spare` bytes more.
    pub fn map(bytes: usize, spare: usize) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_STACK | libc::MAP_NORESERVE;
        let base = map(PAGE_BYTES + bytes + spare, flags).ok()?;
        let mut stack = Stack { base, bytes: PAGE_BYTES + bytes };
        // SAFETY: the end of the mapping made above; nothing lives there.
        let spared = spare == 0 || unsafe { libc::munmap(stack.top().cast(), spare) } == 0;
        if !spared {
            stack.bytes += spare;
        }
        // SAFETY: the lowest page of the mapping made above; nothing lives there.
        let guarded = unsafe { libc::mprotect(base.as_ptr().cast(), PAGE_BYTES, libc::PROT_NONE) };
        (spared && guarded == 0).then_some(stack)
    }

    /// Its high end, at which it begins: aligned to a page.
    pub fn top(&self) -> *mut u8 {
        // SAFETY: one past the end of the mapping.
        unsafe { self.base.as_ptr().add(self.bytes) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the whole mapping; a thread that drops a stack runs on another one.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Memory of this process alone: a fork by whatever means leaves the child with zeroes
/// (`MADV_WIPEONFORK`), and no core file has it (`MADV_DONTDUMP`). It begins as zeroes, and pages
/// that are never touched are never there.
pub struct Private<T>(NonNull<T>);

impl<T> Private<T> {
    /// Maps it; nothing if there is no memory, or if the kernel does not empty it in a child (Linux
    /// before 4.14).
    ///
    /// # Safety
    /// A `T` of zeroes is valid. It is never dropped.
    pub unsafe fn map() -> Option<Self> {
        const { assert!(align_of::<T>() <= PAGE_BYTES) };
        let memory = map(size_of::<T>(), libc::MAP_PRIVATE).ok()?;
        let private = Private(memory.cast());
        let advise = |advice| {
            // SAFETY: the mapping made above, whose contents are zeroes with this advice, too.
            unsafe { libc::madvise(memory.as_ptr().cast(), size_of::<T>(), advice) }
        };
        let is_wiped = advise(libc::MADV_WIPEONFORK) == 0;
        // Error: a core file would have it, as it has all other memory.
        advise(libc::MADV_DONTDUMP);
        is_wiped.then_some(private)
    }
}

impl<T> Deref for Private<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping is as large as a `T`, aligned to a page and owned by `self` alone.
        // That its zeroes are valid is promised by the caller of `map`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Private<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Private<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping, unmapped once.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// Maps memory that this process shares with those that it forks. It begins as zeroes and stays
/// as long as any of them.
///
/// # Safety
/// A `T` of zeroes is valid, whatever other processes write to it meanwhile: all of it is atomic
/// numbers.
pub unsafe fn shared<T: Sync>() -> io::Result<&'static T> {
    const { assert!(align_of::<T>() <= PAGE_BYTES) };
    let memory = map(size_of::<T>(), libc::MAP_SHARED)?;
    // SAFETY: a mapping of this size, aligned to a page, which is never unmapped; the caller
    // promises the rest.
    Ok(unsafe { memory.cast().as_ref() })
}

/// Maps memory of zeroes, where the kernel likes.
fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which replaces none.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Whether `check` holds in a forked child.
    fn holds_in_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls no function that could wait for a thread that it lacks.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(!check());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(status) };
        }
        let mut status = -1;
        // SAFETY: the child made above, and room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        status == 0
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has neither guard pages nor fork")]
    fn a_stack_has_its_bytes_and_a_guard_below() {
        let stack = Stack::map(4 * PAGE_BYTES, 16 * PAGE_BYTES).unwrap();
        let lowest = stack.top().wrapping_sub(4 * PAGE_BYTES);
        // SAFETY: the lowest byte of the stack.
        unsafe { lowest.write_volatile(1) };
        let falls = !holds_in_child(|| {
            // SAFETY: the guard page, which nothing else uses: the child is ended by a signal.
            unsafe { lowest.wrapping_sub(1).write_volatile(1) };
            true
        });
        assert!(falls, "the guard page can be written to");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has neither guard pages nor fork")]
    fn what_is_private_is_empty_in_a_child_and_what_is_shared_is_not() {
        // SAFETY: numbers, for which zeroes are valid.
        let mut private: Private<[u64; 1000]> = unsafe { Private::map() }.unwrap();
        // SAFETY: an atomic number.
        let shared: &AtomicU64 = unsafe { shared() }.unwrap();
        assert_eq!(private[999], 0);
        private[999] = 7;
        shared.store(1, Ordering::Relaxed);
        let is_right = holds_in_child(|| {
            let before = shared.fetch_add(1, Ordering::Relaxed);
            (private[999], before) == (0, 1)
        });
        assert!(is_right);
        assert_eq!((private[999], shared.load(Ordering::Relaxed)), (7, 2));
    }
}
