//! Small SVG figures. Colours come from the style sheet by class; every figure names itself for readers
//! that do not see it.

use std::fmt::Write;

use crate::view::{Fill, Ratio};
use crate::words;

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
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((1.0_f64, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let air = (high / low).powf(0.08).max(1.06);
        Scale { low: low / air, high: high * air }
    }

    /// Where `value` lies, in per cent.
    fn percent(&self, value: f64) -> f64 {
        100.0 * (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln()
    }

    /// Round values on the scale, 1 among them, the roundest first, far enough apart to be labelled.
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
    let [low, centre, high] = [ratio.low, ratio.centre, ratio.high].map(|v| scale.percent(v));
    let one = scale.percent(1.0);
    let title = escape(&format!(
        "{subject}: {} ({})",
        words::ratio(ratio.centre),
        words::interval(Some(ratio.low), Some(ratio.high))
    ));
    format!(
        r#"<svg class="mark {class}" role="img" width="100%" height="24"><title>{title}</title>{}<line class="one" x1="{one:.2}%" x2="{one:.2}%" y1="0" y2="24"/><line class="whisker" x1="{low:.2}%" x2="{high:.2}%" y1="12" y2="12"/><line class="whisker" x1="{low:.2}%" x2="{low:.2}%" y1="8" y2="16"/><line class="whisker" x1="{high:.2}%" x2="{high:.2}%" y1="8" y2="16"/><circle cx="{centre:.2}%" cy="12" r="4.5"/></svg>"#,
        grid(scale, 24)
    )
}

/// The labels of the scale.
pub fn forest_axis(scale: &Scale) -> String {
    let mut axis = String::from(
        r#"<svg class="axis" role="img" width="100%" height="22"><title>Scale of the ratios, logarithmic</title>"#,
    );
    for tick in scale.ticks() {
        let x = scale.percent(tick);
        write!(axis, r#"<text x="{x:.2}%" y="15">{tick}×</text>"#).expect("memory");
    }
    axis + "</svg>"
}

fn grid(scale: &Scale, height: u32) -> String {
    let lines = scale.ticks().into_iter().filter(|tick| *tick != 1.0).map(|tick| {
        let x = scale.percent(tick);
        format!(r#"<line class="grid" x1="{x:.2}%" x2="{x:.2}%" y1="0" y2="{height}"/>"#)
    });
    lines.collect()
}

/// Latency over connections, both axes by ratio: `points` are connections, as installed, accelerated.
pub fn latency_panel(title: &str, points: &[(u32, f64, f64)]) -> String {
    const LEFT: f64 = 58.0;
    const RIGHT: f64 = 298.0;
    const TOP: f64 = 14.0;
    const BOTTOM: f64 = 196.0;
    const LABELS_APART: f64 = 16.0;
    let values = points.iter().flat_map(|(_, native, accelerated)| [*native, *accelerated]);
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return String::new();
    }
    let (low, high) = (low / 1.25, high * 1.25);
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value.max(low) / low).ln() / (high / low).ln();
    let step = (RIGHT - LEFT - 24.0) / (points.len().max(2) - 1) as f64;
    let x = |index: usize| LEFT + 12.0 + step * index as f64;
    let described: Vec<String> = points
        .iter()
        .map(|(connections, native, accelerated)| {
            let [native, accelerated] = [native, accelerated].map(|v| words::quantity(*v, "us"));
            let connections = words::connections(*connections);
            format!("{connections}: {native} as installed, {accelerated} accelerated")
        })
        .collect();
    let mut svg = format!(
        r#"<svg class="lines" role="img" viewBox="0 0 440 232"><title>{}</title><desc>{}</desc>"#,
        escape(title),
        escape(&described.join("; "))
    );
    for tick in decades(low, high) {
        let y = y(tick);
        let label = words::tick_us(tick);
        write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/><text class="end" x="{}" y="{:.1}">{label}</text>"#,
            LEFT - 8.0,
            y + 4.0
        )
        .expect("memory");
    }
    for (index, (connections, ..)) in points.iter().enumerate() {
        write!(
            svg,
            r#"<text class="middle" x="{:.1}" y="{}">{connections}</text>"#,
            x(index),
            BOTTOM + 18.0
        )
        .expect("memory");
    }
    write!(
        svg,
        r#"<text class="middle" x="{:.1}" y="{}">connections</text>"#,
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 34.0
    )
    .expect("memory");
    let mut labels: Vec<(f64, &str, &str, f64)> = Vec::new();
    for (class, name, pick) in [
        ("native", "as installed", (|p: &(u32, f64, f64)| p.1) as fn(&(u32, f64, f64)) -> f64),
        ("accelerated", "accelerated", |p| p.2),
    ] {
        let corners: Vec<String> = points
            .iter()
            .enumerate()
            .map(|(index, point)| format!("{:.1},{:.1}", x(index), y(pick(point))))
            .collect();
        write!(svg, r#"<polyline class="{class}" points="{}"/>"#, corners.join(" "))
            .expect("memory");
        for (index, point) in points.iter().enumerate() {
            let (x, y) = (x(index), y(pick(point)));
            // Two shapes, so that colour is not the only difference.
            let mark = if class == "native" {
                format!(
                    r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="7" height="7"/>"#,
                    x - 3.5,
                    y - 3.5
                )
            } else {
                format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="4"/>"#)
            };
            svg.push_str(&mark);
        }
        if let Some(last) = points.last() {
            labels.push((y(pick(last)), class, name, pick(last)));
        }
    }
    if let [first, second] = labels.as_mut_slice() {
        let apart = second.0 - first.0;
        if apart.abs() < LABELS_APART {
            let push = (LABELS_APART - apart.abs()) / 2.0;
            let push = if apart < 0.0 { -push } else { push };
            first.0 -= push;
            second.0 += push;
        }
    }
    for (y, class, name, value) in labels {
        write!(
            svg,
            r#"<text class="name {class}" x="{}" y="{:.1}"><tspan>{}</tspan> {name}</text>"#,
            RIGHT + 2.0,
            y + 4.0,
            words::quantity(value, "us")
        )
        .expect("memory");
    }
    svg + "</svg>"
}

/// 1, 10, 100 … within the range, with 2 and 5 between them where only one of those is.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        let first = low.log10().floor() as i32;
        let last = high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let powers = within(&[1.0]);
    if powers.len() >= 2 { powers } else { within(&[1.0, 2.0, 5.0]) }
}

/// Share of the batches by number of jobs, the full ones set apart.
pub fn fill_columns(fill: &Fill) -> String {
    const HEIGHT: f64 = 112.0;
    const TOP: f64 = 18.0;
    const WIDTH: f64 = 320.0;
    let pitch = WIDTH / fill.shares.len().max(1) as f64;
    let described: Vec<String> = fill
        .shares
        .iter()
        .map(|(jobs, share)| format!("{jobs} jobs: {}", words::percent(*share)))
        .collect();
    let mut svg = format!(
        r#"<svg class="columns" role="img" viewBox="0 0 320 168"><title>{}</title><desc>{}</desc>"#,
        escape(&format!("Jobs in a batch: {}", fill.family)),
        escape(&described.join("; "))
    );
    for (index, (jobs, share)) in fill.shares.iter().enumerate() {
        let height = (HEIGHT * share).max(1.0);
        let left = pitch * index as f64;
        let middle = left + pitch / 2.0;
        let class = if index + 1 == fill.shares.len() { "accelerated" } else { "native" };
        write!(
            svg,
            r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{:.1}" height="{height:.1}"/><text class="middle" x="{middle:.1}" y="{}">{jobs}</text>"#,
            left + pitch * 0.12,
            TOP + HEIGHT - height,
            pitch * 0.76,
            TOP + HEIGHT + 16.0
        )
        .expect("memory");
        if *share >= 0.005 && fill.shares.len() <= 8 {
            write!(
                svg,
                r#"<text class="middle value" x="{middle:.1}" y="{:.1}">{}</text>"#,
                TOP + HEIGHT - height - 5.0,
                words::percent(*share)
            )
            .expect("memory");
        }
    }
    write!(
        svg,
        r#"<line class="base" x1="0" x2="{WIDTH}" y1="{0}" y2="{0}"/><text class="middle" x="{1}" y="{2}">jobs in a batch</text></svg>"#,
        TOP + HEIGHT,
        WIDTH / 2.0,
        TOP + HEIGHT + 33.0
    )
    .expect("memory");
    svg
}

/// A horizontal bar, `share` of its cell long.
pub fn bar(share: f64, class: &str, title: &str) -> String {
    format!(
        r#"<svg class="bar" role="img" width="100%" height="14"><title>{}</title><rect class="{class}" width="{:.2}%" height="14"/></svg>"#,
        escape(title),
        100.0 * share
    )
}

/// `text` as XML character data.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
    fn ticks_of_a_latency_are_round() {
        assert_eq!(decades(700.0, 250_000.0), [1_000.0, 10_000.0, 100_000.0]);
        assert_eq!(decades(700.0, 6_000.0), [1_000.0, 2_000.0, 5_000.0]);
    }

    #[test]
    fn titles_are_escaped() {
        assert!(bar(0.5, "native", "a<b & c").contains("<title>a&lt;b &amp; c</title>"));
    }
}
