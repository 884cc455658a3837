//! Work with secrets in stack frames that are wiped when it is done.

use widelane_secret::wipe;

// More stack than each kind of work takes, in any room. That it is more follows from the emitted
// code (`stack_frames.rs` of the provider's tests); a bound that is much more costs time, and stack
// that a small thread may not have.

/// The import of an RSA key.
pub(crate) const RSA_KEY_BYTES: usize = 68 << 10;
/// A single private operation of RSA.
pub(crate) const RSA_SINGLE_BYTES: usize = 64 << 10;
/// A batch of RSA operations, by size.
pub(crate) const RSA_2048_BYTES: usize = 80 << 10;
/// As above.
pub(crate) const RSA_3072_BYTES: usize = 116 << 10;
/// As above.
pub(crate) const RSA_4096_BYTES: usize = 152 << 10;
/// The import of a key on a NIST curve.
pub(crate) const EC_KEY_BYTES: usize = 3 << 10;
/// A batch on P-256.
pub(crate) const P256_BYTES: usize = 32 << 10;
/// A batch on P-384.
pub(crate) const P384_BYTES: usize = 60 << 10;
/// A batch on curve25519.
pub(crate) const CURVE25519_BYTES: usize = 24 << 10;
/// The import of a key of Ed25519.
pub(crate) const ED25519_KEY_BYTES: usize = 6 << 10;
/// A batch of ML-KEM.
pub(crate) const MLKEM_BYTES: usize = 13 << 10;
/// A key derivation.
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
