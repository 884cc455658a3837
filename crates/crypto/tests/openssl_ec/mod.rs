//! OpenSSL's view of keys and signatures on the curves, which have to be good.

use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcKey, EcPoint};
use openssl::ecdsa::EcdsaSig;
use openssl::nid::Nid;
use openssl::pkey::Private;
use widelane_crypto::ec::Curve;

fn group(curve: Curve) -> EcGroup {
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

/// Whether the x coordinate of (digest·G + `other`·Q)/s is r, for the signature r || s and the
/// public key Q.
#[allow(dead_code, reason = "for those that disturb signatures")]
pub fn leads_to_r(
    curve: Curve,
    key: &EcKey<Private>,
    [digest, other]: [&BigNum; 2],
    signature: &[u8],
) -> bool {
    let (group, order) = (group(curve), order(curve));
    let mut context = BigNumContext::new().unwrap();
    let (r, s) = signature.split_at(signature.len() / 2);
    let [r, s] = [r, s].map(|number| BigNum::from_slice(number).unwrap());
    let mut inverse = BigNum::new().unwrap();
    if inverse.mod_inverse(&s, &order, &mut context).is_err() {
        return false;
    }
    let mut times_inverse = |number: &BigNum| {
        let mut product = BigNum::new().unwrap();
        product.mod_mul(number, &inverse, &order, &mut context).unwrap();
        product
    };
    let [of_base, of_key] = [times_inverse(digest), times_inverse(other)];
    let mut point = EcPoint::new(&group).unwrap();
    point.mul_full(&group, &of_base, key.public_key(), &of_key, &mut context).unwrap();
    let [mut x, mut y, mut reduced] = [(); 3].map(|()| BigNum::new().unwrap());
    let is_finite = point.affine_coordinates(&group, &mut x, &mut y, &mut context).is_ok();
    is_finite && reduced.nnmod(&x, &order, &mut context).is_ok() && reduced == r
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
