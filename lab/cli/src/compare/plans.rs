//! From the command line to scenarios: what is measured by default, and with `--quick`.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use widelane_bench::compare::{Download, Plan, Scenario, Threads, Work, Workers};
use widelane_bench::machine::Family;
use widelane_bench::pairs::Rounds;
use widelane_bench::programs::{Built, Programs};
use widelane_bench::server::{Identity, Key, ServerError, ServerKind, Subject};
use widelane_bench::{groups, mixed};
use widelane_cli::output;
use widelane_cpu::{Policy, Vaes256};
use widelane_host::qat;
use widelane_loadgen::{Cipher, Goal, Group, TlsVersion};

use super::values::{has_twins, refuse_twins};
use super::{Args, Engine, Keys, Server, Workload};
use crate::rival;

/// Rounds by default, and with `--quick`. A 95 % interval needs six accepted ones.
const ROUNDS: u32 = 20;
const ROUNDS_QUICK: u32 = 10;

/// The same of downloads, whose cost varies less.
const ROUNDS_BULK: u32 = 12;
const ROUNDS_BULK_QUICK: u32 = 6;

/// The same of mixed requests, and what they are: shares of the published experiment, on
/// connections that are used again, as browsers do.
const ROUNDS_MIXED: u32 = 10;
const ROUNDS_MIXED_QUICK: u32 = 7;
const SHARES_MIXED: [u32; 5] = [0, 10, 20, 50, 100];
const CONNECTIONS_MIXED: u16 = 16;
const REQUESTS_MIXED: u32 = 10;

/// The same of pages, of which an application makes few per second.
const ROUNDS_PAGES: u32 = 10;
const ROUNDS_PAGES_QUICK: u32 = 7;
const CONNECTIONS_PAGES: u16 = 8;
const WARM_UP_PAGES: Duration = Duration::from_millis(500);
const WINDOW_PAGES: Duration = Duration::from_secs(3);
const WINDOW_PAGES_QUICK: Duration = Duration::from_millis(700);

/// Lengths of downloads: those of the published experiments, and one of them.
const SIZES: [u64; 6] = [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30];
const SIZES_QUICK: [u64; 1] = [1 << 24];

/// Ciphers of downloads by default: those that clients use today.
const CIPHERS_UNASKED: [Cipher; 3] =
    [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Chacha20Poly1305];

/// Connections of downloads: enough to keep a server busy.
const CONNECTIONS_BULK: [u16; 1] = [4];
/// The most that a search under a latency limit may have.
const CONNECTIONS_LIMITED: [u16; 1] = [1000];
const CONNECTIONS: [u16; 5] = [1, 8, 64, 200, 256];
const CONNECTIONS_QUICK: [u16; 2] = [1, COST_CONNECTIONS];

/// Time under load before a window: for many connections, for one, and with `--quick`.
const WARM_UP: Duration = Duration::from_millis(200);
const WARM_UP_ALONE: Duration = Duration::from_millis(20);
const WARM_UP_QUICK: Duration = Duration::from_millis(50);

/// Window lengths of `--quick`: where latency is the question, and where CPU time is.
const QUICK_LATENCY: Duration = Duration::from_millis(100);
const QUICK_COST: Duration = Duration::from_millis(300);

/// At one connection the question is a small difference of latency, which the drift of the clock
/// would hide: short windows, close together, and many of them.
const ALONE_WINDOW_DIVISOR: u32 = 5;
const ALONE_WINDOW_MIN: Duration = Duration::from_millis(100);
const ALONE_ROUNDS_LEAST: u32 = 2;
const ALONE_ROUNDS_MOST: u32 = 5;

/// Partial loads of `--quick`, in percent of native's capacity; their windows and rounds, and those
/// of others, as a multiple of `--seconds`; and how many connections there are at most.
const LOADS_QUICK: [u8; 2] = [30, 60];
const WINDOW_LOAD_QUICK: Duration = Duration::from_millis(400);
const ROUNDS_LOAD_QUICK: u32 = 6;
const WINDOW_LOAD_FACTOR: u32 = 4;
const ROUNDS_LOAD: u32 = 8;
/// Round trips of a handshake at most: one of TCP, and two of TLS.
const ROUND_TRIPS: u32 = 3;
const CONNECTIONS_LOAD: usize = 2_000;

/// Connections at which CPU time is the question.
const COST_CONNECTIONS: u16 = 200;

impl Args {
    /// What a comparison goes through.
    pub(super) fn plan(
        &self,
        scenarios: Vec<Scenario>,
        programs: &Programs,
        with_lanes: &[Family],
    ) -> Plan {
        Plan {
            targets: self.targets(programs),
            keys: self.keys(&scenarios),
            identity: self.certificate.clone().zip(self.private_key.clone()),
            scenarios,
            cores: self.cores(),
            workers: self.workers(),
            threads: if self.server_threads { Threads::All } else { Threads::First },
            goal: self.latency_max.map(|latency_max| Goal { latency_max, percentile: 100.0 }),
            cipher: self.cipher.unwrap_or_default(),
            round_trip: self.rtt,
            port_first: self.port,
            lane_cpus: self.lane_cpus.clone(),
            with_lanes: with_lanes.to_vec(),
        }
    }

    /// The keys of each server, where no certificate was given. Quick runs have those of most
    /// servers, that of newer ones first.
    fn keys(&self, scenarios: &[Scenario]) -> Vec<Vec<Key>> {
        let of_handshakes = scenarios.iter().all(|scenario| scenario.work == Work::Handshakes);
        match &self.key[..] {
            [] if self.quick && of_handshakes => vec![vec![Key::EcdsaP256], vec![Key::Rsa(2048)]],
            [] => vec![vec![Key::Rsa(2048)]],
            named => named.iter().map(|Keys(keys)| keys.clone()).collect(),
        }
    }

    /// Numbers of cores to go through; none where that is no question.
    fn cores(&self) -> Vec<usize> {
        let counted = self.server_cores.iter().copied().map(usize::from);
        let one = (self.server_threads && self.server_cores.is_empty()).then_some(1);
        counted.chain(one).collect()
    }

    fn workers(&self) -> Workers {
        let [nginx, haproxy] = [self.workers, self.threads].map(|count| count.map(usize::from));
        Workers { nginx, haproxy }
    }

    /// The accelerated subjects, one for each engine or limit.
    fn accelerated(&self) -> Vec<Subject> {
        if !self.wait_max.is_empty() {
            return self.wait_max.iter().copied().map(Subject::Waiting).collect();
        }
        let subject = |engine: &Engine| match engine {
            Engine::InLoop => Subject::Accelerated,
            Engine::LaneCpus => Subject::LaneCpus,
            Engine::Qat => Subject::Qat,
            Engine::Auto => Subject::Auto,
        };
        match self.engine.as_slice() {
            [] => vec![Subject::Accelerated],
            engines => engines.iter().map(subject).collect(),
        }
    }

    /// Refuses what is named twice: it would be measured twice under one name.
    pub(super) fn check_twins(&self) -> anyhow::Result<()> {
        refuse_twins(&[
            ("--key", has_twins(&self.key)),
            ("--sizes", has_twins(&self.sizes)),
            ("--ciphers", has_twins(&self.ciphers)),
            ("--tls", has_twins(&self.tls)),
            ("--connections", has_twins(&self.connections)),
            ("--load", has_twins(&self.load)),
            ("--server-cores", has_twins(&self.server_cores)),
            ("--engine", has_twins(&self.engine)),
            ("--wait-max", has_twins(&self.wait_max)),
            ("--group", has_twins(&self.group)),
        ])
    }

    /// Refuses engines and limits that lack their CPUs.
    pub(super) fn check_engines(&self) -> anyhow::Result<()> {
        if !self.wait_max.is_empty() && self.lane_cpus.is_some() {
            bail!("--wait-max and --lane-cpus are compared one by one; leave one of them out");
        }
        let wants_cpus = self.engine.contains(&Engine::LaneCpus);
        if wants_cpus && self.lane_cpus.is_none() {
            bail!("--engine lane-cpus needs CPUs set aside; add --lane-cpus LIST");
        }
        if !wants_cpus && !self.engine.is_empty() && self.lane_cpus.is_some() {
            bail!("--lane-cpus is of no use here; add lane-cpus to --engine, or leave it out");
        }
        if self.engine.contains(&Engine::Qat) && qat::devices() == 0 {
            bail!("{}; leave qat out of --engine", ServerError::NoDevice);
        }
        Ok(())
    }

    /// Refuses servers that are not installed or cannot do what is asked for.
    pub(super) fn check_servers(&self, programs: &Programs) -> anyhow::Result<()> {
        let targets = self.targets(programs);
        let mut objections =
            targets.iter().filter_map(|(kind, _)| programs.objection(*kind, self.http3));
        match objections.next() {
            None => Ok(()),
            Some(objection) if targets.len() == 1 => Err(objection.into()),
            Some(objection) => bail!("{objection}; or name the other servers alone by --server"),
        }
    }

    /// Refuses servers that demand no certificates of clients, and work that is no handshake, where
    /// clients are to show some.
    pub(super) fn check_client_certificates(&self, programs: &Programs) -> anyhow::Result<()> {
        if !self.client_certificates {
            return Ok(());
        }
        if self.workload.iter().any(|workload| *workload != Workload::Handshake) {
            bail!(
                "--client-certificates is about handshakes; leave other workloads out, or measure \
                 them in a run of their own"
            );
        }
        let targets = self.targets(programs);
        let unable = targets.iter().find(|(kind, _)| !kind.demands_certificates());
        match unable {
            Some((kind, _)) => Err(ServerError::NoDemand(kind.name()).into()),
            None => Ok(()),
        }
    }

    /// What clients show, where they show something.
    pub(super) fn remark_on_client_certificates(&self) -> Option<String> {
        let remark = "Every client showed a certificate on P-256 with that of the intermediate \
                      authority which had issued it, and servers, which knew the authority above \
                      alone, demanded and verified them.";
        self.client_certificates.then(|| remark.to_owned())
    }

    /// Refuses a certificate or a key that cannot be read, or holds none.
    pub(super) fn check_identity(&self) -> anyhow::Result<()> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.private_key) else {
            return Ok(());
        };
        for (flag, path) in [("--certificate", certificate), ("--private-key", key)] {
            if let Err(error) = fs::read(path) {
                let why = match error.kind() {
                    io::ErrorKind::NotFound => "no such file".to_owned(),
                    io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                    _ => error.to_string(),
                };
                bail!("cannot read {flag} {}: {why}", path.display());
            }
        }
        let place = tempfile::tempdir().context("cannot use the temporary directory")?;
        Identity::load(certificate, key, place.path())?;
        Ok(())
    }

    /// Refuses to count what the servers do not have.
    pub(super) fn check_workers(&self, programs: &Programs) -> anyhow::Result<()> {
        let targets = self.targets(programs);
        let has = |kind| targets.iter().any(|(other, _)| *other == kind);
        if self.workers.is_some() && !has(ServerKind::Nginx) {
            bail!("--workers counts nginx's; say --server nginx, or --threads for HAProxy");
        }
        if self.threads.is_some() && !has(ServerKind::Haproxy) {
            bail!("--threads counts HAProxy's; say --server haproxy, or --workers for nginx");
        }
        Ok(())
    }

    /// Refuses groups that no server could be compared with, or that no version has.
    pub(super) fn check_groups(&self) -> anyhow::Result<()> {
        let openssl = groups::openssl();
        let asked = |group: &Group| match (self.native_group, group.without_ml_kem()) {
            (Some(native), Some(_)) => native,
            _ => *group,
        };
        if let Some(lacking) = self.group.iter().map(asked).find(|group| !groups::is_native(*group))
        {
            bail!(
                "{openssl} has no {} without widelane, so that there is no native server to \
                 compare with; --native-group x25519 compares with one that uses X25519",
                lacking.openssl_name()
            );
        }
        match self.tls.iter().find(|version| self.groups(**version).is_empty()) {
            Some(version) => bail!(
                "TLS {} has none of the groups of --group; leave it out of --tls, or name x25519 \
                 beside them",
                version.name()
            ),
            None => Ok(()),
        }
    }

    /// Which group it is, if none was named, or if native uses another.
    pub(super) fn remark_on_groups(&self) -> Option<String> {
        match (&self.group[..], self.native_group) {
            ([], _) => Some(format!(
                "Key exchange in TLS 1.3: {}, which {} prefers; --group names others.",
                groups::preferred(TlsVersion::Tls13).openssl_name(),
                groups::openssl()
            )),
            (_, Some(native)) => Some(format!(
                "The native server used {}, the accelerated one a group with ML-KEM: these ratios \
                 compare two key exchanges, of which one does more.",
                native.openssl_name()
            )),
            _ => None,
        }
    }

    /// The groups to go through with a version.
    fn groups(&self, version: TlsVersion) -> Vec<Group> {
        let has = |group: &Group| version == TlsVersion::Tls13 || group.without_ml_kem().is_none();
        match &self.group[..] {
            [] => vec![groups::preferred(version)],
            named => named.iter().copied().filter(has).collect(),
        }
    }

    /// The group where only one is used.
    fn group(&self, version: TlsVersion) -> Group {
        self.groups(version).first().copied().unwrap_or_default()
    }

    /// The group of the native server, if it is another than `group`.
    fn native_group(&self, group: Group) -> Option<Group> {
        self.native_group.filter(|native| group.without_ml_kem().is_some() && *native != group)
    }

    /// Servers and subjects; the first subject is the rival of the others.
    fn targets(&self, programs: &Programs) -> Vec<(ServerKind, Vec<Subject>)> {
        let mut asynchronous = false;
        let mut kinds = Vec::new();
        for server in &self.server {
            match server {
                Server::All => {
                    kinds.extend([ServerKind::Nginx, ServerKind::Haproxy]);
                    asynchronous = true;
                }
                Server::Embedded => kinds.push(ServerKind::Embedded),
                Server::Haproxy => kinds.push(ServerKind::Haproxy),
                Server::HaproxyAsync => {
                    kinds.push(ServerKind::Haproxy);
                    asynchronous = true;
                }
                Server::Listed(recipe) => kinds.push(ServerKind::Listed(recipe)),
                Server::Nginx => kinds.push(ServerKind::Nginx),
                Server::Openssl => kinds.push(ServerKind::SServer),
            }
        }
        if kinds.is_empty() {
            kinds = programs.servers();
            asynchronous = !self.quick;
            let able: Vec<ServerKind> = kinds
                .iter()
                .copied()
                .filter(|kind| programs.objection(*kind, self.http3).is_none())
                .collect();
            // Where none can, the first says why.
            kinds = if able.is_empty() { kinds } else { able };
        }
        let mut targets: Vec<(ServerKind, Vec<Subject>)> = Vec::new();
        for kind in kinds {
            if targets.iter().all(|(known, _)| *known != kind) {
                let mut subjects = vec![Subject::Native];
                subjects.extend(self.masked.then_some(Subject::NativeMasked));
                match kind {
                    ServerKind::SServer => subjects.push(Subject::Configured),
                    _ => subjects.extend(self.accelerated()),
                }
                if asynchronous && kind == ServerKind::Haproxy {
                    subjects.push(Subject::Async);
                }
                if self.rival.is_some() && kind == ServerKind::Haproxy {
                    subjects.push(Subject::HaproxyAwsLc);
                }
                targets.push((kind, subjects));
            }
        }
        targets
    }

    /// Looks for the rival, and if it is missing says at once how to build it, rather than at the
    /// end of the comparison.
    pub(super) fn find_haproxy_aws_lc(&self, programs: &mut Programs) -> anyhow::Result<()> {
        let targets = self.targets(programs);
        if targets.iter().all(|(kind, _)| *kind != ServerKind::Haproxy) {
            bail!("--rival haproxy-aws-lc is compared with HAProxy; say --server haproxy");
        }
        let name = Subject::HaproxyAwsLc.name();
        programs.haproxy_aws_lc = rival::find_built(name);
        if let Built::Missing(reason) = programs.haproxy_aws_lc.clone() {
            output::complain(&ServerError::NotBuilt { name, reason }.into());
        }
        Ok(())
    }

    fn or_usual<T: Copy>(given: &[T], usual: &[T]) -> Vec<T> {
        if given.is_empty() { usual.to_vec() } else { given.to_vec() }
    }

    /// Downloads by cipher and length.
    pub(super) fn downloads(&self) -> Vec<Scenario> {
        let short = self.quick || self.workload.is_empty();
        let sizes: &[u64] = if short { &SIZES_QUICK } else { &SIZES };
        let usual = if self.quick { ROUNDS_BULK_QUICK } else { ROUNDS_BULK };
        let rounds = Rounds::with_spare(self.pairs.unwrap_or(usual));
        let usual_connections = match self.latency_max {
            Some(_) => &CONNECTIONS_LIMITED,
            None => &CONNECTIONS_BULK,
        };
        let mut scenarios = Vec::new();
        let usual_ciphers: &[Cipher] = match self.workload[..] {
            [] => &CIPHERS_UNASKED,
            _ => &Cipher::ALL,
        };
        for cipher in Self::or_usual(&self.ciphers, usual_ciphers) {
            for version in self.versions(cipher) {
                for bytes in Self::or_usual(&self.sizes, sizes) {
                    let work = Work::Download(Download { cipher, bytes });
                    for connections in Self::or_usual(&self.connections, usual_connections) {
                        scenarios.push(Scenario {
                            connections: connections.into(),
                            warm_up: WARM_UP_QUICK,
                            window: if self.quick { QUICK_COST } else { self.seconds },
                            rounds,
                            ..self.scenario(version, self.group(version), work)
                        });
                    }
                }
            }
        }
        scenarios
    }

    /// What scenarios have in common, with the windows and rounds of one that is not quick.
    fn scenario(&self, version: TlsVersion, group: Group, work: Work) -> Scenario {
        Scenario {
            version,
            http3: self.http3,
            group,
            native_group: self.native_group(group),
            work,
            client_certificates: self.client_certificates && work == Work::Handshakes,
            connections: 1,
            load: None,
            cores: None,
            workers: None,
            round_trip: None,
            warm_up: WARM_UP,
            window: self.seconds,
            rounds: Rounds::with_spare(self.pairs.unwrap_or(ROUNDS)),
        }
    }

    /// The versions in which bodies are downloaded under a cipher.
    fn versions(&self, cipher: Cipher) -> Vec<TlsVersion> {
        let mut versions = match cipher.has_mac() {
            true => vec![TlsVersion::Tls12],
            false => Self::or_usual(&self.tls, &[TlsVersion::Tls13]),
        };
        // Ciphers that only an older version has are included by default.
        versions.retain(|version| {
            self.tls.is_empty() || !self.ciphers.is_empty() || self.tls.contains(version)
        });
        versions.retain(|version| !self.http3 || *version == TlsVersion::Tls13);
        versions
    }

    /// The versions of TLS to go through where none are named.
    fn usual_versions(&self) -> &'static [TlsVersion] {
        let all = &[TlsVersion::Tls12, TlsVersion::Tls13];
        if self.http3 || self.quick { &all[1..] } else { all }
    }

    /// Handshakes by version, group and connections.
    pub(super) fn handshakes(&self) -> Vec<Scenario> {
        let mut kinds = Vec::new();
        for version in Self::or_usual(&self.tls, self.usual_versions()) {
            kinds.extend(self.groups(version).into_iter().map(|group| (version, group)));
        }
        let usual = if self.quick { &CONNECTIONS_QUICK[..] } else { &CONNECTIONS };
        let all_connections = Self::or_usual(&self.connections, usual);
        // Where CPU time is the question: as busy as a server is made.
        let telling = match all_connections.contains(&COST_CONNECTIONS) {
            true => Some(COST_CONNECTIONS),
            false => all_connections.iter().copied().max(),
        };
        // If only partial loads are asked for, no others are measured.
        let loads_only = !self.load.is_empty() && self.connections.is_empty();
        let mut scenarios = Vec::new();
        for (index, (version, group)) in kinds.iter().copied().enumerate() {
            let all_connections = all_connections.iter().copied().filter(|_| !loads_only);
            for connections in all_connections {
                let cost = Some(connections) == telling;
                if self.quick && index > 0 && !cost {
                    continue;
                }
                scenarios.push(Scenario {
                    connections: connections.into(),
                    warm_up: self.warm_up(connections),
                    window: self.window(connections, cost),
                    rounds: self.rounds(connections),
                    ..self.scenario(version, group, Work::Handshakes)
                });
            }
            // The newest version stands for all where there is little time.
            let is_newest = kinds.iter().all(|(other, _)| *other <= version);
            let has_loads = !self.quick || is_newest;
            let loads = self.loads().into_iter().filter(|_| has_loads);
            scenarios.extend(loads.map(|percent| self.partial(version, group, percent)));
        }
        scenarios
    }

    /// Partial loads, in percent of native's capacity.
    fn loads(&self) -> Vec<u8> {
        match &self.load[..] {
            [] if self.quick && self.connections.is_empty() => LOADS_QUICK.to_vec(),
            loads => loads.to_vec(),
        }
    }

    /// Handshakes that arrive independently of each other. At a low load a window has few, so
    /// windows are longer than others, and there are fewer.
    fn partial(&self, version: TlsVersion, group: Group, percent: u8) -> Scenario {
        let (window, rounds) = match self.quick {
            true => (WINDOW_LOAD_QUICK, ROUNDS_LOAD_QUICK),
            false => (self.seconds * WINDOW_LOAD_FACTOR, ROUNDS_LOAD),
        };
        Scenario {
            connections: CONNECTIONS_LOAD,
            load: Some(percent),
            // Before the first handshakes of clients at a distance end, their rate is too low.
            warm_up: WARM_UP + self.rtt.unwrap_or_default() * ROUND_TRIPS,
            window,
            rounds: Rounds::with_spare(self.pairs.unwrap_or(rounds)),
            ..self.scenario(version, group, Work::Handshakes)
        }
    }

    /// Whether a workload was named, not only implied.
    pub(super) fn asks_for(&self, workload: Workload) -> bool {
        self.workload.contains(&workload)
    }

    /// The workloads, each once; of all, those that the servers have. If none is named, handshakes,
    /// and behind them downloads where ciphers gain more than handshakes do, whose signatures have
    /// no lanes. Flags that say how many handshakes there are at a time, or how often they come,
    /// select handshakes alone.
    pub(super) fn workloads(
        &self,
        policy: &Policy,
        with_lanes: &[Family],
    ) -> anyhow::Result<Vec<Workload>> {
        if self.workload.is_empty() {
            let ciphers_gain =
                !with_lanes.contains(&Family::Rsa) && Vaes256::enter(policy).is_some();
            let is_of_handshakes =
                self.client_certificates || !self.connections.is_empty() || !self.load.is_empty();
            let bulk = (ciphers_gain && !is_of_handshakes).then_some(Workload::Bulk);
            return Ok([Workload::Handshake].into_iter().chain(bulk).collect());
        }
        const ALL: [Workload; 4] =
            [Workload::Handshake, Workload::Bulk, Workload::Mixed, Workload::Application];
        let of_nginx =
            |workload: &Workload| matches!(workload, Workload::Application | Workload::Mixed);
        let has_nginx = self.server.is_empty()
            || self.server.iter().any(|server| matches!(server, Server::All | Server::Nginx));
        if self.workload.iter().any(of_nginx) && !has_nginx {
            bail!("these requests go to nginx only; say --server nginx, or leave it out");
        }
        let wanted = |workload: &Workload| {
            self.workload.contains(workload)
                || self.workload.contains(&Workload::All) && (has_nginx || !of_nginx(workload))
        };
        Ok(ALL.into_iter().filter(wanted).collect())
    }

    /// The most connections that any of these workloads may have at a time.
    pub(super) fn connections_most(&self, workloads: &[Workload]) -> usize {
        let most = |scenarios: Vec<Scenario>| scenarios.iter().map(|it| it.connections).max();
        let of_workload = |workload: &Workload| match workload {
            Workload::Handshake => most(self.handshakes()),
            Workload::Bulk => most(self.downloads()),
            Workload::Application => most(self.pages()),
            Workload::Mixed => Some(self.mixed().connections),
            Workload::All => None,
        };
        workloads.iter().filter_map(of_workload).max().unwrap_or(0)
    }

    /// Refuses flags that none of these workloads heeds.
    pub(super) fn check_flags(&self, workloads: &[Workload]) -> anyhow::Result<()> {
        let of_downloads = [
            ("--sizes", !self.sizes.is_empty()),
            ("--ciphers", !self.ciphers.is_empty()),
            ("--latency-max", self.latency_max.is_some()),
        ];
        let given = of_downloads.iter().find(|(_, is_given)| *is_given);
        if let Some((flag, _)) = given.filter(|_| !workloads.contains(&Workload::Bulk)) {
            bail!("{flag} is about downloads; add --workload bulk, or leave {flag} out");
        }
        if !self.load.is_empty() && !workloads.contains(&Workload::Handshake) {
            bail!("--load is about handshakes; add --workload handshake, or leave --load out");
        }
        let lacks_versions = |cipher: &&Cipher| self.versions(**cipher).is_empty();
        if let Some(cipher) = self.ciphers.iter().find(lacks_versions) {
            bail!(
                "{} exists in TLS 1.2 only, and --http3 has TLS 1.3; leave one of them out",
                cipher.name()
            );
        }
        match workloads {
            [Workload::Bulk] if self.cipher.is_some() => {
                bail!("--cipher is about handshakes and pages; --ciphers names those of downloads")
            }
            [Workload::Mixed] => self.check_flags_of_mixed(),
            _ => Ok(()),
        }
    }

    /// Refuses flags that mixed requests do not heed, which have servers, keys and ciphers of their
    /// own.
    fn check_flags_of_mixed(&self) -> anyhow::Result<()> {
        let unheeded = [
            ("--key", !self.key.is_empty()),
            ("--certificate", self.certificate.is_some()),
            ("--tls", !self.tls.is_empty()),
            ("--http3", self.http3),
            ("--group", !self.group.is_empty()),
            ("--cipher", self.cipher.is_some()),
            ("--server-cores", !self.server_cores.is_empty()),
            ("--server-threads", self.server_threads),
            ("--workers", self.workers.is_some()),
            ("--threads", self.threads.is_some()),
            ("--engine", !self.engine.is_empty()),
            ("--wait-max", !self.wait_max.is_empty()),
            ("--masked", self.masked),
            ("--rival", self.rival.is_some()),
        ];
        match unheeded.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => bail!(
                "{flag} changes nothing about mixed requests; leave it out, or add --workload \
                 handshake"
            ),
            None => Ok(()),
        }
    }

    /// Pages of an application, by version.
    pub(super) fn pages(&self) -> Vec<Scenario> {
        let rounds =
            self.pairs.unwrap_or(if self.quick { ROUNDS_PAGES_QUICK } else { ROUNDS_PAGES });
        let page = |version| Scenario {
            connections: Self::or_usual(&self.connections, &[CONNECTIONS_PAGES])[0].into(),
            warm_up: WARM_UP_PAGES,
            window: if self.quick { WINDOW_PAGES_QUICK } else { WINDOW_PAGES.max(self.seconds) },
            rounds: Rounds::exactly(rounds),
            ..self.scenario(version, self.group(version), Work::Page)
        };
        let versions = Self::or_usual(&self.tls, self.usual_versions());
        versions.into_iter().map(page).collect()
    }

    /// What the mixed workload goes through, on nginx alone.
    pub(super) fn mixed(&self) -> mixed::Plan {
        let rounds = if self.quick { ROUNDS_MIXED_QUICK } else { ROUNDS_MIXED };
        mixed::Plan {
            shares: SHARES_MIXED.into(),
            connections: Self::or_usual(&self.connections, &[CONNECTIONS_MIXED])[0].into(),
            requests: REQUESTS_MIXED,
            warm_up: if self.quick { WARM_UP_QUICK } else { WARM_UP },
            window: if self.quick { QUICK_COST } else { self.seconds },
            rounds: self.pairs.unwrap_or(rounds),
            port_first: self.port,
            lane_cpus: self.lane_cpus.clone(),
        }
    }

    fn warm_up(&self, connections: u16) -> Duration {
        match (connections, self.quick) {
            (1, _) => WARM_UP_ALONE,
            (_, true) => WARM_UP_QUICK,
            (_, false) => WARM_UP,
        }
    }

    fn window(&self, connections: u16, cost: bool) -> Duration {
        match (self.quick, cost) {
            (false, _) if connections == 1 => {
                (self.seconds / ALONE_WINDOW_DIVISOR).max(ALONE_WINDOW_MIN)
            }
            (false, _) => self.seconds,
            (true, true) => QUICK_COST,
            (true, false) => QUICK_LATENCY,
        }
    }

    fn rounds(&self, connections: u16) -> Rounds {
        match (self.quick, connections) {
            (true, _) => Rounds::exactly(self.pairs.unwrap_or(ROUNDS_QUICK)),
            (false, 1) => {
                let rounds = self.pairs.unwrap_or(ROUNDS);
                Rounds { least: ALONE_ROUNDS_LEAST * rounds, most: ALONE_ROUNDS_MOST * rounds }
            }
            (false, _) => Rounds::with_spare(self.pairs.unwrap_or(ROUNDS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        let words = ["compare"].into_iter().chain(line.split_whitespace());
        Command::try_parse_from(words).unwrap().args
    }

    #[test]
    fn quick_runs_have_the_handshakes_of_today() {
        let args = args("--quick --group x25519");
        let scenarios = args.handshakes();
        assert!(scenarios.iter().all(|scenario| scenario.version == TlsVersion::Tls13));
        let what = scenarios.iter().map(|it| it.load.ok_or(it.connections));
        assert_eq!(what.collect::<Vec<_>>(), [Err(1), Err(200), Ok(30), Ok(60)]);
        assert_eq!(args.keys(&scenarios), [[Key::EcdsaP256], [Key::Rsa(2048)]]);
        assert_eq!(args.keys(&args.downloads()), [[Key::Rsa(2048)]]);
    }

    #[test]
    fn quick_runs_have_every_version_at_the_most_connections_that_are_named() {
        let measured = |line: &str| -> Vec<(TlsVersion, usize)> {
            let args = args(&format!("--quick --group x25519 --tls 1.2,1.3 --connections {line}"));
            args.handshakes().iter().map(|it| (it.version, it.connections)).collect()
        };
        use TlsVersion::{Tls12, Tls13};
        assert_eq!(measured("8,64"), [(Tls12, 8), (Tls12, 64), (Tls13, 64)]);
        assert_eq!(measured("200,256"), [(Tls12, 200), (Tls12, 256), (Tls13, 200)]);
        assert_eq!(measured("8"), [(Tls12, 8), (Tls13, 8)]);
    }

    #[test]
    fn quick_runs_have_partial_loads_in_the_newest_version() {
        let loads = |line: &str| -> Vec<(TlsVersion, Group)> {
            let scenarios = args(&format!("--quick --load 30 {line}")).handshakes();
            scenarios.iter().map(|it| (it.version, it.group)).collect()
        };
        use TlsVersion::{Tls12, Tls13};
        let (x25519, p256) = (Group::X25519, Group::Secp256r1);
        let both = "--group x25519,p256";
        assert_eq!(loads(&format!("{both} --tls 1.2")), [(Tls12, x25519), (Tls12, p256)]);
        assert_eq!(loads(&format!("{both} --tls 1.2,1.3")), [(Tls13, x25519), (Tls13, p256)]);
    }

    #[test]
    fn no_scenario_has_more_connections_than_files_are_asked_for() {
        let most = |line: &str, workload| args(line).connections_most(&[workload]);
        assert_eq!(most("--latency-max 2s", Workload::Bulk), 1000);
        assert_eq!(most("--latency-max 2s --connections 400", Workload::Bulk), 400);
        assert_eq!(most("", Workload::Bulk), 4);
        assert_eq!(most("--load 30", Workload::Handshake), CONNECTIONS_LOAD);
        assert_eq!(most("--connections 8,4000", Workload::Handshake), 4000);
        let both = [Workload::Handshake, Workload::Mixed];
        assert_eq!(args("--quick").connections_most(&both), CONNECTIONS_LOAD);
    }

    #[test]
    fn what_is_named_twice_is_refused() {
        for (flag, values) in [
            ("--connections", "200,8,200"),
            ("--tls", "1.3,1.3"),
            ("--key", "rsa2048,rsa2048"),
            ("--sizes", "1M,1024K"),
            ("--ciphers", "aes128-gcm,aes128-gcm"),
            ("--group", "x25519,p256,x25519"),
            ("--load", "20,20"),
            ("--wait-max", "0,0"),
        ] {
            let error = args(&format!("{flag} {values}")).check_twins().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{flag} names one twice")), "{error}");
        }
        args("--connections 8,200 --key rsa2048,ecdsa-p256 --tls 1.2,1.3").check_twins().unwrap();
    }

    #[test]
    fn flags_that_a_workload_does_not_heed_are_refused() {
        let refusal = |line: &str, workloads: &[Workload]| {
            args(line).check_flags(workloads).err().map(|error| error.to_string())
        };
        let of_mixed = [
            "--key rsa2048",
            "--tls 1.3",
            "--http3",
            "--group p256",
            "--cipher aes128-gcm",
            "--server-threads",
            "--workers 2",
            "--threads 2",
            "--engine in-loop",
            "--wait-max 0",
            "--masked",
            "--rival haproxy-aws-lc",
            "--certificate c.pem --private-key k.pem",
        ];
        for line in of_mixed {
            let told = refusal(line, &[Workload::Mixed]).unwrap();
            let flag = line.split(' ').next().unwrap();
            assert!(told.starts_with(&format!("{flag} changes nothing")), "{told}");
            assert_eq!(refusal(line, &[Workload::Handshake, Workload::Mixed]), None);
        }
        assert_eq!(refusal("--connections 8 --lane-cpus 1", &[Workload::Mixed]), None);
        let told = refusal("--cipher aes128-gcm", &[Workload::Bulk]).unwrap();
        assert!(told.contains("--ciphers"), "{told}");
        let old = "--http3 --ciphers aes128-gcm,aes128-sha";
        let told = refusal(old, &[Workload::Bulk]).unwrap();
        assert!(told.starts_with("aes128-sha exists in TLS 1.2 only"), "{told}");
    }

    #[test]
    fn a_certificate_has_its_own_key() {
        let words = ["compare", "--key", "rsa2048", "--certificate", "c", "--private-key", "k"];
        assert!(Command::try_parse_from(words).is_err());
        assert_eq!(args("").keys(&args("").handshakes()), [[Key::Rsa(2048)]]);
    }
}
