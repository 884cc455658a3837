//! One counters file: what has to be true of it before its figures are believed.

use std::fs::File;
use std::io::Read;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::str::FromStr;

use rustix::fs::{Mode, OFlags};
use thiserror::Error;
use widelane_bridge::counters::{COUNTERS_FILE_BYTES, COUNTERS_MAGIC, Counters};
use widelane_host::counters::Counts;

use super::process::{Facts, Unknown};
use super::{Off, Process};

/// Why a file is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Objection {
    /// Its process is gone, which is no fault.
    #[error("its process has ended")]
    Ended,
    /// Its process runs, and may not be looked at.
    #[error("its process is hidden from this user (hidepid); run this as root")]
    Hidden,
    /// A symbolic link.
    #[error("it is a symbolic link; widelane makes none, somebody else put it there")]
    Link,
    /// A directory, pipe, socket or device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It cannot be read.
    #[error("it cannot be read ({0}); run this as the server's user or as root")]
    Unreadable(String),
    /// It cannot be written to.
    #[error("it cannot be written to ({0}); run this as the server's user or as root")]
    Unwritable(String),
    /// Its size is not that of counters.
    #[error("it has {found} bytes instead of {expected}: these are no counters")]
    Size {
        /// The size it has.
        found: u64,
        /// The size it should have.
        expected: u64,
    },
    /// Its first bytes say that it is of another version, or its size does.
    #[error("it is of another version of widelane; restart its server to upgrade it")]
    Version,
    /// Its name is no process's number.
    #[error("its name is not a process ID; widelane did not write it")]
    NoProcess,
    /// It names another process than its name does.
    #[error("it says that it is of process {0}")]
    OtherProcess(u32),
    /// It belongs to somebody who is neither the process's user nor root.
    #[error("it belongs to user {owner}, but its process runs as user {user}")]
    Owner {
        /// Who owns the file.
        owner: u32,
        /// As whom the process runs.
        user: u32,
    },
}

/// The process that a file is named after.
pub fn named_process(path: &Path) -> Option<u32> {
    named(path).map(|(pid, _)| pid)
}

/// The process that a file is named after, and the time of its start if that stands behind a dash.
/// Of several ways to write a number only the provider's is taken, so that a process has a few
/// files at most.
fn named(path: &Path) -> Option<(u32, Option<u64>)> {
    let name = path.file_stem()?.to_str()?;
    match name.split_once('-') {
        Some((pid, start)) => Some((number(pid)?, Some(number(start)?))),
        None => Some((number(name)?, None)),
    }
}

/// A number without a sign or leading zeros.
fn number<N: FromStr + ToString>(text: &str) -> Option<N> {
    text.parse().ok().filter(|number: &N| number.to_string() == text)
}

/// Reads the counters of a living process.
pub fn read(path: &Path) -> Result<Process, Objection> {
    open(path, OFlags::RDONLY).map(|(_, process)| process)
}

/// Writes into the counters of a living process until when it is switched off ([`Off::word`]).
pub fn switch(path: &Path, off_until_ns: u64) -> Result<(), Objection> {
    let place = offset_of!(Counters, off_until_ns) as u64;
    let written = open_to_write(path)?.write_all_at(&off_until_ns.to_ne_bytes(), place);
    written.map_err(|error| Objection::Unwritable(error.to_string()))
}

/// Whether this user may switch a process; writes nothing.
pub fn may_switch(path: &Path) -> Result<(), Objection> {
    open_to_write(path).map(drop)
}

fn open_to_write(path: &Path) -> Result<File, Objection> {
    let opened = open(path, OFlags::RDWR).map(|(file, _)| file);
    opened.map_err(|objection| match objection {
        Objection::Unreadable(reason) => Objection::Unwritable(reason),
        other => other,
    })
}

/// Opens the counters of a living process to read, or to write as well, and demands that they are
/// its own: a regular file, no link, of exactly the size, of root or a user of the process that it
/// names, which has not ended meanwhile.
fn open(path: &Path, access: OFlags) -> Result<(File, Process), Objection> {
    let (pid, start) = named(path).ok_or(Objection::NoProcess)?;
    // Before the file is opened: one that names no running process has ended, whatever it is, and
    // does not count towards the limit of `Survey::take`.
    let facts = Facts::of(pid).map_err(|unknown| match unknown {
        Unknown::Ended => Objection::Ended,
        Unknown::Hidden => Objection::Hidden,
    })?;
    // Left behind by an earlier process of this number. Who writes a wrong start hides only their
    // own file.
    let is_of_other = |start: u64| start != 0 && start != facts.started_ticks;
    if start.is_some_and(is_of_other) {
        return Err(Objection::Ended);
    }
    // Not blocking: whoever opens a pipe waits for its other end.
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP => Objection::Link,
        rustix::io::Errno::NXIO | rustix::io::Errno::ISDIR => Objection::NotAFile,
        rustix::io::Errno::NOENT => Objection::Ended,
        other => Objection::Unreadable(std::io::Error::from(other).to_string()),
    })?;
    let mut file = File::from(file);
    let unreadable = |error: std::io::Error| Objection::Unreadable(error.to_string());
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Objection::NotAFile);
    }
    const EXPECTED: u64 = COUNTERS_FILE_BYTES as u64;
    let has_size = metadata.len() == EXPECTED;
    let found = has_size.then(|| Counts::read_with_claim(&mut file)).transpose();
    let found = found.map_err(unreadable)?.flatten();
    if let Some((_, claim)) = &found
        && claim.pid == pid
        && is_of_other(claim.started_ticks)
    {
        return Err(Objection::Ended);
    }
    // Before more is believed: everybody may put files here, and what they say of versions makes
    // `status` advise a restart.
    if metadata.uid() != 0 && !facts.users.contains(&metadata.uid()) {
        return Err(Objection::Owner { owner: metadata.uid(), user: facts.users[1] });
    }
    if !has_size {
        // Other versions have other sizes.
        let mut magic = [0; size_of_val(&COUNTERS_MAGIC)];
        let is_of_ours =
            file.read_exact(&mut magic).is_ok() && magic == COUNTERS_MAGIC.to_ne_bytes();
        let size = Objection::Size { found: metadata.len(), expected: EXPECTED };
        return Err(if is_of_ours { Objection::Version } else { size });
    }
    let (counts, claim) = found.ok_or(Objection::Version)?;
    if claim.pid != pid {
        return Err(Objection::OtherProcess(claim.pid));
    }
    let process = Process {
        pid,
        started_ticks: facts.started_ticks,
        cpu: facts.cpu,
        user: facts.users[1],
        command: facts.command,
        threads: facts.threads,
        off: Off::of(counts.off_until_ns).filter(|_| counts.lane_process_starts == 0),
        counts,
        path: path.to_owned(),
    };
    Ok((file, process))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::Command;

    use widelane_bridge::counters::COUNTERS_VERSION;

    use super::*;
    use crate::live::{Directories, ON, Skipped, State, Survey};

    /// A file as this process would keep it.
    fn file() -> Vec<u8> {
        let mut file = vec![0; COUNTERS_FILE_BYTES];
        let mut put = |offset: usize, value: &[u8]| {
            file[offset..offset + value.len()].copy_from_slice(value);
        };
        let facts = Facts::of(std::process::id()).unwrap();
        put(offset_of!(Counters, magic), &COUNTERS_MAGIC.to_ne_bytes());
        put(offset_of!(Counters, version), &COUNTERS_VERSION.to_ne_bytes());
        put(offset_of!(Counters, pid), &std::process::id().to_ne_bytes());
        put(offset_of!(Counters, started_ticks), &facts.started_ticks.to_ne_bytes());
        put(offset_of!(Counters, pages_used), &1u64.to_ne_bytes());
        put(offset_of!(Counters, handshakes), &77u64.to_ne_bytes());
        file
    }

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Place(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> PathBuf {
            self.0.path().join(format!("{}.counters", std::process::id()))
        }

        /// That of reading, which writing has as well: then nothing is written.
        fn objection(&self) -> Objection {
            let before = self.path().is_file().then(|| fs::read(self.path()).unwrap());
            let objection = read(&self.path()).unwrap_err();
            assert_eq!(switch(&self.path(), 7), Err(objection.clone()));
            assert_eq!(before, self.path().is_file().then(|| fs::read(self.path()).unwrap()));
            objection
        }
    }

    #[test]
    fn the_counters_of_this_process_are_believed() {
        let place = Place::new();
        fs::write(place.path(), file()).unwrap();
        let process = read(&place.path()).unwrap();
        assert_eq!((process.pid, process.counts.handshakes), (std::process::id(), 77));
        assert!(process.threads >= 1 && !process.command.is_empty());
    }

    #[test]
    fn one_word_of_a_believed_file_is_written() {
        let place = Place::new();
        fs::write(place.path(), file()).unwrap();
        assert_eq!(read(&place.path()).unwrap().state(), State::Accelerated);
        switch(&place.path(), Off::word(None)).unwrap();
        assert_eq!(read(&place.path()).unwrap().state(), State::Off(Off::ForGood));
        switch(&place.path(), ON).unwrap();
        assert_eq!(fs::read(place.path()).unwrap(), file());
    }

    #[test]
    fn a_file_that_may_only_be_read_is_said_to_be_unwritable() {
        use std::os::unix::fs::PermissionsExt;
        let place = Place::new();
        fs::write(place.path(), file()).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o444)).unwrap();
        if rustix::process::geteuid().is_root() {
            eprintln!("root may write to everything: nothing was tested");
            return;
        }
        let objection = switch(&place.path(), 7).unwrap_err();
        assert!(matches!(objection, Objection::Unwritable(_)), "{objection:?}");
        assert_eq!(read(&place.path()).unwrap().off, None);
    }

    #[test]
    fn hostile_files_are_named_and_nothing_waits_for_them() {
        let place = Place::new();
        fs::write(place.0.path().join("elsewhere"), file()).unwrap();
        symlink(place.0.path().join("elsewhere"), place.path()).unwrap();
        assert_eq!(place.objection(), Objection::Link);

        fs::remove_file(place.path()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.path(),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        assert_eq!(place.objection(), Objection::NotAFile);

        fs::remove_file(place.path()).unwrap();
        for size in [0, 100, size_of::<Counters>(), COUNTERS_FILE_BYTES + 1] {
            fs::write(place.path(), vec![0; size]).unwrap();
            let expected = COUNTERS_FILE_BYTES as u64;
            assert_eq!(place.objection(), Objection::Size { found: size as u64, expected });
        }

        let mut other = file();
        other[offset_of!(Counters, version)] = 99;
        fs::write(place.path(), &other).unwrap();
        assert_eq!(place.objection(), Objection::Version);

        // What a server wrote with pages of 4 KiB, before version 12.
        let mut former = file();
        former[offset_of!(Counters, version)] = 11;
        former.truncate(256 << 10);
        fs::write(place.path(), &former).unwrap();
        assert_eq!(place.objection(), Objection::Version);

        let mut other = file();
        other[offset_of!(Counters, pid)..][..4].copy_from_slice(&1u32.to_ne_bytes());
        fs::write(place.path(), &other).unwrap();
        assert_eq!(place.objection(), Objection::OtherProcess(1));

        let mut other = file();
        other[offset_of!(Counters, started_ticks)] ^= 1;
        fs::write(place.path(), &other).unwrap();
        assert_eq!(place.objection(), Objection::Ended);
    }

    #[test]
    fn a_file_of_another_user_is_not_believed() {
        let place = Place::new();
        // What is in it is not even looked at, nor its size, which may be that of another version.
        let mut former = file();
        former.truncate(256 << 10);
        for text in [vec![0; COUNTERS_FILE_BYTES], former] {
            fs::write(place.path(), text).unwrap();
            if std::os::unix::fs::chown(place.path(), Some(65_534), None).is_err() {
                eprintln!("only root can give files away: nothing was tested");
                return;
            }
            assert!(matches!(place.objection(), Objection::Owner { owner: 65_534, .. }));
            fs::remove_file(place.path()).unwrap();
        }
    }

    #[test]
    fn what_another_user_left_behind_is_of_an_ended_process() {
        let place = Place::new();
        let mut left = file();
        left[offset_of!(Counters, started_ticks)] ^= 1;
        fs::write(place.path(), left).unwrap();
        if std::os::unix::fs::chown(place.path(), Some(65_534), None).is_err() {
            eprintln!("only root can give files away: nothing was tested");
            return;
        }
        assert_eq!(place.objection(), Objection::Ended);
    }

    #[test]
    fn a_file_is_of_the_process_whose_number_is_its_name() {
        let place = Place::new();
        let own = std::process::id();
        let start = Facts::of(own).unwrap().started_ticks;
        let with_start = |start| place.0.path().join(format!("{own}-{start}.counters"));
        for start in [start, start + 1] {
            fs::write(with_start(start), file()).unwrap();
        }
        assert_eq!(read(&with_start(start)).unwrap().pid, own);
        assert_eq!(read(&with_start(start + 1)).unwrap_err(), Objection::Ended);
        for name in ["notes", "+77", "077", "4294967296", "-77", "x-77", "77-", "77-05", "77-5-5"] {
            let path = place.0.path().join(name).with_extension("counters");
            fs::write(&path, file()).unwrap();
            assert_eq!(read(&path).unwrap_err(), Objection::NoProcess, "{name}");
            assert_eq!(Skipped { path, objection: Objection::NoProcess }.pid(), None, "{name}");
        }
    }

    #[test]
    fn files_of_processes_that_do_not_run_hide_no_server() {
        let place = Place::new();
        for start in 1..=crate::live::FILES_MAX {
            fs::write(place.0.path().join(format!("1-{start}.counters")), "").unwrap();
        }
        fs::write(place.path(), file()).unwrap();
        let survey = Survey::take(&Directories::only(place.0.path().to_owned()));
        assert_eq!((survey.processes.len(), survey.truncated), (1, false));
    }

    #[test]
    fn a_survey_tells_the_living_from_the_ended_and_the_strange() {
        let place = Place::new();
        fs::write(place.path(), file()).unwrap();
        fs::write(place.0.path().join("notes.txt"), "").unwrap();
        fs::write(place.0.path().join(".1-5.counters"), "").unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(place.0.path().join(format!("{}.counters", other.id())), "short").unwrap();
        let mut ended = file();
        // No process has so high a number: /proc/sys/kernel/pid_max is 2^22 at most.
        ended[offset_of!(Counters, pid)..][..4].copy_from_slice(&4_194_305u32.to_ne_bytes());
        fs::write(place.0.path().join("4194305.counters"), ended).unwrap();
        let survey = Survey::take(&Directories::only(place.0.path().to_owned()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((survey.processes.len(), survey.skipped.len(), survey.ended), (1, 1, 1));
        assert!(survey.skipped[0].objection.to_string().contains("5 bytes"));
    }
}
