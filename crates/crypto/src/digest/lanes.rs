//! Many messages at once: lanes that take the next message when theirs is done.
//!
//! A message is cut into up to three parts that are whole blocks each: its head, where something
//! stands in front of it; its body, read where it is; and its tail with the padding. All lanes go
//! on by as many blocks as the shortest part has left.

use std::borrow::BorrowMut;

use widelane_kernels::hash::{self, compress};
use widelane_kernels::sha1::Sha1;
use widelane_kernels::sha2::{Sha256, Sha512};
use widelane_kernels::words::{Avx2x4, Avx2x8, Avx512x8, Avx512x16, LANES_MAX, Words};
use widelane_secret::wipe;

use super::BLOCK_BYTES_MAX;
use super::kernel::{Function, Lanes, Rooms, State, put_state, state_of, wipe_states};

/// A message, and what came before it.
pub(crate) struct Job<'a> {
    /// The state that it begins with.
    pub(crate) state: State,
    /// Bytes behind which it begins, a whole number of blocks.
    pub(crate) before: u64,
    /// The beginning of the message, shorter than a block.
    pub(crate) head: &'a [u8],
    /// The rest of the message.
    pub(crate) message: &'a [u8],
}

/// Hashes all jobs, and calls `done` with the number and the last state of each.
pub(super) fn run<'a>(
    rooms: Rooms,
    jobs: impl Iterator<Item = Job<'a>>,
    done: impl FnMut(usize, &State),
) {
    match (rooms.function, rooms.lanes) {
        (_, None) => {
            let jobs = jobs.enumerate();
            let messages = jobs.map(|(index, job)| {
                let mut lane = Lane::IDLE;
                lane.begin(index, rooms, &job);
                (lane, job.state)
            });
            finish(rooms, messages, done);
        }
        (Function::Sha1, Some(Lanes::Avx512(room))) => {
            fill::<Sha1, Avx512x16>(room, rooms, jobs, done);
        }
        (Function::Sha256, Some(Lanes::Avx512(room))) => {
            fill::<Sha256, Avx512x16>(room, rooms, jobs, done);
        }
        (Function::Sha512, Some(Lanes::Avx512(room))) => {
            fill::<Sha512, Avx512x8>(room, rooms, jobs, done);
        }
        (Function::Sha1, Some(Lanes::Avx2(room))) => {
            fill::<Sha1, Avx2x8>(room, rooms, jobs, done);
        }
        (Function::Sha256, Some(Lanes::Avx2(room))) => {
            fill::<Sha256, Avx2x8>(room, rooms, jobs, done);
        }
        (Function::Sha512, Some(Lanes::Avx2(room))) => {
            fill::<Sha512, Avx2x4>(room, rooms, jobs, done);
        }
    }
}

/// Keeps the lanes of a room full as long as there are messages.
fn fill<'a, H: hash::Hash<W>, W: Words>(
    room: W::Room,
    rooms: Rooms,
    jobs: impl Iterator<Item = Job<'a>>,
    mut done: impl FnMut(usize, &State),
) {
    let mut states = hash::zeros::<W>();
    let mut lanes: [Lane<'a>; LANES_MAX] = [const { Lane::IDLE }; LANES_MAX];
    let lanes = &mut lanes[..W::LANES];
    let mut jobs = jobs.enumerate();
    loop {
        for (place, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.is_busy()) {
            let Some((index, job)) = jobs.next() else { break };
            put_state::<W>(&mut states, place, &job.state);
            lane.begin(index, rooms, &job);
        }
        let busy = || lanes.iter().filter(|lane| lane.is_busy());
        if busy().count() < rooms.lanes_min() {
            break;
        }
        let bytes = busy().map(|lane| lane.left).min().expect("a lane is busy");
        // Lanes without a message read along with another one.
        let mut messages = [busy().next().expect("a lane is busy").rest(); LANES_MAX];
        for (message, lane) in messages.iter_mut().zip(&*lanes).filter(|(_, lane)| lane.is_busy()) {
            *message = lane.rest();
        }
        compress::<H, W>(room, &mut states, &messages, bytes / W::BLOCK_BYTES);
        for (place, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_busy()) {
            if lane.advance(bytes) {
                done(lane.index, &state_of::<W>(&states, place));
            }
        }
    }
    let left = lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_busy());
    finish(rooms, left.map(|(place, lane)| (lane, state_of::<W>(&states, place))), done);
    wipe_states::<W>(&mut states);
}

/// Hashes what is left of messages, given their states: two at a time, as long as there are two.
fn finish<'a, L: BorrowMut<Lane<'a>>>(
    rooms: Rooms,
    mut messages: impl Iterator<Item = (L, State)>,
    mut done: impl FnMut(usize, &State),
) {
    let mut waiting = None;
    while let Some((mut first, mut state)) = waiting.take().or_else(|| messages.next()) {
        let lane = first.borrow_mut();
        if let Some((mut second, mut other_state)) = messages.next() {
            let other = second.borrow_mut();
            let (ended, other_ended) = loop {
                let bytes = lane.rest().len().min(other.rest().len());
                let blocks = [&lane.rest()[..bytes], &other.rest()[..bytes]];
                rooms.compress_pair([&mut state, &mut other_state], blocks);
                let ended = (lane.advance(bytes), other.advance(bytes));
                if ended != (false, false) {
                    break ended;
                }
            };
            if other_ended {
                done(other.index, &other_state);
            } else {
                waiting = Some((second, other_state));
            }
            if ended {
                done(lane.index, &state);
            } else {
                waiting = Some((first, state));
            }
            wipe(&mut other_state);
        } else {
            lane.finish(rooms, &mut state);
            done(lane.index, &state);
        }
        wipe(&mut state);
    }
}

/// A message on its way, or none.
struct Lane<'a> {
    /// The number of the job.
    index: usize,
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
        index: 0,
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
    fn begin(&mut self, index: usize, rooms: Rooms, job: &Job<'a>) {
        let block_bytes = rooms.function.block_bytes();
        let Job { before, head, message, .. } = *job;
        let total = before + (head.len() + message.len()) as u64;
        // The head takes of the message what makes it a whole block, if there is as much.
        let filling = if head.is_empty() { 0 } else { block_bytes - head.len() };
        let (filling, rest) = message.split_at(filling.min(message.len()));
        let (body, last) = rest.split_at(rest.len() / block_bytes * block_bytes);
        (self.index, self.body) = (index, body);
        let begun = head.len() + filling.len();
        self.head[..head.len()].copy_from_slice(head);
        self.head[head.len()..begun].copy_from_slice(filling);
        if begun.is_multiple_of(block_bytes) {
            self.head_bytes = begun;
            self.tail.set(block_bytes, last, total);
        } else {
            self.head_bytes = 0;
            self.tail.set(block_bytes, &self.head[..begun], total);
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

    /// Goes on by some bytes of the part at hand; answers whether the message is done.
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

    /// Hashes what is left of the message, alone.
    fn finish(&mut self, rooms: Rooms, state: &mut State) {
        loop {
            let rest = self.rest();
            let bytes = rest.len();
            rooms.compress(state, rest);
            if self.advance(bytes) {
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
    const EMPTY: Self = Tail { bytes: [0; 2 * BLOCK_BYTES_MAX], length: 0 };

    /// The tail of a message, as [`Tail::set`] makes it.
    #[inline]
    pub(super) fn new(block_bytes: usize, last: &[u8], total: u64) -> Self {
        let mut tail = Tail::EMPTY;
        tail.set(block_bytes, last, total);
        tail
    }

    /// Pads the `last` bytes, fewer than a block, of a message of `total` bytes.
    #[inline]
    fn set(&mut self, block_bytes: usize, last: &[u8], total: u64) {
        // The number of bits takes an eighth of a block.
        let fits = last.len() + 1 + block_bytes / 8 <= block_bytes;
        self.length = if fits { block_bytes } else { 2 * block_bytes };
        let (text, padding) = self.bytes[..self.length].split_at_mut(last.len());
        text.copy_from_slice(last);
        let (padding, count) = padding.split_at_mut(padding.len() - block_bytes / 8);
        padding.fill(0);
        padding[0] = 0x80;
        let bits = (8 * u128::from(total)).to_be_bytes();
        count.copy_from_slice(&bits[bits.len() - count.len()..]);
    }

    pub(crate) fn blocks(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn wipe(&mut self) {
        wipe(&mut self.bytes[..self.length]);
    }
}
