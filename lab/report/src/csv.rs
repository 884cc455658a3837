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

/// The rows of several files in one table, with the name of its file in front of each row.
pub fn csv_of_files(files: &[(String, Results)]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (index, (name, results)) in files.iter().enumerate() {
        let text = csv(results);
        let mut lines = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        for (line, record) in lines.records().enumerate() {
            let record = record.expect("we have written it");
            let first = if line == 0 { "file" } else { name.as_str() };
            // One header is enough.
            if (index, line) == (0, 0) || line > 0 {
                let fields = [first].into_iter().chain(&record);
                writer.write_record(fields).expect("rows are as long as their header");
            }
        }
    }
    let bytes = writer.into_inner().expect("memory takes every write");
    String::from_utf8(bytes).expect("names and fields are UTF-8")
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

    #[test]
    fn rows_of_several_files_name_their_file() {
        let of = |name: &str, scenarios: &[&str]| {
            let row = |scenario: &&str| Row {
                scenario: (*scenario).to_owned(),
                reason: Some("a, b".to_owned()),
                ..Row::default()
            };
            let rows = scenarios.iter().map(row).collect();
            (name.to_owned(), Results { rows, ..Results::default() })
        };
        let text = csv_of_files(&[of("a.json", &["x", "y"]), of("b,c.json", &["x"])]);
        let begins: Vec<&str> = text.lines().map(|line| &line[..10]).collect();
        assert_eq!(begins, ["file,scena", "a.json,x,,", "a.json,y,,", "\"b,c.json\""]);
        assert_eq!(text.matches("\"a, b\"").count(), 3, "{text}");
    }
}
