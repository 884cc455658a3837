//! Results as CSV: every row, every field.

use widelane_results::{Results, Row};

/// The rows of `results` as CSV after RFC 4180, with a header; absent fields are empty.
pub fn csv(results: &Results) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // The header comes with the first row; without any, it is that of an empty one.
    let blank = [Row::default()];
    let rows = if results.rows.is_empty() { &blank[..] } else { &results.rows };
    for row in rows {
        writer.serialize(row).expect("a row is flat, and memory takes every write");
    }
    let bytes = writer.into_inner().expect("memory takes every write");
    let mut text = String::from_utf8(bytes).expect("strings and numbers are UTF-8");
    if results.rows.is_empty() {
        let header = text.find('\n').map_or(text.len(), |end| end + 1);
        text.truncate(header);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_rows_have_a_header() {
        let one = csv(&Results { rows: vec![Row::default()], ..Results::default() });
        let none = csv(&Results::default());
        assert!(none.starts_with("scenario,") && none.lines().count() == 1, "{none}");
        assert_eq!(one.lines().next(), none.lines().next());
    }
}
