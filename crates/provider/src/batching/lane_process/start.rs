//! Starts, restarts and ends the lane process.
//!
//! The process that is about to fork workers clones a supervisor through an intermediate process
//! that exits at once, without an exit signal, so the server's `waitpid` (without `__WALL`) sees
//! neither. Only a server that is PID 1 or a subreaper becomes the supervisor's parent. The
//! supervisor starts the lane process, and starts it again when it ends. Both are copies of a
//! process with one thread, so no lock is held in them. They exit when the pipe that the master and
//! all workers hold open closes.
#![allow(unsafe_code, reason = "clones processes, closes descriptors, pins and names processes")]

use std::ffi::{CStr, c_int, c_long};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, io, mem, ptr};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
    setsid,
};
use rustix::thread::set_name;
use widelane_bridge::counters::OperationKind;
use widelane_bridge::processes::{LANE_PROCESS, SUPERVISOR};
use widelane_cpu::Room;

use super::serve;
use super::user::User;
use crate::batching::combining::{Member, WorkerGeneration};
use crate::batching::kinds;
use crate::batching::signals::{self, Mask};
use crate::choosing;
use crate::config::config;
use crate::errors::say;
use crate::process;

/// A lane process that ran for less time than this is restarted only after this time.
const PAUSE: Duration = Duration::from_millis(200);

/// After this time one is started again that was of no use: the system may allow it its CPUs by
/// then.
const PAUSE_OF_USELESS: Duration = Duration::from_secs(5);

/// The status of a lane process that is of no use.
const USELESS: c_int = 2;

/// Starts the lane process of a generation. Returns the descriptor that keeps it alive: it ends
/// when all processes have closed that.
///
/// # Errors
/// A text that says why it was not started.
pub(crate) fn start(generation: &'static WorkerGeneration) -> Result<OwnedFd, String> {
    let is_batch = |(lanes, room): &(usize, Room)| *lanes > 1 && config().lane_process.has(*room);
    if !kinds::kernels(OperationKind::Rsa2048).iter().any(is_batch) {
        return Err("no room with lanes is open to RSA".to_owned());
    }
    match threads() {
        Ok(1) => {}
        Ok(_) => {
            let several = "the program has several threads where it forks; leave out --lane-cpus";
            return Err(several.to_owned());
        }
        Err(error) => {
            return Err(format!(
                "cannot tell how many threads there are: /proc/self/task: {error}"
            ));
        }
    }
    let user = config().lane_user.as_ref().map(|user| User::named(user.name())).transpose()?;
    let pipe = pipe_with(PipeFlags::CLOEXEC);
    let (lifeline, held) = pipe.map_err(|error| format!("no pipe to it: {error}"))?;
    let mask = Mask::block_all();
    let status = match clone(0) {
        0 => {
            let supervisor = clone(0);
            if supervisor == 0 {
                // Error: it has panicked, and said so.
                let supervise = || supervise(generation, &lifeline, user);
                let _ = catch_unwind(AssertUnwindSafe(supervise));
            }
            exit(c_int::from(supervisor < 0))
        }
        child if child > 0 => wait(child),
        _ => None,
    };
    mask.restore();
    if !status.is_some_and(|status| status.success()) {
        return Err("the system allows no further process".to_owned());
    }
    Ok(held)
}

/// Starts the lane process, and starts it again when it has ended, until `lifeline` closes. Both
/// run as `user`, if there is one.
fn supervise(generation: &'static WorkerGeneration, lifeline: &OwnedFd, user: Option<User>) {
    let kept = generation.descriptors().chain([lifeline.as_raw_fd()]);
    become_other(SUPERVISOR, kept.collect());
    if let Some(Err(error)) = user.map(User::assume) {
        generation.lane_process_has_ended();
        return say(&format!(
            "the lane process cannot run as another user: {error}; workers make their own \
             signatures"
        ));
    }
    let mut is_first = true;
    loop {
        let own = std::process::id();
        let child = clone(c_long::from(libc::SIGCHLD));
        if child == 0 {
            close(lifeline.as_raw_fd());
            let served = catch_unwind(AssertUnwindSafe(|| run(generation, own)));
            exit(if served.is_ok() { USELESS } else { 1 });
        }
        if child < 0 && !is_first {
            // The system allows no further process for now.
            if wait_for(lifeline, None, Some(PAUSE)).is_some() {
                return;
            }
            continue;
        }
        if child < 0 {
            generation.lane_process_has_ended();
            return say("the system allows no lane process; workers make their own signatures");
        }
        let Some(ended) = process_descriptor(child) else {
            kill(child);
            wait(child);
            generation.lane_process_has_ended();
            return say("the lane process cannot be watched (pidfd_open fails: Linux before 5.3, \
                        or a seccomp filter); workers make their own signatures");
        };
        is_first = false;
        // What only this process can say of the other one's end has to be said soon.
        let soon = wait_for(lifeline, Some(&ended), Some(PAUSE));
        let over = soon.or_else(|| {
            stop_speaking(generation);
            wait_for(lifeline, Some(&ended), None)
        });
        if over == Some(End::OfWorkers) {
            // It ends with this process.
            return;
        }
        let status = wait(child);
        drop(ended);
        generation.lane_process_has_ended();
        if status.and_then(|status| status.signal()) == Some(libc::SIGSYS) {
            return say(
                "a filter of system calls (SystemCallFilter=) ends the lane process, which \
                        needs @process and @resources; workers make their own signatures",
            );
        }
        stop_speaking(generation);
        let is_useless = status.and_then(|status| status.code()) == Some(USELESS);
        let pause = if is_useless { PAUSE_OF_USELESS } else { PAUSE };
        if (is_useless || soon.is_some()) && wait_for(lifeline, None, Some(pause)).is_some() {
            return;
        }
    }
}

/// The lane process, for as long as its parent lives; returns if it is of no use.
fn run(generation: &'static WorkerGeneration, parent: u32) {
    process::begin_child();
    choosing::begin_lane_process();
    process::counts_by_itself();
    // Error: there is none for such a number.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().is_none_or(|now| now.as_raw_pid().cast_unsigned() != parent) {
        return;
    }
    name(LANE_PROCESS);
    let Some(cpus) = &config().lane_cpus else { return };
    match pin(cpus.cpus()) {
        Ok(true) => {}
        Ok(false) => say(&format!("the lane process may run on some of CPUs {cpus} only")),
        Err(error) => {
            return say(&format!(
                "the lane process may not run on CPUs {cpus}: {error}; workers make their own \
                 signatures"
            ));
        }
    }
    match Member::of_lane_process(generation) {
        Some(member) => {
            stop_speaking(generation);
            serve(member);
        }
        None => say("the lane process finds no place; workers make their own signatures"),
    }
}

/// Gives up what belongs to the program whose copy this process is: its signals, its terminal, its
/// descriptors but for `kept` and standard error, and its name.
fn become_other(called: &CStr, kept: Vec<c_int>) {
    // Error: it leads a session of its own already.
    let _ = setsid();
    signals::ignore_requests();
    close_all_but(kept);
    title();
    name(called);
}

fn close_all_but(mut kept: Vec<c_int>) {
    (0..2).filter(|standard| !kept.contains(standard)).for_each(put_nothing_at);
    kept.sort_unstable();
    let mut first = 3;
    for kept in kept.into_iter().filter(|kept| *kept >= 3) {
        close_range(first, kept - 1);
        first = kept + 1;
    }
    close_range(first, c_int::MAX);
}

/// Gives standard error up, which may be a pipe whose reader waits for the end of all that write.
fn stop_speaking(generation: &WorkerGeneration) {
    if !generation.descriptors().any(|descriptor| descriptor == libc::STDERR_FILENO) {
        put_nothing_at(libc::STDERR_FILENO);
    }
}

/// Puts the null device in the place of a descriptor, or leaves that where there is none.
fn put_nothing_at(descriptor: c_int) {
    // SAFETY: a C string.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if null >= 0 && null != descriptor {
        // SAFETY: descriptors.
        unsafe { libc::dup2(null, descriptor) };
        close(null);
    }
}

fn close_range(first: c_int, last: c_int) {
    if first > last {
        return;
    }
    // SAFETY: numbers.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0;
    if failed {
        // Linux before 5.9, or a filter of system calls. The limit may be a thousand million.
        let open = open_descriptors().unwrap_or_else(|_| (0..=DESCRIPTORS_TRIED).collect());
        open.into_iter().filter(|open| (first..=last).contains(open)).for_each(close);
    }
}

/// The descriptors of this process, and that by which it looked at them.
fn open_descriptors() -> io::Result<Vec<c_int>> {
    let entries = fs::read_dir("/proc/self/fd")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The highest descriptor that is closed where nothing tells which there are.
const DESCRIPTORS_TRIED: c_int = 65_535;

fn close(descriptor: c_int) {
    // SAFETY: a descriptor of this module's, or one that this process gives up.
    unsafe { libc::close(descriptor) };
}

/// Overwrites the arguments of the program, which `ps` shows: a search for the server by its
/// arguments should not find this process.
fn title() {
    let Some((begin, end)) = arguments() else { return };
    let title = b"widelane lane process";
    let bytes = end.saturating_sub(begin);
    let shown = title.len().min(bytes.saturating_sub(1));
    let arguments = ptr::with_exposed_provenance_mut::<u8>(begin);
    // SAFETY: where the kernel has put the arguments of this process, which has one thread, and
    // that does not read them.
    unsafe { ptr::write_bytes(arguments, 0, bytes) };
    // SAFETY: as above, and no longer than that.
    unsafe { ptr::copy_nonoverlapping(title.as_ptr(), arguments, shown) };
}

/// Where the arguments of this process are.
fn arguments() -> Option<(usize, usize)> {
    // By `self`: `/proc` may be of another namespace, which numbers processes otherwise.
    let (_, fields) = process::stat("self")?;
    // These are fields 48 and 49.
    let mut fields = fields.split_whitespace().skip(45);
    let mut next = || fields.next()?.parse().ok().filter(|address| *address > 0);
    Some((next()?, next()?))
}

fn name(name: &CStr) {
    // Error: a filter of system calls; then it keeps the server's name.
    let _ = set_name(name);
}

/// Keeps this process on some CPUs; whether the system allows it all of them.
fn pin(cpus: &[usize]) -> io::Result<bool> {
    let words = cpus.last().map_or(1, |last| last / 64 + 1);
    let mut set = vec![0_u64; words];
    for cpu in cpus {
        set[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: a set of CPUs of this size.
    if unsafe { libc::sched_setaffinity(0, mem::size_of_val(&*set), set.as_ptr().cast()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(allowed_cpus()?.starts_with(&set))
}

/// The set of CPUs that this process may run on.
fn allowed_cpus() -> io::Result<[u64; CPU_WORDS]> {
    let mut set = [0; CPU_WORDS];
    // SAFETY: room for a set of CPUs of this size.
    match unsafe { libc::sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr().cast()) } {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Words of a set of as many CPUs as Linux can have.
const CPU_WORDS: usize = 8_192 / 64;

/// Whether this process has no thread but the calling one. Once it had another, nobody looks again:
/// a program may make many.
pub(crate) fn is_alone() -> bool {
    static SEVERAL_IN: AtomicU64 = AtomicU64::new(0);
    if SEVERAL_IN.load(Ordering::Relaxed) == process::identity() {
        return false;
    }
    let is_alone = threads().is_ok_and(|threads| threads == 1);
    if !is_alone {
        SEVERAL_IN.store(process::identity(), Ordering::Relaxed);
    }
    is_alone
}

/// How many threads this process has.
fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// A copy of this process: 0 in the copy, −1 if there is none. The handlers for forks are not run:
/// they are for children in which the program goes on.
fn clone(exit_signal: c_long) -> c_int {
    // SAFETY: as `fork`, from a process with one thread: the copy's locks are free.
    let child = unsafe { libc::syscall(libc::SYS_clone, exit_signal, 0, 0, 0, 0) };
    c_int::try_from(child).unwrap_or(-1)
}

/// Waits for the end of a child, whatever signal it ends with.
fn wait(child: c_int) -> Option<ExitStatus> {
    let mut status = 0;
    // SAFETY: a child of this process, and a place to write to.
    let waited = unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
    (waited == child).then(|| ExitStatus::from_raw(status))
}

fn kill(child: c_int) {
    // Error: it has ended.
    let _ = Pid::from_raw(child).map(|child| kill_process(child, Signal::KILL));
}

/// A descriptor that becomes readable when a child has ended.
fn process_descriptor(child: c_int) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(child)?, PidfdFlags::empty()).ok()
}

/// What the supervisor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All other processes have closed the lifeline.
    OfWorkers,
    OfLaneProcess,
}

/// Waits until all other processes have closed `lifeline`, or `ended` is readable; nothing if the
/// time ends before. What others write to the lifeline does not matter.
fn wait_for(lifeline: &OwnedFd, ended: Option<&OwnedFd>, timeout: Option<Duration>) -> Option<End> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut asked = [
        PollFd::new(lifeline, PollFlags::empty()),
        PollFd::new(ended.unwrap_or(lifeline), ended.map_or(PollFlags::empty(), |_| PollFlags::IN)),
    ];
    while poll(&mut asked, timeout.as_ref()) == Err(Errno::INTR) {}
    let is_over = |asked: &PollFd| !asked.revents().is_empty();
    match asked.each_ref().map(is_over) {
        [true, _] => Some(End::OfWorkers),
        [false, true] => Some(End::OfLaneProcess),
        [false, false] => None,
    }
}

/// Ends this process without the program's handlers.
fn exit(status: c_int) -> ! {
    // SAFETY: a number.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_a_worker_writes_does_not_end_the_lane_process() {
        let (lifeline, held) = pipe_with(PipeFlags::CLOEXEC).expect("descriptors");
        assert_eq!(rustix::io::write(&held, &[1]), Ok(1));
        assert_eq!(wait_for(&lifeline, None, Some(Duration::ZERO)), None);
        drop(held);
        assert_eq!(wait_for(&lifeline, None, None), Some(End::OfWorkers));
    }

    #[test]
    fn it_is_known_whether_all_cpus_are_allowed() {
        let pinned = || {
            let allowed = allowed_cpus().expect("a set");
            let word = allowed.iter().position(|word| *word != 0).expect("it runs on some CPU");
            let first = 64 * word + allowed[word].trailing_zeros() as usize;
            // No machine of the tests has that many.
            let last = 64 * CPU_WORDS - 1;
            (pin(&[first, last]).ok(), pin(&[first]).ok(), pin(&[last]).is_err())
        };
        let pinned = std::thread::spawn(pinned).join().expect("a thread");
        assert_eq!(pinned, (Some(false), Some(true), true));
    }
}
