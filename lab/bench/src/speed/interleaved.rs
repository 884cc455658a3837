//! One operation and all subjects that are timed at it, in slices, by turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use widelane_cpu::Room;
use widelane_meter::place;
use widelane_results::{Measurement, Pair};

use super::SpeedError;
use super::benchmark::Runner;
use super::libraries::{Libraries, Library};
use super::rows::per_second;
use crate::Observer;
use crate::accounting::{Taken, thread_cpu};
use crate::cycles::Clock;
use crate::pairs::{self, Rounds};
use crate::stats::median;

/// Work between two measurements of the clock.
const SLICE: Duration = Duration::from_millis(5);

/// Work between two looks at the CPU time, so long that they cost next to nothing.
const BURST: Duration = Duration::from_micros(200);

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// OpenSSL.
    Openssl,
    /// One of our rooms.
    Room(Room),
    /// Our provider, by OpenSSL's calls.
    Provider,
    /// Another library, in a process of its own.
    Library(Library),
    /// OpenSSL, with the other of two ciphers compared.
    OpensslCbc,
    /// Our provider, with the other of two ciphers compared.
    ProviderCbc,
}

impl Implementation {
    /// The name under which measurements are kept; our rooms differ by their names.
    pub fn label(self) -> &'static str {
        match self {
            Implementation::Room(room) => room.name(),
            Implementation::OpensslCbc => "openssl-cbc-hmac",
            Implementation::ProviderCbc => "widelane-evp-cbc-hmac",
            Implementation::Openssl | Implementation::Provider | Implementation::Library(_) => {
                self.subject()
            }
        }
    }

    /// The subject of its rows.
    pub fn subject(self) -> &'static str {
        match self {
            Implementation::Openssl | Implementation::OpensslCbc => "openssl",
            Implementation::Room(_) => "widelane",
            Implementation::Provider | Implementation::ProviderCbc => "widelane-evp",
            Implementation::Library(library) => library.name(),
        }
    }

    /// The room of its rows.
    pub fn room(self) -> Option<Room> {
        match self {
            Implementation::Room(room) => Some(room),
            _ => None,
        }
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Implementation::Room(_) | Implementation::Provider)
    }
}

/// What is timed, and how.
pub struct Subject<'a> {
    /// What.
    pub implementation: Implementation,
    /// How.
    pub timed: Timed<'a>,
}

/// Where the work is done.
pub enum Timed<'a> {
    /// On this thread.
    Here(Runner<'a>),
    /// In the program that has the other libraries, on the same CPU.
    There {
        /// The program.
        libraries: &'a Libraries,
        /// The library that does it.
        library: Library,
        /// The name of what it does.
        path: String,
    },
}

/// One operation and all subjects that are timed at it.
pub struct Interleaved<'a> {
    /// The path of its results.
    pub scenario: &'a str,
    /// What is timed.
    pub subjects: Vec<Subject<'a>>,
    /// The places for results.
    pub outputs: Vec<Vec<u8>>,
    /// How many rounds to take.
    pub rounds: Rounds,
    /// CPU time of one measurement.
    pub window: Duration,
    /// Subjects and rivals whose ratio is to be known well.
    pub precise: Vec<(Implementation, Implementation)>,
    /// Tells the clock of this CPU.
    pub clock: &'a Clock,
}

impl Interleaved<'_> {
    /// What is timed, in order.
    pub fn implementations(&self) -> Vec<Implementation> {
        self.subjects.iter().map(|subject| subject.implementation).collect()
    }

    /// Times everybody, round by round.
    pub fn rounds(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Pair>, SpeedError> {
        let mut taken = Vec::new();
        while self.rounds.go_on(&taken, || self.is_precise(&taken)) {
            let round = taken.len() as u32;
            let mut measurements = Vec::new();
            for index in pairs::order(self.subjects.len(), round) {
                if stop.load(Ordering::Relaxed) {
                    return Err(SpeedError::Interrupted);
                }
                measurements.push(self.measure(index)?);
            }
            taken.push(pairs::judge(self.scenario, round, measurements));
            if taken.len() > self.rounds.least as usize {
                observer.planned(1);
            }
            observer.round_taken(taken.last().and_then(|pair| pair.reason.as_deref()));
        }
        Ok(taken)
    }

    /// Whether the ratios that matter are known well enough.
    fn is_precise(&self, taken: &[Pair]) -> bool {
        self.precise.iter().all(|(implementation, rival)| {
            let both = [implementation.label(), rival.label()];
            pairs::is_precise(&pairs::basis(taken, &both).both(both, per_second))
        })
    }

    /// Times one subject in slices, with the clock metered after each.
    fn measure(&mut self, index: usize) -> Result<Measurement, SpeedError> {
        let Interleaved { subjects, outputs, window, clock, .. } = self;
        let Subject { implementation, timed } = &mut subjects[index];
        let (mut operations, mut used) = (0, Duration::ZERO);
        let (mut clocks, mut metering_s) = (Vec::new(), 0.0);
        let mut calls = 1;
        let taken = Taken::since_now(place::here());
        let began = Instant::now();
        while used < *window {
            let (done, time) = match timed {
                Timed::Here(run) => slice(run, outputs, &mut calls)?,
                Timed::There { libraries, library, path } => {
                    libraries.slice(*library, path, SLICE)?
                }
            };
            operations += done;
            used += time;
            if let Some((hz, seconds)) = clock.look() {
                clocks.push(hz);
                metering_s += seconds;
            }
        }
        let wall_s = began.elapsed().as_secs_f64();
        let [stolen_s, throttled_s] = taken.until_now().map(|time| time.as_secs_f64());
        let used_s = used.as_secs_f64();
        let foreign_cpu_s = (wall_s - used_s - metering_s).max(0.0);
        let cycles = median(&clocks).map(|hz| hz * used_s / operations as f64);
        Ok(Measurement {
            subject: implementation.label().to_owned(),
            wall_s,
            operations,
            errors: BTreeMap::new(),
            cpu_s: used_s,
            foreign_cpu_s,
            stolen_cpu_s: stolen_s.min(foreign_cpu_s),
            throttled_s: throttled_s.min(foreign_cpu_s),
            cycles_per_operation: cycles,
            ..Measurement::default()
        })
    }
}

/// Runs for a [`SLICE`]; returns how many operations it did and how long it took. `calls` is how
/// many calls fill a [`BURST`], as far as that is known.
fn slice(
    run: &mut Runner<'_>,
    outputs: &mut [Vec<u8>],
    calls: &mut u32,
) -> Result<(u64, Duration), SpeedError> {
    let mut operations = 0;
    let began = thread_cpu();
    let end = began + SLICE;
    let mut burst_began = began;
    loop {
        for _ in 0..*calls {
            operations += run(outputs)?;
        }
        let now = thread_cpu();
        if now >= end {
            return Ok((operations, now - began));
        }
        if now - burst_began < BURST {
            *calls *= 2;
        }
        burst_began = now;
    }
}
