//! Calculation with the points of a key's curve, by OpenSSL.

use num_bigint::BigUint;
use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcKey, EcPoint, EcPointRef};
use openssl::pkey::Private;
use widelane_crypto::ec::Curve;

use crate::openssl_ec;

/// The points of a curve, with the base point G and the public key Q.
pub struct Points {
    /// How many there are.
    pub order: BigUint,
    group: EcGroup,
    key: EcPoint,
    context: BigNumContext,
}

impl Points {
    /// Those of a key on a curve.
    pub fn of(curve: Curve, key: &EcKey<Private>) -> Self {
        let group = openssl_ec::group(curve);
        Points {
            order: BigUint::from_bytes_be(&openssl_ec::order(curve).to_vec()),
            key: EcPointRef::to_owned(key.public_key(), &group).unwrap(),
            group,
            context: BigNumContext::new().unwrap(),
        }
    }

    /// `of_base`·G + `of_key`·Q.
    pub fn sum(&mut self, of_base: &BigUint, of_key: &BigUint) -> EcPoint {
        let [of_base, of_key] = [of_base, of_key].map(number);
        let mut sum = EcPoint::new(&self.group).unwrap();
        sum.mul_full(&self.group, &of_base, &self.key, &of_key, &mut self.context).unwrap();
        sum
    }

    /// `factor` times a point.
    pub fn multiple(&mut self, point: &EcPoint, factor: &BigUint) -> EcPoint {
        let mut product = EcPoint::new(&self.group).unwrap();
        product.mul2(&self.group, point, &number(factor), &mut self.context).unwrap();
        product
    }

    /// The sum of two points.
    pub fn add(&mut self, left: &EcPoint, right: &EcPoint) -> EcPoint {
        let mut sum = EcPoint::new(&self.group).unwrap();
        sum.add(&self.group, left, right, &mut self.context).unwrap();
        sum
    }

    /// The point that with another one makes infinity.
    pub fn opposite(&mut self, point: &EcPoint) -> EcPoint {
        let mut opposite = self.copy(point);
        opposite.invert2(&self.group, &mut self.context).unwrap();
        opposite
    }

    /// The same point.
    pub fn copy(&self, point: &EcPoint) -> EcPoint {
        EcPointRef::to_owned(point, &self.group).unwrap()
    }

    /// The x coordinate of a point modulo the order, but of infinity.
    pub fn x(&mut self, point: &EcPoint) -> Option<BigUint> {
        let [mut x, mut y] = [(); 2].map(|()| BigNum::new().unwrap());
        point.affine_coordinates(&self.group, &mut x, &mut y, &mut self.context).ok()?;
        Some(BigUint::from_bytes_be(&x.to_vec()) % &self.order)
    }

    /// One of the points with an x coordinate, if there are any.
    pub fn with_x(&mut self, x: &BigUint) -> Option<EcPoint> {
        let bytes = (self.group.degree() as usize).div_ceil(8);
        let x = number(x).to_vec_padded(bytes as i32).unwrap();
        EcPoint::from_bytes(&self.group, &[&[2], &x[..]].concat(), &mut self.context).ok()
    }
}

fn number(number: &BigUint) -> BigNum {
    BigNum::from_slice(&number.to_bytes_be()).unwrap()
}
