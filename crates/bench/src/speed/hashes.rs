//! Hash functions: one message at a time, and many at once.

use openssl::error::ErrorStack;
use openssl::hash::{Hasher, MessageDigest, hash};
use widelane_cpu::{Policy, Room};
use widelane_crypto::digest::{Algorithm, Digest, Hash};

use super::SpeedError;
use super::contest::{Contest, MANY, Ours, Runner, in_turn};

/// Hashing one message.
pub fn digest(algorithm: Algorithm, size: usize) -> Result<Box<dyn Contest>, SpeedError> {
    Ok(Box::new(Messages::new(algorithm, size, 1)))
}

/// Hashing [`MANY`] messages at once.
pub fn digest_many(algorithm: Algorithm, size: usize) -> Result<Box<dyn Contest>, SpeedError> {
    Ok(Box::new(Messages::new(algorithm, size, MANY)))
}

struct Messages {
    algorithm: Algorithm,
    texts: Vec<Vec<u8>>,
}

impl Messages {
    /// Texts of which no two are alike.
    fn new(algorithm: Algorithm, size: usize, count: usize) -> Self {
        let text = |lane| (0..size).map(|index| (index ^ lane) as u8).collect();
        Messages { algorithm, texts: (0..count).map(text).collect() }
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
}

impl Contest for Messages {
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
        let mut hasher = Hasher::new(self.openssl_name())?;
        Ok(in_turn(move |lane, output| {
            hasher.update(&self.texts[lane])?;
            output.copy_from_slice(&hasher.finish()?);
            Ok(())
        }))
    }

    fn widelane(&self, policy: &Policy) -> Ours<'_> {
        let hash = Hash::choose(self.algorithm, policy);
        let lanes = self.texts.len();
        let messages: Vec<&[u8]> = self.texts.iter().map(Vec::as_slice).collect();
        let mut digests = vec![Digest::default(); lanes];
        let run = move |outputs: &mut [Vec<u8>]| {
            match &messages[..] {
                [message] => digests[0] = hash.digest(message),
                messages => hash.digest_many(messages, &mut digests),
            }
            for (output, digest) in outputs.iter_mut().zip(digests.iter()) {
                output.copy_from_slice(digest.as_ref());
            }
            Ok(lanes as u64)
        };
        Ours { lanes, run: Box::new(run) }
    }

    fn is_right(&self, lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        Ok(*hash(self.openssl_name(), &self.texts[lane])? == *output)
    }
}
