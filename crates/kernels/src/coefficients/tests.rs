//! Tests of registers: every operation of the wide rooms against portable.

use std::vec;
use std::vec::Vec;

use widelane_cpu::{Avx2, Avx512, Policy, Room, Vbmi512};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::supported_of;

use super::*;
use crate::registers::Task;

/// What all operations make of two rows, an order and candidates.
fn results<C: Coefficients>(room: C::Room, random: &mut Random) -> Vec<Row> {
    let mut row = || Row(core::array::from_fn(|_| random.next_u64() as u32));
    let rows: [Row; POLYNOMIALS] = core::array::from_fn(|_| row());
    let order = Row(core::array::from_fn(|lane| (lane as u32 * 5 + 3) % 8));
    let registers = rows.each_ref().map(|row| C::load(room, row));
    let [a, b, ..] = registers;
    let (first, second) = a.unzip(b);
    let mut results = vec![
        C::splat(room, 0x1234_5678),
        C::halves(room, 1, 0xffff_0002),
        a.add_each(b),
        a.sub_each(b),
        a.mul_low(b),
        a.mul_high(b),
        a.mul_rounded(b),
        a.mul_high_unsigned(b),
        a.shr_signed(15),
        a.shr_signed(10),
        a.mul_pairs(b),
        a.add(b),
        a.sub(b),
        a.and(b),
        a.or(b),
        a.xor(b),
        a.shl(7),
        a.shr(16),
        first,
        second,
        a.choose(C::load(room, &order)),
        C::load_halves(room, &[0xabcd; PAIRS], &core::array::from_fn(|index| index as u16)),
    ];
    results.extend(C::transpose(registers));
    let mut results: Vec<_> = results.into_iter().map(C::row).collect();
    let [first, second] = a.to_halves();
    assert_eq!(C::load_halves(room, &first, &second).row(), rows[0]);
    let block: [u64; BLOCK_WORDS] = core::array::from_fn(|_| random.next_u64());
    let mut accepted = [0; 4 + CANDIDATES];
    let count = C::accept_vartime(room, |index| block[index], 3329, &mut accepted, 3);
    // What stands behind those that count is of no interest.
    accepted[count..].fill(0);
    let pair = |[first, second]: &[u16; 2]| u32::from(*first) | u32::from(*second) << 16;
    let pairs: Vec<_> = accepted.as_chunks().0.iter().map(pair).collect();
    results.extend(pairs.as_chunks().0.iter().copied().map(Row));
    results.push(Row([count as u32; PAIRS]));
    results
}

struct Results(u64);

impl<C: Coefficients> Task<C> for Results {
    type Output = Vec<Row>;

    #[inline(always)]
    fn run(self, room: C::Room) -> Vec<Row> {
        results::<C>(room, &mut Random::new(self.0))
    }
}

#[test]
fn the_wide_rooms_do_as_portable_does() {
    let mut visited = vec![Room::Portable];
    for seed in 0..200 {
        let expected = PortablePairs::call((), Results(seed));
        if let Some(room) = Avx2::enter(&Policy::open()) {
            assert_eq!(Avx2Pairs::call(room, Results(seed)), expected);
            visited.push(Room::Avx2);
        }
        if let Some(room) = Avx512::enter(&Policy::open()) {
            assert_eq!(Avx512Pairs::call(room, Results(seed)), expected);
            visited.push(Room::Avx512);
        }
        if let Some(room) = Vbmi512::enter(&Policy::open()) {
            assert_eq!(Vbmi512Pairs::call(room, Results(seed)), expected);
            visited.push(Room::Vbmi512);
        }
    }
    visited.sort();
    visited.dedup();
    let rooms = [Room::Portable, Room::Avx2, Room::Avx512, Room::Vbmi512];
    assert_eq!(visited, supported_of(&rooms));
}
