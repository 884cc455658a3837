//! `widelane load`: TLS clients at a chosen pace, and what they saw.

mod fleet;
mod kept;
mod shown;
mod target;
mod threshold;
mod weights;

use std::fs;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use widelane_cli::{output, system, units};
use widelane_fleet::{Authority, Call, Director, Specification};
use widelane_loadgen::{
    Arrivals, Cipher, Course, Doubt, Ending, GivenUp, Goal, Group, Latency, Mix, Outcome, Pace,
    Plan, Probe, Resume, Shown, Tally, TlsVersion, Trust, UnknownName, Weighted, Work, attempt,
    doubts, drive, search,
};
use widelane_results::Results;

pub use self::fleet::Access;
use self::fleet::Fleet;
use self::kept::{Kept, Second};
use self::target::Target;
use self::threshold::Threshold;
use self::weights::{named, weighted};
use crate::files::raise_file_limit;
use crate::keep::Keep;
use crate::measure;

/// Makes TLS load: handshakes, requests or downloads, in a closed or an open loop
///
/// What a connection offers is drawn from lists with weights, such as `--tls 1.3=70,1.2=30`; one
/// without a weight has weight 1.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// https://HOST:PORT/PATH asks for the path on each connection; HOST:PORT alone only does
    /// handshakes
    #[arg(value_name = "URL|HOST:PORT")]
    target: Target,
    /// Requests on one connection, one after the other; 0 for handshakes only [default: 1 for a
    /// URL]
    #[arg(long, value_name = "COUNT")]
    requests: Option<u32>,
    /// Length that every body must have, such as 64M
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    body_bytes: Option<u64>,

    /// Connections outstanding; in an open loop, their limit [default: 64; with --rate or
    /// --search-max 10000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,
    /// Begins PER_SECOND connections each second whatever the server does (open loop)
    #[arg(long, value_name = "PER_SECOND", value_parser = units::positive)]
    rate: Option<f64>,
    /// How connections of an open loop are spread over time [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<Spread>,
    /// Time in which connections or rate grow to their value
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0")]
    ramp: Duration,
    /// Time under load that is not measured
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "1s")]
    warm_up: Duration,
    /// Measured time; of one probe in a search
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    duration: Duration,
    /// Timeout of a handshake or a response
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    patience: Duration,
    /// Threads of clients
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024),
          default_value_t = 1)]
    threads: u16,
    /// CPUs to pin the threads to, in turn
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Addresses of this host to connect from, in turn; one has some 28,000 ports for a server
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Makes draws and arrivals reproducible
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// TLS versions: 1.2, 1.3
    #[arg(long, value_name = "LIST", value_parser = listed::<TlsVersion>, default_value = "1.3")]
    tls: Weighted<TlsVersion>,
    /// Ciphers: aes256-gcm, aes128-gcm, chacha20-poly1305, aes128-sha (RSA key transport, TLS 1.2
    /// only), aes128-sha-mac-first (the same without encrypt-then-MAC)
    #[arg(long, value_name = "LIST", value_parser = listed::<Cipher>, default_value = "aes256-gcm")]
    cipher: Weighted<Cipher>,
    #[arg(long, value_name = "LIST", value_parser = listed::<Group>, default_value = "x25519",
          help = groups_help())]
    group: Weighted<Group>,
    /// Protocols to offer by ALPN, or none; with h3, alone, it is HTTP/3 over QUIC, and with any
    /// other requests speak HTTP/1.1
    #[arg(long, value_name = "LIST", value_parser = protocols, default_value = "none")]
    alpn: Weighted<Option<String>>,
    /// Sessions to offer: never, ticket, session-id (TLS 1.2; TLS 1.3 has tickets only)
    #[arg(long, value_name = "LIST", value_parser = resumption, default_value = "never")]
    resume: Weighted<Resume>,
    /// Names to send as SNI and as host [default: the host of the target]
    #[arg(long, value_name = "LIST", value_parser = names)]
    sni: Option<Weighted<String>>,
    /// Certificates to show, CHAIN:KEY (PEM files), or none
    #[arg(long, value_name = "LIST", value_parser = identities, default_value = "none")]
    client_certificate: Weighted<Option<Shown>>,

    /// Certificate authorities to trust, PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    authorities: Option<PathBuf>,
    /// Accepts any certificate; the signature of each handshake is still verified
    #[arg(long, conflicts_with = "authorities")]
    insecure: bool,

    /// Searches the highest rate at which --latency-max is kept
    #[arg(long, requires = "latency_max", conflicts_with_all = ["rate", "ramp"])]
    search_max: bool,
    /// Latency to keep, from the instant at which a connection is due to the end of its work
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "search_max")]
    latency_max: Option<Duration>,
    /// Percentile of the latencies that has to keep it
    #[arg(long, value_name = "PERCENT", value_parser = units::percentile, default_value = "100",
          requires = "search_max")]
    percentile: f64,

    /// Has agents on other hosts make the load (`widelane agent`): the NATS server where they wait,
    /// nats://HOST:PORT or tls://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["cpus", "source"])]
    nats: Option<String>,
    #[command(flatten)]
    access: Access,
    /// How many agents share the load
    #[arg(long, value_name = "COUNT", requires = "nats", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    agents: u16,
    /// How long to wait for them
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s",
          requires = "nats")]
    agents_wait: Duration,

    /// Ends with status 1 under this condition, such as 'p99>50ms'; a search has --latency-max
    /// instead
    #[arg(long, value_name = "CONDITION", conflicts_with = "search_max")]
    fail_if: Vec<Threshold>,
    /// Prints JSON (docs/measure/load.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keep: Keep,
}

const AFTER_HELP: &str = "\
Conditions of --fail-if compare p50, p99.9, max … (of total; or connect.p99, handshake.p99,
first-byte.p99) with a time, rate (handshakes per second) and errors with a number, resumed with
a percentage.
Ctrl-C ends the measurement and prints what there is.

Examples:
  widelane load localhost:8443 --insecure
  widelane load https://host/ --rate 500 --duration 30s
  widelane load host:443 --search-max --latency-max 50ms --percentile 99";

/// How arrivals are spread.
#[derive(Clone, Copy, ValueEnum)]
enum Spread {
    /// At equal distances on each thread of clients
    Constant,
    /// Independent of each other
    Poisson,
}

/// Connections outstanding by default, in a closed and in an open loop.
const CONNECTIONS: u32 = 64;
const CONNECTIONS_OPEN: u32 = 10_000;

fn listed<T: FromStr<Err = UnknownName>>(text: &str) -> Result<Weighted<T>, String> {
    weighted(text, |name| name.parse().map_err(|unknown: UnknownName| unknown.to_string()))
}

fn groups_help() -> String {
    let names = Group::ALL.map(Group::name).join(", ");
    format!("Key-exchange groups: {names}; those with ML-KEM are for TLS 1.3 only")
}

fn protocols(text: &str) -> Result<Weighted<Option<String>>, String> {
    weighted(text, |name| match name {
        "none" => Ok(None),
        "" => Err("a protocol has a name".to_owned()),
        name if name.len() > 255 => Err(format!("{name:?} is longer than 255 bytes")),
        name => Ok(Some(name.to_owned())),
    })
}

fn resumption(text: &str) -> Result<Weighted<Resume>, String> {
    let known =
        [("never", Resume::Never), ("ticket", Resume::Ticket), ("session-id", Resume::SessionId)];
    weighted(text, |name| named(name, &known))
}

fn names(text: &str) -> Result<Weighted<String>, String> {
    weighted(text, |name| Ok(name.to_owned()))
}

fn identities(text: &str) -> Result<Weighted<Option<Shown>>, String> {
    weighted(text, |part| match part.split_once(':') {
        _ if part == "none" => Ok(None),
        Some((chain, key)) => match Shown::read(Path::new(chain), Path::new(key)) {
            Ok(shown) => Ok(Some(shown)),
            Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
        },
        None => Err(format!("{part:?} is not CHAIN:KEY")),
    })
}

impl Args {
    /// The server's address, and whose certificates to trust. Agents find out both by themselves.
    fn server(&self) -> anyhow::Result<(SocketAddr, Trust)> {
        if self.nats.is_some() {
            return Ok(((Ipv4Addr::UNSPECIFIED, self.target.port).into(), Trust::Anyone));
        }
        let trust = match self.insecure {
            true => Trust::Anyone,
            false => Trust::authorities(self.authorities.as_deref())?,
        };
        Ok((self.target.resolve()?, trust))
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let (target, trust) = self.server()?;
        let host = || Weighted::only(self.target.host.clone());
        let plan = Plan {
            target,
            sources: self.source.clone(),
            trust,
            mix: Mix {
                versions: self.tls.clone(),
                ciphers: self.cipher.clone(),
                groups: self.group.clone(),
                names: self.sni.clone().unwrap_or_else(host),
                protocols: self.alpn.clone(),
                resumption: self.resume.clone(),
                identities: self.client_certificate.clone(),
            },
            work: self.work()?,
            pace: self.pace(),
            patience: self.patience,
            seed: self.seed,
        };
        Ok(plan)
    }

    fn work(&self) -> anyhow::Result<Work> {
        let path = self.target.path.clone();
        match self.requests.unwrap_or(u32::from(path.is_some())) {
            0 if self.body_bytes.is_some() => {
                bail!("--body-bytes is about requests; name a URL, or --requests")
            }
            0 => Ok(Work::Handshake),
            count => Ok(Work::Requests {
                path: path.unwrap_or_else(|| "/".to_owned()),
                count,
                body_bytes: self.body_bytes,
                pattern: None,
            }),
        }
    }

    fn pace(&self) -> Pace {
        let connections = |default| self.connections.unwrap_or(default) as usize;
        let ramp = self.ramp;
        match self.rate {
            None if !self.search_max => {
                Pace::Closed { connections: connections(CONNECTIONS), ramp }
            }
            rate => Pace::Open {
                rate: rate.unwrap_or_default(),
                arrivals: match self.arrivals {
                    Some(Spread::Constant) => Arrivals::Constant,
                    Some(Spread::Poisson) | None => Arrivals::Poisson,
                },
                ramp,
                connections_max: connections(CONNECTIONS_OPEN),
            },
        }
    }

    /// Calls the agents that are to make the load to NATS at `url`.
    fn director(&self, url: &str, stop: &AtomicBool) -> anyhow::Result<Director> {
        if self.client_certificate.iter().any(Option::is_some) {
            bail!("--client-certificate does not go with --nats: private keys do not travel");
        }
        let call = Call { agents: self.agents.into(), wait: self.agents_wait };
        Ok(Director::call(&self.access.bus(url)?, &call, stop)?)
    }

    /// Whom agents are to trust.
    fn authority(&self) -> anyhow::Result<Authority> {
        Ok(match &self.authorities {
            _ if self.insecure => Authority::Anyone,
            None => Authority::System,
            Some(path) => Authority::Given(
                fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?,
            ),
        })
    }

    fn course(&self) -> Course {
        Course {
            threads: self.threads.into(),
            cpus: self.cpus.clone(),
            warm_up: self.warm_up,
            window: self.duration,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.duration.is_zero() {
        bail!("--duration 0 measures nothing");
    }
    if args.arrivals.is_some() && args.rate.is_none() && !args.search_max {
        bail!("--arrivals is about an open loop; add --rate or --search-max");
    }
    let plan = args.plan()?;
    let stop = system::stop_on_signals()?;
    let created = widelane_bench::now_rfc3339();
    match args.latency_max {
        Some(latency_max) if args.search_max => {
            let goal = Goal { latency_max, percentile: args.percentile };
            run_search(args, &plan, &goal, &created, &stop)
        }
        _ => run_once(args, &plan, &created, &stop),
    }
}

fn run_once(
    args: &Args,
    plan: &Plan,
    created: &str,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let live = Live::of(&plan.work);
    let mut seconds = Vec::new();
    let second = |_: usize, tally: &Tally| {
        live.show(tally);
        seconds.push(Second::of(tally, &plan.work));
    };
    let made = make(args, plan, stop, second);
    live.finish();
    let Made { outcome, fleet, given_up } = made?;
    let why = given_up.as_ref().map(|error| format!("{error:#}"));
    let doubts = doubts(plan, &outcome);
    let crossed = args.fail_if.iter().filter(|limit| limit.is_crossed(&outcome, &plan.work));
    let crossed: Vec<String> = crossed.map(ToString::to_string).collect();
    let load = shown::Load::of(&outcome, &plan.work, &doubts, crossed.clone(), fleet)
        .given_up(why.clone());
    let kept = Kept {
        target: &args.target,
        work: &plan.work,
        seconds: &seconds,
        outcome: &outcome,
        doubts: &doubts,
        crossed: &crossed,
        given_up: why.as_deref(),
        fleet: load.fleet(),
    };
    // Shown even where it cannot be written.
    let complete = !outcome.interrupted && given_up.is_none();
    let written = args.keep.here(created, complete, |results| kept.fill(results));
    match args.json {
        true => output::print(&load.json()?)?,
        false => output::print(&load.text(&output::style()))?,
    }
    let ended = match given_up {
        Some(error) => Err(error),
        None if !crossed.is_empty() => Err(anyhow!("crossed: {}", crossed.join(", "))),
        None if outcome.interrupted => {
            Err(anyhow!("interrupted after {:.1} s", outcome.wall.as_secs_f64()))
        }
        None if doubts.contains(&Doubt::NothingDone) => {
            Err(anyhow!("nothing was done; failed: {}", load.failures()))
        }
        None => load.degraded().map_or(Ok(()), |why| Err(anyhow!("degraded: {why}"))),
    };
    measure::all([ended, written]).map(|()| ExitCode::SUCCESS)
}

/// A load that was made, to its end or not.
struct Made {
    outcome: Outcome,
    /// What agents did, where they made it.
    fleet: Option<Fleet>,
    /// The error that ended it early.
    given_up: Option<anyhow::Error>,
}

/// Makes the load from this host, or has agents make it.
fn make(
    args: &Args,
    plan: &Plan,
    stop: &AtomicBool,
    second: impl FnMut(usize, &Tally),
) -> anyhow::Result<Made> {
    let course = args.course();
    let Some(url) = &args.nats else {
        raise_file_limit(plan.pace.connections(), course.threads)?;
        return match drive(plan, &course, stop, second) {
            Ok(outcome) => Ok(Made { outcome, fleet: None, given_up: None }),
            Err(GivenUp { error, outcome: Some(outcome) }) => {
                Ok(Made { outcome: *outcome, fleet: None, given_up: Some(error.into()) })
            }
            Err(GivenUp { error, outcome: None }) => Err(error.into()),
        };
    };
    let specification = Specification::new(plan, &args.target.host, args.authority()?, &course);
    specification.check_division(args.agents.into())?;
    let mut director = args.director(url, stop)?;
    let directed = director.direct(&specification, stop, second)?;
    let fleet = Some(Fleet::of(directed.agents, &directed.degradations));
    Ok(Made { outcome: directed.outcome, fleet, given_up: None })
}

fn run_search(
    args: &Args,
    plan: &Plan,
    goal: &Goal,
    created: &str,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let live = Live::of(&plan.work);
    let probed = |probe: &Probe| live.probed(probe);
    let course = args.course();
    let found = match &args.nats {
        None => {
            raise_file_limit(plan.pace.connections(), course.threads)?;
            let here = |plan: &Plan, course: &Course| {
                attempt(plan, course, stop).map_err(anyhow::Error::from)
            };
            search(plan, &course, goal, here, probed)
        }
        Some(url) => {
            let (mut director, authority) = (args.director(url, stop)?, args.authority()?);
            let there = |plan: &Plan, course: &Course| {
                let host = &args.target.host;
                let specification = Specification::new(plan, host, authority.clone(), course);
                director.attempt(&specification, stop).map_err(anyhow::Error::from)
            };
            search(plan, &course, goal, there, probed)
        }
    };
    live.finish();
    if found.probes.is_empty()
        && let Ending::GivenUp(error) = found.ending
    {
        return Err(error);
    }
    let shown = shown::Search::of(&found, plan, goal);
    let (target, ending) = (&args.target, shown.ending());
    let complete = !matches!(found.ending, Ending::Interrupted | Ending::GivenUp(_));
    let fill = |results: &mut Results| kept::search(target, &found, goal, ending, results);
    let written = args.keep.here(created, complete, fill);
    match args.json {
        true => output::print(&shown.json()?)?,
        false => output::print(&shown.text(&output::style()))?,
    }
    let mut status = ExitCode::SUCCESS;
    let ended = match found.ending {
        Ending::Rate(_) => Ok(()),
        Ending::Infeasible(_) => {
            status = ExitCode::FAILURE;
            Ok(())
        }
        Ending::NeverKept(_) => Err(anyhow!(
            "{ending}; probe longer or on a quieter machine, or allow a higher latency"
        )),
        Ending::Unsteady => Err(anyhow!("{ending}; probe longer, or on a quieter machine")),
        Ending::Gone => Err(anyhow!("{ending}; see what it logged when it ended")),
        Ending::Interrupted => Err(anyhow!("interrupted")),
        Ending::GivenUp(error) => Err(error),
    };
    measure::all([ended, written]).map(|()| status)
}

/// What is shown while the load runs, on terminals only.
struct Live<'a> {
    bar: Option<ProgressBar>,
    work: &'a Work,
}

impl<'a> Live<'a> {
    fn of(work: &'a Work) -> Self {
        let style = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}");
        let bar = style.ok().map(|style| ProgressBar::new_spinner().with_style(style));
        Live { bar: bar.filter(|_| io::stderr().is_terminal()), work }
    }

    fn show(&self, tally: &Tally) {
        let Some(bar) = &self.bar else { return };
        let total = Latency::Total.of(tally, self.work);
        let at = |percent| match total.is_empty() {
            true => "–".to_owned(),
            false => shown::time(total.value_at_percentile(percent) as f64 / 1e9),
        };
        bar.set_message(format!(
            "{}/s full, {}/s resumed, {}/s answers, {}/s failed; p50 {}, p99 {}",
            tally.full,
            tally.resumed,
            tally.answers,
            tally.failures(),
            at(50.0),
            at(99.0)
        ));
        bar.tick();
    }

    fn probed(&self, probe: &Probe) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(shown::probe(probe));
        bar.tick();
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
