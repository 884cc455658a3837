//! Hash functions, of cipher suites and of signatures.

use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use widelane_cpu::Policy;
use widelane_crypto::digest::{self, Algorithm};
use widelane_crypto::rsa::encoding::{DigestAlgorithm, EncodingError, HashFunction};

/// SHA-256 or SHA-384 in the room chosen for it.
pub(crate) struct Sha2(digest::Hash);

impl Sha2 {
    pub(crate) fn choose(algorithm: Algorithm, policy: &Policy) -> Self {
        Sha2(digest::Hash::choose(algorithm, policy))
    }
}

impl Hash for Sha2 {
    fn start(&self) -> Box<dyn Context> {
        Box::new(Transcript(self.0.begin()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        Output::new(self.0.digest(data).as_ref())
    }

    fn output_len(&self) -> usize {
        self.0.algorithm().digest_bytes()
    }

    fn algorithm(&self) -> HashAlgorithm {
        match self.0.algorithm() {
            Algorithm::Sha256 => HashAlgorithm::SHA256,
            Algorithm::Sha384 => HashAlgorithm::SHA384,
            _ => unreachable!("no cipher suite here has another hash function"),
        }
    }
}

/// A message that is still growing.
struct Transcript(digest::Stream);

impl Context for Transcript {
    fn fork_finish(&self) -> Output {
        Output::new(self.0.clone().finish().as_ref())
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Transcript(self.0.clone()))
    }

    fn finish(self: Box<Self>) -> Output {
        Output::new(self.0.finish().as_ref())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

/// The hash functions of signatures, in the rooms chosen for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignatureHashes {
    sha256: digest::Hash,
    sha384: digest::Hash,
    sha512: digest::Hash,
}

impl SignatureHashes {
    pub(crate) fn choose(policy: &Policy) -> Self {
        SignatureHashes {
            sha256: digest::Hash::choose(Algorithm::Sha256, policy),
            sha384: digest::Hash::choose(Algorithm::Sha384, policy),
            sha512: digest::Hash::choose(Algorithm::Sha512, policy),
        }
    }

    /// The hash function that the encoding of a signature names.
    pub(crate) fn of(&self, algorithm: DigestAlgorithm) -> digest::Hash {
        match algorithm {
            DigestAlgorithm::Sha256 => self.sha256,
            DigestAlgorithm::Sha384 => self.sha384,
            DigestAlgorithm::Sha512 => self.sha512,
            _ => unreachable!("no signature scheme here has another hash function"),
        }
    }
}

/// A hash function as encodings want it.
pub(crate) struct Masks(pub(crate) digest::Hash);

impl HashFunction for Masks {
    fn digest_bytes(&self) -> usize {
        self.0.algorithm().digest_bytes()
    }

    fn digest(&mut self, parts: &[&[u8]], digest: &mut [u8]) -> Result<(), EncodingError> {
        let mut stream = self.0.begin();
        parts.iter().for_each(|part| stream.update(part));
        digest.copy_from_slice(stream.finish().as_ref());
        Ok(())
    }
}
