//! Key generation, ECDH and verification of a batch of jobs, written once for all rooms and curves.

use core::array;
use core::marker::PhantomData;

use widelane_secret::wipe;

use super::curve::Curve;
use super::element::{Element, Prime};
use super::inverse::Invert;
use super::job::{DeriveJob, GenerateJob, Verdict, VerifyJob};
use super::multiply::{Multiply, MultiplyBase};
use super::point::{Affine, Jacobian};
use super::sign::has_x;
use crate::digits::{from_bytes, is_zero, less, to_bytes};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// The most lanes that a room has.
const LANES_MAX: usize = 8;

/// One number for each lane, each in digits.
pub(super) type Numbers<const D: usize> = [[u64; D]; LANES_MAX];

/// What `digits` finds in the job of each lane. Lanes without a job repeat the first one; nobody
/// reads their result.
pub(super) fn numbers<J, const D: usize>(
    jobs: &[J],
    digits: impl Fn(&J) -> [u64; D],
) -> Numbers<D> {
    assert!((1..=LANES_MAX).contains(&jobs.len()), "a batch has 1 to {LANES_MAX} jobs");
    array::from_fn(|lane| digits(jobs.get(lane).unwrap_or(&jobs[0])))
}

/// Generates public keys.
pub(super) struct Generate<'a, 'b, C, const D: usize> {
    pub jobs: &'a mut [GenerateJob<'b, D>],
    pub curve: PhantomData<C>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Generate<'_, '_, C, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let mut private = numbers(self.jobs, |job| job.private.digits);
        let k = Element::from_lanes(room, |lane| private[lane]);
        let (product, infinite) = L::call(room, MultiplyBase::<C, L, D>(k));
        let (point, good) = checked(room, product, infinite);
        let (x, y) = (point.x.leave_montgomery(), point.y.leave_montgomery());
        for (lane, job) in self.jobs.iter_mut().enumerate() {
            let (x_bytes, y_bytes) = job.public.split_at_mut(C::BYTES);
            job.verdict = judge(good.declassify(lane), || {
                to_bytes(&x.lane(lane), x_bytes);
                to_bytes(&y.lane(lane), y_bytes);
            });
        }
        wipe(private.as_flattened_mut());
        L::wipe_registers(room);
    }
}

/// Derives shared secrets.
pub(super) struct Derive<'a, 'b, C, const D: usize> {
    pub jobs: &'a mut [DeriveJob<'b, D>],
    pub curve: PhantomData<C>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Derive<'_, '_, C, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let mut private = numbers(self.jobs, |job| job.private.digits);
        let scalar = Element::from_lanes(room, |lane| private[lane]);
        let (x, y) = (numbers(self.jobs, |job| job.peer.x), numbers(self.jobs, |job| job.peer.y));
        let point = Affine::<C, L, D> {
            x: Element::from_lanes(room, |lane| x[lane]),
            y: Element::from_lanes(room, |lane| y[lane]),
        };
        let product = L::call(room, Multiply { scalar, point });
        let (point, good) = checked(room, product, LaneMask::NONE);
        let shared = point.x.leave_montgomery();
        for (lane, job) in self.jobs.iter_mut().enumerate() {
            job.verdict = judge(good.declassify(lane), || to_bytes(&shared.lane(lane), job.shared));
        }
        wipe(private.as_flattened_mut());
        L::wipe_registers(room);
    }
}

/// Verifies signatures.
pub(super) struct Verify<'a, 'b, C, const D: usize> {
    pub jobs: &'a mut [VerifyJob<'b, D>],
    pub curve: PhantomData<C>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Verify<'_, '_, C, D> {
    type Output = ();

    /// FIPS 186-5, section 6.4.2. All of it is public.
    #[inline(always)]
    fn run(self, room: L::Room) {
        let order = &const { <C::Order as Prime<D>>::MODULUS };
        // A number out of range is replaced by one and its job rejected.
        let in_range = |number: &[u64; D]| !is_zero(number) && less(number, &order.m);
        let mut one = [0; D];
        one[0] = 1;
        let numbers_in_range = |numbers: Numbers<D>| {
            numbers.map(|number| if in_range(&number) { number } else { one })
        };
        let r_digits = numbers(self.jobs, |job| from_bytes(&job.signature[..C::BYTES]));
        let s_digits = numbers(self.jobs, |job| from_bytes(&job.signature[C::BYTES..]));
        let ranges: [bool; LANES_MAX] =
            array::from_fn(|lane| in_range(&r_digits[lane]) && in_range(&s_digits[lane]));
        let (r_digits, s_digits) = (numbers_in_range(r_digits), numbers_in_range(s_digits));
        let digests = numbers(self.jobs, |job| from_bytes(job.digest));
        let x = numbers(self.jobs, |job| job.public.x);
        let y = numbers(self.jobs, |job| job.public.y);

        let r = Element::<C::Order, L, D>::from_lanes(room, |lane| r_digits[lane]);
        let mut w =
            Element::<C::Order, L, D>::from_lanes(room, |lane| s_digits[lane]).enter_montgomery();
        L::call(room, Invert(&mut w));
        let u1 = Element::from_lanes(room, |lane| digests[lane]).times(w).canonical();
        let u2 = r.times(w).canonical();
        let public = Affine::<C, L, D> {
            x: Element::from_lanes(room, |lane| x[lane]),
            y: Element::from_lanes(room, |lane| y[lane]),
        };
        let (of_base, infinite) = L::call(room, MultiplyBase::<C, L, D>(u1));
        let of_public = L::call(room, Multiply { scalar: u2, point: public });
        let sum = of_base.plus_any(infinite, of_public);

        let good = has_x(room, sum, r);
        for (lane, job) in self.jobs.iter_mut().enumerate() {
            job.verdict = judge(ranges[lane] && good.declassify(lane), || {});
        }
        L::wipe_registers(room);
    }
}

/// The affine form of a product, and where it is a point of the curve: not infinity, and nothing
/// that a fault in the machine has made of it.
#[inline(always)]
fn checked<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    product: Jacobian<C, L, D>,
    infinite: LaneMask,
) -> (Affine<C, L, D>, LaneMask) {
    let mut z = product.z;
    L::call(room, Invert(&mut z));
    let point = product.affine(z);
    // Where z was zero, so is the point, which is not on the curve.
    (point, point.is_on_curve() & !infinite)
}

pub(super) fn judge(good: bool, write: impl FnOnce()) -> Verdict {
    if good {
        write();
        Verdict::Done
    } else {
        Verdict::Rejected
    }
}
