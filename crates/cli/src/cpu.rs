//! `widelane cpu`: what this machine can do, what the policy lets it do, and who decided.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::{Serialize, Serializer};
use widelane_cpu::features::{self, Feature};
use widelane_cpu::machine::Signature;
use widelane_cpu::rooms::{self, RoomStatus};
use widelane_cpu::topology::Cache;
use widelane_cpu::{LicenceClass, Machine, Policy, Room, Topology};
use widelane_crypto::Family;
use widelane_host::programs::{self, haproxy_version, nginx_version};
use widelane_host::qat;
use widelane_tables::{Block, Kind, Table, Tone, counted};

use crate::libraries::Libraries;
use crate::run::fitness;
use crate::system::Starter;
use crate::{output, system};

/// Shows what this CPU can do, which rooms the policy leaves open, and the TLS servers installed
///
/// A room is one kernel for one instruction set. It is open if the CPU has the instructions and the
/// policy (/etc/widelane/policy.toml, WIDELANE_POLICY, WIDELANE_MAX_SIMD_BITWIDTH) allows them.
#[derive(clap::Args)]
pub struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let description = Description::of_this_machine()?;
    let text = if args.json {
        serde_json::to_string_pretty(&description).context("cannot write JSON")?
    } else {
        widelane_tables::show(description.blocks(), &output::style())
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// All that the command shows.
#[derive(Serialize)]
struct Description {
    machine: Machine,
    topology: Topology,
    features: Vec<Feature>,
    policy: Policy,
    policy_source: String,
    /// Why this machine cannot have the lane process that it asks for.
    lane_mistakes: Vec<String>,
    /// Which operations run together here, and in which room.
    batched: Vec<Batched>,
    rooms: Vec<DescribedRoom>,
    openssl: Option<String>,
    servers: Vec<Server>,
    widelane: Installation,
    /// Intel QuickAssist devices.
    qat_devices: usize,
}

/// Operations of one family.
#[derive(Serialize)]
struct Batched {
    #[serde(serialize_with = "as_words")]
    family: Family,
    /// None where they run one at a time.
    room: Option<Room>,
}

fn as_words<S: Serializer>(words: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(words)
}

#[derive(Serialize)]
struct DescribedRoom {
    #[serde(flatten)]
    status: RoomStatus,
    licence_class: LicenceClass,
}

/// A TLS server that `widelane run` and `widelane compare` know.
#[derive(Serialize)]
struct Server {
    name: &'static str,
    path: Option<PathBuf>,
    version: Option<String>,
    /// Whether `widelane run` accelerates it.
    accelerates: bool,
    /// Why not, or how to get it.
    remark: Option<String>,
}

/// The parts of Widelane that are loaded into servers.
#[derive(Serialize)]
struct Installation {
    version: &'static str,
    provider: Option<PathBuf>,
    runtime: Option<PathBuf>,
    /// What is missing, and what to do about it.
    remark: Option<String>,
}

impl Description {
    fn of_this_machine() -> anyhow::Result<Self> {
        let resolved = system::policy()?;
        let search = system::search_path();
        let rooms = rooms::status(&resolved.policy).into_iter().map(|status| {
            let licence_class = status.room.licence_class();
            DescribedRoom { status, licence_class }
        });
        let batched = Family::ALL.map(|family| {
            let room = family.room_with_lanes(&resolved.policy);
            Batched { family, room }
        });
        Ok(Description {
            lane_mistakes: system::lane_mistakes(&resolved.policy, Starter::Here),
            batched: batched.into(),
            machine: Machine::detect(),
            topology: Topology::detect(),
            features: features::all().into(),
            rooms: rooms.collect(),
            policy_source: resolved.source.to_string(),
            policy: resolved.policy,
            servers: servers(&search),
            openssl: openssl_version(&search),
            widelane: Installation::find(),
            qat_devices: qat::devices(),
        })
    }

    fn blocks(&self) -> Vec<Block> {
        let (tone, answer) = self.answer();
        let heading = |title: &str| Block::Heading(title.to_owned());
        vec![
            Block::Lead(tone, answer),
            heading("Rooms"),
            Block::Table(self.room_table()),
            heading("Policy"),
            Block::Table(Table::of_facts(self.policy_facts())),
            heading("TLS servers"),
            Block::Table(self.server_table()),
            heading("Widelane"),
            Block::Table(Table::of_facts(self.widelane.facts())),
            heading("Machine"),
            Block::Table(Table::of_facts(self.machine_facts())),
        ]
    }

    fn policy_facts(&self) -> Vec<(&'static str, String)> {
        let facts = [("Allows", self.policy.to_string()), ("Set by", self.policy_source.clone())];
        let mistakes = self.lane_mistakes.iter().map(|mistake| ("Mistake", mistake.clone()));
        facts.into_iter().chain(mistakes).collect()
    }

    /// Which operations run together here; what that saves, only a measurement tells.
    fn answer(&self) -> (Tone, String) {
        let mut rooms: Vec<(Room, Vec<Family>)> = Vec::new();
        let mut alone = Vec::new();
        for &Batched { family, room } in &self.batched {
            match room {
                None => alone.push(family),
                Some(room) => match rooms.iter_mut().find(|(known, _)| *known == room) {
                    Some((_, families)) => families.push(family),
                    None => rooms.push((room, vec![family])),
                },
            }
        }
        if rooms.is_empty() {
            let answer = "Public-key operations run one at a time here: no room with lanes is \
                          open. What Widelane saves is the work around them; `widelane compare` \
                          measures it.";
            return (Tone::Same, answer.to_owned());
        }
        if alone.is_empty() {
            let names: Vec<&str> = rooms.iter().map(|(room, _)| room.name()).collect();
            let plural = if names.len() > 1 { "s" } else { "" };
            let answer = format!(
                "Public-key operations can be batched here, in room{plural} {}; `widelane compare` \
                 measures the gain.",
                names.join(" and ")
            );
            return (Tone::Better, answer);
        }
        let batched: Vec<String> = rooms
            .iter()
            .map(|(room, families)| format!("{} in room {room}", Family::listed(families)))
            .collect();
        let answer = format!(
            "Operations of {} can be batched here; those of {} run one at a time. `widelane \
             compare` measures what is saved.",
            batched.join(" and of "),
            Family::listed(&alone),
        );
        (Tone::Better, answer)
    }

    fn room_table(&self) -> Table {
        let mut table = Table::new(&[
            ("Room", Kind::Words),
            ("State", Kind::Words),
            ("Licence class", Kind::Words),
            ("Why", Kind::Words),
        ]);
        for DescribedRoom { status, licence_class } in &self.rooms {
            table.rows.push(vec![
                status.room.to_string(),
                if status.open { "open" } else { "closed" }.to_owned(),
                licence_class.to_string(),
                status.reason.clone().unwrap_or_default(),
            ]);
        }
        table.without_empty_columns()
    }

    fn server_table(&self) -> Table {
        let mut table = Table::new(&[
            ("Server", Kind::Words),
            ("Version", Kind::Words),
            ("Path", Kind::Words),
            ("Under `widelane run`", Kind::Words),
        ]);
        for server in &self.servers {
            let path = server.path.as_deref().map(Path::display);
            table.rows.push(vec![
                server.name.to_owned(),
                server.version.clone().unwrap_or_default(),
                path.map_or(String::new(), |path| path.to_string()),
                server.remark.clone().unwrap_or_else(|| "accelerated".to_owned()),
            ]);
        }
        table.without_empty_columns()
    }

    fn machine_facts(&self) -> Vec<(&'static str, String)> {
        let Signature { vendor, family, model_number, stepping } = &self.machine.signature;
        let unknown = || "unknown".to_owned();
        let topology = &self.topology;
        let names = |detected: bool| {
            let features = self.features.iter().filter(move |f| f.detected == detected);
            features.map(|feature| feature.name).collect::<Vec<_>>().join(" ")
        };
        let caches: Vec<String> = topology.caches.iter().map(cache).collect();
        let mut facts = vec![
            ("CPU", self.machine.model.clone()),
            (
                "Model",
                format!("{vendor}, family {family}, model {model_number}, stepping {stepping}"),
            ),
            ("Microcode", self.machine.microcode.clone().unwrap_or_else(unknown)),
            ("Features", names(true)),
            ("Lacks", names(false)),
            (
                "CPUs",
                format!(
                    "{}, on {}, {}, {}",
                    topology.cpus.len(),
                    counted(topology.core_count(), "core", "cores"),
                    counted(topology.package_count(), "package", "packages"),
                    counted(topology.node_count(), "NUMA node", "NUMA nodes"),
                ),
            ),
            ("Caches", caches.join(", ")),
            (
                "Time stamps",
                self.machine.tsc_khz.map_or_else(unknown, |khz| format!("{} MHz", khz / 1000)),
            ),
            ("Hypervisor", self.machine.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
            ("Kernel", self.machine.kernel.clone().unwrap_or_else(unknown)),
            ("OpenSSL", self.openssl.clone().unwrap_or_else(unknown)),
            ("Intel QAT", self.qat()),
        ];
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }
}

impl Description {
    /// What is known of devices, and of our use of them.
    fn qat(&self) -> String {
        match self.qat_devices {
            0 => "no device".to_owned(),
            devices => format!(
                "{}; `widelane run --engine qat` was never run on a real device: \
                 docs/operate/experimental.md asks for a report",
                counted(devices, "device", "devices")
            ),
        }
    }
}

impl Installation {
    fn find() -> Self {
        let version = crate::VERSION;
        match Libraries::find() {
            Ok(Libraries { provider, runtime }) => {
                let (provider, runtime) = (Some(provider), Some(runtime));
                Installation { version, provider, runtime, remark: None }
            }
            Err(error) => {
                let remark = Some(format!("{error:#}"));
                Installation { version, provider: None, runtime: None, remark }
            }
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let facts = [
            ("Version", Some(self.version.to_owned())),
            ("Provider", path(&self.provider)),
            ("Runtime", path(&self.runtime)),
            ("Incomplete", self.remark.clone()),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The version of the installed OpenSSL, as its program tells: `3.0.20 7 Apr 2026`.
fn openssl_version(search: &[PathBuf]) -> Option<String> {
    let said = programs::said(&programs::find("openssl", search)?, "version")?;
    let version = said.split(" (").next()?.trim();
    Some(version.strip_prefix("OpenSSL ").unwrap_or(version).to_owned())
}

fn servers(search: &[PathBuf]) -> Vec<Server> {
    let nginx = programs::find("nginx", search);
    let haproxy = programs::find("haproxy", search);
    let versions =
        [nginx.as_deref().and_then(nginx_version), haproxy.as_deref().and_then(haproxy_version)];
    [("nginx", "nginx", nginx), ("HAProxy", "haproxy", haproxy)]
        .into_iter()
        .zip(versions)
        .map(|((name, package, path), version)| {
            let remark = match &path {
                None => Some(format!("not installed; {} installs it", install_command(package))),
                Some(path) => {
                    let objection = fitness::judge(path).objection();
                    objection.map(|reason| format!("runs unchanged: {reason}"))
                }
            };
            Server { name, path, version, accelerates: remark.is_none(), remark }
        })
        .collect()
}

/// The command by which this system's package manager installs `package`.
fn install_command(package: &str) -> String {
    const MANAGERS: [(&str, &str); 5] = [
        ("apt-get", "apt-get install"),
        ("dnf", "dnf install"),
        ("zypper", "zypper install"),
        ("pacman", "pacman -S"),
        ("apk", "apk add"),
    ];
    let path = system::path();
    match MANAGERS.into_iter().find(|(manager, _)| programs::find(manager, &path).is_some()) {
        Some((_, command)) => format!("`{command} {package}`"),
        None => "your distribution".to_owned(),
    }
}

/// `L2 1 MiB`, with the kind where a level has several.
fn cache(cache: &Cache) -> String {
    let kind = match cache.kind.as_str() {
        "Data" => "d",
        "Instruction" => "i",
        _ => "",
    };
    let kib = cache.size_bytes >> 10;
    let size =
        if kib.is_multiple_of(1024) { format!("{} MiB", kib >> 10) } else { format!("{kib} KiB") };
    let shared = if cache.cpu_count > 1 {
        format!(" (shared by {} CPUs)", cache.cpu_count)
    } else {
        String::new()
    };
    format!("L{}{kind} {size}{shared}", cache.level)
}
