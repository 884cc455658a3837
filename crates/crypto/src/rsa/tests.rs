//! Keys that are damaged after their import, which nobody outside can do.

use num_bigint::BigUint;
use widelane_testkit::rooms::{self, for_each_room_of};
use widelane_testkit::rsa::{TestKey, test_keys};

use super::*;

fn components(key: &TestKey) -> Components<'_> {
    let TestKey { n, e, p, q, dp, dq, qinv, .. } = key;
    Components { n, e, p, q, dp, dq, qinv }
}

fn import(key: &TestKey) -> Result<PrivateKey, KeyError> {
    PrivateKey::from_components(&components(key))
}

fn big(bytes: &[u8]) -> BigUint {
    BigUint::from_bytes_be(bytes)
}

#[test]
fn a_corrupted_half_never_leaves() {
    for size in KeySize::ALL {
        let test_keys = test_keys(size.bits());
        let keys: Vec<_> = test_keys[..8]
            .iter()
            .enumerate()
            .map(|(index, key)| match index {
                3 => PrivateKey::with_corrupted_half(&components(key)).unwrap(),
                _ => import(key).unwrap(),
            })
            .collect();
        let input = vec![0x42; size.bytes()];
        reveals_a_prime(&test_keys[3], &input);

        for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
            let mut outputs = vec![vec![0xaa; size.bytes()]; keys.len()];
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(&mut outputs)
                .map(|(key, output)| PrivateJob::new(key, &input, output))
                .collect();
            let rsa = Rsa::choose(policy);
            let mut check = |run: &dyn Fn(&mut [PrivateJob<'_>])| {
                run(&mut jobs);
                for (index, job) in jobs.iter().enumerate() {
                    if index == 3 {
                        assert_eq!(job.outcome, Outcome::FaultDetected, "{room:?} {size:?}");
                        assert!(job.output.iter().all(|byte| *byte == 0));
                    } else {
                        assert_eq!(job.outcome, Outcome::Done, "{room:?} {size:?} {index}");
                        assert_eq!(*job.output, test_keys[index].private(&input));
                    }
                }
            };
            check(&|jobs| rsa.private_batch(jobs));
            for kernel in rsa.kernels() {
                check(&|jobs| kernel.private_batch(jobs));
            }
        });
    }
}

/// Why it must not leave: whoever has the message and one signature with a wrong half has the key.
fn reveals_a_prime(key: &TestKey, input: &[u8]) {
    let [n, e, p, q, dp, dq, qinv] =
        [&key.n, &key.e, &key.p, &key.q, &key.dp, &key.dq, &key.qinv].map(|bytes| big(bytes));
    let input = big(input);
    let wrong = input.modpow(&(dp ^ BigUint::from(2u32)), &p);
    let right = input.modpow(&dq, &q);
    let h = (wrong + &p - &right % &p) * qinv % &p;
    let signature = right + &q * h;
    let difference = (signature.modpow(&e, &n) + &n - input) % &n;
    assert!(difference != BigUint::ZERO && difference % q == BigUint::ZERO);
}
