//! The counters of this process: a page in a file that others may read, or plain memory.
#![allow(unsafe_code, reason = "maps a file")]

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use widelane_bridge::counters::{
    COUNTERS_EXTENSION, COUNTERS_MAGIC, COUNTERS_VERSION, Counters, KindCounters, OperationKind,
    WAIT_BUCKETS,
};
use widelane_crypto::rsa::Rsa;

use crate::errors::say;

/// Makes the counters of this process: in a file of `dir` if it is given and can be written, which
/// else is said on stderr.
pub(crate) fn open(rsa: &Rsa, dir: Option<&Path>) -> &'static Counters {
    let mapped = dir.and_then(|dir| {
        map(dir)
            .inspect_err(|error| {
                say(&format!("cannot write counters to {}: {error}", dir.display()));
            })
            .ok()
    });
    let place = mapped.unwrap_or_else(|| NonNull::from(Box::leak(Box::new(ZEROES))).cast());
    // SAFETY: a `Counters` is numbers, for which all zeroes is valid; the page or block is zeroed,
    // large enough, aligned, and never freed.
    let counters: &'static Counters = unsafe { place.as_ref() };
    counters.version.store(COUNTERS_VERSION, Ordering::Relaxed);
    counters.pid.store(process::id(), Ordering::Relaxed);
    let started_ticks = started_ticks(process::id()).unwrap_or(0);
    counters.started_ticks.store(started_ticks, Ordering::Relaxed);
    counters.room.store(rsa.room() as u32, Ordering::Relaxed);
    counters.lanes.store(rsa.lanes() as u32, Ordering::Relaxed);
    counters.magic.store(COUNTERS_MAGIC, Ordering::Release);
    counters
}

/// Maps the file of this process, empty. It appears under its name only when it has its size.
fn map(dir: &Path) -> io::Result<NonNull<Counters>> {
    sweep(dir);
    let id = process::id();
    let (new, path) = (dir.join(format!(".{id}.counters")), dir.join(format!("{id}.counters")));
    let file = create(&new)?;
    if let Err(error) = reserve(&file, size_of::<Counters>()) {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    // SAFETY: a new mapping, where the kernel likes; the file has the size.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<Counters>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    fs::rename(new, path)?;
    NonNull::new(mapped.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

/// Gives a file its size, and room for it: a store into a mapped page for which the disk has none
/// left would end the process.
fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Makes a file that everybody may read. The directory may be open to all users: what another one
/// has put there under this name, a link to some file of ours perhaps, is not followed.
fn create(path: &Path) -> io::Result<File> {
    let create = || File::options().read(true).write(true).create_new(true).open(path);
    let file = match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()?
        }
        created => created?,
    };
    file.set_permissions(Permissions::from_mode(0o644))?;
    Ok(file)
}

/// Removes what processes left behind that ended long ago: a server that reloads often starts many.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().take(SWEPT_AT_ONCE_MAX) {
        let path = entry.path();
        let is_old = || {
            let made = entry.metadata().and_then(|metadata| metadata.modified()).ok()?;
            Some(made.elapsed().ok()? > KEPT_AFTER_END)
        };
        let is_ours = path.extension().is_some_and(|extension| extension == COUNTERS_EXTENSION);
        let pid = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        if is_ours && pid.is_some_and(has_ended) && is_old() == Some(true) {
            // Fails where the file is another user's, who may keep it.
            let _ = fs::remove_file(&path);
        }
    }
}

fn has_ended(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists() && Path::new("/proc/self").exists()
}

/// When a process started, in clock ticks after boot.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the parenthesis may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// How long the counters of an ended process can still be read.
const KEPT_AFTER_END: Duration = Duration::from_secs(24 * 60 * 60);

/// Files that a process looks at when it starts.
const SWEPT_AT_ONCE_MAX: usize = 4096;

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts `number`.
pub(crate) fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

/// How an operation was done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// In a batch.
    Batched,
    /// One by one, because too few waited.
    Single,
    /// At once, because its caller could not wait.
    Synchronous,
    /// By the default provider, because we do not accelerate it.
    Delegated,
}

/// Counts operations, each under its kind and, but for key generation, in the totals.
pub(crate) fn count_jobs(counters: &Counters, kind: OperationKind, how: How, jobs: usize) {
    let of_kind = of_kind(counters, kind);
    let (part, total) = match how {
        How::Batched => (&of_kind.batched, &counters.jobs_batched),
        How::Single => (&of_kind.single, &counters.jobs_single),
        How::Synchronous => (&of_kind.synchronous, &counters.jobs_synchronous),
        How::Delegated => (&of_kind.delegated, &counters.jobs_delegated),
    };
    add(part, jobs);
    if !kind.is_generation() {
        add(total, jobs);
    }
}

/// The counters of one kind.
pub(crate) fn of_kind(counters: &Counters, kind: OperationKind) -> &KindCounters {
    &counters.kinds[kind as usize]
}

/// Counts how long a job waited.
pub(crate) fn count_wait(counters: &Counters, wait_ns: u64) {
    let bucket = (u64::BITS - (wait_ns / 1000).leading_zeros()) as usize;
    count(&counters.waits_by_bucket[bucket.min(WAIT_BUCKETS - 1)]);
    counters.wait_ns_total.fetch_add(wait_ns, Ordering::Relaxed);
}

/// Room for counters that nobody else reads.
const ZEROES: [u64; size_of::<Counters>() / 8] = [0; size_of::<Counters>() / 8];

const _: () = assert!(size_of::<Counters>().is_multiple_of(8) && align_of::<Counters>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_leave_key_generation_out() {
        let rsa = Rsa::choose(&widelane_cpu::Policy::open());
        let counters = open(&rsa, None);
        count_jobs(counters, OperationKind::P256Sign, How::Single, 3);
        count_jobs(counters, OperationKind::P256Generate, How::Single, 5);
        assert_eq!(counters.jobs_single.load(Ordering::Relaxed), 3);
        for (kind, jobs) in [(OperationKind::P256Sign, 3), (OperationKind::P256Generate, 5)] {
            assert_eq!(of_kind(counters, kind).single.load(Ordering::Relaxed), jobs);
        }
    }

    #[test]
    fn waits_fall_below_the_powers_of_two() {
        let dir = tempfile::tempdir().unwrap();
        let rsa = Rsa::choose(&widelane_cpu::Policy::open());
        let counters = open(&rsa, Some(dir.path()));
        for (wait_ns, bucket) in [(0, 0), (999, 0), (1_000, 1), (1_999, 1), (2_000, 2), (7_999, 3)]
        {
            let before = counters.waits_by_bucket[bucket].load(Ordering::Relaxed);
            count_wait(counters, wait_ns);
            assert_eq!(counters.waits_by_bucket[bucket].load(Ordering::Relaxed), before + 1);
        }
        count_wait(counters, u64::MAX);
        assert_eq!(counters.waits_by_bucket[WAIT_BUCKETS - 1].load(Ordering::Relaxed), 1);
        let bytes = fs::read(dir.path().join(format!("{}.counters", process::id()))).unwrap();
        assert_eq!(bytes.len(), size_of::<Counters>());
        assert_eq!(bytes[..8], *b"WIDELANE");
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, "words").unwrap();
        let temporary = dir.path().join(format!(".{}.counters", process::id()));
        let path = dir.path().join(format!("{}.counters", process::id()));
        for name in [&temporary, &path] {
            std::os::unix::fs::symlink(&precious, name).unwrap();
        }
        map(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(precious).unwrap(), "words");
        let metadata = fs::symlink_metadata(path).unwrap();
        assert_eq!((metadata.is_file(), metadata.permissions().mode() & 0o777), (true, 0o644));
    }

    #[test]
    fn only_what_ended_long_ago_is_swept_away() {
        let dir = tempfile::tempdir().unwrap();
        // No process has so high a number: /proc/sys/kernel/pid_max is 2^22 at most.
        let [old, new, stranger] =
            ["4194305.counters", "4194306.counters", "notes.counters"].map(|name| {
                let path = dir.path().join(name);
                fs::write(&path, "").unwrap();
                path
            });
        let living = dir.path().join(format!("{}.counters", process::id()));
        fs::write(&living, "").unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * KEPT_AFTER_END;
        for path in [&old, &stranger, &living] {
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        sweep(dir.path());
        assert_eq!(
            [&old, &new, &stranger, &living].map(|path| path.exists()),
            [false, true, true, true]
        );
    }

    #[test]
    fn a_process_knows_when_it_started() {
        let ticks = started_ticks(process::id()).unwrap();
        assert!(ticks > 0 && started_ticks(1).unwrap() <= ticks);
    }
}
