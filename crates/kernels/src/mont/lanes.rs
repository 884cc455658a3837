//! The batch algorithm of mont, written once for all rooms: one RSA private operation per lane.
//!
//! A room brings five operations on lanes ([`Arithmetic`]); everything here is built from them and
//! from scalar glue that runs once per batch. Branches and addresses depend on no secret; the
//! public exponent and whether an input is in range are public.

use core::array;

use widelane_secret::wipe;

use super::key::{CrtJob, CrtKey, are_equal};
use super::modulus::Modulus;
use crate::digits::{DIGIT_BITS, DIGIT_MASK, modulus_bytes};

/// Bits of the exponent that one multiplication takes in.
const WINDOW_BITS: usize = 5;
/// Powers of the base in the table.
pub(super) const ENTRIES: usize = 1 << WINDOW_BITS;

/// Whether the tiles can be put together for numbers of `digits` digits.
pub(super) const fn is_size(digits: usize) -> bool {
    digits >= 20 && digits.is_multiple_of(10)
}

/// `D` digits of `LANES` numbers: digit i of lane j is `[i][j]`.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct LaneDigits<const D: usize, const LANES: usize>(pub(super) [[u64; LANES]; D]);

/// A product of two numbers of `D` digits per lane: `2·D` columns in a row.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Product<const D: usize, const LANES: usize> {
    pub(super) low: LaneDigits<D, LANES>,
    pub(super) high: LaneDigits<D, LANES>,
    /// Read by the last step of a reduction, and of no consequence.
    beyond: LaneDigits<2, LANES>,
}

/// One modulus per lane, in the form the reduction reads.
#[repr(C)]
pub(super) struct LaneModulus<const D: usize, const LANES: usize> {
    /// (m·k0 + 1) / 2^52.
    pub(super) m1: LaneDigits<D, LANES>,
    /// Digits 1 to D of m (the last one is zero).
    pub(super) m_above: LaneDigits<D, LANES>,
    /// Digit 0 of m, and −1/m modulo 2^52.
    pub(super) m0_k0: LaneDigits<2, LANES>,
}

/// The first powers of a number, by digit: entry e of digit i of lane j is `[i][e][j]`.
#[repr(C, align(64))]
pub(super) struct Table<const D: usize, const LANES: usize>(
    pub(super) [[[u64; LANES]; ENTRIES]; D],
);

/// A power that is being selected from a table while other work is done.
pub(super) struct Lookup<'a, const D: usize, const LANES: usize> {
    pub(super) table: &'a Table<D, LANES>,
    /// The entry wanted for each lane.
    pub(super) index: [u64; LANES],
    pub(super) target: &'a mut LaneDigits<D, LANES>,
    pub(super) digits_done: usize,
}

/// What a room does for the batch: digits in, digits out, all lanes at once.
///
/// Numbers are carried and below 3·m unless said otherwise. Only the low 52 bits of a digit count
/// (that is all that VPMADD52 reads); a column of a product is a sum of halves that is still to be
/// carried.
pub(super) trait Arithmetic<const LANES: usize>: Copy {
    /// Computes the columns of x·y.
    fn multiply<const D: usize>(
        self,
        product: &mut Product<D, LANES>,
        x: &LaneDigits<D, LANES>,
        y: &LaneDigits<D, LANES>,
    );

    /// Computes the columns of x².
    fn square<const D: usize>(self, product: &mut Product<D, LANES>, x: &LaneDigits<D, LANES>);

    /// Computes z = product·2^(−52·D) mod m, carried, below product/2^(52·D) + 2·m, and goes on
    /// with the lookup meanwhile: D/10 digits in each of the D/10 strips of a reduction.
    ///
    /// Destroys the product.
    fn reduce<const D: usize>(
        self,
        z: &mut LaneDigits<D, LANES>,
        product: &mut Product<D, LANES>,
        modulus: &LaneModulus<D, LANES>,
        lookup: Option<&mut Lookup<'_, D, LANES>>,
    );

    /// Selects the digits that are left of a lookup.
    fn finish<const D: usize>(self, lookup: &mut Lookup<'_, D, LANES>);

    /// Clears the vector registers.
    fn wipe_registers(self);
}

impl<const D: usize, const LANES: usize> LaneDigits<D, LANES> {
    pub(super) const ZERO: Self = LaneDigits([[0; LANES]; D]);

    /// Sets digit `index` of lane `lane` to `digit(lane, index)`.
    pub(super) fn fill(&mut self, digit: impl Fn(usize, usize) -> u64) {
        for (index, row) in self.0.iter_mut().enumerate() {
            for (lane, word) in row.iter_mut().enumerate() {
                *word = digit(lane, index);
            }
        }
    }

    fn set_lane(&mut self, lane: usize, digits: &[u64; D]) {
        for (row, digit) in self.0.iter_mut().zip(digits) {
            row[lane] = *digit;
        }
    }

    pub(super) fn lane(&self, lane: usize) -> [u64; D] {
        array::from_fn(|index| self.0[index][lane] & DIGIT_MASK)
    }

    /// The bits of each lane that the given window of an exponent holds.
    fn window(&self, window: usize) -> [u64; LANES] {
        let position = window * WINDOW_BITS;
        let (index, shift) = (position / DIGIT_BITS as usize, position as u32 % DIGIT_BITS);
        let (low, high) = (&self.0[index], self.0.get(index + 1).unwrap_or(&[0; LANES]));
        array::from_fn(|lane| {
            (low[lane] >> shift | high[lane] << (DIGIT_BITS - shift)) & (ENTRIES as u64 - 1)
        })
    }

    fn wipe(&mut self) {
        wipe(self.0.as_flattened_mut());
    }
}

impl<const D: usize, const LANES: usize> Product<D, LANES> {
    pub(super) const ZERO: Self =
        Product { low: LaneDigits::ZERO, high: LaneDigits::ZERO, beyond: LaneDigits::ZERO };

    fn wipe(&mut self) {
        self.low.wipe();
        self.high.wipe();
    }
}

impl<const D: usize, const LANES: usize> Table<D, LANES> {
    pub(super) const ZERO: Self = Table([[[0; LANES]; ENTRIES]; D]);

    fn entry(&self, entry: usize) -> LaneDigits<D, LANES> {
        LaneDigits(array::from_fn(|index| self.0[index][entry]))
    }

    fn set_entry(&mut self, entry: usize, power: &LaneDigits<D, LANES>) {
        for (entries, row) in self.0.iter_mut().zip(&power.0) {
            entries[entry] = *row;
        }
    }

    fn wipe(&mut self) {
        wipe(self.0.as_flattened_mut().as_flattened_mut());
    }
}

impl<const D: usize, const LANES: usize> LaneModulus<D, LANES> {
    pub(super) const ZERO: Self =
        LaneModulus { m1: LaneDigits::ZERO, m_above: LaneDigits::ZERO, m0_k0: LaneDigits::ZERO };

    pub(super) fn fill(&mut self, moduli: &[&Modulus<D>; LANES]) {
        self.m1.fill(|lane, i| moduli[lane].m1[i]);
        self.m_above.fill(|lane, i| if i + 1 < D { moduli[lane].m[i + 1] } else { 0 });
        self.m0_k0.fill(|lane, i| if i == 0 { moduli[lane].m[0] } else { moduli[lane].k0 });
    }

    /// Digit i of the moduli themselves.
    fn digit(&self, index: usize) -> &[u64; LANES] {
        index.checked_sub(1).map_or(&self.m0_k0.0[0], |above| &self.m_above.0[above])
    }

    fn wipe(&mut self) {
        self.m1.wipe();
        self.m_above.wipe();
        self.m0_k0.wipe();
    }
}

/// The memory one operation of `D` digits works in.
struct Workspace<const D: usize, const LANES: usize> {
    modulus: LaneModulus<D, LANES>,
    product: Product<D, LANES>,
    x: LaneDigits<D, LANES>,
    y: LaneDigits<D, LANES>,
}

impl<const D: usize, const LANES: usize> Workspace<D, LANES> {
    const ZERO: Self = Workspace {
        modulus: LaneModulus::ZERO,
        product: Product::ZERO,
        x: LaneDigits::ZERO,
        y: LaneDigits::ZERO,
    };

    /// x = x·y·R^-1 mod m.
    fn multiply(&mut self, room: impl Arithmetic<LANES>) {
        room.multiply(&mut self.product, &self.x, &self.y);
        self.reduce(room);
    }

    /// x = x²·R^-1 mod m.
    fn square(&mut self, room: impl Arithmetic<LANES>) {
        room.square(&mut self.product, &self.x);
        self.reduce(room);
    }

    /// x = product·R^-1 mod m.
    fn reduce(&mut self, room: impl Arithmetic<LANES>) {
        room.reduce(&mut self.x, &mut self.product, &self.modulus, None);
    }

    /// x = x^(2^squarings) in Montgomery form, and y = the entry `index` of the table.
    fn square_and_select(
        &mut self,
        room: impl Arithmetic<LANES>,
        squarings: usize,
        table: &Table<D, LANES>,
        index: [u64; LANES],
    ) {
        let mut lookup = Lookup { table, index, target: &mut self.y, digits_done: 0 };
        for _ in 0..squarings {
            room.square(&mut self.product, &self.x);
            room.reduce(&mut self.x, &mut self.product, &self.modulus, Some(&mut lookup));
        }
        room.finish(&mut lookup);
    }

    /// x = x mod m for x < 4·m, every digit below 2^52.
    fn make_canonical(&mut self) {
        for _ in 0..3 {
            let difference = &mut self.product.low.0;
            let mut borrow = [0; LANES];
            for (index, row) in self.x.0.iter().enumerate() {
                let m = self.modulus.digit(index);
                for lane in 0..LANES {
                    let digit = (row[lane] & DIGIT_MASK).wrapping_sub(m[lane] + borrow[lane]);
                    difference[index][lane] = digit & DIGIT_MASK;
                    borrow[lane] = digit >> 63;
                }
            }
            for (row, difference) in self.x.0.iter_mut().zip(difference) {
                for lane in 0..LANES {
                    let kept = borrow[lane].wrapping_neg() & (row[lane] ^ difference[lane]);
                    row[lane] = (difference[lane] ^ kept) & DIGIT_MASK;
                }
            }
        }
    }

    /// x = x − y + 2·m for x < m and y < 2·m.
    fn subtract(&mut self, y: &LaneDigits<D, LANES>) {
        let mut carry = [0u64; LANES];
        for (index, (row, y)) in self.x.0.iter_mut().zip(&y.0).enumerate() {
            let m = self.modulus.digit(index);
            for lane in 0..LANES {
                let sum = (row[lane] + 2 * m[lane]).wrapping_sub(y[lane]);
                let digit = sum.wrapping_add(carry[lane]);
                row[lane] = digit & DIGIT_MASK;
                carry[lane] = (digit.cast_signed() >> DIGIT_BITS).cast_unsigned();
            }
        }
    }

    fn wipe(&mut self) {
        self.modulus.wipe();
        self.product.wipe();
        self.x.wipe();
        self.y.wipe();
    }
}

/// How the two exponentiations of a job, modulo p and modulo q, share the lanes.
#[derive(Clone, Copy, Debug)]
pub enum Halves {
    /// One after the other in one lane: `LANES` jobs at most.
    InTurn,
    /// In two lanes: half as many jobs at most, in half the time.
    Abreast,
}

impl Halves {
    /// The most jobs that so many lanes hold.
    const fn jobs_max(self, lanes: usize) -> usize {
        match self {
            Halves::InTurn => lanes,
            Halves::Abreast => lanes / 2,
        }
    }
}

/// Runs private-key operations of one size, as many as the lanes hold at most.
///
/// Needs up to 80 KiB (RSA-2048) to 152 KiB (RSA-4096) of stack.
///
/// # Panics
///
/// Panics if there is no job, if there are more than the lanes hold, or if an input or output is
/// not as long as the modulus (`51.2·FULL` bits).
pub(super) fn private_crt<const LANES: usize, const HALF: usize, const FULL: usize>(
    room: impl Arithmetic<LANES>,
    halves: Halves,
    jobs: &mut [CrtJob<'_, HALF, FULL>],
) {
    let jobs_max = halves.jobs_max(LANES);
    assert!((1..=jobs_max).contains(&jobs.len()), "a batch has 1 to {jobs_max} jobs");
    // Lanes without a job repeat the first one; nobody reads their result.
    let job_of = |lane: usize| {
        // Modulo `jobs_max`, which is all lanes or half of them.
        let job = if lane < jobs_max { lane } else { lane - jobs_max };
        if job < jobs.len() { job } else { 0 }
    };
    let keys: [&CrtKey<HALF, FULL>; LANES] = array::from_fn(|lane| jobs[job_of(lane)].key);
    let inputs: [[u64; FULL]; LANES] = array::from_fn(|lane| jobs[job_of(lane)].input_digits());

    let mut results = exponentiate_and_recombine(room, halves, &keys, &inputs);
    let checks = raise_to_public(room, &keys, &results);
    for (lane, job) in jobs.iter_mut().enumerate() {
        let is_confirmed = are_equal(&inputs[lane], &checks.lane(lane));
        job.conclude(&inputs[lane], &results[lane], is_confirmed);
    }
    wipe(results.as_flattened_mut());
    room.wipe_registers();
}

/// Computes c^d mod n for each lane from its two halves.
#[inline(never)]
fn exponentiate_and_recombine<const LANES: usize, const HALF: usize, const FULL: usize>(
    room: impl Arithmetic<LANES>,
    halves: Halves,
    keys: &[&CrtKey<HALF, FULL>; LANES],
    inputs: &[[u64; FULL]; LANES],
) -> [[u64; FULL]; LANES] {
    let mut workspace = Workspace::<HALF, LANES>::ZERO;
    let mut table = Table::ZERO;

    let mut half = |moduli: [&Modulus<HALF>; LANES], exponents: [&[u64; HALF]; LANES]| {
        workspace.modulus.fill(&moduli);
        workspace.product.low.fill(|lane, i| inputs[lane][i]);
        workspace.product.high.fill(|lane, i| inputs[lane][HALF + i]);
        workspace.reduce(room);
        workspace.y.fill(|lane, i| moduli[lane].rrr[i]);
        workspace.multiply(room);
        exponentiate(room, &mut workspace, &mut table, &moduli, &exponents);
        workspace.product.low.fill(|lane, i| workspace.x.0[i][lane] & DIGIT_MASK);
        workspace.product.high = LaneDigits::ZERO;
        workspace.reduce(room);
        workspace.make_canonical();
        workspace.x
    };
    let mut modulo_q = match halves {
        Halves::InTurn => {
            let modulo_q = half(array::from_fn(|j| &keys[j].q), array::from_fn(|j| &keys[j].dq));
            half(array::from_fn(|j| &keys[j].p), array::from_fn(|j| &keys[j].dp));
            modulo_q
        }
        // The upper lanes have q. From here on they compute numbers that nobody reads.
        Halves::Abreast => {
            half(
                array::from_fn(|j| if j < LANES / 2 { &keys[j].p } else { &keys[j].q }),
                array::from_fn(|j| if j < LANES / 2 { &keys[j].dp } else { &keys[j].dq }),
            );
            let mut modulo_q = LaneDigits::ZERO;
            modulo_q.fill(|lane, i| workspace.x.0[i][(lane + LANES / 2) % LANES]);
            modulo_q
        }
    };

    // Garner: h = (mp − mq)·qinv mod p, then s = mq + h·q.
    workspace.subtract(&modulo_q);
    workspace.y.fill(|lane, i| keys[lane].qinv[i]);
    workspace.multiply(room);
    workspace.make_canonical();
    workspace.y.fill(|lane, i| keys[lane].q.m[i]);
    room.multiply(&mut workspace.product, &workspace.x, &workspace.y);
    let results = array::from_fn(|lane| {
        let mut carry = 0;
        array::from_fn(|index| {
            carry += match index.checked_sub(HALF) {
                None => workspace.product.low.0[index][lane] + modulo_q.0[index][lane],
                Some(index) => workspace.product.high.0[index][lane],
            };
            let digit = carry & DIGIT_MASK;
            carry >>= DIGIT_BITS;
            digit
        })
    });

    workspace.wipe();
    table.wipe();
    modulo_q.wipe();
    results
}

/// Computes x = x^exponent in Montgomery form, by a fixed window.
fn exponentiate<const LANES: usize, const D: usize>(
    room: impl Arithmetic<LANES>,
    workspace: &mut Workspace<D, LANES>,
    table: &mut Table<D, LANES>,
    moduli: &[&Modulus<D>; LANES],
    exponents: &[&[u64; D]; LANES],
) {
    workspace.y.fill(|lane, i| moduli[lane].one[i]);
    table.set_entry(0, &workspace.y);
    workspace.y = workspace.x;
    table.set_entry(1, &workspace.y);
    for entry in 1..ENTRIES / 2 {
        workspace.x = table.entry(entry);
        workspace.square(room);
        table.set_entry(2 * entry, &workspace.x);
        workspace.multiply(room);
        table.set_entry(2 * entry + 1, &workspace.x);
    }
    let mut exponent = LaneDigits::<D, LANES>::ZERO;
    exponent.fill(|lane, i| exponents[lane][i]);
    let windows = (8 * modulus_bytes::<D>()).div_ceil(WINDOW_BITS);
    let mut index = exponent.window(windows - 1);
    workspace.square_and_select(room, 0, table, index);
    workspace.x = workspace.y;
    for window in (0..windows - 1).rev() {
        index = exponent.window(window);
        workspace.square_and_select(room, WINDOW_BITS, table, index);
        workspace.multiply(room);
    }
    exponent.wipe();
    wipe(&mut index);
}

/// Computes s^e mod n for each lane. The exponents are public, and time depends on them.
#[inline(never)]
fn raise_to_public<const LANES: usize, const HALF: usize, const FULL: usize>(
    room: impl Arithmetic<LANES>,
    keys: &[&CrtKey<HALF, FULL>; LANES],
    bases: &[[u64; FULL]; LANES],
) -> LaneDigits<FULL, LANES> {
    let mut workspace = Workspace::<FULL, LANES>::ZERO;
    workspace.modulus.fill(&keys.map(|key| &key.n));
    workspace.x.fill(|lane, i| bases[lane][i]);
    workspace.y.fill(|lane, i| keys[lane].n.rr[i]);
    workspace.multiply(room);
    workspace.y = workspace.x;

    // Lanes whose exponent is shorter stay at one until their top bit comes.
    let longest = keys.iter().map(|key| key.e.ilog2()).max().unwrap_or(0);
    for (lane, key) in keys.iter().enumerate() {
        if key.e.ilog2() < longest {
            workspace.x.set_lane(lane, &key.n.one);
        }
    }
    for position in (1..longest).rev() {
        workspace.square(room);
        if keys.iter().any(|key| key.e >> position & 1 == 1) {
            let unmultiplied = workspace.x;
            workspace.multiply(room);
            for (lane, key) in keys.iter().enumerate() {
                if key.e >> position & 1 == 0 {
                    workspace.x.set_lane(lane, &unmultiplied.lane(lane));
                }
            }
        }
    }
    // The last bit of an odd exponent multiplies by the plain base: that leaves Montgomery form.
    workspace.square(room);
    workspace.y.fill(|lane, i| bases[lane][i]);
    workspace.multiply(room);
    workspace.make_canonical();
    let powers = workspace.x;
    workspace.wipe();
    powers
}
