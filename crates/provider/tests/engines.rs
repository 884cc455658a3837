//! Generators of engines: the provider does not settle which one is used by being loaded.
#![allow(unsafe_code, reason = "calls libcrypto as programs do")]

mod common;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use common::process::setting;

/// A function of libcrypto, which need not have it.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// `RAND_METHOD`.
#[repr(C)]
struct Generator {
    seed: *const c_void,
    bytes: unsafe extern "C" fn(*mut u8, c_int) -> c_int,
    cleanup: *const c_void,
    add: *const c_void,
    pseudo_bytes: *const c_void,
    status: *const c_void,
}

unsafe extern "C" fn sevens(bytes: *mut u8, count: c_int) -> c_int {
    // SAFETY: libcrypto passes room for so many bytes.
    unsafe { bytes.write_bytes(7, count as usize) };
    1
}

#[test]
fn an_engine_that_is_set_up_after_us_gives_random_bytes() {
    let Some(make) = function(c"ENGINE_new") else {
        eprintln!("this libcrypto has no engines");
        return;
    };
    let (_, _lock) = setting();
    let generator: &'static Generator = Box::leak(Box::new(Generator {
        seed: ptr::null(),
        bytes: sevens,
        cleanup: ptr::null(),
        add: ptr::null(),
        pseudo_bytes: ptr::null(),
        status: ptr::null(),
    }));
    let set = |name: &CStr| function(name).expect("engines have it");
    // SAFETY: the manual's type.
    let make: unsafe extern "C" fn() -> *mut c_void = unsafe { std::mem::transmute(make) };
    // SAFETY: the manual's type.
    let set_generator: unsafe extern "C" fn(*mut c_void, *const Generator) -> c_int =
        unsafe { std::mem::transmute(set(c"ENGINE_set_RAND")) };
    // SAFETY: the manual's type.
    let set_id: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int =
        unsafe { std::mem::transmute(set(c"ENGINE_set_id")) };
    // SAFETY: the manual's type.
    let set_default: unsafe extern "C" fn(*mut c_void) -> c_int =
        unsafe { std::mem::transmute(set(c"ENGINE_set_default_RAND")) };
    let id = c"sevens";
    // SAFETY: no arguments.
    let engine = unsafe { make() };
    // SAFETY: made above; the names and the generator live as long as this process.
    assert_eq!(unsafe { set_id(engine, id.as_ptr()) }, 1);
    // SAFETY: as above.
    assert_eq!(unsafe { set_generator(engine, generator) }, 1);
    // SAFETY: as above.
    assert_eq!(unsafe { set_default(engine) }, 1);
    let mut drawn = [0; 16];
    openssl::rand::rand_bytes(&mut drawn).unwrap();
    assert_eq!(drawn, [7; 16]);
}
