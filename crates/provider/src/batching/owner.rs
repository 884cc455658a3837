//! Whether the thread that brought a job is still at work, and so may bring more.
#![allow(unsafe_code, reason = "asks the system for the CPU time of a thread")]

use std::mem::MaybeUninit;

use widelane_batch::Tick;

use crate::batching::execute::now;

/// The thread that brought a job, and how much CPU time it had used by then.
pub(super) struct Owner {
    clock: libc::clockid_t,
    cpu_ns: u64,
    since: Tick,
}

impl Owner {
    /// The calling thread; nothing if the system does not tell its CPU time.
    pub(super) fn calling_thread() -> Option<Self> {
        let mut clock = MaybeUninit::uninit();
        // SAFETY: concerns the calling thread.
        let thread = unsafe { libc::pthread_self() };
        // SAFETY: a living thread, and a place to write to.
        let failed = unsafe { libc::pthread_getcpuclockid(thread, clock.as_mut_ptr()) } != 0;
        if failed {
            return None;
        }
        // SAFETY: the call above succeeded.
        let clock = unsafe { clock.assume_init() };
        Some(Owner { clock, cpu_ns: cpu_time_ns(clock)?, since: now() })
    }

    /// Whether it has worked nearly all the time since. A thread that sleeps, or has ended, has
    /// not.
    pub(super) fn is_at_work(&self) -> bool {
        let elapsed_ns = now().since(self.since);
        // The system may have given the number of an ended thread, and so its clock, to a new one.
        let is_at_work = |ns: u64| ns.saturating_sub(self.cpu_ns) >= elapsed_ns / 8 * 7;
        cpu_time_ns(self.clock).is_some_and(is_at_work)
    }
}

/// CPU time of a thread, by its clock; nothing if the system does not tell it.
fn cpu_time_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place to write to; a clock of a thread that has ended is refused.
    let told = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    told.then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_slept_or_ended_is_not_at_work() {
        let owner = Owner::calling_thread().expect("Linux tells CPU times");
        thread::sleep(Duration::from_millis(20));
        assert!(!owner.is_at_work());
        let ended = thread::spawn(Owner::calling_thread).join().expect("it does not panic");
        thread::sleep(Duration::from_millis(20));
        assert!(!ended.expect("Linux tells CPU times").is_at_work());
    }
}
