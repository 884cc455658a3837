//! Room portable of chacha20_poly1305: word by word. Secret-independent.
//!
//! No token opens it, so that `()` stands where the other rooms take theirs.

use widelane_secret::stack::wipe_stack;
use widelane_secret::wipe;

use super::{
    BLOCK_BYTES, CONSTANTS, Key, Message, NONCE_BYTES, Poly1305, SHORT_STACK, close, last_block,
    last_words,
};
use crate::text::{Direction, Text};

/// Seals: encrypts the text and stores the tag.
pub fn seal(_room: (), message: Message<'_>) {
    start((), Direction::Seal, message, &mut Poly1305::default());
}

/// Opens: decrypts the text and stores the tag that it should have come with.
pub fn open(_room: (), message: Message<'_>) {
    start((), Direction::Open, message, &mut Poly1305::default());
}

/// Seals one message after the other.
pub fn seal_many<'a>(_room: (), messages: impl Iterator<Item = Message<'a>>) {
    messages.for_each(|message| seal((), message));
}

/// Seals or opens a message that may go on: stores the tag that it has if it ends here, and in
/// `poly` the authenticator of AAD and whole blocks of text.
pub fn start(_room: (), direction: Direction, message: Message<'_>, poly: &mut Poly1305) {
    start_body(direction, message, poly);
    wipe_stack::<SHORT_STACK>();
}

/// Not inlined, so that what it has on the stack lies below its door.
#[inline(never)]
fn start_body(direction: Direction, message: Message<'_>, poly: &mut Poly1305) {
    let Message { key, nonce, aad, text, tag } = message;
    begin((), key, nonce, poly);
    poly.absorb(aad);
    let end = last_block(text);
    let (blocks, _) = text.split_at(text.len() - end.len());
    crypt((), direction, key, nonce, 1, poly, blocks);
    let mut last = poly.clone();
    let counter = 1 + (blocks.len() / BLOCK_BYTES) as u32;
    crypt((), direction, key, nonce, counter, &mut last, end);
    *tag = close(&last, &[], aad.len() as u64, text.len() as u64);
}

/// Begins the authenticator of a message.
pub fn begin(_room: (), key: &Key, nonce: &[u8; NONCE_BYTES], poly: &mut Poly1305) {
    let mut block = [0; BLOCK_BYTES];
    stream_block((), key, nonce, 0, &mut block);
    poly.begin(&block);
    wipe(&mut block);
}

/// Authenticates blocks; the last one is filled up with zeros.
pub fn absorb(_room: (), poly: &mut Poly1305, bytes: &[u8]) {
    poly.absorb(bytes);
}

/// Encrypts or decrypts blocks from `counter` on and authenticates the ciphertext. A last block
/// that is not whole is filled up with zeros for that.
pub fn crypt(
    room: (),
    direction: Direction,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    poly: &mut Poly1305,
    text: Text<'_>,
) {
    let (mut counter, mut text) = (counter, text);
    while !text.is_empty() {
        let bytes = text.len().min(BLOCK_BYTES);
        let (chunk, rest) = text.split_at(bytes);
        let mut stream = [0; BLOCK_BYTES];
        stream_block(room, key, nonce, counter, &mut stream);
        chunk.map(|block: &mut [u8; BLOCK_BYTES]| {
            if direction == Direction::Open {
                poly.absorb(&block[..bytes]);
            }
            for (byte, stream) in block.iter_mut().zip(&stream) {
                *byte ^= stream;
            }
            if direction == Direction::Seal {
                poly.absorb(&block[..bytes]);
            }
        });
        wipe(&mut stream);
        counter = counter.wrapping_add(1);
        text = rest;
    }
}

/// Stores a block of the key stream.
pub fn stream_block(
    _room: (),
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    block: &mut [u8; BLOCK_BYTES],
) {
    stream_block_body(key, nonce, counter, block);
    wipe_stack::<SHORT_STACK>();
}

/// RFC 8439, 2.3. Not inlined either.
#[inline(never)]
fn stream_block_body(
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    block: &mut [u8; BLOCK_BYTES],
) {
    let rows = [CONSTANTS, key.words[0], key.words[1], last_words(counter, nonce)];
    let mut state = [0; 16];
    state.copy_from_slice(rows.as_flattened());
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [0, 4, 8, 12].map(|row| row + column));
        }
        for column in 0..4 {
            let diagonal = |row: usize| 4 * row + (column + row) % 4;
            quarter_round(&mut state, [0, 1, 2, 3].map(diagonal));
        }
    }
    let words = state.iter().zip(rows.as_flattened());
    for (bytes, (after, before)) in block.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = after.wrapping_add(*before).to_le_bytes();
    }
}

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (left, right, target, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[left] = state[left].wrapping_add(state[right]);
        state[target] = (state[target] ^ state[left]).rotate_left(bits);
    }
}
