//! A door in front of `dlopen`: what a program loads later may be linked with another OpenSSL.
#![allow(unsafe_code, reason = "an exported symbol that must not have a frame of its own")]

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};

use super::guard_uncancelled;
use crate::foreign;
use crate::real;

/// Where the loader searches for a name depends on its caller, which it knows by the return
/// address. A call from here would change that, so we jump to the loader instead.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rsi, [rsp + 24]", // where the caller goes on
        "call {choose}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        choose = sym choose,
    )
}

/// The function that opens `path` for a call from `caller`: ours where the path alone decides,
/// otherwise the loader's own.
extern "C" fn choose(path: *const c_char, caller: *const c_void) -> *const c_void {
    let ours = open_by_path as *const c_void;
    guard_uncancelled(ours, || {
        if path.is_null() {
            return real::dlopen_address();
        }
        // SAFETY: the C string of the program.
        let path = unsafe { CStr::from_ptr(path) }.to_bytes();
        let is_place = path.contains(&b'/') && !path.contains(&b'$');
        // What the library needs is searched along the caller's own path too.
        let says_all = is_place && !foreign::has_search_path(caller);
        if says_all { ours } else { real::dlopen_address() }
    })
}

extern "C-unwind" fn open_by_path(path: *const c_char, flags: c_int) -> *mut c_void {
    let library = real::dlopen(path, flags);
    if !library.is_null() {
        guard_uncancelled((), || {
            foreign::keep_apart();
            real::clear_loader_error();
        });
    }
    library
}
