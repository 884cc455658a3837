//! For tests: what kernels leave on the stack below their callers.
#![allow(unsafe_code, reason = "the stack is looked at as it is")]

use core::arch::asm;
use core::hint::black_box;
use core::mem::MaybeUninit;

use widelane_secret::stack::wipe_stack;

/// Words below a test in which kernels are looked for.
const DEPTH: usize = 4096;

/// The highest that an address or a count is.
const ADDRESS_MAX: u64 = u64::MAX >> 17;

/// Demands that `kernel` leaves nothing below its caller, but what it returns: bytes that are
/// no secret, as a tag is.
#[track_caller]
pub(crate) fn leaves_nothing<B: AsRef<[u8]>>(what: &str, kernel: impl FnOnce() -> B) {
    let (left, public) = leavings(kernel);
    let secret = |word: &u64| {
        public.as_ref().windows(size_of::<u64>()).all(|bytes| bytes != word.to_le_bytes())
    };
    let left: std::vec::Vec<_> = left.filter(secret).collect();
    assert!(left.is_empty(), "{what}: {left:x?}");
}

/// The words that `kernel` leaves below its caller and that might be secret, and its result.
///
/// What it has cleared is zero, as is what it has not reached. Addresses and counts have zeros
/// above.
#[inline(never)]
fn leavings<A>(kernel: impl FnOnce() -> A) -> (impl Iterator<Item = u64>, A) {
    wipe_stack::<DEPTH>();
    let result = kernel();
    // Not a number of the compiler's, which a kernel may find in a register and save.
    let address_max = black_box(ADDRESS_MAX);
    (look().into_iter().filter(move |word| *word > address_max), result)
}

/// The words below the caller, as they are.
#[inline(never)]
fn look() -> std::vec::Vec<u64> {
    let words = [const { MaybeUninit::<u64>::uninit() }; DEPTH];
    let mut seen = std::vec![0; DEPTH];
    // SAFETY: copies as many words as both have, whatever they are, and counts the three down.
    unsafe {
        asm!(
            "rep movsq",
            inout("rcx") DEPTH => _,
            inout("rsi") words.as_ptr() => _,
            inout("rdi") seen.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
    seen
}

#[test]
fn what_is_left_on_the_stack_is_found() {
    #[inline(never)]
    fn leave() {
        black_box(&mut [u64::MAX; 1000]);
    }
    assert!(leavings(leave).0.count() > 900);
    let wiped = || {
        leave();
        wipe_stack::<1100>();
    };
    assert_eq!(leavings(wiped).0.count(), 0);
}
