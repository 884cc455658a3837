//! Work with secrets in stack frames that are wiped when it is done.

use widelane_secret::wipe;

/// More stack than the import of a key or a single private operation uses, for any size.
pub(crate) const SINGLE_BYTES: usize = 64 << 10;
/// More stack than a batch uses, in any room and for any size.
pub(crate) const BATCH_BYTES: usize = 192 << 10;
/// More stack than a batch on curve25519 uses, in any room.
pub(crate) const CURVE25519_BYTES: usize = 24 << 10;

/// More stack than a key derivation uses.
pub(crate) const KDF_BYTES: usize = 4 << 10;

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
