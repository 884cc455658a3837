//! A record of what servers held over time, and the judgement on it, as results.

use widelane_results::{Answer, Machine, Results, SCHEMA, Tone, Trace};

use crate::server::Kind;

/// One look at a server and its clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Since the record began.
    pub seconds: f64,
    /// Whole handshakes so far.
    pub handshakes: u64,
    /// Handshakes so far that failed for no reason that is known.
    pub failures: u64,
    /// Memory of all its processes that is their own.
    pub memory_kib: u64,
    /// Their descriptors.
    pub descriptors: usize,
    /// How many processes they are.
    pub processes: usize,
}

/// The samples of one server.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which one.
    pub kind: Kind,
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// Hard times: what, and from when to when in seconds.
    pub hardships: Vec<(String, f64, f64)>,
}

/// What allocators may keep more in the last quarter than in the third, over all processes.
const GROWTH_MAX_MIB: f64 = 24.0;
const GROWTH_MAX_DESCRIPTORS: f64 = 8.0;

/// Points of a curve, at most; all samples are judged.
const POINTS_MAX: usize = 500;

/// A figure of samples that is drawn.
struct Curve {
    metric: &'static str,
    unit: &'static str,
    of: fn(&Sample) -> f64,
}

const CURVES: [Curve; 5] = [
    Curve { metric: "memory", unit: "MiB", of: memory_mib },
    Curve { metric: "descriptors", unit: "descriptors", of: descriptors },
    Curve { metric: "processes", unit: "processes", of: |sample| sample.processes as f64 },
    Curve { metric: "handshakes", unit: "handshakes", of: |sample| sample.handshakes as f64 },
    Curve {
        metric: "failures_without_a_reason",
        unit: "failures",
        of: |sample| sample.failures as f64,
    },
];

fn memory_mib(sample: &Sample) -> f64 {
    sample.memory_kib as f64 / 1024.0
}

fn descriptors(sample: &Sample) -> f64 {
    sample.descriptors as f64
}

impl Record {
    /// By how much memory was higher in the last quarter than in the third, when workers are old:
    /// medians, so that a short peak does not decide.
    fn memory_growth_mib(&self) -> f64 {
        self.growth(memory_mib, |figures| figures.len() / 2)
    }

    /// The same of descriptors, by the least in a quarter: by what is there while no client is, as
    /// descriptors that were lost would be.
    fn descriptors_growth(&self) -> f64 {
        self.growth(descriptors, |_| 0)
    }

    fn growth(&self, of: fn(&Sample) -> f64, place: fn(&[f64]) -> usize) -> f64 {
        let quarter = self.samples.len() / 4;
        let figure = |samples: &[Sample]| {
            let mut figures: Vec<f64> = samples.iter().map(of).collect();
            figures.sort_by(f64::total_cmp);
            figures.get(place(&figures)).copied().unwrap_or(0.0)
        };
        figure(&self.samples[3 * quarter..]) - figure(&self.samples[2 * quarter..3 * quarter])
    }

    fn last(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }

    /// What is wrong with it.
    fn objections(&self) -> Vec<String> {
        let (last, memory, descriptors) =
            (self.last(), self.memory_growth_mib(), self.descriptors_growth());
        let wrongs = [
            (last.handshakes == 0, "no handshake succeeded".to_owned()),
            (last.failures > 0, format!("{} handshakes failed without a reason", last.failures)),
            (memory > GROWTH_MAX_MIB, format!("memory grew by {memory:.1} MiB")),
            (descriptors > GROWTH_MAX_DESCRIPTORS, format!("descriptors grew by {descriptors:.0}")),
        ];
        let wrongs = wrongs.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrongs.map(|(_, text)| format!("{}: {text}", self.kind.name())).collect()
    }

    /// What was seen, in words.
    fn summary(&self) -> String {
        let last = self.last();
        format!(
            "{}: {} handshakes in {:.0} s ({:.0} per second), {} failed without a reason. From the \
             third to the last quarter memory grew by {:.1} MiB and descriptors by {:.0}.",
            self.kind.name(),
            last.handshakes,
            last.seconds,
            last.handshakes as f64 / last.seconds.max(1.0),
            last.failures,
            self.memory_growth_mib(),
            self.descriptors_growth(),
        )
    }

    fn traces(&self) -> Vec<Trace> {
        let trace = |subject: &str, metric: &str, unit: &str, points| Trace {
            scenario: format!("{}/soak", self.kind.name().to_lowercase()),
            subject: subject.to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            along: "time".to_owned(),
            along_unit: "s".to_owned(),
            points,
        };
        let step = self.samples.len().div_ceil(POINTS_MAX).max(1);
        let curves = CURVES.iter().map(|curve| {
            let samples = self.samples.iter().step_by(step);
            let points = samples.map(|sample| [sample.seconds, (curve.of)(sample)]);
            trace("all processes", curve.metric, curve.unit, points.collect())
        });
        let mut names: Vec<&String> = self.hardships.iter().map(|(name, ..)| name).collect();
        names.sort_unstable();
        names.dedup();
        let hardships = names.into_iter().map(|name| {
            let times = self.hardships.iter().filter(|(of, ..)| of == name);
            let steps =
                times.flat_map(|&(_, from, to)| [[from, 0.0], [from, 1.0], [to, 1.0], [to, 0.0]]);
            trace(name, "hard_times", "1", steps.collect())
        });
        curves.chain(hardships).collect()
    }
}

/// The records and what is to be said of them, as results: the answer is whether the servers stayed
/// as they were.
pub fn results(records: &[Record], machine: Machine) -> Results {
    let objections: Vec<String> = records.iter().flat_map(Record::objections).collect();
    let answer = if objections.is_empty() {
        Answer {
            tone: Tone::Same,
            sentence: "The servers stay as they are.".to_owned(),
            detail: format!(
                "No handshake failed without a reason; within a quarter of the time memory grew \
                 by no more than {GROWTH_MAX_MIB} MiB and descriptors by no more than \
                 {GROWTH_MAX_DESCRIPTORS}."
            ),
        }
    } else {
        Answer {
            tone: Tone::Worse,
            sentence: "The servers do not stay as they are.".to_owned(),
            detail: objections.join("; "),
        }
    };
    let lasted = records.iter().map(|record| record.last().seconds).fold(0.0, f64::max);
    Results {
        schema: SCHEMA.to_owned(),
        created: widelane_bench::now_rfc3339(),
        command: ["cargo", "xtask", "soak"].map(str::to_owned).into(),
        duration_s: lasted,
        complete: true,
        machine,
        answer: Some(answer),
        traces: records.iter().flat_map(Record::traces).collect(),
        notes: records.iter().map(Record::summary).collect(),
        ..Results::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(of: impl Fn(u64) -> Sample) -> Record {
        let sample = |second| Sample { seconds: second as f64, handshakes: 1, ..of(second) };
        Record {
            kind: Kind::Haproxy,
            samples: (0..100).map(sample).collect(),
            hardships: vec![("one CPU".to_owned(), 10.0, 11.5)],
        }
    }

    fn of_memory(memory_mib: impl Fn(u64) -> u64) -> Record {
        let memory_kib = |second| 1024 * memory_mib(second);
        record(|second| Sample { memory_kib: memory_kib(second), ..Sample::default() })
    }

    fn of_descriptors(descriptors: impl Fn(u64) -> u64) -> Record {
        let descriptors = |second| descriptors(second) as usize;
        record(|second| Sample { descriptors: descriptors(second), ..Sample::default() })
    }

    #[test]
    fn a_leak_grows_and_a_reload_does_not() {
        assert_eq!(of_memory(|second| 5000 + 10 * second).memory_growth_mib(), 250.0);
        let reloads = of_memory(|second| if second % 10 == 0 { 9000 } else { 5000 });
        assert_eq!(reloads.memory_growth_mib(), 0.0);
        // Clients come and go: only what stays when they are gone has grown.
        let clients = of_descriptors(|second| 70 + if second % 5 == 0 { 0 } else { 2 * second });
        assert_eq!(clients.descriptors_growth(), 0.0);
        assert_eq!(of_descriptors(|second| 70 + second).descriptors_growth(), 25.0);
    }

    #[test]
    fn the_answer_names_what_is_wrong() {
        let answer = |record: Record| {
            let answer = results(&[record], Machine::default()).answer.unwrap();
            (answer.tone, answer.detail)
        };
        assert_eq!(answer(of_memory(|_| 5000)).0, Tone::Same);
        for (record, detail) in [
            (of_memory(|second| second), "HAProxy: memory grew by 25.0 MiB"),
            (of_descriptors(|second| second), "HAProxy: descriptors grew by 25"),
            (
                record(|_| Sample { failures: 2, ..Sample::default() }),
                "HAProxy: 2 handshakes failed without a reason",
            ),
        ] {
            assert_eq!(answer(record), (Tone::Worse, detail.to_owned()));
        }
    }

    #[test]
    fn results_have_everything() {
        let results = results(&[of_memory(|second| second)], Machine::default());
        assert_eq!(results.traces.len(), CURVES.len() + 1);
        assert!(results.traces[..CURVES.len()].iter().all(|trace| trace.points.len() == 100));
        assert_eq!(results.traces[CURVES.len()].points.len(), 4);
        assert!(results.notes[0].starts_with("HAProxy: 1 handshakes in 99 s"));
    }
}
