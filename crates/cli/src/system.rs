//! What commands share that touch the system: where programs are, the policy in force, signals,
//! files.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use nix::unistd::User;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use widelane_cpu::policy::{self, Inputs, LaneCpus, LaneUser, Resolved};

/// Directories where servers live that are not always in a user's `PATH`.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Where programs are looked for, in order: the `PATH`, then where servers live.
pub fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)).collect()
}

/// The program `name` in the directory of this program.
pub fn find_beside(name: &str) -> Option<PathBuf> {
    let program = env::current_exe().ok()?.parent()?.join(name);
    program.is_file().then_some(program)
}

/// Makes sure that a lane process can run as a user: that there are CPUs for it, and the user.
pub fn check_lane_user(user: &LaneUser, cpus: Option<&LaneCpus>) -> anyhow::Result<()> {
    if cpus.is_none_or(LaneCpus::is_none) {
        bail!("there is no lane process that could run as {user}; give --lane-cpus, too");
    }
    match User::from_name(user.name()) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => {
            bail!("there is no user {user} for the lane process; create it, or name another")
        }
        Err(error) => bail!("the user {user} cannot be looked up: {error}"),
    }
}

/// The policy in force.
pub fn policy() -> anyhow::Result<Resolved> {
    Ok(policy::resolve(&Inputs::of_environment())?)
}

/// A flag that Ctrl-C and its kin set; a second one ends the process at once.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot watch for signals")?;
    }
    Ok(stop)
}

/// Writes a file in one step: beside its place first, then over it. A device or a pipe stays what
/// it is and is written to. Who may read a new file is for the umask to say.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text, |_| Ok(()))
}

/// The same of a file that servers and users read, whoever they are and whatever the umask is.
pub fn write_for_all(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text, |file| file.set_permissions(Permissions::from_mode(0o644)))
}

/// Makes a directory, with those above it that are missing, through which everybody may go whatever
/// the umask is.
pub fn make_directory_for_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), make_directory_for_all)?;
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

fn replace(
    path: &Path,
    text: &str,
    finish: impl FnOnce(&File) -> io::Result<()>,
) -> anyhow::Result<()> {
    let written = if is_device(path) {
        File::options().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()))
    } else {
        tempfile::Builder::new()
            .prefix(".widelane-")
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(directory_of(path))
            .and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file))
            .and_then(|file| finish(file.as_file()).map(|()| file))
            .and_then(|file| file.persist(path).map_err(|error| error.error))
            .map(drop)
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Why [`write()`] could not write to `path`, if it could not; leaves no trace.
pub fn obstacle_to_write(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some("it is a directory".to_owned());
    }
    if is_device(path) {
        return File::options().write(true).open(path).err().map(|error| error.to_string());
    }
    let directory = directory_of(path);
    why_no_directory(directory).or_else(|| {
        let tried = tempfile::Builder::new().prefix(".widelane-").tempfile_in(directory);
        tried.err().map(|error| format!("{}: {}", directory.display(), error.kind()))
    })
}

/// Says why a path is that of no directory, if it is not.
pub fn why_no_directory(path: &Path) -> Option<String> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some(format!("{} is not a directory", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("there is no directory {}", path.display()))
        }
        Err(error) => Some(format!("cannot use {}: {error}", path.display())),
    }
}

/// The directory that a path is in.
fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}
