//! The clock of the server's CPU while it works: now and then some windows of the meter, on the
//! same CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use widelane_cpu::Machine;
use widelane_meter::gauge::Gauge;
use widelane_meter::place;

use crate::stats::median;

/// From one look to the next.
const EVERY: Duration = Duration::from_millis(10);

/// Windows of a look, and how long one is, microseconds: half a percent of the time in all, as no
/// look asks the kernel anything.
const WINDOWS: (usize, f64) = (24, 2.0);

/// Meters one CPU, if there is one to meter.
pub struct Clock {
    cpu: Option<usize>,
    gauge: Gauge,
}

impl Clock {
    /// The clock of `cpu`.
    pub fn on(cpu: Option<usize>) -> Self {
        Clock { cpu, gauge: Gauge::new(&Machine::detect()) }
    }

    /// Does `work`, and meters meanwhile: the median, MHz, if the rate of the time stamps stayed.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> (T, Option<f64>) {
        let Some(cpu) = self.cpu else { return (work(), None) };
        let over = AtomicBool::new(false);
        let (done, mhz) = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                place::stay_on(cpu).ok()?;
                let meter = self.gauge.meter().ok()?;
                let mut clocks = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let (count, window_us) = WINDOWS;
                    clocks.extend(meter.read(count, window_us).map(|found| found.hz));
                    thread::sleep(EVERY);
                }
                median(&clocks).map(|hz| hz / 1e6)
            });
            let done = work();
            over.store(true, Ordering::Relaxed);
            (done, looks.join().unwrap_or_default())
        });
        (done, mhz.filter(|_| self.gauge.confirm().is_ok()))
    }
}
