//! The file of this process's counters, which others may read.
#![allow(unsafe_code, reason = "reserves room on a disk")]

use std::fs::{self, DirEntry, File, Permissions};
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;
use widelane_bridge::counters::{
    COUNTERS_EXTENSION, COUNTERS_FILE_BYTES, COUNTERS_MAGIC, COUNTERS_VERSION, Counters,
};

use super::pages;
use crate::process::{has_ended, stat};

/// Maps the file of this process, empty. It appears under its name only when it has its size.
pub(super) fn map(dir: &Path) -> io::Result<&'static [Counters]> {
    let id = process::id();
    if sweeps(id) {
        sweep(dir);
    }
    let (new, file) = create(dir, id)?;
    let mapped = reserve(&file).and_then(|()| pages::map(Some(file.as_fd())));
    let renamed = mapped.and_then(|pages| name(&new, dir, id).map(|()| pages));
    renamed.inspect_err(|_| drop(fs::remove_file(new)))
}

/// Whether this process has a file already: made by itself, or before it executed itself anew.
pub(crate) fn are_there(dir: &Path) -> bool {
    let own = process::id();
    off_until_ns(&dir.join(format!("{own}.counters")), own).is_some()
}

/// Until when this process is to be switched off from its beginning: as it was before it executed
/// itself anew, as HAProxy's master does when it reloads; or as those are that its parent, of the
/// same program, has started before, as HAProxy from 3.1 on starts workers that know nothing of
/// each other.
pub(crate) fn former_off_until_ns(dir: &Path) -> u64 {
    let own = process::id();
    let former = off_until_ns(&dir.join(format!("{own}.counters")), own);
    former.unwrap_or_else(|| off_until_ns_of_siblings(dir, own).unwrap_or(0))
}

fn off_until_ns_of_siblings(dir: &Path, own: u32) -> Option<u64> {
    let (name, parent) = name_and_parent(own)?;
    if name_and_parent(parent)?.0 != name {
        return None;
    }
    let is_sibling = |pid: &u32| {
        *pid != own && name_and_parent(*pid).is_some_and(|it| it == (name.clone(), parent))
    };
    let entries = fs::read_dir(dir).ok()?.flatten().take(SWEPT_AT_ONCE_MAX);
    let of_entry = |entry: DirEntry| {
        let pid = pid_of(&entry.path())?;
        is_sibling(&pid).then(|| off_until_ns(&entry.path(), pid)).flatten()
    };
    entries.filter_map(of_entry).max()
}

/// What the counters of a living process say, if they are its own, and of this user or root.
fn off_until_ns(path: &Path, pid: u32) -> Option<u64> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_trusted = [0, geteuid().as_raw()].contains(&metadata.uid());
    if !is_trusted || !metadata.is_file() || metadata.len() != COUNTERS_FILE_BYTES as u64 {
        return None;
    }
    let mut first = [0; size_of::<Counters>()];
    file.read_exact(&mut first).ok()?;
    let word =
        |offset: usize| first[offset..].first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let number =
        |offset: usize| first[offset..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let is_its = word(offset_of!(Counters, magic)) == Some(COUNTERS_MAGIC)
        && number(offset_of!(Counters, version)) == Some(COUNTERS_VERSION)
        && number(offset_of!(Counters, pid)) == Some(pid)
        && word(offset_of!(Counters, started_ticks)) == started_ticks(pid);
    word(offset_of!(Counters, off_until_ns)).filter(|_| is_its)
}

/// Gives a file the name of this process. Another user's process of the same number may have left a
/// file behind, which stays where the directory is open to all: then the name has the time of the
/// start, too.
fn name(file: &Path, dir: &Path, id: u32) -> io::Result<()> {
    fs::rename(file, dir.join(format!("{id}.counters"))).or_else(|error| {
        let start = started_ticks(id).unwrap_or(0);
        fs::rename(file, dir.join(format!("{id}-{start}.counters"))).map_err(|_| error)
    })
}

/// Gives a file its size, and room for its first page: a store into a mapped page for which the
/// disk has none left would end the process.
///
/// Beyond the limit of file size the system would not only refuse it, but end the process.
fn reserve(file: &File) -> io::Result<()> {
    // By libc: rustix does not tell whether the system has answered, which filters may refuse.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for a limit.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if is_known && limit.rlim_cur < COUNTERS_FILE_BYTES as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    file.set_len(COUNTERS_FILE_BYTES as u64)?;
    let first = size_of::<Counters>() as libc::off_t;
    // SAFETY: an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, first) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Makes a file that everybody may read, under a name for the moment. The directory may be open to
/// all users: nobody can tell the name before, and what is there by chance is not followed.
fn create(dir: &Path, id: u32) -> io::Result<(PathBuf, File)> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let path = dir.join(format!(".{id}-{}.counters", since.as_nanos()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    file.set_permissions(Permissions::from_mode(LIVING_MODE))?;
    Ok((path, file))
}

/// Whether the process of this number sweeps: one of [`SWEEP_INTERVAL`], whatever the distance of
/// the numbers of a server's processes. Those that serve one connection end before a sweep by each
/// of them would pay.
fn sweeps(id: u32) -> bool {
    // Multiples of the golden ratio are spread evenly.
    id.wrapping_mul(0x9E37_79B1) < u32::MAX / SWEEP_INTERVAL
}

/// Removes what processes left behind that ended long ago, and all but the last ones: a server that
/// reloads often starts many, and some start one for each connection.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let now = SystemTime::now();
    let entries = entries.flatten().take(SWEPT_AT_ONCE_MAX);
    let mut ended: Vec<_> = entries.filter_map(|entry| of_ended(&entry, now)).collect();
    ended.sort_unstable_by(|one, other| other.cmp(one));
    for (index, (found, _, path)) in ended.into_iter().enumerate() {
        let is_old = found.elapsed().is_ok_and(|age| age > KEPT_AFTER_END);
        if is_old || index >= ENDED_KEPT_MAX {
            // Fails where the file is another user's, who may keep it.
            let _ = fs::remove_file(path);
        }
    }
}

/// When an ended process was first found to have ended, when its file was last written before, and
/// where that is; nothing if it is no such file.
///
/// Stores into mapped memory do not tell a file when it was written, at least not on tmpfs. So the
/// first sweep behind the end of a process says it: it makes the file one that is not written to.
fn of_ended(entry: &DirEntry, now: SystemTime) -> Option<(SystemTime, SystemTime, PathBuf)> {
    let path = entry.path();
    if !has_ended(pid_of(&path)?) {
        return None;
    }
    let written = entry.metadata().ok()?.modified().ok()?;
    // Not marked: it was before, or is another user's, who finds that it has ended.
    let is_new = mark(&path, now).unwrap_or(false);
    Some((if is_new { now } else { written }, written, path))
}

/// The process that a file is named after.
fn pid_of(path: &Path) -> Option<u32> {
    path.extension().filter(|extension| *extension == COUNTERS_EXTENSION)?;
    let stem = path.file_stem()?.to_str()?;
    stem.strip_prefix('.').unwrap_or(stem).split('-').next()?.parse().ok()
}

/// Marks a file whose process has ended; false if it is not one that a process has made. It neither
/// follows a link nor waits, whatever another user has put there.
fn mark(path: &Path, now: SystemTime) -> io::Result<bool> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().write(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.permissions().mode() & 0o7777;
    if !metadata.is_file() || metadata.nlink() != 1 || mode != LIVING_MODE {
        return Ok(false);
    }
    file.set_modified(now)?;
    file.set_permissions(Permissions::from_mode(ENDED_MODE))?;
    Ok(true)
}

/// When a process started, in clock ticks after boot.
pub(super) fn started_ticks(pid: u32) -> Option<u64> {
    let (_, fields) = stat(pid)?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// The name of a process and the number of its parent.
fn name_and_parent(pid: u32) -> Option<(String, u32)> {
    let (name, fields) = stat(pid)?;
    Some((name, fields.split_whitespace().nth(1)?.parse().ok()?))
}

/// The permissions of a process's file, and those of one that was found to have ended.
const LIVING_MODE: u32 = 0o644;
const ENDED_MODE: u32 = 0o444;

/// How long the counters of an ended process can still be read at most.
const KEPT_AFTER_END: Duration = Duration::from_secs(24 * 60 * 60);

/// How many ended processes can still be read.
const ENDED_KEPT_MAX: usize = 256;

/// Of how many processes one sweeps.
const SWEEP_INTERVAL: u32 = 64;

/// Files that a sweep looks at.
const SWEPT_AT_ONCE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::counters::Pages;

    #[test]
    fn a_file_has_its_size_and_takes_no_room_for_pages_that_nobody_has() {
        let dir = tempfile::tempdir().unwrap();
        let pages = Pages::open(8, |_| 8, Some(dir.path()));
        let path = dir.path().join(format!("{}.counters", process::id()));
        assert_eq!(fs::read(&path).unwrap()[..8], *b"WIDELANE");
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), COUNTERS_FILE_BYTES as u64);
        assert!(metadata.blocks() * 512 < COUNTERS_FILE_BYTES as u64 / 2);
        assert_eq!([pages.take(), pages.take()], [Some(0), Some(1)]);
        let used = &fs::read(&path).unwrap()[offset_of!(Counters, pages_used)..][..8];
        assert_eq!(*used, 2u64.to_ne_bytes());
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, "words").unwrap();
        let path = dir.path().join(format!("{}.counters", process::id()));
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        map(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(precious).unwrap(), "words");
        let metadata = fs::symlink_metadata(path).unwrap();
        assert_eq!((metadata.is_file(), metadata.permissions().mode() & 0o777), (true, 0o644));
    }

    #[test]
    fn what_cannot_be_replaced_is_left_and_the_file_has_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let id = process::id();
        // Root, as which tests may run, can replace every file.
        fs::create_dir(dir.path().join(format!("{id}.counters"))).unwrap();
        map(dir.path()).unwrap();
        let start = started_ticks(id).unwrap();
        assert!(dir.path().join(format!("{id}-{start}.counters")).is_file());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_process_that_executes_itself_anew_stays_switched_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!((former_off_until_ns(dir.path()), are_there(dir.path())), (0, false));
        let pages = Pages::open(8, |_| 8, Some(dir.path()));
        assert_eq!((former_off_until_ns(dir.path()), are_there(dir.path())), (0, true));
        pages.first().off_until_ns.store(77, Ordering::Relaxed);
        assert_eq!(former_off_until_ns(dir.path()), 77);
        // That of an earlier process of the same number.
        pages.first().started_ticks.fetch_add(1, Ordering::Relaxed);
        assert_eq!(former_off_until_ns(dir.path()), 0);
    }

    #[test]
    fn what_is_said_of_a_process_is_believed_if_it_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let pages = Pages::open(8, |_| 8, Some(dir.path()));
        pages.first().off_until_ns.store(77, Ordering::Relaxed);
        let (own, other) = (process::id(), std::os::unix::process::parent_id());
        let path = dir.path().join(format!("{own}.counters"));
        assert_eq!(off_until_ns(&path, own), Some(77));
        assert_eq!(off_until_ns(&path, other), None);
        assert_eq!(name_and_parent(own).unwrap().1, other);
        assert_eq!(off_until_ns_of_siblings(dir.path(), own), None, "it has none");
    }

    #[test]
    fn what_ended_long_ago_is_swept_away_and_not_what_began_then() {
        let dir = tempfile::tempdir().unwrap();
        // No process has so high a number: /proc/sys/kernel/pid_max is 2^22 at most.
        let names = [
            "4194305-7.counters",
            "4194306.counters",
            ".4194307-1.counters",
            "notes.counters",
            &format!("{}.counters", process::id()),
        ];
        let paths = names.map(|name| dir.path().join(name));
        let exist = || paths.each_ref().map(|path| path.exists());
        let age = || {
            let long_ago = SystemTime::now() - 2 * KEPT_AFTER_END;
            for path in paths.iter().filter(|path| path.exists()) {
                File::open(path).unwrap().set_modified(long_ago).unwrap();
            }
        };
        for path in &paths {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(LIVING_MODE)).unwrap();
        }
        // What others may have put there is neither waited for nor opened to all.
        let [pipe, private] =
            ["4194308", "4194309"].map(|id| dir.path().join(format!("{id}.counters")));
        let pipe_name = CString::new(pipe.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(pipe_name.as_ptr(), 0o644) }, 0);
        fs::write(&private, "").unwrap();
        fs::set_permissions(&private, Permissions::from_mode(0o600)).unwrap();
        age();
        // Written for the last time long ago, which says nothing of when it ended.
        sweep(dir.path());
        assert_eq!(exist(), [true; 5]);
        let mode = fs::metadata(&private).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        sweep(dir.path());
        assert_eq!(exist(), [true; 5], "found a moment ago");
        age();
        sweep(dir.path());
        assert_eq!(exist(), [false, false, false, true, true]);
    }

    #[test]
    fn of_many_that_ended_the_last_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..ENDED_KEPT_MAX + 3)
            .map(|index| {
                let path = dir.path().join(format!("{}.counters", 4_194_305 + index));
                let file = File::create(&path).unwrap();
                let minutes_ago =
                    SystemTime::now() - Duration::from_secs(60 * (400 - index as u64));
                file.set_modified(minutes_ago).unwrap();
                path
            })
            .collect();
        sweep(dir.path());
        let left: Vec<_> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [&[false; 3][..], &[true; ENDED_KEPT_MAX]].concat());
    }

    #[test]
    fn of_many_processes_few_sweep() {
        for distance in [1, 2, 3, 64, 128] {
            let swept = (0..6400).filter(|index| sweeps(1001 + distance * index)).count();
            assert!((50..200).contains(&swept), "{swept} of 6400, {distance} apart");
        }
    }

    #[test]
    fn a_process_that_takes_no_signal_has_not_ended() {
        assert!(!has_ended(1) && !has_ended(process::id()));
        assert!(has_ended(0) && has_ended(4_194_305) && has_ended(u32::MAX));
    }

    #[test]
    fn a_process_knows_when_it_started() {
        let ticks = started_ticks(process::id()).unwrap();
        assert!(ticks > 0 && started_ticks(1).unwrap() <= ticks);
    }
}
