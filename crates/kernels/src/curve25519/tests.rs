//! Tests of curve25519 against plain integers, the RFCs and itself.

use std::eprintln;
use std::vec::Vec;

use num_bigint::BigUint;
use widelane_cpu::{Fma256, Ifma256, Ifma512, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room;

use super::field::{Columns, Element};
use super::*;
use crate::lanes::fma256_x4::with_rounding;
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8, Portable};
use crate::registers::{Register, Task};

/// Runs a generic function with the register of each room.
macro_rules! in_each_room {
    ($test:ident) => {
        for_each_room(|room, policy| match room {
            Room::Portable => $test::<Portable>(()),
            Room::Fma256 => $test::<Fma256x4>(Fma256::enter(policy).unwrap()),
            Room::Ifma256 => $test::<Ifma256x4>(Ifma256::enter(policy).unwrap()),
            Room::Ifma512 => $test::<Ifma512x8>(Ifma512::enter(policy).unwrap()),
            other => unreachable!("{other} is no room of arithmetic"),
        });
    };
}

/// The largest limb that a carry leaves.
const TIGHT: u64 = (1 << 51) + (1 << 15) - 1;

/// Every operation of the field on two numbers, reduced.
struct Operations {
    a: [u64; 5],
    b: [u64; 5],
}

impl<L: Limbs> Task<L> for Operations {
    type Output = Vec<(&'static str, [u64; 4])>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Self::Output {
        let a = Element::<L>::splat(room, self.a);
        let b = Element::<L>::splat(room, self.b);
        let (ab, aa) = (a.mul(b), a.square());
        let results = [
            ("a", a),
            ("a·b", ab.carry()),
            ("a²", aa.carry()),
            ("a·b, sooner", a.mul_soon(b).carry()),
            ("a + b", a.plus(b).carry()),
            ("a − b", a.minus(b).carry()),
            ("a·b + a²", ab.plus(aa).carry()),
            ("a·b − a²", ab.minus(aa).carry()),
            ("a·b − 2·a²", ab.minus_twice(aa).carry()),
            ("a·b + 121665·b", ab.plus_small(121665, b).carry()),
            ("a + a²", Columns::from(a).plus(aa).carry()),
            ("1/a", a.invert()),
            ("a^(2^252 − 3)", a.power_p_minus_5_over_8()),
        ];
        let mut reduced = Vec::new();
        for (name, element) in results {
            let words = element.to_words().map(|word| word.row());
            for lane in 1..L::LANES {
                assert!(words.iter().all(|word| word.as_ref()[lane] == word.as_ref()[0]));
            }
            reduced.push((name, words.map(|word| word.as_ref()[0])));
            let [zero, odd] = [element.is_zero(), element.is_odd()].map(|mask| mask.declassify(0));
            let words = reduced[reduced.len() - 1].1;
            assert_eq!((zero, odd), (words == [0; 4], words[0] & 1 == 1), "{name}");
        }
        reduced
    }
}

#[test]
fn the_field_agrees_with_plain_integers() {
    in_each_room!(compute);
}

fn compute<L: Limbs>(room: L::Room) {
    let p = BigUint::from(2u8).pow(255) - 19u8;
    let integer = |limbs: &[u64; 5]| {
        limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 51u32) + *limb)
    };
    let mut random = Random::new(25519);
    for numbers in numbers(&mut random).chunks_exact(2) {
        let (a, b) = (integer(&numbers[0]), integer(&numbers[1]));
        // Above any product, a multiple of p.
        let large = &p << 300;
        let expected = [
            a.clone(),
            &a * &b,
            &a * &a,
            &a * &b,
            &a + &b,
            &large + &a - &b,
            &a * &b + &a * &a,
            &large + &a * &b - &a * &a,
            &large + &a * &b - 2u8 * &a * &a,
            &a * &b + 121665u32 * &b,
            &a + &a * &a,
            a.modpow(&(&p - 2u8), &p),
            a.modpow(&((&p - 5u8) / 8u8), &p),
        ];
        let results = L::call(room, Operations { a: numbers[0], b: numbers[1] });
        assert_eq!(results.len(), expected.len());
        for ((name, words), expected) in results.iter().zip(expected) {
            let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(BigUint::from_bytes_le(&bytes), expected % &p, "{name} of {numbers:x?}");
        }
    }
}

/// Numbers in pairs: all that is at an edge with all that is, and some that are not.
fn numbers(random: &mut Random) -> Vec<[u64; 5]> {
    let top = (1 << 51) - 1;
    let edges = [
        [0; 5],
        [1, 0, 0, 0, 0],
        [top - 19, top, top, top, top],
        [top - 18, top, top, top, top],
        [top - 17, top, top, top, top],
        [top; 5],
        [TIGHT; 5],
        [TIGHT, 0, 0, 0, TIGHT],
    ];
    let mut numbers = Vec::new();
    for a in edges {
        numbers.extend(edges.iter().flat_map(|b| [a, *b]));
    }
    for _ in 0..200 {
        numbers.push(std::array::from_fn(|_| random.next_u64() % (TIGHT + 1)));
    }
    numbers
}

/// The bounds that the types promise, from the largest numbers they admit.
#[test]
fn carried_limbs_stay_within_their_bounds() {
    let largest = Element::<Portable>::splat((), [TIGHT; 5]);
    let product = largest.mul(largest);
    assert!(limbs(product.columns()).iter().all(|column| *column < (1 << 59) - (1 << 14)));
    let soon = largest.mul_soon(largest);
    assert_eq!(limbs(soon.columns()), limbs(product.columns()));
    assert!(limbs(largest.square().columns()).iter().all(|column| *column < (1 << 59) - (1 << 14)));
    let zero = Columns::from(Element::small((), 0));
    let sums = [
        product.plus(product),
        product.minus(zero),
        product.minus_twice(zero),
        zero.minus(product),
        zero.minus_twice(product),
        product.plus_small(1 << 17, largest),
    ];
    for sum in sums {
        assert!(limbs(sum.carry().0).iter().all(|limb| *limb <= TIGHT));
    }
}

fn limbs(columns: [Portable; 5]) -> [u64; 5] {
    columns.map(|column| column.row()[0])
}

// What consists of these operations is compared with other libraries in every room by the tests of
// crypto, which compile it anyway. Here it runs in the room whose additions are plain Rust, with
// checks for overflows.

/// The table against the ladder: every entry of every window, as good as certainly.
#[test]
fn public_keys_agree_with_the_ladder() {
    let mut random = Random::new(9);
    let mut base = [0; 32];
    base[0] = 9;
    for _ in 0..400 {
        let mut scalar = [0; 32];
        random.fill(&mut scalar);
        let (mut expected, mut result) = ([[0; 32]], [[0; 32]]);
        x25519::<Portable>((), &[&scalar], &[&base], &mut expected);
        x25519_base::<Portable>((), &[&scalar], &mut result);
        assert_eq!(result, expected);
    }
}

/// S·B − k·A with A = a·B is (S − k·a)·B.
#[test]
fn differences_agree_with_multiples() {
    let mut random = Random::new(3);
    let mut scalar = || {
        let mut wide = [0; 64];
        random.fill(&mut wide);
        Scalar::from_wide(&wide)
    };
    let minus_one = (order() - 1u8).to_bytes_le().try_into().unwrap();
    let minus_one = Scalar::from_canonical(&minus_one).unwrap();
    for _ in 0..20 {
        let (a, s, k) = (scalar(), scalar(), scalar());
        let minus_ka = minus_one.multiply_add(&k.multiply_add(&a, &Scalar::default()), &s);
        let (mut public, mut expected, mut results) = ([[0; 32]], [[0; 32]], [[0; 32]]);
        ed25519_base::<Portable>((), &[&a.to_bytes()], &mut public);
        ed25519_base::<Portable>((), &[&minus_ka.to_bytes()], &mut expected);
        let (s, k) = (s.to_bytes(), k.to_bytes());
        let is_point =
            ed25519_difference::<Portable>((), &[&public[0]], &[&s], &[&k], &mut results);
        assert!(is_point.declassify(0));
        assert_eq!(results, expected);
    }
}

#[test]
fn scalars_agree_with_plain_integers() {
    let order = order();
    let mut random = Random::new(252);
    let number = |bytes: &[u8]| BigUint::from_bytes_le(bytes);
    for round in 0..1000 {
        let mut wide = [0; 64];
        random.fill(&mut wide);
        if round < 64 {
            wide[round..].fill(0xff);
        }
        let reduced = Scalar::from_wide(&wide);
        assert_eq!(number(&reduced.to_bytes()), number(&wide) % &order);
        let bytes: &[u8; 32] = wide[..32].try_into().unwrap();
        let short = Scalar::from_bytes(bytes);
        assert_eq!(number(&short.to_bytes()), number(bytes) % &order);
        assert_eq!(Scalar::from_canonical(bytes).is_some(), number(bytes) < order);
        let sum = reduced.multiply_add(&short, &reduced);
        let expected = number(&wide) * (number(bytes) + 1u8) % &order;
        assert_eq!(number(&sum.to_bytes()), expected);
    }
    for (offset, canonical) in [(0u8, false), (1, true)] {
        let bytes: [u8; 32] = (&order - offset).to_bytes_le().try_into().unwrap();
        assert_eq!(Scalar::from_canonical(&bytes).is_some(), canonical);
    }
}

/// RFC 8032 section 5.1: the order of the base point.
fn order() -> BigUint {
    let low: BigUint = "27742317777372353535851937790883648493".parse().unwrap();
    BigUint::from(2u8).pow(252) + low
}

/// Products of double-precision numbers are rounded to nearest whatever the program has set, which
/// it finds again.
#[test]
fn the_rounding_mode_of_the_program_does_not_matter() {
    let Some(room) = Fma256::enter(&widelane_cpu::Policy::open()) else {
        eprintln!("room fma256 is closed here: nothing was tested");
        return;
    };
    let (scalar, mut point) = ([0x5a; 32], [0; 32]);
    point[0] = 9;
    let mut expected = [[0; 32]; 2];
    x25519::<Portable>((), &[&scalar], &[&point], &mut expected[..1]);
    ed25519_base::<Portable>((), &[&scalar], &mut expected[1..]);
    for mode in 0..4 {
        let mut found = [[0; 32]; 2];
        let ((), is_kept) = with_rounding(mode, || {
            x25519::<Fma256x4>(room, &[&scalar], &[&point], &mut found[..1]);
            ed25519_base::<Fma256x4>(room, &[&scalar], &mut found[1..]);
        });
        assert_eq!((found, is_kept), (expected, true), "mode {mode}");
    }
}
