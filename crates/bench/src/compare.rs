//! Compare: the same server native and accelerated, side by side, under the same load.

mod rows;
mod window;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;
use widelane_cpu::Room;
use widelane_loadgen::{Cipher, Group, LoadError, TlsVersion};
use widelane_results::{Results, Row, Status};

use self::rows::Record;
use self::window::{Cpus, measure};
use crate::Observer;
use crate::accounting::AccountingError;
use crate::pairs;
use crate::programs::Programs;
use crate::server::{Identity, IdentityError, Server, ServerError, ServerKind, Subject, Workshop};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers, each with the subjects to run; the first subject is the rival of all others.
    pub targets: Vec<(ServerKind, Vec<Subject>)>,
    /// RSA key sizes to make certificates for; ignored if `identity` is given.
    pub key_bits: Vec<u32>,
    /// The user's own certificate and key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// What each server goes through.
    pub scenarios: Vec<Scenario>,
    /// Key-exchange group.
    pub group: Group,
    /// Cipher.
    pub cipher: Cipher,
    /// Rounds per scenario.
    pub rounds: u32,
    /// Rounds that may be taken beyond, to make up for rejected ones.
    pub rounds_spare: u32,
    /// Time under load before each window.
    pub warm_up: Duration,
    /// First port to use; free ports are chosen if absent.
    pub port_first: Option<u16>,
    /// The widest room that is open, which is expected to run.
    pub room: Room,
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Protocol version.
    pub version: TlsVersion,
    /// Outstanding connections.
    pub connections: usize,
    /// Length of a window.
    pub window: Duration,
}

impl Plan {
    /// Number of rounds in all.
    pub fn rounds_total(&self) -> u64 {
        let keys = if self.identity.is_some() { 1 } else { self.key_bits.len() };
        let scenarios = self.targets.len() * keys * self.scenarios.len();
        scenarios as u64 * u64::from(self.rounds)
    }

    /// Cut down to one short check that everything works, for machines where nothing can be gained.
    fn into_check(mut self) -> Self {
        self.key_bits.truncate(1);
        let fullest = self.scenarios.iter().copied().max_by_key(|scenario| scenario.connections);
        self.scenarios = fullest.into_iter().collect();
        self.rounds = 1;
        self.rounds_spare = 1;
        self
    }
}

/// Why part of a comparison is missing.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A server could not be run or measured.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// There is no certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The kernel's accounting cannot be read.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// The load could not be made.
    #[error("{server} cannot be driven")]
    Load {
        /// The server and subject.
        server: String,
        /// Why.
        source: LoadError,
    },
    /// A process of the server ended and another took its place.
    #[error(
        "a process of {server} ended and was replaced during the run; results up to here are kept; \
         see what it said:\n{log}"
    )]
    Replaced {
        /// The server and subject.
        server: String,
        /// Last lines of its output.
        log: String,
    },
    /// The caller asked to stop.
    #[error("interrupted; results up to here are kept")]
    Interrupted,
}

/// Compares as planned. `results` comes with machine and command filled in and is filled up with
/// the rest; what could not be done is returned beside it.
///
/// Call it on a thread that lives as long as the process: servers are tied to it.
pub fn run(
    plan: Plan,
    programs: &Programs,
    results: &mut Results,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Vec<CompareError> {
    let nothing_to_gain = nothing_to_gain(&plan, results);
    let plan = if nothing_to_gain.is_some() { plan.into_check() } else { plan };
    if let Some(reason) = &nothing_to_gain {
        results.notes.push(format!(
            "There is nothing to gain from RSA batching on this machine: {reason}. \
             One short run per scenario checked that everything works all the same."
        ));
    }
    observer.planned(plan.rounds_total());
    let (cpus, note) = Cpus::choose();
    results.notes.extend(note);
    let mut run = Run {
        plan: &plan,
        programs,
        cpus,
        nothing_to_gain,
        began: Instant::now(),
        results,
        stop,
        observer,
    };
    let failures = run.targets();
    run.flush(failures.is_empty());
    rows::conclude(results);
    failures
}

/// Why no batch kernel can run here, if none can.
fn nothing_to_gain(plan: &Plan, results: &Results) -> Option<String> {
    if plan.room != Room::Portable {
        return None;
    }
    let closed = results.machine.rooms.iter().rev().find_map(|room| room.reason.clone());
    Some(closed.unwrap_or_else(|| "no batch kernel is open".to_owned()))
}

struct Run<'a> {
    plan: &'a Plan,
    programs: &'a Programs,
    cpus: Cpus,
    nothing_to_gain: Option<String>,
    began: Instant,
    results: &'a mut Results,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer,
}

impl Run<'_> {
    /// Goes through servers and keys; what fails is noted and the next one is tried.
    fn targets(&mut self) -> Vec<CompareError> {
        let mut failures = Vec::new();
        let keys = if self.plan.identity.is_some() { &[0][..] } else { &self.plan.key_bits };
        for (kind, subjects) in &self.plan.targets {
            for bits in keys {
                match self.target(*kind, subjects, *bits, &mut failures) {
                    Ok(()) => {}
                    Err(CompareError::Interrupted) => {
                        failures.push(CompareError::Interrupted);
                        return failures;
                    }
                    Err(error) => {
                        self.results.rows.push(failed_row(*kind, None, *bits, &error));
                        self.flush(false);
                        failures.push(error);
                    }
                }
            }
        }
        failures
    }

    /// One server with one key: starts all subjects, then goes through its scenarios. It needs the
    /// first subject, their rival; without another one it goes on.
    fn target(
        &mut self,
        kind: ServerKind,
        subjects: &[Subject],
        bits: u32,
        failures: &mut Vec<CompareError>,
    ) -> Result<(), CompareError> {
        let mut workshop =
            Workshop::open(self.programs.clone(), self.cpus.server, self.plan.port_first)?;
        let identity = match &self.plan.identity {
            Some((certificate, key)) => Identity::load(certificate, key, workshop.directory())?,
            None => Identity::make(bits, workshop.directory())?,
        };
        let mut servers = Vec::new();
        for subject in subjects {
            match workshop.start(kind, *subject, &identity) {
                Ok(server) => servers.push((*subject, server)),
                Err(error) if servers.is_empty() => return Err(error.into()),
                Err(error) => {
                    let error = CompareError::from(error);
                    self.results.rows.push(failed_row(kind, Some(*subject), bits, &error));
                    failures.push(error);
                }
            }
        }
        for scenario in &self.plan.scenarios {
            let shape = window::Shape { plan: self.plan, identity: &identity, scenario: *scenario };
            self.scenario(kind, &shape, &mut servers)?;
        }
        Ok(())
    }

    /// One scenario: interleaved rounds over all subjects, then its rows.
    fn scenario(
        &mut self,
        kind: ServerKind,
        shape: &window::Shape<'_>,
        servers: &mut [(Subject, Server)],
    ) -> Result<(), CompareError> {
        let Scenario { version, connections, .. } = shape.scenario;
        let key = &shape.identity.key_name;
        let scenario = format!("{}/tls{}/{key}/c{connections}", kind.name(), version.name());
        self.observer.began(&scenario);
        let mut record = Record::new(scenario, servers.iter().map(|(subject, _)| *subject));
        let mut outcome = Ok(());
        while pairs::goes_on(record.pairs(), self.plan.rounds, self.plan.rounds_spare) {
            outcome = self.round(record.pairs().len() as u32, shape, servers, &mut record);
            if outcome.is_err() {
                break;
            }
            self.observer.round_taken();
        }
        if !record.pairs().is_empty() {
            record.write(
                self.results,
                self.plan.room,
                connections,
                self.nothing_to_gain.as_deref(),
            );
            self.flush(false);
        }
        outcome
    }

    fn round(
        &mut self,
        round: u32,
        shape: &window::Shape<'_>,
        servers: &mut [(Subject, Server)],
        record: &mut Record,
    ) -> Result<(), CompareError> {
        let mut samples = Vec::new();
        for index in pairs::order(servers.len(), round) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CompareError::Interrupted);
            }
            let (subject, server) = &mut servers[index];
            samples.push(measure(*subject, server, shape, &self.cpus, self.stop)?);
        }
        record.push(round, samples);
        Ok(())
    }

    fn flush(&mut self, complete: bool) {
        self.results.duration_s = self.began.elapsed().as_secs_f64();
        self.results.complete = complete;
        self.observer.ended(self.results);
    }
}

/// The row that stands for a server, or one subject of it, that could not be measured.
fn failed_row(kind: ServerKind, subject: Option<Subject>, bits: u32, error: &CompareError) -> Row {
    let missing = matches!(
        error,
        CompareError::Server(ServerError::NotInstalled(_) | ServerError::Incomplete { .. })
    );
    let key = if bits == 0 { "own-key".to_owned() } else { format!("rsa{bits}") };
    let reason = error.to_string();
    Row {
        scenario: format!("{}/{key}", kind.name()),
        subject: subject.unwrap_or(Subject::Accelerated).name().to_owned(),
        metric: rows::SERVER_CPU.0.to_owned(),
        unit: rows::SERVER_CPU.1.to_owned(),
        status: if missing { Status::NotApplicable } else { Status::Rejected },
        reason: Some(reason.lines().next().unwrap_or_default().to_owned()),
        ..Row::default()
    }
}
