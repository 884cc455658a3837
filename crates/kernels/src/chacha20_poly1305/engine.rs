//! The algorithm of ChaCha20-Poly1305, written once over the rows of a room.
//!
//! A quarter round works on four rows, so that it does all columns, or all diagonals, of the blocks
//! of these rows. Blocks stay together, which is what makes short messages quick; longer ones are
//! made by words (`chunk.rs`).
//!
//! A room brings a register with [`Row`](super::rows::Row), [`Steps`] and [`Engine`], and `doors!`
//! makes of it what the room offers. As everywhere in [`registers`](crate::registers), what works
//! on rows is `#[inline(always)]` and ends up in a body of [`Register::call`]: a way that a message
//! goes, or a part of it that is a [`Task`] of its own. Nothing here takes a closure: one that LLVM
//! does not inline would call each instruction as a function, which for 1,350 bytes takes 27 times
//! as long.
//!
//! Tasks share the same stack one after the other, so little is spilled for a message, and little
//! has to be wiped behind it: the sizes in `mod.rs` follow what is emitted.

use core::ops::Range;

use widelane_secret::stack::wipe_stack;
use widelane_secret::wipe;

use super::chunk::{double_round_of_words, opening_by_both, words_after, words_before};
use super::rounds::{after_rounds, before_rounds, double_round};
use super::rows::{Running, SETS, Set, Steps};
use super::single::Single;
use super::{
    BESIDE_KEY, BESIDE_STACK, BLOCK_BYTES, DOUBLE_ROUNDS, Key, LONG_STACK, Message,
    NARROW_LONG_STACK, NARROW_SETS_STACK, NONCE_BYTES, OPENED_LONG_STACK, Pace, Poly1305,
    SEALED_LONG_STACK, SEALED_STACK, SHORT_STACK, SHORTEST_STACK, TAG_BYTES, Ways, close,
    fills_a_set, last_block, whole_blocks,
};
use crate::registers::{Register, Task};
use crate::text::Text;

/// Defines what a room offers, compiled here once: see the module.
macro_rules! doors {
    ($row:ident, $token:ident) => {
        /// Seals: encrypts the text and stores the tag.
        pub fn seal(room: $token, message: Message<'_>) {
            start(room, Direction::Seal, message, &mut Poly1305::default());
        }

        /// Opens: decrypts the text and stores the tag that it should have come with.
        pub fn open(room: $token, message: Message<'_>) {
            start(room, Direction::Open, message, &mut Poly1305::default());
        }

        /// Seals messages, short ones side by side.
        pub fn seal_many<'a>(room: $token, messages: impl Iterator<Item = Message<'a>>) {
            abreast::seal_many::<$row>(room, messages, seal, seal_abreast);
        }

        /// Seals as many messages as go side by side, and takes them away.
        fn seal_abreast(room: $token, messages: &mut [Option<Message<'_>>; ABREAST]) {
            abreast::seal_abreast::<$row>(room, messages);
        }

        /// Seals or opens a message that may go on: stores the tag that it has if it ends here,
        /// and in `poly` the authenticator of AAD and whole blocks of text.
        pub fn start(
            room: $token,
            direction: Direction,
            message: Message<'_>,
            poly: &mut Poly1305,
        ) {
            let ways = Ways::of_this_cpu();
            match direction {
                Direction::Seal => engine::start::<$row, true>(room, message, poly, ways),
                Direction::Open => engine::start::<$row, false>(room, message, poly, ways),
            }
        }

        /// Begins the authenticator of a message.
        pub fn begin(room: $token, key: &Key, nonce: &[u8; NONCE_BYTES], poly: &mut Poly1305) {
            engine::begin::<$row>(room, key, nonce, poly);
        }

        /// Authenticates blocks; the last one is filled up with zeros.
        pub fn absorb(room: $token, poly: &mut Poly1305, bytes: &[u8]) {
            engine::absorb::<$row>(room, poly, bytes);
        }

        /// Encrypts or decrypts whole blocks from `counter` on and authenticates the ciphertext.
        pub fn crypt(
            room: $token,
            direction: Direction,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            poly: &mut Poly1305,
            text: Text<'_>,
        ) {
            let pieces = Pieces { key, nonce, counter, poly, text };
            match direction {
                Direction::Seal => pieces.crypt::<$row, true>(room),
                Direction::Open => pieces.crypt::<$row, false>(room),
            }
        }

        /// Stores a block of the key stream.
        pub fn stream_block(
            room: $token,
            key: &Key,
            nonce: &[u8; NONCE_BYTES],
            counter: u32,
            block: &mut [u8; BLOCK_BYTES],
        ) {
            engine::stream_block::<$row>(room, key, nonce, counter, block);
        }
    };
}

/// A room: how it makes key stream for texts of some length, and authenticates.
pub(super) trait Engine: Steps {
    /// Whether registers are too few for a chunk and what goes beside it.
    const FEW_REGISTERS: bool = false;
    /// Sets of the shorter opening, and of the longer one.
    const OPENINGS: [usize; 2] = [1 + SETS, 1 + SETS + 1];

    /// A sum on its way.
    type Running: Running<Self::Room>;

    /// The sets that a message begins with: a chunk, with one set or two beside.
    #[inline(always)]
    fn opening<const COUNT: usize>(
        room: Self::Room,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
    ) -> [Set<Self>; COUNT] {
        opening_by_both(room, key, nonce)
    }

    /// A chunk of key stream, beside any number of groups.
    fn chunk_beside(
        room: Self::Room,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        running: &mut Self::Running,
        groups: &[Group<Self>],
    ) -> [Set<Self>; SETS];

    /// Encrypts or decrypts a chunk of a text from registers, while groups of ciphertext are
    /// authenticated: no fewer than a chunk of them, where registers are few.
    #[inline(always)]
    fn crypt_chunk(
        room: Self::Room,
        key: &Key,
        nonce: &[u8; NONCE_BYTES],
        counter: u32,
        chunk: Text<'_>,
        running: &mut Self::Running,
        groups: &[Group<Self>],
    ) {
        let sets = Self::chunk_beside(room, key, nonce, counter, running, groups);
        for (index, row) in sets.as_flattened().iter().enumerate() {
            let offset = index * Self::ROW_BYTES;
            Self::read(room, chunk, offset).xor(*row).write(chunk, offset);
        }
    }
}

/// The bytes of a group of a room.
pub(super) type Group<R> = <<R as Engine>::Running as Running<<R as Register>::Room>>::Group;

/// Repeats an expression for each index of the sets of an opening, as straight code.
macro_rules! each_set {
    ($index:ident => $step:expr) => {
        each_set!($index => $step, 0 1 2 3 4 5)
    };
    ($index:ident => $step:expr, $($number:literal)+) => {
        $({
            const $index: usize = $number;
            $step;
        })+
    };
}

/// Seals or opens a message that may go on, in `ways` that need not be those of this CPU: see
/// `start` of a room.
#[inline(always)]
pub(super) fn start<R: Engine, const SEAL: bool>(
    room: R::Room,
    message: Message<'_>,
    poly: &mut Poly1305,
    ways: Ways,
) {
    let mut message = message;
    let message = &mut message;
    let bytes = message.text.len();
    let [short_opening, opening] = R::OPENINGS;
    // Bytes of text that an opening has behind the block of the one-time key.
    let short_opening = short_opening * R::SET_BYTES - BLOCK_BYTES;
    let opening = opening * R::SET_BYTES - BLOCK_BYTES;
    // Of a text that is longer.
    let turns_behind = |first: usize| (bytes - first).div_ceil(R::CHUNK_BYTES);
    // Twice as many, where a turn of no more than two sets counts half.
    let half_turns_behind = |first: usize| {
        let (chunks, rest) = ((bytes - first) / R::CHUNK_BYTES, (bytes - first) % R::CHUNK_BYTES);
        2 * chunks + rest.div_ceil(2 * R::SET_BYTES)
    };
    let key_beside_chunk = ways.beside_chunk && !R::FEW_REGISTERS;
    let beside_sets = ways.beside_sets || fills_a_set(bytes, R::SET_BYTES);
    if !beside_sets && bytes <= R::SET_BYTES - BLOCK_BYTES {
        go::<R, SEAL, _>(room, message, poly, BehindKey::<1>);
        wipe_stack::<SHORTEST_STACK>();
    } else if !beside_sets && bytes <= 2 * R::SET_BYTES - BLOCK_BYTES {
        go::<R, SEAL, _>(room, message, poly, BehindKey::<2>);
        wipe_behind_sets::<R>();
    } else if !beside_sets && R::FEW_REGISTERS && bytes <= 3 * R::SET_BYTES - BLOCK_BYTES {
        go::<R, SEAL, _>(room, message, poly, BehindKey::<3>);
        wipe_behind_sets::<R>();
    } else if bytes <= BLOCK_BYTES {
        go::<R, SEAL, _>(room, message, poly, OneBlock);
        wipe_stack::<SHORTEST_STACK>();
    } else if bytes <= R::SET_BYTES {
        go::<R, SEAL, _>(room, message, poly, BesideKey::<1>);
        wipe_stack::<BESIDE_STACK>();
    } else if bytes <= 2 * R::SET_BYTES {
        go::<R, SEAL, _>(room, message, poly, BesideKey::<2>);
        wipe_short_stack::<R>();
    } else if key_beside_chunk && bytes <= R::CHUNK_BYTES {
        go::<R, SEAL, _>(room, message, poly, BesideChunk::<false>);
        wipe_short_stack::<R>();
    } else if bytes <= short_opening {
        go_either::<R, SEAL, _, _>(room, message, poly, BehindOpening::<SETS>, BehindOpening::<5>);
        wipe_behind_opening::<R, SEAL>();
    } else if bytes <= opening {
        go_either::<R, SEAL, _, _>(room, message, poly, BehindOpening::<5>, BehindOpening::<6>);
        wipe_behind_opening::<R, SEAL>();
    } else if !SEAL && R::FEW_REGISTERS {
        // What an opening decrypts is authenticated before, beside nothing: it is short.
        if half_turns_behind(2 * R::SET_BYTES - BLOCK_BYTES)
            < half_turns_behind(R::SET_BYTES - BLOCK_BYTES)
        {
            go::<R, SEAL, _>(room, message, poly, LongBehindSets::<2>);
        } else {
            go::<R, SEAL, _>(room, message, poly, LongBehindSets::<1>);
        }
        wipe_long_stack::<R, SEAL>();
    } else if key_beside_chunk && turns_behind(R::CHUNK_BYTES) == turns_behind(opening) {
        go::<R, SEAL, _>(room, message, poly, BesideChunk::<true>);
        wipe_long_stack::<R, false>();
    } else if turns_behind(short_opening) == turns_behind(opening) {
        go_either::<R, SEAL, _, _>(room, message, poly, Long::<SETS>, Long::<5>);
        wipe_behind_long_opening::<R, SEAL>();
    } else {
        go_either::<R, SEAL, _, _>(room, message, poly, Long::<5>, Long::<6>);
        wipe_behind_long_opening::<R, SEAL>();
    }
}

/// Clears the stack behind a message: so many words of it where rows are of 512 bits, of 256, and
/// where registers are few.
#[inline(always)]
pub(super) fn wipe_stack_of<R: Engine, const WIDE: usize, const NARROW: usize, const FEW: usize>() {
    if R::FEW_REGISTERS {
        wipe_stack::<FEW>();
    } else if R::ROW_BYTES == BLOCK_BYTES {
        wipe_stack::<WIDE>();
    } else {
        wipe_stack::<NARROW>();
    }
}

/// Of the words of a short stack, most are rows.
const NARROW_SHORT_STACK: usize = SHORT_STACK - 7 * 32;

/// Clears the stack behind a message of one set or more, or an opened one of an opening.
#[inline(always)]
fn wipe_short_stack<R: Engine>() {
    wipe_stack_of::<R, SHORT_STACK, NARROW_SHORT_STACK, NARROW_SHORT_STACK>();
}

/// Clears the stack behind a message of two or three sets.
#[inline(always)]
fn wipe_behind_sets<R: Engine>() {
    wipe_stack_of::<R, SHORT_STACK, NARROW_SHORT_STACK, NARROW_SETS_STACK>();
}

/// Clears the stack behind a message of an opening.
#[inline(always)]
fn wipe_behind_opening<R: Engine, const SEAL: bool>() {
    if SEAL {
        wipe_stack_of::<R, SEALED_STACK, { SEALED_STACK - 3 * 32 }, { SEALED_STACK - 3 * 32 }>();
    } else {
        wipe_short_stack::<R>();
    }
}

/// Clears the stack behind a longer message.
#[inline(always)]
fn wipe_long_stack<R: Engine, const SEAL: bool>() {
    if SEAL {
        wipe_stack_of::<R, SEALED_LONG_STACK, SEALED_LONG_STACK, NARROW_LONG_STACK>();
    } else {
        wipe_stack_of::<R, LONG_STACK, LONG_STACK, NARROW_LONG_STACK>();
    }
}

/// Clears the stack behind a longer message than its opening.
#[inline(always)]
fn wipe_behind_long_opening<R: Engine, const SEAL: bool>() {
    if SEAL {
        wipe_long_stack::<R, true>();
    } else {
        wipe_stack_of::<R, OPENED_LONG_STACK, LONG_STACK, NARROW_LONG_STACK>();
    }
}

/// A way that a message goes.
trait Way {
    /// Seals or opens a message; `poly` ends without its last block, if that is not whole.
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305);
}

/// A message on its way, in two registers.
struct OnWay<'a, 'm, const SEAL: bool, W> {
    message: &'a mut Message<'m>,
    poly: &'a mut Poly1305,
    _way: W,
}

impl<R: Engine, const SEAL: bool, W: Way> Task<R> for OnWay<'_, '_, SEAL, W> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        let OnWay { message, poly, .. } = self;
        // What is decrypted where it is.
        let (mut last, end) = ([0; BLOCK_BYTES], last_block(message.text));
        if !SEAL && !end.is_empty() {
            last[..end.len()].copy_from_slice(end.ciphertext::<SEAL>());
        }
        W::go::<R, SEAL>(room, message, poly);
        let last = if SEAL { end.ciphertext::<SEAL>() } else { &last[..end.len()] };
        *message.tag = close(poly, last, message.aad.len() as u64, message.text.len() as u64);
        R::wipe_registers(room);
    }
}

/// Takes a message on a way, in a function of its own.
#[inline(always)]
fn go<R: Engine, const SEAL: bool, W: Way>(
    room: R::Room,
    message: &mut Message<'_>,
    poly: &mut Poly1305,
    way: W,
) {
    R::call(room, OnWay::<SEAL, W> { message, poly, _way: way });
}

/// As [`go`], on one way where registers are few, and on another elsewhere.
#[inline(always)]
fn go_either<R: Engine, const SEAL: bool, F: Way, M: Way>(
    room: R::Room,
    message: &mut Message<'_>,
    poly: &mut Poly1305,
    few: F,
    many: M,
) {
    if R::FEW_REGISTERS {
        go::<R, SEAL, F>(room, message, poly, few);
    } else {
        go::<R, SEAL, M>(room, message, poly, many);
    }
}

/// Begins the authenticator of a message.
pub(super) fn begin<R: Engine>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    poly: &mut Poly1305,
) {
    let mut block = [0; BLOCK_BYTES];
    stream_block::<R>(room, key, nonce, 0, &mut block);
    poly.begin(&block);
    wipe(&mut block);
}

/// Authenticates blocks; the last one is filled up with zeros. Not inlined, so that its stack is
/// below that of a message whose AAD this is.
#[inline(never)]
pub(super) fn absorb<R: Engine>(room: R::Room, poly: &mut Poly1305, bytes: &[u8]) {
    R::call(room, Absorb { poly, bytes });
    wipe_short_stack::<R>();
}

struct Absorb<'a> {
    poly: &'a mut Poly1305,
    bytes: &'a [u8],
}

impl<R: Engine> Task<R> for Absorb<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        authenticate::<R>(room, self.poly, self.bytes);
        R::wipe_registers(room);
    }
}

/// Whole blocks of a message, from block `counter` on.
pub(super) struct Pieces<'a> {
    pub(super) key: &'a Key,
    pub(super) nonce: &'a [u8; NONCE_BYTES],
    pub(super) counter: u32,
    pub(super) poly: &'a mut Poly1305,
    pub(super) text: Text<'a>,
}

impl Pieces<'_> {
    /// Encrypts or decrypts and authenticates them.
    #[inline(always)]
    pub(super) fn crypt<R: Engine, const SEAL: bool>(self, room: R::Room) {
        R::call(room, Crypt::<SEAL>(self));
        wipe_long_stack::<R, false>();
    }
}

struct Crypt<'a, const SEAL: bool>(Pieces<'a>);

impl<R: Engine, const SEAL: bool> Task<R> for Crypt<'_, SEAL> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        let Pieces { key, nonce, counter, poly, text } = self.0;
        if text.len() > 2 * R::SET_BYTES {
            let mut queue = Queue::<R, SEAL>::new(room, poly, text);
            queue.rest(key, nonce, counter);
            queue.end(poly);
        } else {
            if !SEAL {
                authenticate::<R>(room, poly, text.ciphertext::<SEAL>());
            }
            if text.len() > R::SET_BYTES {
                apply(&key_stream::<R, 2>(room, key, nonce, counter), 0, text);
            } else if !text.is_empty() {
                apply(&key_stream::<R, 1>(room, key, nonce, counter), 0, text);
            }
            if SEAL {
                authenticate::<R>(room, poly, text.ciphertext::<SEAL>());
            }
        }
        R::wipe_registers(room);
    }
}

/// Stores a block of the key stream.
#[inline(always)]
pub(super) fn stream_block<R: Engine>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    block: &mut [u8; BLOCK_BYTES],
) {
    R::call(room, StreamBlock { key, nonce, counter, block });
    wipe_short_stack::<R>();
}

struct StreamBlock<'a> {
    key: &'a Key,
    nonce: &'a [u8; NONCE_BYTES],
    counter: u32,
    block: &'a mut [u8; BLOCK_BYTES],
}

impl<R: Engine> Task<R> for StreamBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        let [set] = key_stream::<R, 1>(room, self.key, self.nonce, self.counter);
        *self.block = R::first_block(set);
        R::wipe_registers(room);
    }
}

/// A text of one block, which moves to general registers once that of the one-time key has left
/// them.
struct OneBlock;

impl Way for OneBlock {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        let mut states = before_rounds::<R, 1>(room, key, nonce, 1);
        begin_beside(room, key, nonce, aad, &mut states, poly);
        let mut block = Single::from_bytes(&R::first_block(R::in_order(states[0])));
        for _ in BESIDE_KEY..DOUBLE_ROUNDS {
            block.double_round();
        }
        let stream = block.after_rounds(&Single::new(key, nonce, 1));
        if !SEAL {
            poly.absorb_inline(whole_blocks(text.ciphertext::<SEAL>()));
        }
        text.add_words(&stream);
        if SEAL {
            poly.absorb_inline(whole_blocks(text.ciphertext::<SEAL>()));
        }
    }
}

/// A longer text, of one set or two beside the block of the one-time key.
struct BesideKey<const COUNT: usize>;

impl<const COUNT: usize> Way for BesideKey<COUNT> {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        let before = before_rounds::<R, COUNT>(room, key, nonce, 1);
        let rotations = R::rotations();
        let mut states = before;
        begin_beside(room, key, nonce, aad, &mut states, poly);
        for _ in BESIDE_KEY..DOUBLE_ROUNDS {
            double_round(&mut states, &rotations);
        }
        let sets = after_rounds(states, &before);
        if COUNT > 1 {
            let mut queue = Queue::<R, SEAL>::new(room, poly, text);
            queue.apply(&sets, 0);
            queue.end(poly);
            return;
        }
        if !SEAL {
            poly.absorb_inline(whole_blocks(text.ciphertext::<SEAL>()));
        }
        apply(&sets, 0, text);
        if SEAL {
            poly.absorb_inline(whole_blocks(text.ciphertext::<SEAL>()));
        }
    }
}

/// A text of up to three sets, whose first block makes the one-time key.
struct BehindKey<const COUNT: usize>;

impl<const COUNT: usize> Way for BehindKey<COUNT> {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        let sets = key_stream::<R, COUNT>(room, key, nonce, 0);
        if COUNT == 1 {
            begin_block(poly, R::first_block(sets[0]));
            poly.absorb_inline(aad);
            if !SEAL {
                poly.absorb_inline(whole_blocks(text.ciphertext::<SEAL>()));
            }
            apply(&sets, BLOCK_BYTES, text);
            if SEAL {
                poly.absorb_inline(whole_blocks(text.ciphertext::<SEAL>()));
            }
            return;
        }
        begin_opened::<R>(room, poly, R::first_block(sets[0]), aad);
        if !SEAL {
            authenticate::<R>(room, poly, whole_blocks(text.ciphertext::<SEAL>()));
        }
        apply(&sets, BLOCK_BYTES, text);
        if SEAL {
            authenticate::<R>(room, poly, whole_blocks(text.ciphertext::<SEAL>()));
        }
    }
}

/// A text of an opening of `COUNT` sets, whose first block makes the one-time key.
struct BehindOpening<const COUNT: usize>;

impl<const COUNT: usize> Way for BehindOpening<COUNT> {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        if SEAL {
            let block = seal_opening::<R, COUNT>(room, key, nonce, text);
            begin_opened::<R>(room, poly, block, aad);
            authenticate::<R>(room, poly, whole_blocks(text.ciphertext::<SEAL>()));
        } else {
            let sets = R::opening::<COUNT>(room, key, nonce);
            begin_opened::<R>(room, poly, R::first_block(sets[0]), aad);
            authenticate::<R>(room, poly, whole_blocks(text.ciphertext::<SEAL>()));
            apply(&sets, BLOCK_BYTES, text);
        }
    }
}

/// A text that is longer than `COUNT` sets, which are as for [`BehindKey`].
struct LongBehindSets<const COUNT: usize>;

impl<const COUNT: usize> Way for LongBehindSets<COUNT> {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        let sets = key_stream::<R, COUNT>(room, key, nonce, 0);
        begin_opened::<R>(room, poly, R::first_block(sets[0]), aad);
        let mut queue = Queue::<R, SEAL>::new(room, poly, text);
        queue.apply(&sets, BLOCK_BYTES);
        queue.rest(key, nonce, 1);
        queue.end(poly);
    }
}

/// A text that is longer than its opening of `COUNT` sets.
struct Long<const COUNT: usize>;

impl<const COUNT: usize> Way for Long<COUNT> {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        let mut queue = if SEAL {
            let (first, _) = text.split_at(COUNT * R::SET_BYTES - BLOCK_BYTES);
            let block = seal_opening::<R, COUNT>(room, key, nonce, first);
            begin_opened::<R>(room, poly, block, aad);
            let mut queue = Queue::<R, SEAL>::new(room, poly, text);
            queue.done = first.len();
            queue
        } else {
            R::call(room, OpenOpening::<COUNT, SEAL> { key, nonce, aad, text, poly })
        };
        queue.rest(key, nonce, 1);
        queue.end(poly);
    }
}

/// Decrypts what an opening of `COUNT` sets has of a longer text. A task of its own: its key stream
/// is gone from the stack before there is more.
struct OpenOpening<'a, 't, const COUNT: usize, const SEAL: bool> {
    key: &'a Key,
    nonce: &'a [u8; NONCE_BYTES],
    aad: &'a [u8],
    text: Text<'t>,
    poly: &'a mut Poly1305,
}

impl<'t, R: Engine, const COUNT: usize, const SEAL: bool> Task<R>
    for OpenOpening<'_, 't, COUNT, SEAL>
{
    type Output = Queue<'t, R, SEAL>;

    #[inline(always)]
    fn run(self, room: R::Room) -> Queue<'t, R, SEAL> {
        let OpenOpening { key, nonce, aad, text, poly } = self;
        let sets = R::opening::<COUNT>(room, key, nonce);
        begin_opened::<R>(room, poly, R::first_block(sets[0]), aad);
        let mut queue = Queue::new(room, poly, text);
        queue.apply(&sets, BLOCK_BYTES);
        queue
    }
}

/// A text of a chunk beside the block of the one-time key, or a longer one (`LONG`).
struct BesideChunk<const LONG: bool>;

impl<const LONG: bool> Way for BesideChunk<LONG> {
    #[inline(always)]
    fn go<R: Engine, const SEAL: bool>(room: R::Room, message: &Message<'_>, poly: &mut Poly1305) {
        let Message { key, nonce, aad, text, .. } = *message;
        let mut sets = [[R::splat(room, 0); 4]; SETS];
        let block = R::call(room, ChunkAfterKey { key, nonce, sets: &mut sets });
        begin_with::<R>(room, poly, &block, aad);
        if LONG {
            let mut queue = Queue::<R, SEAL>::new(room, poly, text);
            queue.apply(&sets, 0);
            queue.rest(key, nonce, 1);
            queue.end(poly);
            return;
        }
        if !SEAL {
            authenticate::<R>(room, poly, whole_blocks(text.ciphertext::<SEAL>()));
        }
        apply(&sets, 0, text);
        if SEAL {
            authenticate::<R>(room, poly, whole_blocks(text.ciphertext::<SEAL>()));
        }
    }
}

/// A chunk of key stream from block 1 on, and the block before, which is made in general registers
/// meanwhile. A task of its own: what it has on the stack is gone before more is there.
struct ChunkAfterKey<'a, R> {
    key: &'a Key,
    nonce: &'a [u8; NONCE_BYTES],
    sets: &'a mut [Set<R>; SETS],
}

impl<R: Engine> Task<R> for ChunkAfterKey<'_, R> {
    type Output = [u64; BLOCK_BYTES / 8];

    #[inline(always)]
    fn run(self, room: R::Room) -> [u64; BLOCK_BYTES / 8] {
        let ChunkAfterKey { key, nonce, sets } = self;
        let before = Single::new(key, nonce, 0);
        let rotations = R::rotations();
        let (mut block, mut words) = (before, words_before::<R>(room, key, nonce, 1));
        for _ in 0..DOUBLE_ROUNDS {
            double_round_of_words(&mut words, &rotations);
            block.double_round();
        }
        *sets = words_after(&words, &words_before(room, key, nonce, 1));
        block.after_rounds(&before)
    }
}

/// Takes sets of blocks through the first double rounds and makes the one-time key in general
/// registers beside; then begins the authenticator, with the AAD.
#[inline(always)]
fn begin_beside<const COUNT: usize, R: Engine>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    states: &mut [Set<R>; COUNT],
    poly: &mut Poly1305,
) {
    let before = Single::new(key, nonce, 0);
    let rotations = R::rotations();
    let mut block = before;
    for _ in 0..BESIDE_KEY / 2 {
        double_round(states, &rotations);
        block.double_round();
        block.double_round();
        double_round(states, &rotations);
        block.double_round();
    }
    block.double_round();
    begin_with::<R>(room, poly, &block.after_rounds(&before), aad);
}

/// Begins an authenticator whose key is in general registers, with the AAD.
#[inline(always)]
fn begin_with<R: Engine>(
    room: R::Room,
    poly: &mut Poly1305,
    block: &[u64; BLOCK_BYTES / 8],
    aad: &[u8],
) {
    let [r0, r1, s0, s1, ..] = *block;
    poly.begin_words([r0, r1, s0, s1]);
    if aad.len() <= TAG_BYTES {
        poly.absorb_block(aad);
    } else {
        absorb::<R>(room, poly, aad);
    }
}

/// Begins an authenticator whose key is the first block of some sets, with the AAD.
#[inline(always)]
fn begin_opened<R: Engine>(
    room: R::Room,
    poly: &mut Poly1305,
    block: [u8; BLOCK_BYTES],
    aad: &[u8],
) {
    begin_block(poly, block);
    // What is longer has the stack below cleared: a message clears what a short one takes there.
    if aad.len() <= 4 * TAG_BYTES {
        poly.absorb(aad);
    } else {
        absorb::<R>(room, poly, aad);
    }
}

/// Begins an authenticator whose key is a block of key stream.
#[inline(always)]
pub(super) fn begin_block(poly: &mut Poly1305, block: [u8; BLOCK_BYTES]) {
    let mut block = block;
    poly.begin(&block);
    wipe(&mut block);
}

/// Adds blocks; the last one is filled up with zeros.
#[inline(always)]
fn authenticate<R: Engine>(room: R::Room, poly: &mut Poly1305, bytes: &[u8]) {
    R::Running::authenticate(room, poly, bytes);
}

/// The groups of a text that are still to be authenticated. The first one has as many blocks as it
/// takes to make the others whole.
struct Queue<'a, R: Engine, const SEAL: bool> {
    room: R::Room,
    text: Text<'a>,
    running: R::Running,
    /// Bytes that are encrypted or decrypted.
    done: usize,
    first_bytes: usize,
    /// Where the next group begins.
    next: usize,
    /// Where the last one ends.
    end: usize,
}

impl<'a, R: Engine, const SEAL: bool> Queue<'a, R, SEAL> {
    #[inline(always)]
    fn new(room: R::Room, poly: &Poly1305, text: Text<'a>) -> Self {
        let end = text.len() - text.len() % BLOCK_BYTES;
        let first_bytes = R::Running::first_bytes(end);
        let running = R::Running::begin(room, poly);
        Queue { room, text, running, done: 0, first_bytes, next: 0, end }
    }

    /// Encrypts or decrypts what comes first with a key stream that is there, from byte `skip` on.
    #[inline(always)]
    fn apply<const COUNT: usize>(&mut self, sets: &[Set<R>; COUNT], skip: usize) {
        let bytes = self.text.len().min(COUNT * R::SET_BYTES - skip);
        self.absorb(if SEAL { 0 } else { bytes });
        apply(sets, skip, self.text.split_at(bytes).0);
        self.done = bytes;
    }

    /// The rest of a text, one chunk of which is encrypted while another one is authenticated: when
    /// sealing the chunk before, when opening the same one. A last block that is not whole is not
    /// authenticated. The text begins with block `counter`.
    #[inline(always)]
    fn rest(&mut self, key: &Key, nonce: &[u8; NONCE_BYTES], counter: u32) {
        while self.done < self.text.len() {
            let bytes = (self.text.len() - self.done).min(R::CHUNK_BYTES);
            let counter = counter.wrapping_add((self.done / BLOCK_BYTES) as u32);
            if self.is_next_whole(bytes) {
                R::call(self.room, TurnOfChunk { queue: self, key, nonce, counter });
            } else {
                R::call(self.room, TurnOfPart { queue: self, key, nonce, counter, bytes });
            }
        }
    }

    /// Takes the next bytes of text out of the queue, and the groups that are authenticated while
    /// they are encrypted or decrypted.
    #[inline(always)]
    fn turn(&mut self, bytes: usize) -> (Text<'a>, Range<usize>) {
        let start = self.done;
        self.done += bytes;
        let ready = self.ready(if SEAL { start } else { self.done });
        let (_, rest) = self.text.split_at(start);
        (rest.split_at(bytes).0, ready)
    }

    /// Whether the next bytes are a chunk that goes by [`TurnOfChunk`]: where registers are few,
    /// beside no less than a chunk of groups.
    #[inline(always)]
    fn is_next_whole(&self, bytes: usize) -> bool {
        let end = if SEAL { self.done } else { self.done + R::CHUNK_BYTES };
        bytes == R::CHUNK_BYTES
            && (!R::FEW_REGISTERS || self.groups(end) * R::Running::GROUP_BYTES >= R::CHUNK_BYTES)
    }

    /// Authenticates what is left.
    #[inline(always)]
    fn end(&mut self, poly: &mut Poly1305) {
        self.absorb(self.done);
        self.running.end(poly);
    }

    /// Authenticates what is ready when so much ciphertext is there.
    #[inline(always)]
    fn absorb(&mut self, end: usize) {
        let ready = self.ready(end);
        self.running.absorb_groups(groups::<R, SEAL>(&self.text, ready));
    }

    /// Takes the groups up to `end` out of the queue.
    #[inline(always)]
    fn ready(&mut self, end: usize) -> Range<usize> {
        if self.next == 0 && end >= self.first_bytes {
            self.running.absorb_first(&self.text.ciphertext::<SEAL>()[..self.first_bytes]);
            self.next = self.first_bytes;
        }
        let start = self.next;
        self.next += self.groups(end) * R::Running::GROUP_BYTES;
        start..self.next
    }

    /// Groups up to `end`, but for the first one: those that have all their bytes when sealing, and
    /// when opening all that have one.
    #[inline(always)]
    fn groups(&self, end: usize) -> usize {
        let bytes = end.min(self.end).saturating_sub(self.next.max(self.first_bytes));
        let group_bytes = R::Running::GROUP_BYTES;
        if SEAL { bytes / group_bytes } else { bytes.div_ceil(group_bytes) }
    }
}

/// The groups in this part of a text.
#[inline(always)]
fn groups<'a, R: Engine, const SEAL: bool>(
    text: &'a Text<'_>,
    ready: Range<usize>,
) -> &'a [Group<R>] {
    R::Running::groups(&text.ciphertext::<SEAL>()[ready])
}

/// Encrypts or decrypts a chunk, without a key stream in memory: what is stored there would be
/// waited for by loads from the text that have the same place in a page.
struct TurnOfChunk<'a, 't, R: Engine, const SEAL: bool> {
    queue: &'a mut Queue<'t, R, SEAL>,
    key: &'a Key,
    nonce: &'a [u8; NONCE_BYTES],
    counter: u32,
}

impl<R: Engine, const SEAL: bool> Task<R> for TurnOfChunk<'_, '_, R, SEAL> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        let TurnOfChunk { queue, key, nonce, counter } = self;
        let (chunk, ready) = queue.turn(R::CHUNK_BYTES);
        let groups = groups::<R, SEAL>(&queue.text, ready);
        R::crypt_chunk(room, key, nonce, counter, chunk, &mut queue.running, groups);
    }
}

/// Encrypts or decrypts what is less than a whole chunk, or goes beside less. Its key stream is on
/// the stack, but not beside what a chunk has there.
struct TurnOfPart<'a, 't, R: Engine, const SEAL: bool> {
    queue: &'a mut Queue<'t, R, SEAL>,
    key: &'a Key,
    nonce: &'a [u8; NONCE_BYTES],
    counter: u32,
    bytes: usize,
}

impl<R: Engine, const SEAL: bool> Task<R> for TurnOfPart<'_, '_, R, SEAL> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: R::Room) {
        let TurnOfPart { queue, key, nonce, counter, bytes } = self;
        let (part, ready) = queue.turn(bytes);
        let (groups, running) = (groups::<R, SEAL>(&queue.text, ready), &mut queue.running);
        match bytes.div_ceil(R::SET_BYTES) {
            1 => {
                let sets = key_stream_beside::<R, 1>(room, key, nonce, counter, running, groups);
                apply(&sets, 0, part);
            }
            2 => {
                let sets = key_stream_beside::<R, 2>(room, key, nonce, counter, running, groups);
                apply(&sets, 0, part);
            }
            _ => {
                let sets = R::chunk_beside(room, key, nonce, counter, running, groups);
                apply(&sets, 0, part);
            }
        }
    }
}

/// Encrypts what an opening of `COUNT` sets has behind its first block, and returns that block. The
/// key stream stays in registers.
#[inline(always)]
fn seal_opening<R: Engine, const COUNT: usize>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    text: Text<'_>,
) -> [u8; BLOCK_BYTES] {
    let sets = R::opening::<COUNT>(room, key, nonce);
    let block = R::first_block(sets[0]);
    each_set!(INDEX => if let Some(set) = sets.get(INDEX) {
        for (place, row) in set.iter().enumerate() {
            let offset = INDEX * R::SET_BYTES + place * R::ROW_BYTES;
            if offset >= BLOCK_BYTES {
                apply_row(text, offset - BLOCK_BYTES, *row);
            }
        }
    });
    block
}

/// Adds a key stream, from byte `skip` on, to a text that is no longer.
#[inline(always)]
pub(super) fn apply<R: Steps, const COUNT: usize>(
    sets: &[Set<R>; COUNT],
    skip: usize,
    text: Text<'_>,
) {
    let (_, rows) = sets.as_flattened().split_at(skip / R::ROW_BYTES);
    let (whole, rest) = rows.split_at(text.len() / R::ROW_BYTES);
    for (index, row) in whole.iter().enumerate() {
        let offset = index * R::ROW_BYTES;
        R::read(row.room(), text, offset).xor(*row).write(text, offset);
    }
    if let ([row, ..], bytes @ 1..) = (rest, text.len() % R::ROW_BYTES) {
        row.add_part(text, whole.len() * R::ROW_BYTES, bytes);
    }
}

/// Adds a row, or as much of it as there is text.
#[inline(always)]
fn apply_row<R: Steps>(text: Text<'_>, offset: usize, row: R) {
    let bytes = text.len().saturating_sub(offset);
    if bytes >= R::ROW_BYTES {
        R::read(row.room(), text, offset).xor(row).write(text, offset);
    } else if bytes > 0 {
        row.add_part(text, offset, bytes);
    }
}

/// Blocks of the key stream from `counter` on, each set as bytes in their order.
#[inline(always)]
fn key_stream<R: Engine, const COUNT: usize>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
) -> [Set<R>; COUNT] {
    let before = before_rounds::<R, COUNT>(room, key, nonce, counter);
    let rotations = R::rotations();
    let mut states = before;
    for _ in 0..DOUBLE_ROUNDS {
        double_round(&mut states, &rotations);
    }
    after_rounds(states, &before)
}

/// Blocks of the key stream, while groups are authenticated.
#[inline(always)]
fn key_stream_beside<R: Engine, const COUNT: usize>(
    room: R::Room,
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    counter: u32,
    running: &mut R::Running,
    groups: &[Group<R>],
) -> [Set<R>; COUNT] {
    let before = before_rounds::<R, COUNT>(room, key, nonce, counter);
    let rotations = R::rotations();
    let mut states = before;
    let mut pace = Pace::new(groups);
    for _ in 0..DOUBLE_ROUNDS {
        double_round(&mut states, &rotations);
        running.absorb_groups(pace.due());
    }
    after_rounds(states, &before)
}
