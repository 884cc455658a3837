//! What went on inside the servers: the paths of operations, and how waits and latencies spread.

use widelane_results::{Bucket, Histogram, HistogramKind, Operations, Results};
use widelane_tables::{Kind, Table};

use super::{Sheet, detour, join, mode};
use crate::words::{self, Scenario};

/// The paths that an operation takes: in a batch, out of a pool, alone, at once, and left to
/// OpenSSL's default provider.
const PATHS: [&str; 5] = ["in batches", "from a pool", "alone", "at once", "by OpenSSL"];

/// By which paths the operations of each server went, of those scenarios that differ in connections
/// alone in the one that speaks for the server.
pub fn paths(results: &Results) -> Vec<Sheet> {
    let place = |operations: &Operations| {
        let scenario = Scenario::parse(&operations.scenario);
        let family = scenario.title_without_connections();
        (join([Some(family), mode(&operations.subject)]), scenario.connections)
    };
    let telling = |operations: &&Operations| {
        let (family, connections) = place(operations);
        let rivals = results.operations.iter().map(place).filter(|(other, _)| *other == family);
        rivals.map(|(_, connections)| detour(connections)).min() == Some(detour(connections))
    };
    let title = |operations: &Operations| {
        let (family, connections) = place(operations);
        join([family, connections.map(words::connections)]).unwrap_or_default()
    };
    let mut columns =
        vec![("Operation", Kind::Words), ("Count", Kind::Number), ("Together", Kind::Number)];
    columns.push(("Jobs per run", Kind::Number));
    columns.extend(PATHS.map(|path| (path, Kind::Number)));
    let told = |operations: &Operations| Some((title(operations), row(operations)?));
    let rows: Vec<_> = results.operations.iter().filter(telling).filter_map(told).collect();
    let of_server = |rows: &[(String, Vec<String>)]| {
        let mut table = Table::new(&columns);
        table.rows.extend(rows.iter().map(|(_, row)| row.clone()));
        Sheet { title: rows[0].0.clone(), table: table.without_empty_columns() }
    };
    rows.chunk_by(|a, b| a.0 == b.0).map(of_server).collect()
}

/// The paths of one kind of operation; nothing where there was none.
fn row(operations: &Operations) -> Option<Vec<String>> {
    let Operations { batched, pooled, single, synchronous, delegated, .. } = *operations;
    let made = batched.saturating_add(operations.pool_made);
    let waited = batched.saturating_add(single);
    // What met no other, or ran by a kernel of one lane, is no batch. Runs also count what ran at
    // once, but there are older results without meetings, and pools have none. A job may be counted
    // in the window, and its run before.
    let [jobs, groups] = match operations.meetings {
        0 => [made, operations.batches],
        meetings => [waited, meetings],
    };
    let is_batched = operations.lanes != 1 && jobs as f64 >= groups as f64 * 1.05;
    let [batched, single] =
        if is_batched { [batched, single] } else { [0, single.saturating_add(batched)] };
    let by_path = [batched, pooled, single, synchronous, delegated];
    let count = by_path.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    if count == 0 {
        return None;
    }
    let jobs = (operations.batches > 0 && is_batched)
        .then(|| format!("{:.1}", made as f64 / operations.batches as f64));
    let together = (operations.meetings > 0)
        .then(|| format!("{:.1}", waited as f64 / operations.meetings as f64));
    let kind = match operations.kind.as_str() {
        "other" => "all others".to_owned(),
        kind => words::operation(kind),
    };
    let mut row = vec![kind, words::count(count)];
    row.extend([together, jobs].map(Option::unwrap_or_default));
    row.extend(by_path.map(|part| words::share(part as f64 / count as f64)));
    Some(row)
}

/// One distribution over time, or two to compare.
#[derive(Debug, PartialEq)]
pub struct Distribution {
    /// What is distributed, and where.
    pub title: String,
    /// As installed; nothing where there is no such thing.
    pub native: Vec<Bucket>,
    /// Accelerated.
    pub accelerated: Vec<Bucket>,
}

/// The distributions of one kind, of those scenarios that differ in connections alone in the one
/// that speaks for the server.
pub fn distributions(results: &Results, kind: HistogramKind) -> Vec<Distribution> {
    let of_kind = || results.histograms.iter().filter(move |histogram| histogram.kind == kind);
    let place = |histogram: &Histogram| {
        let scenario = Scenario::parse(&histogram.scenario);
        (scenario.title_without_connections(), detour(scenario.connections))
    };
    let telling = |histogram: &&Histogram| {
        let (family, detour) = place(histogram);
        let rivals = of_kind().map(place).filter(|(other, _)| *other == family);
        rivals.map(|(_, detour)| detour).min() == Some(detour)
    };
    let ours = of_kind().filter(|histogram| !words::is_rival(&histogram.subject));
    ours.filter(telling)
        .filter(|histogram| histogram.buckets.iter().any(|bucket| bucket.count > 0))
        .map(|histogram| {
            let native = of_kind()
                .find(|native| native.scenario == histogram.scenario && native.subject == "native");
            let title = Scenario::parse(&histogram.scenario).title();
            Distribution {
                title: join([Some(title), mode(&histogram.subject)]).unwrap_or_default(),
                native: native.map(|native| native.buckets.clone()).unwrap_or_default(),
                accelerated: histogram.buckets.clone(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::histograms;

    #[test]
    fn paths_of_several_numbers_of_cores_have_titles_of_their_own() {
        let operations = |scenario: &str| Operations {
            scenario: scenario.to_owned(),
            subject: "accelerated".to_owned(),
            kind: "rsa-2048".to_owned(),
            single: 1,
            ..Operations::default()
        };
        let operations = ["nginx/1-cores/c400", "nginx/2-cores/c400"].map(operations).into();
        let results = Results { operations, ..Results::default() };
        let titles: Vec<String> = paths(&results).into_iter().map(|sheet| sheet.title).collect();
        assert_eq!(titles, ["nginx, 1 core, 400 connections", "nginx, 2 cores, 400 connections"]);
    }

    #[test]
    fn what_met_others_is_batched_whatever_else_ran() {
        let batched = |operations: Operations| row(&operations).map(|row| row[4].clone());
        let of = |lanes, batched, meetings, batches| Operations {
            lanes,
            batched,
            meetings,
            batches,
            ..Operations::default()
        };
        // Most runs were of operations whose caller could not wait.
        let apache = Operations { synchronous: 1_890, ..of(8, 1_890, 306, 2_257) };
        assert_eq!(batched(apache).as_deref(), Some("50 %"));
        assert_eq!(batched(of(8, 1_890, 1_880, 1_880)).as_deref(), Some(""));
        // Several waited at a time, for a kernel of one lane.
        assert_eq!(batched(of(1, 1_890, 306, 1_890)).as_deref(), Some(""));
    }

    #[test]
    fn distributions_of_all_numbers_of_cores_are_told() {
        // The connections that speak for one core do not for two.
        let scenarios = ["nginx/1-cores/c200", "nginx/1-cores/c400", "nginx/2-cores/c400"];
        let results = histograms(&scenarios, HistogramKind::Wait);
        let told = distributions(&results, HistogramKind::Wait);
        let titles: Vec<&str> = told.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(titles, ["nginx, 1 core, 200 connections", "nginx, 2 cores, 400 connections"]);
    }
}
