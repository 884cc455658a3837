//! Connections that other threads leave to be freed by the thread that has their fibres.
#![allow(unsafe_code, reason = "a list whose nodes several threads share")]

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Where other threads leave connections to be freed by the thread that has their fibres.
///
/// It has no lock: one that another thread held at a fork would stay locked in the child.
pub(crate) struct Mailbox {
    /// The letter that came last, null if there is none, [`ENDED`] once the thread has ended.
    last: AtomicPtr<Letter>,
}

struct Letter {
    ssl: *mut c_void,
    /// The one that came before.
    next: *mut Letter,
}

/// No letter, but an address that none has.
const ENDED: *mut Letter = ptr::dangling_mut();

impl Mailbox {
    pub(super) fn new() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.load(Ordering::Relaxed).is_null()
    }

    /// Leaves `ssl` to be freed; `false` if the thread is gone.
    pub(crate) fn post(&self, ssl: *mut c_void) -> bool {
        let mut last = self.last.load(Ordering::Acquire);
        let letter = Box::into_raw(Box::new(Letter { ssl, next: ptr::null_mut() }));
        while last != ENDED {
            // SAFETY: made above, and not in the list yet.
            unsafe { (*letter).next = last };
            let (success, failure) = (Ordering::Release, Ordering::Acquire);
            match self.last.compare_exchange_weak(last, letter, success, failure) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        // SAFETY: made above, and never in the list.
        drop(unsafe { Box::from_raw(letter) });
        false
    }

    /// Takes out all that was left. For the thread whose mailbox it is.
    pub(super) fn take(&self) -> Vec<*mut c_void> {
        self.take_and_leave(ptr::null_mut())
    }

    /// Takes no more letters. For the same thread, once.
    pub(super) fn end(&self) {
        self.take_and_leave(ENDED);
    }

    fn take_and_leave(&self, last: *mut Letter) -> Vec<*mut c_void> {
        let mut letter = self.last.swap(last, Ordering::AcqRel);
        core::iter::from_fn(|| {
            if letter.is_null() {
                return None;
            }
            // SAFETY: made by `into_raw` in `post`, and in nobody else's list any more.
            let taken = unsafe { Box::from_raw(letter) };
            letter = taken.next;
            Some(taken.ssl)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_int;
    use core::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn letters_of_all_threads_arrive_until_the_end() {
        const THREADS: usize = 4;
        const LETTERS: usize = 1_000;
        let mailbox = Mailbox::new();
        let mut taken = Vec::new();
        thread::scope(|scope| {
            for first in 0..THREADS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for number in 0..LETTERS {
                        let ssl = ptr::without_provenance_mut(first * LETTERS + number);
                        assert!(mailbox.post(ssl));
                    }
                });
            }
            let deadline = Instant::now() + Duration::from_secs(60);
            while taken.len() < THREADS * LETTERS && Instant::now() < deadline {
                taken.extend(mailbox.take().into_iter().map(|ssl| ssl.addr()));
            }
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..THREADS * LETTERS) && mailbox.is_empty());
        mailbox.end();
        assert!(!mailbox.post(ptr::null_mut()));
    }

    #[test]
    fn a_fork_while_another_thread_posts_leaves_a_mailbox_that_works() {
        let (mailbox, is_over) = (Mailbox::new(), AtomicBool::new(false));
        let mut statuses = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    mailbox.post(ptr::null_mut());
                    mailbox.take();
                }
            });
            for _ in 0..200 {
                // SAFETY: the child allocates, which the C library allows, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: ends a child that hangs.
                    unsafe { libc::alarm(5) };
                    let is_taken = mailbox.post(ptr::null_mut()) && !mailbox.take().is_empty();
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(c_int::from(!is_taken)) };
                }
                let mut status = -1;
                // SAFETY: waits for our child.
                let ended = unsafe { libc::waitpid(child, &mut status, 0) };
                statuses.push((ended == child, status));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(statuses.iter().all(|status| *status == (true, 0)), "{statuses:?}");
    }
}
