//! Work that is repeated in a second thread while a test does something else.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Repeats `step` in a second thread, at least once, until `meanwhile` has ended, and returns what
/// that returns.
///
/// # Panics
///
/// If one of both panics. `step` is not repeated then, so a test that fails ends.
pub fn while_repeating<T>(mut step: impl FnMut() + Send, meanwhile: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let repeated = scope.spawn(|| {
            step();
            while !is_over.load(Ordering::Relaxed) {
                step();
            }
        });
        let result = {
            let _end = End(&is_over);
            meanwhile()
        };
        repeated.join().unwrap_or_else(|panic| resume_unwind(panic));
        result
    })
}

/// Says that it is over when it is dropped, also by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_repeated_until_the_rest_is_done() {
        let steps = AtomicBool::new(false);
        let step = || steps.store(true, Ordering::Relaxed);
        let result = while_repeating(step, || 7);
        assert!(result == 7 && steps.load(Ordering::Relaxed));
    }

    #[test]
    #[should_panic(expected = "meanwhile")]
    fn a_panic_ends_the_repetition() {
        while_repeating(thread::yield_now, || panic!("meanwhile"));
    }

    #[test]
    #[should_panic(expected = "a step")]
    fn a_step_that_panics_is_told() {
        while_repeating(|| panic!("a step"), || ());
    }
}
