//! Sites that choose between a wide and a narrow side, and always take the narrow one.
//!
//! Their code is long: none of it is inlined, so that it exists once.
#![allow(unsafe_code, reason = "the branches must reach the CPU as written")]

use std::arch::asm;

/// How a site chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// A branch whose fall-through is the wide side: what `if wide { … } else { … }` becomes. A
    /// predictor that does not know the branch goes on into the wide side.
    Branch,
    /// A call through a pointer, set once.
    Pointer,
    /// The branches of [`Dispatch::Branch`] with nothing wide behind them: the control.
    Narrow,
}

impl Dispatch {
    /// All of them.
    pub const ALL: [Dispatch; 3] = [Dispatch::Branch, Dispatch::Pointer, Dispatch::Narrow];

    /// Its name in recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Dispatch::Branch => "branch",
            Dispatch::Pointer => "pointer",
            Dispatch::Narrow => "narrow",
        }
    }

    /// Visits every site once, after other branches have made the predictor forget them.
    pub(super) fn pass(self) {
        forget();
        match self {
            Dispatch::Branch => branches(),
            Dispatch::Pointer => pointers(),
            Dispatch::Narrow => narrow(),
        }
    }
}

/// Sites of a pass.
pub const SITES: u64 = 4096;

#[inline(never)]
fn branches() {
    // SAFETY: the branch at every site is taken, so the wide instructions are never executed; the
    // code touches no memory and no stack.
    unsafe {
        asm!(
            ".rept 4096",
            "test {wide:e}, {wide:e}",
            "jz 3f",
            "vfmadd213pd zmm0, zmm1, zmm2",
            "vfmadd213pd zmm3, zmm1, zmm2",
            "3:",
            ".endr",
            wide = in(reg) 0,
            out("xmm0") _,
            out("xmm3") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
fn narrow() {
    // SAFETY: tests a register and jumps within the block; it touches no memory and no stack.
    unsafe {
        asm!(
            ".rept 4096",
            "test {wide:e}, {wide:e}",
            "jz 3f",
            "imul {spare}, {spare}",
            "imul {spare}, {spare}",
            "3:",
            ".endr",
            wide = in(reg) 0,
            spare = inout(reg) 3u64 => _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
fn pointers() {
    // SAFETY: jumps to the return address that each site has put into a register, by way of one
    // indirect jump; it touches no memory and no stack.
    unsafe {
        asm!(
            "lea {narrow}, [rip + 4f]",
            ".rept 4096",
            "lea {back}, [rip + 3f]",
            "jmp {narrow}",
            "3:",
            ".endr",
            "jmp 5f",
            "4:",
            "jmp {back}",
            "5:",
            narrow = out(reg) _,
            back = out(reg) _,
            options(nomem, nostack),
        );
    }
}

/// More branches than a predictor remembers.
#[inline(never)]
fn forget() {
    // SAFETY: jumps forward within the block; it touches no register, no memory and no stack.
    unsafe {
        asm!(".rept 32768", "jmp 3f", "nop", "3:", ".endr", options(nomem, nostack));
    }
}
