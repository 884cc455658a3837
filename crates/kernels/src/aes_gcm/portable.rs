//! Room portable of aes_gcm: bit slices and integer products. Secret-independent.
//!
//! No token opens it, so that `()` stands where the other rooms take theirs.

use widelane_secret::stack::{wipe_stack, wiped};
use widelane_secret::wipe;

use super::bitslice::{BLOCKS, Cipher};
use super::field::FOLDING;
use super::key::KeyBytes;
use super::{BLOCK_BYTES, Block, Message, later_counter, lengths_block};
use crate::text::{Direction, Text};

/// Words of stack that are cleared behind every call.
const STACK: usize = 256;

/// Bytes that are encrypted at a time.
const CHUNK_BYTES: usize = BLOCKS * BLOCK_BYTES;

/// A key of this room, wiped when it is dropped.
#[derive(Clone, Default)]
pub struct Key {
    cipher: Cipher,
    /// The hash key, multiplied by u.
    hash_key: [u64; 2],
}

impl Drop for Key {
    fn drop(&mut self) {
        wipe(&mut self.hash_key);
    }
}

/// Expands a key into `made`.
pub fn expand(_room: (), key: KeyBytes<'_>, made: &mut Key) {
    wiped::<STACK, _>(|| expand_body(key, made));
}

fn expand_body(key: KeyBytes<'_>, made: &mut Key) {
    made.cipher.expand(key);
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    made.cipher.encrypt(&mut blocks);
    let hashed = u128::from_be_bytes(blocks[0]);
    let overflow = (hashed >> 127).wrapping_neg();
    let factor = hashed << 1 ^ overflow & (u128::from(FOLDING) << 64 | 1);
    made.hash_key = [factor as u64, (factor >> 64) as u64];
}

/// Seals: encrypts the text and stores the tag.
pub fn seal(_room: (), message: Message<'_, Key>) {
    whole_body(Direction::Seal, message);
    wipe_stack::<STACK>();
}

/// Opens: decrypts the text and stores the tag that it should have come with.
pub fn open(_room: (), message: Message<'_, Key>) {
    whole_body(Direction::Open, message);
    wipe_stack::<STACK>();
}

/// Not inlined, so that the hash from which the message could go on, by which the hash key can be
/// computed, lies below its door.
#[inline(never)]
fn whole_body(direction: Direction, message: Message<'_, Key>) {
    start_body(direction, message);
}

/// Seals one message after the other.
pub fn seal_many<'a>(_room: (), messages: &mut dyn Iterator<Item = Message<'a, Key>>) {
    messages.for_each(|message| seal((), message));
}

/// Seals or opens a message that may go on: stores the tag that it has if it ends here, and
/// returns the hash of AAD and text, a last block filled up with zeros.
pub fn start(_room: (), direction: Direction, message: Message<'_, Key>) -> Block {
    let sum = start_body(direction, message);
    wipe_stack::<STACK>();
    sum
}

/// Not inlined, so that what it has on the stack lies below its door.
#[inline(never)]
fn start_body(direction: Direction, message: Message<'_, Key>) -> Block {
    let Message { key, first, aad, text, tag } = message;
    let lengths = lengths_block(aad.len() as u64, text.len() as u64);
    let mut sum = [0; BLOCK_BYTES];
    absorb_body(key, &mut sum, aad);
    crypt_body(direction, key, &later_counter(&first, 1), &mut sum, text);
    let mut closed = sum;
    absorb_body(key, &mut closed, &lengths);
    close_body(key, &mut closed);
    *tag = first;
    encrypt_block_body(key, tag);
    for (tag, closed) in tag.iter_mut().zip(closed) {
        *tag ^= closed;
    }
    sum
}

/// Encrypts one block where it is.
pub fn encrypt_block(_room: (), key: &Key, block: &mut Block) {
    wiped::<STACK, _>(|| encrypt_block_body(key, block));
}

fn encrypt_block_body(key: &Key, block: &mut Block) {
    let mut blocks = [*block; BLOCKS];
    key.cipher.encrypt(&mut blocks);
    *block = blocks[0];
}

/// Adds blocks to a hash; the last one is filled up with zeros.
pub fn absorb(_room: (), key: &Key, sum: &mut Block, bytes: &[u8]) {
    wiped::<STACK, _>(|| absorb_body(key, sum, bytes));
}

fn absorb_body(key: &Key, sum: &mut Block, bytes: &[u8]) {
    for bytes in bytes.chunks(BLOCK_BYTES) {
        close_body(key, sum);
        for (sum, byte) in sum.iter_mut().zip(bytes) {
            *sum ^= byte;
        }
    }
}

/// Encrypts or decrypts blocks from `counter` on and adds the ciphertext to the hash. A last block
/// that is not whole is filled up with zeros for the hash.
pub fn crypt(
    _room: (),
    direction: Direction,
    key: &Key,
    counter: &Block,
    sum: &mut Block,
    text: Text<'_>,
) {
    wiped::<STACK, _>(|| crypt_body(direction, key, counter, sum, text));
}

fn crypt_body(direction: Direction, key: &Key, counter: &Block, sum: &mut Block, text: Text<'_>) {
    let (mut counter, mut text) = (*counter, text);
    while !text.is_empty() {
        let bytes = text.len().min(CHUNK_BYTES);
        let (chunk, rest) = text.split_at(bytes);
        let mut stream = core::array::from_fn(|index| later_counter(&counter, index as u32));
        key.cipher.encrypt(&mut stream);
        chunk.map(|block: &mut [u8; CHUNK_BYTES]| {
            if direction == Direction::Open {
                absorb_body(key, sum, &block[..bytes]);
            }
            for (byte, stream) in block.iter_mut().zip(stream.as_flattened()) {
                *byte ^= stream;
            }
            if direction == Direction::Seal {
                absorb_body(key, sum, &block[..bytes]);
            }
        });
        counter = later_counter(&counter, BLOCKS as u32);
        text = rest;
    }
}

/// Multiplies a hash by the hash key.
pub fn close(_room: (), key: &Key, sum: &mut Block) {
    wiped::<STACK, _>(|| close_body(key, sum));
}

fn close_body(key: &Key, sum: &mut Block) {
    let value = u128::from_be_bytes(*sum);
    let (low, high) = (value as u64, (value >> 64) as u64);
    let [h_low, h_high] = key.hash_key;
    let low_part = carryless(low, h_low);
    let high_part = carryless(high, h_high);
    let middle = carryless(low ^ high, h_low ^ h_high) ^ low_part ^ high_part;
    *sum = (fold(fold(low_part) ^ middle) ^ high_part).to_be_bytes();
}

/// Multiplies by u^(−64).
fn fold(value: u128) -> u128 {
    let low = u128::from(value as u64);
    value.rotate_left(64) ^ low << 63 ^ low << 62 ^ low << 57
}

/// The product of two polynomials: its lower half, and its upper half by way of their mirror
/// images.
fn carryless(left: u64, right: u64) -> u128 {
    let low = carryless_low(left, right);
    let high = carryless_low(left.reverse_bits(), right.reverse_bits()).reverse_bits() >> 1;
    u128::from(high) << 64 | u128::from(low)
}

/// The lower half of a product of polynomials, from products of integers that have a coefficient in
/// every fourth bit: sixteen ones add up to 16 at the very top only, where the carry is lost.
fn carryless_low(left: u64, right: u64) -> u64 {
    let part = |value: u64, place: usize| value & 0x1111_1111_1111_1111 << (place % 4);
    (0..4).fold(0, |product, place| {
        let sum = (0..4).fold(0, |sum, index| {
            sum ^ part(left, index).wrapping_mul(part(right, place + 4 - index))
        });
        product | part(sum, place)
    })
}
