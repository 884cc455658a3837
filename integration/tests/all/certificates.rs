//! One nginx that shows very many certificates, natively and accelerated in turns: what it costs to
//! start it, what each key holds in memory, and what a handshake costs when all keys are in use.
//!
//! `cargo xtask certificates` runs it; `WIDELANE_CERTIFICATES` says how many.

use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use widelane_bench::accounting::{process_cpu, process_tree};
use widelane_bench::server::process::Process;
use widelane_bench::server::{Identity, Key};
use widelane_bench::stats::median;
use widelane_integration::processes::proportional_kib;
use widelane_integration::server::widelane;
use widelane_loadgen::{
    Cipher, Group, Mix, Pace, Plan, Resume, Stint, TlsVersion, Trust, Weighted, Work, run_plan,
};
use widelane_testkit::server::{free_address, nginx_files};

/// Different keys; nginx reads and keeps one for each server all the same.
const KEYS: usize = 32;

/// Times that each side is started, in turns.
const ROUNDS: usize = 3;

/// What acceleration may cost, above native.
const RATIO_MAX: f64 = 1.05;

/// How long nginx may take to read everything.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
#[ignore = "takes minutes: cargo xtask certificates"]
fn many_certificates_cost_what_they_cost_natively() -> Result<()> {
    let count: usize =
        std::env::var("WIDELANE_CERTIFICATES").context("WIDELANE_CERTIFICATES")?.parse()?;
    let mut excesses = Vec::new();
    for key in [Key::Rsa(2048), Key::EcdsaP256] {
        let identities = Identities::make(key, KEYS.min(count))?;
        let costs = |count, natively| Costs::of(&identities, count, natively);
        let one = [costs(1, true)?.memory_kib, costs(1, false)?.memory_kib];
        let mut natives = Vec::new();
        let mut ours = Vec::new();
        for _ in 0..ROUNDS {
            natives.push(costs(count, true)?);
            ours.push(costs(count, false)?);
        }
        eprintln!("{count} certificates with {key} keys, medians of {ROUNDS} rounds:");
        let mut judge = |what, cost: &dyn Fn(&Costs, bool) -> f64| {
            let ratio = compare(what, &natives, &ours, cost);
            if ratio > RATIO_MAX {
                excesses.push(format!("{key}: {what}: {ratio:.3} of native"));
            }
        };
        judge("CPU until it listens, s", &|costs, _| costs.start_s);
        judge("memory per key once used, KiB", &|costs, is_ours| {
            (costs.memory_kib - one[usize::from(is_ours)]) / count as f64
        });
        judge("CPU per handshake, keys fresh, µs", &|costs, _| costs.fresh_us);
        judge("CPU per handshake, keys used, µs", &|costs, _| costs.used_us);
    }
    assert_eq!(excesses, [""; 0]);
    Ok(())
}

/// Prints the medians of one cost, and answers the median of the rounds' ratios.
fn compare(
    what: &str,
    natives: &[Costs],
    ours: &[Costs],
    cost: impl Fn(&Costs, bool) -> f64,
) -> f64 {
    let native: Vec<f64> = natives.iter().map(|costs| cost(costs, false)).collect();
    let our: Vec<f64> = ours.iter().map(|costs| cost(costs, true)).collect();
    let ratios: Vec<f64> = native.iter().zip(&our).map(|(native, our)| our / native).collect();
    let [native, our, ratio] =
        [native, our, ratios].map(|values| median(&values).expect("rounds were made"));
    eprintln!("  {what:<34} {native:9.2} native {our:9.2} ours, {ratio:.3}");
    ratio
}

/// Certificates of one kind, with their files.
struct Identities {
    all: Vec<Identity>,
    _directory: TempDir,
}

impl Identities {
    fn make(key: Key, count: usize) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let make = |index: usize| {
            let own = directory.path().join(index.to_string());
            fs::create_dir(&own)?;
            Ok(Identity::make(key, &own)?)
        };
        let all = (0..count).map(make).collect::<Result<_>>()?;
        Ok(Identities { all, _directory: directory })
    }
}

/// What one start of nginx cost.
struct Costs {
    start_s: f64,
    fresh_us: f64,
    used_us: f64,
    memory_kib: f64,
}

impl Costs {
    fn of(identities: &Identities, count: usize, natively: bool) -> Result<Self> {
        let server = Server::start(&identities.all, count, natively)?;
        let start_s = process_cpu(server.process.pid())?.as_secs_f64();
        let fresh_us = server.handshakes(count, 1)?;
        let used_us = server.handshakes(count, 2)?;
        let tree = process_tree(server.process.pid())?;
        let memory_kib: u64 =
            tree.iter().map(|pid| proportional_kib(pid.as_raw())).sum::<Result<_>>()?;
        Ok(Costs { start_s, fresh_us, used_us, memory_kib: memory_kib as f64 })
    }
}

/// nginx with one worker and a virtual server for each certificate.
struct Server {
    process: Process,
    address: SocketAddr,
    _directory: TempDir,
}

impl Server {
    fn start(identities: &[Identity], count: usize, natively: bool) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let address = free_address();
        let configuration = directory.path().join("nginx.conf");
        fs::write(&configuration, configure(directory.path(), address, identities, count)?)?;
        let mut command = if natively {
            Command::new("nginx")
        } else {
            let mut command = Command::new(widelane()?);
            command.args(["run", "--counters-dir"]).arg(directory.path()).args(["--", "nginx"]);
            command
        };
        command.arg("-p").arg(directory.path()).arg("-c").arg(&configuration);
        let mut process = Process::start(command, &[], directory.path().join("log"))?;
        process
            .wait_until(PATIENCE, || TcpStream::connect(address).is_ok())
            .with_context(|| format!("nginx: {}", process.log()))?;
        Ok(Server { process, address, _directory: directory })
    }

    /// CPU time of a handshake, in µs: `rounds` for each certificate on average.
    fn handshakes(&self, count: usize, rounds: u64) -> Result<f64> {
        let names = (0..count).map(|index| (name(index), 1)).collect();
        let handshakes = (rounds * count as u64).max(1_000);
        let plan = Plan {
            target: self.address,
            sources: Vec::new(),
            trust: Trust::Anyone,
            mix: Mix {
                versions: Weighted::only(TlsVersion::Tls13),
                ciphers: Weighted::only(Cipher::Aes128Gcm),
                groups: Weighted::only(Group::X25519),
                names: Weighted::new(names).context("there is a name")?,
                protocols: Weighted::only(None),
                resumption: Weighted::only(Resume::Never),
                identities: Weighted::only(None),
            },
            work: Work::Handshake,
            pace: Pace::Closed { connections: 100, ramp: Duration::ZERO },
            patience: Duration::from_secs(20),
            seed: rounds,
        };
        let stint = Stint {
            cpus: Vec::new(),
            warm_up: Duration::ZERO,
            answers_min: 0,
            window: PATIENCE,
            handshakes_max: handshakes,
        };
        let observe = |_: Option<&Result<Duration>>| -> Result<Duration> {
            let tree = process_tree(self.process.pid())?;
            tree.into_iter().map(|pid| Ok(process_cpu(pid)?)).sum()
        };
        let window = run_plan(&plan, &stint, &AtomicBool::new(false), observe)?;
        ensure!(window.tally.failures() == 0, "failures: {:?}", window.tally.errors);
        let cpu = window.end?.saturating_sub(window.begin?);
        Ok(cpu.as_secs_f64() * 1e6 / window.tally.handshakes() as f64)
    }
}

fn name(index: usize) -> String {
    format!("n{index}.example.org")
}

fn configure(
    directory: &Path,
    address: SocketAddr,
    identities: &[Identity],
    count: usize,
) -> Result<String> {
    let (files, directory) = (nginx_files(directory), directory.display());
    let mut text = format!(
        "daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log error;
events {{
    worker_connections 4096;
}}
http {{
{files}
    server_names_hash_max_size 65536;
    server_names_hash_bucket_size 128;
    ssl_protocols TLSv1.3;
    ssl_session_cache off;
    ssl_session_tickets off;
    ssl_ecdh_curve X25519;
"
    );
    for index in 0..count {
        let identity = &identities[index % identities.len()];
        // What concerns the socket is said once.
        let backlog = if index == 0 { " backlog=4096" } else { "" };
        writeln!(
            text,
            "server {{ listen {address} ssl{backlog}; server_name {}; ssl_certificate {}; \
             ssl_certificate_key {}; return 200; }}",
            name(index),
            identity.certificate.display(),
            identity.private_key.display(),
        )?;
    }
    text.push_str("}\n");
    Ok(text)
}
