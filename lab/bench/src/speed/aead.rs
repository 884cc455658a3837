//! Authenticated encryption of records: one at a time, many at once, and back.
//!
//! Keys, nonces and texts are fixed: they do not change what anything costs, and let a rival in
//! another process be checked by its tag. What is sealed or opened is so in place, as libssl does;
//! the first text is all zeros, and each next one what the last has left. Opened twice it is what
//! it was, so that there are two texts to open, and two tags.

use openssl::cipher::Cipher;
use openssl::error::ErrorStack;
use widelane_cpu::{Policy, Room};
use widelane_crypto::aead::{self, Aead, Algorithm, Key, NONCE_BYTES, Outcome, SealJob, TAG_BYTES};

use super::SpeedError;
use super::benchmark::{Benchmark, MANY, Ours, Runner, in_turn};
use super::evp::{self, Provider, Records, Way};
use super::operation::Operation;

macro_rules! operations {
    ($($name:literal: $algorithm:expr;)+) => {
        &[$(
            Operation::of_messages($name, "seal", |size| seal($algorithm, size)),
            Operation::of_messages($name, "open", |size| open($algorithm, size)),
            Operation::of_messages($name, "seal-many", |size| seal_many($algorithm, size)),
        )+]
    };
}

/// What is timed here.
pub static OPERATIONS: &[Operation] = operations! {
    "aes-128-gcm": Algorithm::Aes128Gcm;
    "aes-192-gcm": Algorithm::Aes192Gcm;
    "aes-256-gcm": Algorithm::Aes256Gcm;
    "chacha20-poly1305": Algorithm::ChaCha20Poly1305;
};

const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];

/// As long as TLS 1.2 has it.
const AAD: [u8; 13] = [1; 13];

/// Sealing, one message at a time.
fn seal(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Message { algorithm, size, task: Task::Seal }))
}

/// Sealing [`MANY`] messages at once.
fn seal_many(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Message { algorithm, size, task: Task::SealMany }))
}

/// Opening, one message at a time.
fn open(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    let message = Message { algorithm, size, task: Task::Seal };
    let mut sealed = vec![0; size + TAG_BYTES];
    let mut tag = || {
        message.seal_by(&message.default_cipher()?, &mut sealed)?;
        Ok::<_, ErrorStack>(*text_and_tag(&mut sealed).1)
    };
    let (of_key_stream, of_zeros) = (tag()?, tag()?);
    let task = Task::Open(Tags { of_zeros, of_key_stream });
    Ok(Box::new(Message { task, ..message }))
}

struct Message {
    algorithm: Algorithm,
    size: usize,
    task: Task,
}

/// What is done with a message. The output is the text with its tag, or the text alone.
enum Task {
    Seal,
    SealMany,
    Open(Tags),
}

/// The tags of the two texts that there are to open.
struct Tags {
    of_zeros: [u8; TAG_BYTES],
    of_key_stream: [u8; TAG_BYTES],
}

impl Tags {
    /// The one of `text`, by its first byte: that of the key stream is not zero.
    fn of(&self, text: &[u8]) -> &[u8; TAG_BYTES] {
        match text {
            [0, ..] => &self.of_zeros,
            _ => &self.of_key_stream,
        }
    }
}

impl Message {
    /// Some key that has no two bytes alike.
    fn key_bytes(&self) -> Vec<u8> {
        (0..self.algorithm.key_bytes() as u8).collect()
    }

    fn key(&self, policy: &Policy) -> Key {
        let key = Aead::choose(self.algorithm, policy).key(&self.key_bytes());
        key.expect("the key is as long as the algorithm says")
    }

    fn cipher_name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Aes128Gcm => "AES-128-GCM",
            Algorithm::Aes192Gcm => "AES-192-GCM",
            Algorithm::Aes256Gcm => "AES-256-GCM",
            Algorithm::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    fn default_cipher(&self) -> Result<Cipher, ErrorStack> {
        evp::default_cipher(self.cipher_name())
    }

    fn seal_by(&self, cipher: &Cipher, output: &mut [u8]) -> Result<(), ErrorStack> {
        let mut records = Records::new(cipher, &self.key_bytes(), Way::Seal)?;
        let (text, tag) = text_and_tag(output);
        records.seal(&NONCE, &AAD, text, tag)
    }

    /// The task by OpenSSL's calls.
    fn by(&self, cipher: &Cipher) -> Result<Runner<'_>, ErrorStack> {
        Ok(match &self.task {
            Task::Seal | Task::SealMany => {
                let mut records = Records::new(cipher, &self.key_bytes(), Way::Seal)?;
                in_turn(move |_, output| {
                    let (text, tag) = text_and_tag(output);
                    records.seal(&NONCE, &AAD, text, tag)
                })
            }
            Task::Open(tags) => {
                let mut records = Records::new(cipher, &self.key_bytes(), Way::Open)?;
                in_turn(move |_, text| {
                    let mut tag = *tags.of(text);
                    records.open(&NONCE, &AAD, text, &mut tag)
                })
            }
        })
    }
}

impl Benchmark for Message {
    fn output_len(&self) -> usize {
        match self.task {
            Task::Seal | Task::SealMany => self.size + TAG_BYTES,
            Task::Open(_) => self.size,
        }
    }

    fn inputs(&self) -> usize {
        match self.task {
            Task::Seal | Task::Open(_) => 1,
            Task::SealMany => MANY,
        }
    }

    fn rooms(&self) -> &'static [Room] {
        self.algorithm.rooms()
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        self.by(&self.default_cipher()?)
    }

    fn provider(&self, provider: &Provider) -> Option<Result<Runner<'_>, ErrorStack>> {
        // EVP has no call for many messages.
        let cipher = match self.task {
            Task::Seal | Task::Open(_) => provider.cipher(self.cipher_name())?,
            Task::SealMany => return None,
        };
        Some(self.by(&cipher))
    }

    fn widelane(&self, policy: &Policy, _jobs: Option<usize>) -> Ours<'_> {
        let key = self.key(policy);
        match &self.task {
            Task::Seal => Ours {
                lanes: 1,
                run: Box::new(move |outputs| {
                    let (text, tag) = text_and_tag(&mut outputs[0]);
                    Ok(key.seal_in_place(&NONCE, &AAD, text, tag).is_ok().into())
                }),
            },
            Task::SealMany => {
                Ours { lanes: MANY, run: Box::new(move |outputs| many(&key, outputs)) }
            }
            Task::Open(tags) => Ours {
                lanes: 1,
                run: Box::new(move |outputs| {
                    let text = &mut outputs[0];
                    let tag = tags.of(text);
                    Ok(key.open_in_place(&NONCE, &AAD, text, tag).is_ok().into())
                }),
            },
        }
    }

    fn is_right(&self, _lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let mut expected = vec![0; self.size + TAG_BYTES];
        self.seal_by(&self.default_cipher()?, &mut expected)?;
        expected.truncate(self.output_len());
        Ok(output == expected)
    }
}

/// Seals all outputs, and returns how many came out well.
fn many(key: &Key, outputs: &mut [Vec<u8>]) -> Result<u64, ErrorStack> {
    let mut jobs: Vec<SealJob<'_>> = outputs
        .iter_mut()
        .map(|output| {
            let (text, tag) = text_and_tag(output);
            let outcome = Outcome::default();
            SealJob { key, nonce: &NONCE, aad: &AAD, text, tag, outcome }
        })
        .collect();
    aead::seal_many(&mut jobs);
    Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
}

fn text_and_tag(output: &mut [u8]) -> (&mut [u8], &mut [u8; TAG_BYTES]) {
    output.split_last_chunk_mut().expect("every output has a tag")
}
