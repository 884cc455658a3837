//! Many messages at once: lanes that take the next message when theirs is done.
//!
//! A message is cut into up to three parts that are whole blocks each: its head, where something
//! stands in front of it; its body, read where it is; and its tail with the padding. All lanes go
//! on by as many blocks as the shortest part has left. Behind a message of HMAC its lane goes on
//! with the outer hash: one more tail.

use std::borrow::BorrowMut;

use widelane_kernels::hash::{self, compress, compress_digests};
use widelane_kernels::sha1::Sha1;
use widelane_kernels::sha2::{Sha256, Sha512};
use widelane_kernels::words::{LANES_MAX, Words};
use widelane_secret::wipe;

use super::kernel::{Function, LaneRoom, State, put_state, state_of, wipe_states};
use super::{BLOCK_BYTES_MAX, Digest, Hash};

/// A message, what came before it, and where its digest goes.
pub(crate) struct Job<'a> {
    /// The state that it begins with.
    pub(crate) state: &'a State,
    /// The state behind the outer pad, if it is a message of HMAC, which begins behind a pad.
    pub(crate) outer: Option<&'a State>,
    /// The beginning of the message, shorter than a block.
    pub(crate) head: &'a [u8],
    /// The rest of the message.
    pub(crate) message: &'a [u8],
    /// The digest, or the tag.
    pub(crate) digest: &'a mut Digest,
}

/// Messages that come one after the other. Whoever has them, the code of the rooms exists once.
type Jobs<'i, 'a> = &'i mut dyn ExactSizeIterator<Item = Job<'a>>;

/// Executes all jobs.
pub(super) fn run(hash: &Hash, jobs: Jobs<'_, '_>) {
    let worthwhile = |_: &LaneRoom| jobs.len() >= hash.rooms.lanes_min();
    let Some(lanes) = hash.rooms.lanes.filter(worthwhile) else {
        return finish(hash, jobs.map(|job| alone(hash, job)));
    };
    match hash.rooms.function {
        Function::Sha1 => in_words!(lanes, |room, by| fill::<Sha1, by::Of32>(room, hash, jobs)),
        Function::Sha256 => {
            in_words!(lanes, |room, by| fill::<Sha256, by::Of32>(room, hash, jobs))
        }
        Function::Sha512 => {
            in_words!(lanes, |room, by| fill::<Sha512, by::Of64>(room, hash, jobs))
        }
    }
}

/// Keeps the lanes of a room full as long as there are messages.
fn fill<'a, H: hash::Hash<W>, W: Words>(room: W::Room, hash: &Hash, jobs: Jobs<'_, 'a>) {
    let mut states = hash::zeros::<W>();
    let mut lanes: [Lane<'a>; LANES_MAX] = [const { Lane::IDLE }; LANES_MAX];
    let lanes = &mut lanes[..W::LANES];
    loop {
        for (place, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.is_busy()) {
            let Some(job) = jobs.next() else { break };
            put_state::<W>(&mut states, place, job.state);
            lane.begin(hash, job);
        }
        let busy = || lanes.iter().filter(|lane| lane.is_busy());
        if busy().count() < hash.rooms.lanes_min() {
            break;
        }
        let bytes = busy().map(|lane| lane.left).min().expect("a lane is busy");
        // Lanes without a message read along with another one.
        let mut messages = [busy().next().expect("a lane is busy").rest(); LANES_MAX];
        for (message, lane) in messages.iter_mut().zip(&*lanes).filter(|(_, lane)| lane.is_busy()) {
            *message = lane.rest();
        }
        compress::<H, W>(room, &mut states, &messages, bytes / W::BLOCK_BYTES);
        let busy = || lanes.iter().filter(|lane| lane.is_busy());
        if busy().all(|lane| lane.ends_with(bytes) && lane.outer.is_some()) {
            // Messages of one size, the usual case: their outer hashes go on where they all are.
            let mut digests = states;
            for (place, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_busy()) {
                put_state::<W>(&mut states, place, lane.outer.take().expect("each has one"));
            }
            let words = hash.algorithm.digest_bytes() / size_of::<W::Word>();
            compress_digests::<H, W>(room, &mut states, &digests, words);
            wipe_states::<W>(&mut digests);
        }
        for (place, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_busy()) {
            if lane.advance(bytes) {
                let mut state = state_of::<W>(&states, place);
                if !lane.end(hash, &mut state) {
                    put_state::<W>(&mut states, place, &state);
                }
                wipe(&mut state);
            }
        }
    }
    let left = lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_busy());
    finish(hash, left.map(|(place, lane)| (lane, state_of::<W>(&states, place))));
    wipe_states::<W>(&mut states);
}

/// A lane of its own for a message.
fn alone<'a>(hash: &Hash, job: Job<'a>) -> (Lane<'a>, State) {
    let (mut lane, state) = (Lane::IDLE, *job.state);
    lane.begin(hash, job);
    (lane, state)
}

/// Hashes what is left of messages, given their states: two at a time, as long as there are two.
fn finish<'a, L: BorrowMut<Lane<'a>>>(hash: &Hash, mut messages: impl Iterator<Item = (L, State)>) {
    let mut waiting = None;
    while let Some((mut first, mut state)) = waiting.take().or_else(|| messages.next()) {
        let lane = first.borrow_mut();
        if let Some((mut second, mut other_state)) = messages.next() {
            let other = second.borrow_mut();
            let (ended, other_ended) = loop {
                let bytes = lane.rest().len().min(other.rest().len());
                let blocks = [&lane.rest()[..bytes], &other.rest()[..bytes]];
                hash.rooms.compress_pair([&mut state, &mut other_state], blocks);
                let ended = lane.advance(bytes) && lane.end(hash, &mut state);
                let other_ended = other.advance(bytes) && other.end(hash, &mut other_state);
                if ended || other_ended {
                    break (ended, other_ended);
                }
            };
            if !other_ended {
                waiting = Some((second, other_state));
            }
            if !ended {
                waiting = Some((first, state));
            }
            wipe(&mut other_state);
        } else {
            lane.finish(hash, &mut state);
        }
        wipe(&mut state);
    }
}

/// A message on its way, or none.
struct Lane<'a> {
    /// Where the digest goes.
    digest: Option<&'a mut Digest>,
    /// The state with which the outer hash begins, as long as it has not.
    outer: Option<&'a State>,
    part: Part,
    /// Bytes of the part that are still to be done; none if there is no message.
    left: usize,
    head: [u8; BLOCK_BYTES_MAX],
    head_bytes: usize,
    body: &'a [u8],
    tail: Tail,
}

#[derive(Clone, Copy)]
enum Part {
    Head,
    Body,
    Tail,
}

impl<'a> Lane<'a> {
    /// A lane without a message.
    const IDLE: Self = Lane {
        digest: None,
        outer: None,
        part: Part::Tail,
        left: 0,
        head: [0; BLOCK_BYTES_MAX],
        head_bytes: 0,
        body: &[],
        tail: Tail::EMPTY,
    };

    fn is_busy(&self) -> bool {
        self.left > 0
    }

    /// Takes a message. Where it stands, since a lane is too large to be moved for a short one.
    fn begin(&mut self, hash: &Hash, job: Job<'a>) {
        let Job { outer, head, message, digest, .. } = job;
        let block_bytes = hash.algorithm.block_bytes();
        let total = hash.behind_pad(outer) + (head.len() + message.len()) as u64;
        // The head takes of the message what makes it a whole block, if there is as much.
        let filling = if head.is_empty() { 0 } else { block_bytes - head.len() };
        let (filling, rest) = message.split_at(filling.min(message.len()));
        let (body, last) = rest.split_at(hash.whole_blocks(rest.len()));
        (self.digest, self.outer, self.body) = (Some(digest), outer, body);
        let begun = head.len() + filling.len();
        self.head[..head.len()].copy_from_slice(head);
        self.head[head.len()..begun].copy_from_slice(filling);
        if begun.is_multiple_of(block_bytes) {
            self.head_bytes = begun;
            self.tail.set(hash, last, total);
        } else {
            self.head_bytes = 0;
            self.tail.set(hash, &self.head[..begun], total);
        }
        (self.part, self.left) = (Part::Head, self.head_bytes);
        self.advance(0);
    }

    /// What is left of the part at hand.
    fn rest(&self) -> &[u8] {
        let part = match self.part {
            Part::Head => &self.head[..self.head_bytes],
            Part::Body => self.body,
            Part::Tail => self.tail.blocks(),
        };
        &part[part.len() - self.left..]
    }

    /// Whether the message is done when as many more bytes of the part at hand are.
    fn ends_with(&self, bytes: usize) -> bool {
        matches!(self.part, Part::Tail) && self.left == bytes
    }

    /// Goes on by some bytes of the part at hand; returns whether the message is done.
    fn advance(&mut self, bytes: usize) -> bool {
        self.left -= bytes;
        while self.left == 0 {
            (self.part, self.left) = match self.part {
                Part::Head => (Part::Body, self.body.len()),
                Part::Body => (Part::Tail, self.tail.length),
                Part::Tail => return true,
            };
        }
        false
    }

    /// Takes the state behind the message. Answers whether that is the digest, which is stored; if
    /// not, the outer hash goes on from the state that is put in its place.
    fn end(&mut self, hash: &Hash, state: &mut State) -> bool {
        let Some(outer) = self.outer.take() else {
            hash.store(state, self.digest.take().expect("a busy lane has a place for its digest"));
            return true;
        };
        self.tail.set_digest(hash, state);
        (self.part, self.left) = (Part::Tail, self.tail.length);
        *state = *outer;
        false
    }

    /// Hashes what is left of the message, alone.
    fn finish(&mut self, hash: &Hash, state: &mut State) {
        loop {
            let rest = self.rest();
            let bytes = rest.len();
            hash.compress(state, rest);
            if self.advance(bytes) && self.end(hash, state) {
                return;
            }
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        wipe(&mut self.head);
        self.tail.wipe();
    }
}

/// The last bytes of a message with their padding (FIPS 180-4, 5.1): one block or two.
pub(crate) struct Tail {
    bytes: [u8; 2 * BLOCK_BYTES_MAX],
    length: usize,
}

impl Tail {
    /// No tail yet.
    pub(crate) const EMPTY: Self = Tail { bytes: [0; 2 * BLOCK_BYTES_MAX], length: 0 };

    /// Takes the last bytes, fewer than a block, of a message of `total` bytes. Where it stands,
    /// since a tail is too large to be moved.
    #[inline]
    pub(crate) fn set(&mut self, hash: &Hash, last: &[u8], total: u64) {
        self.bytes[..last.len()].copy_from_slice(last);
        self.pad(hash.algorithm.block_bytes(), last.len(), total);
    }

    /// Pads the digest that a state stands for, behind the outer pad of HMAC.
    pub(super) fn set_digest(&mut self, hash: &Hash, state: &State) {
        let (block_bytes, bytes) = (hash.algorithm.block_bytes(), hash.algorithm.digest_bytes());
        hash.rooms.function.write(state, &mut self.bytes[..bytes]);
        self.pad(block_bytes, bytes, (block_bytes + bytes) as u64);
    }

    /// Pads the first bytes, fewer than a block, the last of a message of `total` bytes.
    #[inline]
    fn pad(&mut self, block_bytes: usize, bytes: usize, total: u64) {
        // The number of bits takes an eighth of a block.
        let fits = bytes + 1 + block_bytes / 8 <= block_bytes;
        self.length = if fits { block_bytes } else { 2 * block_bytes };
        let padding = &mut self.bytes[bytes..self.length];
        let (padding, count) = padding.split_at_mut(padding.len() - block_bytes / 8);
        padding.fill(0);
        padding[0] = 0x80;
        // The number of bits, of which the high half counts for words of 64 bits only.
        let words = count.as_chunks_mut().0.iter_mut().rev();
        for (bytes, word) in words.zip([total << 3, total >> 61]) {
            *bytes = word.to_be_bytes();
        }
    }

    pub(crate) fn blocks(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn wipe(&mut self) {
        wipe(&mut self.bytes[..self.length]);
    }
}
