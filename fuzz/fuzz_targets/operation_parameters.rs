//! Parameters of operations with keys, ciphers and key derivations, of our provider and of the
//! default one.
#![no_main]

#[allow(dead_code, unused_imports, reason = "others use the rest")]
#[path = "../../crates/provider/tests/support/mod.rs"]
mod support;

use std::ffi::c_char;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::operation_parameters(bytes));

/// AddressSanitizer's: lengths that lie get no memory, as they do without it.
#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const c_char {
    c"allocator_may_return_null=1".as_ptr()
}
