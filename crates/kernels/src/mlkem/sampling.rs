//! Sampling: the matrix out of its seed, which is public, and noise out of secret seeds.

use super::generate::Rows;
use super::group::{COEFFICIENTS, Group};
use super::layout::{Layout, Place};
use super::numbers::Q;
use super::{MESSAGE_BYTES, Parameters, RANK_MAX, Words32};
use crate::coefficients::{BLOCK_WORDS, CANDIDATES, Coefficients, PAIRS, POLYNOMIALS};
use crate::keccak::sponge::{Function, SHAKE128, SHAKE256, Sponges};
use crate::registers::{Register, Task};
use crate::words::Words;

const _: () = assert!(SHAKE128.rate_words() == BLOCK_WORDS, "a block of SHAKE128");

/// The most polynomials that are sampled at once.
pub const BUFFERS: usize = RANK_MAX * POLYNOMIALS;

/// Memory for one polynomial: its coefficients while it is sampled, when the last block that it
/// needs is looked at as a whole, or its bytes where it is packed.
#[repr(align(32))]
#[derive(Clone)]
pub struct Buffer(pub(super) [u16; COEFFICIENTS + CANDIDATES]);

impl Buffer {
    /// Zeros.
    pub const ZERO: Buffer = Buffer([0; COEFFICIENTS + CANDIDATES]);
}

/// A polynomial of a matrix: the seed it comes from, what is appended to that, where it goes.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) seed: &'a [u8; 32],
    pub(super) indices: [u8; 2],
    pub(super) place: Place,
}

/// Adds the words of a seed to a lane.
#[inline(always)]
fn add_seed<W: Words<Word = u64>>(sponges: &mut Sponges<W>, lane: usize, seed: &Words32) {
    for (index, word) in seed.iter().enumerate() {
        sponges.add_word(lane, index, *word);
    }
}

/// The words of 32 bytes.
#[inline(always)]
pub(super) fn words_of(bytes: &[u8; MESSAGE_BYTES]) -> Words32 {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Messages that are hashed. Secrets: messages and digests.
pub(super) struct Hashing<W, T> {
    pub(super) function: Function,
    /// How many messages there are.
    pub(super) jobs: usize,
    /// Words of each message.
    pub(super) words: usize,
    /// Returns a word of the message of a job.
    pub(super) word: W,
    /// Takes the digest of a job's message out of a lane.
    pub(super) take: T,
}

/// What a lane is busy with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Nothing,
    /// The message of a job, and which of its blocks is next.
    Message {
        job: usize,
        block: usize,
    },
    /// A polynomial, and how many of its coefficients there are.
    Polynomial {
        entry: usize,
        count: usize,
    },
}

/// Hashing nothing.
#[allow(clippy::type_complexity, reason = "the types of two functions")]
pub(super) fn no_messages<S>() -> Hashing<fn(usize, usize) -> u64, fn(usize, usize, &S)> {
    Hashing { function: SHAKE128, jobs: 0, words: 0, word: |_, _| 0, take: |_, _, _| () }
}

impl<W: Fn(usize, usize) -> u64, T> Hashing<W, T> {
    /// Adds the next blocks of the messages that lanes are busy with.
    #[inline(always)]
    fn absorb<S: Words<Word = u64>>(&self, sponges: &mut Sponges<S>, streams: &[Stream]) {
        let rate = self.function.rate_words();
        for (lane, stream) in streams.iter().enumerate() {
            let Stream::Message { job, block } = *stream else { continue };
            let begin = block * rate;
            let words = rate.min(self.words - begin);
            for index in 0..words {
                sponges.add_word(lane, index, (self.word)(job, begin + index));
            }
            if words < rate {
                sponges.pad(lane, 8 * words, self.function);
            }
        }
    }

    /// Takes the digests of messages whose last block was permuted.
    #[inline(always)]
    fn squeeze<S: Words<Word = u64>>(&mut self, sponges: &Sponges<S>, streams: &mut [Stream])
    where
        T: FnMut(usize, usize, &Sponges<S>),
    {
        for (lane, stream) in streams.iter_mut().enumerate() {
            let Stream::Message { job, block } = *stream else { continue };
            // The last block is never full: at least padding is in it.
            if (block + 1) * self.function.rate_words() > self.words {
                (self.take)(job, lane, sponges);
                *stream = Stream::Nothing;
            } else {
                *stream = Stream::Message { job, block: block + 1 };
            }
        }
    }
}

/// Hashes messages.
#[inline(always)]
pub(super) fn hash<S: Words<Word = u64>, W, T>(
    room: S::Room,
    sponges: &mut Sponges<S>,
    mut hashing: Hashing<W, T>,
) where
    W: Fn(usize, usize) -> u64,
    T: FnMut(usize, usize, &Sponges<S>),
{
    for begin in (0..hashing.jobs).step_by(S::LANES) {
        let mut streams = [Stream::Nothing; POLYNOMIALS];
        for (stream, job) in streams[..S::LANES].iter_mut().zip(begin..hashing.jobs) {
            *stream = Stream::Message { job, block: 0 };
        }
        sponges.clear();
        while streams[0] != Stream::Nothing {
            hashing.absorb(sponges, &streams);
            sponges.permute_within(room);
            hashing.squeeze(sponges, &mut streams);
        }
    }
}

/// Samples polynomials uniformly (FIPS 203, algorithm 7), one group's after another's, and hashes
/// messages meanwhile: a lane that is done takes what is next. Seeds are public: time depends on
/// them.
#[inline(always)]
pub(super) fn uniform_vartime<C: Coefficients, W, T>(
    room: C::Room,
    sponges: &mut Sponges<C::Words>,
    buffers: &mut [Buffer; BUFFERS],
    entries: &[Entry<'_>],
    groups: &mut [Group],
    mut hashing: Hashing<W, T>,
) where
    W: Fn(usize, usize) -> u64,
    T: FnMut(usize, usize, &Sponges<C::Words>),
{
    let messages = (0..hashing.jobs).map(|job| Stream::Message { job, block: 0 });
    let polynomials = (0..entries.len()).map(|entry| Stream::Polynomial { entry, count: 0 });
    let mut waiting = messages.chain(polynomials);
    let mut streams = [Stream::Nothing; POLYNOMIALS];
    let streams = &mut streams[..<C::Words as Register>::LANES];
    while begin(room, sponges, streams, &mut waiting, entries) {
        hashing.absorb(sponges, streams);
        sponges.permute_within(room);
        hashing.squeeze(sponges, streams);
        C::call(room, Accept { sponges, buffers, streams });
    }
    let mut rest = &buffers[..entries.len()];
    for entries in entries.chunk_by(|one, next| one.place.group == next.place.group) {
        let (sampled, others) = rest.split_at(entries.len());
        rest = others;
        // What stands in lanes without a polynomial does not matter.
        let mut buffers = [&sampled[0]; POLYNOMIALS];
        for (entry, buffer) in entries.iter().zip(sampled) {
            buffers[entry.place.lane] = buffer;
        }
        C::call(room, Transpose { buffers, group: &mut groups[entries[0].place.group] });
    }
}

/// Has lanes that are done begin what is next. Returns whether any lane is busy.
fn begin<S: Words<Word = u64>>(
    room: S::Room,
    sponges: &mut Sponges<S>,
    streams: &mut [Stream],
    waiting: &mut impl Iterator<Item = Stream>,
    entries: &[Entry<'_>],
) -> bool {
    let is_done = |stream: &Stream| match *stream {
        Stream::Nothing => true,
        Stream::Message { .. } => false,
        Stream::Polynomial { count, .. } => count >= COEFFICIENTS,
    };
    if !streams.iter().any(is_done) {
        return true;
    }
    let mut kept = S::ZEROS;
    for (stream, kept) in streams.iter_mut().zip(kept.as_mut()) {
        if is_done(stream) {
            *stream = waiting.next().unwrap_or(Stream::Nothing);
        } else {
            *kept = u64::MAX;
        }
    }
    sponges.mask(room, &kept);
    for (lane, (stream, kept)) in streams.iter().zip(kept.as_ref()).enumerate() {
        let Stream::Polynomial { entry, .. } = *stream else { continue };
        if *kept == 0 {
            let Entry { seed, indices: [first, second], .. } = entries[entry];
            add_seed(sponges, lane, &words_of(seed));
            sponges.add_word(lane, 4, u64::from(first) | u64::from(second) << 8);
            sponges.pad(lane, 34, SHAKE128);
        }
    }
    streams.iter().any(|stream| *stream != Stream::Nothing)
}

/// Takes candidates of 12 bits that are below q out of a block of each polynomial's lane.
struct Accept<'a, S: Words<Word = u64>> {
    sponges: &'a Sponges<S>,
    buffers: &'a mut [Buffer; BUFFERS],
    streams: &'a mut [Stream],
}

impl<C: Coefficients> Task<C> for Accept<'_, C::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        for (lane, stream) in self.streams.iter_mut().enumerate() {
            let Stream::Polynomial { entry, count } = stream else { continue };
            let accepted = &mut self.buffers[*entry].0;
            let word = |index: usize| self.sponges.word(lane, index);
            *count = C::accept_vartime(room, word, Q as u16, accepted, *count);
        }
    }
}

/// Puts the polynomials of buffers side by side.
struct Transpose<'a> {
    buffers: [&'a Buffer; POLYNOMIALS],
    group: &'a mut Group,
}

impl<C: Coefficients> Task<C> for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        for (index, rows) in self.group.0.as_chunks_mut::<POLYNOMIALS>().0.iter_mut().enumerate() {
            let mut registers = [C::splat(room, 0); POLYNOMIALS];
            for (register, buffer) in registers.iter_mut().zip(self.buffers) {
                let (pieces, _) = buffer.0.as_chunks::<PAIRS>();
                *register = C::load_halves(room, &pieces[index], &pieces[POLYNOMIALS + index]);
            }
            for (register, row) in C::transpose(registers).into_iter().zip(rows) {
                *row = register.row();
            }
        }
    }
}

/// Puts the bits of noise where they are to be unpacked (FIPS 203, algorithm 8): of each job, those
/// of the polynomials of one target, and then of the other one, with ascending nonces.
///
/// Secrets: seeds, and the bits.
pub(super) fn noise_bits<C: Coefficients>(
    room: C::Room,
    sponges: &mut Sponges<C::Words>,
    layout: Layout,
    seeds: &[Words32],
    [mut first, mut second]: [NoiseTarget<'_>; 2],
) {
    let longest = first.eta.max(second.eta);
    // Of many jobs all lanes have a polynomial of the same nonce, and neighbours stay neighbours.
    let states = <C::Words as Register>::LANES;
    let is_whole = layout.width == 1 && layout.jobs.is_multiple_of(states);
    let together = if is_whole { states } else { 1 };
    let mut streams = (0..first.count + second.count)
        .flat_map(|nonce| (0..layout.jobs).map(move |job| (job, nonce)))
        .peekable();
    while streams.peek().is_some() {
        let mut lanes = [(0, 0); POLYNOMIALS];
        let mut count = 0;
        sponges.clear();
        for (lane, stream) in streams.by_ref().take(<C::Words as Register>::LANES).enumerate() {
            let (job, nonce) = stream;
            add_seed(sponges, lane, &seeds[job]);
            sponges.add_word(lane, 4, nonce as u64);
            sponges.pad(lane, 33, SHAKE256);
            (lanes[lane], count) = (stream, lane + 1);
        }
        let mut done = 0;
        while done < 8 * longest {
            sponges.permute_within(room);
            let rate = SHAKE256.rate_words();
            for begin in (0..count).step_by(together) {
                let (job, nonce) = lanes[begin];
                let (target, index) = match nonce.checked_sub(first.count) {
                    None => (&mut first, nonce),
                    Some(index) => (&mut second, index),
                };
                let place = layout.place(job, index);
                let group = &mut target.groups[place.group];
                for word in done..(done + rate).min(8 * target.eta) {
                    let squeezed = &sponges.row(word - done)[begin..][..together];
                    group.put_words(place.lane, 2 * target.eta, word, squeezed);
                }
            }
            done += rate;
        }
    }
}

/// Where noise goes.
pub(super) struct NoiseTarget<'a> {
    pub(super) groups: &'a mut [Group],
    /// Polynomials of each job.
    pub(super) count: usize,
    /// The largest coefficient.
    pub(super) eta: usize,
}

impl Parameters {
    /// The entries of the matrices of all jobs that a pass over rows needs, column by column.
    pub(super) fn entries<'a>(
        &self,
        Rows { layout, pass, transposed }: Rows,
        seed: impl Fn(usize) -> &'a [u8; 32],
        entries: &mut [Entry<'a>],
    ) -> usize {
        let mut count = 0;
        let rows = pass * layout.width..self.rank.min((pass + 1) * layout.width);
        for column in 0..self.rank {
            for row in rows.clone() {
                for job in 0..layout.jobs {
                    let indices = [column as u8, row as u8];
                    let [first, second] = indices;
                    let lane = layout.place(job, row).lane;
                    entries[count] = Entry {
                        seed: seed(job),
                        indices: if transposed { [second, first] } else { indices },
                        place: Place { group: column, lane },
                    };
                    count += 1;
                }
            }
        }
        count
    }
}
