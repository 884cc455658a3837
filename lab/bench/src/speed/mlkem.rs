//! ML-KEM: key pairs, encapsulation from the bytes of a key, and decapsulation.

use std::ffi::CStr;

use openssl::error::ErrorStack;
use openssl::pkey::{KeyType, PKey, Private};
use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::mlkem::{
    DecapsulateJob, DecapsulationKey, EncapsulateJob, MlKem, Outcome, ParameterSet, ROOMS,
    SEED_BYTES, SHARED_BYTES, Workspace,
};

use super::benchmark::{Benchmark, LANES_MAX, Ours, Runner, in_turn};
use super::operation::Operation;
use super::{SpeedError, kem};

macro_rules! operations {
    ($($name:literal: $set:expr;)+) => {
        &[$(
            Operation::in_lanes($name, "generate", || generate($set)).also_elsewhere(),
            Operation::in_lanes($name, "encapsulate", || encapsulate($set)).also_elsewhere(),
            Operation::in_lanes($name, "decapsulate", || decapsulate($set)).also_elsewhere(),
        )+]
    };
}

/// What is timed here.
pub static OPERATIONS: &[Operation] = operations! {
    "ml-kem-512": ParameterSet::MlKem512;
    "ml-kem-768": ParameterSet::MlKem768;
    "ml-kem-1024": ParameterSet::MlKem1024;
};

/// Key pairs, each made of a seed.
fn generate(set: ParameterSet) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Jobs::new(set, Step::Generate)))
}

/// Shared secrets, each for the bytes of a key.
fn encapsulate(set: ParameterSet) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Jobs::new(set, Step::Encapsulate)))
}

/// The secrets of ciphertexts.
fn decapsulate(set: ParameterSet) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Jobs::new(set, Step::Decapsulate)))
}

#[derive(Clone, Copy)]
enum Step {
    Generate,
    Encapsulate,
    Decapsulate,
}

/// What encapsulation is given instead of random bytes; its time does not depend on them.
const MESSAGE: [u8; SHARED_BYTES] = [7; SHARED_BYTES];

struct Jobs {
    set: ParameterSet,
    step: Step,
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
    fn new(set: ParameterSet, step: Step) -> Self {
        let seeds: Vec<_> = (0..LANES_MAX).map(|job| [job as u8 + 1; SEED_BYTES]).collect();
        // What all rooms are compared with, as OpenSSL 3.0 has no ML-KEM.
        let portable = MlKem::choose(set, &Policy::up_to(Width::W128));
        let mut workspace = Workspace::new();
        let keys = portable.generate_batch(&mut workspace, &seeds.iter().collect::<Vec<_>>());
        let mut encapsulated = vec![vec![0; set.ciphertext_bytes() + SHARED_BYTES]; LANES_MAX];
        fill(portable, &mut workspace, &keys, &mut encapsulated);
        Jobs { set, step, seeds, keys, encapsulated }
    }

    /// What an operation puts out for a lane.
    fn right(&self, lane: usize) -> &[u8] {
        match self.step {
            Step::Generate => self.keys[lane].as_bytes(),
            Step::Encapsulate => &self.encapsulated[lane],
            Step::Decapsulate => &self.encapsulated[lane][self.set.ciphertext_bytes()..],
        }
    }

    fn run(&self, ml_kem: MlKem, workspace: &mut Workspace, outputs: &mut [Vec<u8>]) -> u64 {
        match self.step {
            Step::Generate => {
                let seeds: Vec<_> = self.seeds.iter().take(outputs.len()).collect();
                let keys = ml_kem.generate_batch(workspace, &seeds);
                for (key, output) in keys.iter().zip(outputs) {
                    output.copy_from_slice(key.as_bytes());
                }
                keys.len() as u64
            }
            Step::Encapsulate => fill(ml_kem, workspace, &self.keys, outputs),
            Step::Decapsulate => {
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

impl Benchmark for Jobs {
    fn output_len(&self) -> usize {
        self.right(0).len()
    }

    fn rooms(&self) -> &'static [Room] {
        ROOMS
    }

    fn openssl_lacks(&self) -> Option<&'static str> {
        (!kem::has(name(self.set))).then_some("OpenSSL has ML-KEM from 3.5 on")
    }

    /// Random bytes are OpenSSL's own, and encapsulation takes the bytes of a key, as ours does.
    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        let kind = key_type(self.set);
        match self.step {
            Step::Generate => {
                let mut generator = kem::generator(name(self.set))?;
                Ok(in_turn(move |_, _| generator.keygen().map(drop)))
            }
            Step::Encapsulate => Ok(in_turn(move |lane, output| {
                let bytes = self.keys[lane].encapsulation_key();
                let key = PKey::public_key_from_raw_bytes_ex(None, kind, None, bytes)?;
                let (ciphertext, shared) = output.split_at_mut(self.set.ciphertext_bytes());
                kem::encapsulate(&key, ciphertext, shared)
            })),
            Step::Decapsulate => {
                let key = |key: &DecapsulationKey| -> Result<PKey<Private>, ErrorStack> {
                    PKey::private_key_from_raw_bytes_ex(None, kind, None, key.as_bytes())
                };
                let ready = |bytes| kem::Decapsulation::new(&key(bytes)?);
                let mut keys = self.keys.iter().map(ready).collect::<Result<Vec<_>, _>>()?;
                Ok(in_turn(move |lane, output| {
                    let ciphertext = &self.encapsulated[lane][..self.set.ciphertext_bytes()];
                    keys[lane].decapsulate(ciphertext, output)
                }))
            }
        }
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

    /// Keys and secrets drawn elsewhere are right if our portable room makes the same of them.
    fn is_right_elsewhere(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let portable = MlKem::choose(self.set, &Policy::up_to(Width::W128));
        let mut workspace = Workspace::new();
        let bytes = self.set.ciphertext_bytes();
        Ok(match self.step {
            Step::Generate => portable.import(&mut workspace, output).is_ok_and(|key| {
                let mut encapsulated = vec![vec![0; bytes + SHARED_BYTES]];
                let keys = [key];
                fill(portable, &mut workspace, &keys, &mut encapsulated);
                opens(portable, &mut workspace, &keys[0], &encapsulated[0])
            }),
            Step::Encapsulate => {
                output.len() == bytes + SHARED_BYTES
                    && opens(portable, &mut workspace, &self.keys[lane], output)
            }
            Step::Decapsulate => self.right(lane) == output,
        })
    }
}

/// Whether `key` takes the secret out of a ciphertext that stands behind it.
fn opens(
    ml_kem: MlKem,
    workspace: &mut Workspace,
    key: &DecapsulationKey,
    encapsulated: &[u8],
) -> bool {
    let Some((ciphertext, expected)) = encapsulated.split_last_chunk::<SHARED_BYTES>() else {
        return false;
    };
    let mut shared = [0; SHARED_BYTES];
    let mut job = [DecapsulateJob::new(key, ciphertext, &mut shared)];
    ml_kem.decapsulate_batch(workspace, &mut job);
    job[0].outcome == Outcome::Done && shared == *expected
}

/// What OpenSSL calls the keys of a set.
fn name(set: ParameterSet) -> &'static CStr {
    match set {
        ParameterSet::MlKem512 => c"ML-KEM-512",
        ParameterSet::MlKem768 => c"ML-KEM-768",
        ParameterSet::MlKem1024 => c"ML-KEM-1024",
    }
}

/// The same, as the openssl crate wants it.
fn key_type(set: ParameterSet) -> KeyType {
    match set {
        ParameterSet::MlKem512 => KeyType::ML_KEM_512,
        ParameterSet::MlKem768 => KeyType::ML_KEM_768,
        ParameterSet::MlKem1024 => KeyType::ML_KEM_1024,
    }
}
