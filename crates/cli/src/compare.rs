//! `widelane compare`: real servers, native and accelerated, in interleaved rounds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use widelane_bench::compare::{CompareError, Plan, Scenario};
use widelane_bench::programs::Programs;
use widelane_bench::server::{ServerKind, Subject};
use widelane_bench::{compare, machine};
use widelane_loadgen::{Cipher, Group, TlsVersion};

use crate::run::libraries::Libraries;
use crate::{measure, output};

/// Measures how many more TLS handshakes this machine's own servers make when accelerated
#[derive(clap::Args)]
pub struct Args {
    /// Servers; by default those installed, or else the embedded one
    #[arg(long, value_enum, value_delimiter = ',')]
    server: Vec<Server>,
    /// Keys to make certificates for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "rsa2048")]
    key: Vec<Key>,
    /// TLS versions
    #[arg(long, value_delimiter = ',', value_parser = tls_version, default_value = "1.2,1.3")]
    tls: Vec<TlsVersion>,
    /// Numbers of outstanding connections
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=2048),
        default_value = "1,8,64,200,256"
    )]
    connections: Vec<u16>,
    /// Rounds per scenario; each measures every subject once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 10)]
    pairs: u32,
    /// Length of one measurement, seconds
    #[arg(long, value_parser = seconds, default_value = "1")]
    seconds: Duration,
    /// Short windows, and TLS 1.3 at the most connections but one only: under two minutes
    #[arg(long)]
    quick: bool,
    /// Also measures the server with IFMA hidden from OpenSSL
    #[arg(long)]
    masked: bool,
    /// Key-exchange group
    #[arg(long, value_enum, default_value_t = KeyExchange::X25519)]
    group: KeyExchange,
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
}

#[derive(Clone, Copy, ValueEnum)]
enum Key {
    /// RSA with 2048 bits
    Rsa2048,
    /// RSA with 3072 bits
    Rsa3072,
    /// RSA with 4096 bits
    Rsa4096,
}

#[derive(Clone, Copy, ValueEnum)]
enum KeyExchange {
    /// Curve25519
    X25519,
    /// NIST P-256
    P256,
    /// NIST P-384
    P384,
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

/// Window lengths of `--quick`: where latency is the question, and where CPU time is.
const QUICK_LATENCY: Duration = Duration::from_millis(150);
const QUICK_COST: Duration = Duration::from_millis(300);

/// Connections at which CPU time is the question.
const COST_CONNECTIONS: u16 = 200;

impl Args {
    fn plan(&self, programs: &Programs, room: widelane_cpu::Room) -> Plan {
        Plan {
            targets: self.targets(programs),
            key_bits: self.key.iter().map(|key| key.bits()).collect(),
            identity: self.certificate.clone().zip(self.private_key.clone()),
            scenarios: self.scenarios(),
            group: self.group.group(),
            cipher: self.cipher.cipher(),
            rounds: self.pairs,
            rounds_spare: if self.quick { 0 } else { self.pairs / 2 },
            warm_up: Duration::from_millis(if self.quick { 50 } else { 200 }),
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
                subjects.push(Subject::Accelerated);
                if asynchronous && kind == ServerKind::Haproxy {
                    subjects.push(Subject::Async);
                }
                targets.push((kind, subjects));
            }
        }
        targets
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let mut scenarios = Vec::new();
        for (index, version) in self.tls.iter().copied().enumerate() {
            for connections in self.connections.iter().copied() {
                let cost = connections == COST_CONNECTIONS || self.connections.len() == 1;
                if self.quick && index > 0 && !cost {
                    continue;
                }
                let window = match (self.quick, cost) {
                    (false, _) => self.seconds,
                    (true, true) => QUICK_COST,
                    (true, false) => QUICK_LATENCY,
                };
                scenarios.push(Scenario { version, connections: connections.into(), window });
            }
        }
        scenarios
    }
}

impl Key {
    fn bits(self) -> u32 {
        match self {
            Key::Rsa2048 => 2048,
            Key::Rsa3072 => 3072,
            Key::Rsa4096 => 4096,
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

fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => Err("the versions are 1.2 and 1.3".to_owned()),
    }
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
    let plan = args.plan(&programs, machine::widest_open(&resolved));
    let stop = measure::stop_on_signals()?;
    let mut progress = measure::Progress::new(args.json.as_deref());

    let failures = compare::run(plan, &programs, &mut results, &stop, &mut progress);

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
