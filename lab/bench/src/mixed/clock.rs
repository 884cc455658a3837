//! The clock of the server's CPU while it works: now and then some windows of the meter, on the
//! same CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use widelane_cpu::Machine;
use widelane_meter::meter::Meter;
use widelane_meter::place;

use crate::stats::median;

/// From one look to the next.
const EVERY: Duration = Duration::from_millis(10);

/// Windows of a look, and how long one is, microseconds: half a percent of the time in all, as no
/// look asks the kernel anything.
const WINDOWS: (usize, f64) = (24, 2.0);

/// The meter of one CPU; none where nothing can be metered.
pub struct Clock(Option<(usize, Meter)>);

impl Clock {
    /// Sets up a meter on `cpu`.
    pub fn on(cpu: Option<usize>) -> Self {
        let set_up = |cpu: usize| {
            place::stay_on(cpu).ok()?;
            Some((cpu, Meter::new(&Machine::detect()).ok()?))
        };
        // On a thread of its own, which may stay there.
        let there = cpu.and_then(|cpu| thread::spawn(move || set_up(cpu)).join().ok());
        Clock(there.flatten())
    }

    /// Does `work`, and meters meanwhile: the median, MHz, if the rate of the time stamps stayed.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<f64>) {
        let Some((cpu, meter)) = self.0 else { return (work(), None) };
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut clocks = Vec::new();
                if place::stay_on(cpu).is_ok() {
                    while !over.load(Ordering::Relaxed) {
                        let (count, window_us) = WINDOWS;
                        clocks.extend(meter.read(count, window_us).map(|found| found.hz));
                        thread::sleep(EVERY);
                    }
                }
                median(&clocks).map(|hz| hz / 1e6)
            });
            let done = work();
            over.store(true, Ordering::Relaxed);
            let mhz = looks.join().unwrap_or_default();
            (done, mhz.filter(|_| meter.stamps().confirm().is_ok()))
        })
    }
}
