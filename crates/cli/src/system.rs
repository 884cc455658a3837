//! What commands share that touch the system: where programs are, the policy in force, signals,
//! files.

use std::env;
use std::ffi::c_int;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use nix::unistd::User;
use rustix::fs::{Access, Mode, OFlags, access};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use widelane_cpu::Policy;
use widelane_cpu::policy::{self, Inputs, LaneCpus, Resolved};
use widelane_host::programs;

/// Where programs are looked for, in order: the `PATH`, then where servers live.
pub fn search_path() -> Vec<PathBuf> {
    programs::search_path(env::var_os("PATH"))
}

/// The directories of the `PATH`: none where it is not set. An empty one would name the current
/// directory.
pub fn path() -> Vec<PathBuf> {
    env::var_os("PATH").iter().flat_map(env::split_paths).collect()
}

/// The program `name` in the directory of this program.
pub fn find_beside(name: &str) -> Option<PathBuf> {
    let program = env::current_exe().ok()?.parent()?.join(name);
    program.is_file().then_some(program)
}

/// What is to have a lane process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A program that this process starts.
    Here,
    /// A service, which may use other CPUs than this process.
    Service,
}

/// Why this machine cannot have the lane process that a policy asks for.
pub fn lane_mistakes(policy: &Policy, starter: Starter) -> Vec<String> {
    let cpus = policy.lane_cpus.as_ref();
    let missing = cpus.and_then(|cpus| match starter {
        Starter::Here => cpus.check(&LaneCpus::usable_here()?).err(),
        Starter::Service => cpus.check(&LaneCpus::online()?).err(),
    });
    let user = policy.lane_user.as_ref().and_then(|user| {
        if cpus.is_none_or(LaneCpus::is_none) {
            return Some(format!(
                "there is no lane process that could run as {user}; give --lane-cpus, too"
            ));
        }
        match User::from_name(user.name()) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!(
                "there is no user {user} for the lane process; create it, or name another"
            )),
            Err(error) => Some(format!("the user {user} cannot be looked up: {error}")),
        }
    });
    missing.map(|missing| missing.to_string()).into_iter().chain(user).collect()
}

/// The policy in force.
pub fn policy() -> anyhow::Result<Resolved> {
    Ok(policy::resolve(&Inputs::of_environment())?)
}

/// A flag that SIGINT, SIGTERM and SIGHUP set.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    set_on_signals(&stop, &[SIGINT, SIGTERM, SIGHUP]).context("cannot watch for signals")?;
    Ok(stop)
}

/// Has signals set a flag. A second SIGINT, as by Ctrl-C, ends the process at once. A second
/// SIGTERM does not: `timeout` sends it twice, to the process and to its group. A signal that is
/// ignored when this process starts, as under `nohup`, stays ignored.
pub fn set_on_signals(flag: &Arc<AtomicBool>, signals: &[c_int]) -> io::Result<()> {
    let ignored = ignored_signals();
    for &signal in signals.iter().filter(|signal| ignored >> (**signal - 1) & 1 == 0) {
        if signal == SIGINT {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(flag))?;
        }
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// The signals that this process ignores, one bit each; none where there is no `/proc`.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// A word as a shell takes it.
pub fn in_shell(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,%@+".contains(char);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A path as seen from inside of the system in the directory `root`.
pub fn within(root: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(inner) => Path::new("/").join(inner),
        Err(_) => path.to_owned(),
    }
}

/// An absolute path as seen from outside of the system in the directory `root`, with symbolic links
/// as that system follows them: one to `/usr` does not lead to ours.
pub fn below(root: &Path, path: &Path) -> PathBuf {
    if root == Path::new("/") { root.join(path) } else { way(root, path).0 }
}

/// Resolves all symbolic links of an absolute path as the system in the directory `root` follows
/// them; returns the path as seen from outside, and the directories that are searched on the way.
pub fn way(root: &Path, path: &Path) -> (PathBuf, Vec<PathBuf>) {
    let outside = |inner: &Path| root.join(inner.strip_prefix("/").unwrap_or(inner));
    let mut searched = Vec::new();
    let mut inner = PathBuf::from("/");
    let mut left = vec![path.to_owned()];
    let mut links = 0;
    while let Some(path) = left.pop() {
        let mut components = path.components();
        let Some(component) = components.next() else { continue };
        left.push(components.as_path().to_owned());
        match component {
            Component::Normal(name) => {
                searched.push(outside(&inner));
                let next = inner.join(name);
                match fs::read_link(outside(&next)) {
                    Ok(target) if links < LINKS_MAX => {
                        links += 1;
                        left.push(target);
                    }
                    _ => inner = next,
                }
            }
            Component::RootDir => inner = PathBuf::from("/"),
            Component::ParentDir => drop(inner.pop()),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    (outside(&inner), searched)
}

/// Links that are followed one after the other, as in the kernel.
const LINKS_MAX: usize = 40;

/// Writes a file in one step: beside its place first, then over it. A link stays and its target is
/// written, and a file that is replaced keeps its mode; the umask decides which users may read a
/// new one. A device, a pipe, and the file that standard output or standard error goes to, are
/// written to as they are.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = if let Some(mut stream) = own_stream(path) {
        stream.write_all(text.as_bytes())
    } else if is_device(path) {
        into_device(path, text)
    } else {
        linked(path).and_then(|target| {
            let old = target.metadata().map(|old| old.permissions()).ok();
            replace(&target, text, old.clone().unwrap_or(Permissions::from_mode(0o644)), old)
        })
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file of the system in one step that all servers and users may read, whatever the umask
/// is. A link is replaced: in an image it may lead out of the image.
pub fn write_for_all(path: &Path, text: &str) -> anyhow::Result<()> {
    let mode = Permissions::from_mode(0o644);
    let written = if is_device(path) {
        into_device(path, text)
    } else {
        replace(path, text, mode.clone(), Some(mode))
    };
    written.map_err(|error| failure("write", path, error))
}

/// What could not be done to a file of the system, and what helps.
pub fn failure(verb: &str, path: &Path, error: io::Error) -> anyhow::Error {
    let remedy = remedy(error.kind());
    anyhow::Error::new(error).context(format!("cannot {verb} {}{remedy}", path.display()))
}

/// What helps somebody whom the system has refused something.
pub fn remedy(refusal: io::ErrorKind) -> &'static str {
    match refusal {
        io::ErrorKind::PermissionDenied => "; run this as root",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; change the image that this system is made from, with --root"
        }
        _ => "",
    }
}

/// Makes a directory, with those above it that are missing, through which everybody may go whatever
/// the umask is.
pub fn make_directory_for_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), make_directory_for_all)?;
    match make_directory(path, 0o755) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes a directory that has this mode whatever the umask is. If another process puts something
/// else in its place meanwhile, such as a link to a directory of the system, that keeps its mode.
pub fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    set_mode_of_own(path, mode)
}

fn set_mode_of_own(directory: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("somebody else has put another directory there"));
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Puts a file in the place of `path`: with `mode` as far as the umask lets it, then with `exact`.
fn replace(
    path: &Path,
    text: &str,
    mode: Permissions,
    exact: Option<Permissions>,
) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".widelane-")
        .permissions(mode)
        .tempfile_in(directory_of(path))?;
    file.write_all(text.as_bytes())?;
    exact.map_or(Ok(()), |exact| file.as_file().set_permissions(exact))?;
    // Otherwise a power failure could leave the new name with an empty file.
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// What standard output or standard error goes to, if `path` names it. `/dev/stdout` may lead to a
/// file, whose place must not be taken while others write to it; nor may that of `/dev/stdout`
/// itself.
pub fn own_stream(path: &Path) -> Option<File> {
    let named = path.metadata().ok()?;
    let of_process =
        [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
    of_process.into_iter().flatten().map(File::from).find(|own| {
        own.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (named.dev(), named.ino()))
    })
}

fn into_device(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()))
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|named| !named.is_file() && !named.is_dir())
}

/// Whether what is written to `path` is added to what was written there before, as into a pipe.
pub fn is_stream(path: &Path) -> bool {
    is_device(path) || own_stream(path).is_some()
}

/// Where a path leads if it is a link.
///
/// # Errors
///
/// The system does not follow it: it leads in a circle, or somebody else put it into a directory
/// where all may write (`fs.protected_symlinks`), and it may lead to a file of root's.
pub fn linked(path: &Path) -> io::Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    match path.metadata() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(way(Path::new("/"), &std::path::absolute(path)?).0)
}

/// Why [`write()`] could not write to `path`, if it could not; leaves no trace.
pub fn obstacle_to_write(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some("it is a directory".to_owned());
    }
    if is_stream(path) {
        return access(path, Access::WRITE_OK).err().map(|error| error.to_string());
    }
    let target = match linked(path) {
        Ok(target) => target,
        Err(error) => return Some(error.to_string()),
    };
    let directory = directory_of(&target);
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
pub fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_are_seen_from_inside_and_outside() {
        assert_eq!(
            below(Path::new("/mnt"), Path::new("/usr/sbin/nginx")),
            Path::new("/mnt/usr/sbin/nginx")
        );
        assert_eq!(below(Path::new("/"), Path::new("/usr")), Path::new("/usr"));
        let root = Path::new("/mnt");
        assert_eq!(within(root, Path::new("/mnt/etc/p.toml")), Path::new("/etc/p.toml"));
        assert_eq!(within(root, Path::new("/etc/p.toml")), Path::new("/etc/p.toml"));
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        for (word, expected) in
            [("haproxy@web", "haproxy@web"), ("a b", "'a b'"), ("it's;", r"'it'\''s;'"), ("", "''")]
        {
            assert_eq!(in_shell(word), expected);
        }
    }

    #[test]
    fn links_stay_in_their_system() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("opt/bin")).unwrap();
        for (target, link) in [
            ("/opt/bin", "bin"),
            ("../../../opt", "relative"),
            ("/loop", "loop"),
            ("/bin/server", "server"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        for (path, expected) in [
            ("/bin/sh", "opt/bin/sh"),
            ("/relative/./x", "opt/x"),
            ("/../../etc", "etc"),
            ("/server", "opt/bin/server"),
            ("/loop", "loop"),
        ] {
            assert_eq!(below(root, Path::new(path)), root.join(expected), "{path}");
        }
    }

    #[test]
    fn directories_are_made_for_all_with_those_above() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a/b");
        make_directory_for_all(&directory).unwrap();
        make_directory_for_all(&directory).unwrap();
        for made in [directory.as_path(), directory.parent().unwrap()] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        }
        write_for_all(&directory.join("file"), "").unwrap();
        assert!(make_directory_for_all(&directory.join("file/c")).is_err());
    }

    #[test]
    fn a_link_stays_and_its_target_is_written() {
        let place = tempfile::tempdir().unwrap();
        let (target, link) = (place.path().join("target"), place.path().join("link"));
        symlink("target", &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        fs::set_permissions(&target, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(obstacle_to_write(&link), None);
        write(&link, "again").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "again");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_device_stays_one() {
        write(Path::new("/dev/null"), "text").unwrap();
        write_for_all(Path::new("/dev/null"), "text").unwrap();
        assert!(is_device(Path::new("/dev/null")));
        assert!(write_for_all(Path::new("/dev/full"), "text").is_err());
    }

    #[test]
    fn what_the_system_would_not_follow_is_not_written() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("first"), place.path().join("second"));
        symlink(&second, &first).unwrap();
        symlink(&first, &second).unwrap();
        write(&first, "").unwrap_err();
        assert!(obstacle_to_write(&first).is_some());
        let protected = fs::read_to_string("/proc/sys/fs/protected_symlinks").unwrap_or_default();
        if protected.trim() != "1" || !rustix::process::geteuid().is_root() {
            return;
        }
        // As in /tmp, where others may put links.
        let (all, target) = (place.path().join("all"), place.path().join("target"));
        make_directory(&all, 0o1777).unwrap();
        let planted = all.join("results");
        symlink(&target, &planted).unwrap();
        std::os::unix::fs::lchown(&planted, Some(65_534), None).unwrap();
        for exists in [false, true] {
            if exists {
                fs::write(&target, "kept").unwrap();
            }
            write(&planted, "new").unwrap_err();
            assert!(obstacle_to_write(&planted).is_some());
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    fn whom_the_system_refuses_a_file_is_told_what_helps() {
        // Where not even root can make files.
        let error = write_for_all(Path::new("/sys/widelane.conf"), "").unwrap_err();
        assert!(error.to_string().starts_with("cannot write /sys/widelane.conf; "), "{error:#}");
    }

    /// What may stand in the place of a directory before its mode is set.
    #[test]
    fn the_mode_of_a_directory_elsewhere_stays() {
        let place = tempfile::tempdir().unwrap();
        let (directory, link) = (place.path().join("directory"), place.path().join("link"));
        make_directory(&directory, 0o700).unwrap();
        symlink(&directory, &link).unwrap();
        assert!(set_mode_of_own(&link, 0o1777).is_err());
        assert_eq!(make_directory(&link, 0o1777).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        if std::os::unix::fs::chown(&directory, Some(65_534), None).is_ok() {
            assert!(set_mode_of_own(&directory, 0o1777).is_err());
        }
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    }
}
