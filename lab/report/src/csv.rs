//! Results as CSV: every row, every field.

use widelane_results::Results;

/// The rows of `results` as CSV after RFC 4180, with a header; absent fields are empty.
pub fn csv(results: &Results) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in &results.rows {
        writer.serialize(row).expect("a row is flat, and memory takes every write");
    }
    let bytes = writer.into_inner().expect("memory takes every write");
    String::from_utf8(bytes).expect("strings and numbers are UTF-8")
}
