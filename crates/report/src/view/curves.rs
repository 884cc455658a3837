//! What depends on the size of messages or downloads, as curves and as tables.

use widelane_results::{Results, Row, Status};

use crate::document::{Kind, Table};
use crate::words::{self, Metric, OPERATIONS, Scenario};

/// One metric of one operation or server over sizes.
#[derive(Debug, PartialEq)]
pub struct Curves {
    /// What is measured.
    pub metric: Metric,
    /// The operation, or server, protocol, key and cipher.
    pub family: String,
    /// The curves, ours first.
    pub series: Vec<Series>,
    /// Sizes whose values cannot be relied on, and why.
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
    /// Values by size in bytes, the smallest first.
    pub points: Vec<(u64, f64)>,
    /// Ratios to OpenSSL by size, where there are such.
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

/// The metrics that are drawn over sizes.
const CURVES: [Metric; 3] = [words::CYCLES_PER_BYTE, words::GOODPUT, words::CIPHER_RATIO];

impl Curves {
    /// What is shown, and of what.
    pub fn title(&self) -> String {
        format!("{}: {}", self.family, self.metric.title)
    }

    /// The sizes that any curve has, the smallest first.
    pub fn sizes(&self) -> Vec<u64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut sizes: Vec<u64> = points.map(|(size, _)| *size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The points of a curve that can be relied on.
    pub fn reliable<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (u64, f64)> + 'a {
        let is_doubtful = |size: &u64| self.doubtful.iter().any(|(known, _)| known == size);
        series.points.iter().copied().filter(move |(size, _)| !is_doubtful(size))
    }

    /// The values, sizes to the right.
    pub fn table(&self) -> Table {
        self.tabulate(|series| &series.points, words::figure)
    }

    /// The ratios to OpenSSL, sizes to the right; `None` where there are none.
    pub fn ratios(&self) -> Option<Table> {
        let has_ratios = self.series.iter().any(|series| !series.ratios.is_empty());
        has_ratios.then(|| self.tabulate(|series| &series.ratios, words::ratio))
    }

    fn tabulate(&self, pick: fn(&Series) -> &Vec<(u64, f64)>, shown: fn(f64) -> String) -> Table {
        let sizes = self.sizes();
        let titles: Vec<String> = sizes.iter().map(|size| words::size(*size)).collect();
        let mut columns = vec![("Who", Kind::Words)];
        columns.extend(titles.iter().map(|title| (title.as_str(), Kind::Number)));
        let mut table = Table::new(&columns);
        for series in self.series.iter().filter(|series| !pick(series).is_empty()) {
            let cell = |size: &u64| {
                let value = pick(series).iter().find(|(known, _)| known == size);
                value.map_or("–".to_owned(), |(_, value)| shown(*value))
            };
            let cells = sizes.iter().map(cell);
            table.rows.push([series.name.clone()].into_iter().chain(cells).collect());
        }
        table
    }

    /// What must be said about the figures: doubts, and who is missing.
    pub fn remarks(&self) -> Vec<String> {
        let doubts = self.doubtful.iter();
        let mut remarks: Vec<String> = doubts
            .map(|(size, reason)| format!("{}: not to be relied on: {reason}.", words::size(*size)))
            .collect();
        if !self.missing.is_empty() {
            remarks.push(format!("Missing: {}.", self.missing.join("; ")));
        }
        remarks
    }
}

/// All that depends on sizes, in the order of the file.
pub fn curves(results: &Results) -> Vec<Curves> {
    let mut all: Vec<Curves> = Vec::new();
    for metric in CURVES {
        for row in results.rows.iter().filter(|row| row.metric == metric.name) {
            let scenario = Scenario::parse(&row.scenario);
            let (Some(size), Some(value)) = (scenario.size, row.value) else { continue };
            let family = scenario.family();
            let known =
                all.iter().position(|curves| (curves.metric, &curves.family) == (metric, &family));
            let index = known.unwrap_or_else(|| {
                let missing = missing(results, &family);
                let (series, doubtful) = (Vec::new(), Vec::new());
                all.push(Curves { metric, family, series, doubtful, missing });
                all.len() - 1
            });
            let curves = &mut all[index];
            if let Some(reason) = row.reason.clone().filter(|_| row.status == Status::Rejected)
                && curves.doubtful.iter().all(|(known, _)| *known != size)
            {
                curves.doubtful.push((size, reason));
            }
            let series = series_of(&mut curves.series, row);
            if series.points.iter().all(|(known, _)| *known != size) {
                series.points.push((size, value));
            }
            let is_rate = metric == words::CYCLES_PER_BYTE;
            if let Some(ratio) = openssl_ratio(results, row).filter(|_| is_rate)
                && series.ratios.iter().all(|(known, _)| *known != size)
            {
                series.ratios.push((size, ratio));
            }
        }
    }
    for curves in &mut all {
        curves.series.sort_by_key(|series| series.side);
        for series in &mut curves.series {
            series.points.sort_by_key(|(size, _)| *size);
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

/// Who cannot be timed at an operation, and why, each once.
fn missing(results: &Results, family: &str) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    let rows = results.rows.iter().filter(|row| row.status == Status::NotApplicable);
    for row in rows.filter(|row| Scenario::parse(&row.scenario).family() == family) {
        let text = format!("{}: {}", who(row), row.reason.as_deref().unwrap_or("not applicable"));
        if !missing.contains(&text) {
            missing.push(text);
        }
    }
    missing
}
