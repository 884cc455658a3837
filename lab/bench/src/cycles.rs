//! The core clock between slices of work, by a meter that has checked itself on this CPU.

use widelane_cpu::Machine;
use widelane_meter::meter::Meter;

/// Turns of the meter's window, about twenty microseconds.
const TURNS: u64 = 667;

/// Tells the core clock, or why it cannot.
pub struct Clock(Result<Meter, String>);

impl Clock {
    /// Sets up the meter of the CPU that this thread is on.
    pub fn here() -> Self {
        Clock(Meter::new(&Machine::detect()).map_err(|error| error.to_string()))
    }

    /// Why it tells nothing, if it does not.
    pub fn obstacle(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// The core clock now, in Hz, and how long it took to find out, in seconds.
    pub fn look(&self) -> Option<(f64, f64)> {
        let meter = self.0.as_ref().ok()?;
        let seconds = meter.stamps().us(meter.window(TURNS).ticks()) / 1e6;
        Some((meter.cycles(TURNS) / seconds, seconds))
    }

    /// Why what it told since it was set up is worth nothing, if the rate of the time stamps has
    /// changed meanwhile, as in a virtual machine that moved to another host: it is set up anew.
    pub fn reset(&mut self) -> Option<&'static str> {
        self.0.as_ref().ok()?.stamps().confirm().err()?;
        *self = Clock::here();
        Some("the rate of the time stamps changed; a hypervisor has moved or stopped this machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_that_is_refused_tells_nothing() {
        let refused = Clock(Err("the meter's self-check failed".to_owned()));
        assert_eq!(refused.look(), None);
        assert_eq!(refused.obstacle(), Some("the meter's self-check failed"));
    }

    #[test]
    fn a_clock_of_another_host_is_set_up_anew() {
        let mut clock = Clock::here();
        let Ok(meter) = &clock.0 else {
            eprintln!("not run: nothing can be metered here");
            return;
        };
        let mut elsewhere = meter.stamps();
        assert_eq!(clock.reset(), None);
        elsewhere.hz *= 1.25;
        clock = Clock(Meter::with_time_stamps(elsewhere).map_err(|error| error.to_string()));
        assert!(clock.reset().is_some_and(|why| why.contains("changed")));
        assert_eq!(clock.reset(), None);
    }
}
