//! Curves along an axis, each named at its end. Values and sizes are on logarithmic scales.

use super::chart::round_values;
use super::svg::{self, units};
use crate::view::{Curves, Series, Side};
use crate::words::Axis;

const LEFT: f64 = 48.0;
const RIGHT: f64 = 420.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 292.0;
const MARGIN: f64 = 10.0;
/// Between the base lines of two names.
const NAMES_APART: f64 = 15.0;
/// From the base line of text to its middle.
const TEXT_MIDDLE: f64 = 4.0;
/// How many styles there are for curves of one side.
const STYLES: usize = 5;

/// How far names stand from the figure, each with a line to its curve.
const LEADER: f64 = 18.0;

/// The name of a curve.
struct Name<'a> {
    /// Where it stands.
    y: f64,
    /// Where its curve ends.
    end: (f64, f64),
    style: &'a str,
    name: &'a str,
}

/// Room for a letter of a name, and letters for which there is always room.
const LETTER: f64 = 7.0;
const NAME_LEAST: usize = 17;

/// Draws the curves; nothing where there is nowhere to go from and to.
pub fn chart(curves: &Curves) -> String {
    let points = |series| curves.reliable(series).collect::<Vec<_>>();
    let all: Vec<Vec<(u64, f64)>> = curves.series.iter().map(points).collect();
    let is_drawn = |place: &u64| all.iter().flatten().any(|(known, _)| known == place);
    let places: Vec<u64> = curves.places().into_iter().filter(is_drawn).collect();
    let values = all.iter().flatten().map(|(_, value)| *value);
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return String::new() };
    if first == last || low > high {
        return String::new();
    }
    let air = (high / low).powf(0.1).clamp(1.02, 1.25);
    let (low, high) = (low / air, high * air);
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value.max(low) / low).ln() / (high / low).ln();
    let along = |place: u64| match curves.axis {
        Axis::Size => (place as f64).ln(),
        Axis::Mix | Axis::Cores => place as f64,
    };
    let from = LEFT + MARGIN;
    let span = along(*last) - along(*first);
    let x = |place: u64| from + (RIGHT - MARGIN - from) * (along(place) - along(*first)) / span;

    let mut content = String::new();
    for tick in round_values(low, high) {
        let y = y(tick);
        content += &svg::line("grid", [LEFT, RIGHT], [units(y), units(y)]);
        content += &svg::label("end", LEFT - 8.0, units(y + TEXT_MIDDLE), "", &tick.to_string());
    }
    for place in labelled(&places, x) {
        let at = units(x(place));
        content += &svg::line("grid", [at.clone(), at.clone()], [units(TOP), units(BOTTOM)]);
        content += &svg::label("middle", at, BOTTOM + 18.0, "", &curves.axis.tick(place));
    }
    let styles = styles(&curves.series);
    let mut names = Vec::new();
    for ((series, points), style) in curves.series.iter().zip(&all).zip(&styles) {
        let corners: Vec<_> = points.iter().map(|(place, value)| (x(*place), y(*value))).collect();
        content += &svg::polyline(style, corners.iter().copied());
        for (x, y) in &corners {
            content += &svg::dot(style, units(*x), units(*y));
        }
        if let Some(end) = corners.last() {
            names.push(Name { y: end.1, end: *end, style, name: &series.name });
        }
    }
    spread(&mut names);
    for Name { y, end, style, name } in names {
        let class = format!("name {style}");
        let at = RIGHT + LEADER;
        content +=
            &svg::line(style, [units(end.0 + 6.0), units(at - 4.0)], [units(end.1), units(y)]);
        content += &svg::label(&class, at, units(y + TEXT_MIDDLE), "", name);
    }
    let longest = curves.series.iter().map(|series| series.name.chars().count()).max();
    let width = RIGHT + LEADER + LETTER * longest.unwrap_or(0).max(NAME_LEAST) as f64;
    svg::figure(
        "curves",
        &format!(r#"viewBox="0 0 {width} 320""#),
        &curves.title(),
        "The figures are in the table beside.",
        &content,
    )
}

/// Those of `places` whose labels do not run into each other.
fn labelled(places: &[u64], x: impl Fn(u64) -> f64) -> Vec<u64> {
    const APART: f64 = 46.0;
    let mut labelled: Vec<u64> = Vec::new();
    for place in places.iter().rev() {
        if labelled.last().is_none_or(|last| x(*last) - x(*place) >= APART) {
            labelled.push(*place);
        }
    }
    labelled
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

/// Moves names apart, downwards first, then up from the bottom.
fn spread(names: &mut [Name<'_>]) {
    names.sort_by(|a, b| a.y.total_cmp(&b.y));
    for index in 1..names.len() {
        names[index].y = names[index].y.max(names[index - 1].y + NAMES_APART);
    }
    let mut floor = BOTTOM;
    for name in names.iter_mut().rev() {
        name.y = name.y.min(floor);
        floor = name.y - NAMES_APART;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::CYCLES_PER_BYTE;

    fn curves(points: &[&[(u64, f64)]]) -> Curves {
        let series = |(index, points): (usize, &&[(u64, f64)])| Series {
            name: format!("room{index}"),
            side: Side::Ours,
            points: points.to_vec(),
            ratios: Vec::new(),
        };
        Curves {
            metric: CYCLES_PER_BYTE,
            axis: Axis::Size,
            family: "AES-128-GCM seal".to_owned(),
            series: points.iter().enumerate().map(series).collect(),
            doubtful: Vec::new(),
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
        curves.doubtful.push((1024, "noise".to_owned()));
        assert_eq!(chart(&curves).matches("<circle").count(), 2);
        assert!(!chart(&curves).contains(">1 KiB<"));
        assert_eq!(curves.remarks(), ["1 KiB: not to be relied on: noise."]);
    }

    #[test]
    fn shares_lie_at_equal_distances() {
        let mut curves = curves(&[&[(0, 1.0), (50, 0.97), (100, 0.94)]]);
        curves.axis = Axis::Mix;
        let chart = chart(&curves);
        let middle = units((LEFT + RIGHT) / 2.0);
        assert!(chart.contains(">0 %<") && chart.contains(">100 %<"), "{chart}");
        assert!(chart.contains(&format!("<circle class=\"ours0\" cx=\"{middle}\"")), "{chart}");
    }

    #[test]
    fn one_size_makes_no_curve() {
        assert_eq!(chart(&curves(&[&[(64, 1.5)]])), "");
        assert_eq!(chart(&curves(&[&[(64, 0.0), (128, -1.0)]])), "");
        assert_eq!(chart(&curves(&[])), "");
    }

    #[test]
    fn names_keep_apart_and_inside() {
        let name = |y| Name { y, end: (0.0, y), style: "", name: "" };
        let mut names: Vec<_> = [290.0, 291.0, 289.0, 20.0].into_iter().map(name).collect();
        spread(&mut names);
        let at: Vec<f64> = names.iter().map(|name| name.y).collect();
        assert_eq!(at, [20.0, 262.0, 277.0, 292.0]);
    }
}
