//! One-line messages to the operator, on standard error, each at most once per server.
#![allow(unsafe_code, reason = "memory that forked processes share")]

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::io::Write;

/// What is said once.
#[derive(Clone, Copy)]
pub(crate) enum Notice {
    NoEpoll = 1 << 0,
    NoGroup = 1 << 1,
    SecondOpenSsl = 1 << 2,
    Unaccelerated = 1 << 3,
    OwnStack = 1 << 4,
}

/// What has been said, in memory that is shared with processes forked from this one: a server that
/// forks one for each connection says a line once, not at each connection.
static SAID: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// The same where there is no such memory.
static SAID_BY_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Makes the shared memory; before the program begins.
pub(crate) fn share() {
    // SAFETY: an atomic number.
    if let Ok(said) = unsafe { widelane_reserve::shared::<AtomicU32>() } {
        SAID.store(ptr::from_ref(said).cast_mut(), Ordering::Release);
    }
}

/// Says `line` unless this `notice` has been given before.
pub(crate) fn say_once(notice: Notice, line: &str) {
    // SAFETY: null, or the mapping above, which holds zero at first and is never unmapped.
    let said = unsafe { SAID.load(Ordering::Acquire).as_ref() }.unwrap_or(&SAID_BY_PROCESS);
    if said.fetch_or(notice as u32, Ordering::Relaxed) & notice as u32 == 0 {
        say(line);
    }
}

/// Says `line`; a closed standard error is no reason to disturb the server.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("widelane: {line}\n").as_bytes());
}
