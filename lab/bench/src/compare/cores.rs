//! What a sweep over cores of the server is for: how many of them are saved at a given rate.

use std::collections::BTreeMap;

use widelane_results::{Results, Row, Status};

use super::rows::{GOODPUT, GOODPUT_WITHIN, RATE};
use crate::server::Subject;

/// Notes how many cores an accelerated server needs for what one as installed does on so many, by
/// the rows behind the first `rows_before`.
pub fn conclude(results: &mut Results, rows_before: usize) {
    let mut sweeps: BTreeMap<(String, &str), Sweep> = BTreeMap::new();
    for row in results.rows[rows_before..].iter().filter(|row| row.status == Status::Ok) {
        let rates = [RATE, GOODPUT, GOODPUT_WITHIN];
        let Some((metric, _)) = rates.iter().find(|(metric, _)| *metric == row.metric) else {
            continue;
        };
        let Some((place, cores, value)) = point(row) else { continue };
        let sweep = sweeps.entry((place, metric)).or_default();
        if row.subject == Subject::Native.name() {
            sweep.native.insert(cores, value);
        } else if row.subject == Subject::Accelerated.name() {
            sweep.accelerated.insert(cores, value);
        }
    }
    for ((place, metric), sweep) in sweeps {
        let unit = if metric == RATE.0 { "handshakes per second" } else { "Gbit/s" };
        let saved = sweep.saved().map(|(rate, cores, needed)| {
            let on = if cores == 1 { "one core".to_owned() } else { format!("{cores} cores") };
            let less = 100.0 * (1.0 - needed / cores as f64);
            format!(
                "{place}: the {rate:.0} {unit} that a server does on {on} as installed need \
                 {needed:.1} accelerated, {less:.0} % less."
            )
        });
        results.notes.extend(saved);
    }
}

/// Scenario without cores, cores, and value, where cores are told.
fn point(row: &Row) -> Option<(String, u64, f64)> {
    let is_cores = |part: &&str| part.ends_with("-cores");
    let cores = row.scenario.split('/').find(is_cores)?.strip_suffix("-cores")?.parse().ok()?;
    let others = row.scenario.split('/').filter(|part| !is_cores(part));
    Some((others.collect::<Vec<_>>().join("/"), cores, row.value?))
}

/// Rates by cores.
#[derive(Default)]
struct Sweep {
    native: BTreeMap<u64, f64>,
    accelerated: BTreeMap<u64, f64>,
}

impl Sweep {
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

    fn row(cores: u32, subject: Subject, value: f64) -> Row {
        Row {
            scenario: format!("nginx/tls1.2/rsa2048/x25519/{cores}-cores/c200"),
            subject: subject.name().to_owned(),
            metric: RATE.0.to_owned(),
            value: Some(value),
            ..Row::default()
        }
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
        let mut results = Results { rows, ..Results::default() };
        conclude(&mut results, 0);
        // What four cores do was not reached.
        assert_eq!(
            results.notes,
            [
                "nginx/tls1.2/rsa2048/x25519/c200: the 1000 handshakes per second that a server \
                 does on one core as installed need 0.6 accelerated, 38 % less.",
                "nginx/tls1.2/rsa2048/x25519/c200: the 2000 handshakes per second that a server \
                 does on 2 cores as installed need 1.2 accelerated, 38 % less.",
            ]
        );
    }

    #[test]
    fn says_nothing_without_a_sweep() {
        let scenario = "nginx/tls1.2/rsa2048/x25519/c200".to_owned();
        let rows = vec![Row { scenario, ..row(1, Subject::Native, 1000.0) }];
        let mut results = Results { rows, ..Results::default() };
        conclude(&mut results, 0);
        assert!(results.notes.is_empty());
    }

    #[test]
    fn says_nothing_of_other_runs() {
        let rows = vec![row(1, Subject::Native, 1.0), row(1, Subject::Accelerated, 2.0)];
        let mut results = Results { rows, ..Results::default() };
        conclude(&mut results, 2);
        assert!(results.notes.is_empty());
    }
}
