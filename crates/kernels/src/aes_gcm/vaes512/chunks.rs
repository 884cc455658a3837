//! Whole chunks in room vaes512 of aes_gcm: rounds of AES and the hash woven by hand.
//! Secret-independent.
//!
//! Cores of Intel's lower their clock while many loads, stores and operations of 512 bits meet
//! (docs/design/aes-gcm.md). So nothing is spilled here, what tells counters apart is kept in
//! registers, and each row of text is loaded, and each of the result stored, between rounds of its
//! own.
#![allow(unsafe_code, reason = "room: loads, stores and register arithmetic")]

use core::arch::asm;
use core::arch::x86_64::*;
use core::hint::black_box;
use core::mem::offset_of;

use super::{
    BLOCK_BYTES, BLOCKS, CHUNK_BLOCKS, CHUNK_BYTES, Counters, Element, Key, POWER_MAX, ROW_BYTES,
    ROWS, Row, add, all_of_row, broadcast, count_row, encrypt_chunk, encrypt_last, hash_chunk,
    next_row, order_of_reverse, product_at, reduce, reverse, rows_of, store, wrapped,
};
use crate::text::Text;

/// The differences between the counters of a chunk's rows: each row has those of the first one,
/// with one or two of these added.
#[derive(Clone, Copy)]
struct Steps {
    one: Row,
    two: Row,
    three: Row,
    four: Row,
}

/// The steps, as constants that the compiler may fold.
///
/// They are written in rows of four blocks. The first block counts 2, so that the first half of a
/// row counts from one multiple of four on, and the second half from the next.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn steps() -> Steps {
    Steps { one: halves(1, 3), two: halves(2, 2), three: halves(3, 5), four: halves(4, 4) }
}

/// The steps in registers: folded they would be loaded for every chunk.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn in_registers(steps: Steps) -> Steps {
    let Steps { mut one, mut two, mut three, mut four } = steps;
    // SAFETY: an empty block changes nothing.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} */",
            inout(zmm_reg) one, inout(zmm_reg) two, inout(zmm_reg) three, inout(zmm_reg) four,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    Steps { one, two, three, four }
}

/// A step, in rows of four blocks, of the counters in either half of a row.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn halves(low: i32, high: i32) -> Row {
    let [low, high] = [low, high].map(|rows| (4 * rows) << 24);
    _mm512_setr_epi32(0, 0, 0, low, 0, 0, 0, low, 0, 0, 0, high, 0, 0, 0, high)
}

/// The sum of three rows.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn add_three(a: Row, b: Row, c: Row) -> Row {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// What known counters count from: those of the first row of a chunk, given a block that counts
/// none, with the first round key added.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
pub(super) fn known_row(zero: Element, first_key: Element) -> Row {
    let [a, b, c, d] = [2, 3, 4, 5].map(|count| count << 24);
    let lowest = _mm512_setr_epi32(0, 0, 0, a, 0, 0, 0, b, 0, 0, 0, c, 0, 0, 0, d);
    add_three(all_of_row(zero), all_of_row(first_key), lowest)
}

/// Counter blocks, with the first round key added.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
pub(super) fn begin<const COUNT: usize, const KNOWN: bool>(
    key: &Key,
    counters: &mut Counters,
) -> [Row; COUNT] {
    begin_by::<COUNT, KNOWN>(key, counters, steps())
}

/// The same, by steps that may be in registers.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
fn begin_by<const COUNT: usize, const KNOWN: bool>(
    key: &Key,
    counters: &mut Counters,
    steps: Steps,
) -> [Row; COUNT] {
    let mut states = [broadcast(&key.round_keys[0]); COUNT];
    if KNOWN {
        let Steps { one, two, three, four } = steps;
        let base = counters.row;
        let later = counters.count.wrapping_add(CHUNK_BLOCKS as u32);
        let next = add(base, count_row(counters.count ^ later));
        for (row, state) in states.iter_mut().enumerate() {
            *state = match row {
                0 => base,
                1 => add(base, one),
                2 => add(base, two),
                3 => add(base, three),
                4 => add(base, four),
                5 => add_three(base, one, four),
                6 => add_three(base, two, four),
                _ => add_three(wrapped(base, next), three, four),
            };
        }
        *counters = Counters { row: next, count: later };
    } else {
        for state in &mut states {
            *state = add(*state, reverse(counters.row));
            counters.row = next_row(counters.row);
        }
    }
    states
}

/// Half a round, and meanwhile a row of the chunk before is stored, and one of this chunk takes its
/// place with the last round key added. The one that is ciphertext is to be hashed.
macro_rules! exchange {
    ($way:ident, $round:literal, $row:literal) => {
        concat!(
            round_key!("vbroadcasti32x4", $round),
            encrypt!(0),
            op!("vmovdqu64 [{before} + 64*" $row "], {r" $row "}"),
            encrypt!(1),
            replace!($way, $row),
            encrypt!(3),
        )
    };
}

/// What of that differs between the ways.
macro_rules! replace {
    (seal, $row:literal) => {
        concat!(
            op!("vpshufb {row}, {r" $row "}, {order}"),
            encrypt!(2),
            op!("vpxorq {r" $row "}, {last_key}, [{chunk} + 64*" $row "]"),
        )
    };
    (open, $row:literal) => {
        concat!(
            op!("vmovdqu64 {row}, [{chunk} + 64*" $row "]"),
            encrypt!(2),
            op!("vpxorq {r" $row "}, {last_key}, {row}"),
            op!("vpshufb {row}, {row}, {order}"),
        )
    };
}

/// A round, and a row that is hashed meanwhile: multiplied by its power, as [`product_at`] does.
macro_rules! hashed {
    ($way:ident, $round:literal, $row:literal) => {
        concat!(
            exchange!($way, $round, $row),
            op!("vbroadcasti32x4 {power}, [{keys} + {powers} + 64*" $row "]"),
            op!("vpclmulqdq {a}, {row}, {power}, 0x01"),
            encrypt!(4),
            op!("vbroadcasti32x4 {shifted}, [{keys} + {all_shifted} + 64*" $row "]"),
            op!("vpclmulqdq {b}, {row}, {shifted}, 0x00"),
            encrypt!(5),
            op!("vpternlogq {low}, {a}, {b}, 0x96"),
            op!("vpclmulqdq {a}, {row}, {power}, 0x11"),
            encrypt!(6),
            op!("vpclmulqdq {b}, {row}, {shifted}, 0x10"),
            encrypt!(7),
            op!("vpternlogq {high}, {a}, {b}, 0x96"),
        )
    };
}

/// A round, and the last row, to which what was hashed will be added.
macro_rules! kept {
    ($way:ident, $round:literal, $row:literal) => {
        concat!(exchange!($way, $round, $row), encrypt!(4, 5, 6, 7))
    };
}

/// All rounds but the last one, and the rows, as evenly as can be.
macro_rules! woven {
    ($way:ident, 10) => {
        concat!(
            hashed!($way, 1, 0),
            hashed!($way, 2, 1),
            hashed!($way, 3, 2),
            hashed!($way, 4, 3),
            hashed!($way, 5, 4),
            hashed!($way, 6, 5),
            hashed!($way, 7, 6),
            kept!($way, 8, 7),
            round!("vbroadcasti32x4", 9),
        )
    };
    ($way:ident, 12) => {
        concat!(
            hashed!($way, 1, 0),
            hashed!($way, 2, 1),
            round!("vbroadcasti32x4", 3),
            hashed!($way, 4, 2),
            hashed!($way, 5, 3),
            hashed!($way, 6, 4),
            round!("vbroadcasti32x4", 7),
            hashed!($way, 8, 5),
            hashed!($way, 9, 6),
            kept!($way, 10, 7),
            round!("vbroadcasti32x4", 11),
        )
    };
    ($way:ident, 14) => {
        concat!(
            hashed!($way, 1, 0),
            round!("vbroadcasti32x4", 2),
            hashed!($way, 3, 1),
            hashed!($way, 4, 2),
            round!("vbroadcasti32x4", 5),
            hashed!($way, 6, 3),
            round!("vbroadcasti32x4", 7),
            hashed!($way, 8, 4),
            hashed!($way, 9, 5),
            round!("vbroadcasti32x4", 10),
            hashed!($way, 11, 6),
            kept!($way, 12, 7),
            round!("vbroadcasti32x4", 13),
        )
    };
}

/// The block of assembly: all rounds but the last one on `$states`; meanwhile `$rows`, those of the
/// chunk `$before`, are stored and replaced by those of `$chunk` with the last round key added.
/// Adds what is hashed to `$sum`, but for the last row, and returns that.
///
/// Not a function, which the compiler might not inline: it would get its rows in memory.
macro_rules! weave {
    (
        $template:expr, $key:expr, $last_key:expr, $before:expr, $chunk:expr,
        $states:expr, $rows:expr, $sum:expr,
    ) => {{
        let last: Row;
        // Given a type, since without one registers get names that the assembler does not know.
        let (_key, _power, _shifted, _a, _b): (Row, Row, Row, Row, Row);
        // SAFETY: reads the key where its fields are and a chunk of source, and writes a chunk of
        // target; both texts vouch for those.
        unsafe {
            asm!(
                $template,
                keys = in(reg) core::ptr::from_ref::<Key>($key),
                before = in(reg) $before.target(0, CHUNK_BYTES),
                chunk = in(reg) $chunk.source(0, CHUNK_BYTES),
                round_keys = const offset_of!(Key, round_keys),
                powers = const offset_of!(Key, powers) + FIRST_POWER,
                all_shifted = const offset_of!(Key, beside) + FIRST_POWER,
                s0 = inout(zmm_reg) $states[0], s1 = inout(zmm_reg) $states[1],
                s2 = inout(zmm_reg) $states[2], s3 = inout(zmm_reg) $states[3],
                s4 = inout(zmm_reg) $states[4], s5 = inout(zmm_reg) $states[5],
                s6 = inout(zmm_reg) $states[6], s7 = inout(zmm_reg) $states[7],
                r0 = inout(zmm_reg) $rows[0], r1 = inout(zmm_reg) $rows[1],
                r2 = inout(zmm_reg) $rows[2], r3 = inout(zmm_reg) $rows[3],
                r4 = inout(zmm_reg) $rows[4], r5 = inout(zmm_reg) $rows[5],
                r6 = inout(zmm_reg) $rows[6], r7 = inout(zmm_reg) $rows[7],
                low = inout(zmm_reg) $sum.0, high = inout(zmm_reg) $sum.1,
                last_key = in(zmm_reg) $last_key,
                order = in(zmm_reg) order_of_reverse(),
                row = out(zmm_reg) last,
                key = out(zmm_reg) _key,
                power = out(zmm_reg) _power, shifted = out(zmm_reg) _shifted,
                a = out(zmm_reg) _a, b = out(zmm_reg) _b,
                options(nostack, preserves_flags),
            );
        }
        last
    }};
}

/// Where the power stands that the first row of a chunk is multiplied by.
const FIRST_POWER: usize = (POWER_MAX - CHUNK_BLOCKS + BLOCKS) * BLOCK_BYTES;

/// Takes whole chunks as long as something is left for the tail.
///
/// The rows of a chunk wait until the next one is encrypted: to be stored, and sealed ones to be
/// hashed as well.
#[inline]
#[target_feature(enable = "aes,pclmulqdq,vaes,vpclmulqdq,avx512f,avx512dq,avx512vl,avx512bw,bmi2")]
pub(super) fn chunks<'a, const ROUNDS: usize, const SEAL: bool, const KNOWN: bool>(
    key: &Key,
    counters: Counters,
    strands: Row,
    text: Text<'a>,
) -> (Counters, Row, Text<'a>) {
    let (mut counters, mut strands) = (counters, strands);
    let steps = in_registers(steps());
    let (mut before, mut text) = text.split_at(CHUNK_BYTES);
    let last_key = broadcast(&key.round_keys[ROUNDS]);
    // The first chunk has none before it, to be stored or hashed meanwhile.
    let mut states = begin_by::<ROWS, KNOWN>(key, &mut counters, steps);
    for round_key in &key.round_keys[1..ROUNDS] {
        encrypt_chunk(&mut states, broadcast(round_key));
    }
    let mut rows = rows_of(before);
    if !SEAL {
        strands = hash_chunk(key, strands, &rows);
    }
    for (row, state) in rows.iter_mut().zip(states) {
        *row = encrypt_last(state, add(last_key, *row));
    }
    while text.len() > CHUNK_BYTES {
        let (chunk, rest) = text.split_at(CHUNK_BYTES);
        // Read anew for every chunk: kept, round keys and powers would be spilled.
        let key = black_box(key);
        let mut states = begin_by::<ROWS, KNOWN>(key, &mut counters, steps);
        let mut sum = product_at(key, 0, strands);
        macro_rules! woven_in {
            ($($template:tt)+) => {
                weave!(woven!($($template)+), key, last_key, before, chunk, states, rows, sum,)
            };
        }
        let last = match (ROUNDS, SEAL) {
            (10, true) => woven_in!(seal, 10),
            (12, true) => woven_in!(seal, 12),
            (14, true) => woven_in!(seal, 14),
            (10, false) => woven_in!(open, 10),
            (12, false) => woven_in!(open, 12),
            (14, false) => woven_in!(open, 14),
            _ => unreachable!("AES has no other number of rounds"),
        };
        for (row, state) in rows.iter_mut().zip(states) {
            *row = encrypt_last(state, *row);
        }
        strands = add(reduce(sum), last);
        (before, text) = (chunk, rest);
    }
    for (index, row) in rows.iter().enumerate() {
        store(before, index * ROW_BYTES, *row);
    }
    if SEAL {
        strands = hash_chunk(key, strands, &rows);
    }
    (counters, strands, text)
}
