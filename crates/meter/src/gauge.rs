//! A gauge: a meter that keeps itself valid, for looks at the clock now and then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use widelane_cpu::Machine;

use crate::meter::{Meter, MeterError};
use crate::place;
use crate::time_stamps::{TimeStampFault, TimeStamps};

/// Meters of the CPUs that its thread comes to, each set up when it is first asked for.
///
/// What was refused is tried again, and all are set up anew where the rate of the time stamps has
/// changed, which is looked at once a minute: a virtual machine may be moved to another host.
#[derive(Debug)]
pub struct Gauge {
    declared_khz: Option<u64>,
    /// The time stamps, and when they were calibrated, refused or confirmed.
    stamps: Option<(Instant, Result<TimeStamps, TimeStampFault>)>,
    meters: BTreeMap<usize, Meter>,
}

/// How often the rate of the time stamps is confirmed.
const CONFIRM_EVERY: Duration = Duration::from_mins(1);

/// How long a refusal of the time stamps holds: to calibrate them takes 16 ms, and a look at many
/// CPUs asks for each of them.
const REFUSED_FOR: Duration = Duration::from_millis(400);

impl Gauge {
    /// Sets up nothing yet.
    pub fn new(machine: &Machine) -> Self {
        Gauge { declared_khz: machine.tsc_khz, stamps: None, meters: BTreeMap::new() }
    }

    /// The meter of the CPU that this thread is on, where it should stay until it has read it. To
    /// set up the first one takes some 20 ms, that of a further CPU less than one.
    ///
    /// # Errors
    ///
    /// See [`MeterError`]; the next call may succeed.
    pub fn meter(&mut self) -> Result<Meter, MeterError> {
        let stamps = self.stamps()?;
        let cpu = place::here();
        if let Some(meter) = self.meters.get(&cpu) {
            return Ok(*meter);
        }
        let meter = Meter::with_time_stamps(stamps)?;
        self.meters.insert(cpu, meter);
        Ok(meter)
    }

    fn stamps(&mut self) -> Result<TimeStamps, TimeStampFault> {
        if let Some((at, stamps)) = self.stamps {
            let holds_for = if stamps.is_ok() { CONFIRM_EVERY } else { REFUSED_FOR };
            if at.elapsed() < holds_for {
                return stamps;
            }
            if stamps.is_ok() {
                self.confirm()?;
                return stamps;
            }
        }
        let stamps = TimeStamps::calibrate(self.declared_khz);
        self.stamps = Some((Instant::now(), stamps));
        stamps
    }

    /// Confirms that the time stamps have had their rate since the meters were set up. Where they
    /// have not, what was read is worth nothing, and the next meter is set up anew.
    ///
    /// # Errors
    ///
    /// See [`TimeStamps::confirm`].
    pub fn confirm(&mut self) -> Result<(), TimeStampFault> {
        let Some((at, Ok(stamps))) = &mut self.stamps else { return Ok(()) };
        let confirmed = stamps.confirm();
        *at = Instant::now();
        if confirmed.is_err() {
            self.stamps = None;
            self.meters.clear();
        }
        confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gauge that has metered, unless nothing can be metered here.
    fn gauge() -> Option<Gauge> {
        let mut gauge = Gauge::new(&Machine::detect());
        let refused = gauge.meter().err();
        refused.inspect(|why| eprintln!("not run: {why}")).is_none().then_some(gauge)
    }

    /// Lets time pass for the time stamps.
    fn pass(gauge: &mut Gauge, time: Duration) {
        let (at, _) = gauge.stamps.as_mut().unwrap();
        *at = at.checked_sub(time).unwrap();
    }

    #[test]
    fn what_was_refused_is_tried_again() {
        let Some(mut gauge) = gauge() else { return };
        let fault = TimeStampFault::Frozen;
        gauge.stamps = Some((Instant::now(), Err(fault)));
        assert_eq!(gauge.meter(), Err(MeterError::TimeStamps(fault)));
        pass(&mut gauge, REFUSED_FOR);
        assert_ne!(gauge.meter(), Err(MeterError::TimeStamps(fault)));
    }

    #[test]
    fn a_machine_that_was_moved_is_metered_anew() {
        let Some(mut gauge) = gauge() else { return };
        let mut elsewhere = gauge.meter().unwrap().stamps();
        let true_hz = elsewhere.hz;
        elsewhere.hz *= 1.25;
        let Ok(meter) = Meter::with_time_stamps(elsewhere) else { return };
        gauge.stamps = Some((Instant::now(), Ok(elsewhere)));
        gauge.meters = [(place::here(), meter)].into();
        assert!(gauge.meter().is_ok(), "it is not time to ask");
        pass(&mut gauge, CONFIRM_EVERY);
        let told = gauge.meter();
        assert!(matches!(told, Err(MeterError::TimeStamps(_))), "{told:?}");
        let again = gauge.meter().map(|meter| meter.stamps().hz);
        assert!(again.is_err() || again.is_ok_and(|hz| (hz / true_hz - 1.0).abs() < 0.01));
    }

    #[test]
    fn each_cpu_has_a_meter_of_its_own() {
        std::thread::spawn(|| {
            let Some(mut gauge) = gauge() else { return };
            gauge.meters.clear();
            let mut metered = Vec::new();
            for cpu in place::allowed() {
                place::stay_on(cpu).unwrap();
                metered.extend(gauge.meter().map(|_| cpu));
                assert!(gauge.meters.keys().eq(&metered));
            }
        })
        .join()
        .unwrap();
    }
}
