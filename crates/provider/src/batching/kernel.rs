//! Operations of one kind by the batch kernels.

use widelane_crypto::ec::{self, encoding};
use widelane_crypto::{ed25519, rsa, x25519};

use crate::batching::operation::Operation;
use crate::batching::request::{Request, Secret};
use crate::config::config;
use crate::curve::Curve;

/// What a kernel made of an operation.
pub(super) enum Outcome {
    /// This.
    Done(Secret),
    /// A result that did not stand its check.
    Fault,
    /// Nothing: the input is at fault. The default provider says why.
    Rejected,
}

/// Does operations, all of one kind and at most as many as there are lanes; nothing if a key is not
/// what its maker has said it is. Which of the kernels for its kind that is, is a place in
/// [`config`].
pub(super) type Kernel = fn(&[&Request], usize) -> Option<Vec<Outcome>>;

/// The kernels of [`config`].
pub(super) fn run(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    match requests.first()?.operation() {
        Operation::Rsa { .. } => run_rsa(requests, index),
        Operation::Derive { key, .. } => match key.curve()? {
            Curve::X25519 => derive_x25519(requests, index),
            Curve::Ec(curve) => derive_ec(requests, curve, index),
            Curve::Ed25519 => None,
        },
        Operation::SignDigest { key, .. } => match key.curve()? {
            Curve::Ec(curve) => sign_ec(requests, curve, index),
            Curve::X25519 | Curve::Ed25519 => None,
        },
        Operation::SignMessage { .. } => sign_ed25519(requests, index),
    }
}

fn run_rsa(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation| match operation {
        Operation::Rsa { key, input, .. } => Some((&key.accelerated()?.private, &**input)),
        _ => None,
    })?;
    let mut outputs: Vec<Secret> =
        operands.iter().map(|(_, input)| Secret(vec![0; input.len()])).collect();
    let mut jobs: Vec<_> = operands
        .iter()
        .zip(&mut outputs)
        .map(|((key, input), output)| rsa::PrivateJob::new(key, input, &mut output.0))
        .collect();
    config().rsa[index].private_batch(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    Some(settle(outcomes, outputs, |outcome| match outcome {
        rsa::Outcome::Done => Verdict::Done,
        rsa::Outcome::FaultDetected => Verdict::Fault,
        rsa::Outcome::InputOutOfRange | rsa::Outcome::Pending => Verdict::Rejected,
    }))
}

fn derive_x25519(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation| match operation {
        Operation::Derive { key, peer } => Some((key.x25519()?, peer.x25519_public()?)),
        _ => None,
    })?;
    let mut outputs: Vec<Secret> = operands.iter().map(|_| Secret(vec![0; 32])).collect();
    let mut jobs = operands
        .iter()
        .zip(&mut outputs)
        .map(|((private, peer), output)| {
            let (shared, outcome) = (output.0.first_chunk_mut()?, x25519::Outcome::Pending);
            Some(x25519::DeriveJob { private, peer, shared, outcome })
        })
        .collect::<Option<Vec<_>>>()?;
    config().x25519_derive[index].derive_batch(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    Some(settle(outcomes, outputs, |outcome| match outcome {
        x25519::Outcome::Done => Verdict::Done,
        x25519::Outcome::ZeroSharedSecret | x25519::Outcome::Pending => Verdict::Rejected,
    }))
}

fn derive_ec(requests: &[&Request], curve: ec::Curve, index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation| match operation {
        Operation::Derive { key, peer } => Some((key.ec()?, peer.ec_public()?)),
        _ => None,
    })?;
    let mut outputs: Vec<Secret> =
        operands.iter().map(|_| Secret(vec![0; curve.bytes()])).collect();
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
    config().ec[index].derive_batch(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    Some(settle(outcomes, outputs, ec_verdict))
}

fn sign_ec(requests: &[&Request], curve: ec::Curve, index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation| match operation {
        Operation::SignDigest { key, digest, entropy } => Some((key.ec()?, &**digest, entropy)),
        _ => None,
    })?;
    let mut outputs: Vec<Secret> =
        operands.iter().map(|_| Secret(vec![0; 2 * curve.bytes()])).collect();
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
    config().ec_sign[index].sign_batch(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    for (outcome, output) in outcomes.iter().zip(&mut outputs) {
        if *outcome == ec::Outcome::Done {
            output.0 = encoding::signature_to_der(&output.0);
        }
    }
    Some(settle(outcomes, outputs, ec_verdict))
}

fn sign_ed25519(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation| match operation {
        Operation::SignMessage { key, message } => Some((key.ed25519()?, &**message)),
        _ => None,
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
    config().ed25519[index].sign_batch(&mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    Some(settle(outcomes, outputs, |outcome| match outcome {
        ed25519::Outcome::Done => Verdict::Done,
        ed25519::Outcome::Rejected | ed25519::Outcome::Pending => Verdict::Rejected,
    }))
}

enum Verdict {
    Done,
    Fault,
    Rejected,
}

fn ec_verdict(outcome: ec::Outcome) -> Verdict {
    match outcome {
        ec::Outcome::Done => Verdict::Done,
        ec::Outcome::Rejected | ec::Outcome::Pending => Verdict::Rejected,
    }
}

/// What a kernel needs of each operation; nothing if one lacks it.
fn collect<'a, T>(
    requests: &[&'a Request],
    operand: impl Fn(&'a Operation) -> Option<T>,
) -> Option<Vec<T>> {
    requests.iter().map(|request| operand(request.operation())).collect()
}

fn settle<O>(
    outcomes: Vec<O>,
    outputs: Vec<Secret>,
    verdict: impl Fn(O) -> Verdict,
) -> Vec<Outcome> {
    let settled = |(outcome, output)| match verdict(outcome) {
        Verdict::Done => Outcome::Done(output),
        Verdict::Fault => Outcome::Fault,
        Verdict::Rejected => Outcome::Rejected,
    };
    outcomes.into_iter().zip(outputs).map(settled).collect()
}
