//! What depends on sizes, shares or numbers of cores, as curves and as tables.

use std::collections::BTreeMap;

use widelane_results::{Results, Row, Status};
use widelane_tables::{Kind, Table};

use super::join;
use crate::words::{self, Axis, Metric, OPERATIONS, Scenario};

/// One metric of one operation or server along an axis.
#[derive(Debug, PartialEq)]
pub struct Curves {
    /// What is measured.
    pub metric: Metric,
    /// In which unit.
    pub unit: String,
    /// What it depends on.
    pub axis: Axis,
    /// The operation, or server, protocol, key, cipher and connections.
    pub family: String,
    /// The curves, ours first.
    pub series: Vec<Series>,
    /// Who is missing, and why.
    pub missing: Vec<String>,
}

/// One curve.
#[derive(Debug, PartialEq)]
pub struct Series {
    /// Whose it is.
    pub name: String,
    /// What sets it apart from the others.
    pub side: Side,
    /// Its values, the smallest place on the axis first.
    pub points: Vec<Point>,
    /// Ratios to OpenSSL, or to the native server, by place on the axis, where there are such.
    pub ratios: Vec<(u64, f64)>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where on the axis.
    pub place: u64,
    /// The value.
    pub value: f64,
    /// Why it cannot be relied on, if so.
    pub doubt: Option<String>,
}

impl Series {
    /// The points that can be relied on.
    pub fn reliable(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.doubt.is_none())
    }

    /// Adds what `row` says of its subject at `place`. There is a row for each rival, all with the
    /// same value, and it may be the rival that cannot be relied on.
    fn add(&mut self, place: u64, value: f64, row: &Row) {
        let doubt = || row.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
        let doubt = (row.status == Status::Rejected).then(doubt);
        match self.points.iter_mut().find(|point| point.place == place) {
            None => self.points.push(Point { place, value, doubt }),
            Some(point) if doubt.is_none() => point.doubt = None,
            Some(_) => {}
        }
    }
}

/// Whose a curve is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Ours.
    Ours,
    /// What the system has.
    System,
    /// Another library's.
    Other,
}

/// What is drawn.
const CURVES: [(Metric, Axis); 13] = [
    (words::SERVER_CPU, Axis::Load),
    (words::LATENCY_P50, Axis::Load),
    (words::LATENCY_P99, Axis::Load),
    (words::CYCLES, Axis::Jobs),
    (words::CYCLES_PER_BYTE, Axis::Size),
    (words::GOODPUT, Axis::Size),
    (words::GOODPUT_WITHIN, Axis::Size),
    (words::CIPHER_RATIO, Axis::Size),
    (words::HANDSHAKES, Axis::Cores),
    (words::GOODPUT, Axis::Cores),
    (words::GOODPUT_WITHIN, Axis::Cores),
    (words::REQUESTS_KEPT, Axis::Mix),
    (words::CLOCK, Axis::Mix),
];

impl Curves {
    /// What is shown, and of what.
    pub fn title(&self) -> String {
        format!("{}: {}", self.family, self.metric.title)
    }

    /// The places on the axis that any curve has, the smallest first.
    pub fn places(&self) -> Vec<u64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut places: Vec<u64> = points.map(|point| point.place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The values, the axis to the right.
    pub fn table(&self) -> Table {
        let point = |series: &Series, place| {
            let point = series.points.iter().find(|point| point.place == place);
            point.map(|point| self.shown(point.value))
        };
        self.tabulate(point)
    }

    /// A value. The titles of metrics name all units but that of times, which changes with them.
    fn shown(&self, value: f64) -> String {
        if self.is_time() { words::quantity(value, &self.unit) } else { words::figure(value) }
    }

    /// A round value as the label of a scale.
    pub fn tick(&self, value: f64) -> String {
        if self.is_time() { words::tick(value, &self.unit) } else { value.to_string() }
    }

    fn is_time(&self) -> bool {
        self.unit == "us"
    }

    /// What the ratios are.
    pub fn ratios_title(&self) -> &'static str {
        match self.axis {
            Axis::Load => "Ratio to the server as installed",
            _ => "Times as fast as OpenSSL",
        }
    }

    /// The ratios to OpenSSL or to the native server, the axis to the right; `None` where there are
    /// none.
    pub fn ratios(&self) -> Option<Table> {
        let has_ratios = self.series.iter().any(|series| !series.ratios.is_empty());
        let ratio = |series: &Series, place| {
            let ratio = series.ratios.iter().find(|(known, _)| *known == place);
            ratio.map(|(_, ratio)| words::ratio(*ratio))
        };
        has_ratios.then(|| self.tabulate(ratio))
    }

    fn tabulate(&self, cell: impl Fn(&Series, u64) -> Option<String>) -> Table {
        let places = self.places();
        let titles: Vec<String> = places.iter().map(|place| self.axis.tick(*place)).collect();
        let mut columns = vec![("Who", Kind::Words)];
        columns.extend(titles.iter().map(|title| (title.as_str(), Kind::Number)));
        let mut table = Table::new(&columns);
        for series in &self.series {
            let cells: Vec<_> = places.iter().map(|place| cell(series, *place)).collect();
            if cells.iter().any(Option::is_some) {
                let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
                table.rows.push([series.name.clone()].into_iter().chain(cells).collect());
            }
        }
        table
    }

    /// What must be said about the figures: doubts, and who is missing.
    pub fn remarks(&self) -> Vec<String> {
        let mut doubts: BTreeMap<(u64, &str), Vec<&str>> = BTreeMap::new();
        for series in &self.series {
            for Point { place, doubt, .. } in &series.points {
                if let Some(doubt) = doubt {
                    doubts.entry((*place, doubt)).or_default().push(&series.name);
                }
            }
        }
        let doubt = |((place, reason), names): ((u64, &str), Vec<&str>)| {
            let (place, names) = (self.axis.label(place), names.join(", "));
            format!("{place}, {names}: not to be relied on: {reason}.")
        };
        let mut remarks: Vec<String> = doubts.into_iter().map(doubt).collect();
        if !self.missing.is_empty() {
            remarks.push(format!("Missing: {}.", self.missing.join("; ")));
        }
        remarks
    }
}

/// All curves, in the order of the file. What has one place on its axis only makes none where the
/// tables of comparisons have it, which leave out numbers of jobs.
pub fn curves(results: &Results) -> Vec<Curves> {
    let mut all: Vec<Curves> = Vec::new();
    for (metric, axis) in CURVES {
        for row in results.rows.iter().filter(|row| row.metric == metric.name) {
            let scenario = Scenario::parse(&row.scenario);
            let (Some(place), Some(value)) = (axis.of(&scenario), row.value) else { continue };
            let connections = scenario.connections.map(words::connections);
            let family = join([Some(scenario.family_along(axis)), connections]).unwrap_or_default();
            let same = |known: &Curves| {
                (known.metric, known.axis, &known.family) == (metric, axis, &family)
            };
            let index = all.iter().position(same).unwrap_or_else(|| {
                let missing = missing(results, &scenario, axis);
                let (unit, series) = (row.unit.clone(), Vec::new());
                all.push(Curves { metric, unit, axis, family, series, missing });
                all.len() - 1
            });
            let series = series_of(&mut all[index].series, row);
            series.add(place, value, row);
            let ratio = match axis {
                Axis::Load => row
                    .ratio
                    .filter(|_| row.rival.as_deref() == Some("native") && row.status == Status::Ok),
                _ => openssl_ratio(results, row)
                    .filter(|_| [words::CYCLES_PER_BYTE, words::CYCLES].contains(&metric)),
            };
            if let Some(ratio) = ratio
                && series.ratios.iter().all(|(known, _)| *known != place)
            {
                series.ratios.push((place, ratio));
            }
        }
    }
    let is_elsewhere = |it: &Curves| words::METRICS.contains(&it.metric) && it.axis != Axis::Jobs;
    all.retain(|curves| curves.places().len() > 1 || !is_elsewhere(curves));
    for curves in &mut all {
        curves.series.sort_by_key(|series| series.side);
        for series in &mut curves.series {
            series.points.sort_by_key(|point| point.place);
        }
    }
    all
}

/// The curve that `row` belongs to.
fn series_of<'a>(all: &'a mut Vec<Series>, row: &Row) -> &'a mut Series {
    let name = who(row);
    let index = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
        let side = match row.subject.as_str() {
            "openssl" | "native" | "native-masked" => Side::System,
            subject if words::is_rival(subject) => Side::Other,
            _ => Side::Ours,
        };
        all.push(Series { name, side, points: Vec::new(), ratios: Vec::new() });
        all.len() - 1
    });
    &mut all[index]
}

/// Whose row it is: of our rooms, their names.
fn who(row: &Row) -> String {
    match (&row.room, row.subject.as_str()) {
        (Some(room), "widelane") => room.clone(),
        (_, subject) => words::subject(subject).to_owned(),
    }
}

/// How many times as fast as OpenSSL the subject of `row` is.
fn openssl_ratio(results: &Results, row: &Row) -> Option<f64> {
    let same = |other: &&Row| {
        (&other.scenario, &other.subject, &other.room) == (&row.scenario, &row.subject, &row.room)
            && other.metric == OPERATIONS.name
            && other.status == Status::Ok
            && other.rival.as_deref() == Some("openssl")
    };
    results.rows.iter().find(same)?.ratio
}

/// Who cannot be timed where `scenario` is, all of one reason together. What cannot be started is
/// missing at all numbers of connections.
fn missing(results: &Results, scenario: &Scenario, axis: Axis) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let rows = results.rows.iter().filter(|row| row.status == Status::NotApplicable);
    let same = |row: &&Row| {
        let other = Scenario::parse(&row.scenario);
        // Of what cannot be started there is server and key alone.
        let is_unstarted = other.server.is_some() && other.connections.is_none();
        let is_unstarted = is_unstarted && other.load.is_none();
        let is_part = other.names().all(|name| scenario.names().any(|own| own == name));
        let is_whole = other.family_along(axis) == scenario.family_along(axis);
        is_whole && other.connections == scenario.connections || is_unstarted && is_part
    };
    for row in rows.filter(same) {
        let (reason, name) = (row.reason.as_deref().unwrap_or("not applicable"), who(row));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let text = |(reason, names): (&str, Vec<String>)| format!("{}: {reason}", names.join(", "));
    reasons.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_of_jobs_has_a_table_and_one_size_that_is_compared_elsewhere_has_none() {
        let row = |scenario: &str, metric: Metric| Row {
            scenario: scenario.to_owned(),
            subject: "widelane".to_owned(),
            room: Some("ifma512".to_owned()),
            metric: metric.name.to_owned(),
            value: Some(53_000.0),
            rival: Some("openssl".to_owned()),
            ratio: Some(0.5),
            ..Row::default()
        };
        let jobs = row("x25519/derive/1-jobs", words::CYCLES);
        let size = row("nginx/tls1.3/rsa2048/aes128-gcm/16MiB/c4", words::GOODPUT);
        let results = Results { rows: vec![jobs, size], ..Results::default() };
        let families: Vec<String> = curves(&results).into_iter().map(|it| it.family).collect();
        assert_eq!(families, ["X25519 derive"]);
    }

    #[test]
    fn no_ratio_of_a_partial_load_rests_on_rejected_rounds() {
        let row = |load: u32, status| Row {
            scenario: format!("nginx/tls1.3/rsa2048/x25519/load{load}"),
            subject: "accelerated".to_owned(),
            metric: words::SERVER_CPU.name.to_owned(),
            value: Some(100.0),
            rival: Some("native".to_owned()),
            ratio: Some(0.5),
            status,
            reason: (status == Status::Rejected).then(|| "noise".to_owned()),
            ..Row::default()
        };
        let rows = vec![row(30, Status::Ok), row(60, Status::Rejected)];
        let curves = curves(&Results { rows, ..Results::default() });
        let ratios = curves[0].ratios().unwrap();
        assert_eq!(ratios.rows[0][1..], ["0.50×", "–"]);
    }

    #[test]
    fn one_rejected_subject_leaves_the_points_of_the_others() {
        let row = |load: u32, subject: &str, rival: Option<&str>, status| Row {
            scenario: format!("haproxy/tls1.3/rsa2048/x25519/load{load}"),
            subject: subject.to_owned(),
            metric: words::SERVER_CPU.name.to_owned(),
            value: Some(100.0),
            rival: rival.map(str::to_owned),
            status,
            reason: (status == Status::Rejected).then(|| "noise".to_owned()),
            ..Row::default()
        };
        let (ok, rejected) = (Status::Ok, Status::Rejected);
        let at = |load, of_rival| {
            [
                row(load, "native", None, ok),
                row(load, "accelerated", Some("haproxy-aws-lc"), of_rival),
                row(load, "accelerated", Some("native"), ok),
                row(load, "haproxy-aws-lc", Some("native"), of_rival),
            ]
        };
        let rows = [at(30, ok), at(60, rejected)].concat();
        let curves = curves(&Results { rows, ..Results::default() }).remove(0);
        let places = |series: &Series| series.reliable().map(|point| point.place).collect();
        let reliable: Vec<Vec<u64>> = curves.series.iter().map(places).collect();
        assert_eq!(reliable, [vec![30, 60], vec![30, 60], vec![30]]);
        let [remark] = &curves.remarks()[..] else { panic!("{:?}", curves.remarks()) };
        let rival = words::subject("haproxy-aws-lc");
        assert!(remark.ends_with(&format!(", {rival}: not to be relied on: noise.")), "{remark}");
    }

    #[test]
    fn each_number_of_connections_has_curves_and_doubts_of_its_own() {
        let row = |scenario: &str, value: f64| Row {
            scenario: scenario.to_owned(),
            subject: "accelerated".to_owned(),
            metric: words::HANDSHAKES.name.to_owned(),
            value: Some(value),
            ..Row::default()
        };
        let doubtful = Row {
            status: Status::Rejected,
            reason: Some("noise".to_owned()),
            ..row("nginx/tls1.3/rsa2048/x25519/2-cores/c200", 4.0)
        };
        let missing = |scenario: &str, subject: &str| Row {
            subject: subject.to_owned(),
            value: None,
            status: Status::NotApplicable,
            reason: Some("not installed".to_owned()),
            ..row(scenario, 0.0)
        };
        let rows = vec![
            row("nginx/tls1.3/rsa2048/x25519/1-cores/c1", 1.0),
            row("nginx/tls1.3/rsa2048/x25519/1-cores/c200", 3.0),
            row("nginx/tls1.3/rsa2048/x25519/2-cores/c1", 2.0),
            doubtful,
            missing("nginx/rsa2048", "native-masked"),
            missing("nginx/ecdsa-p256", "native-masked"),
            missing("nginx/tls1.3/rsa2048/x25519/2-cores/c200", "QAT"),
        ];
        let curves = curves(&Results { rows, ..Results::default() });
        let told: Vec<_> = curves
            .iter()
            .map(|it| {
                let points = it.series[0].points.iter().map(|point| (point.place, point.value));
                (it.family.as_str(), points.collect::<Vec<_>>(), it.remarks())
            })
            .collect();
        let families = [
            "nginx, TLS 1.3, RSA-2048, X25519, 1 connection",
            "nginx, TLS 1.3, RSA-2048, X25519, 200 connections",
        ];
        let everywhere = "Missing: IFMA masked: not installed.".to_owned();
        let doubt = "2 cores, accelerated: not to be relied on: noise.".to_owned();
        let here = "Missing: IFMA masked, QAT: not installed.".to_owned();
        assert_eq!(
            told,
            [
                (families[0], vec![(1, 1.0), (2, 2.0)], vec![everywhere]),
                (families[1], vec![(1, 3.0), (2, 4.0)], vec![doubt, here]),
            ]
        );
    }
}
