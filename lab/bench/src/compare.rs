//! Compare: the same server native and accelerated, side by side, under the same load.

mod admission;
mod cores;
mod download;
mod limited;
mod plan;
pub(crate) mod rows;
pub(crate) mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;
use widelane_crypto::Family;
use widelane_loadgen::{ErrorKind, Group, LoadError, TlsVersion};
use widelane_results::{BUSY_SHARE, Measurement, Results, Row, Status};

use self::admission::Clients;
pub use self::download::Download;
pub use self::plan::{Plan, Scenario, Work, Workers};
use self::rows::Record;
pub use self::window::Threads;
use self::window::{Cpus, Shape, measure, seed};
use crate::Observer;
use crate::accounting::AccountingError;
use crate::link::{Link, LinkError};
use crate::pairs;
use crate::programs::Programs;
use crate::server::{
    Identity, IdentityError, Key, Server, ServerError, ServerKind, Subject, Testbed,
};

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
    /// Clients cannot be put at a distance.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The load could not be made.
    #[error("{server} could not be put under load: {}", told(.why))]
    Load {
        /// The server and subject.
        server: String,
        /// Why.
        why: LoadError,
    },
    /// A server serves a client that it should refuse.
    #[error(
        "{server} serves clients that show {shown}, so that its handshakes are not those with \
         certificates of clients that were to be measured"
    )]
    Admitted {
        /// The server and subject.
        server: String,
        /// What they show.
        shown: &'static str,
    },
    /// A server refuses a client that it should serve.
    #[error(
        "{server} does not serve a client that shows its certificate ({reason}); see what it \
         said:\n{log}"
    )]
    Turned {
        /// The server and subject.
        server: String,
        /// What the client saw.
        reason: String,
        /// Last lines of its output.
        log: String,
    },
    /// A server of ours has no counters: it cannot be accelerated, and to measure it is no use.
    #[error(
        "{server} runs unaccelerated: {}",
        why.as_deref().unwrap_or("no process of it has counters of widelane")
    )]
    Unaccelerated {
        /// The server and subject.
        server: String,
        /// What `widelane run` said.
        why: Option<String>,
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

impl CompareError {
    /// Of a `server` whose processes have no counters.
    fn unaccelerated(server: &Server) -> Self {
        let log = server.log();
        let why = log.lines().find_map(|line| line.strip_prefix("widelane: ")).map(str::to_owned);
        CompareError::Unaccelerated { server: server.name().to_owned(), why }
    }

    /// Whether it left a server in the middle of what was to be measured. One that does not start
    /// has a row that says so, and the run goes on.
    pub fn cuts_short(&self) -> bool {
        use ServerError::{Accounting, Died};
        match self {
            CompareError::Server(error) => matches!(error, Died { .. } | Accounting { .. }),
            CompareError::Identity(_)
            | CompareError::Link(_)
            | CompareError::Unaccelerated { .. } => false,
            CompareError::Accounting(_)
            | CompareError::Load { .. }
            | CompareError::Admitted { .. }
            | CompareError::Turned { .. }
            | CompareError::Replaced { .. }
            | CompareError::Interrupted => true,
        }
    }
}

/// Compares as planned. `results` comes with machine and command filled in and is filled up with
/// the rest, whatever it holds already; what could not be done is returned beside it.
///
/// Call it on a thread that lives as long as the process: servers are tied to it.
pub fn run(
    plan: Plan,
    programs: &Programs,
    results: &mut Results,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Vec<CompareError> {
    observer.planned(plan.rounds_total());
    // Where cores are counted, each target has CPUs of its own.
    let cpus = if plan.cores.is_empty() { Cpus::choose_for(results) } else { Cpus::choose().0 };
    let opened = plan.round_trip.map(|round_trip| Link::open(round_trip, &cpus.client));
    let link = match opened.transpose() {
        Ok(link) => link,
        Err(error) => return vec![error.into()],
    };
    let (before_s, rows_before) = (results.duration_s, results.rows.len());
    let mut run = Run {
        plan: &plan,
        seed: *results.seed.get_or_insert_with(|| fastrand::u32(..)),
        programs,
        cpus,
        link,
        began: Instant::now(),
        before_s,
        results,
        stop,
        observer,
    };
    let failures = run.targets();
    cores::conclude(run.results, rows_before);
    run.flush();
    failures
}

/// Makes sure that the server can have `count` cores, while clients have others.
///
/// # Errors
///
/// Why that cannot be, in words.
pub fn check_cores(count: usize) -> Result<(), String> {
    Cpus::of_cores(count, Threads::First).map(drop)
}

/// Why clients could not do their work, and what helps against it. The server is one that was set
/// up for the run, so that its address and certificate are right.
fn told(why: &LoadError) -> String {
    let mut told = match why {
        LoadError::Failing { count, kind, message, .. } => {
            let remedy = match kind {
                ErrorKind::Timeout => {
                    "this machine is too busy, or too slow for so many at a time: repeat the run \
                     while nothing else works here, or give fewer --connections"
                }
                _ => {
                    "repeat the run; if it fails again, try whether the server does better with \
                     --connections 8, and report what this says"
                }
            };
            format!(
                "{count} connections in a row failed, the last one by {kind} ({message}); {remedy}"
            )
        }
        other => other.to_string(),
    };
    let mut source = std::error::Error::source(why);
    while let Some(cause) = source {
        told.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    told
}

/// What was found out about the servers of a target.
#[derive(Default)]
struct Known {
    /// What the first one can do at most, by version and group.
    capacities: Vec<((TlsVersion, Group), Capacity)>,
    /// Versions in which all of them serve clients with certificates, and those only.
    admit: Vec<TlsVersion>,
}

/// Certificates of clients where a scenario needs them; the servers then demand them.
fn clients(testbed: &mut Testbed, scenarios: &[Scenario]) -> Result<Option<Clients>, CompareError> {
    if !scenarios.iter().any(|scenario| scenario.client_certificates) {
        return Ok(None);
    }
    let clients = Clients::make(testbed.directory())?;
    testbed.set_client_authority(clients.own.authority.clone());
    Ok(Some(clients))
}

struct Run<'a> {
    plan: &'a Plan,
    seed: u32,
    programs: &'a Programs,
    cpus: Cpus,
    /// Between servers and clients, if they are at a distance.
    link: Option<Link>,
    began: Instant,
    /// How long other runs have taken whose results are there already.
    before_s: f64,
    results: &'a mut Results,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer,
}

impl Run<'_> {
    /// Goes through servers and keys; what fails is noted and the next one is tried.
    fn targets(&mut self) -> Vec<CompareError> {
        let mut failures = Vec::new();
        let own = [Vec::new()];
        let keys = if self.plan.identity.is_some() { &own[..] } else { &self.plan.keys };
        let sweep: Vec<Option<usize>> = match &self.plan.cores[..] {
            [] => vec![None],
            cores => cores.iter().copied().map(Some).collect(),
        };
        let visits = keys.iter().flat_map(|keys| sweep.iter().map(move |cores| (keys, *cores)));
        for (kind, subjects) in &self.plan.targets {
            for (keys, cores) in visits.clone() {
                match self.target(*kind, subjects, (cores, keys), &mut failures) {
                    Ok(()) => {}
                    Err(CompareError::Interrupted) => {
                        failures.push(CompareError::Interrupted);
                        return failures;
                    }
                    Err(error) => {
                        self.results.rows.push(failed_row(*kind, None, keys, &error));
                        self.flush();
                        failures.push(error);
                    }
                }
            }
        }
        failures
    }

    /// One server with its certificates: starts all subjects, then goes through its scenarios. It
    /// needs the first subject, their rival; without another one it goes on.
    fn target(
        &mut self,
        kind: ServerKind,
        subjects: &[Subject],
        (cores, keys): (Option<usize>, &[Key]),
        failures: &mut Vec<CompareError>,
    ) -> Result<(), CompareError> {
        let workers = self.plan.workers.of(kind);
        let round_trip = self.plan.round_trip;
        let of_target = |scenario: &Scenario| Scenario { cores, workers, round_trip, ..*scenario };
        let scenarios: Vec<Scenario> = self.plan.scenarios.iter().map(of_target).collect();
        let cpus = match cores.map(|count| Cpus::of_cores(count, self.plan.threads)) {
            None => self.cpus.clone(),
            Some(Ok(cpus)) => {
                let asks = self.plan.threads == Threads::All;
                self.results.note(asks.then(|| cpus.remark(cores.unwrap_or(1))));
                self.results.note(cpus.remark_on_places());
                cpus
            }
            Some(Err(reason)) => {
                for scenario in scenarios {
                    let path = scenario.path(kind, &key_name(keys));
                    self.results.rows.push(unfit_row(path, scenario.metric(), subjects, &reason));
                }
                return Ok(());
            }
        };
        self.results
            .note(self.plan.lane_cpus.as_ref().map(|lane| cpus.remark_on_lane_process(lane)));
        self.results.note(cpus.remark_on_accounting());
        let mut testbed = self.testbed(workers, subjects, &scenarios, &cpus)?;
        let clients = clients(&mut testbed, &scenarios)?;
        let has_pages = |scenario: &Scenario| scenario.work == Work::Page;
        if scenarios.iter().any(|scenario| has_pages(scenario) && scenario.fits(kind).is_ok()) {
            self.observer.began("application");
            testbed.host_application()?;
        }
        let identities = self.identities(&testbed, keys)?;
        self.remark_on_lanes(&identities, &scenarios);
        let mut servers =
            self.start(&mut testbed, kind, subjects, (keys, &identities), failures)?;
        let mut known = Known::default();
        for scenario in scenarios {
            let shape = Shape {
                plan: self.plan,
                identities: &identities,
                clients: clients.as_ref(),
                scenario,
                cpus: cpus.clone(),
                far: self.link.as_ref().map(Link::far),
                rate: None,
                seed: 0,
            };
            match scenario.fits(kind).and_then(|()| scenario.fits_keys(&shape.keys())) {
                Ok(()) => self.fitting(kind, shape, &mut servers, &mut known)?,
                Err(reason) => {
                    let path = scenario.path(kind, &shape.key_name());
                    self.results.rows.push(unfit_row(path, scenario.metric(), subjects, reason));
                }
            }
        }
        Ok(())
    }

    /// Where the servers of a target are started, with everything that its scenarios need.
    fn testbed(
        &mut self,
        workers: Option<usize>,
        subjects: &[Subject],
        scenarios: &[Scenario],
        cpus: &Cpus,
    ) -> Result<Testbed, CompareError> {
        let mut testbed = Testbed::open(self.programs.clone(), &cpus.server, self.plan.port_first)?;
        if let Some(link) = &self.link {
            testbed.listen_on(link.near());
        }
        if let Some(count) = workers {
            testbed.set_workers(count);
        }
        testbed.set_groups(self.plan.groups_with_ml_kem());
        testbed.set_quic(scenarios.iter().any(|scenario| scenario.http3));
        let has_apart = subjects.contains(&Subject::LaneCpus);
        let lent = if has_apart { Subject::LaneCpus } else { Subject::Accelerated };
        testbed.set_lane_cpus(self.plan.lane_cpus.clone(), lent);
        let sizes = self.plan.body_sizes();
        if !sizes.is_empty() {
            testbed.serve_content(&sizes, cpus.client.first().copied())?;
        }
        Ok(testbed)
    }

    /// The certificate that was given, or one for each key.
    fn identities(&self, testbed: &Testbed, keys: &[Key]) -> Result<Vec<Identity>, CompareError> {
        let directory = testbed.directory();
        let identities = match &self.plan.identity {
            Some((certificate, key)) => vec![Identity::load(certificate, key, directory)?],
            None => {
                keys.iter().map(|key| Identity::make(*key, directory)).collect::<Result<_, _>>()?
            }
        };
        Ok(identities)
    }

    /// Starts all subjects. That the first one does not start is an error; others get a row that
    /// says why.
    fn start(
        &mut self,
        testbed: &mut Testbed,
        kind: ServerKind,
        subjects: &[Subject],
        (keys, identities): (&[Key], &[Identity]),
        failures: &mut Vec<CompareError>,
    ) -> Result<Vec<(Subject, Server)>, CompareError> {
        let mut servers = Vec::new();
        for subject in subjects {
            let error = match testbed.start(kind, *subject, identities) {
                Ok(server) => {
                    servers.push((*subject, server));
                    continue;
                }
                Err(error) if servers.is_empty() => return Err(error.into()),
                Err(error) => error,
            };
            // If it was asked for, that was reported before the run began.
            let is_known = matches!(error, ServerError::NotBuilt { .. } | ServerError::NoDevice);
            let error = CompareError::from(error);
            self.results.rows.push(failed_row(kind, Some(*subject), keys, &error));
            if !is_known {
                failures.push(error);
            }
        }
        Ok(servers)
    }

    /// A scenario that these servers can do: the search for a goal, or rounds at a load.
    fn fitting(
        &mut self,
        kind: ServerKind,
        mut shape: Shape<'_>,
        servers: &mut [(Subject, Server)],
        known: &mut Known,
    ) -> Result<(), CompareError> {
        let scenario = shape.scenario;
        if scenario.client_certificates && !known.admit.contains(&scenario.version) {
            for (subject, server) in &mut *servers {
                admission::check(*subject, server, &shape, self.stop)?;
            }
            known.admit.push(scenario.version);
        }
        let mut doubt = None;
        if let Some(percent) = scenario.load {
            let capacity = self.capacity(kind, &shape, &mut servers[0], &mut known.capacities)?;
            shape.rate = Some(capacity.rate * f64::from(percent) / 100.0);
            doubt = capacity
                .doubt
                .map(|doubt| format!("what {} can do at most is not known: {doubt}", servers[0].0));
        }
        shape.seed = seed(self.seed, &scenario.path(kind, &shape.key_name()), 0);
        match self.plan.goal_of(&scenario) {
            Some(goal) => self.search(kind, &shape, servers, &goal),
            None => self.scenario(kind, shape, servers, doubt),
        }
    }

    /// Handshakes per second that the first subject can do, as far as connections that are never
    /// fewer than [`CAPACITY_CONNECTIONS`] tell; found once for each version and group.
    fn capacity(
        &mut self,
        kind: ServerKind,
        shape: &Shape<'_>,
        (subject, server): &mut (Subject, Server),
        known: &mut Vec<((TlsVersion, Group), Capacity)>,
    ) -> Result<Capacity, CompareError> {
        let of = (shape.scenario.version, shape.scenario.group);
        if let Some((_, capacity)) = known.iter().find(|(other, _)| *other == of) {
            return Ok(capacity.clone());
        }
        let scenario = Scenario {
            load: None,
            connections: kind
                .connections_max()
                .map_or(CAPACITY_CONNECTIONS, |(most, _)| most.min(CAPACITY_CONNECTIONS)),
            window: CAPACITY_WINDOW,
            ..shape.scenario
        };
        // What a server can do does not depend on how far away its clients are.
        let scenario = Scenario { round_trip: None, ..scenario };
        let shape = Shape { scenario, cpus: shape.cpus.clone(), far: None, ..*shape };
        let mut windows = Vec::new();
        while windows.len() < CAPACITY_WINDOWS_MOST && sound(&windows).count() < CAPACITY_WINDOWS {
            windows.push(measure(*subject, server, &shape, self.stop)?.measurement);
        }
        let capacity = Capacity::of(&windows);
        let path = scenario.path(kind, &shape.key_name());
        let doubt = capacity.doubt.as_ref();
        let doubt = doubt.map_or(String::new(), |doubt| format!(" That may be too low: {doubt}."));
        self.results.note(format!(
            "{path}: {subject} did {:.0} handshakes per second at most; partial loads are shares \
             of that, by arrivals independent of each other.{doubt}",
            capacity.rate
        ));
        known.push((of, capacity.clone()));
        Ok(capacity)
    }

    /// One scenario: interleaved rounds over all subjects, then its rows, which cannot be relied on
    /// where there is a `doubt` whether it is what it is called.
    fn scenario(
        &mut self,
        kind: ServerKind,
        mut shape: Shape<'_>,
        servers: &mut [(Subject, Server)],
        doubt: Option<String>,
    ) -> Result<(), CompareError> {
        let Scenario { connections, rounds, load, .. } = shape.scenario;
        let path = shape.scenario.path(kind, &shape.key_name());
        self.observer.began(&path);
        let subjects = servers.iter().map(|(subject, _)| *subject);
        let mut record = Record::new(path.clone(), shape.scenario.work, subjects);
        record.doubt = doubt;
        let mut families = families(shape.identities, &shape.scenario).into_iter();
        let has_lanes = families.any(|family| self.plan.with_lanes.contains(&family));
        let mut outcome = Ok(());
        while rounds.go_on(record.pairs(), || record.is_precise(connections)) {
            let round = record.pairs().len() as u32;
            shape.seed = seed(self.seed, &path, round);
            outcome = self.round(&shape, round, servers, &mut record);
            if outcome.is_err() {
                break;
            }
            if record.pairs().len() > rounds.least as usize {
                self.observer.planned(1);
            }
            self.observer
                .round_taken(record.pairs().last().and_then(|pair| pair.reason.as_deref()));
        }
        if !record.pairs().is_empty() {
            // At a partial load it may be that no two operations met.
            let meeting = if load.is_some() || !has_lanes { 0 } else { connections };
            record.write(self.results, meeting);
            self.flush();
        }
        outcome
    }

    /// Says which operations of these handshakes have no lanes, and what is measured then.
    fn remark_on_lanes(&mut self, identities: &[Identity], scenarios: &[Scenario]) {
        let of_scenario = |scenario: &Scenario| families(identities, scenario);
        let mut lacking: Vec<Family> = scenarios.iter().flat_map(of_scenario).collect();
        lacking.retain(|family| !self.plan.with_lanes.contains(family));
        lacking.sort_unstable();
        lacking.dedup();
        self.results.note(remark_without_lanes(&lacking));
    }

    fn round(
        &mut self,
        shape: &Shape<'_>,
        round: u32,
        servers: &mut [(Subject, Server)],
        record: &mut Record,
    ) -> Result<(), CompareError> {
        let mut samples = Vec::new();
        for index in pairs::order(servers.len(), round) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CompareError::Interrupted);
            }
            let (subject, server) = &mut servers[index];
            let sample = measure(*subject, server, shape, self.stop)?;
            // A server counts from its first handshake on.
            let has_served = sample.measurement.operations > 0;
            if subject.is_ours() && has_served && sample.counts.is_none() {
                return Err(CompareError::unaccelerated(server));
            }
            samples.push(sample);
        }
        record.push(round, samples);
        Ok(())
    }

    fn flush(&mut self) {
        self.results.duration_s = self.before_s + self.began.elapsed().as_secs_f64();
        self.observer.ended(self.results);
    }
}

/// The families whose operations a server needs in the handshakes of a scenario; none where it is
/// not about those.
fn families(identities: &[Identity], scenario: &Scenario) -> Vec<Family> {
    if scenario.work != Work::Handshakes {
        return Vec::new();
    }
    let of_keys = identities.iter().map(|identity| identity.key.family());
    let curve = scenario.group.without_ml_kem();
    let of_curve = match curve.unwrap_or(scenario.group) {
        Group::X25519 => Family::X25519,
        _ => Family::NistCurves,
    };
    of_keys.chain([of_curve]).chain(curve.map(|_| Family::MlKem)).collect()
}

/// What is to be said of families that have no lanes; nothing where all have.
fn remark_without_lanes(families: &[Family]) -> Option<String> {
    (!families.is_empty()).then(|| {
        format!(
            "No lanes are open here for {}: these operations run one at a time. What is saved \
             comes from kernels for one operation and from the work around them.",
            Family::listed(families)
        )
    })
}

/// How a server's capacity is found: connections that keep it busy, and the best of some windows
/// that can be relied on, of which more are taken where some cannot.
const CAPACITY_CONNECTIONS: usize = 200;
const CAPACITY_WINDOW: Duration = Duration::from_millis(500);
const CAPACITY_WINDOWS: usize = 3;
const CAPACITY_WINDOWS_MOST: usize = 6;

/// What a server can do at most.
#[derive(Clone, Debug, PartialEq)]
struct Capacity {
    /// Handshakes per second.
    rate: f64,
    /// Why it may be more.
    doubt: Option<String>,
}

impl Capacity {
    /// The best of `windows` that can be relied on; where none can, the best of all, with the
    /// reason.
    fn of(windows: &[Measurement]) -> Self {
        match sound(windows).count() {
            0 => {
                let doubt = windows.iter().find_map(no_capacity);
                Capacity { rate: best(windows.iter()), doubt }
            }
            _ => Capacity { rate: best(sound(windows)), doubt: None },
        }
    }
}

/// The highest rate of some windows.
fn best<'a>(windows: impl Iterator<Item = &'a Measurement>) -> f64 {
    windows.filter_map(rows::rate).fold(0.0, f64::max)
}

/// The windows that can be relied on.
fn sound(windows: &[Measurement]) -> impl Iterator<Item = &Measurement> {
    windows.iter().filter(|window| no_capacity(window).is_none())
}

/// Why what a server did in a window is not what it can do at most, if so.
fn no_capacity(window: &Measurement) -> Option<String> {
    let percent = 100.0 * window.server_share();
    let idle = || format!("{}: the server used {percent:.0} % of its CPUs", window.subject);
    pairs::objection(window).or_else(|| (window.server_share() < BUSY_SHARE).then(idle))
}

/// The row that stands for a server, or one subject of it, that could not be measured. Of a rival
/// it is the comparison with it.
fn failed_row(
    kind: ServerKind,
    subject: Option<Subject>,
    keys: &[Key],
    error: &CompareError,
) -> Row {
    let missing = matches!(
        error,
        CompareError::Server(
            ServerError::NotInstalled(_)
                | ServerError::NotBuilt { .. }
                | ServerError::NoDevice
                | ServerError::NoQuic { .. }
                | ServerError::NoApplication(_)
                | ServerError::Incomplete { .. }
        )
    );
    let key = key_name(keys);
    let reason = first_sentence(&error.to_string());
    let rival = subject.filter(|subject| !subject.is_ours());
    let ours = subject.filter(|subject| subject.is_ours());
    Row {
        scenario: format!("{}/{key}", kind.name()),
        subject: ours.unwrap_or(Subject::Accelerated).name().to_owned(),
        rival: rival.map(|rival| rival.name().to_owned()),
        metric: rows::SERVER_CPU.0.to_owned(),
        unit: rows::SERVER_CPU.1.to_owned(),
        status: if missing { Status::NotApplicable } else { Status::Rejected },
        reason: Some(reason),
        ..Row::default()
    }
}

/// The first line of a message; where it ends in a colon, with what follows.
fn first_sentence(message: &str) -> String {
    let mut lines = message.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    let more = lines.next().filter(|_| first.ends_with(':'));
    more.map_or(first.clone(), |more| format!("{first} {}", more.trim()))
}

/// The row of a scenario that a server cannot go through.
fn unfit_row(
    scenario: String,
    (metric, unit): (&str, &str),
    subjects: &[Subject],
    reason: &str,
) -> Row {
    let ours = subjects.iter().find(|subject| subject.is_ours()).unwrap_or(&Subject::Accelerated);
    Row {
        scenario,
        subject: ours.name().to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        status: Status::NotApplicable,
        reason: Some(reason.to_owned()),
        ..Row::default()
    }
}

/// What the certificates of a server are called together: `rsa2048+ecdsa-p256`; `own-key` if they
/// are not made here.
fn key_name(keys: &[Key]) -> String {
    if keys.is_empty() {
        return "own-key".to_owned();
    }
    keys.iter().map(Key::to_string).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_not_what_the_clients_can_do() {
        let window = |operations, cpu_s, client_cpu_s| Measurement {
            subject: "native".to_owned(),
            wall_s: 0.5,
            operations,
            cpu_s,
            client_cpu_s,
            ..Measurement::default()
        };
        let [busy, idle] = [window(500, 0.49, 0.3), window(700, 0.3, 0.5)];
        let capacity = Capacity::of(&[idle.clone(), busy.clone()]);
        assert_eq!(capacity, Capacity { rate: 1000.0, doubt: None });
        let capacity = Capacity::of(&[idle.clone(), idle]);
        let doubt = capacity.doubt.unwrap();
        assert!(doubt.starts_with("native: the client was the bottleneck (100 %"), "{doubt}");
        assert_eq!(capacity.rate, 1400.0);
        // A limit of this container's CPU stops both.
        let neither = window(600, 0.25, 0.25);
        let capacity = Capacity::of(&[neither.clone(), busy.clone()]);
        assert_eq!(capacity, Capacity { rate: 1000.0, doubt: None });
        let capacity = Capacity::of(&[neither]);
        assert_eq!(capacity.doubt.as_deref(), Some("native: the server used 50 % of its CPUs"));
    }

    #[test]
    fn a_load_that_fails_says_why_and_what_helps() {
        let failing = |kind| CompareError::Load {
            server: "nginx/native".to_owned(),
            why: LoadError::Failing {
                target: ([127, 0, 0, 1], 443).into(),
                count: 400,
                kind,
                message: "it took too long".to_owned(),
            },
        };
        let late = first_sentence(&failing(ErrorKind::Timeout).to_string());
        assert!(
            late.contains("400 connections in a row failed, the last one by timeout"),
            "{late}"
        );
        assert!(late.contains("fewer --connections"), "{late}");
        assert!(failing(ErrorKind::Reset).to_string().contains("repeat the run"));
        let why = LoadError::SetUp(std::io::Error::other("no descriptors"));
        let set_up = CompareError::Load { server: "nginx/native".to_owned(), why }.to_string();
        assert!(set_up.ends_with("cannot set up the load generator: no descriptors"), "{set_up}");
    }

    #[test]
    fn a_server_that_cannot_be_measured_does_not_cut_a_run_short() {
        let missing = CompareError::from(ServerError::NotInstalled("nginx"));
        assert!(!missing.cuts_short());
        let server = "node/accelerated".to_owned();
        let unaccelerated = CompareError::Unaccelerated { server, why: None };
        assert!(!unaccelerated.cuts_short());
        let told = "node/accelerated runs unaccelerated: no process of it has counters of widelane";
        assert_eq!(unaccelerated.to_string(), told);
        let log = String::new();
        let died =
            ServerError::Died { server: "nginx".to_owned(), status: Default::default(), log };
        assert!(CompareError::from(died).cuts_short());
        assert!(CompareError::Interrupted.cuts_short());
    }

    #[test]
    fn families_without_lanes_are_told() {
        assert_eq!(remark_without_lanes(&[]), None);
        let told = remark_without_lanes(&[Family::Rsa, Family::X25519]).unwrap();
        assert!(told.starts_with("No lanes are open here for RSA and X25519: "), "{told}");
    }

    #[test]
    fn a_reason_is_whole_where_its_first_line_is_not() {
        assert_eq!(first_sentence("it ended\nlog\n"), "it ended");
        assert_eq!(first_sentence("it says:\n\n  no key\nmore"), "it says: no key");
        assert_eq!(first_sentence("it says:"), "it says:");
    }
}
