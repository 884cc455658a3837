//! ChaCha20-Poly1305 (RFC 8439): what all rooms share, and one file per room.
//!
//! A room seals and opens whole messages, and the pieces that a stream is made of. Cipher and
//! authenticator are separate: only `ifma256` and `ifma512` multiply vectors. The mathematics
//! is in `docs/design/chacha20-poly1305.md`.

// Their macros are in scope from here on.
#[macro_use]
mod engine;
#[macro_use]
mod poly1305_lanes;
#[macro_use]
mod rows;

mod abreast;
mod chunk;
mod poly1305;
mod rounds;
mod single;
mod woven;

pub mod avx2;
pub mod avx512;
pub mod ifma256;
pub mod ifma512;
pub mod portable;
#[cfg(test)]
mod tests;

pub use poly1305::{Poly1305, TAG_BYTES};

use widelane_cpu::features;
use widelane_secret::wipe;

use crate::text::Text;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of a block of the key stream.
pub const BLOCK_BYTES: usize = 64;

/// "expand 32-byte k", the first four words of every state.
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Words of stack that are cleared when a text of one set is done, or of one block.
const SHORTEST_STACK: usize = 128;

/// Words of stack that are cleared when one of one set is, with the one-time key beside.
const BESIDE_STACK: usize = 208;

/// Words of stack that are cleared when one of more sets, or of the opening of a long one, is.
const SHORT_STACK: usize = 512;

/// Words of stack that are cleared instead when one of two or three sets is, where registers are of
/// 256 bits and sixteen.
const NARROW_SETS_STACK: usize = 160;

/// Words of stack that are cleared when an opening, whose key stream stays in registers, is sealed.
const SEALED_STACK: usize = 288;

/// Words of stack that are cleared when any other is.
const LONG_STACK: usize = 712;

/// Words of stack that are cleared when a longer text with such an opening is opened, where rows
/// are of 512 bits. Some compilations, that of the tests among them, make one function of the
/// opening and of the rest.
const OPENED_LONG_STACK: usize = 864;

/// Words of stack that are cleared when a longer text with such an opening is.
const SEALED_LONG_STACK: usize = 616;

/// Words of stack that are cleared instead of either where registers are of 256 bits and sixteen.
const NARROW_LONG_STACK: usize = 416;

/// Pairs of rounds on the way from a state to a block.
const DOUBLE_ROUNDS: usize = 10;

/// How many of them a short text takes while a block in general registers takes all.
const BESIDE_KEY: usize = 6;

/// A key, wiped when it is dropped.
#[derive(Clone, Default)]
pub struct Key {
    words: [[u32; 4]; 2],
}

impl Key {
    /// Takes the key in `bytes`.
    pub fn fill(&mut self, bytes: &[u8; KEY_BYTES]) {
        for (word, bytes) in self.words.as_flattened_mut().iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        wipe(self.words.as_flattened_mut());
    }
}

/// What is sealed or opened in one go.
pub struct Message<'a> {
    /// The key.
    pub key: &'a Key,
    /// The nonce.
    pub nonce: &'a [u8; NONCE_BYTES],
    /// What is authenticated but not encrypted.
    pub aad: &'a [u8],
    /// What is encrypted or decrypted.
    pub text: Text<'a>,
    /// Where the tag goes. A caller that opens a message compares it with the one that came with
    /// the message, and returns no plaintext if they differ.
    pub tag: &'a mut [u8; TAG_BYTES],
}

/// How a message goes best on a CPU; what comes out is the same.
#[derive(Clone, Copy)]
struct Ways {
    /// The one-time key of a short text is made in general registers, beside its sets.
    beside_sets: bool,
    /// That of a longer one is, beside its first chunk.
    beside_chunk: bool,
}

impl Ways {
    fn of_this_cpu() -> Self {
        Ways {
            beside_sets: features::vector_steps_take_two_cycles(),
            beside_chunk: features::vectors_leave_general_registers_idle(),
        }
    }
}

/// Whether a text fills a set of four blocks: a second one for nothing but the one-time key costs
/// as much on Intel as the key in general registers, and more on Zen 4. A set of two is not worth
/// it.
#[inline]
fn fills_a_set(bytes: usize, set_bytes: usize) -> bool {
    bytes > 3 * BLOCK_BYTES && bytes <= set_bytes
}

/// The last words of a state: block counter and nonce.
#[inline(always)]
fn last_words(counter: u32, nonce: &[u8; NONCE_BYTES]) -> [u32; 4] {
    let [low, middle, high] = *nonce.as_chunks::<4>().0 else { unreachable!("three words") };
    let words = [u32::from_le_bytes(low), u32::from_le_bytes(middle), u32::from_le_bytes(high)];
    [counter, words[0], words[1], words[2]]
}

/// The tag of a message: of what was authenticated, of a last block of ciphertext that is not
/// whole, and of both lengths.
#[inline(always)]
pub fn close(poly: &Poly1305, last: &[u8], aad_bytes: u64, text_bytes: u64) -> [u8; TAG_BYTES] {
    // In registers up to here: what is stored in halves and loaded at once has to wait.
    poly.tag(last, u128::from(text_bytes) << 64 | u128::from(aad_bytes)).to_le_bytes()
}

/// The whole blocks of a text.
fn whole_blocks(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() - bytes.len() % BLOCK_BYTES]
}

/// What whole blocks leave of a text.
fn last_block(text: Text<'_>) -> Text<'_> {
    text.split_at(text.len() - text.len() % BLOCK_BYTES).1
}

/// Groups that are authenticated while a key stream is made, spread over its rounds.
struct Pace<'a, G> {
    left: &'a [G],
    total: usize,
    /// Tenths of groups that are due.
    tenths: usize,
}

impl<'a, G> Pace<'a, G> {
    #[inline(always)]
    fn new(groups: &'a [G]) -> Self {
        Pace { left: groups, total: groups.len(), tenths: 0 }
    }

    /// The groups that are due after another double round.
    #[inline(always)]
    fn due(&mut self) -> &'a [G] {
        self.tenths += self.total;
        let (due, left) = self.left.split_at(self.tenths / DOUBLE_ROUNDS);
        self.tenths %= DOUBLE_ROUNDS;
        self.left = left;
        due
    }
}
