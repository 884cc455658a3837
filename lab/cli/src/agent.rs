//! `widelane agent`: makes load when a director on the bus asks for it.

use std::io::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::time::Duration;

use widelane_cli::{system, units};
use widelane_fleet::{Agent, Allowed, Event, Limits, serve};
use widelane_tables::printable;

use crate::files::{connections_possible, raise_file_limit};
use crate::load::Access;

/// Waits on NATS for loads to take part in: the other side of `widelane load --nats`
///
/// An agent takes load specifications and nothing else, and goes only to servers that --allow
/// names. It ends with Ctrl-C, after the load that is under way has been stopped.
#[derive(clap::Args)]
pub struct Args {
    /// NATS server on which directors are heard: nats://HOST:PORT or tls://HOST:PORT
    #[arg(long, value_name = "URL")]
    nats: String,
    #[command(flatten)]
    access: Access,
    /// Servers that may be loaded: HOST:PORT, where HOST is a name, an address or a network and
    /// PORT may be *; again for more
    #[arg(long, value_name = "HOST:PORT", required = true)]
    allow: Vec<Allowed>,
    /// Name to be known by [default: that of the host, and the process]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Most threads that a load may use [default: one for each CPU]
    #[arg(long, value_name = "COUNT")]
    threads_max: Option<NonZero<u16>>,
    /// Most connections that a load may have outstanding [default: 20000, or as many as this
    /// process may have open files]
    #[arg(long, value_name = "COUNT")]
    connections_max: Option<NonZero<u32>>,
    /// Longest load
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60m")]
    duration_max: Duration,
}

/// Connections outstanding at most, by default.
const CONNECTIONS: usize = 20_000;

fn name(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    match plain && (1..=64).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a name of 1 to 64 letters without spaces")),
    }
}

/// A name of a host as an agent may have it.
fn plain(host: &str) -> String {
    host.chars().map(|char| if char.is_ascii_graphic() { char } else { '-' }).collect()
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let own_name = || format!("{:.40}-{}", plain(&host), std::process::id());
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = args.threads_max.map_or(cpus, |count| count.get().into());
    let possible = || connections_possible(threads).min(CONNECTIONS);
    let agent = Agent {
        name: args.name.clone().unwrap_or_else(own_name),
        allowed: args.allow.clone(),
        limits: Limits {
            threads,
            connections: args.connections_max.map_or_else(possible, |max| max.get() as usize),
            duration: args.duration_max,
        },
    };
    raise_file_limit(agent.limits.connections, threads)?;
    let bus = args.access.bus(&args.nats)?;
    let stop = system::stop_on_signals()?;
    serve(&bus, &agent, &stop, |event| say(&agent, event))?;
    Ok(ExitCode::SUCCESS)
}

/// One line for each thing that happens.
fn say(agent: &Agent, event: &Event) {
    // Error: the log may be closed.
    let _ = writeln!(std::io::stderr(), "{}", line(agent, event));
}

/// What a log says of `event`: one line, whatever a director wrote.
fn line(agent: &Agent, event: &Event) -> String {
    let name = &agent.name;
    let line = match event {
        Event::Joined => {
            let allowed: Vec<_> = agent.allowed.iter().map(ToString::to_string).collect();
            format!("{name} waits for loads on {}", allowed.join(", "))
        }
        Event::Accepted { run, target } => format!("{run}: takes part in a load on {target}"),
        Event::Refused(refusal) => format!("refuses a load: {refusal}"),
        Event::Over { run, handshakes } => format!("{run}: over, {handshakes} handshakes"),
        Event::Failed { run, reason } => format!("{run}: given up: {reason}"),
        Event::Abandoned { run } => format!("{run}: its director is gone; stopping"),
    };
    printable(&line.replace(['\n', '\t'], " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use widelane_fleet::Refusal;

    use super::*;

    #[test]
    fn a_line_of_the_log_is_one_whatever_a_director_wrote() {
        let limits = Limits { threads: 1, connections: 1, duration: Duration::ZERO };
        let agent = Agent { name: "a".to_owned(), allowed: Vec::new(), limits };
        let host = "h\u{1b}[2J\nb: over, 5 handshakes".to_owned();
        let target = Refusal::Target { host, port: 1, allowed: String::new() };
        let said = line(&agent, &Event::Refused(target));
        assert!(said.starts_with("refuses a load: h\u{fffd}[2J b: over"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}
