//! Doors in front of `exit` and `pthread_exit`, which tell whether a thread ends with its process.
#![allow(unsafe_code, reason = "exported symbols")]

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::process;

use crate::real;

static HAS_CALLED_EXIT: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LEAVES_PROCESS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread, whose destructors run, ends with its process.
///
/// Behind the end of `main` libc calls its `exit` by another way than ours. The first thread also
/// ends when it is cancelled, which is not told apart.
pub(crate) fn ends_with_process() -> bool {
    // SAFETY: no precondition.
    let is_first = unsafe { libc::gettid() }.cast_unsigned() == process::id();
    HAS_CALLED_EXIT.load(Ordering::Relaxed) || is_first && !LEAVES_PROCESS.get()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn exit(status: c_int) -> ! {
    HAS_CALLED_EXIT.store(true, Ordering::Relaxed);
    real::exit(status);
    process::abort();
}

/// It unwinds the thread's stack, and so this call.
#[unsafe(no_mangle)]
extern "C-unwind" fn pthread_exit(result: *mut c_void) -> ! {
    LEAVES_PROCESS.set(true);
    real::pthread_exit(result);
    process::abort();
}
