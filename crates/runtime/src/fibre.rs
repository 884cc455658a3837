//! Fibres: a function that can be left in the middle and taken up again, on a stack of its own.
//!
//! OpenSSL has fibres too (its ASYNC jobs), but on 32 KiB of heap without a guard: enough for
//! libssl, not for a server's callbacks, which run in the middle of a handshake, and an overflow
//! corrupts the heap in silence. These have 256 KiB, of which only the touched pages exist, and a
//! guard page below.
//!
//! A fibre is resumed only by the thread that started it: compiled code may keep addresses of
//! thread-local variables across a pause.
#![allow(unsafe_code, reason = "stack switching: twelve instructions of assembly")]

use core::arch::naked_asm;
use core::cell::Cell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr;

use widelane_reserve::Stack;

const STACK_BYTES: usize = 256 * 1024;

/// Room that a new stack leaves to libssl, which fails handshakes where it finds none: more than
/// the 1 MiB that malloc asks for where it cannot extend its heap.
const SPARE_BYTES: usize = 1280 * 1024;

/// Maps a stack for a fibre, if memory allows that and some more.
pub(crate) fn stack() -> Option<Stack> {
    Stack::map(STACK_BYTES, SPARE_BYTES)
}

/// Whether a stack made by [`stack`] has this address.
pub(crate) fn has_address(stack: &Stack, address: usize) -> bool {
    let top = stack.top().addr();
    (top - STACK_BYTES..top).contains(&address)
}

/// Where the stack that is in use ends, or close to it.
pub(crate) fn stack_pointer() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here).addr()
}

/// Whether the caller is a signal handler on a stack of its own (`sigaltstack`).
pub(crate) fn is_on_signal_stack() -> bool {
    let mut stack = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: reads this thread's settings into our variable.
    let done = unsafe { libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) } == 0;
    // SAFETY: written if the call has succeeded.
    done && unsafe { stack.assume_init() }.ss_flags & libc::SS_ONSTACK != 0
}

/// The calling thread's own stack; empty if that cannot be told.
pub(crate) fn own_stack() -> Range<usize> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: no precondition.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: writes the attributes of this thread if it succeeds.
    if unsafe { libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) } != 0 {
        return 0..0;
    }
    // SAFETY: written above.
    let mut attributes = unsafe { attributes.assume_init() };
    let (mut lowest, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: attributes of a thread, and our variables.
    unsafe { libc::pthread_attr_getstack(&attributes, &mut lowest, &mut bytes) };
    // SAFETY: made by `pthread_getattr_np`, and not used any more.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    lowest.addr()..lowest.addr() + bytes
}

/// Where a suspended flow of control continues: the top of its saved registers.
///
/// It may be switched to once, which nobody checks. The switch writes where it came from into
/// another place.
#[derive(Clone, Copy)]
pub(crate) struct Place(*mut u8);

impl Place {
    /// No place at all; must be filled by a switch before it is switched to.
    pub(crate) const NONE: Self = Self(ptr::null_mut());

    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// The beginning of a fibre on `stack` that will call `body(argument)`; `body` must never
    /// return.
    pub(crate) fn begin(
        stack: &Stack,
        body: extern "C" fn(*mut c_void) -> !,
        argument: *mut c_void,
    ) -> Self {
        // What `switch` pops: r15, r14, r13, r12, rbx, rbp, the return address; then the 16 bytes
        // that make the frame of `begin` end the chain of callers.
        let frame: [usize; 9] =
            [0, 0, body as usize, argument as usize, 0, 0, enter as *const () as usize, 0, 0];
        let place = stack.top().wrapping_sub(size_of_val(&frame));
        // SAFETY: nine words just below the stack's top, which is page-aligned; nobody else uses
        // it.
        unsafe { place.cast::<[usize; 9]>().write(frame) };
        Self(place)
    }
}

/// Continues at `to`, leaving in `from` the place where this call will return.
///
/// # Safety
///
/// `to` is a place made by [`Place::begin`] or filled by a switch of this thread, whose stack still
/// exists and which has not been switched to since.
pub(crate) unsafe fn switch(from: &Cell<Place>, to: Place) {
    // SAFETY: as the caller promises; `from` outlives the call and `Place` is one pointer.
    unsafe { switch_raw(from.as_ptr().cast(), to.0) }
}

/// Saves the registers that a call must preserve, swaps stacks, restores them from the other one.
///
/// The control words of SSE and x87 stay as they are: they belong to the thread.
#[unsafe(naked)]
unsafe extern "C" fn switch_raw(from: *mut *mut u8, to: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // In this order: a signal handler that runs in between finds the place filled only when the
        // thread is on the other stack.
        "mov rax, rsp",
        "mov rsp, rsi",
        "mov [rdi], rax",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// First instructions of every fibre: `switch_raw` has popped the body into r13, its argument into
/// r12.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!("mov rdi, r12", "call r13", "ud2")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pair {
        main: Cell<Place>,
        fibre: Cell<Place>,
        trace: Cell<u64>,
    }

    extern "C" fn body(argument: *mut c_void) -> ! {
        // SAFETY: the test passes its `Pair`, which outlives the fibre.
        let pair = unsafe { &*argument.cast::<Pair>() };
        let mut local = [1u64, 2, 3];
        assert_eq!(local.as_ptr() as usize % 8, 0);
        loop {
            pair.trace.set(pair.trace.get() * 10 + local[0]);
            local.rotate_left(1);
            // SAFETY: `main` was filled by the switch that brought us here.
            unsafe { switch(&pair.fibre, pair.main.get()) };
        }
    }

    #[test]
    fn keeps_locals_across_pauses() {
        let stack = stack().expect("memory for one stack");
        let pair = Pair {
            main: Cell::new(Place::NONE),
            fibre: Cell::new(Place::NONE),
            trace: Cell::new(0),
        };
        pair.fibre.set(Place::begin(&stack, body, ptr::from_ref(&pair).cast_mut().cast()));
        for _ in 0..5 {
            // SAFETY: `fibre` was made by `begin`, then filled by the fibre's own switches.
            unsafe { switch(&pair.main, pair.fibre.get()) };
        }
        assert_eq!(pair.trace.get(), 12312);
    }

    #[test]
    fn stacks_are_told_apart() {
        let (stack, own) = (stack().expect("memory for one stack"), own_stack());
        assert!(own.contains(&stack_pointer()) && !has_address(&stack, stack_pointer()));
        let top = stack.top().addr();
        assert!(has_address(&stack, top - 1) && !own.contains(&(top - 1)));
        let other = std::thread::spawn(own_stack).join().expect("a thread that asks");
        assert!(!other.is_empty() && !other.contains(&stack_pointer()));
    }

    #[test]
    fn is_aligned_for_vector_spills() {
        extern "C" fn aligned(argument: *mut c_void) -> ! {
            // SAFETY: the test passes its `Pair`, which outlives the fibre.
            let pair = unsafe { &*argument.cast::<Pair>() };
            #[repr(align(16))]
            struct Aligned([u8; 16]);
            let local = Aligned([7; 16]);
            let address = std::hint::black_box(&local).0.as_ptr() as u64;
            pair.trace.set(address % 16 + u64::from(local.0[3]));
            // SAFETY: `main` was filled by the switch that brought us here.
            unsafe { switch(&pair.fibre, pair.main.get()) };
            unreachable!()
        }
        let stack = stack().expect("memory for one stack");
        let pair = Pair {
            main: Cell::new(Place::NONE),
            fibre: Cell::new(Place::NONE),
            trace: Cell::new(1),
        };
        pair.fibre.set(Place::begin(&stack, aligned, ptr::from_ref(&pair).cast_mut().cast()));
        // SAFETY: `fibre` was made by `begin`.
        unsafe { switch(&pair.main, pair.fibre.get()) };
        assert_eq!(pair.trace.get(), 7);
    }
}
