//! What a load found, for readers and as JSON.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Serialize;
use widelane_fleet::Report;
use widelane_loadgen::{Doubt, Ending, Found, Goal, Latency, Outcome, Plan, Probe, Work};
use widelane_tables::{Block, Kind, Style, Table, Tone, count, show};

use super::fleet::Fleet;
use super::kept::CLIENT_BOUND;

/// The form of the JSON of one load.
const SCHEMA: &str = "widelane-load/1";

/// The form of the JSON of a search.
const SCHEMA_SEARCH: &str = "widelane-load-search/1";

/// One load.
#[derive(Serialize)]
pub struct Load {
    schema: &'static str,
    wall_s: f64,
    interrupted: bool,
    full: u64,
    resumed: u64,
    handshakes_per_s: f64,
    answers: u64,
    answers_per_s: f64,
    body_bytes: u64,
    gigabits_per_s: f64,
    unfinished: u64,
    errors: BTreeMap<&'static str, u64>,
    latency_s: BTreeMap<&'static str, Quantiles>,
    client_cpu_s: f64,
    client_busy: f64,
    client_cpu_us_per_handshake: Option<f64>,
    doubts: Vec<String>,
    crossed: Vec<String>,
    /// Why it ended early, if an error ended it.
    given_up: Option<String>,
    #[serde(flatten)]
    fleet: Option<Fleet>,
}

/// Seconds at some percentiles.
#[derive(Serialize)]
struct Quantiles {
    count: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
}

impl Load {
    /// Sums up an outcome.
    pub fn of(
        outcome: &Outcome,
        work: &Work,
        doubts: &[Doubt],
        crossed: Vec<String>,
        fleet: Option<Fleet>,
    ) -> Self {
        let tally = &outcome.tally;
        let seconds = outcome.wall.as_secs_f64();
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let cpu = outcome.client_cpu.as_secs_f64();
        let latencies = Latency::ALL.into_iter().map(|latency| (latency, latency.of(tally, work)));
        Load {
            schema: SCHEMA,
            wall_s: seconds,
            interrupted: outcome.interrupted,
            full: tally.full,
            resumed: tally.resumed,
            handshakes_per_s: per_second(tally.handshakes() as f64),
            answers: tally.answers,
            answers_per_s: per_second(tally.answers as f64),
            body_bytes: tally.body_bytes,
            gigabits_per_s: per_second(tally.body_bytes as f64 * 8e-9),
            unfinished: tally.unfinished_ns.len(),
            errors: tally.errors.iter().map(|(kind, count)| (kind.name(), *count)).collect(),
            latency_s: latencies
                .filter(|(_, histogram)| !histogram.is_empty())
                .map(|(latency, histogram)| {
                    let at = |percent| histogram.value_at_percentile(percent) as f64 / 1e9;
                    let quantiles = Quantiles {
                        count: histogram.len(),
                        p50: at(50.0),
                        p90: at(90.0),
                        p99: at(99.0),
                        p999: at(99.9),
                        max: at(100.0),
                    };
                    (latency.name(), quantiles)
                })
                .collect(),
            client_cpu_s: cpu,
            client_busy: outcome.busy,
            client_cpu_us_per_handshake: (tally.handshakes() > 0)
                .then(|| cpu * 1e6 / tally.handshakes() as f64),
            doubts: doubts.iter().map(ToString::to_string).collect(),
            crossed,
            given_up: None,
            fleet,
        }
    }

    /// The load with the error `why`, if any, that ended it early.
    pub fn given_up(self, why: Option<String>) -> Self {
        Load { given_up: why, ..self }
    }

    /// For programs.
    pub fn json(&self) -> anyhow::Result<String> {
        serde_json::to_string_pretty(self).context("cannot write JSON")
    }

    /// What agents did, where they made it.
    pub fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_ref()
    }

    /// Why what agents did is not what they were to do, if so.
    pub fn degraded(&self) -> Option<String> {
        let fleet = self.fleet.as_ref().filter(|fleet| !fleet.degraded.is_empty())?;
        Some(fleet.degraded.join("; "))
    }

    /// How many connections failed, and how.
    pub fn failures(&self) -> String {
        let kinds: Vec<_> =
            self.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        if kinds.is_empty() { "0".to_owned() } else { kinds.join(", ") }
    }

    /// For readers.
    pub fn text(&self, style: &Style) -> String {
        let mut facts = vec![
            ("Handshakes", format!("{} full, {} resumed", count(self.full), count(self.resumed))),
            ("", format!("{:.1} per second over {:.1} s", self.handshakes_per_s, self.wall_s)),
        ];
        if self.answers > 0 || self.body_bytes > 0 {
            facts.push((
                "Answers",
                format!("{}, {:.1} per second", count(self.answers), self.answers_per_s),
            ));
            let (bytes, gigabits) = (count(self.body_bytes), self.gigabits_per_s);
            facts.push(("Bodies", format!("{bytes} bytes, {gigabits:.3} Gbit/s")));
        }
        let apart = if self.errors.is_empty() { "" } else { "; the latencies leave these out" };
        facts.push(("Failed", format!("{}{apart}", self.failures())));
        facts.push(("Unfinished", count(self.unfinished)));
        let each = self.client_cpu_us_per_handshake;
        let each = each.map_or(String::new(), |each| format!("{each:.0} µs per handshake, "));
        let busy = 100.0 * self.client_busy;
        facts.push(("Client", format!("{each}busiest thread {busy:.0} %")));

        let mut columns = vec![("Latency", Kind::Words)];
        columns.extend(["p50", "p90", "p99", "p99.9", "max"].map(|name| (name, Kind::Number)));
        let mut table = Table::new(&columns);
        for latency in Latency::ALL {
            let Some(found) = self.latency_s.get(latency.name()) else { continue };
            let times = [found.p50, found.p90, found.p99, found.p999, found.max].map(time);
            table.rows.push([latency.name().to_owned()].into_iter().chain(times).collect());
        }
        // First why what follows may not be what was asked for.
        let doubts = self.given_up.iter().map(|why| given_up(why));
        let doubts = doubts.chain(self.doubts.iter().cloned());
        let mut blocks: Vec<Block> = doubts.map(|doubt| Block::Warning(sentence(&doubt))).collect();
        blocks.extend([Block::Table(Table::of_facts(facts)), Block::Table(table)]);
        if let Some(fleet) = &self.fleet {
            blocks.push(Block::Table(agents(&fleet.agents)));
            let degraded = fleet.degraded.iter();
            blocks.extend(degraded.map(|why| Block::Warning(sentence(why))));
        }
        show(blocks, style)
    }
}

fn agents(agents: &[Report]) -> Table {
    let mut table = Table::new(&[
        ("Agent", Kind::Words),
        ("Handshakes", Kind::Number),
        ("Began late by", Kind::Number),
        ("± clocks", Kind::Number),
        ("Lost after", Kind::Number),
    ]);
    for agent in agents {
        table.rows.push(vec![
            agent.name.clone(),
            agent.handshakes.to_string(),
            agent.late_s.map_or("never began".to_owned(), |late| time(late.max(0.0))),
            time(agent.clock_uncertainty_s),
            agent.lost_s.map_or(String::new(), time),
        ]);
    }
    table
}

/// A search.
#[derive(Serialize)]
pub struct Search {
    schema: &'static str,
    latency_max_s: f64,
    percentile: f64,
    /// Connections per second; none if no rate keeps the limit.
    rate: Option<f64>,
    ending: String,
    client_bound: bool,
    probes: Vec<Probed>,
}

/// One run of a search.
#[derive(Serialize)]
struct Probed {
    rate: Option<f64>,
    latency_s: f64,
    missed: Option<String>,
    #[serde(flatten)]
    load: Load,
}

impl Search {
    /// Sums up what was found.
    pub fn of(found: &Found<anyhow::Error>, plan: &Plan, goal: &Goal) -> Self {
        let probed = |probe: &Probe| Probed {
            rate: probe.rate,
            latency_s: probe.latency.as_secs_f64(),
            missed: probe.missed.map(|missed| missed.to_string()),
            load: Load::of(&probe.outcome, &plan.work, &probe.doubts(plan), Vec::new(), None),
        };
        let limit = format!("p{} of {}", goal.percentile, time(goal.latency_max.as_secs_f64()));
        let (rate, ending) = match &found.ending {
            Ending::Rate(rate) => (Some(*rate), format!("{rate:.1} per second keep {limit}")),
            Ending::Infeasible(why) => (None, format!("infeasible: {why}")),
            Ending::NeverKept(missed) => {
                let last = found.probes.last().and_then(|probe| probe.rate).unwrap_or_default();
                let why =
                    format!("no rate kept {limit} even once; at {last:.1} per second: {missed}");
                (None, why)
            }
            Ending::Unsteady => (None, format!("no rate kept {limit} twice")),
            Ending::Gone => (None, "the server has ended and refuses all connections".to_owned()),
            Ending::Interrupted => (None, "interrupted".to_owned()),
            Ending::GivenUp(why) => (None, format!("given up: {why}")),
        };
        Search {
            schema: SCHEMA_SEARCH,
            latency_max_s: goal.latency_max.as_secs_f64(),
            percentile: goal.percentile,
            rate,
            ending,
            client_bound: found.client_bound,
            probes: found.probes.iter().map(probed).collect(),
        }
    }

    /// How it ended, in words.
    pub fn ending(&self) -> &str {
        &self.ending
    }

    /// For programs.
    pub fn json(&self) -> anyhow::Result<String> {
        serde_json::to_string_pretty(self).context("cannot write JSON")
    }

    /// For readers.
    pub fn text(&self, style: &Style) -> String {
        let mut table = Table::new(&[
            ("Due per second", Kind::Number),
            ("Handshakes/s", Kind::Number),
            ("Answers/s", Kind::Number),
            ("Latency", Kind::Number),
            ("Client", Kind::Number),
            ("", Kind::Words),
        ]);
        for probed in &self.probes {
            table.rows.push(vec![
                probed.rate.map_or("one alone".to_owned(), |rate| format!("{rate:.1}")),
                format!("{:.1}", probed.load.handshakes_per_s),
                format!("{:.1}", probed.load.answers_per_s),
                time(probed.latency_s),
                format!("{:.0} %", 100.0 * probed.load.client_busy),
                probed.missed.clone().unwrap_or_else(|| "kept".to_owned()),
            ]);
        }
        let tone = if self.rate.is_some() { Tone::Better } else { Tone::Same };
        let mut blocks = vec![Block::Lead(tone, sentence(&self.ending)), Block::Table(table)];
        if self.client_bound {
            blocks.push(Block::Warning(CLIENT_BOUND.to_owned()));
        }
        show(blocks, style)
    }
}

/// One probe in a line.
pub fn probe(probe: &Probe) -> String {
    let rate = probe.rate.map_or("one alone".to_owned(), |rate| format!("{rate:.0} per second"));
    let latency = time(probe.latency.as_secs_f64());
    let kept = probe.missed.map_or("kept".to_owned(), |missed| missed.to_string());
    format!("{rate}: {latency}, {kept}")
}

/// A time for readers, in the unit that fits.
pub fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// What a reader of a load must know that an error ended.
pub fn given_up(why: &str) -> String {
    format!("the load ended early: {why}")
}

/// `text` as a sentence, with a capital and a full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use widelane_loadgen::{Arrivals, Cipher, Group, Missed, Mix, Pace, Tally, TlsVersion, Trust};

    use super::*;

    #[test]
    fn each_probe_has_its_doubts() {
        let plan = Plan {
            target: (Ipv4Addr::LOCALHOST, 1).into(),
            sources: Vec::new(),
            trust: Trust::Anyone,
            mix: Mix::alike(TlsVersion::Tls13, Cipher::Aes256Gcm, Group::X25519, "localhost"),
            work: Work::Handshake,
            pace: Pace::Open {
                rate: 0.0,
                arrivals: Arrivals::Poisson,
                ramp: Duration::ZERO,
                connections_max: 100,
            },
            patience: Duration::from_secs(1),
            seed: 0,
        };
        let outcome = Outcome {
            wall: Duration::from_secs(1),
            busy: 0.1,
            client_cpu: Duration::ZERO,
            tally: Tally { due: 1000, done: 500, full: 500, ..Tally::new() },
            interrupted: false,
        };
        let missed = Missed::Behind;
        let latency = Duration::from_millis(1);
        let probe = Probe { rate: Some(1000.0), outcome, latency, missed: Some(missed) };
        let ending = Ending::NeverKept(missed);
        let found = Found { ending, probes: vec![probe], client_bound: false };
        let goal = Goal { latency_max: Duration::from_millis(50), percentile: 99.0 };
        let search = Search::of(&found, &plan, &goal);
        let said = "no rate kept p99 of 50.0 ms even once; at 1000.0 per second: falls behind";
        assert_eq!(search.ending(), said);
        let json: serde_json::Value = serde_json::from_str(&search.json().unwrap()).unwrap();
        let behind = "500 connections per second ended where 1000 should have begun; the latencies \
                      are of those that ended";
        assert_eq!(json["probes"][0]["doubts"], serde_json::json!([behind]));
    }
}
