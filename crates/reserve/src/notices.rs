//! Messages to the operator on standard error, some of which a server writes once.

use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::shared;

/// Writes a line to standard error. That may be closed, or a log on a full disk: no reason to
/// fail, as `eprintln!` would.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("widelane: {line}\n").as_bytes());
}

/// Notices, each of which is written at most once per server.
///
/// Which have been written is kept in memory that is shared with processes forked from this one: a
/// server that forks a process for each connection writes a line once, not at each connection.
#[derive(Debug)]
pub struct Notices {
    said: AtomicPtr<AtomicU32>,
    /// The same where there is no such memory.
    said_by_process: AtomicU32,
}

impl Notices {
    /// None has been written.
    pub const fn new() -> Self {
        Notices { said: AtomicPtr::new(ptr::null_mut()), said_by_process: AtomicU32::new(0) }
    }

    /// Makes the shared memory; to be called before the program forks.
    pub fn share(&self) {
        if !self.said.load(Ordering::Acquire).is_null() {
            return;
        }
        // SAFETY: an atomic number.
        if let Ok(said) = unsafe { shared::<AtomicU32>() } {
            let said = ptr::from_ref(said).cast_mut();
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            // If another thread was first, its memory is used.
            let _ = self.said.compare_exchange(ptr::null_mut(), said, release, relaxed);
        }
    }

    /// Writes `line`, unless the notice of this bit has been written before.
    pub fn say_once(&self, bit: u32, line: &str) {
        if self.is_first(bit) {
            say(line);
        }
    }

    fn is_first(&self, bit: u32) -> bool {
        // SAFETY: null, or the mapping above, which holds zero at first and is never unmapped.
        let said = unsafe { self.said.load(Ordering::Acquire).as_ref() };
        let said = said.unwrap_or(&self.said_by_process);
        said.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

impl Default for Notices {
    fn default() -> Self {
        Notices::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_notice_is_first_once_with_shared_memory_and_without() {
        let (alone, shared) = (Notices::new(), Notices::new());
        shared.share();
        for notices in [alone, shared] {
            let firsts = [1, 2, 1, 2].map(|bit| notices.is_first(bit));
            assert_eq!(firsts, [true, true, false, false]);
        }
    }
}
