//! Curves along an axis, each named at its end. Values and sizes are on logarithmic scales.

use super::chart::{is_drawable_as_ratio, round_values};
use super::plot::{Line, Plot, Scale};
use crate::view::{Curves, Point, Series, Side};
use crate::words::Axis;

/// How many styles there are for curves of one side.
const STYLES: usize = 5;

/// Draws the curves; nothing where there is nowhere to go from and to.
pub fn chart(curves: &Curves) -> String {
    // Nothing below or at 0 has a place on a logarithmic scale.
    let has_place = |point: &&Point| {
        point.value > 0.0 && (point.place > 0 || !matches!(curves.axis, Axis::Size))
    };
    let points = |series| Series::reliable(series).filter(has_place).collect();
    let all: Vec<Vec<&Point>> = curves.series.iter().map(points).collect();
    let is_drawn = |place: &u64| all.iter().flatten().any(|point| point.place == *place);
    let places: Vec<u64> = curves.places().into_iter().filter(is_drawn).collect();
    let values = all.iter().flatten().map(|point| point.value);
    let (low, high) = values
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return String::new() };
    if first == last || !is_drawable_as_ratio(low, high) {
        return String::new();
    }
    let air = (high / low).powf(0.1).clamp(1.02, 1.25);
    let (low, high) = (low / air, high * air);
    let scale = match curves.axis {
        Axis::Size => Scale::logarithmic,
        Axis::Mix | Axis::Cores | Axis::Jobs | Axis::Load => Scale::linear,
    };
    let styles = styles(&curves.series);
    let lines = curves.series.iter().zip(&all).zip(&styles).map(|((series, points), style)| Line {
        name: &series.name,
        style,
        points: points.iter().map(|point| (point.place as f64, point.value)).collect(),
    });
    let plot = Plot {
        title: curves.title(),
        x: scale(*first as f64, *last as f64),
        y: Scale::logarithmic(low, high),
        x_ticks: places.iter().map(|place| (*place as f64, curves.axis.tick(*place))).collect(),
        y_ticks: round_values(low, high).into_iter().map(|at| (at, curves.tick(at))).collect(),
        lines: lines.collect(),
    };
    plot.draw()
}

/// A class for each curve: its side, and which of that side it is.
fn styles(all: &[Series]) -> Vec<String> {
    let rank = |index: usize| {
        let side = all[index].side;
        all[..index].iter().filter(|series| series.side == side).count() % STYLES
    };
    let side = |side| match side {
        Side::Ours => "ours",
        Side::System => "system",
        Side::Other => "other",
    };
    (0..all.len()).map(|index| format!("{}{}", side(all[index].side), rank(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::CYCLES_PER_BYTE;

    fn curves(points: &[&[(u64, f64)]]) -> Curves {
        let point = |&(place, value): &(u64, f64)| Point { place, value, doubt: None };
        let series = |(index, points): (usize, &&[(u64, f64)])| Series {
            name: format!("room{index}"),
            side: Side::Ours,
            points: points.iter().map(point).collect(),
            ratios: Vec::new(),
        };
        Curves {
            metric: CYCLES_PER_BYTE,
            unit: "cycles/B".to_owned(),
            axis: Axis::Size,
            family: "AES-128-GCM seal".to_owned(),
            series: points.iter().enumerate().map(series).collect(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn every_curve_is_drawn_and_named() {
        let curves = curves(&[&[(64, 1.5), (16384, 0.2)], &[(64, 3.0), (16384, 0.21)]]);
        let chart = chart(&curves);
        assert_eq!(chart.matches("<polyline").count(), 2);
        for expected in [">room0<", ">room1<", ">64 B<", ">16 KiB<", "ours0", "ours1"] {
            assert!(chart.contains(expected), "{expected}: {chart}");
        }
    }

    #[test]
    fn what_cannot_be_relied_on_is_not_drawn() {
        let mut curves = curves(&[&[(64, 1.5), (1024, 9.0), (16384, 0.2)]]);
        curves.series[0].points[1].doubt = Some("noise".to_owned());
        assert_eq!(chart(&curves).matches("<circle").count(), 2);
        assert!(!chart(&curves).contains(">1 KiB<"));
        assert_eq!(curves.remarks(), ["1 KiB, room0: not to be relied on: noise."]);
    }

    #[test]
    fn shares_lie_at_equal_distances() {
        let mut curves = curves(&[&[(0, 1.0), (50, 0.97), (100, 0.94)]]);
        curves.axis = Axis::Mix;
        let chart = chart(&curves);
        assert!(chart.contains(">0 %<") && chart.contains(">100 %<"), "{chart}");
        // In the middle between 58 and 410.
        assert!(chart.contains("<circle class=\"ours0\" cx=\"234.0\""), "{chart}");
    }

    #[test]
    fn one_size_makes_no_curve() {
        assert_eq!(chart(&curves(&[&[(64, 1.5)]])), "");
        assert_eq!(chart(&curves(&[&[(64, 0.0), (128, -1.0)]])), "");
        assert_eq!(chart(&curves(&[])), "");
    }
}
