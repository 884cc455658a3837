//! Operations with private RSA keys, many at once or alone.

use std::sync::{Arc, LazyLock};

use widelane_batch::KeyName;
use widelane_bridge::counters::OperationKind;
use widelane_crypto::rsa::{self, Rsa};
use widelane_ossl_sys::Libcrypto;

use crate::batching::kernel::{Outcome, collect, places, with_outputs};
use crate::batching::kinds::BatchedKind;
use crate::batching::{Operation, Request, Skill, Task};
use crate::choosing::{is_open, may_open, merged_with_lane_process};
use crate::keymgmt::ManagedKey;
use crate::rsa::key::Key;
use crate::secret::Secret;
use crate::stack;

/// The kinds of operations that have kernels here.
pub(crate) const KINDS: &[BatchedKind] = &[
    BatchedKind::new(OperationKind::Rsa2048, || places(&RSA), run),
    BatchedKind::new(OperationKind::Rsa3072, || places(&RSA), run),
    BatchedKind::new(OperationKind::Rsa4096, || places(&RSA), run),
];

/// RSA by each kernel that the policy leaves open, that of this process or that of its lane
/// process, those with the fewest lanes first.
pub(crate) static RSA: LazyLock<Vec<rsa::Kernel>> =
    LazyLock::new(|| merged_with_lane_process(|policy| Rsa::choose(policy).kernels()));

/// The private-key operation on `input`, as long as the modulus; gives the same length.
pub(crate) struct PrivateOperation {
    /// The key, which is [accelerated](Key::accelerated).
    pub(crate) key: Arc<Key>,
    /// What it is done on.
    pub(crate) input: Box<[u8]>,
    /// Whether input and result are an encoded digest and its signature, which other workers may
    /// see; what is decrypted they may not.
    pub(crate) is_signature: bool,
}

impl Operation for PrivateOperation {
    fn kind(&self) -> OperationKind {
        self.key.operation_kind()
    }

    fn libcrypto(&self) -> &Libcrypto {
        &self.key.delegate().libcrypto
    }

    fn run_single(&self) -> Option<Secret> {
        let mut output = Secret(vec![0; self.input.len()]);
        self.key.private_operation(&self.input, &mut output.0).then_some(output)
    }

    fn signature(&self) -> Option<(KeyName, &Arc<Key>, &[u8])> {
        let name = self.key.accelerated()?.name;
        self.is_signature.then_some((name, &self.key, &*self.input))
    }

    fn confirms(&self, result: &[u8]) -> bool {
        let confirms = || {
            let key = self.key.accelerated()?;
            // Those of the lane process may be closed here, and where all are, it is one by one.
            let open = RSA.iter().find(|kernel| is_open(kernel.room()));
            Some(match open {
                Some(kernel) => kernel.confirms(&key.private, &self.input, result),
                None => rsa::confirms_one(&key.private, &self.input, result),
            })
        };
        stack::on_large(confirms).flatten().unwrap_or(false)
    }

    fn skill(&self) -> Option<Skill> {
        self.key.accelerated().map(|_| Skill::Rsa)
    }

    fn task(&self) -> Option<Task<'_>> {
        let accelerated = self.key.accelerated()?;
        // What a peer has sent may be no number below the modulus, and the CPU says so.
        let is_usual = self.is_signature || accelerated.private.is_input(&self.input);
        let (name, key, input) = (accelerated.name, &self.key, &*self.input);
        is_usual.then_some(Task::Rsa { name, key, input, is_signature: self.is_signature })
    }

    fn conclude(&self, result: Secret) -> Outcome {
        if self.confirms(&result.0) { Outcome::Done(result) } else { Outcome::Fault }
    }
}

/// Lanes of the widest kernel of this process, for readers of the counters.
pub(crate) fn widest() -> usize {
    places(&RSA).into_iter().rfind(|(_, room)| may_open(*room)).map_or(1, |(lanes, _)| lanes)
}

/// RSA by a kernel of [`RSA`].
fn run(requests: &[&Request], index: usize) -> Option<Vec<Outcome>> {
    let operands = collect(requests, |operation: &PrivateOperation| {
        Some((&operation.key.accelerated()?.private, &*operation.input))
    })?;
    let mut outputs: Vec<Secret> =
        operands.iter().map(|(_, input)| Secret(vec![0; input.len()])).collect();
    let mut jobs: Vec<_> = operands
        .iter()
        .zip(&mut outputs)
        .map(|((key, input), output)| rsa::PrivateJob::new(key, input, &mut output.0))
        .collect();
    RSA[index].private_batch(&mut jobs);
    let outcome = |job: &rsa::PrivateJob<'_>| match job.outcome {
        rsa::Outcome::Done => Outcome::Done(()),
        rsa::Outcome::FaultDetected => Outcome::Fault,
        rsa::Outcome::InputOutOfRange | rsa::Outcome::Pending => Outcome::Rejected,
    };
    let outcomes = jobs.iter().map(outcome).collect();
    Some(with_outputs(outcomes, outputs))
}
