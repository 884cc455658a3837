//! What belongs to one process: queues, helper threads, counters. Made when first used, also after
//! a fork.
#![allow(unsafe_code, reason = "a pointer that a fork makes stale")]

use std::io;
use std::os::unix;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock};

use widelane_bridge::counters::{Counters, OperationKind};
use widelane_vault::fork_generation;

use crate::batching::engine::qat::Devices;
use crate::batching::queues::Queues;
use crate::batching::{combining, event_loop, kinds};
use crate::choosing::{self, Chooser};
use crate::config::config;
use crate::counters::{self, Pages};
use crate::entry::entry;
use crate::kdf::kept;
use crate::rsa::loaded;
use crate::{kem, pool, rsa, stack};

/// What belongs to one process.
///
/// A child gets a new one at its first use: the queues it inherits may be locked by threads that it
/// does not have, and hold jobs that its parent executes. The old one is left alone, not freed.
pub(crate) struct Process {
    /// That of the process which made it.
    identity: u64,
    counters: OnceLock<Pages>,
    /// How often it counted in its parent's file, and how many handshakes.
    counted_by_parent: AtomicU32,
    handshakes_by_parent: AtomicU32,
    /// By kind. On the heap, for they are larger than the stack of an ASYNC job has room for.
    queues: Box<[Queues]>,
    devices: OnceLock<Option<Devices>>,
    /// What chooses among policies.
    pub(crate) chooser: Mutex<Chooser>,
}

/// That of the calling process.
pub(crate) fn current() -> &'static Process {
    // SAFETY: null, or made below and never freed.
    if let Some(process) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
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

/// Makes sure that children do not use what belongs to their parent.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: handlers that unwind nowhere; this object is never unloaded.
        unsafe { libc::pthread_atfork(Some(prepare), None, Some(forget)) };
    });
}

/// Whether there is no such process. `/proc` may hide those of other users (`hidepid`).
pub(crate) fn has_ended(pid: u32) -> bool {
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return true };
    // SAFETY: signal 0 reaches no process; the kernel only looks for it.
    let missing = unsafe { libc::kill(pid, 0) } != 0;
    missing && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Makes what the calling thread keeps: its variables, its large stack, and in a child, which is a
/// server's worker, its counters.
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
    if forks() > 0 {
        current().counters();
    }
}

/// The program makes a configuration of TLS, and may fork processes that serve by it.
pub(crate) fn configures() {
    combining::configures();
    IS_CONFIGURED.store(true, Ordering::Relaxed);
}

/// The forks that made this process since the provider was first loaded.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// This process is a new one: what belongs to its parent is not its own.
pub(crate) fn begin_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    combining::after_fork();
    choosing::after_fork();
    let parent = CURRENT.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a process never freed.
    let pages = unsafe { parent.as_ref() }.and_then(|parent| parent.counters.get());
    if let Some(pages) = pages.filter(|pages| pages.is_file())
        && IS_CONFIGURED.load(Ordering::Relaxed)
    {
        PARENT_PAGES.store(ptr::from_ref(pages).cast_mut(), Ordering::Release);
    }
}

/// From its beginning this process counts in a file of its own.
pub(crate) fn counts_by_itself() {
    PARENT_PAGES.store(ptr::null_mut(), Ordering::Release);
}

/// A provider was loaded.
pub(crate) fn instance_begins() {
    INSTANCES.fetch_add(1, Ordering::AcqRel);
}

/// A number that tells a process from its parent, also where both have the same PID.
pub(crate) fn identity() -> u64 {
    fork_generation().unwrap_or_else(|| std::process::id().into())
}

/// Whether `process` is that of the calling process, and not of a parent of it.
pub(crate) fn is_current(process: *const Process) -> bool {
    ptr::eq(process, current()) && current().is_own()
}

/// A provider was unloaded; the last one ends the helper threads. A child has none to end.
pub(crate) fn instance_ends() {
    if INSTANCES.fetch_sub(1, Ordering::AcqRel) > 1 {
        return;
    }
    // SAFETY: null, or a process never freed.
    if let Some(process) = unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() }
        && process.is_own()
    {
        process.queues.iter().for_each(Queues::shut);
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
            chooser: Mutex::new(Chooser::new()),
        }
    }

    /// Whether this is the calling process, and not a parent of it. A child that was made without
    /// the handlers of `pthread_atfork` (by `_Fork` or `clone`) still has its parent's.
    pub(crate) fn is_own(&self) -> bool {
        self.identity == identity()
    }

    /// The counters of the calling thread.
    ///
    /// Servers that fork a process for each connection have as many processes as connections, too
    /// many for a file each: what a new process counts at first goes into its parent's file. Not
    /// into that of a parent that has ended, such as one that started a daemon: it is not read.
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

    /// The same, for a caller that counts a handshake.
    pub(crate) fn counters_of_handshake(&'static self) -> &'static Counters {
        let counters = self.counters();
        self.handshakes_by_parent.fetch_add(1, Ordering::Relaxed);
        counters
    }

    /// The counters of all threads.
    pub(crate) fn pages(&self) -> &Pages {
        let open =
            || Pages::open(rsa::batch::widest(), kinds::lanes, config().counters_dir.as_deref());
        self.counters.get_or_init(open)
    }

    /// The QAT devices that it may use, opened by the first call; nothing if there are none.
    pub(crate) fn devices(&'static self) -> Option<&'static Devices> {
        self.devices.get_or_init(Devices::open).as_ref()
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
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Whether the runtime has seen a configuration of TLS in this process or its parents.
static IS_CONFIGURED: AtomicBool = AtomicBool::new(false);
/// The counters of the parent, if it had any when it forked this process.
static PARENT_PAGES: AtomicPtr<Pages> = AtomicPtr::new(ptr::null_mut());
static INSTANCES: AtomicUsize = AtomicUsize::new(0);

#[cfg(test)]
pub(crate) mod children {
    /// Has a child of this process, which has one thread, find out whether something is so.
    pub(crate) fn assert_in_child(is_so: impl FnOnce() -> bool) {
        // SAFETY: the child makes a few system calls and ends.
        assert_in(unsafe { libc::fork() }, is_so);
    }

    /// The same by the system call itself: no handler of `pthread_atfork` runs.
    pub(crate) fn assert_in_child_without_handlers(is_so: impl FnOnce() -> bool) {
        // SAFETY: as above.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        assert_in(libc::pid_t::try_from(child).expect("a process"), is_so);
    }

    /// `child` is what the system has returned to it, or to its parent.
    fn assert_in(child: libc::pid_t, is_so: impl FnOnce() -> bool) {
        if child == 0 {
            let status = i32::from(!is_so());
            // SAFETY: ends the child without the parent's handlers.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: a child of ours, and a place to write to.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
