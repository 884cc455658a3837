//! The core clock of the CPUs that processes run on, as `widelane power watch` meters it.

use std::collections::HashMap;

use widelane_cpu::Machine;
use widelane_meter::meter::Meter;
use widelane_meter::place;
use widelane_meter::time_stamps::TimeStamps;

/// Meters of CPUs, made when they are first asked for.
pub struct Clocks {
    /// None where this machine's time stamps cannot carry a meter.
    stamps: Option<TimeStamps>,
    meters: HashMap<usize, Option<Meter>>,
    home: Vec<usize>,
}

/// Windows of one reading, and their length in microseconds: a third of a millisecond in all.
const WINDOWS: usize = 150;
const WINDOW_US: f64 = 2.0;

/// CPUs that are metered: a look at more would take longer than what it looks at lasts.
const CPUS_MAX: usize = 64;

impl Clocks {
    /// Calibrates the time stamps, in some 20 ms.
    pub fn new(machine: &Machine) -> Self {
        let stamps = TimeStamps::calibrate(machine.tsc_khz).ok();
        Clocks { stamps, meters: HashMap::new(), home: place::allowed() }
    }

    /// The clock of a CPU in Hz; none if this process may not run there, or nothing certain can be
    /// said.
    pub fn read(&mut self, cpu: usize) -> Option<f64> {
        let stamps = self.stamps?;
        if !self.meters.contains_key(&cpu) && self.meters.len() == CPUS_MAX {
            return None;
        }
        place::stay_on(cpu).ok()?;
        let meter = self.meters.entry(cpu).or_insert_with(|| Meter::with_time_stamps(stamps).ok());
        let estimate = meter.as_ref().and_then(|meter| meter.read(WINDOWS, WINDOW_US).ok());
        place::roam(&self.home);
        estimate.map(|estimate| estimate.hz)
    }
}
