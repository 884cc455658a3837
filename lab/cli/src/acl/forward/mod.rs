//! `widelane acl forward`: a layer-3 forwarder with an access list.

mod metrics;
mod network;
mod power;
mod replay;
mod rules;
mod summary;

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use widelane_cli::system;
use widelane_forward::port::parse_address;

use crate::targets::WrittenFile;

/// Forwards packets between interfaces by rules, or replays a capture in memory
///
/// `@` rules deny; of the `R` rules that match, the one with the longest destination prefix decides
/// the port. The rules can be changed meanwhile: rename a new file over the old one.
/// docs/program/forward.md has the details.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["ports", "pcap"]))]
#[command(group = clap::ArgGroup::new("rules").required(true).multiple(true)
          .args(["rules_ipv4", "rules_ipv6"]))]
pub struct Args {
    /// Rules for IPv4, as DPDK's l3fwd-acl has them
    #[arg(long, value_name = "FILE")]
    rules_ipv4: Option<PathBuf>,
    /// Rules for IPv6
    #[arg(long, value_name = "FILE")]
    rules_ipv6: Option<PathBuf>,
    /// An interface; rules name them by their order, from 0
    #[arg(long = "port", value_name = "INTERFACE")]
    ports: Vec<String>,
    /// Which queues of which ports are read on which CPUs: "(port,queue,cpu),…"; by default one
    /// queue of each port, on the CPUs in turn
    #[arg(long, value_name = "(PORT,QUEUE,CPU),…", conflicts_with = "pcap")]
    config: Option<Config>,
    /// The Ethernet address behind a port; 02:00:00:00:00:PORT by default
    #[arg(long, value_name = "PORT,ADDRESS", conflicts_with = "pcap")]
    eth_dest: Vec<Neighbour>,
    /// Serves the counters to Prometheus at this address, best one of loopback
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "pcap",
          value_parser = widelane_cli::http::address)]
    metrics: Option<SocketAddr>,
    /// Replays a capture in memory instead, in every room in turn
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Ends after SECONDS, a day at most; by default on Ctrl-C, and a replay after five seconds
    #[arg(long, value_name = "SECONDS", value_parser = widelane_cli::units::seconds_of_a_day)]
    duration: Option<Duration>,
    /// Replays with registers of 256 and of 512 bits for 16 seconds each, and writes the core clock
    /// beside the packets per second
    #[arg(long, value_name = "CSV", requires = "pcap", conflicts_with_all = ["duration", "json"])]
    watch_power: Option<WrittenFile>,
    /// Prints the counters as JSON
    #[arg(long)]
    json: bool,
    /// The largest table allowed, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_max: usize,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.pcap {
        Some(path) => replay::run(args, path),
        None => network::run(args),
    }
}

/// Threads, each with the queue of a port that it reads, and its CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Config(Vec<[usize; 3]>);

impl FromStr for Config {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let wrong = || format!("expected (port,queue,cpu),…, found {text:?}");
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let mut threads = Vec::new();
        for thread in inner.with_context(wrong)?.split("),(") {
            let numbers: Result<Vec<usize>, _> = thread.split(',').map(str::parse).collect();
            let numbers = numbers.ok().and_then(|numbers| <[usize; 3]>::try_from(numbers).ok());
            threads.push(numbers.with_context(wrong)?);
        }
        Ok(Config(threads))
    }
}

/// Who is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Neighbour {
    port: usize,
    address: [u8; 6],
}

impl FromStr for Neighbour {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parsed = text.split_once(',').and_then(|(port, address)| {
            Some(Neighbour { port: port.parse().ok()?, address: parse_address(address)? })
        });
        let Some(neighbour) = parsed else {
            bail!("expected PORT,ADDRESS such as 0,02:00:00:00:00:01, found {text:?}");
        };
        Ok(neighbour)
    }
}

/// When to end, and when to look at the rules again.
struct Signals {
    ended: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
    /// Something to read after any signal.
    woken: UnixStream,
    until: Option<Instant>,
}

impl Signals {
    /// Watches for SIGINT and SIGTERM, for SIGHUP, and for the end of a time.
    fn watch(limit: Option<Duration>) -> anyhow::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let hung_up = Arc::new(AtomicBool::new(false));
        let register = || -> std::io::Result<UnixStream> {
            let (woken, waker) = UnixStream::pair()?;
            woken.set_nonblocking(true)?;
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
            }
            system::set_on_signals(&ended, &[SIGINT, SIGTERM])?;
            signal_hook::flag::register(SIGHUP, Arc::clone(&hung_up))?;
            Ok(woken)
        };
        let woken = register().context("cannot watch for signals")?;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        Ok(Signals { ended, hung_up, woken, until })
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
            || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits for a signal, for so long at the most.
    fn wait(&self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        // A signal that interrupts it has come, too.
        let _ = poll(&mut [PollFd::new(&self.woken, PollFlags::IN)], limit.as_ref());
        while (&self.woken).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
    }

    /// Whether SIGHUP came since the last call.
    fn take_hang_up(&self) -> bool {
        self.hung_up.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_as_dpdk_writes_them() {
        let read = |text: &str| text.parse::<Config>().map(|config| config.0).ok();
        assert_eq!(read("(0,0,2)"), Some(vec![[0, 0, 2]]));
        assert_eq!(read("(0,0,2),(1,0,3)"), Some(vec![[0, 0, 2], [1, 0, 3]]));
        for wrong in ["", "()", "(0,0)", "(0,0,2", "(0,0,2)(1,0,3)", "(0,0,x)", "(0,0,2),"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn neighbours_have_a_port_and_an_address() {
        let read = |text: &str| text.parse::<Neighbour>().ok();
        let address = [2, 0, 0, 0, 0, 9];
        assert_eq!(read("1,02:00:00:00:00:09"), Some(Neighbour { port: 1, address }));
        for wrong in ["", "1", "x,02:00:00:00:00:09", "1,02:00:00:00:00"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
