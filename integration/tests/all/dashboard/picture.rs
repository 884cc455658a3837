//! The dashboard as a picture: its panels in their places, with what Prometheus answered, drawn
//! without Grafana.

use std::path::Path;

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Series;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Columns of Grafana's grid, and the size of one of its cells.
const COLUMNS: i32 = 24;
const CELL: (i32, i32) = (50, 32);

/// Between two panels.
const GAP: i32 = 8;

const BACKGROUND: RGBColor = RGBColor(244, 245, 245);
const TEXT: RGBColor = RGBColor(36, 41, 46);
const LINES: RGBColor = RGBColor(222, 224, 227);

/// A panel with its figures.
pub struct Panel {
    pub title: String,
    /// As Grafana names it.
    pub unit: String,
    /// Column, row, width and height in Grafana's grid.
    pub place: [i32; 4],
    /// Whether its latest value alone is shown.
    pub is_one_figure: bool,
    pub series: Vec<Series>,
}

/// Draws `panels` into an SVG file.
pub fn draw(panels: &[Panel], file: &Path) -> Result<()> {
    let rows = panels.iter().map(|panel| panel.place[1] + panel.place[3]).max();
    let rows = rows.context("no panels")?;
    let size = ((COLUMNS * CELL.0 + GAP) as u32, (rows * CELL.1 + GAP) as u32);
    let whole = SVGBackend::new(file, size).into_drawing_area();
    whole.fill(&BACKGROUND)?;
    for panel in panels {
        let [x, y, width, height] = panel.place;
        let area = whole.clone().shrink(
            (x * CELL.0 + GAP, y * CELL.1 + GAP),
            (width * CELL.0 - GAP, height * CELL.1 - GAP),
        );
        area.fill(&WHITE)?;
        match panel.is_one_figure {
            true => draw_figure(panel, &area)?,
            false => draw_lines(panel, &area)?,
        }
    }
    Ok(whole.present()?)
}

fn draw_figure(panel: &Panel, area: &Area<'_>) -> Result<()> {
    let latest = panel.series.first().and_then(|series| series.points.last());
    let figure = latest.map_or("–".to_owned(), |(_, value)| in_unit(*value, &panel.unit));
    let small = ("sans-serif", 13).into_font().color(&TEXT);
    let large = ("sans-serif", 34).into_font().color(&TEXT);
    area.draw(&Text::new(panel.title.clone(), (8, 8), small))?;
    area.draw(&Text::new(figure, (8, 44), large))?;
    Ok(())
}

fn draw_lines(panel: &Panel, area: &Area<'_>) -> Result<()> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let (first, last) = points()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), point| {
            (first.min(point.0), last.max(point.0))
        });
    let highest = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let area = area.titled(&panel.title, ("sans-serif", 13).into_font().color(&TEXT))?;
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(20)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..(last - first).max(1.0), 0.0..1.1 * highest)?;
    let label = ("sans-serif", 11).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(LINES)
        .light_line_style(TRANSPARENT)
        .axis_style(LINES)
        .label_style(label.clone())
        .y_labels(5)
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&|value| in_unit(*value, &panel.unit))
        .draw()?;
    for (index, series) in panel.series.iter().enumerate() {
        let style = Palette99::pick(index).stroke_width(2);
        let line = series.points.iter().map(|(time, value)| (time - first, *value));
        chart
            .draw_series(LineSeries::new(line, style))?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(label)
        .draw()?;
    Ok(())
}

/// A value in a unit as Grafana names it.
fn in_unit(value: f64, unit: &str) -> String {
    let (value, unit) = match unit {
        "s" => (value, "s"),
        "percentunit" => return format!("{:.0} %", 100.0 * value),
        "ops" => (value, "/s"),
        "Bps" => (value, "B/s"),
        _ => (value, ""),
    };
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")];
    let (scale, prefix) =
        prefixes.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, ""));
    let scaled = value / scale;
    let digits = if scaled < 10.0 && scaled.fract() > 0.0 { 1 } else { 0 };
    format!("{scaled:.digits$} {prefix}{unit}").trim_end().to_owned()
}

#[test]
fn values_have_the_prefix_of_their_size() {
    for (value, unit, expected) in [
        (0.0, "short", "0"),
        (4.0, "short", "4"),
        (12_345.0, "ops", "12 k/s"),
        (0.000_25, "s", "250 µs"),
        (0.0015, "s", "1.5 ms"),
        (0.973, "percentunit", "97 %"),
        (2.5e6, "Bps", "2.5 MB/s"),
    ] {
        assert_eq!(in_unit(value, unit), expected);
    }
}
