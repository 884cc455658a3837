//! ECDSA signatures, of one job per lane or of one job in all lanes.

use core::array;
use core::marker::PhantomData;

use widelane_secret::wipe;

use super::batch::{Numbers, judge, numbers};
use super::curve::Curve;
use super::element::{Element, Prime, Product};
use super::inverse::{InvertBoth, InvertSideBySide};
use super::job::SignJob;
use super::multiply::MultiplyBase;
use super::numbers::NONCE_BYTES;
use super::point::{Coordinate, Jacobian};
use super::spread::{MultiplyBaseSpread, half};
use crate::digits::{bits_of, from_bytes, to_bytes};
use crate::lanes::{LaneMask, Lanes};
use crate::registers::Task;

/// Signs digests, one in each lane.
pub(super) struct Sign<'a, 'b, C, const D: usize> {
    pub jobs: &'a mut [SignJob<'b, D>],
    pub curve: PhantomData<C>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Sign<'_, '_, C, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let operands = Operands::load(self.jobs);
        let signing = Signing::<C, L, D>::new(room, &operands);
        let (product, infinite) = L::call(room, MultiplyBase(signing.k.leave_montgomery()));
        let (mut z_inverse, mut k_inverse) = (product.z, signing.k);
        L::call(room, InvertBoth { first: &mut z_inverse, second: &mut k_inverse });
        let signature = signing.signature(product, z_inverse, k_inverse);

        let negative_k = signing.negative_k();
        let (point, negative_infinite) = L::call(room, MultiplyBase(negative_k));
        let confirm = Confirm { signing: &signing, signature: &signature, negative_k, point };
        let good = L::call(room, confirm);
        signature.store(good & !infinite & !negative_infinite, self.jobs);
        L::wipe_registers(room);
    }
}

/// Signs one digest, with the lanes sharing what takes longest: products of the generator and the
/// two inversions. The rest is done in every lane alike.
pub(super) struct SignAlone<'a, 'b, C, const D: usize> {
    pub job: &'a mut SignJob<'b, D>,
    pub curve: PhantomData<C>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for SignAlone<'_, '_, C, D> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: L::Room) {
        let jobs = core::slice::from_mut(self.job);
        let operands = Operands::load(jobs);
        let signing = Signing::<C, L, D>::new(room, &operands);
        let (k, negative_k) = (signing.k.leave_montgomery(), signing.negative_k());
        let (products, infinite) = L::call(room, MultiplyBaseSpread { k, negative_k });
        let (product, point) = (products.of_lane(0), products.of_lane(half::<L>()));
        let (mut z_inverse, mut k_inverse) = (product.z, signing.k);
        L::call(room, InvertSideBySide { first: &mut z_inverse, second: &mut k_inverse });
        let signature = signing.signature(product, z_inverse, k_inverse);

        let confirm = Confirm { signing: &signing, signature: &signature, negative_k, point };
        let good = L::call(room, confirm);
        signature.store(good & !infinite, jobs);
        L::wipe_registers(room);
    }
}

/// What signatures are made of, in digits; wiped when dropped.
struct Operands<const D: usize> {
    private: Numbers<D>,
    negated: Numbers<D>,
    /// Of the number for a nonce, D digits and what is above.
    low: Numbers<D>,
    high: Numbers<D>,
    digests: Numbers<D>,
}

impl<const D: usize> Operands<D> {
    #[inline(always)]
    fn load(jobs: &[SignJob<'_, D>]) -> Self {
        Operands {
            private: numbers(jobs, |job| job.private.digits),
            negated: numbers(jobs, |job| job.private.negated),
            low: numbers(jobs, |job| wide_digits(job.nonce, 0)),
            high: numbers(jobs, |job| wide_digits(job.nonce, D)),
            digests: numbers(jobs, |job| from_bytes(job.digest)),
        }
    }
}

impl<const D: usize> Drop for Operands<D> {
    fn drop(&mut self) {
        for secret in [&mut self.private, &mut self.negated, &mut self.low, &mut self.high] {
            wipe(secret.as_flattened_mut());
        }
    }
}

/// Digits of the number for a nonce.
const NONCE_DIGITS: usize = (8 * NONCE_BYTES).div_ceil(bits_of(1));

/// `D` digits of the number for a nonce from digit `from` on; zeros beyond its end.
fn wide_digits<const D: usize>(nonce: &[u8; NONCE_BYTES], from: usize) -> [u64; D] {
    let mut digits: [u64; NONCE_DIGITS] = from_bytes(nonce);
    let part = array::from_fn(|index| digits.get(from + index).copied().unwrap_or(0));
    wipe(&mut digits);
    part
}

/// The same in lanes.
struct Signing<C: Curve<D>, L, const D: usize> {
    /// In Montgomery form, as what follows.
    k: Element<C::Order, L, D>,
    d: Element<C::Order, L, D>,
    /// n − d.
    negative_d: Element<C::Order, L, D>,
    /// In plain form.
    e: Element<C::Order, L, D>,
}

/// r and s, canonical and in plain form.
struct Signature<C: Curve<D>, L, const D: usize> {
    r: Element<C::Order, L, D>,
    s: Element<C::Order, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Signing<C, L, D> {
    #[inline(always)]
    fn new(room: L::Room, operands: &Operands<D>) -> Self {
        const { assert!(8 * NONCE_BYTES >= C::NUMBERS.bits + 64, "biased nonces tell the key") };
        const { assert!(NONCE_DIGITS <= 2 * D, "nonces do not fit into low and high digits") };
        let lanes = |numbers: &Numbers<D>| {
            Element::<C::Order, L, D>::from_lanes(room, |lane| numbers[lane])
        };
        let wide =
            Product::<C::Order, L, D>::from_digits(lanes(&operands.low).0, lanes(&operands.high).0);
        let rrr = Element::splat(room, &<C::Order as Prime<D>>::MODULUS.rrr);
        Signing {
            k: wide.reduce().carry().times(rrr),
            d: lanes(&operands.private).enter_montgomery(),
            negative_d: lanes(&operands.negated).enter_montgomery(),
            e: lanes(&operands.digests),
        }
    }

    #[inline(always)]
    fn order(&self) -> Element<C::Order, L, D> {
        Element::splat(self.k.room(), &<C::Order as Prime<D>>::MODULUS.m)
    }

    /// n − k in plain form.
    #[inline(always)]
    fn negative_k(&self) -> Element<C::Order, L, D> {
        self.order().minus(self.k.leave_montgomery()).carry()
    }

    /// FIPS 186-5, section 6.4.1, from step 5 on: of k·G and the inverses of its z and of k.
    #[inline(always)]
    fn signature(
        &self,
        product: Jacobian<C, L, D>,
        z_inverse: Coordinate<C, L, D>,
        k_inverse: Element<C::Order, L, D>,
    ) -> Signature<C, L, D> {
        let x = product.affine(z_inverse).x.leave_montgomery();
        let r = Element::<C::Order, L, D>::from_digits(x.0).canonical();
        let s = r.times(self.d).plus(self.e).carry().times(k_inverse).canonical();
        Signature { r, s }
    }
}

/// Finds out where (r, s) is the signature of e with the nonce k, by another way than it was made:
/// from the negatives of nonce and key. The point of −k, made of other entries of the table, has to
/// have the x that r is made of, and s·(−k) − r·(−d) has to be −e. (A fault that makes a wrong
/// signature by one way does not make the same by the other.)
///
/// In a function of its own, so that nothing of it is computed before the signature is: a bit of r
/// that flips in between is found.
struct Confirm<'a, C: Curve<D>, L, const D: usize> {
    signing: &'a Signing<C, L, D>,
    signature: &'a Signature<C, L, D>,
    negative_k: Element<C::Order, L, D>,
    /// Of −k.
    point: Jacobian<C, L, D>,
}

impl<C: Curve<D>, L: Lanes, const D: usize> Task<L> for Confirm<'_, C, L, D> {
    type Output = LaneMask;

    #[inline(always)]
    fn run(self, room: L::Room) -> LaneMask {
        let Confirm { signing, signature: Signature { r, s }, negative_k, point } = self;
        let right = r.times(signing.negative_d).canonical();
        let left = s.times(negative_k.enter_montgomery()).plus(signing.e).plus(signing.order());
        let rest = left.minus(right).carry().canonical();
        has_x(room, point, *r) & rest.is_zero() & !r.is_zero() & !s.is_zero()
    }
}

impl<C: Curve<D>, L: Lanes, const D: usize> Signature<C, L, D> {
    /// Writes what is good to the jobs of their lanes.
    #[inline(always)]
    fn store(&self, good: LaneMask, jobs: &mut [SignJob<'_, D>]) {
        for (lane, job) in jobs.iter_mut().enumerate() {
            let (r_bytes, s_bytes) = job.signature.split_at_mut(C::BYTES);
            job.verdict = judge(good.declassify(lane), || {
                to_bytes(&self.r.lane(lane), r_bytes);
                to_bytes(&self.s.lane(lane), s_bytes);
            });
        }
    }
}

/// Where a point is not infinity and its x is r modulo n.
#[inline(always)]
pub(super) fn has_x<C: Curve<D>, L: Lanes, const D: usize>(
    room: L::Room,
    point: Jacobian<C, L, D>,
    r: Element<C::Order, L, D>,
) -> LaneMask {
    let (x, zz) = (point.x.canonical(), point.z.squared());
    let n = Element::splat(room, &<C::Order as Prime<D>>::MODULUS.m);
    let first = Coordinate::<C, L, D>::from_digits(r.0);
    let second = Coordinate::<C, L, D>::from_digits(r.plus(n).carry().0);
    // Where z is 0, and x as well, any r would do. Elsewhere x/z² is below p, and p below 2·n.
    let is_below_p = second.canonical().equals(second);
    let (is_first, is_second) = (is_x::<C, L, D>(x, zz, first), is_x::<C, L, D>(x, zz, second));
    !zz.canonical().is_zero() & (is_first | is_second & is_below_p)
}

/// Where x, which is canonical, is a number of plain form times z².
#[inline(always)]
fn is_x<C: Curve<D>, L: Lanes, const D: usize>(
    x: Coordinate<C, L, D>,
    zz: Coordinate<C, L, D>,
    number: Coordinate<C, L, D>,
) -> LaneMask {
    number.enter_montgomery().times(zz).canonical().equals(x)
}
