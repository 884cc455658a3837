//! Records of TLS 1.2 by AES-CBC with HMAC: one at a time, and many at once.
//!
//! A record begins with a random explicit IV; text, tag and padding follow.
//! The text is sealed where it is; the first one is all zeros.

use openssl::cipher::Cipher;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use openssl::symm::{self, Crypter, Mode as Direction};
use widelane_cpu::{Aesni, Policy, Room, Vaes256, Vaes512};
use widelane_crypto::cbc_hmac::{
    Algorithm, BLOCK_BYTES, CbcHmac, Header, Key, Mode, Outcome, SealJob, seal_many,
};
use widelane_crypto::digest;

use super::SpeedError;
use super::benchmark::{Benchmark, MANY, Ours, Runner, in_turn};
use super::evp::{self, HEADER, Provider, Stitched, Way};
use super::operation::Operation;

macro_rules! operations {
    ($($name:literal: $algorithm:expr;)+) => {
        &[$(
            Operation::of_records($name, "seal", RECORD_TEXT_BYTES_MAX, |size| {
                seal($algorithm, size)
            }),
            Operation::of_records($name, "seal-many", RECORD_TEXT_BYTES_MAX, |size| {
                many($algorithm, size)
            }),
        )+]
    };
}

/// What is timed here.
pub static OPERATIONS: &[Operation] = operations! {
    "aes-128-cbc-hmac-sha1": Algorithm::Aes128Sha1;
    "aes-128-cbc-hmac-sha256": Algorithm::Aes128Sha256;
    "aes-256-cbc-hmac-sha256": Algorithm::Aes256Sha256;
};

/// The longest text of a record (RFC 5246, section 6.2.1).
pub const RECORD_TEXT_BYTES_MAX: usize = 1 << 14;

/// [`HEADER`], as our library takes it.
const OUR_HEADER: Header = Header { sequence: 1, kind: 23, version: 0x0303 };

/// Sealing, one record at a time.
fn seal(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Records { algorithm, size, count: 1 }))
}

/// Sealing [`MANY`] records at once.
fn many(algorithm: Algorithm, size: usize) -> Result<Box<dyn Benchmark>, SpeedError> {
    Ok(Box::new(Records { algorithm, size, count: MANY }))
}

struct Records {
    algorithm: Algorithm,
    size: usize,
    count: usize,
}

impl Records {
    fn cipher_key(&self) -> Vec<u8> {
        vec![3; self.algorithm.key_bytes()]
    }

    fn mac_key(&self) -> Vec<u8> {
        vec![9; self.algorithm.tag_bytes()]
    }

    fn key(&self, policy: &Policy) -> Key {
        let policy = with_hashes(policy);
        CbcHmac::choose(self.algorithm, Mode::MacThenEncrypt, &policy)
            .key(&self.cipher_key(), &self.mac_key())
            .expect("the key is as long as the algorithm says")
    }

    fn cipher_name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Aes128Sha1 => "AES-128-CBC-HMAC-SHA1",
            Algorithm::Aes256Sha1 => "AES-256-CBC-HMAC-SHA1",
            Algorithm::Aes128Sha256 => "AES-128-CBC-HMAC-SHA256",
            Algorithm::Aes256Sha256 => "AES-256-CBC-HMAC-SHA256",
        }
    }

    fn message_digest(&self) -> MessageDigest {
        match self.algorithm.hash() {
            digest::Algorithm::Sha1 => MessageDigest::sha1(),
            _ => MessageDigest::sha256(),
        }
    }

    /// The task by OpenSSL's calls.
    fn by(&self, cipher: &Cipher) -> Result<Runner<'_>, ErrorStack> {
        let (key, mac_key) = (self.cipher_key(), self.mac_key());
        let mut records = Stitched::new(cipher, &key, &mac_key, Way::Seal)?;
        Ok(in_turn(move |_, output| records.seal(self.size, output)))
    }

    /// The part of a record behind its explicit IV.
    fn opened(&self, record: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let (iv, sealed) = record.split_at(BLOCK_BYTES);
        let cipher = match self.algorithm.key_bytes() {
            16 => symm::Cipher::aes_128_cbc(),
            _ => symm::Cipher::aes_256_cbc(),
        };
        let mut crypter = Crypter::new(cipher, Direction::Decrypt, &self.cipher_key(), Some(iv))?;
        crypter.pad(false);
        let mut plain = vec![0; sealed.len() + BLOCK_BYTES];
        let written = crypter.update(sealed, &mut plain)?;
        plain.truncate(written);
        Ok(plain)
    }
}

impl Benchmark for Records {
    fn output_len(&self) -> usize {
        Stitched::record_bytes(self.size, self.algorithm.tag_bytes())
    }

    fn inputs(&self) -> usize {
        self.count
    }

    fn rooms(&self) -> &'static [Room] {
        self.algorithm.rooms()
    }

    fn openssl(&self) -> Result<Runner<'_>, ErrorStack> {
        self.by(&evp::default_cipher(self.cipher_name())?)
    }

    fn provider(&self, provider: &Provider) -> Option<Result<Runner<'_>, ErrorStack>> {
        // EVP has no call for many records.
        let cipher = provider.cipher(self.cipher_name()).filter(|_| self.count == 1)?;
        Some(self.by(&cipher))
    }

    fn widelane(&self, policy: &Policy, _jobs: Option<usize>) -> Ours<'_> {
        let (key, size) = (self.key(policy), self.size);
        let run: Runner<'_> = if self.count == 1 {
            Box::new(move |outputs| {
                let (iv, record) = outputs[0].split_first_chunk_mut().expect("an explicit IV");
                Ok(key.seal(iv, OUR_HEADER, size, record).is_ok().into())
            })
        } else {
            Box::new(move |outputs| {
                let mut jobs: Vec<_> = outputs
                    .iter_mut()
                    .map(|output| {
                        let (iv, record) = output.split_first_chunk_mut().expect("a block");
                        let outcome = Outcome::default();
                        SealJob {
                            key: &key,
                            iv,
                            header: OUR_HEADER,
                            text_bytes: size,
                            record,
                            outcome,
                        }
                    })
                    .collect();
                seal_many(&mut jobs);
                Ok(jobs.iter().filter(|job| job.outcome == Outcome::Done).count() as u64)
            })
        };
        Ours { lanes: self.count, run }
    }

    fn is_right(&self, _lane: usize, output: &[u8]) -> Result<bool, ErrorStack> {
        let mut expected = vec![0; self.size];
        let length = [(self.size >> 8) as u8, self.size as u8];
        let mac_key = PKey::hmac(&self.mac_key())?;
        let mut signer = Signer::new(self.message_digest(), &mac_key)?;
        let authenticated = [&HEADER[..], &length, &expected].concat();
        expected.extend(signer.sign_oneshot_to_vec(&authenticated)?);
        let padding = output.len() - BLOCK_BYTES - expected.len();
        expected.extend(vec![padding as u8 - 1; padding]);
        Ok(self.opened(output)? == expected)
    }
}

/// A policy that leaves open what hashes beside the cipher's room, where that is not portable.
fn with_hashes(policy: &Policy) -> Policy {
    let beside: &[Room] = if Vaes512::enter(policy).is_some() {
        &[Room::Avx512, Room::Avx2, Room::Shani]
    } else if Vaes256::enter(policy).is_some() || Aesni::enter(policy).is_some() {
        &[Room::Avx2, Room::Shani]
    } else {
        &[]
    };
    let mut policy = policy.clone();
    policy.rooms_closed.retain(|room| !beside.contains(room));
    policy
}
