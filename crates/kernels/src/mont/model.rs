//! The naive model of mont: the operations of a room in plain Rust, one digit at a time.

use super::lanes::{Arithmetic, LaneDigits, LaneModulus, Lookup, Product};
use crate::digits::{DIGIT_BITS, DIGIT_MASK};

/// The room that every other room must equal.
#[derive(Clone, Copy)]
pub(super) struct Model;

impl<const D: usize, const LANES: usize> Product<D, LANES> {
    fn column(&mut self, index: usize) -> &mut [u64; LANES] {
        if index < D { &mut self.low.0[index] } else { &mut self.high.0[index - D] }
    }

    fn add_product(&mut self, lane: usize, column: usize, x: u64, y: u64) {
        let product = u128::from(x & DIGIT_MASK) * u128::from(y & DIGIT_MASK);
        self.column(column)[lane] += product as u64 & DIGIT_MASK;
        self.column(column + 1)[lane] += (product >> DIGIT_BITS) as u64;
    }
}

impl<const LANES: usize> Arithmetic<LANES> for Model {
    fn multiply<const D: usize>(
        self,
        product: &mut Product<D, LANES>,
        x: &LaneDigits<D, LANES>,
        y: &LaneDigits<D, LANES>,
    ) {
        *product = Product::ZERO;
        for lane in 0..LANES {
            for i in 0..D {
                for j in 0..D {
                    product.add_product(lane, i + j, x.0[i][lane], y.0[j][lane]);
                }
            }
        }
    }

    fn square<const D: usize>(self, product: &mut Product<D, LANES>, x: &LaneDigits<D, LANES>) {
        self.multiply(product, x, x);
    }

    fn reduce<const D: usize>(
        self,
        z: &mut LaneDigits<D, LANES>,
        product: &mut Product<D, LANES>,
        modulus: &LaneModulus<D, LANES>,
        lookup: Option<&mut Lookup<'_, D, LANES>>,
    ) {
        if let Some(lookup) = lookup {
            self.finish(lookup);
        }
        for lane in 0..LANES {
            let m0 = modulus.m0_k0.0[0][lane];
            let k0 = modulus.m0_k0.0[1][lane];
            for i in 0..D {
                let q = product.column(i)[lane].wrapping_mul(k0) & DIGIT_MASK;
                product.add_product(lane, i, q, m0);
                for j in 1..D {
                    product.add_product(lane, i + j, q, modulus.m_above.0[j - 1][lane]);
                }
                let carry = product.column(i)[lane] >> DIGIT_BITS;
                product.column(i + 1)[lane] += carry;
            }
            let mut carry = 0;
            for i in 0..D {
                carry += product.high.0[i][lane];
                z.0[i][lane] = carry & DIGIT_MASK;
                carry >>= DIGIT_BITS;
            }
        }
    }

    fn finish<const D: usize>(self, lookup: &mut Lookup<'_, D, LANES>) {
        for lane in 0..LANES {
            for i in 0..D {
                lookup.target.0[i][lane] = lookup.table.0[i][lookup.index[lane] as usize][lane];
            }
        }
    }

    fn wipe_registers(self) {}
}
