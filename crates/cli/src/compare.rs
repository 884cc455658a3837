//! `widelane compare`: real servers, native and accelerated, in interleaved rounds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use widelane_bench::compare::{CompareError, Download, Plan, Protection, Scenario, Work};
use widelane_bench::pairs::Rounds;
use widelane_bench::programs::Programs;
use widelane_bench::server::{Key, ServerKind, Subject};
use widelane_bench::{compare, machine, mixed};
use widelane_loadgen::{Cipher, Group, TlsVersion};

use crate::run::libraries::Libraries;
use crate::{measure, output};

/// Measures how much more this machine's own servers do when accelerated: full TLS handshakes,
/// downloads, or pages that cost more than their encryption
#[derive(clap::Args)]
pub struct Args {
    /// Servers; by default those installed, or else the embedded one
    #[arg(long, value_enum, value_delimiter = ',')]
    server: Vec<Server>,
    /// Keys to make certificates for: rsa2048, rsa3072, rsa4096, ecdsa-p256, ecdsa-p384, ed25519;
    /// two joined by + for a server that shows either, each to half of the clients
    #[arg(long, value_delimiter = ',', value_parser = keys, default_value = "rsa2048")]
    key: Vec<Keys>,
    /// What clients want
    #[arg(long, value_enum, default_value_t = Workload::Handshake)]
    workload: Workload,
    /// Lengths of downloads, 1M to 4G [default: 1M to 1G by powers of four, or 16M with --quick]
    #[arg(long, value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,
    /// Ciphers of downloads: aes128-sha (encrypt-then-MAC where the server agrees),
    /// aes128-sha-mac-first (without), aes128-gcm, aes256-gcm, chacha20-poly1305 [default: all]
    #[arg(long, value_delimiter = ',')]
    ciphers: Vec<Protection>,
    /// TLS versions [default: 1.2 and 1.3; for downloads 1.3, and 1.2 of ciphers that are older]
    #[arg(long, value_delimiter = ',', value_parser = tls_version)]
    tls: Vec<TlsVersion>,
    /// Numbers of outstanding connections [default: 1, 8, 64, 200 and 256; for downloads 4; the
    /// first, or 16, of mixed requests]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=2048)
    )]
    connections: Vec<u16>,
    /// Rounds per scenario, each of which measures every subject once; up to half as many more
    /// follow where an interval is still wide [default: 20, or 10 with --quick; of downloads 12
    /// and 6, of mixed requests 10 and 6 and no more]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: Option<u32>,
    /// Length of one measurement, seconds; at one connection, a fifth of it and twice the rounds;
    /// of downloads at least until one is whole
    #[arg(long, value_parser = seconds, default_value = "0.5")]
    seconds: Duration,
    /// Short windows, and all but the first TLS version and group at 200 connections only: under
    /// two minutes
    #[arg(long)]
    quick: bool,
    /// Also measures the server with IFMA hidden from OpenSSL
    #[arg(long)]
    masked: bool,
    /// Key-exchange groups
    #[arg(long, value_enum, value_delimiter = ',', default_value = "x25519")]
    group: Vec<KeyExchange>,
    /// Cipher
    #[arg(long, value_enum, default_value_t = Suite::Aes256Gcm)]
    cipher: Suite,
    /// Your own certificate chain, PEM, instead of one made for the run
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// The private key of --certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// First of the ports to use, on 127.0.0.1; free ones are chosen by default
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Writes the results as JSON (docs/results.md), after every scenario
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report that needs nothing but a browser
    #[arg(long, value_name = "FILE", default_value = "widelane-report.html")]
    html: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Server {
    /// nginx and HAProxy, its own asynchronous mode included
    All,
    /// The server inside this binary
    Embedded,
    /// HAProxy as installed
    Haproxy,
    /// HAProxy as installed, also with its own `ssl-mode-async`
    HaproxyAsync,
    /// nginx as installed
    Nginx,
    /// `openssl s_server`, accelerated by OpenSSL's configuration alone; 16 connections at most
    #[value(name = "s-server")]
    Openssl,
}

/// The keys of one server.
#[derive(Clone, Debug)]
struct Keys(Vec<Key>);

#[derive(Clone, Copy, ValueEnum)]
enum KeyExchange {
    /// Curve25519
    X25519,
    /// NIST P-256
    P256,
    /// NIST P-384
    P384,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Full handshakes and nothing more
    Handshake,
    /// Large bodies: gigabits per second and server CPU per gigabyte
    Bulk,
    /// Pages that nginx minifies in Lua and compresses by brotli, with 0, 10, 20, 50 and 100 % of
    /// the requests under ChaCha20-Poly1305, under policies of several widths
    Mixed,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// AES-256-GCM with SHA-384
    Aes256Gcm,
    /// AES-128-GCM with SHA-256
    Aes128Gcm,
    /// ChaCha20-Poly1305
    Chacha20Poly1305,
}

/// Rounds by default, and with `--quick`.
const ROUNDS: u32 = 20;
const ROUNDS_QUICK: u32 = 10;

/// The same of downloads, whose cost varies less.
const ROUNDS_BULK: u32 = 12;
const ROUNDS_BULK_QUICK: u32 = 6;

/// The same of mixed requests, and what they are: shares of the published experiment, on
/// connections that are used again, as browsers do.
const ROUNDS_MIXED: u32 = 10;
const ROUNDS_MIXED_QUICK: u32 = 6;
const SHARES_MIXED: [u32; 5] = [0, 10, 20, 50, 100];
const CONNECTIONS_MIXED: u16 = 16;
const REQUESTS_MIXED: u32 = 10;

/// Lengths of downloads: those of the published experiments, and one of them.
const SIZES: [u64; 6] = [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30];
const SIZES_QUICK: [u64; 1] = [1 << 24];

/// Lengths between which downloads are useful, and a server's disk is not filled.
const SIZE_MIN: u64 = 1 << 10;
const SIZE_MAX: u64 = 1 << 32;

/// Connections of downloads: enough to keep a server busy.
const CONNECTIONS_BULK: [u16; 1] = [4];
const CONNECTIONS: [u16; 5] = [1, 8, 64, 200, 256];

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

/// Connections at which CPU time is the question.
const COST_CONNECTIONS: u16 = 200;

impl Args {
    fn plan(
        &self,
        scenarios: Vec<Scenario>,
        programs: &Programs,
        room: widelane_cpu::Room,
    ) -> Plan {
        Plan {
            targets: self.targets(programs),
            keys: self.key.iter().map(|Keys(keys)| keys.clone()).collect(),
            identity: self.certificate.clone().zip(self.private_key.clone()),
            scenarios,
            cipher: self.cipher.cipher(),
            port_first: self.port,
            room,
        }
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
                Server::Nginx => kinds.push(ServerKind::Nginx),
                Server::Openssl => kinds.push(ServerKind::SServer),
            }
        }
        if kinds.is_empty() {
            kinds = programs.servers();
            asynchronous = !self.quick;
        }
        let mut targets: Vec<(ServerKind, Vec<Subject>)> = Vec::new();
        for kind in kinds {
            if targets.iter().all(|(known, _)| *known != kind) {
                let mut subjects = vec![Subject::Native];
                subjects.extend(self.masked.then_some(Subject::NativeMasked));
                subjects.push(match kind {
                    ServerKind::SServer => Subject::Configured,
                    _ => Subject::Accelerated,
                });
                if asynchronous && kind == ServerKind::Haproxy {
                    subjects.push(Subject::Async);
                }
                targets.push((kind, subjects));
            }
        }
        targets
    }

    fn or_usual<T: Copy>(given: &[T], usual: &[T]) -> Vec<T> {
        if given.is_empty() { usual.to_vec() } else { given.to_vec() }
    }

    fn downloads(&self) -> Vec<Scenario> {
        let sizes: &[u64] = if self.quick { &SIZES_QUICK } else { &SIZES };
        let usual = if self.quick { ROUNDS_BULK_QUICK } else { ROUNDS_BULK };
        let least = self.pairs.unwrap_or(usual);
        let most = if self.quick { least } else { least + least / 2 };
        let versions = Self::or_usual(&self.tls, &[TlsVersion::Tls13]);
        let mut scenarios = Vec::new();
        for protection in Self::or_usual(&self.ciphers, &Protection::ALL) {
            for version in protection.versions(&versions) {
                for bytes in Self::or_usual(&self.sizes, sizes) {
                    for connections in Self::or_usual(&self.connections, &CONNECTIONS_BULK) {
                        scenarios.push(Scenario {
                            version,
                            group: self.group[0].group(),
                            work: Work::Download(Download { protection, bytes }),
                            connections: connections.into(),
                            warm_up: WARM_UP_QUICK,
                            window: if self.quick { QUICK_COST } else { self.seconds },
                            rounds: Rounds { least, most },
                        });
                    }
                }
            }
        }
        scenarios
    }

    fn handshakes(&self) -> Vec<Scenario> {
        let mut kinds = Vec::new();
        for version in Self::or_usual(&self.tls, &[TlsVersion::Tls12, TlsVersion::Tls13]) {
            kinds.extend(self.group.iter().map(|group| (version, group.group())));
        }
        let all_connections = Self::or_usual(&self.connections, &CONNECTIONS);
        let mut scenarios = Vec::new();
        for (index, (version, group)) in kinds.into_iter().enumerate() {
            for connections in all_connections.iter().copied() {
                let cost = connections == COST_CONNECTIONS || all_connections.len() == 1;
                if self.quick && index > 0 && !cost {
                    continue;
                }
                scenarios.push(Scenario {
                    version,
                    group,
                    work: Work::Handshakes,
                    connections: connections.into(),
                    warm_up: self.warm_up(connections),
                    window: self.window(connections, cost),
                    rounds: self.rounds(connections),
                });
            }
        }
        scenarios
    }

    /// What the mixed workload goes through, on nginx alone.
    fn mixed(&self) -> anyhow::Result<mixed::Plan> {
        if self.server.iter().any(|server| *server != Server::Nginx) {
            bail!("mixed requests go to nginx only; say --server nginx, or leave it out");
        }
        let rounds = if self.quick { ROUNDS_MIXED_QUICK } else { ROUNDS_MIXED };
        Ok(mixed::Plan {
            shares: SHARES_MIXED.into(),
            connections: Self::or_usual(&self.connections, &[CONNECTIONS_MIXED])[0].into(),
            requests: REQUESTS_MIXED,
            warm_up: if self.quick { WARM_UP_QUICK } else { WARM_UP },
            window: if self.quick { QUICK_COST } else { self.seconds },
            rounds: self.pairs.unwrap_or(rounds),
            port_first: self.port,
        })
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
            (true, _) => {
                let rounds = self.pairs.unwrap_or(ROUNDS_QUICK);
                Rounds { least: rounds, most: rounds }
            }
            (false, 1) => {
                let rounds = self.pairs.unwrap_or(ROUNDS);
                Rounds { least: ALONE_ROUNDS_LEAST * rounds, most: ALONE_ROUNDS_MOST * rounds }
            }
            (false, _) => {
                let rounds = self.pairs.unwrap_or(ROUNDS);
                Rounds { least: rounds, most: rounds + rounds / 2 }
            }
        }
    }
}

impl KeyExchange {
    fn group(self) -> Group {
        match self {
            KeyExchange::X25519 => Group::X25519,
            KeyExchange::P256 => Group::Secp256r1,
            KeyExchange::P384 => Group::Secp384r1,
        }
    }
}

impl Suite {
    fn cipher(self) -> Cipher {
        match self {
            Suite::Aes256Gcm => Cipher::Aes256Gcm,
            Suite::Aes128Gcm => Cipher::Aes128Gcm,
            Suite::Chacha20Poly1305 => Cipher::Chacha20Poly1305,
        }
    }
}

/// The keys of one server: a name, or two of different kinds joined by `+`.
fn keys(text: &str) -> Result<Keys, String> {
    let keys = text.split('+').map(key).collect::<Result<Vec<Key>, String>>()?;
    match keys[..] {
        [_] => Ok(Keys(keys)),
        [first, second] if certificate_slot(first) != certificate_slot(second) => Ok(Keys(keys)),
        _ => Err("two keys of different kinds at most, such as rsa2048+ecdsa-p256".to_owned()),
    }
}

/// The place that OpenSSL has for the certificate of such a key.
fn certificate_slot(key: Key) -> u32 {
    match key {
        Key::Rsa(_) => 0,
        Key::EcdsaP256 | Key::EcdsaP384 => 1,
        Key::Ed25519 => 2,
    }
}

fn key(name: &str) -> Result<Key, String> {
    const KEYS: [Key; 6] = [
        Key::Rsa(2048),
        Key::Rsa(3072),
        Key::Rsa(4096),
        Key::EcdsaP256,
        Key::EcdsaP384,
        Key::Ed25519,
    ];
    KEYS.into_iter()
        .find(|key| key.to_string() == name)
        .ok_or_else(|| format!("the keys are {}", KEYS.map(|key| key.to_string()).join(", ")))
}

fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => Err("the versions are 1.2 and 1.3".to_owned()),
    }
}

/// A length of downloads: a number with K, M or G after it, for powers of 1024, or without.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a length between 1K and 4G, such as 16M".to_owned();
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let bytes = count.checked_mul(1 << shift).ok_or_else(wrong)?;
    if !(SIZE_MIN..=SIZE_MAX).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes)
}

/// A window length: long enough to hold handshakes, short enough to end.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "expected seconds between 0.05 and 600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if !(0.05..=600.0).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    Libraries::find()?;
    let programs = measure::programs()?;
    let resolved = measure::policy()?;
    let mut results = measure::blank(machine::describe(&programs, &resolved));
    let stop = measure::stop_on_signals()?;
    let mut progress = measure::Progress::new(args.json.as_deref());

    let room = machine::widest_open(&resolved);
    let failures = match args.workload {
        Workload::Handshake => {
            let plan = args.plan(args.handshakes(), &programs, room);
            compare::run(plan, &programs, &mut results, &stop, &mut progress)
        }
        Workload::Bulk => {
            let plan = args.plan(args.downloads(), &programs, room);
            compare::run(plan, &programs, &mut results, &stop, &mut progress)
        }
        Workload::Mixed => {
            mixed::run(&args.mixed()?, &programs, &mut results, &stop, &mut progress)
        }
    };

    progress.finish()?;
    if let Some(path) = &args.json {
        measure::write_results(path, &results)?;
    }
    measure::write(&args.html, &widelane_report::html(&results))?;
    output::print(&widelane_report::terminal(&results, &output::style()))?;
    output::print(&format!("\nReport: {}", shown(&args.html)))?;
    finish(failures)
}

/// The absolute path where there is one, so that it can be opened from anywhere.
fn shown(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Says on standard error what is missing; the job is done only if nothing is.
fn finish(failures: Vec<CompareError>) -> anyhow::Result<ExitCode> {
    let mut failures = failures.into_iter();
    let Some(first) = failures.next() else {
        return Ok(ExitCode::SUCCESS);
    };
    let rest: Vec<String> = failures.map(|error| error.to_string()).collect();
    if rest.is_empty() {
        return Err(first.into());
    }
    let rest = rest.join("\n");
    bail!("{:#}\n{rest}", anyhow::Error::from(first));
}
