//! Trace equality: whether two secrets take the same way through the code.
#![allow(unsafe_code, reason = "fork")]

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// The way that code took: how many instructions, and a hash of their addresses in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Instructions executed.
    pub instructions: u64,
    /// FNV-1a over the instruction pointers.
    pub hash: u64,
}

/// Traces `work` on what `prepare` makes, instruction by instruction, in a child process.
///
/// Children of one parent have the same addresses, so that two calls that differ in their secrets
/// alone must give equal traces if no branch depends on a secret. Costs some microseconds for each
/// instruction. Call it from a process with one thread.
///
/// # Panics
/// When the child fails, or may not be traced.
pub fn trace<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(&mut T)) -> Trace {
    stay_on_this_cpu();
    // SAFETY: the process has one thread, as the caller promises; the child only runs the closures.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            ptrace::traceme().expect("a child may be traced");
            let mut prepared = prepare();
            raise(Signal::SIGSTOP).expect("stop before");
            work(&mut prepared);
            raise(Signal::SIGSTOP).expect("stop after");
            std::process::exit(0)
        }
        ForkResult::Parent { child } => follow(child),
    }
}

/// Has this process and its children take turns on one CPU: to wake another one for each step takes
/// many times the step.
fn stay_on_this_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(sched_getcpu().expect("a CPU that runs us")).expect("a CPU that a set can hold");
    sched_setaffinity(Pid::from_raw(0), &cpus).expect("a process may stay where it is");
}

/// Steps `child` from its first SIGSTOP to its second and lets it end.
fn follow(child: Pid) -> Trace {
    let mut trace = Trace { instructions: 0, hash: 0xcbf2_9ce4_8422_2325 };
    expect_stop(child, Signal::SIGSTOP);
    loop {
        ptrace::step(child, None).expect("step");
        match waitpid(child, None).expect("wait") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let registers = ptrace::getregs(child).expect("the registers of a stopped child");
                trace.instructions += 1;
                trace.hash = (trace.hash ^ registers.rip).wrapping_mul(0x100_0000_01b3);
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

fn expect_stop(child: Pid, signal: Signal) {
    match waitpid(child, None).expect("wait") {
        WaitStatus::Stopped(_, stopped) if stopped == signal => {}
        status => panic!("the traced child failed: {status:?}"),
    }
}
