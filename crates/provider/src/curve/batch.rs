//! Operations on elliptic curves, many at once or alone.

use std::slice;
use std::sync::{Arc, LazyLock};

use widelane_bridge::counters::OperationKind;
use widelane_cpu::Room;
use widelane_crypto::ec::{self, Ec, encoding};
use widelane_crypto::ed25519::{self, Ed25519};
use widelane_crypto::x25519;
use widelane_ossl_sys::Libcrypto;
use widelane_secret::Mask;

use crate::batching::kernel::{Outcome, collect, places, with_outputs};
use crate::batching::kinds::BatchedKind;
use crate::batching::{Operation, Request, Skill, Task};
use crate::choosing::{is_open, merged};
use crate::curve::key::Key;
use crate::curve::{Curve, Words, single, words};
use crate::keymgmt::ManagedKey;
use crate::secret::Secret;
use crate::signature::SignerKey;
use crate::stack;

/// The kinds of operations that have kernels here.
pub(crate) const KINDS: &[&[BatchedKind]] = &[
    &[
        BatchedKind::pooled(OperationKind::X25519Generate, || places(&X25519)),
        BatchedKind::new(OperationKind::X25519Derive, || places(&X25519_DERIVE), derive_x25519),
        BatchedKind::new(OperationKind::Ed25519Sign, || places(&ED25519), sign_ed25519),
    ],
    const { &ec_kinds() }.as_flattened(),
];

const fn ec_kinds() -> [[BatchedKind; 4]; ec::Curve::ALL.len()] {
    let mut kinds = [ec_kinds_of(ec::Curve::LARGEST); ec::Curve::ALL.len()];
    let mut index = 0;
    while index < kinds.len() {
        kinds[index] = ec_kinds_of(ec::Curve::ALL[index]);
        index += 1;
    }
    kinds
}

const fn ec_kinds_of(curve: ec::Curve) -> [BatchedKind; 4] {
    let Words { generate, derive, sign, verify, .. } = words(curve);
    [
        BatchedKind::pooled(generate, || places(&EC)),
        BatchedKind::new(derive, || places(&EC), derive_ec),
        BatchedKind::new(sign, || places(&EC_SIGN), sign_ec),
        BatchedKind::new(verify, || places(&EC), verify_ec),
    ]
}

/// P-256 and P-384 by each kernel that the policy leaves open, those with the fewest lanes first.
pub(crate) static EC: LazyLock<Vec<Ec>> = LazyLock::new(|| merged(Ec::kernels));

/// Signatures on P-256 and P-384 by each kernel that the policy leaves open, those with the fewest
/// lanes first.
static EC_SIGN: LazyLock<Vec<Ec>> = LazyLock::new(|| merged(Ec::sign_kernels));

/// Key pairs of X25519 by each kernel that the policy leaves open, those with the fewest lanes
/// first.
pub(crate) static X25519: LazyLock<Vec<x25519::X25519>> =
    LazyLock::new(|| merged(x25519::X25519::kernels));

/// Shared secrets of X25519 by each kernel that the policy leaves open, those with the fewest lanes
/// first.
static X25519_DERIVE: LazyLock<Vec<x25519::X25519>> =
    LazyLock::new(|| merged(x25519::X25519::derive_kernels));

/// Ed25519 by each kernel that the policy leaves open, those with the fewest lanes first.
pub(crate) static ED25519: LazyLock<Vec<Ed25519>> = LazyLock::new(|| merged(Ed25519::kernels));

/// The shared secret of two keys of one [curve](crate::curve::Curve).
pub(crate) struct Derive {
    /// Our key; it has a private half.
    pub(crate) key: Arc<Key>,
    /// The other key; it has a public half.
    pub(crate) peer: Arc<Key>,
}

/// The ECDSA signature of a digest, in DER.
pub(crate) struct SignDigest {
    /// The key; it has a private half.
    pub(crate) key: Arc<Key>,
    /// The digest.
    pub(crate) digest: Box<[u8]>,
    /// 32 bytes that hedge the nonce.
    pub(crate) entropy: Secret,
}

/// Whether an ECDSA signature is that of a digest. All of it is public; where the result is one, it
/// is empty, and the answer is yes.
pub(crate) struct VerifyDigest {
    /// The key; it has a public half.
    pub(crate) key: Arc<Key>,
    /// The digest.
    pub(crate) digest: Box<[u8]>,
    /// The signature, as r || s, each as long as a coordinate.
    pub(crate) signature: Vec<u8>,
}

/// The Ed25519 signature of a message.
pub(crate) struct SignMessage {
    /// The key; it has a private half.
    pub(crate) key: Arc<Key>,
    /// The message.
    pub(crate) message: Box<[u8]>,
}

impl Operation for Derive {
    fn kind(&self) -> OperationKind {
        self.key.derive_kind()
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        single::derive(&self.key, &self.peer)
    }

    fn skill(&self) -> Option<Skill> {
        match self.key.known_curve()? {
            Curve::Ec(_) => Some(Skill::Ecdh),
            Curve::X25519 => Some(Skill::X25519),
            Curve::Ed25519 => None,
        }
    }

    fn task(&self) -> Option<Task<'_>> {
        Some(match self.key.curve()? {
            Curve::Ec(_) => Task::Ecdh { key: self.key.ec()?, peer: self.peer.ec_public()? },
            Curve::X25519 => {
                Task::X25519 { key: self.key.x25519()?, peer: self.peer.x25519_public()? }
            }
            Curve::Ed25519 => return None,
        })
    }

    fn conclude(&self, result: Secret) -> Outcome {
        match self.key.curve() {
            Some(Curve::Ec(curve)) => point_on(curve, result),
            Some(Curve::X25519) => agreed(result),
            Some(Curve::Ed25519) | None => Outcome::Fault,
        }
    }
}

impl Operation for SignDigest {
    fn kind(&self) -> OperationKind {
        self.key.sign_kind()
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        single::sign_digest(&self.key, &self.digest)
    }

    fn skill(&self) -> Option<Skill> {
        Some(Skill::Ecdsa)
    }

    fn task(&self) -> Option<Task<'_>> {
        let key = self.key.ec()?;
        // Without the public half the signature cannot be confirmed.
        self.key.ec_public()?;
        let entropy = self.entropy.0.first_chunk()?;
        let nonce = EC_SIGN.first()?.nonce(key, &self.digest, entropy)?;
        Some(Task::Ecdsa { key, nonce, digest: &self.digest })
    }

    fn conclude(&self, result: Secret) -> Outcome {
        let verify = || {
            let mut job = ec::VerifyJob::new(self.key.ec_public()?, &self.digest, &result.0);
            EC.first()?.verify_batch(slice::from_mut(&mut job));
            (job.outcome == ec::Outcome::Done).then_some(())
        };
        match stack::on_large(verify).flatten() {
            Some(()) => Outcome::Done(Secret(encoding::signature_to_der(&result.0))),
            None => Outcome::Fault,
        }
    }
}

impl Operation for VerifyDigest {
    fn kind(&self) -> OperationKind {
        self.key.verify_kind()
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        let signature = encoding::signature_to_der(&self.signature);
        single::confirm_digest(&self.key, &self.digest, &signature)
    }
}

impl Operation for SignMessage {
    fn kind(&self) -> OperationKind {
        self.key.sign_kind()
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        single::sign_message(&self.key, &self.message)
    }
}

/// The shared secret that is the first half of x || y, if these are a point of the curve.
fn point_on(curve: ec::Curve, coordinates: Secret) -> Outcome {
    match stack::on_large(|| ec::is_point(curve, &coordinates.0)) {
        Some(true) => Outcome::Done(Secret(coordinates.0[..curve.bytes()].to_vec())),
        _ => Outcome::Fault,
    }
}

/// The shared secret that two operations have made independently, unless it is zero.
fn agreed(secrets: Secret) -> Outcome {
    let (one, other) = secrets.0.split_at(secrets.0.len() / 2);
    if !Mask::equal_bytes(one, other).declassify() {
        return Outcome::Fault;
    }
    if Mask::equal_bytes(one, &vec![0; one.len()]).declassify() {
        return Outcome::Rejected;
    }
    Outcome::Done(Secret(one.to_vec()))
}

/// X25519 by a kernel of [`X25519_DERIVE`].
fn derive_x25519(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation: &Derive| {
        Some((operation.key.x25519()?, operation.peer.x25519_public()?))
    })?;
    x25519_secrets(&operands, index)
}

fn x25519_secrets(
    operands: &[(&x25519::PrivateKey, &[u8; 32])],
    index: usize,
) -> Option<Vec<Outcome>> {
    let mut outputs: Vec<Secret> = operands.iter().map(|_| Secret(vec![0; 32])).collect();
    let mut jobs = operands
        .iter()
        .zip(&mut outputs)
        .map(|((private, peer), output)| {
            let (shared, outcome) = (output.0.first_chunk_mut()?, x25519::Outcome::Pending);
            Some(x25519::DeriveJob { private, peer, shared, outcome })
        })
        .collect::<Option<Vec<_>>>()?;
    X25519_DERIVE[index].derive_batch(&mut jobs);
    let outcome = |job: &x25519::DeriveJob<'_>| match job.outcome {
        x25519::Outcome::Done => Outcome::Done(()),
        x25519::Outcome::ZeroSharedSecret | x25519::Outcome::Pending => Outcome::Rejected,
    };
    let outcomes = jobs.iter().map(outcome).collect();
    Some(with_outputs(outcomes, outputs))
}

/// ECDH on P-256 and P-384 by a kernel of [`EC`].
fn derive_ec(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation: &Derive| {
        Some((operation.key.ec()?, operation.peer.ec_public()?))
    })?;
    Some(ec_secrets(&operands, index))
}

fn ec_secrets(operands: &[(&ec::PrivateKey, &ec::PublicKey)], index: usize) -> Vec<Outcome> {
    let mut outputs: Vec<Secret> =
        operands.iter().map(|(key, _)| Secret(vec![0; key.curve().bytes()])).collect();
    let mut jobs: Vec<_> = operands
        .iter()
        .zip(&mut outputs)
        .map(|((private, peer), output)| ec::DeriveJob {
            private,
            peer,
            shared: &mut output.0,
            outcome: ec::Outcome::Pending,
        })
        .collect();
    EC[index].derive_batch(&mut jobs);
    let outcomes = jobs.iter().map(|job| outcome_of(job.outcome)).collect();
    with_outputs(outcomes, outputs)
}

/// The shared secrets of pairs of keys on one curve, by the kernel that has just enough lanes;
/// nothing where there is none.
pub(crate) fn derive_pairs(curve: Curve, pairs: &[(&Key, &Key)]) -> Option<Vec<Outcome>> {
    let just_enough = |kernels: Vec<(usize, Room)>| {
        let is_enough = |(lanes, room): &(usize, Room)| *lanes >= pairs.len() && is_open(*room);
        let enough = kernels.iter().position(is_enough);
        enough.or_else(|| kernels.iter().rposition(|(_, room)| is_open(*room)))
    };
    match curve {
        Curve::X25519 => {
            let index = just_enough(places(&X25519_DERIVE))?;
            let operands =
                pairs.iter().map(|(key, peer)| Some((key.x25519()?, peer.x25519_public()?)));
            x25519_secrets(&operands.collect::<Option<Vec<_>>>()?, index)
        }
        Curve::Ec(_) => {
            let index = just_enough(places(&EC))?;
            let (lanes, room) = places(&EC)[index];
            // Without IFMA, a batch on P-256 costs as much as three operations of OpenSSL's.
            if curve == Curve::Ec(ec::Curve::P256) && room == Room::Fma256 && pairs.len() < lanes {
                return None;
            }
            let operands = pairs.iter().map(|(key, peer)| Some((key.ec()?, peer.ec_public()?)));
            Some(ec_secrets(&operands.collect::<Option<Vec<_>>>()?, index))
        }
        Curve::Ed25519 => None,
    }
}

/// ECDSA on P-256 and P-384 by a kernel of [`EC_SIGN`].
fn sign_ec(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation: &SignDigest| {
        Some((operation.key.ec()?, &*operation.digest, operation.entropy.0.first_chunk()?))
    })?;
    let mut outputs: Vec<Secret> =
        operands.iter().map(|(key, ..)| Secret(vec![0; 2 * key.curve().bytes()])).collect();
    let mut jobs: Vec<_> = operands
        .iter()
        .zip(&mut outputs)
        .map(|((key, digest, entropy), output)| ec::SignJob {
            key,
            digest,
            entropy,
            signature: &mut output.0,
            outcome: ec::Outcome::Pending,
        })
        .collect();
    EC_SIGN[index].sign_batch(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| outcome_of(job.outcome)).collect();
    for (outcome, output) in outcomes.iter().zip(&mut outputs) {
        if matches!(outcome, Outcome::Done(())) {
            output.0 = encoding::signature_to_der(&output.0);
        }
    }
    Some(with_outputs(outcomes, outputs))
}

/// Verification of ECDSA on P-256 and P-384 by a kernel of [`EC`].
fn verify_ec(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation: &VerifyDigest| {
        Some((operation.key.ec_public()?, &*operation.digest, &*operation.signature))
    })?;
    let mut jobs: Vec<_> = operands
        .iter()
        .map(|(key, digest, signature)| ec::VerifyJob::new(key, digest, signature))
        .collect();
    EC[index].verify_batch(&mut jobs);
    let nothing = || Secret(Vec::new());
    Some(jobs.iter().map(|job| outcome_of(job.outcome).and(nothing())).collect())
}

/// Ed25519 by a kernel of [`ED25519`].
fn sign_ed25519(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation: &SignMessage| {
        Some((operation.key.ed25519()?, &*operation.message))
    })?;
    let mut outputs: Vec<Secret> = operands.iter().map(|_| Secret(vec![0; 64])).collect();
    let mut jobs = operands
        .iter()
        .zip(&mut outputs)
        .map(|((key, message), output)| {
            let (signature, outcome) = (output.0.first_chunk_mut()?, ed25519::Outcome::Pending);
            Some(ed25519::SignJob { key, message, signature, outcome })
        })
        .collect::<Option<Vec<_>>>()?;
    ED25519[index].sign_batch(&mut jobs);
    let outcome = |job: &ed25519::SignJob<'_>| match job.outcome {
        ed25519::Outcome::Done => Outcome::Done(()),
        ed25519::Outcome::Rejected | ed25519::Outcome::Pending => Outcome::Rejected,
    };
    let outcomes = jobs.iter().map(outcome).collect();
    Some(with_outputs(outcomes, outputs))
}

fn outcome_of(outcome: ec::Outcome) -> Outcome<()> {
    match outcome {
        ec::Outcome::Done => Outcome::Done(()),
        ec::Outcome::FaultDetected => Outcome::Fault,
        ec::Outcome::Mismatched | ec::Outcome::Rejected | ec::Outcome::Pending => Outcome::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_fails_its_check_is_a_fault() {
        assert!(matches!(outcome_of(ec::Outcome::Done), Outcome::Done(())));
        assert!(matches!(outcome_of(ec::Outcome::FaultDetected), Outcome::Fault));
        for outcome in [ec::Outcome::Mismatched, ec::Outcome::Rejected, ec::Outcome::Pending] {
            assert!(matches!(outcome_of(outcome), Outcome::Rejected), "{outcome:?}");
        }
    }
}
