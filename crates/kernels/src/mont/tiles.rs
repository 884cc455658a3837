//! The tiles of mont: the madd52 work of both rooms, as assembly text for either register width.
//!
//! LLVM spills these kernels when it may allocate registers itself, so every tile names its own. A
//! tile multiplies ten rows by ten columns of digits, 200 multiply-adds. Registers, all tiles:
//!
//! ```text
//!   0 ..  9   the ten row digits (multiplier, or the quotients of a reduction)
//!        10   the column digit, just loaded
//!   11 .. 20  ten columns of the product, a window that slides by one per step and wraps around
//!        21   the column digit of row 9, where it has another one (reductions)
//!        22   scratch of the head of a reduction
//!   23 .. 27  the selection of a power, under a reduction
//!        28   the carry of the last strip of a reduction
//! ```
//!
//! Per column digit: one load, ten low halves, the lowest column of the window is complete and
//! leaves, the next one enters, ten high halves. Ten independent chains of latency 4 keep two ports
//! busy.
#![allow(unsafe_code, reason = "text of rooms: assembly")]

/// Low half of a product, added: `accumulator += lo(a·b)`.
macro_rules! lo {
    ($v:literal, $accumulator:literal, $a:literal, $b:literal) => {
        concat!("vpmadd52luq ", $v, $accumulator, ", ", $v, $a, ", ", $v, $b, "\n")
    };
}

/// High half of a product, added: `accumulator += hi(a·b)`.
macro_rules! hi {
    ($v:literal, $accumulator:literal, $a:literal, $b:literal) => {
        concat!("vpmadd52huq ", $v, $accumulator, ", ", $v, $a, ", ", $v, $b, "\n")
    };
}

/// `register = pointer[index]`.
macro_rules! load {
    ($v:literal, $s:literal, $register:literal, $pointer:literal, $index:literal) => {
        concat!("vmovdqa64 ", $v, $register, ", [{", $pointer, "} + ", $index, "*", $s, "]\n")
    };
}

/// `pointer += count`.
macro_rules! advance {
    ($s:literal, $pointer:literal, $count:literal) => {
        concat!("add {", $pointer, "}, ", $count, "*", $s, "\n")
    };
}

/// `pointer[index] = register`.
macro_rules! store {
    ($v:literal, $s:literal, $register:literal, $pointer:literal, $index:literal) => {
        concat!("vmovdqa64 [{", $pointer, "} + ", $index, "*", $s, "], ", $v, $register, "\n")
    };
}

/// `register = 0`.
macro_rules! zero {
    ($v:literal, $register:literal) => {
        concat!("vpxord ", $v, $register, ", ", $v, $register, ", ", $v, $register, "\n")
    };
}

/// What enters the window: the column that memory has, or a new one.
macro_rules! refill {
    (load, $v:literal, $s:literal, $register:literal, $column:literal) => {
        load!($v, $s, $register, "t", $column)
    };
    (zero, $v:literal, $s:literal, $register:literal, $column:literal) => {
        zero!($v, $register)
    };
}

/// A finished column leaves: as it is, or carried, the rest above 52 bits going on in register 28.
macro_rules! leave {
    (store, $v:literal, $s:literal, $register:literal, $column:literal) => {
        store!($v, $s, $register, "t", $column)
    };
    (carry, $v:literal, $s:literal, $register:literal, $column:literal) => {
        concat!(
            "vpaddq ",
            $v,
            $register,
            ", ",
            $v,
            $register,
            ", ",
            $v,
            "28\n",
            store!($v, $s, $register, "z", $column),
            "vpsrlq ",
            $v,
            "28, ",
            $v,
            $register,
            ", 52\n",
        )
    };
}

/// One column digit against ten rows. The window is listed from its lowest column.
macro_rules! step {
    ($v:literal, $s:literal, $refill:ident, $b9:literal, $leave:ident,
     $leaves:literal, $enters:literal,
     [$c0:literal $c1:literal $c2:literal $c3:literal $c4:literal
      $c5:literal $c6:literal $c7:literal $c8:literal $c9:literal]) => {
        concat!(
            lo!($v, $c0, 0, 10),
            lo!($v, $c1, 1, 10),
            lo!($v, $c2, 2, 10),
            lo!($v, $c3, 3, 10),
            lo!($v, $c4, 4, 10),
            lo!($v, $c5, 5, 10),
            lo!($v, $c6, 6, 10),
            lo!($v, $c7, 7, 10),
            lo!($v, $c8, 8, 10),
            lo!($v, $c9, 9, $b9),
            leave!($leave, $v, $s, $c0, $leaves),
            refill!($refill, $v, $s, $c0, $enters),
            hi!($v, $c1, 0, 10),
            hi!($v, $c2, 1, 10),
            hi!($v, $c3, 2, 10),
            hi!($v, $c4, 3, 10),
            hi!($v, $c5, 4, 10),
            hi!($v, $c6, 5, 10),
            hi!($v, $c7, 6, 10),
            hi!($v, $c8, 7, 10),
            hi!($v, $c9, 8, 10),
            hi!($v, $c0, 9, $b9),
        )
    };
}

/// The column digits of one step: one for all rows, or a second one for row 9.
macro_rules! digit {
    (10, $v:literal, $s:literal, $index:literal) => {
        load!($v, $s, 10, "b", $index)
    };
    (21, $v:literal, $s:literal, $index:literal) => {
        concat!(load!($v, $s, 10, "b", $index), load!($v, $s, 21, "b9", $index))
    };
}

/// Ten column digits against ten rows. Afterwards the window has slid by ten and is where it was.
macro_rules! tile {
    ($v:literal, $s:literal, $refill:ident, $b9:tt, $leave:ident, $lookup:ident) => {
        concat!(
            digit!($b9, $v, $s, 0),
            step!($v, $s, $refill, $b9, $leave, 0, 10, [11 12 13 14 15 16 17 18 19 20]),
            lookup!($lookup, $v, $s, 0),
            digit!($b9, $v, $s, 1),
            step!($v, $s, $refill, $b9, $leave, 1, 11, [12 13 14 15 16 17 18 19 20 11]),
            lookup!($lookup, $v, $s, 1),
            digit!($b9, $v, $s, 2),
            step!($v, $s, $refill, $b9, $leave, 2, 12, [13 14 15 16 17 18 19 20 11 12]),
            lookup!($lookup, $v, $s, 2),
            digit!($b9, $v, $s, 3),
            step!($v, $s, $refill, $b9, $leave, 3, 13, [14 15 16 17 18 19 20 11 12 13]),
            lookup!($lookup, $v, $s, 3),
            digit!($b9, $v, $s, 4),
            step!($v, $s, $refill, $b9, $leave, 4, 14, [15 16 17 18 19 20 11 12 13 14]),
            lookup!($lookup, $v, $s, 4),
            digit!($b9, $v, $s, 5),
            step!($v, $s, $refill, $b9, $leave, 5, 15, [16 17 18 19 20 11 12 13 14 15]),
            lookup!($lookup, $v, $s, 5),
            digit!($b9, $v, $s, 6),
            step!($v, $s, $refill, $b9, $leave, 6, 16, [17 18 19 20 11 12 13 14 15 16]),
            lookup!($lookup, $v, $s, 6),
            digit!($b9, $v, $s, 7),
            step!($v, $s, $refill, $b9, $leave, 7, 17, [18 19 20 11 12 13 14 15 16 17]),
            lookup!($lookup, $v, $s, 7),
            digit!($b9, $v, $s, 8),
            step!($v, $s, $refill, $b9, $leave, 8, 18, [19 20 11 12 13 14 15 16 17 18]),
            lookup!($lookup, $v, $s, 8),
            digit!($b9, $v, $s, 9),
            step!($v, $s, $refill, $b9, $leave, 9, 19, [20 11 12 13 14 15 16 17 18 19]),
            lookup!($lookup, $v, $s, 9),
        )
    };
}

/// Row digits 0 to 9.
macro_rules! rows {
    ($v:literal, $s:literal, $pointer:literal) => {
        concat!(
            load!($v, $s, 0, $pointer, 0),
            load!($v, $s, 1, $pointer, 1),
            load!($v, $s, 2, $pointer, 2),
            load!($v, $s, 3, $pointer, 3),
            load!($v, $s, 4, $pointer, 4),
            load!($v, $s, 5, $pointer, 5),
            load!($v, $s, 6, $pointer, 6),
            load!($v, $s, 7, $pointer, 7),
            load!($v, $s, 8, $pointer, 8),
            load!($v, $s, 9, $pointer, 9),
        )
    };
}

/// The ten columns of the window, from memory or zero.
macro_rules! window {
    ($v:literal, $s:literal, $refill:ident) => {
        concat!(
            refill!($refill, $v, $s, 11, 0),
            refill!($refill, $v, $s, 12, 1),
            refill!($refill, $v, $s, 13, 2),
            refill!($refill, $v, $s, 14, 3),
            refill!($refill, $v, $s, 15, 4),
            refill!($refill, $v, $s, 16, 5),
            refill!($refill, $v, $s, 17, 6),
            refill!($refill, $v, $s, 18, 7),
            refill!($refill, $v, $s, 19, 8),
            refill!($refill, $v, $s, 20, 9),
        )
    };
}

/// The lowest nine columns of the window leave.
macro_rules! leave_nine {
    ($leave:ident, $v:literal, $s:literal) => {
        concat!(
            leave!($leave, $v, $s, 11, 0),
            leave!($leave, $v, $s, 12, 1),
            leave!($leave, $v, $s, 13, 2),
            leave!($leave, $v, $s, 14, 3),
            leave!($leave, $v, $s, 15, 4),
            leave!($leave, $v, $s, 16, 5),
            leave!($leave, $v, $s, 17, 6),
            leave!($leave, $v, $s, 18, 7),
            leave!($leave, $v, $s, 19, 8),
        )
    };
}

/// One row digit by several others, both halves: `(column digit, column of lo, column of hi)`.
macro_rules! row {
    ($v:literal, $a:literal, $(($b:literal $low:literal $high:literal))*) => {
        concat!($(lo!($v, $low, $a, $b), hi!($v, $high, $a, $b),)*)
    };
}

/// One row of the head of a reduction. Its quotient is column `q` as it stands, because the
/// multiple of the modulus in `b` is −1 modulo 2^52; what the column carries goes on to the next
/// one.
///
/// Columns 0 to 20 live in the registers of the same number.
macro_rules! head_row {
    ($v:literal, $s:literal, $q:literal, $next:literal,
     $(($index:literal $low:literal $high:literal))*) => {
        concat!(
            "vpsrlq ", $v, "22, ", $v, $q, ", 52\n",
            "vpaddq ", $v, $next, ", ", $v, $next, ", ", $v, "22\n",
            $(
                load!($v, $s, 21, "b", $index),
                lo!($v, $low, $q, 21),
                hi!($v, $high, $q, 21),
            )*
        )
    };
}

/// The last row of the head, with the modulus itself instead of its multiple: this is what keeps
/// the result of a reduction below 3·m.
macro_rules! head_last_row {
    ($v:literal, $s:literal, $(($index:literal $low:literal $high:literal))*) => {
        concat!(
            zero!($v, 22),
            "vpmadd52luq ", $v, "22, ", $v, "9, [{k} + ", $s, "]\n",
            "vpmadd52luq ", $v, "9, ", $v, "22, [{k}]\n",
            "vpmadd52huq ", $v, "10, ", $v, "22, [{k}]\n",
            "vpsrlq ", $v, "9, ", $v, "9, 52\n",
            "vpaddq ", $v, "10, ", $v, "10, ", $v, "9\n",
            "vmovdqa64 ", $v, "9, ", $v, "22\n",
            $(
                load!($v, $s, 21, "b9", $index),
                lo!($v, $low, 9, 21),
                hi!($v, $high, 9, 21),
            )*
        )
    };
}

/// The head of a strip of reduction: ten rows by the ten lowest columns, finding the quotients.
macro_rules! head {
    ($v:literal, $s:literal, $lookup:ident) => {
        concat!(
            rows!($v, $s, "t"),
            load!($v, $s, 10, "t", 10),
            load!($v, $s, 11, "t", 11),
            load!($v, $s, 12, "t", 12),
            load!($v, $s, 13, "t", 13),
            load!($v, $s, 14, "t", 14),
            load!($v, $s, 15, "t", 15),
            load!($v, $s, 16, "t", 16),
            load!($v, $s, 17, "t", 17),
            load!($v, $s, 18, "t", 18),
            load!($v, $s, 19, "t", 19),
            load!($v, $s, 20, "t", 20),
            head_row!($v, $s, 0, 1,
                (0 1 2) (1 2 3) (2 3 4) (3 4 5) (4 5 6)
                (5 6 7) (6 7 8) (7 8 9) (8 9 10) (9 10 11)),
            lookup!($lookup, $v, $s, 0),
            head_row!($v, $s, 1, 2,
                (0 2 3) (1 3 4) (2 4 5) (3 5 6) (4 6 7)
                (5 7 8) (6 8 9) (7 9 10) (8 10 11) (9 11 12)),
            lookup!($lookup, $v, $s, 1),
            head_row!($v, $s, 2, 3,
                (0 3 4) (1 4 5) (2 5 6) (3 6 7) (4 7 8)
                (5 8 9) (6 9 10) (7 10 11) (8 11 12) (9 12 13)),
            lookup!($lookup, $v, $s, 2),
            head_row!($v, $s, 3, 4,
                (0 4 5) (1 5 6) (2 6 7) (3 7 8) (4 8 9)
                (5 9 10) (6 10 11) (7 11 12) (8 12 13) (9 13 14)),
            lookup!($lookup, $v, $s, 3),
            head_row!($v, $s, 4, 5,
                (0 5 6) (1 6 7) (2 7 8) (3 8 9) (4 9 10)
                (5 10 11) (6 11 12) (7 12 13) (8 13 14) (9 14 15)),
            lookup!($lookup, $v, $s, 4),
            head_row!($v, $s, 5, 6,
                (0 6 7) (1 7 8) (2 8 9) (3 9 10) (4 10 11)
                (5 11 12) (6 12 13) (7 13 14) (8 14 15) (9 15 16)),
            lookup!($lookup, $v, $s, 5),
            head_row!($v, $s, 6, 7,
                (0 7 8) (1 8 9) (2 9 10) (3 10 11) (4 11 12)
                (5 12 13) (6 13 14) (7 14 15) (8 15 16) (9 16 17)),
            lookup!($lookup, $v, $s, 6),
            head_row!($v, $s, 7, 8,
                (0 8 9) (1 9 10) (2 10 11) (3 11 12) (4 12 13)
                (5 13 14) (6 14 15) (7 15 16) (8 16 17) (9 17 18)),
            lookup!($lookup, $v, $s, 7),
            head_row!($v, $s, 8, 9,
                (0 9 10) (1 10 11) (2 11 12) (3 12 13) (4 13 14)
                (5 14 15) (6 15 16) (7 16 17) (8 17 18) (9 18 19)),
            lookup!($lookup, $v, $s, 8),
            head_last_row!($v, $s,
                (0 10 11) (1 11 12) (2 12 13) (3 13 14) (4 14 15)
                (5 15 16) (6 16 17) (7 17 18) (8 18 19) (9 19 20)),
            lookup!($lookup, $v, $s, 9),
        )
    };
}

/// Off-diagonal products of ten digits with themselves; column c lives in register 10 + c.
macro_rules! triangle {
    ($v:literal) => {
        concat!(
            row!($v, 0,
                (1 11 12) (2 12 13) (3 13 14) (4 14 15) (5 15 16)
                (6 16 17) (7 17 18) (8 18 19) (9 19 20)),
            row!($v, 1,
                (2 13 14) (3 14 15) (4 15 16) (5 16 17) (6 17 18)
                (7 18 19) (8 19 20) (9 20 21)),
            row!($v, 2, (3 15 16) (4 16 17) (5 17 18) (6 18 19) (7 19 20) (8 20 21) (9 21 22)),
            row!($v, 3, (4 17 18) (5 18 19) (6 19 20) (7 20 21) (8 21 22) (9 22 23)),
            row!($v, 4, (5 19 20) (6 20 21) (7 21 22) (8 22 23) (9 23 24)),
            row!($v, 5, (6 21 22) (7 22 23) (8 23 24) (9 24 25)),
            row!($v, 6, (7 23 24) (8 24 25) (9 25 26)),
            row!($v, 7, (8 25 26) (9 26 27)),
            row!($v, 8, (9 27 28)),
        )
    };
}

/// Doubles a column of a square and adds half of the square of one digit.
macro_rules! doubled {
    ($v:literal, $s:literal, $half:ident, $register:literal, $a:literal, $column:literal) => {
        concat!(
            "vpaddq ",
            $v,
            $register,
            ", ",
            $v,
            $register,
            ", ",
            $v,
            $register,
            "\n",
            $half!($v, $register, $a, $a),
            store!($v, $s, $register, "t", $column),
        )
    };
}

/// Ten digits squared on top of the columns that other digits left: twice those, plus the squares.
macro_rules! diagonal {
    ($v:literal, $s:literal) => {
        concat!(
            rows!($v, $s, "a"),
            load!($v, $s, 10, "low", 0),
            load!($v, $s, 11, "low", 1),
            load!($v, $s, 12, "low", 2),
            load!($v, $s, 13, "low", 3),
            load!($v, $s, 14, "low", 4),
            load!($v, $s, 15, "low", 5),
            load!($v, $s, 16, "low", 6),
            load!($v, $s, 17, "low", 7),
            load!($v, $s, 18, "low", 8),
            load!($v, $s, 19, "low", 9),
            load!($v, $s, 20, "high", 0),
            load!($v, $s, 21, "high", 1),
            load!($v, $s, 22, "high", 2),
            load!($v, $s, 23, "high", 3),
            load!($v, $s, 24, "high", 4),
            load!($v, $s, 25, "high", 5),
            load!($v, $s, 26, "high", 6),
            load!($v, $s, 27, "high", 7),
            load!($v, $s, 28, "high", 8),
            load!($v, $s, 29, "high", 9),
            triangle!($v),
            doubled!($v, $s, lo, 10, 0, 0),
            doubled!($v, $s, hi, 11, 0, 1),
            doubled!($v, $s, lo, 12, 1, 2),
            doubled!($v, $s, hi, 13, 1, 3),
            doubled!($v, $s, lo, 14, 2, 4),
            doubled!($v, $s, hi, 15, 2, 5),
            doubled!($v, $s, lo, 16, 3, 6),
            doubled!($v, $s, hi, 17, 3, 7),
            doubled!($v, $s, lo, 18, 4, 8),
            doubled!($v, $s, hi, 19, 4, 9),
            doubled!($v, $s, lo, 20, 5, 10),
            doubled!($v, $s, hi, 21, 5, 11),
            doubled!($v, $s, lo, 22, 6, 12),
            doubled!($v, $s, hi, 23, 6, 13),
            doubled!($v, $s, lo, 24, 7, 14),
            doubled!($v, $s, hi, 25, 7, 15),
            doubled!($v, $s, lo, 26, 8, 16),
            doubled!($v, $s, hi, 27, 8, 17),
            doubled!($v, $s, lo, 28, 9, 18),
            doubled!($v, $s, hi, 29, 9, 19),
        )
    };
}

/// One level of a selection: `target = other` in the lanes whose index has the bit of the mask.
macro_rules! choose {
    ($v:literal, $mask:literal, $target:literal, $other:literal) => {
        concat!("vmovdqa64 ", $v, $target, "{{k", $mask, "}}, ", $v, $other, "\n")
    };
}

/// `register = entry[index]` in the lanes whose index has bit 0.
macro_rules! load_odd {
    ($v:literal, $s:literal, $register:literal, $index:literal) => {
        concat!("vmovdqa64 ", $v, $register, "{{k1}}, [{entry} + ", $index, "*", $s, "]\n")
    };
}

/// Four entries of the table, one of which is taken by the two lowest bits of the index.
macro_rules! four {
    ($v:literal, $s:literal, $target:literal, $other:literal,
     $e0:literal $e1:literal $e2:literal $e3:literal) => {
        concat!(
            load!($v, $s, $target, "entry", $e0),
            load_odd!($v, $s, $target, $e1),
            load!($v, $s, $other, "entry", $e2),
            load_odd!($v, $s, $other, $e3),
            choose!($v, 2, $target, $other),
        )
    };
}

/// The selection of one digit of the table in nine parts, to be spread under the multiplications.
/// All 32 entries are read, and the five bits of the index in k1 to k5 take one. Registers
/// 23 to 27.
macro_rules! lookup {
    (none, $v:literal, $s:literal, $part:tt) => {
        ""
    };
    (one, $v:literal, $s:literal, 0) => {
        four!($v, $s, 23, 24, 0 1 2 3)
    };
    (one, $v:literal, $s:literal, 1) => {
        concat!(four!($v, $s, 24, 25, 4 5 6 7), choose!($v, 3, 23, 24))
    };
    (one, $v:literal, $s:literal, 2) => {
        four!($v, $s, 24, 25, 8 9 10 11)
    };
    (one, $v:literal, $s:literal, 3) => {
        concat!(
            four!($v, $s, 25, 26, 12 13 14 15),
            choose!($v, 3, 24, 25),
            choose!($v, 4, 23, 24),
        )
    };
    (one, $v:literal, $s:literal, 4) => {
        four!($v, $s, 24, 25, 16 17 18 19)
    };
    (one, $v:literal, $s:literal, 5) => {
        concat!(four!($v, $s, 25, 26, 20 21 22 23), choose!($v, 3, 24, 25))
    };
    (one, $v:literal, $s:literal, 6) => {
        four!($v, $s, 25, 26, 24 25 26 27)
    };
    (one, $v:literal, $s:literal, 7) => {
        concat!(
            four!($v, $s, 26, 27, 28 29 30 31),
            choose!($v, 3, 25, 26),
            choose!($v, 4, 24, 25),
            choose!($v, 5, 23, 24),
        )
    };
    (one, $v:literal, $s:literal, 8) => {
        store!($v, $s, 23, "entry_out", 0)
    };
    (one, $v:literal, $s:literal, 9) => {
        concat!(advance!($s, "entry", 32), advance!($s, "entry_out", 1))
    };
}

/// The five bits of each lane's index to the mask registers, by way of the sign.
macro_rules! index_masks {
    ($v:literal) => {
        concat!(
            concat!("vmovdqu64 ", $v, "0, [{index}]\n"),
            index_bit!($v, 63, 1),
            index_bit!($v, 62, 2),
            index_bit!($v, 61, 3),
            index_bit!($v, 60, 4),
            index_bit!($v, 59, 5),
        )
    };
}

/// One bit of the index.
macro_rules! index_bit {
    ($v:literal, $shift:literal, $mask:literal) => {
        concat!("vpsllq ", $v, "1, ", $v, "0, ", $shift, "\nvpmovq2m k", $mask, ", ", $v, "1\n")
    };
}

/// Moves on past columns that left: in the product, and in the digits if they were carried.
macro_rules! advance_left {
    (store, $s:literal, $count:literal) => {
        advance!($s, "t", $count)
    };
    (carry, $s:literal, $count:literal) => {
        concat!(advance!($s, "t", $count), advance!($s, "z", $count))
    };
}

/// A strip of a reduction: the head, then the other tiles with its quotients.
macro_rules! reduction_strip {
    ($v:literal, $s:literal, $leave:ident, $lookup:ident) => {
        concat!(
            zero!($v, 28),
            head!($v, $s, $lookup),
            advance!($s, "t", 10),
            leave!($leave, $v, $s, 10, 0),
            advance_left!($leave, $s, 1),
            "2:\n",
            advance!($s, "b", 10),
            advance!($s, "b9", 10),
            tile!($v, $s, load, 21, $leave, $lookup),
            advance_left!($leave, $s, 10),
            "dec {tiles}\n",
            "jnz 2b\n",
            leave_nine!($leave, $v, $s),
        )
    };
}

/// Implements one of the four strips of reduction: storing or carrying, selecting or not.
macro_rules! reduction_strip_body {
    ($name:ident, $strip:ident, [$($text:expr),*], $($operand:tt)*) => {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
        #[inline(never)]
        unsafe fn $name($strip: &Strip) {
            // SAFETY: the caller vouches for the lengths; all registers used are declared.
            unsafe {
                vector_asm!(
                    [$($text),*],
                    t = inout(reg) $strip.t => _,
                    b = inout(reg) $strip.m1 => _,
                    b9 = inout(reg) $strip.m_above => _,
                    k = in(reg) $strip.m0_k0,
                    tiles = inout(reg) $strip.tiles - 1 => _,
                    $($operand)*
                );
            }
        }
    };
}

/// An asm block that may use every vector and mask register and touches no stack.
///
/// It leaves no upper half behind: code for any x86-64 follows, and on Intel's cores its first
/// 128-bit instruction would wait until everything before it has retired.
macro_rules! vector_asm {
    ([$($text:expr),* $(,)?], $($operand:tt)*) => {
        asm!(
            $($text,)*
            "vzeroupper",
            $($operand)*
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            out("k1") _, out("k2") _, out("k3") _, out("k4") _, out("k5") _,
            options(nostack),
        )
    };
}

/// Implements the operations of a room: `$v` names its registers, `$s` is the size of one in bytes.
macro_rules! arithmetic {
    ($token:ident, $lanes:literal, $v:literal, $s:literal) => {
        impl Arithmetic<$lanes> for $token {
            fn multiply<const D: usize>(
                self,
                product: &mut Product<D, $lanes>,
                x: &LaneDigits<D, $lanes>,
                y: &LaneDigits<D, $lanes>,
            ) {
                const { assert!(is_size(D)) };
                let (t, x, y) = (columns(product), x.0.as_ptr(), y.0.as_ptr());
                // SAFETY: the token proves the instructions; `first_strip_body` reads ten digits of
                // x and D of y, and writes columns 0 to D + 10 of 2·D.
                unsafe { first_strip_body(t, x, y, D / 10) };
                for strip in (10..D).step_by(10) {
                    // SAFETY: as above; columns strip to strip + D + 10, of which the strip before
                    // has written all but the last ten.
                    unsafe { strip_body(t.wrapping_add(strip), x.wrapping_add(strip), y, D / 10) };
                }
            }

            fn square<const D: usize>(
                self,
                product: &mut Product<D, $lanes>,
                x: &LaneDigits<D, $lanes>,
            ) {
                const { assert!(is_size(D)) };
                let (t, x) = (columns(product), x.0.as_ptr());
                // Every ten digits by all that are above them …
                // SAFETY: the token proves the instructions; reads D digits of x, and writes
                // columns 10 to D + 10 of 2·D.
                unsafe {
                    first_strip_body(t.wrapping_add(10), x, x.wrapping_add(10), D / 10 - 1);
                }
                for strip in (10..D - 10).step_by(10) {
                    let above = x.wrapping_add(strip + 10);
                    let t = t.wrapping_add(2 * strip + 10);
                    // SAFETY: as above; writes columns 2·strip + 10 to strip + D + 10, of which the
                    // strip before has written all but the last ten.
                    unsafe {
                        strip_body(t, x.wrapping_add(strip), above, (D - strip) / 10 - 1);
                    }
                }
                // … twice, and by themselves. The ten columns at either end are still empty.
                for strip in (0..D).step_by(10) {
                    let t = t.wrapping_add(2 * strip);
                    let low = if strip == 0 { ZEROS.0.as_ptr() } else { t };
                    let high = if strip + 10 == D { ZEROS.0.as_ptr() } else { t.wrapping_add(10) };
                    // SAFETY: as above; twenty columns of 2·D from 2·strip on.
                    unsafe { diagonal_body(t, low, high, x.wrapping_add(strip)) };
                }
            }

            fn reduce<const D: usize>(
                self,
                z: &mut LaneDigits<D, $lanes>,
                product: &mut Product<D, $lanes>,
                modulus: &LaneModulus<D, $lanes>,
                mut lookup: Option<&mut Lookup<'_, D, $lanes>>,
            ) {
                const { assert!(is_size(D)) };
                let mut strip = Strip {
                    t: columns(product),
                    m1: modulus.m1.0.as_ptr(),
                    m_above: modulus.m_above.0.as_ptr(),
                    m0_k0: modulus.m0_k0.0.as_ptr(),
                    tiles: D / 10,
                    z: z.0.as_mut_ptr(),
                    index: ptr::null(),
                    entry: ptr::null(),
                    entry_out: ptr::null_mut(),
                };
                for first_column in (0..D).step_by(10) {
                    let last = first_column + 10 == D;
                    let selecting = match lookup.as_deref_mut() {
                        Some(lookup) if lookup.digits_done + D / 10 <= D => {
                            strip.index = &lookup.index;
                            strip.entry = lookup.table.0[lookup.digits_done..].as_ptr().cast();
                            strip.entry_out = lookup.target.0[lookup.digits_done..].as_mut_ptr();
                            lookup.digits_done += D / 10;
                            true
                        }
                        _ => false,
                    };
                    // SAFETY: the token proves the instructions. From `first_column` on, D + 11
                    // columns of 2·D + 2 are touched, D digits of both forms of the modulus, m0 and
                    // k0; the last strip writes D digits of z. A selecting strip touches D/10
                    // digits of table and target, and as many are left: checked above.
                    unsafe {
                        match (last, selecting) {
                            (false, false) => reduction_strip_body(&strip),
                            (false, true) => selecting_reduction_strip_body(&strip),
                            (true, false) => last_reduction_strip_body(&strip),
                            (true, true) => last_selecting_reduction_strip_body(&strip),
                        }
                    }
                    strip.t = strip.t.wrapping_add(10);
                }
            }

            fn finish<const D: usize>(self, lookup: &mut Lookup<'_, D, $lanes>) {
                let digits = D - lookup.digits_done;
                if digits > 0 {
                    let entry = lookup.table.0[lookup.digits_done..].as_ptr().cast();
                    let entry_out = lookup.target.0[lookup.digits_done..].as_mut_ptr();
                    // SAFETY: the token proves the instructions; table and target have D digits.
                    unsafe { select_body(&lookup.index, entry, entry_out, digits) };
                    lookup.digits_done = D;
                }
            }

            fn wipe_registers(self) {
                // SAFETY: the token proves AVX-512.
                unsafe { wipe_vector_registers() };
            }
        }

        /// One digit of all lanes.
        type Row = [u64; $lanes];

        /// Columns to which nothing has come yet.
        static ZEROS: LaneDigits<10, $lanes> = LaneDigits::ZERO;

        fn columns<const D: usize>(product: &mut Product<D, $lanes>) -> *mut Row {
            (&raw mut *product).cast()
        }

        /// Computes t = a·b for ten digits of a and 10·tiles of b.
        ///
        /// Lanes:    digit i of job j is `a[i][j]`; radix 2^52.
        /// Ensures:  10·tiles + 10 columns of t, none above 20·2^52.
        /// Secrets:  a, b. Branches and addresses depend on none.
        /// Cost:     200·tiles madd52.
        /// Source:   schoolbook columns; bounds derived in docs/design/radix52.md.
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
        #[inline(never)]
        unsafe fn first_strip_body(t: *mut Row, a: *const Row, b: *const Row, tiles: usize) {
            // SAFETY: the caller vouches for the lengths; all registers used are declared.
            unsafe {
                vector_asm!(
                    [
                        rows!($v, $s, "a"),
                        window!($v, $s, zero),
                        "2:",
                        tile!($v, $s, zero, 10, store, none),
                        advance!($s, "b", 10),
                        advance!($s, "t", 10),
                        "dec {tiles}",
                        "jnz 2b",
                        leave_nine!(store, $v, $s),
                        store!($v, $s, 20, "t", 9),
                    ],
                    t = inout(reg) t => _,
                    a = in(reg) a,
                    b = inout(reg) b => _,
                    tiles = inout(reg) tiles => _,
                );
            }
        }

        /// Computes t += a·b for ten digits of a and 10·tiles of b; the ten columns on top are new.
        ///
        /// Lanes:    digit i of job j is `a[i][j]`; radix 2^52.
        /// Requires: 10·tiles columns of t, none above 2^62.
        /// Ensures:  10·tiles + 10 columns of t, each 20·2^52 larger at most.
        /// Secrets:  a, b, t. Branches and addresses depend on none.
        /// Cost:     200·tiles madd52.
        /// Source:   schoolbook columns; bounds derived in docs/design/radix52.md.
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
        #[inline(never)]
        unsafe fn strip_body(t: *mut Row, a: *const Row, b: *const Row, tiles: usize) {
            // SAFETY: the caller vouches for the lengths; all registers used are declared.
            unsafe {
                vector_asm!(
                    [
                        rows!($v, $s, "a"),
                        window!($v, $s, load),
                        "dec {tiles}",
                        "jz 3f",
                        "2:",
                        tile!($v, $s, load, 10, store, none),
                        advance!($s, "b", 10),
                        advance!($s, "t", 10),
                        "dec {tiles}",
                        "jnz 2b",
                        "3:",
                        tile!($v, $s, zero, 10, store, none),
                        advance!($s, "t", 10),
                        leave_nine!(store, $v, $s),
                        store!($v, $s, 20, "t", 9),
                    ],
                    t = inout(reg) t => _,
                    a = in(reg) a,
                    b = inout(reg) b => _,
                    tiles = inout(reg) tiles => _,
                );
            }
        }

        /// Computes t = 2·(low + 2^520·high) + a² for ten digits of a.
        ///
        /// Lanes:    digit i of job j is `a[i][j]`; radix 2^52.
        /// Requires: ten columns of low and ten of high, none above 2^60.
        /// Ensures:  twenty columns of t.
        /// Secrets:  a, low, high. Branches and addresses depend on none.
        /// Cost:     110 madd52.
        /// Source: each product of two digits once, then doubled; bounds in docs/design/radix52.md.
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
        #[inline(never)]
        unsafe fn diagonal_body(
            t: *mut Row,
            low: *const Row,
            high: *const Row,
            a: *const Row,
        ) {
            // SAFETY: the caller vouches for the lengths; all registers used are declared.
            unsafe {
                vector_asm!(
                    [diagonal!($v, $s)],
                    t = in(reg) t,
                    low = in(reg) low,
                    high = in(reg) high,
                    a = in(reg) a,
                );
            }
        }

        /// A strip of reduction: it makes the ten lowest columns of t multiples of 2^520 by adding
        /// multiples of the modulus.
        ///
        /// Lanes:    column i of job j is `t[i][j]`; radix 2^52; D = 10·tiles.
        /// Requires: m0_k0 = m mod 2^52 and −1/m mod 2^52; m1 = (m·k0 + 1)/2^52; m_above =
        ///           ⌊m/2^52⌋; D + 10 columns of t, none above 2^62.
        /// Ensures:  columns 10 to D + 10 of t hold (t + x·m)/2^520 for an x that makes it whole;
        ///           the ten below are spent.
        /// Secrets:  t, m. Branches and addresses depend on none.
        /// Cost:     20·D + 3 madd52.
        /// Source:   Montgomery 1985, with quotients free of multiplications (Orup 1995) in nine
        ///           rows of ten; bounds derived in docs/design/radix52.md.
        struct Strip {
            t: *mut Row,
            m1: *const Row,
            m_above: *const Row,
            m0_k0: *const Row,
            tiles: usize,
            /// Where the last strip writes its columns, carried into digits.
            z: *mut Row,
            /// What a selecting strip does besides: one digit of the table per tile.
            index: *const Row,
            entry: *const Row,
            entry_out: *mut Row,
        }

        reduction_strip_body!(
            reduction_strip_body, strip, [reduction_strip!($v, $s, store, none)],
        );

        reduction_strip_body!(
            last_reduction_strip_body, strip, [reduction_strip!($v, $s, carry, none)],
            z = inout(reg) strip.z => _,
        );

        reduction_strip_body!(
            selecting_reduction_strip_body, strip,
            [index_masks!($v), reduction_strip!($v, $s, store, one)],
            index = in(reg) strip.index,
            entry = inout(reg) strip.entry => _,
            entry_out = inout(reg) strip.entry_out => _,
        );

        reduction_strip_body!(
            last_selecting_reduction_strip_body, strip,
            [index_masks!($v), reduction_strip!($v, $s, carry, one)],
            z = inout(reg) strip.z => _,
            index = in(reg) strip.index,
            entry = inout(reg) strip.entry => _,
            entry_out = inout(reg) strip.entry_out => _,
        );

        /// Selects `digits` digits of the table.
        ///
        /// Secrets:  table, index. All entries are read; branches and addresses depend on neither.
        /// Cost:     32·digits loads, 31·digits masked moves.
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512ifma")]
        #[inline(never)]
        unsafe fn select_body(
            index: &Row,
            entry: *const Row,
            entry_out: *mut Row,
            digits: usize,
        ) {
            // SAFETY: the caller vouches for the lengths; all registers used are declared.
            unsafe {
                vector_asm!(
                    [
                        index_masks!($v),
                        "2:",
                        lookup!(one, $v, $s, 0),
                        lookup!(one, $v, $s, 1),
                        lookup!(one, $v, $s, 2),
                        lookup!(one, $v, $s, 3),
                        lookup!(one, $v, $s, 4),
                        lookup!(one, $v, $s, 5),
                        lookup!(one, $v, $s, 6),
                        lookup!(one, $v, $s, 7),
                        lookup!(one, $v, $s, 8),
                        lookup!(one, $v, $s, 9),
                        "dec {digits}",
                        "jnz 2b",
                    ],
                    index = in(reg) index,
                    entry = inout(reg) entry => _,
                    entry_out = inout(reg) entry_out => _,
                    digits = inout(reg) digits => _,
                );
            }
        }
    };
}
