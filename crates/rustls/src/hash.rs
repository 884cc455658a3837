//! Hash functions of cipher suites.

use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use widelane_cpu::Policy;
use widelane_crypto::digest::{self, Algorithm};

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
