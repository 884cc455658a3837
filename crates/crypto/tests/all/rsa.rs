//! The private operation in every room, and keys that must be refused.

use num_bigint::BigUint;
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::rsa::*;
use widelane_testkit::random::Random;
use widelane_testkit::rooms::{self, for_each_room_of, supported_of};
use widelane_testkit::rsa::{TestKey, padded, test_keys};

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

/// The rooms that RSA has in registers of so many bits, narrowest first: those with IFMA, or
/// otherwise that without.
fn rooms_up_to(width: Width) -> Vec<Room> {
    let fits = |room: &Room| room.is_supported() && room.licence_class().width <= width;
    let with_lanes: Vec<_> =
        [Room::Ifma256, Room::Ifma512].into_iter().filter(|room| fits(room)).collect();
    if with_lanes.is_empty() {
        Vec::from_iter([Room::Fma256].into_iter().filter(fits))
    } else {
        with_lanes
    }
}

#[test]
fn each_policy_chooses_its_room() {
    for width in [Width::W128, Width::W256, Width::W512] {
        let rsa = Rsa::choose(&Policy::up_to(width));
        let widest = rooms_up_to(width).last().copied().unwrap_or(Room::Portable);
        assert_eq!(rsa.room(), widest, "{width:?}");
        let lanes = match widest {
            Room::Ifma512 => 8,
            Room::Ifma256 => 4,
            _ => 1,
        };
        assert_eq!(rsa.lanes(), lanes, "{width:?}");
    }
}

#[test]
fn each_policy_leaves_its_kernels() {
    for width in [Width::W128, Width::W256, Width::W512] {
        let kernels = Rsa::choose(&Policy::up_to(width)).kernels();
        assert!(kernels.is_sorted_by_key(Kernel::lanes), "{kernels:?}");
        let mut rooms: Vec<_> = kernels.iter().map(Kernel::room).collect();
        rooms.sort();
        rooms.dedup();
        assert_eq!(rooms, rooms_up_to(width));
    }
}

#[test]
fn keys_and_rooms_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<PrivateKey>();
    shared::<Rsa>();
}

#[test]
fn every_room_agrees_with_the_model() {
    for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let rsa = Rsa::choose(policy);
        assert_eq!(rsa.room(), room);
        let kernels = rsa.kernels();
        assert!(kernels.iter().all(|kernel| kernel.room() == room));
        for size in KeySize::ALL {
            let test_keys = test_keys(size.bits());
            let keys: Vec<_> = test_keys.iter().map(|key| import(key).unwrap()).collect();
            // More jobs than lanes, so that there is a full batch and a partial one.
            let inputs: Vec<_> = test_keys[..rsa.lanes() + 3]
                .iter()
                .enumerate()
                .map(|(index, key)| {
                    let n = big(&key.n);
                    let number = match index {
                        0 => BigUint::ZERO,
                        1 => BigUint::from(1u32),
                        2 => n - 1u32,
                        3 => big(&key.p),
                        4 => big(&key.q),
                        5 => &n >> 1u32,
                        _ => {
                            let mut bytes = vec![0; size.bytes()];
                            Random::new(index as u64).fill(&mut bytes);
                            big(&bytes) % n
                        }
                    };
                    padded(&number, size.bytes())
                })
                .collect();
            let mut outputs = vec![vec![0xaa; size.bytes()]; inputs.len()];
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(&inputs)
                .zip(&mut outputs)
                .map(|((key, input), output)| PrivateJob::new(key, input, output))
                .collect();
            let mut check = |run: &dyn Fn(&mut [PrivateJob<'_>])| {
                for job in &mut jobs {
                    job.outcome = Outcome::Pending;
                    job.output.fill(0xaa);
                }
                run(&mut jobs);
                for (index, job) in jobs.iter().enumerate() {
                    assert_eq!(job.outcome, Outcome::Done, "{room:?} {size:?} {index}");
                    let expected = test_keys[index].private(job.input);
                    assert_eq!(*job.output, expected, "{room:?} {size:?} {index}");
                }
            };
            check(&|jobs| rsa.private_batch(jobs));
            for kernel in &kernels {
                check(&|jobs| kernel.private_batch(jobs));
            }
        }
    });
}

/// The key with another number in place of p, which is no prime. All components fit one another, so
/// that it is taken, but half of every result is wrong: that modulo p.
fn with_wrong_half(key: &TestKey) -> TestKey {
    let [e, p, q] = [&key.e, &key.p, &key.q].map(|bytes| big(bytes));
    let one = BigUint::from(1u32);
    let mut composite = p + 2u32;
    let dp = loop {
        match e.modinv(&(&composite - &one)) {
            Some(dp) => break dp,
            None => composite += 2u32,
        }
    };
    let qinv = q.modinv(&composite).expect("what has no factor in common with q");
    let number = |number: &BigUint| number.to_bytes_be();
    TestKey {
        n: number(&(&composite * &q)),
        p: number(&composite),
        dp: number(&dp),
        qinv: number(&qinv),
        ..key.clone()
    }
}

#[test]
fn a_wrong_half_never_leaves() {
    for size in KeySize::ALL {
        let mut test_keys = test_keys(size.bits());
        test_keys.truncate(8);
        test_keys[3] = with_wrong_half(&test_keys[3]);
        let keys: Vec<_> = test_keys.iter().map(|key| import(key).unwrap()).collect();
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
    let [wrong, right] = [input.modpow(&dp, &p), input.modpow(&dq, &q)];
    let h = (wrong + &p - &right % &p) * qinv % &p;
    let signature = right + &q * h;
    let difference = (signature.modpow(&e, &n) + &n - input) % &n;
    assert!(difference != BigUint::ZERO && difference % q == BigUint::ZERO);
}

#[test]
fn a_batch_fits_the_promised_stack() {
    let run = || {
        for_each_room_of(&rooms::ARITHMETIC, |_, policy| {
            let rsa = Rsa::choose(policy);
            for size in KeySize::ALL {
                let key = import(&test_keys(size.bits())[0]).unwrap();
                let input = vec![1; size.bytes()];
                let mut outputs = vec![vec![0; size.bytes()]; rsa.lanes()];
                let mut jobs: Vec<_> =
                    outputs.iter_mut().map(|o| PrivateJob::new(&key, &input, o)).collect();
                rsa.private_batch(&mut jobs);
                for kernel in rsa.kernels() {
                    kernel.private_batch(&mut jobs);
                }
                assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
            }
        })
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), supported_of(&rooms::ARITHMETIC));
}

#[test]
fn primes_may_come_in_either_order() {
    for size in KeySize::ALL {
        let mut key = test_keys(size.bits()).swap_remove(0);
        std::mem::swap(&mut key.p, &mut key.q);
        std::mem::swap(&mut key.dp, &mut key.dq);
        key.qinv = big(&key.q).modinv(&big(&key.p)).unwrap().to_bytes_be();
        let input = padded(&BigUint::from(0x1234_5678u32), size.bytes());
        for_each_room_of(&rooms::ARITHMETIC, |_, policy| {
            let private = import(&key).unwrap();
            let mut output = vec![0; size.bytes()];
            let mut job = PrivateJob::new(&private, &input, &mut output);
            Rsa::choose(policy).private_batch(std::slice::from_mut(&mut job));
            assert_eq!(job.outcome, Outcome::Done);
            assert_eq!(output, key.private(&input));
        });
    }
}

#[test]
fn a_batch_may_mix_sizes_and_bad_inputs() {
    let test_keys: Vec<_> =
        KeySize::ALL.iter().map(|size| test_keys(size.bits()).swap_remove(0)).collect();
    let keys: Vec<_> = test_keys.iter().map(|key| import(key).unwrap()).collect();
    for_each_room_of(&rooms::ARITHMETIC, |_, policy| {
        let good: Vec<_> = test_keys.iter().map(|key| vec![0x42; key.n.len()]).collect();
        let short: Vec<_> = test_keys.iter().map(|key| vec![0x42; key.n.len() - 1]).collect();
        let modulus: Vec<_> = test_keys.iter().map(|key| key.n.clone()).collect();
        let mut outputs = vec![Vec::new(); 9];
        let mut jobs = Vec::new();
        for (output, (inputs, index)) in outputs
            .iter_mut()
            .zip([&good, &short, &modulus].into_iter().flat_map(|i| (0..3).map(move |k| (i, k))))
        {
            *output = vec![0xaa; test_keys[index].n.len()];
            jobs.push(PrivateJob::new(&keys[index], &inputs[index], output));
        }
        Rsa::choose(policy).private_batch(&mut jobs);
        for (index, job) in jobs.iter().enumerate() {
            if index < 3 {
                assert_eq!(job.outcome, Outcome::Done);
                assert_eq!(*job.output, test_keys[index].private(job.input));
            } else {
                assert_eq!(job.outcome, Outcome::InputOutOfRange, "{index}");
                assert!(job.output.iter().all(|byte| *byte == 0));
            }
        }
    });
}

#[test]
fn an_output_of_the_wrong_length_is_left_as_it_is() {
    let test_key = test_keys(2048).swap_remove(0);
    let key = import(&test_key).unwrap();
    for_each_room_of(&rooms::ARITHMETIC, |_, policy| {
        let mut output = [0xaa; 255];
        let mut job = PrivateJob::new(&key, &[1; 256], &mut output);
        Rsa::choose(policy).private_batch(std::slice::from_mut(&mut job));
        assert_eq!(job.outcome, Outcome::InputOutOfRange);
        assert_eq!(output, [0xaa; 255]);
    });
}

#[test]
fn results_are_confirmed_and_no_others() {
    let mut random = Random::new(5);
    for size in KeySize::ALL {
        let test_key = &test_keys(size.bits())[0];
        let key = import(test_key).unwrap();
        let mut input = vec![0; key.size().bytes()];
        random.fill(&mut input);
        input[0] = 0;
        let mut result = vec![0; input.len()];
        let rsa = Rsa::choose(&Policy::open());
        let mut job = PrivateJob::new(&key, &input, &mut result);
        rsa.private_batch(std::slice::from_mut(&mut job));
        assert_eq!(job.outcome, Outcome::Done);
        let above = padded(&(big(&result) + big(&test_key.n)), input.len() + 1);
        let mut wrong = result.clone();
        wrong[17] ^= 1;
        for kernel in rsa.kernels().into_iter().map(Some).chain([None]) {
            let confirms = |input: &[u8], result: &[u8]| match kernel {
                Some(kernel) => kernel.confirms(&key, input, result),
                None => confirms_one(&key, input, result),
            };
            assert!(confirms(&input, &result));
            assert!(!confirms(&result, &input) && !confirms(&input, &wrong));
            assert!(!confirms(&input[1..], &result) && !confirms(&input, &result[1..]));
            assert!(!confirms(&input, &test_key.n), "not below the modulus");
            assert!(!key.is_input(&test_key.n) && !key.is_input(&input[1..]));
            assert!(key.is_input(&input));
            // The same number modulo n is another signature.
            assert!(above[0] > 0 || !confirms(&input, &above[1..]), "not below the modulus");
        }
    }
}

#[test]
fn malformed_keys_are_refused_by_name() {
    for size in KeySize::ALL {
        let good = test_keys(size.bits()).swap_remove(0);
        let other = test_keys(size.bits()).swap_remove(1);
        assert_eq!(import(&good).unwrap().size(), size);
        let refused = |damage: &dyn Fn(&mut TestKey)| {
            let mut key = good.clone();
            damage(&mut key);
            import(&key).err()
        };
        let add = |bytes: &[u8], addend: u32| (big(bytes) + addend).to_bytes_be();

        let size_error = |bits| Some(KeyError::ModulusSize { bits });
        assert_eq!(refused(&|key| key.n.clear()), size_error(0));
        assert_eq!(refused(&|key| key.n = vec![0; 300]), size_error(0));
        assert_eq!(refused(&|key| key.n[0] = 1), size_error(size.bits() - 7));
        assert_eq!(refused(&|key| key.n.push(1)), size_error(size.bits() + 8));

        for e in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[2, 0, 0, 0, 1], &[1; 9]] {
            assert_eq!(refused(&|key| key.e = e.to_vec()), Some(KeyError::PublicExponent), "{e:?}");
        }

        assert_eq!(refused(&|key| key.p.clear()), Some(KeyError::Prime));
        assert_eq!(refused(&|key| key.p = add(&key.p, 1)), Some(KeyError::Prime));
        assert_eq!(refused(&|key| key.q = add(&key.q, 1)), Some(KeyError::Prime));
        assert_eq!(refused(&|key| key.q.push(1)), Some(KeyError::Prime));
        assert_eq!(refused(&|key| key.p[0] &= 0x7f), Some(KeyError::Prime));

        assert_eq!(refused(&|key| key.p = add(&key.p, 2)), Some(KeyError::ModulusMismatch));
        assert_eq!(refused(&|key| key.q = other.q.clone()), Some(KeyError::ModulusMismatch));
        assert_eq!(refused(&|key| key.n = add(&key.n, 1)), Some(KeyError::ModulusMismatch));

        // An exponent is refused even where it would work: it must be the smallest.
        let order = |prime: &[u8]| big(prime) - 1u32;
        for error in [
            refused(&|key| key.dp.clear()),
            refused(&|key| key.dp = add(&key.dp, 2)),
            refused(&|key| key.dq = add(&key.dq, 2)),
            refused(&|key| key.dp = (big(&key.dp) + order(&key.p)).to_bytes_be()),
            refused(&|key| key.dq = (big(&key.dq) + order(&key.q)).to_bytes_be()),
            refused(&|key| key.e = vec![1, 0, 3]),
            refused(&|key| std::mem::swap(&mut key.dp, &mut key.dq)),
        ] {
            assert_eq!(error, Some(KeyError::PrivateExponent));
        }

        for error in [
            refused(&|key| key.qinv.clear()),
            refused(&|key| key.qinv = add(&key.qinv, 1)),
            refused(&|key| key.qinv = (big(&key.qinv) + big(&key.p)).to_bytes_be()),
        ] {
            assert_eq!(error, Some(KeyError::Coefficient));
        }
    }
}

#[test]
fn leading_zeros_do_not_matter() {
    let mut key = test_keys(2048).swap_remove(0);
    for number in
        [&mut key.n, &mut key.e, &mut key.p, &mut key.q, &mut key.dp, &mut key.dq, &mut key.qinv]
    {
        number.splice(..0, [0; 300]);
    }
    assert_eq!(import(&key).unwrap().size(), KeySize::Rsa2048);
}
