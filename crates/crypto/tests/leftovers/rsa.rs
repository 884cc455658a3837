//! After a key is dropped, no word of it is left in memory, whichever room used it, nor of a result
//! that was checked.

use std::hint::black_box;

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::rsa::{
    Components, KeySize, Outcome, PrivateJob, PrivateKey, Rsa, confirms_one,
};
use widelane_kernels::mont::portable::Modulus;
use widelane_secret::wipe;
use widelane_testkit::leftovers::Secret;
use widelane_testkit::rooms::{self, for_each_room_of};
use widelane_testkit::rsa::{TestKey, test_keys};

use crate::{alone, deep_down, scrub};

#[test]
fn a_dropped_key_is_gone() {
    let _alone = alone();
    for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let rsa = Rsa::choose(policy);
        for size in KeySize::ALL {
            let TestKey { n, e, p, q, dp, dq, qinv, .. } = &test_keys(size.bits())[0];
            let mut secret = Secret::default();
            for number in [p, q, dp, dq, qinv] {
                secret.add(number);
            }
            assert_eq!(secret.count(), 0, "the test itself leaves nothing");

            let key =
                PrivateKey::from_components(&Components { n, e, p, q, dp, dq, qinv }).unwrap();
            let input = vec![0x42; size.bytes()];
            let mut outputs = vec![vec![0; size.bytes()]; rsa.lanes()];
            let mut jobs: Vec<_> =
                outputs.iter_mut().map(|output| PrivateJob::new(&key, &input, output)).collect();
            rsa.private_batch(&mut jobs);
            assert_ne!(upper_halves_in_use(), Some(true), "{room:?} {size:?}");
            for kernel in rsa.kernels() {
                kernel.private_batch(&mut jobs);
                assert_ne!(upper_halves_in_use(), Some(true), "{kernel:?} {size:?}");
            }
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
            assert_ne!(secret.count(), 0, "a key in use is found");
            assert_eq!(secret.count_in_core_file(), 0, "a core file would have the key");

            drop(key);
            assert_eq!(secret.count(), 0, "{room:?} {size:?} leaves words of the key behind");
        }
    });
}

/// A result that comes from elsewhere may be a premaster secret, and after a fault it factors n.
#[test]
fn a_result_that_was_checked_is_gone() {
    let _alone = alone();
    for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let rsa = Rsa::choose(policy);
        for size in KeySize::ALL {
            let TestKey { n, e, p, q, dp, dq, qinv, .. } = &test_keys(size.bits())[0];
            let key =
                PrivateKey::from_components(&Components { n, e, p, q, dp, dq, qinv }).unwrap();
            // Another one than above: results of that are left, and are no affair of this test.
            let input = vec![0x17; size.bytes()];
            let mut result = vec![0; size.bytes()];
            rsa.private_batch(&mut [PrivateJob::new(&key, &input, &mut result)]);
            let mut secret = Secret::default();
            secret.add(&result);
            result.reverse();
            secret.add(&result);
            result.reverse();
            assert_ne!(secret.count(), 0, "the result is there");
            for kernel in rsa.kernels().into_iter().map(Some).chain([None]) {
                deep_down(|| {
                    assert!(match kernel {
                        Some(kernel) => kernel.confirms(&key, &input, &result),
                        None => confirms_one(&key, &input, &result),
                    });
                });
            }
            wipe(&mut result);
            assert_eq!(secret.count(), 0, "{room:?} {size:?} leaves words of a result behind");
        }
    });
}

/// Of a prime even −1/p modulo 2^64, which tells its lowest limb.
#[test]
fn a_modulus_is_gone() {
    let _alone = alone();
    let (secret, modulus) = secret_modulus();
    scrub();
    assert_ne!(secret.count(), 0, "a modulus in use is found");
    deep_down(|| drop(black_box(modulus)));
    assert_eq!(secret.count(), 0, "a modulus leaves words behind");
}

/// A modulus, and −1/p modulo 2^64 and other words that must not be found.
#[inline(never)]
fn secret_modulus() -> (Secret, Box<Modulus<16>>) {
    let bytes = &test_keys(2048)[0].p;
    let (_, words) = bytes.as_rchunks::<8>();
    let mut limbs: [u64; 16] = std::array::from_fn(|index| u64::from_be_bytes(words[15 - index]));
    let modulus = Box::new(Modulus::new(&limbs).expect("a prime"));
    // Newton: each step doubles the bits that are right.
    let mut inverse = limbs[0];
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(limbs[0].wrapping_mul(inverse)));
    }
    let mut secret = Secret::default();
    secret.add(&inverse.wrapping_neg().to_be_bytes());
    wipe(&mut limbs);
    wipe(std::slice::from_mut(&mut inverse));
    (secret, modulus)
}
