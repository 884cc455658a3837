//! Trace equality: two sets of keys take the same way through the code, instruction by instruction,
//! and touch the same memory; so do good and bad paddings of a premaster secret.

use widelane_crypto::rsa::encoding::{PREMASTER_BYTES, tls_premaster_select};
use widelane_crypto::rsa::{
    Components, Kernel, KeySize, Outcome, PrivateJob, PrivateKey, Rsa, confirms_one,
};
use widelane_kernels::mont::portable::{Modulus, Workspace};
use widelane_testkit::rooms::{self, for_each_room_of};
use widelane_testkit::rsa::{TestKey, test_keys};
use widelane_testkit::trace::{Trace, Tracing, trace};

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    premaster_secrets_take_one_way();
    short_exponentiations_take_one_way();
    imports_take_one_way();
    private_operations_take_one_way();
    checks_of_results_take_one_way();
}

fn imports_take_one_way() {
    let keys = test_keys(2048);
    let import_traced = |key: &TestKey| {
        trace(
            || (key.clone(), None),
            |(key, imported)| {
                *imported = Some(import(key));
            },
        )
    };
    report("import", import_traced(&keys[0]), import_traced(&keys[1]));
}

/// The window lookups and the Montgomery arithmetic of the portable room, at a length that is quick
/// to step through; all lengths are one generic function.
fn short_exponentiations_take_one_way() {
    let exponentiation_traced = |key: &TestKey| {
        let prepare = || {
            let mut p = low_limbs(&key.p);
            p[1] |= 1 << 63;
            (Modulus::new(&p).expect("odd"), low_limbs(&key.dp), [0; 2], Workspace::new())
        };
        trace(prepare, |(p, dp, z, workspace)| p.exponentiate(z, &[0x42; 2], dp, workspace))
    };
    let keys = test_keys(2048);
    report("exponentiation", exponentiation_traced(&keys[0]), exponentiation_traced(&keys[1]));
}

fn low_limbs(bytes: &[u8]) -> [u64; 2] {
    let mut limbs =
        bytes.rchunks(8).map(|chunk| chunk.iter().fold(0, |l, b| l << 8 | u64::from(*b)));
    std::array::from_fn(|_| limbs.next().expect("at least 128 bits"))
}

/// Full batches with different keys in every lane. Kernels for one job differ from size to size:
/// another algorithm, or another way to add. The others are the same function of every size.
fn private_operations_take_one_way() {
    let keys = KeySize::ALL.map(|size| test_keys(size.bits()));
    for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let batch_traced = |keys: &[TestKey], kernel: Option<Kernel>| {
            let prepare = || {
                let rsa = Rsa::choose(policy);
                let lanes = kernel.map_or(rsa.lanes(), |kernel| kernel.lanes());
                let keys: Vec<_> = keys[..lanes].iter().map(import).collect();
                let bytes = keys[0].size().bytes();
                let outputs = vec![vec![0; bytes]; keys.len()];
                (rsa, keys, vec![0x42; bytes], outputs)
            };
            trace(prepare, |(rsa, keys, input, outputs)| {
                let mut jobs: Vec<_> = keys
                    .iter()
                    .zip(outputs)
                    .map(|(key, output)| PrivateJob::new(key, input, output))
                    .collect();
                match kernel {
                    Some(kernel) => kernel.private_batch(&mut jobs),
                    None => rsa.private_batch(&mut jobs),
                }
                assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
            })
        };
        let kernels = Rsa::choose(policy).kernels();
        let kernels =
            if kernels.is_empty() { vec![None] } else { kernels.into_iter().map(Some).collect() };
        for kernel in kernels {
            let is_lone = kernel.is_some_and(|kernel| kernel.lanes() == 1);
            for keys in &keys[..if is_lone { keys.len() } else { 1 }] {
                let name = kernel.map_or(room.name().to_owned(), |kernel| format!("{kernel:?}"));
                let name = format!("{name}, {} bits", 8 * keys[0].n.len());
                report(&name, batch_traced(&keys[..8], kernel), batch_traced(&keys[4..12], kernel));
            }
        }
    });
}

/// The check of a result that comes from elsewhere, of a right one, another and a wrong one.
fn checks_of_results_take_one_way() {
    let key = &test_keys(2048)[0];
    for_each_room_of(&rooms::ARITHMETIC, |room, policy| {
        let check_traced = |input: u8, damage: u8| {
            let prepare = || {
                let (rsa, key, input) = (Rsa::choose(policy), import(key), [input; 256]);
                let mut result = [0; 256];
                rsa.private_batch(&mut [PrivateJob::new(&key, &input, &mut result)]);
                result[200] ^= damage;
                (rsa.kernels().first().copied(), key, input, result, None)
            };
            trace(prepare, |(kernel, key, input, result, confirmed)| {
                *confirmed = Some(match kernel {
                    Some(kernel) => kernel.confirms(key, input, result),
                    None => confirms_one(key, input, result),
                });
            })
        };
        let name = format!("check in {room}");
        let expected = check_traced(0x42, 0).end();
        compare(&name, expected, check_traced(0x17, 0).end());
        compare(&name, expected, check_traced(0x17, 1).end());
    });
}

fn premaster_secrets_take_one_way() {
    let mut good = [0x5a; 256];
    good[..2].copy_from_slice(&[0, 2]);
    good[256 - PREMASTER_BYTES - 1] = 0;
    let select_traced = |decrypted: &[u8; 256]| {
        trace(
            || (*decrypted, [0; PREMASTER_BYTES]),
            |(decrypted, premaster)| {
                let random = [0xee; PREMASTER_BYTES];
                tls_premaster_select(decrypted, 0x5a5a, None, &random, premaster);
            },
        )
    };
    let expected = select_traced(&good).end();
    for index in [0, 1, 2, 100, 256 - PREMASTER_BYTES - 1, 256 - PREMASTER_BYTES] {
        let mut bad = good;
        bad[index] = if bad[index] == 0x5a { 0 } else { 7 };
        compare("premaster", expected, select_traced(&bad).end());
    }
}

fn import(key: &TestKey) -> PrivateKey {
    let TestKey { n, e, p, q, dp, dq, qinv, .. } = key;
    PrivateKey::from_components(&Components { n, e, p, q, dp, dq, qinv }).expect("a good key")
}

fn report(what: &str, one: Tracing, other: Tracing) {
    compare(what, one.end(), other.end());
}

fn compare(what: &str, one: Trace, other: Trace) {
    eprintln!("{what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} takes two ways");
    assert!(one.instructions > 1000, "{what} did something");
}
