//! Mixed: a server that scripts and compresses, with some of its requests under ChaCha20-Poly1305:
//! what do wide multiplications for a few requests cost all the others?
//!
//! nginx minifies a page in Lua and compresses it by brotli for every request. It runs as installed
//! and under policies of several widths, side by side; every round takes all of them through all
//! shares of ChaCha20-Poly1305, the rest being AES-128-GCM. With lane CPUs the key is an RSA key,
//! and one more server has its signatures made there.

mod clock;
mod rows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use widelane_bridge::counters::CipherKind;
use widelane_cpu::policy::LaneCpus;
use widelane_cpu::{LicenceClass, Policy, Width};
use widelane_loadgen::{
    Cipher, Group, Mix, Pace, Stint, TlsVersion, Trust, Weighted, Work, run_plan,
};
use widelane_results::{Measurement, Results};

use self::clock::Clock;
use self::rows::{Record, Sample};
use crate::Observer;
use crate::compare::CompareError;
use crate::compare::window::{self, Cpus, Edge, PATIENCE, account};
use crate::pairs;
use crate::programs::Programs;
use crate::server::{Identity, Key, SERVER_NAME, Server, Testbed};

/// What to go through.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Percents of the connections under ChaCha20-Poly1305; what a server does under the others is
    /// held against the first.
    pub shares: Vec<u32>,
    /// Connections at any time.
    pub connections: usize,
    /// Requests on each.
    pub requests: u32,
    /// Time under load before each window.
    pub warm_up: Duration,
    /// Length of a window.
    pub window: Duration,
    /// Rounds, each of which takes every server through every share.
    pub rounds: u32,
    /// First port to use; free ports are chosen if absent.
    pub port_first: Option<u16>,
    /// CPUs set aside for the lane process of one more server.
    pub lane_cpus: Option<LaneCpus>,
}

impl Plan {
    /// The servers: the last one has a lane process.
    fn implementations(&self) -> &'static [Implementation] {
        let all = &Implementation::ALL;
        if self.lane_cpus.is_some() { all } else { &all[..all.len() - 1] }
    }

    /// Whose signatures are made: only those with RSA are made by a lane process.
    fn key(&self) -> Key {
        if self.lane_cpus.is_some() { Key::Rsa(2048) } else { Key::EcdsaP256 }
    }
}

/// How a server is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// As installed.
    Native,
    /// Under `widelane run`, everything open.
    Open,
    /// Under `widelane run`, without vector multiplications.
    LightOnly,
    /// Under `widelane run`, with 256 bits and without vector multiplications.
    Light256,
    /// Under `widelane run`, workers without vector multiplications, a lane process with all.
    LaneCpus,
}

impl Implementation {
    /// All of them; the first is the rival of the others.
    pub const ALL: [Implementation; 5] = [
        Implementation::Native,
        Implementation::Open,
        Implementation::LightOnly,
        Implementation::Light256,
        Implementation::LaneCpus,
    ];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Implementation::Native => "native",
            Implementation::Open => "accelerated",
            Implementation::LightOnly => "light-only",
            Implementation::Light256 => "light-256",
            Implementation::LaneCpus => "lane-cpus",
        }
    }

    /// The policy of the server, which may have CPUs set aside; none as installed.
    fn policy(self, lane_cpus: Option<&LaneCpus>) -> Option<Policy> {
        let heavy = |width| LicenceClass { width, heavy: true };
        let classes_closed = [heavy(Width::W512), heavy(Width::W256)].into();
        match self {
            Implementation::Native => None,
            Implementation::Open => Some(Policy::open()),
            Implementation::LightOnly => Some(Policy { classes_closed, ..Policy::open() }),
            Implementation::Light256 => {
                Some(Policy { classes_closed, ..Policy::up_to(Width::W256) })
            }
            Implementation::LaneCpus => Some(Policy {
                classes_closed,
                lane_cpus: lane_cpus.cloned(),
                lane_process: Some(Box::new(Policy::open())),
                ..Policy::open()
            }),
        }
    }
}

/// Goes through the plan. `results` comes with machine and command filled in and is filled up with
/// the rest, whatever it holds already; what could not be done is returned beside it.
///
/// Call it on a thread that lives as long as the process: servers are tied to it.
pub fn run(
    plan: &Plan,
    programs: &Programs,
    results: &mut Results,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Vec<CompareError> {
    let began = Instant::now();
    observer.planned(u64::from(plan.rounds));
    let cpus = Cpus::choose_for(results);
    results.note(plan.lane_cpus.as_ref().map(|lane| cpus.remark_on_lane_process(lane)));
    results.note(cpus.remark_on_accounting());
    let seed = *results.seed.get_or_insert_with(|| fastrand::u32(..));
    let mut record = Record::new(plan);
    let outcome = go(plan, programs, (&cpus, seed), &mut record, stop, observer);
    results.duration_s += began.elapsed().as_secs_f64();
    record.write(results);
    results.rows.extend(outcome.as_ref().err().and_then(rows::missing));
    observer.ended(results);
    outcome.err().into_iter().collect()
}

fn go(
    plan: &Plan,
    programs: &Programs,
    (cpus, seed): (&Cpus, u32),
    record: &mut Record,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(), CompareError> {
    observer.began("nginx/mixed");
    let mut testbed = Testbed::open(programs.clone(), &cpus.server, plan.port_first)?;
    let identity = Identity::make(plan.key(), testbed.directory())?;
    let mut servers = Vec::new();
    for &implementation in plan.implementations() {
        let policy = implementation.policy(plan.lane_cpus.as_ref());
        let server = testbed.start_mixed(implementation.name(), policy.as_ref(), &identity)?;
        servers.push((implementation, server));
    }
    let mut clock = Clock::on(cpus.server.first().copied());
    // Every share of every server, forward and backward by turns, so that drift cancels.
    let visits: Vec<(usize, usize)> = (0..plan.shares.len())
        .flat_map(|share| (0..servers.len()).map(move |server| (share, server)))
        .collect();
    for round in 0..plan.rounds {
        let mut samples = Vec::new();
        for index in pairs::order(visits.len(), round) {
            if stop.load(Ordering::Relaxed) {
                return Err(CompareError::Interrupted);
            }
            let (share, server) = visits[index];
            let (implementation, server) = &mut servers[server];
            let percent = plan.shares[share];
            // The connections of a round are drawn alike for all servers.
            let seed = window::seed(seed, &format!("nginx/mixed/{percent}"), round);
            let visit = Visit { plan, identity: &identity, seed, percent, cpus, clock: &mut clock };
            samples.push((share, visit.measure(*implementation, server, stop)?));
        }
        record.push(round, samples);
        observer.round_taken(record.objection());
    }
    Ok(())
}

/// One server under one share.
struct Visit<'a> {
    plan: &'a Plan,
    identity: &'a Identity,
    seed: u64,
    percent: u32,
    cpus: &'a Cpus,
    clock: &'a mut Clock,
}

impl Visit<'_> {
    fn load(&self, server: &Server) -> widelane_loadgen::Plan {
        let ciphers =
            vec![(Cipher::Chacha20Poly1305, self.percent), (Cipher::Aes128Gcm, 100 - self.percent)];
        widelane_loadgen::Plan {
            target: server.address(),
            sources: Vec::new(),
            trust: Trust::Pinned(vec![self.identity.leaf.clone()]),
            mix: Mix {
                ciphers: Weighted::new(ciphers).expect("a hundred percent are above zero"),
                ..Mix::alike(TlsVersion::Tls13, Cipher::Aes128Gcm, Group::X25519, SERVER_NAME)
            },
            work: Work::Requests {
                path: "/".to_owned(),
                count: self.plan.requests,
                body_bytes: None,
                pattern: None,
            },
            pace: Pace::Closed { connections: self.plan.connections, ramp: Duration::ZERO },
            patience: PATIENCE,
            seed: self.seed,
        }
    }

    fn measure(
        self,
        implementation: Implementation,
        server: &mut Server,
        stop: &AtomicBool,
    ) -> Result<Sample, CompareError> {
        server.check_alive()?;
        let load = self.load(server);
        let stint = Stint {
            cpus: self.cpus.client.clone(),
            warm_up: self.plan.warm_up,
            window: self.plan.window,
            answers_min: 0,
            handshakes_max: u64::MAX,
        };
        let (window, clock_mhz) = self.clock.during(|| {
            let server: &Server = server;
            run_plan(&load, &stint, stop, |begin| Edge::observe(server, self.cpus, begin))
        });
        let window = window.map_err(|error| window::failed(server, error))?;
        let measured = Measurement {
            subject: implementation.name().to_owned(),
            operations: window.tally.answers,
            ..window::seen(&window)
        };
        let edges = [window.begin, window.end];
        let (measurement, counts) = account(server, self.cpus, edges, measured)?;
        let cipher = match self.percent {
            0 => CipherKind::Aes128Gcm,
            _ => CipherKind::ChaCha20Poly1305,
        };
        let room = counts.as_ref().and_then(|counts| counts.room_of(cipher));
        Ok(Sample { measurement, room, clock_mhz, has_counters: counts.is_some() })
    }
}
