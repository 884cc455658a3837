//! Poly1305 (RFC 8439, 2.5) with scalar products of 64 bits. Secret-independent.
//!
//! The sum h is kept in three words below 2^131 or so, and r is clamped, so that no product of two
//! words with its carries leaves 128 bits; 2^130 = 5 takes what lies above back down.

use widelane_secret::wipe;

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
    /// Begins with the one-time key r ‖ s.
    pub(super) fn begin(&mut self, key: &[u8; 32]) {
        let word = |index: usize| {
            let (bytes, _) = key[8 * index..].split_first_chunk().expect("four words");
            u64::from_le_bytes(*bytes)
        };
        self.r = [word(0) & 0x0fff_fffc_0fff_ffff, word(1) & 0x0fff_fffc_0fff_fffc];
        self.h = [0; 3];
        self.s = [word(2), word(3)];
    }

    /// Adds blocks; the last one is filled up with zeros, as the AEAD does.
    #[inline]
    pub(super) fn absorb(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<TAG_BYTES>();
        self.absorb_blocks(blocks);
        if !rest.is_empty() {
            self.h = self.step(self.h, partial_block(rest));
        }
    }

    /// Adds blocks, in the code of whoever does other things beside.
    #[inline(always)]
    pub(super) fn absorb_blocks(&mut self, blocks: &[[u8; TAG_BYTES]]) {
        let mut h = self.h;
        for block in blocks {
            h = self.step(h, u128::from_le_bytes(*block));
        }
        self.h = h;
    }

    /// Adds a block.
    #[inline(always)]
    pub(super) fn absorb_block(&mut self, block: u128) {
        self.h = self.step(self.h, block);
    }

    /// (h + block + 2^128)·r, with h below 2^131 before and after.
    #[inline(always)]
    fn step(&self, h: [u64; 3], block: u128) -> [u64; 3] {
        let [r0, r1] = self.r;
        // r1 is a multiple of 4, so that r1·2^128 = (5/4)·r1·2^(-2)·2^130 is one factor.
        let folded = r1 + (r1 >> 2);

        let (h0, carry) = h[0].overflowing_add(block as u64);
        let (h1, carry0) = h[1].overflowing_add((block >> 64) as u64);
        let (h1, carry1) = h1.overflowing_add(u64::from(carry));
        let h2 = h[2] + 1 + u64::from(carry0) + u64::from(carry1);

        let d0 = product(h0, r0) + product(h1, folded);
        // h2 is so small that its products need no second word.
        let d1 = product(h0, r1) + product(h1, r0) + u128::from(h2 * folded) + (d0 >> 64);
        let d2 = h2 * r0 + (d1 >> 64) as u64;

        let (h0, carry) = (d0 as u64).overflowing_add((d2 & !3) + (d2 >> 2));
        let (h1, carry) = (d1 as u64).overflowing_add(u64::from(carry));
        [h0, h1, (d2 & 3) + u64::from(carry)]
    }

    /// The tag of what was absorbed.
    pub(super) fn tag(&self) -> [u8; TAG_BYTES] {
        let [h0, h1, h2] = self.h;
        let low = u128::from(h1) << 64 | u128::from(h0);
        // h mod 2^130 − 5: adding 5 shows in bit 130 whether h is beyond.
        let (plus, carry) = low.overflowing_add(5);
        let beyond = (h2 + u64::from(carry)) >> 2;
        let mask = u128::from(beyond.min(1)).wrapping_neg();
        let reduced = low ^ (low ^ plus) & mask;
        let s = u128::from(self.s[1]) << 64 | u128::from(self.s[0]);
        reduced.wrapping_add(s).to_le_bytes()
    }
}

#[inline(always)]
fn product(left: u64, right: u64) -> u128 {
    u128::from(left) * u128::from(right)
}

/// A block of which up to 15 bytes are given and the others are zero, in words that are read at
/// once: they may fall together, or be shifted to their place.
#[inline]
fn partial_block(bytes: &[u8]) -> u128 {
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

/// Defines how a room without vector multiplies authenticates: scalar products run beside the
/// vectors and cost no licence.
macro_rules! scalar {
    ($token:ty, #[$features:meta]) => {
        /// Blocks of a group, which are absorbed at a time.
        const GROUP_BLOCKS: usize = 4;

        type Running = Poly1305;

        #[inline]
        #[$features]
        fn begin_running(_room: $token, poly: &Poly1305) -> Running {
            poly.clone()
        }

        #[inline]
        #[$features]
        fn absorb_first(running: &mut Running, blocks: &[u8]) {
            running.absorb(blocks);
        }

        #[inline]
        #[$features]
        fn absorb_group(running: &mut Running, group: &[u8; GROUP_BYTES]) {
            running.absorb_blocks(group.as_chunks().0);
        }

        #[inline]
        #[$features]
        fn end_running(running: Running, poly: &mut Poly1305) {
            *poly = running;
        }

        #[inline]
        #[$features]
        fn authenticate(_room: $token, poly: &mut Poly1305, bytes: &[u8]) {
            poly.absorb(bytes);
        }
    };
}
