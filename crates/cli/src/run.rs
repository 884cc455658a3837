//! `widelane run -- CMD`: starts a server accelerated, in its own process and without changing it.

mod elf;
pub mod fitness;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::bail;
use rustix::fs::{Access, access};
use widelane_bridge::counters::COUNTERS_DIRECTORY_VARIABLE;
use widelane_bridge::variables::{PRELOAD_VARIABLE, PROVIDER_VARIABLE};
use widelane_cpu::policy::{self, Inputs};
use widelane_host::programs;

use self::fitness::Fitness;
use crate::flags::{self, Flags};
use crate::libraries::Libraries;
use crate::system::Starter;
use crate::{live, output, sigpipe, system};

/// Runs an unmodified TLS server accelerated
///
/// The server must use OpenSSL 3 or later (libssl.so.3 or .4) as a shared library, as the nginx and
/// HAProxy of the distributions do. It keeps its process, arguments, signals and exit status;
/// programs that an accelerated server starts run as usual. A wrapper (`taskset`, `sh -c`, a
/// container's entry script) is no server, and passes the acceleration on to the one that it
/// starts. A program that cannot be accelerated runs unchanged, and one line on standard error says
/// why. For services of systemd there is `widelane enable`. If there is no such program the exit
/// status is 127, and if it cannot be executed 126.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,

    /// Directory for one file of counters per process; made if missing, writable for all. Without
    /// it, where `widelane top` looks: /run/widelane, or widelane in XDG_RUNTIME_DIR
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  widelane run -- nginx
  widelane run --wait-max rtt -- haproxy -W -f /etc/haproxy/haproxy.cfg
  widelane run --combine on --wait-max 2ms -- nginx";

/// The statuses by which shells, too, say that a program does not exist or cannot be executed.
const NO_SUCH_PROGRAM: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Replaces this process by the program; returns only if that fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some((name, arguments)) = args.command.split_first() else {
        bail!("no program given; write it after `--`");
    };
    let Some(program) = find_program(name) else {
        output::remark(&format!(
            "there is no program {}; check the spelling, or give its path",
            name.display()
        ));
        return Ok(ExitCode::from(NO_SUCH_PROGRAM));
    };
    let mut command = Command::new(&program);
    command.arg0(name).args(arguments);
    let mut fitness = fitness::judge(&program);
    if !matches!(fitness, Fitness::RunsUnchanged(_))
        && let Some(obstacle) = accelerate(&mut command, &args)?
    {
        fitness = Fitness::RunsUnchanged(format!("{obstacle:#}"));
    }
    match fitness {
        Fitness::Accelerates => {}
        Fitness::PassesOn => output::remark(&format!(
            "{} is not linked with OpenSSL 3 or later itself, so it runs as before. \
             Servers that it starts are accelerated, and so is OpenSSL that it loads later; \
             `widelane top` lists them. If it starts a server without LD_PRELOAD, put `widelane \
             run --` before that server.",
            program.display()
        )),
        // What cannot be executed does not run at all, as is said below.
        Fitness::RunsUnchanged(_) if !is_executable(&program) => {}
        Fitness::RunsUnchanged(reason) => {
            output::remark(&format!("{} runs unchanged: {reason}", program.display()));
        }
    }
    sigpipe::pass_on(&mut command);
    let error = command.exec();
    output::remark(&format!("cannot execute {}: {error}", program.display()));
    Ok(ExitCode::from(NOT_EXECUTABLE))
}

/// Puts into the environment of `command` what the runtime and the provider look for. Returns what
/// keeps every program on this system from acceleration: the server has to start nevertheless.
///
/// # Errors
///
/// A flag or a variable is wrong, so the user who starts the server can correct it.
fn accelerate(command: &mut Command, args: &Args) -> anyhow::Result<Option<anyhow::Error>> {
    let libraries = match Libraries::find() {
        Err(error) if !Libraries::are_named() => return Ok(Some(error)),
        found => found?,
    };
    let given = args.flags.variables()?;
    // What is given here makes that of the environment moot.
    let variable = |name: &str| match given.iter().find(|(given, _)| *given == name) {
        Some((_, value)) => Some(value.clone()),
        None => std::env::var_os(name),
    };
    let system_path = Path::new(policy::SYSTEM_PATH);
    // What is wrong with the system's file the provider says, and accelerates nothing; it still
    // brings the groups that the server's configuration may name.
    if let Err(error) = check_policy(&args.flags, system_path, variable)
        && !is_fault_of_system_file(&error, system_path, variable)
    {
        return Err(error);
    }
    if let Some(path) = variable(policy::PATH_VARIABLE) {
        command.env(policy::PATH_VARIABLE, flags::absolute(Path::new(&path))?);
    }
    command.envs(given);
    match counters_directory(args.counters_dir.as_deref()) {
        Ok(Some(directory)) => drop(command.env(COUNTERS_DIRECTORY_VARIABLE, directory)),
        Ok(None) => {}
        // The server is not worse off without. Said here once, and not by each of its processes.
        Err(error) => {
            output::remark(&format!(
                "{error:#}; the server runs without counters, and `widelane top` will \
                 not show it"
            ));
            command.env(COUNTERS_DIRECTORY_VARIABLE, "");
        }
    }
    let mut preload = OsString::from(&libraries.runtime);
    if let Some(others) = std::env::var_os(PRELOAD_VARIABLE).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env(PRELOAD_VARIABLE, preload).env(PROVIDER_VARIABLE, &libraries.provider);
    Ok(None)
}

/// Makes sure that a server started by this user can obey the policy.
fn check_policy(
    flags: &Flags,
    system_path: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> anyhow::Result<()> {
    let system_path = system_path.to_owned();
    let policy = flags.resolve(&Inputs { system_path, ..Inputs::of_variables(variable) })?;
    flags.check_lane_process(&policy, Starter::Here)?;
    if let Some(user) = policy.lane_user.filter(|_| !rustix::process::geteuid().is_root()) {
        bail!(
            "only root can have the lane process run as {user}; start the server as root, or name \
             no --lane-user"
        );
    }
    Ok(())
}

/// Whether an error of [`check_policy`] would be the same without any flag and variable.
fn is_fault_of_system_file(
    error: &anyhow::Error,
    system_path: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> bool {
    let is_file = |value: &OsString| !value.is_empty() && value != policy::AUTO;
    let names_file = variable(policy::PATH_VARIABLE).is_some_and(|value| is_file(&value));
    let alone = check_policy(&Flags::default(), system_path, |_| None);
    !names_file && alone.is_err_and(|alone| alone.to_string() == error.to_string())
}

/// Where the server keeps its counters, if not where its environment already says.
fn counters_directory(asked: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let directory = live::for_servers(asked)?;
    directory.as_deref().map_or(Ok(()), live::try_out)?;
    Ok(directory)
}

/// Whether this user may execute a file.
fn is_executable(program: &Path) -> bool {
    program.is_file() && access(program, Access::EXEC_OK).is_ok()
}

/// Finds what a shell would run for `name`.
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Path::new(name).exists().then(|| PathBuf::from(name));
    }
    programs::find(name, &system::path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the system's policy file, with this text, is to blame where `variables` are set.
    fn is_blamed(text: &str, variables: &[(&str, &str)]) -> bool {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let error = check_policy(&Flags::default(), file.path(), variable).unwrap_err();
        is_fault_of_system_file(&error, file.path(), variable)
    }

    #[test]
    fn a_server_starts_whatever_is_wrong_with_the_systems_policy_file() {
        assert!(is_blamed("width_max = 7\n", &[]));
        assert!(is_blamed("width_max = 7\n", &[("WIDELANE_POLICY", "auto")]));
        assert!(is_blamed("lane_cpus = \"8191\"\n", &[("WIDELANE_POLICY", "")]));
        assert!(is_blamed("lane_user = \"root\"\n", &[]));
    }

    #[test]
    fn a_wrong_variable_is_an_error_whatever_the_file_says() {
        for (name, value) in [
            ("WIDELANE_POLICY", "/nope"),
            ("WIDELANE_WAIT_MAX", "soon"),
            ("WIDELANE_MAX_SIMD_BITWIDTH", "7"),
            ("WIDELANE_LANE_CPUS", "8191"),
        ] {
            assert!(!is_blamed("width_max = 256\n", &[(name, value)]), "{name}");
        }
        assert!(!is_blamed("width_max = 7\n", &[("WIDELANE_POLICY", "/nope")]));
    }
}
