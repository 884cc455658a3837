//! The same by the CPU's trap flag: the kernel sends a signal behind every instruction.
#![allow(unsafe_code, reason = "a handler of a signal for every instruction")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use nix::libc;
use nix::sys::signal::{Signal, raise};

use super::{Trace, fold};

/// Calls `function`, counts its instructions, and hashes their addresses. A string instruction
/// counts once, however often it is repeated.
pub(super) fn step(function: extern "C" fn(*mut c_void), argument: *mut c_void) -> Trace {
    let steps = Box::into_raw(Box::new(Steps {
        trace: Trace::EMPTY,
        function: (function as *const ()).addr() as u64,
        last: 0,
        caller: None,
    }));
    STEPS.store(steps, Ordering::SeqCst);
    handle_traps();
    // Its handler sets the trap flag.
    raise(Signal::SIGTRAP).expect("a signal to this thread");
    function(argument);
    // SAFETY: made above, and the handler has cleared the flag.
    unsafe { (*steps).trace }
}

static STEPS: AtomicPtr<Steps> = AtomicPtr::new(ptr::null_mut());

struct Steps {
    trace: Trace,
    function: u64,
    last: u64,
    /// The stack pointer at the function's first instruction.
    caller: Option<u64>,
}

impl Steps {
    /// Takes the instruction at `address`, which is executed next. Returns whether to go on.
    fn take(&mut self, address: u64, stack: u64) -> bool {
        if address == self.function && self.caller.is_none() {
            self.caller = Some(stack);
        }
        let Some(caller) = self.caller else { return true };
        if stack > caller {
            return false;
        }
        if address != self.last {
            self.trace.instructions += 1;
            self.trace.hash = fold(self.trace.hash, address);
        }
        self.last = address;
        true
    }
}

fn handle_traps() {
    // SAFETY: every pattern of bits is valid, and zeros are no flag and no signal.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = (handle as *const ()).addr();
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler takes what SA_SIGINFO hands it.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) }, 0);
}

extern "C" fn handle(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    const TRAP_FLAG: libc::greg_t = 1 << 8;
    // SAFETY: what SA_SIGINFO hands over.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    // SAFETY: set before the first trap, and used by nothing else until the last.
    let steps = unsafe { &mut *STEPS.load(Ordering::SeqCst) };
    let [address, stack] =
        [libc::REG_RIP, libc::REG_RSP].map(|number| registers[number as usize] as u64);
    let flags = &mut registers[libc::REG_EFL as usize];
    if steps.take(address, stack) {
        *flags |= TRAP_FLAG;
    } else {
        *flags &= !TRAP_FLAG;
    }
}
