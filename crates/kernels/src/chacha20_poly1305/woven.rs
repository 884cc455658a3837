//! Room avx2 of chacha20_poly1305: the rounds of a chunk with Poly1305 beside them, woven by hand.
//! Secret-independent.
//!
//! A pair of quarter rounds is five steps of both, their rotation, and both once more; after each
//! of the first three, a quarter of a block of Poly1305. The pairs of diagonals are those whose
//! rows b are from one pair of columns, so that a pair need not wait for the one before it.
#![allow(unsafe_code, reason = "room: doors, loads and stores")]

use core::arch::asm;
use core::mem::offset_of;
use core::ops::Range;
use core::ptr;

use super::DOUBLE_ROUNDS;
use super::avx2::{Avx2Row, Rotations};
use super::chunk::Words;
use super::poly1305::{Poly1305, TAG_BYTES, folded};
use super::rows::Steps;

/// Blocks of Poly1305 that go with a double round.
const BESIDE_ROUND: usize = 3;

/// Blocks behind the last of these; of a whole chunk, while its words go where they belong.
const BEHIND_ROUNDS: usize = 2;

/// Bytes that are absorbed sooner without assembly: what it has in memory is waited for.
const SHORT: Range<usize> = TAG_BYTES..320;

/// How many blocks go with some double rounds.
pub(super) const fn blocks_beside(rounds: usize) -> usize {
    if rounds == 0 { 0 } else { rounds * BESIDE_ROUND + BEHIND_ROUNDS }
}

/// How many double rounds some blocks are enough for.
pub(super) const fn rounds_for(blocks: usize) -> usize {
    blocks.saturating_sub(BEHIND_ROUNDS) / BESIDE_ROUND
}

/// What the assembly has in memory, beside what is spilled: anywhere else it would, in some
/// processes, have the same address in a page, and wait for it.
#[repr(C, align(32))]
pub(super) struct Frame {
    rotations: Rotations,
    /// Two words for which there is no register at times.
    c0: Avx2Row,
    c2: Avx2Row,
    poly: PolyFrame,
    /// Double rounds without blocks beside.
    rounds_alone: usize,
    /// The words before the rounds, which are added behind them.
    pub(super) before: Words<Avx2Row>,
}

impl Frame {
    /// Begins with the words before the rounds.
    #[inline(always)]
    pub(super) fn new(before: Words<Avx2Row>) -> Self {
        Frame {
            rotations: Avx2Row::rotations(),
            c0: before[8],
            c2: before[10],
            poly: PolyFrame { r1: 0, folded: 0, end: ptr::null() },
            rounds_alone: 0,
            before,
        }
    }
}

/// What Poly1305 has in memory, where registers are too few.
#[repr(C)]
struct PolyFrame {
    /// The upper word of r.
    r1: u64,
    /// What r1·2^128 is.
    folded: u64,
    /// Behind the last block of the loop.
    end: *const [u8; TAG_BYTES],
}

impl PolyFrame {
    fn new(poly: &Poly1305, blocks: &[[u8; TAG_BYTES]]) -> Self {
        let [_, r1] = poly.r;
        PolyFrame { r1, folded: folded(r1), end: blocks.as_ptr_range().end }
    }
}

/// An instruction with a register as target and two as sources.
macro_rules! step {
    ($name:literal $target:literal $left:literal $right:literal) => {
        concat!($name, " {", $target, "}, {", $left, "}, {", $right, "}\n")
    };
}

/// A shift of words by a number of bits.
macro_rules! shift {
    ($name:literal $target:literal $source:literal $bits:literal) => {
        concat!($name, " {", $target, "}, {", $source, "}, ", $bits, "\n")
    };
}

/// A half of two quarter rounds up to the rotation of b, with c from `$from` and `$also_from`.
macro_rules! half {
    (
        $order:literal, [$a:literal $b:literal $c:literal $d:literal] $from:expr,
        [$e:literal $f:literal $g:literal $h:literal] $also_from:expr
    ) => {
        concat!(
            step!("vpaddd" $a $a $b),
            step!("vpaddd" $e $e $f),
            step!("vpxor" $d $d $a),
            step!("vpxor" $h $h $e),
            concat!("vpshufb {", $d, "}, {", $d, "}, [{frame} + {", $order, "}]\n"),
            concat!("vpshufb {", $h, "}, {", $h, "}, [{frame} + {", $order, "}]\n"),
            concat!("vpaddd {", $c, "}, {", $d, "}, ", $from, "\n"),
            concat!("vpaddd {", $g, "}, {", $h, "}, ", $also_from, "\n"),
            step!("vpxor" $b $b $c),
            step!("vpxor" $f $f $g),
        )
    };
}

/// A rotation of b by way of a register that is free.
macro_rules! rotate {
    ($b:literal, $free:literal, $left:literal, $right:literal) => {
        concat!(
            shift!("vpslld" $free $b $left),
            shift!("vpsrld" $b $b $right),
            step!("vpor" $b $b $free),
        )
    };
}

/// Two quarter rounds with three quarters of a block beside. `$from` and `$also_from` say where c
/// is before.
macro_rules! pair {
    (
        [$a:literal $b:literal $c:literal $d:literal] from $from:expr,
        [$e:literal $f:literal $g:literal $h:literal] from $also_from:expr,
        by $free:literal, beside $first:expr, $second:expr, $third:expr
    ) => {
        concat!(
            half!("by_16", [$a $b $c $d] $from, [$e $f $g $h] $also_from),
            $first,
            rotate!($b, $free, "12", "20"),
            rotate!($f, $free, "12", "20"),
            $second,
            half!("by_8", [$a $b $c $d] concat!("{", $c, "}"), [$e $f $g $h] concat!("{", $g, "}")),
            $third,
            rotate!($b, $free, "7", "25"),
            rotate!($f, $free, "7", "25"),
        )
    };
}

/// A double round: the columns in two pairs, and the diagonals, with twelve quarters of blocks
/// beside. The words c0 and c2 are in registers by turns.
macro_rules! double_round {
    (
        $first:expr, $second:expr, $third:expr, $fourth:expr, $fifth:expr, $sixth:expr,
        $seventh:expr, $eighth:expr, $ninth:expr, $tenth:expr, $eleventh:expr, $twelfth:expr
    ) => {
        concat!(
            pair! {
                ["a0" "b0" "c0" "d0"] from "{c0}",
                ["a1" "b1" "c1" "d1"] from "{c1}",
                by "c2", beside $first, $second, $third
            },
            "vmovdqa [{frame} + {c0_there}], {c0}\n",
            pair! {
                ["a2" "b2" "c2" "d2"] from "[{frame} + {c2_there}]",
                ["a3" "b3" "c3" "d3"] from "{c3}",
                by "c0", beside $fourth, $fifth, $sixth
            },
            pair! {
                ["a0" "b1" "c2" "d3"] from "{c2}",
                ["a3" "b0" "c1" "d2"] from "{c1}",
                by "c0", beside $seventh, $eighth, $ninth
            },
            "vmovdqa [{frame} + {c2_there}], {c2}\n",
            pair! {
                ["a1" "b2" "c3" "d0"] from "{c3}",
                ["a2" "b3" "c0" "d1"] from "[{frame} + {c0_there}]",
                by "c2", beside $tenth, $eleventh, $twelfth
            },
        )
    };
}

/// First quarter of a block: 2^130 = 5 takes down what h has above, and the block is read.
macro_rules! read {
    ($block:literal) => {
        concat!(
            "shrx {low}, {h2}, {two}\n",
            "lea rdx, [{low} + 4*{low}]\n",
            "and {h2:e}, 3\n",
            concat!("add {h0}, [{next} + 16*", $block, "]\n"),
            concat!("adc {h1}, [{next} + 16*", $block, " + 8]\n"),
            "adc {h2}, 1\n",
        )
    };
}

/// Second quarter: h is there, and its lower word is multiplied.
macro_rules! lower {
    () => {
        concat!(
            "add rdx, {h0}\n",
            "adc {h1}, 0\n",
            "adc {h2}, 0\n",
            "mulx {carry}, {h0}, {r0}\n",
            "mulx {e2}, {e1}, [{frame} + {r1}]\n",
            "mov rdx, {h1}\n",
        )
    };
}

/// Third quarter: what is below 2^64.
macro_rules! middle {
    () => {
        concat!(
            "mulx {high}, {low}, [{frame} + {folded}]\n",
            "mov {h1}, {h2}\n",
            "imul {h1}, [{frame} + {folded}]\n",
            "imul {h2}, {r0}\n",
            "add {h0}, {low}\n",
            "adc {carry}, {high}\n",
        )
    };
}

/// Fourth quarter: the rest. No sum of three leaves its word or its two; see
/// `docs/design/chacha20-poly1305.md`.
macro_rules! upper {
    () => {
        concat!(
            "mulx {high}, {low}, {r0}\n",
            "add {e1}, {low}\n",
            "adc {e2}, {high}\n",
            "lea {h1}, [{h1} + {carry}]\n",
            "add {h1}, {e1}\n",
            "adc {h2}, {e2}\n",
        )
    };
}

/// A block with nothing beside.
macro_rules! block {
    ($block:literal) => {
        concat!(read!($block), lower!(), middle!(), upper!())
    };
}

/// Takes the words before the rounds through all of them, while `poly` takes blocks: three beside
/// each of the first double rounds, and two behind these.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
pub(super) fn rounds_beside(
    frame: &mut Frame,
    poly: &mut Poly1305,
    blocks: &[[u8; TAG_BYTES]],
) -> Words<Avx2Row> {
    let beside_rounds = blocks.len().saturating_sub(BEHIND_ROUNDS);
    let rounds = beside_rounds / BESIDE_ROUND;
    assert_eq!(blocks.len(), blocks_beside(rounds), "blocks for whole rounds");
    frame.poly = PolyFrame::new(poly, &blocks[..beside_rounds]);
    frame.rounds_alone = DOUBLE_ROUNDS.checked_sub(rounds).expect("no more blocks than rounds");
    let mut words = frame.before;
    let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3] = &mut words;
    let [r0, _] = poly.r;
    let [h0, h1, h2] = &mut poly.h;
    // SAFETY: reads the blocks, reads and writes `frame`, and touches no other memory.
    unsafe {
        asm!(
            "cmp {next}, [{frame} + {end}]",
            "je 3f",
            "2:",
            double_round! {
                read!("0"), lower!(), middle!(), upper!(),
                read!("1"), lower!(), middle!(), upper!(),
                read!("2"), lower!(), middle!(), upper!()
            },
            "add {next}, {beside_round}",
            "cmp {next}, [{frame} + {end}]",
            "jne 2b",
            block!("0"),
            block!("1"),
            "3:",
            "cmp qword ptr [{frame} + {rounds_alone}], 0",
            "je 5f",
            "4:",
            double_round! { "", "", "", "", "", "", "", "", "", "", "", "" },
            "dec qword ptr [{frame} + {rounds_alone}]",
            "jne 4b",
            "5:",
            a0 = inout(ymm_reg) a0.0,
            a1 = inout(ymm_reg) a1.0,
            a2 = inout(ymm_reg) a2.0,
            a3 = inout(ymm_reg) a3.0,
            b0 = inout(ymm_reg) b0.0,
            b1 = inout(ymm_reg) b1.0,
            b2 = inout(ymm_reg) b2.0,
            b3 = inout(ymm_reg) b3.0,
            c0 = inout(ymm_reg) c0.0,
            c1 = inout(ymm_reg) c1.0,
            c2 = out(ymm_reg) _,
            c3 = inout(ymm_reg) c3.0,
            d0 = inout(ymm_reg) d0.0,
            d1 = inout(ymm_reg) d1.0,
            d2 = inout(ymm_reg) d2.0,
            d3 = inout(ymm_reg) d3.0,
            h0 = inout(reg) *h0,
            h1 = inout(reg) *h1,
            h2 = inout(reg) *h2,
            r0 = in(reg) r0,
            two = in(reg) 2_u64,
            next = inout(reg) blocks.as_ptr() => _,
            frame = in(reg) &raw mut *frame,
            low = out(reg) _,
            high = out(reg) _,
            out("rdx") _,
            carry = out(reg) _,
            e1 = out(reg) _,
            e2 = out(reg) _,
            rounds_alone = const offset_of!(Frame, rounds_alone),
            beside_round = const BESIDE_ROUND * TAG_BYTES,
            by_16 = const offset_of!(Frame, rotations.by_16),
            by_8 = const offset_of!(Frame, rotations.by_8),
            c0_there = const offset_of!(Frame, c0),
            c2_there = const offset_of!(Frame, c2),
            r1 = const offset_of!(Frame, poly.r1),
            folded = const offset_of!(Frame, poly.folded),
            end = const offset_of!(Frame, poly.end),
            options(nostack),
        );
    }
    *c2 = frame.c2;
    words
}

/// Adds whole blocks.
#[inline]
#[target_feature(enable = "bmi2")]
pub(super) fn absorb_blocks(poly: &mut Poly1305, blocks: &[[u8; TAG_BYTES]]) {
    if blocks.is_empty() {
        return;
    }
    let frame = PolyFrame::new(poly, blocks);
    let [r0, _] = poly.r;
    let [h0, h1, h2] = &mut poly.h;
    // SAFETY: reads the blocks and `frame`, and touches no other memory.
    unsafe {
        asm!(
            "2:",
            block!("0"),
            "add {next}, 16",
            "cmp {next}, [{frame} + {end}]",
            "jne 2b",
            h0 = inout(reg) *h0,
            h1 = inout(reg) *h1,
            h2 = inout(reg) *h2,
            r0 = in(reg) r0,
            two = in(reg) 2_u64,
            next = inout(reg) blocks.as_ptr() => _,
            frame = in(reg) &raw const frame,
            low = out(reg) _,
            high = out(reg) _,
            out("rdx") _,
            carry = out(reg) _,
            e1 = out(reg) _,
            e2 = out(reg) _,
            r1 = const offset_of!(PolyFrame, r1),
            folded = const offset_of!(PolyFrame, folded),
            end = const offset_of!(PolyFrame, end),
            options(nostack, readonly),
        );
    }
}

/// Adds blocks; the last one is filled up with zeros, as the AEAD does.
#[inline]
#[target_feature(enable = "bmi2")]
pub(super) fn absorb_bytes(poly: &mut Poly1305, bytes: &[u8]) {
    if SHORT.contains(&bytes.len()) {
        return poly.absorb(bytes);
    }
    let (blocks, rest) = bytes.as_chunks();
    absorb_blocks(poly, blocks);
    poly.absorb_block(rest);
}
