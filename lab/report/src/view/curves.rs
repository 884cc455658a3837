//! What depends on sizes, shares or numbers of cores, as curves and as tables.

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
    /// Places on the axis whose values cannot be relied on, and why.
    pub doubtful: Vec<(u64, String)>,
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
    /// Values by place on the axis, the smallest first.
    pub points: Vec<(u64, f64)>,
    /// Ratios to OpenSSL, or to the native server, by place on the axis, where there are such.
    pub ratios: Vec<(u64, f64)>,
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
        let mut places: Vec<u64> = points.map(|(place, _)| *place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The points of a curve that can be relied on.
    pub fn reliable<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (u64, f64)> + 'a {
        let is_doubtful = |place: &u64| self.doubtful.iter().any(|(known, _)| known == place);
        series.points.iter().copied().filter(move |(place, _)| !is_doubtful(place))
    }

    /// The values, the axis to the right.
    pub fn table(&self) -> Table {
        self.tabulate(|series| &series.points, |value| self.shown(value))
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
        has_ratios.then(|| self.tabulate(|series| &series.ratios, words::ratio))
    }

    fn tabulate(
        &self,
        pick: fn(&Series) -> &Vec<(u64, f64)>,
        shown: impl Fn(f64) -> String,
    ) -> Table {
        let places = self.places();
        let titles: Vec<String> = places.iter().map(|place| self.axis.tick(*place)).collect();
        let mut columns = vec![("Who", Kind::Words)];
        columns.extend(titles.iter().map(|title| (title.as_str(), Kind::Number)));
        let mut table = Table::new(&columns);
        for series in self.series.iter().filter(|series| !pick(series).is_empty()) {
            let cell = |place: &u64| {
                let value = pick(series).iter().find(|(known, _)| known == place);
                value.map_or("–".to_owned(), |(_, value)| shown(*value))
            };
            let cells = places.iter().map(cell);
            table.rows.push([series.name.clone()].into_iter().chain(cells).collect());
        }
        table
    }

    /// What must be said about the figures: doubts, and who is missing.
    pub fn remarks(&self) -> Vec<String> {
        let doubts = self.doubtful.iter();
        let doubt = |(place, reason): &(u64, String)| {
            format!("{}: not to be relied on: {reason}.", self.axis.label(*place))
        };
        let mut remarks: Vec<String> = doubts.map(doubt).collect();
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
                let (series, doubtful) = (Vec::new(), Vec::new());
                let unit = row.unit.clone();
                all.push(Curves { metric, unit, axis, family, series, doubtful, missing });
                all.len() - 1
            });
            let curves = &mut all[index];
            if let Some(reason) = row.reason.clone().filter(|_| row.status == Status::Rejected)
                && curves.doubtful.iter().all(|(known, _)| *known != place)
            {
                curves.doubtful.push((place, reason));
            }
            let series = series_of(&mut curves.series, row);
            if series.points.iter().all(|(known, _)| *known != place) {
                series.points.push((place, value));
            }
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
            series.points.sort_by_key(|(place, _)| *place);
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
            .map(|it| (it.family.as_str(), &it.series[0].points[..], it.remarks()))
            .collect();
        let families = [
            "nginx, TLS 1.3, RSA-2048, X25519, 1 connection",
            "nginx, TLS 1.3, RSA-2048, X25519, 200 connections",
        ];
        let everywhere = "Missing: IFMA masked: not installed.".to_owned();
        let doubt = "2 cores: not to be relied on: noise.".to_owned();
        let here = "Missing: IFMA masked, QAT: not installed.".to_owned();
        assert_eq!(
            told,
            [
                (families[0], &[(1, 1.0), (2, 2.0)][..], vec![everywhere]),
                (families[1], &[(1, 3.0), (2, 4.0)][..], vec![doubt, here]),
            ]
        );
    }
}
