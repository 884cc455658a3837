//! `widelane enable`, `disable` and `status`: services of systemd, accelerated by a drop-in.
//!
//! A drop-in adds to a unit without changing it, survives upgrades of the server's package, and is
//! gone without a trace when its file is gone. Nothing that somebody else wrote is overwritten.

mod drop_in;
mod files;
mod status;
mod unit;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use widelane_cpu::policy::{Inputs, Reader};
use widelane_cpu::{Policy, policy};

pub use self::status::{StatusArgs, status};
pub use self::unit::own_name;

use self::drop_in::DropIn;
use self::files::Plan;
use self::unit::Unit;
use crate::flags::{Flags, Variables};
use crate::libraries::Libraries;
use crate::output;
use crate::run::fitness::Fitness;
use crate::system::{self, Starter};

/// Accelerates a service of systemd from its next start on
///
/// Writes one drop-in beside the service's unit, which stays as it is, and says what it wrote.
/// `widelane disable` takes it back. The server must be one that `widelane run` accelerates.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EnableArgs {
    #[command(flatten)]
    service: Service,
    #[command(flatten)]
    flags: Flags,
}

const EXAMPLES: &str = "\
Examples:
  widelane enable nginx --dry-run
  widelane enable haproxy --wait-max rtt
  widelane enable nginx --policy auto";

/// Takes back what `widelane enable` did, from the service's next start on
///
/// Removes the drop-in file. If it was edited since, it is left alone and the command says so.
#[derive(clap::Args)]
pub struct DisableArgs {
    #[command(flatten)]
    service: Service,
}

#[derive(clap::Args)]
struct Service {
    /// The service, such as nginx or haproxy
    #[arg(value_name = "SERVICE", value_parser = service_name)]
    name: String,
    /// Says what would change, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory of the system whose service is meant, such as a mounted image
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// A service's name without its suffix. It becomes part of a path.
fn service_name(name: &str) -> Result<String, String> {
    let name = name.strip_suffix(".service").unwrap_or(name);
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "@_.:-\\".contains(char);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_allowed) {
        return Err("a service's name has letters, digits and any of @ _ . : - \\".to_owned());
    }
    Ok(name.to_owned())
}

/// Writes the drop-in.
pub fn enable(args: &EnableArgs) -> anyhow::Result<ExitCode> {
    let Service { name: given, dry_run, root } = &args.service;
    let root = system_at(root)?;
    let unit = Unit::find(&root, given)?;
    let name = &unit.name;
    if name != given {
        output::print(&format!("{given} is another name of {name}."))?;
    }
    let fitness = unit.fitness(&root);
    if let Fitness::RunsUnchanged(reason) = &fitness {
        bail!("{name} would run unchanged: {reason}");
    }
    let (variables, policy) = variables(&args.flags, &root, &unit)?;
    if let Some(user) = policy.lane_user.filter(|_| !unit.starts_as_root()) {
        bail!(
            "only root can have the lane process run as {user}, and {name} does not start as root; \
             remove --lane-user, or lane_user from the policy file"
        );
    }
    let libraries = Libraries::find_below(&root)?;
    check_readable(&root, name, &unit, &libraries, &variables)?;
    let drop_in = DropIn::for_service(name, &unit, &libraries, &variables)?;
    let plan = Plan::to_enable(&root, name, &drop_in)?;
    if !carry_out(plan, *dry_run, &root, name)? {
        output::print(NOTHING)?;
    } else if !dry_run {
        output::print(&format!(
            "{name} is accelerated when {}\n\
             Then `widelane status` tells what it does, and `widelane top` what it does now.",
            started(&root, name)
        ))?;
    }
    if fitness == Fitness::PassesOn {
        output::print(&format!(
            "{} does not link OpenSSL 3 or later itself. Servers that it starts, and OpenSSL if it \
             loads it later, are accelerated; `widelane status` shows whether that has happened.",
            unit.program.display()
        ))?;
    }
    let writers = remark_on_writers(&root, name, &unit, &libraries);
    let replaced = unit.remark_on_manager(&environment_of_manager(&root));
    let remarks = unit.remarks(&root, &libraries.runtime).into_iter();
    for remark in remarks.chain(writers).chain(replaced) {
        output::print(&remark)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the drop-in.
pub fn disable(args: &DisableArgs) -> anyhow::Result<ExitCode> {
    let Service { name: given, dry_run, root } = &args.service;
    let root = system_at(root)?;
    let mut name = given.clone();
    if !files::is_enabled(&root, given) {
        // A second name has a drop-in only of a former version.
        let Some(own) = unit::own_name(&root, given) else {
            bail!("{}", unit::no_service(&root, given));
        };
        name = own;
    }
    let was_enabled = files::is_enabled(&root, &name);
    let plan = Plan::to_disable(&root, &name)?;
    let is_disabled = plan.changes().is_empty();
    let has_changed = carry_out(plan, *dry_run, &root, &name)?;
    if let Some(template) = files::enabled_template(&root, &name) {
        output::print(&format!(
            "{name} is accelerated by the drop-in of {template}: {} is for all instances that \
             have none of their own",
            unit::command("disable", &root, &template)
        ))?;
    } else if !has_changed {
        output::print(NOTHING)?;
    } else if (was_enabled || is_disabled) && !dry_run {
        output::print(&format!(
            "{name} runs as it was when {}\n\
             If its configuration names groups that its OpenSSL lacks, it will refuse to start \
             (docs/operate/post-quantum.md).",
            started(&root, &name)
        ))?;
    }
    if name.ends_with('@') {
        let instances = status::enabled(&root);
        for other in instances.iter().filter(|other| **other != name && other.starts_with(&name)) {
            output::print(&format!(
                "{other} has a drop-in of its own, by which it stays accelerated: {}",
                unit::command("disable", &root, other)
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// When a change takes effect, and how.
fn started(root: &Path, name: &str) -> String {
    match root == Path::new("/") {
        true => format!("it is started again: systemctl restart {}", unit::systemctl_name(name)),
        false => format!("the system in {} starts it", root.display()),
    }
}

const NOTHING: &str = "Nothing to change.";

/// The directory of a system, by a path without links.
fn system_at(root: &Path) -> anyhow::Result<PathBuf> {
    match system::why_no_directory(root) {
        Some(reason) => bail!(reason),
        None => root.canonicalize().with_context(|| format!("cannot use {}", root.display())),
    }
}

/// Changes the files, and has systemd read them; returns whether there was anything to do.
fn carry_out(plan: Plan, dry_run: bool, root: &Path, name: &str) -> anyhow::Result<bool> {
    let words: Vec<String> = plan.changes().iter().map(|change| change.words(dry_run)).collect();
    let has_systemd = root == Path::new("/") && Path::new("/run/systemd/system").is_dir();
    let (mut is_told, mut has_changed) = (true, !words.is_empty());
    if !dry_run {
        plan.carry_out()?;
        // An earlier call may have ended between its changes and this.
        has_changed |= has_systemd && is_drop_in_unread(root, name);
        // Before anything is printed, which may fail.
        is_told = !has_systemd || !has_changed || tell_systemd();
    }
    // Printed only now: if a step fails, all are rolled back.
    for change in &words {
        output::print(change)?;
    }
    if !is_told {
        bail!(
            "the files are as they should be, but systemd does not know; run: systemctl \
             daemon-reload"
        );
    }
    Ok(has_changed)
}

/// Whether our drop-in for a service, or for instances of a template, has changed since systemd
/// read it. What others have changed meanwhile may be half done, and waits for them.
fn is_drop_in_unread(root: &Path, name: &str) -> bool {
    let instances = if name.ends_with('@') { "*" } else { "" };
    let unit = format!("{name}{instances}.service");
    let shown = ask_systemd(&["show", "--property=NeedDaemonReload,DropInPaths", &unit]);
    let is_known = shown.contains(&format!("/{name}.service.d/{}", drop_in::FILE_NAME));
    shown.lines().any(|line| line == "NeedDaemonReload=yes")
        && (is_known || files::is_enabled(root, name))
}

/// What systemd gives to all services, a variable on each line; nothing where it cannot be asked.
fn environment_of_manager(root: &Path) -> String {
    if root == Path::new("/") { ask_systemd(&["show-environment"]) } else { String::new() }
}

/// What `systemctl` prints; nothing where systemd cannot be asked.
fn ask_systemd(arguments: &[&str]) -> String {
    let shown = Command::new("systemctl").args(arguments).stderr(Stdio::null()).output();
    String::from_utf8_lossy(&shown.map(|output| output.stdout).unwrap_or_default()).into_owned()
}

/// Has systemd read the files; false if it does not.
fn tell_systemd() -> bool {
    let told = Command::new("systemctl").arg("daemon-reload").status();
    told.is_ok_and(|status| status.success())
}

/// Makes sure that a service whose user is not root can read what it is to load and to obey.
fn check_readable(
    root: &Path,
    name: &str,
    unit: &Unit,
    libraries: &Libraries,
    variables: &Variables,
) -> anyhow::Result<()> {
    let named = variables.iter().find(|(name, _)| *name == policy::PATH_VARIABLE);
    let named = named.map(|(_, value)| value).filter(|value| *value != policy::AUTO);
    let policy = Path::new(named.map_or(OsStr::new(policy::SYSTEM_PATH), OsString::as_os_str));
    for file in [&*libraries.runtime, &*libraries.provider, policy] {
        // There need be no policy.
        if !system::below(root, file).exists() {
            continue;
        }
        if let Some(closed) = unit.obstacle_to_read(root, file) {
            bail!(
                "{name} does not start as root, and {} is closed to its user, so that it could \
                 not read {}; open it to everybody, or keep the file elsewhere",
                closed.display(),
                file.display()
            );
        }
    }
    Ok(())
}

/// What lets others than root and the service's user exchange what it loads, by the rule by which
/// policy files are refused.
fn remark_on_writers(
    root: &Path,
    name: &str,
    unit: &Unit,
    libraries: &Libraries,
) -> Option<String> {
    let reader = reader(root, unit);
    let ways = [&libraries.runtime, &libraries.provider].map(|library| system::way(root, library));
    let mut paths = ways.into_iter().flat_map(|(file, above)| above.into_iter().chain([file]));
    let (path, flaw) = paths.find_map(|path| {
        let flaw = policy::flaw(&path.metadata().ok()?, reader)?;
        Some((path, flaw))
    })?;
    Some(format!(
        "{} {flaw}: whoever may change the libraries of widelane may have {name} do anything from \
         its next start on; before production, install widelane where only root may write",
        path.display()
    ))
}

/// Who reads what the service loads; in another system, which has other users, who calls this.
fn reader(root: &Path, unit: &Unit) -> Reader {
    unit.reader(root).unwrap_or_else(|| Inputs::of_environment().reader)
}

/// The variables of the flags as a server below `root` will read them, and its policy, which can be
/// used.
fn variables(given: &Flags, root: &Path, unit: &Unit) -> anyhow::Result<(Variables, Policy)> {
    let flags = Flags {
        policy: given.policy.as_deref().map(|path| system::within(root, path)),
        ..given.clone()
    };
    let variables = flags.variables()?;
    let inputs = Inputs::of_variables(|name| {
        let (_, value) = variables.iter().find(|(given, _)| *given == name)?;
        let is_file = name == policy::PATH_VARIABLE && value != policy::AUTO;
        Some(if is_file { system::below(root, Path::new(value)).into() } else { value.clone() })
    });
    let policy = flags.resolve(&Inputs {
        system_path: system::below(root, Path::new(policy::SYSTEM_PATH)),
        reader: reader(root, unit),
        ..inputs
    })?;
    if root == Path::new("/") {
        flags.check_lane_process(&policy, Starter::Service)?;
    }
    Ok((variables, policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_of_another_system_is_not_restarted_here() {
        for (name, command) in
            [("nginx", "nginx"), ("many@", "'many@*'"), (r"my\x2dserver", r"'my\x2dserver'")]
        {
            let said = started(Path::new("/"), name);
            assert_eq!(said, format!("it is started again: systemctl restart {command}"));
            assert_eq!(started(Path::new("/image"), name), "the system in /image starts it");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_directory() {
        assert_eq!(service_name("nginx.service"), Ok("nginx".to_owned()));
        assert_eq!(service_name("haproxy@a"), Ok("haproxy@a".to_owned()));
        assert_eq!(service_name("my\\x2dserver"), Ok("my\\x2dserver".to_owned()));
        for wrong in ["", "../nginx", "a/b", ".hidden", "a b", "a\n"] {
            assert!(service_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
