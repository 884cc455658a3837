//! `widelane status`: which services are enabled, and whether their processes are accelerated.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use widelane_host::choice::Choice;
use widelane_host::counters::Counts;
use widelane_tables::{Block, Kind, Table, Tone, count, percent};

use super::drop_in::{self, DropIn};
use super::files::{self, UNITS};
use super::unit::{self, Unit};
use crate::libraries::RUNTIME_NAME;
use crate::live::{self, Directories, Objection, Off, Process, Skipped, State, Survey};
use crate::run::fitness::Fitness;
use crate::{output, system};

/// Shows which services are enabled, and whether their processes are accelerated
#[derive(clap::Args)]
pub struct StatusArgs {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Directory of the system whose services are meant, such as a mounted image
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Directory of counters; by default all in which `widelane run` and `enable` put them
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    counters_dir: Option<PathBuf>,
}

/// Services that are told of even if they are not enabled.
const KNOWN: [&str; 2] = ["haproxy", "nginx"];

/// What is known of one service.
#[derive(Debug, Serialize)]
struct Service {
    service: String,
    /// None where the drop-in's directory is closed to this user.
    enabled: Option<bool>,
    /// Whether somebody has edited the drop-in.
    edited: bool,
    /// Its processes.
    processes: usize,
    /// Those of them that have not loaded us, as far as one may know.
    processes_without: usize,
    /// Those of them of which this user may not know whether they have.
    processes_unknown: usize,
    /// Those of them that have counters, no policy that was refused, and are not switched off.
    processes_accelerated: usize,
    /// Those of them whose policy was refused, so that nothing is accelerated.
    processes_policy_refused: usize,
    /// Those of them that are switched off (`widelane off`).
    processes_off: usize,
    /// Those of them whose counters are of another version, as before an upgrade.
    processes_of_other_version: usize,
    /// Those that the runtime drives for event loops: 0 where threads block in them.
    handshakes: u64,
    operations: u64,
    /// Share of the executed operations that ran together with others.
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

/// Where the processes of a service are.
enum Running {
    /// These are all.
    Here(Vec<u32>),
    /// `/proc` does not show them to this user.
    Hidden,
    /// The service is one of a system that does not run here.
    Elsewhere,
}

impl Running {
    fn find(root: &Path, service: &str, program: Option<&OsStr>) -> Self {
        if root != Path::new("/") {
            return Running::Elsewhere;
        }
        let found = live::of_service(service, program);
        if found.is_empty() && live::are_others_hidden() {
            return Running::Hidden;
        }
        Running::Here(found)
    }

    fn pids(&self) -> &[u32] {
        match self {
            Running::Here(pids) => pids,
            Running::Hidden | Running::Elsewhere => &[],
        }
    }
}

/// Tells of all services.
pub fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let root = super::system_at(&args.root)?;
    let survey = Survey::take(&Directories::asked_or_usual(args.counters_dir.as_deref())?);
    if survey.truncated {
        output::remark(live::TRUNCATED);
    }
    let enabled = enabled(&root);
    let installed = KNOWN.into_iter().filter_map(|name| unit::own_name(&root, name));
    let names: BTreeSet<String> = installed.chain(enabled).collect();
    let services: Vec<Service> =
        names.into_iter().map(|name| Service::look(&root, name, &survey)).collect();
    if args.json {
        output::print_untrusted(&serde_json::to_string_pretty(&services)?)?;
    } else {
        output::print(&widelane_tables::show(blocks(&services), &output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Services that have our drop-in, edited or not, by name.
pub fn enabled(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(system::below(root, Path::new(UNITS)));
    let names = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".service.d")?.to_owned();
        files::is_enabled(root, &name).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

impl Service {
    fn look(root: &Path, service: String, survey: &Survey) -> Self {
        let unit = Unit::find(root, &service);
        let program = unit.as_ref().ok().and_then(|unit| unit.program.file_name());
        // Its control group has its own name.
        let own_name = match &unit {
            Ok(unit) => Some(unit.name.clone()),
            Err(_) => unit::own_name(root, &service),
        };
        let running = Running::find(root, own_name.as_deref().unwrap_or(&service), program);
        Service::with(root, service, unit, survey, &running)
    }

    fn with(
        root: &Path,
        service: String,
        unit: anyhow::Result<Unit>,
        survey: &Survey,
        where_it_runs: &Running,
    ) -> Self {
        let path = files::path(root, &service);
        let drop_in = files::in_force(root, &service);
        let enabled = match &drop_in {
            Ok(text) => Some(text.is_some()),
            Err(_) => path.is_file().then_some(true),
        };
        let running = where_it_runs.pids();
        let loaded: Vec<_> =
            running.iter().map(|pid| live::has_loaded(*pid, RUNTIME_NAME)).collect();
        let count_of = |known| loaded.iter().filter(|loaded| **loaded == known).count();
        let is_of_other_version = |skipped: &&Skipped| {
            skipped.objection == Objection::Version
                && skipped.pid().is_some_and(|pid| running.contains(&pid))
        };
        let counting: Vec<_> =
            survey.processes.iter().filter(|process| running.contains(&process.pid)).collect();
        let mut sum = Counts::default();
        counting.iter().for_each(|process| sum.add(&process.counts));
        let in_state = |is_it: fn(State) -> bool| {
            counting.iter().filter(|process| is_it(process.state())).count()
        };
        let mut found = Service {
            enabled,
            edited: matches!(&drop_in, Ok(Some(text)) if !drop_in::is_untouched(text)),
            processes: running.len(),
            processes_without: count_of(Some(false)),
            processes_unknown: count_of(None),
            processes_accelerated: in_state(|state| state == State::Accelerated),
            processes_policy_refused: in_state(|state| state == State::Refused),
            processes_off: in_state(|state| matches!(state, State::Off(_))),
            processes_of_other_version: survey.skipped.iter().filter(is_of_other_version).count(),
            handshakes: sum.handshakes,
            operations: sum.jobs(),
            batched_share: sum.batched_share(),
            fallbacks: sum.fallbacks,
            device_operations: sum.device_jobs,
            device_faults: sum.device_faults + sum.device_late,
            policies: counting
                .iter()
                .filter_map(|process| process.counts.choice.as_ref().map(Choice::name))
                .collect(),
            advice: None,
            service,
        };
        found.advice = match (unit, drop_in) {
            (Err(_), Ok(Some(_))) if unit::own_name(root, &found.service).is_none() => {
                Some(format!(
                    "{}; {} removes its drop-in",
                    unit::no_service(root, &found.service),
                    unit::command("disable", root, &found.service)
                ))
            }
            (Err(error), _) | (Ok(_), Err(error)) => Some(advice_on(&error)),
            (Ok(unit), Ok(text)) => {
                let of_switch = found.advise_of_switch(&counting);
                let otherwise = || found.advise(root, &unit, text.as_deref(), where_it_runs);
                of_switch.or_else(otherwise)
            }
        };
        found
    }

    /// What is to be done about processes that are switched off; nothing where others could not use
    /// their policy, which comes first.
    fn advise_of_switch(&self, counting: &[&Process]) -> Option<String> {
        let (mut off, mut commands) = (Vec::new(), BTreeSet::new());
        for process in counting {
            match process.state() {
                State::Accelerated => {}
                State::Refused => return None,
                State::Off(how) => {
                    off.push(how);
                    // The name of a program may be that of other services, too.
                    let group = live::control_group(process.pid);
                    let is_in = |groups: String| live::is_in_unit(&groups, &self.service);
                    let word =
                        if group.is_some_and(is_in) { &self.service } else { &process.command };
                    commands.insert(system::in_shell(word));
                }
            }
        }
        let how = Off::longest(&off)?;
        let commands = commands.into_iter().collect::<Vec<_>>().join(" ");
        Some(format!(
            "{} of {} processes are switched off{how}: `widelane on {commands}` switches them on",
            off.len(),
            self.processes
        ))
    }

    fn advise(
        &self,
        root: &Path,
        unit: &Unit,
        drop_in: Option<&str>,
        running: &Running,
    ) -> Option<String> {
        let name = &self.service;
        if self.processes_policy_refused > 0 {
            let unit = unit::systemctl_name(name);
            return Some(format!(
                "its policy is refused, so that nothing is accelerated: `journalctl -u {unit} | \
                 grep widelane:` says why; mend it, then `systemctl restart {unit}`"
            ));
        }
        if let Some(reason) = why_unchanged(root, unit).filter(|_| self.processes_accelerated == 0)
        {
            return Some(match self.enabled {
                Some(true) => format!(
                    "{name} runs unchanged: {reason}; {} takes back what it does not use",
                    unit::command("disable", root, name)
                ),
                _ => format!("{name} would run unchanged: {reason}"),
            });
        }
        let can_count = unit.can_count();
        let outdated = drop_in.and_then(|text| why_outdated(root, name, unit, text));
        let unit = unit::systemctl_name(name);
        if self.enabled != Some(true) {
            let advice = files::why_masked(root, name).unwrap_or_else(|| {
                format!("{} accelerates it", unit::command("enable", root, name))
            });
            return Some(advice).filter(|_| self.processes_accelerated == 0);
        }
        if let Some(reason) = outdated {
            return Some(format!(
                "{reason}; {}, with the flags that are to hold, writes it anew",
                unit::command("enable", root, name)
            ));
        }
        match running {
            Running::Here(_) => {}
            Running::Hidden => {
                return Some("its processes are hidden (hidepid); run this as root".to_owned());
            }
            Running::Elsewhere => return None,
        }
        if self.processes_of_other_version > 0 {
            return Some(format!(
                "`systemctl restart {unit}`: {} of its processes still run another version of \
                 widelane, as before an upgrade",
                self.processes_of_other_version
            ));
        }
        match (self.processes, self.processes_accelerated) {
            (0, _) if name.ends_with('@') => Some(format!(
                "start a service of it, such as `systemctl start {}`",
                system::in_shell(&format!("{name}NAME"))
            )),
            (0, _) => Some(format!("`systemctl start {unit}` starts it")),
            (all, 0) if self.processes_without == all => Some(format!(
                "`systemctl restart {unit}`; if you have done so since `enable`, a wrapper or \
                 AppArmor keeps LD_PRELOAD or the libraries from it: look at `journalctl -u {unit} \
                 | grep -e widelane -e ld.so` and docs/operate/troubleshooting.md"
            )),
            (_, 0) if !can_count && self.processes_without == 0 => {
                Some("nothing more is known of it, as PrivatePIDs= keeps it from counters".into())
            }
            (_, 0) if self.processes_unknown > 0 => Some(format!(
                "it was not restarted since it was enabled (`systemctl restart {unit}`), or no \
                 handshake came to it yet, or it cannot write its counters; root can tell which"
            )),
            (_, 0) => Some(format!(
                "no handshake came to it yet, or it cannot write its counters: \
                 `journalctl -u {unit} | grep widelane:`"
            )),
            _ if self.device_faults > 0 => Some(format!(
                "its QAT device has failed {} operations, which the CPU has done: \
                 docs/operate/experimental.md",
                count(self.device_faults)
            )),
            _ => None,
        }
    }

    fn cells(&self) -> Vec<String> {
        let enabled = match (self.enabled, self.edited) {
            (Some(true), true) => "yes, edited",
            (Some(true), false) => "yes",
            (Some(false), _) => "no",
            (None, _) => "unknown",
        };
        vec![
            self.service.clone(),
            enabled.to_owned(),
            format!("{} of {}", self.processes_accelerated, self.processes),
            match self.handshakes {
                0 if self.operations > 0 => "–".to_owned(),
                handshakes => count(handshakes),
            },
            count(self.operations),
            self.batched_share.map_or_else(String::new, percent),
            if self.fallbacks > 0 { count(self.fallbacks) } else { String::new() },
            self.policies.iter().copied().collect::<Vec<_>>().join(", "),
            self.advice.clone().unwrap_or_default(),
        ]
    }
}

/// Why a service cannot be accelerated, where this user may read its program.
fn why_unchanged(root: &Path, unit: &Unit) -> Option<String> {
    File::open(unit.program_file(root)?).ok()?;
    match unit.fitness(root) {
        Fitness::RunsUnchanged(reason) => Some(reason),
        Fitness::Accelerates | Fitness::PassesOn => None,
    }
}

/// Why `enable` would write another drop-in than this one, if it is as it was written.
fn why_outdated(root: &Path, name: &str, unit: &Unit, text: &str) -> Option<String> {
    if !drop_in::is_untouched(text) {
        return None;
    }
    let is_gone = |path: &PathBuf| matches!(system::below(root, path).try_exists(), Ok(false));
    if let Some(gone) = drop_in::libraries(text).find(is_gone) {
        return Some(format!("its drop-in names {}, which is not there", gone.display()));
    }
    match DropIn::renewed(name, unit, text) {
        Ok(renewed) if renewed.is_in(text) => None,
        Ok(_) => Some("its unit has changed since it was enabled".to_owned()),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// What is wrong, and what helps somebody who may not read a file.
fn advice_on(error: &anyhow::Error) -> String {
    let remedy = unit::refusal(error).map_or("", system::remedy);
    format!("{error:#}{remedy}")
}

fn blocks(services: &[Service]) -> Vec<Block> {
    let accelerated: Vec<&str> = services
        .iter()
        .filter(|service| service.processes_accelerated > 0)
        .map(|service| service.service.as_str())
        .collect();
    let lead = match (services, accelerated.as_slice()) {
        ([], _) => (
            Tone::Same,
            "No service is enabled, and neither nginx nor HAProxy is installed as one.".to_owned(),
        ),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use widelane_testkit::program::install;

    use super::*;

    /// A system with a service that is enabled.
    struct System(tempfile::TempDir);

    const DROP_IN: &str = "etc/systemd/system/server.service.d/widelane.conf";

    impl System {
        fn new() -> Self {
            let system = System(tempfile::tempdir().unwrap());
            system.write("lib/systemd/system/server.service", "[Service]\nExecStart=/server\n");
            system.write(DROP_IN, "");
            system
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), text).unwrap();
        }

        fn look(&self, survey: &Survey, running: &Running) -> Service {
            let unit = Unit::find(self.0.path(), "server");
            Service::with(self.0.path(), "server".to_owned(), unit, survey, running)
        }

        fn advice(&self, survey: &Survey, running: &Running) -> String {
            self.look(survey, running).advice.unwrap_or_default()
        }
    }

    /// A library that this process has loaded, and others can.
    fn any_library() -> PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
        let path = paths.find(|path| path.ends_with("libgcc_s.so.1"));
        path.expect("of every program").into()
    }

    /// A program that waits, with all libraries that it is linked with.
    fn start(program: &Path, preload: Option<&Path>) -> Child {
        let mut server = Command::new(program);
        server.arg("dgst").stdin(Stdio::piped()).stdout(Stdio::null());
        let server = server.envs(preload.map(|path| ("LD_PRELOAD", path))).spawn().unwrap();
        // What is preloaded comes before the libraries that it is linked with.
        let maps = format!("/proc/{}/maps", server.id());
        let end = Instant::now() + Duration::from_secs(30);
        while !fs::read_to_string(&maps).unwrap().contains("libcrypto") && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    #[test]
    fn what_was_not_started_again_is_told_from_what_has_no_handshakes() {
        let openssl = Path::new("/usr/bin/openssl");
        if !openssl.exists() {
            eprintln!("openssl is not installed: nothing was tested");
            return;
        }
        let system = System::new();
        let (program, library) = (system.path("server"), system.path(RUNTIME_NAME));
        install(openssl, &program);
        fs::copy(any_library(), &library).unwrap();
        for (preload, expected) in [
            (None, ["systemctl restart server", "AppArmor keeps LD_PRELOAD"]),
            (Some(&*library), ["no handshake came to it yet", "journalctl -u server"]),
        ] {
            let mut server = start(&program, preload);
            let advice = system.advice(&Survey::default(), &Running::Here(vec![server.id()]));
            drop(server.stdin.take());
            server.wait().unwrap();
            for part in expected {
                assert!(advice.contains(part), "{part} is missing in {advice}");
            }
        }
    }

    #[test]
    fn what_this_user_may_not_know_is_not_guessed() {
        // The libraries of a process that is not there cannot be known either.
        let running = Running::Here(vec![4_194_305]);
        let advice = System::new().advice(&Survey::default(), &running);
        assert!(advice.starts_with("it was not restarted since it was enabled"), "{advice}");
        assert!(advice.ends_with("root can tell which"), "{advice}");
    }

    #[test]
    fn a_server_of_before_an_upgrade_is_to_be_restarted() {
        let system = System::new();
        let own = std::process::id();
        let skipped = |pid: u32, objection: Objection| Skipped {
            path: format!("/run/widelane/{pid}.counters").into(),
            objection,
        };
        let survey = |skipped| Survey { skipped, ..Survey::default() };
        let running = Running::Here(vec![own]);
        let upgraded = survey(vec![skipped(own, Objection::Version)]);
        let service = system.look(&upgraded, &running);
        assert_eq!(service.processes_of_other_version, 1);
        let advice = service.advice.unwrap();
        assert!(advice.starts_with("`systemctl restart server`: 1 of its processes"), "{advice}");
        for others in [skipped(own, Objection::NotAFile), skipped(own + 1, Objection::Version)] {
            let service = system.look(&survey(vec![others]), &running);
            assert_eq!(service.processes_of_other_version, 0);
            assert!(!service.advice.unwrap().contains("another version"));
        }
    }

    #[test]
    fn a_server_whose_policy_is_refused_is_not_accelerated() {
        let own = std::process::id();
        let mut process = crate::top::process(own, 0);
        let mut look = |is_refused| {
            process.counts.policy_refused = is_refused;
            let survey = Survey { processes: vec![process.clone()], ..Survey::default() };
            System::new().look(&survey, &Running::Here(vec![own]))
        };
        crate::output::assert_documented(&look(0));
        assert_eq!((look(0).processes_accelerated, look(0).advice), (1, None));
        let refusing = look(1);
        assert_eq!((refusing.processes_accelerated, refusing.processes_policy_refused), (0, 1));
        let advice = refusing.advice.unwrap();
        assert!(advice.starts_with("its policy is refused, so that nothing is"), "{advice}");
    }

    #[test]
    fn a_server_that_is_switched_off_is_not_accelerated() {
        let own = std::process::id();
        let mut process = crate::top::process(own, 0);
        process.off = Some(Off::ForGood);
        let survey = Survey { processes: vec![process], ..Survey::default() };
        let service = System::new().look(&survey, &Running::Here(vec![own, own + 1]));
        assert_eq!((service.processes_accelerated, service.processes_off), (0, 1));
        let expected = "1 of 2 processes are switched off: `widelane on nginx` switches them on";
        assert_eq!(service.advice.as_deref(), Some(expected));
    }

    #[test]
    fn processes_that_are_hidden_or_elsewhere_are_not_missing() {
        let system = System::new();
        let survey = Survey::default();
        let advice = system.advice(&survey, &Running::Here(Vec::new()));
        assert_eq!(advice, "`systemctl start server` starts it");
        assert!(system.advice(&survey, &Running::Hidden).contains("hidepid"));
        assert_eq!(system.advice(&survey, &Running::Elsewhere), "");
    }

    #[test]
    fn a_template_with_a_backslash_in_its_name_is_one_for_shells_too() {
        let system = System::new();
        let name = r"my\x2dserver@";
        let unit = "[Service]\nExecStart=/server\n";
        system.write(&format!("lib/systemd/system/{name}.service"), unit);
        system.write(&format!("etc/systemd/system/{name}.service.d/widelane.conf"), "");
        let root = system.0.path();
        let (unit, running) = (Unit::find(root, name), Running::Here(Vec::new()));
        let service = Service::with(root, name.to_owned(), unit, &Survey::default(), &running);
        let advice = service.advice.unwrap();
        assert!(advice.ends_with(r"`systemctl start 'my\x2dserver@NAME'`"), "{advice}");
    }

    #[test]
    fn a_drop_in_that_cannot_be_read_is_there_nevertheless() {
        let system = System::new();
        // Nobody can read a text from it, not even root.
        fs::write(system.path(DROP_IN), [0xff]).unwrap();
        let service = system.look(&Survey::default(), &Running::Here(Vec::new()));
        assert_eq!((service.enabled, service.edited), (Some(true), false));
        assert!(service.advice.unwrap().starts_with("cannot read "));

        fs::remove_file(system.path(DROP_IN)).unwrap();
        let directory = system.path(DROP_IN).parent().unwrap().to_owned();
        let look = || system.look(&Survey::default(), &Running::Here(Vec::new()));
        assert_eq!(look().enabled, Some(false));
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o000)).unwrap();
        if fs::read_dir(&directory).is_err() {
            assert_eq!((look().enabled, &*look().cells()[1]), (None, "unknown"));
            assert!(look().advice.unwrap().ends_with("run this as root"));
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
