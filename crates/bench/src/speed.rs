//! Speed: the algorithms alone, room by room, beside OpenSSL's own in the same interleaved run.

mod contest;
mod ec;
mod ed25519;
mod rsa;
mod x25519;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use openssl::error::ErrorStack;
use thiserror::Error;
use widelane_cpu::{Policy, Room, rooms};
use widelane_results::{Measurement, Pair, Results, Row, Status};

use self::contest::{Contest, LANES_MAX, Ours, Runner};
pub use self::contest::{EVENTS, Event, UnknownAlgorithm, select};
use crate::Observer;
use crate::chain::clock_hz;
use crate::pairs::{self, Rounds};
use crate::stats::{self, median};

/// Work between two measurements of the clock.
const SLICE: Duration = Duration::from_millis(5);

/// Work between two looks at the CPU time, so long that they cost next to nothing.
const BURST: Duration = Duration::from_micros(200);

/// The rooms that batches of public-key operations have.
const ROOMS: [Room; 3] = [Room::Portable, Room::Ifma256, Room::Ifma512];

/// What a verification puts out.
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 0;

/// The lane whose signature is spoiled where signatures are verified; that of a lone job is good.
const SPOILED_LANE: usize = 1;

const OPENSSL: &str = "openssl";
const OPERATIONS: (&str, &str) = ("operations_per_second", "1/s");
const CYCLES: (&str, &str) = ("cycles_per_operation", "cycles");

/// What to time.
pub struct Plan {
    /// The operations.
    pub events: Vec<&'static Event>,
    /// Rooms; those that are closed get a row that says why.
    pub rooms: Vec<Room>,
    /// Whether OpenSSL's own operation is timed beside ours.
    pub against_openssl: bool,
    /// Rounds per operation; each times every subject once.
    pub rounds: Rounds,
    /// CPU time of one measurement.
    pub window: Duration,
}

/// Why a run came to no end.
#[derive(Debug, Error)]
pub enum SpeedError {
    /// OpenSSL failed.
    #[error("OpenSSL cannot make or use a key")]
    Openssl(#[from] ErrorStack),
    /// Our own import refused a key.
    #[error("a key made by OpenSSL was refused; this is a defect, please report it")]
    Key(#[source] Box<dyn Error + Send + Sync>),
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

impl SpeedError {
    fn key(error: impl Error + Send + Sync + 'static) -> Self {
        SpeedError::Key(Box::new(error))
    }
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
    observer.planned(plan.events.len() as u64 * u64::from(plan.rounds.least));
    stay_on_this_cpu();
    for event in &plan.events {
        let scenario = event.path();
        observer.began(&scenario);
        let contest = (event.make)()?;
        let mut subjects = Vec::new();
        if plan.against_openssl {
            subjects.push(Subject { room: None, run: contest.openssl()? });
        }
        for status in rooms::status(policy) {
            let room = status.room;
            if !ROOMS.contains(&room) || !plan.rooms.contains(&room) {
                continue;
            }
            if let Some(reason) = status.reason {
                results.rows.push(closed_row(&scenario, room, reason));
                continue;
            }
            let mut ours = contest.widelane(&only(room));
            if !is_right(&*contest, &mut ours)? {
                return Err(SpeedError::Wrong { room: room.name(), scenario });
            }
            subjects.push(Subject { room: Some(room), run: ours.run });
        }
        let outputs = vec![vec![0; contest.output_len()]; LANES_MAX];
        let mut heat = Heat { scenario: &scenario, subjects, outputs, plan };
        let pairs = heat.rounds(stop, observer)?;
        write_rows(&scenario, &heat.subjects, &pairs, &mut results.rows);
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

/// Whether OpenSSL agrees with every result of a batch of ours.
fn is_right(contest: &dyn Contest, ours: &mut Ours<'_>) -> Result<bool, ErrorStack> {
    let mut outputs = vec![vec![0; contest.output_len()]; LANES_MAX];
    if (ours.run)(&mut outputs)? != ours.lanes as u64 {
        return Ok(false);
    }
    for (lane, output) in outputs.iter().enumerate().take(ours.lanes) {
        if !contest.is_right(lane, output)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The bytes of a key or signature whose length its algorithm fixes.
fn array<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.try_into().expect("the length is fixed")
}

/// The place for a result whose length its algorithm fixes.
fn array_mut<const N: usize>(bytes: &mut [u8]) -> &mut [u8; N] {
    bytes.try_into().expect("the length is fixed")
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

/// Who is timed: one of our rooms, or OpenSSL.
struct Subject<'a> {
    room: Option<Room>,
    run: Runner<'a>,
}

impl Subject<'_> {
    /// The name under which its measurements are kept; rooms are told apart by theirs.
    fn label(&self) -> &'static str {
        self.room.map_or(OPENSSL, Room::name)
    }
}

/// One operation and all who are timed at it.
struct Heat<'a> {
    scenario: &'a str,
    subjects: Vec<Subject<'a>>,
    outputs: Vec<Vec<u8>>,
    plan: &'a Plan,
}

impl Heat<'_> {
    fn rounds(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Pair>, SpeedError> {
        let mut taken = Vec::new();
        while self.plan.rounds.go_on(&taken, || self.is_precise(&taken)) {
            let round = taken.len() as u32;
            let mut measurements = Vec::new();
            for index in pairs::order(self.subjects.len(), round) {
                if stop.load(Ordering::Relaxed) {
                    return Err(SpeedError::Interrupted);
                }
                measurements.push(self.measure(index)?);
            }
            taken.push(pairs::judge(self.scenario, round, measurements));
            if taken.len() > self.plan.rounds.least as usize {
                observer.planned(1);
            }
            observer.round_taken();
        }
        Ok(taken)
    }

    /// Whether every room's ratio is known well enough.
    fn is_precise(&self, taken: &[Pair]) -> bool {
        let basis = pairs::basis(taken);
        self.subjects
            .iter()
            .filter(|subject| subject.room.is_some())
            .all(|subject| pairs::is_precise(&both(&basis, subject.label(), per_second)))
    }

    /// Times one subject in slices, with the clock metered after each.
    fn measure(&mut self, index: usize) -> Result<Measurement, SpeedError> {
        let subject = &mut self.subjects[index];
        let (mut operations, mut used, mut clocks) = (0, Duration::ZERO, Vec::new());
        let mut calls = 1;
        let began = Instant::now();
        while used < self.plan.window {
            let slice_began = thread_cpu();
            let slice_end = slice_began + SLICE;
            let mut burst_began = slice_began;
            let slice_used = loop {
                for _ in 0..calls {
                    operations += (subject.run)(&mut self.outputs)?;
                }
                let now = thread_cpu();
                if now >= slice_end {
                    break now - slice_began;
                }
                if now - burst_began < BURST {
                    calls *= 2;
                }
                burst_began = now;
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

/// How a metric is read off a measurement.
type Of = fn(&Measurement) -> Option<f64>;

fn per_second(m: &Measurement) -> Option<f64> {
    (m.cpu_s > 0.0).then(|| m.operations as f64 / m.cpu_s)
}

fn value(pair: &Pair, label: &str, of: Of) -> Option<f64> {
    of(pair.measurements.iter().find(|measurement| measurement.subject == label)?)
}

/// What `label` and OpenSSL measured in the rounds that count.
fn both(basis: &pairs::Basis<'_>, label: &str, of: Of) -> Vec<(f64, f64)> {
    let both = |pair: &&Pair| Some((value(pair, label, of)?, value(pair, OPENSSL, of)?));
    basis.rounds.iter().filter_map(both).collect()
}

/// Writes the rows of one operation.
fn write_rows(scenario: &str, subjects: &[Subject<'_>], pairs: &[Pair], rows: &mut Vec<Row>) {
    let basis = pairs::basis(pairs);
    let status = if basis.objection.is_some() { Status::Rejected } else { Status::Ok };
    let has_rival = subjects.iter().any(|subject| subject.room.is_none());
    let metrics: [((&str, &str), Of); 2] =
        [(OPERATIONS, per_second), (CYCLES, |m| m.cycles_per_operation)];
    for subject in subjects {
        for ((metric, unit), of) in metrics {
            let label = subject.label();
            let values: Vec<f64> =
                basis.rounds.iter().filter_map(|pair| value(pair, label, of)).collect();
            let ours = subject.room.is_some();
            let ratio = stats::ratio(&both(&basis, label, of)).filter(|_| ours);
            rows.push(Row {
                scenario: scenario.to_owned(),
                subject: if ours { "widelane" } else { OPENSSL }.to_owned(),
                room: subject.room.map(|room| room.name().to_owned()),
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
