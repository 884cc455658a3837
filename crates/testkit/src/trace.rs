//! Trace equality: whether two secrets take the same way through the code and touch the same
//! memory.
#![allow(unsafe_code, reason = "fork")]

mod follow;
mod rewrite;
#[cfg(test)]
mod stepped;
mod touch;

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe};

/// The way that code took: how many instructions, and hashes of their addresses and of those of the
/// memory that they touched, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Instructions executed.
    pub instructions: u64,
    /// FNV-1a over the instruction pointers.
    pub hash: u64,
    /// FNV-1a over the addresses of their operands in memory.
    pub touched: u64,
}

impl Trace {
    const EMPTY: Trace = Trace { instructions: 0, hash: FNV_BASIS, touched: FNV_BASIS };
}

/// A trace that is being taken.
#[derive(Debug)]
#[must_use = "it says nothing before its end"]
pub struct Tracing {
    child: Pid,
    told: OwnedFd,
}

impl Tracing {
    /// Waits for the trace.
    ///
    /// # Panics
    /// When the code that is traced panics, or may not be traced.
    pub fn end(self) -> Trace {
        let mut words = [[0; 8]; 3];
        let read = File::from(self.told).read_exact(words.as_flattened_mut());
        let status = waitpid(self.child, None).expect("wait");
        assert!(read.is_ok(), "nothing was traced: {status:?}");
        let [instructions, hash, touched] = words.map(u64::from_ne_bytes);
        Trace { instructions, hash, touched }
    }
}

/// Begins to trace `work` on what `prepare` makes, instruction by instruction, in a child of this
/// process. Several are traced at once, on all CPUs.
///
/// They all have the same addresses, so that two calls that differ in their secrets alone must give
/// equal traces if no branch and no address depends on a secret. What `work` reads must therefore
/// be made, or copied, by `prepare`: then it is at the same place in both. The function that calls
/// this must not be inlined, or its two copies have their variables apart. Call it
/// from a process with one thread.
///
/// # Panics
/// When there can be no further process.
pub fn trace<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(&mut T)) -> Tracing {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let (told, telling) = pipe().expect("a pipe");
    // SAFETY: the process has one thread, as the caller promises; the child only takes the trace.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            // A panic must not go on in the caller's code.
            let taken = catch_unwind(AssertUnwindSafe(|| {
                stay_on_one_cpu(turn);
                let mut prepared = prepare();
                let Trace { instructions, hash, touched } =
                    follow::follow(|| work(black_box(&mut prepared)));
                let words = [instructions, hash, touched].map(u64::to_ne_bytes);
                File::from(telling).write_all(words.as_flattened()).expect("somebody listens");
            }));
            std::process::exit(i32::from(taken.is_err()))
        }
        ForkResult::Parent { child } => Tracing { child, told },
    }
}

/// Has this process stay on one of its CPUs, so that several traces share them evenly.
fn stay_on_one_cpu(turn: usize) {
    let ours = sched_getaffinity(Pid::from_raw(0)).expect("the CPUs that we may run on");
    let cpus: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| ours.is_set(*cpu).unwrap_or(false)).collect();
    let mut one = CpuSet::new();
    one.set(cpus[turn % cpus.len()]).expect("a CPU that a set can hold");
    sched_setaffinity(Pid::from_raw(0), &one).expect("a process may stay on one of its CPUs");
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fold(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x100_0000_01b3)
}
