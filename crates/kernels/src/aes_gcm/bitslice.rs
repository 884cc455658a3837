//! AES in bit slices: four blocks in eight words, one word per bit of a byte. Secret-independent.
//!
//! Bit 16·block + 4·row + column of word b is bit b of the byte at that row and column of the
//! state (FIPS 197, 3.4). A row is a nibble, so that shifting rows rotates nibbles and mixing
//! columns rotates groups of 16 bits.

use widelane_secret::wipe;

use super::key::{KeyBytes, ROUND_KEYS_MAX};
use super::{BLOCK_BYTES, Block};

/// Blocks that are encrypted at a time.
pub(crate) const BLOCKS: usize = 4;

pub(crate) type Slices = [u64; 8];

/// Round keys in slices, the same in all four blocks; wiped when dropped.
#[derive(Clone, Default)]
pub(crate) struct Cipher {
    round_keys: [Slices; ROUND_KEYS_MAX],
    rounds: usize,
}

impl Cipher {
    /// Expands a key (FIPS 197, 5.2).
    pub(crate) fn expand(&mut self, key: KeyBytes<'_>) {
        let mut words = [0; 4 * ROUND_KEYS_MAX];
        key.expand(&mut words, substitute_word);
        self.rounds = key.rounds();
        for (slices, words) in self.round_keys.iter_mut().zip(words.as_chunks::<4>().0) {
            let mut block = words.map(u32::to_le_bytes);
            *slices = pack(&[*block.as_flattened().first_chunk().expect("a block"); BLOCKS]);
            wipe(block.as_flattened_mut());
        }
        wipe(&mut words);
    }

    /// The round keys, the first one first.
    pub(crate) fn round_keys(&self) -> &[Slices] {
        &self.round_keys[..=self.rounds]
    }

    /// Encrypts four blocks, in a frame of its own that its caller can clear.
    #[inline(never)]
    pub(crate) fn encrypt(&self, blocks: &mut [Block; BLOCKS]) {
        let mut slices = pack(blocks);
        add(&mut slices, &self.round_keys[0]);
        for round_key in &self.round_keys[1..self.rounds] {
            substitute(&mut slices);
            shift_rows(&mut slices);
            mix_columns(&mut slices);
            add(&mut slices, round_key);
        }
        substitute(&mut slices);
        shift_rows(&mut slices);
        add(&mut slices, &self.round_keys[self.rounds]);
        *blocks = unpack(slices);
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        wipe(self.round_keys.as_flattened_mut());
    }
}

pub(crate) fn add(slices: &mut Slices, round_key: &Slices) {
    for (slice, key) in slices.iter_mut().zip(round_key) {
        *slice ^= key;
    }
}

/// The word and the byte in it where `pack` puts a byte before it transposes.
fn place(block: usize, index: usize) -> (usize, usize) {
    let (row, column) = (index % 4, index / 4);
    (4 * (row % 2) + column, 2 * block + row / 2)
}

pub(crate) fn pack(blocks: &[Block; BLOCKS]) -> Slices {
    let mut words = [[0; 8]; 8];
    for (block, bytes) in blocks.iter().enumerate() {
        for (index, byte) in bytes.iter().enumerate() {
            let (word, position) = place(block, index);
            words[word][position] = *byte;
        }
    }
    transpose(words.map(u64::from_le_bytes))
}

pub(crate) fn unpack(slices: Slices) -> [Block; BLOCKS] {
    let words = transpose(slices).map(u64::to_le_bytes);
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (block, bytes) in blocks.iter_mut().enumerate() {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let (word, position) = place(block, index);
            *byte = words[word][position];
        }
    }
    blocks
}

/// Exchanges word and bit: bit b of each byte of word w goes to bit w of that byte of word b.
fn transpose(mut words: Slices) -> Slices {
    for (distance, mask) in
        [(1, 0x5555_5555_5555_5555), (2, 0x3333_3333_3333_3333), (4, 0x0f0f_0f0f_0f0f_0f0f)]
    {
        for low in (0..8).filter(|index| index & distance == 0) {
            let difference = (words[low] >> distance ^ words[low + distance]) & mask;
            words[low + distance] ^= difference;
            words[low] ^= difference << distance;
        }
    }
    words
}

/// Rotates the columns of row r by r places.
fn shift_rows(slices: &mut Slices) {
    const fn every(mask: u64) -> u64 {
        mask * 0x0001_0001_0001_0001
    }
    for slice in slices {
        let x = *slice;
        *slice = x & every(0x000f)
            | x >> 1 & every(0x0070)
            | x << 3 & every(0x0080)
            | x >> 2 & every(0x0300)
            | x << 2 & every(0x0c00)
            | x >> 3 & every(0x1000)
            | x << 1 & every(0xe000);
    }
}

/// Takes every byte from `ROWS` rows further down, around the column.
pub(crate) fn rotate_rows<const ROWS: u32>(slice: u64) -> u64 {
    let kept = (0xffff >> (4 * ROWS)) * 0x0001_0001_0001_0001;
    slice >> (4 * ROWS) & kept | slice << (16 - 4 * ROWS) & !kept
}

/// 2·a + 3·b + c + d = 2·(a + b) + b + (c + d), for bytes a, b, c, d below one another.
fn mix_columns(slices: &mut Slices) {
    let below = slices.map(rotate_rows::<1>);
    let mut pairs = *slices;
    add(&mut pairs, &below);
    let doubled = double(pairs);
    for (index, slice) in slices.iter_mut().enumerate() {
        *slice = doubled[index] ^ below[index] ^ rotate_rows::<2>(pairs[index]);
    }
}

/// Twice each byte, modulo x⁸ + x⁴ + x³ + x + 1.
pub(crate) fn double([p0, p1, p2, p3, p4, p5, p6, p7]: Slices) -> Slices {
    [p7, p0 ^ p7, p1, p2 ^ p7, p3 ^ p7, p4, p5, p6]
}

fn substitute_word(word: u32) -> u32 {
    let mut block = [0; BLOCK_BYTES];
    block[..4].copy_from_slice(&word.to_le_bytes());
    let mut slices = pack(&[block; BLOCKS]);
    substitute(&mut slices);
    let [block, ..] = unpack(slices);
    u32::from_le_bytes([block[0], block[1], block[2], block[3]])
}

/// The S-box on every byte: the circuit of Boyar and Peralta, "A small depth-16 circuit for the AES
/// S-box" (2012), with their names; x0 and s0 are the highest bits.
pub(crate) fn substitute(slices: &mut Slices) {
    let [x7, x6, x5, x4, x3, x2, x1, x0] = *slices;

    let y14 = x3 ^ x5;
    let y13 = x0 ^ x6;
    let y9 = x0 ^ x3;
    let y8 = x0 ^ x5;
    let t0 = x1 ^ x2;
    let y1 = t0 ^ x7;
    let y4 = y1 ^ x3;
    let y12 = y13 ^ y14;
    let y2 = y1 ^ x0;
    let y5 = y1 ^ x6;
    let y3 = y5 ^ y8;
    let t1 = x4 ^ y12;
    let y15 = t1 ^ x5;
    let y20 = t1 ^ x1;
    let y6 = y15 ^ x7;
    let y10 = y15 ^ t0;
    let y11 = y20 ^ y9;
    let y7 = x7 ^ y11;
    let y17 = y10 ^ y11;
    let y19 = y10 ^ y8;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let y18 = x0 ^ y16;

    let t2 = y12 & y15;
    let t4 = (y3 & y6) ^ t2;
    let t6 = (y4 & x7) ^ t2;
    let t7 = y13 & y16;
    let t9 = (y5 & y1) ^ t7;
    let t11 = (y2 & y7) ^ t7;
    let t12 = y9 & y11;
    let t14 = (y14 & y17) ^ t12;
    let t16 = (y8 & y10) ^ t12;
    let t21 = t4 ^ t14 ^ y20;
    let t22 = t6 ^ t16 ^ y19;
    let t23 = t9 ^ t14 ^ y21;
    let t24 = t11 ^ t16 ^ y18;

    let t25 = t21 ^ t22;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t29 = (t25 & t27) ^ t22;
    let t33 = ((t22 ^ t26) & (t23 ^ t24)) ^ t24;
    let t36 = t24 & (t27 ^ t33);
    let t37 = t36 ^ t23 ^ t33;
    let t40 = t25 ^ (t29 & (t27 ^ t36));
    let t41 = t40 ^ t37;
    let t42 = t29 ^ t33;
    let t43 = t29 ^ t40;
    let t44 = t33 ^ t37;
    let t45 = t42 ^ t41;

    let z0 = t44 & y15;
    let z1 = t37 & y6;
    let z2 = t33 & x7;
    let z3 = t43 & y16;
    let z4 = t40 & y1;
    let z5 = t29 & y7;
    let z6 = t42 & y11;
    let z7 = t45 & y17;
    let z8 = t41 & y10;
    let z9 = t44 & y12;
    let z10 = t37 & y3;
    let z11 = t33 & y4;
    let z12 = t43 & y13;
    let z13 = t40 & y5;
    let z14 = t29 & y2;
    let z15 = t42 & y9;
    let z16 = t45 & y14;
    let z17 = t41 & y8;

    let t46 = z15 ^ z16;
    let t48 = z5 ^ z13;
    let t53 = z0 ^ z3;
    let t57 = z2 ^ z12 ^ t53;
    let t58 = z4 ^ t46;
    let t59 = z3 ^ z6 ^ z7;
    let t62 = z7 ^ z8 ^ t58;
    let t63 = z9 ^ z10 ^ t58;
    let t64 = z4 ^ t59;
    let t65 = z14 ^ t57 ^ t62;
    let t66 = z1 ^ t63;
    let s0 = t59 ^ t63;
    let s3 = t53 ^ t66;
    let s4 = z2 ^ z5 ^ t66;
    let s5 = z10 ^ z11 ^ t65;
    let s1 = t64 ^ !s3;
    let s2 = z16 ^ z17 ^ !(t64 ^ t65);
    let s6 = z12 ^ t48 ^ !t62;
    let s7 = t48 ^ !(t46 ^ t57);

    *slices = [s7, s6, s5, s4, s3, s2, s1, s0];
}
