//! Results as one HTML file: no scripts, nothing fetched, light and dark, for screen, phone and
//! paper.

mod chart;
mod curves;
mod plot;
mod svg;
mod traces;

use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use widelane_results::{HistogramKind, Results, Row, Tone};
use widelane_tables::Table;

use self::chart::Scale;
use crate::verdict::{Verdict, verdict};
use crate::view::{
    self, Comparison, Cost, Curves, Distribution, Fill, Latency, Map, Ratio, Rejected, Section,
    Sheet,
};
use crate::words::{self, Axis};

/// Shows `results` as a self-contained HTML page, the raw JSON inside.
pub fn html(results: &Results) -> String {
    let json = results.to_json();
    let sections = view::sections(results).into_iter().enumerate();
    let (leads, sections): (Vec<_>, Vec<_>) =
        sections.partition(|(index, section)| *index == 0 || section.metric.answers());
    let page = Page {
        verdict: verdict(results),
        results,
        leads: forests(leads),
        sheets: view::sheets(results),
        traces: view::charts(results).into_iter().map(TracesFigure::of).collect(),
        maps: results.grids.iter().map(Map::of).collect(),
        curves: view::curves(results).into_iter().map(CurvesFigure::of).collect(),
        latencies: view::latencies(results).into_iter().map(LatencyFigure::of).collect(),
        fills: FillFigure::of_families(view::fills(results)),
        paths: view::paths(results),
        distributions: [
            ("Latency", HistogramKind::Latency),
            ("Wait for a batch", HistogramKind::Wait),
        ]
        .into_iter()
        .flat_map(|(what, kind)| {
            view::distributions(results, kind)
                .into_iter()
                .map(move |distribution| DistributionFigure { what, distribution })
        })
        .collect(),
        costs: costs(results),
        sections: forests(sections),
        machine: view::machine(results),
        rejected: view::rejected(results),
        rows: results.rows.iter().map(|row| RawRow::of(results, row)).collect(),
        command: view::command(results),
        json_url: format!("data:application/json;base64,{}", BASE64_STANDARD.encode(json)),
    };
    page.render().expect("memory takes every write")
}

fn forests<'a>(sections: Vec<(usize, Section<'a>)>) -> Vec<Forest<'a>> {
    sections.into_iter().map(|(_, section)| Forest::of(section)).collect()
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    verdict: Verdict,
    results: &'a Results,
    leads: Vec<Forest<'a>>,
    sheets: Vec<Sheet>,
    traces: Vec<TracesFigure<'a>>,
    maps: Vec<Map>,
    curves: Vec<CurvesFigure>,
    latencies: Vec<LatencyFigure>,
    fills: Vec<FillFigure>,
    paths: Vec<Sheet>,
    distributions: Vec<DistributionFigure>,
    costs: Vec<CostFigure>,
    sections: Vec<Forest<'a>>,
    machine: Vec<(&'static str, String)>,
    rejected: Vec<Rejected>,
    rows: Vec<RawRow<'a>>,
    command: String,
    json_url: String,
}

impl Page<'_> {
    fn tone(&self) -> &'static str {
        match self.verdict.tone {
            Tone::Better => "better",
            Tone::Same => "same",
            Tone::Worse => "worse",
            Tone::Unknown => "unknown",
        }
    }

    /// Whether any distribution has that of the server as installed beside it.
    fn compares_distributions(&self) -> bool {
        self.distributions.iter().any(|figure| !figure.distribution.native.is_empty())
    }

    /// The day and minute of the run: `2026-11-21 21:04 UTC`.
    fn when(&self) -> String {
        match self.results.created.split_once('T') {
            Some((day, time)) if time.len() >= 5 && time.is_char_boundary(5) => {
                format!("{day} {} UTC", &time[..5])
            }
            _ => self.results.created.clone(),
        }
    }
}

/// The comparisons of one metric on one scale.
struct Forest<'a> {
    section: Section<'a>,
    scale: Scale,
}

impl<'a> Forest<'a> {
    fn of(section: Section<'a>) -> Self {
        let ratios = section.comparisons.iter().filter_map(Comparison::reliable);
        let scale =
            Scale::around_one(ratios.flat_map(|ratio| ratio.ends.unwrap_or([ratio.centre; 2])));
        Forest { section, scale }
    }

    /// The comparisons by server, protocol, key and mix; those are next to one another.
    fn groups(&self) -> impl Iterator<Item = (String, &[Comparison<'a>])> {
        let same =
            |a: &Comparison<'_>, b: &Comparison<'_>| a.scenario.group() == b.scenario.group();
        let chunks = self.section.comparisons.chunk_by(same);
        chunks.map(|group| (group[0].scenario.group(), group))
    }

    fn has_marks(&self) -> bool {
        self.section.comparisons.iter().any(|comparison| comparison.reliable().is_some())
    }

    fn axis(&self) -> String {
        chart::forest_axis(&self.scale)
    }

    fn mark(&self, comparison: &Comparison<'_>) -> String {
        let Some(ratio) = comparison.reliable() else { return String::new() };
        let less_is_better = self.section.metric.less_is_better;
        // Without bounds nobody knows which way it goes.
        let bounds = Ratio { ends: comparison.bounds(), ..ratio };
        let class = match (bounds.is_less(), bounds.is_more()) {
            _ if bounds.is_alike() => "same",
            (true, _) if less_is_better => "better",
            (_, true) if !less_is_better => "better",
            (false, false) => "same",
            _ => "worse",
        };
        chart::forest_mark(&self.scale, ratio, class, &comparison.title())
    }

    /// Whether some ratio stands on too few rounds for an interval.
    fn lacks_intervals(&self) -> bool {
        let comparisons = self.section.comparisons.iter();
        comparisons.filter(|it| it.reliable().is_some()).any(|it| it.bounds().is_none())
    }

    fn reads(&self) -> &'static str {
        if self.section.comparisons.iter().any(|comparison| comparison.named().is_some()) {
            "At the line at 1 nothing is gained or lost."
        } else if self.section.metric.less_is_better {
            "Left of the line at 1 Widelane needs less."
        } else {
            "Right of the line at 1 Widelane does more."
        }
    }
}

/// Curves along an axis, and their figures.
struct CurvesFigure {
    curves: Curves,
    chart: String,
    tables: Vec<(&'static str, Table)>,
}

impl CurvesFigure {
    fn of(curves: Curves) -> Self {
        let chart = curves::chart(&curves);
        let ratios = curves.ratios().map(|ratios| (curves.ratios_title(), ratios));
        let tables = [(curves.metric.title, curves.table())].into_iter().chain(ratios).collect();
        CurvesFigure { curves, chart, tables }
    }

    /// What a table is called among others.
    fn label(&self, caption: &str) -> String {
        format!("{}: {caption}", self.curves.family)
    }

    fn scales(&self) -> &'static str {
        match self.curves.axis {
            Axis::Size => "both scales are logarithmic",
            Axis::Mix | Axis::Cores | Axis::Jobs | Axis::Load => {
                "the scale of the values is logarithmic"
            }
        }
    }
}

/// Traces, and their figures.
struct TracesFigure<'a> {
    traces: view::Chart<'a>,
    chart: String,
    table: Table,
}

impl<'a> TracesFigure<'a> {
    fn of(traces: view::Chart<'a>) -> Self {
        let (chart, table) = (traces::chart(&traces), traces.table());
        TracesFigure { traces, chart, table }
    }
}

struct LatencyFigure {
    latency: Latency,
    median: String,
    tail: String,
}

impl LatencyFigure {
    fn of(latency: Latency) -> Self {
        let panel = |title: &str, pick: fn(view::Quantiles) -> f64| {
            let point = |point: &view::LatencyPoint| chart::Point {
                connections: point.connections,
                native: pick(point.native),
                accelerated: pick(point.accelerated),
            };
            let points: Vec<_> = latency.points.iter().map(point).collect();
            chart::latency_panel(&format!("{title}, {}", latency.title), &points)
        };
        let median = panel("Median handshake latency", |quantiles| quantiles.p50);
        let tail = panel("99th percentile of the handshake latency", |quantiles| quantiles.p99);
        LatencyFigure { latency, median, tail }
    }

    fn cell(&self, value: &f64) -> String {
        words::quantity(*value, "us")
    }
}

/// How latencies or waits spread.
struct DistributionFigure {
    what: &'static str,
    distribution: Distribution,
}

impl DistributionFigure {
    fn chart(&self) -> String {
        chart::distribution(&self.distribution)
    }
}

/// The runs of kernels, of scenarios that differ in connections alone those of the one that speaks
/// for the server.
struct FillFigure {
    fill: Fill,
    chart: String,
}

impl FillFigure {
    fn of_families(fills: Vec<Fill>) -> Vec<Self> {
        let mut telling: Vec<Fill> = Vec::new();
        for fill in fills {
            let detour = |fill: &Fill| view::detour(fill.connections);
            match telling.iter_mut().find(|known| known.family == fill.family) {
                Some(known) if detour(&fill) < detour(known) => *known = fill,
                Some(_) => {}
                None => telling.push(fill),
            }
        }
        let figure = |fill: Fill| FillFigure { chart: chart::fill_columns(&fill), fill };
        telling.into_iter().map(figure).collect()
    }

    fn summary(&self) -> String {
        let Fill { connections, run_count, .. } = &self.fill;
        let place = connections.map_or(String::new(), |c| format!("{}: ", words::connections(c)));
        format!("{place}{} runs", words::count(*run_count))
    }
}

/// The CPU costs of one scenario as bars.
struct CostFigure {
    title: String,
    bars: Vec<Bar>,
}

struct Bar {
    name: String,
    value: String,
    chart: String,
}

fn costs(results: &Results) -> Vec<CostFigure> {
    let costs = view::costs(results);
    let values = costs.iter().flat_map(|cost| &cost.subjects).map(|subject| subject.value);
    let longest = values.fold(0.0, f64::max);
    let bars = |cost: &Cost| {
        let bar = |subject: &view::SubjectCost| {
            let value = words::quantity(subject.value, "us");
            let title = format!("{}, {}: {value}", cost.title, subject.name);
            let side = if subject.accelerated { "accelerated" } else { "native" };
            let chart = chart::bar(subject.value / longest.max(f64::MIN_POSITIVE), side, &title);
            Bar { name: subject.name.clone(), value, chart }
        };
        cost.subjects.iter().map(bar).collect()
    };
    costs.iter().map(|cost| CostFigure { title: cost.title.clone(), bars: bars(cost) }).collect()
}

/// A row of the file, for the table of all rows.
struct RawRow<'a> {
    row: &'a Row,
    /// The interval of its ratio, if it has one.
    ends: Option<[f64; 2]>,
}

impl<'a> RawRow<'a> {
    fn of(results: &Results, row: &'a Row) -> Self {
        RawRow { row, ends: view::ends(row, view::rounds_behind(results, row)) }
    }

    fn value(&self) -> String {
        words::value(self.row)
    }

    fn ratio(&self) -> String {
        self.row.ratio.map_or(String::new(), words::ratio)
    }

    fn interval(&self) -> String {
        self.ends.map_or(String::new(), |ends| words::interval(Some(ends)))
    }

    fn status(&self) -> String {
        let status = view::status(self.row.status);
        match &self.row.reason {
            Some(reason) => format!("{status}: {reason}"),
            None => status.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::histograms;

    #[test]
    fn runs_are_shown_of_the_connections_that_speak_for_a_server() {
        let told = |scenarios: [&str; 2]| -> Vec<(String, String)> {
            let fills = view::fills(&histograms(&scenarios, HistogramKind::BatchFill));
            let figures = FillFigure::of_families(fills).into_iter();
            figures.map(|figure| (figure.fill.family.clone(), figure.summary())).collect()
        };
        let of = |family: &str, summary: &str| (family.to_owned(), summary.to_owned());
        assert_eq!(
            told(["nginx/1-cores/c400", "nginx/2-cores/c400"]),
            ["1 core", "2 cores"]
                .map(|cores| of(&format!("nginx, {cores}"), "400 connections: 1 runs"))
        );
        assert_eq!(
            told(["nginx/2-cores/c8", "nginx/2-cores/c200"]),
            [of("nginx, 2 cores", "200 connections: 1 runs")]
        );
    }
}
