//! A large stack for each thread, because ASYNC jobs have 32 KiB and some programs' threads little
//! more.
#![allow(unsafe_code, reason = "switches to another stack")]

use std::arch::naked_asm;
use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use widelane_reserve::Stack;

/// Runs `body` on this thread's large stack; nothing if there is no memory for one.
///
/// `body` must not leave the thread's ASYNC job. A panic goes on in the caller.
pub(crate) fn on_large<R>(body: impl FnOnce() -> R) -> Option<R> {
    thread_local! {
        static FREE: RefCell<Option<Stack>> = const { RefCell::new(None) };
    }
    // Taken while in use, so that a nested call gets a stack of its own. A thread that is ending
    // has no place to keep one.
    let stack = FREE.try_with(|free| free.take()).ok().flatten().or_else(map)?;
    let result = run(&stack, body);
    // Error: the thread is ending, and the stack with it.
    let _ = FREE.try_with(|free| free.replace(Some(stack)));
    match result {
        Ok(result) => Some(result),
        Err(panic) => resume_unwind(panic),
    }
}

/// A call to be made on another stack, and its result.
struct Call<F, R> {
    body: Option<F>,
    result: Option<std::thread::Result<R>>,
}

fn map() -> Option<Stack> {
    Stack::map(STACK_BYTES, 0)
}

/// Runs `body` on a stack that nothing else uses meanwhile.
fn run<F: FnOnce() -> R, R>(stack: &Stack, body: F) -> std::thread::Result<R> {
    let mut call = Call { body: Some(body), result: None };
    // SAFETY: the top is aligned to a page, with a whole stack below that nothing uses; `enter`
    // takes the call that its type says and does not unwind.
    unsafe { switch(stack.top(), Call::<F, R>::enter, ptr::from_mut(&mut call).cast()) };
    call.result.expect("`enter` has returned")
}

impl<F: FnOnce() -> R, R> Call<F, R> {
    /// # Safety
    /// `call` must be a call of this type, made by nobody else.
    unsafe extern "sysv64" fn enter(call: *mut c_void) {
        // SAFETY: passed on to the caller.
        let call = unsafe { &mut *call.cast::<Self>() };
        if let Some(body) = call.body.take() {
            call.result = Some(catch_unwind(AssertUnwindSafe(body)));
        }
    }
}

/// Calls `enter` with `call` on the stack that ends at `top`.
///
/// The frame pointer keeps the caller's stack, and is what the unwinding table goes by, so that
/// backtraces cross from one stack to the other.
///
/// # Safety
/// `top` must be aligned to 16 bytes and end a stack that is large enough; `enter` must not unwind.
#[unsafe(naked)]
unsafe extern "sysv64" fn switch(
    top: *mut u8,
    enter: unsafe extern "sysv64" fn(*mut c_void),
    call: *mut c_void,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Twice what a batch needs; memory that is never touched costs nothing.
const STACK_BYTES: usize = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_stack_and_its_result() {
        let here = ptr::from_ref(&0).addr();
        let mut there = 0;
        let sum = on_large(|| {
            let mut deep = [0_u8; 256 << 10];
            std::hint::black_box(&mut deep);
            there = deep.as_ptr().addr();
            deep.iter().map(|byte| usize::from(*byte)).sum::<usize>() + 7
        });
        assert_eq!(sum, Some(7));
        assert!(there.abs_diff(here) > 256 << 10, "the body ran on its own stack");
    }

    #[test]
    fn nested_bodies_have_stacks_of_their_own() {
        let address = || std::hint::black_box(ptr::from_ref(&std::hint::black_box(0_u8)).addr());
        let (outer, inner) = on_large(|| (address(), on_large(address))).unwrap();
        assert!(outer.abs_diff(inner.unwrap()) > 4 << 10);
    }

    #[test]
    fn a_panic_goes_on_in_the_caller() {
        let caught = catch_unwind(|| on_large(|| -> u8 { panic!("on purpose") }));
        assert!(caught.is_err());
        assert_eq!(on_large(|| 1), Some(1));
    }
}
