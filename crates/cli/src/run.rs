//! `widelane run -- CMD`: starts a server accelerated, in its own process and without changing it.

mod elf;
pub mod fitness;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use widelane_bridge::counters::COUNTERS_DIRECTORY_VARIABLE;
use widelane_cpu::Policy;
use widelane_cpu::policy::{self, Combine, Engine, Inputs, LaneCpus, LaneUser, WaitMax};

use self::fitness::Fitness;
use crate::libraries::Libraries;
use crate::{live, system};

/// Runs an unmodified TLS server accelerated
///
/// The server must use OpenSSL 3 (libssl.so.3) as a shared library, as the nginx and HAProxy of the
/// distributions do. It keeps its process, arguments, signals and exit status; programs that it
/// starts are not affected. Programs between, such as `taskset`, `sh -c` or the entry script of a
/// container, pass on what the server needs. A program that cannot be accelerated runs unchanged,
/// and one line says why.
#[derive(clap::Args)]
pub struct Args {
    /// Policy file to obey instead of /etc/widelane/policy.toml; or `auto`: each process compares,
    /// while it runs, what it costs to use all rooms that are open or only narrower ones, and keeps
    /// the cheapest (docs/operate/auto-policy.md)
    #[arg(long, value_name = "FILE|auto")]
    policy: Option<PathBuf>,

    /// Widest vector unit to use
    #[arg(long, value_name = "BITS", value_parser = ["128", "256", "512"])]
    max_simd_bitwidth: Option<String>,

    /// Longest time that an operation waits for others before the server sleeps, such as 0.5ms; rtt
    /// for a tenth of the round-trip time to the client, from 0.5 to 5 ms; 0 for none. By default
    /// what the policy file says
    #[arg(long, value_name = "TIME")]
    wait_max: Option<WaitMax>,

    /// Whether the server's workers execute each other's operations: on, off or auto. By default
    /// what the policy file says
    #[arg(long, value_name = "CHOICE")]
    combine: Option<Combine>,

    /// CPUs set aside for a process that makes the RSA signatures of all workers, such as 3 or
    /// 2,4-7; none for no such process (docs/operate/lane-cpus.md). For servers that load their
    /// keys before they fork, as nginx and HAProxy with -W do. By default what the policy file says
    #[arg(long, value_name = "LIST")]
    lane_cpus: Option<LaneCpus>,

    /// User as whom that process runs; by default what the policy file says, else as the program.
    /// Only root can have it run as another one
    #[arg(long, value_name = "NAME")]
    lane_user: Option<LaneUser>,

    /// Widest vector unit that this process may use; by default what the policy file says, else as
    /// --max-simd-bitwidth, which is then for the workers alone
    #[arg(long, value_name = "BITS", value_parser = ["128", "256", "512"])]
    lane_max_simd_bitwidth: Option<String>,

    /// What does private-key operations: cpu; qat for an Intel QuickAssist device where that costs
    /// the CPU less; or qat-first wherever it has room. The CPU stands behind it. Never run on a
    /// real device (docs/operate/qat.md). By default what the policy file says
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,

    /// Puts the post-quantum key exchange X25519MLKEM768 in front of OpenSSL's default groups, for
    /// a program that names none; OpenSSL 3.5 does so by itself (docs/operate/post-quantum.md)
    #[arg(long)]
    pq: bool,

    /// Directory for one file of counters per process; made if missing, writable for all. Without
    /// it, where `widelane top` looks: /run/widelane, or widelane in XDG_RUNTIME_DIR
    #[arg(long, value_name = "DIR")]
    counters_dir: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
const PROVIDER_VARIABLE: &str = "WIDELANE_PROVIDER";

/// Tells the runtime of `--pq`: the variable and its value.
pub const PQ: (&str, &str) = ("WIDELANE_PQ", "yes");

/// The statuses by which shells, too, say that a program does not exist or cannot be executed.
const NO_SUCH_PROGRAM: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Replaces this process by the program; returns only if that fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some((name, arguments)) = args.command.split_first() else {
        anyhow::bail!("no program given; write it after `--`");
    };
    let Some(program) = find_program(name) else {
        eprintln!(
            "widelane: there is no program {}; check the spelling, or give its path",
            name.display()
        );
        return Ok(ExitCode::from(NO_SUCH_PROGRAM));
    };
    let mut command = Command::new(&program);
    command.arg0(name).args(arguments);
    match fitness::judge(&program) {
        Fitness::Accelerates => accelerate(&mut command, &args)?,
        Fitness::PassesOn => {
            accelerate(&mut command, &args)?;
            eprintln!(
                "widelane: {} is not linked with OpenSSL 3 itself; what it starts or loads is \
                 accelerated if it is, and then `widelane top` shows it; if it starts a server \
                 without LD_PRELOAD, put `widelane run --` before that server",
                program.display()
            );
        }
        Fitness::RunsUnchanged(reason) => {
            eprintln!("widelane: {} runs unchanged: {reason}", program.display());
        }
    }
    let error = command.exec();
    eprintln!("widelane: cannot execute {}: {error}", program.display());
    Ok(ExitCode::from(NOT_EXECUTABLE))
}

/// Puts into the environment of `command` what the runtime and the provider look for.
fn accelerate(command: &mut Command, args: &Args) -> anyhow::Result<()> {
    let libraries = Libraries::find()?;
    let flags = flags(args);
    // What is given here makes that of the environment moot.
    let value = |name: &str| match flags.iter().find(|(flag, _)| *flag == name) {
        Some((_, value)) => Some(value.clone()),
        None => std::env::var(name).ok(),
    };
    let from_environment = || std::env::var_os(policy::PATH_VARIABLE).map(PathBuf::from);
    let inputs = Inputs {
        argument: None,
        policy_path: args.policy.clone().or_else(from_environment),
        max_simd_bitwidth: value(policy::BITWIDTH_VARIABLE),
        wait_max: value(policy::WAIT_VARIABLE),
        combine: value(policy::COMBINE_VARIABLE),
        lane_cpus: value(policy::LANE_CPUS_VARIABLE),
        engine: value(policy::ENGINE_VARIABLE),
        lane_user: value(policy::LANE_USER_VARIABLE),
        lane_max_simd_bitwidth: value(policy::LANE_BITWIDTH_VARIABLE),
        system_path: PathBuf::from(policy::SYSTEM_PATH),
    };
    let resolved = policy::resolve(&inputs).context("the policy cannot be used")?;
    check_lane_process(args, &resolved.policy)?;
    command.envs(flags);
    // The server, or one that it starts anew, may be in another directory when it reads the file.
    match inputs.policy_path.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) if path == Path::new(policy::AUTO) => {
            command.env(policy::PATH_VARIABLE, policy::AUTO);
        }
        Some(path) => {
            command.env(policy::PATH_VARIABLE, std::path::absolute(path)?);
        }
        None => {}
    }
    if args.pq {
        command.env(PQ.0, PQ.1);
    }
    match counters_directory(args.counters_dir.as_deref()) {
        Ok(Some(directory)) => drop(command.env(COUNTERS_DIRECTORY_VARIABLE, directory)),
        Ok(None) => {}
        // The server is not worse off without. Said here once, and not by each of its processes.
        Err(error) => {
            eprintln!(
                "widelane: {error:#}; the server runs without counters, and `widelane top` will \
                 not show it"
            );
            command.env(COUNTERS_DIRECTORY_VARIABLE, "");
        }
    }
    let mut preload = OsString::from(&libraries.runtime);
    if let Some(others) = std::env::var_os(PRELOAD_VARIABLE).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env(PRELOAD_VARIABLE, preload).env(PROVIDER_VARIABLE, &libraries.provider);
    Ok(())
}

/// The variables by which flags replace single lines of the policy, those that are given.
fn flags(args: &Args) -> Vec<(&'static str, String)> {
    let all = [
        (policy::BITWIDTH_VARIABLE, args.max_simd_bitwidth.clone()),
        (policy::WAIT_VARIABLE, args.wait_max.map(|it| it.to_string())),
        (policy::COMBINE_VARIABLE, args.combine.map(|it| it.to_string())),
        (policy::LANE_CPUS_VARIABLE, args.lane_cpus.as_ref().map(LaneCpus::to_string)),
        (policy::ENGINE_VARIABLE, args.engine.map(|it| it.to_string())),
        (policy::LANE_USER_VARIABLE, args.lane_user.as_ref().map(LaneUser::to_string)),
        (policy::LANE_BITWIDTH_VARIABLE, args.lane_max_simd_bitwidth.clone()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Refuses CPUs and users that the lane process cannot have.
fn check_lane_process(args: &Args, policy: &Policy) -> anyhow::Result<()> {
    let lane_cpus = policy.lane_cpus.as_ref();
    if let (Some(cpus), Some(online)) = (lane_cpus, LaneCpus::online()) {
        cpus.check(&online)?;
    }
    if let Some(user) = &policy.lane_user {
        system::check_lane_user(user, lane_cpus)?;
        if !rustix::process::geteuid().is_root() {
            anyhow::bail!(
                "only root can have the lane process run as {user}; start the server as root, or \
                 name no --lane-user"
            );
        }
    }
    if args.lane_max_simd_bitwidth.is_some() && lane_cpus.is_none_or(LaneCpus::is_none) {
        anyhow::bail!(
            "there is no lane process for --lane-max-simd-bitwidth; give --lane-cpus, too"
        );
    }
    Ok(())
}

/// Where the server keeps its counters, if not where its environment already says.
fn counters_directory(asked: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let directory = live::for_servers(asked)?;
    directory.as_deref().map_or(Ok(()), live::try_out)?;
    Ok(directory)
}

/// Finds what a shell would run for `name`.
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Path::new(name).exists().then(|| PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| {
        candidate
            .metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}
