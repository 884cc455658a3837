//! The pools of ML-KEM's keys: clients and proxies need a fresh one for each connection.

use widelane_bridge::counters::OperationKind;
use widelane_crypto::mlkem::{ParameterSet, SEED_BYTES};

use crate::delegate::Delegate;
use crate::kem;
use crate::pool::storage::Item;
use crate::pool::{CURVES, MlKemKey, take_from};

/// Takes a new key of a parameter set, which is counted as `kind`; nothing where one alone costs
/// less.
pub(crate) fn take(
    delegate: &Delegate,
    set: ParameterSet,
    kind: OperationKind,
) -> Option<Box<MlKemKey>> {
    let index = set as usize;
    take_from(
        (kind, CURVES + index),
        |stores| &mut stores.ml_kems[index],
        |kernel, lanes| generate(delegate, set, kernel, lanes),
    )
}

/// Makes as many keys as a kernel has lanes, by this kernel.
fn generate(
    delegate: &Delegate,
    set: ParameterSet,
    kernel: usize,
    lanes: usize,
) -> Option<Vec<MlKemKey>> {
    let random = delegate.random_secret(lanes * SEED_BYTES)?;
    let (seeds, _) = random.0.as_chunks();
    let seeds: Vec<_> = seeds.iter().collect();
    let made = kem::batch::generate(set, &seeds, kernel)?;
    let mut keys: Vec<MlKemKey> = seeds.iter().map(|_| MlKemKey::EMPTY).collect();
    for ((place, seed), key) in keys.iter_mut().zip(seeds).zip(&made) {
        place.put(seed, key);
    }
    Some(keys)
}
