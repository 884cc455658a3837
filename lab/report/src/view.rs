//! What there is to show, taken from results once for all formats.

mod comparisons;
mod curves;
mod found;
mod inside;

use widelane_results::{Bucket, HistogramKind, Results, Row, Status};

pub use self::comparisons::{
    Comparison, Ratio, Section, comparisons, counts, ends, rounds, rounds_behind, sections,
};
pub use self::curves::{Curves, Point, Series, Side, curves};
pub use self::found::{Chart, Map, Sheet, charts, grid_table, sheets};
pub use self::inside::{Distribution, distributions, paths};
use crate::words::{self, Scenario};

/// Said where the run did not come to its end.
pub const PARTIAL: &str = "The run was cut short; what follows is partial.";

/// The mode of a subject, where there is something to say about it.
pub fn mode(subject: &str) -> Option<String> {
    words::subject(subject).strip_prefix("accelerated, ").map(str::to_owned)
}

/// The parts that are there, with commas.
fn join<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let known: Vec<String> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Latencies over the number of connections, in scenarios that differ in nothing else.
#[derive(Debug, PartialEq)]
pub struct Latency {
    /// The scenarios, without their connections, and the mode of the accelerated server.
    pub title: String,
    /// The measurements, by connections.
    pub points: Vec<LatencyPoint>,
}

/// Latencies at one number of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyPoint {
    /// Connections open at a time.
    pub connections: u32,
    /// As installed.
    pub native: Quantiles,
    /// Accelerated.
    pub accelerated: Quantiles,
}

/// Two quantiles of a latency, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// The latencies over numbers of connections, measured both as installed and accelerated; those of
/// each accelerated server apart.
pub fn latencies(results: &Results) -> Vec<Latency> {
    let quantiles = |scenario: &str, subject: &str| {
        let value = |metric: &str| {
            let wanted = |row: &&Row| {
                row.scenario == scenario
                    && row.metric == metric
                    && row.status == Status::Ok
                    && row.subject == subject
            };
            results.rows.iter().find(wanted)?.value
        };
        Some(Quantiles { p50: value("latency_p50")?, p99: value("latency_p99")? })
    };
    let mut latencies: Vec<Latency> = Vec::new();
    for path in scenarios(results) {
        let scenario = Scenario::parse(path);
        let measured = scenario.connections.zip(quantiles(path, "native"));
        let Some((connections, native)) = measured else { continue };
        for subject in accelerated(results, path) {
            let Some(accelerated) = quantiles(path, subject) else { continue };
            let point = LatencyPoint { connections, native, accelerated };
            let title = join([Some(scenario.title_without_connections()), mode(subject)]);
            let title = title.unwrap_or_default();
            match latencies.iter_mut().find(|latency| latency.title == title) {
                Some(latency) => latency.points.push(point),
                None => latencies.push(Latency { title, points: vec![point] }),
            }
        }
    }
    for latency in &mut latencies {
        latency.points.sort_by_key(|point| point.connections);
    }
    latencies
}

/// The subjects of a scenario that are ours, each once.
fn accelerated<'a>(results: &'a Results, scenario: &str) -> Vec<&'a str> {
    let rows = results.rows.iter().filter(|row| row.scenario == scenario);
    distinct(rows.map(|row| &*row.subject).filter(|subject| !words::is_rival(subject)))
}

/// How many jobs the runs of kernels did in one scenario.
#[derive(Debug, PartialEq)]
pub struct Fill {
    /// The scenario without its connections, and the mode.
    pub family: String,
    /// Connections open at a time.
    pub connections: Option<u32>,
    /// Jobs of a run and the share of the runs with so many, from 1 up to all lanes.
    pub shares: Vec<(usize, f64)>,
    /// How many runs there were.
    pub run_count: u64,
}

/// Jobs of a run beyond which a histogram is nobody's.
const LANES_MAX: usize = 1024;

/// The batch-fill histograms that counted something, of servers whose kernels have several lanes.
pub fn fills(results: &Results) -> Vec<Fill> {
    let fills = results.histograms.iter().filter(|h| h.kind == HistogramKind::BatchFill);
    fills
        .filter_map(|histogram| {
            let counts = histogram.buckets.iter().map(|bucket| bucket.count);
            let run_count = counts.fold(0_u64, u64::saturating_add);
            let lanes = histogram.buckets.last().map_or(0, |bucket| bucket.upto as usize);
            if lanes > LANES_MAX {
                return None;
            }
            let share = |jobs: usize| {
                let holds = |bucket: &&Bucket| bucket.upto as usize == jobs;
                let count = histogram.buckets.iter().find(holds).map_or(0, |bucket| bucket.count);
                (jobs, count as f64 / run_count as f64)
            };
            let scenario = Scenario::parse(&histogram.scenario);
            (run_count > 0 && lanes > 1).then(|| Fill {
                family: join([
                    Some(scenario.title_without_connections()),
                    mode(&histogram.subject),
                ])
                .unwrap_or_default(),
                connections: scenario.connections,
                shares: (1..=lanes).map(share).collect(),
                run_count,
            })
        })
        .collect()
}

/// How far a number of connections is from the one that speaks for a server: busy, as a server that
/// is worth accelerating is.
pub fn detour(connections: Option<u32>) -> u32 {
    const TELLING_CONNECTIONS: u32 = 200;
    connections.unwrap_or(0).abs_diff(TELLING_CONNECTIONS)
}

/// CPU costs of all subjects of one scenario.
#[derive(Debug, PartialEq)]
pub struct Cost {
    /// The scenario.
    pub title: String,
    /// The subjects.
    pub subjects: Vec<SubjectCost>,
}

/// What a handshake costs one subject.
#[derive(Debug, PartialEq)]
pub struct SubjectCost {
    /// What the subject is called.
    pub name: String,
    /// Whether it is ours.
    pub accelerated: bool,
    /// CPU time per handshake, microseconds.
    pub value: f64,
}

/// The scenarios whose server CPU per handshake is known for more than one subject; of those that
/// differ in connections alone, the one that speaks for the server.
pub fn costs(results: &Results) -> Vec<Cost> {
    let cost = |path: &str| {
        let mut subjects: Vec<SubjectCost> = Vec::new();
        let rows = results.rows.iter().filter(|row| {
            row.scenario == path && row.metric == words::SERVER_CPU.name && row.status == Status::Ok
        });
        for row in rows {
            let name = words::subject(&row.subject);
            // A subject with several rivals has several rows of the same value.
            if let Some(value) = row.value
                && subjects.iter().all(|subject| subject.name != name)
            {
                let accelerated = !words::is_rival(&row.subject);
                subjects.push(SubjectCost { name: name.to_owned(), accelerated, value });
            }
        }
        Cost { title: Scenario::parse(path).title(), subjects }
    };
    let mut telling: Vec<(Scenario, Cost)> = Vec::new();
    for path in scenarios(results) {
        let (scenario, cost) = (Scenario::parse(path), cost(path));
        if cost.subjects.len() < 2 {
            continue;
        }
        let family = scenario.title_without_connections();
        match telling.iter_mut().find(|(known, _)| known.title_without_connections() == family) {
            Some(known) if detour(scenario.connections) < detour(known.0.connections) => {
                *known = (scenario, cost);
            }
            Some(_) => {}
            None => telling.push((scenario, cost)),
        }
    }
    telling.into_iter().map(|(_, cost)| cost).collect()
}

/// A status in words.
pub fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Rejected => "rejected",
        Status::NotApplicable => "not applicable",
    }
}

/// The rejected rounds of one scenario.
#[derive(Debug, PartialEq)]
pub struct Rejected {
    /// The scenario.
    pub title: String,
    /// How many rounds were rejected.
    pub count: usize,
    /// How many were measured.
    pub of: usize,
    /// Why, each reason once.
    pub reasons: Vec<String>,
}

impl Rejected {
    /// The first reasons in one line.
    pub fn reason(&self) -> String {
        const TOLD: usize = 2;
        let told = self.reasons.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
        match self.reasons.len().saturating_sub(TOLD) {
            0 => told,
            more => format!("{told}; and {more} more"),
        }
    }
}

/// The scenarios with rejected rounds.
pub fn rejected(results: &Results) -> Vec<Rejected> {
    let rejected = |path: &str| {
        let rounds = || results.pairs.iter().filter(|pair| pair.scenario == path);
        let mut rejected = Rejected {
            title: Scenario::parse(path).title(),
            count: 0,
            of: rounds().count(),
            reasons: Vec::new(),
        };
        for round in rounds().filter(|round| round.status == Status::Rejected) {
            rejected.count += 1;
            let own = round.measurements.iter().filter_map(|it| it.reason.as_ref());
            // The first of them is the round's, which is all that files of before have.
            for reason in round.reason.iter().chain(own) {
                if !rejected.reasons.contains(reason) {
                    rejected.reasons.push(reason.clone());
                }
            }
        }
        rejected
    };
    let all = scenarios(results).into_iter().map(rejected);
    all.filter(|rejected| rejected.count > 0).collect()
}

/// The machine as lines of name and value; what is unknown is left out.
pub fn machine(results: &Results) -> Vec<(&'static str, String)> {
    let machine = &results.machine;
    let room = |room: &widelane_results::RoomStatus| match (&room.reason, room.open) {
        (_, true) => format!("{} open", room.room),
        (Some(reason), false) => format!("{} closed ({reason})", room.room),
        (None, false) => format!("{} closed", room.room),
    };
    let lines = [
        ("CPU", machine.model.clone()),
        ("CPUs on line", (machine.cpus > 0).then(|| machine.cpus.to_string())),
        ("Microcode", machine.microcode.clone()),
        ("Hypervisor", machine.hypervisor.clone()),
        ("Kernel", machine.kernel.clone()),
        ("OpenSSL", machine.openssl.as_ref().map(|version| version.replace("OpenSSL ", ""))),
        ("nginx", machine.nginx.clone()),
        ("HAProxy", machine.haproxy.clone()),
        ("HAProxy on AWS-LC", machine.haproxy_aws_lc.clone()),
        ("Widelane", machine.widelane.clone()),
        ("Policy", Some(machine.policy.clone())),
        ("Policy set by", Some(machine.policy_source.clone())),
        ("Rooms", Some(machine.rooms.iter().map(room).collect::<Vec<_>>().join("; "))),
    ];
    let known = lines.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// The command line that made the results, quoted for a shell.
pub fn command(results: &Results) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    results.command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The scenarios, in the order of the file.
fn scenarios(results: &Results) -> Vec<&str> {
    let named = results.rows.iter().map(|row| &*row.scenario);
    distinct(named.chain(results.pairs.iter().map(|pair| &*pair.scenario)))
}

/// Each once, in the order in which they come.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
pub mod tests {
    use widelane_results::Histogram;

    use super::*;

    /// Results with a histogram of accelerated servers for each scenario: of one value, up to 8.
    pub fn histograms(scenarios: &[&str], kind: HistogramKind) -> Results {
        let histogram = |scenario: &&str| Histogram {
            scenario: (*scenario).to_owned(),
            subject: "accelerated".to_owned(),
            kind,
            unit: String::new(),
            buckets: vec![Bucket { upto: 8.0, count: 1 }],
        };
        Results { histograms: scenarios.iter().map(histogram).collect(), ..Results::default() }
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let command_of = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            command(&Results { command: words, ..Results::default() })
        };
        assert_eq!(
            command_of(&["widelane", "compare", "--key", "rsa2048,rsa3072"]),
            "widelane compare --key rsa2048,rsa3072"
        );
        assert_eq!(command_of(&["a", "", "b c", "it's"]), r"a '' 'b c' 'it'\''s'");
    }

    #[test]
    fn numbers_of_cores_are_told_apart() {
        let row = |scenario: &str, subject: &str, metric: &str| Row {
            scenario: scenario.to_owned(),
            subject: subject.to_owned(),
            metric: metric.to_owned(),
            value: Some(100.0),
            ..Row::default()
        };
        let rows_of = |scenario: &str| {
            ["native", "accelerated"]
                .into_iter()
                .flat_map(|subject| {
                    ["latency_p50", "latency_p99", words::SERVER_CPU.name]
                        .map(|metric| row(scenario, subject, metric))
                })
                .collect::<Vec<_>>()
        };
        let results_of = |scenarios: &[&str]| Results {
            rows: scenarios.iter().flat_map(|scenario| rows_of(scenario)).collect(),
            ..Results::default()
        };
        let cores = results_of(&["nginx/1-cores/c400", "nginx/2-cores/c400"]);
        let titles: Vec<String> = latencies(&cores).into_iter().map(|it| it.title).collect();
        assert_eq!(titles, ["nginx, 1 core", "nginx, 2 cores"]);
        let titles: Vec<String> = costs(&cores).into_iter().map(|cost| cost.title).collect();
        assert_eq!(titles, ["nginx, 1 core, 400 connections", "nginx, 2 cores, 400 connections"]);

        let connections = results_of(&["nginx/2-cores/c8", "nginx/2-cores/c400"]);
        let latencies = latencies(&connections);
        assert_eq!((latencies.len(), latencies[0].points.len()), (1, 2));
        assert_eq!(latencies[0].title, "nginx, 2 cores");
        assert_eq!(costs(&connections).len(), 1);
    }

    #[test]
    fn latencies_of_each_accelerated_server_are_told_at_one_number_of_connections() {
        let row = |subject: &str, metric: &str, value: f64| Row {
            scenario: "nginx/tls1.3/rsa2048/x25519/c200".to_owned(),
            subject: subject.to_owned(),
            metric: metric.to_owned(),
            value: Some(value),
            ..Row::default()
        };
        let of = |subject: &str, p50: f64| {
            [row(subject, "latency_p50", p50), row(subject, "latency_p99", 2.0 * p50)]
        };
        let rows = [of("native", 50.0), of("wait-0", 40.0), of("wait-1ms", 45.0)].concat();
        let latencies = latencies(&Results { rows, ..Results::default() });
        let told: Vec<_> = latencies
            .iter()
            .map(|it| (it.title.as_str(), it.points[0].native.p50, it.points[0].accelerated.p99))
            .collect();
        let family = "nginx, TLS 1.3, RSA-2048, X25519, ";
        let titles = ["no wait", "waits up to 1 ms"].map(|mode| format!("{family}{mode}"));
        assert_eq!(told, [(titles[0].as_str(), 50.0, 80.0), (titles[1].as_str(), 50.0, 90.0)]);
    }

    #[test]
    fn buckets_left_out_are_empty() {
        let bucket = |upto, count| Bucket { upto, count };
        let histogram = widelane_results::Histogram {
            scenario: "nginx/c8".to_owned(),
            subject: "accelerated".to_owned(),
            kind: HistogramKind::BatchFill,
            unit: "jobs".to_owned(),
            buckets: vec![bucket(1.0, 1), bucket(4.0, 3)],
        };
        let results = Results { histograms: vec![histogram], ..Results::default() };
        let fills = fills(&results);
        assert_eq!(fills[0].shares, [(1, 0.25), (2, 0.0), (3, 0.0), (4, 0.75)]);
    }
}
