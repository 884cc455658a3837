//! Programs with an interpreter that must find itself on the thread's own stack.
//!
//! Each test runs this program again under `widelane run`, with the ignored test of the scenario.
#![allow(unsafe_code, reason = "libssl by its C interface, a library that defines a symbol")]

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::{io::Write, ptr};

use openssl::ssl::SslContext;
use openssl_sys as sys;
use widelane_testkit::rooms::has_lanes;

use crate::support::by_hand::{Connection, Epoll, accelerated, context, file};

#[test]
fn programs_with_ruby_are_left_alone() {
    let counters = accelerated("engines::scenario_ruby");
    assert_eq!((counters.handshakes, counters.parked()), (0, 0), "{counters:?}");
}

#[test]
fn nginx_with_certificates_named_by_javascript_is_left_alone() {
    let counters = accelerated("engines::scenario_javascript");
    // Before a callback was set.
    assert_eq!(counters.handshakes, 1, "{counters:?}");
}

#[test]
fn programs_with_python_3_14_0_are_left_alone() {
    let counters = accelerated("engines::scenario_python");
    assert_eq!((counters.handshakes, counters.parked()), (0, 0), "{counters:?}");
}

#[test]
fn programs_with_python_3_14_1_are_not() {
    let counters = accelerated("engines::scenario_later_python");
    assert_eq!(counters.handshakes, 1, "{counters:?}");
}

unsafe extern "C" {
    fn SSL_CTX_set_cert_cb(
        context: *mut sys::SSL_CTX,
        callback: Option<extern "C" fn(*mut sys::SSL, *mut c_void) -> c_int>,
        argument: *mut c_void,
    );
}

/// Loads a library that defines this symbol, as the program or its modules would.
fn define(symbol: &str) {
    load("defines.so", &format!("char {symbol}[8];\n"));
}

/// Compiles a library of C and loads it for all; its handle.
pub(crate) fn load(name: &str, source: &str) -> *mut c_void {
    let library = file(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-nostdlib", "-fPIC", "-x", "c", "-", "-o"]).arg(&library);
    let mut compiler = compiler.stdin(Stdio::piped()).spawn().expect("what Rust links with");
    let mut input = compiler.stdin.take().expect("a pipe");
    input.write_all(source.as_bytes()).expect("a compiler that reads");
    drop(input);
    assert!(compiler.wait().expect("a child").success());
    let path = CString::new(library.as_os_str().as_bytes()).expect("a path");
    // SAFETY: what runs by itself in the library needs nothing.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!handle.is_null());
    handle
}

/// Whether a handshake that has just been called for is parked.
fn is_parked(context: &SslContext) -> bool {
    let connection = Connection::new(context, false);
    let is_parked = connection.parks();
    connection.free();
    is_parked
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_ruby() {
    let (context, _epoll) = (context(), Epoll::new());
    define("ruby_init_stack");
    assert!(!is_parked(&context));
}

/// Loads a library that says which version of Python it is.
fn define_python(version: &str) {
    load("python.so", &format!("const unsigned long Py_Version = {version};\n"));
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_python() {
    let (context, _epoll) = (context(), Epoll::new());
    define_python("0x030e00f0");
    assert!(!is_parked(&context));
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_later_python() {
    let (context, _epoll) = (context(), Epoll::new());
    define_python("0x030e01f0");
    assert_eq!(is_parked(&context), has_lanes());
}

extern "C" fn choose(_ssl: *mut sys::SSL, _argument: *mut c_void) -> c_int {
    1
}

#[test]
#[ignore = "runs under `accelerated`"]
fn scenario_javascript() {
    let (context, _epoll) = (context(), Epoll::new());
    define("ngx_stream_js_module");
    use foreign_types::ForeignTypeRef;
    // SAFETY: a live context, and no callback.
    unsafe { SSL_CTX_set_cert_cb(context.as_ptr(), None, ptr::null_mut()) };
    assert_eq!(is_parked(&context), has_lanes(), "no certificate is computed");
    // SAFETY: a live context, and a callback that changes nothing.
    unsafe { SSL_CTX_set_cert_cb(context.as_ptr(), Some(choose), ptr::null_mut()) };
    assert!(!is_parked(&context));
}
