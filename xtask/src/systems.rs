//! What the servers of Debian and Ubuntu gain on each release: chroots made from their packages,
//! the tests of servers and `widelane compare` in them, and the tables of
//! docs/operate/compatibility.md.

mod page;
mod tried;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::tried::{TRIED, Tried};
use crate::programs::TestProgram;
use crate::shell::{announce, announce_and_run, capture, succeeds};
use crate::workspace::{QUICK, Workspace};
use crate::{chroot, setup};

/// What `cargo xtask systems` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Systems, or parts of them: debian13, debian13/nginx, debian13/tests [default: everything]
    #[arg(long, value_delimiter = ',', value_name = "SYSTEM[/PART]")]
    only: Vec<Choice>,
    /// Takes what an earlier build left in target/quick
    #[arg(long)]
    built: bool,
    /// Only writes the tables again, from what earlier runs left in target/systems
    #[arg(long)]
    write: bool,
}

/// A system, and one part of it if not all.
#[derive(Clone, Copy)]
struct Choice {
    system: &'static System,
    part: Option<Part>,
}

/// What is run in a system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The project's tests of servers.
    Tests,
    /// A server, natively and accelerated.
    Server(&'static Server),
    /// One that `widelane compare` cannot ask, natively and accelerated.
    Tried(&'static Tried),
}

/// A release of Debian or Ubuntu.
struct System {
    name: &'static str,
    title: &'static str,
    suite: &'static str,
}

/// A server by the name that `widelane compare` knows, or that and [`HTTP3`].
#[derive(PartialEq, Eq)]
struct Server {
    name: &'static str,
    title: &'static str,
    /// Packages; the version of the first is shown.
    packages: &'static str,
    /// Why no more can be expected of it, and what it would take.
    remark: &'static str,
}

const SYSTEMS: [System; 6] = [
    System { name: "debian12", title: "Debian 12", suite: "bookworm" },
    System { name: "debian13", title: "Debian 13", suite: "trixie" },
    System { name: "sid", title: "Debian sid", suite: "sid" },
    System { name: "ubuntu22", title: "Ubuntu 22.04", suite: "jammy" },
    System { name: "ubuntu24", title: "Ubuntu 24.04", suite: "noble" },
    System { name: "ubuntu26", title: "Ubuntu 26.04", suite: "resolute" },
];

const SERVERS: [Server; 24] = [
    server("nginx", "nginx", "nginx", ""),
    server("nginx-http3", "nginx, HTTP/3", "nginx", ""),
    server("haproxy", "HAProxy", "haproxy", ""),
    server(
        "haproxy-http3",
        "HAProxy, HTTP/3",
        "haproxy",
        "No operation waits for others ([http3.md](http3.md))",
    ),
    server("hitch", "hitch", "hitch", ""),
    server("apache", "Apache httpd, event", "apache2", "Threads block: RSA is batched among them"),
    server("lighttpd", "lighttpd", "lighttpd lighttpd-mod-openssl", ""),
    server("nghttpx", "nghttpx", "nghttp2-proxy", ""),
    server("squid", "Squid", "squid-openssl", ""),
    server("stunnel", "stunnel", "stunnel4", "A thread for each connection"),
    server(
        "node",
        "Node.js",
        "nodejs",
        "TLS in memory, not on sockets: no operation waits for others",
    ),
    server("asyncio", "Python asyncio", "python3", "TLS in memory, as with Node.js"),
    server("uvicorn", "uvicorn", "uvicorn", "TLS in memory, as with Node.js"),
    server(
        "gunicorn",
        "gunicorn",
        "gunicorn",
        "Makes a TLS context and reads the key for each connection",
    ),
    server("redis", "Redis", "redis-server", ""),
    server("valkey", "Valkey", "valkey-server", ""),
    server("memcached", "memcached", "memcached", ""),
    server("mosquitto", "mosquitto", "mosquitto", ""),
    server("unbound", "Unbound, DNS over TLS", "unbound", ""),
    server("dnsdist", "dnsdist, DNS over TLS", "dnsdist", ""),
    server("coturn", "coturn", "coturn", ""),
    server("slapd", "OpenLDAP slapd", "slapd", ""),
    server("rsyslog", "rsyslog", "rsyslog rsyslog-openssl", ""),
    server("s-server", "openssl s_server", "openssl", "One connection at a time"),
];

const fn server(
    name: &'static str,
    title: &'static str,
    packages: &'static str,
    remark: &'static str,
) -> Server {
    Server { name, title, packages, remark }
}

/// How long one server may take.
const SECONDS_MAX: u32 = 120;

/// What follows a server's name where clients speak HTTP/3.
const HTTP3: &str = "-http3";

/// What the tests of servers and every comparison take beside the server itself.
const BASE: &str = "openssl ca-certificates curl python3 iproute2 procps";
/// Some of them compile libraries that they load.
const OF_TESTS: &str = "nginx haproxy libnginx-mod-stream libnginx-mod-mail gcc libc6-dev";

/// Keys that every server is compared with, one certificate each.
const KEYS: [&str; 2] = ["rsa2048", "ecdsa-p256"];

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (system, part) = text.split_once('/').map_or((text, None), |(s, p)| (s, Some(p)));
        let names = SYSTEMS.iter().map(|system| system.name).collect::<Vec<_>>().join(", ");
        let system = SYSTEMS.iter().find(|known| known.name == system);
        let system = system.ok_or_else(|| format!("there are {names}"))?;
        let part = part.map(|name| {
            let all = Part::all().find(|part| part.name() == name);
            all.ok_or_else(|| {
                let names = Part::all().map(Part::name).collect::<Vec<_>>().join(", ");
                format!("behind the / there is one of {names}")
            })
        });
        Ok(Choice { system, part: part.transpose()? })
    }
}

/// Runs what is chosen, one part after the other, and writes the tables; a part that fails does not
/// keep others from running.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let place = workspace.target.join("systems");
    let mut failed = Vec::new();
    if !arguments.write {
        setup::run()?;
        setup::meet(chroot::NEEDS)?;
        if !arguments.built {
            workspace.build()?;
        }
        for (system, part) in chosen(&arguments.only) {
            let name = format!("{}/{}", system.name, part.name());
            announce(&name);
            if let Err(error) = run_part(workspace, &place, system, part) {
                eprintln!("    {name}: {error:#}");
                failed.push(name);
            }
        }
    }
    page::write(&place, &workspace.root.join("docs/operate/compatibility.md"))?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Everything chosen, in order.
fn chosen(only: &[Choice]) -> Vec<(&'static System, Part)> {
    let all: Vec<Choice> = SYSTEMS.iter().map(|system| Choice { system, part: None }).collect();
    let choices = if only.is_empty() { &all } else { only };
    let mut parts = Vec::new();
    for Choice { system, part } in choices {
        match part {
            Some(part) => parts.push((*system, *part)),
            None => parts.extend(Part::all().map(|part| (*system, part))),
        }
    }
    parts
}

impl Part {
    fn all() -> impl Iterator<Item = Part> {
        let servers = SERVERS.iter().map(Part::Server);
        std::iter::once(Part::Tests).chain(servers).chain(TRIED.iter().map(Part::Tried))
    }

    fn name(self) -> &'static str {
        match self {
            Part::Tests => "tests",
            Part::Server(server) => server.name,
            Part::Tried(tried) => tried.name,
        }
    }
}

fn run_part(workspace: &Workspace, place: &Path, system: &System, part: Part) -> Result<()> {
    let root = place.join(system.suite);
    if !root.exists() {
        fs::create_dir_all(place)?;
        chroot::bootstrap(&root, system.suite)?;
    }
    chroot::install(&root, BASE)?;
    let outcome = match part {
        Part::Tests => return test(workspace, &root),
        Part::Server(server) => compare(workspace, &root, server)?,
        Part::Tried(tried) => tried::run(workspace, &root, system, tried)?,
    };
    let file = page::outcome_file(place, system, part.name());
    fs::create_dir_all(file.parent().expect("a file in a directory"))?;
    fs::write(&file, serde_json::to_string_pretty(&outcome)?)?;
    Ok(())
}

/// Runs the tests of the runtime, which are those of whole servers, as they were built here.
fn test(workspace: &Workspace, root: &Path) -> Result<()> {
    chroot::install(root, OF_TESTS)?;
    let tests = ["build", QUICK, "--package=widelane-runtime", "--test=*"];
    for program in TestProgram::build(workspace.cargo().args(tests))? {
        let program = program.path.to_str().context("a path in UTF-8")?;
        let words = ["env", "WIDELANE_BUILT=yes", program, "--quiet"];
        announce_and_run(&mut chroot::command(
            root,
            &[&workspace.root, &workspace.target],
            &words,
        ))?;
    }
    Ok(())
}

/// Compares a server: its version with the results of `widelane compare`, or why there are none.
fn compare(workspace: &Workspace, root: &Path, server: &Server) -> Result<Value> {
    let Some(version) = install(root, server.packages)? else {
        return Ok(json!({ "missing": true }));
    };
    let results = workspace.target.join("systems/results.json");
    let program = workspace.quick("widelane");
    let [program, results_path] = [&program, &results].map(|path| path.to_string_lossy());
    let keys = KEYS.join(",");
    let connections = if server.name == "s-server" { "8" } else { "100" };
    let (name, http3) = match server.name.strip_suffix(HTTP3) {
        Some(name) => (name, Some("--http3")),
        None => (server.name, None),
    };
    let words = [
        &program,
        "compare",
        "--server",
        name,
        "--key",
        &keys,
        "--tls",
        "1.3",
        // The same on every release, whatever its OpenSSL prefers.
        "--group",
        "x25519",
        "--connections",
        connections,
        "--pairs",
        "6",
        "--seconds",
        "0.7",
        "--html",
        "/tmp/report.html",
        "--json",
        &results_path,
    ];
    let words = [&words, http3.as_slice()].concat();
    let command = chroot::command(root, &[&workspace.root, &workspace.target], &words);
    let mut command = chroot::within(SECONDS_MAX, &command);
    let log = fs::File::create(workspace.target.join("systems/compare.log"))?;
    let status = command.stdout(log.try_clone()?).stderr(log).status()?;
    let said = fs::read_to_string(workspace.target.join("systems/compare.log"))?;
    let mut outcome = json!({ "version": version });
    if has_compared(status) {
        outcome["results"] = serde_json::from_str(&fs::read_to_string(&results)?)?;
    } else {
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        outcome["failure"] = line.unwrap_or("it said nothing").into();
        eprintln!("    {said}");
    }
    Ok(outcome)
}

/// Whether `widelane compare` did its job, also where a busy machine has it reject everything.
pub fn has_compared(status: ExitStatus) -> bool {
    const ALL_REJECTED: i32 = 3;
    status.success() || status.code() == Some(ALL_REJECTED)
}

/// Installs the first of some `packages`, divided by |, that this release of Debian has, and
/// returns the version of the first package; nothing if it has none of them.
fn install(root: &Path, packages: &str) -> Result<Option<String>> {
    let has = |packages: &&str| {
        // `apt-cache show` succeeds for names that other packages only provide.
        let simulate = format!("apt-get install --simulate {packages} >/dev/null 2>&1");
        succeeds(Command::new("chroot").arg(root).args(["sh", "-c", &simulate]))
    };
    let Some(packages) = packages.split(" | ").find(has) else { return Ok(None) };
    chroot::install(root, packages)?;
    let package = packages.split(' ').next().expect("a server has a package");
    let query = ["dpkg-query", "-W", "-f", "${Version}", package];
    capture(Command::new("chroot").arg(root).args(query)).map(Some)
}
