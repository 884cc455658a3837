//! What a sweep over cores of the server is for: how many of them are saved at a given rate.

use std::collections::BTreeMap;

use widelane_results::{BUSY_SHARE, Measurement, Pair, Results, Row, Status};

use super::rows::{GOODPUT, GOODPUT_WITHIN, RATE};
use crate::server::Subject;
use crate::stats::median;

/// Notes how many cores an accelerated server needs for what one as installed does on each number
/// of cores, by the rows behind the first `rows_before`. Only rows that measure how much a server
/// can do count.
pub fn conclude(results: &mut Results, rows_before: usize) {
    let mut sweeps: BTreeMap<(String, &str), Sweep> = BTreeMap::new();
    for row in results.rows[rows_before..].iter().filter(|row| row.status == Status::Ok) {
        let rates = [RATE, GOODPUT, GOODPUT_WITHIN];
        let Some((metric, _)) = rates.iter().find(|(metric, _)| *metric == row.metric) else {
            continue;
        };
        // Under a limit the highest rate was searched, and refused where clients were in the way.
        if *metric != GOODPUT_WITHIN.0 && !is_capacity(&results.pairs, &row.scenario) {
            continue;
        }
        let Some((place, cores, value)) = point(row) else { continue };
        let sweep = sweeps.entry((place, metric)).or_default();
        if row.subject == Subject::Native.name() {
            sweep.native.insert(cores, value);
        } else if row.subject == Subject::Accelerated.name() {
            sweep.accelerated.insert(cores, value);
            sweep.has_lane_cpus |= has_lane_cpus(&results.pairs, &row.scenario);
        }
    }
    let notes = sweeps.iter().flat_map(|((place, metric), sweep)| {
        sweep.saved().map(move |saved| sweep.sentence(place, metric, saved))
    });
    let notes: Vec<String> = notes.collect();
    notes.into_iter().for_each(|note| results.note(note));
}

/// The rounds of a scenario that count, as far as they measured `subject`.
fn measured<'a>(
    pairs: &'a [Pair],
    scenario: &'a str,
    subject: Subject,
) -> impl Iterator<Item = &'a Measurement> {
    let rounds = pairs.iter().filter(move |pair| pair.scenario == scenario);
    let rounds = rounds.filter(move |pair| pair.objection(&[subject.name()]).is_none());
    rounds.flat_map(|pair| &pair.measurements).filter(move |it| it.subject == subject.name())
}

/// Whether what servers did in a scenario is what they can do: clients did not wait for arrivals,
/// and both servers used their CPUs up.
fn is_capacity(pairs: &[Pair], scenario: &str) -> bool {
    [Subject::Native, Subject::Accelerated].into_iter().all(|subject| {
        let is_closed = |it: &Measurement| it.arrivals_due.is_none();
        let shares: Vec<f64> = measured(pairs, scenario, subject)
            .filter(|it| is_closed(it))
            .map(Measurement::server_share)
            .collect();
        median(&shares).is_some_and(|share| share >= BUSY_SHARE)
    })
}

/// Whether a lane process took part of the work on CPUs that are not counted as the server's.
fn has_lane_cpus(pairs: &[Pair], scenario: &str) -> bool {
    measured(pairs, scenario, Subject::Accelerated).any(|it| it.lane_cpu_s > 0.0)
}

/// Scenario without cores, cores, and value, if the scenario names cores.
fn point(row: &Row) -> Option<(String, u64, f64)> {
    let is_cores = |part: &&str| part.ends_with("-cores");
    let cores = row.scenario.split('/').find(is_cores)?.strip_suffix("-cores")?.parse().ok()?;
    let others = row.scenario.split('/').filter(|part| !is_cores(part));
    Some((others.collect::<Vec<_>>().join("/"), cores, row.value?))
}

/// A figure of which three digits or so tell enough: `1600`, `12.5`, `0.63`.
fn figure(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Rates by cores.
#[derive(Default)]
struct Sweep {
    native: BTreeMap<u64, f64>,
    accelerated: BTreeMap<u64, f64>,
    /// Whether the accelerated server had lane CPUs besides.
    has_lane_cpus: bool,
}

impl Sweep {
    /// The sentence about a rate that a number of cores reach as installed, and `needed`
    /// accelerated.
    fn sentence(
        &self,
        place: &str,
        metric: &str,
        (rate, cores, needed): (f64, u64, f64),
    ) -> String {
        let unit = match metric {
            _ if metric == RATE.0 => "handshakes per second",
            _ if metric == GOODPUT_WITHIN.0 => "Gbit/s within the limit",
            _ => "Gbit/s",
        };
        let on = if cores == 1 { "one core".to_owned() } else { format!("{cores} cores") };
        let less = (100.0 * (1.0 - needed / cores as f64)).round();
        let compared = match less {
            0.0 => "as many".to_owned(),
            less if less > 0.0 => format!("{less} % less"),
            more => format!("{} % more", -more),
        };
        let besides = if self.has_lane_cpus { ", lane CPUs not counted" } else { "" };
        let (rate, needed) = (figure(rate), figure(needed));
        format!(
            "{place}: the {rate} {unit} that a server does on {on} as installed need {needed} \
             accelerated, {compared}{besides}."
        )
    }

    /// For each rate of the server as installed: the rate, its cores, and those that it needs
    /// accelerated, as far as that was measured.
    fn saved(&self) -> impl Iterator<Item = (f64, u64, f64)> + '_ {
        self.native.iter().filter_map(|(cores, rate)| Some((*rate, *cores, self.needed(*rate)?)))
    }

    /// The cores at which straight lines through what was measured, and through nothing on none,
    /// reach `rate`.
    fn needed(&self, rate: f64) -> Option<f64> {
        let mut before = (0.0, 0.0);
        for (cores, reached) in &self.accelerated {
            let here = (*cores as f64, *reached);
            if here.1 >= rate && here.1 > before.1 {
                let part = (rate - before.1) / (here.1 - before.1);
                return Some(before.0 + part * (here.0 - before.0));
            }
            before = here;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "nginx/tls1.2/rsa2048/x25519";

    fn row(cores: u32, subject: Subject, value: f64) -> Row {
        Row {
            scenario: format!("{PLACE}/{cores}-cores/c200"),
            subject: subject.name().to_owned(),
            metric: RATE.0.to_owned(),
            value: Some(value),
            ..Row::default()
        }
    }

    /// A round in which both servers used such a share of their CPUs.
    fn pair(scenario: &str, cores: u32, shares: [f64; 2], due: Option<f64>) -> Pair {
        let subjects = [Subject::Native, Subject::Accelerated];
        let measurements = subjects.into_iter().zip(shares).map(|(subject, share)| Measurement {
            subject: subject.name().to_owned(),
            wall_s: 0.5,
            cpu_s: 0.5 * share * f64::from(cores),
            server_cpus: cores,
            arrivals_due: due,
            ..Measurement::default()
        });
        let measurements = measurements.collect();
        Pair { scenario: scenario.to_owned(), measurements, ..Pair::default() }
    }

    /// What is noted of rows whose servers used such a share of their CPUs.
    fn notes(rows: Vec<Row>, shares: [f64; 2]) -> Vec<String> {
        let cores = |row: &Row| point(row).map_or(1, |(_, cores, _)| cores as u32);
        let pairs = rows.iter().map(|row| pair(&row.scenario, cores(row), shares, None)).collect();
        let mut results = Results { rows, pairs, ..Results::default() };
        conclude(&mut results, 0);
        results.notes
    }

    #[test]
    fn tells_the_cores_that_a_rate_needs() {
        let rows = vec![
            row(1, Subject::Native, 1000.0),
            row(2, Subject::Native, 2000.0),
            row(4, Subject::Native, 5000.0),
            row(1, Subject::Accelerated, 1600.0),
            row(2, Subject::Accelerated, 3200.0),
        ];
        // What four cores do was not reached.
        assert_eq!(
            notes(rows, [0.99, 0.95]),
            [
                "nginx/tls1.2/rsa2048/x25519/c200: the 1000 handshakes per second that a server \
                 does on one core as installed need 0.62 accelerated, 38 % less.",
                "nginx/tls1.2/rsa2048/x25519/c200: the 2000 handshakes per second that a server \
                 does on 2 cores as installed need 1.25 accelerated, 38 % less.",
            ]
        );
    }

    #[test]
    fn what_is_needed_may_be_more_or_as_many() {
        let at = |accelerated: f64| {
            let rows = vec![
                Row { metric: GOODPUT.0.to_owned(), ..row(1, Subject::Native, 0.4) },
                Row { metric: GOODPUT.0.to_owned(), ..row(1, Subject::Accelerated, accelerated) },
                Row { metric: GOODPUT.0.to_owned(), ..row(2, Subject::Accelerated, 0.8) },
            ];
            notes(rows, [0.99, 0.99]).concat()
        };
        let more = at(0.2);
        assert!(more.contains("the 0.40 Gbit/s that a server does on one core"), "{more}");
        assert!(more.ends_with("need 1.33 accelerated, 33 % more."), "{more}");
        assert!(at(0.4).ends_with("need 1.00 accelerated, as many."), "{}", at(0.4));
    }

    #[test]
    fn a_server_that_had_time_to_spare_does_not_tell_what_it_needs() {
        let rows = || vec![row(1, Subject::Native, 1000.0), row(1, Subject::Accelerated, 1000.0)];
        assert_eq!(notes(rows(), [0.99, 0.99]).len(), 1);
        assert_eq!(notes(rows(), [0.99, 0.6]), [""; 0], "clients were the limit");
        assert_eq!(notes(rows(), [0.6, 0.99]), [""; 0]);
        // At a partial load both get the same arrivals.
        let scenario = format!("{PLACE}/1-cores/load90");
        let rows = rows().into_iter().map(|row| Row { scenario: scenario.clone(), ..row });
        let pairs = vec![pair(&scenario, 1, [0.95, 0.95], Some(500.0))];
        let mut results = Results { rows: rows.collect(), pairs, ..Results::default() };
        conclude(&mut results, 0);
        assert_eq!(results.notes, [""; 0]);
    }

    #[test]
    fn lane_cpus_come_on_top() {
        let rows = vec![row(1, Subject::Native, 1000.0), row(1, Subject::Accelerated, 1600.0)];
        let mut pairs = vec![pair(&rows[0].scenario, 1, [0.99, 0.99], None)];
        pairs[0].measurements[1].lane_cpu_s = 0.2;
        pairs[0].measurements[1].cpu_s += 0.2;
        let mut results = Results { rows, pairs, ..Results::default() };
        conclude(&mut results, 0);
        let note = results.notes.concat();
        assert!(note.ends_with("0.62 accelerated, 38 % less, lane CPUs not counted."), "{note}");
    }

    #[test]
    fn says_nothing_without_a_sweep() {
        let scenario = "nginx/tls1.2/rsa2048/x25519/c200".to_owned();
        let row = |subject, value| Row { scenario: scenario.clone(), ..row(1, subject, value) };
        let rows = vec![row(Subject::Native, 1000.0), row(Subject::Accelerated, 1600.0)];
        assert_eq!(notes(rows, [0.99, 0.99]), [""; 0]);
    }

    #[test]
    fn says_nothing_of_other_runs() {
        let rows = vec![row(1, Subject::Native, 1.0), row(1, Subject::Accelerated, 2.0)];
        let pairs = vec![pair(&rows[0].scenario, 1, [0.99, 0.99], None)];
        let mut results = Results { rows, pairs, ..Results::default() };
        conclude(&mut results, 2);
        assert!(results.notes.is_empty());
    }
}
