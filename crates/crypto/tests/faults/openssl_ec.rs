//! Keys and signatures on the curves as OpenSSL has them.

use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcKey, EcPoint};
use openssl::ecdsa::EcdsaSig;
use openssl::nid::Nid;
use openssl::pkey::Private;
use widelane_crypto::ec::Curve;

/// OpenSSL's form of a curve.
pub fn group(curve: Curve) -> EcGroup {
    EcGroup::from_curve_name(match curve {
        Curve::P256 => Nid::X9_62_PRIME256V1,
        Curve::P384 => Nid::SECP384R1,
    })
    .unwrap()
}

/// The key of a private number, big-endian.
pub fn key(curve: Curve, scalar: &[u8]) -> EcKey<Private> {
    let group = group(curve);
    let mut context = BigNumContext::new().unwrap();
    let number = BigNum::from_slice(scalar).unwrap();
    let mut point = EcPoint::new(&group).unwrap();
    point.mul_generator2(&group, &number, &mut context).unwrap();
    EcKey::from_private_components(&group, &number, &point).unwrap()
}

/// The number of points.
pub fn order(curve: Curve) -> BigNum {
    let mut order = BigNum::new().unwrap();
    group(curve).order(&mut order, &mut BigNumContext::new().unwrap()).unwrap();
    order
}

/// The signature r || s.
pub fn signature(halves: &[u8]) -> EcdsaSig {
    let (r, s) = halves.split_at(halves.len() / 2);
    let [r, s] = [r, s].map(|number| BigNum::from_slice(number).unwrap());
    EcdsaSig::from_private_components(r, s).unwrap()
}
