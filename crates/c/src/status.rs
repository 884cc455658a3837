//! Status codes, and the message of the last error.
#![allow(unsafe_code, reason = "functions for C")]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;

/// Status of a call or a job.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The job was done.
    Ok = 0,
    /// An argument is wrong: null, or out of range, or of a wrong length.
    Argument = 1,
    /// A rule cannot be read; the message has its line and column.
    Parse = 2,
    /// No table can be built of the rules.
    Build = 3,
    /// A table cannot be read or written, or is damaged.
    Table = 4,
    /// A packet is too short, or there are not enough places for results.
    Lookup = 5,
    /// There is no such rule.
    NoSuchRule = 6,
    /// A defect of this library; please report it.
    Defect = 7,
    /// A key is damaged, or of a kind that is not supported.
    Key = 8,
    /// A tag, a signature, a record or a peer's key is not a good one.
    Rejected = 9,
    /// A result failed its check and did not leave: a fault of the machine, or a damaged key.
    Fault = 10,
    /// A packet is neither IPv4 nor IPv6.
    NotIp = 11,
    /// A packet ends before its ports do.
    Cut = 12,
    /// The headers of a packet contradict themselves.
    Malformed = 13,
    /// A thread was changing the rules when this process was forked; lookups go on.
    Forked = 14,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

impl Status {
    /// Notes what went wrong.
    pub(crate) fn because(self, reason: impl Display) -> Status {
        let text: Vec<u8> = reason.to_string().into_bytes();
        let text = text.into_iter().filter(|byte| *byte != 0).collect::<Vec<u8>>();
        let text = CString::new(text).unwrap_or_default();
        // A thread that ends may call from what runs behind the destructors of its variables;
        // texts are not kept for it any more.
        let _ = LAST_ERROR.try_with(|last| last.replace(text));
        self
    }
}

/// Why the most recent call of this thread that failed did so. Valid until another one fails or
/// the thread ends; empty while a thread ends (in destructors of keys of pthreads, and in functions
/// given to atexit).
#[unsafe(no_mangle)]
pub extern "C" fn widelane_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
