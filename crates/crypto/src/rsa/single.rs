//! The private operation for one job: CRT on the portable room, checked before it leaves.

use widelane_kernels::mont::portable::{self, Workspace};
use widelane_secret::stack::{kib, wiped};
use widelane_secret::wipe;

use super::Outcome;
use super::key::{Material, Numbers, PrivateKey, equal, limbs};

/// Stack of a single operation.
const STACK: usize = kib(64);

/// Computes `output` = `input`^d mod n.
pub(super) fn private(key: &PrivateKey, input: &[u8], output: &mut [u8]) -> Outcome {
    wiped::<STACK, _>(|| match &key.material {
        Material::Rsa2048(key) => private_of_size(&key.numbers, input, output),
        Material::Rsa3072(key) => private_of_size(&key.numbers, input, output),
        Material::Rsa4096(key) => private_of_size(&key.numbers, input, output),
    })
}

/// RSADP and RSASP1 of RFC 8017 (sections 5.1.2 and 5.2.1) in their second form.
fn private_of_size<const HALF: usize, const FULL: usize>(
    key: &Numbers<HALF, FULL>,
    input: &[u8],
    output: &mut [u8],
) -> Outcome {
    if output.len() != 8 * FULL {
        return Outcome::InputOutOfRange;
    }
    output.fill(0);
    let Some(input) = in_range(key, input) else { return Outcome::InputOutOfRange };
    let low = input.first_chunk().expect("FULL is twice HALF");
    let high = input.last_chunk().expect("FULL is twice HALF");

    // s1 = input^dP mod p, s2 = input^dQ mod q
    let mut workspace = Workspace::new();
    let mut base = [0; HALF];
    let mut s1 = [0; HALF];
    let mut s2 = [0; HALF];
    key.p.reduce_wide(&mut base, low, high, &mut workspace);
    key.p.exponentiate(&mut s1, &base, &key.dp, &mut workspace);
    key.q.reduce_wide(&mut base, low, high, &mut workspace);
    key.q.exponentiate(&mut s2, &base, &key.dq, &mut workspace);

    // h = (s1 - s2)·qInv mod p; s = s2 + q·h
    base = s2;
    key.p.reduce(&mut base);
    key.p.subtract(&mut s1, &base);
    key.p.multiply(&mut base, &s1, &key.qinv);
    let mut result = [0; FULL];
    portable::multiply_wide(&mut result, key.q.limbs(), &base, &s2);
    wipe(&mut base);
    wipe(&mut s1);
    wipe(&mut s2);

    let good = confirms_of_size(key, &input, &result);
    if good {
        for (bytes, limb) in output.rchunks_exact_mut(8).zip(&result) {
            bytes.copy_from_slice(&limb.to_be_bytes());
        }
    }
    wipe(&mut result);
    if good { Outcome::Done } else { Outcome::FaultDetected }
}

/// Whether `result` is what the private operation makes of `input`.
pub(super) fn confirms(key: &PrivateKey, input: &[u8], result: &[u8]) -> bool {
    fn of_size<const HALF: usize, const FULL: usize>(
        key: &Numbers<HALF, FULL>,
        input: &[u8],
        result: &[u8],
    ) -> bool {
        let numbers = in_range(key, input).zip(in_range(key, result));
        numbers.is_some_and(|(input, result)| confirms_of_size(key, &input, &result))
    }
    wiped::<STACK, _>(|| match &key.material {
        Material::Rsa2048(key) => of_size(&key.numbers, input, result),
        Material::Rsa3072(key) => of_size(&key.numbers, input, result),
        Material::Rsa4096(key) => of_size(&key.numbers, input, result),
    })
}

/// Whether the public operation takes a result back to its input.
fn confirms_of_size<const HALF: usize, const FULL: usize>(
    key: &Numbers<HALF, FULL>,
    input: &[u64; FULL],
    result: &[u64; FULL],
) -> bool {
    let mut check = [0; FULL];
    key.n.exponentiate_public_vartime(&mut check, result, key.e, &mut Workspace::new());
    equal(&check, input)
}

/// The input as a number, if it has the length of the modulus and is below.
pub(super) fn in_range<const HALF: usize, const FULL: usize>(
    key: &Numbers<HALF, FULL>,
    input: &[u8],
) -> Option<[u64; FULL]> {
    let input = limbs(input).filter(|_| input.len() == 8 * FULL)?;
    let mut difference = input;
    portable::subtract(&mut difference, key.n.limbs()).then_some(input)
}
