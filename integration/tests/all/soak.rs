//! nginx and HAProxy for long, under changing load, reloads, killed workers and hard times: no
//! handshake fails without a reason, memory and descriptors stay flat. Reloads and kills end at
//! half-time, so that a leak in a worker does not end with it.
//!
//! `cargo xtask soak --minutes N` runs it; `WIDELANE_SOAK_SECONDS` says for how long, and
//! `WIDELANE_SOAK_REPORT` where its page goes, beside which the results are put.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use widelane_bench::machine::describe;
use widelane_bench::programs::Programs;
use widelane_bench::server::Key;
use widelane_cpu::policy::{self, Inputs};
use widelane_host::programs::search_path;
use widelane_integration::misbehaving_clients::{Clients, Failure};
use widelane_integration::processes::{Holdings, children};
use widelane_integration::record::{Record, Sample, results};
use widelane_integration::server::{Kind, Server, widelane};
use widelane_integration::upkeep::Plan;
use widelane_results::{Machine, Tone};

/// From one look at the processes to the next.
const LOOK: Duration = Duration::from_secs(1);

/// Handshakes of one round of clients; the next round has another number of clients.
const HANDSHAKES: u64 = 2_000;

/// Numbers of clients, in turn.
const CONNECTIONS: [usize; 4] = [128, 16, 1, 256];

#[test]
#[ignore = "takes as long as one likes: cargo xtask soak"]
fn servers_stay_as_they_are() -> Result<()> {
    let seconds = std::env::var("WIDELANE_SOAK_SECONDS").context("WIDELANE_SOAK_SECONDS")?;
    let lasts = Duration::from_secs(seconds.parse()?);
    let report =
        PathBuf::from(std::env::var_os("WIDELANE_SOAK_REPORT").context("WIDELANE_SOAK_REPORT")?);
    let reload_every = Duration::from_secs(20);
    let hardship_every = Some(Duration::from_secs(15));
    let kill_every = Some(Duration::from_secs(45));
    // So the last two quarters, which are compared, have the same workers.
    let renewal_ends = Some(lasts / 2);
    let plan = Plan { reload_every, kill_every, hardship_every, renewal_ends };
    let plans = [(Kind::Nginx, plan), (Kind::Haproxy, Plan { kill_every: None, ..plan })];
    let servers: Vec<_> = plans
        .into_iter()
        .filter_map(|(kind, plan)| {
            let server = Server::start_on_small_disk(kind, &[Key::Rsa(2048), Key::EcdsaP256]);
            server.transpose().map(|server| server.map(|server| (kind, plan, server)))
        })
        .collect::<Result<_>>()?;
    assert!(!servers.is_empty(), "neither nginx nor HAProxy is installed");
    let records = scope(|scope| {
        let soaks: Vec<_> = servers
            .iter()
            .map(|(kind, plan, server)| scope.spawn(move || soak(*kind, plan, server, lasts)))
            .collect();
        let joined = soaks.into_iter().map(|soak| soak.join().expect("a soak does not panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let results = results(&records, machine()?);
    fs::write(&report, widelane_report::html(&results))?;
    fs::write(report.with_extension("json"), results.to_json())?;
    results.notes.iter().for_each(|note| eprintln!("{note}"));
    let answer = results.answer.context("an answer")?;
    assert_eq!(answer.tone, Tone::Same, "{}; see {}", answer.detail, report.display());
    for (kind, _, server) in &servers {
        let counts = server.counts();
        assert_eq!((counts.fallbacks, counts.faults_detected), (0, 0), "{}", kind.name());
        assert_eq!(server.alarms(), [""; 0]);
    }
    Ok(())
}

/// Where it runs, under which policy.
fn machine() -> Result<Machine> {
    let search = search_path(std::env::var_os("PATH"));
    Ok(describe(
        &Programs::search(widelane()?, None, &search),
        &policy::resolve(&Inputs::of_environment())?,
    ))
}

/// What the threads of one soak share: what came of the clients so far.
#[derive(Default)]
struct Progress {
    handshakes: u64,
    failures: Vec<Failure>,
}

fn soak(kind: Kind, plan: &Plan, server: &Server, lasts: Duration) -> Result<Record> {
    let began = Instant::now();
    let done = AtomicBool::new(false);
    let progress = Mutex::new(Progress::default());
    let (upkeep, clients, samples) = scope(|scope| {
        let upkeep = scope.spawn(|| plan.keep_up(server, || done.load(Ordering::Relaxed)));
        let clients = scope.spawn(|| come(server, &progress, began + lasts));
        let mut samples = Vec::new();
        while !clients.is_finished() {
            samples.push(look(server, &progress, began));
            sleep(LOOK);
        }
        done.store(true, Ordering::Relaxed);
        samples.push(look(server, &progress, began));
        (upkeep.join(), clients.join(), samples)
    });
    clients.expect("clients do not panic")?;
    let upkeep = upkeep.expect("upkeep does not panic")?;
    let progress = progress.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let unexplained: Vec<f64> = (progress.failures.iter())
        .filter(|failure| !upkeep.explains(failure))
        .inspect(|failure| eprintln!("{}: {failure:?}", kind.name()))
        .map(|failure| (failure.ended - began).as_secs_f64())
        .collect();
    let samples = samples.into_iter().map(|sample| Sample {
        failures: unexplained.iter().filter(|&&at| at <= sample.seconds).count() as u64,
        ..sample
    });
    let since = |at: Instant| (at - began).as_secs_f64();
    let hardships: Vec<_> = (upkeep.hardships.iter())
        .map(|&(hardship, from, to)| (hardship.name().to_owned(), since(from), since(to)))
        .collect();
    eprintln!(
        "{}: {} reloads, {} of them dropped sockets, {} kills, {} hardships; {} failures with a \
         reason",
        kind.name(),
        upkeep.reloads,
        upkeep.drops,
        upkeep.kills,
        hardships.len(),
        progress.failures.len() - unexplained.len(),
    );
    Ok(Record { kind, samples: samples.collect(), hardships })
}

/// Runs one round of clients after the other until `end`.
fn come(server: &Server, progress: &Mutex<Progress>, end: Instant) -> Result<()> {
    for seed in 0.. {
        if Instant::now() >= end {
            break;
        }
        let connections = CONNECTIONS[seed as usize % CONNECTIONS.len()];
        let clients = Clients {
            target: server.address(),
            certificates: server.certificates(),
            connections,
            // A lone client is slow.
            handshakes: if connections == 1 { HANDSHAKES / 10 } else { HANDSHAKES },
            hang_ups: true,
            seed,
        };
        let tally = clients.run()?;
        let mut progress = progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        progress.handshakes += tally.handshakes;
        progress.failures.extend(tally.failures);
    }
    Ok(())
}

/// What all processes of a server hold; one that ends meanwhile holds nothing.
fn look(server: &Server, progress: &Mutex<Progress>, began: Instant) -> Sample {
    let pids = [server.master()].into_iter().chain(children(server.master()));
    let holdings: Vec<Holdings> = pids.filter_map(|pid| Holdings::of(pid).ok()).collect();
    let progress = progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Sample {
        seconds: began.elapsed().as_secs_f64(),
        handshakes: progress.handshakes,
        failures: 0,
        memory_kib: holdings.iter().map(|held| held.memory_kib).sum(),
        descriptors: holdings.iter().map(|held| held.descriptors).sum(),
        processes: holdings.len(),
    }
}
