//! Several records that one call makes of a long text: how libssl sends what is given to it in
//! pieces of 64 KiB and more.

use widelane_crypto::cbc_hmac::{BLOCK_BYTES, Header, Key, Outcome, SealJob, seal_many};

use super::cbc_hmac::Record;

/// Most records of one call.
const RECORDS_MAX: usize = 8;

/// Bytes in front of a record's IV: type, version, length.
const HEADER_BYTES: usize = 5;

/// Lengths in a header from which on a text is made four records, or eight.
const FOUR_FROM: usize = 4096;
const EIGHT_FROM: usize = 8192;

/// IVs for as many records as there may be.
pub(super) type Ivs = [[u8; BLOCK_BYTES]; RECORDS_MAX];

/// The records that the next call makes.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// The first of them.
    first: Record,
    /// How many.
    pub(super) records: usize,
    /// Bytes of text in all of them.
    pub(super) text_bytes: usize,
}

impl Plan {
    /// Divides a text: in pieces as many as a header says that has its length, or as the program
    /// says that passes the length apart. Nothing if that makes no sense.
    pub(super) fn new(first: Record, text_bytes: usize, records: usize) -> Option<Self> {
        if first.explicit_bytes() == 0 {
            return None;
        }
        let (text_bytes, records) = match first.bytes {
            0 => (text_bytes, whole_fours(records)),
            1..FOUR_FROM => return None,
            FOUR_FROM..EIGHT_FROM => (first.bytes, 4),
            _ => (first.bytes, 8),
        };
        matches!(records, 4 | 8).then_some(Plan { first, records, text_bytes })
    }

    /// Whether a call is the one that was planned.
    pub(super) fn is_for(&self, text_bytes: usize, records: usize) -> bool {
        (self.text_bytes, self.records) == (text_bytes, whole_fours(records))
    }

    /// Bytes of all records.
    pub(super) fn packed_bytes(&self, key: &Key) -> usize {
        self.pieces().map(|bytes| packed_bytes(key, bytes)).sum()
    }

    /// Seals the text into records that stand one behind the other in `output`, which is as long as
    /// they are; nothing if a record would be too long.
    pub(super) fn seal(&self, key: &Key, ivs: &Ivs, text: &[u8], output: &mut [u8]) -> Option<()> {
        let Record { header, .. } = self.first;
        let (mut text, mut output) = (text, output);
        let mut jobs = Vec::with_capacity(self.records);
        for ((number, iv), bytes) in (0..).zip(ivs).zip(self.pieces()) {
            let (piece, rest) = text.split_at(bytes);
            let (packed, behind) = output.split_at_mut(packed_bytes(key, bytes));
            (text, output) = (rest, behind);
            let length = u16::try_from(packed.len() - HEADER_BYTES).ok()?;
            let (head, packed) = packed.split_first_chunk_mut::<HEADER_BYTES>()?;
            let (explicit, record) = packed.split_first_chunk_mut()?;
            let ([major, minor], [high, low]) =
                (header.version.to_be_bytes(), length.to_be_bytes());
            *head = [header.kind, major, minor, high, low];
            *explicit = *iv;
            record[..bytes].copy_from_slice(piece);
            let header = Header { sequence: header.sequence.wrapping_add(number), ..header };
            let outcome = Outcome::Pending;
            jobs.push(SealJob { key, iv, header, text_bytes: bytes, record, outcome });
        }
        seal_many(&mut jobs);
        jobs.iter().all(|job| job.outcome == Outcome::Done).then_some(())
    }

    /// Bytes of text of each record: equal pieces, and what is left with the last one.
    fn pieces(&self) -> impl Iterator<Item = usize> {
        let Plan { records, text_bytes, .. } = *self;
        let piece = text_bytes / records;
        let last = text_bytes - piece * (records - 1);
        std::iter::repeat_n(piece, records - 1).chain([last])
    }
}

/// Bytes of a record with its header and IV.
pub(super) fn packed_bytes(key: &Key, text_bytes: usize) -> usize {
    HEADER_BYTES + BLOCK_BYTES + key.record_bytes(text_bytes)
}

/// A number of records comes in fours.
fn whole_fours(records: usize) -> usize {
    records - records % 4
}
