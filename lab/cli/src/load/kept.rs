//! What a load found, as a results file.

use widelane_bench::stats::latency_buckets;
use widelane_fleet::Report;
use widelane_loadgen::{Doubt, Ending, Found, Goal, Latency, Outcome, Probe, Tally, Work};
use widelane_results::{Histogram, HistogramKind, Results, Row, Tone};

use super::fleet::Fleet;
use super::shown::{given_up, sentence, time};
use super::target::Target;
use crate::keep::{answer, row, trace};

/// What one second counted, in figures.
pub struct Second {
    full: u64,
    resumed: u64,
    answers: u64,
    failures: u64,
    /// Nothing where nothing finished.
    latency_us: Option<[f64; 3]>,
}

/// The percentiles that are followed from second to second.
const FOLLOWED: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("most", 100.0)];

/// The percentiles of the whole.
const PERCENTILES: [(&str, f64); 5] = [
    ("latency_p50", 50.0),
    ("latency_p90", 90.0),
    ("latency_p99", 99.0),
    ("latency_p99.9", 99.9),
    ("latency_max", 100.0),
];

const HANDSHAKES: (&str, &str) = ("handshakes_per_second", "1/s");
const ANSWERS: (&str, &str) = ("answers_per_second", "1/s");
const FAILURES: (&str, &str) = ("failures_per_second", "1/s");
const LATENCY: (&str, &str) = ("latency", "us");
const TIME: (&str, &str) = ("time", "s");
const RATE_DUE: (&str, &str) = ("rate due", "1/s");

impl Second {
    /// Sums up what was counted.
    pub fn of(tally: &Tally, work: &Work) -> Self {
        let total = Latency::Total.of(tally, work);
        Second {
            full: tally.full,
            resumed: tally.resumed,
            answers: tally.answers,
            failures: tally.failures(),
            latency_us: (!total.is_empty()).then(|| {
                FOLLOWED.map(|(_, percent)| total.value_at_percentile(percent) as f64 / 1e3)
            }),
        }
    }
}

/// One load, as results have it.
pub struct Kept<'a> {
    /// Where it went.
    pub target: &'a Target,
    /// What its connections were to do.
    pub work: &'a Work,
    /// What was counted from second to second.
    pub seconds: &'a [Second],
    /// What was counted in all.
    pub outcome: &'a Outcome,
    /// When not to believe it.
    pub doubts: &'a [Doubt],
    /// Conditions that came true.
    pub crossed: &'a [String],
    /// Why it ended early, if an error ended it.
    pub given_up: Option<&'a str>,
    /// What agents did, where they made it.
    pub fleet: Option<&'a Fleet>,
}

impl Kept<'_> {
    /// Adds everything to `results`.
    pub fn fill(&self, results: &mut Results) {
        let Kept { target, outcome, .. } = self;
        let scenario = scenario(target, "");
        results.duration_s = outcome.wall.as_secs_f64();
        results.answer = answer(self.tone(), self.sentence(), self.detail());
        results.rows.extend(self.counts(&scenario));
        self.latencies(results);
        self.traces(&scenario, results);
        results.note(self.given_up.map(|why| sentence(&given_up(why))));
        self.doubts.iter().for_each(|doubt| results.note(sentence(&doubt.to_string())));
        if let Some(fleet) = self.fleet {
            let path = self::scenario(target, "/agents");
            results.rows.extend(fleet.agents.iter().flat_map(|agent| part(&path, agent)));
            fleet.degraded.iter().for_each(|why| results.note(sentence(why)));
            results.note("The machine below is the director's; agents have others.".to_owned());
        }
    }

    fn tone(&self) -> Tone {
        let degraded = self.fleet.is_some_and(|fleet| !fleet.degraded.is_empty());
        let is_whole = !degraded && self.given_up.is_none();
        match (self.crossed, self.doubts) {
            ([], []) if is_whole && !self.has_done_nothing() => Tone::Same,
            // The answer says that nothing was done.
            ([], [] | [Doubt::NothingDone]) if is_whole && self.has_done_nothing() => Tone::Worse,
            ([], _) => Tone::Unknown,
            (_, _) => Tone::Worse,
        }
    }

    fn has_done_nothing(&self) -> bool {
        let tally = &self.outcome.tally;
        tally.handshakes() + tally.answers + tally.body_bytes == 0
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.outcome.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn sentence(&self) -> String {
        let tally = &self.outcome.tally;
        let (count, what) = match tally.answers {
            0 => (tally.handshakes(), "handshakes"),
            answers => (answers, "answers"),
        };
        let total = Latency::Total.of(tally, self.work);
        let at = |percent| time(total.value_at_percentile(percent) as f64 / 1e9);
        let rate = self.per_second(count);
        let Target { host, port, .. } = self.target;
        if self.has_done_nothing() {
            return format!("{host}:{port} finished no handshake.");
        }
        if total.is_empty() {
            return format!("{host}:{port} gave {rate:.0} {what} per second, and no whole answer.");
        }
        format!(
            "{host}:{port} gave {rate:.0} {what} per second; half of them took {} at most, 99 % \
             took {}.",
            at(50.0),
            at(99.0)
        )
    }

    fn detail(&self) -> String {
        let tally = &self.outcome.tally;
        let mut detail = format!(
            "{} full handshakes, {} resumed and {} failures in {:.1} s.",
            tally.full,
            tally.resumed,
            tally.failures(),
            self.outcome.wall.as_secs_f64()
        );
        if !self.crossed.is_empty() {
            detail.push_str(&format!(" Crossed: {}.", self.crossed.join(", ")));
        }
        if self.tone() == Tone::Unknown {
            detail.push_str(" Read the notes before you believe it.");
        }
        detail
    }

    fn counts(&self, scenario: &str) -> Vec<Row> {
        let Outcome { tally, busy, client_cpu, .. } = self.outcome;
        let clients = |metric, value| row(scenario, "clients", metric, value);
        let mut rows = vec![
            clients(HANDSHAKES, self.per_second(tally.handshakes())),
            clients(("full", "count"), tally.full as f64),
            clients(("resumed", "count"), tally.resumed as f64),
        ];
        if tally.answers > 0 || tally.body_bytes > 0 {
            rows.push(clients(ANSWERS, self.per_second(tally.answers)));
        }
        if tally.body_bytes > 0 {
            let gigabits = self.per_second(tally.body_bytes) * 8e-9;
            rows.push(clients(("goodput", "Gbit/s"), gigabits));
        }
        rows.push(clients(("failures", "count"), tally.failures() as f64));
        rows.push(clients(("unfinished", "count"), tally.unfinished_ns.len() as f64));
        if tally.handshakes() > 0 {
            let each = us(client_cpu.as_secs_f64()) / tally.handshakes() as f64;
            rows.push(clients(("client_cpu_per_handshake", "us"), each));
        }
        rows.push(clients(("client_busy", "1"), *busy));
        let failures = self::scenario(self.target, "/failures");
        let failed = tally.errors.iter();
        rows.extend(
            failed.map(|(kind, count)| {
                row(&failures, kind.name(), ("count", "count"), *count as f64)
            }),
        );
        rows
    }

    fn latencies(&self, results: &mut Results) {
        let scenario = self::scenario(self.target, "/latency");
        for latency in Latency::ALL {
            let histogram = latency.of(&self.outcome.tally, self.work);
            if histogram.is_empty() {
                continue;
            }
            results.rows.extend(PERCENTILES.map(|(metric, percent)| {
                let value = histogram.value_at_percentile(percent) as f64 / 1e3;
                row(&scenario, latency.name(), (metric, "us"), value)
            }));
            results.histograms.push(Histogram {
                scenario: self::scenario(self.target, &format!("/{}", latency.name())),
                subject: "clients".to_owned(),
                kind: HistogramKind::Latency,
                unit: "us".to_owned(),
                buckets: latency_buckets(histogram),
            });
        }
    }

    /// Rates and latencies over whole seconds.
    fn traces(&self, scenario: &str, results: &mut Results) {
        // The last second may be none, and a rate of it would be wrong.
        const SLACK: f64 = 0.05;
        let whole = (self.outcome.wall.as_secs_f64() + SLACK) as usize;
        let seconds = &self.seconds[..whole.min(self.seconds.len())];
        let points = |pick: &dyn Fn(&Second) -> Option<f64>| {
            let point = |(index, second)| Some([index as f64 + 1.0, pick(second)?]);
            seconds.iter().enumerate().filter_map(point).collect::<Vec<_>>()
        };
        let mut rates = |subject, metric, pick: fn(&Second) -> u64| {
            if seconds.iter().any(|second| pick(second) > 0) {
                let points = points(&|second| Some(pick(second) as f64));
                results.traces.push(trace(scenario, subject, metric, TIME, points));
            }
        };
        rates("full", HANDSHAKES, |second| second.full);
        rates("resumed", HANDSHAKES, |second| second.resumed);
        rates("answers", ANSWERS, |second| second.answers);
        rates("failures", FAILURES, |second| second.failures);
        // A second in which nothing finished has no latency; a line from the one before it to the
        // next is drawn over it.
        results.traces.extend(FOLLOWED.iter().enumerate().filter_map(|(index, (name, _))| {
            let points = points(&|second| Some(second.latency_us?[index]));
            (!points.is_empty()).then(|| trace(scenario, name, LATENCY, TIME, points))
        }));
    }
}

/// What one agent did.
fn part(scenario: &str, agent: &Report) -> Vec<Row> {
    let own = |metric, value| row(scenario, &agent.name, metric, value);
    let mut rows = vec![own(("handshakes", "count"), agent.handshakes as f64)];
    rows.extend(agent.late_s.map(|late| own(("began_late", "us"), us(late.max(0.0)))));
    rows.push(own(("clock_uncertainty", "us"), us(agent.clock_uncertainty_s)));
    rows.extend(agent.lost_s.map(|lost| own(("lost_after", "s"), lost)));
    rows
}

/// Adds a search to `results`.
pub fn search(
    target: &Target,
    found: &Found<anyhow::Error>,
    goal: &Goal,
    ending: &str,
    results: &mut Results,
) {
    let scenario = scenario(target, "/search");
    let tone = match &found.ending {
        Ending::Rate(_) if !found.client_bound => Tone::Better,
        Ending::Infeasible(_) => Tone::Worse,
        Ending::Rate(_)
        | Ending::NeverKept(_)
        | Ending::Unsteady
        | Ending::Gone
        | Ending::Interrupted
        | Ending::GivenUp(_) => Tone::Unknown,
    };
    results.answer = answer(tone, sentence(ending), format!("{} probes.", found.probes.len()));
    if found.client_bound {
        results.note(CLIENT_BOUND.to_owned());
    }
    for (index, probe) in found.probes.iter().enumerate() {
        results.rows.extend(probed(&scenario, &format!("probe {}", index + 1), probe));
    }
    let points = |is_drawn: &dyn Fn(&Probe) -> bool, pick: fn(&Probe) -> f64| {
        let drawn = found.probes.iter().filter(|probe| is_drawn(probe));
        let mut points: Vec<[f64; 2]> =
            drawn.filter_map(|probe| Some([probe.rate?, pick(probe)])).collect();
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        points
    };
    let latency = |probe: &Probe| us(probe.latency.as_secs_f64());
    let ends = points(&|_| true, |_| 0.0);
    let limit = us(goal.latency_max.as_secs_f64());
    let limit = ends.first().into_iter().chain(ends.last()).map(|[rate, _]| [*rate, limit]);
    results.traces.extend([
        trace(&scenario, "kept", LATENCY, RATE_DUE, points(&|p| p.missed.is_none(), latency)),
        trace(&scenario, "missed", LATENCY, RATE_DUE, points(&|p| p.missed.is_some(), latency)),
        trace(&scenario, "limit", LATENCY, RATE_DUE, limit.collect()),
        trace(&scenario, "done", HANDSHAKES, RATE_DUE, points(&|_| true, finished)),
    ]);
}

/// What a reader of a search must know whose clients had no more to give.
pub const CLIENT_BOUND: &str = "The clients were the bottleneck: the server can do more than this. \
                                Give them more threads and CPUs, or another machine.";

fn finished(probe: &Probe) -> f64 {
    let seconds = probe.outcome.wall.as_secs_f64().max(f64::MIN_POSITIVE);
    probe.outcome.tally.handshakes() as f64 / seconds
}

fn probed(scenario: &str, name: &str, probe: &Probe) -> Vec<Row> {
    let own = |metric, value| row(scenario, name, metric, value);
    let mut rows: Vec<Row> =
        probe.rate.map(|rate| own(("rate_due", "1/s"), rate)).into_iter().collect();
    rows.extend([
        own(HANDSHAKES, finished(probe)),
        own(LATENCY, us(probe.latency.as_secs_f64())),
        own(("client_busy", "1"), probe.outcome.busy),
    ]);
    let verdict = match (probe.rate, probe.missed) {
        (_, Some(missed)) => format!("missed: {missed}"),
        (Some(_), None) => "kept".to_owned(),
        (None, None) => "kept, one alone".to_owned(),
    };
    rows[0].verdict = Some(verdict);
    rows
}

/// Microseconds, the unit of latencies in results.
fn us(seconds: f64) -> f64 {
    seconds * 1e6
}

/// The scenario of a load, or of a part of what is told of it.
fn scenario(Target { host, port, .. }: &Target, what: &str) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("load/{host}:{port}{what}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The results of a load of three seconds, of which each counted what `seconds` has.
    fn results(work: &Work, seconds: &[Tally], doubts: &[Doubt]) -> Results {
        let mut tally = Tally::new();
        seconds.iter().for_each(|second| tally.add(second));
        let seconds: Vec<Second> = seconds.iter().map(|second| Second::of(second, work)).collect();
        let outcome = Outcome {
            wall: Duration::from_secs(3),
            busy: 0.1,
            client_cpu: Duration::from_secs(1),
            tally,
            interrupted: false,
        };
        let target = "localhost:443".parse().unwrap();
        let mut results = Results::default();
        let (crossed, given_up, fleet) = (&[], None, None);
        let (target, outcome, seconds) = (&target, &outcome, &seconds);
        Kept { target, work, seconds, outcome, doubts, crossed, given_up, fleet }
            .fill(&mut results);
        results
    }

    /// A second with some handshakes of 2 ms.
    fn second(handshakes: u64) -> Tally {
        let mut tally = Tally::new();
        tally.full = handshakes;
        tally.latency_ns.record_n(2_000_000, handshakes).unwrap();
        tally
    }

    #[test]
    fn a_second_in_which_nothing_finished_has_no_latency() {
        let results = results(&Work::Handshake, &[second(5), second(0), second(7)], &[]);
        let p50 = results.traces.iter().find(|trace| trace.subject == "p50").unwrap();
        let times: Vec<f64> = p50.points.iter().map(|[time, _]| *time).collect();
        assert_eq!(times, [1.0, 3.0]);
        assert!(p50.points.iter().all(|[_, latency]| *latency > 1000.0), "{p50:?}");
        let full = results.traces.iter().find(|trace| trace.subject == "full").unwrap();
        assert_eq!(full.points[1], [2.0, 0.0], "a rate of 0 is one");
    }

    #[test]
    fn a_load_that_finished_nothing_has_no_latencies() {
        let nothing = || [second(0), second(0), second(0)];
        let results = results(&Work::Handshake, &nothing(), &[Doubt::NothingDone]);
        let answer = results.answer.unwrap();
        assert_eq!(answer.sentence, "localhost:443 finished no handshake.");
        assert_eq!(answer.tone, Tone::Worse);
        assert!(results.traces.is_empty(), "{:?}", results.traces);

        // Clients that had no time left may be why.
        let doubts = [Doubt::ClientBound { busy: 1.0 }, Doubt::NothingDone];
        let answer = self::results(&Work::Handshake, &nothing(), &doubts).answer.unwrap();
        assert_eq!(answer.sentence, "localhost:443 finished no handshake.");
        assert_eq!(answer.tone, Tone::Unknown);
        assert!(answer.detail.ends_with("Read the notes before you believe it."));
    }

    #[test]
    fn a_server_that_sends_has_done_something() {
        let mut sending = second(0);
        sending.body_bytes = 1_000_000;
        let answer = results(&Work::Handshake, &[sending], &[Doubt::NothingDone]).answer.unwrap();
        assert_eq!(
            answer.sentence,
            "localhost:443 gave 0 handshakes per second, and no whole answer."
        );
        assert_eq!(answer.tone, Tone::Unknown);
    }

    #[test]
    fn answers_without_bodies_count() {
        let (path, count) = ("/".to_owned(), 1);
        let work = Work::Requests { path, count, body_bytes: None, pattern: None };
        let mut answered = second(3);
        answered.answers = 3;
        answered.answer_ns.record_n(3_000_000, 3).unwrap();
        let results = results(&work, &[answered, second(0), second(0)], &[]);
        let metric = |name: &str| results.rows.iter().find(|row| row.metric == name);
        assert_eq!(metric("answers_per_second").unwrap().value, Some(1.0));
        assert!(metric("goodput").is_none());
    }
}
