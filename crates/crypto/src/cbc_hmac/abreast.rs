//! Up to sixteen records that go on together, hashed and encrypted at once, each in a lane of its
//! own. The hash is ahead by what the header leaves of its first block, as it is where a record is
//! sealed alone.

use std::array::from_fn;
use std::ops::Range;

use widelane_cpu::Vaes512;
use widelane_kernels::aes_cbc::lanes::{self, LANES, LaneKeys};
use widelane_kernels::hash::{self, Hash};
use widelane_kernels::registers::Register;
use widelane_kernels::sha1::Sha1;
use widelane_kernels::sha2::Sha256;
use widelane_kernels::text::Text;
use widelane_kernels::words::{LANES_MAX, Vaes512x8, Vaes512x16, Words};
use widelane_secret::wipe;

use super::kernel::LaneRoom;
use super::many::SealJob;
use super::{BLOCK_BYTES, HASH_BLOCK_BYTES, HEADER_BYTES};
use crate::digest::{self, Tail};

/// Most records that go on together.
pub(super) const RECORDS_MAX: usize = Vaes512x16::LANES;

/// Bytes of a text in the first block of its hash.
const AHEAD_BYTES: usize = HASH_BLOCK_BYTES - HEADER_BYTES;

/// Seals records whose keys are of one algorithm in the same rooms, header and text before tag and
/// padding. Answers whether it did: not if they are too few, too many, too short, or one of them is
/// longer than the others by a block.
pub(super) fn seal(jobs: &mut [SealJob<'_>]) -> bool {
    let key = jobs[0].key;
    let (Some((LaneRoom::Vaes512(room), _)), Some(records_min)) =
        (key.cipher.lanes(), key.mac.hash().abreast_min())
    else {
        return false;
    };
    let steps = Steps::new(&jobs[0]);
    let together = |job: &SealJob<'_>| job.text_bytes >= AHEAD_BYTES && Steps::new(job) == steps;
    if !(records_min..=RECORDS_MAX).contains(&jobs.len()) || !jobs.iter().all(together) {
        return false;
    }
    match (key.algorithm.hash(), jobs.len() <= Vaes512x8::LANES) {
        (digest::Algorithm::Sha1, true) => seal_by::<Sha1, Vaes512x8, 2>(room, jobs, steps),
        (digest::Algorithm::Sha1, false) => seal_by::<Sha1, Vaes512x16, 4>(room, jobs, steps),
        (_, true) => seal_by::<Sha256, Vaes512x8, 2>(room, jobs, steps),
        (_, false) => seal_by::<Sha256, Vaes512x16, 4>(room, jobs, steps),
    }
    true
}

/// What is done to a record, behind the first block of its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Steps {
    /// Blocks of the hash beside which the cipher encrypts as many.
    stitched: usize,
    /// Blocks of the hash with the end of the text and the padding.
    tail: usize,
    /// Blocks of the cipher with the end of the text, the tag and the padding.
    rest: usize,
}

impl Steps {
    fn new(job: &SealJob<'_>) -> Self {
        let stitched = job.text_bytes.saturating_sub(AHEAD_BYTES) / HASH_BLOCK_BYTES;
        // Behind the text one byte of padding, and eight that count.
        let hashed = (HEADER_BYTES + job.text_bytes + 1 + 8).div_ceil(HASH_BLOCK_BYTES);
        let encrypted_bytes = job.key.encrypted_bytes(job.text_bytes);
        Steps {
            stitched,
            tail: hashed.saturating_sub(1 + stitched),
            rest: (encrypted_bytes - stitched * HASH_BLOCK_BYTES) / BLOCK_BYTES,
        }
    }
}

/// In the lanes of `W`, as many as `ROWS` rows of the cipher have.
fn seal_by<H, W, const ROWS: usize>(room: Vaes512, jobs: &mut [SealJob<'_>], steps: Steps)
where
    H: Hash<W>,
    W: Words<Word = u32, Room = Vaes512>,
{
    let (mut keys, mut last) = (LaneKeys::<ROWS>::default(), [[[0; BLOCK_BYTES]; LANES]; ROWS]);
    let (mut inner, mut outer) = (hash::zeros::<W>(), hash::zeros::<W>());
    for (lane, last) in last.as_flattened_mut().iter_mut().enumerate() {
        // A lane without a record does what the first one does.
        let SealJob { key, iv, .. } = jobs.get(lane).unwrap_or(&jobs[0]);
        *last = **iv;
        keys.set(lane, key.cipher.lanes().expect("all records are in one room").1);
        for (rows, state) in [&mut inner, &mut outer].into_iter().zip(key.mac.states()) {
            rows.iter_mut().zip(state).for_each(|(row, word)| row.as_mut()[lane] = *word as u32);
        }
    }

    let (ahead, stitched) = (AHEAD_BYTES, steps.stitched);
    let done = stitched * HASH_BLOCK_BYTES;
    let mut first = [[[0; HASH_BLOCK_BYTES]; LANES]; ROWS];
    for (first, job) in first.as_flattened_mut().iter_mut().zip(&*jobs) {
        first[..HEADER_BYTES].copy_from_slice(&job.header.bytes(job.text_bytes));
        first[HEADER_BYTES..].copy_from_slice(&job.record[..AHEAD_BYTES]);
    }
    let mut tails = [const { [const { Tail::EMPTY }; LANES] }; ROWS];
    for (lane, tail) in tails.as_flattened_mut().iter_mut().enumerate() {
        let job = jobs.get(lane).unwrap_or(&jobs[0]);
        // The pad of HMAC is a block in front.
        let hashed = HASH_BLOCK_BYTES + HEADER_BYTES + job.text_bytes;
        let last = &job.record[ahead + done..job.text_bytes];
        tail.set(job.key.mac.hash(), last, hashed as u64);
    }
    hash::compress_one::<H, _>(room, &mut inner, &in_lanes(first.as_flattened(), |block| block));
    let texts = texts::<ROWS>(jobs, |job| 0..job.text_bytes);
    lanes::encrypt_hashed::<H, W, _>(room, &keys, &mut last, &mut inner, ahead, &texts, stitched);
    for block in 0..steps.tail {
        let rest = |tail| &Tail::blocks(tail)[block * HASH_BLOCK_BYTES..];
        hash::compress_one::<H, _>(room, &mut inner, &in_lanes(tails.as_flattened(), rest));
    }
    hash::compress_digests::<H, _>(room, &mut outer, &inner, jobs[0].key.algorithm.tag_bytes() / 4);

    for (lane, job) in jobs.iter_mut().enumerate() {
        let words: [[u8; 4]; hash::STATE_WORDS] = outer.map(|row| row.as_ref()[lane].to_be_bytes());
        let tag = &words.as_flattened()[..job.key.algorithm.tag_bytes()];
        super::complete(job.record, job.text_bytes, tag);
    }
    let texts = self::texts(jobs, |job| done..job.record.len());
    lanes::encrypt(room, &keys, &mut last, &texts, steps.rest);

    wipe(first.as_flattened_mut().as_flattened_mut());
    tails.as_flattened_mut().iter_mut().for_each(Tail::wipe);
    inner.iter_mut().chain(&mut outer).for_each(|row| wipe(row.as_mut()));
}

/// What the lanes hash.
fn in_lanes<'a, T>(lanes: &'a [T], bytes: impl Fn(&'a T) -> &'a [u8]) -> [&'a [u8]; LANES_MAX] {
    from_fn(|lane| lanes.get(lane).map_or(&[][..], &bytes))
}

/// Parts of the records, one in each lane.
fn texts<'a, const ROWS: usize>(
    jobs: &'a mut [SealJob<'_>],
    part: impl Fn(&SealJob<'_>) -> Range<usize>,
) -> [[Text<'a>; LANES]; ROWS] {
    let mut texts = jobs.iter_mut().map(|job| {
        let part = part(job);
        Text::in_place(&mut job.record[part])
    });
    let mut lanes = [[texts.next().expect("there are records"); LANES]; ROWS];
    for (lane, text) in lanes.as_flattened_mut()[1..].iter_mut().zip(texts) {
        *lane = text;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use widelane_cpu::{Policy, Room};
    use widelane_testkit::random::Random;

    use super::super::{Algorithm, CbcHmac, Header, Key, Mode, Outcome};
    use super::*;

    const HEADER: Header = Header { sequence: 7, kind: 23, version: 0x0303 };

    /// Texts of these lengths under keys of their own, sealed at once, or nothing.
    fn sealed_at_once(keys: &[Key], texts: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let mut records = records(keys, texts);
        let mut jobs: Vec<_> = (keys.iter().zip(texts).zip(&mut records))
            .map(|((key, text), record)| SealJob {
                key,
                iv: &[9; BLOCK_BYTES],
                header: HEADER,
                text_bytes: text.len(),
                record,
                outcome: Outcome::Pending,
            })
            .collect();
        seal(&mut jobs).then_some(records)
    }

    fn records(keys: &[Key], texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let record = |(key, text): (&Key, &Vec<u8>)| {
            let mut record = text.clone();
            record.resize(key.record_bytes(text.len()), 0xee);
            record
        };
        keys.iter().zip(texts).map(record).collect()
    }

    #[test]
    fn records_that_go_on_together_are_sealed_as_one_by_one() {
        let mut random = Random::new(1);
        let mut done = 0;
        for algorithm in Algorithm::ALL {
            let suite = CbcHmac::choose(algorithm, Mode::MacThenEncrypt, &Policy::open());
            let mut bytes = |length| {
                let mut made = vec![0; length];
                random.fill(&mut made);
                made
            };
            let keys: Vec<_> = (0..=RECORDS_MAX)
                .map(|_| suite.key(&bytes(algorithm.key_bytes()), &bytes(32)).unwrap())
                .collect();
            let there = suite.room() == Room::Vaes512;
            let records_min = suite.hash().abreast_min().unwrap_or(usize::MAX);
            let mut case = |lengths: &[usize]| {
                let texts: Vec<_> = lengths.iter().map(|length| bytes(*length)).collect();
                let keys = &keys[..texts.len()];
                let sealed = sealed_at_once(keys, &texts)?;
                let mut expected = records(keys, &texts);
                for ((key, text), record) in keys.iter().zip(&texts).zip(&mut expected) {
                    key.seal(&[9; BLOCK_BYTES], HEADER, text.len(), record).unwrap();
                }
                assert!(sealed == expected, "{algorithm:?} {lengths:?}");
                done += 1;
                Some(())
            };
            for length in (0..=3 * 64).chain([1024, 1350, 16384]) {
                let fits = length >= AHEAD_BYTES;
                assert_eq!(case(&[length; RECORDS_MAX]).is_some(), there && fits, "{length}");
            }
            for count in 1..=RECORDS_MAX + 1 {
                let fits = (records_min..=RECORDS_MAX).contains(&count);
                assert_eq!(case(&vec![300; count]).is_some(), there && fits, "{count} records");
            }
            assert_eq!(case(&[300, 300, 300, 300, 300, 301]).is_some(), there);
            assert_eq!(case(&[300, 300, 300, 300, 300, 400]), None, "one is longer by a block");
        }
        eprintln!("{done} times at once");
        assert_eq!(done > 0, Room::Vaes512.is_supported());
    }
}
