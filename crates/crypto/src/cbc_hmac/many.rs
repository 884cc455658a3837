//! Many records at once: their tags in the lanes of the hash, then their blocks in the lanes of the
//! cipher, each lane with a key of its own; or, of records that go on together, both at once.

use widelane_kernels::aes_cbc::lanes::{LANES, LaneKeys};
use widelane_kernels::aes_cbc::{self, Block};
use widelane_kernels::text::Text;

use super::kernel::LaneRoom;
use super::{BLOCK_BYTES, CbcHmacError, HEADER_BYTES, Header, Key, Mode, abreast};
use crate::digest::Digest;

/// From how many records on lanes are faster than one record after the other: sixteen chains take
/// little longer than one.
const LANES_MIN: usize = 2;

/// One record of many, as [`Key::seal`] takes it.
pub struct SealJob<'a> {
    /// The keys, which may differ from job to job.
    pub key: &'a Key,
    /// The IV.
    pub iv: &'a [u8; BLOCK_BYTES],
    /// What is authenticated with the text.
    pub header: Header,
    /// How many bytes of the record are its text.
    pub text_bytes: usize,
    /// The record.
    pub record: &'a mut [u8],
    /// What became of the job.
    pub outcome: Outcome,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Not executed yet.
    #[default]
    Pending,
    /// The record is sealed.
    Done,
    /// A length is wrong, and the record was left as it is.
    Refused(CbcHmacError),
}

/// Seals the records, whatever their keys and lengths, and stores what became of each.
///
/// Neighbours with one algorithm, mode and room share the lanes, where the room of their cipher has
/// some.
pub fn seal_many(jobs: &mut [SealJob<'_>]) {
    for job in jobs.iter_mut() {
        job.outcome = match job.key.check(job.text_bytes, job.record.len()) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Refused(error),
        };
    }
    for jobs in jobs.chunk_by_mut(are_relatives) {
        // One by one, the hash runs in the shade of the cipher.
        if jobs.len() == 1 || jobs[0].key.cipher.lanes().is_none() {
            for SealJob { key, iv, header, text_bytes, record, outcome } in jobs {
                *outcome = match key.seal(iv, *header, *text_bytes, record) {
                    Ok(()) => Outcome::Done,
                    Err(error) => Outcome::Refused(error),
                };
            }
            continue;
        }
        match (jobs[0].outcome, jobs[0].key.mode) {
            (Outcome::Done, Mode::MacThenEncrypt) => {
                let abreast = jobs.chunks_mut(abreast::RECORDS_MAX);
                let sealed = abreast.map_while(|some| abreast::seal(some).then_some(some.len()));
                let done = sealed.sum();
                let jobs = &mut jobs[done..];
                if jobs.is_empty() {
                    continue;
                }
                let tags = tags(jobs);
                for (job, tag) in jobs.iter_mut().zip(tags) {
                    super::complete(job.record, job.text_bytes, tag.as_ref());
                }
                encrypt(jobs);
            }
            (Outcome::Done, Mode::EncryptThenMac) => {
                for job in jobs.iter_mut() {
                    let bytes = job.key.encrypted_bytes(job.text_bytes);
                    super::pad(&mut job.record[..bytes], job.text_bytes);
                }
                encrypt(jobs);
                let tags = tags(jobs);
                for (job, tag) in jobs.iter_mut().zip(tags) {
                    let bytes = job.key.encrypted_bytes(job.text_bytes);
                    job.record[bytes..].copy_from_slice(tag.as_ref());
                }
            }
            (Outcome::Pending | Outcome::Refused(_), _) => {}
        }
    }
}

/// Whether two records may share lanes: whatever room they do it in, each key's policy has it open.
fn are_relatives(left: &SealJob<'_>, right: &SealJob<'_>) -> bool {
    let family = |job: &SealJob<'_>| {
        let Key { algorithm, mode, cipher, mac } = job.key;
        let rooms = (mac.hash().room(), mac.hash().lane_room(), cipher.room());
        (*algorithm, *mode, rooms, job.outcome == Outcome::Done)
    };
    family(left) == family(right)
}

/// The tags of records, whose texts are encrypted in [`Mode::EncryptThenMac`].
fn tags(jobs: &[SealJob<'_>]) -> Vec<Digest> {
    let heads: Vec<_> = jobs.iter().map(head).collect();
    let mut tags = vec![Digest::default(); jobs.len()];
    let messages = jobs.iter().zip(&heads).zip(&mut tags);
    jobs[0].key.mac.hash().run(messages.map(|((job, (head, head_bytes, bytes)), tag)| {
        job.key.mac.job(&head[..*head_bytes], &job.record[..*bytes], tag)
    }));
    tags
}

/// What is authenticated in front of a record, how many bytes that is, and how many of the record.
fn head(job: &SealJob<'_>) -> ([u8; HEADER_BYTES + BLOCK_BYTES], usize, usize) {
    let mut head = [0; HEADER_BYTES + BLOCK_BYTES];
    let (header, iv) = head.split_at_mut(HEADER_BYTES);
    iv.copy_from_slice(job.iv);
    match job.key.mode {
        Mode::MacThenEncrypt => {
            header.copy_from_slice(&job.header.bytes(job.text_bytes));
            (head, HEADER_BYTES, job.text_bytes)
        }
        Mode::EncryptThenMac => {
            let bytes = job.key.encrypted_bytes(job.text_bytes);
            let iv_bytes = job.header.iv_bytes();
            header.copy_from_slice(&job.header.bytes(iv_bytes + bytes));
            (head, HEADER_BYTES + iv_bytes, bytes)
        }
    }
}

/// Encrypts what is to be encrypted of each record.
fn encrypt(jobs: &mut [SealJob<'_>]) {
    let (room, _) = jobs[0].key.cipher.lanes().expect("records of a run are in a room with lanes");
    let chains = jobs.iter_mut().map(|job| {
        let bytes = job.key.encrypted_bytes(job.text_bytes);
        Chain { key: job.key, last: *job.iv, text: Text::in_place(&mut job.record[..bytes]) }
    });
    match (chains.len(), room) {
        (count, _) if count <= 2 * LANES => fill::<2>(room, chains),
        // Sixteen registers are no more than sixteen lanes want.
        (_, LaneRoom::Vaes256(_)) => fill::<4>(room, chains),
        (count, _) if count <= 4 * LANES => fill::<4>(room, chains),
        _ => fill::<8>(room, chains),
    }
}

/// A record on its way.
struct Chain<'a> {
    key: &'a Key,
    last: Block,
    /// What is still to be encrypted.
    text: Text<'a>,
}

impl<'a> Chain<'a> {
    fn cipher(&self) -> &'a aes_cbc::Key {
        self.key.cipher.lanes().expect("all records of a run are in one room").1
    }

    /// Encrypts what is left, alone.
    fn finish(mut self) {
        self.key.cipher.encrypt(&mut self.last, self.text);
    }
}

/// Keeps rows of lanes of the room full as long as there are records.
fn fill<'a, const ROWS: usize>(room: LaneRoom, chains: impl Iterator<Item = Chain<'a>>) {
    let mut chains = chains;
    let mut lanes = [const { [const { None }; LANES] }; ROWS];
    let lanes: &mut [Option<Chain<'a>>] = lanes.as_flattened_mut();
    let mut keys = LaneKeys::<ROWS>::default();
    loop {
        for (place, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_none()) {
            let Some(chain) = chains.next() else { break };
            keys.set(place, chain.cipher());
            *lane = Some(chain);
        }
        let busy =
            || lanes.iter().enumerate().filter_map(|(place, lane)| Some((place, lane.as_ref()?)));
        if busy().count() < LANES_MIN {
            break;
        }
        let (place, shortest) =
            busy().min_by_key(|(_, chain)| chain.text.len()).expect("a lane is busy");
        let bytes = shortest.text.len();
        // Lanes without a record do what another one does.
        let mut texts = [[shortest.text; LANES]; ROWS];
        let mut last = [[shortest.last; LANES]; ROWS];
        let places = texts.as_flattened_mut().iter_mut().zip(last.as_flattened_mut());
        for (lane, (chain, (text, last))) in lanes.iter().zip(places).enumerate() {
            match chain {
                Some(chain) => (*text, *last) = (chain.text, chain.last),
                None => keys.copy(place, lane),
            }
        }
        room.encrypt(&keys, &mut last, &texts, bytes / BLOCK_BYTES);
        for (slot, last) in lanes.iter_mut().zip(last.as_flattened()) {
            if let Some(chain) = slot {
                (_, chain.text) = chain.text.split_at(bytes);
                chain.last = *last;
                if chain.text.is_empty() {
                    *slot = None;
                }
            }
        }
    }
    lanes.iter_mut().filter_map(Option::take).for_each(Chain::finish);
}

#[cfg(test)]
mod tests {
    use widelane_cpu::{Policy, Room};

    use super::super::{Algorithm, CbcHmac};
    use super::*;

    #[test]
    fn keys_in_rooms_with_lanes_share_none_if_one_room_is_closed_to_the_other() {
        let key = |closed: Option<Room>| {
            let policy = Policy { rooms_closed: closed.into_iter().collect(), ..Policy::open() };
            let suite = CbcHmac::choose(Algorithm::Aes128Sha1, Mode::EncryptThenMac, &policy);
            suite.key(&[1; 16], &[2; 20]).unwrap()
        };
        let keys = [key(None), key(Some(Room::Vaes512)), key(None)];
        let mut records = keys.each_ref().map(|key| vec![0; key.record_bytes(5)]);
        let mut records = records.iter_mut();
        let jobs = keys.each_ref().map(|key| SealJob {
            key,
            iv: &[3; BLOCK_BYTES],
            header: Header { sequence: 0, kind: 23, version: 0x0303 },
            text_bytes: 5,
            record: records.next().unwrap(),
            outcome: Outcome::Done,
        });
        let [open, closed, other] = &jobs;
        assert!(are_relatives(open, other));
        assert_eq!(are_relatives(open, closed), !Room::Vaes512.is_supported());
    }
}
