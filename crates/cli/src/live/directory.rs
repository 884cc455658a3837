//! Where counters files are: what was asked for, else the system's place, else the user's.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use widelane_bridge::counters::{COUNTERS_DIRECTORY_VARIABLE, COUNTERS_FILE_BYTES};

use crate::system;

/// Where the servers of the system keep their counters.
pub const SYSTEM_DIRECTORY: &str = "/run/widelane";

/// Open to all, but nobody removes another one's files.
const SHARED_MODE: u32 = 0o1777;

/// Directories to look into.
#[derive(Clone, Debug)]
pub struct Directories(Vec<PathBuf>);

impl Directories {
    /// Looks into `directory` alone.
    pub fn only(directory: PathBuf) -> Self {
        Directories(vec![directory])
    }

    /// The directory that was asked for, which has to be there; else the one that the environment
    /// names, or all where `widelane run` may have put counters.
    pub fn asked_or_usual(asked: Option<&Path>) -> anyhow::Result<Self> {
        match asked.and_then(system::why_no_directory) {
            Some(reason) => bail!(reason),
            None => Ok(Directories::now_or_later(asked)),
        }
    }

    /// The directory that was asked for, which may be made later; else the one that the environment
    /// names, or all where `widelane run` may have put counters.
    pub fn now_or_later(asked: Option<&Path>) -> Self {
        match asked.map(Path::to_owned).or_else(named) {
            Some(directory) => Directories::only(directory),
            None => Directories(
                [PathBuf::from(SYSTEM_DIRECTORY)].into_iter().chain(of_user()).collect(),
            ),
        }
    }

    /// The directories that exist.
    pub fn existing(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path).filter(|directory| directory.is_dir())
    }

    /// The paths of all directories, joined by "and".
    pub fn words(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|path| path.display().to_string()).collect();
        names.join(" and ")
    }
}

/// Whether one directory is asked for alone: by an option, or by the environment.
pub fn is_asked(asked: Option<&Path>) -> bool {
    asked.is_some() || named().is_some()
}

/// The directory that the environment names.
fn named() -> Option<PathBuf> {
    let value = env::var_os(COUNTERS_DIRECTORY_VARIABLE).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// The directory for the servers that this process starts: the one asked for, made if it is
/// missing; else the system's or the user's. None if the environment, which they inherit, names one
/// or switches counters off.
pub fn for_servers(asked: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    if let Some(directory) = asked {
        return shared(&std::path::absolute(directory)?).map(Some);
    }
    if env::var_os(COUNTERS_DIRECTORY_VARIABLE).is_some() {
        return Ok(None);
    }
    let system = Path::new(SYSTEM_DIRECTORY);
    if rustix::process::geteuid().is_root() || system.is_dir() {
        return shared(system).map(Some);
    }
    let Some(directory) = of_user() else {
        bail!(
            "there is no {SYSTEM_DIRECTORY}, and XDG_RUNTIME_DIR is not set; give a --counters-dir"
        );
    };
    fs::create_dir_all(&directory).map_err(|error| cannot_make(&directory, &error))?;
    Ok(Some(directory))
}

/// Makes sure that a server could keep counters in `directory` now.
pub fn try_out(directory: &Path) -> anyhow::Result<()> {
    let of_file_size = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if of_file_size.is_some_and(|limit| limit < COUNTERS_FILE_BYTES as u64) {
        // Beyond it the system would end this process and the server.
        bail!("the limit of file size is below 512 KiB; raise it (LimitFSIZE=, `ulimit -f`)");
    }
    // Should it be left behind, sweeps take it for a file of counters that is being made.
    let path = directory.join(format!(".{}-trial.counters", std::process::id()));
    let written = File::options()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| file.write_all(&[0; TRIAL_BYTES]));
    // The directory may be open to all: who puts something in the way keeps nobody from counting.
    if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        return Ok(());
    }
    // Where it was not made there is nothing to remove.
    let _ = fs::remove_file(&path);
    written.map_err(|error| {
        anyhow!("cannot write counters to {}: {error}; {REMEDY}", directory.display())
    })
}

/// Room that a small server takes: some processes of a few threads, a page each.
const TRIAL_BYTES: usize = 64 << 10;

/// The directory of this user alone.
fn of_user() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(runtime).join("widelane"))
}

/// Makes a directory to which servers can write after they gave up their privileges, if it is
/// missing.
fn shared(directory: &Path) -> anyhow::Result<PathBuf> {
    if fs::symlink_metadata(directory).is_err() {
        let above = directory.parent().map_or(Ok(()), system::make_directory_for_all);
        match above.and_then(|()| system::make_directory(directory, SHARED_MODE)) {
            // Who was faster is looked at as if it had been there before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| cannot_make(directory, &error))?,
        }
    }
    let own = fs::symlink_metadata(directory).map_err(|error| cannot_make(directory, &error))?;
    if own.is_symlink() && directory == Path::new(SYSTEM_DIRECTORY) {
        bail!("{} is a symbolic link; remove it", directory.display());
    }
    let target = match directory.metadata() {
        Ok(target) if target.is_dir() => target,
        _ => bail!("{} is not a directory; give another --counters-dir", directory.display()),
    };
    // Of a link both count: who owns it can lead it elsewhere.
    if let Some(foreign) = [own, target].iter().find(|metadata| !is_trusted(metadata.uid())) {
        bail!(
            "{} belongs to user {}, who could exchange what is in it; give another --counters-dir",
            directory.display(),
            foreign.uid()
        );
    }
    Ok(directory.to_owned())
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn cannot_make(directory: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("cannot make the counters directory {}: {error}; {REMEDY}", directory.display())
}

const REMEDY: &str = "mount something writable there, or give another --counters-dir";

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    #[test]
    fn a_missing_directory_is_made_for_all_and_an_existing_one_is_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let new = place.path().join("a/b");
        assert_eq!(shared(&new).unwrap(), new);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&new), SHARED_MODE);
        fs::set_permissions(&new, Permissions::from_mode(0o700)).unwrap();
        shared(&new).unwrap();
        assert_eq!(mode(&new), 0o700);
    }

    #[test]
    fn a_directory_is_tried_out_without_a_trace() {
        let place = tempfile::tempdir().unwrap();
        try_out(place.path()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let error = format!("{:#}", try_out(&place.path().join("missing")).unwrap_err());
        assert!(error.contains("cannot write counters to") && error.contains("No such file"));
    }

    #[test]
    fn a_file_in_the_way_and_another_users_directory_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(shared(&file).unwrap_err().to_string().contains("not a directory"));
        let foreign = place.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        let link = place.path().join("link");
        symlink(&foreign, &link).unwrap();
        assert_eq!(shared(&link).unwrap(), link);
        if chown(&foreign, Some(65_534), None).is_err() {
            eprintln!("only root can give files away: links of others were not tested");
            return;
        }
        for path in [&foreign, &link] {
            assert!(shared(path).unwrap_err().to_string().contains("user 65534"));
        }
        let own = tempfile::tempdir().unwrap();
        fs::remove_file(&link).unwrap();
        symlink(own.path(), &link).unwrap();
        lchown(&link, Some(65_534), None).unwrap();
        assert!(shared(&link).unwrap_err().to_string().contains("user 65534"));
    }
}
