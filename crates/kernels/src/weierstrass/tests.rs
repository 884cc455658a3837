//! Elements against arbitrary-precision numbers, in every room; the generators' tables.

use std::vec::Vec;
use std::{eprintln, vec};

use num_bigint::BigUint;
use widelane_cpu::{Fma256, Ifma256, Ifma512, Room};
use widelane_testkit::random::Random;
use widelane_testkit::rooms::for_each_room;

use super::curve::Curve;
use super::door::CurveLanes;
use super::element::{Element, Field, Prime};
use super::inverse::{Invert, InvertBoth, InvertSideBySide};
use super::job::{DeriveJob, GenerateJob, Point, Scalar, SignJob, Verdict, VerifyJob};
use super::p256::{P256, P256Field, P256Order};
use super::p384::{P384, P384Field, P384Order};
use super::point::{Coordinate, Jacobian};
use super::scalar::{Windows, window_count};
use super::sign::has_x;
use crate::digits::{CurveModulus, DIGIT_BITS, bits_of};
use crate::lanes::fma256_x4::with_rounding;
use crate::lanes::{Fma256x4, Ifma256x4, Ifma512x8, LaneMask, Lanes, Portable};
use crate::registers::{Register, Task};

fn big(digits: &[u64]) -> BigUint {
    digits.iter().rev().fold(BigUint::ZERO, |number, digit| (number << DIGIT_BITS) + *digit)
}

fn digits<const D: usize>(number: &BigUint) -> [u64; D] {
    let mask = (1u64 << DIGIT_BITS) - 1;
    std::array::from_fn(|index| {
        let digit = (number >> bits_of(index)) & BigUint::from(mask);
        digit.try_into().expect("a digit")
    })
}

/// Numbers below 4·m: edges, and random ones.
fn operands<const D: usize>(modulus: &CurveModulus<D>, random: &mut Random) -> Vec<BigUint> {
    let m = big(&modulus.m);
    let mut operands = Vec::new();
    for multiple in 0..4u32 {
        for offset in 0..3u32 {
            operands.push(&m * multiple + offset);
            operands.push(&m * (multiple + 1) - 1u32 - offset);
        }
    }
    operands.push(BigUint::from(1u32) << (bits_of(D) - 2));
    for _ in 0..40 {
        let random_digits: Vec<u64> =
            (0..D).map(|_| random.next_u64() >> (64 - DIGIT_BITS)).collect();
        operands.push(big(&random_digits));
    }
    let limit = &m * 4u32;
    operands.into_iter().map(|number| number % &limit).collect()
}

/// What the test wants of two elements, lane by lane.
struct Results<P, L: Lanes, const D: usize> {
    product: Element<P, L, D>,
    square: Element<P, L, D>,
    plain: Element<P, L, D>,
    montgomery: Element<P, L, D>,
    inverse: Element<P, L, D>,
    canonical: Element<P, L, D>,
}

struct Everything<'a, P, L: Lanes, const D: usize>(&'a Element<P, L, D>, &'a Element<P, L, D>);

impl<P: Prime<D>, L: Lanes, const D: usize> Task<L> for Everything<'_, P, L, D> {
    type Output = Results<P, L, D>;

    #[inline(always)]
    fn run(self, room: L::Room) -> Self::Output {
        let (x, y) = (*self.0, *self.1);
        let mut inverse = x;
        L::call(room, Invert(&mut inverse));
        Results {
            product: x.times(y),
            square: x.squared(),
            plain: x.leave_montgomery(),
            montgomery: x.enter_montgomery(),
            inverse,
            canonical: x.canonical(),
        }
    }
}

fn elements_agree<P: Prime<D>, L: Lanes, const D: usize>(room: L::Room) {
    let modulus = P::MODULUS;
    let m = big(&modulus.m);
    let r = BigUint::from(1u32) << bits_of(D);
    let r_inverse = r.modinv(&m).expect("an odd modulus");
    let operands = operands(&modulus, &mut Random::new(52));
    for (index, y) in operands.iter().enumerate() {
        let x_of = |lane: usize| &operands[(index * 3 + lane) % operands.len()];
        let element = |number: &dyn Fn(usize) -> BigUint| {
            Element::<P, L, D>::from_lanes(room, |lane| digits(&number(lane)))
        };
        let (x, y_lanes) = (element(&|lane| x_of(lane).clone()), element(&|_| y.clone()));
        let results = L::call(room, Everything(&x, &y_lanes));
        for lane in 0..L::LANES {
            let x = x_of(lane);
            let check = |name, element: Element<P, L, D>, bound: u32, expected: BigUint| {
                let found = big(&element.lane(lane));
                assert!(found < &m * bound, "{name} of {x} and {y} is out of bounds");
                assert_eq!(found % &m, expected % &m, "{name} of {x} and {y}");
            };
            check("product", results.product, 2, x * y * &r_inverse);
            check("square", results.square, 2, x * x * &r_inverse);
            check("plain form", results.plain, 1, x * &r_inverse);
            check("Montgomery form", results.montgomery, 2, x * &r);
            check("canonical form", results.canonical, 1, x.clone());
            let inverse = x.modinv(&m).unwrap_or_default() * &r * &r;
            check("inverse", results.inverse, 2, inverse);
        }
    }
}

/// An element of either prime of a curve, the same in all lanes, is inverted with the other by
/// `invert`.
fn inversions_agree<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    invert: impl Fn(&mut Coordinate<C, L, D>, &mut Element<C::Order, L, D>),
) {
    let mut random = Random::new(53);
    let numbers = operands(&<C::Field as Prime<D>>::MODULUS, &mut random);
    let others = operands(&<C::Order as Prime<D>>::MODULUS, &mut random);
    for (number, other) in numbers.iter().zip(&others) {
        let mut first = Coordinate::<C, L, D>::splat(room, &digits(number));
        let mut second = Element::<C::Order, L, D>::splat(room, &digits(other));
        let (mut first_alone, mut second_alone) = (first, second);
        invert(&mut first, &mut second);
        L::call(room, Invert(&mut first_alone));
        L::call(room, Invert(&mut second_alone));
        for lane in 0..L::LANES {
            let [found, expected] = [first, first_alone].map(|inverse| inverse.canonical());
            assert_eq!(found.lane(lane), expected.lane(lane), "inverse of {number}");
            let [found, expected] = [second, second_alone].map(|inverse| inverse.canonical());
            assert_eq!(found.lane(lane), expected.lane(lane), "inverse of {other}");
        }
    }
}

fn both_are_inverted<C: Curve<D>, L: Lanes, const D: usize>(room: L::Room) {
    inversions_agree::<C, L, D>(room, |first, second| {
        L::call(room, InvertBoth { first, second });
    });
}

fn lanes_share_inversions<C: Curve<D>, L: Lanes, const D: usize>(room: L::Room) {
    inversions_agree::<C, L, D>(room, |first, second| {
        L::call(room, InvertSideBySide { first, second });
    });
}

/// Sums that are negative or large, as the formulas make them.
struct Sums<'a, P, L: Lanes, const D: usize>(&'a Element<P, L, D>, &'a Element<P, L, D>);

impl<P: Field<D>, L: Lanes, const D: usize> Task<L> for Sums<'_, P, L, D> {
    type Output = [Element<P, L, D>; 4];

    #[inline(always)]
    fn run(self, _room: L::Room) -> Self::Output {
        let (x, y) = (*self.0, *self.1);
        [
            x.minus(y).settle(),
            x.columns().shl(8).plus(y).settle(),
            x.columns().minus_columns(y.columns().shl(8)).settle(),
            x.product(y).minus::<3>(y.square()).reduce().settle(),
        ]
    }
}

fn sums_agree<P: Field<D>, L: Lanes, const D: usize>(room: L::Room) {
    let modulus = P::MODULUS;
    let m = big(&modulus.m);
    let r = BigUint::from(1u32) << bits_of(D);
    let r_inverse = r.modinv(&m).expect("an odd modulus");
    let operands = operands(&modulus, &mut Random::new(25));
    let zero = &m << 12;
    for (index, y) in operands.iter().enumerate() {
        let x_of = |lane: usize| &operands[(index * 5 + lane) % operands.len()];
        let x = Element::<P, L, D>::from_lanes(room, |lane| digits(x_of(lane)));
        let y_lanes = Element::<P, L, D>::from_lanes(room, |_| digits(y));
        let sums = L::call(room, Sums(&x, &y_lanes));
        for lane in 0..L::LANES {
            let x = x_of(lane);
            let expected = [
                x + &zero - y,
                (x << 8) + y,
                x + &zero - (y << 8),
                (x * y + &zero * &m - ((y * y) << 3)) * &r_inverse,
            ];
            for (which, (sum, expected)) in sums.iter().zip(expected).enumerate() {
                let found = big(&sum.lane(lane));
                assert!(found < &m * 3u32, "sum {which} of {x} and {y} is out of bounds");
                assert_eq!(found % &m, expected % &m, "sum {which} of {x} and {y}");
            }
        }
    }
}

fn in_room<L: Lanes>(room: L::Room) {
    elements_agree::<P256Field, L, 5>(room);
    elements_agree::<P256Order, L, 5>(room);
    elements_agree::<P384Field, L, 8>(room);
    elements_agree::<P384Order, L, 8>(room);
    sums_agree::<P256Field, L, 5>(room);
    sums_agree::<P384Field, L, 8>(room);
    both_are_inverted::<P256, L, 5>(room);
    both_are_inverted::<P384, L, 8>(room);
}

fn in_wide_room<L: Lanes>(room: L::Room) {
    in_room::<L>(room);
    lanes_share_inversions::<P256, L, 5>(room);
    lanes_share_inversions::<P384, L, 8>(room);
}

#[test]
fn elements_agree_with_the_model_in_every_room() {
    for_each_room(|room, policy| match room {
        Room::Portable => in_room::<Portable>(()),
        Room::Fma256 => in_wide_room::<Fma256x4>(Fma256::enter(policy).expect("an open room")),
        Room::Ifma256 => in_wide_room::<Ifma256x4>(Ifma256::enter(policy).expect("an open room")),
        Room::Ifma512 => in_wide_room::<Ifma512x8>(Ifma512::enter(policy).expect("an open room")),
        room => panic!("{room} is no room of these kernels"),
    });
}

/// Where points (x·z², …, z) of the curve's field have the x that numbers are made of.
struct HasX<'a, C: Curve<D>, L: Lanes, const D: usize> {
    x: &'a Coordinate<C, L, D>,
    z: &'a Coordinate<C, L, D>,
    r: &'a Element<C::Order, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for HasX<'_, C, L, D> {
    type Output = LaneMask;

    #[inline(always)]
    fn run(self, room: L::Room) -> LaneMask {
        let (x, z) = (self.x.enter_montgomery(), self.z.enter_montgomery());
        let point = Jacobian::<C, L, D> { x: x.times(z.squared()), y: z, z };
        has_x(room, point, *self.r)
    }
}

fn coordinates_are_told_apart<C: Curve<D>, L: Lanes, const D: usize>(room: L::Room) {
    let [p, n] = [&<C::Field as Prime<D>>::MODULUS, &<C::Order as Prime<D>>::MODULUS];
    let [p, n] = [p, n].map(|modulus| big(&modulus.m));
    let one = BigUint::from(1u32);
    // Random ones are above n once in 2^32 times on P-256, and never on P-384.
    for x in [BigUint::ZERO, one.clone(), &n - 1u32, n.clone(), &n + 1u32, &p - 1u32] {
        for z in [one.clone(), &p / 3u32] {
            for (offset, wanted) in [(BigUint::ZERO, LaneMask::ALL), (one.clone(), LaneMask::NONE)]
            {
                let [x_lanes, z] =
                    [&x, &z].map(|number| Element::splat(room, &digits::<D>(number)));
                let r = Element::splat(room, &digits::<D>(&((&x + offset) % &n)));
                let found = L::call(room, HasX::<C, L, D> { x: &x_lanes, z: &z, r: &r });
                for lane in 0..L::LANES {
                    assert_eq!(found.declassify(lane), wanted.declassify(lane), "{x}");
                }
            }
        }
    }
    // r + n is p, which has no coordinate: modulo n, an x of zero is no such r.
    let [x, z] = [BigUint::ZERO, one].map(|number| Element::splat(room, &digits::<D>(&number)));
    let r = Element::splat(room, &digits::<D>(&(&p - &n)));
    let found = L::call(room, HasX::<C, L, D> { x: &x, z: &z, r: &r });
    assert!((0..L::LANES).all(|lane| !found.declassify(lane)));
}

#[test]
fn scalars_of_another_length_are_refused() {
    for bytes in [0, 31, 33, 48, 64] {
        assert!(Scalar::from_bytes::<P256>(&vec![0; bytes]).is_none(), "{bytes} bytes");
        assert!(Scalar::from_bytes::<P256>(&vec![1; bytes]).is_none(), "{bytes} bytes");
    }
    for bytes in [32, 47, 49, 53, 96] {
        assert!(Scalar::from_bytes::<P384>(&vec![1; bytes]).is_none(), "{bytes} bytes");
    }
}

/// What every kind of job makes of the same operands.
fn results<L: CurveLanes<C, D>, C: Curve<D>, const D: usize>(room: L::Room) -> Vec<Vec<u8>> {
    let verdict = Verdict::Pending;
    let private = &Scalar::from_bytes::<C>(&vec![7; C::BYTES]).expect("a private key");
    let (mut public, mut shared) = (vec![0; 2 * C::BYTES], vec![0; C::BYTES]);
    L::generate(room, &mut [GenerateJob { private, public: &mut public, verdict }]);
    let peer = &Point::from_bytes::<C>(&public).expect("a point");
    L::derive(room, &mut [DeriveJob { private, peer, shared: &mut shared, verdict }]);
    let (nonce, digest) = (&[3; 64], &[5; 32]);
    let mut signature = vec![0; 2 * C::BYTES];
    let mut job = SignJob { private, nonce, digest, signature: &mut signature, verdict };
    L::sign(room, std::slice::from_mut(&mut job));
    let (_, alone) = sign_alone::<L, C, D>(room, private, nonce);
    let mut job = VerifyJob { public: peer, digest, signature: &signature, verdict };
    L::verify(room, std::slice::from_mut(&mut job));
    let is_good = vec![u8::from(job.verdict == Verdict::Done)];
    vec![public, shared, signature, alone, is_good]
}

/// Products of double-precision numbers are rounded to nearest whatever the program has set, which
/// it finds again.
#[test]
fn the_rounding_mode_of_the_program_does_not_matter() {
    let Some(room) = Fma256::enter(&widelane_cpu::Policy::open()) else {
        eprintln!("room fma256 is closed here: nothing was tested");
        return;
    };
    let expected = [results::<Portable, P256, 5>(()), results::<Portable, P384, 8>(())];
    assert!(expected.iter().all(|results| results[4] == [1]));
    for mode in 0..4 {
        let found = with_rounding(mode, || {
            [results::<Fma256x4, P256, 5>(room), results::<Fma256x4, P384, 8>(room)]
        });
        assert_eq!(found, (expected.clone(), true), "mode {mode}");
    }
}

/// A signature leaves no batch if either half of its key has a wrong bit; those beside it do.
fn damaged_keys_sign_nothing<L: CurveLanes<C, D>, C: Curve<D>, const D: usize>(room: L::Room) {
    let good = Scalar::from_bytes::<C>(&vec![7; C::BYTES]).expect("a private key");
    for damage in 0..2 * D {
        let mut damaged = good.clone();
        let half = if damage < D { &mut damaged.digits } else { &mut damaged.negated };
        half[damage % D] ^= 4;
        let mut signatures = vec![vec![0; 2 * C::BYTES]; L::LANES];
        let keys = [&damaged, &good].into_iter().cycle();
        let mut jobs: Vec<_> = (signatures.iter_mut().zip(keys))
            .map(|(signature, private)| SignJob {
                private,
                nonce: &[3; 64],
                digest: &[5; 32],
                signature,
                verdict: Verdict::Pending,
            })
            .collect();
        L::sign(room, &mut jobs);
        for (lane, job) in jobs.iter().enumerate() {
            let leaves = lane % 2 == 1;
            let wanted = if leaves { Verdict::Done } else { Verdict::Rejected };
            assert_eq!(job.verdict, wanted, "lane {lane}, digit {damage}");
            assert_eq!(job.signature.iter().any(|byte| *byte != 0), leaves);
        }
    }
}

/// The same where the lanes share a job.
fn damaged_keys_sign_nothing_alone<L: CurveLanes<C, D>, C: Curve<D>, const D: usize>(
    room: L::Room,
) {
    let good = Scalar::from_bytes::<C>(&vec![7; C::BYTES]).expect("a private key");
    for damage in 0..2 * D {
        let mut damaged = good.clone();
        let half = if damage < D { &mut damaged.digits } else { &mut damaged.negated };
        half[damage % D] ^= 4;
        for (private, wanted) in [(&damaged, Verdict::Rejected), (&good, Verdict::Done)] {
            let (verdict, signature) = sign_alone::<L, C, D>(room, private, &[3; 64]);
            assert_eq!(verdict, wanted, "digit {damage}");
            assert_eq!(signature.iter().any(|byte| *byte != 0), wanted == Verdict::Done);
        }
    }
}

fn sign_alone<L: CurveLanes<C, D>, C: Curve<D>, const D: usize>(
    room: L::Room,
    private: &Scalar<D>,
    nonce: &[u8; 64],
) -> (Verdict, Vec<u8>) {
    let mut signature = vec![0; 2 * C::BYTES];
    let (digest, verdict) = (&[5; 32], Verdict::Pending);
    let mut job = SignJob { private, nonce, digest, signature: &mut signature, verdict };
    L::sign_alone(room, &mut job);
    (job.verdict, signature)
}

/// The one nonce of P-256 for which the lanes' last addition is of equal points, or of opposite
/// ones for its negative (`docs/design/nist-curves.md`), and zero, are refused; their neighbours
/// are not.
fn nonces_without_a_product_are_refused<L: CurveLanes<P256, 5>>(room: L::Room) {
    let n = big(&<P256Order as Prime<5>>::MODULUS.m);
    let equal = "fffffffefffffffeffffffffffffffffc2e706aa57085e7af445cd4303a35a51";
    let equal = BigUint::parse_bytes(equal.as_bytes(), 16).expect("a number");
    let private = Scalar::from_bytes::<P256>(&[7; 32]).expect("a private key");
    for number in [equal.clone(), &n - &equal, n.clone()] {
        for (offset, wanted) in [(0u32, Verdict::Rejected), (1, Verdict::Done)] {
            let mut nonce = [0; 64];
            for (byte, value) in nonce.iter_mut().rev().zip((&number + offset).to_bytes_le()) {
                *byte = value;
            }
            let (verdict, signature) = sign_alone::<L, P256, 5>(room, &private, &nonce);
            assert_eq!(verdict, wanted, "{number:x} + {offset}");
            assert_eq!(signature.iter().any(|byte| *byte != 0), wanted == Verdict::Done);
        }
    }
}

fn lone_signatures_are_confirmed<L: CurveLanes<P256, 5> + CurveLanes<P384, 8>>(room: L::Room) {
    damaged_keys_sign_nothing_alone::<L, P256, 5>(room);
    damaged_keys_sign_nothing_alone::<L, P384, 8>(room);
    nonces_without_a_product_are_refused::<L>(room);
}

fn signatures_are_confirmed<L: CurveLanes<P256, 5> + CurveLanes<P384, 8>>(room: L::Room) {
    coordinates_are_told_apart::<P256, L, 5>(room);
    coordinates_are_told_apart::<P384, L, 8>(room);
    damaged_keys_sign_nothing::<L, P256, 5>(room);
    damaged_keys_sign_nothing::<L, P384, 8>(room);
}

#[test]
fn signatures_are_confirmed_in_every_room() {
    for_each_room(|room, policy| match room {
        Room::Portable => signatures_are_confirmed::<Portable>(()),
        Room::Fma256 => {
            let room = Fma256::enter(policy).expect("an open room");
            signatures_are_confirmed::<Fma256x4>(room);
            lone_signatures_are_confirmed::<Fma256x4>(room);
        }
        Room::Ifma256 => {
            let room = Ifma256::enter(policy).expect("an open room");
            signatures_are_confirmed::<Ifma256x4>(room);
            lone_signatures_are_confirmed::<Ifma256x4>(room);
        }
        Room::Ifma512 => {
            let room = Ifma512::enter(policy).expect("an open room");
            signatures_are_confirmed::<Ifma512x8>(room);
            lone_signatures_are_confirmed::<Ifma512x8>(room);
        }
        room => panic!("{room} is no room of these kernels"),
    });
}

fn windows_add_up<C: Curve<D>, const D: usize>(bits: usize) {
    let n = big(&<C::Order as Prime<D>>::MODULUS.m);
    let mut random = Random::new(bits as u64);
    let mut numbers = operands(&<C::Order as Prime<D>>::MODULUS, &mut random);
    numbers.extend((0..8 * C::BYTES).map(|bit| BigUint::from(1u32) << bit));
    for number in numbers.into_iter().map(|number| number % &n) {
        let scalar = Element::<C::Order, Portable, D>::splat((), &digits(&number));
        let windows = Windows::new(scalar, bits);
        let (mut sum, mut borrowed) = (BigUint::ZERO, BigUint::ZERO);
        for window in 0..window_count(8 * C::BYTES, bits) {
            let (magnitude, negative) = windows.digit((), window);
            let magnitude = magnitude.row()[0];
            assert!(magnitude <= 1 << (bits - 1));
            let part = BigUint::from(magnitude) << (bits * window);
            *(if negative.declassify(0) { &mut borrowed } else { &mut sum }) += part;
        }
        assert_eq!(sum, number + borrowed);
    }
}

#[test]
fn windows_add_up_to_their_scalar() {
    for bits in 4..=7 {
        windows_add_up::<P256, 5>(bits);
        windows_add_up::<P384, 8>(bits);
    }
}

/// Every entry of a generator's table, by the geometry of chords and tangents.
fn table_is_right<C: Curve<D>, const D: usize>(generator: [&str; 2]) {
    let p = big(&<C::Field as Prime<D>>::MODULUS.m);
    let r_inverse = (BigUint::from(1u32) << bits_of(D)).modinv(&p).expect("a prime");
    let windows = window_count(8 * C::BYTES, C::BASE_WINDOW);
    let number = |digits: [u64; D]| big(&digits) * &r_inverse % &p;
    let entry = |window: usize, index: usize| {
        [0, 1].map(|coordinate| {
            number(std::array::from_fn(|digit| {
                C::base_row(window, coordinate, digit)[index / 16][index % 16]
            }))
        })
    };
    let first = generator.map(|hex| BigUint::parse_bytes(hex.as_bytes(), 16).expect("a number"));
    assert_eq!(entry(0, 0), first);
    for window in 0..windows {
        let base = entry(window, 0);
        let last = (1 << (C::BASE_WINDOW - 1)) - 1;
        for index in 0..last {
            let sum = entry(window, index + 1);
            assert!(is_sum(&p, &entry(window, index), &base, &sum), "entry {index} of {window}");
        }
        if window + 1 < windows {
            let half = entry(window, last);
            assert!(is_sum(&p, &half, &half, &entry(window + 1, 0)), "base of {window}");
        }
    }
}

/// Whether the line through two points of the curve, or the tangent where they are one, meets the
/// curve again opposite to `sum`.
fn is_sum(p: &BigUint, left: &[BigUint; 2], right: &[BigUint; 2], sum: &[BigUint; 2]) -> bool {
    let ([x1, y1], [x2, y2], [x3, y3]) = (left, right, sum);
    let difference = |left: &BigUint, right: &BigUint| (left + p - right) % p;
    let (rise, run) = if left == right {
        ((x1 * x1 - 1u32) * 3u32, y1 * 2u32)
    } else {
        (difference(y2, y1), difference(x2, x1))
    };
    let on_line = (&run * (p - y3) + &rise * difference(x1, x3)) % p == &run * y1 % p;
    // The roots of x³ − slope²·x² + … on the line add up to slope².
    let roots = (&run * &run * (x1 + x2 + x3)) % p == &rise * &rise % p;
    on_line && roots
}

#[test]
fn the_tables_are_those_of_the_generators() {
    use super::numbers;
    table_is_right::<P256, 5>([numbers::P256.x, numbers::P256.y]);
    table_is_right::<P384, 8>([numbers::P384.x, numbers::P384.y]);
}
