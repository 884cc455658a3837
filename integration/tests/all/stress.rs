//! Stock nginx and HAProxy under stress: nothing fails that would not fail without us, nothing
//! leaks.
//!
//! `WIDELANE_STRESS_HANDSHAKES` sets the number of handshakes per server; `cargo xtask stress` runs
//! 200,000. A run without it is short, and reloads and kills more often to make up for that; it
//! leaves out servers with one certificate, which `cargo xtask test --full` runs. With
//! `WIDELANE_STRESS_NATIVE` the servers run as they are installed, to see what they do without us.
//! `WIDELANE_STRESS_GROWTH_MIB` lets the workers' memory grow so far, for allocators that keep what
//! is freed.

use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;
use widelane_bench::server::Key;
use widelane_integration::misbehaving_clients::{Clients, Failure, Tally};
use widelane_integration::processes::Holdings;
use widelane_integration::server::{Kind, Server};
use widelane_integration::upkeep::Plan as UpkeepPlan;

/// Two servers at once would share two CPUs and stretch every deadline.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One key of each kind that a server can hold at once.
const MIXED: [Key; 2] = [Key::Rsa(2048), Key::EcdsaP256];

#[test]
#[ignore = "its operations are among those of both certificates"]
fn nginx_survives_reloads_and_killed_workers() -> Result<()> {
    stress(Kind::Nginx, &[Key::Rsa(2048)], true)
}

#[test]
#[ignore = "its operations are among those of both certificates"]
fn nginx_with_an_ecdsa_certificate_survives_reloads_and_killed_workers() -> Result<()> {
    stress(Kind::Nginx, &[Key::EcdsaP256], true)
}

#[test]
fn nginx_with_both_certificates_survives_reloads_and_killed_workers() -> Result<()> {
    stress(Kind::Nginx, &MIXED, true)
}

#[test]
#[ignore = "its operations are among those of both certificates"]
fn haproxy_survives_reloads() -> Result<()> {
    stress(Kind::Haproxy, &[Key::Rsa(2048)], false)
}

#[test]
#[ignore = "its operations are among those of both certificates"]
fn haproxy_with_an_ecdsa_certificate_survives_reloads() -> Result<()> {
    stress(Kind::Haproxy, &[Key::EcdsaP256], false)
}

#[test]
fn haproxy_with_both_certificates_survives_reloads() -> Result<()> {
    stress(Kind::Haproxy, &MIXED, false)
}

fn stress(kind: Kind, keys: &[Key], kills: bool) -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let natively = std::env::var_os("WIDELANE_STRESS_NATIVE").is_some();
    let Some(server) = Server::start(kind, keys, natively)? else {
        eprintln!("{} is not installed: nothing was tested", kind.name());
        return Ok(());
    };
    let plan = Plan::from_environment(kills);
    holds_nothing_back(&server, &plan)?;
    loses_nothing(&server, &plan, kills)?;

    let counts = server.counts();
    eprintln!("{kind:?} {keys:?}: {counts:?}");
    if counts.lanes > 1 {
        assert!(counts.jobs_batched > 0, "no batch ran: {counts:?}");
        assert!(counts.room().is_some());
    }
    assert!(natively || counts.jobs() > 0, "the provider signed nothing: {counts:?}");
    assert_eq!((counts.fallbacks, counts.faults_detected), (0, 0));
    assert_eq!(server.alarms(), [""; 0]);
    Ok(())
}

/// How long and how hard.
struct Plan {
    handshakes: u64,
    upkeep: UpkeepPlan,
}

impl Plan {
    fn from_environment(kills: bool) -> Self {
        match std::env::var("WIDELANE_STRESS_HANDSHAKES") {
            Ok(handshakes) => Plan {
                handshakes: handshakes.parse().expect("WIDELANE_STRESS_HANDSHAKES is a number"),
                upkeep: UpkeepPlan {
                    reload_every: Duration::from_secs(2),
                    kill_every: kills.then_some(Duration::from_secs(5)),
                    hardship_every: None,
                    renewal_ends: None,
                },
            },
            Err(_) => Plan {
                handshakes: 8_000,
                upkeep: UpkeepPlan {
                    reload_every: Duration::from_millis(500),
                    kill_every: kills.then_some(Duration::from_millis(1_250)),
                    hardship_every: None,
                    renewal_ends: None,
                },
            },
        }
    }
}

/// A quarter as many handshakes go to processes that nobody touches: what they hold afterwards must
/// be what they held when they had warmed up.
///
/// A worker keeps the memory of as many connections as it ever had at once, and on a busy machine
/// they are dealt out unevenly. So at least one of four rounds of clients must leave the workers as
/// they are: a leak grows with every round.
fn holds_nothing_back(server: &Server, plan: &Plan) -> Result<()> {
    send_clients(server, plan.handshakes / 8, 1)?;
    let workers = server.settle()?;
    let mut least_grown_kib = u64::MAX;
    for seed in 2..6 {
        let before = holdings(&workers)?;
        send_clients(server, plan.handshakes / 4, seed)?;
        let after = holdings_once_closed(&workers, &before)?;
        eprintln!("holdings before: {before:?}\nholdings after:  {after:?}");
        assert_eq!(server.settle()?, workers, "workers were replaced although nobody touched them");
        let grown = before.iter().zip(&after).map(|(before, after)| {
            let closed = after.descriptors <= before.descriptors;
            assert!(closed, "descriptors leak: {before:?}, then {after:?}");
            after.memory_kib.saturating_sub(before.memory_kib)
        });
        least_grown_kib = least_grown_kib.min(grown.sum());
        if least_grown_kib <= 1024 * growth_max_mib() {
            return Ok(());
        }
    }
    panic!("memory leaks: every round of clients takes {least_grown_kib} KiB or more");
}

/// Runs clients none of whose handshakes may fail.
fn send_clients(server: &Server, handshakes: u64, seed: u64) -> Result<()> {
    let tally = Clients {
        target: server.address(),
        certificates: server.certificates(),
        connections: 256,
        handshakes,
        hang_ups: true,
        seed,
    }
    .run()?;
    assert!(tally.failures.is_empty(), "{}", describe(&tally.failures, server));
    Ok(())
}

/// What workers hold when they have noticed which connections were hung up on, which takes them a
/// moment.
fn holdings_once_closed(workers: &[i32], before: &[Holdings]) -> Result<Vec<Holdings>> {
    let have_closed = |after: &Vec<Holdings>| {
        before.iter().zip(after).all(|(a, b)| b.descriptors <= a.descriptors)
    };
    look_until(Duration::from_secs(10), || holdings(workers), have_closed)
}

/// What is looked at, once it is as wanted, or after so long.
fn look_until<T>(
    patience: Duration,
    look: impl Fn() -> Result<T>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        let seen = look()?;
        if is_wanted(&seen) || Instant::now() > deadline {
            return Ok(seen);
        }
        sleep(Duration::from_millis(50));
    }
}

/// All handshakes, at 1 to 512 connections, through reloads and killed workers.
fn loses_nothing(server: &Server, plan: &Plan, kills: bool) -> Result<()> {
    let master_before = Holdings::of(server.master())?;
    let (tally, upkeep) = scope(|scope| {
        let clients = scope.spawn(|| send_all_sizes(server, plan));
        let upkeep = plan.upkeep.keep_up(server, || clients.is_finished());
        (clients.join().expect("clients do not panic"), upkeep)
    });
    let (tally, upkeep) = (tally?, upkeep?);
    let master_after = master_once_settled(server, &master_before)?;
    eprintln!(
        "{} handshakes, hung up {:?}, {} failed; {} reloads, {} of them dropped sockets, {} kills; \
         master {:?}, then {:?}",
        tally.handshakes,
        tally.hung_up,
        tally.failures.len(),
        upkeep.reloads,
        upkeep.drops,
        upkeep.kills,
        master_before,
        master_after,
    );
    assert!(upkeep.reloads > 0);
    assert_eq!(kills, upkeep.kills > 0);
    assert!(tally.hung_up.iter().all(|&count| count > 0), "{:?}", tally.hung_up);
    let unexplained: Vec<Failure> =
        tally.failures.into_iter().filter(|failure| !upkeep.explains(failure)).collect();
    assert!(unexplained.is_empty(), "{}", describe(&unexplained, server));
    assert!(has_closed(&master_before, &master_after));
    Ok(())
}

/// What the master holds when the last reload is over, which on a busy machine it may not even have
/// begun when the workers are looked at.
fn master_once_settled(server: &Server, before: &Holdings) -> Result<Holdings> {
    let settled = || {
        server.settle()?;
        Holdings::of(server.master())
    };
    look_until(Duration::from_secs(30), settled, |after| has_closed(before, after))
}

/// Whether a master holds no more than before, but for what a reload may leave open.
fn has_closed(before: &Holdings, after: &Holdings) -> bool {
    after.descriptors <= before.descriptors + 2
}

fn send_all_sizes(server: &Server, plan: &Plan) -> Result<Tally> {
    let mut total = Tally::default();
    for (seed, (connections, percent)) in (10..).zip([(1, 10), (8, 20), (64, 30), (512, 40)]) {
        let clients = Clients {
            target: server.address(),
            certificates: server.certificates(),
            connections,
            handshakes: plan.handshakes * percent / 100,
            hang_ups: true,
            seed,
        };
        total.add(clients.run()?);
    }
    Ok(total)
}

fn holdings(workers: &[i32]) -> Result<Vec<Holdings>> {
    workers.iter().map(|&pid| Holdings::of(pid)).collect()
}

fn describe(failures: &[Failure], server: &Server) -> String {
    let first: Vec<_> = failures.iter().take(10).map(|failure| &failure.error).collect();
    format!("{} handshakes failed: {first:#?}\n{}", failures.len(), server.log())
}

/// How much more the allocators of all workers may keep after the clients than before them: without
/// us it is up to 1.7 MiB in one worker. A leaked handshake of every client that hung up would be
/// 15 MiB.
fn growth_max_mib() -> u64 {
    let stated = std::env::var("WIDELANE_STRESS_GROWTH_MIB");
    stated.map_or(6, |mib| mib.parse().expect("WIDELANE_STRESS_GROWTH_MIB is a number"))
}
