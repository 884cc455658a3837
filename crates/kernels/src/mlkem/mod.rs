//! ML-KEM (FIPS 203): key generation, encapsulation and decapsulation of up to eight jobs at once.
//!
//! Written once over registers of [`coefficients`](crate::coefficients) and of Keccak states.
//! `docs/design/ml-kem.md` has the mathematics, the layout, and the bounds of coefficients. The
//! matrix is sampled from a public seed, and the time that takes depends on that seed; functions
//! that do so end in `_vartime`. Nothing else depends on values in time or addresses.

mod decrypt;
mod encrypt;
mod generate;
mod group;
mod layout;
mod numbers;
mod packing;
mod sampling;
#[cfg(test)]
mod tests;
mod transform;

pub use decrypt::{DecapsulateJob, decapsulate_vartime};
pub use encrypt::{EncapsulateJob, encapsulate_vartime};
pub use generate::{ExpandedSeed, GenerateJob, expand, generate_vartime, hash_keys};
pub use group::Group;
pub use sampling::{BUFFERS, Buffer};

use widelane_secret::wipe;

use crate::coefficients::{Coefficients, POLYNOMIALS};
use crate::keccak::sponge::Sponges;

/// The most jobs that are done at once.
pub const JOBS_MAX: usize = POLYNOMIALS;

/// Bytes of a message, a seed, a digest and a shared secret.
pub const MESSAGE_BYTES: usize = 32;

/// The highest rank.
const RANK_MAX: usize = 4;

/// 32 bytes as words.
type Words32 = [u64; 4];

/// A parameter set (FIPS 203, 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Polynomials of a vector.
    rank: usize,
    /// Bounds of secret noise, and of noise in ciphertexts.
    etas: [usize; 2],
    /// Bits of a compressed coefficient of the ciphertext's vector, and of its last polynomial.
    bits: [usize; 2],
}

/// ML-KEM-512.
pub const ML_KEM_512: Parameters = Parameters { rank: 2, etas: [3, 2], bits: [10, 4] };
/// ML-KEM-768.
pub const ML_KEM_768: Parameters = Parameters { rank: 3, etas: [2, 2], bits: [10, 4] };
/// ML-KEM-1024.
pub const ML_KEM_1024: Parameters = Parameters { rank: 4, etas: [2, 2], bits: [11, 5] };

/// Bytes of a polynomial whose coefficients have 12 bits.
const POLYNOMIAL_BYTES: usize = 384;

impl Parameters {
    /// Bytes of the secret vector, with which a decapsulation key begins.
    const fn vector_bytes(self) -> usize {
        POLYNOMIAL_BYTES * self.rank
    }

    /// Bytes of an encapsulation key.
    pub const fn encapsulation_key_bytes(self) -> usize {
        self.vector_bytes() + MESSAGE_BYTES
    }

    /// Where in a decapsulation key its encapsulation key begins.
    pub const fn encapsulation_key_offset(self) -> usize {
        self.vector_bytes()
    }

    /// Bytes of a decapsulation key, in its expanded form.
    pub const fn decapsulation_key_bytes(self) -> usize {
        self.vector_bytes() + self.encapsulation_key_bytes() + 2 * MESSAGE_BYTES
    }

    /// Bytes of a ciphertext.
    pub const fn ciphertext_bytes(self) -> usize {
        self.ciphertext_vector_bytes() + 32 * self.bits[1]
    }

    /// Bytes of a ciphertext's vector.
    const fn ciphertext_vector_bytes(self) -> usize {
        32 * self.bits[0] * self.rank
    }
}

/// Groups that a batch works in.
pub const GROUPS: usize = 4 * RANK_MAX + 4;

/// The memory that a batch works in, some 100 KiB of its caller's. Cleared of secrets at the end of
/// each batch.
pub struct Workspace<'a, C: Coefficients> {
    sponges: Sponges<C::Words>,
    /// Multiplicands: a row of the matrix, or a secret vector.
    matrix: &'a mut [Group; RANK_MAX],
    /// A secret vector, transformed.
    secret: &'a mut [Group; RANK_MAX],
    /// The same times roots of unity.
    times_gamma: &'a mut [Group; RANK_MAX],
    /// Noise that is added to products.
    noise: &'a mut [Group; RANK_MAX + 1],
    product: &'a mut Group,
    message: &'a mut Group,
    packed: &'a mut Group,
    buffers: &'a mut [Buffer; BUFFERS],
}

impl<'a, C: Coefficients> Workspace<'a, C> {
    /// Takes memory whose contents do not matter.
    pub fn new(groups: &'a mut [Group; GROUPS], buffers: &'a mut [Buffer; BUFFERS]) -> Self {
        let lacks = "there are as many groups";
        let (matrix, groups) = groups.split_first_chunk_mut().expect(lacks);
        let (secret, groups) = groups.split_first_chunk_mut().expect(lacks);
        let (times_gamma, groups) = groups.split_first_chunk_mut().expect(lacks);
        let (noise, groups) = groups.split_first_chunk_mut().expect(lacks);
        let [product, message, packed] = groups else { panic!("{lacks}") };
        let sponges = Sponges::default();
        Workspace { sponges, matrix, secret, times_gamma, noise, product, message, packed, buffers }
    }

    /// Clears all that may hold secrets, where secret vectors took `vectors` groups and noise that
    /// was added took `sums`.
    fn wipe(&mut self, vectors: usize, sums: usize) {
        self.sponges.clear();
        self.secret[..vectors].iter_mut().for_each(Group::wipe);
        self.times_gamma[..vectors].iter_mut().for_each(Group::wipe);
        self.noise[..sums].iter_mut().for_each(Group::wipe);
        self.product.wipe();
        self.message.wipe();
        self.packed.wipe();
        self.buffers[..POLYNOMIALS].iter_mut().for_each(Buffer::wipe_bytes);
    }
}

/// Clears the words of seeds and messages.
fn wipe_words(words: &mut [Words32]) {
    wipe(words.as_flattened_mut());
}
