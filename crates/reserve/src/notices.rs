//! Messages to the operator on standard error, some of which a server writes once.
#![allow(unsafe_code, reason = "calls of C")]

use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::{shared, uncancelled};

/// Writes a line to standard error. That may be closed, a log on a full disk or a pipe that nobody
/// reads any more: no reason to fail, as `eprintln!` would, nor for `SIGPIPE` to end the program.
pub fn say(line: &str) {
    let line = format!("widelane: {line}\n");
    uncancelled(|| without_sigpipe(|| _ = std::io::stderr().write_all(line.as_bytes())));
}

/// Does what may write to a pipe or socket without a reader, and takes back the signal of that.
fn without_sigpipe(write: impl FnOnce()) {
    let [mut sigpipe, mut former, mut pending] =
        [MaybeUninit::<libc::sigset_t>::zeroed(); 3].map(|set| {
            // SAFETY: no signal is in a set of zeroes.
            unsafe { set.assume_init() }
        });
    // SAFETY: our own set.
    unsafe { libc::sigaddset(&mut sigpipe, libc::SIGPIPE) };
    // SAFETY: our own set.
    unsafe { libc::sigpending(&mut pending) };
    // SAFETY: our own set.
    let was_pending = unsafe { libc::sigismember(&pending, libc::SIGPIPE) == 1 };
    // One that was pending before is the program's, and blocked.
    if was_pending {
        return write();
    }
    // SAFETY: our own sets, and the mask of this thread.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &sigpipe, &mut former) };
    write();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: our own set and time; nothing is asked about the signal.
    unsafe { libc::sigtimedwait(&sigpipe, ptr::null_mut(), &at_once) };
    // SAFETY: the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &former, ptr::null_mut()) };
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
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fork")]
    fn a_pipe_that_nobody_reads_ends_no_program() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        // SAFETY: the child calls nothing that needs other threads, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a signal and what it does by default.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            // SAFETY: two descriptors.
            unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
            say("nobody reads this");
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: waits for our child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memory that processes share")]
    fn each_notice_is_first_once_with_shared_memory_and_without() {
        let (alone, shared) = (Notices::new(), Notices::new());
        shared.share();
        for notices in [alone, shared] {
            let firsts = [1, 2, 1, 2].map(|bit| notices.is_first(bit));
            assert_eq!(firsts, [true, true, false, false]);
        }
    }
}
