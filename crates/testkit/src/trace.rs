//! Trace equality: whether two secrets take the same way through the code and touch the same
//! memory.
#![allow(unsafe_code, reason = "fork, and a handler of a signal for every instruction")]

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use nix::libc::{self, c_int, c_void};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe};

use crate::touch::{Registers, Touches};

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
/// The child sets the CPU's trap flag, so that the kernel sends it a signal behind every
/// instruction; its handler takes the trace. A tracer in another process (ptrace) would see the
/// same, but takes two switches of processes and three system calls for each instruction.
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
        ForkResult::Parent { child } => Tracing { child, told },
    }
}

/// Takes the trace of this process, which is a child for nothing else.
fn take<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(&mut T)) -> Trace {
    let steps = Box::into_raw(Box::new(Steps::new()));
    STEPS.store(steps, Ordering::Relaxed);
    handle_traps();
    let mut prepared = prepare();
    // Its handler sets the trap flag.
    raise(Signal::SIGTRAP).expect("a signal to this process");
    work(black_box(&mut prepared));
    // What the handler sees next ends the trace.
    DONE.store(true, Ordering::SeqCst);
    // SAFETY: made above, and the handler leaves it alone from now on.
    unsafe { (*steps).trace }
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

/// The trace that this process takes of itself.
static STEPS: AtomicPtr<Steps> = AtomicPtr::new(ptr::null_mut());

/// Whether it is taken.
static DONE: AtomicBool = AtomicBool::new(false);

/// Stack of the handler, whose frame has all registers of AVX-512 and may have those of AMX.
const HANDLER_STACK_BYTES: usize = 256 << 10;

/// Has [`step`] called for every trap, on a stack of its own: nothing may lie below the stack of
/// what is traced that is not there without a trace.
fn handle_traps() {
    let memory = Box::leak(vec![0_u8; HANDLER_STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: HANDLER_STACK_BYTES,
    };
    // SAFETY: memory that nothing else uses, for as long as the process lives.
    assert_eq!(unsafe { libc::sigaltstack(&stack, ptr::null_mut()) }, 0);
    // SAFETY: every pattern of bits is valid, and zeros are no flag and no signal.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = step as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler takes what SA_SIGINFO hands it, and interrupts only what is traced.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) }, 0);
}

/// The flag in EFLAGS by which the CPU traps behind the next instruction.
const TRAP_FLAG: libc::greg_t = 1 << 8;

/// Handles a trap: takes a step, and has the next instruction trap too.
extern "C" fn step(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what SA_SIGINFO hands over.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let flags = &mut registers[libc::REG_EFL as usize];
    if DONE.load(Ordering::SeqCst) {
        *flags &= !TRAP_FLAG;
        return;
    }
    *flags |= TRAP_FLAG;
    // SAFETY: set before the first trap. What is traced does not use it.
    let steps = unsafe { &mut *STEPS.load(Ordering::Relaxed) };
    steps.take(registers);
}

/// A trace, and what it takes to go on with it.
struct Steps {
    trace: Trace,
    /// The registers before the instruction that has trapped.
    before: Option<Registers>,
    decoded: Decoded,
}

impl Steps {
    fn new() -> Self {
        let trace = Trace { instructions: 0, hash: FNV_BASIS, touched: FNV_BASIS };
        Steps { trace, before: None, decoded: Decoded::new() }
    }

    /// Adds the instruction that led to `registers`.
    fn take(&mut self, registers: &Registers) {
        if let Some(before) = self.before.replace(*registers) {
            let touches = self.decoded.at(address_of(&before));
            self.trace.touched = touches.addresses(&before).fold(self.trace.touched, fold);
            self.trace.instructions += 1;
            self.trace.hash = fold(self.trace.hash, address_of(registers));
        }
    }
}

/// The address of the next instruction.
fn address_of(registers: &Registers) -> u64 {
    registers[libc::REG_RIP as usize] as u64
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fold(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x100_0000_01b3)
}

/// Instructions that were decoded lately. It makes no use of the heap once it is made: what is
/// traced may be about to.
struct Decoded(Box<[Touches]>);

impl Decoded {
    const PLACES: usize = 1 << 14;

    /// The decoder builds its tables now, before anything is traced.
    fn new() -> Self {
        Decoded(vec![Touches::decode(&[0x90], 0); Decoded::PLACES].into())
    }

    fn at(&mut self, address: u64) -> &Touches {
        let place = &mut self.0[address as usize % Decoded::PLACES];
        if place.address() != address {
            *place = decode(address);
        }
        place
    }
}

/// Decodes an instruction of this process that has been executed. The page behind it is read only
/// if the instruction goes on there: it may be missing.
fn decode(address: u64) -> Touches {
    let in_page = PAGE_BYTES - address as usize % PAGE_BYTES;
    let bytes = |length: usize| {
        // SAFETY: the instruction, which the CPU has read, and what of its page lies behind it.
        unsafe { slice::from_raw_parts(address as *const u8, length) }
    };
    let touches = Touches::decode(bytes(in_page.min(INSTRUCTION_BYTES_MAX)), address);
    if touches.is_whole() {
        touches
    } else {
        Touches::decode(bytes(INSTRUCTION_BYTES_MAX), address)
    }
}

const PAGE_BYTES: usize = 4096;
const INSTRUCTION_BYTES_MAX: usize = 15;
