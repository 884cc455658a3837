//! Traces along time or another quantity as lines.

use super::chart::{equal_steps, is_drawable, is_drawable_as_ratio, round_values};
use super::plot::{Line, Plot, Scale};
use crate::view::Chart;
use crate::words;

/// Values that differ by so much are on a logarithmic scale.
const WIDE: f64 = 20.0;

/// Values whose least is above this share of the greatest are not drawn from zero on.
const NARROW: f64 = 0.5;

/// Classes of lines, in the order in which they are taken, and that of a limit.
const STYLES: [&str; 6] = ["ours0", "other0", "other1", "other2", "other3", "system0"];
const STYLE_OF_LIMIT: &str = "system1";

/// Draws the traces; nothing where there is nowhere to go from and to.
pub fn chart(chart: &Chart<'_>) -> String {
    let points = || chart.traces.iter().flat_map(|trace| &trace.points);
    let range = |pick: fn(&[f64; 2]) -> f64| {
        points().map(pick).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let ((first, last), (low, high)) = (range(|point| point[0]), range(|point| point[1]));
    if first >= last || !is_drawable(first, last) || !is_drawable(low, high) {
        return String::new();
    }
    let (y, steps) = values(low, high);
    let lines = chart.traces.iter().enumerate().map(|(index, trace)| Line {
        name: &trace.subject,
        style: if trace.subject == "limit" { STYLE_OF_LIMIT } else { STYLES[index % STYLES.len()] },
        points: trace.points.iter().map(|point| (point[0], point[1])).collect(),
    });
    let ticks = |steps: Vec<f64>, unit: &str| {
        steps.into_iter().map(|tick| (tick, words::tick(tick, unit))).collect()
    };
    let plot = Plot {
        title: chart.title.clone(),
        x: Scale::linear(first, last),
        y,
        x_ticks: ticks(equal_steps(first, last), chart.along_unit),
        y_ticks: ticks(steps, chart.unit),
        lines: lines.collect(),
    };
    plot.draw()
}

/// The scale of values between `low` and `high`, with its round values.
fn values(low: f64, high: f64) -> (Scale, Vec<f64>) {
    if is_drawable_as_ratio(low, high) && high / low > WIDE {
        let (low, high) = (low / 1.1, high * 1.1);
        return (Scale::logarithmic(low, high), round_values(low, high));
    }
    let from = if low >= 0.0 && low < NARROW * high { 0.0 } else { low };
    // What does not change at all is drawn in the middle.
    let air = if high > from { 0.05 * (high - from) } else { 0.05 * high.abs().max(1.0) };
    let (low, high) = (if from == 0.0 { from } else { from - air }, high + air);
    (Scale::linear(low, high), equal_steps(low, high))
}

#[cfg(test)]
mod tests {
    use widelane_results::Trace;

    use super::*;

    fn drawn(points: &[[f64; 2]]) -> String {
        let trace = Trace {
            subject: "full".to_owned(),
            points: points.to_vec(),
            unit: "1/s".to_owned(),
            ..Trace::default()
        };
        chart(&Chart {
            title: "Rate".to_owned(),
            metric: "Rate".to_owned(),
            along: "time",
            unit: "1/s",
            along_unit: "s",
            traces: vec![&trace],
        })
    }

    #[test]
    fn a_trace_is_drawn_over_round_values() {
        let chart = drawn(&[[0.0, 900.0], [1.0, 1_050.0], [2.0, 0.0]]);
        for expected in [">full<", ">0/s<", ">1,000/s<", ">1 s<", "<polyline class=\"ours0\""] {
            assert!(chart.contains(expected), "{expected}: {chart}");
        }
        assert_eq!(chart.matches("<circle").count(), 3);
    }

    #[test]
    fn what_stays_the_same_is_drawn_too() {
        assert_eq!(drawn(&[[0.0, 5.0], [1.0, 5.0]]).matches("<polyline").count(), 1);
        assert_eq!(drawn(&[[0.0, 0.0], [1.0, 0.0]]).matches("<polyline").count(), 1);
    }

    #[test]
    fn one_instant_makes_no_trace() {
        for points in [&[][..], &[[1.0, 5.0]], &[[1.0, 5.0], [1.0, 6.0]]] {
            assert_eq!(drawn(points), "", "{points:?}");
        }
    }
}
