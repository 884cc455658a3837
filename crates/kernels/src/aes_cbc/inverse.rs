//! The inverse cipher in bit slices (FIPS 197, 5.3), from parts of the cipher. Secret-independent.

use super::Block;
use crate::aes_gcm::bitslice::{
    BLOCKS, Cipher, Slices, add, double, pack, rotate_rows, substitute, unpack,
};

/// Decrypts four blocks.
pub(super) fn decrypt(cipher: &Cipher, blocks: &mut [Block; BLOCKS]) {
    let (first, round_keys) = cipher.round_keys().split_first().expect("keys");
    let (last, round_keys) = round_keys.split_last().expect("keys");
    let mut slices = pack(blocks);
    add(&mut slices, last);
    for round_key in round_keys.iter().rev() {
        unshift_rows(&mut slices);
        unsubstitute(&mut slices);
        add(&mut slices, round_key);
        unmix_columns(&mut slices);
    }
    unshift_rows(&mut slices);
    unsubstitute(&mut slices);
    add(&mut slices, first);
    *blocks = unpack(slices);
}

/// Rotates the columns of row r back by r places.
fn unshift_rows(slices: &mut Slices) {
    const fn every(mask: u64) -> u64 {
        mask * 0x0001_0001_0001_0001
    }
    for slice in slices {
        let x = *slice;
        *slice = x & every(0x000f)
            | x << 1 & every(0x00e0)
            | x >> 3 & every(0x0010)
            | x << 2 & every(0x0c00)
            | x >> 2 & every(0x0300)
            | x << 3 & every(0x8000)
            | x >> 1 & every(0x7000);
    }
}

/// The inverse of the S-box S = A(1/x) + 0x63: 1/A⁻¹(x + 0x63), where 1/y is A⁻¹(S(y) + 0x63).
fn unsubstitute(slices: &mut Slices) {
    unmap(slices);
    substitute(slices);
    unmap(slices);
}

/// A⁻¹(x + 0x63): each bit is the sum of three others, and 0x05.
fn unmap(slices: &mut Slices) {
    let x = *slices;
    for (bit, slice) in slices.iter_mut().enumerate() {
        *slice = x[(bit + 2) % 8] ^ x[(bit + 5) % 8] ^ x[(bit + 7) % 8];
    }
    slices[0] = !slices[0];
    slices[2] = !slices[2];
}

/// 14·a + 11·b + 13·c + 9·d = 8·(a + b + c + d) + 4·(a + c) + 2·(a + b) + (b + c + d).
fn unmix_columns(slices: &mut Slices) {
    let below = slices.map(rotate_rows::<1>);
    let mut pairs = *slices;
    add(&mut pairs, &below);
    let mut opposite = *slices;
    add(&mut opposite, &slices.map(rotate_rows::<2>));
    let mut all = pairs;
    add(&mut all, &pairs.map(rotate_rows::<2>));
    // The sum of all but a is all + a.
    add(slices, &all);
    add(slices, &double(pairs));
    add(slices, &double(double(opposite)));
    add(slices, &double(double(double(all))));
}
