//! SHA-1 (FIPS 180-4), as HMAC-SHA-1 of TLS still wants it. As a signature's hash it is broken.

pub mod shani;

use crate::hash::{Beside, Hash, STATE_WORDS, each_word};
use crate::words::{BLOCK_WORDS, Words};

/// SHA-1: words of 32 bits, 80 rounds. The last three words of a state are not its own.
pub struct Sha1;

/// The initial state.
pub const SHA1: [u32; STATE_WORDS] =
    [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0, 0, 0, 0];

/// The constants of twenty rounds each.
const CONSTANTS: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];

/// Rounds beside which parts of something else are done: all but those of the last group.
const PARTS: usize = 64;

impl<W: Words<Word = u32>> Hash<W> for Sha1 {
    /// FIPS 180-4, 6.1.2.
    #[inline(always)]
    fn compress(
        room: W::Room,
        state: &mut [W; STATE_WORDS],
        block: [W; BLOCK_WORDS],
        beside: &mut impl Beside,
    ) {
        let [a, b, c, d, e, ..] = *state;
        let (mut variables, mut schedule) = ([a, b, c, d, e], block);
        let [first, second, third, fourth] = CONSTANTS;
        let constants = [
            W::splat(room, first),
            W::splat(room, second),
            W::splat(room, third),
            W::splat(room, fourth),
        ];
        macro_rules! group {
            ($group:literal) => {
                each_word!(T => {
                    const ROUND: usize = 16 * $group + T;
                    if ROUND.is_multiple_of(20) {
                        beside.quarter();
                    }
                    if ROUND < PARTS {
                        beside.part(ROUND, PARTS);
                    }
                    if $group > 0 {
                        let word = schedule[T].xor(schedule[(T + 2) % 16]);
                        let word = word.xor(schedule[(T + 8) % 16]).xor(schedule[(T + 13) % 16]);
                        schedule[T] = word.rotate_right(31).settled();
                    }
                    let [a, b, c, d, e] = variables;
                    let mixed = match ROUND / 20 {
                        0 => d.xor(b.and(c.xor(d))),
                        2 => b.majority(c, d),
                        _ => b.xor(c).xor(d),
                    };
                    // The next round waits for a, which is added last.
                    let sum = e.add(schedule[T].add(constants[ROUND / 20])).settled();
                    let sum = sum.add(mixed).settled().add(a.rotate_right(27));
                    variables = [sum, a, b.rotate_right(2), c, d];
                });
            };
        }
        group!(0);
        group!(1);
        group!(2);
        group!(3);
        group!(4);
        for (word, variable) in state.iter_mut().zip(variables) {
            *word = word.add(variable);
        }
    }
}
