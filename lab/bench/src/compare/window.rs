//! One subject over one window: load on one side, the kernel's accounting on the other.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::unistd::Pid;
use widelane_cpu::Topology;
use widelane_cpu::policy::LaneCpus;
use widelane_cpu::topology::Cpu;
use widelane_loadgen::{self as loadgen, Load, LoadError, Pattern, Window};
use widelane_meter::place;
use widelane_results::{Measurement, Results};

use super::admission::Clients;
use super::{CompareError, Download, Plan, Scenario, Work};
use crate::accounting::{self, AccountingError, Busy};
use crate::pairs;
use crate::server::content::{self, PATTERN};
use widelane_host::counters::Counts;

use crate::server::{Identity, Key, Processes, SERVER_NAME, Server, ServerError, Subject, Usage};

/// Longest time that the client waits for one handshake.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The same for a page: an application may take its time.
const PATIENCE_FOR_PAGES: Duration = Duration::from_secs(30);

/// A download that comes more slowly than this is given up, and so is one of many that share a
/// server which sends less than this in all.
const BYTES_PER_SECOND_MIN: u64 = 10_000_000;
const BYTES_PER_SECOND_SHARED_MIN: u64 = 100_000_000;

/// The CPUs of server and client.
#[derive(Clone, Debug, Default)]
pub struct Cpus {
    /// The CPUs of servers, each of which has a worker on each; none if they are not known.
    pub server: Vec<usize>,
    /// The CPUs of clients, which have a thread on each.
    pub client: Vec<usize>,
    /// Other hardware threads of the servers' cores, which neither of them uses.
    pub beside: Vec<usize>,
    /// Whether clients have CPUs on a NUMA node where no server has one.
    pub has_far_clients: bool,
}

/// Which hardware threads of a core are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The first one.
    First,
    /// All that are visible.
    All,
}

impl Cpus {
    /// These of some CPUs.
    fn of(all: &[Cpu], server: Vec<usize>, client: Vec<usize>) -> Self {
        let cores = all.iter().filter(|cpu| server.contains(&cpu.index));
        let mut beside: Vec<usize> = cores.flat_map(|cpu| cpu.siblings.clone()).collect();
        beside.retain(|cpu| !server.contains(cpu) && !client.contains(cpu));
        let nodes = |of: &[usize]| -> BTreeSet<usize> {
            all.iter().filter(|cpu| of.contains(&cpu.index)).map(|cpu| cpu.node).collect()
        };
        let has_far_clients = !nodes(&client).is_subset(&nodes(&server));
        Cpus { server, client, beside, has_far_clients }
    }

    /// The remark on where servers and clients were, where that is known.
    pub fn remark_on_places(&self) -> Option<String> {
        let list = |cpus: &[usize]| LaneCpus::new(cpus.iter().copied());
        let far = match self.has_far_clients {
            true => ", in part on another NUMA node than the servers",
            false => "",
        };
        let (servers, clients) = (list(&self.server), list(&self.client));
        (!servers.is_none() && !clients.is_none())
            .then(|| format!("Servers ran on CPUs {servers}, clients on CPUs {clients}{far}."))
    }

    /// The remark on hardware threads where all of them were wanted of `cores` cores.
    pub fn remark(&self, cores: usize) -> String {
        match self.server.len() / cores.max(1) {
            ..2 => "No core shows more than one hardware thread here: each is one CPU.".to_owned(),
            threads => format!("Each core is {threads} hardware threads, which were all used."),
        }
    }

    /// The remark on a lane process: where it ran, and what else ran there.
    pub fn remark_on_lane_process(&self, lane: &LaneCpus) -> String {
        let meets = |cpus: &[usize]| cpus.iter().any(|cpu| lane.cpus().contains(cpu));
        let beside = match (meets(&self.server), meets(&self.client)) {
            (true, true) => ", which servers and clients used as well",
            (true, false) => ", which servers used as well",
            (false, true) => ", which clients used as well",
            (false, false) => "",
        };
        format!(
            "The RSA signatures of accelerated servers were made by a lane process on CPUs \
             {lane}{beside}; its CPU time is part of theirs."
        )
    }

    /// Picks CPUs as [`choose`](Self::choose) does, and notes in `results` what is to be known of
    /// them.
    pub fn choose_for(results: &mut Results) -> Self {
        let (cpus, note) = Self::choose();
        for note in note.map(str::to_owned).into_iter().chain(cpus.remark_on_places()) {
            results.note(note);
        }
        cpus
    }

    /// Picks two CPUs of different cores among those allowed to us; where it could not, with a note
    /// that says so.
    pub fn choose() -> (Self, Option<&'static str>) {
        Self::two_of(&allowed())
    }

    fn two_of(cpus: &[Cpu]) -> (Self, Option<&'static str>) {
        let (server, elsewhere) = match cpus.first() {
            Some(server) => {
                (Some(server.index), cpus.iter().find(|cpu| !server.siblings.contains(&cpu.index)))
            }
            None => (None, None),
        };
        let (client, note) = match (server, elsewhere, cpus.get(1)) {
            (None, ..) => (None, Some("The CPUs are not known, so nothing was pinned.")),
            (_, Some(cpu), _) => (Some(cpu.index), None),
            (_, None, Some(sibling)) => (
                Some(sibling.index),
                Some("Server and client shared one core, each on a hardware thread of its own."),
            ),
            (_, None, None) => (None, Some("Server and client shared the only CPU.")),
        };
        let [server, client] = [server, client].map(|cpu| cpu.into_iter().collect());
        (Cpus::of(cpus, server, client), note)
    }

    /// `count` cores for the server, and all others for clients: of each core the first CPU, or all
    /// its hardware threads; or why that cannot be.
    pub fn of_cores(count: usize, threads: Threads) -> Result<Self, String> {
        Self::divide(&allowed(), count, threads)
    }

    fn divide(cpus: &[Cpu], count: usize, threads: Threads) -> Result<Self, String> {
        let mut cores: Vec<Vec<usize>> = Vec::new();
        for cpu in cpus {
            match cores.iter_mut().find(|core| cpu.siblings.contains(&core[0])) {
                Some(core) => core.push(cpu.index),
                None => cores.push(vec![cpu.index]),
            }
        }
        match cores.len() {
            ..2 => return Err("a server and its clients take two cores at least".to_owned()),
            all if count >= all => {
                return Err(format!(
                    "{count} cores for the server leave none of {all} for the clients; give at \
                     most {}",
                    all - 1
                ));
            }
            _ => {}
        }
        let (server, client) = cores.split_at(count);
        let used = |cores: &[Vec<usize>]| match threads {
            Threads::First => cores.iter().map(|core| core[0]).collect(),
            Threads::All => cores.concat(),
        };
        Ok(Cpus::of(cpus, used(server), used(client)))
    }

    /// The remark on what others use, where that is not known.
    pub fn remark_on_accounting(&self) -> Option<String> {
        let told = accounting::busy([&self.involved(&BTreeSet::new())]);
        matches!(told, Ok([None])).then(|| {
            "What other processes used of the CPUs is not known: /proc/stat lists others, as it \
             does in some containers (lxcfs)."
                .to_owned()
        })
    }

    /// All that matter to a window of a server whose lane process is on some.
    fn involved(&self, lane: &BTreeSet<usize>) -> BTreeSet<usize> {
        self.server.iter().chain(&self.client).chain(lane).copied().collect()
    }
}

/// The CPUs that we may use, those that are near each other next to each other: some machines
/// number the CPUs of two packages in turn.
fn allowed() -> Vec<Cpu> {
    by_distance(allowed_of(Topology::detect().cpus, &place::allowed()))
}

fn by_distance(mut cpus: Vec<Cpu>) -> Vec<Cpu> {
    let core = |cpu: &Cpu| cpu.siblings.iter().copied().min().unwrap_or(cpu.index);
    cpus.sort_by_key(|cpu| (cpu.package, cpu.node, core(cpu), cpu.index));
    cpus
}

/// Those of `cpus` that are allowed, if it is known which are. Where they are none of those, as in
/// a container whose `/sys` counts CPUs from 0, each is a core of its own.
fn allowed_of(mut cpus: Vec<Cpu>, allowed: &[usize]) -> Vec<Cpu> {
    if allowed.is_empty() {
        return cpus;
    }
    cpus.retain(|cpu| allowed.contains(&cpu.index));
    let alone = |&index: &usize| Cpu { index, siblings: vec![index], package: 0, node: 0 };
    if cpus.is_empty() { allowed.iter().map(alone).collect() } else { cpus }
}

/// What one window is to look like, whatever the subject.
pub struct Shape<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Keys and certificates of the server.
    pub identities: &'a [Identity],
    /// What clients show, where servers demand it.
    pub clients: Option<&'a Clients>,
    /// The load.
    pub scenario: Scenario,
    /// Where server and clients are.
    pub cpus: Cpus,
    /// What clients connect to, if they are at a distance.
    pub far: Option<Ipv4Addr>,
    /// Connections per second, where they arrive by themselves.
    pub rate: Option<f64>,
    /// Decides arrivals, which are the same for all subjects of a round.
    pub seed: u64,
}

impl Shape<'_> {
    /// What the certificates of the server are called together.
    pub fn key_name(&self) -> String {
        super::key_name(&self.keys())
    }

    /// The keys of the server.
    pub fn keys(&self) -> Vec<Key> {
        self.identities.iter().map(|identity| identity.key).collect()
    }
}

/// What one window gave.
pub struct Sample {
    /// What it measured.
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
    processes: Processes,
    usage: Usage,
    ours: Duration,
    /// That of all CPUs involved, of the server's, and of those beside them, as far as known.
    busy: [Option<Busy>; 3],
    throttled: Duration,
    counts: Option<Counts>,
}

impl Edge {
    /// Observes an edge of a window now; at the end with the processes that were there at the
    /// beginning, as to find them would take time in which the server goes on.
    ///
    /// # Errors
    ///
    /// Those of the kernel's accounting.
    pub fn observe(
        server: &Server,
        cpus: &Cpus,
        begin: Option<&Result<Self, CompareError>>,
    ) -> Result<Self, CompareError> {
        let processes = match begin {
            Some(Ok(begin)) => begin.processes.clone(),
            _ => server.processes()?,
        };
        let usage = server.usage(&processes)?;
        let involved = cpus.involved(&processes.lane_cpus);
        let servers: BTreeSet<usize> = cpus.server.iter().copied().collect();
        let beside = cpus.beside.iter().copied().filter(|cpu| !involved.contains(cpu)).collect();
        Ok(Edge {
            processes,
            usage,
            ours: accounting::process_cpu(Pid::this())?,
            busy: accounting::busy([&involved, &servers, &beside])?,
            throttled: accounting::throttled(),
            counts: server.counts(),
        })
    }

    /// Completes what clients measured between this edge and `end`.
    fn until(&self, end: &Edge, cpus: &Cpus, measured: Measurement) -> Measurement {
        let cpu = end.usage.cpu.saturating_sub(self.usage.cpu);
        let lane = end.usage.lane_cpu.saturating_sub(self.usage.lane_cpu);
        let client = end.ours.saturating_sub(self.ours);
        let spent = |set: usize| match (self.busy[set], end.busy[set]) {
            (Some(begin), Some(end)) => end - begin,
            _ => Busy::default(),
        };
        let (all, of_server, beside) = (spent(0), spent(1), spent(2));
        let lane_cpus = &self.processes.lane_cpus;
        let involved = cpus.involved(lane_cpus).len() as u32;
        let foreign = pairs::foreign(all.all, cpu + client, accounting::tick() * involved);
        // Which of its CPUs a lane process used more, the kernel does not tell.
        let apart = lane_cpus.iter().filter(|cpu| !cpus.server.contains(cpu)).count();
        let apart = apart as f64 / lane_cpus.len().max(1) as f64;
        // Clients without a CPU of their own are on the server's.
        let guests = if cpus.client.is_empty() { client } else { Duration::ZERO };
        let foreign_server = pairs::foreign(
            of_server.all,
            cpu + guests - if apart == 1.0 { lane.min(cpu) } else { Duration::ZERO },
            accounting::tick() * cpus.server.len() as u32,
        );
        Measurement {
            cpu_s: cpu.as_secs_f64(),
            lane_cpu_s: lane.as_secs_f64() * apart,
            foreign_server_cpu_s: foreign_server.as_secs_f64(),
            stolen_server_cpu_s: of_server.stolen.min(foreign_server).as_secs_f64(),
            client_cpu_s: client.as_secs_f64(),
            foreign_cpu_s: foreign.as_secs_f64(),
            stolen_cpu_s: all.stolen.min(foreign).as_secs_f64(),
            sibling_cpu_s: pairs::foreign(
                beside.all,
                beside.stolen,
                accounting::tick() * cpus.beside.len() as u32,
            )
            .as_secs_f64(),
            throttled_s: end.throttled.saturating_sub(self.throttled).as_secs_f64(),
            server_cpus: cpus.server.len() as u32,
            client_cpus: cpus.client.len() as u32,
            lane_cpus: involved - cpus.involved(&BTreeSet::new()).len() as u32,
            ..measured
        }
    }
}

/// Drives one server through one window.
pub fn measure(
    subject: Subject,
    server: &mut Server,
    shape: &Shape<'_>,
    stop: &AtomicBool,
) -> Result<Sample, CompareError> {
    server.check_alive()?;
    let driven = drive(subject, server, shape, stop)?;
    let measured = Measurement { subject: subject.name().to_owned(), ..driven.measurement };
    let (measurement, counts) = account(server, &shape.cpus, driven.edges, measured)?;
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
    let (begin, mut end) = match edges {
        [Ok(begin), Ok(end)] => (begin, end),
        [Err(error), _] | [_, Err(error)] => return Err(explain(server, error)),
    };
    server.check_alive()?;
    let mut more = server.processes().map_err(|error| explain(server, error.into()))?;
    check_replaced(server, &begin.processes, &more)?;
    // What was started within the window has its whole CPU time from there.
    more.all.retain(|pid| !begin.processes.all.contains(pid));
    let more = server.usage(&more)?;
    end.usage.cpu += more.cpu;
    end.usage.lane_cpu += more.lane_cpu;

    let measurement = begin.until(&end, cpus, measured);
    // A process that had counted nothing before the window has no counters before it.
    let counts = end.counts.map(|end| end - begin.counts.unwrap_or_default());
    Ok((measurement, counts))
}

/// Makes sure that none of the processes has ended that a server had `before`; there may be more
/// `now`.
pub fn check_replaced(
    server: &Server,
    before: &Processes,
    now: &Processes,
) -> Result<(), CompareError> {
    if before.all.is_subset(&now.all) {
        return Ok(());
    }
    Err(CompareError::Replaced { server: server.name().to_owned(), log: server.log() })
}

/// The seed of a round, by that of the run: FNV-1a, which stays the same. Threads count upwards
/// from it.
pub fn seed(run: u32, scenario: &str, round: u32) -> u64 {
    let bytes = run.to_le_bytes().into_iter().chain(scenario.bytes()).chain(round.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// What clients are to do in a scenario.
pub fn load(subject: Subject, server: &Server, shape: &Shape<'_>) -> Load {
    let cpus = &shape.cpus;
    let Scenario { version, connections, warm_up, window, .. } = shape.scenario;
    let fits = |identity: &&Identity| shape.scenario.fits_keys(&[identity.key]).is_ok();
    let fitting = shape.identities.iter().filter(fits);
    let certificates: Vec<_> = fitting.map(|identity| identity.leaf.clone()).collect();
    let address = server.address();
    let target = shape.far.map_or(address, |far| SocketAddr::new(far.into(), address.port()));
    let handshakes = Load {
        target,
        server_name: SERVER_NAME.to_owned(),
        certificates: certificates.clone(),
        version,
        protocol: shape.scenario.http3.then(|| "h3".to_owned()),
        shown: shape
            .clients
            .filter(|_| shape.scenario.client_certificates)
            .map(|clients| clients.own.shown.clone()),
        group: shape.scenario.group_of(subject),
        cipher: shape.plan.cipher,
        work: loadgen::Work::Handshake,
        connections,
        rate: shape.rate,
        seed: shape.seed,
        cpus: cpus.client.clone(),
        warm_up,
        window,
        handshakes_max: u64::MAX,
        patience: PATIENCE,
    };
    match shape.scenario.work {
        Work::Handshakes => handshakes,
        Work::Download(Download { cipher, bytes }) => Load {
            certificates: certificates.into_iter().take(1).collect(),
            cipher,
            work: loadgen::Work::Requests {
                path: content::path(bytes),
                count: 1,
                body_bytes: Some(bytes),
                pattern: Pattern::of(&PATTERN),
            },
            patience: PATIENCE + patience_for(bytes, connections as u64),
            ..handshakes
        },
        Work::Page => Load {
            work: loadgen::Work::Requests {
                path: "/".to_owned(),
                count: 1,
                body_bytes: None,
                pattern: None,
            },
            patience: PATIENCE_FOR_PAGES,
            ..handshakes
        },
    }
}

/// How long a download may take that is one of `connections` at a time.
fn patience_for(bytes: u64, connections: u64) -> Duration {
    let alone = bytes / BYTES_PER_SECOND_MIN;
    let shared = bytes.saturating_mul(connections) / BYTES_PER_SECOND_SHARED_MIN;
    Duration::from_secs(alone.max(shared))
}

/// Has clients do the work of a scenario.
fn drive(
    subject: Subject,
    server: &mut Server,
    shape: &Shape<'_>,
    stop: &AtomicBool,
) -> Result<Driven, CompareError> {
    let (load, cpus) = (load(subject, server, shape), &shape.cpus);
    let window = loadgen::run(&load, stop, |begin| Edge::observe(server, cpus, begin));
    let window = window.map_err(|error| failed(server, error))?;
    let (wall, measurement) = (window.wall, seen(&window));
    let Window { begin, end, tally, .. } = window;
    let edges = [begin, end];
    Ok(match shape.scenario.work {
        Work::Handshakes => {
            let percentile = |percent| {
                let value = tally.latency_ns.value_at_percentile(percent);
                (!tally.latency_ns.is_empty()).then_some(value as f64 / 1e3)
            };
            let due = shape.rate.map(|rate| rate * wall.as_secs_f64());
            let measurement = Measurement {
                operations: tally.full,
                arrivals_due: due,
                latency_us_p50: percentile(50.0),
                latency_us_p99: percentile(99.0),
                ..measurement
            };
            let latency_ns = Some(tally.latency_ns);
            Driven { edges, measurement, latency_ns, encrypt_then_mac: None }
        }
        Work::Download(download) => {
            let is_told = download.cipher.has_mac() && tally.full > 0;
            let encrypt_then_mac = is_told.then_some(tally.encrypt_then_mac > 0);
            let measurement = Measurement { operations: tally.answers, ..measurement };
            Driven { edges, measurement, latency_ns: None, encrypt_then_mac }
        }
        Work::Page => {
            let measurement = Measurement { operations: tally.answers, ..measurement };
            Driven { edges, measurement, latency_ns: None, encrypt_then_mac: None }
        }
    })
}

/// Why a load on `server` failed; that it has died is the better story to tell.
pub fn failed(server: &mut Server, error: LoadError) -> CompareError {
    match (error, server.check_alive()) {
        (LoadError::Interrupted, _) => CompareError::Interrupted,
        (_, Err(died)) => died.into(),
        (why, Ok(())) => CompareError::Load { server: server.name().to_owned(), why },
    }
}

/// What clients saw within a window, but for the number of operations.
pub fn seen<T>(window: &Window<T>) -> Measurement {
    let Window { wall, client_cpu_most, tally, .. } = window;
    Measurement {
        wall_s: wall.as_secs_f64(),
        client_thread_cpu_s: client_cpu_most.as_secs_f64(),
        bytes: tally.body_bytes,
        resumed: tally.resumed,
        errors: tally.errors.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect(),
        ..Measurement::default()
    }
}

/// A server whose processes are gone has died; that is the better story to tell.
pub fn explain(server: &mut Server, error: CompareError) -> CompareError {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(index: usize, siblings: &[usize]) -> Cpu {
        Cpu { index, siblings: siblings.to_vec(), package: 0, node: 0 }
    }

    #[test]
    fn a_core_is_taken_whole_or_by_its_first_thread() {
        let cpus: Vec<Cpu> = (0..6).map(|index| cpu(index, &[index % 3, index % 3 + 3])).collect();
        let of = |threads| Cpus::divide(&cpus, 2, threads).unwrap();
        let (first, all) = (of(Threads::First), of(Threads::All));
        assert_eq!((first.server.as_slice(), first.client.as_slice()), (&[0, 1][..], &[2][..]));
        assert_eq!(
            (all.server.as_slice(), all.client.as_slice()),
            (&[0, 3, 1, 4][..], &[2, 5][..])
        );
        assert!(all.remark(2).contains("2 hardware threads"));
        assert_eq!((first.beside, all.beside), (vec![3, 4], vec![]));
        assert!(Cpus::divide(&cpus, 3, Threads::All).unwrap_err().contains("none of 3"));
    }

    /// What is said of a second in which a server on CPU 0 and its lane process used so much, while
    /// clients on CPU 1 used all of that, and others `foreign` seconds of the clients' CPU.
    fn objection(lane_cpus: &[usize], [server, lane, client, foreign]: [f64; 4]) -> Option<String> {
        let lane_cpus: BTreeSet<usize> = lane_cpus.iter().copied().collect();
        let usage = |cpu: f64, lane: f64| Usage {
            cpu: Duration::from_secs_f64(cpu),
            lane_cpu: Duration::from_secs_f64(lane),
        };
        let all = |all: Duration| Busy { all, stolen: Duration::ZERO };
        let edge = |usage: Usage, client: f64, foreign: f64| Edge {
            busy: [
                Some(all(usage.cpu + Duration::from_secs_f64(client + foreign))),
                Some(all(match lane_cpus.contains(&0) {
                    true => usage.cpu,
                    false => usage.cpu - usage.lane_cpu,
                })),
                None,
            ],
            throttled: Duration::ZERO,
            processes: Processes { lane_cpus: lane_cpus.clone(), ..Processes::default() },
            usage,
            ours: Duration::from_secs_f64(client),
            counts: None,
        };
        let (begin, end) = (usage(0.0, 0.0), usage(server + lane, lane));
        let cpus = Cpus { server: vec![0], client: vec![1], ..Cpus::default() };
        assert!(cpus.involved(&lane_cpus).is_superset(&lane_cpus));
        let measured = Measurement { wall_s: 1.0, operations: 1, ..Measurement::default() };
        let (begin, end) = (edge(begin, 0.0, 0.0), edge(end, client, foreign));
        pairs::objection(&begin.until(&end, &cpus, measured))
    }

    #[test]
    fn the_time_of_a_lane_process_does_not_make_an_idle_server_look_busy() {
        // Half of CPU 0 and half of CPU 2 are not all of CPU 0.
        let told = objection(&[2], [0.5, 0.5, 0.99, 0.0]).unwrap();
        assert!(told.contains("the client was the bottleneck (99 %"), "{told}");
        assert!(told.ends_with("the server 50 %)"), "{told}");
        assert_eq!(objection(&[2], [0.95, 0.5, 0.99, 0.0]), None);
        // On the clients' CPU it takes from what those have.
        let told = objection(&[1], [0.5, 0.4, 0.59, 0.0]).unwrap();
        assert!(told.contains("the client was the bottleneck (99 %"), "{told}");
        // On the server's it is part of the server.
        assert_eq!(objection(&[0], [0.55, 0.4, 0.99, 0.0]), None);
        // On one of the server's and one of its own, half of it is.
        assert_eq!(objection(&[0, 2], [0.7, 0.5, 0.99, 0.0]), None);
        assert!(objection(&[2], [0.7, 0.5, 0.99, 0.0]).is_some());
    }

    #[test]
    fn who_else_uses_the_cpu_of_a_lane_process_is_noticed() {
        // One CPU in two may lend a tenth, and so may one and a half of three.
        assert_eq!(objection(&[2], [0.9, 0.5, 0.5, 0.16]), None);
        let told = objection(&[2], [0.9, 0.5, 0.5, 0.25]).unwrap();
        assert!(told.contains("other processes used"), "{told}");
    }

    #[test]
    fn allowed_cpus_that_are_not_listed_are_cores_of_their_own() {
        let listed = || vec![cpu(0, &[0, 1]), cpu(1, &[0, 1])];
        assert_eq!(allowed_of(listed(), &[1]), [cpu(1, &[0, 1])]);
        assert_eq!(allowed_of(listed(), &[]), listed());
        assert_eq!(allowed_of(listed(), &[24, 26]), [cpu(24, &[24]), cpu(26, &[26])]);
    }

    #[test]
    fn no_two_threads_of_any_rounds_have_the_same_arrivals() {
        let mut seeds = BTreeSet::new();
        for run in 0..8 {
            for scenario in ["nginx/load30", "nginx/load60", "haproxy/load30"] {
                for round in 0..16 {
                    let first = seed(run, scenario, round);
                    seeds.extend((0..256).map(|thread| first.wrapping_add(thread)));
                }
            }
        }
        assert_eq!(seeds.len(), 8 * 3 * 16 * 256);
    }

    #[test]
    fn servers_and_clients_are_on_one_node_where_cpus_are_numbered_in_turn() {
        let place =
            |index: usize| Cpu { node: index % 2, package: index % 2, ..cpu(index, &[index]) };
        let cpus = by_distance((0..8).map(place).collect());
        let (two, _) = Cpus::two_of(&cpus);
        assert_eq!((two.server.as_slice(), two.client.as_slice()), (&[0][..], &[2][..]));
        assert_eq!(two.remark_on_places().unwrap(), "Servers ran on CPUs 0, clients on CPUs 2.");
        let many = Cpus::divide(&cpus, 3, Threads::First).unwrap();
        assert_eq!((many.server.as_slice(), many.client.len()), (&[0, 2, 4][..], 5));
        let told = many.remark_on_places().unwrap();
        assert!(told.ends_with(", in part on another NUMA node than the servers."), "{told}");
        // Two threads of a core stand next to each other, and the order is that of cores.
        let threads = [[0, 2], [1, 3], [0, 2], [1, 3]];
        let threads = threads.iter().enumerate().map(|(index, core)| cpu(index, core));
        let order: Vec<usize> =
            by_distance(threads.collect()).iter().map(|cpu| cpu.index).collect();
        assert_eq!(order, [0, 2, 1, 3]);
    }

    #[test]
    fn a_core_of_one_thread_is_told() {
        let cpus = [cpu(0, &[0]), cpu(1, &[1])];
        let all = Cpus::divide(&cpus, 1, Threads::All).unwrap();
        assert_eq!((all.server.as_slice(), all.client.as_slice()), (&[0][..], &[1][..]));
        assert!(all.remark(1).starts_with("No core shows more than one hardware thread"));
    }
}
