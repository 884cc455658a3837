//! Random bytes drawn for several requests at once.
//!
//! libssl asks seven times in a handshake for a few bytes that all the world may see: its random,
//! identifiers of sessions, what encrypted tickets begin with. Each time libcrypto's generator asks
//! the kernel for the process's number, and takes hardly less time for four bytes than for 256.
//!
//! **Invariant**: no byte is handed out twice, not after a fork by whatever means either, nor when
//! it is more than a second old.
#![allow(unsafe_code, reason = "memory that a fork empties")]

use std::time::{Duration, Instant};

use widelane_reserve::Private;

use crate::real;

/// The longest request that is answered from what is there.
pub(crate) const REQUEST_BYTES_MAX: usize = 32;

/// Bytes that are drawn at once: about as many as two handshakes take.
const DRAWN_BYTES: usize = 256;

/// How old what was drawn may be when it is handed out: a virtual machine that is copied while it
/// runs has the same bytes twice for no longer.
const AGE_MAX: Duration = Duration::from_secs(1);

/// What one thread has drawn.
pub(crate) struct Drawn {
    left: Private<Bytes>,
    since: Instant,
}

impl Drawn {
    /// Starts with nothing drawn; `None` where memory cannot be emptied in a forked child.
    pub(crate) fn nothing() -> Option<Self> {
        // SAFETY: numbers, for which zeroes are valid.
        let left = unsafe { Private::map() }?;
        Some(Self { left, since: Instant::now() })
    }

    /// Fills `bytes` from what is there, or from what `draw` gives now; false where that fails.
    pub(crate) fn fill(&mut self, bytes: &mut [u8], draw: impl FnOnce(&mut [u8]) -> bool) -> bool {
        let is_fresh = self.since.elapsed() < AGE_MAX;
        let left = &mut *self.left;
        if left.count < bytes.len() || !is_fresh {
            left.clear();
            if bytes.len() > DRAWN_BYTES || !draw(&mut left.bytes) {
                return false;
            }
            (left.count, self.since) = (DRAWN_BYTES, Instant::now());
        }
        let rest = left.count - bytes.len();
        let taken = &mut left.bytes[rest..left.count];
        bytes.copy_from_slice(taken);
        real::wipe(taken);
        left.count = rest;
        true
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.left.clear();
    }
}

/// What is left of it. All zeroes, as the kernel leaves it in a child, are nothing.
#[repr(C)]
struct Bytes {
    count: usize,
    bytes: [u8; DRAWN_BYTES],
}

impl Bytes {
    fn clear(&mut self) {
        self.count = 0;
        real::wipe(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(first: u8) -> impl Fn(&mut [u8]) -> bool {
        move |bytes| {
            (first..).zip(bytes).for_each(|(number, byte)| *byte = number);
            true
        }
    }

    #[test]
    fn every_byte_is_handed_out_once() {
        let mut drawn = Drawn::nothing().unwrap();
        let mut seen = [0_usize; 256];
        for _ in 0..DRAWN_BYTES / 32 {
            let mut bytes = [0; 32];
            assert!(drawn.fill(&mut bytes, |bytes| {
                (0..=u8::MAX).zip(bytes).for_each(|(number, byte)| *byte = number);
                true
            }));
            bytes.iter().for_each(|byte| seen[usize::from(*byte)] += 1);
        }
        assert_eq!(seen, [1; 256]);
        assert_eq!(drawn.left.bytes, [0; DRAWN_BYTES], "and wiped");
    }

    #[test]
    fn what_is_left_over_or_old_is_not_handed_out() {
        let mut drawn = Drawn::nothing().unwrap();
        let mut bytes = [0; 4];
        assert!(drawn.fill(&mut bytes, draw(1)));
        drawn.since -= AGE_MAX;
        assert!(!drawn.fill(&mut bytes, |_| false), "a generator that fails");
        assert_eq!(drawn.left.bytes, [0; DRAWN_BYTES]);
        drawn.since = Instant::now();
        assert!(!drawn.fill(&mut bytes, |_| false), "nothing is left of before");
        assert!(!drawn.fill(&mut [0; DRAWN_BYTES + 1], draw(1)));
    }

    #[test]
    fn a_child_has_nothing_of_its_parents() {
        let mut drawn = Drawn::nothing().unwrap();
        assert!(drawn.fill(&mut [0; 4], draw(1)));
        assert_eq!(drawn.left.count, DRAWN_BYTES - 4);
        // SAFETY: the child does nothing but look at its memory and end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let left = &*drawn.left;
            let is_empty = left.count == 0 && left.bytes == [0; DRAWN_BYTES];
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_empty)) };
        }
        let mut status = -1;
        // SAFETY: the child above, and a variable for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
