//! The figures of the page. Colours come from the style sheet by class.

use widelane_results::Bucket;

use super::plot::apart_from_each_other;
use super::svg::{self, percent, units};
use crate::view::{Distribution, Fill, Ratio};
use crate::words;

/// Figures beyond this, or smaller than its inverse, are nobody's, and are not drawn: scales of
/// them would not be finite.
const DRAWN_MAX: f64 = 1e30;

/// Ticks of a scale at most.
const TICKS_MAX: usize = 10;

/// Whether values between these can be drawn on a scale of equal differences.
pub fn is_drawable(low: f64, high: f64) -> bool {
    let range = -DRAWN_MAX..=DRAWN_MAX;
    low <= high && range.contains(&low) && range.contains(&high)
}

/// Whether values between these can be drawn on a scale of equal ratios.
pub fn is_drawable_as_ratio(low: f64, high: f64) -> bool {
    low >= 1.0 / DRAWN_MAX && is_drawable(low, high)
}

/// A logarithmic scale from 0 to 100 per cent of a figure's width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// A scale that holds 1 and all of `values`, with some air.
    pub fn around_one(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| is_drawable_as_ratio(*value, *value))
            .fold((1.0_f64, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let air = (high / low).powf(0.08).max(1.06);
        Scale { low: low / air, high: high * air }
    }

    /// Where `value` lies, in per cent.
    fn percent(&self, value: f64) -> f64 {
        100.0 * (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln()
    }

    /// Round values on the scale, 1 among them, the roundest first, far enough apart to be
    /// labelled.
    fn ticks(&self) -> Vec<f64> {
        const ROUNDEST: [f64; 21] = [
            1.0, 0.5, 2.0, 0.2, 5.0, 0.1, 10.0, 0.05, 20.0, 0.7, 1.5, 3.0, 0.3, 0.4, 4.0, 0.6, 0.8,
            1.25, 7.0, 0.9, 1.1,
        ];
        const APART: f64 = 14.0;
        let mut ticks: Vec<f64> = Vec::new();
        for value in ROUNDEST {
            let apart = |tick: &f64| (self.percent(*tick) - self.percent(value)).abs() >= APART;
            if self.low < value && value < self.high && ticks.iter().all(apart) {
                ticks.push(value);
            }
        }
        ticks
    }
}

/// One ratio with its interval, and the line at 1.
pub fn forest_mark(scale: &Scale, ratio: Ratio, class: &str, subject: &str) -> String {
    const HEIGHT: u32 = 24;
    const MIDDLE: u32 = HEIGHT / 2;
    let centre = scale.percent(ratio.centre);
    let across = |class: &str, x: f64, y: [u32; 2]| svg::line(class, [percent(x), percent(x)], y);
    let grid = scale.ticks().into_iter().filter(|tick| *tick != 1.0);
    let mut content: String =
        grid.map(|tick| across("grid", scale.percent(tick), [0, HEIGHT])).collect();
    content += &across("one", scale.percent(1.0), [0, HEIGHT]);
    let mut title = format!("{subject}: {}", words::ratio(ratio.centre));
    // One search has no interval, nor have a few rounds.
    if let Some(ends @ [low, high]) = ratio.ends.filter(|[low, high]| low < high) {
        let interval = words::interval(Some(ends));
        let [low, high] = [low, high].map(|end| scale.percent(end));
        content += &svg::line("whisker", [percent(low), percent(high)], [MIDDLE, MIDDLE]);
        content += &across("whisker", low, [MIDDLE - 4, MIDDLE + 4]);
        content += &across("whisker", high, [MIDDLE - 4, MIDDLE + 4]);
        title.push_str(&format!(" ({interval})"));
    }
    content += &svg::dot("", percent(centre), MIDDLE);
    let size = format!(r#"width="100%" height="{HEIGHT}""#);
    svg::figure(&format!("mark {class}"), &size, &title, "", &content)
}

/// The labels of the scale.
pub fn forest_axis(scale: &Scale) -> String {
    let label =
        |tick: f64| svg::label("middle", percent(scale.percent(tick)), 15, "", &format!("{tick}×"));
    let labels: String = scale.ticks().into_iter().map(label).collect();
    let title = "Scale of the ratios, logarithmic";
    svg::figure("axis", r#"width="100%" height="22""#, title, "", &labels)
}

/// Latencies at one number of connections, microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Connections open at a time.
    pub connections: u32,
    /// As installed.
    pub native: f64,
    /// Accelerated.
    pub accelerated: f64,
}

/// Latency over connections, on a logarithmic scale.
pub fn latency_panel(title: &str, points: &[Point]) -> String {
    const LEFT: f64 = 58.0;
    const RIGHT: f64 = 298.0;
    const TOP: f64 = 14.0;
    const BOTTOM: f64 = 196.0;
    const MARGIN: f64 = 12.0;
    const LABELS_APART: f64 = 16.0;
    /// From the base line of text to its middle.
    const TEXT_MIDDLE: f64 = 4.0;

    let values = points.iter().flat_map(|point| [point.native, point.accelerated]);
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if !is_drawable_as_ratio(low, high) {
        return String::new();
    }
    let (low, high) = (low / 1.25, high * 1.25);
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value.max(low) / low).ln() / (high / low).ln();
    let step = (RIGHT - LEFT - 2.0 * MARGIN) / (points.len().max(2) - 1) as f64;
    let x = |index: usize| LEFT + MARGIN + step * index as f64;

    let mut content = String::new();
    for tick in round_values(low, high) {
        let y = y(tick);
        let name = words::tick_us(tick);
        content += &svg::line("grid", [LEFT, RIGHT], [units(y), units(y)]);
        content += &svg::label("end", LEFT - 8.0, units(y + TEXT_MIDDLE), "", &name);
    }
    for (index, point) in points.iter().enumerate() {
        let name = point.connections.to_string();
        content += &svg::label("middle", units(x(index)), BOTTOM + 18.0, "", &name);
    }
    let middle = units((LEFT + RIGHT) / 2.0);
    content += &svg::label("middle", middle, BOTTOM + 34.0, "", "connections");

    let native: Vec<f64> = points.iter().map(|point| point.native).collect();
    let accelerated: Vec<f64> = points.iter().map(|point| point.accelerated).collect();
    let corners = |values: &[f64]| {
        let corners = values.iter().enumerate().map(|(index, value)| (x(index), y(*value)));
        corners.collect::<Vec<_>>()
    };
    content += &svg::polyline("native", corners(&native).into_iter());
    content += &svg::polyline("accelerated", corners(&accelerated).into_iter());
    // Two shapes, so that colour is not the only difference.
    for (x, y) in corners(&native) {
        content += &svg::rect("native", [units(x - 3.5), units(y - 3.5), units(7.0), units(7.0)]);
    }
    for (x, y) in corners(&accelerated) {
        content += &svg::dot("accelerated", units(x), units(y));
    }
    if let Some(last) = points.last() {
        let (mut upper, mut lower) = (y(last.native), y(last.accelerated));
        let overlap = LABELS_APART - (lower - upper).abs();
        if overlap > 0.0 {
            let push = if lower < upper { -overlap / 2.0 } else { overlap / 2.0 };
            upper -= push;
            lower += push;
        }
        for (class, name, value, y) in [
            ("name native", "as installed", last.native, upper),
            ("name accelerated", "accelerated", last.accelerated, lower),
        ] {
            let value = words::quantity(value, "us");
            content += &svg::label(class, RIGHT + 2.0, units(y + TEXT_MIDDLE), &value, name);
        }
    }
    svg::figure("lines", r#"viewBox="0 0 440 232""#, title, &described(points), &content)
}

fn described(points: &[Point]) -> String {
    let describe = |point: &Point| {
        let [native, accelerated] =
            [point.native, point.accelerated].map(|value| words::quantity(value, "us"));
        let connections = words::connections(point.connections);
        format!("{connections}: {native} as installed, {accelerated} accelerated")
    };
    points.iter().map(describe).collect::<Vec<_>>().join("; ")
}

/// 1, 10, 100 … within the range, with 2 and 5 between them where no more than two of those are, or
/// at equal distances where that is not enough. None where there is no scale.
pub fn round_values(low: f64, high: f64) -> Vec<f64> {
    if low <= 0.0 || !low.is_normal() || !high.is_finite() || low > high {
        return Vec::new();
    }
    let within = |steps: &[f64]| -> Vec<f64> {
        let first = low.log10().floor() as i32;
        let last = high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let powers = within(&[1.0]);
    if powers.len() >= 3 {
        let every = powers.len().div_ceil(TICKS_MAX);
        return powers.into_iter().step_by(every).collect();
    }
    let between = within(&[1.0, 2.0, 5.0]);
    if between.len() >= 2 { between } else { equal_steps(low, high) }
}

/// Multiples of 1, 2 or 5 times a power of ten, three to six of them within the range. None where
/// there is no scale, or numbers do not tell them apart.
pub fn equal_steps(low: f64, high: f64) -> Vec<f64> {
    const STEPS: f64 = 3.0;
    let least = (high - low) / STEPS;
    let is_told_apart = least > f64::EPSILON * low.abs().max(high.abs());
    if !is_drawable(low, high) || !is_told_apart || least < 1.0 / DRAWN_MAX {
        return Vec::new();
    }
    // Powers below one are divided by, for they have no exact value.
    let power = least.log10().floor() as i32;
    let scaled = |value: f64| value * 10f64.powi(-power);
    let step = [5.0, 2.0, 1.0].into_iter().find(|step| *step <= scaled(least)).unwrap_or(1.0);
    let (first, last) = ((scaled(low) / step).ceil() as i64, (scaled(high) / step).floor() as i64);
    let value = |count: i64| count as f64 * step;
    let unscaled = |value: f64| match power {
        ..0 => value / 10f64.powi(-power),
        0.. => value * 10f64.powi(power),
    };
    (first..=last).take(TICKS_MAX).map(|count| unscaled(value(count))).collect()
}

/// Share of the batches by number of jobs, the full ones set apart.
pub fn fill_columns(fill: &Fill) -> String {
    const HEIGHT: f64 = 112.0;
    const TOP: f64 = 18.0;
    const BASE: f64 = TOP + HEIGHT;
    const WIDTH: f64 = 320.0;
    /// More columns than these are too narrow for a figure above each.
    const FIGURES_MAX: usize = 8;
    let lanes = fill.shares.len();
    let pitch = WIDTH / lanes.max(1) as f64;
    let mut content = String::new();
    for (index, (jobs, share)) in fill.shares.iter().enumerate() {
        let height = (HEIGHT * share).max(1.0);
        let left = pitch * index as f64;
        let middle = units(left + pitch / 2.0);
        let column = [left + pitch * 0.12, BASE - height, pitch * 0.76, height].map(units);
        content += &svg::rect("accelerated", column);
        content += &svg::label("middle", &middle, BASE + 16.0, "", &jobs.to_string());
        if *share >= 0.005 && lanes <= FIGURES_MAX {
            let figure = words::percent(*share);
            content += &svg::label("middle value", middle, units(BASE - height - 5.0), "", &figure);
        }
    }
    content += &svg::line("base", [0.0, WIDTH], [BASE, BASE]);
    content += &svg::label("middle", WIDTH / 2.0, BASE + 33.0, "", "jobs in a run");
    let described = fill.shares.iter().map(|(jobs, share)| {
        let jobs = if *jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
        format!("{jobs}: {}", words::percent(*share))
    });
    let described = described.collect::<Vec<_>>().join("; ");
    let title = format!("Jobs in a run: {}", fill.family);
    svg::figure("columns", r#"viewBox="0 0 320 168""#, &title, &described, &content)
}

/// How values spread over time, on a logarithmic scale; each line is as high as its greatest share.
pub fn distribution(distribution: &Distribution) -> String {
    const WIDTH: f64 = 320.0;
    const TOP: f64 = 6.0;
    const BASE: f64 = 86.0;
    let both = [("native", &distribution.native), ("accelerated", &distribution.accelerated)];
    let edges = both.iter().flat_map(|(_, buckets)| buckets.iter().map(|bucket| bucket.upto));
    let (low, high) = edges
        .filter(|edge| *edge > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), edge| (low.min(edge), high.max(edge)));
    if !is_drawable_as_ratio(low, high) {
        return String::new();
    }
    let (low, high) = (low / 1.5, high * 1.5);
    let x = |value: f64| WIDTH * (value.max(low) / low).ln() / (high / low).ln();
    let mut content = String::new();
    let ticks = round_values(low, high).into_iter().map(|tick| (tick, words::tick_us(tick)));
    for (tick, label) in apart_from_each_other(&ticks.collect::<Vec<_>>(), x) {
        let at = units(x(*tick));
        content += &svg::line("grid", [at.clone(), at.clone()], [units(TOP), units(BASE)]);
        content += &svg::label("middle", at, BASE + 16.0, "", label);
    }
    content += &svg::line("base", [0.0, WIDTH], [BASE, BASE]);
    let ratios = both.iter().flat_map(|(_, buckets)| buckets.windows(2).map(ratio));
    let step = ratios.filter(|ratio| *ratio > 1.0).fold(f64::INFINITY, f64::min);
    for (class, buckets) in both {
        let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1) as f64;
        let height = |count: u64| BASE - (BASE - TOP) * count as f64 / most;
        let corners = with_gaps(buckets, step).into_iter();
        content += &svg::polyline(class, corners.map(|it| (x(it.upto), height(it.count))));
    }
    svg::figure("columns", r#"viewBox="0 0 320 108""#, &distribution.title, "", &content)
}

/// Ratio of the edges of two buckets.
fn ratio(pair: &[Bucket]) -> f64 {
    pair[1].upto / pair[0].upto
}

/// `buckets`, whose edges usually grow by the factor `step`, with an empty one at either end of
/// each gap: older results leave empty buckets out.
fn with_gaps(buckets: &[Bucket], step: f64) -> Vec<Bucket> {
    let mut all: Vec<Bucket> = buckets.first().copied().into_iter().collect();
    for pair in buckets.windows(2) {
        // Edges are rounded.
        if ratio(pair) > step.powf(1.5) {
            let empty = |upto| Bucket { upto, count: 0 };
            all.extend([empty(pair[0].upto * step), empty(pair[1].upto / step)]);
        }
        all.push(pair[1]);
    }
    all
}

/// A horizontal bar, `share` of its cell long.
pub fn bar(share: f64, class: &str, title: &str) -> String {
    let content = svg::rect(class, [units(0.0), units(0.0), percent(100.0 * share), units(14.0)]);
    svg::figure("bar", r#"width="100%" height="14""#, title, "", &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_one_and_its_values() {
        let scale = Scale::around_one([0.41, 0.66].into_iter());
        assert!(scale.low < 0.41 && scale.high > 1.0);
        assert!(scale.percent(0.41) > 0.0 && scale.percent(1.0) < 100.0);
        let ticks = scale.ticks();
        assert!(ticks.contains(&1.0) && ticks.contains(&0.5), "{ticks:?}");
        assert!(ticks.iter().all(|tick| (scale.low..scale.high).contains(tick)), "{ticks:?}");
    }

    #[test]
    fn a_scale_survives_nonsense() {
        for values in [vec![], vec![f64::NAN, 0.0, -1.0, f64::INFINITY]] {
            let scale = Scale::around_one(values.into_iter());
            assert!((scale.percent(1.0) - 50.0).abs() < 1e-9, "{scale:?}");
        }
    }

    #[test]
    fn times_of_a_narrow_distribution_stay_legible() {
        let bucket = |upto: f64| Bucket { upto, count: 1 };
        let narrow = Distribution {
            title: "narrow".to_owned(),
            native: vec![bucket(280_000.0)],
            accelerated: vec![bucket(310_000.0)],
        };
        let labels = distribution(&narrow).matches(" ms</text>").count();
        assert!((2..=5).contains(&labels), "{labels} labels in 320 units");
    }

    #[test]
    fn a_line_lies_on_the_base_where_buckets_are_left_out() {
        let bucket = |upto: f64| Bucket { upto, count: 1 };
        let waits = Distribution {
            title: "waits".to_owned(),
            native: Vec::new(),
            accelerated: [1.0, 2.0, 64.0].map(bucket).into(),
        };
        let chart = distribution(&waits);
        let (_, points) = chart.rsplit_once("points=\"").unwrap();
        let (points, _) = points.split_once('"').unwrap();
        let heights: Vec<&str> =
            points.split(' ').map(|point| point.split_once(',').unwrap().1).collect();
        assert_eq!(heights, ["6.0", "6.0", "86.0", "86.0", "6.0"], "{points}");
    }

    #[test]
    fn ticks_of_a_latency_are_round() {
        assert_eq!(round_values(700.0, 250_000.0), [1_000.0, 10_000.0, 100_000.0]);
        assert_eq!(round_values(700.0, 6_000.0), [1_000.0, 2_000.0, 5_000.0]);
    }

    #[test]
    fn what_no_scale_holds_has_no_ticks() {
        let absurd =
            [0.0, -1.0, 5e-324, 1e-308, 1e-30, 1.0, 1e18, 1e30, 1e308, f64::INFINITY, f64::NAN];
        for low in absurd {
            for high in absurd {
                let steps = equal_steps(low, high);
                let rounds = round_values(low, high);
                for ticks in [steps, rounds] {
                    assert!(ticks.len() <= 3 * TICKS_MAX, "{low} {high}: {ticks:?}");
                    assert!(ticks.iter().all(|tick| tick.is_finite()), "{low} {high}: {ticks:?}");
                }
            }
        }
        assert!(equal_steps(1.0, 1.0).is_empty() && equal_steps(0.0, 1e300).is_empty());
        assert!(round_values(0.0, 1.0).is_empty() && round_values(1.0, f64::INFINITY).is_empty());
    }

    #[test]
    fn ticks_of_a_narrow_range_are_at_equal_distances() {
        assert_eq!(round_values(0.86, 1.17), [0.9, 1.0, 1.1]);
        assert_eq!(
            round_values(3_600.0, 3_710.0),
            [3_600.0, 3_620.0, 3_640.0, 3_660.0, 3_680.0, 3_700.0]
        );
    }
}
