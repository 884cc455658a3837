//! Traces: what was recorded, so that every figure can be recomputed from it.

use std::io::{Read, Write};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
pub use widelane_cpu::chain::Window;

/// When a window of a recording was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Scalar code only, long after anything else.
    Ambient,
    /// The stimulus itself; `work` counts its instructions or operations.
    Burst,
    /// Between two bursts, a few microseconds after one.
    During,
    /// After the last burst.
    After,
    /// One single turn of the stimulus, then windows as close as they get.
    Single,
}

/// One window of a recording: who, when, how long, how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was under test: a name that all samples of a visit share, as there are millions.
    #[serde(with = "shared")]
    pub subject: Arc<str>,
    /// Which round of the experiment.
    pub round: u32,
    /// When in the round.
    pub phase: Phase,
    /// The CPU.
    pub cpu: usize,
    /// How many cores did the same at that time.
    pub cores: usize,
    /// Ticks at the window's begin.
    pub begin: u64,
    /// Ticks at its end.
    pub end: u64,
    /// Chain cycles, or instructions of a burst.
    pub work: f64,
}

/// Text of which there is one copy.
mod shared {
    use super::*;

    pub(super) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(from).map(Arc::from)
    }
}

impl Sample {
    /// Its times.
    pub fn window(&self) -> Window {
        Window { begin: self.begin, end: self.end }
    }
}

/// Everything that an experiment recorded, with what is needed to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The experiment: `map`, `transitions`, `duty`, …
    pub experiment: String,
    /// What the reader must know: `tsc_hz`, `cpu`, `vendor`, and whatever the experiment adds.
    pub facts: Vec<(String, String)>,
    /// The windows, in the order they were taken.
    pub samples: Vec<Sample>,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Not the format that `--csv` writes.
    #[error("this is no recording of `widelane power`: {0}; give a file that `--csv` wrote")]
    Malformed(String),
    /// Reading or writing failed.
    #[error("cannot read or write the recording")]
    Io(#[from] std::io::Error),
    /// A line is no sample.
    #[error("a line of the recording is no sample; give a whole file that `--csv` wrote")]
    Csv(#[source] csv::Error),
}

impl From<csv::Error> for TraceError {
    /// What fails to be written is an error of CSV as well, but no wrong line.
    fn from(error: csv::Error) -> Self {
        if error.is_io_error() { TraceError::Io(error.into()) } else { TraceError::Csv(error) }
    }
}

const MAGIC: &str = "# widelane power recording, version 2";

/// The first line of recordings of before, whose end nothing marks.
const MAGIC_WITHOUT_END: &str = "# widelane power recording, version 1";

/// The last line, without which a recording has been cut off, even if that was between two lines.
const END: &str = "# end";

impl Recording {
    /// A recording without samples.
    pub fn new(experiment: &str, facts: Vec<(String, String)>) -> Self {
        Recording { experiment: experiment.to_owned(), facts, samples: Vec::new() }
    }

    /// A fact as text.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.as_str())
    }

    /// A fact that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.fact(name)?.parse().ok()
    }

    /// Rate of the time-stamp counter while it was recorded.
    ///
    /// # Errors
    ///
    /// Where the fact is missing or no rate.
    pub fn tsc_hz(&self) -> Result<f64, TraceError> {
        let hz = self.number("tsc_hz").filter(|hz| *hz > 0.0);
        hz.ok_or_else(|| TraceError::Malformed("the rate of the time stamps is missing".to_owned()))
    }

    /// Writes CSV: the facts as comments, then one line per sample, and a comment as the end.
    ///
    /// # Errors
    ///
    /// Where the writer fails.
    pub fn write(&self, mut writer: impl Write) -> Result<(), TraceError> {
        writeln!(writer, "{MAGIC}\n# experiment={}", self.experiment)?;
        for (name, value) in &self.facts {
            writeln!(writer, "# {name}={}", value.replace('\n', " "))?;
        }
        let mut csv = csv::Writer::from_writer(writer);
        for sample in &self.samples {
            csv.serialize(sample)?;
        }
        let mut writer = csv.into_inner().map_err(csv::IntoInnerError::into_error)?;
        writeln!(writer, "{END}")?;
        Ok(writer.flush()?)
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    ///
    /// Where it is something else.
    pub fn read(mut reader: impl Read) -> Result<Self, TraceError> {
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        let malformed = |what: &str| TraceError::Malformed(what.to_owned());
        // Without samples, the end stands behind the facts.
        let mut comments = text.lines().take_while(|line| line.starts_with('#') && *line != END);
        match comments.next() {
            Some(MAGIC) if text.ends_with(&format!("\n{END}\n")) => {}
            Some(MAGIC) => return Err(malformed("its end is missing")),
            Some(MAGIC_WITHOUT_END) => {}
            _ => return Err(malformed("its first line is another")),
        }
        let mut facts = Vec::new();
        for line in comments {
            let (name, value) = line
                .trim_start_matches(['#', ' '])
                .split_once('=')
                .ok_or_else(|| malformed("a fact has no value"))?;
            facts.push((name.to_owned(), value.to_owned()));
        }
        let experiment = facts.iter().position(|(name, _)| name == "experiment");
        let experiment = experiment.ok_or_else(|| malformed("it does not name its experiment"))?;
        let (_, experiment) = facts.remove(experiment);
        let mut csv = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let mut samples: Vec<Sample> = Vec::new();
        for sample in csv.deserialize() {
            let mut sample: Sample = sample?;
            if let Some(last) = samples.last().filter(|last| last.subject == sample.subject) {
                sample.subject = Arc::clone(&last.subject);
            }
            samples.push(sample);
        }
        Ok(Recording { experiment, facts, samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let sample = |round, begin| Sample {
            subject: "vaesenc-512".into(),
            round,
            phase: Phase::During,
            cpu: 1,
            cores: 2,
            begin,
            end: begin + 2080,
            work: 3050.5,
        };
        let facts = vec![
            ("tsc_hz".to_owned(), "2600000000".to_owned()),
            ("cpu".to_owned(), "AMD EPYC, 9R45".to_owned()),
        ];
        let mut recording = Recording::new("map", facts);
        recording.samples = vec![sample(0, 17), sample(1, u64::MAX - 5000)];
        recording
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut bytes = Vec::new();
        recording().write(&mut bytes).unwrap();
        let read = Recording::read(bytes.as_slice()).unwrap();
        assert_eq!(read, recording());
        assert!(Arc::ptr_eq(&read.samples[0].subject, &read.samples[1].subject));
        assert_eq!(read.tsc_hz().unwrap(), 2.6e9);
        assert_eq!(read.fact("cpu"), Some("AMD EPYC, 9R45"));
    }

    #[test]
    fn a_recording_that_was_cut_off_is_refused() {
        let mut bytes = Vec::new();
        recording().write(&mut bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(Recording::read(&bytes[..length]).is_err(), "{length} bytes");
        }
        // Recordings of before have no mark at their end.
        let text = String::from_utf8(bytes).unwrap();
        let before = text.replace(MAGIC, MAGIC_WITHOUT_END).replace("# end\n", "");
        assert_eq!(Recording::read(before.as_bytes()).unwrap(), recording());
        let (mut bytes, empty) = (Vec::new(), Recording::new("map", Vec::new()));
        empty.write(&mut bytes).unwrap();
        assert_eq!(Recording::read(bytes.as_slice()).unwrap(), empty);
    }

    #[test]
    fn a_full_disk_is_no_wrong_line() {
        let mut recording = recording();
        // More than any buffer holds.
        recording.samples = vec![recording.samples[0].clone(); 10_000];
        let error = recording.write(&mut [0; 1000][..]).unwrap_err();
        assert!(matches!(error, TraceError::Io(_)), "{error}");
    }

    #[test]
    fn other_files_are_refused() {
        for (text, expected) in [
            ("", "first line"),
            ("subject,round\n", "first line"),
            ("# widelane power recording, version 1\n# tsc_hz\n", "no value"),
            ("# widelane power recording, version 1\n# tsc_hz=1\n", "experiment"),
            ("# widelane power recording, version 1\n# experiment=map\na,b\n1,2\n", "no sample"),
        ] {
            let error = Recording::read(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_recording_without_a_rate_says_so() {
        let error = Recording::new("map", Vec::new()).tsc_hz().unwrap_err();
        assert!(error.to_string().contains("rate of the time stamps"));
    }
}
