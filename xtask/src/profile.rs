//! Where the CPU time of a TLS server's handshakes goes, by cause: native beside accelerated.

mod causes;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::server::{Key, Program, Server, Settings};
use crate::setup::{self, Need, Proof};
use crate::shell::{announce, capture, run as run_command};
use crate::workspace::Workspace;
use causes::{Costs, read};

/// What `cargo xtask profile` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The server
    #[arg(long, value_enum, default_value_t = Program::Haproxy)]
    server: Program,

    /// The certificate's key
    #[arg(long, value_enum, default_value_t = Key::EcdsaP256)]
    key: Key,

    /// Handshakes per second, arriving independently of each other [default: a saturated server]
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// How long each server is watched
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Libraries of OpenSSL with symbols, instead of the system's: a directory with libssl.so.3 and
    /// libcrypto.so.3, such as `cargo xtask openssl` builds. Without them, what libssl does by
    /// itself is one row
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
}

/// Kinds of handshakes, and the arguments of `widelane load` that make them.
const SCENARIOS: [(&str, &[&str]); 4] = [
    ("TLS 1.3", &["--tls", "1.3"]),
    ("TLS 1.3, resumed", &["--tls", "1.3", "--resume", "ticket"]),
    ("TLS 1.2", &["--tls", "1.2"]),
    ("TLS 1.2, resumed", &["--tls", "1.2", "--resume", "ticket"]),
];

/// Builds what is measured, watches both servers in each scenario, and prints a table.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run()?;
    setup::meet(NEEDS)?;
    workspace.build()?;
    let directory = workspace.target.join("profile");
    fs::create_dir_all(&directory)?;
    let mut columns = Vec::new();
    for (scenario, load) in SCENARIOS {
        for is_accelerated in [false, true] {
            let subject = if is_accelerated { "accelerated" } else { "native" };
            announce(&format!("{scenario}, {subject}"));
            let server = start(workspace, arguments, &directory, is_accelerated)?;
            let costs = watch(workspace, arguments, &directory, &server, load)
                .with_context(|| format!("{scenario}, {subject}: {}", server.log()))?;
            columns.push((format!("{scenario}, {subject}"), costs));
        }
    }
    Ok(io::stdout().write_all(table(&columns).as_bytes())?)
}

/// Starts the server on the first CPU.
fn start(
    workspace: &Workspace,
    arguments: &Arguments,
    directory: &Path,
    is_accelerated: bool,
) -> Result<Server> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]);
    if is_accelerated {
        command.arg(workspace.quick("widelane"));
        command.args(["run", "--counters-dir"]).arg(directory.join("counters")).arg("--");
    }
    if let Some(libraries) = &arguments.libraries {
        command.env("LD_LIBRARY_PATH", fs::canonicalize(libraries)?);
    }
    let settings = Settings { program: arguments.server, key: arguments.key, groups: "X25519" };
    Server::start(settings, directory, command)
}

/// Puts `server` under load, records it and finds the causes.
fn watch(
    workspace: &Workspace,
    arguments: &Arguments,
    directory: &Path,
    server: &Server,
    load: &[&str],
) -> Result<Costs> {
    let recording = directory.join("perf.data");
    let before = server.cpu_time()?;
    let mut clients = Command::new("taskset");
    clients.args(["--cpu-list", "1"]).arg(workspace.target.join("quick/widelane"));
    clients.args(["load", &server.address(), "--insecure", "--json", "--warm-up", "0"]);
    clients.args(["--duration", &format!("{}s", arguments.seconds + 2)]).args(load);
    match arguments.rate {
        Some(rate) => clients.args(["--rate", &rate.to_string()]),
        None => clients.args(["--connections", "200"]),
    };
    let told = std::thread::scope(|scope| {
        let clients = scope.spawn(|| capture(&mut clients));
        std::thread::sleep(Duration::from_secs(1));
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "--event=cpu-clock", "--freq=1000"]);
        perf.args(["--call-graph=dwarf,32768", "--pid", &server.process().to_string()]);
        perf.arg("--output").arg(&recording);
        run_command(perf.args(["--", "sleep", &arguments.seconds.to_string()]))?;
        clients.join().expect("it does not panic")
    })?;
    let spent = server.cpu_time()? - before;
    let told: Value = serde_json::from_str(&told).context("what `widelane load --json` prints")?;
    let handshakes: u64 = ["full", "resumed"].iter().filter_map(|name| told[*name].as_u64()).sum();
    let mut perf = Command::new("perf");
    let stacks = capture(perf.args(["script", "--fields=ip,sym,dso", "--input"]).arg(&recording))?;
    fs::remove_file(recording)?;
    Ok(read(&stacks, spent.as_secs_f64() * 1e6 / handshakes.max(1) as f64))
}

/// The causes as rows, in Markdown, the most expensive first.
fn table(columns: &[(String, Costs)]) -> String {
    let mut causes: Vec<(&str, f64)> = Vec::new();
    for (_, costs) in columns {
        for (cause, us) in costs.by_cause() {
            match causes.iter_mut().find(|known| known.0 == cause) {
                Some(known) => known.1 = known.1.max(us),
                None => causes.push((cause, us)),
            }
        }
    }
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = String::from("| µs of CPU per handshake |");
    // Writing to a string does not fail.
    columns.iter().for_each(|(name, _)| _ = write!(text, " {name} |"));
    let _ = writeln!(text, "\n|---|{}", "---:|".repeat(columns.len()));
    let totals = columns.iter().map(|(_, costs)| costs.total()).collect();
    let rows = causes.iter().map(|(cause, _)| {
        (*cause, columns.iter().map(|(_, costs)| costs.of(cause)).collect::<Vec<f64>>())
    });
    for (cause, costs) in std::iter::once(("all", totals)).chain(rows) {
        let _ = write!(text, "| {cause} |");
        costs.iter().for_each(|us| _ = write!(text, " {us:.1} |"));
        text.push('\n');
    }
    text
}

/// What this takes beside cargo and the servers.
const NEEDS: &[Need] = &[Need::to_build("linux-perf", Proof::Program("perf"))];
