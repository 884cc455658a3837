//! Operations of key encapsulation, many at once or alone.

use std::cell::RefCell;
use std::slice;
use std::sync::{Arc, LazyLock};

use widelane_bridge::counters::OperationKind;
use widelane_cpu::{Policy, Room};
use widelane_crypto::mlkem::{
    self, DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, ParameterSet, SEED_BYTES,
    SHARED_BYTES, Workspace,
};
use widelane_ossl_sys::Libcrypto;
use widelane_secret::Mask;

use crate::batching::kernel::{Outcome, collect};
use crate::batching::kinds::BatchedKind;
use crate::batching::{self, Made, Operation, Request};
use crate::choosing::ByPolicy;
use crate::counters::count_delegated;
use crate::curve::key::Key as CurveKey;
use crate::curve::{self, Curve};
use crate::errors::quietly;
use crate::kem::key::Key;
use crate::kem::{Mechanism, single};
use crate::keymgmt::ManagedKey;
use crate::pool::Message;
use crate::secret::Secret;
use crate::stack;

/// The kinds of operations that have kernels here.
pub(crate) const KINDS: &[BatchedKind] = &[
    BatchedKind::pooled(OperationKind::MlKem512Generate, kernels),
    BatchedKind::pooled(OperationKind::MlKem768Generate, kernels),
    BatchedKind::pooled(OperationKind::MlKem1024Generate, kernels),
    BatchedKind::new(OperationKind::X25519MlKem768Encapsulate, kernels, encapsulate),
    BatchedKind::new(OperationKind::X25519MlKem768Decapsulate, kernels, decapsulate),
    BatchedKind::new(OperationKind::MlKem512Encapsulate, kernels, encapsulate),
    BatchedKind::new(OperationKind::MlKem512Decapsulate, kernels, decapsulate),
    BatchedKind::new(OperationKind::MlKem768Encapsulate, kernels, encapsulate),
    BatchedKind::new(OperationKind::MlKem768Decapsulate, kernels, decapsulate),
    BatchedKind::new(OperationKind::MlKem1024Encapsulate, kernels, encapsulate),
    BatchedKind::new(OperationKind::MlKem1024Decapsulate, kernels, decapsulate),
    BatchedKind::new(OperationKind::Secp256r1MlKem768Encapsulate, kernels, encapsulate),
    BatchedKind::new(OperationKind::Secp256r1MlKem768Decapsulate, kernels, decapsulate),
    BatchedKind::new(OperationKind::Secp384r1MlKem1024Encapsulate, kernels, encapsulate),
    BatchedKind::new(OperationKind::Secp384r1MlKem1024Decapsulate, kernels, decapsulate),
];

/// ML-KEM by parameter set.
type MlKems = [MlKem; ParameterSet::ALL.len()];

/// ML-KEM in the widest room that a policy leaves open.
static ML_KEM: LazyLock<ByPolicy<MlKems>> = LazyLock::new(|| {
    ByPolicy::new(|policy| ParameterSet::ALL.map(|set| MlKem::choose(set, policy)))
});

/// ML-KEM in each room with lanes that it has under one of the policies, the narrowest first.
static ROOMS: LazyLock<Vec<MlKems>> = LazyLock::new(|| {
    let mut rooms: Vec<MlKems> = Vec::new();
    for ml_kems in ML_KEM.all().iter().rev() {
        let room = ml_kems[0].room();
        if room != Room::Portable && rooms.iter().all(|known| known[0].room() != room) {
            rooms.push(*ml_kems);
        }
    }
    rooms
});

/// A secret to be encapsulated; gives a ciphertext, and behind it the shared secret.
pub(super) struct Encapsulate {
    /// The public key.
    pub(super) peer: Arc<Key>,
    /// Random bytes that ML-KEM makes its secret from.
    pub(super) message: Box<Message>,
    /// Whether these were given, and must not be replaced by others.
    pub(super) is_given: bool,
    /// A key pair on the curve, for this once.
    pub(super) ephemeral: Option<Arc<CurveKey>>,
}

/// A ciphertext to be opened; gives the shared secret.
pub(super) struct Decapsulate {
    /// Our key; it has a private half.
    pub(super) key: Arc<Key>,
    /// The ciphertext, as long as those of the mechanism.
    pub(super) ciphertext: Box<[u8]>,
    /// The key on the curve in it.
    pub(super) peer: Option<Arc<CurveKey>>,
}

impl Operation for Encapsulate {
    fn kind(&self) -> OperationKind {
        self.peer.mechanism().encapsulate
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.peer.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        let given = self.is_given.then_some(&*self.message);
        let made = single::encapsulate(&self.peer, given);
        made.or_else(|| alone(|| encapsulate_all(&[self], None)))
    }
}

impl Operation for Decapsulate {
    fn kind(&self) -> OperationKind {
        self.key.mechanism().decapsulate
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        single::decapsulate(&self.key, &self.ciphertext)
            .or_else(|| alone(|| decapsulate_all(&[self], None)))
    }
}

fn chosen(set: ParameterSet) -> &'static MlKem {
    &ML_KEM.now()[set as usize]
}

/// Whether ML-KEM has lanes to fill.
pub(super) fn is_batched() -> bool {
    !ROOMS.is_empty()
}

/// Does an operation together with others; at once where there are no kernels.
pub(super) fn run(operation: impl Operation) -> Made {
    if is_batched() {
        return batching::run(operation);
    }
    count_delegated(operation.kind());
    let done = quietly(operation.libcrypto(), || operation.run_single());
    done.map_or(Made::Theirs, Made::Done)
}

/// How many jobs each kernel is for, and its room: with fewer jobs a kernel costs less. There are
/// as many for each number of jobs as there are rooms.
fn kernels() -> Vec<(usize, Room)> {
    let rooms = || ROOMS.iter().map(|[ml_kem, ..]| ml_kem.room());
    [1, 2, 4, 8].into_iter().flat_map(|jobs| rooms().map(move |room| (jobs, room))).collect()
}

/// Makes a key of each seed, by one of the [`kernels`].
pub(crate) fn generate(
    set: ParameterSet,
    seeds: &[&[u8; SEED_BYTES]],
    kernel: usize,
) -> Option<Vec<DecapsulationKey>> {
    with_workspace(|memory| by_kernel(set, kernel).generate_batch(memory, seeds))
}

/// Encapsulates.
fn encapsulate(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    encapsulate_all(&collect(requests, |operation: &Encapsulate| Some(operation))?, Some(index))
}

/// Decapsulates.
fn decapsulate(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    decapsulate_all(&collect(requests, |operation: &Decapsulate| Some(operation))?, Some(index))
}

/// Makes the key of one seed.
pub(super) fn generate_alone(set: ParameterSet, seed: &[u8]) -> Option<DecapsulationKey> {
    let seeds = [seed.try_into().ok()?];
    let generate = || with_workspace(|memory| chosen(set).generate_batch(memory, &seeds))?.pop();
    stack::on_large(generate)?
}

/// Takes over a decapsulation key; nothing if it is none.
pub(super) fn import(set: ParameterSet, bytes: &[u8]) -> Option<DecapsulationKey> {
    let key = with_workspace(|memory| chosen(set).import(memory, bytes))?.ok()?;
    let is_reduced = set.is_reduced_decapsulation_key(bytes)
        && set.is_encapsulation_key(key.encapsulation_key());
    is_reduced.then_some(key)
}

/// Whether a secret that is made of a message for a public key comes out with a private one.
pub(super) fn is_pair(
    set: ParameterSet,
    public: &[u8],
    private: &DecapsulationKey,
    message: &Secret,
) -> bool {
    let (mut secret, mut opened) = (Secret(vec![0; SHARED_BYTES]), Secret(vec![0; SHARED_BYTES]));
    let mut ciphertext = vec![0; set.ciphertext_bytes()];
    let mut try_it = || {
        let message = message.0.first_chunk()?;
        let place = secret.0.first_chunk_mut()?;
        let mut job = EncapsulateJob::new(public, message, &mut ciphertext, place);
        let jobs = slice::from_mut(&mut job);
        with_workspace(|memory| chosen(set).encapsulate_batch(memory, jobs))?;
        (job.outcome == mlkem::Outcome::Done).then_some(())?;
        let place = opened.0.first_chunk_mut()?;
        let mut job = DecapsulateJob::new(private, &ciphertext, place);
        let jobs = slice::from_mut(&mut job);
        with_workspace(|memory| chosen(set).decapsulate_batch(memory, jobs))?;
        (job.outcome == mlkem::Outcome::Done).then_some(())
    };
    let is_done = stack::on_large(&mut try_it).flatten().is_some();
    is_done && Mask::equal_bytes(&secret.0, &opened.0).declassify()
}

/// What became of one operation that is done without others.
fn alone(run: impl FnOnce() -> Option<Vec<Outcome>>) -> Option<Secret> {
    match stack::on_large(run)??.into_iter().next()? {
        Outcome::Done(made) => Some(made),
        Outcome::Fault | Outcome::Rejected => None,
    }
}

/// ML-KEM without instructions that not all machines have.
fn portable(set: ParameterSet) -> MlKem {
    MlKem::choose(set, &Policy::closed())
}

/// ML-KEM by one of the [`kernels`].
fn by_kernel(set: ParameterSet, kernel: usize) -> &'static MlKem {
    &ROOMS[kernel % ROOMS.len()][set as usize]
}

/// ML-KEM of a mechanism by one of the [`kernels`], or without them.
fn ml_kem(mechanism: &Mechanism, kernel: Option<usize>) -> MlKem {
    kernel.map_or_else(|| portable(mechanism.set), |kernel| *by_kernel(mechanism.set, kernel))
}

/// Encapsulates by a kernel; or without any, but for what the default provider has.
fn encapsulate_all(operations: &[&Encapsulate], kernel: Option<usize>) -> Option<Vec<Outcome>> {
    let mechanism = operations.first()?.peer.mechanism();
    let ml_kem = ml_kem(mechanism, kernel);
    let bytes = mechanism.ciphertext_bytes() + mechanism.shared_bytes();
    let mut outputs: Vec<_> = operations.iter().map(|_| Secret(vec![0; bytes])).collect();
    let mut jobs = Vec::with_capacity(operations.len());
    for (operation, output) in operations.iter().zip(&mut outputs) {
        let (ciphertext, secret) = output.0.split_at_mut(mechanism.ciphertext_bytes());
        let (ciphertext, its_public) =
            mechanism.parts_mut(ciphertext, mechanism.curve_public_bytes());
        if let Some(ephemeral) = &operation.ephemeral {
            its_public.copy_from_slice(ephemeral.encoded_public()?);
        }
        let (secret, _) = mechanism.parts_mut(secret, mechanism.curve_private_bytes());
        let secret = secret.first_chunk_mut()?;
        let (key, message) = (operation.peer.encapsulation_key()?, operation.message.bytes());
        jobs.push(EncapsulateJob::new(key, message, ciphertext, secret));
    }
    with_workspace(|memory| ml_kem.encapsulate_batch(memory, &mut jobs))?;
    let outcomes = jobs.iter().map(|job| job.outcome).collect();
    let pairs = operations.iter().map(|it| (it.ephemeral.as_ref(), it.peer.on_curve())).collect();
    let mut secrets: Vec<_> =
        outputs.iter_mut().map(|output| &mut output.0[mechanism.ciphertext_bytes()..]).collect();
    let derived = derive(mechanism, pairs, &mut secrets, kernel.is_some())?;
    Some(settle(outcomes, derived, outputs))
}

/// Decapsulates, likewise.
fn decapsulate_all(operations: &[&Decapsulate], kernel: Option<usize>) -> Option<Vec<Outcome>> {
    let mechanism = operations.first()?.key.mechanism();
    let ml_kem = ml_kem(mechanism, kernel);
    let mut outputs: Vec<_> =
        operations.iter().map(|_| Secret(vec![0; mechanism.shared_bytes()])).collect();
    let mut jobs = Vec::with_capacity(operations.len());
    for (operation, output) in operations.iter().zip(&mut outputs) {
        let (ciphertext, _) = mechanism.public_parts(&operation.ciphertext);
        let (secret, _) = mechanism.parts_mut(&mut output.0, mechanism.curve_private_bytes());
        let secret = secret.first_chunk_mut()?;
        jobs.push(DecapsulateJob::new(operation.key.decapsulation_key()?, ciphertext, secret));
    }
    with_workspace(|memory| ml_kem.decapsulate_batch(memory, &mut jobs))?;
    let outcomes = jobs.iter().map(|job| job.outcome).collect();
    let pairs = operations.iter().map(|it| (it.key.on_curve(), it.peer.as_ref())).collect();
    let mut secrets: Vec<_> = outputs.iter_mut().map(|output| &mut output.0[..]).collect();
    let derived = derive(mechanism, pairs, &mut secrets, kernel.is_some())?;
    Some(settle(outcomes, derived, outputs))
}

/// Our key on the curve and the other one, where there is a curve.
type Pair<'a> = (Option<&'a Arc<CurveKey>>, Option<&'a Arc<CurveKey>>);

/// Writes the curve's part of shared secrets, and returns what became of each.
fn derive(
    mechanism: &Mechanism,
    pairs: Vec<Pair<'_>>,
    secrets: &mut [&mut [u8]],
    by_kernels: bool,
) -> Option<Vec<Outcome<()>>> {
    let Some(curve) = mechanism.curve else {
        return Some(secrets.iter().map(|_| Outcome::Done(())).collect());
    };
    let pairs: Vec<(&CurveKey, &CurveKey)> =
        pairs.into_iter().map(|(key, peer)| Some((&**key?, &**peer?))).collect::<Option<_>>()?;
    let derived = derive_pairs(curve, &pairs, by_kernels);
    let written = derived.into_iter().zip(secrets).map(|(outcome, secret)| {
        if let Outcome::Done(made) = &outcome {
            mechanism.parts_mut(secret, made.0.len()).1.copy_from_slice(&made.0);
        }
        outcome.and(())
    });
    Some(written.collect())
}

fn derive_pairs(curve: Curve, pairs: &[(&CurveKey, &CurveKey)], by_kernels: bool) -> Vec<Outcome> {
    if by_kernels && let Some(derived) = curve::batch::derive_pairs(curve, pairs) {
        return derived;
    }
    let derive = |(key, peer): &(&CurveKey, &CurveKey)| {
        let derived = quietly(&key.delegate().libcrypto, || curve::single::derive(key, peer));
        derived.map_or(Outcome::Rejected, Outcome::Done)
    };
    pairs.iter().map(derive).collect()
}

/// Goes by what became of both parts of each secret.
fn settle(
    outcomes: Vec<mlkem::Outcome>,
    derived: Vec<Outcome<()>>,
    outputs: Vec<Secret>,
) -> Vec<Outcome> {
    let settled = |((outcome, derived), output)| match (outcome, derived) {
        (mlkem::Outcome::Done, derived) => derived.and(output),
        (_, Outcome::Fault) => Outcome::Fault,
        _ => Outcome::Rejected,
    };
    outcomes.into_iter().zip(derived).zip(outputs).map(settled).collect()
}

thread_local! {
    static WORKSPACE: RefCell<Option<Workspace>> = const { RefCell::new(None) };
}

/// Makes the calling thread's variable; its memory comes when it is first needed.
pub(crate) fn begin_thread() {
    // Error: the thread is ending.
    let _ = WORKSPACE.try_with(|_| ());
}

/// Works in the memory that the thread keeps for it; nothing where there is none.
fn with_workspace<R>(work: impl FnOnce(&mut Workspace) -> R) -> Option<R> {
    let kept = WORKSPACE.try_with(|workspace| workspace.take()).ok().flatten();
    let mut memory = kept.or_else(Workspace::try_new)?;
    let result = work(&mut memory);
    // Error: the thread is ending, and the memory with it.
    let _ = WORKSPACE.try_with(|workspace| workspace.replace(Some(memory)));
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_on_the_curve_is_a_fault() {
        let outcomes = || vec![mlkem::Outcome::Done; 3];
        let derived = vec![Outcome::Done(()), Outcome::Fault, Outcome::Rejected];
        let outputs = outcomes().iter().map(|_| Secret(Vec::new())).collect();
        let settled = settle(outcomes(), derived, outputs);
        assert!(matches!(settled[..], [Outcome::Done(_), Outcome::Fault, Outcome::Rejected]));
    }
}
