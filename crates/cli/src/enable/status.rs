//! `widelane status`: which services are enabled, and whether their processes are accelerated.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use widelane_host::choice::Choice;
use widelane_tables::{Block, Kind, Table, Tone, count, percent};

use super::drop_in::{self, FILE_NAME};
use super::files;
use super::unit::Unit;
use crate::libraries::RUNTIME_NAME;
use crate::live::{self, Directories, Survey};
use crate::output;

/// Tells which services are enabled, and whether their processes are accelerated
#[derive(clap::Args)]
pub struct StatusArgs {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Directory of the system whose services are meant, such as a mounted image
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Directory of counters; by default all in which `widelane run` and `enable` put them
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,
}

/// Services that are told of even if they are not enabled.
const KNOWN: [&str; 2] = ["haproxy", "nginx"];

/// What is known of one service.
#[derive(Debug, Serialize)]
struct Service {
    service: String,
    enabled: bool,
    /// Whether somebody has edited the drop-in.
    edited: bool,
    /// Its processes.
    processes: usize,
    /// Those of them that have not loaded us, as far as one may know.
    processes_without: usize,
    /// Those of them that have counters.
    processes_accelerated: usize,
    handshakes: u64,
    operations: u64,
    batched_share: Option<f64>,
    fallbacks: u64,
    /// Operations that a device did, and those that it failed.
    device_operations: u64,
    device_faults: u64,
    /// Policies that its processes have chosen, where they choose.
    policies: BTreeSet<&'static str>,
    /// What to do.
    advice: Option<String>,
}

/// Tells of all services.
pub fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let root = super::system_at(&args.root)?;
    let survey = Survey::take(&Directories::asked_or_usual(args.counters_dir.as_deref())?);
    let enabled = enabled(&root);
    let installed = KNOWN.into_iter().filter(|name| Unit::exists(&root, name));
    let names: BTreeSet<String> = installed.map(str::to_owned).chain(enabled).collect();
    let services: Vec<Service> =
        names.into_iter().map(|name| Service::look(&root, name, &survey)).collect();
    if args.json {
        output::print(&serde_json::to_string_pretty(&services)?)?;
    } else {
        output::print(&widelane_tables::show(blocks(&services), &output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Services that have our drop-in, edited or not, by name.
pub fn enabled(root: &Path) -> Vec<String> {
    let directory = root.join("etc/systemd/system");
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".service.d")?.to_owned();
        entry.path().join(FILE_NAME).is_file().then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

impl Service {
    fn look(root: &Path, service: String, survey: &Survey) -> Self {
        let path = files::directory(root, &service).join(FILE_NAME);
        let drop_in = files::read(&path).ok().flatten();
        let unit = Unit::find(root, &service);
        let program = unit.as_ref().ok().and_then(|unit| unit.program.file_name()?.to_str());
        let running = live::of_service(&service, program);
        let is_without = |pid: &&u32| live::has_loaded(**pid, RUNTIME_NAME) == Some(false);
        let accelerated: Vec<_> =
            survey.processes.iter().filter(|process| running.contains(&process.pid)).collect();
        let sum = |figure: fn(&widelane_host::counters::Counts) -> u64| {
            accelerated.iter().map(|process| figure(&process.counts)).sum::<u64>()
        };
        let operations = sum(|counts| counts.jobs());
        let batched =
            sum(|counts| counts.kinds().map(|(_, kind)| kind.batched + kind.pooled).sum());
        let mut found = Service {
            enabled: drop_in.is_some(),
            edited: drop_in.as_deref().is_some_and(|text| !drop_in::is_untouched(text)),
            processes: running.len(),
            processes_without: running.iter().filter(is_without).count(),
            processes_accelerated: accelerated.len(),
            handshakes: sum(|counts| counts.handshakes),
            operations,
            batched_share: (operations > 0).then(|| batched as f64 / operations as f64),
            fallbacks: sum(|counts| counts.fallbacks),
            device_operations: sum(|counts| counts.device_jobs),
            device_faults: sum(|counts| counts.device_faults + counts.device_late),
            policies: accelerated
                .iter()
                .filter_map(|process| process.counts.choice.as_ref().map(Choice::name))
                .collect(),
            advice: None,
            service,
        };
        found.advice = match unit {
            Err(error) => Some(error.to_string()),
            Ok(_) => found.advise(),
        };
        found
    }

    fn advise(&self) -> Option<String> {
        let name = &self.service;
        if !self.enabled && self.processes_accelerated == 0 {
            return Some(format!("`widelane enable {name}` accelerates it"));
        }
        match (self.processes, self.processes_accelerated) {
            _ if !self.enabled => None,
            (0, _) => Some(format!("`systemctl start {name}` starts it")),
            (all, 0) if self.processes_without == all => Some(format!(
                "`systemctl restart {name}`; if it was started again since it was enabled, \
                 something keeps LD_PRELOAD or the libraries from it (a wrapper, AppArmor): \
                 `journalctl -u {name} | grep -e widelane -e ld.so`, \
                 docs/operate/troubleshooting.md"
            )),
            (_, 0) => Some(format!(
                "no handshake came to it yet, or it cannot write its counters: \
                 `journalctl -u {name} | grep widelane:`"
            )),
            _ if self.device_faults > 0 => Some(format!(
                "its QAT device has failed {} operations, which the CPU has done: \
                 docs/operate/qat.md",
                count(self.device_faults)
            )),
            _ => None,
        }
    }

    fn cells(&self) -> Vec<String> {
        let enabled = match (self.enabled, self.edited) {
            (true, true) => "yes, edited",
            (true, false) => "yes",
            (false, _) => "no",
        };
        vec![
            self.service.clone(),
            enabled.to_owned(),
            format!("{} of {}", self.processes_accelerated, self.processes),
            count(self.handshakes),
            count(self.operations),
            self.batched_share.map_or_else(String::new, percent),
            if self.fallbacks > 0 { count(self.fallbacks) } else { String::new() },
            self.policies.iter().copied().collect::<Vec<_>>().join(", "),
            self.advice.clone().unwrap_or_default(),
        ]
    }
}

fn blocks(services: &[Service]) -> Vec<Block> {
    let accelerated: Vec<&str> = services
        .iter()
        .filter(|service| service.processes_accelerated > 0)
        .map(|service| service.service.as_str())
        .collect();
    let lead = match (services, accelerated.as_slice()) {
        ([], _) => (Tone::Same, "There is no service here that could be accelerated.".to_owned()),
        (_, []) => (Tone::Same, "No service is accelerated.".to_owned()),
        (_, names) => (Tone::Better, format!("Accelerated: {}.", names.join(", "))),
    };
    let mut table = Table::new(&[
        ("Service", Kind::Words),
        ("Enabled", Kind::Words),
        ("Processes", Kind::Number),
        ("Handshakes", Kind::Number),
        ("Operations", Kind::Number),
        ("Batched", Kind::Number),
        ("Fallbacks", Kind::Number),
        ("Chosen policy", Kind::Words),
        ("To do", Kind::Words),
    ]);
    table.rows = services.iter().map(Service::cells).collect();
    let mut blocks = vec![Block::Lead(lead.0, lead.1)];
    if !services.is_empty() {
        blocks.push(Block::Table(table.without_empty_columns()));
    }
    blocks
}
