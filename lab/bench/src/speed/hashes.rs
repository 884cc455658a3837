//! Hash functions and HMAC over them: one message at a time, and many at once.

use openssl::error::ErrorStack;
use openssl::hash::{Hasher, MessageDigest, hash};
use openssl::pkey::PKey;
use openssl::sign::Signer;
use widelane_cpu::{Policy, Room};
use widelane_crypto::digest::{Algorithm, Digest, Hash};
use widelane_crypto::mac::{self, Hmac, TagJob, tag_many};

use super::SpeedError;
use super::benchmark::{Benchmark, MANY, Ours, Runner, in_turn};
use super::evp::Tags;
use super::operation::Operation;

macro_rules! operations {
    ($($name:literal: $algorithm:expr;)+) => {
        &[$(
            Operation::of_messages($name, "digest", |size| digest($algorithm, size)),
            Operation::of_messages($name, "digest-many", |size| digest_many($algorithm, size)),
        )+ $(
            Operation::of_messages(concat!("hmac-", $name), "tag", |size| tag($algorithm, size)),
            Operation::of_messages(concat!("hmac-", $name), "tag-many", |size| {
                tags($algorithm, size)
            }),
        )+]
    };
}

/// What is timed here.
pub static OPERATIONS: &[Operation] = operations! {
    "sha-1": Algorithm::Sha1;
    "sha-256": Algorithm::Sha256;
    "sha-384": Algorithm::Sha384;
    "sha-512": Algorithm::Sha512;
};

/// The key of HMAC: as long as a digest, some digest.
const KEY: [u8; 32] = [9; 32];

/// Hashing one message.
fn digest(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Messages::new(algorithm, Task::Digest, size, 1)))
}

/// Hashing [`MANY`] messages at once.
fn digest_many(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Messages::new(algorithm, Task::Digest, size, MANY)))
}

/// The tag of one message, under a key that is set up beforehand.
fn tag(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Messages::new(algorithm, Task::Tag, size, 1)))
}

/// The tags of [`MANY`] messages at once.
fn tags(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Messages::new(algorithm, Task::Tag, size, MANY)))
}

struct Messages {
    algorithm: Algorithm,
    task: Task,
    texts: Vec<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Task {
    Digest,
    Tag,
}

/// Stores the digests or tags of messages.
type Work = Box<dyn FnMut(&[&[u8]], &mut [Digest])>;

impl Messages {
    /// Texts of which no two are alike.
    fn new(algorithm: Algorithm, task: Task, size: usize, count: usize) -> Self {
        let text = |lane| (0..size).map(|index| (index ^ lane) as u8).collect();
        Messages { algorithm, task, texts: (0..count).map(text).collect() }
    }

    fn openssl_name(&self) -> MessageDigest {
        match self.algorithm {
            Algorithm::Sha1 => MessageDigest::sha1(),
            Algorithm::Sha224 => MessageDigest::sha224(),
            Algorithm::Sha256 => MessageDigest::sha256(),
            Algorithm::Sha384 => MessageDigest::sha384(),
            Algorithm::Sha512 => MessageDigest::sha512(),
        }
    }

    fn is_many(&self) -> bool {
        self.texts.len() > 1
    }

    fn work(&self, policy: &Policy) -> Work {
        match self.task {
            Task::Digest => {
                let hash = Hash::choose(self.algorithm, policy);
                Box::new(move |messages, digests| match (messages, &mut *digests) {
                    ([message], [digest]) => *digest = hash.digest(message),
                    _ => hash.digest_many(messages, digests),
                })
            }
            Task::Tag => {
                let key = Hmac::choose(self.algorithm, policy).key(&KEY);
                Box::new(move |messages, tags| match (messages, &mut *tags) {
                    ([message], [tag]) => *tag = key.tag(message),
                    _ => many(&key, messages, tags),
                })
            }
        }
    }
}

/// Makes the tags of all messages.
fn many(key: &mac::Key, messages: &[&[u8]], tags: &mut [Digest]) {
    let mut jobs: Vec<_> =
        messages.iter().map(|message| TagJob { key, message, tag: Digest::default() }).collect();
    tag_many(&mut jobs);
    for (tag, job) in tags.iter_mut().zip(jobs) {
        *tag = job.tag;
    }
}

impl Benchmark for Messages {
    fn output_len(&self) -> usize {
        self.algorithm.digest_bytes()
    }

    fn inputs(&self) -> usize {
        self.texts.len()
    }

    fn rooms(&self) -> &'static [Room] {
        if self.is_many() { self.algorithm.lane_rooms() } else { self.algorithm.rooms() }
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        Ok(match self.task {
            Task::Digest => {
                let mut hasher = Hasher::new(self.openssl_name())?;
                in_turn(move |lane, output| {
                    hasher.update(&self.texts[lane])?;
                    output.copy_from_slice(&hasher.finish()?);
                    Ok(())
                })
            }
            Task::Tag => {
                let mut tags = Tags::new(self.openssl_name(), &KEY)?;
                in_turn(move |lane, output| tags.tag(&self.texts[lane], output))
            }
        })
    }

    fn widelane(&self, policy: &Policy, _jobs: Option<usize>) -> Ours<'_> {
        let lanes = self.texts.len();
        let messages: Vec<&[u8]> = self.texts.iter().map(Vec::as_slice).collect();
        let mut results = vec![Digest::default(); lanes];
        let mut work = self.work(policy);
        let run = move |outputs: &mut [Vec<u8>]| {
            work(&messages, &mut results);
            for (output, result) in outputs.iter_mut().zip(results.iter()) {
                output.copy_from_slice(result.as_ref());
            }
            Ok(lanes as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let (name, text) = (self.openssl_name(), &self.texts[lane]);
        Ok(match self.task {
            Task::Digest => *hash(name, text)? == *output,
            Task::Tag => {
                let key = PKey::hmac(&KEY)?;
                Signer::new(name, &key)?.sign_oneshot_to_vec(text)? == output
            }
        })
    }
}
