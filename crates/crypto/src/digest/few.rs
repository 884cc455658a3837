//! A few short messages of HMAC at once, each one block with its padding: what the key schedules of
//! TLS derive from their secrets.
//!
//! All of them begin and end together, so that there is none of what [`lanes`](super::lanes) keeps
//! of each message: a block is made where it is read, and the digests stay in lanes until they
//! are tags.

use widelane_kernels::hash::{self, compress, compress_digests};
use widelane_kernels::registers::Register;
use widelane_kernels::sha2::Sha512;
use widelane_kernels::words::{LANES_MAX, Words};
use widelane_secret::wipe;

use super::kernel::{Function, LaneRoom, State, put_state, state_of, wipe_states};
use super::{BLOCK_BYTES_MAX, Digest, Hash};

/// The most messages.
pub(crate) const FEW_MAX: usize = 8;

/// A block of a message, at the beginning of room for any.
pub(crate) type Block = [u8; BLOCK_BYTES_MAX];

impl Hash {
    /// Whether several short messages take less time at once than one after the other.
    pub(crate) fn gains_by_few(&self) -> bool {
        self.rooms.takes_pairs() || self.few_width() > 2
    }

    /// How many messages there can be that fill a block behind another one.
    fn few_width(&self) -> usize {
        self.few_lanes(FEW_MAX).map_or(2, |lanes| in_words!(lanes, |_room, by| by::Of64::LANES))
    }

    /// The room whose lanes take less time for so many messages than single messages do. SHA-1 and
    /// SHA-256 have lanes for more messages than these are.
    fn few_lanes(&self, messages: usize) -> Option<LaneRoom> {
        let pays = self.rooms.function == Function::Sha512 && messages >= self.rooms.lanes_min();
        self.rooms.lanes.filter(|_| pays)
    }

    /// Whether a message of so many bytes is one block with its padding.
    pub(crate) fn is_short(&self, bytes: usize) -> bool {
        let block_bytes = self.algorithm.block_bytes();
        bytes + 1 + block_bytes / 8 <= block_bytes
    }

    /// Pads a short message that stands in its block, and in its stream behind another one.
    pub(crate) fn pad_short(&self, block: &mut Block, bytes: usize) {
        let block_bytes = self.algorithm.block_bytes();
        let (padding, count) = block[bytes..block_bytes].split_at_mut(block_bytes - bytes - 8);
        padding.fill(0);
        padding[0] = 0x80;
        count.copy_from_slice(&(8 * (block_bytes + bytes) as u64).to_be_bytes());
    }

    /// Makes keys of HMAC, no longer than a block, ready: their states behind both pads.
    pub(crate) fn keys_of_few(&self, keys: &[&[u8]], states: &mut [[State; 2]]) {
        let mut blocks = [[0; BLOCK_BYTES_MAX]; FEW_MAX];
        let blocks = &mut blocks[..2 * keys.len()];
        for (pads, key) in blocks.as_chunks_mut().0.iter_mut().zip(keys) {
            let [inner, outer] = pads;
            inner.fill(0x36);
            outer.fill(0x5c);
            for ((inner, outer), byte) in inner.iter_mut().zip(outer).zip(*key) {
                *inner ^= byte;
                *outer ^= byte;
            }
        }
        let states = states[..keys.len()].as_flattened_mut();
        states.fill(*self.initial());
        let width = self.few_width();
        for (states, blocks) in states.chunks_mut(width).zip(blocks.chunks(width)) {
            match self.few_lanes(blocks.len()) {
                Some(lanes) => in_words!(lanes, |room, by| {
                    blocks_in_lanes::<Sha512, by::Of64>(room, states, blocks);
                }),
                None => {
                    for (states, blocks) in states.chunks_mut(2).zip(blocks.chunks(2)) {
                        self.compress_two(states, blocks);
                    }
                }
            }
        }
        wipe(blocks.as_flattened_mut());
    }

    /// The tags of short messages with these keys. What the blocks hold then is for the caller to
    /// wipe, as are tags.
    pub(crate) fn tags_of_few(
        &self,
        keys: &[&[State; 2]],
        blocks: &mut [Block],
        tags: &mut [Digest],
    ) {
        let width = self.few_width();
        let chunks = keys.chunks(width).zip(blocks.chunks_mut(width)).zip(tags.chunks_mut(width));
        for ((keys, blocks), tags) in chunks {
            match self.few_lanes(keys.len()) {
                Some(lanes) => in_words!(lanes, |room, by| {
                    tags_in_lanes::<Sha512, by::Of64>(room, self, keys, blocks, tags);
                }),
                None => {
                    let pairs = keys.chunks(2).zip(blocks.chunks_mut(2)).zip(tags.chunks_mut(2));
                    pairs.for_each(|((keys, blocks), tags)| self.tags_of_two(keys, blocks, tags));
                }
            }
        }
    }

    /// The same of one message or two, on less stack than lanes take.
    pub(crate) fn tags_of_two(
        &self,
        keys: &[&[State; 2]],
        blocks: &mut [Block],
        tags: &mut [Digest],
    ) {
        let last = keys.len() - 1;
        let mut states = [keys[0][0], keys[last][0]];
        let states = &mut states[..=last];
        self.compress_two(states, blocks);
        let digest_bytes = self.algorithm.digest_bytes();
        for ((state, block), key) in states.iter_mut().zip(&mut *blocks).zip(keys) {
            self.rooms.function.write(state, &mut block[..digest_bytes]);
            self.pad_short(block, digest_bytes);
            *state = key[1];
        }
        self.compress_two(states, blocks);
        for (state, tag) in states.iter().zip(tags) {
            self.store(state, tag);
        }
        wipe(states.as_flattened_mut());
    }

    /// Adds a block to the state of one message or two.
    fn compress_two(&self, states: &mut [State], blocks: &[Block]) {
        let block_bytes = self.algorithm.block_bytes();
        match states {
            [first, second] => {
                let blocks = [&blocks[0][..block_bytes], &blocks[1][..block_bytes]];
                self.rooms.compress_pair([first, second], blocks);
            }
            _ => states
                .iter_mut()
                .zip(blocks)
                .for_each(|(state, block)| self.compress(state, &block[..block_bytes])),
        }
    }
}

/// Blocks, one for each lane; lanes without one take the first.
fn messages(blocks: &[Block]) -> [&[u8]; LANES_MAX] {
    let mut messages = [&blocks[0][..]; LANES_MAX];
    for (message, block) in messages.iter_mut().zip(blocks) {
        *message = block;
    }
    messages
}

/// Adds a block to each state.
fn blocks_in_lanes<H: hash::Hash<W>, W: Words>(
    room: W::Room,
    states: &mut [State],
    blocks: &[Block],
) {
    let mut rows = hash::zeros::<W>();
    for (lane, state) in states.iter().enumerate() {
        put_state::<W>(&mut rows, lane, state);
    }
    compress::<H, W>(room, &mut rows, &messages(blocks), 1);
    for (lane, state) in states.iter_mut().enumerate() {
        *state = state_of::<W>(&rows, lane);
    }
    wipe_states::<W>(&mut rows);
}

/// The tags of messages, one for each lane.
fn tags_in_lanes<H: hash::Hash<W>, W: Words>(
    room: W::Room,
    hash: &Hash,
    keys: &[&[State; 2]],
    blocks: &[Block],
    tags: &mut [Digest],
) {
    let mut rows = hash::zeros::<W>();
    for (lane, [inner, _]) in keys.iter().enumerate() {
        put_state::<W>(&mut rows, lane, inner);
    }
    compress::<H, W>(room, &mut rows, &messages(blocks), 1);
    let mut digests = rows;
    for (lane, [_, outer]) in keys.iter().enumerate() {
        put_state::<W>(&mut rows, lane, outer);
    }
    let words = hash.algorithm.digest_bytes() / size_of::<W::Word>();
    compress_digests::<H, W>(room, &mut rows, &digests, words);
    wipe_states::<W>(&mut digests);
    for (lane, tag) in tags.iter_mut().enumerate() {
        let mut state = state_of::<W>(&rows, lane);
        hash.store(&state, tag);
        wipe(&mut state);
    }
    wipe_states::<W>(&mut rows);
}
