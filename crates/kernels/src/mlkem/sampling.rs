//! Sampling: the matrix out of its seed, which is public, and noise out of secret seeds.

use super::group::{COEFFICIENTS, Group};
use super::layout::{Layout, Place};
use super::numbers::Q;
use super::{MESSAGE_BYTES, Parameters, Words32};
use crate::coefficients::{CANDIDATES, Coefficients, PAIRS, POLYNOMIALS, Task};
use crate::keccak::sponge::{Function, SHAKE128, SHAKE256, Sponges};
use crate::words::Words;

/// Words that [`CANDIDATES`] candidates take.
const CANDIDATE_WORDS: usize = 3;

/// Memory for a polynomial that is being sampled: public data.
#[derive(Clone)]
pub struct Buffer([u16; COEFFICIENTS + CANDIDATES]);

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

/// Samples polynomials uniformly (FIPS 203, algorithm 7). Seeds are public: time depends on them.
pub(super) fn uniform_vartime<C: Coefficients>(
    room: C::Room,
    sponges: &mut Sponges<C::Words>,
    buffers: &mut [Buffer; POLYNOMIALS],
    entries: &[Entry<'_>],
    groups: &mut [Group],
) {
    for entries in entries.chunks(POLYNOMIALS) {
        let lanes = <C::Words as Words>::LANES;
        for (entries, buffers) in entries.chunks(lanes).zip(buffers.chunks_mut(lanes)) {
            fill_vartime::<C>(room, sponges, buffers, entries);
        }
        let group = entries[0].place.group;
        let is_whole = entries.len() == POLYNOMIALS
            && (0..).zip(entries).all(|(lane, entry)| entry.place == Place { group, lane });
        if is_whole {
            C::call(room, Transpose { buffers, group: &mut groups[group] });
            continue;
        }
        for (entry, buffer) in entries.iter().zip(&*buffers) {
            let coefficients = buffer.0.first_chunk().expect("there are as many");
            groups[entry.place.group].put(entry.place.lane, coefficients);
        }
    }
}

/// Samples as many polynomials as there are lanes, or fewer, each into a buffer.
fn fill_vartime<C: Coefficients>(
    room: C::Room,
    sponges: &mut Sponges<C::Words>,
    buffers: &mut [Buffer],
    entries: &[Entry<'_>],
) {
    sponges.clear();
    for (lane, entry) in entries.iter().enumerate() {
        add_seed(sponges, lane, &words_of(entry.seed));
        let [first, second] = entry.indices;
        sponges.add_word(lane, 4, u64::from(first) | u64::from(second) << 8);
        sponges.pad(lane, 34, SHAKE128);
    }
    let mut counts = [0; POLYNOMIALS];
    let counts = &mut counts[..entries.len()];
    // Three blocks nearly always suffice.
    while counts.iter().any(|count| *count < COEFFICIENTS) {
        sponges.permute_within(room);
        C::call(room, Accept { sponges, buffers, counts });
    }
}

/// Takes candidates of 12 bits that are below q out of a block of each lane, until a polynomial is
/// complete.
struct Accept<'a, W: Words<Word = u64>> {
    sponges: &'a Sponges<W>,
    buffers: &'a mut [Buffer],
    counts: &'a mut [usize],
}

impl<C: Coefficients> Task<C> for Accept<'_, C::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, room: C::Room) {
        for (lane, (buffer, count)) in self.buffers.iter_mut().zip(self.counts).enumerate() {
            let mut index = 0;
            while index < SHAKE128.rate_words() && *count < COEFFICIENTS {
                let word = |more: usize| self.sponges.word(lane, index + more);
                let candidates: [u64; CANDIDATE_WORDS] = [word(0), word(1), word(2)];
                *count = C::accept_vartime(room, candidates, Q as u16, &mut buffer.0, *count);
                index += CANDIDATE_WORDS;
            }
        }
    }
}

/// Puts the polynomials of all buffers side by side.
struct Transpose<'a> {
    buffers: &'a [Buffer; POLYNOMIALS],
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
                register.store(row);
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
    let states = <C::Words as Words>::LANES;
    let is_whole = layout.width == 1 && layout.jobs.is_multiple_of(states);
    let together = if is_whole { states } else { 1 };
    let mut streams = (0..first.count + second.count)
        .flat_map(|nonce| (0..layout.jobs).map(move |job| (job, nonce)))
        .peekable();
    while streams.peek().is_some() {
        let mut lanes = [(0, 0); POLYNOMIALS];
        let mut count = 0;
        sponges.clear();
        for (lane, stream) in streams.by_ref().take(<C::Words as Words>::LANES).enumerate() {
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

/// Hashes `count` words of each of `jobs` messages, and hands the lanes of several jobs at once to
/// `take`, with the first of those jobs.
///
/// Secrets: messages and digests.
#[inline(always)]
pub(super) fn hash<W: Words<Word = u64>>(
    room: W::Room,
    sponges: &mut Sponges<W>,
    function: Function,
    jobs: usize,
    count: usize,
    word: impl Fn(usize, usize) -> u64,
    mut take: impl FnMut(usize, usize, &Sponges<W>),
) {
    let rate = function.rate_words();
    for begin in (0..jobs).step_by(W::LANES) {
        let lanes = W::LANES.min(jobs - begin);
        sponges.clear();
        for block in (0..count).step_by(rate) {
            let words = rate.min(count - block);
            for lane in 0..lanes {
                for index in 0..words {
                    sponges.add_word(lane, index, word(begin + lane, block + index));
                }
            }
            if words == rate {
                sponges.permute_within(room);
            }
        }
        for lane in 0..lanes {
            sponges.pad(lane, 8 * (count % rate), function);
        }
        sponges.permute_within(room);
        for lane in 0..lanes {
            take(begin + lane, lane, sponges);
        }
    }
}

impl Parameters {
    /// The entries of a matrix that a pass over rows needs: those of a job's rows, for each of its
    /// columns; `transposed` where rows are columns of the matrix that FIPS 203 has.
    pub(super) fn entries<'a>(
        &self,
        layout: Layout,
        pass: usize,
        transposed: bool,
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
