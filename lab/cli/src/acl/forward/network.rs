//! Forwarding between interfaces.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use widelane_cli::{output, system};
use widelane_forward::port::{Interface, Port, Ring, Worker};
use widelane_forward::{Counts, Engine, Routes, Watch};
use widelane_meter::place;

use super::metrics::Server;
use super::rules::{self, Rules};
use super::{Args, Config, Signals, summary};

/// How often files and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Looks at an empty ring before its thread sleeps.
const PATIENCE: u32 = 1000;
/// How long it sleeps at most.
const SLEEP_MS: u32 = 50;

/// Forwards until it is told to end, and prints the counters.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.ports.len() > Routes::PORTS_MAX {
        bail!("--port is given {} times; there can be {}", args.ports.len(), Routes::PORTS_MAX);
    }
    let policy = system::policy()?.policy;
    let rules = Rules::new(&rules::read(args)?, args.ports.len(), args.memory_max, &policy)?;
    let ports = ports(args)?;
    let config = config(args)?;
    let signals = Signals::watch(args.duration)?;
    let watches: Vec<Watch> = config.0.iter().map(|_| Watch::default()).collect();
    // All is opened here, so that what is wrong is said before anything is forwarded.
    let mut rings: Vec<Ring> = Vec::new();
    for &[port, _, _] in &config.0 {
        let mut others = rings.iter().zip(&config.0).filter(|(_, thread)| thread[0] == port);
        let other = others.next().map(|(ring, _)| ring);
        let ring = Ring::open(&ports[port].interface, other)?;
        rings.push(ring);
    }
    let worker = |ring| Worker::new(ring, &ports, Engine::new(rules.routes()));
    let workers: Vec<Worker<'_>> = rings.into_iter().map(worker).collect();
    let server = args.metrics.map(Server::open).transpose()?;
    let began = Instant::now();
    let ended = AtomicBool::new(false);
    let (counts, outcome) = thread::scope(|scope| {
        let (ended, watches, rules) = (&ended, &watches, &rules);
        let mut threads = Vec::new();
        for ((worker, watch), thread) in workers.into_iter().zip(watches).zip(&config.0) {
            let cpu = thread[2];
            threads.push(scope.spawn(move || forward(worker, watch, cpu, ended)));
        }
        let shown = || Watch::look(watches).0;
        if let Some(server) = &server {
            scope.spawn(move || server.serve(ended, shown, rules));
        }
        // Of all threads; nothing where one of them showed none in time.
        let latest = || {
            let (counts, all_came) = Watch::look(watches);
            all_came.then_some(counts)
        };
        attend(rules, &signals, latest, || threads.iter().any(|thread| thread.is_finished()));
        ended.store(true, Ordering::Relaxed);
        let mut total = Counts::default();
        let outcomes = threads.into_iter().map(|thread| match thread.join() {
            Ok((counts, outcome)) => {
                total.add(&counts);
                outcome
            }
            Err(_) => bail!("a forwarding thread failed; its message stands above"),
        });
        let outcomes: Vec<anyhow::Result<()>> = outcomes.collect();
        (total, outcomes.into_iter().collect::<anyhow::Result<()>>())
    });
    let text = summary::of(Vec::new(), &counts, &rules, began.elapsed(), args.json)?;
    output::print(&text)?;
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Looks at files and signals until the end.
fn attend(
    rules: &Rules,
    signals: &Signals,
    counts: impl Fn() -> Option<Counts>,
    has_failed: impl Fn() -> bool,
) {
    let mut stamps = rules.stamps();
    let mut troubles = vec![None; stamps.len()];
    while !signals.is_over() && !has_failed() {
        signals.wait(LOOK);
        let errors = rules.refresh(&mut stamps, signals.take_hang_up());
        errors.iter().chain(&rules.troubles(&mut troubles)).for_each(output::complain);
        for routes in rules.routes().filter(|routes| routes.should_forget()) {
            if let Some(counts) = counts() {
                routes.forget(&counts);
            }
        }
    }
}

/// One thread's work: what it counted, and why it ended if it was not told to.
fn forward(
    mut worker: Worker<'_>,
    watch: &Watch,
    cpu: usize,
    ended: &AtomicBool,
) -> (Counts, anyhow::Result<()>) {
    let mut work = || -> anyhow::Result<()> {
        place::stay_on(cpu)?;
        let mut idle = 0;
        while !ended.load(Ordering::Relaxed) {
            match worker.turn()? {
                true => idle = 0,
                false => idle += 1,
            }
            if idle > PATIENCE {
                worker.rest(SLEEP_MS)?;
            }
            watch.show(&worker.engine.counts);
        }
        // What came until now is forwarded too.
        worker.drain()?;
        Ok(())
    };
    let outcome = work();
    (worker.engine.counts, outcome)
}

fn ports(args: &Args) -> anyhow::Result<Vec<Port>> {
    let mut ports = Vec::new();
    for (name, number) in args.ports.iter().zip(0u8..) {
        let interface = Interface::open(name)?;
        // By another of its names, it is the same.
        let is_same = |port: &Port| port.interface.index() == interface.index();
        if let Some(other) = ports.iter().position(is_same) {
            bail!("--port: {name} is port {other} already");
        }
        ports.push(Port { interface, neighbour: [2, 0, 0, 0, 0, number] });
    }
    for wanted in &args.eth_dest {
        let port = ports.get_mut(wanted.port);
        let port = port.with_context(|| format!("--eth-dest: there is no port {}", wanted.port))?;
        port.neighbour = wanted.address;
    }
    Ok(ports)
}

/// The threads wanted; by default one for each port, on the CPUs in turn.
fn config(args: &Args) -> anyhow::Result<Config> {
    let cpus = place::allowed();
    let Some(config) = &args.config else {
        if cpus.is_empty() {
            bail!(
                "cannot read which CPUs this process may use; name one for each port with --config"
            );
        }
        let thread = |port| [port, 0, cpus[port % cpus.len()]];
        return Ok(Config((0..args.ports.len()).map(thread).collect()));
    };
    for (index, thread) in config.0.iter().enumerate() {
        let [port, queue, cpu] = *thread;
        if port >= args.ports.len() {
            bail!("--config: there is no port {port}; there are {}", args.ports.len());
        }
        if config.0[..index].iter().any(|other| other[..2] == [port, queue]) {
            bail!("--config: queue {queue} of port {port} has two threads");
        }
        if !cpus.contains(&cpu) {
            bail!("--config: this process may not run on CPU {cpu}; name one of {cpus:?}");
        }
    }
    Ok(config.clone())
}
