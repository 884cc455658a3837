//! The few SVG elements that the figures are made of. Coordinates are numbers, or per cent of the
//! figure's width, which keeps dots round whatever the width.

use std::fmt::Display;

/// A coordinate in per cent of the figure's width.
pub fn percent(share: f64) -> String {
    format!("{share:.2}%")
}

/// A coordinate in the units of the figure.
pub fn units(value: f64) -> String {
    format!("{value:.1}")
}

/// A figure that names itself for readers who do not see it, and describes itself if there is more
/// to say. `size` is a `viewBox` or a width and a height.
pub fn figure(class: &str, size: &str, title: &str, description: &str, content: &str) -> String {
    let title = escape(title);
    let description = match description {
        "" => String::new(),
        text => format!("<desc>{}</desc>", escape(text)),
    };
    let names = format!("<title>{title}</title>{description}");
    format!(r#"<svg class="{class}" role="img" {size}>{names}{content}</svg>"#)
}

/// A straight line.
pub fn line(class: &str, x: [impl Display; 2], y: [impl Display; 2]) -> String {
    let ([x1, x2], [y1, y2]) = (x, y);
    format!(r#"<line class="{class}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>"#)
}

/// Lines from corner to corner.
pub fn polyline(class: &str, corners: impl Iterator<Item = (f64, f64)>) -> String {
    let corners: Vec<String> = corners.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    format!(r#"<polyline class="{class}" points="{}"/>"#, corners.join(" "))
}

/// A rectangle by its upper left corner, width and height.
pub fn rect(class: &str, [x, y, width, height]: [impl Display; 4]) -> String {
    format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#)
}

/// A dot.
pub fn dot(class: &str, x: impl Display, y: impl Display) -> String {
    format!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="4.5"/>"#)
}

/// Text; `strong` comes first and is set off.
pub fn label(class: &str, x: impl Display, y: impl Display, strong: &str, text: &str) -> String {
    let strong = match strong {
        "" => String::new(),
        strong => format!("<tspan>{}</tspan> ", escape(strong)),
    };
    format!(r#"<text class="{class}" x="{x}" y="{y}">{strong}{}</text>"#, escape(text))
}

/// `text` as XML character data.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let figure = figure("f", "", "a<b", "c&d", &label("l", 0, 0, "e>f", "g<h"));
        for expected in ["a&lt;b", "c&amp;d", "e&gt;f", "g&lt;h"] {
            assert!(figure.contains(expected), "{figure}");
        }
    }
}
