//! After a key is dropped, no word of it is left in memory, whichever room used it.

use widelane_cpu::features::upper_halves_in_use;
use widelane_crypto::rsa::{Components, KeySize, Outcome, PrivateJob, PrivateKey, Rsa};
use widelane_testkit::leftovers::Secret;
use widelane_testkit::rooms::{self, for_each_room_of};
use widelane_testkit::rsa::{TestKey, test_keys};

use crate::alone;

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
