//! The core clock of the CPUs that processes run on, as `widelane power watch` meters it.

use std::collections::HashSet;

use widelane_cpu::Machine;
use widelane_meter::gauge::Gauge;
use widelane_meter::place;

/// The clocks of CPUs, as far as they were asked for.
pub struct Clocks {
    gauge: Gauge,
    metered: HashSet<usize>,
    home: Vec<usize>,
}

/// Windows of one reading, and their length in microseconds: a third of a millisecond in all.
const WINDOWS: usize = 150;
const WINDOW_US: f64 = 2.0;

/// CPUs that are metered: a look at more would take longer than what it looks at lasts.
const CPUS_MAX: usize = 64;

impl Clocks {
    /// The first reading takes some 20 ms.
    pub fn new(machine: &Machine) -> Self {
        Clocks { gauge: Gauge::new(machine), metered: HashSet::new(), home: place::allowed() }
    }

    /// The clock of a CPU in Hz; none if this process may not run there, or nothing certain can be
    /// said.
    pub fn read(&mut self, cpu: usize) -> Option<f64> {
        if !self.metered.contains(&cpu) && self.metered.len() == CPUS_MAX {
            return None;
        }
        place::stay_on(cpu).ok()?;
        self.metered.insert(cpu);
        let meter = self.gauge.meter().ok();
        let estimate = meter.and_then(|meter| meter.read(WINDOWS, WINDOW_US).ok());
        place::roam(&self.home);
        estimate.map(|estimate| estimate.hz)
    }
}
