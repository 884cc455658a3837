//! A door in front of `vfork`: its child closes descriptors of its own, but in the parent's memory.
#![allow(unsafe_code, reason = "an exported symbol that must return twice")]

use core::arch::naked_asm;
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use super::exec;
use crate::real;

/// Children that there are; only while there is one it matters on which thread. A child that is
/// killed right at its beginning may be counted for good.
static CHILDREN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static IS_CHILD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is the child of a `vfork`, which has the parent's memory until it
/// executes a program or ends. Its descriptors are copies.
pub(super) fn is_child() -> bool {
    CHILDREN.load(Ordering::Relaxed) > 0 && IS_CHILD.get()
}

/// As libc's: the child returns first, and what it calls then overwrites the parent's stack. So the
/// address to return to is kept in a register, which each of them has for itself.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn vfork() -> c_int {
    naked_asm!(
        "pop rdi",
        "mov eax, {number}",
        "syscall",
        "push rdi",
        "push rax", // aligns the stack for the call
        "mov rdi, rax",
        "call {note}",
        "pop rdi",
        "ret",
        number = const libc::SYS_vfork,
        note = sym note,
    )
}

/// Notes which of the two has returned; what it returns.
extern "C" fn note(result: i64) -> c_int {
    if result < 0 {
        real::set_errno((-result) as c_int);
        return -1;
    }
    if result == 0 {
        CHILDREN.fetch_add(1, Ordering::Relaxed);
        IS_CHILD.set(true);
        exec::disown_left();
    } else if IS_CHILD.replace(false) {
        CHILDREN.fetch_sub(1, Ordering::Relaxed);
        exec::free_left();
    }
    result as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_frees_what_its_child_has_left_and_nothing_else() {
        exec::leave_one();
        assert_eq!((note(0), note(7)), (0, 7));
        assert!(!exec::has_left(), "the caller of vfork has its own to itself");
        assert_eq!(note(0), 0);
        exec::leave_one();
        assert!(exec::has_left());
        assert_eq!(note(7), 7);
        assert!(!exec::has_left());
    }
}
