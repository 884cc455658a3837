//! Trace equality: whether two secrets take the same way through the code and touch the same
//! memory.
#![allow(unsafe_code, reason = "fork")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::libc::user_regs_struct;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe};

use crate::touch::Touches;

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

/// A trace that is being taken.
#[derive(Debug)]
#[must_use = "it says nothing before its end"]
pub struct Tracing {
    tracer: Pid,
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
        let status = waitpid(self.tracer, None).expect("wait");
        assert!(read.is_ok(), "nothing was traced: {status:?}");
        let [instructions, hash, touched] = words.map(u64::from_ne_bytes);
        Trace { instructions, hash, touched }
    }
}

/// Begins to trace `work` on what `prepare` makes, instruction by instruction, in a grandchild of
/// this process. Several are traced at once, on all CPUs.
///
/// They all have the same addresses, so that two calls that differ in their secrets alone must give
/// equal traces if no branch and no address depends on a secret. What `work` reads must therefore
/// be made, or copied, by `prepare`: then it is at the same place in both. The function that calls
/// this must not be inlined, or its two copies have their variables apart. Costs some microseconds
/// for each instruction. Call it from a process with one thread.
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
                let Trace { instructions, hash, touched } = take(prepare, work);
                let words = [instructions, hash, touched].map(u64::to_ne_bytes);
                File::from(telling).write_all(words.as_flattened()).expect("somebody listens");
            }));
            std::process::exit(i32::from(taken.is_err()))
        }
        ForkResult::Parent { child } => Tracing { tracer: child, told },
    }
}

/// Takes a trace of a child.
fn take<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(&mut T)) -> Trace {
    let mut decoded = Decoded::new();
    // SAFETY: this is a child that a process with one thread forked; its child only runs the
    // closures.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            ptrace::traceme().expect("a child may be traced");
            let mut prepared = prepare();
            raise(Signal::SIGSTOP).expect("stop before");
            work(&mut prepared);
            raise(Signal::SIGSTOP).expect("stop after");
            std::process::exit(0)
        }
        ForkResult::Parent { child } => follow(child, &mut decoded),
    }
}

/// Has this process and its children take turns on one of its CPUs: to wake another one for each
/// step takes many times the step.
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

/// Steps `child` from its first SIGSTOP to its second and lets it end.
fn follow(child: Pid, decoded: &mut Decoded) -> Trace {
    let mut trace = Trace { instructions: 0, hash: FNV_BASIS, touched: FNV_BASIS };
    expect_stop(child, Signal::SIGSTOP);
    let mut before = registers(child);
    loop {
        ptrace::step(child, None).expect("step");
        match waitpid(child, None).expect("wait") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let touches = decoded.at(before.rip, || code(child, before.rip));
                trace.touched = touches.addresses(&before).fold(trace.touched, fold);
                before = registers(child);
                trace.instructions += 1;
                trace.hash = fold(trace.hash, before.rip);
            }
            WaitStatus::Stopped(_, Signal::SIGSTOP) => break,
            status => panic!("the traced child failed: {status:?}"),
        }
    }
    ptrace::cont(child, None).expect("continue");
    match waitpid(child, None).expect("wait") {
        WaitStatus::Exited(_, 0) => trace,
        status => panic!("the traced child failed: {status:?}"),
    }
}

/// Instructions that were decoded lately. It makes no use of the heap, which the next child
/// inherits and must find as this one did.
struct Decoded([Touches; Decoded::PLACES]);

impl Decoded {
    const PLACES: usize = 1024;

    /// The decoder builds its tables now, before there is a child.
    fn new() -> Self {
        Decoded([Touches::decode(&[0x90; 16], 0); Decoded::PLACES])
    }

    fn at(&mut self, address: u64, code: impl FnOnce() -> [u8; 16]) -> &Touches {
        let place = &mut self.0[address as usize % Decoded::PLACES];
        if place.address() != address {
            *place = Touches::decode(&code(), address);
        }
        place
    }
}

fn registers(child: Pid) -> user_regs_struct {
    ptrace::getregs(child).expect("the registers of a stopped child")
}

/// The bytes of the instruction at `address`, and what follows.
fn code(child: Pid, address: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        // The page behind the last instruction of all may be missing.
        if let Ok(read) = ptrace::read(child, (address + 8 * index as u64) as ptrace::AddressType) {
            word.copy_from_slice(&read.to_ne_bytes());
        }
    }
    bytes
}

fn expect_stop(child: Pid, signal: Signal) {
    match waitpid(child, None).expect("wait") {
        WaitStatus::Stopped(_, stopped) if stopped == signal => {}
        status => panic!("the traced child failed: {status:?}"),
    }
}
