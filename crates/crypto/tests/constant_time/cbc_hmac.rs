//! Trace equality: two keys and texts take the same way through every room, and a record is opened
//! the same way whatever its padding, and refused the same way whatever is wrong with it.

use widelane_cpu::{Policy, Room};
use widelane_crypto::cbc_hmac::{
    Algorithm, BLOCK_BYTES, CbcHmac, Header, Key, Mode, Outcome, SealJob, seal_many,
};
use widelane_testkit::rooms::for_each_room_of;
use widelane_testkit::trace::{Trace, Tracing, trace};

const IV: [u8; BLOCK_BYTES] = [7; BLOCK_BYTES];
const HEADER: Header = Header { sequence: 5, kind: 23, version: 0x0303 };

/// Bytes of the records that are opened: more than the longest padding.
const RECORD: usize = 320;

/// Steps through this module's cases; panics when secrets can be told apart.
pub fn run() {
    let (short, long) = (Algorithm::Aes128Sha1, Algorithm::Aes256Sha256);
    for_each_room_of(short.rooms(), |room, policy| judge(room, short, policy));
    judge(Room::Shani, short, &Policy::open());
    // Padding and tag are looked at by the same code: the widest room stands for all.
    judge(Room::Shani, long, &Policy::open());
}

fn judge(room: Room, algorithm: Algorithm, policy: &Policy) {
    let suite = CbcHmac::choose(algorithm, Mode::MacThenEncrypt, policy);
    let key = |pattern| {
        let raw: [u8; 32] = bytes(pattern);
        suite.key(&raw[..algorithm.key_bytes()], &bytes::<32>(!pattern)).expect("a key")
    };
    // Both come first: the heap must be the same for both traces.
    let (one, other) = (key(0x00), key(0xa5));
    report(room, "seal", sealed(&one, 0x00), sealed(&other, 0xa5));
    // Without lanes they are sealed one after the other, which takes long to step through.
    for count in [8, 16].into_iter().filter(|_| room != Room::Portable) {
        let [first, second] = [(&one, 0x00), (&other, 0xa5)]
            .map(|(key, pattern)| sealed_at_once(key, pattern, count));
        report(room, &format!("seal {count} at once"), first, second);
    }

    // The last byte is the length of the padding; in front of it are padding, tag and text.
    let records = [
        (&one, 15, None),
        (&other, 255, None),
        (&one, 15, Some(0)),
        (&other, 100, Some(3)),
        (&other, 255, Some(255)),
        (&other, 15, Some(300)),
    ]
    .map(|(key, padding, change)| (key, record(key, padding, change)));
    let [accepted, otherwise, refused, others @ ..] =
        records.each_ref().map(|(key, record)| opened(key, record)).map(Tracing::end);
    compare(room, "open", accepted, otherwise);
    others.into_iter().for_each(|other| compare(room, "refuse", refused, other));
}

/// Bytes that differ from one another and from those of another `pattern`.
fn bytes<const N: usize>(pattern: u8) -> [u8; N] {
    std::array::from_fn(|index| pattern ^ (index as u8).wrapping_mul(89))
}

#[inline(never)]
fn sealed(key: &Key, pattern: u8) -> Tracing {
    let length = 200;
    trace(
        || {
            let mut record = bytes::<200>(pattern).to_vec();
            record.resize(key.record_bytes(length), 0);
            (key.clone(), record)
        },
        |(key, record)| key.seal(&IV, HEADER, length, record).expect("sealed"),
    )
}

#[inline(never)]
fn sealed_at_once(key: &Key, pattern: u8, count: usize) -> Tracing {
    let text_bytes = 200;
    trace(
        || {
            let mut record = bytes::<200>(pattern).to_vec();
            record.resize(key.record_bytes(text_bytes), 0);
            (key.clone(), vec![record; count])
        },
        |(key, records)| {
            let job = |record| {
                let (iv, outcome) = (&IV, Outcome::Pending);
                SealJob { key, iv, header: HEADER, text_bytes, record, outcome }
            };
            let mut jobs: Vec<_> = records.iter_mut().map(|record| job(record)).collect();
            seal_many(&mut jobs);
            assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
        },
    )
}

/// A record of always the same length with a padding of that length, one bit of whose plaintext
/// was changed so many bytes before the end.
fn record(key: &Key, padding: u8, change: Option<usize>) -> Vec<u8> {
    let text_bytes = RECORD - key.algorithm().tag_bytes() - 1 - usize::from(padding);
    let mut record = vec![0x42; text_bytes];
    record.resize(key.record_bytes(text_bytes), 0);
    key.seal(&IV, HEADER, text_bytes, &mut record).expect("sealed");
    key.decrypt(&mut { IV }, &mut record).expect("whole blocks");
    record.truncate(text_bytes + key.algorithm().tag_bytes());
    record.resize(RECORD, padding);
    if let Some(place) = change {
        record[RECORD - 1 - place] ^= 0x40;
    }
    key.encrypt(&mut { IV }, &mut record).expect("whole blocks");
    record
}

#[inline(never)]
fn opened(key: &Key, record: &[u8]) -> Tracing {
    let prepare = || (key.clone(), record.to_vec());
    trace(prepare, |(key, record)| _ = key.open(&IV, HEADER, record))
}

fn report(room: Room, what: &str, one: Tracing, other: Tracing) {
    compare(room, what, one.end(), other.end());
}

fn compare(room: Room, what: &str, one: Trace, other: Trace) {
    eprintln!("{room} {what}: {} and {} instructions", one.instructions, other.instructions);
    assert_eq!(one, other, "{what} in {room} takes two ways");
    assert!(one.instructions > 300, "{what} did something");
}
