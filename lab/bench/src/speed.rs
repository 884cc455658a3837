//! Speed: the algorithms alone, room by room, beside OpenSSL's own and other libraries in the same
//! interleaved run.

mod aead;
pub(crate) mod benchmark;
mod cbc_hmac;
pub mod ciphers;
mod ec;
mod ed25519;
mod evp;
mod hashes;
mod interleaved;
mod kem;
mod libraries;
mod mlkem;
mod operation;
mod rows;
mod rsa;
mod x25519;

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use openssl::error::ErrorStack;
use thiserror::Error;
use widelane_cpu::{Policy, Room, rooms};
use widelane_meter::place;
use widelane_results::{Pair, Results, Row};

use self::benchmark::{Benchmark, Ours};
use self::evp::Provider;
use self::interleaved::{Implementation, Interleaved, Subject, Timed};
use self::libraries::Libraries;
pub use self::libraries::Library;
pub(crate) use self::operation::Case;
pub use self::operation::{Operation, UnknownAlgorithm, algorithms, algorithms_of, select};
use crate::Observer;
use crate::cycles::Clock;
use crate::groups;
use crate::pairs::Rounds;
use crate::rival::RivalError;

/// What can be timed of each algorithm, in the order in which it is shown. A new algorithm needs a
/// line here, and a module with its `OPERATIONS`.
static OPERATIONS: [&[Operation]; 8] = [
    rsa::OPERATIONS,
    x25519::OPERATIONS,
    ed25519::OPERATIONS,
    ec::OPERATIONS,
    mlkem::OPERATIONS,
    aead::OPERATIONS,
    hashes::OPERATIONS,
    cbc_hmac::OPERATIONS,
];

/// Everything that can be timed.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().copied().flatten()
}

/// CPU time of one measurement of a public-key operation, and of a message, whose cost varies less.
const WINDOW: Duration = Duration::from_millis(60);
const WINDOW_SIZED: Duration = Duration::from_millis(20);

/// What a verification puts out.
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 0;

/// The lane whose signature is spoiled where signatures are verified; that of a lone job is good.
const SPOILED_LANE: usize = 1;

/// What to time.
pub struct Plan {
    /// The operations.
    pub operations: Vec<&'static Operation>,
    /// Rooms; those that are closed get a row that says why.
    pub rooms: Vec<Room>,
    /// Bytes of the messages, of operations whose cost depends on them.
    pub sizes: Vec<usize>,
    /// Numbers of jobs at a time, of operations in lanes; if there are none, full batches.
    pub jobs: Vec<usize>,
    /// Whether OpenSSL's own operation is timed beside ours.
    pub against_openssl: bool,
    /// Our provider, to time messages through OpenSSL's calls as well.
    pub provider: Option<PathBuf>,
    /// The other libraries that messages are timed with, and the program that has them.
    pub libraries: Option<(PathBuf, Vec<Library>)>,
    /// Rounds per operation; each times every subject once.
    pub rounds: Rounds,
    /// CPU time of one measurement, if not what suits the operation.
    pub window: Option<Duration>,
}

impl Plan {
    fn window(&self, case: &Case) -> Duration {
        self.window.unwrap_or(if case.size.is_some() { WINDOW_SIZED } else { WINDOW })
    }
}

/// Why a run came to no end.
#[derive(Debug, Error)]
pub enum SpeedError {
    /// No message of an operation is as large.
    #[error(
        "{operation} is for records of at most {most} bytes, not {size}; pass a smaller --size, \
         or name the algorithms that are wanted"
    )]
    Size {
        /// The operation.
        operation: String,
        /// The largest size, in bytes.
        most: usize,
        /// The size that was asked for, in bytes.
        size: usize,
    },
    /// OpenSSL lacks a cipher that is to be compared.
    #[error("OpenSSL has no {cipher} on this CPU, so that there is nothing to compare: {source}")]
    Cipher {
        /// The cipher.
        cipher: &'static str,
        /// Why.
        source: ErrorStack,
    },
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
    /// Another library computed something else than OpenSSL.
    #[error("{library} gives a wrong result for {scenario}; check the rival program")]
    WrongRival {
        /// The library.
        library: &'static str,
        /// The scenario.
        scenario: String,
    },
    /// The program with the other libraries failed.
    #[error("the other libraries cannot be timed; leave them out by --against openssl")]
    Rival(#[from] RivalError),
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
    stay_on_this_cpu(results);
    let cases: Vec<Case> = plan
        .operations
        .iter()
        .flat_map(|operation| operation.cases(&plan.sizes, &plan.jobs))
        .collect();
    cases.iter().try_for_each(Case::check_size)?;
    observer.planned(cases.len() as u64 * u64::from(plan.rounds.least));
    // Loaded and started only where there is something for them to do.
    let has_messages = cases.iter().any(|case| case.size.is_some());
    let provider = match has_messages {
        true => provider(plan),
        false => Err("there are no messages".to_owned()),
    };
    let mut clock = clock(results);
    let libraries = match &plan.libraries {
        Some((program, wanted)) if cases.iter().any(|case| is_asked(case, wanted)) => {
            Some(Libraries::start(program, wanted)?)
        }
        _ => None,
    };
    for case in &cases {
        let scenario = case.path();
        observer.began(&scenario);
        let benchmark = case.benchmark()?;
        let available = Available { plan, policy, provider: &provider, libraries: &libraries };
        if let Some(reason) = benchmark.openssl_lacks().filter(|_| plan.against_openssl) {
            results.note(format!("Without OpenSSL, which is {}: {reason}.", groups::openssl()));
        }
        if !benchmark.rooms().iter().any(|room| plan.rooms.contains(room)) {
            let own = benchmark.rooms().iter().map(|room| room.name()).collect::<Vec<_>>();
            let (path, own) = (case.operation.path(), own.join(", "));
            results.note(format!("{path} has none of the rooms asked for; it has {own}."));
        }
        let subjects = available.subjects(&*benchmark, case, &mut results.rows)?;
        let outputs = vec![vec![0; benchmark.output_len()]; benchmark.inputs()];
        let window = plan.window(case);
        let ours = subjects
            .iter()
            .map(|subject| subject.implementation)
            .filter(|implementation| implementation.is_ours());
        let precise =
            ours.map(|implementation| (implementation, Implementation::Openssl)).collect();
        let (path, rounds) = (&*scenario, plan.rounds);
        let mut interleaved = Interleaved {
            scenario: path,
            subjects,
            outputs,
            rounds,
            window,
            precise,
            clock: &clock,
        };
        let mut pairs = interleaved.rounds(stop, observer)?;
        let implementations = interleaved.implementations();
        drop(interleaved);
        confirm(&mut clock, &mut pairs, &scenario, results);
        rows::write(case, implementations, benchmark.rooms(), &pairs, &mut results.rows);
        results.pairs.extend(pairs);
        results.duration_s = began.elapsed().as_secs_f64();
        observer.ended(results);
    }
    results.complete = true;
    observer.ended(results);
    Ok(())
}

/// Tells the clock of this CPU; where it cannot, a note in `results` says why there are no cycles.
fn clock(results: &mut Results) -> Clock {
    let clock = Clock::here();
    results.note(clock.obstacle().map(|why| format!("Without cycles: {why}.")));
    clock
}

/// Takes the cycles out of `pairs` where the rate of the time stamps has changed amid them.
fn confirm(clock: &mut Clock, pairs: &mut [Pair], scenario: &str, results: &mut Results) {
    let Some(why) = clock.reset() else { return };
    results.note(format!("{scenario} is without cycles: {why}."));
    for measurement in pairs.iter_mut().flat_map(|pair| &mut pair.measurements) {
        measurement.cycles_per_operation = None;
    }
}

/// Our provider, or why it cannot be timed.
fn provider(plan: &Plan) -> Result<Provider, String> {
    let Some(path) = &plan.provider else {
        return Err("the provider was not found; install it, or build all of Widelane".to_owned());
    };
    Provider::load(path)
        .map_err(|error| format!("OpenSSL cannot load the provider {}: {error}", path.display()))
}

/// Whether one of the libraries can be asked for it.
fn is_asked(case: &Case, wanted: &[Library]) -> bool {
    wanted.iter().any(|library| case.path_for(*library).is_some())
}

/// The subjects that can be timed.
struct Available<'a> {
    plan: &'a Plan,
    policy: &'a Policy,
    /// Our provider, or why it is not there.
    provider: &'a Result<Provider, String>,
    libraries: &'a Option<Libraries>,
}

impl Available<'_> {
    /// All subjects that are timed at `case`; those that cannot be get a row that says why.
    fn subjects<'a>(
        &'a self,
        benchmark: &'a dyn Benchmark,
        case: &Case,
        rows: &mut Vec<Row>,
    ) -> Result<Vec<Subject<'a>>, SpeedError> {
        let scenario = case.path();
        let mut subjects = Vec::new();
        if let Some(reason) = benchmark.openssl_lacks().filter(|_| self.plan.against_openssl) {
            rows.push(rows::missing(case, Implementation::Openssl, reason.to_owned()));
        } else if self.plan.against_openssl {
            subjects.push(Subject {
                implementation: Implementation::Openssl,
                timed: Timed::Here(benchmark.openssl()?),
            });
        }
        for status in rooms::status(self.policy) {
            let room = status.room;
            if !benchmark.rooms().contains(&room) || !self.plan.rooms.contains(&room) {
                continue;
            }
            if let Some(reason) = status.reason {
                rows.push(rows::missing(case, Implementation::Room(room), reason));
                continue;
            }
            let mut ours = benchmark.widelane(&only(room, benchmark.rooms()), case.jobs);
            if !is_right(benchmark, &mut ours)? {
                return Err(SpeedError::Wrong { room: room.name(), scenario });
            }
            subjects.push(Subject {
                implementation: Implementation::Room(room),
                timed: Timed::Here(ours.run),
            });
        }
        if case.size.is_some() {
            let run = match self.provider {
                Ok(provider) => benchmark
                    .provider(provider)
                    .ok_or_else(|| "the provider does not offer it".to_owned()),
                Err(reason) => Err(reason.clone()),
            };
            match run {
                Ok(run) => {
                    let mut ours = Ours { lanes: 1, run: run? };
                    if !is_right(benchmark, &mut ours)? {
                        let room = Implementation::Provider.label();
                        return Err(SpeedError::Wrong { room, scenario });
                    }
                    subjects.push(Subject {
                        implementation: Implementation::Provider,
                        timed: Timed::Here(ours.run),
                    });
                }
                Err(reason) => rows.push(rows::missing(case, Implementation::Provider, reason)),
            }
        }
        for (libraries, library) in self.libraries.iter().flat_map(Libraries::each) {
            let Some(path) = case.path_for(library) else { continue };
            let implementation = Implementation::Library(library);
            match libraries.output(library, &path)? {
                Ok(outputs)
                    if outputs.len() == benchmark.inputs()
                        && are_right_elsewhere(benchmark, &outputs)? =>
                {
                    let timed = Timed::There { libraries, library, path };
                    subjects.push(Subject { implementation, timed });
                }
                Ok(_) => {
                    return Err(SpeedError::WrongRival { library: library.name(), scenario });
                }
                Err(reason) => rows.push(rows::missing(case, implementation, reason)),
            }
        }
        Ok(subjects)
    }
}

/// A policy under which a benchmark runs in `room`: the other rooms of its algorithm are
/// closed, and all that are wider. What an algorithm needs besides, as the hash of a signature, has
/// the rooms that are left.
fn only(room: Room, contenders: &[Room]) -> Policy {
    let others = contenders.iter().copied().filter(|other| *other != room);
    Policy { rooms_closed: others.collect(), ..Policy::up_to(room.licence_class().width) }
}

/// Whether OpenSSL agrees with every result of a batch of ours.
fn is_right(benchmark: &dyn Benchmark, ours: &mut Ours<'_>) -> Result<bool, ErrorStack> {
    let mut outputs = vec![vec![0; benchmark.output_len()]; benchmark.inputs()];
    if (ours.run)(&mut outputs)? != ours.lanes as u64 {
        return Ok(false);
    }
    are_right(benchmark, &outputs[..ours.lanes])
}

/// Whether OpenSSL agrees with what came out for the first lanes.
fn are_right(benchmark: &dyn Benchmark, outputs: &[Vec<u8>]) -> Result<bool, ErrorStack> {
    for (lane, output) in outputs.iter().enumerate() {
        if !benchmark.is_right(lane, output)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same of what another library put out.
fn are_right_elsewhere(benchmark: &dyn Benchmark, outputs: &[Vec<u8>]) -> Result<bool, ErrorStack> {
    for (lane, output) in outputs.iter().enumerate() {
        if !benchmark.is_right_elsewhere(lane, output)? {
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

/// Keeps the scheduler from moving this thread; where that is refused, the run is only noisier. The
/// CPU is the scheduler's choice: the last one may be of the small cores.
fn stay_on_this_cpu(results: &mut Results) {
    let cpu = place::here();
    place::roam(&[cpu]);
    results.note(format!("Timed on CPU {cpu}."));
}
