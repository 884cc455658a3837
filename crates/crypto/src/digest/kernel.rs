//! Hashes in the rooms chosen: which kernel does what.

use widelane_cpu::{Policy, Room, choice};
use widelane_kernels::aes_cbc;
use widelane_kernels::hash::{self, DIGEST_BYTES, STATE_WORDS, States};
use widelane_kernels::registers::{Register, Word};
use widelane_kernels::sha1::{self, SHA1, Sha1};
use widelane_kernels::sha2::{self, SHA224, SHA256, SHA384, SHA512, Sha256, Sha512};
use widelane_kernels::text::Text;
use widelane_kernels::words::{Avx2x1, Words};
use widelane_secret::wipe;

use super::Algorithm;

/// The state of a message: words of 32 bits stand in the lower halves.
pub(crate) type State = [u64; STATE_WORDS];

/// The state before the first block.
pub(super) fn initial(algorithm: Algorithm) -> &'static State {
    const SHA1_STATE: State = widened(SHA1);
    const SHA224_STATE: State = widened(SHA224);
    const SHA256_STATE: State = widened(SHA256);
    match algorithm {
        Algorithm::Sha1 => &SHA1_STATE,
        Algorithm::Sha224 => &SHA224_STATE,
        Algorithm::Sha256 => &SHA256_STATE,
        Algorithm::Sha384 => &SHA384,
        Algorithm::Sha512 => &SHA512,
    }
}

const fn widened(words: [u32; STATE_WORDS]) -> State {
    let [a, b, c, d, e, f, g, h] = words;
    [a as u64, b as u64, c as u64, d as u64, e as u64, f as u64, g as u64, h as u64]
}

/// What is done to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Sha1,
    Sha256,
    Sha512,
}

impl Function {
    pub(super) const fn block_bytes(self) -> usize {
        match self {
            Function::Sha1 | Function::Sha256 => <u32 as Words>::BLOCK_BYTES,
            Function::Sha512 => <u64 as Words>::BLOCK_BYTES,
        }
    }

    /// The rooms for a single message, best first.
    pub(super) const fn rooms(self) -> &'static [Room] {
        match self {
            Function::Sha1 | Function::Sha256 => &[Room::Shani, Room::Avx2, Room::Portable],
            Function::Sha512 => &[Room::Avx512, Room::Avx2, Room::Portable],
        }
    }

    /// Writes the words of a state one behind the other, as many as there are bytes for.
    #[inline]
    pub(super) fn write(self, state: &State, bytes: &mut [u8]) {
        match self {
            Function::Sha1 | Function::Sha256 => {
                for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
                    *bytes = (*word as u32).to_be_bytes();
                }
            }
            Function::Sha512 => {
                for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
                    *bytes = word.to_be_bytes();
                }
            }
        }
    }
}

choice! { $
    /// The room for a single message; a function has some of them.
    enum Single {
        Shani, Avx512, Avx2, Portable
    }
}

choice! { $
    /// The room for many messages at once, with lanes of 32 bits and of 64.
    pub(super) enum LaneRoom without portable by in_words {
        Avx512 => crate::digest::kernel::avx512,
        Avx2 => crate::digest::kernel::avx2
    }
}

pub(super) mod avx512 {
    pub(crate) use widelane_kernels::words::{Avx512x8 as Of64, Avx512x16 as Of32};
}

pub(super) mod avx2 {
    pub(crate) use widelane_kernels::words::{Avx2x4 as Of64, Avx2x8 as Of32};
}

/// A function in the rooms chosen for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rooms {
    pub(super) function: Function,
    single: Single,
    /// Without it, messages come one after the other.
    pub(super) lanes: Option<LaneRoom>,
}

impl Rooms {
    pub(super) fn new(function: Function, policy: &Policy) -> Self {
        let has = |single: &Single| function.rooms().contains(&single.room());
        let single = Single::open(policy).find(has).unwrap_or(Single::Portable(()));
        let lanes = match (function, single, LaneRoom::open(policy).next()) {
            // Eight lanes of SHA-256 without rotations are no faster than the SHA extensions.
            (Function::Sha256, Single::Shani(_), Some(LaneRoom::Avx2(_))) => None,
            (.., lanes) => lanes,
        };
        Rooms { function, single, lanes }
    }

    pub(super) fn room(self) -> Room {
        self.single.room()
    }

    pub(super) fn lane_room(self) -> Option<Room> {
        self.lanes.map(LaneRoom::room)
    }

    pub(super) fn width(self) -> usize {
        let Some(lanes) = self.lanes else { return 1 };
        match self.function {
            Function::Sha1 | Function::Sha256 => in_words!(lanes, |_room, by| by::Of32::LANES),
            Function::Sha512 => in_words!(lanes, |_room, by| by::Of64::LANES),
        }
    }

    /// From how many messages on lanes are faster than pairs of messages, or one after the other,
    /// as measured (docs/design/hashes.md).
    pub(super) fn lanes_min(self) -> usize {
        match (self.function, self.single, self.lanes) {
            (Function::Sha1, Single::Shani(_), Some(LaneRoom::Avx512(_))) => 5,
            (_, Single::Shani(_), _) => 8,
            (_, Single::Avx512(_) | Single::Avx2(_) | Single::Portable(()), _) => 3,
        }
    }

    /// Whether two messages take less time together than one after the other.
    pub(super) fn takes_pairs(self) -> bool {
        matches!(self.single, Single::Shani(_))
    }

    /// From how many records on it is faster to hash and encrypt them at once, in lanes, than to
    /// hash them first, as measured; nothing if no lanes do both.
    pub(super) fn abreast_min(self) -> Option<usize> {
        match (self.function, self.single, self.lanes) {
            (Function::Sha512, ..) | (.., Some(LaneRoom::Avx2(_)) | None) => None,
            (Function::Sha1, Single::Shani(_), _) => Some(4),
            (Function::Sha256, Single::Shani(_), _) => Some(6),
            (_, Single::Avx512(_) | Single::Avx2(_) | Single::Portable(()), _) => Some(2),
        }
    }

    /// Adds whole blocks to the state of one message.
    pub(super) fn compress(self, state: &mut State, blocks: &[u8]) {
        match (self.function, self.single) {
            (Function::Sha1, Single::Shani(room)) => {
                narrow(state, |words| sha1::shani::compress(room, words, blocks.as_chunks().0));
            }
            (Function::Sha256, Single::Shani(room)) => {
                narrow(state, |words| sha2::shani::compress(room, words, blocks.as_chunks().0));
            }
            (Function::Sha1, Single::Avx2(room)) => {
                alone::<Sha1, Avx2x1<u32>>(room, state, blocks);
            }
            (Function::Sha256, Single::Avx2(room)) => {
                alone::<Sha256, Avx2x1<u32>>(room, state, blocks);
            }
            (Function::Sha512, Single::Avx512(room)) => {
                sha2::avx512::compress(room, state, blocks.as_chunks().0);
            }
            (Function::Sha512, Single::Avx2(room)) => {
                sha2::avx2::compress(room, state, blocks.as_chunks().0);
            }
            (Function::Sha1, _) => alone::<Sha1, u32>((), state, blocks),
            (Function::Sha256, _) => alone::<Sha256, u32>((), state, blocks),
            (Function::Sha512, _) => alone::<Sha512, u64>((), state, blocks),
        }
    }
}

impl Rooms {
    /// Adds the whole blocks of `text` from byte `ahead` on to a state, while it encrypts as many
    /// from its beginning behind the block `last`, if there is a room for both at once. Answers how
    /// many bytes are encrypted.
    pub(super) fn compress_and_encrypt(
        self,
        state: &mut State,
        ahead: usize,
        key: &aes_cbc::Key,
        last: &mut aes_cbc::Block,
        text: Text<'_>,
    ) -> usize {
        let Single::Shani(room) = self.single else { return 0 };
        let encrypt = match self.function {
            Function::Sha1 => aes_cbc::shani::encrypt_with_sha1,
            Function::Sha256 => aes_cbc::shani::encrypt_with_sha256,
            Function::Sha512 => return 0,
        };
        let mut done = 0;
        narrow(state, |words| done = encrypt(room, key, last, words, ahead, text));
        done
    }
}

impl Rooms {
    /// Adds whole blocks to the states of two messages, as many to each.
    pub(super) fn compress_pair(self, states: [&mut State; 2], blocks: [&[u8]; 2]) {
        let [first, second] = states;
        let Single::Shani(room) = self.single else {
            self.compress(first, blocks[0]);
            self.compress(second, blocks[1]);
            return;
        };
        narrow(first, |first| {
            narrow(second, |second| {
                let (words, blocks) = ([first, second], blocks.map(|blocks| blocks.as_chunks().0));
                match self.function {
                    Function::Sha1 => sha1::shani::compress_pair(room, words, blocks),
                    Function::Sha256 => sha2::shani::compress_pair(room, words, blocks),
                    Function::Sha512 => unreachable!("no room shani is chosen for SHA-512"),
                }
            });
        });
    }

    /// Adds what is left of a message to a copy of its state, padded if the bytes of the whole
    /// message are given, and stores the digest; or adds that to the state behind the outer pad of
    /// HMAC, if it has all words of a state, and stores the tag. Answers whether there is a room
    /// that does it all at once.
    pub(super) fn end(
        self,
        state: &State,
        message: &[u8],
        total: Option<u64>,
        outer: Option<&State>,
        digest: &mut [u8; DIGEST_BYTES],
    ) -> bool {
        let Single::Shani(room) = self.single else { return false };
        let end = match self.function {
            Function::Sha1 => sha1::shani::end,
            Function::Sha256 => sha2::shani::end,
            Function::Sha512 => return false,
        };
        let (mut state, mut outer) = (narrowed(state), outer.map(narrowed));
        end(room, &state, message, total, outer.as_ref(), digest);
        wipe(&mut state);
        wipe(outer.as_mut_slice().as_flattened_mut());
        true
    }
}

/// Adds blocks by a kernel with one lane.
fn alone<H: hash::Hash<W>, W: Words>(room: W::Room, state: &mut State, blocks: &[u8]) {
    let mut states = hash::zeros::<W>();
    put_state::<W>(&mut states, 0, state);
    hash::compress::<H, W>(room, &mut states, &[blocks], blocks.len() / W::BLOCK_BYTES);
    *state = state_of::<W>(&states, 0);
    wipe_states::<W>(&mut states);
}

/// The state of a lane.
pub(super) fn state_of<W: Words>(states: &States<W>, lane: usize) -> State {
    std::array::from_fn(|word| states[word].as_ref()[lane].into())
}

/// Makes `state` the state of a lane.
pub(super) fn put_state<W: Words>(states: &mut States<W>, lane: usize, state: &State) {
    for (row, word) in states.iter_mut().zip(state) {
        row.as_mut()[lane] = W::Word::low(*word);
    }
}

pub(super) fn wipe_states<W: Words>(states: &mut States<W>) {
    states.iter_mut().for_each(|row| wipe(row.as_mut()));
}

/// Adds blocks by a kernel for words of 32 bits.
fn narrow(state: &mut State, compress: impl FnOnce(&mut [u32; STATE_WORDS])) {
    let mut words = narrowed(state);
    compress(&mut words);
    *state = words.map(u64::from);
    wipe(&mut words);
}

fn narrowed(state: &State) -> [u32; STATE_WORDS] {
    state.map(|word| word as u32)
}
