//! Commands of servers as they are installed: what accelerates whatever starts in this environment,
//! or on this system, must not accelerate the server that others are held against.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::Pid;
use widelane_cpu::policy;

/// Variables by which a server is accelerated without `widelane run`: by the runtime, and by a
/// configuration of OpenSSL.
const ACCELERATING: [&str; 2] = ["LD_PRELOAD", "OPENSSL_CONF"];

/// Those variables of the policy by which a subject differs from another one.
const OF_SUBJECTS: [&str; 2] = [policy::ENGINE_VARIABLE, policy::LANE_CPUS_VARIABLE];

/// The file names of our provider, as installed and as built, and of our runtime.
const PROVIDERS: [&str; 2] = ["widelane.so", "libwidelane.so"];
const RUNTIME: &str = "libwidelane_runtime.so";

/// What the dynamic loader preloads for every program.
const PRELOADED: &str = "/etc/ld.so.preload";

/// The command of these words in the environment of every subject: nothing in it accelerates it or
/// is part of a policy.
pub fn command(words: &[PathBuf]) -> Command {
    let (program, arguments) = words.split_first().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(arguments);
    ACCELERATING.into_iter().chain(policy::variables()).for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Whether subjects differ in what the variable `name` says.
pub fn is_of_subjects(name: &str) -> bool {
    OF_SUBJECTS.contains(&name)
}

/// The library of ours that a process has mapped, if it has one, and what may have loaded it.
pub fn library_in(process: Pid) -> Option<(PathBuf, &'static str)> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    // The runtime first, as it loads the provider.
    let libraries = maps.lines().filter_map(library_of_ours);
    let library = libraries.max_by_key(|library| library.ends_with(RUNTIME))?;
    let is_runtime = library.ends_with(RUNTIME);
    let preloaded = fs::read_to_string(PRELOADED).unwrap_or_default();
    let cause = match is_runtime {
        true if preloaded.contains(RUNTIME) => "/etc/ld.so.preload names it",
        true => "the program that was found first in PATH sets LD_PRELOAD, as a script may",
        false => {
            "OpenSSL's configuration loads it, openssl.cnf in the directory that `openssl version \
             -d` names"
        }
    };
    Some((library, cause))
}

/// The file of a line of `/proc/PID/maps`, if it is a library of ours.
fn library_of_ours(line: &str) -> Option<PathBuf> {
    let (_, path) = line.split_once('/')?;
    let path = Path::new("/").join(path.trim_end_matches(" (deleted)"));
    let name = path.file_name()?.to_str()?;
    (PROVIDERS.contains(&name) || name == RUNTIME).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_of_ours_reaches_a_server() {
        let command = command(&["nginx".into(), "-t".into()]);
        let removed: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in policy::variables().chain(ACCELERATING) {
            assert!(removed.contains(&name.as_ref()), "{name} is not in {removed:?}");
        }
    }

    #[test]
    fn our_libraries_are_known_among_all_that_are_mapped() {
        let line = |path: &str| {
            format!("7f5c1a000000-7f5c1a022000 r--p 00000000 08:01 1311                 {path}")
        };
        let found = |path: &str| library_of_ours(&line(path));
        for path in [
            "/usr/lib/x86_64-linux-gnu/ossl-modules/widelane.so",
            "/build dir/libwidelane.so",
            "/usr/lib/widelane/libwidelane_runtime.so",
        ] {
            assert_eq!(found(path), Some(path.into()));
            assert_eq!(found(&format!("{path} (deleted)")), Some(path.into()));
        }
        for path in ["", "[heap]", "/usr/lib/libssl.so.3", "/usr/lib/widelane/policy.so"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn this_process_has_mapped_none_of_them() {
        assert_eq!(library_in(Pid::this()), None);
    }
}
