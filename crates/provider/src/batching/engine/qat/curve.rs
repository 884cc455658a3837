//! The parameters of a curve for a device, in pinned memory.
#![allow(unsafe_code, reason = "pointers for Intel's library")]

use widelane_crypto::ec::Numbers;

use super::interface::{CpaFlatBuffer, PinnedMemory};
use super::memory::Pinned;

/// The numbers of a curve, for the device, and where they lie.
pub(super) struct PinnedCurve {
    pub(super) p: CpaFlatBuffer,
    pub(super) a: CpaFlatBuffer,
    pub(super) b: CpaFlatBuffer,
    pub(super) n: CpaFlatBuffer,
    pub(super) x: CpaFlatBuffer,
    pub(super) y: CpaFlatBuffer,
    _numbers: Pinned,
}

// SAFETY: the pointers lead to what it owns and never changes.
unsafe impl Send for PinnedCurve {}
// SAFETY: as above.
unsafe impl Sync for PinnedCurve {}

impl PinnedCurve {
    /// Copies the numbers of a curve; nothing if there is no pinned memory left.
    pub(super) fn new(memory: &'static PinnedMemory, numbers: &Numbers) -> Option<Self> {
        let Numbers { p, b, n, x, y, .. } = *numbers;
        let bytes = numbers.bytes();
        let mut pinned = Pinned::new(memory, 6 * bytes)?;
        for (place, hex) in pinned.as_mut().chunks_exact_mut(bytes).zip([p, p, b, n, x, y]) {
            read(hex, place);
        }
        // The second of them is a = p − 3, and p is far from a multiple of 256.
        pinned.as_mut()[2 * bytes - 1] -= 3;
        let mut part = |index: usize| pinned.part(index * bytes, bytes);
        let [p, a, b, n, x, y] = [part(0), part(1), part(2), part(3), part(4), part(5)];
        Some(PinnedCurve { p, a, b, n, x, y, _numbers: pinned })
    }
}

/// Reads hexadecimal digits into zeros, big-endian.
fn read(hex: &str, bytes: &mut [u8]) {
    for (byte, pair) in bytes.iter_mut().rev().zip(hex.as_bytes().rchunks(2)) {
        for digit in pair {
            let digit = char::from(*digit).to_digit(16).expect("a hexadecimal digit");
            *byte = *byte << 4 | digit as u8;
        }
    }
}
