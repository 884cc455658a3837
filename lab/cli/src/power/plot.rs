//! Plots for a terminal: a line over time.

use std::fmt::Write;

/// Columns of a plot.
const COLUMNS: usize = 72;
/// Lines of a plot.
const LINES: usize = 10;

/// Points `(µs, value)` as a plot with labelled axes; time runs evenly by point, not by
/// microsecond.
pub fn line(points: &[(f64, f64)]) -> String {
    let Some(((_, first), (last_us, _))) = points.first().zip(points.last()) else {
        return String::new();
    };
    let (low, high) = points
        .iter()
        .fold((*first, *first), |(low, high), (_, value)| (low.min(*value), high.max(*value)));
    // What differs by less than a per cent is a straight line.
    let (low, high) = (low.min(0.99), high.max(1.01));
    let columns = COLUMNS.min(points.len());
    let mut grid = vec![[' '; LINES]; columns];
    for (column, cells) in grid.iter_mut().enumerate() {
        let from = column * points.len() / columns;
        let to = ((column + 1) * points.len() / columns).max(from + 1);
        for (_, value) in &points[from..to] {
            let height = ((value - low) / (high - low) * (LINES - 1) as f64).round() as usize;
            cells[LINES - 1 - height.min(LINES - 1)] = '•';
        }
    }
    let mut text = String::new();
    for index in 0..LINES {
        let value = high - (high - low) * index as f64 / (LINES - 1) as f64;
        let row: String = grid.iter().map(|cells| cells[index]).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{value:5.3} │{}", row.trim_end());
    }
    let middle_us = points[points.len() / 2].0;
    let (left, right) = (columns / 2, columns - columns / 2);
    let _ = writeln!(text, "      └{}", "─".repeat(columns));
    let middle = format!("{middle_us:.0}");
    let last = format!("{last_us:.0} µs");
    let _ = write!(text, "      0{middle:>left$}{last:>right$}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_goes_down_from_left_to_right() {
        let points: Vec<(f64, f64)> =
            (0..200).map(|i| (f64::from(i) * 2.0, if i < 100 { 1.0 } else { 0.8 })).collect();
        let text = line(&points);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), LINES + 2);
        assert!(rows[0].starts_with("1.010") && rows[LINES - 1].starts_with("0.800"), "{text}");
        let dots = |row: &str| row.chars().filter(|char| *char == '•').count();
        assert_eq!(dots(rows[LINES - 1]), 36, "{text}");
        assert!(rows[LINES + 1].contains("398 µs"), "{text}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(line(&[]), "");
    }
}
