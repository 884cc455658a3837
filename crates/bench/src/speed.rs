//! Speed: the algorithms alone, room by room, beside OpenSSL's own in the same interleaved run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use openssl::error::ErrorStack;
use openssl::pkey::Private;
use openssl::rsa::{Padding, Rsa as OpensslRsa};
use thiserror::Error;
use widelane_cpu::{Policy, Room, rooms};
use widelane_crypto::rsa::{Components, KeyError, KeySize, Outcome, PrivateJob, PrivateKey, Rsa};
use widelane_results::{Measurement, Pair, Results, Row, Status};

use crate::Observer;
use crate::chain::clock_hz;
use crate::pairs::{self, Rounds};
use crate::stats::{self, median};

/// Work between two looks at the clock.
const SLICE: Duration = Duration::from_millis(5);

/// Widest batch of any room.
const LANES_MAX: usize = 8;

const OPENSSL: &str = "openssl";
const OPERATIONS: (&str, &str) = ("operations_per_second", "1/s");
const CYCLES: (&str, &str) = ("cycles_per_operation", "cycles");

/// What to time.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Key sizes.
    pub sizes: Vec<KeySize>,
    /// Rooms; those that are closed get a row that says why.
    pub rooms: Vec<Room>,
    /// Whether OpenSSL's own operation is timed beside ours.
    pub against_openssl: bool,
    /// Rounds per key size; each times every subject once.
    pub rounds: u32,
    /// CPU time of one measurement.
    pub window: Duration,
}

/// Why a run came to no end.
#[derive(Debug, Error)]
pub enum SpeedError {
    /// OpenSSL failed.
    #[error("OpenSSL cannot make or use an RSA key")]
    Openssl(#[from] ErrorStack),
    /// Our own import refused a key.
    #[error("a key made by OpenSSL was refused")]
    Key(#[from] KeyError),
    /// A room computed something else than OpenSSL.
    #[error("room {room} gives a wrong result for {scenario}; this is a defect, please report it")]
    Wrong {
        /// The room.
        room: &'static str,
        /// The scenario.
        scenario: String,
    },
    /// The caller asked to stop.
    #[error("interrupted; results up to here are kept")]
    Interrupted,
}

/// Times as planned and fills up `results`.
///
/// # Errors
///
/// See [`SpeedError`]; what was measured before is in `results` all the same.
pub fn run(
    plan: &Plan,
    policy: &Policy,
    results: &mut Results,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(), SpeedError> {
    let began = Instant::now();
    observer.planned(plan.sizes.len() as u64 * u64::from(plan.rounds));
    stay_on_this_cpu();
    for size in &plan.sizes {
        let scenario = format!("rsa{}/private", size.bits());
        observer.began(&scenario);
        let bench = Bench::new(*size)?;
        let mut subjects = Vec::new();
        if plan.against_openssl {
            subjects.push(Subject::Openssl);
        }
        for status in rooms::status(policy) {
            let for_rsa = matches!(status.room, Room::Portable | Room::Ifma256 | Room::Ifma512);
            if !for_rsa || !plan.rooms.contains(&status.room) {
                continue;
            }
            match status.reason {
                None => subjects.push(Subject::Room(status.room, Rsa::choose(&only(status.room)))),
                Some(reason) => {
                    results.rows.push(closed_row(&scenario, status.room, reason));
                }
            }
        }
        let pairs = bench.rounds(&scenario, plan, &mut subjects, stop, observer)?;
        write_rows(&scenario, &subjects, &pairs, &mut results.rows);
        results.pairs.extend(pairs);
        results.duration_s = began.elapsed().as_secs_f64();
        observer.ended(results);
    }
    results.complete = true;
    observer.ended(results);
    Ok(())
}

/// A policy that leaves `room` open and closes every other batch room.
fn only(room: Room) -> Policy {
    let mut policy = Policy::open();
    policy.rooms_closed = Room::ALL.into_iter().filter(|other| *other != room).collect();
    policy
}

/// Keeps the scheduler from moving this thread; where that is refused, the run is only noisier.
fn stay_on_this_cpu() {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return };
    let last = (0..CpuSet::count()).rev().find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut set = CpuSet::new();
    if last.is_some_and(|cpu| set.set(cpu).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Who is timed.
enum Subject {
    Openssl,
    Room(Room, Rsa),
}

impl Subject {
    /// The name under which its measurements are kept; rooms are told apart by theirs.
    fn label(&self) -> &'static str {
        match self {
            Subject::Openssl => OPENSSL,
            Subject::Room(room, _) => room.name(),
        }
    }
}

/// One key in both forms, and inputs.
struct Bench {
    openssl: OpensslRsa<Private>,
    key: PrivateKey,
    inputs: Vec<Vec<u8>>,
    bytes: usize,
}

impl Bench {
    fn new(size: KeySize) -> Result<Self, SpeedError> {
        let openssl = OpensslRsa::generate(size.bits() as u32)?;
        let part = |number: Option<&openssl::bn::BigNumRef>| {
            number.map(|number| number.to_vec()).unwrap_or_default()
        };
        let (p, q) = (part(openssl.p()), part(openssl.q()));
        let (dp, dq, qinv) = (part(openssl.dmp1()), part(openssl.dmq1()), part(openssl.iqmp()));
        let key = PrivateKey::from_components(&Components {
            n: &openssl.n().to_vec(),
            e: &openssl.e().to_vec(),
            p: &p,
            q: &q,
            dp: &dp,
            dq: &dq,
            qinv: &qinv,
        })?;
        let bytes = size.bytes();
        let mut inputs = vec![vec![0; bytes]; LANES_MAX];
        for input in &mut inputs {
            // A leading zero keeps every input below the modulus.
            openssl::rand::rand_bytes(&mut input[1..])?;
        }
        Ok(Bench { openssl, key, inputs, bytes })
    }

    fn rounds(
        &self,
        scenario: &str,
        plan: &Plan,
        subjects: &mut [Subject],
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Pair>, SpeedError> {
        for subject in subjects.iter() {
            self.check(scenario, subject)?;
        }
        let rounds = Rounds { least: plan.rounds, most: plan.rounds * 3 / 2 };
        let mut taken = Vec::new();
        while rounds.go_on(&taken, || true) {
            let round = taken.len() as u32;
            let mut measurements = Vec::new();
            for index in pairs::order(subjects.len(), round) {
                if stop.load(Ordering::Relaxed) {
                    return Err(SpeedError::Interrupted);
                }
                measurements.push(self.measure(&subjects[index], plan.window)?);
            }
            taken.push(pairs::judge(scenario, round, measurements));
            observer.round_taken();
        }
        Ok(taken)
    }

    /// Makes sure that a room computes what OpenSSL computes.
    fn check(&self, scenario: &str, subject: &Subject) -> Result<(), SpeedError> {
        let Subject::Room(room, rsa) = subject else { return Ok(()) };
        let mut outputs = vec![vec![0; self.bytes]; LANES_MAX];
        self.run_ours(rsa, &mut outputs);
        let mut expected = vec![0; self.bytes];
        for (input, output) in self.inputs.iter().zip(&outputs).take(rsa.lanes()) {
            self.openssl.private_encrypt(input, &mut expected, Padding::NONE)?;
            if expected != *output {
                let scenario = scenario.to_owned();
                return Err(SpeedError::Wrong { room: room.name(), scenario });
            }
        }
        Ok(())
    }

    /// One full batch; returns the number of operations that came out well.
    fn run_ours(&self, rsa: &Rsa, outputs: &mut [Vec<u8>]) -> u64 {
        let mut jobs: Vec<PrivateJob<'_>> = self
            .inputs
            .iter()
            .zip(outputs)
            .take(rsa.lanes())
            .map(|(input, output)| PrivateJob::new(&self.key, input, output))
            .collect();
        rsa.private_batch(&mut jobs);
        jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64
    }

    fn run_openssl(&self, output: &mut [u8]) -> Result<u64, ErrorStack> {
        self.openssl.private_encrypt(&self.inputs[0], output, Padding::NONE)?;
        Ok(1)
    }

    /// Times one subject in slices, with the clock metered after each.
    fn measure(&self, subject: &Subject, window: Duration) -> Result<Measurement, SpeedError> {
        let mut outputs = vec![vec![0; self.bytes]; LANES_MAX];
        let (mut operations, mut used, mut clocks) = (0, Duration::ZERO, Vec::new());
        let began = Instant::now();
        while used < window {
            let slice_began = thread_cpu();
            let slice_end = slice_began + SLICE;
            let slice_used = loop {
                operations += match subject {
                    Subject::Openssl => self.run_openssl(&mut outputs[0])?,
                    Subject::Room(_, rsa) => self.run_ours(rsa, &mut outputs),
                };
                let now = thread_cpu();
                if now >= slice_end {
                    break now - slice_began;
                }
            };
            used += slice_used;
            clocks.push(clock_hz());
        }
        let wall_s = began.elapsed().as_secs_f64();
        let (used_s, metering_s) = (used.as_secs_f64(), metering_time(&clocks));
        let cycles = median(&clocks).map(|hz| hz * used_s / operations as f64);
        Ok(Measurement {
            subject: subject.label().to_owned(),
            wall_s,
            operations,
            errors: BTreeMap::new(),
            cpu_s: used_s,
            foreign_cpu_s: (wall_s - used_s - metering_s).max(0.0),
            cycles_per_operation: cycles,
            ..Measurement::default()
        })
    }
}

/// Time that the meter itself took.
fn metering_time(clocks: &[f64]) -> f64 {
    clocks.iter().map(|hz| crate::chain::CYCLES / hz).sum()
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

/// The row of a room that cannot be entered.
fn closed_row(scenario: &str, room: Room, reason: String) -> Row {
    Row {
        scenario: scenario.to_owned(),
        subject: "widelane".to_owned(),
        room: Some(room.name().to_owned()),
        metric: OPERATIONS.0.to_owned(),
        unit: OPERATIONS.1.to_owned(),
        status: Status::NotApplicable,
        reason: Some(reason),
        ..Row::default()
    }
}

type Of = fn(&Measurement) -> Option<f64>;

/// Writes the rows of one key size.
fn write_rows(scenario: &str, subjects: &[Subject], pairs: &[Pair], rows: &mut Vec<Row>) {
    let basis = pairs::basis(pairs);
    let status = if basis.objection.is_some() { Status::Rejected } else { Status::Ok };
    let has_rival = subjects.iter().any(|subject| matches!(subject, Subject::Openssl));
    let metrics: [((&str, &str), Of); 2] = [
        (OPERATIONS, |m| (m.cpu_s > 0.0).then(|| m.operations as f64 / m.cpu_s)),
        (CYCLES, |m| m.cycles_per_operation),
    ];
    for subject in subjects {
        for ((metric, unit), of) in metrics {
            let value = |pair: &Pair, label: &str| {
                of(pair.measurements.iter().find(|measurement| measurement.subject == label)?)
            };
            let label = subject.label();
            let values: Vec<f64> =
                basis.rounds.iter().filter_map(|pair| value(pair, label)).collect();
            let rounds: Vec<(f64, f64)> = (basis.rounds.iter())
                .filter_map(|pair| Some((value(pair, label)?, value(pair, OPENSSL)?)))
                .collect();
            let ours = matches!(subject, Subject::Room(..));
            let ratio = stats::ratio(&rounds).filter(|_| ours);
            rows.push(Row {
                scenario: scenario.to_owned(),
                subject: if ours { "widelane" } else { OPENSSL }.to_owned(),
                room: ours.then(|| label.to_owned()),
                metric: metric.to_owned(),
                unit: unit.to_owned(),
                value: median(&values),
                rival: (ours && has_rival).then(|| OPENSSL.to_owned()),
                ratio: ratio.map(|ratio| ratio.value),
                ratio_low: ratio.map(|ratio| ratio.low),
                ratio_high: ratio.map(|ratio| ratio.high),
                status,
                reason: basis.objection.clone(),
            });
        }
    }
}
