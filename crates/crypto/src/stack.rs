//! Work with secrets in stack frames that are wiped when it is done.

use widelane_secret::wipe;

// Every kind of work says beside its code how much stack is wiped: more than it takes in any room.
// That it is more follows from the emitted code (`stack_frames.rs` of the provider's tests); a
// bound that is much more costs time, and stack that a small thread may not have.

/// A batch on curve25519.
pub(crate) const CURVE25519_BYTES: usize = 24 << 10;
/// A batch of ML-KEM.
pub(crate) const MLKEM_BYTES: usize = 13 << 10;

/// Runs `work` in frames of its own and then wipes `BYTES` of stack there.
///
/// Values that matter are wiped where they are declared; this catches the copies that nobody
/// declared: what the compiler moved and spilled.
pub(crate) fn scrubbed<const BYTES: usize, T>(work: impl FnOnce() -> T) -> T {
    let result = in_own_frame(work);
    scrub::<BYTES>();
    result
}

#[inline(never)]
fn in_own_frame<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Wipes the stack below its caller.
#[inline(never)]
fn scrub<const BYTES: usize>() {
    wipe(&mut [0u8; BYTES]);
}
