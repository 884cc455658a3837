//! One subject over one window: load on one side, the kernel's accounting on the other.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use widelane_cpu::Topology;
use widelane_loadgen::bulk::{self, DownloadError, Downloads, Haul};
use widelane_loadgen::{Load, LoadError, Window};
use widelane_results::Measurement;

use super::{CompareError, Download, Plan, Scenario, Work};
use crate::accounting::{self, AccountingError};
use crate::pairs;
use crate::server::content::{self, PATTERN};
use crate::server::{Counts, Identity, Key, SERVER_NAME, Server, ServerError, Subject, Usage};

/// Longest time that the client waits for one handshake.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The CPUs of server and client.
pub struct Cpus {
    /// Where servers are pinned.
    pub server: Option<usize>,
    /// Where the client is pinned.
    pub client: Option<usize>,
    /// All CPUs that matter to a window.
    involved: Vec<usize>,
}

impl Cpus {
    /// Picks two CPUs of different cores among those allowed to us, or says why it could not.
    pub fn choose() -> (Self, Option<String>) {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok();
        let cpus: Vec<_> = Topology::detect()
            .cpus
            .into_iter()
            .filter(|cpu| allowed.is_none_or(|set| set.is_set(cpu.index).unwrap_or(false)))
            .collect();
        let Some(server) = cpus.first() else {
            let note = "The CPUs are not known, so nothing was pinned.".to_owned();
            return (Cpus { server: None, client: None, involved: Vec::new() }, Some(note));
        };
        let elsewhere = cpus.iter().find(|cpu| !server.siblings.contains(&cpu.index));
        let (client, note) = match (elsewhere, cpus.get(1)) {
            (Some(cpu), _) => (Some(cpu.index), None),
            (None, Some(sibling)) => (
                Some(sibling.index),
                Some("Server and client shared one core, each on a hardware thread of its own."),
            ),
            (None, None) => (None, Some("Server and client shared the only CPU.")),
        };
        let involved = [Some(server.index), client].into_iter().flatten().collect();
        (Cpus { server: Some(server.index), client, involved }, note.map(str::to_owned))
    }
}

/// What one window is to look like, whatever the subject.
pub struct Shape<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Keys and certificates of the server.
    pub identities: &'a [Identity],
    /// The load.
    pub scenario: Scenario,
}

impl Shape<'_> {
    /// What the certificates of the server are called together.
    pub fn key_name(&self) -> String {
        let keys: Vec<Key> = self.identities.iter().map(|identity| identity.key).collect();
        super::key_name(&keys)
    }
}

/// What one window gave.
pub struct Sample {
    /// Whom it measured.
    pub subject: Subject,
    /// The figures.
    pub measurement: Measurement,
    /// Latencies, nanoseconds, of handshakes.
    pub latency_ns: Option<Histogram<u64>>,
    /// What the provider counted within the window.
    pub counts: Option<Counts>,
    /// Whether encrypt-then-MAC was negotiated, where that is a question.
    pub encrypt_then_mac: Option<bool>,
}

/// What the clients of one window saw, and what was observed at its edges.
struct Driven {
    edges: [Result<Edge, CompareError>; 2],
    /// All that does not come from the kernel's accounting.
    measurement: Measurement,
    latency_ns: Option<Histogram<u64>>,
    encrypt_then_mac: Option<bool>,
}

/// What is observed at an edge of a window.
pub struct Edge {
    usage: Usage,
    ours: Duration,
    busy: Duration,
    counts: Option<Counts>,
}

impl Edge {
    /// Observes it now.
    ///
    /// # Errors
    ///
    /// Those of the kernel's accounting.
    pub fn observe(server: &Server, cpus: &Cpus) -> Result<Self, CompareError> {
        Ok(Edge {
            usage: server.usage()?,
            ours: accounting::process_cpu(Pid::this())?,
            busy: accounting::busy(&cpus.involved)?,
            counts: server.counts(),
        })
    }
}

/// Drives one server through one window.
pub fn measure(
    subject: Subject,
    server: &mut Server,
    shape: &Shape<'_>,
    cpus: &Cpus,
    stop: &AtomicBool,
) -> Result<Sample, CompareError> {
    server.check_alive()?;
    let driven = match shape.scenario.work {
        Work::Handshakes => handshakes(server, shape, cpus, stop)?,
        Work::Download(download) => downloads(server, shape, &download, cpus, stop)?,
    };
    let measured = Measurement { subject: subject.name().to_owned(), ..driven.measurement };
    let (measurement, counts) = account(server, cpus, driven.edges, measured)?;
    let Driven { latency_ns, encrypt_then_mac, .. } = driven;
    Ok(Sample { subject, measurement, latency_ns, counts, encrypt_then_mac })
}

/// Completes what clients measured by the kernel's accounting at the edges of the window, and by
/// what the provider counted in between.
pub fn account(
    server: &mut Server,
    cpus: &Cpus,
    edges: [Result<Edge, CompareError>; 2],
    measured: Measurement,
) -> Result<(Measurement, Option<Counts>), CompareError> {
    let (begin, end) = match edges {
        [Ok(begin), Ok(end)] => (begin, end),
        [Err(error), _] | [_, Err(error)] => return Err(explain(server, error)),
    };
    server.check_alive()?;
    if begin.usage.processes != end.usage.processes {
        return Err(CompareError::Replaced { server: server.name().to_owned(), log: server.log() });
    }

    let cpu = end.usage.cpu.saturating_sub(begin.usage.cpu);
    let ours = cpu + end.ours.saturating_sub(begin.ours);
    let busy = end.busy.saturating_sub(begin.busy);
    let foreign = pairs::foreign(busy, ours, accounting::tick() * cpus.involved.len() as u32);
    let measurement =
        Measurement { cpu_s: cpu.as_secs_f64(), foreign_cpu_s: foreign.as_secs_f64(), ..measured };
    Ok((measurement, end.counts.zip(begin.counts).map(|(end, begin)| end - begin)))
}

fn handshakes(
    server: &mut Server,
    shape: &Shape<'_>,
    cpus: &Cpus,
    stop: &AtomicBool,
) -> Result<Driven, CompareError> {
    let load = Load {
        target: server.address(),
        server_name: SERVER_NAME.to_owned(),
        certificates: shape.identities.iter().map(|identity| identity.leaf.clone()).collect(),
        version: shape.scenario.version,
        group: shape.scenario.group,
        cipher: shape.plan.cipher,
        connections: shape.scenario.connections,
        cpu: cpus.client,
        warm_up: shape.scenario.warm_up,
        window: shape.scenario.window,
        handshakes_max: u64::MAX,
        patience: PATIENCE,
    };
    let window = match widelane_loadgen::run(&load, stop, || Edge::observe(server, cpus)) {
        Ok(window) => window,
        Err(LoadError::Interrupted) => return Err(CompareError::Interrupted),
        Err(source) => {
            server.check_alive()?;
            return Err(CompareError::Load { server: server.name().to_owned(), source });
        }
    };
    let Window { begin, end, wall, client_cpu, tally } = window;
    let percentile = |percent| {
        let value = tally.latency_ns.value_at_percentile(percent);
        (!tally.latency_ns.is_empty()).then_some(value as f64 / 1e3)
    };
    let measurement = Measurement {
        wall_s: wall.as_secs_f64(),
        operations: tally.full,
        resumed: tally.resumed,
        errors: tally.errors.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect(),
        client_cpu_s: client_cpu.as_secs_f64(),
        latency_us_p50: percentile(50.0),
        latency_us_p99: percentile(99.0),
        ..Measurement::default()
    };
    let latency_ns = Some(tally.latency_ns);
    Ok(Driven { edges: [begin, end], measurement, latency_ns, encrypt_then_mac: None })
}

fn downloads(
    server: &mut Server,
    shape: &Shape<'_>,
    download: &Download,
    cpus: &Cpus,
    stop: &AtomicBool,
) -> Result<Driven, CompareError> {
    let path = content::path(download.bytes);
    let downloads = Downloads {
        target: server.address(),
        server_name: SERVER_NAME,
        certificate: &shape.identities[0].leaf,
        suite: download.protection.suite(shape.scenario.version),
        path: &path,
        bytes: download.bytes,
        pattern: &PATTERN,
        connections: shape.scenario.connections,
        cpu: cpus.client,
        warm_up: shape.scenario.warm_up,
        window: shape.scenario.window,
        patience: PATIENCE,
    };
    let haul = match bulk::run(&downloads, stop, || Edge::observe(server, cpus)) {
        Ok(haul) => haul,
        Err(DownloadError::Interrupted) => return Err(CompareError::Interrupted),
        Err(source) => {
            server.check_alive()?;
            return Err(CompareError::Download { server: server.name().to_owned(), source });
        }
    };
    let Haul { begin, end, wall, client_cpu, bytes, finished, errors, encrypt_then_mac } = haul;
    let measurement = Measurement {
        wall_s: wall.as_secs_f64(),
        operations: finished,
        bytes,
        errors,
        client_cpu_s: client_cpu.as_secs_f64(),
        ..Measurement::default()
    };
    Ok(Driven { edges: [begin, end], measurement, latency_ns: None, encrypt_then_mac })
}

/// A server whose processes are gone has died; that is the better story to tell.
fn explain(server: &mut Server, error: CompareError) -> CompareError {
    let gone = matches!(
        &error,
        CompareError::Server(ServerError::Accounting { source: AccountingError::Gone(_), .. })
    );
    match server.check_alive() {
        Err(died) => died.into(),
        Ok(()) if gone => {
            CompareError::Replaced { server: server.name().to_owned(), log: server.log() }
        }
        Ok(()) => error,
    }
}
