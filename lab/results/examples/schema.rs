//! Prints the JSON Schema of results files, for `docs/formats/results-schema.json`.
#![allow(clippy::print_stdout, reason = "an example that prints a document")]

fn main() {
    print!("{}", widelane_results::json_schema());
}
