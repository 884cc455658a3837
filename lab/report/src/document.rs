//! Results as a sequence of blocks, the common content of terminal and Markdown.

use widelane_results::Results;
use widelane_tables::{Block, Kind, Style, Table, show};

use crate::verdict::verdict;
use crate::view::{self, Section, Sheet};
use crate::words::{self, Axis};

/// Shows `results` on a terminal: the answer first, then the comparisons, latencies, batches, what
/// was rejected, and how to repeat the run.
pub fn terminal(results: &Results, style: &Style) -> String {
    show(document(results), style)
}

/// Shows several results on a terminal, each below the name of its file.
pub fn terminal_of_files(files: &[(String, Results)], style: &Style) -> String {
    let named = |(name, results): &(String, Results)| {
        [Block::Heading(name.clone())].into_iter().chain(document(results))
    };
    show(files.iter().flat_map(named), style)
}

/// The answer first, then the comparisons, latencies, batches, what was rejected, how to repeat the
/// run.
pub fn document(results: &Results) -> Vec<Block> {
    let verdict = verdict(results);
    let mut blocks = vec![Block::Lead(verdict.tone, verdict.sentence), Block::Text(verdict.detail)];
    if !results.complete {
        blocks.push(Block::Warning(view::PARTIAL.to_owned()));
    }
    let mut told: Vec<Block> = Vec::new();
    for section in view::sections(results) {
        let common = common_names(&section);
        let heading = [section.metric.heading()].into_iter().chain(joined(&common));
        blocks.push(Block::Heading(heading.collect::<Vec<_>>().join(": ")));
        blocks.push(Block::Table(comparisons(&section, &common)));
        // Other metrics of a scenario share the fate of the first: that is told once.
        let news = objections(&section).into_iter().filter(|objection| !told.contains(objection));
        let news: Vec<Block> = news.collect();
        told.extend(news.iter().cloned());
        blocks.extend(news);
    }
    blocks.extend(found(results));
    blocks.extend(view::curves(results).iter().flat_map(curves));
    blocks.extend(latencies(results));
    blocks.extend(fills(results));
    blocks.extend(paths(results));
    blocks.extend(rejected(results));
    if !results.notes.is_empty() {
        blocks.push(Block::Heading("Notes".to_owned()));
        blocks.extend(results.notes.iter().cloned().map(Block::Text));
    }
    let machine = Table::of_facts(view::machine(results));
    blocks.extend([Block::Heading("Machine".to_owned()), Block::Table(machine)]);
    blocks.extend([Block::Heading("To repeat".to_owned()), Block::Command(view::command(results))]);
    blocks
}

/// What the scenarios of all comparisons have in common: told once, above them.
fn common_names<'a>(section: &'a Section<'_>) -> Vec<&'a str> {
    let [first, others @ ..] = section.comparisons.as_slice() else { return Vec::new() };
    let in_all = |name: &&str| others.iter().all(|it| it.scenario.names().any(|it| it == *name));
    first.scenario.names().filter(in_all).collect()
}

fn joined(names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(", "))
}

fn comparisons(section: &Section<'_>, common: &[&str]) -> Table {
    let one_rival = section.only_rival().is_some();
    let mut table = Table::new(&[
        ("Scenario", Kind::Words),
        ("What", Kind::Words),
        ("Load", Kind::Number),
        ("Size", Kind::Number),
        ("ChaCha20", Kind::Number),
        ("Cores", Kind::Number),
        ("Conn.", Kind::Number),
        ("Kernel", Kind::Words),
        (section.our_title(), Kind::Number),
        ("Against", Kind::Words),
        (&section.rival_title(), Kind::Number),
        ("Ratio", Kind::Figure),
        ("95 % interval", Kind::Words),
    ]);
    for comparison in &section.comparisons {
        let (ratio, interval) = match comparison.reliable() {
            Some(_) => (comparison.ratio(), comparison.interval()),
            None if comparison.row.rival.is_none() && comparison.objection().is_none() => {
                ("–".to_owned(), "timed beside nobody".to_owned())
            }
            None if comparison.objection().is_none() => ("–".to_owned(), "unknown".to_owned()),
            None => ("–".to_owned(), comparison.status().to_owned()),
        };
        table.rows.push(vec![
            joined(
                &comparison.scenario.names().filter(|it| !common.contains(it)).collect::<Vec<_>>(),
            )
            .unwrap_or_default(),
            comparison.named().unwrap_or_default(),
            comparison.scenario.load.map_or(String::new(), |load| Axis::Load.tick(load)),
            comparison.scenario.size.map_or(String::new(), words::size),
            comparison.scenario.mix.map_or(String::new(), |share| Axis::Mix.tick(share)),
            comparison.scenario.cores.map_or(String::new(), |count| count.to_string()),
            comparison.scenario.connections.map_or(String::new(), |count| count.to_string()),
            comparison.kernel().unwrap_or_default(),
            comparison.value(),
            if one_rival { String::new() } else { comparison.rival().to_owned() },
            comparison.rival_value(),
            ratio,
            interval,
        ]);
    }
    table.without_empty_columns()
}

/// What cannot be relied on in a section, by reason.
fn objections(section: &Section<'_>) -> Vec<Block> {
    let mut objections: Vec<(String, Vec<String>)> = Vec::new();
    for comparison in &section.comparisons {
        let Some(objection) = comparison.objection() else { continue };
        match objections.iter_mut().find(|(known, _)| *known == objection) {
            Some((_, titles)) => titles.push(comparison.title()),
            None => objections.push((objection, vec![comparison.title()])),
        }
    }
    let warning = |(objection, titles): (String, Vec<String>)| {
        Block::Warning(format!("{}: {objection}.", titles.join("; ")))
    };
    objections.into_iter().map(warning).collect()
}

/// What compares no servers: figures by subject, traces, maps.
fn found(results: &Results) -> Vec<Block> {
    let titled = |title: String, table: Table| [Block::Heading(title), Block::Table(table)];
    let mut blocks = Vec::new();
    for sheet in view::sheets(results) {
        blocks.extend(titled(sheet.title, sheet.table));
    }
    for chart in view::charts(results) {
        let table = chart.table_with_courses(bar);
        blocks.extend(titled(chart.title, table));
    }
    for grid in &results.grids {
        let map = view::Map::of(grid);
        let table = map.table();
        blocks.extend(titled(map.title, table));
    }
    blocks
}

/// What runs along an axis, as tables.
fn curves(curves: &view::Curves) -> Vec<Block> {
    let heading = |what: &str| Block::Heading(format!("{}: {what}", curves.family));
    let mut blocks = vec![heading(&curves.metric.heading()), Block::Table(curves.table())];
    if let Some(ratios) = curves.ratios() {
        blocks
            .extend([heading(&words::uncapitalised(curves.ratios_title())), Block::Table(ratios)]);
    }
    blocks.extend(curves.remarks().into_iter().map(Block::Warning));
    blocks
}

fn latencies(results: &Results) -> Vec<Block> {
    let columns = [
        ("Connections", Kind::Number),
        ("p50 as installed", Kind::Number),
        ("accelerated", Kind::Number),
        ("p99 as installed", Kind::Number),
        ("accelerated", Kind::Number),
    ];
    let block = |latency: view::Latency| {
        let mut table = Table::new(&columns);
        for point in &latency.points {
            let [native, accelerated] = [point.native, point.accelerated];
            let values = [native.p50, accelerated.p50, native.p99, accelerated.p99];
            let values = values.into_iter().map(|value| words::quantity(value, "us"));
            table.rows.push([point.connections.to_string()].into_iter().chain(values).collect());
        }
        [Block::Heading(format!("Handshake latency: {}", latency.title)), Block::Table(table)]
    };
    view::latencies(results).into_iter().flat_map(block).collect()
}

fn fills(results: &Results) -> Vec<Block> {
    let mut table = Table::new(&[
        ("Scenario", Kind::Words),
        ("Conn.", Kind::Number),
        ("Runs", Kind::Number),
        ("Jobs in a run", Kind::Words),
    ]);
    for fill in view::fills(results) {
        let bars: String = fill.shares.iter().map(|(_, share)| bar(*share)).collect();
        table.rows.push(vec![
            fill.family.clone(),
            fill.connections.map_or(String::new(), |count| count.to_string()),
            words::count(fill.run_count),
            format!("1 {bars} {}", fill.shares.len()),
        ]);
    }
    titled("Runs of kernels", table.without_empty_columns())
}

fn paths(results: &Results) -> Vec<Block> {
    let told = |sheet: Sheet| [Block::Text(format!("{}:", sheet.title)), Block::Table(sheet.table)];
    let mut blocks: Vec<Block> = view::paths(results).into_iter().flat_map(told).collect();
    if !blocks.is_empty() {
        blocks.insert(0, Block::Heading("Which way the public-key operations went".to_owned()));
    }
    blocks
}

fn rejected(results: &Results) -> Vec<Block> {
    let mut table =
        Table::new(&[("Scenario", Kind::Words), ("Rounds", Kind::Number), ("Reason", Kind::Words)]);
    for rejected in view::rejected(results) {
        let share = format!("{} of {}", rejected.count, rejected.of);
        let reason = rejected.reason();
        table.rows.push(vec![rejected.title, share, reason]);
    }
    titled("Rejected rounds", table)
}

fn titled(title: &str, table: Table) -> Vec<Block> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading(title.to_owned()), Block::Table(table)]
}

/// A share of one as a bar one column wide and up to eight eighths high.
fn bar(share: f64) -> char {
    const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BARS[(share * 8.0).ceil().clamp(0.0, 8.0) as usize]
}
