//! What belongs to one process: queues, helper threads, counters. Made when first used, also after
//! a fork.
#![allow(unsafe_code, reason = "a pointer that a fork makes stale")]

use std::fmt::Display;
use std::fs;
use std::os::unix;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use widelane_bridge::counters::{Counters, OperationKind};
use widelane_reserve::uncancelled;
/// A number that tells a process from its parent.
pub(crate) use widelane_vault::process_number as identity;

use crate::batching::engine::qat::Devices;
use crate::batching::queues::Queues;
use crate::batching::{combining, event_loop, kinds};
use crate::choosing::{self, Chooser};
use crate::config::config;
use crate::counters::{self, Pages};
use crate::entry::entry;
use crate::kdf::kept;
use crate::rsa::loaded;
use crate::{kem, pool, rsa, stack, switch};

/// What belongs to one process.
///
/// A child gets a new one at its first use: the queues it inherits may be locked by threads that it
/// does not have, and hold jobs that its parent executes. The old one is left alone, not freed.
pub(crate) struct Process {
    /// [`identity`] of the process that made it.
    identity: u64,
    counters: OnceLock<Pages>,
    /// How often it counted in its parent's file, and how many handshakes.
    counted_by_parent: AtomicU32,
    handshakes_by_parent: AtomicU32,
    /// By kind. On the heap, for they are larger than the stack of an ASYNC job has room for.
    queues: Box<[Queues]>,
    devices: OnceLock<Option<Devices>>,
    /// Event loops that have a place among the workers, or are about to look for one.
    pub(crate) members: AtomicUsize,
    /// What chooses among policies.
    pub(crate) chooser: Mutex<Chooser>,
}

/// The [`Process`] of the calling process, made now if there is none.
pub(crate) fn current() -> &'static Process {
    if let Some(process) = known() {
        return process;
    }
    let new = Box::into_raw(Box::new(Process::new()));
    match CURRENT.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: made above, and from now on never freed.
        Ok(_) => unsafe { &*new },
        Err(earlier) => {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: not null, and never freed.
            unsafe { &*earlier }
        }
    }
}

/// The [`Process`] of the calling process, if it has been made. What a parent's is in a child, also
/// in one that was made without the handlers of `pthread_atfork` (by `_Fork` or `clone`), is left
/// to the parent.
fn known() -> Option<&'static Process> {
    // SAFETY: null, or made by `current` and never freed.
    let process = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
    if process.identity == identity() {
        return Some(process);
    }
    leave_to_parent(process);
    None
}

/// This process was forked by another one, to which belongs what is [`CURRENT`] here.
#[cold]
fn leave_to_parent(parent: &'static Process) {
    choosing::after_fork();
    let pages = parent.counters.get().filter(|pages| pages.is_file());
    if let Some(pages) = pages.filter(|_| IS_CONFIGURED.load(Ordering::Relaxed)) {
        PARENT_PAGES.store(ptr::from_ref(pages).cast_mut(), Ordering::Release);
    }
    let parent = ptr::from_ref(parent).cast_mut();
    // Error: another thread has done the same, and there may be one of this process by now.
    let _ = CURRENT.compare_exchange(parent, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
}

/// Makes sure that children do not use what belongs to their parent.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        WATCHED_FROM.store(identity(), Ordering::Relaxed);
        LAST_SEEN.store(identity(), Ordering::Relaxed);
        // SAFETY: handlers that unwind nowhere; this object is never unloaded.
        unsafe { libc::pthread_atfork(Some(prepare), None, Some(forget)) };
    });
}

/// Whether there is no such process. `/proc` may hide those of other users (`hidepid`).
pub(crate) fn has_ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// What `/proc` says of a process, which is a number or `self`: its name, which may hold anything,
/// and the fields behind it, of which the first is the third.
pub(crate) fn stat(process: impl Display) -> Option<(String, String)> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name.to_owned(), fields.to_owned()))
}

/// Makes what the calling thread keeps: its variables and its large stack; and in a server the
/// counters of its process, by which it can be seen and switched before its first handshake.
///
/// The C library makes a thread's variables when they are first used, and ends the process where it
/// finds no memory for them. A child inherits those of the thread that forked, but not the
/// counters: if memory is short at its first handshake, their room is what libssl then lacks.
pub(crate) fn begin_thread() {
    event_loop::begin_thread();
    kept::begin_thread();
    pool::begin_thread();
    kem::batch::begin_thread();
    counters::begin_thread();
    stack::on_large(|| ());
    combining::before_threads();
    let is_child = identity() != WATCHED_FROM.load(Ordering::Relaxed);
    let goes_by_former = || current().own_pages().is_none() && uncancelled(is_executed_anew);
    if is_child || IS_CONFIGURED.load(Ordering::Relaxed) && !goes_by_former() {
        current().counters();
    }
}

/// Whether this process has executed itself anew and has counters from before, as HAProxy's master
/// does when it has started its worker: that goes by them until it has its own.
fn is_executed_anew() -> bool {
    config().counters_dir.as_deref().is_some_and(counters::are_there)
}

/// The program makes a configuration of TLS, and may fork processes that serve by it.
pub(crate) fn configures() {
    combining::configures();
    let former = || config().counters_dir.as_deref().map_or(0, counters::former_off_until_ns);
    uncancelled(|| switch::begin(former));
    IS_CONFIGURED.store(true, Ordering::Relaxed);
}

/// This process is a new one, and has no thread but this: what belongs to its parent is not its
/// own.
pub(crate) fn begin_child() {
    known();
    LAST_SEEN.store(identity(), Ordering::Relaxed);
}

/// Whether threads may be made. In a child that was made without handlers, glibc may wait for ever
/// for a thread of the parent's that was being made or ending.
pub(crate) fn may_make_threads() -> bool {
    identity() == LAST_SEEN.load(Ordering::Relaxed)
}

/// From its beginning this process counts in a file of its own.
pub(crate) fn counts_by_itself() {
    PARENT_PAGES.store(ptr::null_mut(), Ordering::Release);
}

/// Whether `process` is that of the calling process, and not of a parent of it.
pub(crate) fn is_current(process: *const Process) -> bool {
    known().is_some_and(|known| ptr::eq(known, process))
}

/// A provider was loaded.
pub(crate) fn instance_begins() {
    // Others leave queues shut that have no helper.
    if INSTANCES.fetch_add(1, Ordering::AcqRel) == 0 {
        open_or_shut_queues();
    }
}

/// A provider was unloaded; the last one ends the helper threads.
pub(crate) fn instance_ends() {
    INSTANCES.fetch_sub(1, Ordering::AcqRel);
    open_or_shut_queues();
}

/// Whichever thread does it last goes by how many providers there are then.
fn open_or_shut_queues() {
    let is_open = || INSTANCES.load(Ordering::Acquire) > 0;
    if let Some(process) = known() {
        process.queues.iter().for_each(|queues| queues.open_or_shut(is_open));
    }
}

impl Process {
    fn new() -> Self {
        let queues = OperationKind::ALL.into_iter().map(Queues::new).collect();
        Process {
            identity: identity(),
            counters: OnceLock::new(),
            counted_by_parent: AtomicU32::new(0),
            handshakes_by_parent: AtomicU32::new(0),
            queues,
            devices: OnceLock::new(),
            members: AtomicUsize::new(0),
            chooser: Mutex::new(Chooser::new()),
        }
    }

    /// The counters of the calling thread.
    ///
    /// Servers that fork a process for each connection have as many processes as connections, too
    /// many for a file each: what a new process counts at first goes into its parent's file. Not
    /// into that of a parent that has ended, such as one that started a daemon: it is not read. A
    /// process that enters another root has its own from then on, since it can make none there.
    pub(crate) fn counters(&'static self) -> &'static Counters {
        match self.counters.get() {
            Some(pages) => pages.mine(),
            None => self.counters_of_parent().unwrap_or_else(|| self.pages().mine()),
        }
    }

    fn counters_of_parent(&self) -> Option<&'static Counters> {
        // SAFETY: null, or pages of a process never freed.
        let pages = unsafe { PARENT_PAGES.load(Ordering::Acquire).as_ref() }?;
        let counted = self.counted_by_parent.fetch_add(1, Ordering::Relaxed);
        let handshakes = self.handshakes_by_parent.load(Ordering::Relaxed);
        let is_young = counted < COUNTED_BY_PARENT_MAX && handshakes < HANDSHAKES_BY_PARENT_MAX;
        let pages = pages.first();
        let is_there = || pages.pid.load(Ordering::Relaxed) == unix::process::parent_id();
        (is_young && is_there()).then_some(pages)
    }

    /// The counters of the calling thread, for a caller that counts a handshake: after a few, a new
    /// process no longer counts in its parent's file.
    pub(crate) fn counters_of_handshake(&'static self) -> &'static Counters {
        let counters = self.counters();
        self.handshakes_by_parent.fetch_add(1, Ordering::Relaxed);
        counters
    }

    /// The counters of all threads, once they are this process's own.
    pub(crate) fn own_pages(&self) -> Option<&Pages> {
        self.counters.get()
    }

    /// The counters of all threads, made now if there are none.
    pub(crate) fn pages(&self) -> &Pages {
        let open = || {
            let (lanes, dir) = (rsa::batch::widest(), config().counters_dir.as_deref());
            let pages = Pages::open(lanes, kinds::lanes, dir);
            let is_refused = config().is_policy_refused.into();
            pages.first().policy_refused.store(is_refused, Ordering::Relaxed);
            // In memory of its own nobody could switch it: it goes on as its parent is switched.
            if pages.is_file() {
                switch::obey(&pages.first().off_until_ns);
            }
            pages
        };
        self.counters.get_or_init(|| uncancelled(open))
    }

    /// The QAT devices that it may use, opened by the first call; nothing if there are none.
    pub(crate) fn devices(&'static self) -> Option<&'static Devices> {
        self.devices.get_or_init(|| uncancelled(Devices::open)).as_ref()
    }

    /// Where operations of a kind meet.
    pub(crate) fn queues(&self, kind: OperationKind) -> &Queues {
        &self.queues[kind as usize]
    }
}

entry! {
    /// In the parent, right before a fork.
    fn prepare() {
        combining::before_fork();
        if IS_CONFIGURED.load(Ordering::Relaxed) {
            loaded::before_fork();
            let process = current();
            if config().counters_dir.is_some() {
                process.counters();
            }
        }
        Some(())
    }

    /// In a child, right after the fork.
    fn forget() {
        begin_child();
        Some(())
    }
}

/// How many handshakes a process counts in its parent's file before it has its own, and how often
/// it counts there at most: one handshake may do so more than sixty times.
const HANDSHAKES_BY_PARENT_MAX: u32 = 8;
const COUNTED_BY_PARENT_MAX: u32 = 1024;

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());
/// [`identity`] of the first process that had handlers of forks, and of the last one that these
/// have seen.
static WATCHED_FROM: AtomicU64 = AtomicU64::new(0);
static LAST_SEEN: AtomicU64 = AtomicU64::new(0);
/// Whether the runtime has seen a configuration of TLS in this process or its parents.
static IS_CONFIGURED: AtomicBool = AtomicBool::new(false);
/// The counters of the parent, if it had any when it forked this process.
static PARENT_PAGES: AtomicPtr<Pages> = AtomicPtr::new(ptr::null_mut());
static INSTANCES: AtomicUsize = AtomicUsize::new(0);

#[cfg(test)]
pub(crate) mod children {
    use std::ffi::{c_int, c_long};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Has a child of this process, which has one thread, find out whether something is so.
    pub(crate) fn assert_in_child(is_so: impl FnOnce() -> bool) {
        // SAFETY: the child makes a few system calls and ends.
        let child = unsafe { libc::fork() };
        assert!(tells(child, is_so));
    }

    /// Has a child find out whether something is so that the system call itself has made: no
    /// handler of `pthread_atfork` runs.
    pub(crate) fn assert_in_child_without_handlers(is_so: impl FnOnce() -> bool) {
        assert!(tells(cloned(0), is_so));
    }

    /// Has a child find out whether something is so of what its parent has made. Both have the
    /// number 1, each in a namespace of its own, where the system allows that.
    pub(crate) fn assert_in_child_of_same_number<T>(
        make: impl FnOnce() -> T,
        is_so: impl FnOnce(T) -> bool,
    ) {
        let (parent, flags) = match cloned(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) {
            -1 => (cloned(0), 0),
            parent => (parent, libc::CLONE_NEWPID),
        };
        assert!(tells(parent, || {
            let made = make();
            tells(cloned(flags), || is_so(made))
        }));
    }

    fn cloned(flags: c_int) -> libc::pid_t {
        let flags = c_long::from(flags | libc::SIGCHLD);
        // SAFETY: the child makes a few system calls and ends.
        let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        libc::pid_t::try_from(child).expect("a process")
    }

    /// What the child says; `child` is what the system has returned to it, or to its parent.
    fn tells(child: libc::pid_t, is_so: impl FnOnce() -> bool) -> bool {
        if child == 0 {
            let is_so = catch_unwind(AssertUnwindSafe(is_so)).unwrap_or(false);
            let status = i32::from(!is_so);
            // SAFETY: ends the child without the parent's handlers.
            unsafe { libc::_exit(status) };
        }
        let mut status = -1;
        // SAFETY: a child of ours, and a place to write to.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        status == 0
    }
}

#[cfg(test)]
mod tests {
    use super::children::{assert_in_child, assert_in_child_without_handlers};
    use super::*;

    #[test]
    fn a_child_has_what_belongs_to_it_and_keeps_it() {
        watch_forks();
        let parents = current();
        let is_new = || {
            let own = current();
            !is_current(parents) && is_current(own) && ptr::eq(own, current())
        };
        assert_in_child(|| is_new() && may_make_threads());
        assert_in_child_without_handlers(|| is_new() && !may_make_threads());
        assert!(is_current(parents) && may_make_threads());
    }

    #[test]
    fn a_process_keeps_what_belongs_to_it_when_the_last_provider_is_unloaded() {
        let before = current();
        assert_in_child(|| {
            let own = current();
            instance_begins();
            instance_ends();
            let is_kept = is_current(own);
            instance_begins();
            is_kept && is_current(own) && !is_current(before)
        });
    }
}
