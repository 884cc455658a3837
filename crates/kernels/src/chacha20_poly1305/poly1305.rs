//! Poly1305 (RFC 8439, 2.5) with scalar products of 64 bits. Secret-independent.
//!
//! The sum h is kept in three words, the last of which takes what lies above 2^130 to the next
//! step, where 2^130 = 5 takes it back down. r is clamped, so that no product of two words with its
//! carries leaves 128 bits.

use widelane_cpu::Avx512;
use widelane_secret::wipe;

use super::BLOCK_BYTES;
use super::rows::Running;

/// Bytes of a block and of a tag.
pub const TAG_BYTES: usize = 16;

/// An authenticator on its way, wiped when it is dropped.
#[derive(Clone, Default)]
pub struct Poly1305 {
    pub(super) r: [u64; 2],
    pub(super) h: [u64; 3],
    s: [u64; 2],
}

impl Poly1305 {
    /// Begins with the one-time key r ‖ s, which a block of the key stream begins with.
    pub(super) fn begin(&mut self, block: &[u8; BLOCK_BYTES]) {
        let (words, _) = block.as_chunks();
        let [r0, r1, s0, s1, ..] = *words else { unreachable!("eight words") };
        self.begin_words([r0, r1, s0, s1].map(u64::from_le_bytes));
    }

    /// As [`begin`](Self::begin), with the key in words.
    #[inline(always)]
    pub(super) fn begin_words(&mut self, [r0, r1, s0, s1]: [u64; 4]) {
        self.r = [r0 & 0x0fff_fffc_0fff_ffff, r1 & 0x0fff_fffc_0fff_fffc];
        self.h = [0; 3];
        self.s = [s0, s1];
    }

    /// Adds blocks; the last one is filled up with zeros, as the AEAD does.
    #[inline]
    pub(super) fn absorb(&mut self, bytes: &[u8]) {
        self.absorb_inline(bytes);
    }

    /// As [`absorb`](Self::absorb), inlined into a caller that overlaps it with other work.
    #[inline(always)]
    pub(super) fn absorb_inline(&mut self, bytes: &[u8]) {
        self.h = self.after(self.h, bytes);
    }

    /// Adds whole blocks, inlined into a caller that overlaps it with other work.
    #[inline(always)]
    pub(super) fn absorb_blocks(&mut self, blocks: &[[u8; TAG_BYTES]]) {
        self.h = self.after_blocks(self.h, blocks);
    }

    /// Adds up to one block, inlined into a caller that overlaps it with other work.
    #[inline(always)]
    pub(super) fn absorb_block(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.h = self.step(self.h, block_of(bytes));
        }
    }

    /// The sum h after some bytes more.
    #[inline(always)]
    fn after(&self, h: [u64; 3], bytes: &[u8]) -> [u64; 3] {
        let (blocks, rest) = bytes.as_chunks();
        let h = self.after_blocks(h, blocks);
        if rest.is_empty() { h } else { self.step(h, block_of(rest)) }
    }

    /// The sum h after some blocks more.
    #[inline(always)]
    pub(super) fn after_blocks(&self, h: [u64; 3], blocks: &[[u8; TAG_BYTES]]) -> [u64; 3] {
        let mut h = h;
        for block in blocks {
            h = self.step(h, u128::from_le_bytes(*block));
        }
        h
    }

    /// (h + block + 2^128)·r. What lies above 2^130 is taken down by the next step, which adds the
    /// block meanwhile.
    #[inline(always)]
    fn step(&self, [h0, h1, h2]: [u64; 3], block: u128) -> [u64; 3] {
        let [r0, r1] = self.r;
        let folded = folded(r1);

        let (h0, carry) = h0.carrying_add(block as u64, false);
        let (h1, carry) = h1.carrying_add((block >> 64) as u64, carry);
        let [h0, h1, h2] = carried([h0, h1, h2], 1 + u64::from(carry));

        let d0 = product(h0, r0) + product(h1, folded);
        // h2 is so small that its products need no second word.
        let d1 = product(h0, r1) + product(h1, r0) + u128::from(h2 * folded) + (d0 >> 64);
        [d0 as u64, d1 as u64, h2 * r0 + (d1 >> 64) as u64]
    }

    /// The sum of what was absorbed, with a last word of three bits.
    #[inline(always)]
    pub(super) fn sum(&self) -> [u64; 3] {
        carried(self.h, 0)
    }

    /// The tag of what was absorbed, of some bytes more, and of a last block.
    pub(super) fn tag(&self, bytes: &[u8], last: u128) -> u128 {
        let [h0, h1, h2] = carried(self.step(self.after(self.h, bytes), last), 0);
        let low = u128::from(h1) << 64 | u128::from(h0);
        // h mod 2^130 − 5: adding 5 shows in bit 130 whether h is beyond.
        let (plus, carry) = low.overflowing_add(5);
        let beyond = (h2 + u64::from(carry)) >> 2;
        let mask = u128::from(beyond.min(1)).wrapping_neg();
        let reduced = low ^ (low ^ plus) & mask;
        reduced.wrapping_add(u128::from(self.s[1]) << 64 | u128::from(self.s[0]))
    }
}

/// The factor that r1·2^128 is: r1 is a multiple of 4, and 2^130 = 5.
#[inline(always)]
pub(super) fn folded(r1: u64) -> u64 {
    r1 + (r1 >> 2)
}

/// Brings down what a sum has above 2^130, and adds `more` at 2^128.
#[inline(always)]
fn carried([h0, h1, h2]: [u64; 3], more: u64) -> [u64; 3] {
    let (h0, carry) = h0.carrying_add((h2 & !3) + (h2 >> 2), false);
    let (h1, carry) = h1.carrying_add(0, carry);
    [h0, h1, (h2 & 3) + more + u64::from(carry)]
}

#[inline(always)]
fn product(left: u64, right: u64) -> u128 {
    u128::from(left) * u128::from(right)
}

/// A block of which some bytes are given and the others are zero, in words that are read at once:
/// they may fall together, or be shifted to their place.
#[inline(always)]
fn block_of(bytes: &[u8]) -> u128 {
    let missing = 8 * (TAG_BYTES - bytes.len()) as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u128::from(u64::from_le_bytes(*last)) << 64 >> missing;
        u128::from(u64::from_le_bytes(*first)) | last
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u128::from(u32::from_le_bytes(*last)) << 96 >> missing;
        u128::from(u32::from_le_bytes(*first)) | last
    } else {
        bytes.iter().rev().fold(0, |block, byte| block << 8 | u128::from(*byte))
    }
}

impl Drop for Poly1305 {
    fn drop(&mut self) {
        wipe(&mut self.r);
        wipe(&mut self.h);
        wipe(&mut self.s);
    }
}

/// Blocks that go together where products are scalar: they run beside the vectors and cost no
/// licence.
pub(super) type ScalarGroup = [u8; 4 * TAG_BYTES];

impl Running<Avx512> for Poly1305 {
    type Group = ScalarGroup;

    #[inline(always)]
    fn groups(bytes: &[u8]) -> &[ScalarGroup] {
        bytes.as_chunks().0
    }

    #[inline(always)]
    fn begin(_room: Avx512, poly: &Poly1305) -> Self {
        poly.clone()
    }

    #[inline(always)]
    fn absorb_first(&mut self, blocks: &[u8]) {
        self.absorb(blocks);
    }

    #[inline(always)]
    fn absorb_groups(&mut self, groups: &[ScalarGroup]) {
        self.absorb_blocks(groups.as_flattened().as_chunks().0);
    }

    #[inline(always)]
    fn end(&self, poly: &mut Poly1305) {
        poly.clone_from(self);
    }

    #[inline(always)]
    fn authenticate(_room: Avx512, poly: &mut Poly1305, bytes: &[u8]) {
        poly.absorb(bytes);
    }
}
