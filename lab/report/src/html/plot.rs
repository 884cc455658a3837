//! Lines in a frame with two scales, each named at its end.

use super::svg::{self, units};

/// What is drawn.
pub struct Plot<'a> {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Scale,
    /// From bottom to top.
    pub y: Scale,
    /// Labels below, the most wanted last.
    pub x_ticks: Vec<(f64, String)>,
    /// Labels to the left.
    pub y_ticks: Vec<(f64, String)>,
    /// The lines.
    pub lines: Vec<Line<'a>>,
}

/// One line.
pub struct Line<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its class in the style sheet.
    pub style: &'a str,
    /// Its corners, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A scale of values.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Scale {
    /// A scale on which equal distances are equal differences.
    pub fn linear(from: f64, to: f64) -> Self {
        Scale { from, to, is_logarithmic: false }
    }

    /// A scale on which equal distances are equal ratios.
    pub fn logarithmic(from: f64, to: f64) -> Self {
        Scale { from, to, is_logarithmic: true }
    }

    /// Where `value` lies, as a share of the way.
    fn share(self, value: f64) -> f64 {
        let Scale { from, to, .. } = self;
        let value = value.clamp(from, to);
        match self.is_logarithmic {
            true => (value / from).ln() / (to / from).ln(),
            false => (value - from) / (to - from),
        }
    }
}

const LEFT: f64 = 48.0;
const ACROSS: f64 = 372.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 292.0;
const MARGIN: f64 = 10.0;
/// Between the base lines of two names.
const NAMES_APART: f64 = 15.0;
/// From the base line of text to its middle.
const TEXT_MIDDLE: f64 = 4.0;
/// Between the middles of two labels below, at least.
const LABELS_APART: f64 = 46.0;

/// How far names stand from the figure, each with a line to its end.
const LEADER: f64 = 18.0;

/// Room for a letter of a name, and letters for which there is always room.
const LETTER: f64 = 7.0;
const NAME_LEAST: usize = 17;

/// Lines of more corners than these have no dots.
const DOTS_MOST: usize = 24;

/// The name of a line.
struct Name<'a> {
    /// Where it stands.
    y: f64,
    /// Where its line ends.
    end: (f64, f64),
    style: &'a str,
    name: &'a str,
}

impl Plot<'_> {
    /// Draws it.
    pub fn draw(&self) -> String {
        let left = LEFT.max(LETTER * letters(&self.y_ticks) + 10.0);
        let right = left + ACROSS;
        let from = left + MARGIN;
        let x = |value: f64| from + (right - MARGIN - from) * self.x.share(value);
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * self.y.share(value);

        let mut content = String::new();
        for (tick, label) in &self.y_ticks {
            let y = y(*tick);
            content += &svg::line("grid", [left, right], [units(y), units(y)]);
            content += &svg::label("end", left - 8.0, units(y + TEXT_MIDDLE), "", label);
        }
        for (tick, label) in apart_from_each_other(&self.x_ticks, x) {
            let at = units(x(*tick));
            content += &svg::line("grid", [at.clone(), at.clone()], [units(TOP), units(BOTTOM)]);
            content += &svg::label("middle", at, BOTTOM + 18.0, "", label);
        }
        let mut names = Vec::new();
        for Line { name, style, points } in &self.lines {
            let corners: Vec<_> = points.iter().map(|(at, value)| (x(*at), y(*value))).collect();
            content += &svg::polyline(style, corners.iter().copied());
            if corners.len() <= DOTS_MOST {
                for (x, y) in &corners {
                    content += &svg::dot(style, units(*x), units(*y));
                }
            }
            if let Some(end) = corners.last() {
                names.push(Name { y: end.1, end: *end, style, name });
            }
        }
        spread(&mut names);
        for Name { y, end, style, name } in names {
            let class = format!("name {style}");
            let at = right + LEADER;
            content +=
                &svg::line(style, [units(end.0 + 6.0), units(at - 4.0)], [units(end.1), units(y)]);
            content += &svg::label(&class, at, units(y + TEXT_MIDDLE), "", name);
        }
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max();
        let width = right + LEADER + LETTER * longest.unwrap_or(0).max(NAME_LEAST) as f64;
        svg::figure(
            "curves",
            &format!(r#"viewBox="0 0 {width} 320""#),
            &self.title,
            "The figures are in the table beside.",
            &content,
        )
    }
}

/// Letters of the longest label.
fn letters(ticks: &[(f64, String)]) -> f64 {
    ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0) as f64
}

/// The ticks whose labels below do not run into each other, the last first.
pub fn apart_from_each_other(
    ticks: &[(f64, String)],
    x: impl Fn(f64) -> f64,
) -> Vec<&(f64, String)> {
    let apart = LABELS_APART.max(LETTER * letters(ticks) + 4.0);
    let mut kept: Vec<&(f64, String)> = Vec::new();
    for tick in ticks.iter().rev() {
        if kept.last().is_none_or(|last| x(last.0) - x(tick.0) >= apart) {
            kept.push(tick);
        }
    }
    kept
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

    #[test]
    fn scales_end_where_they_should() {
        for scale in [Scale::linear(2.0, 32.0), Scale::logarithmic(2.0, 32.0)] {
            assert_eq!([2.0, 32.0, 99.0].map(|value| scale.share(value)), [0.0, 1.0, 1.0]);
        }
        assert_eq!(Scale::linear(2.0, 32.0).share(17.0), 0.5);
        assert_eq!(Scale::logarithmic(2.0, 32.0).share(8.0), 0.5);
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
