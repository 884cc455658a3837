//! ML-KEM: key pairs, encapsulation from the bytes of a key, and decapsulation.

use openssl::error::ErrorStack;
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::mlkem::{
    DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS,
    SEED_BYTES, SHARED_BYTES, Workspace,
};

use super::SpeedError;
use super::contest::{Contest, LANES_MAX, Ours, Runner};

/// Key pairs, each made of a seed.
pub fn generate(set: ParameterSet) -> Result<Box<dyn Contest>, SpeedError> {
    Ok(Box::new(Jobs::new(set, Operation::Generate)))
}

/// Shared secrets, each for the bytes of a key.
pub fn encapsulate(set: ParameterSet) -> Result<Box<dyn Contest>, SpeedError> {
    Ok(Box::new(Jobs::new(set, Operation::Encapsulate)))
}

/// The secrets of ciphertexts.
pub fn decapsulate(set: ParameterSet) -> Result<Box<dyn Contest>, SpeedError> {
    Ok(Box::new(Jobs::new(set, Operation::Decapsulate)))
}

#[derive(Clone, Copy)]
enum Operation {
    Generate,
    Encapsulate,
    Decapsulate,
}

/// What encapsulation is given instead of random bytes; its time does not depend on them.
const MESSAGE: [u8; SHARED_BYTES] = [7; SHARED_BYTES];

struct Jobs {
    set: ParameterSet,
    operation: Operation,
    seeds: Vec<[u8; SEED_BYTES]>,
    keys: Vec<DecapsulationKey>,
    /// Ciphertexts, and behind them their shared secrets.
    encapsulated: Vec<Vec<u8>>,
}

/// Encapsulates a secret for each output: the ciphertext and the secret behind it.
fn fill(
    ml_kem: MlKem,
    workspace: &mut Workspace,
    keys: &[DecapsulationKey],
    outputs: &mut [Vec<u8>],
) -> u64 {
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(outputs)
        .map(|(key, output)| {
            let (ciphertext, shared) = output.split_last_chunk_mut().expect("a secret is last");
            EncapsulateJob::new(key.encapsulation_key(), &MESSAGE, ciphertext, shared)
        })
        .collect();
    ml_kem.encapsulate_batch(workspace, &mut jobs);
    jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64
}

impl Jobs {
    fn new(set: ParameterSet, operation: Operation) -> Self {
        let seeds: Vec<_> = (0..LANES_MAX).map(|job| [job as u8 + 1; SEED_BYTES]).collect();
        // What all rooms are compared with, as OpenSSL 3.0 has no ML-KEM.
        let portable = MlKem::choose(set, &Policy::up_to(Width::W128));
        let mut workspace = Workspace::new();
        let keys = portable.generate_batch(&mut workspace, &seeds.iter().collect::<Vec<_>>());
        let mut encapsulated = vec![vec![0; set.ciphertext_bytes() + SHARED_BYTES]; LANES_MAX];
        fill(portable, &mut workspace, &keys, &mut encapsulated);
        Jobs { set, operation, seeds, keys, encapsulated }
    }

    /// What an operation puts out for a lane.
    fn right(&self, lane: usize) -> &[u8] {
        match self.operation {
            Operation::Generate => self.keys[lane].as_bytes(),
            Operation::Encapsulate => &self.encapsulated[lane],
            Operation::Decapsulate => &self.encapsulated[lane][self.set.ciphertext_bytes()..],
        }
    }

    fn run(&self, ml_kem: MlKem, workspace: &mut Workspace, outputs: &mut [Vec<u8>]) -> u64 {
        match self.operation {
            Operation::Generate => {
                let seeds: Vec<_> = self.seeds.iter().take(outputs.len()).collect();
                let keys = ml_kem.generate_batch(workspace, &seeds);
                for (key, output) in keys.iter().zip(outputs) {
                    output.copy_from_slice(key.as_bytes());
                }
                keys.len() as u64
            }
            Operation::Encapsulate => fill(ml_kem, workspace, &self.keys, outputs),
            Operation::Decapsulate => {
                let mut jobs: Vec<_> = self
                    .keys
                    .iter()
                    .zip(&self.encapsulated)
                    .zip(outputs)
                    .map(|((key, encapsulated), output)| {
                        let ciphertext = &encapsulated[..self.set.ciphertext_bytes()];
                        DecapsulateJob::new(key, ciphertext, super::array_mut(output))
                    })
                    .collect();
                ml_kem.decapsulate_batch(workspace, &mut jobs);
                jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64
            }
        }
    }
}

impl Contest for Jobs {
    fn output_len(&self) -> usize {
        self.right(0).len()
    }

    fn rooms(&self) -> &'static [Room] {
        &ROOMS
    }

    fn openssl_lacks(&self) -> Option<&'static str> {
        Some("OpenSSL has ML-KEM from 3.5 on, and it is not timed here")
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        Err(ErrorStack::get())
    }

    fn widelane(&self, policy: &Policy, jobs: Option<usize>) -> Ours<'_> {
        let ml_kem = MlKem::choose(self.set, policy);
        let mut workspace = Workspace::new();
        let lanes = jobs.unwrap_or(LANES_MAX);
        let run = move |outputs: &mut [Vec<u8>]| {
            Ok(self.run(ml_kem, &mut workspace, &mut outputs[..lanes]))
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        Ok(self.right(lane) == output)
    }
}
