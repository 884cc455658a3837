//! `widelane compare`: real servers, native and accelerated, in interleaved rounds.

mod plans;
mod values;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use widelane_bench::compare::CompareError;
use widelane_bench::server::application::Application;
use widelane_bench::server::{Key, RECIPES, Recipe, ServerError, WaitLimit};
use widelane_bench::{compare, link, machine, mixed};
use widelane_cli::libraries::Libraries;
use widelane_cli::{output, system, units};
use widelane_cpu::policy::LaneCpus;
use widelane_loadgen::{Cipher, Group, TlsVersion};
use widelane_results::{Results, Status};

use self::values::{
    groups, keys, keys_help, round_trip, server_cores, size, usual_ciphers, wait_limits,
};
pub use self::values::{has_twins, load, refuse_twins};
use crate::files::raise_file_limit;
use crate::measure;
use crate::targets::WrittenFile;

/// Measures what Widelane saves on this machine, on the servers installed here
///
/// Runs the installed servers with and without Widelane in turns, and compares their CPU time per
/// handshake, download or page. `widelane cpu` tells whether nginx and HAProxy are installed; for
/// any server that is not, this command names the package at once. Exits with 3 if every comparison
/// was rejected, as on a busy machine. docs/measure/compare.md says how it measures.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Servers; by default those installed, or else the embedded one
    #[arg(long, value_enum, value_delimiter = ',', help_heading = COMPARED)]
    server: Vec<Server>,
    #[arg(long, value_delimiter = ',', value_parser = keys, conflicts_with = "certificate",
          help = keys_help(), help_heading = COMPARED)]
    key: Vec<Keys>,
    /// What clients want; several one after the other, or all [default: handshake, and 16 MiB of
    /// bulk where operations of handshakes have no lanes, ciphers gain, and neither --connections
    /// nor --load is given]
    #[arg(long, value_enum, value_delimiter = ',', help_heading = LOAD)]
    workload: Vec<Workload>,
    /// Lengths of downloads, 1K to 4G [default: 1M to 1G by powers of four, or 16M with --quick or
    /// where bulk is not asked for]
    #[arg(long, value_delimiter = ',', value_parser = size, help_heading = LOAD)]
    sizes: Vec<u64>,
    /// Ciphers of downloads: aes128-sha (encrypt-then-MAC where the server agrees),
    /// aes128-sha-mac-first (without), aes128-gcm, aes256-gcm, chacha20-poly1305 [default: all, or
    /// the last three where bulk is not asked for]
    #[arg(long, value_delimiter = ',', help_heading = LOAD)]
    ciphers: Vec<Cipher>,
    /// TLS versions [default: 1.2 and 1.3, or 1.3 with --quick; for downloads 1.3, and 1.2 of
    /// ciphers that are older]
    #[arg(long, value_delimiter = ',', help_heading = COMPARED)]
    tls: Vec<TlsVersion>,
    /// HTTP/3 instead of TLS over TCP, from nginx and HAProxy that have it
    #[arg(long, help_heading = COMPARED)]
    http3: bool,
    /// Every client shows a certificate, which the server demands and verifies: a P-256 certificate
    /// and that of its intermediate authority. Servers trust only the root; all three are made for
    /// the run. Full handshakes with nginx and HAProxy only, and not over HTTP/3
    #[arg(long, conflicts_with = "http3", help_heading = COMPARED)]
    client_certificates: bool,
    /// Numbers of outstanding connections [default: 1, 8, 64, 200 and 256, or 1 and 200 with
    /// --quick; for downloads 4, or 1000 at most with --latency-max; of mixed requests and pages
    /// the first alone, or 16 and 8]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4000),
          help_heading = LOAD)]
    connections: Vec<u16>,
    /// Partial loads, in percent of what the native server can do at most, which is found first:
    /// handshakes arrive independently of each other (Poisson). Such as 10,20,40,60,80,90; nothing
    /// else is measured then, unless --connections says so [with --quick: 30,60]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = load,
          help_heading = LOAD)]
    load: Vec<u8>,
    /// Round-trip time between clients and server at partial loads, such as 20ms, by a link with
    /// delay on this machine, for users other than root in a network namespace of their own. Shows
    /// what waits mean to clients that are far away
    #[arg(long, value_name = "TIME", value_parser = round_trip, requires = "load",
          conflicts_with_all = ["workload", "connections"], help_heading = LOAD)]
    rtt: Option<Duration>,
    /// Cores of the server, one number after the other; clients have the rest of the machine
    /// [default: 1]
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = server_cores,
          help_heading = COMPARED)]
    server_cores: Vec<u16>,
    /// Uses all hardware threads of each core, not only the first [with one core, where
    /// --server-cores does not count them]
    #[arg(long, help_heading = COMPARED)]
    server_threads: bool,
    /// Workers of nginx, which share the server's CPUs [default: one on each]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64),
          help_heading = COMPARED)]
    workers: Option<u16>,
    /// Threads of HAProxy, which share the server's CPUs [default: one on each]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64),
          help_heading = COMPARED)]
    threads: Option<u16>,
    /// CPUs set aside for a process that makes the RSA signatures of accelerated servers, such as 1
    /// or 2,4-7, whose CPU time counts as theirs (docs/operate/experimental.md); for nginx, and for
    /// HAProxy, which then runs with -W. Of mixed requests, one more server whose workers multiply
    /// in no wide register
    #[arg(long, value_name = "LIST", help_heading = COMPARED)]
    lane_cpus: Option<LaneCpus>,
    /// What makes the signatures of accelerated servers, each measured in the same rounds: in-loop,
    /// lane-cpus (with --lane-cpus), qat (where there is a device), auto (in-loop with --policy
    /// auto, which is held against in-loop) [default: in-loop, or lane-cpus with --lane-cpus]
    #[arg(long, value_name = "ENGINE", value_enum, value_delimiter = ',', help_heading = COMPARED)]
    engine: Vec<Engine>,
    /// Limits to how long operations wait for others, each measured in the same rounds. Shows what
    /// a longer wait saves, and what it costs in latency [default: that of the policy]
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = wait_limits(),
          conflicts_with = "engine", help_heading = COMPARED)]
    wait_max: Vec<WaitLimit>,
    /// Of downloads, searches the highest rate at which every one ends within this time, as 2s;
    /// says where that cannot be. Takes minutes for each length and cipher
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = LOAD)]
    latency_max: Option<Duration>,
    /// Rounds of each scenario; every round measures each server once. More are added where some do
    /// not count or the interval is wide; six are needed for an interval [default: 20; --load 8;
    /// downloads 12; --quick 10; docs/measure/compare.md has all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = STATISTICS)]
    pairs: Option<u32>,
    /// Length of one measurement, in seconds; scenarios that need longer take a multiple
    /// (docs/measure/compare.md)
    #[arg(long, value_parser = units::seconds, default_value = "0.5", help_heading = STATISTICS)]
    seconds: Duration,
    /// Repeats the arrivals and draws of clients of an earlier run, whose results have its seed
    /// [default: new ones]
    #[arg(long, value_name = "NUMBER", help_heading = STATISTICS)]
    seed: Option<u32>,
    /// Short windows: TLS 1.3 with certificates of ECDSA P-256 and RSA-2048, one connection, a
    /// saturated server, and partial loads of 30 and 60 % unless --connections is given. Of several
    /// --tls or --group all but the first have one number of connections, 200 or the most that
    /// --connections names without 200, and only the newest version of --tls has partial loads:
    /// some two minutes, or three with bulk
    #[arg(long, help_heading = STATISTICS)]
    quick: bool,
    /// Also measures the server with IFMA hidden from OpenSSL
    #[arg(long, help_heading = COMPARED)]
    masked: bool,
    /// Also measures HAProxy built on another library, which `cargo xtask rival` builds
    #[arg(long, value_enum, help_heading = COMPARED)]
    rival: Option<Rival>,
    /// Key-exchange groups, those with ML-KEM in TLS 1.3 only [default: what the installed OpenSSL
    /// prefers, which is x25519mlkem768 from 3.5 on, and x25519 before that and in TLS 1.2]
    #[arg(long, value_delimiter = ',', value_parser = groups(), help_heading = COMPARED)]
    group: Vec<Group>,
    /// Group of the native server where the installed OpenSSL lacks the one of --group that has
    /// ML-KEM
    #[arg(long, value_name = "GROUP", requires = "group", help_heading = COMPARED)]
    native_group: Option<Group>,
    /// Cipher of handshakes and pages [default: aes256-gcm]
    #[arg(long, value_parser = usual_ciphers(), help_heading = COMPARED)]
    cipher: Option<Cipher>,
    /// Your own certificate chain, PEM, instead of one made for the run
    #[arg(long, value_name = "FILE", requires = "private_key", help_heading = COMPARED)]
    certificate: Option<PathBuf>,
    /// The private key of --certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = COMPARED)]
    private_key: Option<PathBuf>,
    /// First of the ports to use, on 127.0.0.1; free ones are chosen by default
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..),
          help_heading = COMPARED)]
    port: Option<u16>,
    /// Writes the results as JSON (docs/formats/results.md), after every scenario
    #[arg(long, visible_alias = "results", value_name = "FILE", help_heading = OUTPUT)]
    json: Option<WrittenFile>,
    /// Writes a report that needs nothing but a browser
    #[arg(long, value_name = "FILE", default_value = "widelane-report.html", help_heading = OUTPUT)]
    html: WrittenFile,
}

const COMPARED: &str = "What is compared";
const LOAD: &str = "Load";
const STATISTICS: &str = "Statistics";
const OUTPUT: &str = "Output";

const EXAMPLES: &str = "\
Examples:
  widelane compare --server nginx --quick
  widelane compare --server nginx,haproxy --key rsa2048,ecdsa-p256 --load 20,40,60,80 --json r.json
  widelane compare --server haproxy --key ecdsa-p256 --client-certificates --connections 200
  widelane compare --server haproxy --workload bulk --sizes 16M --ciphers aes128-gcm";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    All,
    Embedded,
    Haproxy,
    HaproxyAsync,
    Listed(&'static Recipe),
    Nginx,
    Openssl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// HAProxy on AWS-LC
    HaproxyAwsLc,
}

impl ValueEnum for Server {
    fn value_variants<'a>() -> &'a [Self] {
        static VARIANTS: LazyLock<Vec<Server>> = LazyLock::new(|| {
            let made_for = [
                Server::All,
                Server::Nginx,
                Server::Haproxy,
                Server::HaproxyAsync,
                Server::Openssl,
                Server::Embedded,
            ];
            made_for.into_iter().chain(RECIPES.iter().map(Server::Listed)).collect()
        });
        &VARIANTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, about) = match self {
            Server::All => ("all", "nginx, and HAProxy with and without ssl-mode-async"),
            Server::Embedded => ("embedded", "The server inside this program"),
            Server::Haproxy => ("haproxy", "HAProxy as installed"),
            Server::HaproxyAsync => {
                ("haproxy-async", "HAProxy with and without its own ssl-mode-async")
            }
            Server::Listed(recipe) => (recipe.name, recipe.about),
            Server::Nginx => ("nginx", "nginx as installed"),
            Server::Openssl => (
                "s-server",
                "`openssl s_server`, accelerated by OpenSSL's configuration alone; 16 connections \
                 at most",
            ),
        };
        Some(PossibleValue::new(name).help(about))
    }
}

/// The keys of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Keys(Vec<Key>);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Everything below, the application only where it is installed
    All,
    /// Pages of WordPress by PHP and MariaDB, on new connections, from behind nginx
    Application,
    /// Full handshakes and nothing more
    Handshake,
    /// Large bodies: gigabits per second and server CPU per gigabyte
    Bulk,
    /// Pages that nginx minifies in Lua and compresses by brotli, with 0, 10, 20, 50 and 100 % of
    /// the requests under ChaCha20-Poly1305, under policies of several widths
    Mixed,
}

/// What makes the signatures of an accelerated server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Each worker
    InLoop,
    /// A process on CPUs set aside
    LaneCpus,
    /// An Intel QuickAssist device
    Qat,
    /// Each worker, by a policy that it chooses while it runs
    Auto,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (json, html) = (args.json.as_deref(), Some(&*args.html));
    args.check_twins()?;
    args.check_identity()?;
    args.check_engines()?;
    if args.rtt.is_some() {
        link::prepare()?;
    }
    Libraries::find()?;
    let mut programs = measure::programs()?;
    args.check_workers(&programs)?;
    args.check_groups()?;
    args.check_client_certificates(&programs)?;
    args.check_servers(&programs)?;
    if let (Some(cpus), Some(usable)) = (&args.lane_cpus, LaneCpus::usable_here()) {
        cpus.check(&usable)?;
    }
    if let Some(Rival::HaproxyAwsLc) = args.rival {
        args.find_haproxy_aws_lc(&mut programs)?;
    }
    let resolved = system::policy()?;
    let mut results = measure::blank(machine::describe(&programs, &resolved));
    results.seed = args.seed;
    results.note(args.remark_on_groups());
    results.note(args.remark_on_client_certificates());
    let stop = system::stop_on_signals()?;
    let mut progress = measure::Progress::new(json);

    if args.http3 && args.tls.contains(&TlsVersion::Tls12) {
        bail!("--http3 has TLS 1.3 only; leave 1.2 out of --tls");
    }
    let lanes = machine::with_lanes(&resolved.policy);
    let mut failures = Vec::new();
    let workloads = args.workloads(&resolved.policy, &lanes)?;
    args.check_flags(&workloads)?;
    // Servers inherit the limit; one that passes requests on has two for each connection, and so
    // has this process where it is both client and origin.
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    raise_file_limit(2 * args.connections_most(&workloads), threads)?;
    for workload in workloads {
        if stop.load(Ordering::Relaxed) {
            failures.extend(interruption(&failures));
            break;
        }
        failures.extend(match workload {
            Workload::Handshake => {
                let plan = args.plan(args.handshakes(), &programs, &lanes);
                compare::run(plan, &programs, &mut results, &stop, &mut progress)
            }
            Workload::Bulk => {
                let plan = args.plan(args.downloads(), &programs, &lanes);
                compare::run(plan, &programs, &mut results, &stop, &mut progress)
            }
            Workload::Application => {
                let missing = Application::missing(&programs).filter(|_| !args.asks_for(workload));
                match missing {
                    Some(missing) => {
                        let error = ServerError::NoApplication(missing);
                        results.note(format!("The application was left out: {error}."));
                        Vec::new()
                    }
                    None => {
                        let plan = args.plan(args.pages(), &programs, &lanes);
                        compare::run(plan, &programs, &mut results, &stop, &mut progress)
                    }
                }
            }
            Workload::Mixed => {
                mixed::run(&args.mixed(), &programs, &mut results, &stop, &mut progress)
            }
            Workload::All => Vec::new(),
        });
    }
    results.complete = !failures.iter().any(CompareError::cuts_short);

    progress.finish();
    let told = measure::tell(&results, json, html)
        .and_then(|()| output::print(&format!("\nReport: {}", shown(&args.html))));
    measure::all(failures.into_iter().map(|failure| Err(failure.into())).chain([told]))?;
    if is_nothing_compared(&results) {
        bail!("nothing could be compared; the rows above say why");
    }
    Ok(measure::status(&results))
}

/// What a run lacks that was stopped before a workload, unless the one before says so.
fn interruption(failures: &[CompareError]) -> Option<CompareError> {
    let is_told = failures.iter().any(|failure| matches!(failure, CompareError::Interrupted));
    (!is_told).then_some(CompareError::Interrupted)
}

/// Whether every comparison was left out.
fn is_nothing_compared(results: &Results) -> bool {
    results.rows.iter().all(|row| row.status == Status::NotApplicable)
}

/// The absolute path where there is one, so that it can be opened from anywhere.
fn shown(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_stopped_between_two_workloads_is_not_whole() {
        assert!(matches!(interruption(&[]), Some(CompareError::Interrupted)));
        assert!(interruption(&[CompareError::Interrupted]).is_none());
    }
}
