//! Ed25519: signatures of short messages, made and verified.

use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::sign::{Signer, Verifier};
use widelane_cpu::Policy;
use widelane_crypto::ed25519::{Ed25519, Outcome, SignJob, SigningKey, VerifyJob};

use super::benchmark::{Benchmark, LANES_MAX, Ours, Runner, in_turn};
use super::operation::Operation;
use super::{ACCEPTED, REFUSED, SPOILED_LANE, array, array_mut};

/// What is timed here.
pub static OPERATIONS: &[Operation] = &[
    Operation::in_lanes("ed25519", "sign", || Ok(Box::new(Sign::new()?))),
    Operation::in_lanes("ed25519", "verify", || Ok(Box::new(Verify::new()?))),
];

/// As long as what TLS 1.3 signs, nearly.
const MESSAGE_BYTES: usize = 128;

/// A key in both forms, and a message.
struct Input {
    openssl: PKey<Private>,
    ours: SigningKey,
    message: [u8; MESSAGE_BYTES],
}

impl Input {
    fn make() -> Result<Self, ErrorStack> {
        let openssl = PKey::generate_ed25519()?;
        let ours = SigningKey::from_seed(array(&openssl.raw_private_key()?));
        let mut message = [0; MESSAGE_BYTES];
        openssl::rand::rand_bytes(&mut message)?;
        Ok(Input { openssl, ours, message })
    }

    fn several() -> Result<Vec<Self>, ErrorStack> {
        (0..LANES_MAX).map(|_| Input::make()).collect()
    }

    fn signature(&self) -> Result<Vec<u8>, ErrorStack> {
        Signer::new_without_digest(&self.openssl)?.sign_oneshot_to_vec(&self.message)
    }
}

/// Signatures.
pub struct Sign {
    inputs: Vec<Input>,
}

impl Sign {
    /// Makes keys and messages.
    pub fn new() -> Result<Self, ErrorStack> {
        Ok(Sign { inputs: Input::several()? })
    }
}

impl Benchmark for Sign {
    fn output_len(&self) -> usize {
        64
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let signers = self.inputs.iter().map(|input| Signer::new_without_digest(&input.openssl));
        let mut signers = signers.collect::<Result<Vec<_>, _>>()?;
        Ok(in_turn(move |lane, output| {
            signers[lane].sign_oneshot(output, &self.inputs[lane].message).map(drop)
        }))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ed25519 = Ed25519::choose(policy);
        let lanes = jobs.unwrap_or(ed25519.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.inputs.iter().zip(outputs).take(lanes);
            let mut jobs: Vec<_> = inputs
                .map(|(input, output)| SignJob::new(&input.ours, &input.message, array_mut(output)))
                .collect();
            ed25519.sign_batch(&mut jobs);
            Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        Ok(self.inputs[lane].signature()? == output)
    }
}

/// Verifications, one of them of a spoiled signature; the result is the verdict.
pub struct Verify {
    inputs: Vec<Input>,
    publics: Vec<[u8; 32]>,
    signatures: Vec<[u8; 64]>,
}

impl Verify {
    /// Makes keys, messages and signatures.
    pub fn new() -> Result<Self, ErrorStack> {
        let inputs = Input::several()?;
        let public = |input: &Input| Ok(*array(&input.openssl.raw_public_key()?));
        let publics = inputs.iter().map(public).collect::<Result<_, ErrorStack>>()?;
        let signature = |input: &Input| Ok(*array(&input.signature()?));
        let mut signatures: Vec<[u8; 64]> =
            inputs.iter().map(signature).collect::<Result<_, ErrorStack>>()?;
        signatures[SPOILED_LANE][40] ^= 1;
        Ok(Verify { inputs, publics, signatures })
    }
}

impl Benchmark for Verify {
    fn output_len(&self) -> usize {
        1
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let verifiers =
            self.inputs.iter().map(|input| Verifier::new_without_digest(&input.openssl));
        let mut verifiers = verifiers.collect::<Result<Vec<_>, _>>()?;
        Ok(in_turn(move |lane, output| {
            let (signature, message) = (&self.signatures[lane], &self.inputs[lane].message);
            // A bad signature is a verdict, and for some of OpenSSL's errors no `false`.
            let accepted = verifiers[lane].verify_oneshot(signature, message).unwrap_or(false);
            output[0] = if accepted { ACCEPTED } else { REFUSED };
            Ok(())
        }))
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ed25519 = Ed25519::choose(policy);
        let lanes = jobs.unwrap_or(ed25519.lanes());
        let run = move |outputs: &mut [Vec<u8>]| {
            let inputs = self.inputs.iter().zip(&self.publics).zip(&self.signatures).take(lanes);
            let mut jobs: Vec<_> = inputs
                .map(|((input, public), signature)| {
                    VerifyJob::new(public, &input.message, signature)
                })
                .collect();
            ed25519.verify_batch(&mut jobs);
            let mut verdicts = 0;
            for (job, output) in jobs.iter().zip(outputs) {
                output[0] = if job.outcome == Outcome::Done { ACCEPTED } else { REFUSED };
                verdicts += u64::from(job.outcome != Outcome::Pending);
            }
            Ok(verdicts)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let mut verifier = Verifier::new_without_digest(&self.inputs[lane].openssl)?;
        let (signature, message) = (&self.signatures[lane], &self.inputs[lane].message);
        let accepted = verifier.verify_oneshot(signature, message).unwrap_or(false);
        Ok(output == [if accepted { ACCEPTED } else { REFUSED }])
    }
}
