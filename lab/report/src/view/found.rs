//! What commands found that compare no servers: figures by subject, traces and maps.

use widelane_results::{Axis, Grid, Results, Row, Status, Trace};
use widelane_tables::{Kind, Table};

use super::{distinct, status};
use crate::words::{self, Scenario};

/// The commands whose rows are told subject by subject.
const COMMANDS: [&str; 4] = ["load/", "power/", "simulate/", "tune/"];

/// The figures of one scenario.
#[derive(Debug, PartialEq)]
pub struct Sheet {
    /// The scenario.
    pub title: String,
    /// Its figures: one line for each subject, or each kind of operation.
    pub table: Table,
}

/// The sheets, in the order of the file.
pub fn sheets(results: &Results) -> Vec<Sheet> {
    let of_command = |row: &&Row| COMMANDS.iter().any(|name| row.scenario.starts_with(name));
    let rows: Vec<&Row> = results.rows.iter().filter(of_command).collect();
    let scenarios = distinct(rows.iter().map(|row| row.scenario.as_str()));
    let sheet = |scenario: &str| {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.scenario == scenario).collect();
        Sheet { title: Scenario::parse(scenario).title(), table: table(&rows) }
    };
    scenarios.into_iter().map(sheet).collect()
}

fn table(rows: &[&Row]) -> Table {
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let metrics = metrics(rows, &subjects);
    let titles: Vec<String> = metrics.iter().map(|metric| words::column(metric)).collect();
    let mut columns = vec![("What", Kind::Words), ("Kernel", Kind::Words)];
    columns.extend(titles.iter().map(|title| (title.as_str(), Kind::Number)));
    columns.push(("Verdict", Kind::Words));
    let mut table = Table::new(&columns);
    for subject in subjects {
        let own = || rows.iter().filter(|row| row.subject == subject);
        let kernel = own().find_map(|row| row.room.clone()).unwrap_or_default();
        let mut cells = vec![subject.to_owned(), kernel];
        let cell = |metric: &&str| {
            let row = own().find(|row| row.metric == *metric);
            row.map_or(String::new(), |row| value(row))
        };
        cells.extend(metrics.iter().map(cell));
        cells.push(own().find_map(|row| judgement(row)).unwrap_or_default());
        table.rows.push(cells);
    }
    table.without_empty_columns()
}

/// The metrics in the order of the subject that has the most of them.
fn metrics<'a>(rows: &[&'a Row], subjects: &[&str]) -> Vec<&'a str> {
    let of = |subject: &str| rows.iter().filter(move |row| row.subject == subject).count();
    let fullest = subjects.iter().max_by_key(|subject| of(subject)).copied();
    let own = rows.iter().filter(|row| Some(row.subject.as_str()) == fullest);
    distinct(own.chain(rows).map(|row| row.metric.as_str()))
}

/// A ratio with its interval to three digits, where it is one; else the value.
fn value(row: &Row) -> String {
    match (row.ratio, row.ratio_low, row.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.3} ({low:.3} to {high:.3})"),
        _ => words::value(row),
    }
}

fn judgement(row: &Row) -> Option<String> {
    match (row.status, &row.reason) {
        (Status::Ok, _) => row.verdict.clone(),
        (other, Some(reason)) => Some(format!("{}: {reason}", status(other))),
        (other, None) => Some(status(other).to_owned()),
    }
}

/// Traces that share their scales.
#[derive(Debug, PartialEq)]
pub struct Chart<'a> {
    /// Scenario and metric.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// What they run along.
    pub along: &'a str,
    /// Unit of the values.
    pub unit: &'a str,
    /// Unit of what they run along.
    pub along_unit: &'a str,
    /// The traces.
    pub traces: Vec<&'a Trace>,
}

/// How a trace went, on a terminal: so many columns.
const SPARK_COLUMNS: usize = 30;

impl Chart<'_> {
    /// The values in figures.
    pub fn table(&self) -> Table {
        let titles = ["First", "Least", "Median", "Most", "Last"].map(|name| (name, Kind::Number));
        let mut table = Table::new(&[&[("What", Kind::Words)], &titles[..]].concat());
        for trace in &self.traces {
            let values: Vec<f64> = trace.points.iter().map(|[_, value]| *value).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let picked = [
                values.first().copied(),
                sorted.first().copied(),
                middle(&sorted),
                sorted.last().copied(),
                values.last().copied(),
            ];
            let shown = |value: Option<f64>| {
                value.map_or(String::new(), |value| words::quantity(value, self.unit))
            };
            table.rows.push([trace.subject.clone()].into_iter().chain(picked.map(shown)).collect());
        }
        table
    }

    /// The values in figures, and the course of each trace in a line; `bar` draws a share of one.
    pub fn table_with_courses(&self, bar: fn(f64) -> char) -> Table {
        let mut table = self.table();
        let along = Table::new(&[(&format!("Along {}", self.along), Kind::Words)]);
        table.columns.extend(along.columns);
        for (row, trace) in table.rows.iter_mut().zip(&self.traces) {
            row.push(course(trace).into_iter().map(bar).collect());
        }
        table
    }
}

/// The median of sorted values: of an even number of them, halfway between the two in the middle.
fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(lower + (upper - lower) / 2.0)
}

/// Averages of equal parts of a trace, as shares of the way from zero to the greatest; where none
/// is far from that, from a little below the least.
fn course(trace: &Trace) -> Vec<f64> {
    let values: Vec<f64> = trace.points.iter().map(|[_, value]| *value).collect();
    let columns = SPARK_COLUMNS.min(values.len());
    let average = |column: usize| {
        let part = &values[column * values.len() / columns..(column + 1) * values.len() / columns];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let averages: Vec<f64> = (0..columns).map(average).collect();
    let most = averages.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let least = averages.iter().copied().fold(most, f64::min);
    let from = if least < most / 2.0 { 0.0 } else { least - (most - least) / 4.0 };
    let share = |value: f64| if from < most { (value - from) / (most - from) } else { 1.0 };
    averages.into_iter().map(share).collect()
}

/// The charts, in the order of the file.
pub fn charts(results: &Results) -> Vec<Chart<'_>> {
    let key = |trace: &Trace| {
        let Trace { scenario, metric, unit, along, .. } = trace;
        (scenario.clone(), metric.clone(), unit.clone(), along.clone())
    };
    let mut charts: Vec<Chart<'_>> = Vec::new();
    for trace in &results.traces {
        match charts.iter_mut().find(|chart| key(chart.traces[0]) == key(trace)) {
            Some(chart) => chart.traces.push(trace),
            None => {
                let metric = words::column(&trace.metric);
                let scenario = Scenario::parse(&trace.scenario).title();
                charts.push(Chart {
                    title: format!("{scenario}: {}", words::uncapitalised(&metric)),
                    metric,
                    along: &trace.along,
                    unit: &trace.unit,
                    along_unit: &trace.along_unit,
                    traces: vec![trace],
                });
            }
        }
    }
    charts
}

/// Shares by two quantities.
#[derive(Debug)]
pub struct Map {
    /// Scenario, subject and metric.
    pub title: String,
    /// What its rows are, and what its columns are.
    pub corner: String,
    /// The columns' places.
    pub columns: Vec<String>,
    /// The rows' places, and their cells.
    pub rows: Vec<(String, Vec<Option<Cell>>)>,
}

/// A share of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell(pub f64);

impl Cell {
    /// How much is lost, from 0 for next to nothing to 3.
    pub fn loss(self) -> usize {
        const KEPT: [f64; 3] = [0.985, 0.95, 0.9];
        KEPT.iter().take_while(|kept| self.0 < **kept).count()
    }

    /// In per cent.
    pub fn text(self) -> String {
        format!("{:.1}", 100.0 * self.0)
    }

    /// In per cent, with a block that is the fuller the less is lost.
    fn shaded(self) -> String {
        format!("{} {}", self.text(), ['█', '▓', '▒', '░'][self.loss()])
    }
}

impl Map {
    /// Takes a grid apart.
    pub fn of(grid: &Grid) -> Self {
        let scenario = Scenario::parse(&grid.scenario).title();
        let metric = words::uncapitalised(&words::column(&grid.metric));
        let places = |axis: &Axis| {
            let place = |place: &f64| words::tick(*place, &axis.unit);
            axis.places.iter().map(place).collect::<Vec<_>>()
        };
        let cells = |row: &Vec<Option<f64>>| row.iter().map(|share| share.map(Cell)).collect();
        Map {
            title: format!("{scenario}, {}: {metric}, %", grid.subject),
            corner: format!("{} by {}", grid.down.name, grid.across.name),
            columns: places(&grid.across),
            rows: places(&grid.down).into_iter().zip(grid.shares.iter().map(cells)).collect(),
        }
    }

    /// As a table of text.
    pub fn table(&self) -> Table {
        let mut columns = vec![(self.corner.as_str(), Kind::Words)];
        columns.extend(self.columns.iter().map(|place| (place.as_str(), Kind::Number)));
        let mut table = Table::new(&columns);
        for (place, cells) in &self.rows {
            let mut row = vec![place.clone()];
            row.extend(cells.iter().map(|cell| cell.map_or(String::new(), Cell::shaded)));
            row.resize(columns.len(), String::new());
            table.rows.push(row);
        }
        table
    }
}

/// A map as a table for a terminal.
pub fn grid_table(grid: &Grid) -> Table {
    Map::of(grid).table()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_lighter() {
        let shaded = [1.0, 0.96, 0.92, 0.8].map(|share| Cell(share).shaded());
        assert_eq!(shaded.concat(), "100.0 █96.0 ▓92.0 ▒80.0 ░");
    }

    #[test]
    fn of_an_even_number_the_median_lies_between_two() {
        let told = [&[][..], &[1.0], &[1.0, 2.0], &[1.0, 2.0, 4.0]].map(middle);
        assert_eq!(told, [None, Some(1.0), Some(1.5), Some(2.0)]);
    }

    #[test]
    fn a_course_is_as_long_as_there_is_room() {
        let trace = |count: u32| Trace {
            points: (0..count).map(|at| [f64::from(at), f64::from(at)]).collect(),
            ..Trace::default()
        };
        assert!(course(&trace(0)).is_empty());
        assert_eq!(course(&trace(3)), [0.0, 0.5, 1.0]);
        let long = course(&trace(1_000));
        assert_eq!((long.len(), long[SPARK_COLUMNS - 1]), (SPARK_COLUMNS, 1.0));
    }

    #[test]
    fn ragged_grids_make_whole_tables() {
        let grid = Grid {
            across: Axis { places: vec![20.0, 50.0], unit: "us".to_owned(), ..Axis::default() },
            down: Axis { places: vec![1.0, 2.0, 5.0], unit: "us".to_owned(), ..Axis::default() },
            shares: vec![vec![Some(1.0), None], vec![Some(0.5)]],
            ..Grid::default()
        };
        let table = grid_table(&grid);
        assert_eq!(table.rows, [["1 µs", "100.0 █", ""], ["2 µs", "50.0 ░", ""]]);
    }
}
