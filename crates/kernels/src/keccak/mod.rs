//! Keccak-f\[1600\] (FIPS 202), written once for all registers of 64-bit words: as many states at
//! once as a register has lanes.
//!
//! `docs/design/ml-kem.md` counts its instructions. Padding and the functions made of the
//! permutation are in [`sponge`].

pub mod sponge;
#[cfg(test)]
mod tests;

use crate::registers::Task;
use crate::words::Words;

/// Words of a state.
pub const STATE_WORDS: usize = 25;

const ROUNDS: usize = 24;

/// What the rounds add to the first word.
const ROUND_CONSTANTS: [u64; ROUNDS] = round_constants();

/// The constants by the shift register of FIPS 202, 3.2.5.
const fn round_constants() -> [u64; ROUNDS] {
    let mut constants = [0; ROUNDS];
    let (mut register, mut round) = (1u8, 0);
    while round < ROUNDS {
        let mut bit = 0;
        while bit < 7 {
            if register & 1 == 1 {
                constants[round] |= 1 << ((1 << bit) - 1);
            }
            let carry = register >> 7;
            register = (register << 1) ^ (carry * 0x71);
            bit += 1;
        }
        round += 1;
    }
    constants
}

/// Permutes the states in `rows`: word by word, lane by lane. Leaves them in registers and on the
/// stack: see [`Register::call`](crate::registers::Register::call).
#[inline]
fn permute<W: Words<Word = u64>>(room: W::Room, rows: &mut [W::Row; STATE_WORDS]) {
    W::call(room, Permute { rows });
}

struct Permute<'a, W: Words> {
    rows: &'a mut [W::Row; STATE_WORDS],
}

impl<W: Words<Word = u64>> Task<W> for Permute<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: W::Room) {
        let mut state = crate::hash::load(room, self.rows);
        for constant in ROUND_CONSTANTS {
            state = round(state, W::splat(room, constant));
        }
        for (row, word) in self.rows.iter_mut().zip(state) {
            *row = word.row();
        }
    }
}

/// One round.
#[inline(always)]
fn round<W: Words>(state: [W; STATE_WORDS], constant: W) -> [W; STATE_WORDS] {
    let a = state;
    macro_rules! column {
        ($x:literal) => {
            a[$x].parity(a[$x + 5], a[$x + 10]).parity(a[$x + 15], a[$x + 20])
        };
    }
    let columns = [column!(0), column!(1), column!(2), column!(3), column!(4)];
    // Rotated right by 63 is rotated left by one.
    macro_rules! turned {
        ($x:literal) => {
            columns[$x].rotate_right(63)
        };
    }
    let turned = [turned!(0), turned!(1), turned!(2), turned!(3), turned!(4)];
    macro_rules! effect {
        ($x:literal) => {
            if W::HAS_TERNARY { turned[0] } else { columns[($x + 4) % 5].xor(turned[($x + 1) % 5]) }
        };
    }
    let effects = [effect!(0), effect!(1), effect!(2), effect!(3), effect!(4)];
    // θ, on the word that π takes from (x, y).
    macro_rules! theta {
        ($x:literal, $y:literal) => {
            if W::HAS_TERNARY {
                a[$x + 5 * $y].parity(columns[($x + 4) % 5], turned[($x + 1) % 5])
            } else {
                a[$x + 5 * $y].xor(effects[$x])
            }
        };
    }
    // χ, on a row that ρ and π made.
    macro_rules! row {
        ($b0:expr, $b1:expr, $b2:expr, $b3:expr, $b4:expr) => {{
            let [b0, b1, b2, b3, b4] = [$b0, $b1, $b2, $b3, $b4];
            [b0.chi(b1, b2), b1.chi(b2, b3), b2.chi(b3, b4), b3.chi(b4, b0), b4.chi(b0, b1)]
        }};
    }
    let [e0, e1, e2, e3, e4] = row!(
        theta!(0, 0),
        theta!(1, 1).rotate_right(20),
        theta!(2, 2).rotate_right(21),
        theta!(3, 3).rotate_right(43),
        theta!(4, 4).rotate_right(50)
    );
    let [f0, f1, f2, f3, f4] = row!(
        theta!(3, 0).rotate_right(36),
        theta!(4, 1).rotate_right(44),
        theta!(0, 2).rotate_right(61),
        theta!(1, 3).rotate_right(19),
        theta!(2, 4).rotate_right(3)
    );
    let [g0, g1, g2, g3, g4] = row!(
        theta!(1, 0).rotate_right(63),
        theta!(2, 1).rotate_right(58),
        theta!(3, 2).rotate_right(39),
        theta!(4, 3).rotate_right(56),
        theta!(0, 4).rotate_right(46)
    );
    let [h0, h1, h2, h3, h4] = row!(
        theta!(4, 0).rotate_right(37),
        theta!(0, 1).rotate_right(28),
        theta!(1, 2).rotate_right(54),
        theta!(2, 3).rotate_right(49),
        theta!(3, 4).rotate_right(8)
    );
    let [i0, i1, i2, i3, i4] = row!(
        theta!(2, 0).rotate_right(2),
        theta!(3, 1).rotate_right(9),
        theta!(4, 2).rotate_right(25),
        theta!(0, 3).rotate_right(23),
        theta!(1, 4).rotate_right(62)
    );
    [
        e0.xor(constant),
        e1,
        e2,
        e3,
        e4,
        f0,
        f1,
        f2,
        f3,
        f4,
        g0,
        g1,
        g2,
        g3,
        g4,
        h0,
        h1,
        h2,
        h3,
        h4,
        i0,
        i1,
        i2,
        i3,
        i4,
    ]
}
