//! Tests of lanes: every operation of the wide rooms against the portable one.

use std::vec::Vec;

use widelane_cpu::{Fma256, Ifma256, Ifma512, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room;

use super::*;
use crate::registers::Task;

const EDGES: [u64; 10] =
    [0, 1, 2, 19, (1 << 51) - 19, (1 << 51) - 1, 1 << 51, (1 << 52) - 1, 1 << 63, u64::MAX];

/// All that can be done with three words, in one row.
struct Everything<'a> {
    x: &'a [u64],
    y: &'a [u64],
    z: &'a [u64],
    row: [u64; 16],
}

impl<L: Lanes> Task<L> for Everything<'_> {
    type Output = Vec<(&'static str, Vec<u64>)>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Self::Output {
        let [x, y, z] = [self.x, self.y, self.z].map(|words| L::from_fn(room, |lane| words[lane]));
        let (equal, less) = (x.equals(y), x.less_than(y));
        // What a room may divide otherwise, as a whole: modulo 2^64.
        let halves = L::madd52(z, y, x, y);
        let product = halves[0].add(halves[1].shl(52));
        let registers = [
            ("splat", L::splat(room, self.x[0])),
            ("load", L::load(x.room(), &y.row())),
            ("add", x.add(y)),
            ("sub", x.sub(y)),
            ("mul", x.mul(y)),
            ("and", x.and(y)),
            ("or", x.or(y)),
            ("xor", x.xor(y)),
            ("shl", x.shl(13)),
            ("shr", x.shr(51)),
            ("shr_signed", x.shr_signed(52)),
            ("madd52lo", z.madd52lo(x, y)),
            ("madd52hi", z.madd52hi(x, y)),
            ("madd52", product),
            ("equals", x.select(equal, z)),
            ("top_bit", x.select(y.top_bit(), z)),
            ("pick", L::pick(&self.row, x)),
            ("less_than", x.select(less, z)),
            ("masks", x.select((equal | !less) ^ (less & LaneMask::ALL) ^ LaneMask::NONE, z)),
        ];
        registers.map(|(name, register)| (name, register.row().as_ref().to_vec())).into()
    }
}

#[test]
fn all_rooms_agree() {
    compare::<Array<4>>(());
    compare::<Array<8>>(());
    for_each_room(|room, policy| match room {
        Room::Portable => compare::<Portable>(()),
        Room::Fma256 => compare::<Fma256x4>(Fma256::enter(policy).unwrap()),
        Room::Ifma256 => compare::<Ifma256x4>(Ifma256::enter(policy).unwrap()),
        Room::Ifma512 => compare::<Ifma512x8>(Ifma512::enter(policy).unwrap()),
        other => unreachable!("{other} is no room of arithmetic"),
    });
}

fn compare<L: Lanes>(room: L::Room) {
    let mut random = Random::new(52);
    let mut word = || match random.below(3) {
        0 => EDGES[random.below(EDGES.len())],
        1 => random.next_u64() & ((1 << 52) - 1),
        _ => random.next_u64(),
    };
    for _ in 0..1000 {
        let [x, y, z]: [Vec<u64>; 3] =
            std::array::from_fn(|_| (0..L::LANES).map(|_| word()).collect());
        let row = std::array::from_fn(|_| word());
        let results = L::call(room, Everything { x: &x, y: &y, z: &z, row });
        for lane in 0..L::LANES {
            let [x, y, z] = [&x, &y, &z].map(|words| &words[lane..=lane]);
            let expected = Portable::call((), Everything { x, y, z, row });
            for ((name, words), (_, expected)) in results.iter().zip(&expected) {
                if *name != "splat" || lane == 0 {
                    assert_eq!(words[lane], expected[0], "{name} of {x:x?} {y:x?} {z:x?}");
                }
            }
        }
        let permuted = L::call(room, Permutation { x: &x, y: &y });
        for (lane, word) in permuted.into_iter().enumerate() {
            assert_eq!(word, x[y[lane] as usize % L::LANES]);
        }
    }
}

/// The words of `x` by the indices `y`.
struct Permutation<'a> {
    x: &'a [u64],
    y: &'a [u64],
}

impl<L: Lanes> Task<L> for Permutation<'_> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Vec<u64> {
        let [x, y] = [self.x, self.y].map(|words| L::from_fn(room, |lane| words[lane]));
        x.permute(y).row().as_ref().to_vec()
    }
}

/// The portable room against the language itself.
#[test]
fn the_portable_room_computes() {
    let mut random = Random::new(1);
    for _ in 0..1000 {
        let [x, y, z] = [random.next_u64(), random.next_u64() >> 12, random.next_u64() >> 20];
        let [rx, ry, rz] = [x, y, z].map(|word| Portable::splat((), word));
        let product = u128::from(x % (1 << 52)) * u128::from(y);
        assert_eq!(rz.madd52lo(rx, ry).row()[0], z + product as u64 % (1 << 52));
        assert_eq!(rz.madd52hi(rx, ry).row()[0], z + (product >> 52) as u64);
        assert_eq!(rx.less_than(ry).declassify(0), x < y);
        assert!(rx.equals(rx).declassify(0));
        assert_eq!(rx.equals(rx.add(ry)).declassify(0), y == 0);
        assert_eq!(rx.top_bit().declassify(0), x >> 63 == 1);
        assert_eq!(
            Portable::pick(&std::array::from_fn(|i| 3 * i as u64), rx).row()[0],
            3 * (x % 16)
        );
        assert_eq!(rx.shr_signed(60).row()[0] as i64, x as i64 >> 60);
    }
}
