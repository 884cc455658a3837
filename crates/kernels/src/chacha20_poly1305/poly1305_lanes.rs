//! Poly1305 with VPMADD52: one block in each lane. Secret-independent.
//!
//! Numbers have limbs of 44, 44 and 42 bits, carried with one bit to spare. A product is nine pairs
//! of multiply-adds; the upper half of each has weight 2^52 = 2^8·2^44 and goes one limb up. What
//! lies above 2^130 comes back five times.
#![allow(unsafe_code, reason = "text of rooms: loads, and multiply-adds in assembly")]

use super::{Poly1305, TAG_BYTES, rows};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

const LOW: u64 = (1 << 44) - 1;
const TOP: u64 = (1 << 42) - 1;

/// The limbs of a number in each lane.
pub(super) type Limbs<L> = [L; 3];

/// Registers that take a row of blocks, one in each lane.
pub(super) trait BlockLanes: Lanes {
    /// Which block of a row each lane takes.
    const BLOCKS: &[u8];
    /// The bytes of a row.
    type RowBytes: Copy;

    /// The whole rows of some bytes.
    fn rows(bytes: &[u8]) -> &[Self::RowBytes];

    /// The lower and the upper words of the blocks of a row.
    fn split(room: Self::Room, row: &Self::RowBytes) -> (Self, Self);

    /// The lower and the upper words of a row that ends with some blocks and has nothing before.
    fn split_end(room: Self::Room, blocks: &[u8]) -> (Self, Self);

    /// [`Lanes::madd52lo`] with a limb that stays in memory.
    fn madd52lo_from<const LIMB: usize>(self, a: Self, factor: &Factor<Self>) -> Self;

    /// [`Lanes::madd52hi`] with a limb that stays in memory.
    fn madd52hi_from<const LIMB: usize>(self, a: Self, factor: &Factor<Self>) -> Self;
}

/// From this many blocks on, lanes are quicker than scalar products, their powers included.
const BLOCKS_MIN: usize = 24;

/// A sum on its way, one in each lane. A group is two rows, which share the carries of a product;
/// lane by lane blocks follow by steps of r^`LANES`, and the lanes come together in the end.
pub(super) struct Running<L: BlockLanes> {
    /// What was absorbed before, still outside of the lanes.
    before: [u64; 3],
    sum: Limbs<L>,
    /// r^`LANES`.
    row: Factor<L>,
    /// r^(2·`LANES`).
    group: Factor<L>,
    /// r^`LANES` for the first block of a row, down to r^1 for the last one.
    powers: Limbs<L>,
}

/// Limbs of a factor.
pub(super) const FACTOR_LIMBS: usize = 5;

/// A number to multiply by: its limbs, and 20 times those above the lowest, since 2^132 = 20.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Factor<L>([L; FACTOR_LIMBS]);

/// Where a multiplication finds the limbs of a factor.
trait Limb<L> {
    /// Adds the lower half of a product with limb `LIMB`.
    fn low<const LIMB: usize>(&self, sum: L, a: L) -> L;
    /// Adds the upper half.
    fn high<const LIMB: usize>(&self, sum: L, a: L) -> L;
}

/// In registers.
impl<L: Lanes> Limb<L> for Factor<L> {
    #[inline(always)]
    fn low<const LIMB: usize>(&self, sum: L, a: L) -> L {
        sum.madd52lo(a, self.0[LIMB])
    }

    #[inline(always)]
    fn high<const LIMB: usize>(&self, sum: L, a: L) -> L {
        sum.madd52hi(a, self.0[LIMB])
    }
}

/// A factor that stays in memory, and leaves the registers to a cipher.
struct Stored<'a, L>(&'a Factor<L>);

impl<L: BlockLanes> Limb<L> for Stored<'_, L> {
    #[inline(always)]
    fn low<const LIMB: usize>(&self, sum: L, a: L) -> L {
        sum.madd52lo_from::<LIMB>(a, self.0)
    }

    #[inline(always)]
    fn high<const LIMB: usize>(&self, sum: L, a: L) -> L {
        sum.madd52hi_from::<LIMB>(a, self.0)
    }
}

/// Columns of a product that are still to be carried: sums of lower and of upper halves.
#[derive(Clone, Copy)]
pub(super) struct Columns<L> {
    low: Limbs<L>,
    high: Limbs<L>,
}

impl<L: BlockLanes> Running<L> {
    /// Bytes of a row.
    const ROW_BYTES: usize = TAG_BYTES * L::LANES;

    /// Goes on where `poly` stands.
    #[inline(always)]
    pub(super) fn begin(room: L::Room, poly: &Poly1305) -> Self {
        let r = limbs_of([poly.r[0], poly.r[1], 0]);
        let (powers, row) =
            powers::<L>(room, [L::splat(room, r[0]), L::splat(room, r[1]), L::splat(room, r[2])]);
        let zero = [L::splat(room, 0); 3];
        let group = Factor::new(multiply(zero, row, &Factor::new(row)));
        Running { before: limbs_of(poly.sum()), sum: zero, row: Factor::new(row), group, powers }
    }

    /// Takes the first blocks: up to a group of them, with empty places in front.
    #[inline(always)]
    pub(super) fn absorb_first(&mut self, blocks: &[u8]) {
        let room = self.powers[0].room();
        let blank = (2 * Self::ROW_BYTES - blocks.len()) % Self::ROW_BYTES;
        let (first, second) = blocks.split_at(Self::ROW_BYTES - blank);
        let numbers = L::from_fn(room, |lane| u64::from(L::BLOCKS[lane]));
        let lead = L::splat(room, (blank / TAG_BYTES) as u64);
        let (lead_lane, blank_lanes) = (numbers.equals(lead), numbers.less_than(lead));
        let mut sum = limbs(L::split_end(room, first), !blank_lanes);
        for (limb, before) in sum.iter_mut().zip(self.before) {
            *limb = limb.add(L::splat(room, before).select(lead_lane, L::splat(room, 0)));
        }
        if !second.is_empty() {
            let row = limbs(L::split_end(room, second), LaneMask::ALL);
            sum = multiply(row, sum, &self.row);
        }
        self.sum = sum;
    }

    /// Takes groups one after the other, each with all its stages at once.
    #[inline(always)]
    pub(super) fn absorb(&mut self, groups: &[[L::RowBytes; 2]]) {
        // Of its own, and not in memory between two groups, where the powers have to be.
        let mut sum = self.sum;
        for group in groups {
            let columns = self.columns(self.limbs(group));
            sum = columns.add(sum, &Stored(&self.group)).carried();
        }
        self.sum = sum;
    }

    /// The first stage of a group: its rows in limbs.
    #[inline(always)]
    pub(super) fn limbs(&self, group: &[L::RowBytes; 2]) -> [Limbs<L>; 2] {
        let room = self.powers[0].room();
        let [first, second] = group;
        [limbs(L::split(room, first), LaneMask::ALL), limbs(L::split(room, second), LaneMask::ALL)]
    }

    /// The second stage: what does not wait for the sum.
    #[inline(always)]
    pub(super) fn columns(&self, [first, second]: [Limbs<L>; 2]) -> Columns<L> {
        Columns::new(second).add(first, &Stored(&self.row))
    }

    /// The third stage: what does.
    #[inline(always)]
    pub(super) fn with_sum(&self, columns: Columns<L>) -> Columns<L> {
        columns.add(self.sum, &Stored(&self.group))
    }

    /// The last stage: the sum is there.
    #[inline(always)]
    pub(super) fn carry(&mut self, columns: Columns<L>) {
        self.sum = columns.carried();
    }

    /// Brings the lanes together.
    #[inline(always)]
    pub(super) fn end(&self, poly: &mut Poly1305) {
        let zero = [L::splat(self.powers[0].room(), 0); 3];
        let [l0, l1, l2] = multiply(zero, self.sum, &Factor::new(self.powers));
        let (l0, l1, l2) = (total(l0), total(l1), total(l2));
        let l1 = l1 + (l0 >> 44);
        let l2 = l2 + (l1 >> 44);
        let l0 = (l0 & LOW) + 5 * (l2 >> 42);
        let (l1, l2) = (l1 & LOW, l2 & TOP);
        let low = u128::from(l0) + (u128::from(l1) << 44);
        let (low, carry) = low.overflowing_add(u128::from(l2) << 88);
        poly.h = [low as u64, (low >> 64) as u64, (l2 >> 40) + u64::from(carry)];
    }
}

impl<L: Lanes> Factor<L> {
    #[inline(always)]
    fn new(limbs: Limbs<L>) -> Self {
        let twenty = |limb: L| limb.shl(4).add(limb.shl(2));
        Factor([limbs[0], limbs[1], limbs[2], twenty(limbs[1]), twenty(limbs[2])])
    }
}

/// The lanes whose block fulfils a condition.
#[inline(always)]
fn lanes_where<L: BlockLanes>(condition: impl Fn(u8) -> bool) -> LaneMask {
    let mut bits = 0;
    for (lane, block) in L::BLOCKS.iter().enumerate() {
        bits |= u8::from(condition(*block)) << lane;
    }
    LaneMask::from_bits(bits)
}

/// Implements [`BlockLanes`] for the lanes of a room.
macro_rules! block_lanes {
    (
        $register:ident, $token:ident, features = $features:literal,
        $vector:ident, $lanes:literal, $class:ident, blocks = $blocks:expr,
        load = $load:ident, load_some = $load_some:ident, unpack = ($low:ident, $high:ident),
    ) => {
        impl BlockLanes for $register {
            const BLOCKS: &[u8] = &$blocks;
            type RowBytes = [u8; TAG_BYTES * $lanes];

            #[inline(always)]
            fn rows(bytes: &[u8]) -> &[Self::RowBytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn split(room: $token, row: &Self::RowBytes) -> (Self, Self) {
                let (halves, _) = row.as_chunks::<{ 8 * $lanes }>();
                // SAFETY: half a row of blocks is as long as a register.
                let left = unsafe { arch::$load(halves[0].as_ptr().cast()) };
                // SAFETY: as above.
                let right = unsafe { arch::$load(halves[1].as_ptr().cast()) };
                let (low, high) = (intrinsic!($low(left, right)), intrinsic!($high(left, right)));
                ($register(low, room), $register(high, room))
            }

            #[inline(always)]
            fn split_end(room: $token, blocks: &[u8]) -> (Self, Self) {
                const ROW_BYTES: usize = TAG_BYTES * $lanes;
                let blank =
                    ROW_BYTES.checked_sub(blocks.len()).expect("no more blocks than a row has");
                let start = blocks.as_ptr().wrapping_sub(blank);
                let there = u16::MAX << (blank / 8);
                let middle = start.wrapping_add(ROW_BYTES / 2);
                // SAFETY: only words of the blocks are read.
                let left = unsafe { arch::$load_some(there as u8, start.cast()) };
                // SAFETY: as above.
                let right = unsafe { arch::$load_some((there >> $lanes) as u8, middle.cast()) };
                let (low, high) = (intrinsic!($low(left, right)), intrinsic!($high(left, right)));
                ($register(low, room), $register(high, room))
            }

            madd52_from! {
                madd52lo_from: "vpmadd52luq", $register, $vector in $class, features = $features
            }
            madd52_from! {
                madd52hi_from: "vpmadd52huq", $register, $vector in $class, features = $features
            }
        }
    };
}

/// Defines a multiply-add whose factor the compiler shall not load into a register.
macro_rules! madd52_from {
    (
        $name:ident: $instruction:literal, $register:ident, $vector:ident in $class:ident,
        features = $features:literal
    ) => {
        #[inline(always)]
        fn $name<const LIMB: usize>(self, a: Self, factor: &Factor<Self>) -> Self {
            #[target_feature(enable = $features)]
            #[inline]
            fn sum_of<const LIMB: usize>(
                sum: arch::$vector,
                a: arch::$vector,
                factor: &Factor<$register>,
            ) -> arch::$vector {
                const { assert!(LIMB < poly1305_lanes::FACTOR_LIMBS) };
                let mut sum = sum;
                // SAFETY: reads a register inside `factor` and touches no other memory.
                unsafe {
                    asm!(
                        concat!($instruction, " {0}, {1}, [{2} + {3}]"),
                        inout($class) sum,
                        in($class) a,
                        in(reg) factor,
                        const LIMB * size_of::<$register>(),
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                sum
            }
            // SAFETY: a register holds the token of its room.
            $register(unsafe { sum_of::<LIMB>(self.0, a.0, factor) }, self.1)
        }
    };
}

/// Blocks that are absorbed in lanes. A task of its own, so that what it has on the stack is not
/// beside a key stream there.
struct InLanes<'a> {
    poly: &'a mut Poly1305,
    blocks: &'a [u8],
}

impl<L: BlockLanes> Task<L> for InLanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let InLanes { poly, blocks } = self;
        let mut running = Running::<L>::begin(room, poly);
        let first_bytes = <Running<L> as rows::Running<L::Room>>::first_bytes(blocks.len());
        let (first, groups) = blocks.split_at(first_bytes);
        running.absorb_first(first);
        running.absorb(<Running<L> as rows::Running<L::Room>>::groups(groups));
        running.end(poly);
    }
}

impl<L: BlockLanes> rows::Running<L::Room> for Running<L> {
    type Group = [L::RowBytes; 2];

    #[inline(always)]
    fn groups(bytes: &[u8]) -> &[Self::Group] {
        L::rows(bytes).as_chunks().0
    }

    #[inline(always)]
    fn begin(room: L::Room, poly: &Poly1305) -> Self {
        Running::<L>::begin(room, poly)
    }

    #[inline(always)]
    fn absorb_first(&mut self, blocks: &[u8]) {
        self.absorb_first(blocks);
    }

    #[inline(always)]
    fn absorb_groups(&mut self, groups: &[Self::Group]) {
        self.absorb(groups);
    }

    #[inline(always)]
    fn end(&self, poly: &mut Poly1305) {
        self.end(poly);
    }

    /// In lanes, once that pays.
    #[inline(always)]
    fn authenticate(room: L::Room, poly: &mut Poly1305, bytes: &[u8]) {
        let (blocks, rest) = bytes.split_at(bytes.len() - bytes.len() % TAG_BYTES);
        if blocks.len() < BLOCKS_MIN * TAG_BYTES {
            poly.absorb(bytes);
            return;
        }
        L::call(room, InLanes { poly, blocks });
        poly.absorb(rest);
    }
}

#[inline(always)]
fn total<L: Lanes>(limb: L) -> u64 {
    limb.row().as_ref().iter().sum()
}

/// A number of three words, the last one small, in limbs.
fn limbs_of([h0, h1, h2]: [u64; 3]) -> [u64; 3] {
    [h0 & LOW, (h0 >> 44 | h1 << 20) & LOW, h1 >> 24 | h2 << 40]
}

/// The power of r that the block of each lane is multiplied by in the end, and the highest of them
/// in all lanes.
#[inline(always)]
fn powers<L: BlockLanes>(room: L::Room, r1: Limbs<L>) -> (Limbs<L>, Limbs<L>) {
    let zero = [L::splat(room, 0); 3];
    let one = [L::splat(room, 1), zero[1], zero[2]];
    // The exponent less one, bit by bit.
    let bit = |place: usize| {
        lanes_where::<L>(|block| (L::LANES - 1 - usize::from(block)) >> place & 1 == 1)
    };
    let r2 = multiply(zero, r1, &Factor::new(r1));
    let r4 = multiply(zero, r2, &Factor::new(r2));
    let up_to_two = choose(bit(0), r2, r1);
    let up_to_four = multiply(zero, up_to_two, &Factor::new(choose(bit(1), r2, one)));
    if L::LANES == 4 {
        return (up_to_four, r4);
    }
    let r8 = multiply(zero, r4, &Factor::new(r4));
    (multiply(zero, up_to_four, &Factor::new(choose(bit(2), r4, one))), r8)
}

/// `yes` in the lanes of the mask, `no` in the others.
#[inline(always)]
fn choose<L: Lanes>(lanes: LaneMask, yes: Limbs<L>, no: Limbs<L>) -> Limbs<L> {
    [yes[0].select(lanes, no[0]), yes[1].select(lanes, no[1]), yes[2].select(lanes, no[2])]
}

/// A row in limbs, with 2^128 in the lanes that have a block.
#[inline(always)]
fn limbs<L: BlockLanes>((low, high): (L, L), blocks: LaneMask) -> Limbs<L> {
    let room = low.room();
    let mask = L::splat(room, LOW);
    let above = L::splat(room, 1 << 40).select(blocks, L::splat(room, 0));
    let middle = low.shr(44).or(high.shl(20)).and(mask);
    [low.and(mask), middle, high.shr(24).or(above)]
}

/// The sum of `addend` and a product in each lane, carried. Limbs of the factors are below 2^46.
#[inline(always)]
fn multiply<L: Lanes>(addend: Limbs<L>, a: Limbs<L>, b: &Factor<L>) -> Limbs<L> {
    Columns::new(addend).add(a, b).carried()
}

impl<L: Lanes> Columns<L> {
    #[inline(always)]
    fn new(low: Limbs<L>) -> Self {
        Columns { low, high: [L::splat(low[0].room(), 0); 3] }
    }

    /// Adds a product.
    #[inline(always)]
    fn add<F: Limb<L>>(self, a: Limbs<L>, factor: &F) -> Self {
        let Columns { low: [d0, d1, d2], high: [h0, h1, h2] } = self;
        Columns {
            low: [
                low::<0, 4, 3, L>(d0, a, factor),
                low::<1, 0, 4, L>(d1, a, factor),
                low::<2, 1, 0, L>(d2, a, factor),
            ],
            high: [
                high::<0, 4, 3, L>(h0, a, factor),
                high::<1, 0, 4, L>(h1, a, factor),
                high::<2, 1, 0, L>(h2, a, factor),
            ],
        }
    }

    /// Carries from column to column.
    #[inline(always)]
    fn carried(self) -> Limbs<L> {
        let Columns { low: [d0, d1, d2], high: [h0, h1, h2] } = self;
        let room = d0.room();
        let mask = L::splat(room, LOW);
        let d1 = d1.add(h0.shl(8)).add(d0.shr(44));
        let d2 = d2.add(h1.shl(8)).add(d1.shr(44));
        let above = d2.shr(42).add(h2.shl(10));
        let d0 = d0.and(mask).add(above.add(above.shl(2)));
        let d1 = d1.and(mask).add(d0.shr(44));
        [d0.and(mask), d1, d2.and(L::splat(room, TOP))]
    }
}

/// Adds the lower halves of the products with three limbs of a factor.
#[inline(always)]
fn low<const X: usize, const Y: usize, const Z: usize, L: Lanes>(
    sum: L,
    [a0, a1, a2]: Limbs<L>,
    factor: &impl Limb<L>,
) -> L {
    factor.low::<Z>(factor.low::<Y>(factor.low::<X>(sum, a0), a1), a2)
}

/// Adds the upper halves.
#[inline(always)]
fn high<const X: usize, const Y: usize, const Z: usize, L: Lanes>(
    sum: L,
    [a0, a1, a2]: Limbs<L>,
    factor: &impl Limb<L>,
) -> L {
    factor.high::<Z>(factor.high::<Y>(factor.high::<X>(sum, a0), a1), a2)
}
