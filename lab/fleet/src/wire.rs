//! What travels on the bus: JSON with a version, compressed, bounded in length before and after.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use widelane_loadgen::{ErrorKind, Outcome, Tally};

use crate::specification::{Limits, Specification};

/// Version of everything below.
pub const VERSION: u32 = 2;

/// Longest message, as it travels.
pub const LENGTH_MAX: usize = 1 << 20;

/// Longest message after decompression.
const INFLATED_MAX: u64 = 4 << 20;

/// Asks all agents to report. Each answers with [`Hello`].
pub const ROLL_CALL: &str = "widelane.load.agents";

/// To one agent: an [`Order`].
pub fn orders_of(agent: &str) -> String {
    format!("widelane.load.agent.{agent}")
}

/// From the agents of a run: [`News`].
pub fn news_of(run: &str) -> String {
    format!("widelane.load.run.{run}.news")
}

/// From the director of a run, at intervals: an agent that no longer receives it stops.
pub fn beat_of(run: &str) -> String {
    format!("widelane.load.run.{run}.director")
}

/// Whether a text can be part of a subject.
pub fn is_token(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A reason from the bus, as far as it is fit to be shown.
pub fn shown(reason: &str) -> String {
    reason.chars().filter(|letter| !letter.is_control()).take(REASON_MAX).collect()
}

/// Letters of a reason that are shown.
const REASON_MAX: usize = 500;

/// Why a message cannot be used.
#[derive(Debug, Error)]
pub enum WireError {
    /// It is longer than any of ours.
    #[error(
        "the message has more than {LENGTH_MAX} bytes, or {INFLATED_MAX} decompressed, which none \
         of ours has; is this subject used by another program, too?"
    )]
    Length,
    /// It comes from another release.
    #[error("the message has version {0}, while this is version {VERSION}; update the older side")]
    Version(u32),
    /// It is not compressed as it should be.
    #[error("the message cannot be decompressed; is this subject used by another program, too?")]
    Compression(#[source] std::io::Error),
    /// It is not what was expected.
    #[error("the message cannot be read; is this subject used by another program, too?")]
    Form(#[from] serde_json::Error),
    /// It reports more time than there was.
    #[error("the message reports more time than there was; set the clock of that host")]
    Time,
    /// A histogram in it is none of ours.
    #[error("the message has a histogram that cannot be read; update the older side")]
    Histogram,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    body: T,
}

/// The version alone, whatever the body is.
#[derive(Deserialize)]
struct Stamp {
    version: u32,
}

/// What is published.
pub fn encode<T: Serialize>(body: &T) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let written = serde_json::to_vec(&Envelope { version: VERSION, body })
        .map_err(std::io::Error::from)
        .and_then(|text| encoder.write_all(&text))
        .and_then(|()| encoder.finish());
    written.expect("our messages are JSON, and memory does not fail to be written")
}

/// Parses what was published on the bus, which is not trusted.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, WireError> {
    if payload.len() > LENGTH_MAX {
        return Err(WireError::Length);
    }
    let mut text = Vec::new();
    let mut inflated = ZlibDecoder::new(payload).take(INFLATED_MAX + 1);
    inflated.read_to_end(&mut text).map_err(WireError::Compression)?;
    if text.len() as u64 > INFLATED_MAX {
        return Err(WireError::Length);
    }
    let stamp: Stamp = serde_json::from_slice(&text)?;
    if stamp.version != VERSION {
        return Err(WireError::Version(stamp.version));
    }
    Ok(serde_json::from_slice::<Envelope<T>>(&text)?.body)
}

/// An agent, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its address on the bus.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// Whether it carries out a load already.
    pub busy: bool,
}

impl Hello {
    /// Without anything that could go astray in a subject or on a terminal.
    pub fn is_sound(&self) -> bool {
        let name = self.name.bytes().all(|byte| byte.is_ascii_graphic());
        is_token(&self.id) && name && (1..=64).contains(&self.name.len())
    }
}

/// What a director asks of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// To tell the time.
    Time,
    /// To carry out a load.
    Load {
        /// Name of the run.
        run: String,
        /// The agent's share.
        specification: Box<Specification>,
        /// When to begin, by the agent's clock.
        start_ns: u64,
    },
    /// To stop it.
    Stop {
        /// Name of the run.
        run: String,
    },
}

/// What an agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Its clock: nanoseconds since it was started.
    Time {
        /// Nanoseconds.
        now_ns: u64,
    },
    /// It will do so.
    Done,
    /// It will not, and this is why.
    Refused(String),
}

/// What an agent reports during a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct News {
    /// The agent.
    pub agent: String,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum What {
    /// It is there.
    Alive,
    /// It has begun.
    Began {
        /// When, by the agent's clock.
        at_ns: u64,
    },
    /// This was counted in one second of the window.
    Second {
        /// Which one.
        index: u32,
        /// What was counted.
        counted: Counted,
    },
    /// The load is over.
    Over {
        /// Measured time.
        wall: Duration,
        /// Largest part of it for which a thread was busy.
        busy: f64,
        /// CPU time of all threads.
        client_cpu: Duration,
        /// Whether it was stopped before its time.
        interrupted: bool,
        /// All that was counted.
        counted: Counted,
    },
    /// It could not be carried out, or not to its end.
    Failed {
        /// Why.
        reason: String,
        /// How connections failed, if it was given up because all of them did.
        kind: Option<ErrorKind>,
    },
}

impl What {
    /// A load that is over.
    pub fn over(outcome: &Outcome) -> Self {
        What::Over {
            wall: outcome.wall,
            busy: outcome.busy,
            client_cpu: outcome.client_cpu,
            interrupted: outcome.interrupted,
            counted: Counted::of(&outcome.tally),
        }
    }
}

/// A [`Tally`] on its way: histograms in HdrHistogram's V2 format.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    due: u64,
    due_before_any_ended: u64,
    done: u64,
    full: u64,
    resumed: u64,
    answers: u64,
    body_bytes: u64,
    body_bytes_announced: u64,
    errors: BTreeMap<ErrorKind, u64>,
    /// In the order of [`Tally::histograms`].
    histograms: Vec<String>,
}

/// Larger counts are impossible.
const COUNT_MAX: u64 = 1 << 53;

impl Counted {
    /// Packs a tally.
    pub fn of(tally: &Tally) -> Self {
        let pack = |histogram: &Histogram<u64>| {
            let mut bytes = Vec::new();
            V2Serializer::new()
                .serialize(histogram, &mut bytes)
                .expect("our histograms fit, and memory does not fail to be written");
            BASE64.encode(bytes)
        };
        Counted {
            due: tally.due,
            due_before_any_ended: tally.due_before_any_ended,
            done: tally.done,
            full: tally.full,
            resumed: tally.resumed,
            answers: tally.answers,
            body_bytes: tally.body_bytes,
            body_bytes_announced: tally.body_bytes_announced,
            errors: tally.errors.clone(),
            histograms: tally.histograms().map(pack).to_vec(),
        }
    }

    /// Finished handshakes.
    pub fn handshakes(&self) -> u64 {
        self.full.saturating_add(self.resumed)
    }

    /// Unpacks it, if it is one.
    pub fn tally(&self) -> Result<Tally, WireError> {
        let mut tally = Tally {
            due: self.due,
            due_before_any_ended: self.due_before_any_ended,
            done: self.done,
            full: self.full,
            resumed: self.resumed,
            answers: self.answers,
            body_bytes: self.body_bytes,
            body_bytes_announced: self.body_bytes_announced,
            errors: self.errors.clone(),
            ..Tally::new()
        };
        let counts = [
            tally.due,
            tally.due_before_any_ended,
            tally.done,
            tally.full,
            tally.resumed,
            tally.answers,
            tally.body_bytes,
            tally.body_bytes_announced,
        ];
        if counts.iter().chain(tally.errors.values()).any(|count| *count > COUNT_MAX) {
            return Err(WireError::Histogram);
        }
        let places = tally.histograms_mut();
        if self.histograms.len() != places.len() {
            return Err(WireError::Histogram);
        }
        for (place, text) in places.into_iter().zip(&self.histograms) {
            unpack(text, place)?;
        }
        Ok(tally)
    }
}

/// Where HdrHistogram's V2 header has significant digits, lowest and highest value.
const HEADER: usize = 40;
const BOUNDS: std::ops::Range<usize> = 12..32;

/// Reads a histogram of the same bounds as `place` into it. Others could be of any size, and are
/// refused before memory is taken for them.
fn unpack(text: &str, place: &mut Histogram<u64>) -> Result<(), WireError> {
    let bytes = BASE64.decode(text).map_err(|_| WireError::Histogram)?;
    let mut own = Vec::new();
    V2Serializer::new().serialize(place, &mut own).map_err(|_| WireError::Histogram)?;
    if bytes.len() < HEADER || bytes[BOUNDS] != own[BOUNDS] {
        return Err(WireError::Histogram);
    }
    let read: Histogram<u64> =
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| WireError::Histogram)?;
    if read.len() > COUNT_MAX {
        return Err(WireError::Histogram);
    }
    place.add(&read).map_err(|_| WireError::Histogram)
}

/// Reads bytes as everything that comes over the bus, as they are and as the text of a message: for
/// fuzzing.
pub fn read_whatever(bytes: &[u8]) {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish());
    let deflated = deflated.expect("memory does not fail to be written");
    let limits = Limits { threads: 4, connections: 64, duration: Duration::from_secs(60) };
    for payload in [bytes, &deflated] {
        if let Ok(Order::Load { specification, .. }) = decode(payload) {
            // Nothing is allowed, so nothing is looked up either.
            assert!(specification.plan(&[], &limits).is_err());
        }
        if let Ok(News { what, .. }) = decode(payload)
            && let What::Second { counted, .. } | What::Over { counted, .. } = what
            && let Ok(tally) = counted.tally()
        {
            assert!(tally.handshakes() <= 2 * COUNT_MAX);
        }
        let _ = decode::<Answer>(payload);
        let _ = decode::<Hello>(payload).is_ok_and(|hello| hello.is_sound());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut tally = Tally::new();
        (tally.due, tally.done, tally.full, tally.body_bytes) = (5, 3, 4, 1 << 40);
        tally.due_before_any_ended = 2;
        tally.errors.insert(ErrorKind::Reset, 1);
        for nanoseconds in [1, 1_000, 1_000_000, 99_999_999_999] {
            tally.latency_ns.saturating_record(nanoseconds);
        }
        let news = News {
            agent: "a".into(),
            what: What::Second { index: 3, counted: Counted::of(&tally) },
        };
        let payload = encode(&news);
        assert!(payload.len() < 2_000, "{}", payload.len());
        let News { what: What::Second { index: 3, counted }, .. } = decode(&payload).unwrap()
        else {
            panic!("another message")
        };
        let read = counted.tally().unwrap();
        assert_eq!((read.due, read.done, read.full, read.body_bytes), (5, 3, 4, 1 << 40));
        assert_eq!(read.due_before_any_ended, 2);
        assert_eq!(read.errors, tally.errors);
        assert_eq!(read.histograms(), tally.histograms());
    }

    #[test]
    fn refuses_what_is_hostile() {
        // Decompressed, it would be a thousand times as long.
        let mut bomb = ZlibEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![b' '; 64 << 20]).unwrap();
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < LENGTH_MAX);
        assert!(matches!(decode::<Order>(&bomb), Err(WireError::Length)));
        assert!(matches!(decode::<Order>(&vec![0; LENGTH_MAX + 1]), Err(WireError::Length)));
        assert!(matches!(decode::<Order>(b"not compressed"), Err(WireError::Compression(_))));
        let mut newer = ZlibEncoder::new(Vec::new(), Compression::fast());
        newer.write_all(br#"{"version":3,"body":{"new":1}}"#).unwrap();
        let newer = newer.finish().unwrap();
        assert!(matches!(decode::<Order>(&newer), Err(WireError::Version(3))));
        assert!(matches!(decode::<Order>(&encode(&"x")), Err(WireError::Form(_))));
        let whole = encode(&Order::Time);
        for length in 0..whole.len() {
            assert!(decode::<Order>(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn refuses_histograms_of_other_bounds() {
        let good = Counted::of(&Tally::new());
        assert!(good.tally().is_ok());
        let mut large = Histogram::<u64>::new_with_bounds(1, u64::MAX / 2, 5).unwrap();
        large.record(7).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&large, &mut bytes).unwrap();
        for text in ["", "!", "AAAA", &BASE64.encode([0; 60]), &BASE64.encode(bytes)] {
            let mut histograms = good.histograms.clone();
            histograms[2] = text.to_owned();
            assert!(Counted { histograms, ..good.clone() }.tally().is_err(), "{text}");
        }
        let mut fewer = good.clone();
        fewer.histograms.pop();
        assert!(fewer.tally().is_err());
        assert!(Counted { due: u64::MAX, ..good }.tally().is_err());
    }

    #[test]
    fn agents_introduce_themselves_in_plain_words() {
        let hello = |id: &str, name: &str| Hello { id: id.into(), name: name.into(), busy: false };
        assert!(hello("Ab1", "host-1.example").is_sound());
        for (id, name) in [("", "x"), ("a.b", "x"), (">", "x"), ("a", ""), ("a", "x\u{7}")] {
            assert!(!hello(id, name).is_sound(), "{id:?} {name:?}");
        }
        assert!(!hello(&"a".repeat(65), "x").is_sound());
    }
}
