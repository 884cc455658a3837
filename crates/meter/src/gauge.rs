//! A gauge: a meter that keeps itself valid, for looks at the clock now and then.

use std::collections::BTreeMap;

use widelane_cpu::Machine;
use widelane_cpu::clock::now_ns;

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
    /// The time stamps, and when they were calibrated, refused or confirmed, in nanoseconds.
    stamps: Option<(u64, Result<TimeStamps, TimeStampFault>)>,
    meters: BTreeMap<usize, Meter>,
}

/// How often the rate of the time stamps is confirmed.
const CONFIRM_EVERY_NS: u64 = 60_000_000_000;

/// How long a refusal of the time stamps holds: to calibrate them takes 16 ms, and a look at many
/// CPUs asks for each of them.
const REFUSED_FOR_NS: u64 = 400_000_000;

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
            let holds_for_ns = if stamps.is_ok() { CONFIRM_EVERY_NS } else { REFUSED_FOR_NS };
            if now_ns().wrapping_sub(at) < holds_for_ns {
                return stamps;
            }
            if stamps.is_ok() {
                self.confirm()?;
                return stamps;
            }
        }
        let stamps = TimeStamps::calibrate(self.declared_khz);
        self.stamps = Some((now_ns(), stamps));
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
        *at = now_ns();
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

    /// Tries a gauge that has metered, if that is possible here, on a thread that stays on its CPU.
    fn with_gauge(test: impl FnOnce(Gauge) + Send + 'static) {
        let on_one_cpu = || {
            place::stay_on(place::here()).unwrap();
            let mut gauge = Gauge::new(&Machine::detect());
            match gauge.meter() {
                Ok(_) => test(gauge),
                Err(why) => eprintln!("not run: {why}"),
            }
        };
        std::thread::spawn(on_one_cpu).join().unwrap();
    }

    /// Lets time pass for the time stamps.
    fn pass(gauge: &mut Gauge, ns: u64) {
        let (at, _) = gauge.stamps.as_mut().unwrap();
        *at = at.wrapping_sub(ns);
    }

    #[test]
    fn what_was_refused_is_tried_again() {
        with_gauge(|mut gauge| {
            let fault = TimeStampFault::Frozen;
            gauge.stamps = Some((now_ns(), Err(fault)));
            assert_eq!(gauge.meter(), Err(MeterError::TimeStamps(fault)));
            pass(&mut gauge, REFUSED_FOR_NS);
            assert_ne!(gauge.meter(), Err(MeterError::TimeStamps(fault)));
        });
    }

    #[test]
    fn a_machine_that_was_moved_is_metered_anew() {
        with_gauge(|mut gauge| {
            let mut elsewhere = gauge.meter().unwrap().stamps();
            let true_hz = elsewhere.hz;
            elsewhere.hz *= 1.25;
            gauge.stamps = Some((now_ns(), Ok(elsewhere)));
            assert!(gauge.meter().is_ok(), "it is not time to ask");
            pass(&mut gauge, CONFIRM_EVERY_NS);
            let told = gauge.meter();
            assert!(matches!(told, Err(MeterError::TimeStamps(_))), "{told:?}");
            assert!(gauge.meters.is_empty());
            let again = gauge.meter().map(|meter| meter.stamps().hz);
            assert!(again.is_err() || again.is_ok_and(|hz| (hz / true_hz - 1.0).abs() < 0.01));
        });
    }

    #[test]
    fn each_cpu_has_a_meter_of_its_own() {
        let cpus = place::allowed();
        with_gauge(|mut gauge| {
            gauge.meters.clear();
            let mut metered = Vec::new();
            for cpu in cpus {
                place::stay_on(cpu).unwrap();
                metered.extend(gauge.meter().map(|_| cpu));
                assert!(gauge.meters.keys().eq(&metered));
            }
        });
    }
}
